"""UA-1: how near softmax is to hardmax, checked against its worst cases in high precision.

Source: universal approximation paper, Lemma F.1. The functions, their proof and the deviations are in `heads.lookup`.
"""

from __future__ import annotations

import math

import numpy as np

from weightwright.approximation.faithful_tables import split_beta
from weightwright.box import Box
from weightwright.certify import certify
from weightwright.claims.certificate import Terms
from weightwright.claims.target import Composite
from weightwright.heads.lookup import beta_for
from weightwright.heads.registers import HIDDEN, weight_at
from weightwright.network import Sees, Term
from weightwright.numbers import Floats
from weightwright.papers.claims.ridge_functions import RidgeFunctions
from weightwright.papers.kit.arguments import one_given, positive, whole
from weightwright.papers.kit.constructed import described
from weightwright.papers.kit.named_stream import NamedStream, features
from weightwright.runtime import AttentionNetwork


def nearly_hardmax(
    n: int, gap: float, *, error: float | None = None, beta: float | None = None, width: float = 1.0
) -> AttentionNetwork:
    """One head that turns n scores into nearly the one-hot vector of the largest: X (1, n) -> softmax(beta X).

    Statement: on all scores with x_0 in [gap, gap + width] and the others in [-width, 0] every entry is within
    (n-1) e^(-beta gap) of (1, 0, ..., 0).

    n: how many scores there are.
    gap: what the largest leads all others by.
    error: give it, or beta.
    width: how far scores may spread.

    Source: Lemma F.1, unique largest entry. The query is the scores, the keys are one-hot registers.
    Cost: 1 layer, 1 head, n registers, width 3 n + 1.

    >>> net = nearly_hardmax(10, 0.5, error=1e-6)
    >>> net.certificate.status, net.certificate.bound < 1e-6
    ('PROVEN', True)
    """
    whole("n", n, 2)
    for name, value in (("gap", gap), ("error", error), ("beta", beta), ("width", width)):
        positive(name, value)
    one_given("error or beta", error, beta)
    wanted = beta_for(0.99 * error, gap, n) if error is not None else float(beta or 1.0)
    power, factor = split_beta(max(wanted, 2.0**-10), "float64")
    stream = NamedStream({"x": n, "key": n, "weight": n, "data": None})
    scores, one, hidden = np.eye(n, n + 1), np.eye(n), weight_at(n + 1, -1, HIDDEN / power)
    head = stream.head(
        "softmax of the scores",
        power,
        Sees((0, n), "none"),
        query={"x": scores, "data": weight_at(n + 1, -1, 1.0)},
        key={"key": factor * scores, "data": hidden},  # a plain Transformer sees the data token too
        value={"key": one},
        result={"weight": one},
    )
    embed, C, registers = Term(np.eye(n, stream.width)), stream.tokens(1, {"data": 1.0}), stream.tokens(n, {"key": one})
    network = stream.network(features("x", n), embed, C, [[head]], "weight", registers, tokens=1)
    lo, hi = np.full((1, n), -float(width)), np.zeros((1, n))
    lo[0, 0], hi[0, 0] = gap, gap + width
    one_hot = np.eye(n)[0]
    ridge = RidgeFunctions((), np.zeros((0, n)), np.zeros(0), np.zeros((n, n)), one_hot)
    tail = (n - 1) * math.exp(-power * factor * gap) * (1 + 1e-3)
    terms = Terms(tail, 1e-250, 2.0**-45 * n)
    net = certify(network, Composite(ridge, ()), Box(lo, hi), error, terms)

    def probes(rng: np.random.Generator, count: int) -> Floats:
        X = rng.uniform(lo, hi, (count, 1, n))
        X[::2] = np.where(rng.random(X[::2].shape) < 0.5, lo, hi)
        X[0] = np.where(np.arange(n) == 0, lo, hi)  # all others exactly a gap below
        return X

    def reference(X: Floats) -> Floats:
        return np.broadcast_to(one_hot, X.shape).copy()

    chosen = {"beta": power * factor, "n": float(n)}
    printed = {"beta": (math.log(n - 1) - math.log(error)) / gap} if error is not None else {}
    return described(net, "UA-1", "faithful", chosen, printed, reference, probes)
