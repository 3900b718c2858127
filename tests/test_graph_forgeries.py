"""Certificates of compiled networks that are false, and networks that are not what theirs says."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from test_grid_forgeries import refused

import weightwright as ww
from weightwright.certificates.claims import Certificate, Terms, assumptions
from weightwright.certificates.composites import Composite
from weightwright.certificates.files import network_digest
from weightwright.certificates.graphs import Graph, Node, ProductClaim
from weightwright.certificates.prover.evaluate import evaluate
from weightwright.compiler.lowering import lower
from weightwright.network import Network
from weightwright.runtime import AttentionNetwork


def claimed(certificate: Certificate, composite: Composite, each: float, domain: ww.Box | None = None) -> Certificate:
    """The certificate about another target, with these terms."""
    assert isinstance(composite.ridge, Graph)
    terms, box = Terms(each, each, each), certificate.domain if domain is None else domain
    return replace(
        certificate, composite=composite, formula=composite.ridge.name, terms=terms, bound=4 * each, domain=box
    )


def draft(network: Network) -> Certificate:
    """A certificate of this network that claims nothing yet."""
    said = assumptions(network.dtype, "dot")
    nothing = Terms(0.0, 0.0, 0.0)
    return Certificate("", ww.Box([0], [1]), network.dtype, "dot", 0.0, nothing, (), network_digest(network), said)


def false_and_refused(
    network: Network, certificate: Certificate, x: list[float], path: Path, said: str | None = None
) -> None:
    """At x the network is farther from the graph than the bound says, and the checker does not agree."""
    assert certificate.composite is not None and isinstance(certificate.composite.ridge, Graph)
    inputs = np.array(x).reshape(network.tokens or 1, -1)
    found = AttentionNetwork(network)(torch.tensor(inputs, dtype=getattr(torch, network.dtype)))
    error = np.abs(found.double().numpy() - evaluate(certificate.composite.ridge, inputs[None])[0]).max()
    assert error > certificate.bound
    refused(network, certificate, path, said)


@cache
def twice_tanh() -> AttentionNetwork:
    return ww.compile(lambda x: 2 * torch.tanh(x), ww.Box([-1], [1]), 1e-6)


def test_a_column_that_counts_from_the_end_is_not_another_one(tmp_path: Path) -> None:
    """Half the result, claimed twice: as column 0 and as column -1 of the same head."""
    net = twice_tanh()
    assert net.certificate is not None and net.certificate.composite is not None
    composite, layer = net.certificate.composite, net.network.layers[0]
    assert isinstance(layer, ww.network.Attention)
    (part,), (head,) = composite.parts, layer.heads
    half = replace(net.network, layers=(replace(layer, heads=(replace(head, W_O=head.W_O / 2),)),))
    parts = tuple(replace(part, column=column, spread=True) for column in (0, -1))
    certificate = claimed(net.certificate, replace(composite, parts=parts), 1e-6)
    false_and_refused(half, certificate, [1.0], tmp_path, "no column -1")


def test_the_slope_at_a_single_point_counts(tmp_path: Path) -> None:
    """exp(1), where the network computes exp(2). The error of the argument was left to a product that nobody computes,
    by a claim with the lemma; the function's argument is a constant, and its range has no width."""
    net = ww.compile(lambda x: x[:, :1] + torch.exp(x[:, 1:]), ww.Box([-1, -0.25], [1, 2.25]), 1e-6)
    assert net.certificate is not None and net.certificate.composite is not None
    composite, embed = net.certificate.composite, net.network.embed
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
        ridge=Graph("x + exp(1)", nodes, (4,)),
        parts=(replace(composite.parts[0], units=(2,)),),
        products=(ProductClaim(3, 1.0, 1.0, 0.0, 0.0, lemma=1),),
    )
    false_and_refused(network, claimed(net.certificate, forged, 0.1), [0.0, 0.0], tmp_path, "could be shown")


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
    assert isinstance(layer, ww.network.Attention)
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
        ridge=Graph("(0.9 x y)**2", nodes, (6,)),
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
