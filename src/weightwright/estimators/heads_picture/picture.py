"""What each head of a fitted estimator's network does, in one picture: prompt, tables, attention, coefficients."""

from __future__ import annotations

import copy
import os
import re
from typing import Any, Protocol

import numpy as np

from weightwright.claims.certificate import round_up
from weightwright.estimators.heads_picture.table_points import DrawnTable
from weightwright.estimators.heads_picture.watching import Pattern, WatchedRun, is_example, some_tokens, watch_run
from weightwright.export.figures import check_plottable, drawn_figure, require_matplotlib, write_figure
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork

#: What stands in the columns of a prompt, by their names.
COLUMNS = {
    "x": "the example,\nscaled",
    "u": "the same times its\nweight and the step",
    "y": "its\ntarget",
    "w": "the state:\nwhat the passes change",
    "p": "the state\nbefore",
    "tau": "how much a pass\nshrinks (l1)",
    "v": "weight\nand step",
    "t": "the pull of\nits own class",
    "h": "a row of the\nGram matrix",
    "b0": "the right side",
}
#: The most features whose columns and lines are named.
_NAMED = 12
#: The most weights of a panel that are written as numbers.
_WRITTEN = 36
_NETWORK, _EXACT, _BOUND = "tab:blue", "0.55", "tab:red"


class FittedModel(Protocol):
    """What is drawn: a fitted estimator, as far as it is looked at here."""

    network_: AttentionNetwork
    prompt_: Any
    n_iter_: int
    n_features_in_: int
    fit_intercept: bool
    coef_: Any
    intercept_: Any
    bound_: Any

    def _read_off(self, state: Floats) -> Floats: ...


def heads_picture(model: FittedModel, path: str | os.PathLike[str] | None) -> Any:
    """The figure, or nothing where it is written to a file."""
    if path is None:
        require_matplotlib()
        return drawn_figure(lambda: heads_figure(model))
    check_plottable(path)
    return write_figure(path, lambda: heads_figure(model))


def heads_figure(model: FittedModel) -> Any:
    """A matplotlib figure of three rows: (a) the prompt; (b) tables and (c) attention; (d) the coefficients."""
    from matplotlib.figure import Figure

    net = model.network_ if model.network_.device.type == "cpu" else copy.deepcopy(model.network_).cpu()
    seen = watch_run(net, model.prompt_, model.n_iter_)
    beside = len(seen.tables) == 1  # else tables and attention have a row each
    heights = (3.4, 7.2, 4.2) if beside else (3.4, 6.6, 3.8, 4.2) if seen.tables else (3.4, 4.2, 4.2)
    width = 14 if beside else max(14, 3.6 * len(seen.patterns))
    figure: Any = Figure(figsize=(width, sum(heights) + 0.2), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)
    figure.suptitle(_title(model), fontsize=15, parse_math=False)
    top, *middle, bottom = figure.subfigures(len(heights), 1, height_ratios=heights)
    _prompt(top, model)
    if beside:
        middle = middle[0].subfigures(1, 2, width_ratios=(1.2, 1))
    if seen.tables:
        _tables(middle[0], seen.tables)
    _attention(middle[-1], seen.patterns, beside, "(c)" if seen.tables else "(b)")
    _way(bottom, model, seen, "(d)" if seen.tables else "(c)")
    return figure


def _title(model: FittedModel) -> str:
    tokens, features = len(_rows(model)), model.n_features_in_
    sizes = f"{features} feature{'s' * (features > 1)}, {tokens} token{'s' * (tokens > 1)}"
    return f"What each head does: {type(model).__name__}, {sizes}"


def _rows(model: FittedModel) -> Floats:
    """The tokens of the prompt that hold an example."""
    prompt = model.prompt_.double().numpy()
    return prompt[is_example(prompt, model.network_.network.inputs)]


def _prompt(part: Any, model: FittedModel) -> None:
    """The first tokens, a panel for each group of columns."""
    inputs = model.network_.network.inputs
    rows = _rows(model)
    places: dict[str, list[int]] = {}
    for i, name in enumerate(inputs):
        places.setdefault(name.split("[")[0], []).append(i)
    widths = [min(max(len(columns), 3), 9) for columns in places.values()]
    panels = part.subplots(1, len(places), width_ratios=widths, sharey=True, squeeze=False)[0]
    some, names = some_tokens(len(rows)), _names(model)
    few = rows[list(some)]
    for axes, (name, columns) in zip(panels, places.items(), strict=True):
        size = float(np.abs(rows[:, columns]).max())
        span = size or 1.0
        axes.imshow(few[:, columns], cmap="RdBu", vmin=-span, vmax=span, aspect="auto", interpolation="nearest")
        axes.grid(False)
        axes.set_title(name if len(columns) <= _NAMED else f"{name}, {len(columns)} columns", fontsize=12)
        axes.set_xlabel(COLUMNS.get(name, ""), fontsize=10)
        axes.set_xticks([])
        if 1 < len(columns) == len(names) <= _NAMED:
            axes.set_xticks(range(len(names)), names, fontsize=8, rotation=45, ha="right", rotation_mode="anchor")
        if not size:
            said = "0: labels are\nin x and u" if name == "y" and hasattr(model, "classes_") else "0"
            said = "0 at first" if name in ("w", "p") else said
            axes.text(0.5, 0.5, said, transform=axes.transAxes, ha="center", va="center", fontsize=10)
    panels[0].set_ylabel("token")
    panels[0].set_yticks(range(len(some)), some, fontsize=8)
    what = "a token for each example" if "x" in places else "a token for each entry of the Gram matrix"
    shown = f", {len(few)} of {len(rows)} shown" if len(rows) > len(few) else ""
    part.suptitle(f"(a) The prompt: {what}{shown}; red is below 0, blue above", fontsize=13)


def _whole_ticks(axis: Any, count: int) -> None:
    axis.get_major_locator().set_params(integer=True)
    if count == 1:
        axis.set_ticks([0])


def _names(model: FittedModel) -> list[str]:
    """The features, and the 1 of the intercept."""
    given = getattr(model, "feature_names_in_", None)
    names = [f"x{i}" for i in range(model.n_features_in_)] if given is None else [str(name) for name in given]
    short = [name if len(name) <= 10 else name[:9] + "…" for name in names]
    return [*short, "1"] if model.fit_intercept else short


def _tables(part: Any, tables: tuple[DrawnTable, ...]) -> None:
    """A column for each table: the function, which key answers, the error."""
    panels = part.subplots(3, len(tables), height_ratios=(3, 2.2, 1.8), sharex="col", squeeze=False)
    for column, table in zip(panels.T, tables, strict=True):
        _function(column[0], table)
        _keys(column[1], table)
        _error(column[2], table)
        residual = ", the residual" if table.argument == "w.x - y" else ""
        column[2].set_xlabel(f"s = {table.argument}{residual}", parse_math=False)
    panels[0, 0].set_ylabel("result")
    panels[1, 0].set_ylabel("key")
    panels[2, 0].set_ylabel("error")
    labels = panels[0, 0].get_legend_handles_labels()
    part.legend(*labels, loc="outside lower center", ncols=4, fontsize=10, frameon=False)
    what = "head that knows the loss: its slope as" if len(tables) == 1 else "heads that know the loss: its slope as"
    what = what if tables[0].bound is not None else "functions that heads look up:"
    part.suptitle(f"(b) The {what} a table of keys and values", fontsize=13)


def _function(axes: Any, table: DrawnTable) -> None:
    axes.plot(table.s, table.exact, color=_EXACT, linewidth=5, alpha=0.6, label="exact")
    axes.plot(table.s, table.found, color=_NETWORK, linewidth=1.6, label="the head")
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.35 * (high - low), high)
    for arguments, height, colour, label in (
        (table.first, 0.13, "tab:orange", "tokens at first"),
        (table.last, 0.04, "tab:green", "tokens at the end"),
    ):
        at = np.full(len(arguments), height)
        style = {"transform": axes.get_xaxis_transform(), "linestyle": ""}
        axes.plot(arguments, at, "|", color=colour, ms=11, mew=1.2, label=label, **style)
    axes.set_title(f"what it returns: {_in_s(table.formula)}", fontsize=11, parse_math=False)


def _in_s(formula: str) -> str:
    """The formula, whose variable is x, in s.

    >>> _in_s("-sigmoid(-x)"), _in_s("exp(x)")
    ('-sigmoid(-s)', 'exp(s)')
    """
    return _short(re.sub(r"\bx\b", "s", formula))


def _short(text: str) -> str:
    """With fewer digits."""
    return re.sub(r"\d+\.\d{4,}", lambda number: f"{float(number[0]):.4g}", text)


def _keys(axes: Any, table: DrawnTable) -> None:
    """The weight of every key along the argument, and its value beside it."""
    keys = table.weights.shape[1]
    extent = (float(table.s[0]), float(table.s[-1]), keys - 0.5, -0.5)
    axes.imshow(table.weights.T, cmap="Blues", vmin=0, aspect="auto", extent=extent, interpolation="nearest")
    axes.grid(False)
    _whole_ticks(axes.yaxis, keys)
    axes.set_title(f"how: softmax over {keys} keys", fontsize=11)
    bars = axes.inset_axes((1.02, 0, 0.2, 1), sharey=axes)
    bars.barh(np.arange(keys), table.values, color=np.where(table.values < 0, "#d6604d", "#4393c3"))
    bars.grid(False)
    bars.tick_params(labelleft=False, labelsize=8)
    bars.locator_params(axis="x", nbins=3)
    bars.set_title("values", fontsize=9)


def _error(axes: Any, table: DrawnTable) -> None:
    errors = np.where(table.errors > 0, table.errors, np.nan)
    axes.plot(table.s, errors, color=_NETWORK, linewidth=1.2)
    axes.set_yscale("log")
    if table.bound is not None:
        axes.axhline(table.bound, color=_BOUND, linestyle="--", linewidth=1.6)
        low = float(np.nanmin(errors, initial=table.bound))
        axes.set_ylim(max(low, table.bound * 1e-6) / 2, table.bound * 4)
    proven = "" if table.bound is None else f": proven within {round_up(table.bound)}"
    axes.set_title(f"how well{proven}", fontsize=11)


def _attention(part: Any, patterns: tuple[Pattern, ...], column: bool, letter: str) -> None:
    """A panel for each layer of heads, in a column or in a row."""
    panels = part.subplots(*((len(patterns), 1) if column else (1, len(patterns))), squeeze=False).ravel()
    for axes, pattern in zip(panels, patterns, strict=True):
        image = axes.imshow(pattern.weights, cmap="Blues", vmin=0, aspect="auto", interpolation="nearest")
        axes.grid(False)
        title = f"{_counted(pattern.heads)}: {_short(pattern.role)}\n{pattern.says}"
        axes.set_title(title, fontsize=11 if len(panels) < 4 else 9, parse_math=False)
        axes.set_xlabel(pattern.keys)
        axes.set_ylabel(pattern.rows)
        _whole_ticks(axes.xaxis, pattern.weights.shape[1])
        _whole_ticks(axes.yaxis, len(pattern.weights))
        if pattern.tokens:
            axes.set_yticks(range(len(pattern.tokens)), pattern.tokens, fontsize=8)
        if pattern.labels:
            axes.set_xticks(range(len(pattern.labels)), pattern.labels)
        if pattern.weights.size <= _WRITTEN:
            _written(axes, pattern.weights)
        part.colorbar(image, ax=axes, label="weight")
    part.suptitle(f"{letter} Who looks at whom, in the last pass", fontsize=13)


def _counted(heads: int) -> str:
    return "one head" if heads == 1 else f"{heads} heads"


def _written(axes: Any, weights: Floats) -> None:
    for (row, column), weight in np.ndenumerate(weights):
        colour = "white" if weight > weights.max() / 2 else "black"
        axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=9, color=colour)


def _way(part: Any, model: FittedModel, seen: WatchedRun, letter: str) -> None:
    """Every coefficient over the passes, and the distance to where they end under the proven bound."""
    from matplotlib import colormaps

    left, right = part.subplots(1, 2)
    passes, names = np.arange(len(seen.path)), _names(model)
    count = seen.path.shape[1]
    few = count <= _NAMED and count == len(names)
    colours = colormaps["tab10"](np.arange(count)) if count <= 10 else colormaps["viridis"](np.linspace(0, 0.9, count))
    moving = _moving(seen.path)
    for r in range(count):
        label = names[r] if few else None
        left.plot(passes[:moving], seen.path[:moving, r], color=colours[r], linewidth=1.5, label=label)
    if few:
        left.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9, frameon=False)
    if np.ptp(seen.path) < 1e-9:
        left.set_ylim(-1, 1)
    left.set_ylabel("coefficient of the scaled feature")
    left.set_title("every coefficient, until its changes are too small to see", fontsize=11)
    _distances(right, model, seen)
    for axes in (left, right):
        axes.set_xlabel("passes")
        axes.xaxis.get_major_locator().set_params(integer=True)
    part.suptitle(f"{letter} The same layers again and again: {seen.passes} passes", fontsize=13)


def _distances(axes: Any, model: FittedModel, seen: WatchedRun) -> None:
    """From every state to the end, and from there to the optimum."""
    end = np.append(np.atleast_2d(model.coef_)[0], np.atleast_1d(model.intercept_)[0])
    found = np.linalg.norm([model._read_off(state) - end for state in seen.path], axis=1)
    drawn = np.where(found > 0, found, np.nan)
    axes.plot(np.arange(len(found)), drawn, color=_NETWORK, linewidth=1.5, label="from the state to coef_, found")
    lowest = float(np.nanmin(drawn, initial=np.inf))
    if 1e-6 * lowest < model.bound_ < np.inf:
        label = "from coef_ to the optimum, proven"
        axes.axhline(model.bound_, color=_BOUND, linestyle="--", linewidth=1.6, label=label)
    axes.set_yscale("log")
    axes.set_xlim(0, seen.passes)
    axes.set_ylabel("distance, in your units")
    proven = f"proven within {round_up(model.bound_)}" if np.isfinite(model.bound_) else "nothing is proven"
    axes.set_title(f"how far it is; coef_ to the optimum: {proven}", fontsize=11)
    axes.legend(loc="upper right", fontsize=9, framealpha=0.9)


def _moving(path: Floats) -> int:
    """The number of states until all later ones look the same, and a few more."""
    far = np.abs(path - path[-1]).max(axis=1) > 0.004 * np.ptp(path)
    last = int(np.flatnonzero(far)[-1]) if far.any() else 0
    return max(int(1.3 * last), 10) + 2
