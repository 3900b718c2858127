"""No map on the token axis may be another one: of grids, of networks side by side, with a prompt, in a loop."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.forging import GRIDS, SIDES, altered, made, refused
from support.prompts import made as prompted

import weightwright as ww
from weightwright.claims.certificate import Certificate
from weightwright.errors import LawError
from weightwright.network import Block, Gather, Linear, Loop, Mixed, Network, TokenMap, Total, token_map

Place = tuple[Any, ...]

CASES = [
    *(("grid", kind) for kind in (*GRIDS, *SIDES)),
    *(("prompt", kind) for kind in ("descent", "threshold", "clock")),
    ("loop", "heavy"),
]


@ww.incontext.algorithm(steps=2)
def heavy(rows: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    x, y = rows.unbind(-1)
    speed = 0.5 * state[1] - 0.5 * (x * (x * state[0] - y)).mean()
    return torch.stack([state[0] + speed, speed])


@cache
def certified(room: str, kind: str) -> tuple[Network, Certificate]:
    if room == "loop":
        net = heavy.compile((-np.ones(2), np.ones(2)), (-2 * np.ones(2), 2 * np.ones(2)), samples=3, tol=1e-8)
    else:
        net = made(kind) if room == "grid" else prompted(kind, "float64")
    assert net.certificate is not None
    return net.network, net.certificate


def maps(network: Network) -> list[tuple[Place, TokenMap, int]]:
    """Where every map stands that is none on blocks, and how many tokens it is given."""
    n = network.tokens or 1

    def found(parts: Any, path: Place) -> Iterator[tuple[Place, TokenMap, int]]:
        nonlocal n
        for index, layer in parts:
            if isinstance(layer, Loop):
                yield from found(enumerate(layer.layers), (*path, index, "layers"))
            elif isinstance(layer, Linear):
                for number, term in enumerate(layer.terms):
                    if term.tokens is not None and not isinstance(term.tokens, Block):
                        yield (*path, index, "terms", number, "tokens"), term.tokens, n
                n = max((term.tokens_after(n) for term in layer.terms), default=n)

    return [
        *found([("embed", network.embed)], ()),
        *found(enumerate(network.layers), ("layers",)),
        *found([("read", network.read)], ()),
    ]


def forgeries(map: TokenMap, n: int) -> Iterator[TokenMap | None]:
    """Other sources, another sum, entries of the matrix changed by a quarter, by one, to the other sign; no map."""
    R = map.matrix(n)
    rng = np.random.default_rng(R.size)
    yield None if len(R) == n else Gather((0,) * len(R)) if map != Gather((0,) * len(R)) else Gather((-1,) * len(R))
    if isinstance(map, Gather):
        for i, source in enumerate(map.sources):
            other = (source + 2) % (n + 1) - 1
            yield Gather((*map.sources[:i], other, *map.sources[i + 1 :]))
        yield Block(R) if n > 1 else Mixed(2 * R)
    if not isinstance(map, Total) and n > 1:
        yield Total(len(R))
    for change in (0.25, 1.0, -2.0, 2.0**-52):
        forged = R.copy()
        forged.flat[int(rng.integers(R.size))] += change
        yield token_map(forged)


def test_every_kind_has_maps() -> None:
    kinds = {case: {type(map) for _, map, _ in maps(certified(*case)[0])} for case in CASES}
    assert all(kinds[case] for case in CASES)
    assert set.union(*kinds.values()) == {Gather, Total}


@pytest.mark.parametrize(("room", "kind"), CASES)
def test_no_map_may_be_another_one(room: str, kind: str, tmp_path: Path) -> None:
    network, certificate = certified(room, kind)
    refusals = 0
    for path, map, n in maps(network):
        for forged in forgeries(map, n):
            try:
                other = altered(network, path, lambda _, forged=forged: forged)
            except LawError:
                continue
            refused(other, certificate, tmp_path)
            refusals += 1
    assert refusals >= 4
