"""What is done once: a formula is parsed once, the leaf of a table is examined once in a call."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import weightwright as ww
from weightwright.approximation.table import forget_tables
from weightwright.checker.one_layer import layer
from weightwright.expressions import parser


def build_one_layer() -> Any:
    return ww.approximate("sin(5*x)", domain=(-1, 1), tol=1e-8)


def build_product() -> Any:
    domain = ww.Box([-1, -1], [1, 1])
    return ww.compile(lambda x: torch.sin(x[..., :1]) * x[..., 1:], domain, tol=1e-6)


def build_three_tables() -> Any:
    """Two functions, one of them of two arguments, and the squares of two products."""

    def function(x: torch.Tensor) -> torch.Tensor:
        a, b = x[..., :1], x[..., 1:]
        return torch.tanh(a) * b + torch.exp(b) * a + torch.tanh(b / 2)

    return ww.compile(function, ww.Box([-1, -1], [1, 1]), tol=1e-6)


def fit_ridge() -> Any:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    return ww.incontext.Ridge().fit(X, X @ np.array([1.0, -2.0, 0.5]))


@pytest.mark.few(3)
@pytest.mark.parametrize("build", [build_one_layer, build_product, build_three_tables, fit_ridge])
def test_a_formula_is_parsed_once(build: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: Counter[tuple[str, tuple[str, ...]]] = Counter()
    run = parser._Parser.run

    def counted(self: Any) -> Any:
        parsed[self.text, self.variables] += 1
        return run(self)

    monkeypatch.setattr(parser._Parser, "run", counted)
    parser._parse_once.cache_clear()
    forget_tables()
    build()
    assert len(parsed) >= 2
    assert set(parsed.values()) == {1}


@pytest.mark.parametrize(("build", "tables"), [(build_one_layer, 1), (build_product, 2), (build_three_tables, 3)])
def test_a_leaf_is_examined_once(build: Callable[[], Any], tables: int, monkeypatch: pytest.MonkeyPatch) -> None:
    examined: Counter[tuple[Any, ...]] = Counter()
    rule = layer.layer_holds

    def counted(stored: Any, claim: Any, *others: Any) -> None:
        examined[claim.formula, claim.lo, claim.hi, claim.boxes.tobytes(), claim.terms] += 1
        rule(stored, claim, *others)

    for name, home in list(sys.modules.items()):
        if name.startswith("weightwright.checker") and getattr(home, "layer_holds", None) is rule:
            monkeypatch.setattr(home, "layer_holds", counted)
    forget_tables()
    net = build()
    assert net.certificate.status == "PROVEN"
    assert sorted(examined.values()) == [1] * tables
