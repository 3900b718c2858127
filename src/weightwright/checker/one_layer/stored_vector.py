"""What a stored one-head network of several inputs computes, read off its weights exactly.

As for one input, the maps around the head must be exact in floating point: copies, powers of two, constants.
Anything else is refused, not approximated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from weightwright.checker.core.complaints import must
from weightwright.checker.core.machine import Machine
from weightwright.checker.core.rounding import StoredHead
from weightwright.network import Attention, Linear, Network
from weightwright.numbers import Floats


@dataclass(frozen=True)
class VectorHead:
    """network(x) = mean + head(s) with s_i = (x_i - centres_i) * scales_i; scores slopes_j . s + offsets_j."""

    slopes: list[list[arb]]  # one list for each axis, beta multiplied in
    plain: StoredHead  # offsets, values, hidden score and dtype; its slopes are those of the first axis
    centres: list[float]
    scales: list[float]
    mean: float
    beta: float

    @property
    def exact(self) -> list[bool]:
        """For each axis, whether s_i is computed without rounding: a power of two times x that cannot underflow."""
        kept = not self.machine.flushed
        return [centre == 0 and scale >= 1 and kept for centre, scale in zip(self.centres, self.scales, strict=True)]

    @property
    def machine(self) -> Machine:
        return Machine(self.plain.dtype)

    def query_lost(self, axis: int) -> float:
        """What s_i can be off by for numbers below the normal range: x_i may be taken for 0, and s_i too."""
        return self.machine.smallest + self.machine.flushed * self.scales[axis]

    def sizes(self, x: list[float], s: list[float]) -> Iterator[arb]:
        """Everything that must be far from overflow for inputs up to x and queries up to s."""
        for largest, centre, scale in zip(x, self.centres, self.scales, strict=True):
            yield abs(arb(scale)) * largest
            yield abs(arb(centre)) * abs(arb(scale))
        yield from (arb(self.beta) * largest for largest in (*s, 1.0))
        for j, offset in enumerate(self.plain.offsets):
            yield sum((abs(k[j]) * largest for k, largest in zip(self.slopes, s, strict=True)), abs(offset))
        yield abs(arb(self.mean)) + sum((abs(v) for v in self.plain.values), arb(0))
        assert self.plain.hidden is not None
        yield abs(self.plain.hidden)


def read_vector_head(network: Network) -> VectorHead:
    """Refuse (CertificateError) whatever is not one register-only head between exact maps."""
    layer = network.layers[0] if len(network.layers) == 1 else None
    must(isinstance(layer, Attention) and layer.residual and len(layer.heads) == 1, "one residual head was expected")
    assert isinstance(layer, Attention)
    head, d = layer.heads[0], len(network.inputs)
    must(head.sees.data == "none" and head.mask is None, "the head must see registers only")
    must(head.window is None, "no window has several variables")
    must(head.sees.registers == (0, len(network.registers)), "the head must see all registers")
    must(_power_of_two(head.beta) and head.beta > 0, f"beta = {head.beta!r} must be a power of two")
    must(
        head.W_Q.shape[1] == d + 1 and head.W_V.shape[1] == 1,
        "the query must be the inputs and 1, and the value one number",
    )
    data = _Data(network.embed, d)
    axes = [data.axis(head.W_Q[:, i], i) for i in range(d)]
    must(data.sum(head.W_Q[:, d]) == (None, 0.0, 1.0), "the query must end with 1")
    must(
        all(data.sum(head.W_K[:, i]) == (None, 0.0, 0.0) for i in range(d)) and data.sum(head.W_K[:, d])[1] == 0,
        "a data token's key must not depend on the input",
    )
    must(data.sum(head.W_V[:, 0]) == (None, 0.0, 0.0), "a data token must have the value 0")
    start, stop = head.sees.registers
    registers = network.registers[start:stop]
    must(len(registers) > 0, "the head sees no register")
    beta = arb(head.beta)
    columns = [[beta * k for k in _column(registers, head.W_K[:, i])] for i in range(d + 1)]
    values = [arb(v) for v in _column(registers, head.W_V[:, 0])]
    hidden = beta * data.sum(head.W_K[:, d])[2]
    return VectorHead(
        slopes=columns[:d],
        plain=StoredHead(
            columns[0],
            columns[d],
            values,
            [arb(0)] * len(values),
            True,
            (arb(0), arb(0)),
            hidden,
            arb(1),
            network.dtype,
        ),
        centres=[centre for centre, _ in axes],
        scales=[scale for _, scale in axes],
        mean=_mean(network, layer, data),
        beta=head.beta,
    )


class _Data:
    """A data token's coordinates: each a copy of one input, or a constant."""

    def __init__(self, embed: Linear, inputs: int) -> None:
        A = _token_wise(embed)
        must(A.shape[0] == inputs and inputs >= 1, f"{inputs} inputs were expected, not {A.shape[0]}")
        copies = (A == 1).sum(axis=0)
        must(
            bool((((A == 0) | (A == 1)).all(axis=0) & (copies <= 1) & ((copies == 0) | (embed.C[0] == 0))).all()),
            "embed must copy inputs or set constants",
        )
        self.source = np.where(copies == 1, A.argmax(axis=0), -1)  # which input a coordinate copies
        self.constant = embed.C[0]

    def sum(self, weights: Floats) -> tuple[int | None, float, float]:
        """(i, a, b) with sum of weights * coordinates = a x_i + b: at most one product each, both exact."""
        copied = np.flatnonzero((weights != 0) & (self.source >= 0))
        fixed = np.flatnonzero((weights != 0) & (self.source < 0) & (self.constant != 0))
        must(len(copied) <= 1 and len(fixed) <= 1, "a map must add at most an input and a constant")
        which = int(self.source[copied[0]]) if len(copied) else None
        a = float(weights[copied[0]]) if len(copied) else 0.0
        if not len(fixed):
            return which, a, 0.0
        must(float(self.constant[fixed[0]]) == 1.0, "a constant that is multiplied must be 1")
        return which, a, float(weights[fixed[0]])

    def axis(self, weights: Floats, own: int) -> tuple[float, float]:
        """(centre, scale) of a query coordinate (x_own - centre) * scale."""
        which, scale, shift = self.sum(weights)
        must(which == own, f"query coordinate {own} must be made of input {own}")
        must(
            _power_of_two(scale) and scale > 0,
            f"the query multiplies input {own} by {scale!r}, which is no power of two",
        )
        centre = -shift / scale
        must(Fraction(centre) * Fraction(scale) == -Fraction(shift), f"{-shift!r} / {scale!r} is no float")
        return centre, scale


def _power_of_two(x: float) -> bool:
    return math.isfinite(x) and abs(math.frexp(x)[0]) == 0.5


def _token_wise(linear: Linear) -> Floats:
    plain = len(linear.terms) == 1 and linear.terms[0].tokens is None and linear.terms[0].S is None
    must(plain and linear.C.shape[0] == 1, "maps must be token-wise, and positions must not matter")
    return linear.terms[0].A


def _column(registers: Floats, weights: Floats) -> list[float]:
    """registers @ weights where every entry is one number times 1."""
    used = np.flatnonzero(weights)
    products = registers[:, used]
    must(bool((np.count_nonzero(products, axis=1) <= 1).all()), "a register's key must be one stored number")
    must(bool((weights[used][(products != 0).any(axis=0)] == 1).all()), "a register's key must not be rescaled")
    total: list[float] = products.sum(axis=1).tolist()
    return total


def _mean(network: Network, layer: Attention, data: _Data) -> float:
    """The constant that the head's output is added to in the coordinate that is read."""
    W_O, read = layer.heads[0].W_O, _token_wise(network.read)
    must(W_O.shape[0] == 1 and read.shape[1] == 1 and not network.read.C.any(), "one output was expected")
    target = np.flatnonzero(read[:, 0])
    must(len(target) == 1 and read[target[0], 0] == 1, "read must copy one coordinate")
    at = int(target[0])
    must(W_O[0, at] == 1 and np.count_nonzero(W_O) == 1, "the head must write 1 times its value to what is read")
    must(data.source[at] < 0, "the output coordinate must start as a constant")
    return float(data.constant[at])
