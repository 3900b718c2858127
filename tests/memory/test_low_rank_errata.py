"""What the low-rank self-attention paper prints otherwise: counterexamples. docs/errata.md"""

from __future__ import annotations

import numpy as np


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def test_the_printed_position_code_lets_neighbours_meet() -> None:
    """(48): spacing 2 r_max; r at position 1 and -r at position 2, d = 1."""
    r = 1.0
    first, second = r + 2 * r, -r + 4 * r
    assert first == second


def test_the_printed_quantiser_loses_the_first_cell() -> None:
    """(58) with t = 1, ..., D minus the last step: what is in the first cell becomes 0, not 1/D."""
    D, delta = 4, 1e-3
    z = np.array([0.5 / D, 1.5 / D])
    t = np.arange(1, D + 1)[:, None]
    steps = (relu(z / delta - t / (delta * D)) - relu(z / delta - 1 - t / (delta * D))).sum(axis=0) / D
    printed = steps - (relu(z / delta - 1 / delta) - relu(z / delta - 1 - 1 / delta))
    assert np.allclose(printed, [0.0, 1 / D])  # quant_D says 1/D and 2/D


def test_the_printed_penalty_is_none() -> None:
    """(59): +1 above 1, and falling without end below 0."""
    delta = 0.1
    z = np.array([-1.0, 0.5, 2.0])
    printed = relu((z - 1) / delta) - relu((z - 1) / delta - 1) - relu(-z / delta) - relu(-z / delta - 1)
    assert printed[1] == 0
    assert printed[2] == 1
    assert printed[0] < -10


def test_the_printed_bump_is_none() -> None:
    """(67): sigma(u-1) - sigma(u) + sigma(u+1) grows without end; with -2 sigma(u) it is a bump."""
    u = np.array([-2.0, 0.0, 2.0, 9.0])
    assert (relu(u - 1) - relu(u) + relu(u + 1)).tolist() == [0.0, 1.0, 2.0, 9.0]
    assert (relu(u - 1) - 2 * relu(u) + relu(u + 1)).tolist() == [0.0, 1.0, 0.0, 0.0]


def test_the_printed_volume_of_a_cell_is_that_of_a_token() -> None:
    """Before (70): D cells along each of d n numbers are D^(dn), which fill the unit cube with D^(-dn) each and not
    with D^-d. And 0 <= F_2 <= 1 is no bound on values f(L) of both signs, -1 <= f <= 1."""
    d, n, D = 2, 3, 4
    assert D ** (d * n) * D ** -(d * n) == 1
    assert D ** (d * n) * D**-d == 256
    labels, R = np.array([-1.0, 1.0]), 100.0
    for height in labels:
        u = R * np.zeros(1)
        assert height * (relu(u - 1) - 2 * relu(u) + relu(u + 1)) == height
    assert labels.min() < 0
