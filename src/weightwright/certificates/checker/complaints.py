"""How the checker refuses, and the limits that all its rules share."""

from __future__ import annotations

from collections.abc import Sequence

from flint import arb

from weightwright.errors import CertificateError, FormulaError
from weightwright.expressions import Expression, parse

#: A sixteenth of the largest number, and the exponent of the smallest normal one, per dtype.
LARGEST = {"float64": arb(2) ** 1020, "float32": arb(2) ** 124, "bfloat16": arb(2) ** 124}
LEAST = {"float64": -1022, "float32": -126, "bfloat16": -126}


def require(condition: bool, complaint: str) -> None:
    if not condition:
        raise CertificateError(complaint)


def must(condition: bool, complaint: str) -> None:
    """The same for what a network is made of."""
    require(condition, f"no rule covers this network: {complaint}")


def parsed(text: str, variables: Sequence[str], what: str) -> Expression:
    try:
        return parse(text, variables)
    except FormulaError as error:
        raise CertificateError(f"{what}: {error}") from error


def short(number: arb) -> str:
    return f"{float(number):.6g}" if number.is_finite() else "nothing"
