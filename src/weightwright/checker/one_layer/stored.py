"""What a stored network of one layer computes, read off its weights exactly.

The rule covers networks whose maps around the heads are exact in floating point (copies, powers of two, constants) but
for the values that a token takes from its own input, the weights of the heads and the start of the output, whose
roundings are counted. Anything else is refused, not approximated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from flint import arb

from weightwright.checker.core.complaints import must
from weightwright.checker.core.machine import Machine
from weightwright.checker.core.rounding import StoredHead
from weightwright.claims.certificate import LARGEST_ANCHOR, LARGEST_KEY, LARGEST_WINDOW_BETA
from weightwright.enclosures.balls.series import largest
from weightwright.limits import hold
from weightwright.network import Attention, Head, Linear, Network
from weightwright.numbers import Floats

#: The least weight of a window is e^-LOWEST; e^-87 is the smallest normal float32.
LOWEST = 64
#: What a key takes in memory: slope, offset, value and tilt as balls.
_BYTES_OF_A_KEY = 4 * 64


@dataclass(frozen=True)
class OneLayer:
    """network(x) = mean + slope x + sum of weight * head(s) with s = (x - centre) * scale."""

    heads: list[StoredHead]
    betas: list[float]
    centre: float
    scale: float
    mean: float
    slope: float

    @property
    def exact_query(self) -> bool:
        """Whether s is computed without rounding: a product with a power of two that cannot underflow."""
        return self.centre == 0 and self.scale >= 1 and not self.machine.flushed

    @property
    def machine(self) -> Machine:
        return Machine(self.heads[0].dtype)

    @property
    def query_lost(self) -> float:
        """What s can be off by for numbers below the normal range: x may be taken for 0, and s too."""
        return self.machine.smallest + self.machine.flushed * self.scale

    def sizes(self, x: float, s: float) -> Iterator[arb]:
        """Everything that must be far from overflow for inputs up to x and queries up to s."""
        yield abs(arb(self.scale)) * x
        yield abs(arb(self.centre)) * abs(arb(self.scale))
        total = abs(arb(self.slope)) * x + abs(arb(self.mean))
        for head, beta in zip(self.heads, self.betas, strict=True):
            yield arb(beta) * s
            for k, c in zip(head.slopes, head.offsets, strict=True):
                yield abs(k) * s + abs(c)
            if head.hidden is not None:
                yield abs(head.hidden)
            yield abs(head.own[0]) * x + abs(head.own[1])
            yield self.largest_value(head, s) * len(head.values)
            total += abs(head.weight) * len(head.values) * self.largest_value(head, s)
        yield total

    def largest_value(self, head: StoredHead, s: float) -> arb:
        return largest(abs(v) + abs(tilt) * s for v, tilt in zip(head.values, head.tilts, strict=True))


def read_one_layer(network: Network) -> OneLayer:
    """Refuse (CertificateError) whatever is not one layer of heads on registers, and perhaps the token itself."""
    layer = network.layers[0] if len(network.layers) == 1 else None
    must(isinstance(layer, Attention) and layer.residual and len(layer.heads) > 0, "one residual layer was expected")
    assert isinstance(layer, Attention)
    target = _output(network.read)
    slope, constant = _data_row(network.embed, target)
    reader = _Reader(network, target, slope, constant)
    queries = {reader.query(head) for head in layer.heads}
    must(len(queries) == 1, "the heads must share one query")
    scale, shift = queries.pop()
    centre = _exact_quotient(-shift, scale)
    start_slope, mean = float(slope[target]), float(constant[target])
    must(start_slope == 0 or centre == 0, "the output may start with x only where the query is not shifted")
    return OneLayer(
        [reader.head(head, Fraction(centre), Fraction(scale)) for head in layer.heads],
        [head.beta for head in layer.heads],
        centre,
        scale,
        mean,
        start_slope,
    )


@dataclass(frozen=True)
class _Reader:
    """Reads heads; slope and constant say what every coordinate of a data token is as a function of x."""

    network: Network
    target: int
    slope: Floats
    constant: Floats

    def query(self, head: Head) -> tuple[float, float]:
        """(scale, shift): the query is (scale x + shift, 1)."""
        must(_power_of_two(head.beta), f"beta = {head.beta!r} must be a power of two")
        must(head.sees.data in ("none", "self") and head.mask is None, "a head may see registers and itself only")
        must(head.W_Q.shape[1] == 2 and head.W_V.shape[1] == 1, "the query must be (s, 1) and the value one number")
        used = [W[self.target].any() for W in (head.W_Q, head.W_K, head.W_V)]
        must(not any(used), "no head may read the coordinate of the output")
        scale, shift = self._on_data(head.W_Q[:, 0])
        must(
            _power_of_two(scale) and scale > 0, f"the query multiplies the input by {scale!r}, which is no power of two"
        )
        must(self._on_data(head.W_Q[:, 1]) == (0.0, 1.0), "the query must be (s, 1)")
        return scale, shift

    def head(self, head: Head, centre: Fraction, scale: Fraction) -> StoredHead:
        hold(len(self.network.registers), each=_BYTES_OF_A_KEY)
        if head.window is not None:
            self._check_window(head, head.window)
        start, stop = head.sees.registers
        keys, offsets = (_exact_column(self.network.registers, head.W_K[:, i]) for i in (0, 1))
        values = _exact_column(self.network.registers, head.W_V[:, 0])
        seen = slice(start, stop)
        slopes, heights, constants = keys[seen].tolist(), offsets[seen].tolist(), values[seen].tolist()
        tilts = [Fraction(0)] * len(slopes)
        others = np.ones(len(keys), dtype=bool)
        others[seen] = False
        must(not keys[others].any() and not values[others].any(), "registers that a head must not see need key 0")
        hidden = offsets[others].tolist()
        (key, varies), (height, moves) = (self._on_data(head.W_K[:, i])[::-1] for i in (0, 1))
        value_slope, value = self._on_data(head.W_V[:, 0])
        must(varies == 0 and moves == 0, "a data token's key must not depend on the input")
        if head.sees.data == "self":
            exact = value == 0 or value_slope == 0 or _power_of_two(value_slope)
            must(exact, f"a token's own value multiplies the input by {value_slope!r} and adds {value!r}")
            slopes, heights = [*slopes, key], [*heights, height]
            # value_slope x + value in terms of s, x = centre + s / scale
            constants = [*constants, Fraction(value) + Fraction(value_slope) * centre]
            tilts = [*tilts, Fraction(value_slope) / scale]
            hidden = []  # only what is seen is computed; a plain Transformer would need a position code
        else:
            must(key == 0 and value_slope == 0 and value == 0, "a hidden data token needs key 0 and value 0")
            hidden.append(height)
        beta = arb(head.beta)
        must(max(map(abs, slopes), default=0.0) <= LARGEST_KEY, "a key is too large")
        return StoredHead(
            [beta * k for k in slopes],
            [beta * c for c in heights],
            [_ball(v) for v in constants],
            [_ball(tilt) for tilt in tilts],
            value == 0 and _power_of_two(value_slope),
            (arb(value_slope), arb(value)),
            beta * max(hidden) if hidden and head.window is None else None,  # a window computes no other key
            self._weight(head),
            self.network.dtype,
            head.window,
        )

    def _check_window(self, head: Head, M: int) -> None:
        """Anchors on consecutive whole numbers, and weights that can neither overflow nor underflow."""
        L = _exact_column(self.network.registers[slice(*head.sees.registers)], head.W_K[:, 0]) / 2
        must(bool((np.abs(L) < LARGEST_ANCHOR).all()), "an anchor of a window is too far from 0")
        consecutive = bool((L[0] + np.arange(len(L)) == L).all()) and L[0] == np.rint(L[0])
        must(consecutive, "the anchors of a window must stand on consecutive whole numbers")
        must(head.sees.data == "none" and M >= 1 and len(L) >= 2 * M + 1, f"a window of {M} on {len(L)} registers")
        must(head.beta <= LARGEST_WINDOW_BETA, f"beta = {head.beta!r} of a window is more than {LARGEST_WINDOW_BETA}")
        must(head.beta * M * (M + 1) <= LOWEST, f"a weight of a window of {M} at c = {head.beta!r} may underflow")

    def _weight(self, head: Head) -> arb:
        written = np.flatnonzero(head.W_O)
        must(
            head.W_O.shape[0] == 1 and written.tolist() == [self.target],
            "a head must write to the coordinate that is read, and to no other",
        )
        return arb(float(head.W_O[0, self.target]))

    def _on_data(self, weights: Floats) -> tuple[float, float]:
        return _exact_sum(weights, self.slope, self.constant)


def in_window(head: StoredHead, i: int) -> StoredHead:
    """The head with the keys that it sees where the anchor i is nearest."""
    assert head.window is not None
    M, step = head.window, head.slopes[1] - head.slopes[0]  # slopes are 2 c L on neighbouring whole numbers L
    start = i - M - round(float(head.slopes[0] / step))
    must(start >= 0 and start + 2 * M < len(head.slopes), f"there are not {M} anchors on each side of {i}")
    seen = slice(start, start + 2 * M + 1)
    L = [arb(i + m) for m in range(-M, M + 1)]
    return replace(
        head,
        slopes=head.slopes[seen],
        offsets=[-step / 2 * x * x for x in L],  # the offsets that a dot product would need are not used
        values=head.values[seen],
        tilts=head.tilts[seen],
    )


def _ball(value: Fraction | float) -> arb:
    exact = Fraction(value)
    return arb(exact.numerator) / arb(exact.denominator)


def _exact_quotient(a: float, b: float) -> float:
    """a / b, which must be a float."""
    must(Fraction(a / b) * Fraction(b) == Fraction(a), f"{a!r} / {b!r} is no float")
    return a / b


def _power_of_two(x: float) -> bool:
    return math.isfinite(x) and abs(math.frexp(x)[0]) == 0.5


def _token_wise(linear: Linear) -> Floats:
    must(
        len(linear.terms) == 1 and linear.terms[0].tokens is None and linear.terms[0].S is None,
        "maps must be token-wise",
    )
    must(linear.C.shape[0] == 1, "positions must not matter")
    return linear.terms[0].A


def _output(read: Linear) -> int:
    """The one coordinate that is read."""
    A = _token_wise(read)
    target = np.flatnonzero(A[:, 0])
    must(A.shape[1] == 1 and not read.C.any(), "one output was expected")
    must(len(target) == 1 and A[target[0], 0] == 1, "read must copy one coordinate")
    return int(target[0])


def _data_row(embed: Linear, target: int) -> tuple[Floats, Floats]:
    """(slope, constant) of every coordinate of a data token as a function of the input x."""
    A = _token_wise(embed)
    must(A.shape[0] == 1, f"one input was expected, not {A.shape[0]}")
    slope, constant = A[0], embed.C[0]
    copies = (slope == 0) | ((slope == 1) & (constant == 0))
    copies[target] = True
    must(bool(copies.all()), "embed must copy the input or set constants, but for the coordinate of the output")
    return slope, constant


def _exact_sum(weights: Floats, slope: Floats, constant: Floats) -> tuple[float, float]:
    """(a, b) with sum of weights * coordinates = a x + b: at most one product each, both exact."""
    on_x = weights[(weights != 0) & (slope != 0)]
    on_constants = np.flatnonzero((weights != 0) & (constant != 0))
    must(len(on_x) <= 1 and len(on_constants) <= 1, "a map must add at most an input and a constant")
    a = float(on_x[0]) if len(on_x) else 0.0
    if not len(on_constants):
        return a, 0.0
    weight, value = float(weights[on_constants[0]]), float(constant[on_constants[0]])
    must(value == 1.0, "a constant that is multiplied must be 1")
    return a, weight


def _exact_column(registers: Floats, weights: Floats) -> Floats:
    """registers @ weights where every entry is one number times 1."""
    used = np.flatnonzero(weights)
    products = registers[:, used]
    must(bool((np.count_nonzero(products, axis=1) <= 1).all()), "a register's key must be one stored number")
    must(bool((weights[used][(products != 0).any(axis=0)] == 1).all()), "a register's key must not be rescaled")
    total: Floats = products.sum(axis=1)
    return total
