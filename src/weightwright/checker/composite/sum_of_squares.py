"""The lemma for a number f times a function g of V, where V = e + c f^2 + (what is at least 0), c > 0.

Then f^2 <= (V - e) / c. So |f g(V + d) - f g(V)| <= |d| sup sqrt((V - e) / c) |g'|, and |f g(V)| <= sup
sqrt((V - e) / c) |g(V)|: f is small where g is steep. This is what keeps a layer norm with a small eps provable.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from flint import arb

from weightwright.checker.core.complaints import require
from weightwright.enclosures.balls.midrad import CLOSE, SPARE
from weightwright.enclosures.balls.series import series
from weightwright.expressions import Expression

#: V is looked at in HALVINGS pieces that halve towards its lower end, each cut into PIECES.
HALVINGS, PIECES = 64, 8


@dataclass(frozen=True)
class SumOfSquares:
    """g, e and c."""

    g: Expression
    e: float
    c: float

    def error_factor(self, V: tuple[float, float], away: float) -> float:
        """sup over V of sqrt((V - e) / c) times the steepest slope of g within `away` of V."""
        return _largest(self._root(hi) * _steep(self.g, lo, hi, away) for lo, hi in _pieces(*V))

    def largest(self, V: tuple[float, float]) -> float:
        """sup over V of sqrt((V - e) / c) |g(V)|."""
        return _largest(self._root(hi) * abs(series(self.g, arb(lo).union(arb(hi)), 0)[0]) for lo, hi in _pieces(*V))

    def _root(self, V: float) -> arb:
        return ((arb(V) - arb(self.e)) / arb(self.c)).max(arb(0)).sqrt()


def steepest(g: Expression, lo: float, hi: float, away: float) -> float:
    """The steepest slope of g within `away` of [lo, hi]."""
    return _largest(_steep(g, a, b, away) for a, b in _pieces(lo, hi))


def _steep(g: Expression, lo: float, hi: float, away: float) -> arb:
    room = arb(SPARE * away)
    return abs(series(g, (arb(lo) - room).union(arb(hi) + room), 1)[1])


def _largest(numbers: Iterator[arb]) -> float:
    most = 0.0
    for number in numbers:
        require(number.is_finite(), "the lemma about sums of squares: a function is not bounded")
        most = max(most, float(number.upper()))
    return math.nextafter(most * CLOSE, math.inf)


def _pieces(lo: float, hi: float) -> Iterator[tuple[float, float]]:
    """Intervals that cover [lo, hi]."""
    width = hi - lo
    edges = [lo, *(lo + width * 2.0 ** (k / PIECES - HALVINGS) for k in range(HALVINGS * PIECES)), hi]
    last = lo
    for edge in edges[1:]:
        if edge > last:
            yield last, min(edge, hi)
            last = min(edge, hi)
    if not lo < last:  # a single point, or no number: never nothing at all
        yield lo, hi
