"""Torch's operations on elements: functions of one number, + - * / **, the larger and the smaller of two."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
import torch

from weightwright.errors import FormulaError
from weightwright.expressions import Apply, Expression, Variable, parse
from weightwright.tracing.advice import COMPARED
from weightwright.tracing.columns import Unfolded
from weightwright.tracing.elementary import ELEMENTARY, clamped, end_of_softplus, number
from weightwright.tracing.operands import as_traced, constant, elementwise, sheet_of, weighted
from weightwright.tracing.rewriting import as_sum_of_squares, product_with_limit, quotient_with_limit, switch_with_bend
from weightwright.tracing.sheet import Sheet
from weightwright.tracing.symbolic import OPERATIONS, Traced, Truth, Unusable, operation
from weightwright.tracing.user_source import line, refuse

_X = Variable("x")
_POWERS = {-1.0: "1/x", -0.5: "1/sqrt(x)", 0.5: "sqrt(x)", 1.0: "x"}


def formula(expression: Expression | str, x: Traced) -> Traced:
    """A function of one number, of every element."""
    parsed = parse(expression, ("x",)) if isinstance(expression, str) else expression
    return elementwise(lambda sheet, column: _function(sheet, parsed, column), x)


def _function(sheet: Sheet, expression: Expression | str, column: int) -> int:
    """Of a quadratic form as a sum of squares, which shows that it is positive; a function's own steps are left."""
    if not isinstance(sheet.columns, Unfolded):
        column = as_sum_of_squares(sheet.columns, column, sheet.label)
    return sheet.columns.apply(expression, column, sheet.label)


def _elementary(name: str) -> Any:
    def handler(input: Any, *args: Any, **kwargs: Any) -> Traced:
        return formula(ELEMENTARY[name](_X, *args, **kwargs), input)

    return handler


OPERATIONS.update({name: _elementary(name) for name in ELEMENTARY})


@operation("softplus")
def softplus(input: Any, beta: float = 1, threshold: float = 20) -> Traced:
    """Smooth up to where torch's own ends; the guard sees to it that the argument stays below."""
    smooth, end, place = ELEMENTARY["softplus"](_X, beta, threshold), end_of_softplus(beta, threshold), line()

    def make(sheet: Sheet, column: int) -> int:
        sheet.ends.append((column, end, place))
        return sheet.columns.apply(smooth, column, sheet.label)

    return elementwise(make, input)


@operation("neg", "negative")
def neg(input: Any) -> Traced:
    return weighted([input], [-1.0])


@operation("add")
def add(input: Any, other: Any, alpha: float = 1) -> Traced:
    return weighted([input, other], [1.0, alpha])


@operation("sub")
def sub(input: Any, other: Any, alpha: float = 1) -> Traced:
    return weighted([input, other], [1.0, -alpha])


@operation("radd")
def radd(input: Any, other: Any) -> Traced:
    return add(other, input)


@operation("rsub")
def rsub(input: Any, other: Any, alpha: float = 1) -> Traced:
    return sub(other, input, alpha)


@operation("mul", "rmul")
def mul(input: Any, other: Any) -> Traced:
    return elementwise(product, input, other)


@operation("div")
def div(input: Any, other: Any, rounding_mode: str | None = None) -> Traced:
    if rounding_mode is not None:
        raise refuse(f"div with rounding_mode={rounding_mode!r} cannot be traced", "divide without rounding")
    return elementwise(_quotient, input, other)


@operation("rdiv")
def rdiv(input: Any, other: Any) -> Traced:
    return div(other, input)


@operation("pow")
def power(input: Any, exponent: Any) -> Traced:
    return elementwise(_power, input, exponent)


@operation("rpow")
def rpower(input: Any, other: Any) -> Traced:
    return power(other, input)


@operation("addcmul")
def addcmul(input: Any, tensor1: Any, tensor2: Any, value: float = 1) -> Traced:
    return weighted([input, tensor1 * tensor2], [1.0, value])


@operation("lerp")
def lerp(input: Any, end: Any, weight: Any) -> Traced:
    return add(input, mul(sub(end, input), weight))


@operation("hypot")
def hypot(input: Any, other: Any) -> Traced:
    return formula("sqrt(x)", add(power(input, 2), power(other, 2)))


@operation("atan2", "arctan2")
def atan2(input: Any, other: Any) -> Traced:
    return elementwise(_angle, input, other)


def _angle(sheet: Sheet, y: int, x: int) -> int:
    """The angle of (x, y), by the quotient that has no pole on the domain; across the cut, where x is negative, it
    jumps from -pi to pi. Where the signs are not known, or both numbers change theirs, by half the angle."""
    columns, label, known = sheet.columns, sheet.label, [sheet.range_of(column) for column in (y, x)]
    (y_lo, y_hi), (x_lo, x_hi) = (ends or (-math.inf, math.inf) for ends in known)
    if y_lo > 0 or y_hi < 0:
        return columns.apply("pi/2 - atan(x)" if y_lo > 0 else "-pi/2 - atan(x)", _quotient(sheet, x, y), label)
    if x_lo > 0 or x_hi < 0:
        acute = columns.apply("atan(x)", _quotient(sheet, y, x), label)
        if x_lo > 0:
            return acute
        return columns.combined([acute, columns.apply("sign(x)", y, label)], [1.0, math.pi], label=label)
    if None not in known:
        raise FormulaError(
            f"the angle of (0, 0) is not defined, and the domain holds it: y between {y_lo:.3g} and {y_hi:.3g}, x"
            f" between {x_lo:.3g} and {x_hi:.3g}. Take a domain where one of them keeps its sign"
        )
    squares = columns.combined([columns.apply("x**2", column, label) for column in (x, y)], [1.0, 1.0], label=label)
    side = columns.combined([columns.apply("sqrt(x)", squares, label), x], [1.0, 1.0], label=label)
    return columns.apply("2*atan(x)", _quotient(sheet, y, side), label)


@operation("maximum", "fmax")
def maximum(input: Any, other: Any) -> Traced:
    return elementwise(larger, input, other)


@operation("minimum", "fmin")
def minimum(input: Any, other: Any) -> Traced:
    return elementwise(smaller, input, other)


@operation("logaddexp")
def logaddexp(input: Any, other: Any) -> Traced:
    return elementwise(log_of_sum, input, other)


@operation("clamp")
def clamp(input: Any, min: Any = None, max: Any = None) -> Traced:
    ends = [end for end in (min, max) if end is not None]
    if any(isinstance(end, Traced | torch.Tensor) for end in ends):
        low = input if min is None else maximum(input, min)
        return low if max is None else minimum(low, max)
    if min == 0 and max is None:
        return formula("relu(x)", input)
    low_end, high_end = (None if end is None else number(end, "an end of clamp") for end in (min, max))
    return formula(clamped(_X, low_end, high_end), input)


@operation("where")
def where(condition: Any, input: Any = None, other: Any = None) -> Traced:
    if isinstance(condition, Traced) or input is None:
        raise refuse("torch.where with a condition that is no comparison cannot be traced", COMPARED)
    mask = constant(condition)
    return add(
        mul(as_traced(sheet_of(input, other), input), mask), mul(as_traced(sheet_of(input, other), other), 1 - mask)
    )


@operation("masked_fill")
def masked_fill(input: Any, mask: Any, value: Any) -> Traced:
    if not isinstance(value, Traced) and not np.isfinite(float(value)):
        raise refuse(
            f"masked_fill with {float(value)} cannot be traced",
            "leave the masked entries out of the softmax (index them away), or fill with a finite number such as -30",
        )
    return where(mask, value, input)


@operation("switch")
def switch(gap: Traced, above: Any, below: Any) -> Traced:
    """`above` where the gap is positive, `below` where it is not: what torch.where does with a comparison."""
    return elementwise(_switched, gap, above, below)


def _switched(sheet: Sheet, gap: int, above: int, below: int) -> int:
    """A kink where both come from one column and meet; otherwise a step, times what lies between them."""
    if above == below:
        return above
    bent = switch_with_bend(sheet.columns, gap, above, below, sheet.label)
    if bent is not None:
        return bent
    apart = _difference(sheet, above, below)
    if apart == gap:  # the larger of the two
        return larger(sheet, above, below)
    step = sheet.columns.apply("step(x)", gap, sheet.label)
    return sheet.columns.combined([below, product(sheet, step, apart)], [1.0, 1.0], label=sheet.label)


@operation("gt", "ge", "greater", "greater_equal")
def above(input: Any, other: Any) -> Truth:
    """Where the two are equal nothing is claimed, or both ways give the same."""
    return Truth(sub(input, other))


@operation("lt", "le", "less", "less_equal")
def below(input: Any, other: Any) -> Truth:
    return Truth(sub(other, input))


@operation("eq", "ne", "not_equal")
def compared(input: Any, other: Any) -> Unusable:
    return Unusable("the function decides by the value of its input (an if, a while, a mask)", COMPARED)


@operation("zeros_like")
def zeros_like(input: Traced, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Traced:
    return full_like(input, 0.0, dtype)


@operation("ones_like")
def ones_like(input: Traced, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Traced:
    return full_like(input, 1.0, dtype)


@operation("full_like")
def full_like(
    input: Traced, fill_value: float, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Traced:
    """The number as the dtype holds it."""
    values = constant(torch.full(tuple(input.shape), fill_value, dtype=dtype or torch.float64))
    return Traced(input.sheet, input.sheet.constants(values.numpy()), input.token_axis)


def product(sheet: Sheet, a: int, b: int) -> int:
    limit = product_with_limit(sheet.columns, a, b, sheet.label)
    return sheet.columns.product(a, b, sheet.label) if limit is None else limit


def _quotient(sheet: Sheet, a: int, b: int) -> int:
    divisor = sheet.columns.constant_of(b)
    if divisor is None:
        limit = quotient_with_limit(sheet.columns, a, b, sheet.label)
        return product(sheet, a, _function(sheet, "1/x", b)) if limit is None else limit
    if not divisor.all():
        raise FormulaError("a division by the constant 0")
    return product(sheet, a, sheet.columns.constant(1 / divisor))


def _power(sheet: Sheet, base: int, exponent: int) -> int:
    """A constant exponent or base gives a function of one number; otherwise exp(exponent log(base))."""
    columns, bases, exponents = sheet.columns, sheet.columns.constant_of(base), sheet.columns.constant_of(exponent)
    if exponents is not None and len(exponents) == 1:
        p = float(exponents[0])
        if p == 0:
            return columns.constant(1.0)
        fixed = parse(_POWERS[p]) if p in _POWERS else Apply("pow", (_X, _exactly(p)))
        return _function(sheet, fixed, base)
    if bases is not None and not (bases > 0).all():
        raise FormulaError(f"a power of the constant {bases.min()} with an exponent that depends on the input")
    if bases is not None and len(bases) == 1:
        return columns.apply(Apply("pow", (_exactly(float(bases[0])), _X)), exponent, sheet.label)
    logarithm = _function(sheet, "log(x)", base)
    return columns.apply("exp(x)", product(sheet, exponent, logarithm), sheet.label)


def _exactly(value: float) -> Expression:
    return number(value, "a constant")


def larger(sheet: Sheet, a: int, b: int) -> int:
    """max(x, c) beside a constant c, b + relu(a - b) otherwise."""
    for one, other in ((a, b), (b, a)):
        known = sheet.columns.constant_of(other)
        if known is not None and len(known) == 1:
            text = parse("relu(x)") if known[0] == 0 else Apply("max", (_X, _exactly(float(known[0]))))
            return sheet.columns.apply(text, one, sheet.label)
    above = sheet.columns.apply("relu(x)", _difference(sheet, a, b), sheet.label)
    return sheet.columns.combined([b, above], [1.0, 1.0], label=sheet.label)


def smaller(sheet: Sheet, a: int, b: int) -> int:
    """min(x, c) beside a constant c, a - relu(a - b) otherwise."""
    for one, other in ((a, b), (b, a)):
        known = sheet.columns.constant_of(other)
        if known is not None and len(known) == 1:
            return sheet.columns.apply(Apply("min", (_X, _exactly(float(known[0])))), one, sheet.label)
    above = sheet.columns.apply("relu(x)", _difference(sheet, a, b), sheet.label)
    return sheet.columns.combined([a, above], [1.0, -1.0], label=sheet.label)


def log_of_sum(sheet: Sheet, a: int, b: int) -> int:
    """log(e^a + e^b) = b + softplus(a - b): no error grows on the way, as it would in the logarithm of a sum."""
    soft = sheet.columns.apply("softplus(x)", _difference(sheet, a, b), sheet.label)
    return sheet.columns.combined([b, soft], [1.0, 1.0], label=sheet.label)


def _difference(sheet: Sheet, a: int, b: int) -> int:
    return sheet.columns.combined([a, b], [1.0, -1.0], label=sheet.label)


def tree(make: Any, sheet: Sheet, columns: list[int]) -> int:
    """An associative operation on many columns, in as few steps one after the other as possible."""
    while len(columns) > 1:
        pairs = [columns[i : i + 2] for i in range(0, len(columns), 2)]
        columns = [reduce(lambda a, b: int(make(sheet, a, b)), pair) for pair in pairs]
    return columns[0]
