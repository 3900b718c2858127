"""A network of ridge functions does not pass as one whose heads may be zeroed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.forging import refused

import weightwright as ww


def flagged(net: ww.AttentionNetwork, ablatable: object = True):  # type: ignore[no-untyped-def]
    said = net.said
    return replace(said, claim=replace(said.claim, ablatable=ablatable))


def test_a_ridge_is_never_ablatable(tmp_path: Path) -> None:
    net = ww.constructions.relu_network(["max(x0, x1)", "min(x0, x1)"], 2, (-1, 1), tol=1e-3)
    refused(net.network, flagged(net), tmp_path, "ablatable: only graphs of columns have a rule")
