"""What the heads of a layer add up to, and that nothing they compute overflows."""

from __future__ import annotations

import numpy as np

from weightwright.certificates.checker.complaints import must, require
from weightwright.certificates.checker.midrad import above, gamma, power_of_two
from weightwright.certificates.checker.mixing import Machine
from weightwright.certificates.checker.stream import LARGE, ROUNDING, Basis, Row, Stream
from weightwright.network import Head
from weightwright.network.layers import Bools, Floats


class Sum:
    """What the heads of a layer add to the stream, or to nothing."""

    def __init__(self, start: Stream, basis: Basis) -> None:
        self.basis, self.rows, self.err = basis, list(start.rows), start.err.copy()
        self.sizes = start.sizes(basis)
        constants = start.constants
        self.roundings = (constants != 0).astype(float)  # a 0 that is known adds nothing; NaN is no 0

    def add(self, token: int, target: int, form: Row, error: Floats, size: float, count: int, inexact: int) -> None:
        """`count` numbers that add up to a form of one coordinate, together at most of this size."""
        width = self.rows[token].forms.mid.shape[1]
        place = np.zeros((1, width))
        place[0, target] = 1.0
        self.rows[token] = self.rows[token].plus(form.times(place))
        self.err[:, token, target] += error
        self.sizes[token, target] += size
        self.roundings[token, target] += count + 2 * inexact

    def add_all(self, other: Stream, written: Bools) -> None:
        self.rows = [mine.plus(row) for mine, row in zip(self.rows, other.rows, strict=True)]
        self.err = self.err + other.err
        self.sizes = self.sizes + other.sizes(self.basis)
        self.roundings = self.roundings + written

    def stream(self, machine: Machine) -> Stream:
        """Every addition rounds once, but for the first number of all."""
        require(bool((self.sizes < LARGE).all()), "a number of the stream may overflow")
        additions = np.maximum(self.roundings - 1, 0)
        rounding = gamma(additions, machine.unit) * self.sizes + additions * machine.smallest
        self.err[ROUNDING] += rounding
        return Stream(self.rows, above(self.err, 64 + int(self.roundings.max())))


def scales_exactly(weight: float) -> bool:
    """Whether a product with it neither rounds nor underflows."""
    return abs(weight) >= 1 and bool(power_of_two(np.array(weight)))


def no_overflow(head: Head, sizes: Floats) -> None:
    """Nothing that the head computes may overflow, also where nobody reads it: infinity times 0 is no number. sizes:
    of registers and tokens."""
    Q, K, V = (sizes @ np.abs(W) for W in (head.W_Q, head.W_K, head.W_V))
    highest = V.max(axis=0, initial=0.0) * (len(sizes) + 1)
    scores = head.beta * (Q.max(axis=0, initial=0.0) * K.max(axis=0, initial=0.0)).sum()
    fine = all(bool((x < LARGE).all()) for x in (Q, head.beta * Q, K, V, highest, highest @ np.abs(head.W_O)))
    must(fine and scores < LARGE, f"a number of head {head.role!r} may overflow")
