"""How the checker refuses, the limits that its rules share, and what every certificate must say rightly."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np
from flint import arb

from weightwright.checker.core.machine import assumed
from weightwright.claims.certificate import Certificate, Terms
from weightwright.claims.files import network_digest
from weightwright.claims.leaf import Leaf, VectorLeaf
from weightwright.errors import CertificateError, FormulaError
from weightwright.expressions import Expression, parse
from weightwright.network import Block, Linear, Network
from weightwright.numbers import FORMATS

#: A sixteenth of the largest number, and the exponent of the smallest normal one, per dtype.
LARGEST = {"float64": arb(2) ** 1020, "float32": arb(2) ** 124, "bfloat16": arb(2) ** 124}
LEAST = {name: format.least_exponent for name, format in FORMATS.items()}
KERNELS = ("dot", "anchor")


def require(condition: bool, complaint: str) -> None:
    if not condition:
        raise CertificateError(complaint)


def must(condition: bool, complaint: str) -> None:
    """The same for what a network is made of."""
    require(condition, f"no rule covers this network: {complaint}")


T = TypeVar("T")


def require_type(value: object, kind: type[T]) -> T:
    """The value, if it is of this kind: a TypeError becomes the complaint that the certificate is malformed."""
    if type(value) is not kind:
        raise TypeError(f"a {type(value).__name__} stands where a {kind.__name__} belongs")
    return value


def parse_or_refuse(text: str, variables: Sequence[str], what: str) -> Expression:
    """The formula of a text of one line, without white space that would hide a part of it where it is printed."""
    if isinstance(text, str) and not (text.isascii() and text.isprintable() and "  " not in text):
        raise CertificateError(f"{what}: {text[:60]!r} has characters or blanks that hide what it says")
    try:
        return parse(text, variables)
    except FormulaError as error:
        raise CertificateError(f"{what}: {error}") from error


def terms_hold(layer: Terms, rounding: arb, certificate: Certificate) -> None:
    """The certificate's terms are no smaller than its layer's, with what rounding comes to, and add up to its bound."""
    whole = certificate.terms
    require(layer.approximation <= whole.approximation, "approximation is smaller than its layer's")
    require(layer.leakage <= whole.leakage, "leakage is smaller than its layer's")
    require(rounding <= whole.rounding, f"rounding: {short(rounding)} is needed, {whole.rounding:.6g} is claimed")
    total = sum(Fraction(term) for term in (whole.approximation, whole.leakage, whole.rounding))
    require(
        total <= Fraction(certificate.bound),
        f"the terms add up to {float(total):.6g}, the bound is {certificate.bound:.6g}",
    )


def short(number: arb) -> str:
    return f"{float(number):.6g}" if number.is_finite() else "nothing"


def agree_identity(network: Network, certificate: Certificate) -> None:
    """The certificate is about this network, this dtype, a known kernel and the stated assumptions."""
    require(certificate.network == network_digest(network), "the certificate is about another network")
    require(certificate.dtype == network.dtype, f"certified for {certificate.dtype}, stored as {network.dtype}")
    require(certificate.dtype in FORMATS, f"no rule for dtype {certificate.dtype}")
    require(certificate.kernel in KERNELS, f"no rule for kernel {certificate.kernel!r}")
    hidden = [said for said in assumed(certificate.dtype, certificate.kernel) if said not in certificate.assumptions]
    require(not hidden, f"the certificate hides an assumption: {'; '.join(hidden)}")
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
