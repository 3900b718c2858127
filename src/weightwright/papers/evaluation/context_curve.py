"""Errors against the length of the context: learners beside each other on the same prompts, as data and a picture."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from weightwright.export.figures import check_plottable, write_figure
from weightwright.numbers import Floats
from weightwright.papers.evaluation.prefix_learners import (
    DescentLearner,
    HookedLearner,
    Learner,
    LeastSquaresLearner,
    NetworkLearner,
    RidgeLearner,
)
from weightwright.papers.evaluation.regression_tasks import RegressionTask
from weightwright.progress import Progress, show_progress

#: Steps of descent and penalty of ridge regression that stand beside a curve.
STEPS, PENALTY = 10, 0.1
#: Where a panel ends, in units of the largest error with the shortest context.
TOP = 1.3
#: Points of the first line, later ones are narrower: so lines that lie on each other are all seen.
WIDEST = 4.5
_STYLES = ("-", "--", ":", "-.")


@dataclass(frozen=True, eq=False)
class Curve:
    """One learner on one task: (lengths,) each, means over the prompts."""

    task: str  # its name
    learner: str  # its name
    errors: Floats  # squared error of the prediction, divided by the features
    deviation: Floats  # standard error of that mean
    band: tuple[Floats, Floats] | None  # the exact algorithm's errors lie between, by proven bounds of predictions


@dataclass(frozen=True, eq=False)
class Curves:
    """Errors against the number of examples, for every task and learner."""

    lengths: tuple[int, ...]  # examples before the query
    prompts: int  # how many were drawn for each task
    seed: int  # with which
    curves: tuple[Curve, ...]  # one for each task and learner

    def __repr__(self) -> str:
        tasks = list(dict.fromkeys(curve.task for curve in self.curves))
        names = list(dict.fromkeys(curve.learner for curve in self.curves))
        return f"Curves({len(tasks)} tasks, {len(names)} learners, lengths {self.lengths[0]} to {self.lengths[-1]})"

    def errors(self, learner: str, task: str | None = None) -> Floats:
        """(lengths,): the errors of a learner.

        learner: its name.
        task: its name; None: the first one.
        """
        task = self.curves[0].task if task is None else task
        for curve in self.curves:
            if (curve.learner, curve.task) == (learner, task):
                return curve.errors
        known = sorted({curve.learner for curve in self.curves if curve.task == task})
        raise ValueError(f"no curve of learner {learner!r} on task {task!r}; there are {known}")

    def facts(self) -> dict[str, Any]:
        """Everything as plain numbers, lists and texts, as JSON takes it."""
        curves = [
            {
                "task": curve.task,
                "learner": curve.learner,
                "errors": curve.errors.tolist(),
                "standard errors": curve.deviation.tolist(),
                "band": None if curve.band is None else [end.tolist() for end in curve.band],
            }
            for curve in self.curves
        ]
        return {"lengths": list(self.lengths), "prompts": self.prompts, "seed": self.seed, "curves": curves}

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write a picture (.png, .svg or .pdf): a panel for each task."""
        check_plottable(path)
        write_figure(path, lambda: curves_figure(self))


def curve(
    tasks: RegressionTask | Sequence[RegressionTask],
    lengths: Sequence[int],
    algorithms: Mapping[str, Any] | Sequence[Any] = (),
    *,
    prompts: int = 256,
    seed: int = 0,
    path: str | os.PathLike[str] | None = None,
    progress: Progress = True,
) -> Curves:
    """Errors against the length of the context, with least squares, ridge and descent beside what is given.

    Ridge has a penalty of 0.1, descent takes ten steps; others are given as `RidgeLearner(...)`, `DescentLearner(...)`.

    tasks: what prompts are drawn from, one or several `RegressionTask`.
    lengths: numbers of examples before the query, each below the points of every task.
    algorithms: what `causal_learner` returns; learners with `name` and (xs, ys, inds); or a dictionary of names and
    functions predict(xs, ys, inds) -> (prompts, positions), for instance a trained model's.
    prompts: how many are drawn for each task.
    seed: with which; the same prompts for all learners.
    path: where a picture goes (.png, .svg or .pdf); None: none is drawn.

    >>> import weightwright as ww
    >>> found = curve(ww.incontext.RegressionTask(2, 6), [0, 2, 5], {"zero": lambda xs, ys, inds: 0 * ys[:, inds]})
    >>> bool(found.errors("zero")[0] > 0.5), bool(found.errors("least squares")[1:].max() < 1e-15)
    (True, True)
    """
    listed = list(tasks) if isinstance(tasks, Sequence) else [tasks]
    if not listed or not all(isinstance(task, RegressionTask) for task in listed):
        raise ValueError(f"tasks must be a RegressionTask or several, not {tasks!r}")
    shortest = min(task.points for task in listed)
    places = [int(length) for length in lengths]
    if not places or not all(0 <= place < shortest for place in places):
        raise ValueError(f"lengths must be from 0 to {shortest - 1}, below the points of every task, not {places}")
    if path is not None:
        check_plottable(path)
    learners = [LeastSquaresLearner(), RidgeLearner(PENALTY), DescentLearner(STEPS), *_read_learners(algorithms)]
    with show_progress(progress, "drawing prompts") as tell:
        made = []
        for task in listed:
            xs, ys = task.sample(prompts, seed)
            for learner in learners:
                tell(f"{learner.name} on {task.name}")
                made.append(measure_curve(learner, task.name, xs, ys, places))
        found = Curves(tuple(places), prompts, seed, tuple(made))
        if path is not None:
            tell("drawing")
            found.plot(path)
    return found


def measure_curve(learner: Learner, task: str, xs: torch.Tensor, ys: torch.Tensor, lengths: Sequence[int]) -> Curve:
    """One learner on these prompts.

    Where the learner has `bounds`, the distance of each prediction to its exact algorithm's, proven, the errors of the
    exact algorithm lie in a band around the learner's own; the band's ends are added up in floats.
    """
    with torch.no_grad():
        predicted = np.asarray(learner(xs, ys, list(lengths)), dtype=np.float64)
    shape = (len(xs), len(lengths))
    if predicted.shape != shape:
        raise ValueError(f"{learner.name} returns predictions of shape {predicted.shape}, not {shape}: one a position")
    off, d = np.abs(predicted - ys[:, list(lengths)].numpy()), xs.shape[2]
    squares: Floats = off**2 / d
    band = None
    if isinstance(learner, NetworkLearner) and hasattr(learner.learner, "bound"):
        bounds = learner.bounds(xs, ys, lengths)
        ends = (np.maximum(off - bounds, 0.0) ** 2 / d, (off + bounds) ** 2 / d)
        band = (ends[0].mean(axis=0), ends[1].mean(axis=0))
    spread = squares.std(axis=0, ddof=1) / np.sqrt(len(xs)) if len(xs) > 1 else np.full(len(lengths), np.nan)
    return Curve(task, learner.name, squares.mean(axis=0), spread, band)


def _read_learners(algorithms: Any) -> list[Learner]:
    if isinstance(algorithms, Mapping):
        return [_named(given, str(name)) for name, given in algorithms.items()]
    try:
        given = list(algorithms)
    except TypeError:
        given = [algorithms]
    return [_named(one) for one in given]


def _named(given: Any, name: str | None = None) -> Learner:
    if hasattr(given, "predict") and hasattr(given, "prompt"):
        return NetworkLearner(given, name)
    if name is None and not (callable(given) and isinstance(getattr(given, "name", None), str)):
        raise ValueError(
            f"algorithms: {given!r} has no name; write a dictionary of names and functions predict(xs, ys, inds)"
        )
    if name is None or getattr(given, "name", None) == name:
        learner: Learner = given
        return learner
    return HookedLearner(name, given)


def curves_figure(found: Curves) -> Any:
    """A matplotlib figure with a panel for each task."""
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(curve.task for curve in found.curves))
    figure = Figure(figsize=(5.5 * len(tasks) + 1, 4.8), layout="constrained")
    figure.suptitle(f"Squared error / d against the examples before the query, means of {found.prompts} prompts")
    panels: Any = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axes, task in zip(panels, tasks, strict=True):
        draw_curves(axes, found.lengths, [curve for curve in found.curves if curve.task == task])
        axes.set_title(task, fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def draw_curves(axes: Any, lengths: Sequence[int], curves: Sequence[Curve]) -> None:
    """The curves of one task on one panel, from 0 up; a band where there is one. Peaks may leave the panel: with noise
    least squares has one where there are as many examples as features."""
    for place, curve in enumerate(curves):
        style, width = _STYLES[place % len(_STYLES)], max(WIDEST - 0.5 * place, 1.0)
        (line,) = axes.plot(lengths, curve.errors, style, linewidth=width, label=curve.learner)
        if curve.band is not None:
            axes.fill_between(lengths, *curve.band, color=line.get_color(), alpha=0.3, label="_band")
    axes.set_xlabel("examples before the query")
    axes.set_ylabel("squared error / d")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylim(0.0, TOP * max(float(curve.errors[0]) for curve in curves))
