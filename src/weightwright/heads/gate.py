"""The self-key gate: the token is one of its own keys, and its value is its own number.

Softmax over {beta (s - s_k), 0} with values {x - x_k, 0} is (x - x_k) sigmoid(beta (s - s_k)): relu(x - x_k) up to
0.2785 / (beta scale). A large beta costs nothing: where scores are large and round, the weights are 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from weightwright.heads.registers import Own, Query, Table

#: The largest value of t sigmoid(-t).
PEAK = 0.2785


def relu_gate(at: float, beta: float, weight: float, query: Query, rightward: bool = True) -> Table:
    """weight * relu(x - at), or weight * relu(at - x) if not rightward. Two keys: the token and one register.

    `at` is a number of the dtype, and so must be its query, (at - centre) * scale.
    """
    side = 1.0 if rightward else -1.0
    own = Own(side, -side * query(at), side, -side * at)
    return Table(np.zeros(1), np.zeros(1), np.zeros(1), beta, weight, own)


def choice_gate(
    kinks: Sequence[float], constants: Sequence[float], own: int, shift: float, beta: float, weight: float, query: Query
) -> Table:
    """weight times a function of x that is constant between its kinks but for piece `own`, where it is x + shift.

    The scores of neighbouring pieces cross at the kink between them, so softmax picks the piece that x lies in; the
    constants are those of the other pieces, in order.
    """
    slopes = np.arange(len(kinks) + 1, dtype=np.float64) - own
    offsets = np.concatenate([[0.0], -np.cumsum([query(at) for at in kinks])])
    offsets = offsets - offsets[own]
    others = np.arange(len(slopes)) != own
    return Table(slopes[others], offsets[others], np.array(constants), beta, weight, Own(0.0, 0.0, 1.0, shift))


def sharpness(bends: float, query: Query, error: float) -> float:
    """The least power of two with which gates whose weights add up to `bends` stay within the error."""
    return math.ldexp(1.0, math.ceil(math.log2(PEAK * bends / (query.scale * error))))
