"""SU-1: the error of anchors that pick the nearest, against beta, in three floating-point formats.

p = 256 anchors L_k = a + k (b-a)/p on an interval [a, b] of width 2, scores beta (s L_k - L_k²/2), values L_k: the head
of UA-2 for Range(s), s at most 1 outside of [a, b], with any beta that is a power of two.

In exact arithmetic the error is at most dL + (b - a) tail, tail = softmax_error(beta, dL²/2, p).
Proof. For s <= a the anchor a itself is nearest and leads by dL²/2 at least. Between two anchors both are within dL of
s, and the third lies dL²/2 below the first. Beyond the last anchor b - dL it is nearest, leads by dL²/2, and is within
dL of Range(s). All other anchors share the tail, and no value is further than b - a from Range(s).

A rounded score is off by about L² u, u the unit roundoff: once that is more than the lead dL²/2, wrong anchors are
picked, whatever beta is. So [a, b] around 0 is kinder than one around 16.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from functools import partial

import numpy as np

from weightwright.heads.lookup import softmax_error
from weightwright.heads.registers import Design, Query, Table, assemble
from weightwright.numbers import Floats
from weightwright.papers.kit.constructed import About
from weightwright.papers.kit.instance import Check, Instance, check_series
from weightwright.papers.kit.rates import Series, Study, parting, sweep, temperatures
from weightwright.papers.linear.one_head import truncated_linear
from weightwright.runtime import AttentionNetwork

_P, _WIDTH = 256, 2.0
_SPACING = _WIDTH / _P  # a power of two
_DTYPES = ("float64", "float32", "bfloat16")
_SUMMARY = (1.0, 10.0, 50.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8)  # the summary asks for 10 to 1000 and more
_BETAS = tuple(2.0**k for k in range(28))  # 1 to 1.3e8; powers of two multiply exactly in every format


def errors_by_beta() -> Instance:
    """SU-1: 16 anchors, proven in every format from beta = 1 to 1e8; then 256, measured, with beta a power of eight."""
    proven, soft = _proven_study(), _study(0.0, _BETAS[::3])
    checks = (_check(known, found) for known, found in zip(proven.series, soft.series, strict=True))
    return Instance(checks=tuple(checks), studies=(proven, soft), rates=_rates)


def _rates() -> tuple[Study, ...]:
    """16 anchors, proven; and 256 on [-1, 1] and on [15, 17], measured with beta = 2, 8, 32, ..., 2^27."""
    return _proven_study(), _study(0.0, _BETAS[1::2]), _study(16.0, _BETAS[1::2])


def _proven_study() -> Study:
    """UA-2 for one number, p = 16, on [-1, 1] with s in [-2, 2]: error and proven bound in every format."""
    series = tuple(sweep(dtype, partial(_proven, dtype=dtype), _SUMMARY, count=512) for dtype in _DTYPES)
    return Study("16 anchors on [-1, 1], proven", "beta", series)


def _proven(beta: float, dtype: str) -> AttentionNetwork:
    return truncated_linear([[1.0]], [0.0], -1.0, 1.0, (-2, 2), p=16, beta=beta, dtype=dtype)


def _check(series: Series, fine: Series) -> Check:
    """The beta with the smallest bound stands for all. fine: the 256 anchors."""
    best = min(series.points, key=lambda point: math.inf if point.bound is None else point.bound)
    useful = [point.value for point in series.points if point.bound is not None and point.bound < _WIDTH]
    said = f"the bound is below b - a for beta from {min(useful):g} to {max(useful):g}" if useful else "no bound helps"
    apart = parting(fine)
    theory = f"more than exact arithmetic allows from beta = {apart:g} on" if apart else "never leaves the theory"
    named = dataclasses.replace(series, name=f"{series.name}, p = 16")
    return check_series(named, best, chosen={"best beta": best.value}, notes=(said, f"256 anchors, measured: {theory}"))


def head(beta: float, dtype: str, centre: float = 0.0) -> AttentionNetwork:
    """The anchors with this beta, around this centre, rounded to the dtype; nothing is proven about it."""
    a, b = centre - _WIDTH / 2, centre + _WIDTH / 2
    grid = a + np.arange(_P, dtype=np.float64) * _SPACING
    table = Table(grid, -(grid**2) / 2, grid, beta).rounded(dtype)
    net = AttentionNetwork(assemble(Design((table,), ("nearest anchor",), 0.0), Query(0.0, 1.0), "Range(s)", dtype))
    chosen = {"beta": beta, "p": _P, "a": a, "b": b}
    net.about = About("SU-1", "faithful", chosen, {}, {}, lambda X: np.clip(X, a, b), partial(_probes, a))
    return net


def exact_arithmetic(beta: float) -> float:
    """dL + (b - a) tail, rounded up."""
    spacing = Fraction(_SPACING)
    tail = Fraction(softmax_error(beta, float(spacing**2 / 2), _P))
    return math.nextafter(float(spacing + Fraction(_WIDTH) * tail), math.inf)


def _study(centre: float, betas: tuple[float, ...]) -> Study:
    build = partial(head, centre=centre)
    title = f"{_P} anchors on [{centre - _WIDTH / 2:g}, {centre + _WIDTH / 2:g}]"
    return temperatures(title, build, betas, _DTYPES, exact_arithmetic, count=512)


def _probes(a: float, rng: np.random.Generator, count: int) -> Floats:
    """Anchors and the middles between them (a random part), the ends, and random ones; (about count, 1, 1)."""
    places = a + _SPACING / 2 * np.arange(-1, 2 * _P + 2)
    special = rng.choice(places, min(count // 2, len(places)), replace=False)
    random = a - 1 + rng.uniform(0, _WIDTH + 2, max(count - len(special), 0))
    ends = [a, a + _WIDTH, a - 1, a + _WIDTH + 1]
    return np.concatenate([ends, special, random])[:, None, None]
