"""Ids as any machine of the model computes them lie in the checker's enclosures, and these are not wide."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx
from support.networks import attending, by_hand, linear

import weightwright as ww
from weightwright.checker.memory.context_ids import enclose_ids, read_mapping
from weightwright.enclosures.balls.counted_exp import LEAST, UNITS, counted_exp
from weightwright.memory.context_mapping import token_inputs


def words(rng: np.random.Generator) -> list[Any]:
    return [rng.integers(0, 30, n).tolist() for n in (1, 5, 5, 12, 3)]


def distinct_words(rng: np.random.Generator) -> list[Any]:
    return [rng.permutation(30)[:n].tolist() for n in (1, 5, 5, 12, 3)]


def vectors(rng: np.random.Generator) -> list[Any]:
    return [rng.normal(size=(n, 3)) * [1.0, 100.0, 0.01] for n in (4, 4, 9, 1)]


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "words": (words, {"positions": True}),
    "words, causal": (words, {"positions": True, "mask": "causal"}),
    "sets": (distinct_words, {}),
    "vectors": (vectors, {"positions": True, "head_size": 3}),
    "two directions": (vectors, {"positions": True, "query": "other"}),
    "float32": (words, {"positions": True, "dtype": "float32"}),
    "vectors in float32": (vectors, {"positions": True, "dtype": torch.float32, "head_size": 2}),
}


def exact_ids(network: Any, x: np.ndarray) -> list[arb]:
    """In balls of 200 bits, key by key."""
    head = next(iter(network.heads))
    A, C = network.embed.terms[0].A, network.embed.C[0]

    def times(rows: list[list[arb]], W: np.ndarray) -> list[list[arb]]:
        return [
            [sum((a * arb(w) for a, w in zip(row, col, strict=True)), arb(0)) for col in W.T.tolist()] for row in rows
        ]

    X = [
        [y + arb(c) for y, c in zip(row, C.tolist(), strict=True)]
        for row in times([[arb(a) for a in r] for r in x.tolist()], A)
    ]
    q, k, v = (times(X, W) for W in (head.W_Q, head.W_K, head.W_V))
    ids = []
    for i, query in enumerate(q):
        seen = range(i + 1) if head.sees.data == "earlier" else range(len(X))
        z = {at: arb(head.beta) * sum((a * b for a, b in zip(query, k[at], strict=True)), arb(0)) for at in seen}
        total = sum((one.exp() for one in z.values()), arb(0))
        mean = [sum((z[at].exp() * v[at][j] for at in seen), arb(0)) / total for j in range(len(v[0]))]
        place = network.embed.coordinates.index("id")
        ids.append(
            X[i][place] + sum((m * arb(w) for m, w in zip(mean, head.W_O[:, place].tolist(), strict=True)), arb(0))
        )
    return ids


@pytest.mark.parametrize("case", CASES)
def test_ids_lie_in_their_enclosures(case: str) -> None:
    make, options = CASES[case]
    mapping = ww.memory.contextual_mapping(make(np.random.default_rng(3)), **options)
    network, data = mapping.network, mapping.data
    stored = read_mapping(network, network.embed.coordinates.index("id"))
    middles, radii = enclose_ids(stored, mapping.vectors, data.tokens, data.lengths, mapping.positions)
    module, worst, before = ww.AttentionNetwork(network), 0.0, ctx.prec
    ctx.prec = 200
    try:
        for start, x in zip(data.starts.tolist(), token_inputs(data, mapping.vectors, mapping.positions), strict=True):
            own = slice(start, start + len(x))
            truth = exact_ids(network, x)
            ran = module(torch.tensor(x, dtype=module.dtype))[:, 0].tolist()
            for there, mid, rad, computed in zip(truth, middles[own], radii[own], ran, strict=True):
                assert abs(there - arb(mid)) <= arb(rad)
                assert abs(arb(computed) - arb(mid)) <= arb(rad)
                worst = max(worst, float(abs(arb(computed) - there)) / float(rad))
    finally:
        ctx.prec = before
    assert worst > 1e-3, f"the enclosure is {1 / max(worst, 1e-300):.3g} times what was seen"


def mapping_of(start: float, own: float, share: float, beta: float, dtype: str = "float64") -> Any:
    """x to (x, id): the id starts as own x + start, and the head adds share times a mean of the x."""
    embed = linear(("x", "id"), [[1.0, own]], [[0.0, start]])
    one = np.array([[1.0], [0.0]])
    layer = attending(("x", "id"), one, one, one, np.array([[0.0, share]]), beta)
    return by_hand(("x",), embed, (layer,), ("id",), dtype=dtype)


def one_by_one(network: Any, x: np.ndarray) -> np.ndarray:
    """The ids of a machine that adds one number after the other, in the network's dtype; scores are 0."""
    kind = np.float32 if network.dtype == "float32" else np.float64
    A, C, head = network.embed.terms[0].A, network.embed.C[0], next(iter(network.heads))
    values, share = x[:, 0].astype(kind), kind(head.W_O[0, 1])
    total = np.add.accumulate(np.ones(len(x), dtype=kind))[-1]
    mean = np.add.accumulate((kind(1) / total) * values)[-1]
    return values * kind(A[0, 1]) + kind(C[1]) + share * mean


#: What dominates the error of an id, and inputs for which it does.
DOMINANT = {
    "the last sum": (mapping_of(2.0**40, 1.0, 1.0, 2.0**-200), np.array([[3.0], [5.0], [6.0]])),
    "the embedding": (mapping_of(-0.1 * 1e9, 0.1, 2.0**-40, 2.0**-200), 1e9 + np.arange(30.0)[:, None]),
    "the sums": (mapping_of(0.0, 2.0**-60, 1.0, 2.0**-100, "float32"), np.full((1000, 1), float(np.float32(0.1)))),
}


@pytest.mark.parametrize("case", DOMINANT)
def test_every_term_of_the_error_is_needed(case: str) -> None:
    """A machine that sums in the worst order stays inside, and is not far inside."""
    network, x = DOMINANT[case]
    stored = read_mapping(network, 1)
    numbers, lengths = np.arange(len(x)), np.array([len(x)])
    middles, radii = enclose_ids(stored, x, numbers, lengths, False)
    A, C, head = network.embed.terms[0].A, network.embed.C[0], next(iter(network.heads))
    mean = sum(map(Fraction, x[:, 0].tolist())) / len(x)
    worst = Fraction(0)
    for at, computed, mid, rad in zip(x[:, 0].tolist(), one_by_one(network, x).tolist(), middles, radii, strict=True):
        truth = Fraction(at) * Fraction(A[0, 1]) + Fraction(C[1]) + Fraction(head.W_O[0, 1]) * mean
        assert abs(Fraction(computed) - Fraction(mid)) <= Fraction(rad)
        assert abs(truth - Fraction(mid)) <= Fraction(rad)
        worst = max(worst, abs(Fraction(computed) - truth) / Fraction(rad))
    assert worst > 0.02


def test_large_scores_cost_what_is_said() -> None:
    """Scores of a million, values of 1: what the scores round is what the id is off by."""
    names = ("k", "v", "id")
    embed = linear(names, np.eye(2, 3))
    key, value = np.array([[1.0], [0.0], [0.0]]), np.array([[0.0], [1.0], [0.0]])
    layer = attending(names, key, key, value, np.array([[0.0, 0.0, 1.0]]), 0.7)
    network = by_hand(("k", "v"), embed, (layer,), ("id",))
    rng, before, worst = np.random.default_rng(0), ctx.prec, 0.0
    ctx.prec = 200
    try:
        for _ in range(20):
            x = np.column_stack([1000 + 1e-3 * rng.normal(size=6), rng.choice([-1.0, 1.0], 6)])
            middles, radii = enclose_ids(read_mapping(network, 2), x, np.arange(6), np.array([6]), False)
            ran = ww.AttentionNetwork(network)(torch.tensor(x))[:, 0].tolist()
            for there, mid, rad, computed in zip(exact_ids(network, x), middles, radii, ran, strict=True):
                assert abs(there - arb(mid)) <= arb(rad)
                worst = max(worst, float(abs(arb(computed) - there)) / float(rad))
    finally:
        ctx.prec = before
    assert 0.01 < worst < 1


def test_the_exponential_is_as_exact_as_it_says() -> None:
    x = -np.concatenate([np.random.default_rng(0).uniform(0, -LEAST, 2000), np.geomspace(1e-20, 700, 500), [0.0]])
    before, ctx.prec = ctx.prec, 200
    try:
        off = [abs(arb(float(y)) / arb(float(at)).exp() - 1) for y, at in zip(counted_exp(x), x, strict=True)]
    finally:
        ctx.prec = before
    assert max(float(one) for one in off) <= UNITS / 3 * 2.0**-53
    assert counted_exp(np.array([-np.inf, -1e9])).tolist() == counted_exp(np.array([LEAST] * 2)).tolist()


def test_the_mapping_separates_as_certified_and_is_invariant() -> None:
    """Definition 2: other sets or other tokens have other ids; the order of a sequence moves them by rounding only."""
    rng = np.random.default_rng(5)
    first = [rng.permutation(12)[:5].tolist() for _ in range(30)]
    mapping = ww.memory.contextual_mapping([*first, *(one[::-1] for one in first)], head_size=4)
    for W in (mapping.head.W_Q, mapping.head.W_K, mapping.head.W_V):
        assert np.linalg.matrix_rank(W) == 1
    seen: dict[Any, float] = {}
    for tokens, ids in zip([*first, *(one[::-1] for one in first)], mapping.ids, strict=True):
        for token, own in zip(tokens, ids, strict=True):
            assert abs(seen.setdefault((frozenset(tokens), token), own) - own) <= 2 * mapping.id_error
    ids = np.sort(list(seen.values()))
    assert len(ids) == mapping.contexts
    assert np.diff(ids).min() > mapping.separation > 1e3 * mapping.id_error
    assert max(np.abs(ids)) < mapping.radius
    assert mapping.log_theorem < -1e4


def test_one_token_sequences_have_the_theorem_of_their_own() -> None:
    mapping = ww.memory.contextual_mapping([[[1.0, 0.0]], [[0.0, 3.0]]])
    assert mapping.log_theorem == pytest.approx(np.log(np.sqrt(10) / 2))
    assert mapping.separation > 0.1
