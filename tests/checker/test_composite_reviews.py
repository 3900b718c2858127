"""Forged certificates of several layers that a review got past the checker: PROVEN before the repairs, but for the
last, which then said something else."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

import weightwright as ww
from weightwright.approximation.faithful_tables import faithful_part
from weightwright.approximation.table import part_heads
from weightwright.claims.certificate import Certificate, Terms, assumptions, local_formula
from weightwright.claims.files import network_digest, write
from weightwright.claims.target import (
    IDENTITY,
    MASKED,
    Composite,
    GateClaim,
    RidgeFunctions,
    TokenModels,
    assumed,
    in_words,
)
from weightwright.constructions import truncated_linear
from weightwright.expressions import parse, to_text
from weightwright.network import Attention, Head, Linear, Mixed, Network, Sees, Term, selection
from weightwright.numbers import Floats

Forged = tuple[Network, Certificate]
HALF_OPEN = ww.Box(np.array([-1.0]), np.array([1.0]))


def refused(case: Forged, tmp_path: Path, match: str) -> None:
    path = tmp_path / "forged.safetensors"
    write(path, *case)
    with pytest.raises(ww.CertificateError, match=match):
        ww.check(path)


def forged(
    network: Network,
    composite: Composite,
    box: ww.Box,
    terms: tuple[float, ...] = (0.0, 0.0, 0.0),
    masked: bool = False,
) -> Forged:
    said = assumptions(network.dtype, "dot") + assumed(composite) + ((MASKED,) if masked else ())
    bound = sum(terms) * (1 + 2.0**-30)
    words, digest = in_words(composite), network_digest(network)
    return network, Certificate(
        words, box, network.dtype, "dot", bound, Terms(*terms), (), digest, said, composite=composite
    )


def affine(weights: list[list[float]] | Floats) -> Composite:
    W = np.array(weights, dtype=float)
    return Composite(RidgeFunctions((), np.zeros((0, W.shape[1])), np.zeros(0), W, np.zeros(len(W))), ())


def lin(name: str, factor: float) -> Linear:
    return Linear((name,), (Term(np.array([[factor]])),), np.zeros((1, 1)))


def named(names: tuple[str, ...], **values: float) -> Floats:
    return np.array([[float(values.get(name, 0.0))] for name in names])


def one_head(names: tuple[str, ...], registers: Floats, layers: tuple[Attention, ...], tokens: int = 1) -> Network:
    """x is read, "one" is 1, "k" is -1000 on data tokens where there is such a coordinate."""
    C, A = np.zeros((1, len(names))), np.zeros((1, len(names)))
    A[0, 0], C[0, names.index("one")] = 1.0, 1.0
    if "k" in names:
        C[0, names.index("k")] = -1000.0
    return Network(("x",), Linear(names, (Term(A),), C), registers, layers, selection(names, ("out",)), tokens=tokens)


def moved(
    names: tuple[str, ...],
    query: str | tuple[str, str],
    key: str,
    value: str,
    to: str,
    sees: Sees,
    mask: np.ndarray | None = None,
) -> Attention:
    """A layer of one head that adds a coordinate of what is seen to another; a query of two is their sum."""
    W_Q = named(names, **dict.fromkeys((query,) if isinstance(query, str) else query, 1.0))
    W_O = np.eye(len(names))[[names.index(to)]]
    head = Head(f"{value} to {to}", W_Q, named(names, **{key: 1}), named(names, **{value: 1}), W_O, 1.0, sees, mask)
    return Attention(names, (head,))


def test_a_nan_is_no_small_number(tmp_path: Path) -> None:
    tiny = ww.Box(np.array([-(2.0**-600)]), np.array([2.0**-600]))
    net = Network(("x",), lin("y", 2.0**600), np.zeros((0, 1)), (lin("z", 2.0**600),), lin("o", 1.0), tokens=1)
    refused(forged(net, affine([[0.0]]), tiny), tmp_path, "overflow|bounded")
    wide = ww.Box(np.array([[9.0], [9.0]]), np.array([[10.0], [10.0]]))
    net = Network(("x",), lin("y", 0.0), np.zeros((0, 1)), (), lin("o", 1.0), tokens=2)
    refused(forged(net, affine([[1e308, -1e308], [1e308, -1e308]]), wide), tmp_path, "bounded")


def test_a_token_of_a_gate_that_holds_another_number(tmp_path: Path) -> None:
    names = ("s", "one", "padding", "out")
    C, A = np.zeros((2, 4)), np.zeros((1, 4))
    C[:, 1], A[0, 0] = 1.0, 2.0**1023
    embed = Linear(names, (Term(A, Mixed(np.array([[1.0, 0.0], [-1.0, 0.0]]))),), C)
    registers = np.eye(4)[[2]]
    W_Q, W_K = np.zeros((4, 2)), np.zeros((4, 2))
    W_Q[0, 0] = W_Q[1, 1] = W_K[1, 0] = 1.0
    head = Head("gate", W_Q, W_K, named(names, s=1), np.eye(4)[[3]], 2.0**20, Sees((0, 1), "all"))
    net = Network(("x",), embed, registers, (Attention(names, (head,)),), selection(names, ("out",)), tokens=2)
    outputs = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    ridge = RidgeFunctions(("relu(x)",), np.array([[2.0**1023, 0.0, 0.0]]), np.zeros(1), outputs, np.zeros(2))
    h = 2.0**-1013
    composite = Composite(ridge, (), (GateClaim(0, 0, 0),))
    box = ww.Box(np.array([-h]), np.array([h]))
    refused(forged(net, composite, box, (1e-3, 1e-9, 1e-3)), tmp_path, "bounded")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numbers_that_overflow_in_the_dtype(dtype: str, tmp_path: Path) -> None:
    box = ww.Box(np.array([1.0]), np.array([2.0**30]))
    net = Network(("x",), lin("y", 2.0**100), np.zeros((0, 1)), (), lin("o", 2.0**-100), tokens=1, dtype=dtype)
    refused(forged(net, affine([[1.0]]), box, (0.0, 0.0, 2.0**25)), tmp_path, "overflow")


def test_a_coordinate_that_nobody_reads_overflows(tmp_path: Path) -> None:
    honest = truncated_linear([[1.0]], [0.1], -1.0, 1.0, (-4, 4), p=16)
    net, certificate = honest.network, honest.certificate
    assert certificate is not None

    def longer(W: Floats) -> Floats:
        return np.concatenate([W, np.zeros((1, W.shape[1]))])

    (term,), layer = net.embed.terms, net.layers[0]
    assert isinstance(layer, Attention)
    A, C = (np.concatenate([part, np.zeros((len(part), 1))], axis=1) for part in (term.A, net.embed.C))
    A[0, -1] = 2.0**1023
    embed = Linear((*net.embed.coordinates, "junk"), (dataclasses.replace(term, A=A),), C)
    (head,) = layer.heads
    head = dataclasses.replace(head, W_Q=longer(head.W_Q), W_K=longer(head.W_K), W_V=longer(head.W_V))
    layers = (dataclasses.replace(layer, heads=(head,)),)
    net = dataclasses.replace(net, embed=embed, registers=np.zeros((0, A.shape[1])), layers=layers)
    refused((net, dataclasses.replace(certificate, network=network_digest(net))), tmp_path, "overflow")


def test_coefficients_that_underflow(tmp_path: Path) -> None:
    box = ww.Box(np.array([2.0**699]), np.array([2.0**700]))
    down, up = 2.0**-600, 2.0**600
    layers = (lin("b", down), lin("c", up), lin("d", up))
    net = Network(("x",), lin("a", down), np.zeros((0, 1)), layers, lin("o", 1.0), tokens=1)
    refused(forged(net, affine([[0.0]]), box, (0.0, 0.0, 2.0**655)), tmp_path, "overflow")


def test_dead_zones_of_what_is_no_unit(tmp_path: Path) -> None:
    anchors = np.linspace(-1, 1, 65)
    wrong = np.where(np.abs(anchors) < 0.4, 100.0, anchors)
    part = faithful_part("x", anchors, [(0, wrong)], 2.0**16, -1.01, 1.01, zones=np.array([[-0.99, 0.99]]))
    names = ("s", "one", "key", "offset", "value", "out")
    registers, heads = part_heads(part, names, 0, 1, 2, 5)
    net = one_head(names, registers, (Attention(names, tuple(heads)),))
    terms = Terms(0.02, part.claim.terms.leakage, part.claim.terms.rounding)
    part = dataclasses.replace(part, claim=dataclasses.replace(part.claim, terms=terms))
    composite = dataclasses.replace(affine([[1.0]]), parts=(part.at(0, [0], [IDENTITY]),))
    refused(forged(net, composite, HALF_OPEN, (0.021, 1e-9, 1e-6)), tmp_path, "zones")


def test_values_in_a_column_that_nobody_reads(tmp_path: Path) -> None:
    honest = truncated_linear([[1.0, -1.0]], [0.1], -1.0, 1.0, (-1, 1), tol=1e-4, method="spectral")
    net, certificate = honest.network, honest.certificate
    assert certificate is not None
    layer = net.layers[0]
    assert isinstance(layer, Attention)
    head = layer.heads[0]
    W_V, W_O = (np.zeros((len(head.W_V), 2)), np.zeros((2, head.W_O.shape[1])))
    W_V[:, :1], W_O[:1] = head.W_V, head.W_O
    W_V[int(np.flatnonzero(head.W_K[:, 0])[0]), 1] = 1.7e308
    layer = dataclasses.replace(layer, heads=(dataclasses.replace(head, W_V=W_V, W_O=W_O), *layer.heads[1:]))
    net = dataclasses.replace(net, layers=(layer,))
    refused((net, dataclasses.replace(certificate, network=network_digest(net))), tmp_path, "overflow")


@pytest.mark.parametrize(
    ("dtype", "beta", "query", "key"),
    [("float64", 2.0**1000, 2.0**90, 2.0**-1000), ("float32", 2.0**70, 2.0**70, 2.0**-100)],
)
def test_queries_that_overflow_before_they_meet_a_key(
    dtype: str, beta: float, query: float, key: float, tmp_path: Path
) -> None:
    names = ("x", "q", "k", "out")
    C, A = np.array([[0.0, query, key, 0.0]]), np.eye(1, 4)
    head = Head("mean", named(names, q=1), named(names, k=1), named(names, x=1), np.eye(4)[[3]], beta, Sees(data="all"))
    net = Network(
        ("x",), Linear(names, (Term(A),), C), np.zeros((0, 4)), (Attention(names, (head,)),),
        selection(names, ("out",)), tokens=1, dtype=dtype,
    )  # fmt: skip
    refused(forged(net, affine([[1.0]]), HALF_OPEN, (0.0, 1e-300, 2.0**-10)), tmp_path, "overflow")


def test_a_weight_that_leads_below_the_normal_range(tmp_path: Path) -> None:
    anchors, low = np.linspace(-1, 1, 65), 2.0**-149
    part = faithful_part("x", anchors, [(0, anchors)], 2.0**16, -1.01, 1.01, "float32")
    profile = to_text(parse(f"x/{2**149}", ("x",)))
    terms = part.claim.terms
    tiny = [math.nextafter(10 * x * low, math.inf) for x in (terms.approximation, terms.leakage, terms.rounding)]
    claim = dataclasses.replace(
        part.claim,
        formula=to_text(local_formula(parse(profile, ("x",)), 0.0, 1.0, 0.0)),
        terms=Terms(*tiny),
        lipschitz=math.nextafter(part.claim.lipschitz * low * 1.001, math.inf),
    )
    names = ("s", "one", "key", "offset", "value", "out")
    registers, heads = part_heads(part, names, 0, 1, 2, 5)
    heads = [dataclasses.replace(head, W_O=np.full((1, 1), low)) for head in heads]
    net = one_head(names, registers, ())
    layers = (Attention(("out",), tuple(heads), residual=False), lin("up", 2.0**75))
    net = dataclasses.replace(net, layers=layers, read=lin("o", 2.0**74), dtype="float32")
    ridge = RidgeFunctions((profile,), np.array([[1.0, 0.0]]), np.zeros(1), np.array([[0.0, 1 / low]]), np.zeros(1))
    part = dataclasses.replace(part, profile=profile, claim=claim)
    whole = tuple(float(x / low * 4) for x in tiny)
    composite = Composite(ridge, (part.at(0, [0], [0]),))
    refused(forged(net, composite, HALF_OPEN, whole, masked=True), tmp_path, "rounding")


def test_a_register_that_does_not_see_the_silent_one_behind_it() -> None:
    names = ("x", "one", "c", "k", "v", "out")
    registers = np.zeros((2, 6))
    registers[0, 4], registers[1, 3], registers[:, 1] = 7.0, 2000.0, 1.0
    first = moved(names, "one", "k", "v", "c", Sees((0, 2), "none"))
    second = moved(names, "one", "one", "c", "out", Sees((0, 1), "none"))
    net = one_head(names, registers, (first, second))
    assert not net.native


def test_a_mask_is_said(tmp_path: Path) -> None:
    names = ("x", "one", "out")
    layer = moved(names, "one", "one", "x", "out", Sees(data="all"), mask=np.eye(2, dtype=bool))
    net = one_head(names, np.zeros((0, 3)), (layer,), tokens=2)
    refused(forged(net, affine(np.eye(2)), HALF_OPEN, (0.0, 1e-300, 1e-12)), tmp_path, "masked")


def test_registers_that_a_plain_transformer_has_written(tmp_path: Path) -> None:
    names = ("x", "one", "reg", "k", "v", "c", "out")
    registers = np.zeros((2, 7))
    registers[0, 3], registers[0, 4], registers[:, 2] = -1000.0, 1e6, -2.0
    first = moved(names, ("one", "reg"), "k", "v", "c", Sees((0, 2), "none"))
    second = moved(names, "one", "reg", "c", "out", Sees((0, 0), "all"))
    net = one_head(names, registers, (first, second))
    refused(forged(net, affine([[0.0]]), HALF_OPEN, (0.0, 1e-12, 1e-12)), tmp_path, "masked")


def test_dead_zones_that_leave_nothing(tmp_path: Path) -> None:
    honest = truncated_linear([[1.0, -1.0]], [0.1], -1.0, 1.0, (-1, 1), p=16)
    certificate = honest.certificate
    assert certificate is not None
    assert certificate.composite is not None
    (part,) = certificate.composite.parts
    claim = dataclasses.replace(part.claim, boxes=np.array([[0.0, 0.0]]), terms=Terms(0.0, 0.0, 1e-6))
    part = dataclasses.replace(part, claim=claim, zones=np.array([[-100.0, 100.0]]))
    composite = dataclasses.replace(certificate.composite, parts=(part,))
    case = forged(honest.network, composite, certificate.domain, (0.0, 0.0, 1.1e-6), masked=True)
    refused(case, tmp_path, "zones leave nothing")


def test_models_of_other_tokens(tmp_path: Path) -> None:
    honest = truncated_linear([[1.0], [-1.0]], [0.1, 0.1], -1.0, 1.0, (-1, 1), p=16)
    certificate = honest.certificate
    assert certificate is not None
    assert certificate.composite is not None
    models = TokenModels(("clip(x, -1, 1)",) * 2, np.array([[1.0, -1.0]]), np.array([0.1]))
    composite = dataclasses.replace(certificate.composite, target=models)
    terms = dataclasses.astuple(certificate.terms)
    refused(forged(honest.network, composite, certificate.domain, terms, masked=True), tmp_path, "other tokens")


def test_dead_zones_of_units_that_share_inputs(tmp_path: Path) -> None:
    """Each leaves something of the domain, both together nothing."""
    anchors, names = np.linspace(-1, 1, 65), ("s", "one", "kA", "oA", "vA", "kB", "oB", "vB", "out")
    parts, registers, heads = [], [], []
    for index, (first, zone) in enumerate(((2, (-1.5, 0.5)), (5, (-0.5, 1.5)))):
        wrong = np.where(anchors < 0.25 if index == 0 else anchors > -0.25, 100.0, anchors)
        part = faithful_part("x", anchors, [(0, wrong)], 2.0**16, -1.01, 1.01, zones=np.array([zone]))
        terms = dataclasses.replace(part.claim.terms, approximation=0.04)
        part = dataclasses.replace(part, claim=dataclasses.replace(part.claim, terms=terms))
        rows, own = part_heads(part, names, 0, 1, first, 8)
        rows[:, 6 if index == 0 else 3] = -(2.0**20)
        registers.append(rows)
        heads += [dataclasses.replace(head, sees=Sees((65 * index, 65 * index + 65), "none")) for head in own]
        parts.append(part.at(0, [index], [index]))
    net = one_head(names, np.concatenate(registers), (Attention(names, tuple(heads)),))
    arguments = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    ridge = RidgeFunctions(("x", "x"), arguments, np.zeros(2), np.array([[0.0, 1.0, 1.0]]), np.zeros(1))
    case = forged(net, Composite(ridge, tuple(parts)), HALF_OPEN, (0.081, 1e-9, 1e-6), masked=True)
    refused(case, tmp_path, "models of single tokens")
