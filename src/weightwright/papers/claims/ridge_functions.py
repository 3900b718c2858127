"""Targets of the papers' networks, as data: ridge functions, a model for each token, and formulas near to them.

`RidgeFunctions` are units, each a function of one number that is affine in the inputs and in earlier units, and outputs
that are affine in both. Nothing is computed here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from weightwright.claims.kinds import HeadClaim, Target, TargetFormulas
from weightwright.claims.texts import short_digest
from weightwright.numbers import Floats, counted

NO_WAVES, NO_POLYNOMIALS = np.zeros((0, 0)), np.zeros((0, 0, 0))


@dataclass(frozen=True, eq=False)
class RidgeFunctions(Target):
    """u_k = profiles_k(arguments_k . (x, u) + shifts_k) in order, then output = outputs (x, u) + constants.

    x: the N inputs, token by token. A unit's argument takes earlier units only. Every stored number is meant exactly.
    """

    profiles: tuple[str, ...]  # K formulas in x, each continuous
    arguments: Floats  # (K, N + K)
    shifts: Floats  # (K,)
    outputs: Floats  # (number of outputs, N + K), token by token
    constants: Floats  # (number of outputs,)

    def in_words(self) -> str:
        kinds = ", ".join(f"{count} of {profile}" for profile, count in Counter(self.profiles).items())
        units = f"{counted(len(self.profiles), 'unit')} ({kinds})" if kinds else "no unit"
        return f"{counted(len(self.constants), 'output')} affine in the inputs and {units}, {short_digest(self)}"

    def profile(self, unit: int) -> str:
        return self.profiles[unit]


@dataclass(frozen=True, eq=False)
class TokenModels(Target):
    """The same target for every token: output (i, r) is unit i * rows + r, profiles_r(weights_i . x_i + shifts_i)."""

    profiles: tuple[str, ...]  # one for each row
    weights: Floats  # (n, d)
    shifts: Floats  # (n,)

    def in_words(self) -> str:
        said = f"{', '.join(self.profiles)} of w_i . x_i + t_i for each of {len(self.weights)} tokens"
        return f"{said}, {short_digest(self)}"

    def profile(self, unit: int) -> str:
        return self.profiles[unit % len(self.profiles)]


@dataclass(frozen=True)
class GateClaim(HeadClaim):
    """A head that sees every token and one register of value 0, and computes relu(s) of a coordinate s that all tokens
    hold alike: unit `unit`."""

    layer: int  # number of the layer
    head: int  # its number in it
    unit: int  # the unit that it computes


@dataclass(frozen=True, eq=False)
class FormulasClaim(TargetFormulas):
    """The ridge's outputs are within `error` of these formulas of x0, x1, ..., one for each output.

    All units are relu(x) of affine functions of x.
    rule "exact": the formulas are piecewise linear with the same kinks; error is 0, or what coefficients that are no
    floats lose.
    rule "taylor": every unit runs along a wave, t_w = waves_w . (x, 1): its argument has the wave's factors. The units
    along w add up to nearly the polynomial sum_j polynomials[m, w, j] t_w^j for output m; these polynomials and the
    part of the output that is affine in x add up to nearly the formula, on each of the boxes.
    """

    formulas: tuple[str, ...]  # in x0, x1, ..., one for each output
    rule: Literal["exact", "taylor"]  # how the error is shown
    boxes: Floats  # (number of boxes, 2, N): together they cover the domain; none for "exact"
    error: float  # at most, of every output
    waves: Floats = field(default_factory=lambda: NO_WAVES)  # (number of waves, N + 1)
    polynomials: Floats = field(default_factory=lambda: NO_POLYNOMIALS)  # (outputs, number of waves, degree + 1)
