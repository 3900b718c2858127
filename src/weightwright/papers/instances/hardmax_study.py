"""How far softmax is from hardmax as beta grows (UA-1): distances in 256 bits, beside the bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np
from flint import arb, ctx

from weightwright.heads.lookup import Case, softmax_error
from weightwright.heads.lookup import Norm as VectorNorm
from weightwright.numbers import Floats
from weightwright.papers.kit.rates import Point, Series, Study

SCORES, GAP = 100, 0.5
_BITS = 256
_VECTORS = 6
_NAMES = {"inf": "infinity norm", "1": "1-norm"}


def study(betas: Sequence[float]) -> Study:
    """Both cases in both norms among 100 scores: the largest distance found, and softmax_error's bound."""
    series = []
    for case in get_args(Case):
        for norm in get_args(VectorNorm):
            errors = [_largest(beta, case, norm) for beta in betas]
            bounds = [softmax_error(beta, GAP, SCORES, case, norm) for beta in betas]
            series.append(Series(f"{case}, {_NAMES[norm]}", tuple(map(Point, betas, errors, bounds))))
    said = "bound by the inequality in heads/lookup.py, rounded up"
    return Study("softmax against hardmax", "beta", tuple(series), axis="linear", bound_is=said)


def _largest(beta: float, case: Case, norm: VectorNorm) -> float:
    """The largest distance to hardmax among score vectors whose gap is just that, in 256 bits, rounded to a float."""
    return max(float(_distance(scores, beta, case, norm).mid()) for scores in _scores(case))


def _scores(case: Case) -> list[Floats]:
    """Vectors whose first score leads: all others exactly a gap below, then random ones further down. "two": the second
    stands anywhere between the first and a gap below."""
    rng = np.random.default_rng(0)
    found = []
    for index in range(_VECTORS):
        below = -GAP - (0.0 if index < 4 else rng.exponential(GAP / 4)) * rng.random(SCORES)
        below[1 if case == "unique" else 2] = -GAP
        below[0] = 0.0
        if case == "two":
            below[1] = (0.0, -GAP, -GAP / 2, -GAP / 16)[index] if index < 4 else -GAP * rng.random()
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
