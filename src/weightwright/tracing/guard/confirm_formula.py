"""The same guard for functions of single numbers, one tensor for each variable, that became a formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from weightwright.box import Box
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.errors import NotRepeatable, UnsupportedOperation
from weightwright.expressions import Expression
from weightwright.numbers import Floats
from weightwright.tracing.elementary import beyond_softplus
from weightwright.tracing.guard.confirm import as_numbers, ask_for_no_numbers
from weightwright.tracing.guard.first_difference import lies_in, name_first_difference
from weightwright.tracing.guard.inputs import ROWS, choose_inputs
from weightwright.tracing.guard.running_error import enclose_formula
from weightwright.tracing.repeated import THE_SAME, keep_randomness, place_of
from weightwright.tracing.running import record, run

#: An operation: its name, and the formula of what it returned.
FormulaStep = tuple[str, Expression]
#: Parts of the domain of one variable over which a range is enclosed: 256 bring it within 1 % for most formulas.
_PARTS = 256


def confirm_formula(
    function: Callable[..., Any], expression: Expression, names: Sequence[str], box: Box, steps: Sequence[FormulaStep]
) -> None:
    """Refuse (UnsupportedOperation) a function that does not compute its formula. steps: all its operations."""
    name, failed, ran = place_of(function), None, False
    with keep_randomness():
        for x in _shapes(choose_inputs(box.lo, box.hi, ROWS)):
            inputs = tuple(torch.tensor(x[..., i]) for i in range(len(names)))
            where = _enclose(expression, names, x)
            if not ran:
                ask_for_no_numbers(function, inputs, name)
            for again in (False, True):
                try:
                    with torch.set_grad_enabled(torch.is_grad_enabled() != again):  # a function may ask for this too
                        result = as_numbers(run(function, inputs), name).numpy()
                except UnsupportedOperation:
                    raise
                except Exception as error:
                    failed = error
                    break
                ran = True
                if (
                    result.shape in ((), where.lo.shape)
                    and lies_in(np.broadcast_to(result, where.lo.shape), where).all()
                ):
                    continue
                if again:
                    raise NotRepeatable(
                        f"{name} returns other numbers when it is called again, with gradients switched on or off;"
                        f" {THE_SAME}"
                    )
                traced = [(said, [_enclose(made, names, x)]) for said, made in steps]
                raise name_first_difference(function, record(function, inputs).steps, traced, name)
    if not ran:
        raise UnsupportedOperation(f"{name} can be traced, but fails when it is run in float64: {failed}") from failed


def confirm_formula_again(function: Callable[..., Any], expression: Expression, names: Sequence[str], box: Box) -> None:
    """NotRepeatable for a function that was compared with its formula before, and has changed. The formula may hold
    where the function is not finite: sin(x)/x at 0."""
    name, x = place_of(function), choose_inputs(box.lo, box.hi, ROWS)
    where = _enclose(expression, names, x)
    with keep_randomness():
        try:
            result = as_numbers(run(function, tuple(torch.tensor(x[..., i]) for i in range(len(names)))), name).numpy()
        except Exception as error:
            raise NotRepeatable(f"{name} fails when it is called again: {error}; {THE_SAME}") from error
    finite = np.isfinite(result)
    if result.shape not in ((), where.lo.shape) or not finite.any() or not (~finite | lies_in(result, where)).all():
        raise NotRepeatable(f"{name} has changed while it was compiled; {THE_SAME}")


def stay_below_ends(ends: Sequence[tuple[Expression, float, str]], names: Sequence[str], box: Box) -> None:
    """Refuse what may leave the smooth part of torch's softplus: arguments, ends and lines."""
    edges = np.linspace(box.lo, box.hi, _PARTS + 1 if len(names) == 1 else 2)
    for argument, end, place in ends:
        at = {name: Interval(edges[:-1, i], edges[1:, i]) for i, name in enumerate(names)}
        highest = float(np.max(enclose_formula(argument, at).hi))
        if not highest <= end:
            raise beyond_softplus(end, highest, place)


def _shapes(x: Floats) -> Iterator[Floats]:
    """All points at once, a few, and some by themselves: an elementwise function does not mind."""
    yield from (x, x[:3], x[-1:], *x[-3:])


def _enclose(expression: Expression, names: Sequence[str], x: Floats) -> Interval:
    at = {name: Interval.exact(x[..., i]) for i, name in enumerate(names)}
    where = enclose_formula(expression, at)
    return Interval(*(np.broadcast_to(end, x.shape[:-1]) for end in (where.lo, where.hi)))
