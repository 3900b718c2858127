"""What a run of an algorithm in context was: every state, and two distances that are never mixed.

To the exact iterate: how far the network is from the plain algorithm without rounding. To the optimum: how
far the algorithm has come, found afterwards from the weights alone. Below the run are its pictures: the path
beside the exact one, both errors per step, errors against a size.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from weightwright.claims.certificate import round_up
from weightwright.export.figures import check_plottable, write_figure
from weightwright.incontext.errors.distance import Distance, to_iterates, to_optimum
from weightwright.incontext.errors.iterates import Iterates, exact_iterates, plain_iterates
from weightwright.incontext.errors.lemma import Composed, composed_error
from weightwright.incontext.problem.method import Method
from weightwright.incontext.problem.problem import Problem, penalty_in_words
from weightwright.numbers import Floats, counted
from weightwright.runtime import AttentionNetwork

_TO_ITERATE, _TO_OPTIMUM = "tab:blue", "tab:red"
_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:cyan")
_MARKERS = "os^Dvx"
#: The most dots of the exact algorithm and the most bounds to the optimum that are drawn: bounds take time, dots room.
_DOTS, _BOUNDS = 20, 50
#: The most coefficients that are named in the legend.
_NAMED = 10
#: The optimum that is measured from is where this many times the steps of the run end, in floats.
_FURTHER = 20


@dataclass(frozen=True, eq=False)
class Run:
    """One forward pass on a prompt, with every state on its way."""

    problem: Problem  # the examples, rounded to the dtype
    method: Method  # the algorithm on them
    step: float  # its size
    states: Floats  # (steps + 1, 1 or 2, d): w and p before the first step and after each, as the first token had them
    net: AttentionNetwork  # the network that ran
    apart: float = 0.0  # how far the states of any other token were from those, at most

    def __repr__(self) -> str:
        where = f"distance to the optimum at most {self.to_optimum.bound:.3g}"
        steps = f"{counted(self.steps, 'step')} of {self.method.algorithm.name}"
        return f"Run({steps} on {self.problem.loss.name[:30]}, {where})"

    @property
    def steps(self) -> int:
        """How many were taken."""
        return len(self.states) - 1

    @property
    def path(self) -> Floats:
        """(steps + 1, d): the answer after every step."""
        return self.states[:, 1 if self.method.answer == "p" else 0]

    @property
    def w(self) -> Floats:
        """The answer."""
        return self.path[-1]

    @cached_property
    def exact(self) -> Iterates:
        """The plain algorithm on the same numbers, every state in a ball of a radius below 1e-30."""
        return exact_iterates(self.problem, self.method, self.steps, self.states[0, 0])

    @cached_property
    def errors(self) -> Floats:
        """(steps + 1,): by how much any coefficient differs from the exact iterate's, enclosed and rounded up: the
        largest norm."""
        return to_iterates(self.path, self.exact.answers(self.method))[0]

    @cached_property
    def lemma(self) -> Composed:
        """AE-4's lemma with this network's proven step error, or which of its conditions fails."""
        assert self.net.certificate is not None
        if self.states[0].any():
            return Composed(None, "w_0 = 0: this run starts elsewhere", math.inf, math.inf)
        bound = self.net.certificate.bound
        return composed_error(self.problem, self.method, self.step, bound, self.steps, self.w, self.apart)

    @cached_property
    def bounds(self) -> Floats:
        """(steps + 1,): what `errors` are proven to be at most, in the largest norm as they are: by the lemma, from the
        proven error of one step, where its conditions hold (its bounds are Euclidean, which is no less); else the
        enclosed distances themselves."""
        return self.errors if self.lemma.bounds is None else np.array(self.lemma.bounds)

    @cached_property
    def to_optimum(self) -> Distance:
        """How far the answer is from the optimum, a posteriori."""
        return to_optimum(self.problem, self.w)

    def optimum_bounds(self, every: int = 1) -> Floats:
        """The same after steps 0, every, 2 every, ...: (steps // every + 1,).

        every: how many steps lie between two bounds.
        """
        return np.array([to_optimum(self.problem, w).bound for w in self.path[::every]])

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write a picture (.png, .svg or .pdf): the path beside the exact algorithm's, and both errors per step."""
        plot_run(self, path)


@dataclass(frozen=True)
class StudyPoint:
    """One run of a study. at: the anchors, the samples, ...; error: the largest found; bound: what is proven."""

    at: float
    error: float
    bound: float


def plot_run(run: Run, path: str | os.PathLike[str]) -> None:
    """Left: the way of every coefficient. Right: both errors after every step, with their bounds."""
    check_plottable(path)
    write_figure(path, lambda: run_figure(run))


def plot_errors_against(
    size: str,
    curves: Mapping[str, Sequence[StudyPoint]],
    title: str,
    path: str | os.PathLike[str],
    bound: str = "bound",
) -> None:
    """Errors and bounds of networks against their size. size: what `at` counts. bound: what the bounds are of."""
    check_plottable(path)
    if not any(curves.values()):
        raise ValueError("curves must have at least one point to draw, and has none")
    write_figure(path, lambda: errors_figure(size, curves, title, bound))


def run_figure(run: Run) -> Any:
    """A matplotlib figure of two panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.2), layout="constrained")
    figure.suptitle(_title(run), parse_math=False)
    parts: Any = figure.subfigures(1, 2)
    for part, draw, names in zip(parts, (_paths, _both_errors), (5, 2), strict=True):
        axes = part.subplots()
        draw(axes, run)
        axes.set_xlabel("steps")
        axes.margins(x=0.02)
        part.legend(loc="outside lower center", ncols=names, frameon=False, fontsize=9, columnspacing=1.2)
    return figure


def _title(run: Run) -> str:
    problem, dtype = run.problem, run.net.network.dtype
    name = problem.loss.name if len(problem.loss.name) <= 40 else problem.loss.name[:37] + "..."
    sizes = (("ridge", problem.has_ridge, problem.ridge), ("l1", problem.has_l1, problem.l1))
    penalties = "".join(f", {kind} {penalty_in_words(size)}" for kind, given, size in sizes if given)
    return (
        f"{run.steps} steps of {run.method.algorithm.name} in context: {name} loss{penalties},"
        f" {problem.n} examples of {problem.d} features, {dtype}"
    )


def _paths(axes: Any, run: Run) -> None:
    """Lines are the network's, dots the exact algorithm's; both of a coefficient in one colour."""
    from matplotlib import colormaps

    d = run.problem.d
    colours = colormaps["tab10"](np.arange(d)) if d <= 10 else colormaps["viridis"](np.linspace(0, 0.9, d))
    steps, dots = np.arange(run.steps + 1), _dots(run.steps)
    exact = run.exact.answers(run.method)
    for r in range(d):
        label = f"w[{r}]" if d <= _NAMED else None
        axes.plot(steps, run.path[:, r], color=colours[r], linewidth=1.4, label=label)
        places = [float(exact[t][r].mid()) for t in dots]
        axes.plot(dots, places, ".", color=colours[r], ms=7, label="_exact")
    axes.plot([], [], color="0.3", linewidth=1.4, label="network")
    axes.plot([], [], ".", color="0.3", ms=7, label="exact algorithm")
    axes.set_title("The way of every coefficient", fontsize=10)
    axes.set_ylabel("coefficient")


def _both_errors(axes: Any, run: Run) -> None:
    steps = np.arange(run.steps + 1)
    label = f"to the exact iterate, largest {round_up(float(run.errors.max()))}"
    axes.plot(steps, _positive(run.errors), color=_TO_ITERATE, linewidth=2.6, label=label)
    if run.lemma.bounds is not None:
        label = f"bound (iterate), {round_up(float(run.bounds[-1]))} at the end"
        axes.plot(steps, _positive(run.bounds), "--", color=_TO_ITERATE, linewidth=1.6, label=label)
    distances = distances_to_optimum(run)
    if distances is not None:
        axes.plot(steps, _positive(distances), color=_TO_OPTIMUM, linewidth=1.2, label="to the optimum, measured")
    every = max(1, math.ceil(run.steps / _BOUNDS))
    bounds = run.optimum_bounds(every)
    if np.isfinite(bounds).any():
        label = f"bound (optimum), {round_up(float(bounds[-1]))} at the end"
        axes.plot(steps[::every], _positive(bounds), "--", color=_TO_OPTIMUM, linewidth=1.6, label=label)
    axes.set_yscale("log")
    axes.set_title("Two errors, never mixed (dashed: proven bounds)", fontsize=10)
    axes.set_ylabel("largest error of a coefficient")


def distances_to_optimum(run: Run) -> Floats | None:
    """(steps + 1,): how far the largest coefficient is from the optimum after every step; None if it is not known.

    The optimum is where many more steps in floats end; how far that is off is proven, and nearer than twice that
    nothing is said (NaN).
    """
    further = plain_iterates(run.problem, run.method, _FURTHER * run.steps, run.w)[-1]
    near = further[1 if run.method.answer == "p" else 0]
    off = to_optimum(run.problem, near).bound
    if math.isinf(off):
        return None
    found: Floats = np.abs(run.path - near).max(axis=1)
    return np.where(found > 2 * off, found, np.nan)


def errors_figure(size: str, curves: Mapping[str, Sequence[StudyPoint]], title: str, bound: str) -> Any:
    """A matplotlib figure of one panel: errors as lines with markers, bounds dashed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.5), layout="constrained")
    figure.suptitle(title, parse_math=False)
    axes = figure.subplots()
    for colour, marker, (name, points) in zip(_COLOURS, _MARKERS, curves.items(), strict=False):
        at = np.array([point.at for point in points])
        errors = np.array([point.error for point in points])
        bounds = np.array([point.bound for point in points])
        axes.plot(at, _positive(errors), marker=marker, ms=5, color=colour, linewidth=1.2, label=f"{name}: error found")
        axes.plot(at, _positive(bounds), "--", color=colour, linewidth=1.8, alpha=0.6, label=f"{name}: {bound}")
    every = [point.at for points in curves.values() for point in points]
    if max(every) > 50 * min(every) > 0:
        axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(size)
    axes.set_ylabel("largest error of a coefficient")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _positive(values: Floats) -> Floats:
    """What a logarithmic axis can show."""
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


def _dots(steps: int) -> Any:
    """Steps at which the exact algorithm is drawn: closer at the beginning, where most happens."""
    return np.unique(np.concatenate([[0], np.geomspace(1, steps, _DOTS).round().astype(int)]))
