"""The figures of a theorem, from plain arrays: curves with anchors and error, attention, planes, rates."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weightwright.claims.certificate import round_up
from weightwright.export.figures import check_plottable, write_figure
from weightwright.numbers import Floats
from weightwright.papers.kit.instance import Matrices
from weightwright.papers.kit.rates import Series, Study
from weightwright.papers.pages.pictures import Curve, HeatMap, Picture, Plane

Drawing = Callable[[Any], None]  # draws a picture of its own kind in a part of a figure

_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:cyan")
#: Hollow and of several sizes: series that lie on each other are all seen.
_MARKERS = tuple(
    {"marker": marker, "ms": size, "mfc": "none"} for marker, size in zip("os^Dvx", (9, 6, 4, 8, 5, 4), strict=True)
)
#: The first lines are thick, so that those which lie on them do not hide them.
_WIDTHS = (2.6, 1.2, 0.9, 0.7, 0.7, 0.7)
_TICKS = 8  # values of a parameter that are all written on the axis
_TITLE = 62  # characters of a title's line that fit over one panel
_LONG = 32  # characters of a label, more than which two do not fit beside each other
_WIDTH = 11.0  # inches, of a figure with two columns; half for one


def plot_theorem(title: str, pictures: Sequence[Picture | Drawing], path: str | os.PathLike[str]) -> None:
    """All pictures in one figure, two in a row. Written whole or not at all."""
    check_plottable(path)
    if not pictures:
        raise ValueError("there is nothing to draw")
    write_figure(path, lambda: figure_of(title, pictures))


def figure_of(title: str, pictures: Sequence[Picture | Drawing]) -> Any:
    """A matplotlib figure with one panel for each picture."""
    from matplotlib.figure import Figure

    columns = min(2, len(pictures))
    rows = -(-len(pictures) // columns)
    figure = Figure(figsize=(_WIDTH if columns == 2 else 7.5, 0.6 + 5.0 * rows), layout="constrained")
    figure.suptitle(title, parse_math=False, wrap=True)
    draw: dict[type, Callable[[Any, Any], None]] = {
        Curve: _curve,
        HeatMap: _heat_map,
        Plane: _plane,
        Matrices: _matrices,
        Study: draw_study,
    }
    for row, strip in enumerate(np.atleast_1d(np.asarray(figure.subfigures(rows, 1), dtype=object))):
        shown = pictures[columns * row : columns * row + columns]  # the last may have the row for itself
        for part, picture in zip(np.atleast_1d(strip.subfigures(1, len(shown), wspace=0.04)), shown, strict=True):
            if callable(picture):
                picture(part)
            else:
                draw[type(picture)](part, picture)
    return figure


def _curve(part: Any, curve: Curve) -> None:
    """Target, outputs and anchors above, errors and their bounds below."""
    top, bottom = part.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for index, target in enumerate(curve.targets):
        label = ("target" if len(curve.targets) == 1 else "targets") if index == 0 else None
        top.plot(curve.x, target, color="0.78", linewidth=5, solid_capstyle="butt", label=label)
    for colour, width, (name, y) in zip(_COLOURS, _WIDTHS, curve.outputs.items(), strict=False):
        top.plot(curve.x, y, color=colour, linewidth=width if len(curve.outputs) > 1 else 1.3, label=name)
    if len(curve.anchors):
        ticks, count = top.get_xaxis_transform(), len(curve.anchors)
        width = min(1.5, 400 / count)
        label = f"{count:,} anchors"
        top.plot(
            curve.anchors, np.full(count, 0.02), "|", color="tab:red", ms=9, mew=width, transform=ticks, label=label
        )
    for name, x in curve.marks.items():
        for axes in (top, bottom):
            axes.axvline(x, color="0.55", linewidth=0.9, linestyle=":")
        top.annotate(name, (x, 1), xycoords=("data", "axes fraction"), xytext=(2, -10), textcoords="offset points")
    top.margins(y=0.12)
    top.set_ylabel("output")
    top.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=5, frameon=False, columnspacing=1, fontsize=9)
    _errors(bottom, curve)
    bottom.set_xlabel(curve.label)
    part.legend(*bottom.get_legend_handles_labels(), loc="outside lower center", frameon=False)


def _errors(axes: Any, curve: Curve) -> None:
    lowest, highest = [], []
    for colour, width, (name, errors) in zip(_COLOURS, _WIDTHS, curve.errors.items(), strict=False):
        positive = errors[np.isfinite(errors) & (errors > 0)]
        largest = float(positive.max(initial=0.0))
        axes.plot(curve.x, np.where(errors > 0, errors, np.nan), color=colour, linewidth=0.7)
        bound = curve.bounds.get(name)
        if bound is not None and np.isfinite(bound):
            label = f"{name}: proven bound {round_up(bound)}, largest drawn {largest:.2g}"
            axes.axhline(bound, color=colour, linewidth=width + 0.6, linestyle="--", label=label)
            highest.append(bound)
        else:
            axes.plot([], [], color=colour, label=f"{name}: largest drawn {largest:.2g}")
        if len(positive):
            lowest.append(max(float(np.quantile(positive, 0.05)), 1e-3 * largest))  # dips to zero have no bottom
            highest.append(largest)
    axes.set_yscale("log")
    if lowest:
        axes.set_ylim(max(min(lowest), 1e-18) / 3, 4 * max(highest))
    axes.set_ylabel("|network − target|")


def _heat_map(part: Any, heat: HeatMap) -> None:
    """Queries up, keys across; a line where keys of another kind begin."""
    queries, keys = heat.weights.shape
    low, high = heat.extent or (-0.5, queries - 0.5)
    axes = _image(part, heat.weights, (-0.5, keys - 0.5, low, high), "attention weight", cmap="Blues", vmin=0, vmax=1)
    for name, start in heat.breaks.items():
        axes.axvline(start - 0.5, color="tab:red", linewidth=1)
        at, where = (start - 0.5, 1), ("data", "axes fraction")
        axes.annotate(name, at, xycoords=where, xytext=(3, -12), textcoords="offset points", color="tab:red")
    axes.set_xlabel("key")
    axes.set_ylabel(heat.query_label)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title(_broken(heat.title), fontsize=10, parse_math=False)


def _plane(part: Any, plane: Plane) -> None:
    axes = _image(part, plane.errors.T, plane.extent, "|network − target|", cmap="magma")
    axes.locator_params(nbins=6)
    axes.set_xlabel(plane.labels[0])
    axes.set_ylabel(plane.labels[1])
    bound = "no proven bound" if plane.bound is None else f"proven bound {round_up(plane.bound)}"
    largest = f"largest drawn {float(np.nanmax(plane.errors)):.2g}"
    axes.set_title(f"{_broken(plane.title)}\n{largest}, {bound}", fontsize=10, parse_math=False)


def _image(part: Any, values: Floats, extent: tuple[float, ...], label: str, **colours: Any) -> Any:
    axes = part.subplots()
    picture = axes.imshow(values, origin="lower", extent=extent, aspect="auto", interpolation="nearest", **colours)
    axes.grid(False)
    part.colorbar(picture, ax=axes, label=label)
    return axes


def _broken(title: str) -> str:
    """A title in lines that fit over one panel."""
    return "\n".join(textwrap.wrap(title, _TITLE)) or title


def _matrices(part: Any, matrices: Matrices) -> None:
    """Side by side on one scale, every entry written in."""
    panels = part.subplots(len(matrices.shown), 1)
    largest = max(float(np.abs(matrix).max()) for matrix in matrices.shown.values())
    for axes, (name, matrix) in zip(np.atleast_1d(panels), matrices.shown.items(), strict=True):
        axes.imshow(matrix, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
        for (row, column), value in np.ndenumerate(matrix):
            dark = abs(value) > 0.6 * largest
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8, color="w" if dark else "k")
        axes.grid(False)
        axes.set_title(name, fontsize=10, parse_math=False)
        axes.set_ylabel("token")
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_major_locator().set_params(integer=True)
    np.atleast_1d(panels)[-1].set_xlabel("token that is looked at")
    part.suptitle(matrices.title, fontsize=10)


def draw_study(part: Any, study: Study) -> None:
    axes = part.subplots()
    if study.axis == "places":
        _places(axes, study)
    else:
        _rates(axes, study)
    axes.set_yscale("log")
    axes.set_ylabel(study.error_is)
    axes.set_title(_broken(study.title), fontsize=10, parse_math=False)
    labels = axes.get_legend_handles_labels()[1]
    narrow = max(map(len, labels), default=0) <= _LONG
    part.legend(loc="outside lower center", ncols=2 if narrow else 1, frameon=False, fontsize=None if narrow else 8)


def _rates(axes: Any, study: Study) -> None:
    """Points and the fitted slope, bounds dashed, the theorem's slope dotted."""
    for colour, style, series in zip(_COLOURS, _MARKERS, study.series, strict=False):
        x = np.array([point.value for point in series.points])
        y = np.array([point.measured for point in series.points])
        axes.plot(x, np.where(y > 0, y, np.nan), color=colour, linewidth=1, label=_named(series), **style)
        bounds = np.array([np.nan if point.bound is None else point.bound for point in series.points])
        if not (np.isnan(bounds).all() or (study.one_bound and series is not study.series[0])):
            label = study.bound_is if study.one_bound else f"{series.name}, {study.bound_is}"
            line = "black" if study.one_bound else colour
            axes.plot(x, bounds, "--", color=line, linewidth=2.4, alpha=0.5, zorder=1, label=label)
        if series.slope is not None:
            start = next((i for i in range(len(y)) if y[i] > 0), None)
            if start is not None:
                drawn = 0.6 * y[start] * (x / x[start]) ** series.slope
                axes.plot(x, drawn, ":", color=colour, linewidth=1.6, label=f"slope {series.slope:g}, the theorem's")
    _draw_norms(axes, study)
    if study.axis == "log":
        axes.set_xscale("log")
    known = sorted({point.value for series in study.series for point in series.points})
    if len(known) <= _TICKS:  # the values themselves, and no powers of ten between them
        ticks = _apart(known, study.axis == "log")
        axes.set_xticks(ticks, [f"{value:,.0f}" if float(value).is_integer() else f"{value:g}" for value in ticks])
        axes.minorticks_off()
    axes.set_xlabel(study.parameter)


def _apart(values: Sequence[float], log: bool) -> list[float]:
    """Those that leave room for their labels beside each other, the first and as many more as fit."""
    places = np.log(values) if log else np.asarray(values, dtype=np.float64)
    room, kept = 0.06 * float(np.ptp(places)), [0]
    for i, place in enumerate(places):
        if place - places[kept[-1]] > room:
            kept.append(i)
    return [values[i] for i in kept]


def _draw_norms(axes: Any, study: Study) -> None:
    """What returning 0 would be off by, where the points know it: a bound above says nothing."""
    for series in study.series:
        norms = [point.extras.get("target's own norm", np.nan) for point in series.points]
        if not np.isnan(norms).all():
            x = [point.value for point in series.points]
            axes.plot(x, norms, "-.", color="0.45", linewidth=1.4, label="the target's own norm")


def _places(axes: Any, study: Study) -> None:
    """A row of markers for each method over named places."""
    names = list(dict.fromkeys(point.label for series in study.series for point in series.points))
    for colour, style, series in zip(_COLOURS, _MARKERS, study.series, strict=False):
        x = [names.index(point.label) for point in series.points]
        y = np.array([point.measured for point in series.points])
        axes.plot(x, np.where(y > 0, y, np.nan), linestyle="", color=colour, label=series.name, **style)
        bounds = [(at, point.bound) for at, point in zip(x, series.points, strict=True) if point.bound is not None]
        for index, (at, bound) in enumerate(bounds):
            label = f"{series.name}, {study.bound_is}" if index == 0 else None
            axes.plot([at - 0.35, at + 0.35], [bound, bound], "--", color=colour, linewidth=1.6, label=label)
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", rotation_mode="anchor")
    axes.set_xlabel(study.parameter)


def _named(series: Series) -> str:
    fitted = series.fitted() if series.slope is not None else None
    return series.name if fitted is None else f"{series.name}, fitted slope {fitted:.2f}"
