"""One frozen attention module that runs a whole library of algorithms, each of which is a prompt."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weightwright.interpreter import library as library
    from weightwright.interpreter.from_modules import from_torch as from_torch
    from weightwright.interpreter.from_networks import emulate as emulate
    from weightwright.interpreter.programs import Program as Program
    from weightwright.interpreter.programs import run_in_turn as run_in_turn
    from weightwright.interpreter.virtual_machine import Interpreter as Interpreter

#: What the reference lists; the library has its page, docs/interpreter.md.
__all__ = ["Interpreter", "Program", "emulate", "from_torch", "run_in_turn"]

_HOMES = {
    "Interpreter": "virtual_machine",
    "Program": "programs",
    "emulate": "from_networks",
    "from_torch": "from_modules",
    "run_in_turn": "programs",
}


def __getattr__(name: str) -> Any:
    """On first use: listing the theorems waits for no torch."""
    if name == "library":
        return import_module("weightwright.interpreter.library")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"weightwright.interpreter.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "library"])
