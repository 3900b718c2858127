"""Losses of a linear model: the catalogue, and the caller's own as a formula or a torch function.

A loss is a function of one number: the residual w.x - y ("residual") or the margin y w.x with y = 1 or -1 ("margin").
Or it takes x = w.x and y apart: "separable" if its slope is a function of x plus one of y, "pair" otherwise.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

from weightwright.approximation.formula_of_torch import trace
from weightwright.errors import FormulaError
from weightwright.expressions import Expression, parse, to_text
from weightwright.expressions.mistakes import read_formula
from weightwright.incontext.problem.convex import is_convex
from weightwright.incontext.problem.curvature import curvature_bounds, is_defined
from weightwright.incontext.problem.loss_forms import Form, recognise_form
from weightwright.numbers import is_positive

Targets = Literal["real", "signs", "counts"]


@dataclass(frozen=True)
class Loss:
    """l and l' as formulas. In x alone for "residual" and "margin"; in x = w.x and y for the other forms, and l' is the
    derivative in x.

    lo, hi: the ends of a range of x.
    y: one target; None where the formula has none.
    convex: shown by rules (all of the catalogue is); otherwise the curvature's bounds may still show it on a range.
    """

    name: str  # shown to people
    formula: str  # l
    slope: str  # l'
    form: Form  # what x is: the residual, the margin, or w.x with y beside it
    targets: Targets = "real"  # what y may be: any numbers, 1 or -1, or numbers that are not negative
    convex: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        """What the formulas are in."""
        return ("x",) if self.form in ("residual", "margin") else ("x", "y")

    @cached_property
    def value_expression(self) -> Expression:
        """l, parsed."""
        return parse(self.formula, self.variables)

    @cached_property
    def slope_expression(self) -> Expression:
        """l', parsed."""
        return parse(self.slope, self.variables)

    @property
    def is_quadratic(self) -> bool:
        """Of the squared loss: its curvature is 1 everywhere."""
        return self.form == "residual" and self.formula == "x**2/2"

    def curvature(self, lo: float, hi: float, y: float | None = None) -> float:
        """A proven upper bound of l'' on lo <= x <= hi (for this y); infinite where there is none.

        >>> loss("huber", delta=2.0).curvature(-5, 5), loss("logistic").curvature(-9.0, 9.0) < 0.252
        (1.0, True)
        """
        return self.curvature_bounds(lo, hi, y)[1]

    def curvature_bounds(self, lo: float, hi: float, y: float | None = None) -> tuple[float, float]:
        """Proven lower and upper bounds of l''. FormulaError where l is undefined on a part of the range."""
        fixed = self._fixed(lo, hi, y)
        least, most = curvature_bounds(self.value_expression, lo, hi, fixed)
        if not (math.isfinite(least) and math.isfinite(most)):
            self.require_defined(lo, hi, y)
        return (max(least, 0.0) if self.convex else least), most

    def require_defined(self, lo: float, hi: float, y: float | None = None) -> None:
        """FormulaError that names the range unless l and l' are finite on all of it."""
        fixed = self._fixed(lo, hi, y)
        for what, expression in (("loss", self.value_expression), ("slope", self.slope_expression)):
            if not is_defined(expression, lo, hi, fixed):
                at = "" if y is None else f" for y = {y!r}"
                raise FormulaError(
                    f"the {what} {to_text(expression)} of {self.name} is undefined or unbounded somewhere on x in"
                    f" [{lo:.6g}, {hi:.6g}]{at}; take a loss that is finite there, or data with a smaller range"
                )

    def _fixed(self, lo: float, hi: float, y: float | None) -> dict[str, float]:
        if not (math.isfinite(lo) and math.isfinite(hi) and lo <= hi):
            raise ValueError(f"lo, hi: an interval of finite numbers is needed, not [{lo!r}, {hi!r}]")
        if "y" in self.variables and y is None:
            raise ValueError(f"y: the loss {self.name} takes w.x and y apart, so its curvature needs y")
        return {"y": float(y)} if "y" in self.variables and y is not None else {}


def loss(
    name: str | None = None,
    *,
    formula: str | None = None,
    fn: Callable[..., Any] | None = None,
    form: Form | None = None,
    **parameters: float,
) -> Loss:
    """A loss of the catalogue by its name and parameters, or the caller's own.

    name: of the catalogue; a name that is none is refused with those that are.
    formula: in x (the residual w.x - y, or the margin with form="margin"), or in x and y with x = w.x.
    fn: a torch function of one tensor or of two (w.x, y), elementwise.
    form: "residual", "margin", "separable" or "pair"; None: read off the formula.
    parameters: numbers of a loss of the catalogue, such as delta.

    >>> loss("huber", delta=1.35).slope
    'clip(x, -1.35, 1.35)'
    >>> loss(formula="log(cosh(x))").form, loss(formula="softplus(-y*x)").form, loss(formula="exp(x) - x*y").form
    ('residual', 'margin', 'separable')
    """
    given = [key for key, value in (("name", name), ("formula", formula), ("fn", fn)) if value is not None]
    if len(given) != 1:
        raise ValueError(f"loss: exactly one of name, formula and fn is needed, not {given or 'none'}")
    if name is not None:
        if form is not None:
            raise ValueError(f"form={form!r}: the losses of the catalogue have their own form")
        return _of_catalogue(name, parameters)
    if parameters:
        raise ValueError(f"{', '.join(parameters)}: only losses of the catalogue have parameters; write the numbers in")
    if form is not None and form not in get_args(Form):
        raise ValueError(f"form must be one of {', '.join(get_args(Form))}, not {form!r}")
    written = _traced(fn) if fn is not None else _parsed(formula or "")
    expression, slope, found = recognise_form(written, form)
    text = to_text(expression)
    return Loss(text, text, to_text(slope), found, "signs" if found == "margin" else "real", is_convex(expression))


def _parsed(formula: str) -> Expression:
    takes_y = isinstance(formula, str) and re.search(r"\by\b", formula)
    return read_formula(formula, ("x", "y") if takes_y else ("x",))


def _traced(function: Callable[..., Any]) -> Expression:
    """Through the text, so that what stands in several places is one object."""
    count = len(inspect.signature(function).parameters)
    if count not in (1, 2):
        raise ValueError(f"fn takes {count} arguments; a loss takes one (the residual) or two (w.x and y)")
    names = ("x", "y")[:count]
    return parse(to_text(trace(function, names)), names)


def _of_catalogue(name: str, parameters: dict[str, float]) -> Loss:
    if name not in _CATALOGUE:
        raise ValueError(f"name={name!r} is not a loss of the catalogue: {', '.join(_CATALOGUE)}; pass formula= or fn=")
    build, defaults = _CATALOGUE[name]
    for key, value in parameters.items():
        if key not in defaults:
            known = ", ".join(defaults) or "none"
            raise ValueError(f"{key}={value!r} is not a parameter of the loss {name!r}; it has {known}")
        if not is_positive(value):
            raise ValueError(f"{key}={value!r}: the loss {name!r} needs a positive finite number")
    numbers = {key: float(parameters.get(key, default)) for key, default in defaults.items()}
    return replace(build(**numbers), convex=True)  # all of them are


def _huber(delta: float) -> Loss:
    return Loss(f"huber({delta!r})", _rounded_corner(delta), f"clip(x, -{delta!r}, {delta!r})", "residual")


def _rounded_corner(width: float) -> str:
    """x^2/2 where |x| <= width, and straight on from there: c (x - c/2) with c = x clipped."""
    clipped = f"clip(x, -{width!r}, {width!r})"
    return f"{clipped}*(x - {clipped}/2)"


def _pseudo_huber(delta: float) -> Loss:
    root = f"sqrt(1 + (x/{delta!r})**2)"
    return Loss(f"pseudo_huber({delta!r})", f"{delta!r}**2*({root} - 1)", f"x/{root}", "residual")


def _quantile(q: float, width: float) -> Loss:
    """The check loss max(-q s, (1 - q) s), s = w.x - y, with a parabola for |s| <= width: above it by width/4
    at most."""
    if q >= 1:
        raise ValueError(f"q={q!r}: a quantile lies between 0 and 1")
    tilt = f"(0.5 - {q!r})"
    value = f"{_rounded_corner(width)}/(2*{width!r}) + {tilt}*x + {width!r}/4"
    return Loss(
        f"quantile({q!r}, {width!r})", value, f"clip(x, -{width!r}, {width!r})/(2*{width!r}) + {tilt}", "residual"
    )


def _hinge(width: float) -> Loss:
    """relu(1 - t) with a parabola for 1 - width <= t <= 1."""
    clipped = f"clip(1 - x, 0, {width!r})"
    value = f"{clipped}*(1 - x - {clipped}/2)/{width!r}"
    return Loss(f"hinge({width!r})", value, f"-{clipped}/{width!r}", "margin", "signs")


#: How a loss is written, and its parameters with their defaults.
_CATALOGUE: dict[str, tuple[Callable[..., Loss], dict[str, float]]] = {
    "squared": (lambda: Loss("squared", "x**2/2", "x", "residual"), {}),
    "logistic": (lambda: Loss("logistic", "softplus(-x)", "-sigmoid(-x)", "margin", "signs"), {}),
    "huber": (_huber, {"delta": 1.35}),
    "pseudo_huber": (_pseudo_huber, {"delta": 1.0}),
    "quantile": (_quantile, {"q": 0.5, "width": 0.1}),
    "hinge": (_hinge, {"width": 0.5}),
    "poisson": (lambda: Loss("poisson", "exp(x) - y*x", "exp(x) - y", "separable", "counts"), {}),
}
