"""No claim about gates fits a compiled network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.forging import refused
from support.graphs import everything

from weightwright.papers.claims.ridge_functions import GateClaim


def test_a_graph_has_no_gates(tmp_path: Path) -> None:
    net = everything()
    claim = replace(net.certificate.claim, gates=(GateClaim(0, 0, -1),))
    refused(net.network, replace(net.certificate, claim=claim), tmp_path)
