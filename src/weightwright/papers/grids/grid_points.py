"""The networks of UA-4 to UA-7 as arrays: cells, ramps, bump heads, lookup. Nothing is chosen or proven here.

N = n d numbers, n tokens of d features; a grid of g points along each; G = g^N cells, numbered row by row. Along one
number a cell has two ramps, up = clip(s, 0, 1) of s = ((x - v) g/B + 1)/delta and down, its mirror image: both are 1
on the core, and outside of the cell one of them is 0.

What a grid construction is asked for: functions of n tokens of d features, as formulas or as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weightwright.approximation.formula_of_torch import trace
from weightwright.claims.leaf import OPAQUE
from weightwright.enclosures.intervals.jets import values_at
from weightwright.errors import FormulaError, NotRepeatable, UnsupportedOperation
from weightwright.expressions import Expression, parse, to_text
from weightwright.expressions.mistakes import read_formula
from weightwright.network import Attention, FeedForward, Head, Linear, Network, Sees, Softmax, Term
from weightwright.network.layers import Layer, Names
from weightwright.network.token_maps import pick, place, total
from weightwright.numbers import Floats

SIGNS = np.array([1.0, -1.0])


@dataclass(frozen=True)
class Grid:
    """n tokens of d features in [-B, B], g cells along each, shells of relative width delta."""

    n: int
    d: int
    g: int
    delta: float
    B: float

    @property
    def N(self) -> int:  # noqa: N802
        return self.n * self.d

    @property
    def cells(self) -> int:
        return self.g**self.N

    @property
    def slope(self) -> float:
        """Of a ramp."""
        return self.g / (self.B * self.delta)

    def shifts(self) -> Floats:
        """(2, g): s = sign slope x + shift, for the ramp up and the ramp down of every point of an axis."""
        k = np.arange(self.g)
        return (SIGNS[:, None] * (self.g - 2 * k - 1) + 1) / self.delta

    def indices(self) -> npt.NDArray[np.intp]:
        """(G, N): where along each number a cell stands."""
        return np.stack(np.unravel_index(np.arange(self.cells), (self.g,) * self.N), axis=1)

    def points(self) -> Floats:
        """(G, n, d): the grid points, as floats."""
        along = self.B * ((2 * np.arange(self.g) + 1) / self.g - 1)
        return along[self.indices()].reshape(self.cells, self.n, self.d)


def bump_network(grid: Grid, values: Floats) -> Network:
    """sum_v f(v) relu(R_v(x) - N + 1) as two feed-forward layers; values (1, G)."""
    n, d, N, g, G = grid.n, grid.d, grid.N, grid.g, grid.cells
    ramps = np.zeros((N, N, g, 4))  # from x_j to the ramp units (i, k, r), r: up, up - 1, down, down - 1
    ramps[range(N), range(N)] = grid.slope * np.repeat(SIGNS, 2)
    starts = np.broadcast_to(np.stack([s - r for s in grid.shifts() for r in (0, 1)], axis=1), (N, g, 4))
    together = np.einsum("ab,r->arb", np.eye(N * g), [1.0, -1.0, 1.0, -1.0])
    which = np.zeros((N * g, G))
    which[(grid.indices() + g * np.arange(N)).T, np.arange(G)] = 1.0
    bumps = tuple(f"bump[{v}]" for v in range(N * g))
    return Network(
        inputs=tuple(f"x[{c}]" for c in range(d)),
        embed=_flatten(n, d),
        registers=np.zeros((0, N)),
        layers=(
            FeedForward(
                bumps,
                ramps.reshape(N, -1),
                starts.reshape(1, -1),
                together.reshape(-1, N * g),
                -np.ones((1, N * g)),
                residual=False,
            ),
            FeedForward(("f",), which, np.full((1, G), 1.0 - N), values.T, np.zeros((1, 1)), residual=False),
        ),
        read=Linear(("f",), (Term(np.eye(1)),), np.zeros((1, 1))),
        tokens=n,
    )


def _flatten(n: int, d: int) -> Linear:
    """All tokens' features as features of one token."""
    places = np.eye(n * d).reshape(n, d, n * d)
    terms = tuple(Term(A, pick(i)) for i, A in enumerate(places))
    return Linear(tuple(f"x[{i}]" for i in range(n * d)), terms, np.zeros((1, n * d)))


@dataclass(frozen=True)
class GridStream:
    """The coordinates of UA-5 to UA-7 by name.

    x[.] the input; at[.] a one-hot position code; key, offset and value on registers, for the bump heads; bump[.], on
    data tokens what the bump heads write, on registers a one-hot key; f[.] on registers the values; out[.] the outputs.
    """

    grid: Grid
    outputs: int  # those that a second layer looks up; 0 if there is none

    @property
    def names(self) -> Names:
        sizes = {"x": self.grid.d, "at": self.grid.n, "bump": self.grid.cells, "f": self.outputs, "out": self.outputs}
        parts = {name: tuple(f"{name}[{i}]" for i in range(size)) for name, size in sizes.items()}
        return (*parts["x"], *parts["at"], "key", "offset", "value", *parts["bump"], *parts["f"], *parts["out"])

    @property
    def anchor(self) -> int:
        """Where key, offset and value stand."""
        return self.grid.d + self.grid.n

    @property
    def bump(self) -> slice:
        return slice(self.anchor + 3, self.anchor + 3 + self.grid.cells)

    @property
    def f(self) -> int:
        return self.bump.stop

    @property
    def out(self) -> int:
        return self.bump.stop + self.outputs

    @property
    def width(self) -> int:
        return self.bump.stop + 2 * self.outputs


def attention_network(
    grid: Grid, values: Floats, anchors: int, beta_bumps: float, beta: float, second_layer: bool, sequence: bool
) -> Network:
    """Bump heads, the sum over the tokens, and a second layer or a softmax that picks; values (outputs, G).

    sequence: the outputs, token by token, go back to n tokens of d features.
    """
    n, d, G, K = grid.n, grid.d, grid.cells, len(values)
    stream = GridStream(grid, K if second_layer else 0)
    D, bump = stream.width, stream.bump
    position = np.zeros((n, D))
    position[:, d : d + n] = np.eye(n)
    L = np.arange(anchors) / anchors
    registers = np.zeros((anchors + (G if second_layer else 0), D))
    registers[:anchors, stream.anchor : stream.anchor + 3] = np.stack([L, -(L**2) / 2, L], axis=1)
    first = Attention(stream.names, _bump_heads(stream, anchors, beta_bumps))
    layers: list[Layer] = [first]
    if second_layer:
        registers[anchors:, bump], registers[anchors:, stream.f : stream.out] = np.eye(G), values.T
        keep = np.zeros((D, D))
        keep[bump, bump] = np.eye(G)
        layers.append(Linear(stream.names, (Term(keep, total(n, 1)),), np.zeros((1, D))))
        layers.append(Attention(stream.names, tuple(_pick(stream, k, anchors, beta) for k in range(K))))
        weights = np.zeros((D, K))
        weights[stream.out :] = np.eye(K)
    else:
        keep = np.zeros((D, G))
        keep[bump] = np.eye(G)
        layers.append(Linear(stream.names[bump], (Term(keep, total(n, 1)),), np.zeros((1, G))))
        layers.append(Softmax(beta))
        weights = values.T
    return Network(
        inputs=stream.names[:d],
        embed=Linear(stream.names, (Term(np.eye(d, D)),), position),
        registers=registers,
        layers=tuple(layers),
        read=unflatten(weights, n, d) if sequence else Linear(("f",), (Term(weights),), np.zeros((1, 1))),
        tokens=n,
    )


def unflatten(weights: Floats, n: int, d: int) -> Linear:
    """The features of one token, n d of them after the weights, as n tokens of d features."""
    terms = tuple(Term(weights[:, i * d : (i + 1) * d], place(i, n)) for i in range(n))
    return Linear(tuple(f"y[{c}]" for c in range(d)), terms, np.zeros((1, d)))


def _bump_heads(stream: GridStream, anchors: int, beta: float) -> tuple[Head, ...]:
    """One for every cell, feature and sign, in this order: on token i it writes a ramp of x_ic to bump[v]."""
    grid, D = stream.grid, stream.width
    n, d, G = grid.n, grid.d, grid.cells
    along = grid.indices().reshape(G, n, d)
    W_Q = np.zeros((G, d, 2, D, 2))
    for c in range(d):
        W_Q[:, c, :, c, 0] = grid.slope * SIGNS
        W_Q[:, c, :, d : d + n, 0] = np.moveaxis(grid.shifts()[:, along[:, :, c]], 0, 1)
    W_Q[:, :, :, d : d + n, 1] = 1.0
    W_K, W_V = np.zeros((D, 2)), np.zeros((D, 1))
    W_K[stream.anchor, 0], W_K[stream.anchor + 1, 1], W_V[stream.anchor + 2, 0] = 1.0, 1.0, 1.0
    sees = Sees((0, anchors), "none")
    W_O = np.zeros((G, 1, D))
    W_O[range(G), 0, range(stream.bump.start, stream.bump.stop)] = 1.0
    return tuple(
        Head(f"bump {v}, ramp {ramp} of x[{c}]", W_Q[v, c, r], W_K, W_V, W_O[v], beta, sees)
        for v in range(G)
        for c in range(d)
        for r, ramp in enumerate(("up", "down"))
    )


def _pick(stream: GridStream, k: int, anchors: int, beta: float) -> Head:
    """The head whose scores are beta times the bumps, and whose values are those of output k."""
    D, G = stream.width, stream.grid.cells
    W_QK, W_V, W_O = np.zeros((D, G)), np.zeros((D, 1)), np.zeros((1, D))
    W_QK[stream.bump] = np.eye(G)
    W_V[stream.f + k, 0], W_O[0, stream.out + k] = 1.0, 1.0
    return Head(f"look up output {k}", W_QK, W_QK, W_V, W_O, beta, Sees((anchors, anchors + G), "none"))


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
    try:
        return _of_formulas([trace(f, names)], n, d)
    except (FormulaError, NotRepeatable):
        raise
    except Exception as error:  # whatever a function may raise when it is called with symbols
        return _opaque(f, n, d, 1, error)


def sequence_target(f: Function | Sequence[str], n: int, d: int) -> GridTarget:
    """n d functions: a list of formulas, token by token, or a function that returns n d values."""
    names = variables(n * d)
    if isinstance(f, str) or not (callable(f) or isinstance(f, Sequence)):
        raise FormulaError(f"f must be {n * d} formulas or a function that returns that many values, not {f!r}")
    if not callable(f):
        if len(f) != n * d:
            raise FormulaError(f"f has {len(f)} formulas, but {n} tokens of {d} features are {n * d} outputs")
        return _of_formulas([read_formula(text, names) for text in f], n, d)
    try:
        count = _returned(f, names)
        if count != n * d:
            raise FormulaError(f"f returns {count} values, but {n} tokens of {d} features are {n * d} outputs")
        return _of_formulas([trace(lambda *x, k=k: f(*x)[k], names) for k in range(n * d)], n, d)
    except (FormulaError, NotRepeatable):
        raise
    except Exception as error:
        return _opaque(f, n, d, n * d, error)


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
