"""Networks of ridge functions whose numbers overflow, underflow or are none; most were once PROVEN."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
from support.forging import about_composite, named, one_head, refused, with_values
from support.formulas import canonical
from support.networks import attending, by_hand, linear
from support.one_head import local_text
from support.units import identity_unit

import weightwright as ww
from weightwright.claims.target import Composite
from weightwright.network import Mixed
from weightwright.papers.claims.ridge_functions import GateClaim, RidgeFunctions

HALF_OPEN = ww.Box(np.array([-1.0]), np.array([1.0]))


def lin(name: str, factor: float) -> Any:
    return linear((name,), [[factor]])


def test_a_token_of_a_gate_that_holds_another_number(tmp_path: Path) -> None:
    names = ("s", "one", "padding", "out")
    C, A = np.zeros((2, 4)), np.zeros((1, 4))
    C[:, 1], A[0, 0] = 1.0, 2.0**1023
    embed = linear(names, A, C, tokens=Mixed(np.array([[1.0, 0.0], [-1.0, 0.0]])))
    registers = np.eye(4)[[2]]
    W_Q, W_K = np.zeros((4, 2)), np.zeros((4, 2))
    W_Q[0, 0] = W_Q[1, 1] = W_K[1, 0] = 1.0
    layer = attending(names, W_Q, W_K, named(names, s=1), np.eye(4)[[3]], 2.0**20, (0, 1))
    net = by_hand(("x",), embed, (layer,), ("out",), registers=registers, tokens=2)
    outputs = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    ridge = RidgeFunctions(("relu(x)",), np.array([[2.0**1023, 0.0, 0.0]]), np.zeros(1), outputs, np.zeros(2))
    h = 2.0**-1013
    composite = Composite(ridge, (), (GateClaim(0, 0, 0),))
    box = ww.Box(np.array([-h]), np.array([h]))
    refused(*about_composite(net, composite, box, (1e-3, 1e-9, 1e-3)), tmp_path, "bounded")


def test_a_coordinate_that_nobody_reads_overflows(tmp_path: Path) -> None:
    honest = ww.constructions.truncated_linear([[1.0]], [0.1], -1.0, 1.0, (-4, 4), p=16)
    net, certificate = honest.network, honest.certificate
    assert certificate is not None

    def longer(W: np.ndarray) -> np.ndarray:
        return np.concatenate([W, np.zeros((1, W.shape[1]))])

    (term,), layer = net.embed.terms, net.layers[0]
    A, C = (np.concatenate([part, np.zeros((len(part), 1))], axis=1) for part in (term.A, net.embed.C))
    A[0, -1] = 2.0**1023
    names, terms = (*net.embed.coordinates, "junk"), (dataclasses.replace(term, A=A),)
    embed = dataclasses.replace(net.embed, coordinates=names, terms=terms, C=C)
    (head,) = layer.heads
    head = dataclasses.replace(head, W_Q=longer(head.W_Q), W_K=longer(head.W_K), W_V=longer(head.W_V))
    layers = (dataclasses.replace(layer, heads=(head,)),)
    net = dataclasses.replace(net, embed=embed, registers=np.zeros((0, A.shape[1])), layers=layers)
    refused(net, certificate, tmp_path, "overflow")


def test_values_in_a_column_that_nobody_reads(tmp_path: Path) -> None:
    honest = ww.constructions.truncated_linear([[1.0, -1.0]], [0.1], -1.0, 1.0, (-1, 1), tol=1e-4, method="spectral")
    net, certificate = honest.network, honest.certificate
    assert certificate is not None
    layer = net.layers[0]
    head = layer.heads[0]
    W_V, W_O = (np.zeros((len(head.W_V), 2)), np.zeros((2, head.W_O.shape[1])))
    W_V[:, :1], W_O[:1] = head.W_V, head.W_O
    W_V[int(np.flatnonzero(head.W_K[:, 0])[0]), 1] = 1.7e308
    layer = dataclasses.replace(layer, heads=(dataclasses.replace(head, W_V=W_V, W_O=W_O), *layer.heads[1:]))
    net = dataclasses.replace(net, layers=(layer,))
    refused(net, certificate, tmp_path, "overflow")


def test_a_weight_that_leads_below_the_normal_range(tmp_path: Path) -> None:
    anchors, low = np.linspace(-1, 1, 65), 2.0**-149
    names = ("s", "one", "key", "offset", "value", "out")
    part, registers, layer = identity_unit(names, anchors, dtype="float32")
    profile = canonical(f"x/{2**149}", ("x",))
    terms = part.claim.terms
    tiny = [math.nextafter(10 * x * low, math.inf) for x in (terms.approximation, terms.leakage, terms.rounding)]
    claim = dataclasses.replace(
        part.claim,
        formula=local_text(profile, 0.0, 1.0, 0.0),
        terms=with_values(terms, *tiny),
        lipschitz=math.nextafter(part.claim.lipschitz * low * 1.001, math.inf),
    )
    heads = tuple(dataclasses.replace(head, W_O=np.full((1, 1), low)) for head in layer.heads)
    net = one_head(names, registers, ())
    layers = (dataclasses.replace(layer, coordinates=("out",), heads=heads, residual=False), lin("up", 2.0**75))
    net = dataclasses.replace(net, layers=layers, read=lin("o", 2.0**74), dtype="float32")
    ridge = RidgeFunctions((profile,), np.array([[1.0, 0.0]]), np.zeros(1), np.array([[0.0, 1 / low]]), np.zeros(1))
    part = dataclasses.replace(part, profile=profile, claim=claim)
    whole = tuple(float(x / low * 4) for x in tiny)
    composite = Composite(ridge, (part.at(0, [0], [0]),))
    refused(*about_composite(net, composite, HALF_OPEN, whole, masked=True), tmp_path, "rounding")
