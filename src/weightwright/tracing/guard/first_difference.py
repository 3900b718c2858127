"""Where a run and a trace part: the first operation whose numbers differ, or that only one of the two has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from weightwright.enclosures.intervals.intervals import Interval
from weightwright.errors import UnsupportedOperation
from weightwright.numbers import Floats
from weightwright.tracing.advice import advice
from weightwright.tracing.guard.running_error import enclose_columns
from weightwright.tracing.repeated import place_of
from weightwright.tracing.running import Step
from weightwright.tracing.sheet import Sheet

#: What an operation was traced as: its name, and where the numbers of the tensors that it returned must lie.
TracedStep = tuple[str, list[Interval]]

_ONE_WAY = (
    "a compiled function takes the same steps for every input: leave out what asks for the type, the number of tokens"
    " or the values of its input, and what an earlier call has left behind; pass tokens=n where it is made for n tokens"
)
_IN_PLACE = "write y = y + 1 in place of y += 1, out=, inplace=True and assignments to elements"


def enclose_steps(sheet: Sheet, x: Floats) -> list[TracedStep]:
    """Where the numbers of every traced operation lie for one input, (n, features)."""
    columns = enclose_columns(sheet.graph(), Interval(x[None], x[None]))
    lo, hi = (
        np.stack([np.broadcast_to(getattr(column, end), (1, len(x)))[0] for column in columns]) for end in ("lo", "hi")
    )
    steps = []
    for name, tensors in sheet.steps or ():
        places = [np.divmod(codes, sheet.n + 1) for codes in tensors]
        where = [(column, np.maximum(token - 1, 0)) for column, token in places]
        steps.append((name, [Interval(lo[at], hi[at]) for at in where]))
    return steps


def name_first_difference(
    function: Any, ran: Sequence[Step], traced: Sequence[TracedStep], name: str, tokens: int | None = None
) -> UnsupportedOperation:
    """The error for a run that does not do what was traced. tokens: how many it was run with, where it takes any."""
    defined = f" ({place_of(function)})"
    for place, step in enumerate(ran):
        if place >= len(traced):
            return _refusal(name, f"{step.name}{step.line} is done when it is run, and was not traced", _ONE_WAY)
        said, expected = traced[place]
        if [tuple(value.shape) for value in step.values] != [where.lo.shape for where in expected]:
            return _refusal(name, f"{step.name}{step.line} is done when it is run where {said} was traced", _ONE_WAY)
        for value, where in zip(step.values, expected, strict=True):
            found = value.to(torch.float64).numpy()
            wrong = np.argwhere(~lies_in(found, where))
            if len(wrong):
                at = tuple(wrong[0])
                told = f"{step.name}{step.line} returns {found[at]:.17g} where {_near(where, at)} was traced"
                return _refusal(name, told, advice(step.name))
    if len(traced) > len(ran):
        return _refusal(name, f"{traced[len(ran)][0]} was traced and is not done when it is run{defined}", _ONE_WAY)
    if tokens is not None:
        return _refusal(name, f"with {tokens} tokens it is another function than with a few{defined}", _ONE_WAY)
    return _refusal(name, f"what it returns is not what its operations made{defined}", f"{_IN_PLACE}; {_ONE_WAY}")


def lies_in(found: Floats, where: Interval) -> Any:
    """Number by number. What the trace does not know (where it is undefined) may be anything."""
    known = np.isfinite(where.lo) & np.isfinite(where.hi)
    return ~known | ((where.lo <= found) & (found <= where.hi))


def _near(where: Interval, at: tuple[Any, ...]) -> str:
    lo, hi = where.lo[at], where.hi[at]
    return f"{lo / 2 + hi / 2:.17g} (within {hi / 2 - lo / 2:.2g})"


def _refusal(name: str, what: str, instead: str) -> UnsupportedOperation:
    return UnsupportedOperation(f"{name} does not compute what was traced: {what}; {instead}")
