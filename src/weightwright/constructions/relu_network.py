"""UA-8: sequence to sequence in the infinity norm, by two layers that emulate a ReLU network.

Statement. For any continuous f: R^{n x d} -> R^{n x d_out} on a box and any error there are two multi-head attention
layers with linear maps that are within the error of f everywhere. The first computes w_{k,j} . x_j for every hidden unit
k and token j (truncated at values that are never reached), the linear map adds them up over the tokens, the second
computes the ReLU of the sums, and the last linear map their combination.

Source: universal approximation paper, Theorem F.2, G.22, G.23. Deviations:
- Pinkus only says that a ReLU network exists (errata): here it is exact for piecewise linear targets with one level of
  kinks, built of plane waves with a proven error for smooth ones, or the caller's own;
- the error is taken the other way round (errata): the second layer is within e_2 of relu for all inputs, and relu is
  1-Lipschitz, so errors of the first layer pass with factor 1. No norm of W_K^T W_Q enters, and p need not grow with n;
- the anchors stand on registers, so that n tokens query p keys and not p tokens p keys.
Error: sum over k of |W_2[r, k]| (n e_1 + e_2), what the ReLU network itself is off by, and rounding.
Cost: 2 layers, 2 m heads (spectral: as many heads per unit as the fits have), m the number of hidden units.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weightwright.box import Box
from weightwright.certificates.composites import IDENTITY, Composite, Ridge, TargetClaim
from weightwright.certificates.prover.rounding import UNIT
from weightwright.constructions.about import About, Method
from weightwright.constructions.certify import certified
from weightwright.constructions.models import positive, token_box, whole
from weightwright.constructions.parts import Part, faithful_part, spectral_part
from weightwright.constructions.registers import part_heads
from weightwright.constructions.relu_target import from_module, piecewise_linear, plane_waves
from weightwright.constructions.ridges import evaluate, ridge_probes
from weightwright.errors import BudgetError, UnsupportedOperation
from weightwright.network import Attention, Linear, Network, Term
from weightwright.network.layers import Floats
from weightwright.runtime import AttentionNetwork

#: Most anchors of one head, unless the caller allows more.
MOST_ANCHORS = 100_000


def relu_network(
    target: Any,
    n: int,
    domain: Box | tuple[float, float],
    *,
    tol: float,
    method: Method = "spectral",
    max_anchors: int = MOST_ANCHORS,
) -> AttentionNetwork:
    """X (n, d) -> (n, outputs) within tol everywhere on the domain.

    target: formulas of x0, x1, ... (the inputs token by token), one for each output token by token; or a torch
    Sequential(Linear, ReLU, Linear) of n d inputs. Formulas are taken exactly where they have one level of kinks, else
    by plane waves, which use up to 80 per cent of tol.

    >>> net = relu_network(["min(x0, x1)", "max(x0, x1)"], 2, (-1, 1), tol=1e-6)  # sorts two tokens
    >>> net.certificate.status, net.certificate.bound < 1e-6
    ('PROVEN', True)
    """
    whole("n", n, 1)
    positive("tol", tol)
    if method not in ("faithful", "spectral"):
        raise ValueError(f"method must be 'faithful' or 'spectral', not {method!r}")
    ridge, claim, box = _target(target, n, domain, tol)
    m, N = len(ridge.profiles), box.lo.size
    W_1 = ridge.arguments[:, :N]
    left = tol - (claim.error if claim is not None else 0.0)
    weight = max(float(np.abs(ridge.outputs[:, N:]).sum(axis=1).max(initial=0.0)), 1e-300)
    each = 0.9 * left / (2 * weight)  # for a relu, and for the sum of n identities
    largest = np.maximum(np.abs(box.lo), np.abs(box.hi))
    per_token = (np.abs(W_1) * largest.ravel()).reshape(m, n, -1).sum(axis=2)  # (m, n)
    room = 1 + 256 * (N + 8) * UNIT["float64"]
    first, second = float(per_token.max(initial=1e-9)), float((per_token.sum(axis=1) + np.abs(ridge.shifts)).max(initial=1e-9))
    make = _faithful(max_anchors) if method == "faithful" else spectral_part
    identity = make("x", -first * room - each, first * room + each, each / n)
    rectifier = make("relu(x)", -second * room - 2 * each, second * room + 2 * each, each)
    network, parts = _network(ridge, box.lo.shape, identity, rectifier)
    net = certified(network, Composite(ridge, parts, target=claim), box, tol)
    assert net.certificate is not None
    chosen = {"units": float(m), "p": float(identity.keys + rectifier.keys), "H": float(len(list(network.heads)))}
    net.about = About(
        "UA-8",
        method,
        chosen,
        {"p": float(n) ** 2.5, "H": 2.0 * m},
        {"everywhere": net.certificate.bound, "ReLU network": claim.error if claim is not None else 0.0},
        lambda x: evaluate(ridge, x) if claim is None else _formulas(claim, x),
        ridge_probes(ridge, box),
    )
    return net
