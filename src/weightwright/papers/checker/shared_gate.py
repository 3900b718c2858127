"""The checker's rule for a `GateClaim`: a head computes relu(s) of a number s that all tokens hold alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright.checker.composite.adding import SumOfHeads, Writes
from weightwright.checker.composite.mixing import Keys
from weightwright.checker.composite.stream import Row, exact_numbers, of_one
from weightwright.checker.composite.units import Units
from weightwright.checker.core.complaints import must, require
from weightwright.checker.prompt.prompt_passes import GATE
from weightwright.claims.certificate import LARGEST_KEY
from weightwright.enclosures.balls.midrad import ROOM, SPARE, above, gamma, power_of_two
from weightwright.network import Head
from weightwright.numbers import Bools, Floats
from weightwright.papers.claims.ridge_functions import GateClaim

#: How far below the registers' scores a gate puts the tokens of a query that is to get nothing.
SILENT = 700.0


@dataclass(frozen=True)
class Gate:
    """relu(s) on the active tokens, 0 on the others; written to every coordinate with its weight.

    approximation, rounding: what s itself is off by comes to these. silent: what a token that is not active may get.
    """

    source: int
    weights: Floats  # (coordinates,)
    active: Bools  # (tokens,)
    approximation: float
    rounding: float
    silent: float


def gate(head: Head, keys: Keys) -> Gate:
    """All data tokens have the score beta (s + g) of the query's own token and the value s, the registers constant
    scores and the value 0: the output is s times sigmoid(beta (s + g) + eta). g is a constant of the token: 0 where it
    is active, else so low that no weight is left.

    Lemma: |s sigmoid(beta s + eta) - relu(s)| <= (0.2785 + |eta|) / beta, since with t = beta s + eta the left side is
    |(t - eta) sigmoid(t) - relu(t - eta)| / beta, and relu is 1-Lipschitz. What scores are off by only changes eta.
    """
    m, r, n = keys.machine, len(keys.registers), len(keys.stream.rows)
    must(bool(power_of_two(np.array(head.beta))), f"beta = {head.beta!r} must be a power of two")
    plain = head.window is None and head.mask is None and head.sees.data == "all" and head.sees.registers == (0, r)
    must(plain and r > 0, "a gate sees every token and every register")
    must(head.W_Q.shape[1] == 2 and head.W_V.shape[1] == 1, "a gate's query is (s, 1) and its value one number")
    held = keys.held
    (one,), (source,) = (np.flatnonzero(W) for W in (head.W_Q[:, 1], head.W_V[:, 0]))
    copies = head.W_Q[source, 0] == head.W_Q[one, 1] == head.W_V[source, 0] == 1
    must(bool(copies) and bool((held[r:, one] == 1).all()), "a gate's query is (s, 1) and its value s")
    away = head.W_Q[:, [0]].copy()
    away[source] = 0.0
    g = exact_numbers(held[r:], away, m.dtype)[:, 0]
    must(bool(np.isfinite(g).all()), "what a gate adds to s must be a constant of the token")
    K = exact_numbers(held, head.W_K, m.dtype)
    must(bool((K[r:] == [1.0, 0.0]).all()), "a gate gives every token the score beta s")
    must(bool((K[:r, 0] == 0).all() and np.isfinite(K[:r, 1]).all()), "a gate's registers have constant scores")
    must(bool((keys.registers[:, source] == 0).all()), "a gate's registers have the value 0")
    size, highest = float(keys.stream.sizes(keys.basis)[:, source].max()), float(np.abs(K[:r, 1]).max())
    far = head.beta * (SPARE * size + float(np.abs(g).max()) + highest)
    must(far < 2.0**100, "a gate's scores may overflow")
    # a token that is not active: its scores are this far below the registers'
    low = g[g != 0]
    below = head.beta * (-low.max(initial=-math.inf) * (1 - 4 * m.unit) - SPARE * size - highest) / ROOM
    must(not len(low) or below > SILENT, f"a gate hides its value by {below:.3g} only")
    others = sum((arb(head.beta * c).exp() for c in K[:r, 1].tolist()), arb(0))
    eta = abs(arb(n).log() - others.log()).upper()
    # scores: a product and a sum; the shift by the largest; exp
    score = head.beta * (size + highest)
    must(
        head.beta <= LARGEST_KEY, f"beta = {head.beta!r} of a gate is too large"
    )  # a query that underflows loses beta eta
    off = 2 * m.unit * score * SPARE + 2 * LARGEST_KEY * m.smallest
    log_off = 2 * (off + m.unit * SPARE * (2 * score + 2 * off) + SPARE * m.exp_off)
    approximation = float(((arb(GATE) + eta) / arb(head.beta)).upper())
    lost = (4 * (n + r) + 10) * m.smallest * (1 + size)
    rounding = SPARE * log_off / head.beta + float(gamma(2 * (n + r) + 8, m.unit)) * 3 * size + lost
    silent = n * size * math.exp(-SILENT) + lost
    approximation, rounding, silent = above(np.array([approximation, rounding, silent]), 16).tolist()
    return Gate(int(source), head.W_O[0], g == 0, approximation, rounding, silent)


def agree_gate(head: Head, claim: GateClaim, keys: Keys, units: Units, sum_of: SumOfHeads) -> None:
    """Add what the head of a claim about a gate adds to the stream; a refusal if it is no gate of that unit."""
    unit = claim.unit
    require(0 <= unit < units.count, f"there is no unit {unit} for a gate")
    found = gate(head, keys)
    profile = units.profile(unit)
    require(profile == "relu(x)", f"a gate computes relu(x), not {profile!r}")
    stream = keys.stream
    # every token's number may be the value, and the query's own the score: twice the largest error of any
    apart = np.max([units.apart(row.column(found.source), unit) for row in stream.rows], axis=0)
    incoming = stream.err[:, :, found.source].max(axis=1) + apart
    roundings = 2 * (len(stream.rows) + len(keys.registers)) + 8  # of a mean of all values
    largest = float(stream.sizes(keys.basis)[:, found.source].max())
    size = (SPARE + float(gamma(roundings, keys.machine.unit))) * largest
    own = 2 * ROOM * incoming + np.array([found.approximation, 0.0, found.rounding])
    require(not units.waits(unit), "a gate computes no function of the lemma")
    targets = np.flatnonzero(found.weights)
    writes = Writes(targets, found.weights[targets])
    row, nothing = of_one(units.id(unit)), Row.constant(np.zeros(1))
    for token, active in enumerate(found.active.tolist()):
        error = own if active else np.array([0.0, found.silent, 0.0])
        sum_of.add(token, row if active else nothing, writes, above(error, 8), size, 1, 0)
