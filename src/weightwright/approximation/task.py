"""What `approximate` is asked for: a formula on an interval, and how a head sees it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weightwright.approximation.formula_of_torch import trace
from weightwright.approximation.opaque import Opaque, opaque_or, take_samples
from weightwright.box import Box
from weightwright.claims.certificate import Samples, local_formula
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet, values
from weightwright.errors import DomainError, FormulaError, NotRepeatable
from weightwright.expressions import Expression, parse, shortened, to_text
from weightwright.expressions.mistakes import read_formula
from weightwright.expressions.poles import join_poles
from weightwright.heads.registers import Query
from weightwright.numbers import FORMATS, Floats, is_positive, rounded
from weightwright.prover import Sampled
from weightwright.tracing.guard.confirm_formula import confirm_formula_again

#: Domains that are narrower or wider cannot be scaled to [-1, 1] with room to spare in the dtype.
WIDTHS = {"float64": (1e-300, 1e300), "float32": (1e-30, 1e30), "bfloat16": (1e-30, 1e30)}
#: Points at which a function is looked at in plain floats.
SAMPLES = 2049
#: Fractions of the tolerance to aim for, one after the other; the rest is left to rounding and slack.
AIMS = (0.93, 0.6, 0.2, 0.02)
_SMALLEST_BOX = 40  # halvings of a 64th of the domain


@dataclass(frozen=True)
class Task:
    """A function on an interval. s is the query: x, shifted and scaled."""

    function: Expression | Opaque
    text: str
    box: Box
    tol: float
    dtype: str
    query: Query
    mean: float  # about the middle of the function's range
    lo: float  # of s
    hi: float
    dead_zone: float = 0.0  # half the width of what is left out around every jump, in x
    samples: Samples | None = None  # of an opaque function
    #: Formulas of s by their mean and query.
    locals: dict[tuple[float, Query], Expression] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def where(self) -> str:
        return f"{shortened(self.text)} on [{self.box.lo[0]:g}, {self.box.hi[0]:g}]"

    @property
    def reference(self) -> str | Opaque:
        """What a search compares with."""
        return self.function if isinstance(self.function, Opaque) else self.text

    def local(self, mean: float, query: Query | None = None) -> Expression | None:
        """The formula of s, less a mean, as the checker will read it; None for an opaque function."""
        if isinstance(self.function, Opaque):
            return None
        key = mean, query or self.query
        if key not in self.locals:  # one object for one formula: what is found out about it is found once
            self.locals[key] = local_formula(self.function, key[1].centre, key[1].scale, mean)
        return self.locals[key]

    def provable(self, mean: float, query: Query) -> Expression | Sampled:
        """What the prover compares a layer with."""
        local = self.local(mean, query)
        if local is not None:
            return local
        assert self.samples is not None
        return Sampled(self.samples, query.centre, query.scale, mean)

    def target(self, s: Floats, mean: float | None = None, query: Query | None = None) -> Floats:
        """The function less its mean, in plain floats."""
        mean, query = self.mean if mean is None else mean, query or self.query
        local = self.local(mean, query)
        if local is not None:
            return values(local, s)
        assert isinstance(self.function, Opaque)
        x = np.clip(query.centre + np.ravel(s) / query.scale, self.box.lo[0], self.box.hi[0])
        return self.function(x[:, None]).reshape(np.shape(s)) - mean


def well_formed(f: object, tol: object) -> None:
    if not is_positive(tol):
        raise ValueError(f"tol must be a positive finite number, not {tol!r}")
    if isinstance(f, type):
        raise FormulaError(f"{f.__name__} is a class: pass what it makes, {f.__name__}(...)")
    if not (isinstance(f, str) or callable(f)):
        raise FormulaError(f"f must be a formula or a torch function, not {type(f).__name__}: {f!r}")


def well_formed_zone(dead_zone: float) -> None:
    if not isinstance(dead_zone, int | float) or not (math.isfinite(dead_zone) and dead_zone >= 0):
        raise ValueError(f"dead_zone must be a finite number at or above 0, not {dead_zone!r}")


def make_task(
    f: str | Callable[..., Any],
    domain: Box,
    tol: float,
    dtype: str,
    dead_zone: float,
    measured: bool,
    derivative: tuple[int, float] | None,
) -> Task:
    """Check the arguments and say which is wrong."""
    well_formed_zone(dead_zone)
    if domain.lo.shape != (1,):
        raise DomainError(
            "domain: approximate takes an interval, or a box of two or three features,"
            f" not one of shape {domain.lo.shape}"
        )
    box = outward(domain, dtype)
    function = as_function(f, ("x",), measured or derivative is not None, box)
    text = function.name if isinstance(function, Opaque) else to_text(function)
    lo, hi = float(box.lo[0]), float(box.hi[0])
    least, most = WIDTHS[dtype]
    if not least <= hi - lo <= most:
        raise DomainError(f"domain: [{lo!r}, {hi!r}] must be between {least:g} and {most:g} wide in {dtype}")
    x = np.clip(lo + (hi - lo) * np.linspace(0.0, 1.0, SAMPLES), lo, hi)
    samples = None
    if isinstance(function, Opaque):
        if derivative is not None:
            samples = take_samples(function, lo, hi, derivative, tol)
        y = function(x[:, None])
    else:
        _bounded(function, text, lo, hi, most)
        y = values(function, x)
    mean = middle_in_few_bits(y, dtype)
    query = Query.covering(lo, hi, dtype)
    reach = query.reach(lo, hi, dtype)
    return Task(function, text, box, float(tol), dtype, query, mean, *reach, float(dead_zone), samples)


def as_function(
    f: str | Callable[..., Any], names: tuple[str, ...], may_be_opaque: bool, box: Box | None = None
) -> Expression | Opaque:
    """A formula as the checker will read it; or the function itself where it cannot be traced and need not be. box:
    where the formula is compared with the function."""
    if isinstance(f, str):
        return _with_poles_joined(read_formula(f, names), names)
    _takes(f, names)
    try:
        return _with_poles_joined(trace(f, names, box), names)
    except (FormulaError, NotRepeatable):
        raise
    except Exception as error:  # whatever a function may raise when it is called with a symbol
        return opaque_or(error, f, may_be_opaque)


def confirm_again(f: str | Callable[..., Any], found: Expression | Opaque, names: tuple[str, ...], box: Box) -> None:
    """NotRepeatable where f is not any more what `as_function` found; for when the network is there."""
    if isinstance(found, Opaque):
        found.confirm_again()
    elif not isinstance(f, str):
        confirm_formula_again(f, found, names, box)


def _with_poles_joined(expression: Expression, names: tuple[str, ...]) -> Expression:
    """Written and read once more, so that what stands in several places is one object."""
    return parse(to_text(join_poles(expression)), names)


def _takes(function: Callable[..., Any], names: tuple[str, ...]) -> None:
    """FormulaError unless the function can be called with these arguments."""
    try:
        inspect.signature(function).bind(*names)
    except TypeError as error:
        tensors = f"{len(names)} tensor{'s' * (len(names) > 1)}, {', '.join(names)}"
        raise FormulaError(f"f must take {tensors}, one for each feature of the domain: {error}") from error
    except ValueError:  # a built-in function without a signature: call it and see
        pass


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
    raise FormulaError(
        f"{shortened(text)} is undefined, infinite or too large for a float at or near x = {float(a[0])!r}"
    )


def outward(box: Box, dtype: str) -> Box:
    """The box with ends of the dtype, rounded outward."""
    bits, lowest = FORMATS[dtype].bits, FORMATS[dtype].lowest

    def end(x: Floats, outward: float) -> Floats:
        nearest = rounded(x, dtype)
        unit = np.ldexp(1.0, np.maximum(np.frexp(nearest)[1] - bits, lowest))
        inside = nearest * outward < x * outward
        return rounded(np.where(inside, nearest + outward * unit, nearest), dtype)

    return Box(end(box.lo, -1.0), end(box.hi, 1.0))


def middle_in_few_bits(y: Floats, dtype: str) -> float:
    """The middle of the values' range, in few bits; 0 if that is as good."""
    middle, half = y.max() / 2 + y.min() / 2, y.max() / 2 - y.min() / 2
    bits = min(20, FORMATS[dtype].bits)
    mantissa, exponent = math.frexp(middle)
    mean = math.ldexp(round(mantissa * 2**bits), exponent - bits)
    return 0.0 if abs(middle) <= half / 16 else float(rounded(np.array(mean), dtype))
