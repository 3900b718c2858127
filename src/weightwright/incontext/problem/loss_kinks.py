"""The kinks of a function of one number: where they are, whether the slope jumps there, and a slope without jumps.

A loss with clip or max in it may well have a continuous slope (Huber's has). Its derivative by the rules is then a sum
of steps that cancel. Between two kinks the function is one smooth branch, so the slope is written anew, branch by
branch, with clips instead of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

from flint import arb, fmpq

from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import FormulaError
from weightwright.expressions import Apply, Expression, Number, Variable, differentiate, fold, substitute, to_text
from weightwright.expressions.derivative import ZERO, minus, negative, over, plus, power, times
from weightwright.incontext.problem.curvature import branches, is_smooth

#: Bits of the working precision.
BITS = 256
#: Kinks are looked for at |x| <= REACH, and each is known to lie in a box of at most the width NEAR.
REACH, NEAR = Fraction(2**40), Fraction(1, 2**120)
#: The width of a box below which it is not cut where the function may be undefined.
FINE = Fraction(1, 16)
#: The most boxes that are looked at; with more the function is refused.
MOST_BOXES = 40_000
#: Values or slopes on the two sides of a kink are equal where they differ by less than this share of their
#: sizes.
EQUAL = 2.0**-50
#: The largest exponent of a power of two numbers that is computed.
_SMALL_POWER = 64


def slope_of(expression: Expression) -> Expression:
    """The derivative of a function of x. FormulaError that names a kink if the slope jumps at one."""
    places = kinks(expression)
    for place in places:
        _require_slope(expression, place)
    plain = differentiate(expression)
    if not has_jumps(plain) or not places:
        return plain
    ends = [_written(place) for place in places]
    return plain if None in ends else _joined(expression, [end for end in ends if end is not None])


def kinks(expression: Expression) -> list[Fraction]:
    """Where an argument of abs, relu, max, min, clip, sign or step changes its sign, within NEAR."""
    if not _has_kinks(expression):
        return []
    found: list[tuple[Fraction, Fraction]] = []
    boxes, looked = [(-REACH, REACH)], 0
    with working_precision(BITS):
        while boxes:
            lo, hi = boxes.pop()
            looked += 1
            if looked > MOST_BOXES:
                raise FormulaError(
                    f"{to_text(expression)} has too many kinks, or branches that touch without crossing; write the loss"
                    " with fewer, or smooth it"
                )
            smooth = is_smooth(expression, _ball(lo).union(_ball(hi)))
            if smooth:
                continue
            if hi - lo > (FINE if smooth is None else NEAR):
                boxes += [((lo + hi) / 2, hi), (lo, (lo + hi) / 2)]  # from left to right
            elif smooth is False:
                found.append((lo, hi))
    return _merged(found)


def _merged(boxes: Sequence[tuple[Fraction, Fraction]]) -> list[Fraction]:
    """The middle of every group of neighbouring boxes."""
    groups: list[tuple[Fraction, Fraction]] = []
    for lo, hi in boxes:
        if groups and lo - groups[-1][1] <= NEAR:
            groups[-1] = groups[-1][0], hi
        else:
            groups.append((lo, hi))
    return [(lo + hi) / 2 for lo, hi in groups]


def _require_slope(expression: Expression, place: Fraction) -> None:
    """The function and its slope are the same on both sides of a kink."""
    with working_precision(BITS):
        left, right = (branches(expression, _ball(place + side * 16 * NEAR), {}, 2)[0] for side in (-1, 1))
        for order, what in enumerate(("value", "slope")):
            a, b = left[order], right[order]
            # they are taken 32 NEAR apart, where a smooth function differs too
            rise = 64 * _ball(NEAR) * (order + 1) * (abs(left[order + 1]) + abs(right[order + 1]))
            if a.is_finite() and b.is_finite() and not abs(a - b) > EQUAL * (abs(a) + abs(b)) + rise:
                continue
            raise FormulaError(
                f"the loss {to_text(expression)} has a kink at x = {float(place):.12g}: its {what} jumps from"
                f" {_shown(a)} to {_shown(b)}. Gradient descent needs a slope everywhere: smooth the kink, as the"
                " losses 'huber', 'quantile' and 'hinge' do"
            )


def _shown(x: arb) -> str:
    return f"{float(x.mid()):.6g}" if x.is_finite() else "nothing finite"


def _written(place: Fraction) -> Number | None:
    """The short number that is meant: a decimal of up to 17 digits, or a float."""
    nearest = float(place)
    for candidate in (Fraction(repr(nearest)), Fraction(nearest)):
        if abs(candidate - place) <= 4 * NEAR:
            return Number(candidate)
    return None


def _joined(expression: Expression, ends: list[Number]) -> Expression:
    """sum of g_j(x clipped to piece j) - g_j(left end of piece j), where g_j is the slope on piece j; and g_0 whole."""
    cuts = [ends[0].value - 1, *(end.value for end in ends), ends[-1].value + 1]
    middles = [(left + right) / 2 for left, right in pairwise(cuts)]
    slopes = [differentiate(_on_piece(expression, middle)) for middle in middles]
    changes = [j for j in range(len(ends)) if to_text(slopes[j]) != to_text(slopes[j + 1])]
    lefts, rights = [None, *(ends[j] for j in changes)], [*(ends[j] for j in changes), None]
    whole: Expression = ZERO
    constant: Expression = ZERO
    for slope, left, right in zip([slopes[0], *(slopes[j + 1] for j in changes)], lefts, rights, strict=True):
        if left is not None:
            constant = minus(constant, _at(slope, left))
        if isinstance(slope, Number):
            constant = plus(constant, slope)
        else:
            whole = plus(whole, _at(slope, _clipped(left, right)))
    return plus(whole, constant)


def _clipped(left: Number | None, right: Number | None) -> Expression:
    x = Variable("x")
    if left is not None and right is not None:
        return Apply("clip", (x, left, right))
    if left is not None:
        return Apply("max", (x, left))
    return x if right is None else Apply("min", (x, right))


def _on_piece(expression: Expression, inside: Fraction) -> Expression:
    """The smooth branch that the function is around a point that is no kink."""

    def leaf(node: Number | Variable) -> tuple[Expression, arb]:
        return node, _ball(inside if isinstance(node, Variable) else node.value)

    def node(op: str, args: Sequence[tuple[Expression, arb]]) -> tuple[Expression, arb]:
        value = branches(Apply(op, tuple(Variable(f"a{i}") for i in range(len(args)))), arb(0), _named(args), 0)[0][0]
        a = args[0] if args else None
        if a is not None and op in ("sign", "step"):
            return Number(Fraction(1 if a[1] > 0 else (-1 if op == "sign" else 0))), value
        if a is not None and op in ("abs", "relu"):
            low = negative(a[0]) if op == "abs" else ZERO
            return (a[0] if a[1] > 0 else low), value
        if op in ("max", "min", "clip"):
            return next(arg for arg, size in args if size.overlaps(value)), value
        return _simple(op, [arg for arg, _ in args]), value

    with working_precision(BITS):
        return fold(expression, leaf, node)[0]


def _named(args: Sequence[tuple[Expression, arb]]) -> dict[str, arb]:
    return {f"a{i}": value for i, (_, value) in enumerate(args)}


def _at(expression: Expression, place: Expression) -> Expression:
    """The expression with x replaced, and constants computed."""
    return fold(substitute(expression, "x", place), lambda node: node, _simple)


def _simple(op: str, args: Sequence[Expression]) -> Expression:
    if op in _SHORTER:
        a, *rest = args
        if op == "pow" and isinstance(a, Number) and isinstance(rest[0], Number):
            exponent = rest[0].value
            if exponent.denominator == 1 and 0 <= exponent <= _SMALL_POWER:
                return Number(a.value ** int(exponent))
        return _SHORTER[op](*args)
    return Apply(op, tuple(args))


_SHORTER: dict[str, Callable[..., Expression]] = {
    "add": plus,
    "sub": minus,
    "mul": times,
    "div": over,
    "neg": negative,
    "pow": power,
}


def _has_kinks(expression: Expression) -> bool:
    return _has(expression, ("abs", "relu", "sign", "step", "max", "min", "clip"))


def has_jumps(expression: Expression) -> bool:
    return _has(expression, ("sign", "step"))


def _has(expression: Expression, ops: Sequence[str]) -> bool:
    return fold(expression, lambda node: False, lambda op, args: op in ops or any(args))


def _ball(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))
