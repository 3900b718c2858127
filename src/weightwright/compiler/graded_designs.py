"""Designs for a formula with a singularity just outside the interval: keys that crowd towards it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from weightwright.certificates.prover.intervals import Interval
from weightwright.certificates.prover.jets import jet
from weightwright.compiler.designs import AIMS, MAX_SPECTRAL
from weightwright.compiler.opaque import Opaque
from weightwright.compiler.task import Task
from weightwright.heads.assemble import Design, Query
from weightwright.heads.graded import Designer, Grading, singularity
from weightwright.network.laws import rounded

#: A singularity closer than the length of the interval over this is near: a uniform grid would take more keys.
NEAR = 8.0
#: An end closer to 0 than the length over this is counted from 0, where a query does not round.
FROM_ZERO = 2.0
_ORDER = 14  # of the Taylor coefficients that show a singularity
_KEYS_IN_A_BOX = 2  # a first box of the proof is about so wide


def graded_designs(task: Task, most: int) -> Iterator[Design]:
    """Graded keys, if a singularity is near one of the ends; else nothing."""
    left, right = _singularities(task)
    if not (math.isfinite(left) or math.isfinite(right)):
        return
    query = _query(task, math.isfinite(left))
    lo, hi = query.reach(float(task.box.lo[0]), float(task.box.hi[0]), task.dtype)
    grading = Grading(query(left), query(right))
    if not grading.left < lo < hi < grading.right:
        return
    most = min(most, MAX_SPECTRAL[task.dtype])
    designer = Designer(lambda s: task.target(s, query=query), lo, hi, grading, task.tol, most, task.dtype)
    tried = set[int]()
    for aim in AIMS:
        for fit in designer.candidates(aim * task.tol):
            if id(fit) in tried:
                continue
            tried.add(id(fit))
            size = fit.tables[0].size
            edges = grading.even(lo, hi, 2 + size // _KEYS_IN_A_BOX)
            yield Design(fit.tables, (f"{task.text}, {size} graded anchors",), task.mean, query=query, edges=edges)


def _singularities(task: Task) -> tuple[float, float]:
    """The near ones to the left and to the right of the domain, in x; infinite where there is none."""
    lo, hi = float(task.box.lo[0]), float(task.box.hi[0])
    found = [-math.inf, math.inf]
    if isinstance(task.function, Opaque):
        return found[0], found[1]
    coefficients = [x.middle() for x in jet(task.function, Interval.exact(np.array([lo, hi])), _ORDER)]
    for end, x in enumerate((lo, hi)):
        away = singularity(np.array([np.broadcast_to(c, 2)[end] for c in coefficients]) * 1.0)
        if 0 < (away if end else -away) < (hi - lo) / NEAR:
            found[end] = x + away
    return found[0], found[1]


def _query(task: Task, leftward: bool) -> Query:
    """Around 0 if the end near the singularity is near 0, else around that end: there s is small, and so is what it
    rounds by."""
    lo, hi = float(task.box.lo[0]), float(task.box.hi[0])
    end = lo if leftward else hi
    if lo <= 0 <= hi or abs(end) <= (hi - lo) / FROM_ZERO:
        end = 0.0
    centre = float(rounded(np.array(end), task.dtype))
    covering = Query.covering(min(lo, centre) - centre, max(hi, centre) - centre, task.dtype)
    return Query(centre, covering.scale)
