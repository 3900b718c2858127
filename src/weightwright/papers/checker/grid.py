"""The checker's rule for networks that look values up on a grid; docs/certificates.md, "Grids".

How far a formula is from stored numbers on the cells of a grid, in balls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from flint import arb

from weightwright.checker.core.complaints import LARGEST, parse_or_refuse, require, short
from weightwright.checker.core.rounding import SMALLEST, UNIT, StoredHead, coarse, exp_error
from weightwright.checker.one_layer.nearest import examine_nearest
from weightwright.claims.certificate import Certificate, Leaf
from weightwright.claims.leaf import OPAQUE
from weightwright.enclosures.balls.series import largest, series_along
from weightwright.expressions import Expression
from weightwright.limits import count_boxes
from weightwright.network import Network
from weightwright.numbers import Floats
from weightwright.papers.checker.grid_network import StoredGrid, read_grid
from weightwright.papers.claims.cell_grid import GridClaim

#: Most halvings of a cell along each number, where the enclosure of its whole is too wide.
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
        count_boxes(1)
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


RAMP = "clip(s, 0, 1)"
LARGEST_NORM = 2.0**20
#: Most numbers in an input: no file holds more than one cell along each of them.
MOST_NUMBERS = 64


def agree_grid(network: Network, certificate: Certificate, claim: GridClaim) -> None:
    """Refuse (CertificateError) unless every number of the claim is at least what can be shown."""
    _well_formed(certificate, claim)
    stored = read_grid(network, claim)
    size = abs(arb(stored.slope)) * claim.B + largest(abs(arb(x)) for x in stored.shifts.ravel().tolist())
    ramp = _ramp_error(stored, claim, size)
    if claim.kind == "bumps":
        leakage, rounding = arb(0), _bump_rounding(stored, claim, size, ramp)
    else:
        leakage, rounding = _pick_errors(stored, claim, size, ramp)
    for name, shown in (("leakage", leakage), ("rounding", rounding)):
        limit = getattr(claim, name)
        require(shown <= limit, f"{name}: {short(shown)} could be shown, {limit:.6g} is claimed")
    _cells(stored, claim)
    _norm(certificate, claim)
    said = claim.in_words()
    require(certificate.formula == said, f"the grid is about {said!r}, the certificate about {certificate.formula!r}")


def _well_formed(certificate: Certificate, claim: GridClaim) -> None:
    """Sizes, numbers and texts."""
    require(certificate.kernel == "dot", f"no rule for grids in kernel {certificate.kernel!r}")
    sizes = (claim.tokens, claim.features, claim.g, len(claim.formulas))
    require(all(type(size) is int and size >= 1 for size in sizes), f"a grid of sizes {sizes!r}")
    require(type(claim.norm) is float and 1 <= claim.norm < math.inf, f"norm = {claim.norm!r}")
    delta_is_fit = type(claim.delta) is float and 0 < claim.delta < 1
    require(delta_is_fit and type(claim.B) is float and 0 < claim.B < math.inf, "delta or B is out of range")
    numbers = (claim.leakage, claim.rounding, claim.exceptional, claim.accuracy)
    require(all(type(x) is float and 0 <= x < math.inf for x in numbers), f"numbers {numbers!r}")
    N = claim.tokens * claim.features
    require(N <= MOST_NUMBERS and claim.g <= claim.core.size, f"a grid of sizes {sizes!r}")
    for name, errors in (("core", claim.core), ("shell", claim.shell)):
        require(errors.shape == (len(claim.formulas), claim.g**N), f"{name} has shape {errors.shape}")
        require(bool((np.isfinite(errors) & (errors >= 0)).all()), f"{name} holds no finite number at or above zero")
    lo, hi = certificate.domain.lo, certificate.domain.hi
    shaped = lo.shape == hi.shape == (claim.tokens, claim.features)
    require(shaped and bool((lo == -claim.B).all() and (hi == claim.B).all()), "the domain is not that of the grid")
    require(set(claim.stated) <= set(certificate.assumptions), "the certificate hides an assumption")


def _ramp_error(stored: StoredGrid, claim: GridClaim, size: arb) -> arb:
    """|s computed - s meant| for every ramp and every real x of the domain: slope and shift as stored, the rounding of
    x, of the product and of the sum."""
    g, B, delta = claim.g, arb(claim.B), arb(claim.delta)
    u, tiny = UNIT["float64"], SMALLEST["float64"]
    require(size < LARGEST["float64"], "a ramp may overflow")
    off = arb(0)
    for index, shift in np.ndenumerate(stored.shifts):
        sign, lowered, k = (1 if index[0] == 0 else -1), (index[1] if len(index) == 3 else 0), index[-1]
        meant = (sign * (g - 2 * int(k) - 1) + 1) / delta - lowered
        off = off.max(abs(arb(float(shift)) - meant))
    return (abs(arb(stored.slope) - g / (B * delta)) * B + off + 4 * u * size * (1 + 8 * u) + 4 * tiny).upper()


def _gamma(additions: int) -> arb:
    """Relative error of a sum in any order, products of two numbers included."""
    u = UNIT["float64"]
    require(bool(additions * u < arb(0.01)), f"a sum of {additions} terms")
    return additions * u / (1 - additions * u)


def _bump_rounding(stored: StoredGrid, claim: GridClaim, size: arb, ramp: arb) -> arb:
    """sum_v f(v) relu(sum_i phi_i - N + 1): four ramps and -1 in phi, N of them and 1 - N in a bump, G terms."""
    N, tiny = claim.tokens * claim.features, SMALLEST["float64"]
    reach = size + ramp + 1
    phi = 4 * ramp + _gamma(5) * (4 * reach + 1) + 8 * tiny
    bump = N * phi + _gamma(N + 1) * (N * (1 + phi) + N) + (N + 2) * tiny
    total = sum((abs(arb(value)) for value in stored.values[0].tolist()), arb(0))
    count = stored.values.shape[1]
    require(total * (1 + bump) < LARGEST["float64"], "a sum may overflow")
    return (total * bump + _gamma(count + 1) * total * (1 + bump) + 2 * count * tiny).upper()


def _pick_errors(stored: StoredGrid, claim: GridClaim, size: arb, ramp: arb) -> tuple[arb, arb]:
    """(leakage, rounding): the weight on other cells times the spread of the values; the last softmax as computed.

    On the core of v the ramps of v add up to 2 N, those of any other cell to 2 N - 1 at most. Each is off by at most e.
    """
    require(claim.head is not None, "there is no claim about the bump heads")
    assert stored.head is not None
    assert claim.head is not None
    N, d, n, u = claim.tokens * claim.features, claim.features, claim.tokens, UNIT["float64"]
    e = _head_error(stored.head, stored.bump_beta, claim.head, size) + ramp
    bumps = 2 * N * e + _gamma(2 * d + n) * 2 * N * (1 + e) + (2 * d + n + 4) * SMALLEST["float64"]
    gap = 1 - 2 * bumps
    require(gap > 0, f"the errors of the bumps leave no gap: {short(gap)}")
    beta, count = arb(stored.beta), stored.values.shape[1]
    tail = (count - 1) * (-beta * gap).exp()
    leakage, rounding = arb(0), arb(0)
    highest = beta * (2 * N + bumps)
    require(highest < LARGEST["float64"], "a score may overflow")
    # a score is beta times a bump, exactly; its distance to the top one rounds, and so does its exponential
    error = u * (1 + u) * 2 * highest + exp_error("float64") + SMALLEST["float64"]
    for values in stored.values.tolist():
        held = [arb(value) for value in values]
        spread = largest(held) + largest(-value for value in held)
        leakage = leakage.max((tail / (1 + tail) * spread).upper())
        sizes = [abs(value) for value in held]
        require(largest(sizes) * count < LARGEST["float64"], "a sum may overflow")
        rounding = rounding.max(coarse(stored.head, [error] * count, sizes))
    return leakage, rounding


def _head_error(head: StoredHead, beta: float, leaf: Leaf, size: arb) -> arb:
    """A bump head is within this of clip(s, 0, 1) for every s that an input can lead to."""
    require(leaf.layer == 0 and leaf.formula == RAMP, f"a bump head must compute {RAMP!r}, not {leaf.formula!r}")
    require(leaf.rule == "nearest", f"no rule {leaf.rule!r} for bump heads")
    ends = type(leaf.lo) is float and type(leaf.hi) is float and math.isfinite(leaf.lo) and math.isfinite(leaf.hi)
    require(ends, f"a bump head's queries between {leaf.lo!r} and {leaf.hi!r}")
    reach = size * (1 + 4 * UNIT["float64"]) + SMALLEST["float64"]
    require(leaf.lo <= -reach and reach <= leaf.hi, f"queries reach {short(reach)}, the claim [{leaf.lo}, {leaf.hi}]")
    scores = [
        abs(k) * leaf.hi + abs(k) * abs(arb(leaf.lo)) + abs(c) for k, c in zip(head.slopes, head.offsets, strict=True)
    ]
    require(all(score < LARGEST["float64"] for score in scores), "a score may overflow")
    query = arb(beta) * (1 + abs(arb(leaf.lo)).max(abs(arb(leaf.hi))))
    require(query < LARGEST["float64"], "a query may overflow")
    found = examine_nearest([head], parse_or_refuse(RAMP, ("s",), "a ramp"), arb(leaf.lo), arb(leaf.hi))
    total = arb(0)
    for name in ("approximation", "leakage", "rounding"):
        shown, limit = getattr(found, name), getattr(leaf.terms, name)
        require(type(limit) is float and shown <= limit, f"a bump head's {name}: {short(shown)} could be shown")
        total += limit
    return total


def _cells(stored: StoredGrid, claim: GridClaim) -> None:
    """On the core of a cell the formula is near its value; on the rest near whatever the network can return there.

    "bumps": a share of the cell's value, since the other bumps are 0. Else: a mean of all values.
    """
    N, B = claim.tokens * claim.features, arb(claim.B)
    half = B / claim.g
    if any(formula.startswith(OPAQUE) for formula in claim.formulas) or claim.lipschitz is not None:
        _stated(stored, claim, half)
        return
    names = tuple(f"x{i}" for i in range(N))
    for k, text in enumerate(claim.formulas):
        formula, values = parse_or_refuse(text, names, f"formula {k}"), stored.values[k].tolist()
        for v, box in enumerate(cells(claim.g, B, half * (1 - arb(claim.delta)), N)):
            where = f"output {k} on the core of cell {v}"
            stays_near(formula, names, box, [values[v]], float(claim.core[k, v]), where)
        for v, box in enumerate(cells(claim.g, B, half, N)):
            where = f"output {k} on cell {v}"
            stays_near(formula, names, box, _possible(values, v, claim), float(claim.shell[k, v]), where)


def _possible(values: list[float], v: int, claim: GridClaim) -> list[float]:
    return [values[v], 0.0] if claim.kind == "bumps" else [min(values), max(values)]


def _stated(stored: StoredGrid, claim: GridClaim, half: arb) -> None:
    """The same for functions that are no formulas, from the Lipschitz constant that the caller states."""
    L = claim.lipschitz
    require(all(formula.startswith(OPAQUE) for formula in claim.formulas), "a formula needs no Lipschitz constant")
    require(type(L) is float and 0 <= L < math.inf, f"a Lipschitz constant {L!r}")
    assert L is not None
    core, shell = ((L * r + claim.accuracy).upper() for r in (half * (1 - arb(claim.delta)), half))
    for k, row in enumerate(stored.values.tolist()):
        require(core <= float(claim.core[k].min()), f"output {k}: {short(core)} could be shown on the cores")
        for v, value in enumerate(row):
            shown = largest(abs(arb(value) - other) for other in _possible(row, v, claim)) + shell
            require(shown <= float(claim.shell[k, v]), f"output {k} on cell {v}: {short(shown)} could be shown")


def _norm(certificate: Certificate, claim: GridClaim) -> None:
    """The L_p norm, term by term (Minkowski), and the volume of the shells."""
    N, p, width = claim.tokens * claim.features, arb(claim.norm), 2 * arb(claim.B)
    cell = (width / claim.g) ** N
    core = cell * (1 - arb(claim.delta)) ** N
    exceptional = (width**N * (1 - (1 - arb(claim.delta)) ** N)).upper()
    require(exceptional <= claim.exceptional, f"the shells take {short(exceptional)}, {claim.exceptional:.6g} is said")
    total = _powers(claim.core, p) * core + _powers(claim.shell, p) * (cell - core)
    everywhere = (len(claim.formulas) * width**N) ** (1 / p)
    require(total.is_finite() and p <= LARGEST_NORM, f"no rule for the norm L_{claim.norm:g}")
    total = total.upper()  # exact, so that its sign is known
    root = total ** (1 / p) if total > 0 else arb(0)
    shown = (root, claim.leakage * everywhere, claim.rounding * everywhere)
    terms = certificate.terms
    for name, number in zip(("approximation", "leakage", "rounding"), shown, strict=True):
        limit = getattr(terms, name)
        require(number <= limit, f"{name} in the norm: {short(number)} could be shown, {limit:.6g} is claimed")
    together = arb(terms.approximation) + arb(terms.leakage) + arb(terms.rounding)
    require(
        together <= certificate.bound, f"the terms add up to {short(together)}, the bound is {certificate.bound:.6g}"
    )


def _powers(errors: Floats, p: arb) -> arb:
    return sum((arb(x) ** p for x in errors.ravel().tolist() if x > 0), arb(0))
