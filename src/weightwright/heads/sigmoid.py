"""The exact two-key head: softmax over two keys *is* a sigmoid.

A formula of the shape A sigmoid(w s + t) + B or A tanh(w s + t) + B, w, t, A, B rational, needs two keys
and no approximation at all; only the rounding of w, t and the values to floats is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from weightwright.expressions import Expression, Number, Variable, fold
from weightwright.heads.registers import Table

#: A polynomial of degree <= 1 in s and in one squashing function S(w s + t): (constant, s, S, (w, t)).
_Form = tuple[Fraction, Fraction, Fraction, tuple[Fraction, Fraction] | None]


def two_keys(formula: Expression) -> Table | None:
    """The table of the head that computes the formula of s exactly, or None if it is not sigmoid-shaped."""
    form = fold(formula, _leaf, _node)
    if form is None:
        return None
    constant, linear, factor, inner = form
    if linear != 0 or factor == 0 or inner is None:
        return None
    w, t = inner
    # in terms of sigma(w s + t): keys +-(w s + t)/2, values constant + factor and constant
    try:
        keys, offsets = (np.array([float(x / 2), -float(x / 2)]) for x in (w, t))
        return Table(keys, offsets, np.array([float(constant + factor), float(constant)]))
    except OverflowError:
        return None


def _leaf(node: Number | Variable) -> _Form | None:
    if isinstance(node, Variable):
        return Fraction(0), Fraction(1), Fraction(0), None
    return node.value, Fraction(0), Fraction(0), None


def _node(op: str, args: Sequence[_Form | None]) -> _Form | None:
    if any(arg is None for arg in args):
        return None
    forms = [arg for arg in args if arg is not None]
    if op in ("sigmoid", "tanh") and forms[0][3] is None:
        t, w = forms[0][0], forms[0][1]
        if op == "sigmoid":
            return Fraction(0), Fraction(0), Fraction(1), (w, t)
        return Fraction(-1), Fraction(0), Fraction(2), (2 * w, 2 * t)  # tanh(u) = 2 sigmoid(2u) - 1
    if op == "neg":
        return _scaled(Fraction(-1), forms[0])
    if op in ("add", "sub"):
        return _sum(forms[0], forms[1] if op == "add" else _scaled(Fraction(-1), forms[1]))
    if op == "mul":
        for one, other in (forms, forms[::-1]):
            if _is_constant(one):
                return _scaled(one[0], other)
    if op == "div" and _is_constant(forms[1]) and forms[1][0] != 0:
        return _scaled(1 / forms[1][0], forms[0])
    return None


def _is_constant(form: _Form) -> bool:
    return form[1] == 0 and form[2] == 0


def _scaled(factor: Fraction, form: _Form) -> _Form:
    return factor * form[0], factor * form[1], factor * form[2], form[3]


def _sum(a: _Form, b: _Form) -> _Form | None:
    if a[3] is not None and b[3] is not None and a[3] != b[3]:
        return None
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] if a[3] is not None else b[3]
