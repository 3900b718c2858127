"""The checker's rule for a part: heads that read one coordinate of a token and compute a function of it.

Read off the stored network as the heads of a network of one layer, so that the rules for one layer apply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from weightwright.checker.composite.adding import Writes
from weightwright.checker.composite.stream import exact_numbers
from weightwright.checker.core.complaints import must, parse_or_refuse, require
from weightwright.checker.core.rounding import UNIT, StoredHead, underflow
from weightwright.checker.one_layer.layer import Hole, Target, covers, layer_holds
from weightwright.checker.one_layer.stored import OneLayer
from weightwright.claims.certificate import LARGEST_KEY, local_formula
from weightwright.claims.target import TableClaim
from weightwright.enclosures.balls.midrad import above, gamma
from weightwright.expressions import to_text
from weightwright.limits import hold, tick
from weightwright.network import Attention, Head
from weightwright.numbers import Floats

#: What a key takes in memory: slope, offset and value as balls, and the numbers that they are read from.
_BYTES_OF_A_KEY = 4 * 64


@dataclass(frozen=True)
class TablePlace:
    """Where a part stands: the coordinate that its heads read, and those that they write."""

    source: int
    writes: Writes
    stored: OneLayer

    def largest_output(self) -> float:
        """What the weighted values of all heads come to at most, as computed: each head's is a mean, and rounds."""
        total = arb(0)
        for head in self.stored.heads:
            count, value = len(head.values), self.stored.largest_value(head, 0.0)
            u = float(UNIT[head.dtype])
            few = float(gamma(2 * count + 8, u))
            # where that says nothing: a computed sum of weights is no less than the largest, so no weight exceeds 1
            factor = 1 + few if math.isfinite(few) else count * (1 + u) ** (count + 8)
            total += abs(head.weight) * (value * factor + underflow(count, value, head.dtype))
        return math.nextafter(float(total.upper()), math.inf)


def read_part(layer: Attention, part: TableClaim, tokens: Floats, registers: Floats, dtype: str) -> TablePlace:
    """tokens, registers: the numbers that are known and computed exactly, NaN elsewhere; (tokens, coordinates)."""
    require(len(part.heads) > 0 and len(set(part.heads)) == len(part.heads), f"a part of the heads {part.heads}")
    heads = [layer.heads[index] for index in part.heads]
    for head in heads:  # a column -1 would be the last one once more
        must(0 <= part.column < head.W_V.shape[1], f"a head has no column {part.column}")
    queries = {_query(head, tokens) for head in heads}
    must(len(queries) == 1, "the heads of a part must share one query")
    source, scale, shift = queries.pop()
    must(part.slope == 0 or shift == 0, "a part may add s itself only where the query is not shifted")
    centre = -shift / scale if shift else 0.0
    must(Fraction(centre) * Fraction(scale) == -Fraction(shift), f"{shift!r} / {scale!r} is no float")
    writes = _writes(heads, part)
    weights = [1.0 if part.spread else float(head.W_O[part.column, writes.targets[0]]) for head in heads]
    stored = [
        _head(head, part.column, weight, tokens, registers, dtype) for head, weight in zip(heads, weights, strict=True)
    ]
    layer_of_part = OneLayer(stored, [head.beta for head in heads], centre, scale, 0.0, part.slope)
    return TablePlace(source, writes, layer_of_part)


def _query(head: Head, tokens: Floats) -> tuple[int, float, float]:
    """(coordinate, scale, shift): the query is (scale * coordinate + shift, 1)."""
    must(_power_of_two(head.beta), f"beta = {head.beta!r} must be a power of two")
    must(head.window is None and head.mask is None, "a part has no window and no mask")
    must(head.sees.data in ("none", "all"), f"a part sees {head.sees.data!r}")
    # a third entry that is 0 on data tokens is for registers only: it keeps a plain Transformer from writing to them
    must(head.W_Q.shape[1] in (2, 3), "the query of a part must be (s, 1)")
    for_registers = np.flatnonzero(head.W_Q[:, 2:].any(axis=1))
    must(bool((tokens[:, for_registers] == 0).all()), "the third entry of a part's query must be 0")
    one = np.flatnonzero(head.W_Q[:, 1])
    must(len(one) == 1 and head.W_Q[one[0], 1] == 1, "the query of a part must be (s, 1)")
    must(bool((tokens[:, one[0]] == 1).all()), "the query of a part must be (s, 1), and the 1 is no constant")
    sources = [int(c) for c in np.flatnonzero(head.W_Q[:, 0]) if c != one[0]]
    must(len(sources) == 1, "the query of a part must read one coordinate")
    scale, shift = float(head.W_Q[sources[0], 0]), float(head.W_Q[one[0], 0])
    must(_power_of_two(scale) and scale > 0, f"the query multiplies by {scale!r}, which is no power of two")
    return sources[0], scale, shift


def _writes(heads: list[Head], part: TableClaim) -> Writes:
    """Where the result goes. Not spread: to one coordinate, and the heads' weights are part of what they compute."""
    if not part.spread:
        targets = {_target(head, part.column) for head in heads}
        must(len(targets) == 1, "the heads of a part must write to one coordinate")
        return Writes.to(targets.pop())
    rows = [head.W_O[part.column] for head in heads]
    must(all(bool((row == rows[0]).all()) for row in rows), "the heads of a part that is spread share their weights")
    used = np.flatnonzero(rows[0])
    must(len(used) > 0, "nobody reads a part")
    return Writes(used, rows[0][used])


def _target(head: Head, column: int) -> int:
    """The one coordinate that a column of the values is written to, by no other column."""
    written = np.flatnonzero(head.W_O[column])
    must(len(written) == 1, "a column of a part must write to one coordinate")
    must(np.count_nonzero(head.W_O[:, written[0]]) == 1, "two columns of a part write to one coordinate")
    return int(written[0])


def _head(head: Head, column: int, weight: float, tokens: Floats, registers: Floats, dtype: str) -> StoredHead:
    """Keys and values are numbers; those that are not seen are hidden by their score, or not computed at all."""
    start, stop = head.sees.registers
    hold(len(registers) + len(tokens), each=_BYTES_OF_A_KEY)
    seen = np.zeros(len(registers) + len(tokens), dtype=bool)
    seen[start:stop] = True
    seen[len(registers) :] = head.sees.data == "all"
    held = np.concatenate([registers, tokens])  # registers stand before the data
    keys, offsets, values = (
        exact_numbers(held, W[:, None], dtype)[:, 0] for W in (head.W_K[:, 0], head.W_K[:, 1], head.W_V[:, column])
    )
    known = np.isfinite(keys) & np.isfinite(offsets) & np.isfinite(values)
    must(bool(known[seen].all()) and bool(seen.any()), "a key or a value of a part is no exact number")
    must(bool((np.abs(keys[seen]) <= LARGEST_KEY).all()), "a key is too large")
    away = known & ~seen & (keys == 0) & (values == 0)
    beta, hideable = arb(head.beta), bool((away | seen).all()) and not seen.all()
    zeros = [arb(0)] * int(seen.sum())
    return StoredHead(
        [beta * k for k in keys[seen].tolist()],
        [beta * c for c in offsets[seen].tolist()],
        [arb(v) for v in values[seen].tolist()],
        zeros,
        False,
        (arb(0), arb(0)),
        beta * float(offsets[away].max()) if hideable else None,
        arb(weight),
        dtype,
    )


def hides_others(stored: OneLayer, keys: int) -> bool:
    """Whether the heads see all keys there are, or hide the others by their scores."""
    return all(head.hidden is not None or len(head.slopes) == keys for head in stored.heads)


def _power_of_two(x: float) -> bool:
    return math.isfinite(x) and abs(math.frexp(x)[0]) == 0.5


def part_holds(
    place: TablePlace, part: TableClaim, profile: str, lo: float, hi: float, off: float, dtype: str, examined: bool
) -> None:
    """What the heads compute is profile(s) - mean within the claim's terms, for s computed between lo and hi.

    off: how far a computed s is at most from the s that zones are about. examined: the same heads with the same claim
    and the same zones were, and only the range of s is new.
    """
    claim, stored = part.claim, place.stored
    formula = local_formula(parse_or_refuse(profile, ("x",), "a profile"), stored.centre, stored.scale, part.mean)
    require(
        claim.formula == to_text(formula),
        f"a part must compute {to_text(formula)!r}, but the claim is {claim.formula!r}",
    )
    holes = [hole for zone in part.zones.tolist() for hole in _hole(zone, off, stored, dtype)]
    covers(claim, stored, lo, hi, holes, dtype)
    if examined:
        return
    layer_holds(stored, claim, [Target(parse_or_refuse(claim.formula, ("s",), "a part's formula"))], True, holes)


def _hole(zone: list[float], off: float, stored: OneLayer, dtype: str) -> list[Hole]:
    """The queries that only an s inside the zone can lead to, if s may be off by `off`."""
    start, end = zone
    require(math.isfinite(start) and math.isfinite(end) and start < end, f"the dead zone {zone!r} is no interval")
    slip, least = 4 * Fraction(float(UNIT[dtype])), Fraction(stored.query_lost)
    first, last = (
        (Fraction(x) + side * Fraction(off) - Fraction(stored.centre)) * Fraction(stored.scale)
        for x, side in ((start, 1), (end, -1))
    )
    first, last = first + slip * abs(first) + least, last - slip * abs(last) - least
    return [(first, last)] if first < last else []


def query_slip(place: TablePlace, part: TableClaim, dtype: str) -> float:
    """What rounding the query can move the result by."""
    stored, claim = place.stored, part.claim
    if stored.exact_query:
        return 0.0
    largest = max(abs(claim.lo), abs(claim.hi))
    query = (UNIT[dtype] * largest if stored.centre else arb(0)) + arb(stored.query_lost)
    moves = arb(claim.lipschitz) + abs(arb(part.slope) / arb(stored.scale))
    return float(above(np.array(float((moves * query).upper())), 1))


def every_column_once(layer: Attention, parts: list[TableClaim], gates: list[int]) -> None:
    """No head is claimed twice, and no column of a part's head is left out."""
    claimed: set[tuple[int, int]] = set()
    for part in parts:
        tick()
        own = {(head, part.column) for head in part.heads}
        require(len(own) == len(part.heads) and not own & claimed, "two parts claim the same head")
        claimed |= own
    require(len(set(gates)) == len(gates) and not set(gates) & {head for head, _ in claimed}, "a head is claimed twice")
    for index in {head for head, _ in claimed}:
        for column in np.flatnonzero(layer.heads[index].W_O.any(axis=1)).tolist():
            require((index, column) in claimed, f"no claim covers column {column} of head {index}")
