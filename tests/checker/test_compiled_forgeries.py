"""False certificates of compiled functions, modules and attention, and networks that are not what theirs says."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.built import built
from support.composite_changes import NETWORKS, PART, WHOLE
from support.forging import proven, refused

import weightwright as ww

COMPILED = ["mlp", "product", "relu layer", "layer norm", "attention", "attention in float32"]
TABLES = ["mlp", "product", "relu layer", "layer norm"]


@pytest.mark.parametrize("kind", COMPILED)
def test_what_is_forged_here_was_right(kind: str, tmp_path: Path) -> None:
    net = built(kind)
    proven(net.network, net.certificate, tmp_path)


@pytest.mark.parametrize("kind", COMPILED)
@pytest.mark.parametrize("change", WHOLE)
def test_false_claims_are_refused(kind: str, change: str, tmp_path: Path) -> None:
    net, (forge, said) = built(kind), WHOLE[change]
    refused(net.network, forge(net.certificate), tmp_path, said)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("change", PART)
def test_false_claims_about_tables_are_refused(kind: str, change: str, tmp_path: Path) -> None:
    if (kind, change) == ("mlp", "heads a little better"):
        pytest.skip("two keys are tanh itself: the prover's bound is its own rounding, and the checker's is smaller")
    net, (forge, said) = built(kind), PART[change]
    refused(net.network, forge(net.certificate), tmp_path, said)


@pytest.mark.parametrize("kind", COMPILED)
@pytest.mark.parametrize("change", NETWORKS)
def test_other_networks_are_refused(kind: str, change: str, tmp_path: Path) -> None:
    net = built(kind)
    try:
        network = NETWORKS[change](net.network)
    except ww.LawError:
        return  # not even a network: a second layer whose coordinates do not fit
    refused(network, net.certificate, tmp_path)
