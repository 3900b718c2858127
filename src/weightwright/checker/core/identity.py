"""What every certificate must say rightly, whatever it claims: its network, its dtype, its kernel, its assumptions."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from weightwright.checker.core.complaints import require
from weightwright.checker.core.rounding import UNIT
from weightwright.claims.certificate import Certificate, assumptions
from weightwright.claims.files import network_digest
from weightwright.claims.leaf import Leaf, Terms, VectorLeaf
from weightwright.network import Block, Linear, Network

KERNELS = ("dot", "anchor")


def agree_identity(network: Network, certificate: Certificate) -> None:
    """The certificate is about this network, this dtype, a known kernel and the stated assumptions."""
    require(certificate.network == network_digest(network), "the certificate is about another network")
    require(certificate.dtype == network.dtype, f"certified for {certificate.dtype}, stored as {network.dtype}")
    require(certificate.dtype in UNIT, f"no rule for dtype {certificate.dtype}")
    require(certificate.kernel in KERNELS, f"no rule for kernel {certificate.kernel!r}")
    assumed = assumptions(certificate.dtype, certificate.kernel)
    require(set(assumed) <= set(certificate.assumptions), "the certificate hides an assumption")
    _numbers(certificate.terms)
    _number(certificate.bound, "bound")


def agree_numbers(leaf: Leaf | VectorLeaf) -> None:
    """The errors and slopes of a leaf are finite numbers at or above zero."""
    _numbers(leaf.terms)
    for slope in np.atleast_1d(leaf.lipschitz).tolist():
        _number(slope, "lipschitz")


def agree_ordinary(network: Network) -> None:
    """No map acts on blocks of tokens and every token asks: no rule but that for prompts knows of these."""
    linear = [network.embed, network.read, *(layer for layer in network.flat_layers if isinstance(layer, Linear))]
    blocks = any(isinstance(term.tokens, Block) for map in linear for term in map.terms)
    require(not blocks, "no rule for maps on blocks of tokens here")
    require(all(head.sees.asks == "all" for head in network.heads), "no rule for tokens that do not ask here")


def _numbers(terms: Terms) -> None:
    for name, value in dataclasses.asdict(terms).items():
        _number(value, name)


def _number(value: float, name: str) -> None:
    valid = isinstance(value, float) and math.isfinite(value) and value >= 0
    require(valid, f"{name} = {value!r} is not a finite number at or above zero")
