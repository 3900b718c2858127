"""What is printed at a prompt is one line of less than 120 characters, with words that agree with their numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import weightwright as ww
from weightwright import incontext

LONG = " + ".join(f"{i}.123456*sin({i}*x)" for i in range(1, 9))
X, Y = [[1.0, 2.0], [2.0, 1.0], [3.0, 5.0]], [1.0, 2.0, 3.0]
SHOWN: dict[str, Callable[[], Any]] = {
    "a long formula": lambda: ww.approximate(LONG, (-1, 1), 0.5),
    "conditional": lambda: ww.approximate(math.sin, (-1, 1), 0.1, derivative_bound=(2, 1)),
    "measured": lambda: ww.approximate(math.sin, (-1, 1), 0.1, proof="measured"),
    "compiled": lambda: ww.compile(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), (-1, 1), 0.1),
    "a search": lambda: ww.search(ww.compile(lambda x: x.flip(0), (-1, 1), 0.1, tokens=9, features=3), 0.0),
    "a box": lambda: ww.Box([[-0.123456789] * 8] * 3, [[0.123456789] * 8] * 3),
    "a problem": lambda: incontext.Problem(X, Y, incontext.loss("squared")),
    "descent": lambda: incontext.fitting(X, Y, steps=4),
    "a run": lambda: incontext.fitting(X, Y, steps=4).run(X, Y),
    "an optimum": lambda: incontext.fitting(X, Y, steps=4).run(X, Y).to_optimum,
    "a memory": lambda: ww.memory.Hopfield(2).store(torch.eye(2)),
}


@pytest.mark.few(6)
@pytest.mark.parametrize("name", SHOWN)
def test_one_line_of_less_than_120_characters(name: str) -> None:
    shown = SHOWN[name]()
    for text in (repr(shown), repr(getattr(shown, "certificate", "")), repr(getattr(shown, "about", ""))):
        assert len(text) < 120, text
        assert "\n" not in text


def test_one_of_a_kind_has_no_s() -> None:
    one, two = (ww.approximate(f, (-1, 1), 1e-3, dead_zone=0.1) for f in ("sign(x)", "sign(x) + sign(x - 0.5)"))
    assert ", dead zone -0.1 to 0.1, 10% of the domain, CONDITIONAL)" in repr(one)
    assert ", dead zone -0.1 to 0.1 and 1 more, 20% of the domain, CONDITIONAL)" in repr(two)
    assert repr(incontext.fitting([[1.0]], [1.0], steps=1)).startswith(
        "Descent(squared, 1 step of gradient descent, at most 1 sample"
    )


def test_a_short_box_can_be_pasted_back() -> None:
    box = ww.Box([-1, 0], [1, 2])
    assert eval(repr(box), {"Box": ww.Box}) == box


def test_what_was_just_proven_is_drawn_as_proven(tmp_path: Any) -> None:
    from support.command_line import printed

    args = ("approximate", "sin(x)", "--domain", "-1 1", "--tol", "1e-3")
    printed(*args, "--plot", tmp_path / "plot.svg", "--draw", tmp_path / "draw.svg")
    for name in ("plot.svg", "draw.svg"):
        text = (tmp_path / name).read_text()
        assert "PROVEN" in text
        assert "UNCHECKED" not in text
