"""What each head of a fitted estimator's network does, in one picture: the prompt, the tables, the attention, the way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from weightwright.certificates.claims import rounded_up
from weightwright.export.figures import check_plottable, drawn_figure, require_matplotlib, write_figure
from weightwright.incontext.estimators.watched import Pattern, Table, Watched, examples, group, watched
from weightwright.network.layers import Floats

if TYPE_CHECKING:
    from weightwright.incontext.estimators.base import InContextModel

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
}
#: Tokens of the prompt that are drawn, and features up to which columns and lines are named.
_TOKENS, _NAMED = 12, 10
_NETWORK, _EXACT, _BOUND = "tab:blue", "0.55", "tab:red"


def heads_picture(model: InContextModel, path: str | os.PathLike[str] | None) -> Any:
    """The figure, or nothing where it is written to a file."""
    if path is None:
        require_matplotlib()
        return drawn_figure(lambda: heads_figure(model))
    check_plottable(path)
    return write_figure(path, lambda: heads_figure(model))


def heads_figure(model: InContextModel) -> Any:
    """A matplotlib figure of three rows: (a) the prompt; (b) tables and (c) attention; (d) the coefficients."""
    from matplotlib.figure import Figure

    seen = watched(model.network_, model.prompt_, model.n_iter_)
    figure = Figure(figsize=(14, 15), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)  # type: ignore[union-attr]
    figure.suptitle(_title(model), fontsize=15, parse_math=False)
    top, middle, bottom = figure.subfigures(3, 1, height_ratios=(3.4, 7.2, 4.2))
    _prompt(top, model)
    if seen.tables:
        left, right = middle.subfigures(1, 2, width_ratios=(1 if len(seen.tables) == 1 else 1.5, 1))
        _tables(left, seen.tables)
        _attention(right, seen.patterns)
    else:
        _attention(middle, seen.patterns)
    _way(bottom, model, seen)
    return figure


def _title(model: InContextModel) -> str:
    tokens = len(examples(model.prompt_.double().numpy(), model.network_.network.inputs))
    count = f"{tokens} examples" if tokens > 1 else "1 example"
    return f"What each head does: {type(model).__name__} on {count} of {model.n_features_in_} features"


def _prompt(part: Any, model: InContextModel) -> None:
    """The first tokens, a panel for each group of columns."""
    inputs = model.network_.network.inputs
    rows = examples(model.prompt_.double().numpy(), inputs)
    groups = list(dict.fromkeys(name.split("[")[0] for name in inputs))
    places = {name: group(inputs, name) for name in groups}
    widths = [min(max(len(places[name]), 3), 9) for name in groups]
    panels = part.subplots(1, len(groups), width_ratios=widths, sharey=True, squeeze=False)[0]
    few = rows[:_TOKENS]
    names = _names(model)
    for axes, name in zip(panels, groups, strict=True):
        block = few[:, places[name]]
        size = float(np.abs(rows[:, places[name]]).max()) or 1.0
        axes.imshow(block, cmap="RdBu", vmin=-size, vmax=size, aspect="auto", interpolation="nearest")
        axes.grid(False)
        axes.set_title(name, fontsize=13, fontweight="bold")
        axes.set_xlabel(COLUMNS.get(name, ""), fontsize=10)
        if len(places[name]) == len(names) <= _NAMED and len(places[name]) > 1:
            axes.set_xticks(range(len(names)), names, fontsize=8, rotation=45, ha="right", rotation_mode="anchor")
        else:
            axes.set_xticks([])
        if len(places[name]) > _NAMED:
            axes.set_xlabel(f"{COLUMNS.get(name, '')} ({len(places[name])} columns)", fontsize=10)
    panels[0].set_ylabel("token = example")
    panels[0].yaxis.get_major_locator().set_params(integer=True)
    shown = f"the first {len(few)} of {len(rows)} tokens" if len(rows) > len(few) else "one token for each example"
    part.suptitle(f"(a) The prompt: {shown}; red is below 0, blue above", fontsize=12)


def _names(model: InContextModel) -> list[str]:
    """The features, and the 1 of the intercept."""
    given = getattr(model, "feature_names_in_", None)
    names = [f"x{i}" for i in range(model.n_features_in_)] if given is None else [str(name) for name in given]
    short = [name if len(name) <= 10 else name[:9] + "…" for name in names]
    return [*short, "1"] if model.fit_intercept else short


def _tables(part: Any, tables: tuple[Table, ...]) -> None:
    """A column for each table: the function, which key answers, the error."""
    panels = part.subplots(3, len(tables), height_ratios=(3, 2.2, 2), sharex="col", squeeze=False)
    for column, table in zip(panels.T, tables, strict=True):
        _function(column[0], table)
        _keys(column[1], table)
        _error(column[2], table)
        column[2].set_xlabel(f"argument s = {_argument(table)}", parse_math=False)
    panels[0, 0].set_ylabel("slope")
    panels[1, 0].set_ylabel("key")
    panels[2, 0].set_ylabel("error")
    what = "The head that knows the loss" if len(tables) == 1 else "The heads that know the loss"
    part.suptitle(f"(b) {what}: a table of keys and values", fontsize=12)


def _argument(table: Table) -> str:
    return f"{table.argument}, the residual" if table.argument == "w.x - y" else table.argument


def _function(axes: Any, table: Table) -> None:
    axes.plot(table.s, table.exact, color=_EXACT, linewidth=5, alpha=0.6, label=f"exact: {_said(table)}")
    axes.plot(table.s, table.found, color=_NETWORK, linewidth=1.6, label="the head")
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.3 * (high - low), high)
    for arguments, height, colour, label in (
        (table.first, 0.11, "tab:orange", "examples, before the first pass"),
        (table.last, 0.03, "tab:green", "examples, after the last pass"),
    ):
        at = np.full(len(arguments), height)
        style = {"transform": axes.get_xaxis_transform(), "linestyle": "", "clip_on": False}
        axes.plot(arguments, at, "|", color=colour, ms=11, mew=1.2, label=label, **style)
    axes.legend(loc="upper left", fontsize=9, framealpha=0.9)
    axes.set_title(f"what it returns: {_said(table)} of {table.argument}", fontsize=11, parse_math=False)


def _said(table: Table) -> str:
    """The formula in s."""
    return "s" if table.formula == "x" else table.formula.replace("exp", "e_p").replace("x", "s").replace("e_p", "exp")


def _keys(axes: Any, table: Table) -> None:
    keys = table.weights.shape[1]
    extent = (float(table.s[0]), float(table.s[-1]), keys - 0.5, -0.5)
    axes.imshow(table.weights.T, cmap="Blues", vmin=0, vmax=1, aspect="auto", extent=extent, interpolation="nearest")
    axes.grid(False)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_title(f"how: softmax over {keys} keys, darker is more weight", fontsize=11)


def _error(axes: Any, table: Table) -> None:
    errors = np.where(table.errors > 0, table.errors, np.nan)
    axes.plot(table.s, errors, color=_NETWORK, linewidth=1.2, label="|head − exact|")
    axes.axhline(table.bound, color=_BOUND, linestyle="--", linewidth=1.6, label=f"proven: {rounded_up(table.bound)}")
    axes.set_yscale("log")
    low = float(np.nanmin(errors)) if np.isfinite(errors).any() else table.bound
    axes.set_ylim(max(low, table.bound * 1e-6) / 2, table.bound * 30)
    axes.legend(loc="upper center", ncols=2, fontsize=9, frameon=False)
    axes.set_title("how well", fontsize=11)


def _attention(part: Any, patterns: tuple[Pattern, ...]) -> None:
    """A panel for each layer of heads."""
    heights = [3.0 if len(pattern.weights) > 2 else 1.2 for pattern in patterns]
    panels = part.subplots(len(patterns), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axes, pattern in zip(panels, patterns, strict=True):
        image = axes.imshow(pattern.weights, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axes.grid(False)
        axes.set_title(_sentence(pattern), fontsize=11, parse_math=False)
        axes.set_xlabel(pattern.keys)
        axes.set_ylabel(pattern.rows)
        for axis, size in ((axes.xaxis, pattern.weights.shape[1]), (axes.yaxis, len(pattern.weights))):
            axis.get_major_locator().set_params(integer=True)
            if size == 1:
                axis.set_ticks([0])
        if pattern.labels:
            axes.set_xticks(range(len(pattern.labels)), pattern.labels)
        if pattern.weights.size <= 24:
            _written(axes, pattern.weights)
    part.colorbar(image, ax=list(panels), shrink=0.5, label="weight")
    part.suptitle("(c) Who looks at whom, in the last pass", fontsize=12)


def _sentence(pattern: Pattern) -> str:
    many = f"{pattern.heads} heads: " if pattern.heads > 1 else "head: "
    return many + pattern.role


def _written(axes: Any, weights: Floats) -> None:
    for (row, column), weight in np.ndenumerate(weights):
        colour = "white" if weight > 0.6 else "black"
        axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=9, color=colour)


def _way(part: Any, model: InContextModel, seen: Watched) -> None:
    """Every coefficient over the passes, and the distance to where they end under the proven bound."""
    from matplotlib import colormaps

    left, right = part.subplots(1, 2)
    passes, names = np.arange(len(seen.path)), _names(model)
    count = seen.path.shape[1]
    colours = colormaps["tab10"](np.arange(count)) if count <= 10 else colormaps["viridis"](np.linspace(0, 0.9, count))
    for r in range(count):
        label = names[r] if count == len(names) <= _NAMED + 1 else None
        left.plot(passes, seen.path[:, r], color=colours[r], linewidth=1.5, label=label)
    if left.get_legend_handles_labels()[1]:
        left.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9, frameon=False)
    left.set_xscale("symlog", linthresh=10)
    left.set_ylabel("coefficient, of scaled features")
    left.set_title("every coefficient on its way", fontsize=11)
    ends = np.append(np.atleast_2d(model.coef_)[0], np.atleast_1d(model.intercept_)[0])
    way = [np.append(*model.scaling_.coefficients(state)) for state in seen.path]
    distances = np.linalg.norm(np.array(way) - ends, axis=1)
    right.plot(passes, np.where(distances > 0, distances, np.nan), color=_NETWORK, linewidth=1.5, label="to coef_")
    if 0 < model.bound_ < np.inf:
        label = f"proven: coef_ to the optimum, {rounded_up(model.bound_)}"
        right.axhline(model.bound_, color=_BOUND, linestyle="--", linewidth=1.6, label=label)
    right.set_yscale("log")
    right.set_ylabel("distance of the coefficients")
    right.set_title("how far from the end", fontsize=11)
    right.legend(loc="upper right", fontsize=9, frameon=False)
    for axes in (left, right):
        axes.set_xlabel("passes")
    part.suptitle(f"(d) The same layers again and again: {model.n_iter_} passes to coef_", fontsize=12)
