"""One frozen attention module that runs a whole library of algorithms, each of which is a prompt.

Arguments that mean the same everywhere:

vm: the interpreter that the program is for.
layer: with one size of features; with or without biases.
sees: (n, r + n), truth values: which rows and data tokens each data token sees; None: all.
name: shown to people.
path: the name of a file.
x: the data, (..., tokens, features).
"""

from weightwright.interpreter.from_modules import from_torch as from_torch
from weightwright.interpreter.programs import Program as Program
from weightwright.interpreter.virtual_machine import Interpreter as Interpreter
