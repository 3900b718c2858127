"""What the prover proposes for networks that look values up on a grid; the checker recomputes all of it in balls.

Ranges on cells are intervals, rounded outward; the small terms are plain floats with a percent to spare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weightwright.claims.certificate import Leaf, Terms
from weightwright.enclosures.intervals.intervals import ZERO, Interval
from weightwright.enclosures.intervals.jets import jet_along
from weightwright.expressions import Expression
from weightwright.numbers import Floats
from weightwright.papers.claims.cell_grid import Kind
from weightwright.prover.machine import EXP_UNITS

SLACK, SPARE = 1 + 2.0**-30, 1.01
#: What ranges on cells are multiplied with, so that the checker's enclosures need few halvings to get below.
ROOM = 1 + 2.0**-8
U, TINY = 2.0**-53, 2.0**-1000
#: Parts of a cell along each number, one after the other, until the formula is known on all of them.
PARTS = (1, 2, 4, 8)
MOST_PARTS = 2**18


@dataclass(frozen=True)
class GridCells:
    """g cells along each of N numbers in [-B, B], shells of relative width delta; indices (G, N)."""

    g: int
    delta: float
    B: float
    indices: npt.NDArray[np.intp]

    @property
    def N(self) -> int:  # noqa: N802
        return self.indices.shape[1]

    def boxes(self, radius: float, parts: int) -> tuple[Floats, Floats]:
        """(middles, radii), each (G, parts^N, N) or a number: every cell's box of this radius, in parts."""
        along = self.B * ((2 * self.indices + 1) / self.g - 1)  # (G, N)
        offsets = radius * ((2 * np.arange(parts) + 1) / parts - 1)
        places = np.stack([x.ravel() for x in np.meshgrid(*[offsets] * self.N, indexing="ij")], axis=1)
        return along[:, None] + places, np.full(self.N, radius / parts)


def cell_errors(
    f: Expression, names: Sequence[str], cells: GridCells, values: Floats, kind: Kind
) -> tuple[Floats, Floats]:
    """(core, shell), each (G,): bounds on |f - value| on cores, and on what can happen on the rest of a cell.

    NaN where f could not be enclosed.
    """
    half = cells.B / cells.g
    possible = [values, np.zeros_like(values)] if kind == "bumps" else [values.min(), values.max()]
    return (
        _farthest(f, names, cells, half * (1 - cells.delta), [values]),
        _farthest(f, names, cells, half, possible),
    )


def _farthest(
    f: Expression, names: Sequence[str], cells: GridCells, radius: float, numbers: Sequence[Floats | np.float64]
) -> Floats:
    found = np.full(len(cells.indices), np.nan)
    for parts in PARTS:
        if len(found) * parts**cells.N > MOST_PARTS and parts > 1:
            break
        middles, radii = cells.boxes(radius, parts)
        slack = 2.0**-50 * cells.B
        lo, hi = (np.clip(middles + sign * (radii + slack), -cells.B, cells.B) for sign in (-1.0, 1.0))
        box = {name: Interval(lo[..., i], hi[..., i]) for i, name in enumerate(names)}
        at = {name: Interval.exact(middles[..., i]) for i, name in enumerate(names)}
        steps = {name: Interval.exact(radii[i] + 2 * slack) for i, name in enumerate(names)}
        steps = {name: Interval(-step.hi, step.hi) for name, step in steps.items()}
        whole = jet_along(f, box, dict.fromkeys(names, ZERO), 0)[0]
        middle, slope = jet_along(f, at, dict.fromkeys(names, ZERO), 0)[0], jet_along(f, box, steps, 1)[1].magnitude()
        found = np.zeros(len(cells.indices))
        for number in numbers:
            y = Interval.exact(np.asarray(number, dtype=np.float64)[..., None])
            with np.errstate(all="ignore"):
                errors = np.fmin((whole - y).magnitude(), (middle - y).magnitude() + slope)
            errors = np.broadcast_to(errors, middles.shape[:-1])
            found = np.maximum(found, errors.max(axis=1))
        if np.isfinite(found).all():
            break
    return found * ROOM + TINY


def stated_errors(
    cells: GridCells, values: Floats, kind: Kind, lipschitz: float, accuracy: float
) -> tuple[Floats, Floats]:
    """The same for a function that is no formula, from its Lipschitz constant in the infinity norm."""
    half = cells.B / cells.g
    core = np.full(len(values), lipschitz * half * (1 - cells.delta) + accuracy)
    possible = [values, np.zeros_like(values)] if kind == "bumps" else [values.min(), values.max()]
    away = np.max([np.abs(values - other) for other in possible], axis=0)
    return core * SLACK + TINY, (away + lipschitz * half + accuracy) * SLACK + TINY


def ramp_reach(cells: GridCells) -> float:
    """How far from 0 the queries of the ramps can be."""
    return ((2 * cells.g + 1) / cells.delta) * (1 + 2.0**-20)


def bump_rounding(cells: GridCells, values: Floats) -> float:
    """Of feed-forward bumps: four ramps to a number, N numbers to a bump, G bumps."""
    size, N = ramp_reach(cells), cells.N
    phi = 4 * _ramp_error(size) + 6 * U * (4 * size + 5)
    bump = N * phi + (N + 2) * U * (2 * N + 1)
    return float(SPARE * np.abs(values).sum() * (bump + (len(cells.indices) + 2) * U) + TINY)


def _ramp_error(size: float) -> float:
    return 8 * U * size


def bump_gap(cells: GridCells, n: int, head: Leaf) -> float:
    """1 less twice the error of a bump: what remains between the largest and the second."""
    N, d = cells.N, cells.N // n
    e = head.terms.approximation + head.terms.leakage + head.terms.rounding + _ramp_error(ramp_reach(cells))
    return 1 - 2 * SPARE**0.1 * (2 * N * e + (2 * d + n + 1) * U * 2 * N * (1 + e))


def pick_errors(cells: GridCells, values: Floats, gap: float, beta: float) -> tuple[float, float]:
    """(leakage, rounding) of a softmax over the bumps; values (outputs, G)."""
    G = len(cells.indices)
    tail = (G - 1) * math.exp(-beta * gap)
    spread = float(np.ptp(values, axis=1).max())
    error = 2 * U * beta * (2 * cells.N + 1) + (EXP_UNITS["dot"]["float64"] + 2) * U
    largest = float(np.abs(values).max())
    rounding = SPARE * (largest * (error + (2 * G + 7) * U) + TINY)
    return SPARE * tail / (1 + tail) * spread + TINY, rounding


def grid_terms(
    cells: GridCells, core: Floats, shell: Floats, leakage: float, rounding: float, norm: float
) -> tuple[Terms, float]:
    """The terms in the L_p norm and their sum; core and shell (outputs, G)."""
    width, N = 2 * cells.B, cells.N
    volume = (width / cells.g) ** N
    inside = volume * (1 - cells.delta) ** N
    total = (core**norm).sum() * inside + (shell**norm).sum() * (volume - inside)
    everywhere = (len(core) * width**N) ** (1 / norm)
    slack = 1 + 2.0**-20
    terms = Terms(
        *(float(x) * slack + TINY for x in (total ** (1 / norm), leakage * everywhere, rounding * everywhere))
    )
    return terms, (terms.approximation + terms.leakage + terms.rounding) * (1 + 2.0**-50)


def exceptional_volume(cells: GridCells) -> float:
    """The volume of all shells together, (2B)^N (1 - (1-delta)^N), a little rounded up."""
    outside = -math.expm1(cells.N * math.log1p(-cells.delta))
    return (2 * cells.B) ** cells.N * outside * SLACK
