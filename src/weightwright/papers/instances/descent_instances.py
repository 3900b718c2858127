"""The small instances of AE-4 to AE-7 and AE-16: least squares, run by networks and in exact rational arithmetic."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import torch

from weightwright.incontext.networks.descent_network import Ranges
from weightwright.incontext.one_pass import Learner, learner
from weightwright.numbers import Floats
from weightwright.papers.descent.regression import exact_optimum, least_squares
from weightwright.papers.descent.steps import Descended, anchored_identity, descend, spectral_identity
from weightwright.papers.kit.instance import IN_A_PROMPT, Check, Instance, Orders, counted, counted_each, judge_network
from weightwright.papers.kit.rates import Point, Series, Study

_STEP, _LENGTH = 1.0, 32
_TOL = 1e-10
_ANCHORS, _SHORT = 1024, 8  # of the faithful form: its error allows fewer steps
_ONE_LAYER: Orders = {"layers": ("1, as stated", 1.0)}


def many_steps() -> Instance:
    """AE-4: 32 steps, the same layers again and again or stacked; 8 steps with the paper's anchors."""
    runs = {"looped": _run(), "stacked": _run(looped=False), "faithful, looped": _run(faithful=True)}
    same = bool((runs["looped"].states == runs["stacked"].states).all())
    note = f"stacked and looped have {'the same states' if same else 'different states'}, bit for bit"
    checks = [_check(name, run, run.to_iterate, run.iterate_bounds) for name, run in runs.items()]
    checks[0] = dataclasses.replace(checks[0], notes=(*checks[0].notes, note))
    nets, paper = {name: runs[name].net for name in ("looped", "stacked")}, {"layers": ("L + 1", _LENGTH + 1.0)}
    distances = {"spectral": runs["looped"], "faithful": runs["faithful, looped"]}
    series = tuple(_series(name, run.to_iterate, run.iterate_bounds) for name, run in distances.items())
    return Instance(
        checks=tuple(checks),
        counts=counted_each(nets, dict.fromkeys(nets, paper), IN_A_PROMPT),
        studies=(_study("distance to exact gradient descent", series, "t sqrt(d) e"),),
    )


def regression() -> Instance:
    """AE-5: linear regression, 32 steps."""
    return _to_both(_run(), _ONE_LAYER)


def ridge() -> Instance:
    """AE-6: ridge regression with lambda = 1/8, 32 steps."""
    return _to_both(_run(ridge=0.125), _ONE_LAYER)


def lasso() -> Instance:
    """AE-7: the lasso with lambda = 1/8, 32 proximal steps; one coefficient is 0."""
    run = _run(l1=0.125)
    found = int((run.states[-1] == 0).sum())
    wanted = sum(value == 0 for value in exact_optimum(least_squares(*_data(), l1=0.125)))
    note = f"coefficients that are exactly 0 at the end: {found} of the network's, {wanted} of the optimum's"
    return _to_both(run, {}, note)


@cache
def _data() -> tuple[Floats, Floats]:
    """Eight samples of three features, of which the last does not matter; numbers of few bits."""
    rng = np.random.default_rng(46)
    X = np.round(rng.uniform(-1, 1, (8, 3)) * 16) / 16
    return X, np.round((X @ [1.0, -0.75, 0.0] + 0.05 * rng.normal(size=8)) * 64) / 64


@cache
def _run(*, faithful: bool = False, looped: bool = True, **penalty: Any) -> Descended:
    steps, table = (_SHORT, anchored_identity(_ANCHORS)) if faithful else (_LENGTH, spectral_identity(_TOL))
    return descend(least_squares(*_data(), **penalty), _STEP, steps, table, looped=looped)


def _to_both(run: Descended, paper: Orders, *notes: str) -> Instance:
    """To the exact iterate and to the optimum, at every step."""
    to_iterate = _check("to the exact iterate", run, run.to_iterate, run.iterate_bounds, *notes)
    to_optimum = _check("to the optimum", run, run.to_optimum, run.optimum_bounds)
    near = _series("network", run.to_iterate, run.iterate_bounds)
    best = _series("network", run.to_optimum, run.optimum_bounds)
    return Instance(
        checks=(to_iterate, to_optimum),
        counts=counted(run.net, "looped", paper, shown=IN_A_PROMPT),
        studies=(
            _study("distance to the exact iterate", (near,), "t sqrt(d) e"),
            _study("distance to the optimum", (best,), "t sqrt(d) e + e^(-t/(2 kappa)) |w*|"),
        ),
    )


def _check(name: str, run: Descended, errors: list[float], bounds: list[float], *notes: str) -> Check:
    """The last step stands for all, but every step must keep its bound."""
    certificate = run.net.certificate
    assert certificate is not None
    broken = [t for t, (error, bound) in enumerate(zip(errors, bounds, strict=True)) if not error <= bound]
    reason = None
    if certificate.status != "PROVEN":
        reason = f"the certificate of one step is {certificate.status}"
    elif broken:
        reason = f"step {broken[0]}: the error {errors[broken[0]]!r} exceeds the bound {bounds[broken[0]]!r}"
    steps = len(errors) - 1
    keys = sum(head.sees.block for head in run.net.network.heads if head.sees.data == "block")
    return judge_network(
        run.net,
        name,
        bounds[-1],
        errors[-1],
        norm="2",
        inputs=1,
        chosen={"L": float(steps), "step": _STEP, "R": run.radius, "kappa": run.kappa, "keys stored": float(keys)},
        bounds={"one step, infinity norm": certificate.bound, f"{name}, after {steps} steps": bounds[-1]},
        notes=(f"every one of the {steps + 1} states keeps its bound; compared with exact rational arithmetic", *notes),
        reason=reason,
    )


def _series(name: str, errors: list[float], bounds: list[float]) -> Series:
    points = zip(range(1, len(errors)), errors[1:], bounds[1:], strict=True)
    return Series(name, tuple(Point(float(t), error, bound) for t, error, bound in points))


def _study(title: str, series: tuple[Series, ...], bound_is: str) -> Study:
    return Study(title, "t, steps", series, "linear", bound_is, "Euclidean distance")


# AE-16: the construction itself is `incontext.one_pass`, which users call as `ww.incontext.learner`

_SAMPLES, _FEATURES, _QUERIES, _PASSES = 6, 2, 3, 12
_RIDGES = (0.0, 0.125, 0.5)


def one_pass() -> Instance:
    """AE-16: 12 steps on six samples of two features, three queries, one fingerprint."""
    ranges = Ranges(x=1.0, y=2.0, w=2.0, fitted=4.0, ridge=1.0)
    icl = learner(_FEATURES, _SAMPLES, _QUERIES, "squared", _PASSES, ranges, step=2.0, tol=_TOL, progress=False)
    rng = np.random.default_rng(16)
    X, X_q = (np.round(rng.uniform(-1, 1, (count, _FEATURES)) * 16) / 16 for count in (_SAMPLES, _QUERIES))
    y = np.round((X @ [1.0, -0.5] + 0.1 * rng.normal(size=_SAMPLES)) * 64) / 64
    before = icl.net.digest()
    checks = tuple(
        _check_predictions(icl, icl.prompt(X, y, X_q, ridge=ridge, step=_STEP), ridge, before) for ridge in _RIDGES
    )
    return Instance(checks=checks)


def _check_predictions(icl: Learner, prompt: torch.Tensor, ridge: float, before: str) -> Check:
    certificate, bound = icl.net.certificate, icl.bound(prompt, progress=False)
    assert certificate is not None
    exact = _predict(prompt.tolist(), len(icl.net.network.inputs))
    off = [abs(Fraction(a) - b) for a, b in zip(icl(prompt).tolist(), exact, strict=True)]
    reason = None
    if certificate.status != "PROVEN":
        reason = f"the certificate of one pass and the read-out is {certificate.status}"
    elif any(error > Fraction(most) for error, most in zip(off, bound.to_algorithm.tolist(), strict=True)):
        reason = "a prediction is farther from the exact algorithm's than its bound"
    elif icl.net.digest() != before:
        reason = "another penalty made another network"
    return judge_network(
        icl.net,
        f"predictions, ridge {ridge:g}",
        float(bound.to_algorithm.max()),
        float(max(off)),
        inputs=_QUERIES,
        chosen={"L": float(_PASSES), "step": _STEP, "ridge": ridge},
        bounds={"one pass and the read-out": certificate.bound, "to the optimum": float(bound.to_optimum.max())},
        notes=(f"fingerprint {before[:12]}, that of all penalties; compared with exact rational arithmetic",),
        reason=reason,
    )


def _predict(rows: list[list[float]], width: int) -> list[Fraction]:
    """Gradient descent on the prompt's own numbers: x, u, y, w of every token."""
    assert width == 3 * _FEATURES + 1
    tokens = [[Fraction(number) for number in row] for row in rows]
    w = [Fraction(0)] * _FEATURES
    for _ in range(_PASSES):
        pulls = [_inner(w, token[:_FEATURES]) - token[2 * _FEATURES] for token in tokens]
        w = [a - _inner(pulls, [token[_FEATURES + j] for token in tokens]) for j, a in enumerate(w)]
    return [_inner(w, token[:_FEATURES]) for token in tokens[-_QUERIES:]]


def _inner(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))
