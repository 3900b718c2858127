"""No map on the token axis may be another one: with a prompt, in a loop."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from support.prompts import made
from support.token_maps import maps, refuse_other_maps

import weightwright as ww

CASES = ("descent", "threshold", "clock", "heavy")


@ww.incontext.algorithm(steps=2)
def heavy(rows: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    x, y = rows.unbind(-1)
    speed = 0.5 * state[1] - 0.5 * (x * (x * state[0] - y)).mean()
    return torch.stack([state[0] + speed, speed])


@cache
def certified(kind: str) -> ww.AttentionNetwork:
    if kind == "heavy":
        return heavy.compile((-np.ones(2), np.ones(2)), (-2 * np.ones(2), 2 * np.ones(2)), samples=3, tol=1e-8)
    return made(kind, "float64")


def test_every_kind_has_maps() -> None:
    kinds = [{type(map).__name__ for _, map, _ in maps(certified(kind).network)} for kind in CASES]
    assert all(kinds)
    assert set.union(*kinds) == {"Gather", "Total"}


@pytest.mark.parametrize("kind", CASES)
def test_no_map_may_be_another_one(kind: str, tmp_path: Path) -> None:
    refuse_other_maps(certified(kind), tmp_path)
