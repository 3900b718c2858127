"""LR-1: the Boltzmann operator, its slopes and bends, where it falls, and how far apart its results are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from weightwright.memory.boltzmann import (
    boltzmann,
    boltzmann_bends,
    boltzmann_slopes,
    falls,
    is_concave,
    log_separation,
    needed_distance,
)

ENTRIES = st.lists(st.floats(-12, 12), min_size=1, max_size=8)


def exact(a: list[float]) -> arb:
    weights = [arb(x).exp() for x in a]
    return sum((w * x for w, x in zip(weights, a, strict=True)), arb(0)) / sum(weights, arb(0))


@given(ENTRIES)
def test_value_slopes_and_bends_are_the_derivatives(a: list[float]) -> None:
    before, ctx.prec = ctx.prec, 400
    try:
        step = arb(2) ** -60
        assert abs(float(exact(a)) - float(boltzmann(a))) < 1e-13
        for i in range(len(a)):
            up, down = ([arb(x) + (s * step if j == i else 0) for j, x in enumerate(a)] for s in (1, -1))
            slope = (exact(up) - exact(down)) / (2 * step)
            bend = (exact(up) + exact(down) - 2 * exact([arb(x) for x in a])) / step**2
            assert abs(float(slope) - boltzmann_slopes(a)[i]) < 1e-12
            assert abs(float(bend) - boltzmann_bends(a)[i]) < 1e-12
    finally:
        ctx.prec = before


@given(ENTRIES)
def test_it_falls_and_is_concave_where_the_lemmas_say(a: list[float]) -> None:
    """Lemmas 4 and 5; entries far below the largest have slopes of about e^-20, which floats still hold."""
    assert (boltzmann_slopes(a)[falls(a)] < 0).all()
    assert (boltzmann_bends(a)[is_concave(a)] < 0).all()
    assert not (is_concave(a) & ~falls(a)).any()


@given(st.integers(2, 6), st.integers(0, 2**32))
def test_results_are_farther_apart_than_lemma_7_says(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = np.cumsum(needed_distance(n) + 0.01 + rng.exponential(size=2 * n)) - 20
    a, b = (rng.choice(places, n, replace=False) for _ in range(2))
    before, ctx.prec = ctx.prec, 1000
    try:
        bound = log_separation(a, b)
        apart = abs(exact(a.tolist()) - exact(b.tolist()))
        assert bound == -math.inf if set(a) == set(b) else apart > arb(bound).exp()
    finally:
        ctx.prec = before


def test_one_entry_is_taken_apart() -> None:
    assert float(boltzmann([3.0])) == 3.0
    assert boltzmann_slopes([3.0])[0] == 1.0
    assert log_separation([3.0], [5.0]) == pytest.approx(math.log(2))
    assert log_separation([3.0], [5.0]) < math.log(2)


def test_conditions_are_asked_for() -> None:
    with pytest.raises(ValueError, match="2 log n"):
        log_separation([0.0, 1.0], [0.0, 9.0])
    with pytest.raises(ValueError, match="2 log n"):
        log_separation([0.0, 0.0], [0.0, 9.0])
    with pytest.raises(ValueError, match="at least one entry"):
        boltzmann([])
