"""UA-1: a small instance of nearly_hardmax, and how far softmax is from hardmax as beta grows."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from flint import arb, ctx

from weightwright.heads.lookup import Case, softmax_error
from weightwright.heads.lookup import Norm as VectorNorm
from weightwright.numbers import Floats
from weightwright.papers.exhibits.counts import counts_hardmax
from weightwright.papers.kit.instance import Instance, Line, counted
from weightwright.papers.kit.rates import Point, Series, Study
from weightwright.papers.linear.hardmax import nearly_hardmax

_BITS = 256
_N, _GAP, _ERROR = 100, 0.5, 1e-6  # of the small instance


def small() -> Instance:
    """n = 100 scores, a gap of 1/2, an error of 1e-6 asked for: the head; and both cases in both norms as a study."""
    net = nearly_hardmax(_N, _GAP, error=_ERROR)
    counts = counted(net, "counts_hardmax", counts_hardmax(_N))
    return Instance((net,), counts=counts, line=_line(), studies=(_study((16.0, 32.0, 48.0)),))


def _line() -> Line:
    """The largest score against all others at 0, where they weigh most."""

    def at(x: Floats) -> Floats:
        X = np.zeros((len(x), 1, _N))
        X[:, 0, 0] = x
        return X

    return Line(_GAP, _GAP + 1.0, at, f"the largest score, {_N - 1} others at 0", heads=())


def studies() -> tuple[Study, ...]:
    """The error against beta, at a gap of 1/2 among 100 scores."""
    return (_study(tuple(np.linspace(4.0, 64.0, 16).tolist())),)


def _study(betas: tuple[float, ...]) -> Study:
    """Both cases in both norms: the largest distance found, and softmax_error's bound."""
    kinds = [(case, norm) for case in get_args(Case) for norm in get_args(VectorNorm)]
    names = {"inf": "infinity norm", "1": "1-norm"}
    series = (_series(f"{case}, {names[norm]}", case, norm, list(betas)) for case, norm in kinds)
    said = "bound by the inequality in heads/lookup.py, rounded up"
    return Study("softmax against hardmax", "beta", tuple(series), axis="linear", bound_is=said)


def largest(beta: float, gap: float, n: int, case: Case, norm: VectorNorm, seed: int = 0, count: int = 24) -> float:
    """The largest distance to hardmax among score vectors whose gap is just that, in 256 bits, rounded to a float."""
    distances = [_distance(scores, beta, case, norm) for scores in _scores(gap, n, case, seed, count)]
    return max(float(distance.mid()) for distance in distances)


def _series(name: str, case: Case, norm: Literal["inf", "1"], betas: list[float]) -> Series:
    points = (
        Point(beta, largest(beta, _GAP, _N, case, norm, count=6), softmax_error(beta, _GAP, _N, case, norm))
        for beta in betas
    )
    return Series(name, tuple(points))


def _scores(gap: float, n: int, case: Case, seed: int, count: int) -> list[Floats]:
    """Vectors whose first score leads: all others exactly `gap` below, then random ones further down. "two": the second
    stands anywhere between the first and a gap below."""
    rng = np.random.default_rng(seed)
    found = []
    for index in range(count):
        below = -gap - (0.0 if index < 4 else rng.exponential(gap / 4)) * rng.random(n)
        below[1 if case == "unique" else 2] = -gap
        below[0] = 0.0
        if case == "two":
            below[1] = (0.0, -gap, -gap / 2, -gap / 16)[index] if index < 4 else -gap * rng.random()
        found.append(below)
    return found


def _distance(scores: Floats, beta: float, case: Case, norm: VectorNorm) -> arb:
    old, ctx.prec = ctx.prec, _BITS
    try:
        weights = [(arb(beta) * arb(score)).exp() for score in scores.tolist()]
        total, kept = sum(weights, arb(0)), 1 if case == "unique" else 2
        top = sum(weights[:kept], arb(0))
        hard = [weight / top for weight in weights[:kept]] + [arb(0)] * (len(weights) - kept)
        moved = [abs(weight / total - target) for weight, target in zip(weights, hard, strict=True)]
        return sum(moved, arb(0)) if norm == "1" else max(moved, key=lambda x: float(x.mid()))
    finally:
        ctx.prec = old
