"""Certificates of compiled networks that are false, and networks that are not what theirs says."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from test_grid_forgeries import refused

import weightwright as ww
from weightwright.certificates.claims import Certificate, Terms
from weightwright.certificates.composites import Composite
from weightwright.certificates.graphs import Graph
from weightwright.certificates.prover.evaluate import evaluate
from weightwright.network import Network
from weightwright.runtime import AttentionNetwork


def claimed(certificate: Certificate, composite: Composite, each: float, domain: ww.Box | None = None) -> Certificate:
    """The certificate about another target, with these terms."""
    assert isinstance(composite.ridge, Graph)
    terms, box = Terms(each, each, each), certificate.domain if domain is None else domain
    return replace(
        certificate, composite=composite, formula=composite.ridge.name, terms=terms, bound=4 * each, domain=box
    )


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
