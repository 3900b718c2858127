"""UA-1: how near softmax is to hardmax, checked against its worst cases in high precision.

Source: universal approximation paper, Lemma F.1. The functions, their proof and the deviations are in `heads.lookup`.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from flint import arb, ctx

from weightwright.approximation.faithful_tables import split_beta
from weightwright.box import Box
from weightwright.certify import certified
from weightwright.claims.certificate import Terms
from weightwright.claims.target import Composite, Ridge
from weightwright.heads.lookup import Case, beta_for, softmax_error
from weightwright.heads.lookup import Norm as VectorNorm
from weightwright.heads.registers import HIDDEN
from weightwright.network import Attention, Head, Linear, Network, Sees, Term, selection
from weightwright.network.layers import Floats
from weightwright.runtime import AttentionNetwork
from weightwright.theorems.arguments import positive, whole
from weightwright.theorems.constructed import About
from weightwright.theorems.exhibits.counts import counts_hardmax
from weightwright.theorems.exhibits.instance import Instance, Line, counted
from weightwright.theorems.studies.rates import Point, Series, Study

_BITS = 256


def nearly_hardmax(
    n: int, gap: float, *, error: float | None = None, beta: float | None = None, width: float = 1.0
) -> AttentionNetwork:
    """One head that turns n scores into nearly the one-hot vector of the largest: X (1, n) -> softmax(beta X).

    Statement: on all scores with x_0 in [gap, gap + width] and the others in [-width, 0] every entry is within
    (n-1) e^(-beta gap) of (1, 0, ..., 0). Give the error, or beta.
    Source: Lemma F.1, unique largest entry. The query is the scores, the keys are one-hot registers.
    Cost: 1 layer, 1 head, n registers, width 3 n + 1.

    >>> net = nearly_hardmax(10, 0.5, error=1e-6)
    >>> net.certificate.status, net.certificate.bound < 1e-6
    ('PROVEN', True)
    """
    whole("n", n, 2)
    for name, value in (("gap", gap), ("error", error), ("beta", beta), ("width", width)):
        positive(name, value)
    if (error is None) == (beta is None):
        raise ValueError("give either error or beta, not both and not neither")
    wanted = beta_for(0.99 * error, gap, n) if error is not None else float(beta or 1.0)
    power, factor = split_beta(max(wanted, 2.0**-10), "float64")
    x, stored, out = (tuple(f"{word}[{j}]" for j in range(n)) for word in ("x", "key", "weight"))
    names = (*x, *stored, *out, "data")
    D = len(names)
    registers, C = np.zeros((n, D)), np.zeros((1, D))
    registers[:, n : 2 * n], C[0, -1] = np.eye(n), 1.0
    W_Q, W_K, W_V, W_O = np.zeros((D, n + 1)), np.zeros((D, n + 1)), np.zeros((D, n)), np.zeros((n, D))
    W_Q[:n, :n], W_Q[-1, n] = np.eye(n), 1.0
    W_K[n : 2 * n, :n], W_K[-1, n] = factor * np.eye(n), HIDDEN / power  # a plain Transformer sees the data token too
    W_V[n : 2 * n], W_O[:, 2 * n : 3 * n] = np.eye(n), np.eye(n)
    head = Head("softmax of the scores", W_Q, W_K, W_V, W_O, power, Sees((0, n), "none"))
    network = Network(
        inputs=x,
        embed=Linear(names, (Term(np.eye(n, D)),), C),
        registers=registers,
        layers=(Attention(names, (head,)),),
        read=selection(names, out),
        tokens=1,
    )
    lo, hi = np.full((1, n), -float(width)), np.zeros((1, n))
    lo[0, 0], hi[0, 0] = gap, gap + width
    one_hot = np.eye(n)[0]
    ridge = Ridge((), np.zeros((0, n)), np.zeros(0), np.zeros((n, n)), one_hot)
    tail = (n - 1) * math.exp(-power * factor * gap) * (1 + 1e-3)
    terms = Terms(tail, 1e-250, 2.0**-45 * n)
    net = certified(network, Composite(ridge, ()), Box(lo, hi), error, terms)
    assert net.certificate is not None

    def probes(rng: np.random.Generator, count: int) -> Floats:
        X = rng.uniform(lo, hi, (count, 1, n))
        X[::2] = np.where(rng.random(X[::2].shape) < 0.5, lo, hi)
        X[0] = np.where(np.arange(n) == 0, lo, hi)  # all others exactly a gap below
        return X

    def reference(X: Floats) -> Floats:
        return np.broadcast_to(one_hot, X.shape).copy()

    bounds = {"everywhere": net.certificate.bound}
    printed = {"beta": (math.log(n - 1) - math.log(error)) / gap} if error is not None else {}
    net.about = About("UA-1", "faithful", {"beta": power * factor, "n": float(n)}, printed, bounds, reference, probes)
    return net


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
