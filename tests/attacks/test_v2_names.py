"""A name is not a formula: what a certificate says is computed is what the checker rebuilds from the graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.forging import save_forged

import weightwright as ww

LIE = "sin(5*x)"


def cube(x: torch.Tensor) -> torch.Tensor:
    return x**3 / 4


def compiled() -> ww.AttentionNetwork:
    return ww.compile(cube, (-1, 1), 1e-6, features=1, progress=False)


def sampled() -> ww.AttentionNetwork:
    return ww.approximate(
        lambda x: np.array([float(v) ** 3 / 4 for v in np.ravel(x)]).reshape(np.shape(x)), (-1, 1), 0.1,
        derivative_bound=(2, 2.0), progress=False,
    )  # fmt: skip


def renamed_graph(claim: Any) -> Any:
    return dataclasses.replace(claim, target=dataclasses.replace(claim.target, name=LIE))


def renamed_samples(claim: Any) -> Any:
    return dataclasses.replace(claim, leaf=dataclasses.replace(claim.leaf, formula=f"opaque {LIE}"))


@pytest.mark.parametrize(("make", "rename"), [(compiled, renamed_graph), (sampled, renamed_samples)])
def test_a_name_never_becomes_the_formula(
    make: Callable[[], ww.AttentionNetwork], rename: Callable[[Any], Any], tmp_path: Path
) -> None:
    net, path = make(), tmp_path / "theirs.safetensors"
    lying = dataclasses.replace(net.certificate, claim=rename(net.certificate.claim))
    save_forged(net.network, lying, path)
    said = ww.check(path)
    assert said.name == LIE
    assert said.formula == net.certificate.formula != LIE
    assert LIE not in said.formula
    save_forged(net.network, dataclasses.replace(lying, formula=LIE), path)
    with pytest.raises(ww.CertificateError, match="and the certificate says otherwise"):
        ww.check(path)


def test_the_formula_of_a_compiled_function_is_what_it_computes() -> None:
    said = compiled().certificate
    x = np.linspace(-1, 1, 21)
    assert said.name == "cube"
    assert np.abs(eval(said.formula, {"x": x}) - x**3 / 4).max() < 1e-12
