"""The checker's rules for the formulas that a network of ReLUs stands for: what a `FormulasClaim` must satisfy.

Rule "exact": both sides in the form of `kinked`, their difference bounded by its parts.
Rule "taylor": the outputs are an affine function of x and, for every wave, a piecewise-linear function of the wave's
t = v.x + s. The latter is compared with the claim's polynomial piece by piece, over the range that t has on the
domain; the affine function and the polynomials are compared with the formula box by box. The errors add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import factorial, isfinite

import numpy as np
from flint import arb, arb_mat, arb_poly, fmpq

from weightwright.checker.core.complaints import parse_or_refuse, require, short
from weightwright.enclosures.balls.cover import is_covered
from weightwright.enclosures.balls.polynomials import expand, largest_on_box, shape
from weightwright.enclosures.balls.series import largest, series_along, working_precision
from weightwright.expressions import Apply, Expression, Variable
from weightwright.limits import count_boxes, tick
from weightwright.numbers import Floats
from weightwright.papers.checker import piecewise_linear as kinked
from weightwright.papers.claims.ridge_functions import FormulasClaim, RidgeFunctions

ORDER = {1: 16, 2: 12, 3: 10, 4: 7}  # of the Taylor remainder, by the number of variables
#: How many boxes may be halved, where the checker's enclosure is wider: for each stored one, and in all.
HALVINGS = (2, 200)
PARTS = 8  # of a piece of a piecewise-linear function
_RELU = Apply("relu", (Variable("x"),))
_RULES = ("exact", "taylor")


def agree_formulas(ridge: RidgeFunctions, claim: FormulasClaim, lo: Floats, hi: Floats) -> None:
    """CertificateError unless the ridge's outputs are within the claimed error of the formulas, for all real x from lo
    to hi."""
    _shapes(ridge, claim, lo, hi)
    N = len(lo)
    names = tuple(f"x{i}" for i in range(N))
    formulas = [parse_or_refuse(text, names, f"formula {m}") for m, text in enumerate(claim.formulas)]
    require(claim.rule in _RULES, f"no rule {claim.rule!r}")
    if claim.rule == "exact":
        return _exact(ridge, claim, formulas, names, lo, hi)
    require(N in ORDER, f"no rule for {N} variables")
    with working_precision():
        _taylor(ridge, claim, formulas, lo, hi)


def _shapes(ridge: RidgeFunctions, claim: FormulasClaim, lo: Floats, hi: Floats) -> None:
    require(isinstance(ridge, RidgeFunctions) and isinstance(claim, FormulasClaim), "no ridge, or no claim about one")
    _array("lo", lo, (None,))
    _array("hi", hi, (len(lo),))
    require(len(lo) > 0 and bool((lo < hi).all()), "the domain is no box")
    require(isinstance(ridge.profiles, tuple) and isinstance(claim.formulas, tuple), "no list of units or formulas")
    require(len(claim.formulas) > 0, "no formulas")
    N, K = len(lo), len(ridge.profiles)
    M = len(claim.formulas)
    expected = {"arguments": (K, N + K), "shifts": (K,), "outputs": (M, N + K), "constants": (M,)}
    for name, size in expected.items():
        _array(f"the ridge's {name}", getattr(ridge, name), size)
    require(not ridge.arguments[:, N:].any(), "a unit takes another unit: that is not one hidden layer")
    for k, profile in enumerate(ridge.profiles):
        require(parse_or_refuse(profile, ("x",), f"unit {k}") == _RELU, f"unit {k} is {profile!r}, not relu(x)")
    error = claim.error
    known = isinstance(error, int | float) and not isinstance(error, bool) and isfinite(error) and error >= 0
    require(known, f"an error of {error!r}")


def _array(name: str, array: object, size: tuple[int | None, ...]) -> None:
    """CertificateError unless this is an array of finite floats of this size; None: any number."""
    require(isinstance(array, np.ndarray) and array.dtype == np.float64, f"{name}: no array of floats")
    assert isinstance(array, np.ndarray)
    fits = len(size) == array.ndim and all(n is None or n == k for n, k in zip(size, array.shape, strict=True))
    require(fits, f"{name}: shape {array.shape}, not {size}")
    require(bool(np.isfinite(array).all()), f"{name}: not finite")


def _exact(
    ridge: RidgeFunctions,
    claim: FormulasClaim,
    formulas: Sequence[Expression],
    names: Sequence[str],
    lo: Floats,
    hi: Floats,
) -> None:
    N = len(names)
    x_lo, x_hi = _fractions(lo), _fractions(hi)
    units = [
        kinked.relu_of((*_fractions(row[:N]), Fraction(shift)))
        for row, shift in zip(ridge.arguments, ridge.shifts.tolist(), strict=True)
    ]
    for m, formula in enumerate(formulas):
        row = _fractions(ridge.outputs[m])
        difference = kinked.KinkedTarget((*row[:N], Fraction(float(ridge.constants[m]))), {})
        for factor, unit in zip(row[N:], units, strict=True):
            difference = difference.plus(unit, factor)
        off = difference.plus(kinked.read(formula, names), Fraction(-1)).largest(x_lo, x_hi)
        require(
            off <= Fraction(claim.error), f"output {m} is the formula within {float(off):.6g}, not {claim.error:.6g}"
        )


def _taylor(
    ridge: RidgeFunctions, claim: FormulasClaim, formulas: Sequence[Expression], lo: Floats, hi: Floats
) -> None:
    N, M, boxes = len(lo), len(formulas), claim.boxes
    _array("the waves", claim.waves, (None, N + 1))
    _array("the polynomials", claim.polynomials, (M, len(claim.waves), None))
    degree = claim.polynomials.shape[-1] - 1
    require(0 <= degree < ORDER[N], f"polynomials of degree {degree}, not below {ORDER[N]}")
    _array("the boxes", boxes, (None, 2, N))
    require(bool((boxes[:, 0] <= boxes[:, 1]).all()), "a box is no box")
    require(is_covered(lo, hi, boxes), "the boxes do not cover the domain")
    bent = _bent(ridge, claim, lo, hi)
    allowed = [arb(claim.error) - off for off in bent]
    for m, (limit, off) in enumerate(zip(allowed, bent, strict=True)):
        require(limit > 0, f"output {m}: the units are within {short(off)} of the waves, {claim.error:.6g} is claimed")
    smooth = _Smooth(ridge, claim, formulas)
    left = min(HALVINGS[0] * len(boxes), HALVINGS[1])
    count_boxes(len(boxes))
    stack = [(box[0].tolist(), box[1].tolist()) for box in boxes]
    while stack:
        count_boxes(1)
        a, b = stack.pop()
        found = smooth.examine(a, b)
        worst = next((m for m in range(M) if not found[m] <= allowed[m]), None)
        if worst is None:
            continue
        axis = max(range(N), key=lambda i: (b[i] - a[i]) / float(hi[i] - lo[i]))
        middle = a[axis] / 2 + b[axis] / 2
        left -= 1
        require(
            left >= 0 and a[axis] < middle < b[axis],
            f"output {worst}: waves within {short(found[worst])} of the formula on {a} to {b}, and units within"
            f" {short(bent[worst])} of the waves; {claim.error:.6g} is claimed",
        )
        stack += [(a, [*b[:axis], middle, *b[axis + 1 :]]), ([*a[:axis], middle, *a[axis + 1 :]], b)]


def _bent(ridge: RidgeFunctions, claim: FormulasClaim, lo: Floats, hi: Floats) -> list[arb]:
    """For every output, how far the units are from the waves' polynomials: the sum over the waves."""
    N = len(lo)
    along: list[list[int]] = [[] for _ in claim.waves]
    for k, argument in enumerate(ridge.arguments):
        same = np.flatnonzero((claim.waves[:, :N] == argument[:N]).all(axis=1))
        require(len(same) > 0, f"unit {k} runs along no wave")
        along[int(same[0])].append(k)
    total = [arb(0)] * len(claim.formulas)
    for w, units in enumerate(along):
        wave = _fractions(claim.waves[w])
        first, last = kinked.ends(tuple(wave), _fractions(lo), _fractions(hi))
        # a unit is relu(t - q), q = the wave's shift less its own
        knots = sorted((wave[-1] - Fraction(float(ridge.shifts[k])), k) for k in units)
        for m in range(len(total)):
            factors = [(q, Fraction(float(ridge.outputs[m, N + k]))) for q, k in knots]
            total[m] += _off(claim.polynomials[m, w], factors, first, last)
    return total


def _off(coefficients: Floats, units: list[tuple[Fraction, Fraction]], first: Fraction, last: Fraction) -> arb:
    """The largest |polynomial - sum of c relu(t - q)| for t from first to last; the units (q, c) in the order of q."""
    polynomial = arb_poly([arb(c) for c in coefficients.tolist()])
    slope = start = Fraction(0)
    left = first
    found: list[arb] = []
    for q, c in [*units, (last, Fraction(0))]:
        right = min(q, last)
        if right > left or (not found and left == right == last):
            found.append(_on_piece(polynomial, start, slope, left, right))
            left = right
        slope, start = slope + c, start - c * q
    return largest(found)


def _on_piece(polynomial: arb_poly, start: Fraction, slope: Fraction, left: Fraction, right: Fraction) -> arb:
    """The largest |polynomial - start - slope t| from left to right."""
    tick()
    difference = polynomial - arb_poly([_ball(start), _ball(slope)])
    radius = (right - left) / (2 * PARTS)
    middles = (left + radius * (2 * i + 1) for i in range(PARTS))
    return largest(_around(difference(arb_poly([_ball(middle), 1])), _ball(radius)) for middle in middles)


def _around(polynomial: arb_poly, r: arb) -> arb:
    """An upper bound on |polynomial| from -r to r: the parabola exactly, what is beyond it by its size."""
    a, b, c = (polynomial[j] for j in range(3))
    found = [abs(a + b * r + c * r * r), abs(a - b * r + c * r * r)]
    if not abs(b) >= 2 * abs(c) * r:  # its turning point may lie between
        turning = abs(a - b * b / (4 * c))
        found.append(turning if turning.is_finite() else abs(a) + abs(b) * r + abs(c) * r * r)
    return largest(found) + sum((abs(polynomial[j]) * r**j for j in range(3, polynomial.length())), arb(0))


class _Smooth:
    """The formulas against the waves' polynomials and the affine part, to be looked at box by box."""

    def __init__(self, ridge: RidgeFunctions, claim: FormulasClaim, formulas: Sequence[Expression]) -> None:
        self.formulas, self.N = formulas, claim.boxes.shape[2]
        self.names = tuple(f"x{i}" for i in range(self.N))
        self.order = ORDER[self.N]
        self.shape = shape(self.N, self.order - 1)
        self.waves = [[arb(x) for x in row] for row in claim.waves.tolist()]
        self.polynomials = [
            [arb_poly([arb(c) for c in row]) for row in rows] for rows in claim.polynomials.tolist()
        ]  # [output][wave]
        self.affine = [
            [*map(arb, row[: self.N]), arb(c)]
            for row, c in zip(ridge.outputs.tolist(), ridge.constants.tolist(), strict=True)
        ]
        degree = claim.polynomials.shape[-1] - 1
        #: For each degree j, the coefficients of (v.y)^j: rows are monomials, columns waves.
        self.powers = [self._powers(j) for j in range(degree + 1)] if self.waves else []

    def _powers(self, j: int) -> arb_mat:
        rows = []
        for exponents in self.shape.monomials:
            tick()
            if sum(exponents) != j:
                continue
            many = factorial(j)
            for e in exponents:
                many //= factorial(e)
            row = []
            for wave in self.waves:
                term = arb(many)
                for v, e in zip(wave, exponents, strict=False):
                    term *= v**e
                row.append(term)
            rows.append(row)
        return arb_mat(rows)

    def examine(self, a: Sequence[float], b: Sequence[float]) -> list[arb]:
        """For every output an upper bound on |formula - affine part - polynomials| on the box; NaN if nothing shows."""
        m = [((arb(x) + arb(y)) / 2).mid() for x, y in zip(a, b, strict=True)]
        r = [(arb(y) - c).max(c - arb(x)).upper() for x, y, c in zip(a, b, m, strict=True)]
        lines = {name: (c + arb(0, x), arb(0, x)) for name, c, x in zip(self.names, m, r, strict=True)}
        found = []
        for formula, modelled in zip(self.formulas, self._modelled(m), strict=True):
            beyond = abs(series_along(formula, lines, self.order)[self.order])
            gap = [f - g for f, g in zip(expand(formula, self.names, m, self.order - 1), modelled, strict=True)]
            known = beyond.is_finite() and all(x.is_finite() for x in gap)
            found.append((largest_on_box(gap, r, self.shape) + beyond).upper() if known else arb.nan())
        return found

    def _modelled(self, m: Sequence[arb]) -> list[list[arb]]:
        """For every output the Taylor coefficients at m of the affine part and the polynomials."""
        at = [arb_poly([sum((v * x for v, x in zip(wave, m, strict=False)), wave[-1]), 1]) for wave in self.waves]
        out = []
        for affine, polynomials in zip(self.affine, self.polynomials, strict=True):
            moved = [polynomial(t) for polynomial, t in zip(polynomials, at, strict=True)]
            total: list[arb] = []
            for j, power in enumerate(self.powers):
                total += (power * arb_mat(len(moved), 1, [q[j] for q in moved])).entries()
            total += [arb(0)] * (len(self.shape) - len(total))
            total[0] += sum((c * x for c, x in zip(affine, m, strict=False)), affine[-1])
            for place, exponents in enumerate(self.shape.monomials[1 : self.N + 1], start=1):
                total[place] += affine[exponents.index(1)]
            out.append(total)
        return out


def _fractions(row: Floats) -> list[Fraction]:
    return [Fraction(x) for x in row.tolist()]


def _ball(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))
