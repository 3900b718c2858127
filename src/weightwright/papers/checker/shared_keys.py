"""The checker's rule for one layer of heads whose keys are the tokens of the prompt: token k holds x_k, k w and w.

A score is beta ((f k + g) w.x_i + c_k) in exact arithmetic, whatever w and x are: the rule "nearest" holds for all
heads together, with the errors that a key, its products with x and their sum have. Every other number of the network is
compared with what it must be. docs/certificates.md, "Keys that are tokens".
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb

from weightwright.checker.core.complaints import LARGEST, must, parse_or_refuse, require, terms_hold
from weightwright.checker.core.machine import Machine
from weightwright.checker.core.rounding import SMALLEST, UNIT, StoredHead
from weightwright.checker.one_layer.nearest import examine_nearest
from weightwright.checker.prompt.prompt_tables import float_above
from weightwright.claims.certificate import Certificate, Terms
from weightwright.enclosures.balls.midrad import LOST, above
from weightwright.enclosures.balls.series import largest
from weightwright.limits import hold, tick
from weightwright.network import Attention, Head, Linear, Network, Sees
from weightwright.numbers import Floats
from weightwright.papers.claims.shared_keys_claim import MULTIPLES, SharedKeysClaim


@dataclass(frozen=True)
class SharedHead:
    """Scores beta ((f k + g) w.x + c_k), values v_k, for the tokens k = 0, 1, ..., n - 1."""

    f: float
    g: float
    c: Floats  # (n,)
    v: Floats  # (n,)
    beta: float


def agree_shared_keys(network: Network, certificate: Certificate, claim: SharedKeysClaim) -> None:
    """Refuse (CertificateError) unless every output is within the certificate's bound, for every prompt."""
    require(certificate.kernel == "dot", "networks with a prompt run in kernel 'dot'")
    words = claim.in_words()
    require(certificate.formula == words, f"the network computes {words!r}")
    require(MULTIPLES in certificate.assumptions, "the certificate hides an assumption")
    terms = shared_keys_errors(network, certificate, claim)
    terms_hold(dataclasses.replace(terms, rounding=0.0), arb(terms.rounding), certificate)


def shared_keys_errors(network: Network, certificate: Certificate, claim: SharedKeysClaim) -> Terms:
    """What the terms come to for this network on this domain; a refusal if it is made otherwise."""
    dtype = network.dtype
    require(not Machine(dtype).flushed, f"no rule for prompts in {dtype}, which flushes")
    heads = read_shared_keys(network, claim)
    products, sum_x, size_w = _reach(certificate, network, claim.features)
    stored = [_stored(head, products, sum_x, claim.features, dtype) for head in heads]
    formula = parse_or_refuse(claim.formula, ("x",), "formula")
    found = examine_nearest(stored, formula, -products, products)
    known = found.approximation.is_finite() and found.leakage.is_finite() and found.rounding.is_finite()
    require(known, f"nothing can be shown about the anchors for {claim.formula!r}")
    u, held = UNIT[dtype], sum((largest(abs(v) for v in head.values) for head in stored), arb(0)) + found.rounding
    # all heads are added up, to a coordinate that is 0 before
    adding = ((1 + u) ** (len(heads) + 1) - 1) * held + (len(heads) + 1) * SMALLEST[dtype]
    for head in heads:
        factor = abs(arb(head.f)) * len(head.c) + abs(arb(head.g))
        largest_c = arb(float(np.abs(head.c).max()))
        for size in (factor * size_w, arb(head.beta) * (sum_x + 1), 2 * head.beta * (factor * products + largest_c)):
            require(bool(4 * size < LARGEST[dtype]), f"a number may overflow {dtype}")
    require(bool(4 * held * len(heads[0].v) < LARGEST[dtype]), f"a number may overflow {dtype}")
    return Terms(*(float_above(x) for x in (found.approximation, found.leakage, found.rounding + adding)))


def _reach(certificate: Certificate, network: Network, d: int) -> tuple[arb, arb, arb]:
    """How large w.x, the sum of |x| and an entry of w can be, for any token of the domain."""
    box, shape = certificate.domain, (network.tokens or 1, len(network.inputs))
    require(box.lo.shape == shape, f"a domain of {box.lo.shape} is no box of {shape}")
    require(bool(np.isfinite([box.lo, box.hi]).all() and (box.lo <= box.hi).all()), "the domain is no box")
    sizes = np.maximum(np.abs(box.lo), np.abs(box.hi))
    x, w = sizes[:, :d], sizes[:, 2 * d :].max(axis=0)  # w is the same for all tokens
    products, sum_x = ((x * w).sum(axis=1).max(), x.sum(axis=1).max())
    return arb(float(above(products, d + 2))) + LOST, arb(float(above(sum_x, d + 2))) + LOST, arb(float(w.max()))


def _stored(head: SharedHead, products: arb, sum_x: arb, features: int, dtype: str) -> StoredHead:
    """The head as the rule "nearest" takes it, with what every score is off by.

    k w is rounded once in the prompt; a key f (k w) + g w has two products and a sum; then there are d + 1 products
    with the query and d additions. Each may underflow, by less than the smallest normal number.
    """
    u, tiny, beta = UNIT[dtype], SMALLEST[dtype], arb(head.beta)
    f, g = arb(head.f), arb(head.g)
    grown = (1 + u) ** (features + 8) - 1
    slopes, offsets, off = [], [], []
    for k, c in enumerate(head.c.tolist()):
        tick()
        slopes.append(beta * (f * k + g))
        offsets.append(beta * c)
        size = beta * ((abs(f) * k + abs(g)) * products + abs(arb(c)))
        lost = beta * sum_x * (abs(f) + 4) + beta * (features + 2) + features + 2
        off.append((grown * size + 4 * (1 + grown) * tiny * lost).upper())
    values, zeros, nothing = [arb(v) for v in head.v.tolist()], [arb(0)] * len(head.v), (arb(0), arb(0))
    return StoredHead(slopes, offsets, values, zeros, False, nothing, None, arb(1), dtype, off=off)


def read_shared_keys(network: Network, claim: SharedKeysClaim) -> list[SharedHead]:
    """The heads, or a refusal of a network that is made otherwise."""
    require(
        type(claim.features) is int and type(claim.heads) is int and claim.features > 0 < claim.heads,
        f"features and heads are {claim.features!r} and {claim.heads!r}",
    )
    require(isinstance(claim.formula, str), "the formula is no text")
    must(network.tokens is not None, "the number of tokens must be fixed")
    assert network.tokens is not None
    n, d = network.tokens, claim.features
    D, position = 3 * d + n + 2, slice(3 * d, 3 * d + n)
    must(len(network.inputs) == 3 * d, f"x, k w and w are {3 * d} inputs, not {len(network.inputs)}")
    must(len(network.embed.coordinates) == D, f"{D} coordinates were expected")
    hold(D * (D + n))
    code = np.zeros((n, D))
    code[:, position], code[:, -2] = np.eye(n), 1.0
    _one_term(network.embed, np.eye(3 * d, D), code, "embed")
    must(network.registers.shape == (0, D), "there must be no registers")
    must(len(network.layers) == 1, "one layer was expected")
    (layer,) = network.layers
    must(isinstance(layer, Attention) and layer.residual, "a residual layer of heads was expected")
    assert isinstance(layer, Attention)
    must(len(layer.heads) == claim.heads, f"{claim.heads} heads were expected, not {len(layer.heads)}")
    _one_term(network.read, np.eye(D)[:, -1:], np.zeros((1, 1)), "read")
    return [_read(head, d, n, D, position) for head in layer.heads]


def _read(head: Head, d: int, n: int, D: int, position: slice) -> SharedHead:
    must(head.sees == Sees(data="all") and head.mask is None and head.window is None, "a head must see all tokens")
    must(math.isfinite(head.beta) and head.beta > 0 and math.frexp(head.beta)[0] == 0.5, f"beta = {head.beta!r}")
    hold(4 * D * (d + 1))
    W_Q, W_K, W_V = np.zeros((D, d + 1)), np.zeros((D, d + 1)), np.zeros((D, 1))
    W_Q[:d, :d], W_Q[-2, d] = np.eye(d), 1.0
    _equal(head.W_Q, W_Q, "W_Q")
    must(head.W_K.shape == (D, d + 1) and head.W_V.shape == (D, 1), "the shapes of W_K and W_V")
    f, g, c, v = float(head.W_K[d, 0]), float(head.W_K[2 * d, 0]), head.W_K[position, d], head.W_V[position, 0]
    W_K[d : 2 * d, :d], W_K[2 * d : 3 * d, :d], W_K[position, d] = f * np.eye(d), g * np.eye(d), c
    W_V[position, 0] = v
    _equal(head.W_K, W_K, "W_K")
    _equal(head.W_V, W_V, "W_V")
    _equal(head.W_O, np.eye(D)[-1:], "W_O")
    return SharedHead(f, g, c, v, head.beta)


def _one_term(linear: Linear, A: npt.ArrayLike, C: npt.ArrayLike, what: str) -> None:
    must(len(linear.terms) == 1, f"{what} must be one term")
    term = linear.terms[0]
    must(term.S is None and term.tokens is None, f"{what}: a scale, or a map on the tokens")
    _equal(term.A, A, f"{what}, A")
    _equal(linear.C, C, f"{what}, C")


def _equal(stored: Floats, demanded: npt.ArrayLike, what: str) -> None:
    wanted = np.asarray(demanded)
    must(stored.shape == wanted.shape and bool((stored == wanted).all()), f"{what} is not what it must be")
