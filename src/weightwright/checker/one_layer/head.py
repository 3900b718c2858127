"""The checker's rules for a sum of heads: approximation, leakage and rounding on one box of queries."""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb

from weightwright.checker.core.rounding import StoredHead, rounding
from weightwright.claims.certificate import MAX_TOKENS
from weightwright.enclosures.balls.series import ORDER, largest, series
from weightwright.expressions import Expression
from weightwright.limits import tick


@dataclass(frozen=True)
class Found:
    """Upper bounds on one box; a NaN says that nothing could be shown."""

    approximation: arb
    leakage: arb
    rounding: arb
    lipschitz: arb


def examine(heads: list[StoredHead], slope: arb, formula: Expression, lo: arb, hi: arb) -> Found:
    """Everything that can be shown about slope * s + sum of the heads on [lo, hi]."""
    m, r = middle_and_radius(lo, hi)
    box = m + arb(0, r)
    at_point, on_box = series(formula, m, ORDER), series(formula, box, ORDER)
    here = [-f for f in at_point]
    there = [-f for f in on_box]
    here[0], here[1] = here[0] + slope * m, here[1] + slope
    there[0], there[1] = there[0] + slope * box, there[1] + slope
    leaked, rounded = arb(0), arb(0)
    for head in heads:
        at, over = _quotient(head, m, arb(0)), _quotient(head, m, arb(0, r))
        here = [x + head.weight * y for x, y in zip(here, at, strict=True)]
        there = [x + head.weight * y for x, y in zip(there, over, strict=True)]
        leaked += abs(head.weight) * _leakage(head, box)
        rounded += abs(head.weight) * _rounding(head, m, r, at, over)
    return Found(_enclosure(here, there, r), leaked.upper(), rounded.upper(), on_box[1].abs_upper())


def rounding_alone(heads: list[StoredHead], lo: arb, hi: arb) -> arb:
    """What `examine` shows about rounding."""
    m, r = middle_and_radius(lo, hi)
    both = ((head, _quotient(head, m, arb(0)), _quotient(head, m, arb(0, r))) for head in heads)
    return sum((abs(head.weight) * _rounding(head, m, r, at, over) for head, at, over in both), arb(0)).upper()


def middle_and_radius(lo: arb, hi: arb) -> tuple[arb, arb]:
    m = ((lo + hi) / 2).mid()
    return m, (hi - m).max(m - lo).upper()


def _rounding(head: StoredHead, m: arb, r: arb, at: list[arb], over: list[arb]) -> arb:
    """at, over: coefficients of the head's output at m, and around every point of the box."""
    centre = at[0].mid() if at[0].is_finite() else arb(0)
    return rounding(head, m, r, centre, _enclosure([at[0] - centre, *at[1:]], [over[0] - centre, *over[1:]], r))


def _enclosure(here: list[arb], there: list[arb], r: arb) -> arb:
    """Taylor's theorem for a function with coefficients `here` at the middle and `there` over the ball.

    Tried at full order, at order 1 (all that a kink leaves) and at order 0 (where the slope is infinite).
    """
    smallest = arb.pos_inf()
    for order in (ORDER, 1, 0):
        total = sum((abs(here[i]) * r**i for i in range(order)), arb(0)) + abs(there[order]) * r**order
        if total.is_finite():
            smallest = smallest.min(total.upper())
    return smallest


def _quotient(head: StoredHead, m: arb, ball: arb) -> list[arb]:
    """Coefficients of (sum w_j v_j e^{k_j t}) / (sum w_j e^{k_j t}) around every point of m + ball.

    Weights are relative to the heaviest key's, and values to about the head's output, so that little cancels.
    """
    top = head.heaviest(m)
    slope, offset, box = head.slopes[top], head.offsets[top], m + ball
    steps = [k - slope for k in head.slopes]
    terms = [(step * m + (c - offset) + step * ball).exp() for step, c in zip(steps, head.offsets, strict=True)]
    centre = (head.values[top] + head.tilts[top] * m).mid()
    deviations = [v + tilt * box - centre for v, tilt in zip(head.values, head.tilts, strict=True)]
    tilted = any(tilt != 0 for tilt in head.tilts)
    numerator: list[arb] = []
    denominator: list[arb] = []
    before: list[arb] = []
    for i in range(ORDER + 1):
        tick()  # an order goes through all keys
        denominator.append(sum(terms, arb(0)))
        numerator.append(sum([t * d for t, d in zip(terms, deviations, strict=True)], arb(0)))
        if i and tilted:
            numerator[i] += sum([t * tilt for t, tilt in zip(before, head.tilts, strict=True)], arb(0))
        count = arb(i + 1)
        before, terms = terms, [t * step / count for t, step in zip(terms, steps, strict=True)]
    quotient: list[arb] = []
    for i in range(ORDER + 1):
        known = sum([q * d for q, d in zip(quotient, denominator[i:0:-1], strict=True)], arb(0))
        quotient.append((numerator[i] - known) / denominator[0])
    quotient[0] += centre
    return quotient


def _leakage(head: StoredHead, box: arb) -> arb:
    """MAX_TOKENS hidden tokens, and as many registers, of value 0 beside a visible key: the one that stays highest."""
    if head.hidden is None:
        return arb(0)
    highest = max(((k * box + c).lower() for k, c in zip(head.slopes, head.offsets, strict=True)), key=float)
    largest_value = largest(abs(v + tilt * box) for v, tilt in zip(head.values, head.tilts, strict=True))
    return leakage(head.hidden, highest, largest_value)


def leakage(hidden: arb, highest: arb, largest_value: arb) -> arb:
    """What hidden keys of value 0 add, beside a visible one of at least the highest score."""
    return (2 * MAX_TOKENS * (hidden - highest).exp() * largest_value).upper()
