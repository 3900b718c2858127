"""The maps on the token axis that a network has, and other maps in their place, of which none may pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from support.forging import altered, refused

import weightwright as ww
from weightwright.network import Block, Gather, Linear, Loop, Mixed, Total, token_map

Place = tuple[Any, ...]


def maps(network: Any) -> list[tuple[Place, Any, int]]:
    """Where every map stands that is none on blocks, and how many tokens it is given."""
    n = network.tokens or 1

    def found(parts: Any, path: Place) -> Iterator[tuple[Place, Any, int]]:
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


def forgeries(map: Any, n: int) -> Iterator[Any]:
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


def refuse_other_maps(net: ww.AttentionNetwork, folder: Path) -> None:
    """At least four forgeries, and every one is refused."""
    refusals = 0
    for path, map, n in maps(net.network):
        for forged in forgeries(map, n):
            try:
                other = altered(net.network, path, lambda _, forged=forged: forged)
            except ww.LawError:
                continue
            refused(other, net.certificate, folder)
            refusals += 1
    assert refusals >= 4
