"""Quotients that are 0 / 0 at a rational point, and have a limit there: sin(x)/x at 0.

Found in exact power series, whose coefficients are fractions, or not known. This proposes where to look: the checker
proves every zero again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product, zip_longest
from math import comb, isqrt

from weightwright.expressions.nodes import Apply, Expression, Number, Variable, fold

#: Coefficients of a series that are looked at: a zero of order ORDER or more is not seen.
ORDER = 8
#: Points that are tried for one denominator; a formula with more is taken as it is.
MOST_POINTS = 16
#: Bits of a numerator or denominator; a fraction with more is not known. Powers of powers would take gigabytes.
MOST_BITS = 4096
#: Expressions whose quotients are remembered, each by its identity.
KEPT = 1024

#: Coefficients 0, 1, ... of a power series; None: not known.
Exact = list[Fraction | None]


@dataclass(frozen=True)
class Zero:
    """Both parts of a quotient are 0 at the point; the denominator's first coefficient that is not 0 is this one."""

    at: Fraction
    order: int


@dataclass(frozen=True, eq=False)
class Quotient:
    """numerator / denominator, both of one variable; at each zero its value is the limit."""

    numerator: Expression
    denominator: Expression
    variable: str
    zeros: tuple[Zero, ...]


@dataclass(frozen=True, eq=False)
class WithQuotients:
    """An expression whose quotients with a limit are variables of their own, by name."""

    rest: Expression
    quotients: dict[str, Quotient]


class _Same:
    """An expression as a key: the very same object. (Comparing what it holds would recurse as deep as it is.)"""

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def __hash__(self) -> int:
        return id(self.expression)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.expression is other.expression


def take_out_quotients(expression: Expression) -> WithQuotients:
    """
    >>> from weightwright.expressions import parse
    >>> found = take_out_quotients(parse("1 + sin(x - 2)/(x - 2)"))
    >>> [quotient.zeros for quotient in found.quotients.values()]
    [(Zero(at=Fraction(2, 1), order=1),)]
    >>> take_out_quotients(parse("cos(x)/x")).quotients
    {}
    """
    return _taken_out(_Same(expression))


@lru_cache(maxsize=KEPT)
def _taken_out(same: _Same) -> WithQuotients:
    quotients = dict[str, Quotient]()

    def node(op: str, args: Sequence[tuple[Expression, Expression]]) -> tuple[Expression, Expression]:
        """The node with quotients taken out, and as it is written."""
        short, whole = (tuple(arg[i] for arg in args) for i in (0, 1))
        zeros = zeros_of_quotient(whole[0], whole[1]) if op == "div" else ()
        if not zeros:
            return Apply(op, short), Apply(op, whole)
        name = f"#{len(quotients)}"  # no name that a formula can have
        (variable,) = variables(Apply(op, whole))
        quotients[name] = Quotient(whole[0], whole[1], variable, zeros)
        return Variable(name), Apply(op, whole)

    rest, _ = fold(same.expression, lambda leaf: (leaf, leaf), node)
    return WithQuotients(rest if quotients else same.expression, quotients)


def variables(expression: Expression) -> set[str]:
    """The names of all variables."""
    names = set[str]()
    fold(expression, lambda leaf: names.add(leaf.name) if isinstance(leaf, Variable) else None, lambda op, args: None)
    return names


def zeros_of_quotient(numerator: Expression, denominator: Expression) -> tuple[Zero, ...]:
    """The rational points where both are 0, and the numerator at least as much; none for several variables."""
    if len(variables(numerator) | variables(denominator)) != 1:
        return ()
    if polynomial(numerator) == [Fraction(0)]:  # 0 / x is no limit that anybody meant
        return ()
    zeros = _zeros(denominator)
    return tuple(z for z in zeros if _may_vanish(numerator, z.at) and _order(numerator, z.at) >= z.order)


def has_zero(expression: Expression) -> bool:
    """Whether it is 0 at a rational point that can be found; a constant is not."""
    return bool(_zeros(expression))


def _zeros(expression: Expression) -> list[Zero]:
    if isinstance(expression, Number) or len(variables(expression)) != 1:
        return []
    points = _points(expression)
    found = []
    for at in sorted(points) if len(points) <= MOST_POINTS else ():
        order = _order(expression, at) if _may_vanish(expression, at) else 0
        if 0 < order < ORDER:
            found.append(Zero(at, order))
    return found


def _may_vanish(expression: Expression, at: Fraction) -> bool:
    """Whether it is 0 there, or that is not known yet: one coefficient costs little, and most points are no zeros."""
    return not exact_series(expression, at, 1)[0]


def _order(expression: Expression, at: Fraction) -> int:
    """The number of the first coefficient that is not 0, or not known."""
    return next((k for k, c in enumerate(exact_series(expression, at)) if c != 0), ORDER)


def _points(denominator: Expression) -> set[Fraction]:
    """Where parts of it that are polynomials are 0 or, for logarithms, 1; the numbers that are written in it."""
    points = {Fraction(0), Fraction(1)}

    def leaf(node: Number | Variable) -> list[Fraction] | None:
        if isinstance(node, Number):
            points.add(node.value)
        return [node.value] if isinstance(node, Number) else [Fraction(0), Fraction(1)]

    def node(op: str, args: Sequence[list[Fraction] | None]) -> list[Fraction] | None:
        made = _polynomial(op, args)
        if made is not None:
            for value in (0, 1):
                points.update(rational_roots([made[0] - value, *made[1:]]) or ())
        return made

    fold(denominator, leaf, node)
    return points


def polynomial(expression: Expression) -> list[Fraction] | None:
    """Coefficients of a polynomial in its one variable, of degree below ORDER; None for what is none."""
    found = fold(
        expression,
        lambda leaf: [leaf.value] if isinstance(leaf, Number) else [Fraction(0), Fraction(1)],
        _polynomial,
    )
    while found is not None and len(found) > 1 and not found[-1]:
        found = found[:-1]
    return found


def _polynomial(op: str, args: Sequence[list[Fraction] | None]) -> list[Fraction] | None:
    """Coefficients of a polynomial of degree below ORDER; None for what is none, or takes too many bits."""
    known = [arg for arg in args if arg is not None]
    if len(known) < len(args) or not known or any(_within(x) is None for arg in known for x in arg):
        return None
    a, b = known[0], known[-1]
    if op == "neg":
        return [-x for x in a]
    if op in ("add", "sub"):
        sign = 1 if op == "add" else -1
        return [x + sign * y for x, y in zip_longest(a, b, fillvalue=Fraction(0))]
    if op == "mul" and len(a) + len(b) <= ORDER + 1:
        degrees = range(len(a) + len(b) - 1)
        pairs = [[(i, k - i) for i in range(len(a)) if 0 <= k - i < len(b)] for k in degrees]
        return [sum((a[i] * b[j] for i, j in terms), Fraction(0)) for terms in pairs]
    if op == "div" and len(b) == 1 and b[0]:
        return [x / b[0] for x in a]
    if op == "pow" and len(b) == 1 and b[0].denominator == 1 and 0 < b[0] < ORDER:
        power: list[Fraction] | None = [Fraction(1)]
        for _ in range(int(b[0])):
            power = _polynomial("mul", [power, a])
        return power
    return None


def rational_roots(p: list[Fraction]) -> set[Fraction] | None:
    """All real roots, of degree up to two; None if some are irrational, or the degree is higher."""
    while p and not p[-1]:
        p = p[:-1]
    if len(p) == 2:
        return {-p[0] / p[1]}
    if len(p) == 3:
        square = p[1] ** 2 - 4 * p[0] * p[2]
        root = _exact_root(square)
        if square < 0 or root is None:
            return set() if square < 0 else None
        return {(-p[1] + side * root) / (2 * p[2]) for side in (-1, 1)}
    return set() if len(p) == 1 else None


def _exact_root(square: Fraction) -> Fraction | None:
    if square < 0:
        return None
    root = Fraction(isqrt(square.numerator), isqrt(square.denominator))
    return root if root**2 == square else None


def exact_series(expression: Expression, at: Fraction, length: int = ORDER) -> Exact:
    """The first coefficients at the point, at most ORDER, each exact or not known. Where the expression is undefined,
    or bends, none is known."""

    def leaf(node: Number | Variable) -> Exact:
        start = node.value if isinstance(node, Number) else at
        line: Exact = [start, Fraction(int(isinstance(node, Variable))), *[Fraction(0)] * (ORDER - 2)]
        return line[:length]

    return fold(expression, leaf, lambda op, args: _exact(op, args, length))


def _exact(op: str, args: Sequence[Exact], length: int) -> Exact:
    if op == "neg":
        return [None if x is None else -x for x in args[0]]
    if op in ("add", "sub"):
        sign = 1 if op == "add" else -1
        return [_plus(x, y, sign) for x, y in zip(*args, strict=True)]
    if op == "mul":
        return _product(*args)
    if op == "div":
        above, below = _without_common_zero(*args)
        if not below[0]:
            return [None] * length
        return _product(above, _composed(_reciprocal(below[0]), below))
    if op == "pow":
        return _power(*args)
    if len(args) == 1 and args[0][0] is not None:
        return _composed(_outer(op, args[0][0]), args[0])
    return [None] * length


def _without_common_zero(above: Exact, below: Exact) -> tuple[Exact, Exact]:
    """Both divided by the power of t that the denominator begins with; the last coefficients are then not known."""
    order = next((k for k, c in enumerate(below) if c != 0), 0)
    if any(c != 0 for c in above[:order]):
        return above, below
    lost: Exact = [None] * order
    return above[order:] + lost, below[order:] + lost


def _within(x: Fraction) -> Fraction | None:
    """What has too many bits is not known."""
    return x if max(x.numerator.bit_length(), x.denominator.bit_length()) <= MOST_BITS else None


def _plus(x: Fraction | None, y: Fraction | None, sign: int = 1) -> Fraction | None:
    return None if x is None or y is None else _within(x + sign * y)


def _product(a: Exact, b: Exact) -> Exact:
    """0 times what is not known is 0."""
    out: Exact = [Fraction(0)] * len(a)
    for i, j in product(*([k for k, c in enumerate(side) if c != 0] for side in (a, b))):
        if i + j < len(a):
            x, y = a[i], b[j]
            out[i + j] = _plus(out[i + j], None if x is None or y is None else x * y)
    return out


def _composed(outer: Exact, inner: Exact) -> Exact:
    """outer_0 + outer_1 t + ..., t the inner series without its constant."""
    rest: Exact = [Fraction(0), *inner[1:]]
    total: Exact = [outer[len(inner) - 1], *[Fraction(0)] * (len(inner) - 1)]
    for coefficient in reversed(outer[: len(inner) - 1]):
        total = _product(total, rest)
        total[0] = coefficient
    return total


def _reciprocal(at: Fraction | None) -> Exact:
    return [None if not at else (-1) ** k / at ** (k + 1) for k in range(ORDER)]


def _power(base: Exact, exponent: Exact) -> Exact:
    n = exponent[0]
    if n is None or n.denominator != 1 or abs(n) > 64 or any(c != 0 for c in exponent[1:]):
        return [None] * len(base)
    power: Exact = [Fraction(1), *[Fraction(0)] * (len(base) - 1)]
    for _ in range(abs(int(n))):
        power = _product(power, base)
    return power if n >= 0 else _composed(_reciprocal(power[0]), power)


def _fractions(text: str) -> Exact:
    return [None if word == "?" else Fraction(word) for word in text.split()]


#: Coefficients at 0; a question mark is a number that is no fraction.
_AT_ZERO = {
    "exp": _fractions("1 1 1/2 1/6 1/24 1/120 1/720 1/5040"),
    "sin": _fractions("0 1 0 -1/6 0 1/120 0 -1/5040"),
    "cos": _fractions("1 0 -1/2 0 1/24 0 -1/720 0"),
    "tan": _fractions("0 1 0 1/3 0 2/15 0 17/315"),
    "tanh": _fractions("0 1 0 -1/3 0 2/15 0 -17/315"),
    "atan": _fractions("0 1 0 -1/3 0 1/5 0 -1/7"),
    "sigmoid": _fractions("1/2 1/4 0 -1/48 0 1/480 0 -17/80640"),
    "silu": _fractions("0 1/2 1/4 0 -1/48 0 1/480 0"),
    "softplus": _fractions("? 1/2 1/8 0 -1/192 0 1/2880 0"),
    "erf": _fractions("0 ? 0 ? 0 ? 0 ?"),
    "gelu": _fractions("0 1/2 ? 0 ? 0 ? 0"),
}


#: Functions that bend or jump at 0: the constant and the slope below it, and above.
_SIDES = {"abs": ((0, -1), (0, 1)), "relu": ((0, 0), (0, 1)), "sign": ((-1, 0), (1, 0)), "step": ((0, 0), (1, 0))}


def _outer(op: str, at: Fraction) -> Exact:
    """The series of a function of one number at a point."""
    if op in _AT_ZERO and at == 0:
        return _AT_ZERO[op]
    if op == "log" and at == 1:
        return [Fraction(0), *(Fraction((-1) ** (k + 1), k) for k in range(1, ORDER))]
    root = _exact_root(at) if op == "sqrt" else None
    if root:
        # the coefficient of t^k in sqrt(1 + t) is (-1)^(k+1) C(2k, k) / (4^k (2k - 1))
        return [root * Fraction((-1) ** (k + 1) * comb(2 * k, k), 4**k * (2 * k - 1)) / at**k for k in range(ORDER)]
    if op in _SIDES and at != 0:
        constant, slope = _SIDES[op][int(at > 0)]
        return [constant + slope * at, Fraction(slope), *[Fraction(0)] * (ORDER - 2)]
    return [None] * ORDER
