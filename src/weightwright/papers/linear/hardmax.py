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
from weightwright.heads.registers import HIDDEN
from weightwright.network import Attention, Head, Linear, Network, Sees, Term, selection
from weightwright.numbers import Floats
from weightwright.papers.claims.ridge_functions import RidgeFunctions
from weightwright.papers.kit.arguments import positive, whole
from weightwright.papers.kit.constructed import About
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
    ridge = RidgeFunctions((), np.zeros((0, n)), np.zeros(0), np.zeros((n, n)), one_hot)
    tail = (n - 1) * math.exp(-power * factor * gap) * (1 + 1e-3)
    terms = Terms(tail, 1e-250, 2.0**-45 * n)
    net = certify(network, Composite(ridge, ()), Box(lo, hi), error, terms)
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
