"""What `weightwright theorems` does: runs theorems one after the other, says which, draws and words the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Group

from weightwright.constructions.pictures import Picture, pictures
from weightwright.constructions.rates import Study
from weightwright.constructions.show import Shown, show
from weightwright.constructions.theorem import Theorem
from weightwright.export.figures import check_plottable
from weightwright.report import tables
from weightwright.report.theorem_page import write_page
from weightwright.report.theorem_plots import plot_theorem
from weightwright.report.theorems import theorem_facts, theorem_summary, theorem_table, total

__all__ = ["run", "to_json", "told", "total", "write"]

Progress = Callable[[str], None]


def run(
    theorems: Sequence[Theorem], plot: Path | None, rates: bool, progress: Progress
) -> tuple[list[Shown], tuple[Study, ...] | None]:
    """Build and measure each; with rates the studies of the last one. A theorem that fails is not drawn."""
    if plot is not None:
        check_plottable(plot)
    results = []
    for number, theorem in enumerate(theorems, 1):
        progress(f"{theorem.id}: building and measuring ({number} of {len(theorems)})")
        results.append(show(theorem))
    last = results[-1]
    studies: tuple[Study, ...] | None = None
    drawn: tuple[Picture, ...] = ()
    if last.instance is not None:
        drawn = pictures(last.instance) if plot is not None else ()
        if rates or (plot is not None and not drawn):  # what is no network is explained by its study
            progress(f"{last.theorem.id}: studies")
            studies = last.theorem.measured_studies()
            drawn = (*drawn, *studies) if last.instance.nets else studies
        if plot is not None:
            progress("drawing")
            plot_theorem(f"{last.theorem.id}   {last.theorem.title}", drawn, plot)
    return results, studies if rates else None


def write(path: Path, theorems: Sequence[Theorem], progress: Progress) -> list[Shown]:
    """The page and its figures."""
    check_plottable("figure.png")
    return write_page(path, theorems, progress)


def to_json(shown: Sequence[Shown], studies: Sequence[Study] | None) -> str:
    return tables.to_json([theorem_facts(one, studies) for one in shown])


def told(shown: Sequence[Shown], studies: Sequence[Study] | None, one: bool) -> Group:
    return theorem_table(shown[0], studies or ()) if one else theorem_summary(shown)
