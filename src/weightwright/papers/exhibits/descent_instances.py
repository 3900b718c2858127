"""The small instances of AE-4 to AE-7: least squares on eight samples, run by a network and in exact arithmetic."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np

from weightwright.numbers import Floats
from weightwright.papers.descent.regression import exact_optimum, least_squares
from weightwright.papers.descent.steps import Descended, anchored_identity, descend, spectral_identity
from weightwright.papers.exhibits.counts import PromptShape, counted_prompted
from weightwright.papers.kit.instance import Check, Count, Instance, Outcome
from weightwright.papers.kit.rates import Point, Series, Study

Orders = dict[str, tuple[str, float]]  # the paper's, in words and as numbers

_ONE_LAYER: Orders = {"layers": ("1, as stated", 1.0)}
_N, _D, _STEP, _LENGTH = 8, 3, 1.0, 32
_TOL = 1e-10
_ANCHORS, _SHORT = 1024, 8  # of the faithful form: its error allows fewer steps


def many_steps() -> Instance:
    """AE-4: 32 steps, the same layers again and again or stacked; 8 steps with the paper's anchors."""
    names = ("looped", "stacked", "faithful, looped")
    runs = (_least_squares(), _stacked(), _faithful())
    checks = tuple(_to_iterate(name, run) for name, run in zip(names, runs, strict=True))
    same = bool((runs[0].states == runs[1].states).all())
    note = f"stacked and looped have {'the same states' if same else 'different states'}, bit for bit"
    checks = (dataclasses.replace(checks[0], notes=(*checks[0].notes, note)), *checks[1:])
    paper = {"layers": ("L + 1", _LENGTH + 1.0)}
    counts = (*_counts("looped", runs[0], 1, paper), *_counts("stacked", runs[1], _LENGTH, paper))
    return Instance(checks=checks, counts=counts, studies=many_steps_studies())


def regression() -> Instance:
    """AE-5: linear regression, 32 steps."""
    return _to_both(_least_squares(), _ONE_LAYER)


def ridge() -> Instance:
    """AE-6: ridge regression with lambda = 1/8, 32 steps."""
    return _to_both(_ridge(), _ONE_LAYER)


def lasso() -> Instance:
    """AE-7: the lasso with lambda = 1/8, 32 proximal steps; one coefficient is 0."""
    run = _lasso()
    instance = _to_both(run, {})
    zeros = int((run.states[-1] == 0).sum())
    note = f"coefficients that are exactly 0 at the end: {zeros} of the network's, {_zeros()} of the optimum's"
    first = dataclasses.replace(instance.checks[0], notes=(*instance.checks[0].notes, note))
    return dataclasses.replace(instance, checks=(first, *instance.checks[1:]))


def many_steps_studies() -> tuple[Study, ...]:
    """AE-4: the distance to the exact iterate at every step."""
    runs = {"spectral": _least_squares(), "faithful": _faithful()}
    series = tuple(_series(name, run.to_iterate, run.iterate_bounds) for name, run in runs.items())
    return (_study("distance to exact gradient descent", series, "t sqrt(d) e"),)


def regression_studies() -> tuple[Study, ...]:
    return _both_studies(_least_squares())


def ridge_studies() -> tuple[Study, ...]:
    return _both_studies(_ridge())


def lasso_studies() -> tuple[Study, ...]:
    return _both_studies(_lasso())


@cache
def _data() -> tuple[Floats, Floats]:
    """Eight samples of three features, of which the last does not matter; numbers of few bits."""
    rng = np.random.default_rng(46)
    X = np.round(rng.uniform(-1, 1, (_N, _D)) * 16) / 16
    return X, np.round((X @ [1.0, -0.75, 0.0] + 0.05 * rng.normal(size=_N)) * 64) / 64


@cache
def _least_squares() -> Descended:
    return descend(least_squares(*_data()), _STEP, _LENGTH, spectral_identity(_TOL))


@cache
def _stacked() -> Descended:
    return descend(least_squares(*_data()), _STEP, _LENGTH, spectral_identity(_TOL), looped=False)


@cache
def _faithful() -> Descended:
    return descend(least_squares(*_data()), _STEP, _SHORT, anchored_identity(_ANCHORS))


@cache
def _ridge() -> Descended:
    return descend(least_squares(*_data(), ridge=0.125), _STEP, _LENGTH, spectral_identity(_TOL))


@cache
def _lasso() -> Descended:
    return descend(least_squares(*_data(), l1=0.125), _STEP, _LENGTH, spectral_identity(_TOL))


def _zeros() -> int:
    return sum(value == 0 for value in exact_optimum(least_squares(*_data(), l1=0.125)))


def _to_both(run: Descended, paper: Orders) -> Instance:
    checks = (_to_iterate("to the exact iterate", run), _to_optimum(run))
    threshold = len(run.net.network.registers) > 0
    counts = _counts("looped", run, 1, paper, threshold)
    return Instance(checks=checks, counts=counts, studies=_both_studies(run))


def _to_iterate(name: str, run: Descended) -> Check:
    return _check(name, run, run.to_iterate, run.iterate_bounds)


def _to_optimum(run: Descended) -> Check:
    return _check("to the optimum", run, run.to_optimum, run.optimum_bounds)


def _check(name: str, run: Descended, errors: list[float], bounds: list[float]) -> Check:
    """The last step stands for all, but every step must keep its bound."""
    certificate = run.net.certificate
    assert certificate is not None
    broken = [t for t, (error, bound) in enumerate(zip(errors, bounds, strict=True)) if not error <= bound]
    reason = None
    if certificate.status != "PROVEN":
        reason = f"the certificate of one step is {certificate.status}"
    elif broken:
        reason = f"step {broken[0]}: the error {errors[broken[0]]!r} exceeds the bound {bounds[broken[0]]!r}"
    status: Outcome = "PROVEN" if reason is None else "FAILED"
    steps = len(errors) - 1
    keys = sum(head.sees.block for head in run.net.network.heads if head.sees.data == "block")
    return Check(
        name,
        status,
        bounds[-1],
        errors[-1],
        norm="2",
        inputs=1,
        native=run.net.network.native,
        cost=dataclasses.asdict(run.net.cost),
        chosen={"L": float(steps), "step": _STEP, "R": run.radius, "kappa": run.kappa, "keys stored": float(keys)},
        bounds={"one step, infinity norm": certificate.bound, f"{name}, after {steps} steps": bounds[-1]},
        notes=(f"every one of the {steps + 1} states keeps its bound; compared with exact rational arithmetic",),
        reason=reason,
    )


def _counts(name: str, run: Descended, passes: int, paper: Orders, threshold: bool = False) -> tuple[Count, ...]:
    tables = [head.sees.block for head in run.net.network.heads if head.sees.data == "block"]
    shape = PromptShape(_N, _D, tables[: len(tables) // passes], passes, len(run.states) - 1, threshold, values=True)
    return counted_prompted(run.net, name, shape, paper)


def _both_studies(run: Descended) -> tuple[Study, ...]:
    iterate = _series("network", run.to_iterate, run.iterate_bounds)
    optimum = _series("network", run.to_optimum, run.optimum_bounds)
    return (
        _study("distance to the exact iterate", (iterate,), "t sqrt(d) e"),
        _study("distance to the optimum", (optimum,), "t sqrt(d) e + e^(-t/(2 kappa)) |w*|"),
    )


def _series(name: str, errors: list[float], bounds: list[float]) -> Series:
    points = zip(range(1, len(errors)), errors[1:], bounds[1:], strict=True)
    return Series(name, tuple(Point(float(t), error, bound) for t, error, bound in points))


def _study(title: str, series: tuple[Series, ...], bound_is: str) -> Study:
    return Study(title, "t, steps", series, "linear", bound_is, "Euclidean distance")
