"""What a second look by fresh eyes found about texts: a file's own words inside what is PROVEN."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from support.forging import save_forged
from support.stored import saved

import weightwright as ww
from weightwright.compiler import attempts
from weightwright.compiler.loop import proven_rules

LINES = (
    "the network computes sin(5*x)",
    "x does not lie between -0.5 and 0.5 (0.001% of the domain)",
    "\x1b[1A\x1b[2KPROVEN output sin(5*x) Box([-1.0], [1.0]) True",
)
KINDS = ("formula", "samples", "graph", "loop", "prompt", "vector")


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("name", KINDS)
def test_no_line_of_a_files_own_stands_among_the_assumptions(name: str, line: str, tmp_path: Path) -> None:
    network, said = saved(name)
    save_forged(network, dataclasses.replace(said, assumptions=(*said.assumptions, line)), tmp_path / "net.safetensors")
    with pytest.raises(ww.CertificateError, match="an assumption that no rule knows"):
        ww.check(tmp_path / "net.safetensors")


@pytest.mark.parametrize("blank", ["\n", "\r", "\x0b", "\x85", "\u2028", "\xa0", "\t", 100 * " "])
def test_white_space_hides_no_part_of_a_formula(blank: str, tmp_path: Path) -> None:
    network, said = saved("formula")
    save_forged(network, dataclasses.replace(said, formula=f"x{blank}+ 0*sin(5*x)"), tmp_path / "net.safetensors")
    with pytest.raises(ww.CertificateError, match="hide what it says"):
        ww.check(tmp_path / "net.safetensors")


@pytest.mark.parametrize("digit", ["\u09ea", "\uff14", "\u0664", "\U0001d7d2"])
def test_digits_of_other_scripts_are_not_numbers(digit: str, tmp_path: Path) -> None:
    """A Bengali 4 looks like an 8."""
    with pytest.raises(ww.FormulaError):
        ww.approximate(f"sin({digit}*x)", (-1, 1), 1e-3)
    network, said = saved("formula")
    save_forged(network, dataclasses.replace(said, formula=f"x + 0*{digit}"), tmp_path / "net.safetensors")
    with pytest.raises(ww.CertificateError, match="hide what it says"):
        ww.check(tmp_path / "net.safetensors")


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
