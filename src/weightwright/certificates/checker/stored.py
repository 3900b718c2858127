"""What a stored one-head network computes, read off its weights exactly.

The rule covers networks whose maps around the head are exact in floating point: copies, powers of two,
constants. Anything else is refused, not approximated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from weightwright.certificates.checker.head import StoredHead
from weightwright.errors import CertificateError
from weightwright.network import Attention, Linear, Network
from weightwright.network.layers import Floats


@dataclass(frozen=True)
class OneHead:
    """network(x) = mean + head(s) with s = (x - centre) * scale."""

    head: StoredHead
    centre: float
    scale: float
    mean: float
    values: Floats
    beta: float

    @property
    def exact_query(self) -> bool:
        """Whether s is computed without rounding: a product with a power of two that cannot underflow."""
        return self.centre == 0 and self.scale >= 1

    def sizes(self, x: float, s: float) -> Iterator[arb]:
        """Everything that must be far from overflow for inputs up to x and queries up to s."""
        yield abs(arb(self.scale)) * x
        yield abs(arb(self.centre)) * abs(arb(self.scale))
        yield arb(self.beta) * s
        for k, c in zip(self.head.slopes, self.head.offsets, strict=True):
            yield abs(k) * s + abs(c)
        yield abs(arb(self.mean)) + len(self.values) * arb(float(np.abs(self.values).max()))
        yield abs(self.head.hidden)


def read_one_head(network: Network) -> OneHead:
    """Refuse (CertificateError) whatever is not one register-only head between exact maps."""
    layer = network.layers[0] if len(network.layers) == 1 else None
    _must(
        isinstance(layer, Attention) and layer.residual and len(layer.heads) == 1,
        "one residual head was expected",
    )
    assert isinstance(layer, Attention)
    head = layer.heads[0]
    _must(head.sees.data == "none" and head.mask is None, "the head must see registers only")
    _must(_power_of_two(head.beta), f"beta = {head.beta!r} must be a power of two")
    slope, constant = _data_row(network.embed)
    _must(head.W_Q.shape[1] == 2 and head.W_V.shape[1] == 1, "the query must be (s, 1) and the value one number")
    scale, shift = _exact_sum(head.W_Q[:, 0], slope, constant)
    _must(_power_of_two(scale), f"the query multiplies the input by {scale!r}, which is no power of two")
    _must(_exact_sum(head.W_Q[:, 1], slope, constant) == (0.0, 1.0), "the query must be (s, 1)")
    data_keys = [_exact_sum(head.W_K[:, i], slope, constant) for i in (0, 1)]
    _must(data_keys[0] == (0.0, 0.0) and data_keys[1][0] == 0, "a data token's key must not depend on the input")
    _must(_exact_sum(head.W_V[:, 0], slope, constant) == (0.0, 0.0), "a data token must have the value 0")
    start, stop = head.sees.registers
    registers = network.registers[start:stop]
    keys, offsets = (_exact_column(registers, head.W_K[:, i]) for i in (0, 1))
    values = _exact_column(registers, head.W_V[:, 0])
    beta = arb(head.beta)
    return OneHead(
        StoredHead(
            [beta * k for k in keys.tolist()],
            [beta * c for c in offsets.tolist()],
            [arb(v) for v in values.tolist()],
            beta * data_keys[1][1],
            network.dtype,
        ),
        centre=_exact_quotient(-shift, scale),
        scale=scale,
        beta=head.beta,
        mean=_output_mean(network, layer, slope, constant),
        values=values,
    )


def _must(condition: bool, complaint: str) -> None:
    if not condition:
        raise CertificateError(f"no rule covers this network: {complaint}")


def _exact_quotient(a: float, b: float) -> float:
    """a / b, which must be a float."""
    _must(Fraction(a / b) * Fraction(b) == Fraction(a), f"{a!r} / {b!r} is no float")
    return a / b


def _power_of_two(x: float) -> bool:
    return math.isfinite(x) and abs(math.frexp(x)[0]) == 0.5


def _token_wise(linear: Linear) -> Floats:
    _must(
        len(linear.terms) == 1 and linear.terms[0].R is None and linear.terms[0].S is None,
        "maps must be token-wise",
    )
    _must(linear.C.shape[0] == 1, "positions must not matter")
    return linear.terms[0].A


def _data_row(embed: Linear) -> tuple[Floats, Floats]:
    """(slope, constant) of every coordinate of a data token as a function of the input x."""
    A = _token_wise(embed)
    _must(A.shape[0] == 1, f"one input was expected, not {A.shape[0]}")
    slope, constant = A[0], embed.C[0]
    _must(
        bool(((slope == 0) | ((slope == 1) & (constant == 0))).all()),
        "embed must copy the input or set constants",
    )
    return slope, constant


def _exact_sum(weights: Floats, slope: Floats, constant: Floats) -> tuple[float, float]:
    """(a, b) with sum of weights * coordinates = a x + b: at most one product each, both exact."""
    on_x = weights[(weights != 0) & (slope != 0)]
    on_constants = np.flatnonzero((weights != 0) & (constant != 0))
    _must(len(on_x) <= 1 and len(on_constants) <= 1, "a map must add at most an input and a constant")
    a = float(on_x[0]) if len(on_x) else 0.0
    if not len(on_constants):
        return a, 0.0
    weight, value = float(weights[on_constants[0]]), float(constant[on_constants[0]])
    _must(value == 1.0, "a constant that is multiplied must be 1")
    return a, weight


def _exact_column(registers: Floats, weights: Floats) -> Floats:
    """registers @ weights where every entry is one number times 1."""
    used = np.flatnonzero(weights)
    products = registers[:, used]
    _must(bool((np.count_nonzero(products, axis=1) <= 1).all()), "a register's key must be one stored number")
    _must(bool((weights[used][(products != 0).any(axis=0)] == 1).all()), "a register's key must not be rescaled")
    total: Floats = products.sum(axis=1)
    return total


def _output_mean(network: Network, layer: Attention, slope: Floats, constant: Floats) -> float:
    """The constant that the head's output is added to in the coordinate that is read."""
    W_O, read = layer.heads[0].W_O, _token_wise(network.read)
    _must(W_O.shape[0] == 1 and read.shape[1] == 1 and not network.read.C.any(), "one output was expected")
    target = np.flatnonzero(read[:, 0])
    _must(len(target) == 1 and read[target[0], 0] == 1, "read must copy one coordinate")
    _must(
        W_O[0, target[0]] == 1 and np.count_nonzero(W_O) == 1,
        "the head must write 1 times its value to what is read",
    )
    _must(slope[target[0]] == 0, "the output coordinate must start as a constant")
    return float(constant[target[0]])
