"""Certificates of compiled networks that are false, and networks that are not what theirs says."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.forging import about_composite, affine, altered, proven, refused
from support.graphs import everything, graph_outputs
from support.networks import attending, by_hand, linear
from support.one_head import local_text

import weightwright as ww
from weightwright.checker.composite.graph_columns import _hull
from weightwright.claims.certificate import Terms
from weightwright.claims.graph import Fused, Graph, Node, ProductClaim
from weightwright.claims.kinds import MASKED
from weightwright.claims.leaf import Leaf
from weightwright.claims.target import IDENTITY, UNREAD, Composite, TableClaim
from weightwright.compiler.lowering.lower import lower


def claimed(certificate: Any, composite: Composite, each: float, domain: ww.Box | None = None) -> Any:
    """The certificate about another target, with these terms."""
    assert isinstance(composite.target, Graph)
    terms, box = Terms(each, each, each), certificate.domain if domain is None else domain
    return replace(certificate, claim=composite, formula=composite.target.name, terms=terms, bound=4 * each, domain=box)


def stated(net: ww.AttentionNetwork) -> tuple[Any, Composite]:
    assert net.certificate is not None
    assert isinstance(net.certificate.claim, Composite)
    return net.certificate, net.certificate.claim


def only_layer(network: Any) -> Any:
    (layer,) = network.layers
    return layer


def draft(network: Any) -> Any:
    """A certificate of this network whose claim is still to come."""
    return about_composite(network, affine([[1.0]]), ww.Box([0], [1]))[1]


def false_and_refused(network: Any, certificate: Any, x: list[float], path: Path, said: str | None = None) -> None:
    """At x the network is farther from the graph than the bound says, and the checker does not agree."""
    assert isinstance(certificate.claim, Composite)
    assert isinstance(certificate.claim.target, Graph)
    inputs = np.array(x).reshape(network.tokens or 1, -1)
    found = ww.AttentionNetwork(network)(torch.tensor(inputs, dtype=getattr(torch, network.dtype)))
    error = np.abs(found.double().numpy() - graph_outputs(certificate.claim.target, inputs)).max()
    assert error > certificate.bound
    refused(network, certificate, path, said)


@cache
def twice_tanh() -> ww.AttentionNetwork:
    return ww.compile(lambda x: 2 * torch.tanh(x), ww.Box([-1], [1]), 1e-6)


def test_a_column_that_counts_from_the_end_is_not_another_one(tmp_path: Path) -> None:
    """Half the result, claimed twice: as column 0 and as column -1 of the same head."""
    net = twice_tanh()
    (right, composite), layer = stated(net), only_layer(net.network)
    (part,), (head,) = composite.parts, layer.heads
    half = replace(net.network, layers=(replace(layer, heads=(replace(head, W_O=head.W_O / 2),)),))
    parts = tuple(replace(part, column=column, spread=True) for column in (0, -1))
    certificate = claimed(right, replace(composite, parts=parts), 1e-6)
    false_and_refused(half, certificate, [1.0], tmp_path, "no column -1")


def test_the_slope_at_a_single_point_counts(tmp_path: Path) -> None:
    """exp(1), where the network computes exp(2). The error of the argument was left to a product that nobody computes,
    by a claim with the lemma; the function's argument is a constant, and its range has no width."""
    net = ww.compile(lambda x: x[:, :1] + torch.exp(x[:, 1:]), ww.Box([-1, -0.25], [1, 2.25]), 1e-6)
    (right, composite), embed = stated(net), net.network.embed
    A, C, y = embed.terms[0].A.copy(), embed.C.copy(), embed.coordinates.index("x[1]")
    A[:, y], C[:, y] = 0.0, 2.0
    network = replace(net.network, embed=replace(embed, terms=(replace(embed.terms[0], A=A),), C=C))
    nodes = (
        Node("input"),
        Node("affine", constants=np.array([1.0])),
        Node("exp(x)", (1,)),
        Node("product", (0, 2)),
        Node("affine", (0, 2), np.ones(2)),
    )
    forged = replace(
        composite,
        target=Graph("x + exp(1)", nodes, (4,)),
        parts=(replace(composite.parts[0], units=(2,)),),
        products=(ProductClaim(3, 1.0, 1.0, 0.0, 0.0, lemma=1),),
    )
    false_and_refused(network, claimed(right, forged, 0.1), [0.0, 0.0], tmp_path, "could be shown")


def test_no_part_of_the_domain_is_lost_where_a_range_is_no_number(tmp_path: Path) -> None:
    """(0.9 x y)^2, 0.9 x being written as 2^1023 times as much, y as little: where x > 2 that is no float. The last
    head is wrong for arguments that only these x lead to."""
    nodes = (
        *(Node("input"), Node("input", index=1), Node("affine", (0,), np.array([0.9]))),
        *(Node("product", (2, 1)), Node("x**2", (3,))),
    )
    lowered = lower(Graph("honest", nodes, (4,)), ww.Box([0, -1], [4, 1]), 1e-8, "float64")
    network, composite, embed = lowered.network, lowered.composite, lowered.network.embed
    *squares, last = composite.parts
    layer = network.layers[last.layer]
    head = layer.heads[last.heads[0]]
    registers, value = network.registers.copy(), int(np.flatnonzero(head.W_V[:, last.column])[0])
    key = int(np.flatnonzero(head.W_K[:, 0])[0])
    registers[np.argsort(registers[:, key])[-2:], value] = 0.0
    A = embed.terms[0].A.copy()
    A[1] *= 2.0**-20
    network = replace(network, registers=registers, embed=replace(embed, terms=(replace(embed.terms[0], A=A),)))
    nodes = (
        *(Node("input"), Node("input", index=1)),
        *(Node("affine", (0,), np.array([0.9 * 2.0**1023])), Node("affine", (1,), np.array([2.0**-999]))),
        *(Node("product", (2, 3)), Node("affine", (4,), np.array([2.0**-44])), Node("x**2", (5,))),
    )
    claim = composite.products[0]
    product = ProductClaim(4, claim.balance * 2.0**-1001, claim.scale * 2.0**-22, claim.x * 2.0**1023, claim.y)
    lo, hi = 0.56 * last.claim.lo, 0.56 * last.claim.hi
    boxes = last.claim.boxes
    boxes = np.clip(boxes[(boxes[:, 1] > lo) & (boxes[:, 0] < hi)], lo, hi)
    short = replace(last.claim, lo=lo, hi=hi, boxes=boxes, terms=replace(last.claim.terms, approximation=3.2))
    forged = replace(
        composite,
        target=Graph("(0.9 x y)**2", nodes, (6,)),
        parts=(
            *(replace(part, units=(len(nodes) + 2 * 4 + sign,)) for sign, part in enumerate(squares)),
            replace(last, units=(6,), claim=short),
        ),
        products=(product,),
        splits=(2, 1),
    )
    domain = ww.Box([0, -(2.0**20)], [4, 2.0**20])
    drawn = replace(claimed(draft(network), forged, 1e-6, domain), terms=Terms(3.3, 1e-6, 1e-6), bound=3.4)
    false_and_refused(network, drawn, [4.0, 2.0**20], tmp_path, "not bounded|between")


def test_a_range_that_is_no_number_is_refused() -> None:
    with pytest.raises(ww.CertificateError, match="not bounded"):
        _hull([(0.0, 1.0), (np.nan, np.nan)])


def test_the_factors_of_a_product_do_not_underflow(tmp_path: Path) -> None:
    """2^24 w z by the squares of +-2^23 z alone: with a balance of 2^-1074, scale times balance was 0, and nothing of
    w was left in the squares."""
    net = ww.compile(lambda x: x[:, :1] * x[:, 1:], ww.Box([-1, -1], [1, 1]), 1e-10)
    (right, composite), network, embed = stated(net), net.network, net.network.embed
    layer, small = only_layer(network), 2.0**-40  # what is squared is 2^-20 of what it was, its square 2^-40
    A, registers, heads, parts = np.zeros_like(embed.terms[0].A), network.registers.copy(), [], []
    registers[:, np.flatnonzero(layer.heads[0].W_V[:, 0])] *= small
    for sign, (head, part) in enumerate(zip(layer.heads, composite.parts, strict=True)):
        (source,) = (c for c in np.flatnonzero(head.W_Q[:, 0]) if head.W_Q[c, 1] == 0)
        W_Q, W_O = head.W_Q.copy(), np.where(head.W_O != 0, 2.0**102 * (-1) ** sign, 0.0)
        A[1, source], W_Q[source, 0] = 2.0**23 * (-1) ** sign, W_Q[source, 0] * 2.0**20
        heads.append(replace(head, W_Q=W_Q, W_O=W_O))
        formula = local_text("x**2", 0.0, float(W_Q[source, 0]), part.mean * small)
        terms = Terms(*(1.01 * small * term + 1e-300 for term in dataclasses.astuple(part.claim.terms)))
        claim = replace(part.claim, formula=formula, terms=terms, lipschitz=1.01 * small * part.claim.lipschitz)
        parts.append(replace(part, units=(5 + 2 * 4 + sign,), mean=part.mean * small, claim=claim))
    network = replace(
        network,
        registers=registers,
        embed=replace(embed, terms=(replace(embed.terms[0], A=A),)),
        layers=(replace(layer, heads=tuple(heads)),),
    )
    nodes = (
        *(Node("input"), Node("input", index=1), Node("affine", (0,), np.array([2.0**1023]))),
        *(Node("affine", (1,), np.array([2.0**-999])), Node("product", (2, 3))),
    )
    forged = replace(
        composite,
        target=Graph("2**24 w z", nodes, (4,)),
        parts=tuple(parts),
        products=(ProductClaim(4, 2.0**-1074, 2.0**-52, 0.0, 0.0),),
    )
    domain = ww.Box([-(2.0**99), -(2.0**-47)], [2.0**99, 2.0**-47])
    certificate = claimed(right, forged, 1e10, domain)
    false_and_refused(network, certificate, [2.0**99, 2.0**-47], tmp_path, "between")


def test_registers_do_not_overflow_in_a_plain_transformer(tmp_path: Path) -> None:
    """The third register of layer 0 has a key that no token looks at, and looks at it itself: it takes over 2^94, which
    times a key of layer 1 is no float32. From then on a plain Transformer, whose registers are tokens, has no numbers.
    """
    names = ("one", *(f"{what}{layer}" for layer in range(3) for what in "kcv"), "x", "y", "z", "out")
    R, C, low = np.zeros((3, len(names))), np.zeros((1, len(names))), -(2.0**14)
    columns = {name: R[:, index] for index, name in enumerate(names)}
    for layer, slope, values in ((0, 1.0, (1, -1, 2.0**94)), (1, 2.0**40, (0, 0, 0)), (2, 1.0, (1, -1, 0))):
        columns[f"k{layer}"][:], columns[f"v{layer}"][:] = (slope, -slope, 0), values
        columns[f"c{layer}"][2] = C[0, names.index(f"c{layer}")] = low
    columns["k0"][2], columns["x"][2] = 8.0, 2.0**20
    C[0, 0], C[0, names.index("c1")] = 1.0, -(2.0**60)
    ways = (("x", "y"), ("y", "z"), ("x", "out"))
    layers = [_table(names, layer, source, target) for layer, (source, target) in enumerate(ways)]
    embed = linear(names, np.eye(1, len(names), names.index("x")), C)
    network = by_hand(("x",), embed, tuple(layers), ("out",), registers=R, dtype="float32")
    assert network.native
    with np.errstate(all="ignore"):
        assert np.isnan(_plain_float32(network, 0.5))
    graph = Graph("tanh", (Node("input"), Node("tanh(x)", (0,)), Node("0", (1,))), (1,))
    edges, terms = np.linspace(-1.125, 1.125, 17), Terms(1e-9, 1e-6, 1e-5)
    parts = tuple(
        TableClaim(
            layer, (0,), 0, (unit,), 0.0, 0.0,
            Leaf(0, formula, -1.125, 1.125, "taylor", np.c_[edges[:-1], edges[1:]], terms, 1.01),
            spread=True,
        )
        for layer, (unit, formula) in enumerate(((1, "tanh(s)"), (2, "0"), (1, "tanh(s)")))
    )  # fmt: skip
    certificate = claimed(draft(network), Composite(graph, parts), 1e-4, ww.Box([-1], [1]))
    refused(network, certificate, tmp_path, "overflow")
    assert MASKED not in certificate.assumptions


def _table(names: tuple[str, ...], layer: int, source: str, target: str) -> Any:
    """A layer whose head reads one coordinate, with its keys and values in columns of their own."""
    k, c, v = (f"{what}{layer}" for what in "kcv")
    columns = {name: column[:, None] for name, column in zip(names, np.eye(len(names)), strict=True)}
    W_Q, W_K = np.hstack([columns[source], columns["one"]]), np.hstack([columns[k], columns[c]])
    W_V, W_O = columns[v], columns[target].T
    return attending(names, W_Q, W_K, W_V, W_O, registers=(0, 3), data="none")


def _plain_float32(network: Any, x: float) -> float:
    """One token behind the registers, every token seeing every token."""
    Z = np.concatenate([network.registers, x * network.embed.terms[0].A + network.embed.C]).astype(np.float32)
    for layer in network.layers:
        (head,) = layer.heads
        Q, K, V, O = (W.astype(np.float32) for W in (head.W_Q, head.W_K, head.W_V, head.W_O))  # noqa: E741
        scores = (Z @ Q) @ (Z @ K).T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        Z = Z + weights / weights.sum(axis=1, keepdims=True) @ (Z @ V) @ O
    return float((Z[-1:] @ network.read.terms[0].A)[0, 0])


# --- A table of changes to one honest certificate ---------------------------------------------------------------------


GRAPH: list[tuple[tuple[Any, ...], Any]] = [
    (("outputs",), (11, 21, 9)),
    (("outputs",), (11, 21)),
    (("tokens",), None),
    (("matrices", 0), np.array([[0.5, 0.5], [0.25, -1.01]])),
    (("matrices", 0), np.array([[0.5, 0.5], [0.25, np.nan]])),
    (("nodes", 2, "weights"), np.array([0.5, 0.5001])),
    (("nodes", 2, "weights"), np.array([0.5])),
    (("nodes", 2, "constants"), np.array([0.01])),
    (("nodes", 2, "constants"), np.array([0.0, 0.01])),
    (("nodes", 2, "of"), (0, 0)),
    (("nodes", 2, "of"), (0, 2)),
    (("nodes", 1, "index"), 0),
    (("nodes", 7, "constants"), np.array([0.02])),
    (("nodes", 8, "op"), "1/sqrt(x + 0.001)"),
    (("nodes", 8, "of"), (5,)),
    (("nodes", 9, "of"), (3, 7)),
    (("nodes", 12, "index"), 2),
    (("nodes", 12, "of"), (9, 10, 1)),
    (("nodes", 14, "op"), "1/(x + 1)"),
    (("nodes", 20, "index"), 1),
    (("nodes", 20, "of"), (16,)),
    (("nodes", 21, "of"), (11, 20)),
]
CLAIMS: list[tuple[tuple[Any, ...], Any]] = [
    (("fused", 0, "node"), 18),
    (("fused", 0, "base"), 0),
    (("fused", 0, "base"), 15),
    (("fused", 1, "base"), 13),
    (("fused",), ()),
    (("fused",), (Fused(15, 1), Fused(18, 1), Fused(12, 0))),  # a softmax is no function of one number
    (("products", 0, "node"), 10),
    (("products", 0, "node"), 8),
    (("products", 0, "balance"), 1.0),
    (("products", 0, "balance"), 3.0),
    (("products", 0, "balance"), -2.0),
    (("products", 0, "scale"), 0.25),
    (("products", 0, "scale"), 0.0),
    (("products", 0, "x"), 0.0),
    (("products", 0, "y"), np.nan),
    (("products", 2, "y"), 0.0),
    (("products", 0, "lemma"), 0),
    (("products", 2, "lemma"), 0),
    (("products", 2, "lemma"), 1),
    (("products",), ()),
    (("softmaxes", 0, "layer"), 2),
    (("softmaxes", 0, "head"), 1),
    (("softmaxes", 0, "nodes"), (12, 11, -1)),
    (("softmaxes", 0, "nodes"), (11, -1, -1)),
    (("softmaxes", 0, "nodes"), (11, 12)),
    (("softmaxes",), ()),
    (("splits",), (1, 1)),
    (("splits",), (2, 0, 1, 1)),
]
PARTS: list[tuple[tuple[Any, ...], Any]] = [
    (("layer",), 1),
    (("heads",), (1,)),
    (("heads",), (0, 1)),
    (("heads",), ()),
    (("column",), -1),
    (("units",), (11, 10)),
    (("units",), (12, 13)),
    (("units",), (10, UNREAD)),
    (("units",), (IDENTITY, 11)),
    (("units",), (10, 10_000)),
    (("mean",), 1.0),
    (("slope",), 0.5),
    (("spread",), False),
    (("claim", "formula"), "(s*2)**2"),
    (("claim", "lo"), -0.1),
    (("claim", "hi"), 0.1),
    (("claim", "lipschitz"), 0.1),
    (("claim", "terms"), Terms(0.0, 0.0, 0.0)),
    (("claim", "boxes"), np.array([[-0.5, 0.5]])),
]
CHANGES = [
    *((("target", *path), value) for path, value in GRAPH),
    *CLAIMS,
    *((("parts", 0, *path), value) for path, value in PARTS),
]


def test_what_is_changed_here_was_right(tmp_path: Path) -> None:
    net = everything()
    proven(net.network, stated(net)[0], tmp_path)


@pytest.mark.few(28)
@pytest.mark.parametrize(("path", "value"), CHANGES, ids=lambda part: str(part).replace("\n", "")[:40])
def test_no_field_of_a_compiled_certificate_may_change(path: tuple[Any, ...], value: Any, tmp_path: Path) -> None:
    net = everything()
    certificate, composite = stated(net)
    refused(net.network, replace(certificate, claim=altered(composite, path, lambda _: value)), tmp_path)


def test_a_chain_that_is_too_long_as_text_is_not_written_out(tmp_path: Path) -> None:
    """A column times itself, again and again: every product doubles the formula."""
    net = everything()
    certificate, composite = stated(net)
    assert isinstance(composite.target, Graph)
    nodes, start = composite.target.nodes, len(composite.target.nodes)
    powers = (Node("product", (1, 1)), *(Node("product", (start + k, start + k)) for k in range(17)))
    forged = replace(
        composite,
        target=replace(composite.target, nodes=(*nodes, *powers)),
        fused=(*composite.fused, Fused(start + 17, 1)),
    )
    refused(net.network, replace(certificate, claim=forged), tmp_path, "operations")
