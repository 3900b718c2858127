"""What a file of formulas may cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.bombs import stopped
from support.forging import with_composite
from support.stored import saved

PAPERS = Path(__file__).parents[1] / "claims" / "saved"


def test_kinks_in_kinks_are_stopped(tmp_path: Path) -> None:
    """Every |...| may have twice the kinks of what is in it."""
    network, said = saved("formulas", PAPERS)
    formula = "x0"
    for k in range(45):
        formula = f"abs({formula} - {3.0**-k:.17f})"
    claim = said.claim.formulas  # type: ignore[union-attr]
    formulas = replace(claim, rule="exact", formulas=(formula,) * len(claim.formulas))
    stopped(network, with_composite(said, formulas=formulas), tmp_path)
