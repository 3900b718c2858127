"""Convexity by composition rules: sums, maxima and increasing convex functions of convex parts, logarithms of sums of
exponentials, and roots of sums of squares: (a^2 + b^2)^(1/2) increases in |a| and |b| and is convex in them. Where the
rules say nothing, the function may still be convex."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb, fmpq

from weightwright.enclosures.balls.linear_algebra import evaluate
from weightwright.enclosures.balls.series import working_precision
from weightwright.expressions import Apply, Expression, Number, Variable, fold


@dataclass(frozen=True)
class LossShape:
    """What is known of a part as a function of x. log_convex: positive, with a convex logarithm. root_convex: nowhere
    negative, with a convex square root. value: of a number."""

    convex: bool = False
    concave: bool = False
    above: bool = False  # nowhere negative
    below: bool = False  # nowhere positive
    log_convex: bool = False
    constant: bool = False
    value: arb | None = None
    root_convex: bool = False

    @property
    def affine(self) -> bool:
        return self.convex and self.concave


def is_convex(expression: Expression) -> bool:
    """Whether the rules show that the expression is convex in x, for every value of its other variables.

    >>> from weightwright.expressions import parse
    >>> is_convex(parse("log(cosh(x)) + x**4")), is_convex(parse("sin(x)"))
    (True, False)
    """
    with working_precision():
        return fold(expression, _leaf, _shape).convex


def _leaf(node: Number | Variable) -> LossShape:
    if isinstance(node, Number):
        return _number(arb(fmpq(node.value.numerator, node.value.denominator)))
    return LossShape(convex=True, concave=True, constant=node.name != "x")


def _number(value: arb) -> LossShape:
    return LossShape(True, True, bool(value >= 0), bool(value <= 0), bool(value > 0), True, value, bool(value >= 0))


def _shape(op: str, args: Sequence[LossShape]) -> LossShape:
    if all(arg.value is not None for arg in args):
        return _number(_computed(op, [arg.value for arg in args if arg.value is not None]))
    if all(arg.constant for arg in args):  # the other variable's: any number
        return LossShape(convex=True, concave=True, constant=True)
    if op in ("add", "sub"):
        return _sum(args[0], args[1] if op == "add" else _scaled(args[1], -1))
    if op == "neg":
        return _scaled(args[0], -1)
    if op in ("mul", "div"):
        return _product(op, *args)
    if op == "pow":
        return _power(*args)
    if op == "max":
        a, b = args
        return LossShape(convex=a.convex and b.convex, above=a.above or b.above, below=a.below and b.below)
    return _of_one(op, args[0])


def _computed(op: str, values: Sequence[arb]) -> arb:
    places = {f"a{i}": [value] for i, value in enumerate(values)}
    return evaluate(Apply(op, tuple(Variable(name) for name in places)), places or {"none": [arb(0)]})[0]


def _sum(a: LossShape, b: LossShape) -> LossShape:
    return LossShape(
        convex=a.convex and b.convex,
        concave=a.concave and b.concave,
        above=a.above and b.above,
        below=a.below and b.below,
        log_convex=a.log_convex and b.log_convex,
        root_convex=a.root_convex and b.root_convex,
    )


def _scaled(a: LossShape, sign: int) -> LossShape:
    """Times a positive number, or a negative one."""
    if sign > 0:
        return LossShape(a.convex, a.concave, a.above, a.below, a.log_convex, root_convex=a.root_convex)
    return LossShape(a.concave, a.convex, a.below, a.above)


def _product(op: str, a: LossShape, b: LossShape) -> LossShape:
    if op == "mul" and a.log_convex and b.log_convex:
        return LossShape(convex=True, above=True, log_convex=True, root_convex=True)
    number, other = (a, b) if op == "mul" and a.constant else (b, a)
    if not number.constant:
        return LossShape()
    if number.value is None or not (number.value > 0 or number.value < 0):
        return LossShape(convex=other.affine, concave=other.affine)
    return _scaled(other, 1 if number.value > 0 else -1)


def _power(base: LossShape, exponent: LossShape) -> LossShape:
    k = exponent.value
    if k is not None and k == 0.5:
        return _of_one("sqrt", base)
    if k is None or not k >= 1:
        return LossShape()
    if k.is_integer() and (k / 2).is_integer():
        inside = base.affine or (base.convex and base.above) or (base.concave and base.below)
        return LossShape(convex=inside, above=True, root_convex=inside)
    inside = base.convex and base.above
    return LossShape(convex=inside, above=base.above, root_convex=inside and bool(k >= 2))


def _of_one(op: str, a: LossShape) -> LossShape:
    if op == "exp":
        return LossShape(convex=a.convex, above=True, log_convex=a.convex, root_convex=a.convex)
    if op == "log":
        return LossShape(convex=a.log_convex, concave=a.concave)
    if op == "sqrt":
        return LossShape(convex=a.root_convex, concave=a.concave, above=True, log_convex=a.log_convex)
    if op in ("relu", "softplus"):
        return LossShape(convex=a.convex, above=True)
    if op == "abs":
        return LossShape(convex=a.affine or (a.convex and a.above), above=True)
    return LossShape()
