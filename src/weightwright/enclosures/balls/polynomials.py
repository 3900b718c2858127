"""The checker's Taylor polynomials in several variables, with ball coefficients (python-flint).

A polynomial is a list of balls, one for each monomial of total degree at most `degree`, in the order of `Degrees`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import comb

from flint import arb, arb_mat, arb_series, ctx, fmpq

from weightwright.enclosures.balls import series as balls
from weightwright.expressions import Expression, Number, Variable, fold
from weightwright.expressions.quotients import take_out_quotients
from weightwright.limits import tick

Polynomial = list[arb]


@dataclass(frozen=True, eq=False)
class Degrees:
    """Monomials as tuples of exponents, lowest degree first, and which two make which."""

    degree: int
    monomials: list[tuple[int, ...]]
    products: list[list[tuple[int, int]]]  # products[i]: (j, k) where monomial i times monomial j is monomial k

    def __len__(self) -> int:
        return len(self.monomials)


@cache
def shape(variables: int, degree: int) -> Degrees:
    """All monomials in this number of variables up to the degree."""
    monomials = sorted(
        (e for e in product(range(degree + 1), repeat=variables) if sum(e) <= degree), key=lambda e: (sum(e), e)
    )
    place = {e: index for index, e in enumerate(monomials)}
    sums = ([tuple(x + y for x, y in zip(a, b, strict=True)) for b in monomials] for a in monomials)
    products = [[(j, place[total]) for j, total in enumerate(row) if total in place] for row in sums]
    return Degrees(degree, monomials, products)


def multiply(a: Polynomial, b: Polynomial, within: Degrees, first: int = 0) -> Polynomial:
    """The product up to the degree; of b the coefficients from `first` on.

    Exact zeros are left out, also beside unknown coefficients: where the function has no derivatives of some order,
    its series over a box around the point is unknown too, and that decides.
    """
    out = [arb(0)] * len(within)
    used = [not x.is_zero() for x in b]
    tick()
    for x, row in zip(a, within.products, strict=False):
        if x.is_zero():
            continue
        for j, k in row:
            if j >= first and used[j]:
                out[k] += x * b[j]
    return out


def expand(expression: Expression, names: Sequence[str], at: Sequence[arb], degree: int) -> Polynomial:
    """Taylor coefficients of the expression at a point; NaN where nothing is known."""
    within = shape(len(names), degree)
    rules, taken = _Rules(within), take_out_quotients(expression)

    def leaf(node: Number | Variable) -> Polynomial:
        if isinstance(node, Number):
            return rules.constant(arb(fmpq(node.value.numerator, node.value.denominator)))
        if node.name in taken.quotients:
            quotient = taken.quotients[node.name]
            axis = list(names).index(quotient.variable)
            found = balls.quotient_series(quotient, at[axis], degree)
            ctx.cap = degree + 1
            return [found[e[axis]] if sum(e) == e[axis] else arb(0) for e in within.monomials]
        axis = list(names).index(node.name)
        step = tuple(int(i == axis) for i in range(len(names)))
        return [at[axis] if not any(e) else arb(int(e == step)) for e in within.monomials]

    ctx.cap = degree + 1
    return fold(taken.rest, leaf, rules.apply)


class _Rules:
    """What each operation does to polynomials of one shape."""

    def __init__(self, within: Degrees) -> None:
        self.shape = within
        self.by_rule: dict[str, Callable[..., Polynomial]] = {
            "add": lambda a, b: [x + y for x, y in zip(a, b, strict=True)],
            "sub": lambda a, b: [x - y for x, y in zip(a, b, strict=True)],
            "mul": lambda a, b: multiply(a, b, within),
            "neg": lambda a: [-x for x in a],
            "div": lambda a, b: multiply(a, self.function(lambda s: 1 / s, b), within),
            "pow": self.power,
            "max": self.maximum,
            "min": lambda a, b: self.apply("neg", [self.maximum(*(self.apply("neg", [x]) for x in (a, b)))]),
            "clip": lambda a, lo, hi: self.apply("min", [self.maximum(a, lo), hi]),
        }

    def apply(self, op: str, args: Sequence[Polynomial]) -> Polynomial:
        if any(not arg[0].is_finite() for arg in args):  # 0 * log(-1) is not 0
            return self.unknown()
        if not args:
            return self.constant(balls.apply(op, [])[0])
        if op in self.by_rule:
            return self.by_rule[op](*args)
        return self.function(lambda s: balls.apply(op, [s]), args[0])

    def constant(self, value: arb) -> Polynomial:
        return [value, *[arb(0)] * (len(self.shape) - 1)]

    def unknown(self) -> Polynomial:
        return [arb.nan()] * len(self.shape)

    def function(self, outer: Callable[[arb_series], arb_series], inner: Polynomial) -> Polynomial:
        """outer(inner): the series of outer at inner's value, with the powers of the rest put in."""
        try:
            series = outer(arb_series([inner[0], 1]))
        except (ValueError, ZeroDivisionError):  # flint: a denominator that may be zero
            return self.unknown()
        outside = [series[k] if k < series.prec else arb.nan() for k in range(self.shape.degree + 1)]
        if not outside[0].is_finite():
            return self.unknown()
        # Horner, from the inside: what is known after step k counts in degrees up to degree - k only, so it is short
        total = [outside[-1]]
        for k in range(self.shape.degree - 1, -1, -1):
            total = multiply(total, inner, self.shape, first=1)[: self._count(self.shape.degree - k)]
            total[0] = outside[k]
        return total

    def _count(self, degree: int) -> int:
        """How many monomials have at most the degree."""
        variables = len(self.shape.monomials[0])
        return comb(degree + variables, variables)

    def power(self, base: Polynomial, exponent: Polynomial) -> Polynomial:
        e = exponent[0]
        whole = e.is_exact() and e.is_integer() and abs(e) <= 1024
        if not whole or any(not x.is_zero() for x in exponent[1:]):
            logarithm = self.function(lambda s: s.log(), base)
            return self.function(lambda s: s.exp(), multiply(exponent, logarithm, self.shape))
        n = round(float(e))
        result = base if n else self.constant(arb(1))
        for bit in bin(abs(n))[3:]:
            result = multiply(result, result, self.shape)
            result = multiply(result, base, self.shape) if bit == "1" else result
        return result if n >= 0 else self.apply("div", [self.constant(arb(1)), result])

    def maximum(self, a: Polynomial, b: Polynomial) -> Polynomial:
        """One of the two where it is certainly above; else values and slopes of both, and nothing beyond."""
        if a[0] > b[0]:
            return a
        if a[0] < b[0]:
            return b
        slopes = [x.union(y) if sum(e) == 1 else arb.nan() for x, y, e in zip(a, b, self.shape.monomials, strict=True)]
        return [a[0].max(b[0]), *slopes[1:]]


def largest_on_box(polynomial: Polynomial, r: Sequence[arb], within: Degrees) -> arb:
    """An upper bound on |polynomial| for all t with |t_i| <= r_i: a polynomial lies between its Bernstein
    coefficients."""
    n, d = within.degree + 1, len(r)
    dense = [arb(0)] * n**d
    for coefficient, exponents in zip(polynomial, within.monomials, strict=True):
        place, size = 0, coefficient
        for exponent, radius in zip(exponents, r, strict=True):
            place = place * n + exponent
            size = size * radius**exponent
        dense[place] = size
    for _ in range(d):  # each step turns the first axis into Bernstein coefficients and moves it to the end
        matrix = arb_mat(n, len(dense) // n, dense).transpose() * _bernstein(n - 1)
        dense = matrix.entries()
    return balls.largest(abs(x) for x in dense)


@cache
def _bernstein_numbers(n: int) -> list[list[fmpq]]:
    return [
        [
            sum((fmpq(comb(k, i) * 2**i * (-1) ** (k - i) * comb(j, i), comb(n, i)) for i in range(k + 1)), fmpq(0))
            for j in range(n + 1)
        ]
        for k in range(n + 1)
    ]


def _bernstein(n: int) -> arb_mat:
    """Row k: the Bernstein coefficients of t^k on [-1, 1] in degree n."""
    return arb_mat([[arb(x) for x in row] for row in _bernstein_numbers(n)])
