"""Vector anchors: one head for a function of two or three variables.

Anchors L_j stand on a product of padded uniform grids, one for each axis; the score is the sum over the axes of
beta_i (2 s_i L_ji - L_ji^2). The weights are then products of weights along each axis, so that the least squares
problem for the values is solved by one small singular value decomposition per axis. What the rounding of the stored
offsets changes is corrected afterwards, by solving again for what is left.

An axis may have its own number of anchors, padding and temperature: all temperatures are powers of two, the head's
beta is the largest of them and the keys carry the ratios.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np

from weightwright.enclosures.intervals.intervals import Interval
from weightwright.heads.registers import HIDDEN, Query
from weightwright.network import Attention, Head, Network, Sees, selection, token_wise
from weightwright.numbers import UNIT, Floats, rounded
from weightwright.prover import VectorAnchors
from weightwright.prover.machine import EXP_UNITS
from weightwright.prover.rounding import any_order

PADS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0)  # anchors outside the interval, on each side
C_RANGE = (0.08, 1.2)  # of beta D^2, D the spacing
RIDGE = 1e-3  # times the tolerance: what the fit may give up for smaller values
LEAST_RIDGE = 1e-14
LARGEST_VALUE = 30.0  # times the range of f, for each axis; beyond, errors count more
ROUNDINGS = 20  # units of roundoff of the largest value that a head rounds by, and one for each unit of the scores
TRIED = 8  # combinations of axes that are fitted for one aim
LONGEST = {1: 64, 2: 48, 3: 16}  # anchors along one axis
_SPACING_BITS = {"float64": 12, "float32": 6, "bfloat16": 3}

Function = Callable[[Floats], Floats]  # (points, d) -> (points,)


@dataclass(frozen=True)
class VectorTable:
    """Scores beta (keys_j . s + offsets_j) and centred values."""

    keys: Floats  # (p, d)
    offsets: Floats  # (p,)
    values: Floats  # (p,)
    beta: float

    @property
    def anchors(self) -> VectorAnchors:
        """The table as the prover sees it."""
        return VectorAnchors(self.beta * self.keys, self.keys, self.beta * self.offsets, self.values, HIDDEN)

    def scores(self, s: Floats) -> Floats:
        return self.beta * (s @ self.keys.T + self.offsets)


@dataclass(frozen=True)
class VectorFit:
    """A table, its error as measured on a grid, and an estimate of rounding."""

    table: VectorTable
    residual: float
    rounding: float

    @property
    def error(self) -> float:
        return self.residual + self.rounding


@dataclass(frozen=True, eq=False)
class _Axis:
    """A grid along one axis: what it leaves of f, by the decomposition of its weights at the samples."""

    grid: Floats  # (n,)
    beta: float
    U: Floats  # (samples, n)
    sigma: Floats  # (n,)
    Vt: Floats  # (n, n)
    left: float  # the largest error of f projected along this axis
    growth: float  # the largest value, relative to the range of f
    scores: float  # about the largest score


class VectorDesigner:
    """Finds the cheapest head for f on the box from lo to hi."""

    def __init__(self, f: Function, lo: Floats, hi: Floats, tol: float, most: int, dtype: str) -> None:
        self.f, self.lo, self.hi, self.tol, self.most, self.dtype = f, lo, hi, tol, most, dtype
        self.d = len(lo)
        self.longest = min(LONGEST[self.d], most // 2 ** (self.d - 1))
        count = 2 * self.longest + 3
        self.samples = [_chebyshev(a, b, count) for a, b in zip(lo, hi, strict=True)]
        self.between = [_chebyshev(a, b, count + 1) for a, b in zip(lo, hi, strict=True)]  # left to measure
        self.F = _on_grid(f, self.samples)
        self.range = float(np.ptp(self.F))
        self.ridge = float(np.clip(RIDGE * tol / (self.range or np.inf), LEAST_RIDGE, 1.0))
        self._axes: dict[tuple[int, int], list[_Axis]] = {}
        self._crossed = [self._on_cross(axis) for axis in range(self.d)]

    def candidates(self, aim: float) -> Iterator[VectorFit]:
        """Fits in the order in which to try to prove them: fewest anchors that seem to meet `aim` first.

        Where none seems to, the best that was found.
        """
        tried: list[VectorFit] = []
        found = 0
        for combination in self._combinations(aim):
            fit = self.fit(combination)
            tried.append(fit)
            if fit.error <= aim:
                found += 1
                yield fit
            if found >= 3 or len(tried) >= TRIED:
                break
        if not found and tried:
            yield from sorted(tried, key=lambda fit: fit.error)[:2]

    def _combinations(self, aim: float) -> Iterator[tuple[_Axis, ...]]:
        """Axes whose errors add up to at most aim, by the number of anchors; else the best axes of all."""
        ladders = [self._ladder(axis, aim) for axis in range(self.d)]
        chosen = list(product(*ladders))
        every = [
            (math.prod(len(x.grid) for x in axes), self._expected(axes), index) for index, axes in enumerate(chosen)
        ]
        small = [item for item in every if item[0] <= self.most]
        good = sorted(item for item in small if item[1] <= aim)
        yield from (chosen[index] for _, _, index in good)
        if not good and small:
            yield from (chosen[index] for _, _, index in sorted(small, key=lambda item: item[1])[:2])

    def _expected(self, axes: Sequence[_Axis]) -> float:
        """About the error that a combination will have, rounding included."""
        growth = math.prod(axis.growth for axis in axes)
        units = ROUNDINGS + sum(axis.scores for axis in axes)
        return sum(axis.left for axis in axes) + units * UNIT[self.dtype] * self.range * growth

    def _ladder(self, axis: int, aim: float) -> list[_Axis]:
        """The best grid for every number of anchors, until three in a row leave a tenth of the aim."""
        ladder: list[_Axis] = []
        enough = 0
        for n in range(2, self.longest + 1):
            if n > 16 and n % max(1, n // 8):
                continue
            best = self._best_axis(axis, n, aim / (2 * self.d))
            ladder.append(best)
            enough += best.left <= 0.2 * aim / self.d and best.growth < 2
            if enough >= 3 or self._flat(ladder):
                break
        return ladder

    def _flat(self, ladder: list[_Axis]) -> bool:
        """Whether more anchors stopped helping: the noise of the fit is reached."""
        last = [axis.left for axis in ladder]
        return len(last) > 12 and min(last[-4:]) > 0.9 * min(last[:-4]) and min(last) < 1e-3 * self.range

    def _best_axis(self, axis: int, n: int, enough: float) -> _Axis:
        """The smallest values among the designs that leave little; else what leaves least, large values punished."""
        if (axis, n) not in self._axes:
            self._axes[axis, n] = list(self._axis_designs(axis, n))
        designs = self._axes[axis, n]
        good = [design for design in designs if design.left <= enough]
        if good:
            return min(good, key=lambda design: design.growth * (ROUNDINGS + design.scores))
        return min(designs, key=lambda design: design.left * max(1.0, design.growth / LARGEST_VALUE))

    def _axis_designs(self, axis: int, n: int) -> Iterator[_Axis]:
        lo, hi = float(self.lo[axis]), float(self.hi[axis])
        middle, width = lo / 2 + hi / 2, hi - lo
        bits = _SPACING_BITS[self.dtype]
        s, between = self.samples[axis], self.between[axis]
        rows, test = self._crossed[axis]
        for pad in PADS:
            if n - 1 - 2 * pad <= 0 and (n > 3 or pad > 0.5):
                continue
            spacing = _few_bits(width / max(n - 1 - 2 * pad, 1.0), bits)
            lattice = math.ldexp(1.0, math.frexp(spacing)[1] - bits - 1)
            grid = lattice * round(middle / lattice) + spacing * (np.arange(n, dtype=np.float64) - (n - 1) / 2)
            for beta in _powers_of_two(*(c / spacing**2 for c in C_RANGE)):
                U, sigma, Vt = np.linalg.svd(_weights(s, grid, beta), full_matrices=False)
                values = Vt.T @ ((sigma / (sigma**2 + self.ridge**2 * len(s)))[:, None] * (U.T @ rows))
                left = float(np.abs(_weights(between, grid, beta) @ values - test).max())
                growth = float(np.abs(values).max()) / (self.range or 1.0)
                yield _Axis(grid, beta, U, sigma, Vt, left, growth, float(beta * np.abs(grid).max()))

    def _on_cross(self, axis: int) -> tuple[Floats, Floats]:
        """f with the axis first: at the samples and at the points between, the others at some of their samples."""
        others = [x[:: max(1, len(x) // 16)] for x in self.samples]
        at = [
            _on_grid(self.f, [own if i == axis else x for i, x in enumerate(others)])
            for own in (self.samples[axis], self.between[axis])
        ]
        rows, test = (np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1) for x in at)
        return rows, test

    def fit(self, axes: Sequence[_Axis]) -> VectorFit:
        """Solve for the values; then for what the rounding of the stored offsets leaves."""
        table = _empty(axes, self.dtype)
        values = self._solve(axes, self.F)
        points = _grid_points(self.samples)
        stored = rounded(values, self.dtype)
        if self.dtype != "float64":
            left = self.F - _output(table, values, points).reshape(self.F.shape)
            stored = rounded(values + self._solve(axes, left), self.dtype)
        fitted = VectorTable(table.keys, table.offsets, stored, table.beta)
        test = _grid_points(self.between)
        few = test[:: max(1, len(test) // 200)]
        residual = np.abs(_output(fitted, stored, test) - self.f(test)).max()
        spent = _rounding_estimate(fitted, few, self.dtype)
        return VectorFit(fitted, *(float(np.nan_to_num(x, nan=np.inf)) for x in (residual, spent)))

    def _solve(self, axes: Sequence[_Axis], target: Floats) -> Floats:
        """Ridge least squares with the weights of the product grid: sigma / (sigma^2 + ridge^2) in their basis."""
        for axis in axes:  # each step moves the first axis last
            target = np.tensordot(target, axis.U, (0, 0))
        sigma = reduce(np.multiply.outer, [axis.sigma for axis in axes])
        points = math.prod(len(x) for x in self.samples)
        target = target * sigma / (sigma**2 + self.ridge**2 * points)
        for axis in axes:
            target = np.tensordot(target, axis.Vt, (0, 0))
        return target.ravel()


def assemble_vector(
    table: VectorTable, queries: Sequence[Query], mean: float, formula: str, role: str, dtype: str
) -> Network:
    """The one-head network that returns mean + head(s), s_i = (x_i - centre_i) * scale_i.

    Coordinates: the inputs, data (1 on data tokens), a key for each input, offset, value, and the output.
    """
    d, count = len(queries), len(table.values)
    inputs = tuple(f"x[{i}]" for i in range(d))
    names = (*inputs, "data", *(f"key[{i}]" for i in range(d)), "offset", "value", formula)
    at = {name: index for index, name in enumerate(names)}
    registers = np.zeros((count, len(names)))
    registers[:, d + 1 : 2 * d + 1] = table.keys
    registers[:, at["offset"]], registers[:, at["value"]] = table.offsets, table.values
    W_Q, W_K, W_V = np.zeros((len(names), d + 1)), np.zeros((len(names), d + 1)), np.zeros((len(names), 1))
    for i, query in enumerate(queries):
        W_Q[i, i], W_Q[at["data"], i] = query.scale, -query.centre * query.scale
        W_K[d + 1 + i, i] = 1.0
    W_Q[at["data"], d] = 1.0
    W_K[at["offset"], d], W_K[at["data"], d] = 1.0, HIDDEN / table.beta
    W_V[at["value"], 0] = 1.0
    W_O = np.zeros((1, len(names)))
    W_O[0, -1] = 1.0
    head = Head(role, W_Q, W_K, W_V, W_O, table.beta, Sees(registers=(0, count), data="none"))
    return Network(
        inputs=inputs,
        embed=token_wise(inputs, names, {(name, name): 1.0 for name in inputs}, {"data": 1.0, formula: mean}),
        registers=registers,
        layers=(Attention(names, (head,)),),
        read=selection(names, (formula,)),
        dtype=dtype,
    )


def _empty(axes: Sequence[_Axis], dtype: str) -> VectorTable:
    """The product grid as keys and offsets of the dtype, without values."""
    beta = max(axis.beta for axis in axes)
    L = _grid_points([axis.grid for axis in axes])
    share = np.array([axis.beta / beta for axis in axes])
    keys, offsets = rounded(2 * share * L, dtype), rounded(-(share * L**2).sum(axis=1), dtype)
    return VectorTable(keys, offsets, np.zeros(len(L)), beta)


def _output(table: VectorTable, values: Floats, s: Floats, at_once: int = 2**22) -> Floats:
    parts = []
    step = max(1, at_once // len(values))
    for start in range(0, len(s), step):
        weights = _softmax(table.scores(s[start : start + step]))
        parts.append(weights @ values)
    return np.concatenate(parts)


def _rounding_estimate(table: VectorTable, s: Floats, dtype: str) -> float:
    """About what the prover's rounding model will say; only steers the choice."""
    u = UNIT[dtype]
    scores = table.scores(s)
    weights = _softmax(scores)
    output = weights @ table.values
    products = np.abs(s) @ np.abs(table.beta * table.keys).T
    d = s.shape[1]
    off = products + np.abs(scores) + (d - 1) / 2 * (products + np.abs(table.beta * table.offsets) + np.abs(scores))
    off = off + scores.max(axis=1, keepdims=True) - scores + EXP_UNITS["dot"][dtype]
    moved = u * (weights * np.abs(table.values - output[:, None]) * off).sum(axis=1)
    terms = weights * np.abs(table.values)
    sums = [any_order(Interval.exact(x), Interval.exact(u)).hi for x in (terms, weights)]
    return 1.05 * float((moved + sums[0] + np.abs(output) * sums[1] + 3 * u * terms.sum(axis=1)).max())


def _softmax(scores: Floats) -> Floats:
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def _weights(s: Floats, grid: Floats, beta: float) -> Floats:
    return _softmax(-beta * (s[:, None] - grid) ** 2)


def _chebyshev(lo: float, hi: float, count: int) -> Floats:
    return np.clip(lo / 2 + hi / 2 - (hi / 2 - lo / 2) * np.cos(np.linspace(0.0, np.pi, count)), lo, hi)


def _grid_points(axes: Sequence[Floats]) -> Floats:
    """(product of the lengths, d), the last axis fastest."""
    return np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=1)


def _on_grid(f: Function, axes: Sequence[Floats]) -> Floats:
    return f(_grid_points(axes)).reshape([len(x) for x in axes])


def _few_bits(x: float, bits: int) -> float:
    """x > 0 rounded up to `bits` significant bits."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.ceil(mantissa * 2**bits), exponent - bits)


def _powers_of_two(low: float, high: float) -> Iterator[float]:
    for exponent in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1):
        yield math.ldexp(1.0, exponent)
