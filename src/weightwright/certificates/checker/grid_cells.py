"""How far a formula is from stored numbers on the cells of a grid, in balls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from flint import arb

from weightwright.certificates.checker.balls import largest, series_along
from weightwright.certificates.checker.complaints import require, short
from weightwright.expressions import Expression

#: A cell is halved at most so many times along each number, where the enclosure of its whole is too wide.
HALVINGS = 6

Box = list[tuple[arb, arb]]  # middle and radius along each number


def cells(g: int, B: arb, radius: arb, N: int) -> Iterator[Box]:
    """The boxes of this radius around all grid points, row by row."""
    along = [(B * (arb(2 * k + 1) / g - 1), radius) for k in range(g)]
    yield from (list(box) for box in product(along, repeat=N))


def stays_near(f: Expression, names: Sequence[str], box: Box, values: Sequence[float], limit: float, what: str) -> None:
    """|f(x) - value| <= limit for every x in the box and each of the values; else a refusal."""
    boxes = [(box, 0)]
    while boxes:
        part, halvings = boxes.pop()
        found = _farthest(f, names, part, values, limit)
        if found <= limit:
            continue
        require(halvings < HALVINGS * len(names), f"{what}: {short(found)} could be shown, {limit:.6g} is claimed")
        axis = halvings % len(names)
        middle, radius = part[axis]
        for sign in (-1, 1):
            half = list(part)
            half[axis] = (middle + sign * radius / 2, radius / 2)
            boxes.append((half, halvings + 1))


def _farthest(f: Expression, names: Sequence[str], box: Box, values: Sequence[float], limit: float) -> arb:
    """By the range of f over the box; where that is too wide, by the mean value theorem: f at the middle, and the slope
    along every step that stays in the box. A NaN says that nothing is known."""
    balls = [middle + arb(0, radius.upper()) for middle, radius in box]
    still = arb(0)
    whole = series_along(f, {name: (ball, still) for name, ball in zip(names, balls, strict=True)}, 0)[0]
    found = largest(abs(whole - value) for value in values)
    if found <= limit:
        return found
    at = series_along(f, {name: (middle, still) for name, (middle, _) in zip(names, box, strict=True)}, 0)[0]
    steps = {name: (ball, arb(0, radius.upper())) for name, ball, (_, radius) in zip(names, balls, box, strict=True)}
    slope = abs(series_along(f, steps, 1)[1])
    nearer = largest(abs(at - value) + slope for value in values)
    return nearer if not found.is_finite() or nearer < found else found
