"""Figures of studies as data: curves with their spread, bars, heat maps; and what draws them with matplotlib."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from weightwright.papers.experiments.machinery.study_units import Json

#: The colour of a curve or bar by the first word of its name: the same in all figures.
_COLOURS = {
    "trained": "tab:blue",
    "faithful": "tab:green",
    "spectral": "tab:olive",
    "native": "tab:olive",
    "constructed": "tab:green",
    "paper": "tab:red",
    "varied": "tab:gray",
}
_STYLES = ("-", "--", ":", "-.")
#: Width of a bar, and from one bar to the next, where the groups of bars are 1 apart.
_BAR, _STEP = 0.12, 0.13
#: An error of 0 has no place on a logarithmic axis: its bar ends here, below what float64 distinguishes from 1.
_LOWEST = 1e-16


class Panel(Protocol):
    """A part of a figure."""

    def draw(self, axes: Any) -> None:
        """Fill the axes of matplotlib."""


@dataclass(frozen=True)
class Picture:
    """The panels of a figure, row by row.

    size: in inches.
    share_y: whether all panels have one y axis.
    """

    rows: Sequence[Sequence[Panel]]
    size: tuple[float, float] = (11.0, 4.2)
    share_y: bool = False


@dataclass(frozen=True)
class Curves:
    """Numbers against x: means over seeds.

    label, name: of the two axes.
    x: the places.
    curves: name to (seeds, places), or (places,); None where a value is missing.
    levels: name to a number that does not depend on x.
    below: name to an error that is too small for the axis, where nothing else could be seen: it stands in the legend.
    scales: of the two axes; an x axis that is "log" has a tick at each place.
    markers: whether places are marked; a curve without is one of training, and the band around it has all seeds.
    """

    label: str
    x: Sequence[float]
    curves: Json
    levels: Mapping[str, float] = field(default_factory=dict)
    below: Mapping[str, float] = field(default_factory=dict)
    title: str = ""
    name: str = "MSE"
    scales: tuple[str, str] = ("log", "log")
    markers: bool = True

    def draw(self, axes: Any) -> None:
        """Fill the axes of matplotlib."""
        colours: list[str] = []

        def style_of(name: str) -> Json:
            """A line style for each further line of a colour."""
            colours.append(_COLOURS[re.split("[ ,-]", name)[0]])
            return {"color": colours[-1], "linestyle": _STYLES[colours.count(colours[-1]) - 1], "label": name}

        for number, (curve, values) in enumerate(self.curves.items()):
            array = np.atleast_2d(np.array(values, dtype=float))
            mean = array.mean(0)
            marked = {"marker": "os^vD"[number % 5], "markersize": 4, "linewidth": 1.3} if self.markers else {}
            axes.plot(self.x, mean, **style_of(curve), **marked)
            if len(array) > 1:
                axes.fill_between(self.x, *self._band(array), color=colours[-1], alpha=0.2, linewidth=0)
        for level, value in self.levels.items():
            axes.axhline(value, **style_of(level))
        for level, value in self.below.items():
            said = style_of(level) | {"label": f"{level}: {value:.0e}, far below", "linestyle": ""}
            axes.plot([], [], marker="v", **said)
        if self.scales[0] == "log":
            axes.set_xscale("log", base=2)
            axes.set_xticks(list(self.x), [f"{value:g}" for value in self.x])
            axes.minorticks_off()
        axes.set_yscale(self.scales[1])
        axes.set_xlabel(self.label)
        axes.set_ylabel(self.name)
        axes.set_title(self.title, fontsize=9)
        axes.legend(fontsize=7)

    def _band(self, array: Any) -> tuple[Any, Any]:
        """One standard deviation, as the papers draw it; of curves of training, without markers, all seeds."""
        if not self.markers:
            return array.min(0), array.max(0)
        mean, spread = array.mean(0), array.std(0, ddof=1)
        return np.maximum(mean - spread, mean * 0.05), mean + spread


@dataclass(frozen=True)
class Bars:
    """Groups of bars, one for each name in a group.

    groups: what stands below the groups.
    bars: the name of a bar, its colour, and its numbers by group; a number may be missing.
    log: whether the axis is logarithmic.
    """

    groups: Sequence[str]
    bars: Sequence[tuple[str, str, Mapping[str, float | None]]]
    name: str
    log: bool = False

    def draw(self, axes: Any) -> None:
        """Fill the axes of matplotlib."""
        for number, (name, colour, values) in enumerate(self.bars):
            shown = {
                place: value for place, group in enumerate(self.groups) if (value := values.get(group)) is not None
            }
            places = np.array(list(shown)) + _STEP * (number - (len(self.bars) - 1) / 2)
            axes.bar(places, [max(value, 1e-16) for value in shown.values()], _BAR, label=name, color=colour)
        axes.set_xticks(range(len(self.groups)), self.groups)
        axes.set_ylabel(self.name)
        if self.log:
            axes.set_yscale("log")
        axes.set_ylim(top=axes.get_ylim()[1] * (1e3 if self.log else 1.35))  # room for the legend above the bars
        axes.legend(fontsize=7, ncols=3, loc="upper center")


@dataclass(frozen=True)
class HeatMap:
    """Attention weights from 0 to 1, (keys, queries)."""

    title: str
    weights: Sequence[Sequence[float]]
    name: str = ""

    def draw(self, axes: Any) -> None:
        """Fill the axes of matplotlib."""
        axes.imshow(np.array(self.weights), vmin=0, vmax=1, cmap="viridis", aspect="auto", interpolation="nearest")
        axes.grid(False)
        axes.set_title(self.title, fontsize=8)
        axes.tick_params(labelsize=6)
        axes.set_ylabel(self.name, fontsize=7)


def draw_picture(picture: Picture, record: Json) -> Any:
    """A matplotlib figure: title and panels, and below them the verdicts."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=picture.size, layout="constrained")
    size = len(picture.rows), len(picture.rows[0])
    for panels, row in zip(picture.rows, figure.subplots(*size, sharey=picture.share_y, squeeze=False), strict=True):
        for panel, axes in zip(panels, row, strict=True):
            panel.draw(axes)
    said = "; ".join(f"{one['claim']}: {one['reproduced']}" for one in record["verdicts"])
    figure.suptitle(f"{record['study']}: {record['title']}", fontsize=11)
    figure.supxlabel("\n".join(textwrap.wrap(said, 150)), fontsize=8, color="0.3")
    return figure
