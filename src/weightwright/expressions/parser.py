"""Text to expression. A small operator-precedence parser: nothing is evaluated, no Python code runs.

Grammar: decimal numbers, the variables, `pi`, `e`, `+ - * / **`, brackets, the functions of `OPERATIONS`,
softshrink(x, t), which is relu(x - t) - relu(-x - t), and what is written with others: sinh, cosh, expm1, log1p,
sinc, which is sin(pi x)/(pi x), and atan2(y, x), as twice the half of the angle, which has no pole but the cut.
Precedence is Python's: `-x**2` is `-(x**2)` and `2**-x` is allowed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from weightwright.errors import FormulaError
from weightwright.expressions.nodes import OPERATIONS, Apply, Expression, Number, Variable, soft_threshold

MAX_LENGTH = 20_000
MAX_DEPTH = 100
MAX_NODES = 2_000
#: Formulas that are kept once they are parsed: expressions never change.
KEPT = 1024
MAX_EXPONENT = 400  # of a decimal: 1e400 is no float, and 1e999999999 would take gigabytes

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\*\*|[-+*/(),]))",
    re.ASCII,  # a digit of another script is a number to Python, and another one to the eye
)
_BINARY = {"+": ("add", 1), "-": ("sub", 1), "*": ("mul", 2), "/": ("div", 2), "**": ("pow", 4)}
_UNARY_STRENGTH = 3
_OPERATORS = ("add", "sub", "mul", "div", "pow", "neg")  # written as such, not as functions
#: Functions that are written with others, and the number of their arguments.
_WRITTEN = {"softshrink": 2, "atan2": 2, **dict.fromkeys(("sinh", "cosh", "expm1", "log1p", "sinc"), 1)}
#: Names that a formula may have beside its variables.
NAMES = [*(name for name in OPERATIONS if name not in _OPERATORS), *_WRITTEN]


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def parse(text: str, variables: Sequence[str] = ("x",)) -> Expression:
    """
    >>> parse("2*x")
    Apply(op='mul', args=(Number(value=Fraction(2, 1)), Variable(name='x')))
    """
    if not isinstance(text, str):
        raise FormulaError(f"a formula is a string, not {type(text).__name__}: {text!r}")
    if len(text) > MAX_LENGTH:
        raise FormulaError(f"the formula has {len(text)} characters; at most {MAX_LENGTH} are read")
    return _parse_once(text, tuple(variables))


@functools.lru_cache(maxsize=KEPT)
def _parse_once(text: str, variables: tuple[str, ...]) -> Expression:
    return _Parser(text, variables).run()


class _Parser:
    """Precedence climbing; the recursion is bounded by MAX_DEPTH."""

    def __init__(self, text: str, variables: tuple[str, ...]) -> None:
        self.text = text
        self.variables = variables
        self.tokens = self._tokenize()
        self.position = 0
        self.depth = 0
        self.nodes = 0
        self.known: dict[tuple[object, ...], Expression] = {}

    def run(self) -> Expression:
        expression = self._expression(0)
        if self._peek().kind != "end":
            raise self._error(f"{self._peek().text!r} was not expected", self._peek())
        return expression

    def _tokenize(self) -> list[_Token]:
        tokens, at = [], 0
        end = len(self.text.rstrip())
        while at < end:
            match = _TOKEN.match(self.text, at)
            if match is None or match.lastgroup is None:
                found = self.text[at:].lstrip()[:1]
                hint = "; attributes are not part of the language" if found == "." else ""
                raise self._error(f"{found!r} is not part of the language{hint}", _Token("", found, at))
            tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            at = match.end()
        return [*tokens, _Token("end", "the end", end)]

    def _expression(self, strength: int) -> Expression:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} brackets or signs are nested", self._peek())
        left = self._operand()
        while self._peek().text in _BINARY and self._peek().kind == "sign":
            op, binds = _BINARY[self._peek().text]
            if binds < strength:
                break
            self.position += 1
            # ** binds to the right, and its right side may start with a sign
            right = self._expression(_UNARY_STRENGTH if op == "pow" else binds + 1)
            left = self._count(Apply(op, (left, right)))
        self.depth -= 1
        return left

    def _operand(self) -> Expression:
        token = self._next()
        if token.kind == "number":
            return self._count(self._number(token))
        if token.kind == "name":
            return self._count(self._name(token))
        if token.text == "-":
            return self._count(Apply("neg", (self._expression(_UNARY_STRENGTH),)))
        if token.text == "+":
            return self._expression(_UNARY_STRENGTH)
        if token.text == "(":
            inner = self._expression(0)
            self._expect(")")
            return inner
        raise self._error(f"a number, a name or a bracket was expected, not {token.text!r}", token)

    def _number(self, token: _Token) -> Number:
        _, _, exponent = token.text.lower().partition("e")
        if exponent and (len(exponent) > 5 or abs(int(exponent)) > MAX_EXPONENT):
            raise self._error(f"the exponent of {token.text!r} is beyond {MAX_EXPONENT}", token)
        if len(token.text) > 1_000 + MAX_EXPONENT:
            raise self._error(f"a number of {len(token.text)} digits", token)
        return Number(Fraction(token.text))

    def _name(self, token: _Token) -> Expression:
        if token.text in self.variables:
            return Variable(token.text)
        if token.text not in NAMES:
            known = ", ".join([*self.variables, *NAMES])
            raise self._error(f"unknown name {token.text!r}; known are {known}", token)
        arity = {**OPERATIONS, **_WRITTEN}[token.text]
        if arity == 0:
            return Apply(token.text, ())
        self._expect("(")
        args = [self._expression(0)]
        while self._peek().text == ",":
            self.position += 1
            args.append(self._expression(0))
        self._expect(")")
        if len(args) != arity:
            raise self._error(f"{token.text} takes {arity} argument{'s' * (arity > 1)}, not {len(args)}", token)
        return _written(token.text, args) if token.text in _WRITTEN else Apply(token.text, tuple(args))

    def _count(self, node: Expression) -> Expression:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self._error(f"more than {MAX_NODES} operations", self._peek())
        return self._shared(node)

    def _shared(self, node: Expression) -> Expression:
        """One object for equal nodes: what is written several times is then computed once. (Equal arguments are one
        object already, so that their identity tells.)"""
        if isinstance(node, Apply):
            return self.known.setdefault((node.op, *map(id, node.args)), node)
        return self.known.setdefault((type(node), node), node)

    def _peek(self) -> _Token:
        return self.tokens[self.position]

    def _next(self) -> _Token:
        token = self._peek()
        self.position += token.kind != "end"
        return token

    def _expect(self, sign: str) -> None:
        token = self._next()
        if token.text != sign or token.kind == "end":
            raise self._error(f"{sign!r} was expected, not {token.text!r}", token)

    def _error(self, message: str, token: _Token) -> FormulaError:
        shown = self.text if len(self.text) <= 80 else self.text[:77] + "..."
        return FormulaError(f"formula {shown!r}, character {token.at + 1}: {message}")


def _written(name: str, args: list[Expression]) -> Expression:
    if name == "softshrink":
        return soft_threshold(*args)
    x, one = args[0], Number(Fraction(1))
    if name == "atan2":
        return _half_angle_twice(*args)
    if name == "sinc":
        turns = Apply("mul", (Apply("pi", ()), x))
        return Apply("div", (Apply("sin", (turns,)), turns))
    if name == "log1p":
        return Apply("log", (Apply("add", (one, x)),))
    rising, falling = Apply("exp", (x,)), Apply("exp", (Apply("neg", (x,)),))
    if name == "expm1":
        return Apply("sub", (rising, one))
    both = Apply("add" if name == "cosh" else "sub", (rising, falling))
    return Apply("div", (both, Number(Fraction(2))))


def _half_angle_twice(y: Expression, x: Expression) -> Expression:
    """2 atan(y / (sqrt(x^2 + y^2) + x))."""
    two = Number(Fraction(2))
    squares = Apply("add", tuple(Apply("pow", (side, two)) for side in (x, y)))
    quotient = Apply("div", (y, Apply("add", (Apply("sqrt", (squares,)), x))))
    return Apply("mul", (two, Apply("atan", (quotient,))))
