"""Which form a loss of w.x and y has: a function of x - y, of y x, with a separable slope, or none of these."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Literal

from weightwright.errors import FormulaError
from weightwright.expressions import Apply, Expression, Number, Variable, differentiate, fold, to_text
from weightwright.incontext.problem.loss_kinks import has_jumps, slope_of

Form = Literal["residual", "margin", "separable", "pair"]


def recognise_form(expression: Expression, form: Form | None = None) -> tuple[Expression, Expression, Form]:
    """The loss as an expression of its form, its slope in x, and the form: the simplest one, or the one asked for."""
    if form in (None, "residual", "margin") and _names(expression) == {"x", "y"}:
        one = _of_one_number(expression)
        if one is not None and form in (None, one[0]):
            form, expression = one
        elif form is not None:
            raise ValueError(f"form={form!r}: {to_text(expression)} is not a function of {_ARGUMENT[form]} alone")
    if "x" not in _names(expression):
        raise FormulaError(f"the loss {to_text(expression)} does not depend on x, so there is nothing to descend")
    if _names(expression) == {"x"} and form not in ("pair", "separable"):
        return expression, slope_of(expression), form or "residual"
    slope = differentiate(expression)
    if has_jumps(slope):
        raise FormulaError(
            f"the loss {to_text(expression)} has kinks that depend on w.x and y apart: its slope is {to_text(slope)}."
            " Write it in x - y or in y*x alone, or smooth it"
        )
    separable = all(len(_names(term)) <= 1 for term in _terms(slope))
    if form == "separable" and not separable:
        raise ValueError(f"form='separable': the slope {to_text(slope)} is not a function of x plus a function of y")
    return expression, slope, form or ("separable" if separable else "pair")


_ARGUMENT = {"residual": "x - y", "margin": "y*x"}


def _of_one_number(expression: Expression) -> tuple[Form, Expression] | None:
    """The same as a function of x - y, or of y x, if x and y stand in no other way."""
    forms: tuple[Form, ...] = ("residual", "margin")
    for form in forms:
        written = fold(expression, lambda node: node, partial(_recognised, form))
        if _names(written) == {"s"}:
            return form, fold(written, lambda node: _X if node == _S else node, _apply)
    return None


_S, _X, _Y = Variable("s"), Variable("x"), Variable("y")


def _recognised(form: str, op: str, args: Sequence[Expression]) -> Expression:
    pair = tuple(args)
    minus_y, minus_s = Apply("neg", (_Y,)), Apply("neg", (_S,))
    if form == "residual" and op == "sub" and pair in ((_X, _Y), (_Y, _X)):
        return _S if pair == (_X, _Y) else minus_s
    if form == "margin" and op == "mul":
        if pair in ((_X, _Y), (_Y, _X)):
            return _S
        if pair in ((_X, minus_y), (minus_y, _X), (_Y, Apply("neg", (_X,))), (Apply("neg", (_X,)), _Y)):
            return minus_s
    return Apply(op, pair)


def _apply(op: str, args: Sequence[Expression]) -> Expression:
    return Apply(op, tuple(args))


def _names(expression: Expression) -> set[str]:
    return fold(
        expression,
        lambda node: {node.name} if isinstance(node, Variable) else set(),
        lambda op, args: set().union(*args),
    )


def separate_slope(slope: Expression) -> tuple[Expression, Expression | None]:
    """A separable slope as a function of x and one of y; None if y does not occur. Constants go with x."""
    of_x: Expression = Number(Fraction(0))
    of_y: Expression | None = None
    for sign, term in _signed(slope):
        signed = term if sign > 0 else Apply("neg", (term,))
        if "y" not in _names(term):
            of_x = signed if of_x == Number(Fraction(0)) else Apply("add", (of_x, signed))
        else:
            of_y = signed if of_y is None else Apply("add", (of_y, signed))
    return of_x, of_y


def _signed(expression: Expression, sign: int = 1) -> list[tuple[int, Expression]]:
    """The summands with their signs."""
    if isinstance(expression, Apply) and expression.op == "neg":
        return _signed(expression.args[0], -sign)
    if isinstance(expression, Apply) and expression.op in ("add", "sub"):
        first, second = expression.args
        return _signed(first, sign) + _signed(second, sign if expression.op == "add" else -sign)
    return [(sign, expression)]


def _terms(expression: Expression) -> list[Expression]:
    """The summands, without their signs."""
    waiting, found = [expression], []
    while waiting:
        current = waiting.pop()
        if isinstance(current, Apply) and current.op in ("add", "sub", "neg"):
            waiting.extend(current.args)
        else:
            found.append(current)
    return found
