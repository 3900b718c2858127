"""What a grid construction is asked for: functions of n tokens of d features, as formulas or as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weightwright.approximation.formula_of_torch import trace
from weightwright.claims.leaf import OPAQUE
from weightwright.enclosures.intervals.jets import values_at
from weightwright.errors import FormulaError, NotRepeatable, UnsupportedOperation
from weightwright.expressions import Expression, parse, to_text
from weightwright.expressions.mistakes import read_formula
from weightwright.numbers import Floats

#: A formula of x0, x1, ...; a function of as many numbers; or one of arrays (count, n, d), which is called as it is.
Function = str | Callable[..., Any]

#: Of the largest value: how far off a function's own values are taken to be, 8 units in the last place.
_ACCURACY = 2.0**-49


@dataclass(frozen=True)
class GridTarget:
    """K functions of the N = n d numbers of a sequence; expressions is None where they are no formulas."""

    n: int
    d: int
    formulas: tuple[str, ...]
    expressions: tuple[Expression, ...] | None
    called: Callable[[Floats], Floats] | None = None  # (count, n, d) -> (count, K)

    @property
    def names(self) -> tuple[str, ...]:
        return variables(self.n * self.d)

    def __call__(self, X: Floats) -> Floats:
        """(count, n, d) -> (count, K), in plain floats."""
        if self.called is not None:
            return self.called(X)
        assert self.expressions is not None
        flat = X.reshape(len(X), -1)
        return np.stack([values_at(formula, self.names, flat) for formula in self.expressions], axis=1)

    def accuracy(self, values: Floats, lipschitz: float, B: float) -> float:
        """How far the stored values of a function that is no formula may be off; a grid point is no float either."""
        return float(np.abs(values).max()) * _ACCURACY + lipschitz * B * 2.0**-50


def variables(N: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(N))


def scalar_target(f: Function, n: int, d: int) -> GridTarget:
    """One function."""
    names = variables(n * d)
    if isinstance(f, str):
        return _of_formulas([read_formula(f, names)], n, d)
    if not callable(f):
        raise FormulaError(f"f must be a formula in {_listed(names)} or a function, not {type(f).__name__}: {f!r}")
    return _traced_or_opaque(f, n, d, 1, lambda: [trace(f, names)])


def sequence_target(f: Function | Sequence[str], n: int, d: int) -> GridTarget:
    """n d functions: a list of formulas, token by token, or a function that returns n d values."""
    names, N = variables(n * d), n * d
    if isinstance(f, str) or not (callable(f) or isinstance(f, Sequence)):
        raise FormulaError(f"f must be {N} formulas or a function that returns that many values, not {f!r}")
    if not callable(f):
        if len(f) != N:
            raise FormulaError(f"f has {len(f)} formulas, but {n} tokens of {d} features are {N} outputs")
        return _of_formulas([read_formula(text, names) for text in f], n, d)

    def formulas() -> list[Expression]:
        count = _returned(f, names)
        if count != N:
            raise FormulaError(f"f returns {count} values, but {n} tokens of {d} features are {N} outputs")
        return [trace(lambda *x, k=k: f(*x)[k], names) for k in range(N)]

    return _traced_or_opaque(f, n, d, N, formulas)


def _traced_or_opaque(
    f: Callable[..., Any], n: int, d: int, outputs: int, formulas: Callable[[], list[Expression]]
) -> GridTarget:
    try:
        return _of_formulas(formulas(), n, d)
    except (FormulaError, NotRepeatable):
        raise
    except Exception as error:  # whatever a function may raise when it is called with symbols
        return _opaque(f, n, d, outputs, error)


def _returned(f: Callable[..., Any], names: Sequence[str]) -> int:
    """How many values a function of symbols returns."""
    counts: list[int] = []

    def first(*x: Any) -> Any:
        result = f(*x)
        counts.append(len(result))
        return result[0]

    trace(first, names)
    return counts[0]


def _of_formulas(formulas: Sequence[Expression], n: int, d: int) -> GridTarget:
    texts = tuple(to_text(formula) for formula in formulas)  # as the checker will read them
    return GridTarget(n, d, texts, tuple(parse(text, variables(n * d)) for text in texts))


def _opaque(f: Callable[..., Any], n: int, d: int, outputs: int, why: Exception) -> GridTarget:
    """A function that cannot be traced, called with arrays (count, n, d)."""
    name = "".join(c for c in getattr(f, "__name__", type(f).__name__) if c.isprintable())[:60]

    def called(X: Floats) -> Floats:
        y = np.asarray(f(X), dtype=np.float64)
        if y.size != len(X) * outputs or y.shape[:1] != (len(X),):
            what = "(count,)" if outputs == 1 else f"(count, {n}, {d})"
            raise FormulaError(f"{name} returned shape {y.shape} for inputs of shape {X.shape}, not {what}")
        if not np.isfinite(y).all():
            raise FormulaError(f"{name} is not finite everywhere on the domain")
        return y.reshape(len(X), outputs)

    try:
        called(np.zeros((2, n, d)))
    except (FormulaError, NotRepeatable):
        raise
    except Exception as error:
        raise UnsupportedOperation(
            f"{name} can neither be traced as a function of {n * d} numbers ({why}) nor called with an array"
            f" (count, {n}, {d}) ({error})"
        ) from error
    texts = (OPAQUE + name,) if outputs == 1 else tuple(f"{OPAQUE}{name}[{k}]" for k in range(outputs))
    return GridTarget(n, d, texts, None, called)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
