"""weightwright: write a function; get attention weights that compute it, and a proof of how well.

Public names are loaded on first use: loading and running a saved network needs torch, numpy and
safetensors only; approximating also needs scipy, checking python-flint.

Arguments that mean the same everywhere:

path: the name of a file. What is written is there whole or not at all, and a folder that is missing is told at once.
x: the input, (..., tokens, features), in the network's dtype or one that it holds exactly.
tol: the largest error of any output that is allowed; a float above 0.
dtype: torch.float64, torch.float32 or torch.bfloat16, or its name: what the network is designed for and runs in, and
whose rounding the bound covers.
on_domain: what happens to inputs outside the domain: "raise" (DomainError), "clamp" (the nearest point of the domain)
or "ignore" (the bound says nothing there).
progress: True says in a terminal or notebook what is being done, once it takes two seconds; False says nothing; a
function is told.
network: a network as data, `net.network`.
certificate: what is known of that network; one that is about another is refused.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from weightwright import extensions as _extensions
from weightwright.box import Box
from weightwright.errors import (
    BudgetError,
    CertificateError,
    DomainError,
    FileFormatError,
    FormulaError,
    LawError,
    ToleranceError,
    UnclearError,
    UnsupportedOperation,
    WeightwrightError,
)

if TYPE_CHECKING:
    from weightwright import incontext, interpreter, memory
    from weightwright.adversary.search import search
    from weightwright.adversary.signatures import diagnose
    from weightwright.approximation.approximate import approximate
    from weightwright.checker.check import check
    from weightwright.compiler.compile import compile
    from weightwright.loading import load
    from weightwright.memory.memorizing import memorize
    from weightwright.runtime import AttentionNetwork
    from weightwright.runtime.selftest import selftest

__version__ = "0.2.0"

__all__ = [
    "AttentionNetwork",
    "Box",
    "BudgetError",
    "CertificateError",
    "Circuit",
    "DomainError",
    "FileFormatError",
    "FormulaError",
    "Interpreter",
    "LawError",
    "ToleranceError",
    "UnclearError",
    "UnsupportedOperation",
    "WeightwrightError",
    "approximate",
    "check",
    "compile",
    "diagnose",
    "incontext",
    "interpreter",
    "load",
    "memorize",
    "memory",
    "search",
    "selftest",
]
_ADDED = _extensions.public_modules()
__all__ += _ADDED
__all__.sort()

_HOMES = {
    "AttentionNetwork": "weightwright.runtime.module",
    "Circuit": "weightwright.circuit.circuit",
    "Interpreter": "weightwright.interpreter.virtual_machine",
    "approximate": "weightwright.approximation.approximate",
    "check": "weightwright.checker.check",
    "compile": "weightwright.compiler.compile",
    "diagnose": "weightwright.adversary.signatures",
    "load": "weightwright.loading",
    "memorize": "weightwright.memory.memorizing",
    "search": "weightwright.adversary.search",
    "selftest": "weightwright.runtime.selftest",
}


def __getattr__(name: str) -> Any:
    if name in ("incontext", "interpreter", "memory", *_ADDED):
        return import_module(f"weightwright.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
