"""UA-1: how near softmax is to hardmax, checked against its worst cases in high precision.

Source: universal approximation paper, Lemma F.1. The functions, their proof and the deviations are in `heads.lookup`.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from flint import arb, ctx

from weightwright.constructions.instance import Check, Instance
from weightwright.constructions.rates import Point, Series, Study
from weightwright.heads.lookup import Case, beta_for, softmax_error
from weightwright.heads.lookup import Norm as VectorNorm
from weightwright.network.layers import Floats

_BITS = 256
_N, _GAP, _ERROR = 100, 0.5, 1e-6  # of the small instance


def small() -> Instance:
    """n = 100 scores, a gap of 1/2, an error of 1e-6 asked for: beta, and the largest error of many score vectors."""
    return Instance(checks=tuple(_check(case, norm) for case in get_args(Case) for norm in get_args(VectorNorm)))


def studies() -> tuple[Study, ...]:
    """The error against beta, at a gap of 1/2 among 100 scores."""
    betas = np.linspace(4.0, 64.0, 16).tolist()
    series = (_series(f"{case}, {norm}-norm", case, norm, betas) for case in get_args(Case) for norm in ("1",))
    return (Study("softmax against hardmax", "beta", tuple(series), axis="linear"),)


def largest(beta: float, gap: float, n: int, case: Case, norm: VectorNorm, seed: int = 0, count: int = 24) -> float:
    """The largest distance to hardmax among score vectors whose gap is just that, in 256 bits, rounded to a float."""
    distances = [_distance(scores, beta, case, norm) for scores in _scores(gap, n, case, seed, count)]
    return max(float(distance.mid()) for distance in distances)


def _check(case: Case, norm: VectorNorm) -> Check:
    beta = beta_for(_ERROR, _GAP, _N, case, norm)
    bound, found = softmax_error(beta, _GAP, _N, case, norm), largest(beta, _GAP, _N, case, norm)
    others, parts = _N - (1 if case == "unique" else 2), 1 if norm == "inf" else 2
    sure = bool(_worst_case(beta, others, parts) <= arb(bound))  # the same formula in balls
    reason = None if sure and found <= bound else f"found {found!r}, bound {bound!r}, confirmed in balls: {sure}"
    return Check(
        name=f"{case}, {'1-norm' if norm == '1' else 'infinity norm'}",
        status="FAILED" if reason else "PROVEN",
        bound=bound,
        measured=found,
        norm=norm,
        inputs=24,
        chosen={"beta": beta, "n": _N, "gap": _GAP, "error asked for": _ERROR},
        printed={"beta": (math.log(others) - math.log(_ERROR)) / _GAP} if norm == "inf" else {},
        notes=("the inequality is proven in heads/lookup.py; its value is confirmed with balls",),
        reason=reason,
    )


def _worst_case(beta: float, others: int, parts: int) -> arb:
    """parts m q / (1 + (n-1) q), q = e^(-beta gap)."""
    old, ctx.prec = ctx.prec, _BITS
    try:
        q = (-arb(beta) * arb(_GAP)).exp()
        return parts * others * q / (1 + (_N - 1) * q)
    finally:
        ctx.prec = old


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
