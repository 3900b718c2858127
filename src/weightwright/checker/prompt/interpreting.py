"""The checker's rule for the interpreter: for all programs and inputs within its bounds at once.

A score of layer 0 is kappa_j w.x + offset_j up to what a sum of d + 1 products rounds, whatever w and x are: the rule
for tables holds, with larger errors of scores. Layer 1 is attention between tokens of which these are the errors.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from flint import arb

from weightwright.checker.composite.attending import Operand, attention_errors
from weightwright.checker.core.complaints import must, parse_or_refuse, require, terms_hold
from weightwright.checker.core.machine import Machine
from weightwright.checker.core.rounding import SMALLEST, UNIT, StoredHead
from weightwright.checker.one_layer.layer import Target, covers, layer_holds
from weightwright.checker.one_layer.stored import OneLayer
from weightwright.checker.prompt.interpreter_layers import ExpectedLayers
from weightwright.claims.certificate import Certificate, Leaf, Terms
from weightwright.claims.kinds import MASKED
from weightwright.claims.program_claim import (
    CODES,
    ENTRIES,
    PRODUCTS,
    AnchorTable,
    InterpreterClaim,
)
from weightwright.enclosures.balls.midrad import ROOM, SPARE, above, gamma
from weightwright.network import Network
from weightwright.numbers import Bools, Floats

#: Nothing that is computed may be larger.
LARGE = 2.0**60


def agree_interpreter(network: Network, certificate: Certificate, claim: InterpreterClaim) -> None:
    """Refuse (CertificateError) unless every output is within the certificate's bound, for every prompt."""
    _well_formed(claim, network.dtype)
    said = claim.in_words()
    require(certificate.formula == said, f"the network computes {said!r}")
    hidden = {PRODUCTS, CODES, MASKED, *((ENTRIES,) if claim.times else ())} - set(certificate.assumptions)
    require(not hidden, f"the certificate hides that {min(hidden, default='')}")
    layers = ExpectedLayers(claim)
    layers.agree(network)
    _agree_domain(certificate, claim, layers)
    for table in claim.tables:
        covers(table.claim, _layer(claim, table, network.dtype), table.claim.lo, table.claim.hi, (), network.dtype)
        target = Target(parse_or_refuse(table.claim.formula, ("s",), "a claim's formula"))
        layer_holds(_layer(claim, table, network.dtype), table.claim, [target], True, (), floats=False)
    terms = interpreter_errors(claim, network.dtype)
    terms_hold(dataclasses.replace(terms, rounding=0.0), arb(terms.rounding), certificate)


def interpreter_errors(claim: InterpreterClaim, dtype: str) -> Terms:
    """What the terms come to if the claims about the tables hold."""
    m, T, h, d = Machine(dtype), claim.tokens, claim.head_dim, claim.features
    keys, queries, values = (_operand(table, entries) for table, entries in zip(claim.tables, (h, h, d), strict=True))
    score = float(above((queries.size @ keys.size.T).max(), h))
    hidden = -claim.hidden + SPARE * float(gamma(h + claim.codes + 2, m.unit)) * (score + claim.hidden)
    largest = np.full((1, d), claim.tables[2].claim.hi)
    found = attention_errors(queries, keys, values, _sees_one, (-largest, largest), hidden, T, 0, m)
    size = float(found.sizes.max())
    require(claim.heads * size < LARGE, "a number may overflow")
    total = claim.heads * ROOM * found.err.max(axis=(1, 2))
    # all heads add to 0, and in a loop the sum to x
    summed = claim.heads * size + (claim.x_max if claim.times else 0.0)
    adding = float(gamma(claim.heads + 1, m.unit)) * ROOM * summed + (claim.heads + 1) * m.smallest
    approximation, leakage, rounding = (math.nextafter(float(x), math.inf) for x in above(total, 4))
    return Terms(approximation, leakage, float(above(np.array(rounding + adding), 2)))


def _sees_one(first: int, last: int) -> Bools:
    """Whatever a token sees, it is alike: one key stands for all."""
    return np.ones((last - first, 1), dtype=bool)


def _operand(table: AnchorTable, entries: int) -> Operand:
    """Entries as layer 0 wrote them on any token: within the claim's terms of numbers within its ends."""
    terms = table.claim.terms
    errors = np.array([terms.approximation, terms.leakage, terms.rounding])
    size = float(above(np.array(table.claim.hi + errors.sum()), 4))
    return Operand(np.tile(errors[:, None, None], (1, 1, entries)), np.full((1, entries), size))


def _layer(claim: InterpreterClaim, table: AnchorTable, dtype: str) -> OneLayer:
    return OneLayer([head_of(claim, table, dtype)], [table.beta], 0.0, 1.0, 0.0, 0.0)


def head_of(claim: InterpreterClaim, table: AnchorTable, dtype: str) -> StoredHead:
    beta, zeros = arb(table.beta), [arb(0)] * len(table.kappa)
    return StoredHead(
        [beta * k for k in table.kappa.tolist()],
        [beta * c for c in table.offsets.tolist()],
        [arb(v) for v in table.values.tolist()],
        zeros,
        False,
        (arb(0), arb(0)),
        beta * claim.away if claim.tokens > len(table.kappa) else None,
        arb(1),
        dtype,
        off=_score_errors(claim, table, dtype),
    )


def _score_errors(claim: InterpreterClaim, table: AnchorTable, dtype: str) -> list[arb]:
    """beta (sum of x_c (kappa_j w_c) + offset_j): a key rounds, its products with x, and up to d additions."""
    u, tiny, beta, d = UNIT[dtype], SMALLEST[dtype], arb(table.beta), claim.features
    x, w = arb(claim.x_max), arb(claim.w_max)
    grown = (1 + u) ** (d + 3) - 1
    out = []
    for kappa, offset in zip(table.kappa.tolist(), table.offsets.tolist(), strict=True):
        size = beta * (abs(arb(kappa)) * d * x * w + abs(arb(offset)))
        lost = beta * (d * x + 1) + abs(arb(kappa)) * d * w + d + 2
        out.append((grown * size + 2 * (1 + grown) * tiny * lost).upper())
    return out


def _agree_domain(certificate: Certificate, claim: InterpreterClaim, layers: ExpectedLayers) -> None:
    g, times = claim.codes, max(claim.times, 1)
    ends = np.concatenate([np.full(claim.features, claim.x_max), np.full(times * layers.weights, claim.w_max)])
    hi = np.concatenate([ends, np.ones(g), np.zeros(times * g)])
    lo = np.concatenate([-ends, np.zeros(g), np.full(times * g, -claim.hidden)])
    box = certificate.domain
    same = box.lo.shape == (layers.prompt,) and bool((box.lo == lo).all() and (box.hi == hi).all())
    require(same, "the domain is not that of the claim")


def _well_formed(claim: InterpreterClaim, dtype: str) -> None:
    sizes = (claim.tokens, claim.features, claim.head_dim, claim.heads, claim.codes)
    whole = all(isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= 2**20 for n in sizes)
    require(whole and isinstance(claim.stacked, bool), f"an interpreter of the sizes {sizes}")
    times = isinstance(claim.times, int) and not isinstance(claim.times, bool) and 0 <= claim.times <= 2**10
    require(times, f"an interpreter that runs {claim.times!r} programs")
    must(dtype in ("float64", "float32"), f"an interpreter in {dtype}")
    numbers = (claim.x_max, claim.w_max, claim.hidden, -claim.away)
    require(all(isinstance(x, float) and 0 < x < LARGE for x in numbers), f"an interpreter with the bounds {numbers}")
    require(len(claim.tables) == 3, "an interpreter has tables for keys, queries and values")
    if claim.stacked:
        require(claim.tokens >= max(claim.head_dim, claim.features), "a row of weights for every token, at most")
    for table in claim.tables:
        _table(table, claim.tokens)


def _table(table: AnchorTable, tokens: int) -> None:
    p, leaf = len(table.kappa), table.claim
    arrays: tuple[Floats, ...] = (table.kappa, table.offsets, table.values)
    fits = all(a.shape == (p,) and a.dtype == np.float64 and bool((np.abs(a) < LARGE).all()) for a in arrays)
    require(fits and 1 <= p <= tokens, "the anchors of a table do not fit the tokens")
    beta = isinstance(table.beta, float) and 0 < table.beta < LARGE and math.frexp(table.beta)[0] == 0.5
    require(beta, f"beta = {table.beta!r} is no power of two")
    ends = isinstance(leaf, Leaf) and 0 < leaf.hi < LARGE and leaf.lo == -leaf.hi
    require(ends and leaf.formula == "s" and leaf.rule == "taylor", "a table computes s between two ends")
