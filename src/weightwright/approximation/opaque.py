"""Functions that are no formulas: called, never looked into.

Their error is measured; or proven, if the caller states a bound on a derivative, from samples: between them the
function cannot stray further than the derivative allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from weightwright.claims.leaf import OPAQUE, Samples
from weightwright.errors import BudgetError, FormulaError, NotRepeatable, UnsupportedOperation
from weightwright.numbers import Floats
from weightwright.tracing.repeated import THE_SAME

MAX_SAMPLES = 20_000
HIGHEST_ORDER = 12
#: Of the tolerance: what may lie between the samples.
_SHARE = 0.2
#: Of the largest value: how far off the function's own values are taken to be, 8 units in the last place.
_ACCURACY = 2.0**-49
#: The same where nothing is proven: values may be computed in float32, and round otherwise in another batch.
_COARSE = 2.0**-16

_SMALL = ("float32", "float16", "bfloat16")

#: Number of inputs with which a function is called twice, to see that it returns the same.
_TRIED = 16


class Opaque:
    """A function of d numbers, called with numpy arrays, or float64 tensors, or floats, whichever it takes first."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        name = getattr(function, "__name__", type(function).__name__)
        self.name = OPAQUE + "".join(c for c in name if c.isprintable())[:60]
        self._tried = False
        self._first: tuple[list[Floats], Floats] | None = None  # the inputs that were tried first, and what it returned
        self.small_dtype = ""  # in which the function returned its values, if that is less than float64

    def __call__(self, x: Floats) -> Floats:
        """(n, d) -> (n,); FormulaError where a value is not finite."""
        alone = len(x) == 1  # twice, so that a function of single numbers is not given an array of one
        columns = [np.ascontiguousarray(column) for column in (np.repeat(x, 2, axis=0) if alone else x).T]
        if not self._tried:
            self._try_twice(columns)
            self.try_in_other_company(columns, _COARSE)
            self._tried = True
        y = self._called(columns)[: len(x)]
        if y.shape != (len(x),):
            raise FormulaError(
                f"{self.name} returned shape {y.shape} for {len(x)} inputs; one number each was expected"
            )
        wrong = np.flatnonzero(~np.isfinite(y))
        if len(wrong):
            raise FormulaError(f"{self.name} is {float(y[wrong[0]])!r} at {x[wrong[0]].tolist()}")
        return y

    def _try_twice(self, columns: list[Floats]) -> None:
        """NotRepeatable where a second call with the same few inputs returns something else."""
        few = [column[:_TRIED] for column in columns]
        first, second = self._called(few), self._called(few)
        self._first = few, first
        if first.shape == second.shape == few[0].shape:
            for at, a, b in zip(np.transpose(few).tolist(), first.tolist(), second.tolist(), strict=True):
                if a != b and not (math.isnan(a) and math.isnan(b)):
                    raise NotRepeatable(f"{self.name} is {a!r} at {at}, and {b!r} when called again; {THE_SAME}")

    def confirm_again(self) -> None:
        """NotRepeatable where the function does not return any more what it returned first."""
        if self._first is not None and not np.array_equal(self._called(self._first[0]), self._first[1], equal_nan=True):
            raise NotRepeatable(f"{self.name} has changed while it was compiled; {THE_SAME}")

    def try_in_other_company(self, columns: list[Floats], accuracy: float) -> None:
        """UnsupportedOperation where a value depends on the other inputs of the call, on their order or number."""
        x = np.stack(columns)  # (d, count)
        first, few = self._called(columns), np.arange(x.shape[1])[:_TRIED]
        if first.shape != x.shape[1:]:
            return  # the caller says so
        close = float(np.abs(first).max(initial=0.0, where=np.isfinite(first))) * accuracy
        for chosen in (few[::-1], few[: len(few) // 2 + 1], *np.repeat(few[:4, None], 2, axis=1)):
            again, wanted = self._called(list(np.ascontiguousarray(x[:, chosen]))), first[chosen]
            if again.shape != wanted.shape:
                raise FormulaError(f"{self.name} returned shape {again.shape} for {len(chosen)} inputs")
            wrong = np.flatnonzero(np.isfinite(wanted) & ~(np.abs(again - wanted) <= close))
            if len(wrong):
                at, (a, b) = x[:, chosen[wrong[0]]].tolist(), (y[wrong[0]] for y in (wanted, again))
                raise UnsupportedOperation(
                    f"{self.name} is {a:.17g} at {at} among {x.shape[1]} inputs, and {b:.17g} among {len(chosen)};"
                    " a value may depend on its own input only: leave out what asks for the length, the order or the"
                    " other numbers of the input"
                )

    def _called(self, columns: list[Floats]) -> Floats:
        problems = []
        ways: list[Callable[[], Any]] = [
            lambda: self.function(*columns),
            lambda: self.function(*(torch.tensor(column) for column in columns)),
            lambda: [self.function(*row) for row in zip(*(column.tolist() for column in columns), strict=True)],
        ]
        for way in ways:
            try:
                with torch.no_grad():
                    result = way()
                dtype = str(getattr(result, "dtype", "")).removeprefix("torch.")
                self.small_dtype = self.small_dtype or (dtype if dtype in _SMALL else "")
                if isinstance(result, torch.Tensor):
                    result = result.double().cpu().numpy()
                return np.atleast_1d(np.array(result, dtype=np.float64))
            except (TypeError, ValueError, AttributeError, RuntimeError, DeprecationWarning) as problem:
                problems.append(str(problem).splitlines()[0] if str(problem) else type(problem).__name__)
        raise FormulaError(
            f"{self.name} takes neither numpy arrays ({problems[0]}), nor float64 tensors ({problems[1]}), nor floats"
            f" ({problems[2]})"
        )


def read_derivative(derivative: object) -> tuple[int, float] | None:
    """(order, bound), or an error that names what is wrong."""
    if derivative is None:
        return None
    match derivative:
        case (int(order), int() | float() as bound) if not isinstance(order, bool):
            if 1 <= order <= HIGHEST_ORDER and math.isfinite(bound) and bound >= 0:
                return order, float(bound)
    raise ValueError(
        f"derivative_bound must be (order, bound), an order from 1 to {HIGHEST_ORDER} and a finite bound on the size of"
        f" that derivative, not {derivative!r}"
    )


def take_samples(function: Opaque, lo: float, hi: float, derivative: tuple[int, float], tol: float) -> Samples:
    """As many as the derivative asks for; BudgetError before the function is called if they are too many."""
    order, bound = derivative
    # between samples h apart, also at the ends, a function strays at most M h^k / (4 k) from its polynomial
    h = (4 * order * _SHARE * tol / bound) ** (1 / order) if bound else math.inf
    count = max(math.ceil((hi - lo) / h) + 1, 2 * order + 2)
    if count > MAX_SAMPLES:
        raise BudgetError(
            f"{function.name}: a derivative of order {order} of up to {bound:g} asks for {count:,} samples to prove"
            f" tol={tol:g}, more than {MAX_SAMPLES:,}; a bound on a derivative of higher order asks for fewer"
        )
    x = np.unique(np.clip(np.linspace(lo, hi, count), lo, hi))
    y = function(x[:, None])
    if function.small_dtype:
        raise UnsupportedOperation(
            f"{function.name} returns {function.small_dtype}, and samples are taken to be right in float64; compute it"
            " in float64, or ask for proof='measured' without a derivative_bound"
        )
    function.try_in_other_company([x], _ACCURACY)
    return Samples(x, y, float(np.abs(y).max()) * _ACCURACY, order, bound)


def opaque_or(error: Exception, function: Callable[..., Any], allowed: bool) -> Opaque:
    """The function as an opaque one if the caller asked for a measured error, or stated a bound; else the error."""
    if allowed:
        return Opaque(function)
    if not isinstance(error, UnsupportedOperation | TypeError | ValueError | AttributeError | RuntimeError):
        raise error
    said = str(error) if isinstance(error, UnsupportedOperation) else f"f cannot be traced ({error})"
    said += ". compile takes modules" if isinstance(function, torch.nn.Module) else ""
    raise UnsupportedOperation(
        f"{said}. A function that is no formula can be taken as it is: proof='measured' searches for its error,"
        " derivative_bound=(order, bound) proves it from samples"
    ) from error
