"""What makes a network well formed, and what makes it loadable by an ordinary Transformer.

A broken law raises `LawError` that names the layer, the head and the coordinate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from weightwright.errors import LawError
from weightwright.limits import count_tokens, hold, tick
from weightwright.network.layers import Attention, FeedForward, Head, Layer, Linear, Loop, Names, Ramps, Softmax, Stack
from weightwright.network.ramps import ramps_of
from weightwright.network.token_maps import Block, Gather, Mixed, TokenMap, Total
from weightwright.numbers import FORMATS, Floats, rounded

#: Anchors of a window stand on whole numbers below this.
FARTHEST = 2**30
#: Numbers of a matrix that are looked at between two looks at the clock: about 10 milliseconds.
_NUMBERS = 2**20
#: Tokens that the sum of all tokens may become: no file of a few bytes makes a network fill the memory.
MOST_TOKENS = 2**20

#: Data tokens that a head may see.
_DATA = ("none", "self", "block", "earlier", "all")


def enforce(network: Stack) -> None:
    """Raise LawError unless the network is well formed."""
    if network.dtype not in FORMATS:
        raise LawError(f"network: dtype {network.dtype!r} is none of {', '.join(FORMATS)}")
    if network.tokens is not None and network.tokens < 1:
        raise LawError(f"network: tokens = {network.tokens}, but there must be at least one")
    count_tokens(network.tokens)
    count_tokens(len(network.registers))
    check = _LawWalk(network)
    names = check.linear(network.embed, "embed", network.inputs, network.tokens)
    check.matrix(network.registers, "registers", (None, len(names)), columns=names)
    for index, layer in enumerate(network.layers):
        names = check.layer(layer, f"layer {index}", names)
    check.linear(network.read, "read", names, check.tokens)


#: A loop runs at most this often: a file may ask for more than anyone can wait for.
MOST_PASSES = 2**24


class _LawWalk:
    """Walks the layers in order; knows the number of tokens where it is fixed."""

    def __init__(self, network: Stack) -> None:
        self.network = network
        self.tokens = network.tokens
        self._sound: set[int] = set()  # arrays, by identity, that hold nothing but finite numbers of the dtype

    def layer(self, layer: Layer, where: str, names: Names) -> Names:
        if isinstance(layer, Linear):
            return self.linear(layer, where, names, self.tokens)
        if isinstance(layer, Attention):
            return self.attention(layer, where, names)
        if isinstance(layer, FeedForward):
            return self.feed_forward(layer, where, names)
        if isinstance(layer, Softmax):
            _positive(layer.beta, f"{where}: beta", self.network.dtype)
            if layer.over not in ("features", "tokens"):
                raise LawError(f"{where}: a softmax over {layer.over!r}, not over 'features' or 'tokens'")
            return names
        return self.loop(layer, where, names)

    def loop(self, loop: Loop, where: str, names: Names) -> Names:
        if not 1 <= loop.times <= MOST_PASSES:
            raise LawError(f"{where}: a loop runs {loop.times} times, but it must be from 1 to {MOST_PASSES:,}")
        tokens, after = self.tokens, names
        for index, layer in enumerate(loop.layers):
            after = self.layer(layer, f"{where}, layer {index}", after)
        if after != names or tokens != self.tokens:
            raise LawError(f"{where}: a loop must end with the tokens and coordinates it starts with, {names}")
        return names

    def linear(self, linear: Linear, where: str, names: Names, tokens: int | None) -> Names:
        _distinct(linear.coordinates, where)
        out = tokens
        for index, term in enumerate(linear.terms):
            spot = f"{where}, term {index}"
            self.matrix(term.A, f"{spot}, A", (len(names), len(linear.coordinates)), names, linear.coordinates)
            if term.S is not None:
                self.matrix(term.S, f"{spot}, S", (tokens, None), columns=names)
                if term.S.shape[1] not in (1, len(names)):
                    raise LawError(f"{spot}, S: a scale has 1 or {len(names)} columns, not {term.S.shape[1]}")
            if term.tokens is not None:
                self.token_map(term.tokens, spot, tokens)
            if tokens is not None:
                after = term.tokens_after(tokens)
                if index and after != out:
                    raise LawError(f"{spot}: its {after} tokens do not add to the other terms' {out}")
                out = after
        rows = None if linear.C.shape[0] != 1 else 1
        self.matrix(linear.C, f"{where}, C", (rows, len(linear.coordinates)), columns=linear.coordinates)
        if rows is None and linear.C.shape[0] != out:
            raise LawError(f"{where}, C: a position code for {linear.C.shape[0]} tokens, but there are {out}")
        if linear.moves_tokens or linear.knows_positions:
            if tokens is None:
                raise LawError(f"{where}: it knows positions, so the network must say how many tokens it has")
            self.tokens = out
        return linear.coordinates

    def token_map(self, map: TokenMap, where: str, tokens: int | None) -> None:
        if isinstance(map, Gather):
            wrong = [source for source in map.sources if type(source) is not int or source < -1]
            beyond = [] if tokens is None else [source for source in map.sources if source >= tokens]
            if wrong or beyond or not map.sources:
                what = f"token {(wrong + beyond)[0]!r}" if wrong or beyond else "nothing"
                raise LawError(f"{where}: it gathers {what} of {tokens} tokens")
        elif isinstance(map, Total):
            if type(map.after) is not int or not 1 <= map.after <= MOST_TOKENS:
                raise LawError(f"{where}: the sum of all tokens becomes {map.after!r} tokens")
        elif isinstance(map, Block):
            self.matrix(map.R, f"{where}, R", (None, None))
            if tokens is None or not map.R.size or tokens % map.R.shape[1]:
                raise LawError(f"{where}: {tokens} tokens do not fall into blocks of {map.R.shape[1]}")
        elif isinstance(map, Mixed):
            self.matrix(map.R, f"{where}, R", (None, tokens))
        else:
            raise LawError(f"{where}: a {type(map).__name__} is no map on the tokens")

    def attention(self, layer: Attention, where: str, names: Names) -> Names:
        if layer.residual and layer.coordinates != names:
            wrong = sorted(set(layer.coordinates) ^ set(names)) or "their order"
            raise LawError(f"{where}: a residual layer keeps its coordinates, but {wrong} changed")
        _distinct(layer.coordinates, where)
        for index, head in enumerate(layer.heads):
            self.head(head, f"{where}, head {index} ({head.role})", names, layer.coordinates)
        return layer.coordinates

    def head(self, head: Head, where: str, names: Names, outputs: Names) -> None:
        h, v = head.W_Q.shape[1], head.W_V.shape[1]
        self.matrix(head.W_Q, f"{where}, W_Q", (len(names), h), names)
        self.matrix(head.W_K, f"{where}, W_K", (len(names), h), names)
        self.matrix(head.W_V, f"{where}, W_V", (len(names), v), names)
        self.matrix(head.W_O, f"{where}, W_O", (v, len(outputs)), columns=outputs)
        _positive(head.beta, f"{where}: beta", self.network.dtype)
        start, stop = head.sees.registers
        if not 0 <= start <= stop <= len(self.network.registers):
            raise LawError(f"{where}: sees registers {start} to {stop} of {len(self.network.registers)}")
        if start < stop and names != self.network.embed.coordinates:
            raise LawError(f"{where}: registers stand in the coordinates of embed, not in {names}")
        if start == stop and head.sees.data == "none":
            raise LawError(f"{where}: it sees no key at all")
        if head.sees.data == "block" and (head.sees.block < 1 or self.tokens is None or self.tokens % head.sees.block):
            raise LawError(f"{where}: {self.tokens} tokens do not fall into blocks of {head.sees.block}")
        if head.sees.data not in _DATA:
            raise LawError(f"{where}: sees {head.sees.data!r} of the data, not one of {', '.join(_DATA)}")
        if head.sees.asks not in ("all", "first") or (head.sees.asks == "first" and head.sees.data != "block"):
            raise LawError(f"{where}: asks {head.sees.asks!r}, but only of a block there is a first token that asks")
        if head.mask is not None:
            self.mask(head, where)
        if head.window is not None:
            self.window(head, head.window, where, names)

    def window(self, head: Head, M: int, where: str, names: Names) -> None:
        """Keys (2 L, -L^2) on consecutive whole numbers L, queries (t, 1), a power of two for beta."""
        if not isinstance(M, int) or isinstance(M, bool) or M < 1:
            raise LawError(f"{where}: a window is a whole number of at least 1, not {M!r}")
        if head.sees.data != "none":
            raise LawError(f"{where}: a windowed head sees registers only, not data tokens ({head.sees.data!r})")
        if head.W_Q.shape[1] != 2 or head.W_V.shape[1] < 1:
            sizes = f"{head.W_Q.shape[1]} and {head.W_V.shape[1]}"
            raise LawError(f"{where}: a windowed head has queries of size 2 and values of size 1 or more, not {sizes}")
        if math.frexp(head.beta)[0] != 0.5:
            raise LawError(f"{where}: beta = {head.beta!r} of a windowed head must be a power of two")
        start, stop = head.sees.registers
        if stop - start < 2 * M + 1:
            raise LawError(f"{where}: a window of {M} needs {2 * M + 1} anchors, but there are {stop - start}")
        K = self.network.registers[start:stop] @ head.W_K  # (p, 2)
        L = np.rint(K[0, 0] / 2) + np.arange(stop - start)
        if np.abs(L).max() >= FARTHEST:
            raise LawError(f"{where}: an anchor of a window stands at {np.abs(L).max():g}, beyond {FARTHEST}")
        for column, name, expected in ((0, "key", 2 * L), (1, "offset", rounded(-(L**2), self.network.dtype))):
            wrong = np.flatnonzero(K[:, column] != expected)
            if len(wrong):
                j = wrong[0]
                raise LawError(
                    f"{where}: the {name} of register {start + j} is {float(K[j, column])!r}, but a window needs"
                    f" {float(expected[j])!r}: keys 2 L and offsets -L^2 on consecutive whole numbers L"
                )
        self.one(head, where, names)

    def one(self, head: Head, where: str, names: Names) -> None:
        """The second component of a windowed head's query is 1: a coordinate that is 1 on every data token."""
        sources = np.flatnonzero(head.W_Q[:, 1])
        if len(sources) != 1 or head.W_Q[sources[0], 1] != 1:
            raise LawError(f"{where}, W_Q: a windowed head's query is (t, 1), and one coordinate gives the 1")
        one, embed = sources[0], self.network.embed
        changes = any(term.A[:, one].any() for term in embed.terms) or bool((embed.C[:, one] != 1).any())
        if changes or any(other.W_O.shape[1] == len(names) and other.W_O[:, one].any() for other in self.network.heads):
            raise LawError(
                f"{where}, W_Q: coordinate {names[one]!r} gives the 1 of the query (t, 1), but it is not always 1"
            )

    def mask(self, head: Head, where: str) -> None:
        assert head.mask is not None
        if head.sees.data != "all" or head.mask.shape != (self.tokens, self.tokens):
            raise LawError(f"{where}: a mask needs sees.data 'all' and the shape of {self.tokens} tokens squared")
        blind = np.flatnonzero(~head.mask.any(axis=1))
        if len(blind) and head.sees.registers[0] == head.sees.registers[1]:
            raise LawError(f"{where}: the mask leaves token {blind[0]} no key at all")

    def feed_forward(self, layer: FeedForward, where: str, names: Names) -> Names:
        m = layer.W_1.shape[1]
        self.matrix(layer.W_1, f"{where}, W_1", (len(names), m), names)
        self.matrix(layer.b_1, f"{where}, b_1", (1, m))
        self.matrix(layer.W_2, f"{where}, W_2", (m, len(layer.coordinates)), columns=layer.coordinates)
        self.matrix(layer.b_2, f"{where}, b_2", (1, len(layer.coordinates)), columns=layer.coordinates)
        if layer.residual and layer.coordinates != names:
            raise LawError(f"{where}: a residual layer keeps its coordinates {names}")
        _distinct(layer.coordinates, where)
        if isinstance(layer, Ramps):
            ramps_of(layer, where)
        return layer.coordinates

    def matrix(
        self,
        array: Floats,
        where: str,
        shape: tuple[int | None, int | None],
        rows: Names | None = None,
        columns: Names | None = None,
    ) -> None:
        """Shape (None: any), finiteness, and that every entry is a number of the network's dtype."""
        tick()
        fits = array.ndim == 2 and all(want in (None, have) for want, have in zip(shape, array.shape, strict=False))
        if not fits:
            raise LawError(f"{where}: shape {array.shape} where {shape} was expected")
        if id(array) in self._sound:
            return
        step = max(1, _NUMBERS // max(array.shape[1], 1))
        for first in range(0, len(array), step):
            tick()
            part = array[first : first + step]
            bad = np.argwhere(~np.isfinite(part) | (part != rounded(part, self.network.dtype)))
            if len(bad):
                i, j = first + bad[0, 0], bad[0, 1]
                row = f"coordinate {rows[i]!r}" if rows else f"row {i}"
                column = f"coordinate {columns[j]!r}" if columns and j < len(columns) else f"column {j}"
                raise LawError(f"{where}: {row}, {column} is {array[i, j]!r}, no finite {self.network.dtype}")
        self._sound.add(id(array))


def _twice_around(layers: tuple[Layer, ...], prefix: str = "") -> Iterator[tuple[str, Layer]]:
    """Every layer with its place, loops run twice: what the first round writes the second may read."""
    for index, layer in enumerate(layers):
        if isinstance(layer, Loop):
            for _ in range(min(layer.times, 2)):
                tick()
                yield from _twice_around(layer.layers, f"{prefix}{index}.")
        else:
            yield f"{prefix}{index}", layer


def _distinct(names: Names, where: str) -> None:
    tick()
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise LawError(f"{where}: two coordinates are called {name!r}")
        seen.add(name)


def _positive(value: float, where: str, dtype: str) -> None:
    # a whole number of more bits than a float has is not the number that the network would run with
    if not (np.isfinite(value) and value > 0 and value == float(value) == rounded(np.array(float(value)), dtype)):
        raise LawError(f"{where} = {value!r} must be a positive finite {dtype}")


def obstacles(network: Stack) -> Iterator[str]:
    """Everything that an ordinary attention-only Transformer has no place for.

    This is about the form alone. Whether keys that a head does not see are hidden from a Transformer that looks
    at all tokens depends on scores; a certificate counts what leaks.
    """
    for where, linear in (("embed", network.embed), ("read", network.read)):
        if linear.moves_tokens:
            yield f"{where} has a map on the token axis"
        if any(term.S is not None for term in linear.terms):
            yield f"{where} scales positions"
    if network.read.knows_positions:
        yield "read has a position code"
    written: set[int] = set()  # coordinates of registers that are not what was stored
    moved: set[int] = set()  # coordinates of data tokens that heads have written
    for index, layer in _twice_around(network.layers):
        if not isinstance(layer, Attention):
            yield f"layer {index} is a {type(layer).__name__}"
            continue
        if not layer.residual:
            yield f"layer {index} is not residual"
        for head in layer.heads:
            if head.sees.data == "block" or head.mask is not None:
                yield f"layer {index}, head {head.role}: a mask of its own"
            if head.sees.data == "self" and network.tokens != 1:
                yield f"layer {index}, head {head.role}: a token sees itself and no other, which takes a position code"
        reads = {
            int(coordinate)
            for head in layer.heads
            if head.sees.registers[0] < head.sees.registers[1]
            for coordinate in np.flatnonzero(head.W_K.any(axis=1) | head.W_V.any(axis=1))
        }
        for coordinate in sorted(reads & written):
            yield f"layer {index} reads {layer.coordinates[coordinate]!r} from registers, which was written before"
        spared = [spares_registers(network, head, moved, written) for head in layer.heads]
        targets = [set(np.flatnonzero(head.W_O.any(axis=0)).tolist()) for head in layer.heads]
        written |= {c for own, spares in zip(targets, spared, strict=True) if not spares for c in own}
        moved |= {c for own in targets for c in own}


#: A key whose score lies this far below another's weighs nothing beside it in any dtype: e^-800 is 0.
BELOW = 800.0


def spares_registers(network: Stack, head: Head, moved: set[int], written: set[int]) -> bool:
    """Whether a head of a plain Transformer writes exactly 0 to every register: each sees, among itself and those
    before it (so that a causal mask does no harm), one of value 0, and everything that has another value lies so far
    below that it weighs nothing. moved, written: coordinates that earlier heads have written on data tokens, on
    registers."""
    embed, registers = network.embed, network.registers
    if not len(registers) or (embed.knows_positions and len(embed.C) != network.tokens):
        return False
    if len(head.W_V) != registers.shape[1]:  # another layer has made the stream wider: nothing is known of it here
        return False
    fed = {c for term in embed.terms for c in np.flatnonzero(term.A.any(axis=0)).tolist()}
    asked = ((registers != 0).astype(float) @ (head.W_Q != 0)).any(axis=0)  # the entries of keys that registers ask for
    parts = head.W_K[:, asked], head.W_Q, head.W_V
    keys, queries, values = (set(np.flatnonzero(W.any(axis=1)).tolist()) for W in parts)
    if keys & (fed | moved | written) or (queries | values) & written:
        return False
    held = np.concatenate([registers, embed.C])
    hold(4 * len(registers) * len(held))
    silent = ~((held != 0).astype(float) @ (head.W_V != 0)).any(axis=1)  # where every product is 0
    silent[len(registers) :] &= not values & (fed | moved)
    scores = head.beta * (registers @ head.W_Q) @ (held @ head.W_K).T  # (registers, keys)
    before = np.tril(np.ones((len(registers), len(held)), dtype=bool)) & silent
    best = np.where(before, scores, -np.inf).max(axis=1)
    others = np.where(silent, -np.inf, scores).max(axis=1)
    size = head.beta * float(((np.abs(registers) @ np.abs(head.W_Q)) @ (np.abs(held) @ np.abs(head.W_K)).T).max())
    products = 2 * held.shape[1] + head.W_Q.shape[1] + 4  # that a score goes through at most
    rounds = 2.0 ** (3 - FORMATS[network.dtype].bits) * products * size
    return bool((best > others + BELOW + rounds).all())
