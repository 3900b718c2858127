"""A file's own words inside what is PROVEN: what a second look by fresh eyes found."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from support.forging import save_forged
from support.stored import saved

import weightwright as ww

PAPERS = Path(__file__).parents[1] / "claims" / "saved"
LINES = (
    "the network computes sin(5*x)",
    "x does not lie between -0.5 and 0.5 (0.001% of the domain)",
    "\x1b[1A\x1b[2KPROVEN output sin(5*x) Box([-1.0], [1.0]) True",
)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("name", ["grid", "side_by_side", "ridge_functions"])
def test_no_line_of_a_files_own_stands_among_the_assumptions(name: str, line: str, tmp_path: Path) -> None:
    network, said = saved(name, PAPERS)
    save_forged(network, dataclasses.replace(said, assumptions=(*said.assumptions, line)), tmp_path / "net.safetensors")
    with pytest.raises(ww.CertificateError, match="an assumption that no rule knows"):
        ww.check(tmp_path / "net.safetensors")


@pytest.mark.parametrize("profile", ["= sin(5*x), proven everywhere", "\n\x1b[2J\x1b[HPROVEN output sin(5*x)"])
def test_profiles_that_nobody_computes_are_formulas(profile: str, tmp_path: Path) -> None:
    network, said = saved("ridge_functions", PAPERS)
    target = said.claim.target  # type: ignore[union-attr]
    wider = dataclasses.replace(
        target, profiles=(*target.profiles, profile),
        arguments=_with_zero_column(_with_zero_row(target.arguments)),
        shifts=_longer(target.shifts), outputs=_with_zero_column(target.outputs),
    )  # fmt: skip
    claim = dataclasses.replace(said.claim, target=wider)  # type: ignore[type-var]
    forged = dataclasses.replace(said, claim=claim, formula=claim.in_words())
    save_forged(network, forged, tmp_path / "net.safetensors")
    with pytest.raises(ww.CertificateError, match="a profile"):
        ww.check(tmp_path / "net.safetensors")


def test_two_ridges_are_told_apart() -> None:
    claim = saved("ridge_functions", PAPERS)[1].claim
    other = dataclasses.replace(claim.target, constants=claim.target.constants + 1)  # type: ignore[union-attr]
    assert claim.in_words() != dataclasses.replace(claim, target=other).in_words()  # type: ignore[arg-type,type-var]


def _longer(row: np.ndarray) -> np.ndarray:
    return np.append(row, 0.0)


def _with_zero_row(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.zeros((1, array.shape[1]))])


def _with_zero_column(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.zeros((len(array), 1))], axis=1)
