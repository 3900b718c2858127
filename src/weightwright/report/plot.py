"""A picture of a one-head network: the function and the network, and the error under its bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from flint import arb

from weightwright.claims.certificate import (
    Certificate,
    computed_in_words,
    is_formula,
    measured_in_words,
    round_up,
    status_in_words,
)
from weightwright.claims.texts import quoted
from weightwright.enclosures.balls.series import working_precision
from weightwright.expressions import parse
from weightwright.numbers import Floats

if TYPE_CHECKING:
    from weightwright.runtime import AttentionNetwork


import dataclasses
import os
from typing import TYPE_CHECKING

from weightwright.checker.one_layer.stored import read_one_layer
from weightwright.enclosures.balls.series import series
from weightwright.enclosures.intervals.jets import values
from weightwright.errors import WeightwrightError
from weightwright.export.figures import check_plottable, write_figure
from weightwright.expressions import Expression
from weightwright.network import Network
from weightwright.report.facts.fact_tables import interval
from weightwright.report.square_plot import draw_square, measured_error

if TYPE_CHECKING:
    from weightwright.runtime import AttentionNetwork


_SAMPLES = (2_001, 20_001)  # at least, at most; eight to an anchor in between
_TERM_COLOURS = {"approximation": "tab:green", "leakage": "tab:purple", "rounding": "tab:brown"}


def plot_network(net: AttentionNetwork, path: str | os.PathLike[str]) -> None:
    """Write the picture, whole or not at all. Equal networks give equal files."""
    check_plottable(path)
    said = net.certificate
    if said is None:
        raise WeightwrightError("a network without a certificate states no formula, so there is nothing to plot")
    if said.status == "EDITED":
        raise WeightwrightError(f"no bound to plot: {status_in_words(said.status, said.why)}; net.check() may find one")
    if said.domain.lo.ndim == 2:
        raise WeightwrightError(
            f"plots show functions of one token; this network takes sequences of {net.network.tokens}"
            " (net.draw(path) draws any network, weightwright theorems ID --plot the theorems)"
        )
    if said.composite is not None:
        raise WeightwrightError(
            f"plots show formulas of x, and this is a compiled function, {computed_in_words(said)}:"
            " weightwright info NET --draw and net.draw(path) draw the network"
        )
    if said.domain.lo.shape not in ((1,), (2,)):
        raise WeightwrightError(f"plots show functions of one or two variables, not of {len(net.network.inputs)}")
    if not is_formula(said.formula):
        raise WeightwrightError(f"{said.formula!r} is not a formula, and a plot compares the network with one")
    write_figure(path, lambda: _figure(net, said))


def _figure(net: AttentionNetwork, said: Certificate) -> Any:
    import torch
    from matplotlib.figure import Figure

    if said.domain.lo.shape == (2,):
        figure = Figure(figsize=(11, 5), layout="constrained")
        draw_square(figure, net, said)
        figure.suptitle(_title(said, len(net.network.registers)), parse_math=False)
        return figure
    formula = parse(said.formula)
    lo, hi = float(said.domain.lo[0]), float(said.domain.hi[0])
    count = min(max(8 * len(net.network.registers), _SAMPLES[0]), _SAMPLES[1])
    x = np.clip(lo + (hi - lo) * np.linspace(0.0, 1.0, count), lo, hi)
    inputs = torch.tensor(x, dtype=net.dtype)[:, None]
    x = np.clip(inputs[:, 0].double().numpy(), lo, hi)  # the numbers that the network takes
    with torch.no_grad():
        y = net.run_anywhere(inputs)[:, 0].double().cpu().numpy()
    errors = _line_errors(formula, x, y)
    figure = Figure(figsize=(8, 7), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _function_panel(top, x, values(formula, x), y, _positions(net.network, lo, hi), len(net.network.registers))
    for start, end in said.dead_zones:
        for axes in (top, bottom):
            axes.axvspan(start, end, color="0.93", zorder=0)
        errors[(x > start) & (x < end)] = np.nan
    _error_panel(bottom, x, errors, said)
    edge = 0.015 * (hi - lo)  # so that anchors on the ends are seen
    top.set_xlim(lo - edge, hi + edge)
    figure.suptitle(_title(said, len(net.network.registers)), parse_math=False)
    return figure


def _title(said: Certificate, anchors: int) -> str:
    formula = f"named {quoted(said.formula)}" if said.told else said.formula
    name = formula if len(formula) <= 60 else formula[:57] + "..."
    domain = interval(said.domain.lo.tolist(), said.domain.hi.tolist())
    error = f"error at most {round_up(said.bound)}" if said.measured is None else measured_error(said)
    return f"{name}   on {domain}\n{anchors:,} anchors, {error}, {status_in_words(said.status, said.why)}"


def _function_panel(axes: Any, x: Floats, f: Floats, y: Floats, positions: Floats, anchors: int) -> None:
    axes.plot(x, f, color="0.75", linewidth=5, solid_capstyle="butt", label="function")
    axes.plot(x, y, color="tab:blue", linewidth=1.4, label="network")
    if len(positions):
        label = f"anchors ({len(positions):,} of {anchors:,} inside the domain)"
        width = min(1.5, 400 / len(positions))  # a thousand ticks should not look like a bar
        ticks = axes.get_xaxis_transform()
        axes.plot(positions, 0 * positions + 0.02, "|", color="tab:red", ms=9, mew=width, transform=ticks, label=label)
    axes.margins(y=0.1)
    axes.set_ylabel("output")
    axes.ticklabel_format(useOffset=False)
    axes.locator_params(axis="x", nbins=7)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, borderaxespad=0.2)


def _error_panel(axes: Any, x: Floats, errors: Floats, said: Certificate) -> None:
    largest = float(np.nanmax(errors, initial=0.0))
    positive = errors[errors > 1e-6 * largest]
    top = said.bound if said.measured is None else said.measured.error
    lowest = float(np.quantile(positive, 0.002)) if len(positive) else top  # dips to zero have no bottom
    axes.set_yscale("log")
    axes.set_ylim(min(lowest, top) / 3, 3 * max(top, largest))
    label = f"measured at {len(x):,} points, largest {largest:.3g}"
    axes.plot(x, np.where(errors > 0, errors, np.nan), color="tab:blue", linewidth=0.7, label=label)
    kind = {"PROVEN": "proven bound", "MEASURED": measured_in_words(said)}.get(
        said.status, f"bound ({said.status.lower()})"
    )
    axes.axhline(top, color="black", linewidth=1.8, label=f"{kind} {round_up(top)}")
    for name, value in dataclasses.asdict(said.terms).items():
        if axes.get_ylim()[0] < value < axes.get_ylim()[1]:
            label = f"{name} {round_up(value)}"
            axes.axhline(value, color=_TERM_COLOURS[name], linewidth=0.9, linestyle="--", label=label)
    axes.set_xlabel("x")
    axes.set_ylabel("|network − function|")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=2, frameon=False)


def _line_errors(formula: Expression, x: Floats, y: Floats) -> Floats:
    """|y - formula(x)| with the formula in 128 bits: a float reference would drown errors near 1e-16."""
    with working_precision():
        exact = [abs(arb(b) - series(formula, arb(a), 0)[0]) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        return np.array([float(error.mid()) for error in exact])


def _positions(network: Network, lo: float, hi: float) -> Floats:
    """Where the anchors stand on the x axis, inside [lo, hi]; none for keys of a head that are no grid.

    An anchor at L has the score k s + c that touches a parabola there: c = -k L / 2. Two keys that make
    a sigmoid stand nowhere: their "positions" do not grow with k.
    """
    stored = read_one_layer(network)
    found = [np.zeros(0)]
    for head in stored.heads:
        k, c = (np.array([float(z) for z in part]) for part in (head.slopes, head.offsets))
        L = np.divide(-2 * c, k, out=np.zeros_like(c), where=k != 0)
        if (np.diff(L[np.argsort(k)]) > 0).all():
            found.append(stored.centre + L / stored.scale)
    x = np.concatenate(found)
    return x[(x >= lo) & (x <= hi)]
