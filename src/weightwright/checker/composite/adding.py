"""What the heads of a layer add up to, and that nothing they compute overflows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weightwright.checker.composite.stream import LARGE, ROUNDING, Basis, Row, Stream
from weightwright.checker.core.complaints import must, require
from weightwright.checker.core.machine import Machine
from weightwright.enclosures.balls.midrad import LOST, Balls, above, gamma, power_of_two, product_of_balls
from weightwright.network import Head
from weightwright.numbers import Bools, Floats


@dataclass(frozen=True)
class Writes:
    """Coordinates that a number goes to, with the weight that it has there; 1 for what is weighted already."""

    targets: npt.NDArray[np.int64]
    weights: Floats

    @classmethod
    def to(cls, target: int) -> Writes:
        return cls(np.array([target]), np.ones(1))

    @property
    def inexact(self) -> Floats:
        """1 where a product with the weight rounds."""
        return np.array([float(not scales_exactly(w)) for w in self.weights.tolist()])


class SumOfHeads:
    """What the heads of a layer add to the stream, or to nothing."""

    def __init__(self, start: Stream, basis: Basis, machine: Machine) -> None:
        self.machine, self.basis, self.rows, self.err = machine, basis, list(start.rows), start.err.copy()
        self.sizes = start.sizes(basis).copy()
        constants = start.constants
        self.roundings = (constants != 0).astype(float)  # a 0 that is known adds nothing; NaN is no 0
        self._added: list[list[tuple[Row, Writes]]] = [[] for _ in start.rows]

    def add(self, token: int, form: Row, writes: Writes, error: Floats, size: float, count: int, inexact: int) -> None:
        """`count` numbers that add up to a form of one coordinate, together at most of this size, off by the error.
        inexact: how many of them were products that round already."""
        self._added[token].append((form, writes))
        weights, targets = np.abs(writes.weights), writes.targets
        self.err[:, token, targets] += above(error[:, None] * weights + LOST * (error[:, None] != 0), 3)
        self.err[ROUNDING, token, targets] += above(count * self.machine.flushed * weights, 2)  # as they enter W_O
        self.sizes[token, targets] += above(size * weights + LOST, 3)
        self.roundings[token, targets] += count + 2 * inexact + 2 * count * writes.inexact

    def add_all(self, other: Stream, written: Bools) -> None:
        self.rows = [mine.plus(row) for mine, row in zip(self.rows, other.rows, strict=True)]
        self.err = self.err + other.err
        self.sizes = self.sizes + other.sizes(self.basis)
        self.roundings = self.roundings + written

    def stream(self) -> Stream:
        """Every addition rounds once, but for the first number of all."""
        require(bool((self.sizes < LARGE).all()), "a number of the stream may overflow")
        additions = np.maximum(self.roundings - 1, 0)
        rounding = gamma(additions, self.machine.unit) * self.sizes + additions * self.machine.smallest
        self.err[ROUNDING] += rounding
        rows = [_added_up(row, added) for row, added in zip(self.rows, self._added, strict=True)]
        return Stream(rows, above(self.err, 64 + int(self.roundings.max())))


def _added_up(row: Row, added: list[tuple[Row, Writes]]) -> Row:
    """A row with all that was added to it, each to its coordinates."""
    ids = tuple(sorted({*row.ids, *(i for form, _ in added for i in form.ids)}))
    place = {i: p for p, i in enumerate(ids)}
    total = row.spread(ids)
    for form, writes in added:
        block = np.ix_(np.array([place[i] for i in form.ids]), writes.targets)
        new = product_of_balls(form.forms, Balls.exact(writes.weights[None]))
        new = Balls(total.mid[block], total.rad[block]) + new
        total.mid[block], total.rad[block] = new.mid, new.rad
    return Row(ids, total)


def scales_exactly(weight: float) -> bool:
    """Whether a product with it neither rounds nor underflows."""
    return abs(weight) >= 1 and bool(power_of_two(np.array(weight)))


def no_overflow(head: Head, sizes: Floats) -> Floats:
    """Nothing that the head computes may overflow, also where nobody reads it: infinity times 0 is no number. sizes:
    of registers and tokens. Returns what it can add to each coordinate, as a mean of values."""
    Q, K, V = (sizes @ np.abs(W) for W in (head.W_Q, head.W_K, head.W_V))
    highest = V.max(axis=0, initial=0.0) * (len(sizes) + 1)
    scores = head.beta * (Q.max(axis=0, initial=0.0) * K.max(axis=0, initial=0.0)).sum()
    fine = all(bool((x < LARGE).all()) for x in (Q, head.beta * Q, K, V, highest, highest @ np.abs(head.W_O)))
    must(fine and scores < LARGE, f"a number of head {head.role!r} may overflow")
    added: Floats = V.max(axis=0, initial=0.0) @ np.abs(head.W_O)
    return added
