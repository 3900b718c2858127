"""LR-6: functions of sequences by quantising, ids and look-up: their error falls like 1/D."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import weightwright as ww


def waves(x: np.ndarray) -> Any:
    return np.sin(3 * x[..., 0]) * x[..., 0].mean(axis=1, keepdims=True)


def farthest(x: np.ndarray) -> Any:
    return (x**2).sum(axis=-1) - x.max(axis=1, keepdims=True)[..., 0]


def ordered(x: np.ndarray) -> Any:
    return np.stack([x[:, 0, 0] * x[:, 1, 0], x[:, 1, 0] - x[:, 0, 0] ** 2], axis=1)


@pytest.mark.parametrize(
    ("f", "tokens", "features", "positions", "slope"),
    [(waves, 3, 1, False, 4.0), (farthest, 2, 2, False, 5.0), (ordered, 2, 1, True, 3.0)],
)
def test_the_error_falls_like_one_over_the_granularity(
    f: Any, tokens: int, features: int, positions: bool, slope: float
) -> None:
    found = []
    for D in (4, 8, 16 if features == 1 else 12):
        about: Any = ww.memory.equivariant(f, tokens, features, D, positions, lipschitz=slope).about
        assert about.error <= about.stated
        found.append((D, about.error))
    fitted = np.polyfit(*np.log(np.array(found)).T, 1)[0]
    assert -1.15 < fitted < -0.85


def test_cells_return_the_values_at_their_middles_in_any_order() -> None:
    net = ww.memory.equivariant(waves, 3, granularity=4)
    middles = (np.arange(4) + 0.5) / 4
    x = np.array(list(itertools.product(middles, repeat=3)))[..., None]  # cells twice included
    y = net(torch.tensor(x))[..., 0].numpy()
    assert np.abs(y - waves(x)).max() < 1e-9
    assert net.certificate.status == "MEASURED"
    assert net.certificate.norm == 1.0


def test_what_cannot_be_is_refused_before_it_is_built() -> None:
    with pytest.raises(ww.WeightwrightError, match="not permutation equivariant"):
        ww.memory.equivariant(ordered, 2)
    with pytest.raises(ww.BudgetError, match="10,424,128 sequences of cells"):
        ww.memory.equivariant(waves, 5, granularity=64)
    with pytest.raises(ValueError, match="granularity"):
        ww.memory.equivariant(waves, 3, granularity=1)
    assert ww.memory.lookup_error(3, 1, 8, 4.0, 1.0) == pytest.approx(
        2 * ww.memory.lookup_error(3, 1, 16, 4.0, 1.0), 1e-3
    )
    cost = ww.memory.lookup_cost(3, 1, 8)
    assert (cost.cells, cost.sequences, cost.tokens, cost.quantising_units) == (8, 120, 360, 14)
