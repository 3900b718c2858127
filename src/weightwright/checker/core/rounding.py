"""The checker's rounding model for one head, in kernels "dot" and "anchor"; docs/certificates.md, "Rounding"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright import numbers
from weightwright.checker.core.machine import Machine
from weightwright.claims.certificate import LARGEST_KEY
from weightwright.enclosures.balls.series import largest

UNIT = {name: arb(unit) for name, unit in numbers.UNIT.items()}
SMALLEST = {name: arb(smallest) for name, smallest in numbers.SMALLEST.items()}
#: What products with queries below the normal range lose: keys are at most LARGEST_KEY, and each product, offset and
#: sum loses one smallest number more.
LOST_SCORE = {name: 2 * arb(LARGEST_KEY) * smallest for name, smallest in SMALLEST.items()}
SMALL = arb(1) / 4
SHARED = arb(3) / 5
#: Where the logarithm of a weight may be off by more, bounds to first order may say little.
UNSURE = arb(1) / 64


@dataclass(frozen=True)
class StoredHead:
    """Scores slopes_j s + offsets_j (beta multiplied in), values values_j + tilts_j s, exactly as the file has them."""

    slopes: list[arb]
    offsets: list[arb]
    values: list[arb]
    tilts: list[arb]  # not 0 for a key whose value is taken from the input
    copied: bool  # whether such a value does not round: the input times a power of two
    own: tuple[arb, arb]  # such a value is own[0] x + own[1]
    hidden: arb | None  # score of the keys that must not be seen; None if a head sees no others
    weight: arb
    dtype: str
    window: int | None = None  # M: the keys are the 2 M + 1 of a window, in order
    off: list[arb] | None = None  # what each score is off by, where keys and values are computed; values round once

    def heaviest(self, s: arb) -> int:
        """The index of a key whose weight at s is among the largest."""
        scores = [k * s + c for k, c in zip(self.slopes, self.offsets, strict=True)]
        return max(range(len(scores)), key=lambda j: float(scores[j].mid()))


def rounding(head: StoredHead, m: arb, r: arb, centre: arb, away: arb) -> arb:
    """For every s in m +- r; away bounds |output - centre| there. Scores, shift, exponential; sums and products."""
    around, one, top = arb(0, r), arb(1), head.heaviest(m)
    box, slope, offset = m + around, head.slopes[top], head.offsets[top]
    heights = [(k - slope) * m + (c - offset) for k, c in zip(head.slopes, head.offsets, strict=True)]
    weights = [h.exp() for h in heights]
    total = sum(weights, arb(0))
    mean_slope = sum([w * k for w, k in zip(weights, head.slopes, strict=True)], arb(0)) / total
    # log p_j is concave in s, so it stays below its tangent at the middle
    p = [(h + (k - mean_slope) * around).exp() / total for h, k in zip(heights, head.slopes, strict=True)]
    p = [x.upper().min(one) for x in p]
    errors = _log_weight_errors(head, box, r)
    values = [v + tilt * box for v, tilt in zip(head.values, head.tilts, strict=True)]
    shifts = [(abs(v - centre) + away).upper() for v in values]
    sizes = [v.abs_upper() for v in values]
    output = abs(centre) + away
    return moved_by(head, p, errors, shifts, sizes, output, top)


def moved_by(
    head: StoredHead, p: list[arb], errors: list[arb], shifts: list[arb], sizes: list[arb], output: arb, top: int
) -> arb:
    """What the output moves by if the logarithms of the weights, at most p, are off by at most these errors.

    shifts bound |v_j - output|, sizes |v_j|; top is a key of large weight.
    """
    found = coarse(head, errors, sizes)
    for choice in (errors, _relative_to(top, errors)):
        found = _smaller(_fine(head, p, choice, shifts, sizes, output), found)
    if largest(errors) > UNSURE:
        found = _smaller(_by_balance(head, p, errors, shifts, sizes), found)
    return found


def _log_weight_errors(head: StoredHead, box: arb, r: arb) -> list[arb]:
    if head.window is not None:
        return _window_errors(head.window, head.dtype)
    u, lost = UNIT[head.dtype], LOST_SCORE[head.dtype]
    product, exponential = u * (1 + u), exp_error(head.dtype)
    moved = [k * box for k in head.slopes]
    score_errors = head.off or [
        product * x.abs_upper() + u * (x + c).abs_upper() + lost for x, c in zip(moved, head.offsets, strict=True)
    ]
    worst = 2 * largest(score_errors)
    return [
        (d + product * (gap + worst) + exponential).upper()
        for d, gap in zip(score_errors, _largest_gaps(head, box, r), strict=True)
    ]


def log_error(operation: str, dtype: str, kernel: str) -> arb:
    """What the logarithm of a result is off by: -ln(1 - units u)."""
    return -(1 - Machine(dtype, kernel).row(operation).units * UNIT[dtype]).log()


def exp_error(dtype: str) -> arb:
    """The same for an exponential in kernel "dot"."""
    return log_error("exp", dtype, "dot")


def _window_errors(M: int, dtype: str) -> list[arb]:
    """e_m z^m by products: z and e_m are exponentials, z^-1 a division; the nearest anchor weighs 1 exactly."""
    exponential, division, product = (log_error(name, dtype, "anchor") for name in ("exp", "division", "product"))
    powers = [abs(m) * (exponential + division + product) for m in range(-M, M + 1)]
    return [arb(0) if j == M else (power + exponential + product).upper() for j, power in enumerate(powers)]


def _relative_to(top: int, errors: list[arb]) -> list[arb]:
    """An error that all logarithms share changes nothing: the top one's is taken off. What underflows is scaled by it
    too, which the model allows for up to a factor of 2."""
    if not errors[top] <= SHARED:
        return [arb.nan()] * len(errors)
    return [arb(0) if j == top else e + errors[top] for j, e in enumerate(errors)]


def _smaller(a: arb, b: arb) -> arb:
    """The smaller of two upper bounds, of which either may be NaN."""
    return b if not a.is_finite() or b < a else a


def _fine(head: StoredHead, p: list[arb], errors: list[arb], shifts: list[arb], sizes: list[arb], output: arb) -> arb:
    """Every term to first order; NaN unless the weights together are off by little."""
    u, tiny = UNIT[head.dtype], SMALLEST[head.dtype]
    growth = [e.expm1().upper() for e in errors]
    lost = 4 * len(p) * tiny
    grown = [x * g for x, g in zip(p, growth, strict=True)]
    mass = sum(grown, arb(0)) + lost
    moved = sum([x * d for x, d in zip(grown, shifts, strict=True)], arb(0))
    moved = (moved + lost * largest(shifts)) / (1 - mass)
    if not mass < SMALL:
        return arb.nan()
    # what a computed weight is at most, its own roundings included
    one, others, more = arb(1), 1 - mass, 1 + 4 * u
    inflated = [x * (one + g) / others * more for x, g in zip(p, growth, strict=True)]
    products = [x * v for x, v in zip(inflated, sizes, strict=True)]
    weight_sum = any_order(inflated, u)
    if not weight_sum < SMALL:
        return arb.nan()
    # a product, the two roundings of normalising it or the units of one division, and a value that is computed
    machine = Machine(head.dtype, "dot" if head.window is None else "anchor")
    plain = machine.row("matrix product").units + machine.row("division").units
    counts = [plain + (head.off is not None or (tilt != 0 and not head.copied)) for tilt in head.tilts]
    each = sum([x * count for x, count in zip(products, counts, strict=True)], arb(0)) * u * more
    summed = (any_order(products, u) + each + (output + moved) * weight_sum) / (1 - weight_sum)
    return (moved + summed + underflow(len(p), largest(sizes), head.dtype)).upper()


def _by_balance(head: StoredHead, p: list[arb], errors: list[arb], shifts: list[arb], sizes: list[arb]) -> arb:
    """The least D (about) that no weights within the errors can move the output by: the weights, as far off as they
    may be, do not tip the balance of the values at D from the output. Keys that are quite unsure do little harm if
    their values are near the output."""
    # up for values beyond D, down for those on this side of it
    up, down = [e.expm1().upper() for e in errors], [(1 - (-e).exp()).upper() for e in errors]
    x, a, b, d = (np.array([float(number) for number in numbers]) for numbers in (p, up, down, shifts))
    with np.errstate(all="ignore"):
        D = float(largest(sizes)) * 2.0 ** (np.arange(-480, 9)[:, None] / 8)
        tips = x * np.maximum(a * np.maximum(d - D, 0.0), b * (d + D))  # (number of D, keys), in plain floats
        fits = np.flatnonzero(tips.sum(axis=1) <= D[:, 0] * (1 - 2.0**-20))
    if not len(fits):
        return arb.nan()
    moved = arb(float(D[fits[0], 0]))
    tipped = [
        share * (more * (away - moved).max(arb(0))).max(less * (away + moved))
        for share, more, less, away in zip(p, up, down, shifts, strict=True)
    ]
    if not sum(tipped, arb(0)) <= moved:
        return arb.nan()
    u, count, largest_value = UNIT[head.dtype], len(p), largest(sizes)
    roundings = (2 * count + 6) * u
    if not roundings < arb(0.5):
        return arb.nan()
    lost = underflow(count, largest_value, head.dtype) + 8 * count * SMALLEST[head.dtype] * largest_value
    return (moved + largest_value * roundings / (1 - roundings) + lost).upper()


def underflow(count: int, largest_value: arb, dtype: str) -> arb:
    """What weights, products and sums below the normal range can lose: at most SMALLEST each, values multiplied in."""
    return (4 * count + 10) * SMALLEST[dtype] * (1 + largest_value)


def coarse(head: StoredHead, errors: list[arb], sizes: list[arb]) -> arb:
    """Weights whose logarithms move by at most d move a mean by spread * tanh(d/2), whatever d."""
    u, count = UNIT[head.dtype], len(errors)
    roundings = (2 * count + 6) * u
    if not roundings < arb(0.5):
        return arb.nan()
    largest_value = largest(sizes)
    weights = (largest(errors) / 2).tanh() + 4 * count * SMALLEST[head.dtype]
    lost = underflow(count, largest_value, head.dtype)
    return (largest_value * (2 * weights + roundings / (1 - roundings)) + lost).upper()


def _largest_gaps(head: StoredHead, box: arb, r: arb) -> list[arb]:
    """max_i z_i - z_j over the box: convex in s, so largest at one of the ends."""
    gaps: list[arb] = []
    for end in (box.mid() - r, box.mid() + r):
        scores = [k * end + c for k, c in zip(head.slopes, head.offsets, strict=True)]
        top = largest(scores)
        here = [(top - z).upper() for z in scores]
        gaps = [a.max(b) for a, b in zip(gaps, here, strict=True)] if gaps else here
    return gaps


def any_order(sizes: list[arb], u: arb) -> arb:
    """Error of a sum in any order: the heavy terms join pairwise, light subtrees cost themselves."""
    ordered = sorted((x.upper() for x in sizes), key=float, reverse=True)
    slack = (1 + 4 * len(ordered) * u) ** 2
    light = [arb(0)]  # light[i]: the sum of the i smallest
    for size in reversed(ordered):
        light.append(light[-1] + size)
    costs = []
    partial, joins = ordered[0], arb(0)  # the heavy terms so far, and what joining them one by one costs
    for m in range(1, len(ordered) + 1):
        if m > 1:
            partial += ordered[m - 1]
            joins += partial
        rest = light[len(ordered) - m]
        costs.append((u * (joins + (m - 1) * rest) + rest).upper())
    return (min(costs, key=float) * slack).upper()
