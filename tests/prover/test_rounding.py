"""The rounding model alone: what torch computes against the exact output of the *stored* weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flint import arb, ctx
from support.one_head import one_table

import weightwright as ww
from weightwright.checker.core.rounding import StoredHead, moved_by
from weightwright.checker.one_layer.head import examine
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.expressions import parse
from weightwright.heads.registers import Query, Table
from weightwright.prover import Sum, first_edges, prove
from weightwright.prover.rounding import any_order

FORMULA = parse("s", ("s",))


def random_table(rng: np.random.Generator) -> Table:
    p = int(rng.integers(2, 80))
    keys = np.sort(rng.normal(size=p)) * rng.choice([0.1, 1.0, 10.0])
    values = rng.normal(size=p) * rng.choice([1.0, 1e3], size=p)
    return Table(keys, -(keys**2) / 4 + rng.normal(size=p) * 0.1, values, beta=float(2.0 ** rng.integers(-2, 14)))


def one_head(table: Table) -> Sum:
    return Sum((table.anchors(Query(0.0, 1.0)),))


def exact_output(table: Table, s: float) -> arb:
    before, ctx.prec = ctx.prec, 300
    try:
        scores = [arb(table.beta) * (arb(k) * s + arb(c)) for k, c in zip(table.keys, table.offsets, strict=True)]
        weights = [(z - scores[0]).exp() for z in scores]
        return sum((w * v for w, v in zip(weights, table.values, strict=True)), arb(0)) / sum(weights, arb(0))
    finally:
        ctx.prec = before


@pytest.mark.few(20)
@pytest.mark.parametrize("seed", range(40))
def test_computed_output_is_within_the_rounding_term(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(rng)
    lo = float(rng.uniform(-1, 0.5))
    hi = lo + float(10.0 ** -rng.integers(1, 6))
    net = ww.AttentionNetwork(one_table(table))
    bound = prove(
        one_head(table), FORMULA, first_edges(one_head(table), lo, hi), "float64", target=np.inf
    ).terms.rounding
    assert np.isfinite(bound)
    s = np.concatenate([[lo, hi], rng.uniform(lo, hi, 200)])
    outputs = net(torch.tensor(s)[:, None])[:, 0].tolist()
    worst = max(abs(arb(y) - exact_output(table, x)) for x, y in zip(s.tolist(), outputs, strict=True))
    assert worst <= bound, f"{float(worst)} against {bound}"


@pytest.mark.parametrize("seed", range(10))
def test_prover_and_checker_reach_about_the_same_rounding_term(seed: int) -> None:
    """Two programs, one model: the checker's number is at most the prover's, and not far below."""
    rng = np.random.default_rng(100 + seed)
    table = random_table(rng)
    lo, hi = 0.25, 0.25 + 2.0**-8
    claimed = prove(one_head(table), FORMULA, first_edges(one_head(table), lo, hi), "float64", target=np.inf)
    with ctx.workprec(128):
        (anchors,) = one_head(table).heads
        columns = (anchors.slopes, anchors.offsets, anchors.values, anchors.tilts)
        stored = StoredHead(
            *([arb(x) for x in column.tolist()] for column in columns), True, (arb(0), arb(0)), None, arb(1), "float64"
        )
        found = [examine([stored], arb(0), FORMULA, arb(a), arb(b)).rounding for a, b in claimed.boxes.tolist()]
        assert all(x <= claimed.terms.rounding for x in found)
        assert max(float(x) for x in found) >= 0.9 * claimed.terms.rounding


@pytest.mark.few(10)
@pytest.mark.parametrize("seed", range(20))
def test_sums_in_any_order_stay_within_the_bound(seed: int) -> None:
    """float32 sums in random tree orders, so that the errors are large enough to see exactly in float64."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 200))
    terms = (10.0 ** rng.uniform(-12, 0, n)).astype(np.float32)
    bound = float(any_order(Interval.exact(terms.astype(np.float64)[None]), Interval.exact(2.0**-24)).hi[0])
    exact = float(np.sum(np.sort(terms.astype(np.longdouble))))
    for _ in range(50):
        pool = list(rng.permutation(terms))
        while len(pool) > 1:
            i, j = sorted(rng.choice(len(pool), 2, replace=False))
            pool[i] = np.float32(pool[i] + pool[j])
            del pool[j]
        assert abs(float(pool[0]) - exact) <= bound


def test_exp_and_softmax_are_as_accurate_as_assumed() -> None:
    """The assumption that certificates name: exp within 4 units in the last place, on this machine."""
    x = torch.tensor(np.random.default_rng(0).uniform(-700, 0, 20_000))
    with ctx.workprec(128):
        for t, y in zip(x.tolist(), torch.exp(x).tolist(), strict=True):
            assert abs(arb(y) - arb(t).exp()) <= 4 * np.spacing(y)
        pair = torch.softmax(torch.stack([x, torch.zeros_like(x)], -1), -1)[:, 0]
        for t, y in zip(x.tolist(), pair.tolist(), strict=True):
            sigmoid = 1 / (1 + (-arb(t)).exp())
            assert abs(arb(y) / sigmoid - 1) <= (2 * 4 + 4) * 2.0**-53


def test_weights_that_are_quite_unsure_move_a_mean_by_no_more_than_the_balance_says() -> None:
    """Against the worst weights there are: up for values above some number, down for those below it."""
    rng = np.random.default_rng(5)
    with ctx.workprec(128):
        for _ in range(40):
            count = int(rng.integers(2, 7))
            p, values = rng.dirichlet(np.ones(count)), rng.uniform(-1, 1, count) * 10.0 ** rng.integers(-6, 1, count)
            off = rng.choice([1e-6, 0.1, 2.0, 8.0], count)
            output = float(p @ values)
            orders = [(values > t) for t in (*values, -np.inf)] + [(values < t) for t in (*values, np.inf)]
            weights = [p * np.exp(np.where(raised, off, -off)) for raised in orders]
            worst = max(abs(float(w @ values / w.sum()) - output) for w in weights)
            zeros = [arb(0)] * count
            head = StoredHead(
                zeros, zeros, [arb(v) for v in values], zeros, False, (arb(0), arb(0)), None, arb(1), "float64"
            )
            bound = moved_by(
                head, [arb(x) for x in p], [arb(d) for d in off], [arb(abs(v - output)) for v in values],
                [arb(abs(v)) for v in values], arb(abs(output)), int(p.argmax()),
            )  # fmt: skip
            assert worst <= bound
            assert float(bound) <= 20 * worst + 1e-12
