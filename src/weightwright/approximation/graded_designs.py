"""Designs for a formula with a singularity just outside the interval: keys that crowd towards it."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

import numpy as np

from weightwright.approximation.opaque import Opaque
from weightwright.approximation.task import AIMS, Task
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet
from weightwright.heads.graded import AnyGrading, FromMiddle, GradedDesigner, Grading, places, singularity
from weightwright.heads.registers import Design, Query
from weightwright.heads.spectral import MAX_SPECTRAL
from weightwright.numbers import UNIT, Floats

#: A singularity closer than the length of the interval over this is near: a uniform grid would take more keys.
NEAR = 8.0
#: An end closer to 0 than the length over this is counted from 0, where a query does not round.
FROM_ZERO = 2.0
#: Widths to try, times the interval: what else f does may need anchors that are not too wide.
WIDTHS = (math.inf, 1 / 3, 1 / 10)
#: Widths of the keys around the middle, in x.
MIDDLE_WIDTHS = (2.0, 1.0, 0.5, 0.25)
#: An interval is long where it reaches this many of the widest widths.
MIDDLE = 4.0
#: Largest number of keys that crowd towards the middle; more are no better than a uniform grid.
MOST_FROM_MIDDLE = 96
#: What a query may move the output by when it rounds, over the tolerance.
ROUNDED = 0.1
#: Number of graded heads after which no other is tried to be proven: where they all fail, rounding rules.
MOST_PROOFS = 4
_ORDER = 14  # of the Taylor coefficients that show a singularity
_KEYS_IN_A_BOX = 2  # number of keys in a first box of the proof, about


def graded_designs(task: Task, most: int) -> Generator[Design, None, bool]:
    """Graded keys, if a singularity is near one of the ends; else nothing.

    Returns whether they resolve f: then a uniform grid would do no better.
    """
    left, right = _singularities(task)
    if not (math.isfinite(left) or math.isfinite(right)):
        return False
    query = _query(task, math.isfinite(left))
    lo, hi = query.reach(float(task.box.lo[0]), float(task.box.hi[0]), task.dtype)
    grading = Grading(query(left), query(right))
    if not grading.left < lo < hi < grading.right:
        return False
    one_sided = math.isinf(left) or math.isinf(right)
    gradings = [replace(grading, width=share * (hi - lo)) for share in (WIDTHS if one_sided else WIDTHS[:1])]
    return (yield from _designs(task, query, lo, hi, gradings, most))


def middle_designs(task: Task, most: int) -> Iterator[Design]:
    """Keys that crowd towards the middle of a long interval around 0."""
    lo, hi = task.lo, task.hi
    if isinstance(task.function, Opaque) or not lo < 0 < hi:
        return
    widths = [width * task.query.scale for width in MIDDLE_WIDTHS]
    gradings = [FromMiddle(0.0, width) for width in widths if MIDDLE * width < max(-lo, hi)]
    if gradings:
        yield from _designs(task, task.query, lo, hi, gradings, min(most, MOST_FROM_MIDDLE))


def _designs(
    task: Task, query: Query, lo: float, hi: float, gradings: Sequence[AnyGrading], most: int
) -> Generator[Design, None, bool]:
    most = min(most, MAX_SPECTRAL[task.dtype])
    designer = GradedDesigner(lambda s: task.target(s, query=query), lo, hi, gradings, task.tol, most, task.dtype)
    tried = set[int]()
    for aim in AIMS:
        for fit in designer.candidates(aim * task.tol):
            if id(fit) in tried or len(tried) == MOST_PROOFS:
                continue
            tried.add(id(fit))
            size = fit.table.size
            edges = places(fit.grading, lo, hi, np.linspace(0.0, 1.0, 2 + size // _KEYS_IN_A_BOX))
            yield Design((fit.table,), (f"{task.text}, {size} graded anchors",), task.mean, query=query, edges=edges)
    return designer.resolves


def _singularities(task: Task) -> tuple[float, float]:
    """The near ones to the left and to the right of the domain, in x; infinite where there is none."""
    lo, hi = float(task.box.lo[0]), float(task.box.hi[0])
    away = [singularity(_coefficients(task, end)) for end in (lo, hi)]
    near = (hi - lo) / NEAR
    return (lo + away[0] if -near < away[0] < 0 else -math.inf), (hi + away[1] if 0 < away[1] < near else math.inf)


def _coefficients(task: Task, x: float) -> Floats:
    """Taylor's, of the formula at x; none for what is no formula."""
    if isinstance(task.function, Opaque):
        return np.full(_ORDER + 1, np.nan)
    with np.errstate(all="ignore"):
        return np.array([float(c.middle()) for c in jet(task.function, Interval.exact(np.array(x)), _ORDER)])


def _query(task: Task, leftward: bool) -> Query:
    """Around the end near the singularity, where s is small and so is what it rounds by; around 0, where s does not
    round, if that is not far away or the slope leaves no room for rounding."""
    lo, hi = float(task.box.lo[0]), float(task.box.hi[0])
    end = lo if leftward else hi
    moved = UNIT[task.dtype] * (hi - lo) * abs(_coefficients(task, end)[1])
    if lo <= 0 <= hi or abs(end) <= (hi - lo) / FROM_ZERO or moved > ROUNDED * task.tol:
        end = 0.0
    largest = max(abs(lo - end), abs(hi - end))
    return Query(end, Query.covering(-largest, largest, task.dtype).scale)
