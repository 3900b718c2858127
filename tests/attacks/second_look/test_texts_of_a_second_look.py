"""What a second look by fresh eyes found about texts: a file's own words inside what is PROVEN."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

import weightwright as ww
from weightwright.claims.certificate import Certificate
from weightwright.claims.files import read, write
from weightwright.compiler import attempts
from weightwright.compiler.loop import proven_rules
from weightwright.network import Network
from weightwright.numbers import Floats

SAVED = Path(__file__).parents[2] / "claims" / "saved"
LINES = (
    "the network computes sin(5*x)",
    "x does not lie between -0.5 and 0.5 (0.001% of the domain)",
    "\x1b[1A\x1b[2KPROVEN output sin(5*x) Box([-1.0], [1.0]) True",
)
KINDS = ("formula", "samples", "graph", "loop", "prompt", "grid", "side_by_side", "ridge_functions", "vector")


def saved(name: str) -> tuple[Network, Certificate]:
    network, said = read(SAVED / f"{name}.safetensors")
    assert said is not None
    return network, said


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("name", KINDS)
def test_no_line_of_a_files_own_stands_among_the_assumptions(name: str, line: str, tmp_path: Path) -> None:
    network, said = saved(name)
    write(tmp_path / "net.safetensors", network, dataclasses.replace(said, assumptions=(*said.assumptions, line)))
    with pytest.raises(ww.CertificateError, match="an assumption that no rule knows"):
        ww.check(tmp_path / "net.safetensors")


@pytest.mark.parametrize("blank", ["\n", "\r", "\x0b", "\x85", "\u2028", "\xa0", "\t", 100 * " "])
def test_white_space_hides_no_part_of_a_formula(blank: str, tmp_path: Path) -> None:
    network, said = saved("formula")
    write(tmp_path / "net.safetensors", network, dataclasses.replace(said, formula=f"x{blank}+ 0*sin(5*x)"))
    with pytest.raises(ww.CertificateError, match="hide what it says"):
        ww.check(tmp_path / "net.safetensors")


@pytest.mark.parametrize("digit", ["\u09ea", "\uff14", "\u0664", "\U0001d7d2"])
def test_digits_of_other_scripts_are_not_numbers(digit: str, tmp_path: Path) -> None:
    """A Bengali 4 looks like an 8."""
    with pytest.raises(ww.FormulaError):
        ww.approximate(f"sin({digit}*x)", (-1, 1), 1e-3)
    network, said = saved("formula")
    write(tmp_path / "net.safetensors", network, dataclasses.replace(said, formula=f"x + 0*{digit}"))
    with pytest.raises(ww.CertificateError, match="hide what it says"):
        ww.check(tmp_path / "net.safetensors")


@pytest.mark.parametrize("profile", ["= sin(5*x), proven everywhere", "\n\x1b[2J\x1b[HPROVEN output sin(5*x)"])
def test_profiles_that_nobody_computes_are_formulas(profile: str, tmp_path: Path) -> None:
    network, said = saved("ridge_functions")
    target = said.claim.target  # type: ignore[union-attr]
    wider = dataclasses.replace(
        target, profiles=(*target.profiles, profile),
        arguments=_with_zero_column(_with_zero_row(target.arguments)),
        shifts=_longer(target.shifts), outputs=_with_zero_column(target.outputs),
    )  # fmt: skip
    claim = dataclasses.replace(said.claim, target=wider)  # type: ignore[type-var]
    forged = dataclasses.replace(said, claim=claim, formula=claim.in_words())
    write(tmp_path / "net.safetensors", network, forged)
    with pytest.raises(ww.CertificateError, match="a profile"):
        ww.check(tmp_path / "net.safetensors")


def test_two_ridges_are_told_apart() -> None:
    claim = saved("ridge_functions")[1].claim
    other = dataclasses.replace(claim.target, constants=claim.target.constants + 1)  # type: ignore[union-attr]
    assert claim.in_words() != dataclasses.replace(claim, target=other).in_words()  # type: ignore[arg-type,type-var]


def test_a_loop_has_no_dead_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could keep the states of later passes out of them. The compiler refuses such rules; a file need not."""

    @ww.incontext.algorithm(steps=2)
    def rule(examples: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return 0.5 * w + 0.25 * torch.sign(w - 0.5)

    real = attempts.lower
    monkeypatch.setattr(attempts, "lower", lambda *args, **more: real(*args, **(more | {"dead_zone": 0.004})))
    monkeypatch.setattr(proven_rules, "without_jumps", lambda *args, **more: None)
    with pytest.raises(ww.ToleranceError, match="a loop has no dead zones"):
        rule.compile((-1, 1), (-1, 1), 2, tol=1e-3, progress=False)


def _longer(row: Floats) -> Floats:
    return np.append(row, 0.0)


def _with_zero_row(array: Floats) -> Floats:
    return np.concatenate([array, np.zeros((1, array.shape[1]))])


def _with_zero_column(array: Floats) -> Floats:
    return np.concatenate([array, np.zeros((len(array), 1))], axis=1)
