"""Inputs at which a function is compared with its trace: ends, corners and random numbers of its box; token counts."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import Any

import numpy as np
from torch import nn

from weightwright.numbers import Floats

#: How many inputs are chosen: rows are put together at no cost, of whole inputs each is two calls of the function.
ROWS, WHOLE, FEWEST = 36, 20, 6
#: Numbers of tokens with which a function of any number of them is run: around the sizes at which libraries and people
#: take another way.
COUNTS = (1, 2, 3, 4, 5, 8, 17, 64, 100, 257, 1000, 4097)
#: Numbers, over all inputs, tokens and columns, that are computed at once: 64 MB in float64, twice that as intervals.
MOST_NUMBERS = 2**23


def choose_inputs(lo: Floats, hi: Floats, count: int, seed: int = 0) -> Floats:
    """(count, *shape of the box): both ends, the middle and what is nearest to 0, random corners, random inputs."""
    rng = np.random.default_rng(seed)
    middle, nearest_zero = lo / 2 + hi / 2, np.clip(np.zeros_like(lo), lo, hi)
    corners = np.where(rng.random((count // 4, *lo.shape)) < 0.5, lo, hi)
    share = rng.random((count - 4 - len(corners), *lo.shape))
    inside = lo * (1 - share) + hi * share  # hi - lo may be too large for a float
    return np.clip(np.concatenate([np.stack([lo, hi, middle, nearest_zero]), corners, inside]), lo, hi)


def choose_counts(function: Any, columns: int) -> list[int]:
    """Numbers of tokens: the usual ones, and one below, at and above every whole number that the source names. columns:
    how many numbers a token has on the way."""
    named = {number + more for code in _codes(function) for number in _whole_numbers(*code) for more in (-1, 0, 1)}
    return sorted(count for count in {*COUNTS, *named} if 1 <= count <= max(MOST_NUMBERS // columns, 64))


def _codes(function: Any) -> Iterator[tuple[CodeType, dict[str, Any]]]:
    """The code of a function or of a module's forward passes, and the names around it."""
    called = [type(module).forward for module in function.modules()] if isinstance(function, nn.Module) else [function]
    for one in called:
        one = getattr(one, "__func__", one)
        code = getattr(one, "__code__", None)
        if isinstance(code, CodeType) and not type(one).__module__.startswith("torch"):
            yield code, getattr(one, "__globals__", {})


def _whole_numbers(code: CodeType, names: dict[str, Any]) -> Iterator[int]:
    for value in [*code.co_consts, *(names.get(name) for name in code.co_names)]:
        if isinstance(value, CodeType):
            yield from _whole_numbers(value, names)
        elif isinstance(value, int) and not isinstance(value, bool):
            yield value
