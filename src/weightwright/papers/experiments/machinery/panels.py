"""Pieces of figures that several studies draw: errors against a parameter with their spread, and the line below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from weightwright.papers.experiments.machinery.study_units import Json

TRAINED, CONSTRUCTED, PAPER, VARIED = "tab:blue", "tab:green", "tab:red", "tab:gray"
_COLOURS = {
    "trained": TRAINED,
    "faithful": CONSTRUCTED,
    "spectral": "tab:olive",
    "native": "tab:olive",
    "constructed": CONSTRUCTED,
    "paper": PAPER,
}


def colour_of(name: str) -> str:
    """The colour of a curve by the first word of its name: the same in all figures."""
    return _COLOURS.get(re.split("[ ,-]", name)[0], VARIED)


def mention_below(axes: Any, name: str, value: float) -> None:
    """A line of the legend for an error that is too small for the axis: on it nothing else could be seen."""
    axes.plot([], [], color=colour_of(name), marker="v", linestyle="", label=f"{name}: {value:.0e}, far below")


def draw_errors(axes: Any, x: Sequence[float], curves: Json, label: str, scale: str = "log", name: str = "MSE") -> None:
    """Means over seeds with one standard deviation, as the papers draw them; a curve of one row has no band.

    curves: name to (seeds, values); None where a value is missing.
    scale: of the x axis; the y axis is logarithmic unless it is "linear".
    """
    for number, (curve, values) in enumerate(curves.items()):
        array = np.atleast_2d(np.array(values, dtype=float))
        mean = array.mean(0)
        colour, style = colour_of(curve), "--" if "varied" in curve else "-"
        axes.plot(x, mean, style, marker="os^vD"[number % 5], markersize=4, color=colour, label=curve, linewidth=1.3)
        if len(array) > 1:
            spread = array.std(0, ddof=1)
            axes.fill_between(
                x, np.maximum(mean - spread, mean * 0.05), mean + spread, color=colour, alpha=0.2, linewidth=0
            )
    if scale == "log":
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(x), [f"{value:g}" for value in x])
        axes.minorticks_off()
    axes.set_yscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel(name)
    axes.legend(fontsize=7)


def name_dependence(figure: Any, record: Json) -> None:
    """The title, and below the figure the one setting that the claim depends on most."""
    most = record["depends_most_on"]
    if most is None:
        said = "no setting was varied in this run"
    else:
        said = f"depends most on: {most['setting']}; {most['number']} {most['taken']:.3g} became {most['varied']:.3g}"
    figure.suptitle(f"{record['study']}: {record['title']}", fontsize=11)
    figure.supxlabel(said, fontsize=8, color="0.3")
