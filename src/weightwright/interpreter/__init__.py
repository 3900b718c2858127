"""One frozen attention module that runs a whole library of algorithms, each of which is a prompt."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weightwright.interpreter.from_modules import from_torch as from_torch
from weightwright.interpreter.programs import Program as Program
from weightwright.interpreter.virtual_machine import Interpreter as Interpreter

if TYPE_CHECKING:
    from weightwright.interpreter import library as library


def __getattr__(name: str) -> Any:
    """The library, where somebody asks for it."""
    if name == "library":
        return import_module("weightwright.interpreter.library")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
