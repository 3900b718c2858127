"""One frozen attention module that runs a whole library of algorithms, each of which is a prompt."""

from weightwright.interpreter.from_modules import from_torch as from_torch
from weightwright.interpreter.interpreter import Interpreter as Interpreter
from weightwright.interpreter.programs import Program as Program
