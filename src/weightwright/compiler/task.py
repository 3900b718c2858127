"""What `approximate` is asked for: a formula on an interval, and how a head sees it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weightwright.box import Box
from weightwright.certificates.claims import local_formula
from weightwright.certificates.prover.intervals import Interval
from weightwright.certificates.prover.jets import jet, values
from weightwright.compiler.trace import trace
from weightwright.errors import DomainError, FormulaError
from weightwright.expressions import Expression, parse, to_text
from weightwright.heads.assemble import Query
from weightwright.network.laws import PRECISION, rounded
from weightwright.network.layers import Floats

#: Domains that are narrower or wider cannot be scaled to [-1, 1] with room to spare in the dtype.
WIDTHS = {"float64": (1e-300, 1e300), "float32": (1e-30, 1e30), "bfloat16": (1e-30, 1e30)}
SAMPLES = 2049
_SMALLEST_BOX = 40  # halvings of a 64th of the domain


@dataclass(frozen=True)
class Task:
    """A formula on an interval. s is the query: x, shifted and scaled."""

    formula: Expression
    text: str
    box: Box
    tol: float
    dtype: str
    query: Query
    mean: float  # about the middle of the formula's range
    lo: float  # of s
    hi: float
    dead_zone: float = 0.0  # half the width of what is left out around every jump, in x

    @property
    def where(self) -> str:
        return f"{self.text} on [{self.box.lo[0]:g}, {self.box.hi[0]:g}]"

    def local(self, mean: float, query: Query | None = None) -> Expression:
        """The formula of s, less a mean, as the checker will read it."""
        query = query or self.query
        text = to_text(local_formula(self.formula, query.centre, query.scale, mean))
        return parse(text, ("s",))

    def target(self, s: Floats) -> Floats:
        """The formula less the mean, in plain floats."""
        return values(self.local(self.mean), s)


def make_task(
    f: str | Callable[..., Any], domain: Box | tuple[Any, Any], tol: float, dtype: str, dead_zone: float
) -> Task:
    """Check the arguments and say which is wrong."""
    if not isinstance(tol, int | float) or not (math.isfinite(tol) and tol > 0):
        raise ValueError(f"tol must be a positive finite number, not {tol!r}")
    if not isinstance(dead_zone, int | float) or not (math.isfinite(dead_zone) and dead_zone >= 0):
        raise ValueError(f"dead_zone must be a finite number at or above 0, not {dead_zone!r}")
    if not (isinstance(f, str) or callable(f)):
        raise FormulaError(f"f must be a formula or a torch function, not {type(f).__name__}: {f!r}")
    text = to_text(parse(f) if isinstance(f, str) else trace(f))
    formula = parse(text)  # as the checker will read it
    box = _outward(Box.of(domain), dtype)
    if box.lo.shape != (1,):
        raise DomainError(f"domain: approximate takes one interval, not a box of shape {box.lo.shape}")
    lo, hi = float(box.lo[0]), float(box.hi[0])
    least, most = WIDTHS[dtype]
    if not least <= hi - lo <= most:
        raise DomainError(f"domain: [{lo!r}, {hi!r}] must be between {least:g} and {most:g} wide in {dtype}")
    query = Query.covering(lo, hi, dtype)
    _bounded(formula, text, lo, hi, most)
    mean = _mean(formula, lo, hi, dtype)
    reach = query.reach(lo, hi, dtype)
    return Task(formula, text, box, float(tol), dtype, query, mean, *reach, dead_zone=float(dead_zone))


def _bounded(formula: Expression, text: str, lo: float, hi: float, most: float) -> None:
    """FormulaError where f cannot be enclosed: halve until every box stays below most, or is a point."""
    edges = np.linspace(lo, hi, 65)
    a, b = edges[:-1], edges[1:]
    for _ in range(_SMALLEST_BOX):
        enclosed = jet(formula, Interval(a, b), 0)[0]
        unknown = ~np.broadcast_to(enclosed.magnitude() < most, a.shape)
        a, b, middle = a[unknown], b[unknown], (a[unknown] + b[unknown]) / 2
        if not len(a):
            return
        a, b = (np.concatenate(ends)[:SAMPLES] for ends in ((a, middle), (middle, b)))
    raise FormulaError(f"{text} is undefined, infinite or too large for a float at or near x = {float(a[0])!r}")


def _outward(box: Box, dtype: str) -> Box:
    """The box with ends of the dtype, rounded outward."""
    bits, lowest = PRECISION[dtype]

    def end(x: Floats, outward: float) -> Floats:
        nearest = rounded(x, dtype)
        unit = np.ldexp(1.0, np.maximum(np.frexp(nearest)[1] - bits, lowest))
        inside = nearest * outward < x * outward
        return rounded(np.where(inside, nearest + outward * unit, nearest), dtype)

    return Box(end(box.lo, -1.0), end(box.hi, 1.0))


def _mean(formula: Expression, lo: float, hi: float, dtype: str) -> float:
    """The middle of f's range, in few bits; 0 if that is as good."""
    y = values(formula, np.clip(lo + (hi - lo) * np.linspace(0.0, 1.0, SAMPLES), lo, hi))
    middle, half = y.max() / 2 + y.min() / 2, y.max() / 2 - y.min() / 2
    bits = min(20, PRECISION[dtype][0])
    mantissa, exponent = math.frexp(middle)
    mean = math.ldexp(round(mantissa * 2**bits), exponent - bits)
    return 0.0 if abs(middle) <= half / 16 else float(rounded(np.array(mean), dtype))
