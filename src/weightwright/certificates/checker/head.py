"""The checker's rules for one head: approximation, leakage and rounding on one box of queries."""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb

from weightwright.certificates.checker.balls import ORDER, largest, series
from weightwright.certificates.claims import EXP_ULPS, MAX_TOKENS
from weightwright.expressions import Expression

UNIT = {"float64": arb(2) ** -53, "float32": arb(2) ** -24, "bfloat16": arb(2) ** -8}
SMALLEST = {"float64": arb(2) ** -1022, "float32": arb(2) ** -126, "bfloat16": arb(2) ** -126}
NEGLIGIBLE = arb(2) ** -13


@dataclass(frozen=True)
class StoredHead:
    """Scores slopes_j s + offsets_j (beta multiplied in) and values, exactly as the file has them."""

    slopes: list[arb]
    offsets: list[arb]
    values: list[arb]
    hidden: arb  # score of the keys that must not be seen
    dtype: str


@dataclass(frozen=True)
class Found:
    """Upper bounds on one box; a NaN says that nothing could be shown."""

    approximation: arb
    leakage: arb
    rounding: arb
    lipschitz: arb


def examine(head: StoredHead, formula: Expression, lo: arb, hi: arb) -> Found:
    """Everything that can be shown about the head on [lo, hi]."""
    m = ((lo + hi) / 2).mid()
    r = (hi - m).max(m - lo).upper()
    box = m + arb(0, r)
    scores = [k * m + c for k, c in zip(head.slopes, head.offsets, strict=True)]
    top = max(range(len(scores)), key=lambda j: float(scores[j].mid()))
    at_point, on_box = series(formula, m, ORDER), series(formula, box, ORDER)
    centre = at_point[0].mid() if at_point[0].is_finite() else arb(0)
    at_point[0], on_box[0] = at_point[0] - centre, on_box[0] - centre
    steps = [k - head.slopes[top] for k in head.slopes]
    heights = [z - scores[top] for z in scores]
    deviations = [v - centre for v in head.values]
    weights = [h.exp() for h in heights]
    approximation = _distance(weights, heights, steps, deviations, at_point, on_box, r)
    away = on_box[0].abs_upper() + approximation  # |output - centre|
    return Found(
        approximation,
        leakage(head, scores[top] - abs(head.slopes[top]) * r),
        _rounding(head, box, r, scores, weights, deviations, centre, away),
        on_box[1].abs_upper(),
    )


def _distance(
    weights: list[arb],
    heights: list[arb],
    steps: list[arb],
    deviations: list[arb],
    at_point: list[arb],
    on_box: list[arb],
    r: arb,
) -> arb:
    """Taylor's theorem for q = N/D - F, the coefficients of q by dividing power series.

    Tried at full order, at order 1 (all that a kink leaves) and at order 0 (where the slope is infinite).
    """
    spread = [(h + step * arb(0, r)).exp() for h, step in zip(heights, steps, strict=True)]
    here = _quotient(weights, steps, deviations, at_point)
    there = _quotient(spread, steps, deviations, on_box)
    smallest = arb.pos_inf()
    for order in (ORDER, 1, 0):
        total = sum((abs(here[i]) * r**i for i in range(order)), arb(0)) + abs(there[order]) * r**order
        if total.is_finite():
            smallest = smallest.min(total.upper())
    return smallest


def _quotient(weights: list[arb], steps: list[arb], deviations: list[arb], formula: list[arb]) -> list[arb]:
    """Coefficients of (sum w_j d_j e^{step_j t}) / (sum w_j e^{step_j t}) - formula."""
    numerator: list[arb] = []
    denominator: list[arb] = []
    terms = weights
    for i in range(ORDER + 1):
        denominator.append(sum(terms, arb(0)))
        numerator.append(sum((t * d for t, d in zip(terms, deviations, strict=True)), arb(0)))
        terms = [t * step / (i + 1) for t, step in zip(terms, steps, strict=True)]
    quotient: list[arb] = []
    for i in range(ORDER + 1):
        known = sum((quotient[j] * denominator[i - j] for j in range(i)), arb(0))
        quotient.append((numerator[i] - known) / denominator[0])
    return [q - f for q, f in zip(quotient, formula, strict=True)]


def leakage(head: StoredHead, highest_score: arb) -> arb:
    """MAX_TOKENS hidden keys of value 0 beside a visible key of at least this score."""
    largest_value = largest(abs(v) for v in head.values)
    return (MAX_TOKENS * (head.hidden - highest_score).exp() * largest_value).upper()


def _rounding(
    head: StoredHead,
    box: arb,
    r: arb,
    scores: list[arb],
    weights: list[arb],
    deviations: list[arb],
    centre: arb,
    away: arb,
) -> arb:
    """docs/certificates.md, "Rounding": scores, shift, exponential; then sums and products."""
    u, tiny = UNIT[head.dtype], SMALLEST[head.dtype]
    total = sum(weights, arb(0))
    mean_slope = sum((w * k for w, k in zip(weights, head.slopes, strict=True)), arb(0)) / total
    # log p_j is concave in s, so it stays below its tangent at the middle
    p = [w / total * ((k - mean_slope) * arb(0, r)).exp() for w, k in zip(weights, head.slopes, strict=True)]
    p = [x.upper() for x in p]
    on_box = [k * box + c for k, c in zip(head.slopes, head.offsets, strict=True)]
    score_errors = [
        u * (1 + u) * (k * box).abs_upper() + u * z.abs_upper() + tiny for k, z in zip(head.slopes, on_box, strict=True)
    ]
    worst = largest(score_errors)
    gaps = _largest_gaps(head, box, r)
    errors = [
        d + u * (1 + u) * (gap + 2 * worst) - (1 - 2 * EXP_ULPS[head.dtype] * u).log()
        for d, gap in zip(score_errors, gaps, strict=True)
    ]
    shifts = [abs(d) + away for d in deviations]
    output = abs(centre) + away
    return moved_by(head, p, errors, shifts, output)


def moved_by(head: StoredHead, p: list[arb], errors: list[arb], shifts: list[arb], output: arb) -> arb:
    """What the output moves by if the logarithms of the weights, at most p, are off by at most these errors."""
    return _smaller(_fine(head, p, errors, shifts, output), coarse(head, errors))


def _smaller(a: arb, b: arb) -> arb:
    """The smaller of two upper bounds, of which one may be NaN."""
    return b if not a.is_finite() or b < a else a


def _fine(head: StoredHead, p: list[arb], errors: list[arb], shifts: list[arb], output: arb) -> arb:
    """Every term to first order; NaN unless the weights are off by less than a thousandth."""
    u, tiny = UNIT[head.dtype], SMALLEST[head.dtype]
    growth = [e.expm1().upper() for e in errors]
    lost = 2 * len(p) * tiny
    mass = sum((x * g for x, g in zip(p, growth, strict=True)), arb(0)) + lost
    moved = sum((x * g * d for x, g, d in zip(p, growth, shifts, strict=True)), arb(0))
    moved = (moved + lost * largest(shifts)) / (1 - mass)
    inflated = [x * arb(1.001) for x in p]
    products = [x * abs(v) for x, v in zip(inflated, head.values, strict=True)]
    weight_sum = _any_order(inflated, u)
    if not (mass < NEGLIGIBLE and largest(growth) < NEGLIGIBLE and weight_sum < NEGLIGIBLE):
        return arb.nan()  # then 1.001 p_j would not bound the computed weights
    each = 3 * u * sum(products, arb(0)) + underflow(head)
    return (moved + _any_order(products, u) + each + (output + moved) * weight_sum * arb(1.001)).upper()


def underflow(head: StoredHead) -> arb:
    """What weights, products and sums below the normal range can lose: at most SMALLEST each, values multiplied in."""
    largest_value = largest(abs(v) for v in head.values)
    return (4 * len(head.values) + 8) * SMALLEST[head.dtype] * (1 + largest_value)


def coarse(head: StoredHead, errors: list[arb]) -> arb:
    """Weights whose logarithms move by at most d move a mean by spread * tanh(d/2), whatever d."""
    u, count = UNIT[head.dtype], len(errors)
    roundings = (2 * count + 4) * u
    if not roundings < arb(0.5):
        return arb.nan()
    largest_value = largest(abs(v) for v in head.values)
    weights = (largest(errors) / 2).tanh() + 4 * count * SMALLEST[head.dtype]
    return (largest_value * (2 * weights + roundings / (1 - roundings)) + underflow(head)).upper()


def _largest_gaps(head: StoredHead, box: arb, r: arb) -> list[arb]:
    """max_i z_i - z_j over the box: convex in s, so largest at one of the ends."""
    gaps: list[arb] = []
    for end in (box.mid() - r, box.mid() + r):
        scores = [k * end + c for k, c in zip(head.slopes, head.offsets, strict=True)]
        top = largest(scores)
        here = [(top - z).upper() for z in scores]
        gaps = [a.max(b) for a, b in zip(gaps, here, strict=True)] if gaps else here
    return gaps


def _any_order(sizes: list[arb], u: arb) -> arb:
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
