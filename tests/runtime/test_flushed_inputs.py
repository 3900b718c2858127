"""bfloat16 at the bottom of its range: some processors take subnormal numbers for 0 in products of large batches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from support.networks import by_hand, linear
from torch import Tensor

import weightwright as ww
from weightwright.numbers import SMALLEST, rounded

BATCHES = (1, 7, 4096)
TINY = SMALLEST["bfloat16"]
#: (the function in float64, the half width of its domain, a tolerance)
FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], float, float]] = {
    "scaled up": (lambda x: x * 2.0**126, TINY, 2.0),
    "scaled up from above the range": (lambda x: x * 2.0**120, 64 * TINY, 2.0),
    "as it is": (lambda x: x, 4 * TINY, 0.5),
    "scaled down": (lambda x: x * 2.0**-130, 1.0, 0.5),
    "scaled up, then a table": (lambda x: torch.tanh(x * 2.0**124), 4 * TINY, 1.5),
    "tanh": (torch.tanh, 1.0, 0.5),
}


def numbers(reach: float) -> Tensor:
    """Every bfloat16 number up to this size, in one batch of 4,096 or more."""
    every = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    x = every[every.double().abs() <= reach]
    return x.repeat(-(-BATCHES[-1] // len(x)))[:, None, None]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounds_hold_at_every_batch(name: str) -> None:
    function, reach, tol = FUNCTIONS[name]
    net = ww.compile(function, (-reach, reach), tol, dtype=torch.bfloat16)
    assert net.certificate.status == "PROVEN"
    x = numbers(reach)
    for batch in BATCHES:
        part = x[: 64 * batch]
        y = torch.cat([net(rows) for rows in part.split(batch)]).double()
        assert float((y - function(part.double())).abs().max()) <= net.certificate.bound


def test_heads_and_windows_hold_too() -> None:
    for kernel in ("dot", "anchor"):
        net = ww.approximate("x", (-1, 1), 0.5, dtype=torch.bfloat16, kernel=kernel)
        x = numbers(1.0)[::5, 0]
        for batch in BATCHES[1:]:
            y = torch.cat([net(rows) for rows in x.split(batch)])
            assert float((y.double() - x.double()).abs().max()) <= net.certificate.bound


def test_weights_are_never_subnormal() -> None:
    assert rounded(np.array([TINY / 2, -TINY / 2, TINY]), "bfloat16").tolist() == [0.0, 0.0, TINY]
    maps = [linear((name,), [[factor]]) for name, factor in (("s", 1.0), ("y", TINY / 2))]
    with pytest.raises(ww.LawError, match="no finite bfloat16"):
        by_hand(("x",), maps[0], (), maps[1], tokens=1, dtype="bfloat16")
