"""One frozen attention module that runs a whole library of algorithms, each of which is a prompt."""

from weightwright.interpreter.from_modules import from_torch as from_torch
from weightwright.interpreter.from_networks import emulate as emulate
from weightwright.interpreter.programs import Program as Program
from weightwright.interpreter.programs import run_in_turn as run_in_turn
from weightwright.interpreter.virtual_machine import Interpreter as Interpreter
