"""The errors that users meet. Each message names the argument, the value and what to do instead."""

from __future__ import annotations

__all__ = [
    "AlteredFileError",
    "BudgetError",
    "CertificateError",
    "DomainError",
    "FileFormatError",
    "FormulaError",
    "LawError",
    "MalformedCertificateError",
    "MissingExtraError",
    "NotRepeatable",
    "ToleranceError",
    "UnsupportedOperation",
    "WeightwrightError",
]


class WeightwrightError(Exception):
    """Every error that weightwright raises on purpose."""


class FormulaError(WeightwrightError, ValueError):
    """A formula's text is not in the language, or the function is undefined on the domain."""


class DomainError(WeightwrightError, ValueError):
    """A domain that is no interval, or an input outside the domain of a network."""


class ToleranceError(WeightwrightError):
    """The tolerance cannot be proven. `best` is the smallest bound that could be, or None."""

    def __init__(self, message: str, best: float | None = None) -> None:
        super().__init__(message)
        self.best = best


class BudgetError(WeightwrightError):
    """More than allowed would be needed: anchors of a network, or time, memory, tokens or boxes for a file."""


class CertificateError(WeightwrightError):
    """The independent checker does not agree with a certificate."""


class FileFormatError(WeightwrightError, ValueError):
    """A file that is not a weightwright network, is damaged, or is of a newer format."""


class AlteredFileError(FileFormatError, CertificateError):
    """A file whose contents do not match their digest."""


class MalformedCertificateError(FileFormatError, CertificateError):
    """A file whose certificate has a field that holds something of another type; the message names the field."""


class LawError(WeightwrightError, ValueError):
    """A network that is not well formed; the message names the layer and the coordinate."""


class UnsupportedOperation(WeightwrightError):  # noqa: N818  (the agreed public name)
    """A Python or torch operation that has no counterpart among the expressions."""


class MissingExtraError(WeightwrightError, ImportError):
    """Something that is not installed with weightwright is needed; the message has the line that installs it."""

    def __init__(self, need: str, extra: str) -> None:
        super().__init__(f"{need}: pip install 'weightwright[{extra}]'")


class NotRepeatable(UnsupportedOperation):
    """A function that is not the same at every call, so there is nothing to build, from a trace or from values."""
