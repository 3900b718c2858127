"""Pictures of Hopfield memories: how many patterns they hold, and what further updates do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weightwright.export.figures import check_plottable, write_figure

if TYPE_CHECKING:
    from weightwright.memory.capacity import Capacity, Updates

_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:cyan")


def plot_capacity(curves: Sequence[Capacity], title: str, path: str | os.PathLike[str]) -> None:
    """The share of queries retrieved against the number of patterns, and where it falls to a half against dim."""
    check_plottable(path)
    if not curves:
        raise ValueError("curves must have at least one capacity to draw, and is empty")
    write_figure(path, lambda: _capacity(curves, title))


def plot_updates(found: Updates, title: str, path: str | os.PathLike[str]) -> None:
    """The distance from the pattern after a number of steps against the distance at first, with the proven bounds."""
    check_plottable(path)
    write_figure(path, lambda: _updates(found, title))


def _capacity(curves: Sequence[Capacity], title: str) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.4), layout="constrained")
    figure.suptitle(title)
    left, right = figure.subplots(1, 2)
    for colour, curve in zip(_COLOURS, curves, strict=False):
        left.plot(curve.counts, curve.fractions, "o-", color=colour, ms=4, linewidth=1.2, label=f"dim {curve.dim}")
    left.axhline(0.5, color="0.6", linewidth=0.9, linestyle=":")
    left.set_xscale("log", base=2)
    left.set_xlabel("stored patterns N")
    left.set_ylabel("share of queries retrieved in one step")
    left.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(curves), frameon=False, columnspacing=1, fontsize=9)
    halves = [(curve.dim, curve.half) for curve in curves if curve.half is not None]
    if len(halves) > 1:
        dims, counts = (np.array(column, dtype=np.float64) for column in zip(*halves, strict=True))
        rate, start = np.polyfit(dims, np.log(counts), 1)
        right.plot(dims, counts, "o", color="tab:red", label="N at which a half is retrieved")
        fitted = f"exp({rate:.2f} dim {'+' if start >= 0 else '−'} {abs(start):.1f}), fitted"
        right.plot(dims, np.exp(rate * dims + start), "--", color="0.4", label=fitted)
        right.set_yscale("log", base=2)
        right.legend(frameon=False)
    right.set_xlabel("dim")
    right.set_ylabel("patterns")
    return figure


def _updates(found: Updates, title: str) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 5), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots()
    for colour, (steps, errors) in zip(_COLOURS, found.errors.items(), strict=False):
        name = f"{steps} step{'' if steps == 1 else 's'}"
        axes.plot(found.noise, errors, "o-", color=colour, ms=4, linewidth=1.2, label=f"{name}, largest found")
        axes.plot(found.noise, found.bounds[steps], "--", color=colour, linewidth=2, alpha=0.5, label=f"{name}, bound")
    axes.plot(
        found.noise, np.where(found.noise > 0, found.noise, np.nan), ":", color="0.4", label="where the query started"
    )
    axes.set_yscale("log")
    axes.set_xlabel("distance of the query / length of the pattern")
    axes.set_ylabel("distance after the steps / length of the pattern")
    axes.legend(frameon=False, fontsize=9)
    return figure
