"""LR-2: no layer of hardmax attention tells the pair apart, and a softmax layer does."""

from __future__ import annotations

import numpy as np
import pytest

import weightwright as ww
from weightwright.memory.hardmax_pair import PAIR, PRINTED_PAIR, are_confused, hardmax_cases, random_heads


def test_the_three_cases_of_the_proof() -> None:
    assert {case.sign for case in hardmax_cases()} == {1, -1, 0}
    assert all(case.confused for case in hardmax_cases())
    assert set(PAIR[0]) != set(PAIR[1])


def test_the_printed_pair_is_told_apart_where_all_scores_tie() -> None:
    (tie,) = [case for case in hardmax_cases(PRINTED_PAIR) if not case.confused]
    assert tie.sign == 0
    heads = random_heads(np.random.default_rng(0), 1, 1, 40)
    flat = [head for head in heads if not head.W_K.any()]
    assert flat
    assert not are_confused([1.0], flat, PRINTED_PAIR)


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_layers_confuse_the_pair(count: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(count):
        d, s, heads = (int(rng.integers(1, most)) for most in (4, 3, 4))
        assert are_confused(np.round(rng.normal(size=d), 2), random_heads(rng, d, s, heads))


def test_softmax_tells_the_pair_apart() -> None:
    v = np.array([0.3, -1.2])
    mapping = ww.memory.contextual_mapping([np.outer(part, v) for part in PAIR])
    assert mapping.separation > 1e-3
