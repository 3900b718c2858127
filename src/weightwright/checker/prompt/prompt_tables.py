"""The tables of a network with a prompt: what they compute of w.x and y, and what their roundings cost.

Keys and values are products with what the token holds, so scores round more than those of keys on registers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from weightwright.checker.core.complaints import must, parse_or_refuse, require
from weightwright.checker.core.rounding import SMALLEST, UNIT, StoredHead
from weightwright.checker.one_layer.layer import Target, covers, layer_holds
from weightwright.checker.one_layer.nearest import examine_nearest
from weightwright.checker.one_layer.stored import OneLayer
from weightwright.checker.one_layer.stored_vector import VectorHead
from weightwright.checker.one_layer.vector import Examiner, claims_a_box, head_holds
from weightwright.checker.prompt.prompt_layers import StoredTable
from weightwright.claims.certificate import local_formula, vector_formula
from weightwright.claims.leaf import Leaf, Terms, VectorLeaf
from weightwright.claims.prompt import PromptClaim, Summand
from weightwright.enclosures.balls.cover import is_covered
from weightwright.enclosures.balls.midrad import LOST, above
from weightwright.enclosures.balls.series import largest, series_along
from weightwright.expressions import Expression, to_text
from weightwright.limits import count_boxes, hold, tick
from weightwright.numbers import Floats

#: Of the size of a domain: two, their larger, and two for products and sums.
_ARRAYS = 5


@dataclass(frozen=True)
class Reach:
    """How large what a prompt holds can be: the largest of each kind, and sums over features or samples."""

    x: arb
    y: arb
    w: arb
    p: arb
    tau: arb
    u: arb
    r: arb
    products: arb  # sum over the features of |w x|, for any sample
    sum_x: arb  # sum over the features of |x|
    sum_w: arb
    sum_u: arb  # sum over the samples of the largest |u| of each
    sum_r: arb

    @classmethod
    def of(cls, prompt: PromptClaim, lo: Floats, hi: Floats, asks: str = "w") -> Reach:
        """lo, hi: (samples, inputs), in the order of the inputs. asks: the state that is multiplied with x: "w" in a
        pass, in the read-out perhaps "p", which then stands for w here."""
        hold(_ARRAYS * lo.size)
        sizes, d, at = np.maximum(np.abs(lo), np.abs(hi)), prompt.features, 0

        def take(width: int) -> Floats:
            nonlocal at
            at += width
            return sizes[:, at - width : at]

        x = take(d)
        u = take(d) if prompt.own_values else x
        r = take(d) if prompt.has_penalty else np.zeros((1, 1))
        y, w = take(1), take(d)
        p = take(d) if prompt.states == 2 else np.zeros((1, 1))
        tau = take(d) if prompt.has("threshold") else np.zeros((1, 1))
        require(at == sizes.shape[1], f"the domain has {sizes.shape[1]} features, the prompt {at}")
        w, p = (p, w) if asks == "p" else (w, p)
        sums = [(w * x).sum(axis=1).max(), x.sum(axis=1).max(), w.sum(axis=1).max()]
        sums += [values.max(axis=1).sum() for values in (u, r)]
        roundings = d + len(sizes) + 2
        sums_of = (arb(float(above(s, roundings))) + LOST for s in sums)
        most = (arb(float(part.max())) for part in (x, y, w, p, tau, u, r))
        return cls(*most, *sums_of)


@dataclass(frozen=True)
class Tables:
    """The tables of one summand, as heads of its query."""

    summand: Summand
    tables: Sequence[StoredTable]
    heads: list[StoredHead]
    slopes: list[list[arb]]  # for each axis of a VectorClaim

    @property
    def mean(self) -> Fraction:
        return sum((Fraction(table.mean) for table in self.tables), Fraction(0))

    @property
    def formula(self) -> Expression:
        """What the heads must compute of their query."""
        scale, along = self.summand.scale, self.summand.along
        if along is None:
            whole = parse_or_refuse(self.summand.formula, ("x", "y"), "formula")
            return vector_formula(whole, (0.0, 0.0), (scale, scale), self.mean)
        return local_formula(parse_or_refuse(self.summand.formula, ("x",), "formula"), 0.0, scale, self.mean)


def tables_of(summand: Summand, tables: Sequence[StoredTable], reach: Reach, features: int, dtype: str) -> Tables:
    """Refuse (CertificateError) tables whose scores do not depend on the summand's argument alone."""
    _well_formed(summand)
    along, scale = summand.along, arb(summand.scale)
    heads = []
    for table in tables:
        must(_power_of_two(table.beta) and table.beta > 0, f"beta = {table.beta!r} must be a power of two")
        keys = table.kappa
        if along is not None:
            a, b = along
            keys = table.kappa * a if a else table.lam * b
            fits = bool((table.kappa == a * keys).all() and (table.lam == b * keys).all())
            must(fits, f"the scores of a table are not along {along}")
        beta, off = arb(table.beta), _score_errors(table, reach, features, dtype)
        zeros = [arb(0)] * len(keys)
        slopes, offsets = [beta * k / scale for k in keys.tolist()], [beta * c for c in table.c.tolist()]
        values, nothing = [arb(v) for v in table.v.tolist()], (arb(0), arb(0))
        weight = arb(table.weight)
        heads.append(StoredHead(slopes, offsets, values, zeros, False, nothing, None, weight, dtype, off=off))
    axes = [[arb(table.beta) * k / scale for k in column] for table in tables for column in (table.kappa, table.lam)]
    return Tables(summand, tables, heads, axes)


def _well_formed(summand: Summand) -> None:
    along, claim = summand.along, summand.claim
    fits = along is None or (len(along) == 2 and set(along) <= {-1.0, 0.0, 1.0} and any(along))
    require(fits, f"along = {along!r} is no direction")
    require(_power_of_two(summand.scale) and summand.scale > 0, f"scale = {summand.scale!r} is no power of two")
    require(isinstance(claim, VectorLeaf if along is None else Leaf), "a claim of another number of variables")
    require(claim.layer == 0, f"the claim is about layer {claim.layer}")
    numbers = [*dataclasses.astuple(claim.terms), *np.atleast_1d(claim.lipschitz).tolist()]
    fine = all(isinstance(x, float) and math.isfinite(x) and x >= 0 for x in numbers)
    require(fine, "a claim has a term that is no finite number at or above zero")


def _score_errors(table: StoredTable, reach: Reach, features: int, dtype: str) -> list[arb]:
    """beta (sum of (w_r)(kappa_j x_r) + lam_j y + c_j): a key rounds, its product with w, and up to d + 1 additions; or
    kappa_j (sum of w_r x_r): a product with w, d - 1 additions, the product with kappa_j, and two additions."""
    u, tiny, beta = UNIT[dtype], SMALLEST[dtype], arb(table.beta)
    grown = (1 + u) ** (features + 3) - 1
    out = []
    tick()
    for kappa, lam, c in zip(table.kappa.tolist(), table.lam.tolist(), table.c.tolist(), strict=True):
        size = beta * (abs(arb(kappa)) * reach.products + abs(arb(lam)) * reach.y + abs(arb(c)))
        # keys, queries times beta and products may underflow, each by less than the smallest normal number; so may
        # those of w and x before kappa multiplies them
        lost = beta * (reach.sum_w + 1) + abs(arb(kappa)) * (reach.sum_x + beta * features) + features + 2
        out.append((grown * size + 2 * (1 + grown) * tiny * lost).upper())
    return out


def summand_holds(of: Tables) -> None:
    """Every term of the claim, the slope of the formula, and that the boxes cover what is claimed."""
    claim, expected = of.summand.claim, to_text(of.formula)
    require(claim.formula == expected, f"the tables must compute {expected!r}, but the claim is {claim.formula!r}")
    covers_itself(of)
    if isinstance(claim, VectorLeaf):
        require(claim.rule == "taylor", f"no rule {claim.rule!r}")
        head_holds(_examiner(of, claim), claim)
        return
    target = Target(parse_or_refuse(claim.formula, ("s",), "a claim's formula"))
    layer_holds(_layer(of), claim, [target], True, (), floats=False)


def covers_itself(of: Tables) -> None:
    """The boxes of a claim cover all that it is about, and nothing of the tables overflows there."""
    claim, dtype = of.summand.claim, of.heads[0].dtype
    if isinstance(claim, VectorLeaf):
        claims_a_box(claim, 2)
        require(is_covered(claim.lo, claim.hi, claim.boxes), "the boxes do not cover the claim")
        return
    require(math.isfinite(claim.lo) and math.isfinite(claim.hi) and claim.lo < claim.hi, "the claim has no interval")
    covers(claim, _layer(of), claim.lo, claim.hi, (), dtype)


def tables_cost(of: Tables, worst_rounding: Callable[[list[StoredHead], Leaf], arb]) -> Terms:
    """What a claim about the tables may say: its approximation, and what leakage and rounding come to on its boxes. The
    rule "nearest" has no boxes to halve, so its approximation is what can be shown too. worst_rounding: the largest
    rounding of heads on the boxes of a claim."""
    claim, formula = of.summand.claim, of.formula
    covers_itself(of)
    leakage = rounding = arb(0)
    approximation = claim.terms.approximation
    if isinstance(claim, VectorLeaf):
        examiner = _examiner(of, claim)
        rounding = largest(examiner.examine(a, b).terms["rounding"] for a, b in claim.boxes.tolist())
    elif claim.rule == "nearest":
        found = examine_nearest(of.heads, formula, arb(claim.lo), arb(claim.hi))
        leakage, rounding = found.leakage, found.rounding
        require(
            found.approximation.is_finite(), f"the anchors for {of.summand.formula!r} are too soft to be the nearest"
        )
        approximation = float_above(found.approximation)
    else:
        rounding = worst_rounding(of.heads, claim)
    finite = leakage.is_finite() and rounding.is_finite()
    require(finite, f"nothing can be shown about the rounding of the tables for {of.summand.formula!r}")
    return Terms(approximation, float_above(leakage), float_above(rounding))


def largest_size(of: Tables) -> arb:
    """A bound on |formula| where the claim is about it: by its range, or by the tables' values."""
    claim, formula, mean = of.summand.claim, of.formula, arb(0)
    count_boxes(len(claim.boxes))
    mean += arb(of.mean.numerator) / arb(of.mean.denominator)
    by_values = arb(claim.terms.approximation) + claim.terms.leakage
    for table in of.tables:
        by_values += abs(arb(table.weight)) * float(np.abs(table.v).max()) + abs(arb(table.mean))
    names = ("s0", "s1") if isinstance(claim, VectorLeaf) else ("s",)
    by_range = arb(0)
    for a, b in claim.boxes.reshape(len(claim.boxes), 2, -1).tolist():
        lines = {name: (arb(x).union(arb(y)), arb(0)) for name, x, y in zip(names, a, b, strict=True)}
        by_range = by_range.max(abs(series_along(formula, lines, 1)[0] + mean))
    return (by_range.min(by_values) if by_range.is_finite() else by_values).upper()


def _layer(of: Tables) -> OneLayer:
    return OneLayer(of.heads, [table.beta for table in of.tables], 0.0, 1.0, 0.0, 0.0)


def _examiner(of: Tables, claim: VectorLeaf) -> Examiner:
    table = of.tables[0]
    must(len(of.tables) == 1 and table.weight == 1, "two variables go with one table of weight 1")
    stored = VectorHead(of.slopes, of.heads[0], [0.0, 0.0], [1.0, 1.0], 0.0, table.beta)
    return Examiner(
        stored, parse_or_refuse(claim.formula, ("s0", "s1"), "a claim's formula"), ("s0", "s1"), claim, (True, True)
    )


def float_above(x: arb) -> float:
    return 0.0 if x.is_zero() else math.nextafter(float(x.upper()), math.inf)


def _power_of_two(x: float) -> bool:
    return math.isfinite(x) and abs(math.frexp(x)[0]) == 0.5
