"""The errors that users meet. Each message names the argument, the value and what to do instead."""

from __future__ import annotations

import re

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
    "UnclearError",
    "UnsupportedOperation",
    "WeightwrightError",
]


class WeightwrightError(Exception):
    """Every error that weightwright raises on purpose.

    What to do: read the message: it names the argument and the value, and says what to write instead.
    """


class FormulaError(WeightwrightError, ValueError):
    """A formula's text is not in the language, or the function is undefined on the domain.

    What to do: correct the text as the message proposes, or take a domain on which the function is defined.
    """


class UnclearError(FormulaError):
    """It is not shown that a compiled function is defined on the whole domain, nor that it is not: the ranges of its
    columns are too coarse.

    What to do: take a smaller domain, or clamp the argument that the message names; proof="measured" builds functions
    of up to three features from their values.
    """


class DomainError(WeightwrightError, ValueError):
    """A domain that is no interval, or an input outside the domain of a network.

    What to do: write (lo, hi) or a Box; keep inputs inside, build for a larger domain, or set on_domain="clamp".
    """


class ToleranceError(WeightwrightError):
    """The tolerance cannot be proven. `best` is the smallest bound that could be, or None.

    What to do: ask for a tol above `best`, a smaller domain or float64; proof="measured" builds it without a proof.
    """

    def __init__(self, message: str, best: float | None = None) -> None:
        super().__init__(message)
        self.best = best


class BudgetError(WeightwrightError):
    """More than allowed would be needed: anchors of a network, or time, memory, tokens or boxes for a file.

    What to do: raise the limit that the message names if you trust the file or have the time; else ask for less.
    """


class CertificateError(WeightwrightError):
    """The independent checker does not agree with a certificate.

    What to do: do not trust the file; build the network again, or load it with verify=False to look at it.
    """


class FileFormatError(WeightwrightError, ValueError):
    """A file that is not a weightwright network, is damaged, or is of a newer format.

    What to do: save the network again; for a newer format install a newer weightwright.
    """


class AlteredFileError(FileFormatError, CertificateError):
    """A file whose contents do not match their digest.

    What to do: get the file again: it was damaged or edited after it was saved.
    """


class MalformedCertificateError(FileFormatError, CertificateError):
    """A file whose certificate has a field that holds something of another type; the message names the field.

    What to do: save the network again with `net.save`; nothing of ours writes such a file.
    """


class LawError(WeightwrightError, ValueError):
    """A network that is not well formed; the message names the layer and the coordinate.

    What to do: mend what you changed there; networks that functions of this package return keep the laws.
    """


class UnsupportedOperation(WeightwrightError):  # noqa: N818  (the agreed public name)
    """A Python or torch operation that has no counterpart among the expressions.

    What to do: write what the message proposes on the line that it names.
    """


def install_line(*extras: str) -> str:
    """The command that adds what these extras bring to an environment with weightwright in it.

    It names the requirements themselves. `weightwright[plot]` would install them too, but only where an index has
    weightwright; the requirements are the same whether it came from a checkout, a wheel or an index. Double quotes
    mean the same to every shell, Windows' included.

    >>> install_line("plot")
    'pip install "matplotlib>=3.9"'
    """
    from importlib.metadata import requires  # here, because it takes 20 ms, and most processes need no line

    found: list[str] = []
    for line in requires("weightwright") or []:
        requirement, _, marker = line.partition(";")
        named = re.search(r"extra == ['\"](.+?)['\"]", marker)
        if named is not None and named[1] in extras:
            found.append(requirement.strip())
    if not found:
        raise ValueError(f"weightwright has no extras {extras}")
    return " ".join(["pip install", *(f'"{requirement}"' for requirement in sorted(set(found)))])


class MissingExtraError(WeightwrightError, ImportError):
    """Something that is not installed with weightwright is needed; the message has the line that installs it.

    What to do: run that line.
    """

    def __init__(self, need: str, extra: str) -> None:
        super().__init__(f"{need} (the extra {extra}): {install_line(extra)}")


class NotRepeatable(UnsupportedOperation):
    """A function that is not the same at every call, so there is nothing to build, from a trace or from values.

    What to do: take randomness and memory out of the function; put a module in eval mode.
    """


def __dir__() -> list[str]:
    return sorted(__all__)
