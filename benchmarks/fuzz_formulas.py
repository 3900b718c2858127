"""Formulas as a reader takes them: the text of a certificate, read by Python's own parser and computed at inputs, with
nothing else of the claim. For `fuzz_readers.py`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from flint import arb, fmpq

from weightwright.claims.scope import DeadZone

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.exact import _MEANING

Row = list[arb]
_OPERATORS: dict[type, str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow"}
_SHORTENED = re.compile(r"(?<![\w.])((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\.\.\.")
#: Digits of a number that ends in three dots: the last of them is rounded.
_DIGITS = 6
#: Longer texts are not read: nobody would.
_MOST_CHARACTERS = 2000


class UnreadableError(Exception):
    """Words, or a formula that Python reads otherwise or not at all."""


class DeadError(Exception):
    """An argument of a function that jumps is in a dead zone."""


@dataclass(frozen=True)
class Formulas:
    """As many as the text has: one, or those in brackets with commas between them."""

    items: tuple[ast.expr, ...]
    source: str

    @property
    def names(self) -> set[str]:
        nodes = [node for item in self.items for node in ast.walk(item)]
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        return {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called} - {"pi", "e"}

    def at(self, known: dict[str, arb], features: Row, zones: Sequence[DeadZone] = ()) -> Row:
        """known: variables by name; features: what x[0], x[1], ... are. Dead where an argument is in a zone."""
        return [_value(item, self.source, known, features, zones) for item in self.items]


def read_formulas(text: str) -> Formulas:
    """UnreadableError if these are words. The commas of several formulas may stand without brackets, too."""
    source = _SHORTENED.sub(r'near("\1")', text)
    if len(text) > _MOST_CHARACTERS:
        raise UnreadableError(f"{len(text):,} characters")
    try:
        tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnreadableError(str(error)) from error
    items = tuple(tree.elts) if isinstance(tree, ast.Tuple) else (tree,)
    return Formulas(items, source)


def _value(node: ast.expr, source: str, known: dict[str, arb], x: Row, zones: Sequence[DeadZone]) -> arb:
    def of(one: ast.expr) -> arb:
        return _value(one, source, known, x, zones)

    match node:
        case ast.Constant(value=int() | float()):
            return _number(ast.get_source_segment(source, node) or "")
        case ast.Name(id="pi" | "e"):
            return _MEANING[node.id]()
        case ast.Name() if node.id in known:
            return known[node.id]
        case ast.Subscript(value=ast.Name(id="x"), slice=ast.Constant(value=int(i))) if 0 <= i < len(x):
            return x[i]
        case ast.UnaryOp(op=ast.USub()):
            return -of(node.operand)
        case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=int(power))):
            return of(node.left) ** power
        case ast.BinOp() if type(node.op) in _OPERATORS:
            return _MEANING[_OPERATORS[type(node.op)]](of(node.left), of(node.right))
        case ast.Call(func=ast.Name(id="near"), args=[ast.Constant(value=str(digits))]):
            return _number(digits) + arb(0, _last_digit(digits))
        case ast.Call(func=ast.Name(id=name)) if name in _MEANING and not node.keywords:
            args = [of(arg) for arg in node.args]
            if name in ("step", "sign"):
                _outside(args[0], [zone for zone in zones if zone.of == f"the argument of {name}(x)"])
            return _MEANING[name](*args)
    raise UnreadableError(ast.dump(node)[:60])


def _outside(argument: arb, zones: list[DeadZone]) -> None:
    if any(not (argument <= arb(zone.lo) or argument >= arb(zone.hi)) for zone in zones):
        raise DeadError


def _number(text: str) -> arb:
    try:
        exact = Fraction(text)
    except ValueError as error:
        raise UnreadableError(text) from error
    return arb(fmpq(exact.numerator, exact.denominator))


def _last_digit(digits: str) -> arb:
    """Half a unit of the last digit that is shown, trailing zeros included."""
    size = Decimal(digits)
    return arb(str(Decimal(1).scaleb(size.adjusted() + 1 - _DIGITS))) if size else arb("1e-300")
