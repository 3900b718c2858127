"""How the checker refuses, and the limits that all its rules share."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

from flint import arb

from weightwright.claims.certificate import Certificate, Terms
from weightwright.errors import CertificateError, FormulaError
from weightwright.expressions import Expression, parse
from weightwright.numbers import FORMATS

#: A sixteenth of the largest number, and the exponent of the smallest normal one, per dtype.
LARGEST = {"float64": arb(2) ** 1020, "float32": arb(2) ** 124, "bfloat16": arb(2) ** 124}
LEAST = {name: format.least_exponent for name, format in FORMATS.items()}


def require(condition: bool, complaint: str) -> None:
    if not condition:
        raise CertificateError(complaint)


def must(condition: bool, complaint: str) -> None:
    """The same for what a network is made of."""
    require(condition, f"no rule covers this network: {complaint}")


T = TypeVar("T")


def typed(value: object, kind: type[T]) -> T:
    """The value, if it is of this kind: a TypeError becomes the complaint that the certificate is malformed."""
    if type(value) is not kind:
        raise TypeError(f"a {type(value).__name__} stands where a {kind.__name__} belongs")
    return value


def parsed(text: str, variables: Sequence[str], what: str) -> Expression:
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
