"""UA-12: a step of gradient descent for any continuously differentiable loss l(w . x_i, y_i), by anchors in two
dimensions.

Anchors (a_j, b_j) score 2 beta (a_j w . x_i + b_j y_i) - beta |(a_j, b_j)|^2 and have the values l'(a_j, b_j) u_i; a
sample sees its own block of keys, as in AE-1. Faithful: a grid of anchors with the values of l' there. Its softmax is
the product of two, one along each axis, so what a sharp one picks is the nearest anchor of the grid. The proof is by
Taylor models on boxes, whose number grows with beta. Spectral: anchors of two dimensions with fitted values.
Statement, source and deviations: `weightwright theorems UA-12`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from weightwright.approximation.faithful_tables import split_beta
from weightwright.claims.certificate import Terms, vector_formula
from weightwright.claims.leaf import VectorLeaf
from weightwright.claims.prompt import Summand
from weightwright.enclosures.intervals.jets import values_at
from weightwright.errors import FormulaError, ToleranceError
from weightwright.expressions import differentiate, parse, to_text
from weightwright.expressions.mistakes import read_formula
from weightwright.incontext.networks.descent_network import Ranges
from weightwright.incontext.networks.prompted import PromptTable
from weightwright.incontext.networks.slopes import Slope, beyond, spectral_slope, vector_slope, with_slopes
from weightwright.numbers import Floats, rounded
from weightwright.papers.descent.probes import along, of_both
from weightwright.papers.descent.steps import in_context_step
from weightwright.papers.kit.arguments import known_method, positive, whole
from weightwright.papers.kit.constructed import Method, proven_bound, within
from weightwright.progress import show_progress
from weightwright.prover.vector import Goal, prove_vector
from weightwright.prover.vector_rounding import VectorAnchors
from weightwright.runtime import AttentionNetwork

#: beta dL^2 of the faithful grid: at an anchor its neighbours weigh e^-4 each, and boxes are few.
SHARPNESS = 4.0
#: Spacings along an axis: of the grid that is tried first for a tolerance, and of the finest one that is tried.
FIRST_P, MOST_P = 2, 16
#: What is asked of the proof, as a multiple of the error on a grid of points; and the most boxes.
_GOAL, _BOXES, _POINTS = 1.25, 2**13, 129


def in_context_step_of_pairs(
    loss: str,
    n: int,
    d: int,
    ranges: Ranges,
    *,
    tol: float | None = None,
    P: int | None = None,
    sharpness: float = SHARPNESS,
    method: Method = "faithful",
    dtype: str = "float64",
) -> AttentionNetwork:
    """Prompt (n, 3d + 1), tokens (x_i, u_i, y_i, w) -> (1, d): w - sum_i l'(w . x_i, y_i) u_i, u_i = eta x_i / n.

    loss: a formula in x = w . x and y; l' is its derivative in x.
    P: faithful: a grid of (P + 1)^2 anchors; give it, or tol.
    tol: the error of a step. Faithful: the coarsest grid of up to 17^2 anchors that is tried and proven within it.
    sharpness: faithful: how sharply the nearest anchor is picked; more leaks less and needs a larger beta.
    Hypotheses, checked: d |x| |w| and |y| are within the reach, the larger of the two that `ranges` allow.
    Error: `net.certificate.bound`. Cost: 5 layers, 1 head, n (P + 1)^2 scores.

    >>> loss = "(1 + y**2)*softplus(x)"
    >>> net = in_context_step_of_pairs(loss, 2, 1, Ranges(1, 1, 1, 0.25), tol=1e-3, method="spectral")
    >>> net.certificate.status, net.certificate.bound <= 1e-3
    ('PROVEN', True)
    """
    formula = to_text(differentiate(read_formula(loss, ("x", "y"))))
    reach = max(d * ranges.x * ranges.w, ranges.y)
    if method == "spectral":
        if P is not None or tol is None:
            raise ValueError("P follows from the fit for method='spectral'; give tol")
        positive("tol", tol)
        slope = vector_slope(formula, beyond(reach), tol / (2 * n * ranges.value), dtype)
        net = in_context_step(slope, of_both(formula), n, d, ranges, method=method, id="UA-12", dtype=dtype)
        return within(net, tol)
    known_method(method)
    if (tol is None) == (P is None):
        raise ValueError(f"give either tol or P for method='faithful', not both and not neither: tol={tol!r}, P={P!r}")
    positive("tol", tol)
    whole("P", P, 1, " spacings along each axis")
    positive("sharpness", sharpness)

    def on_grid(P: int) -> AttentionNetwork:
        slope = grid_slope(formula, reach, P, sharpness, dtype)
        chosen = {"P": float(P), "beta": sharpness / (2 * reach / P) ** 2}
        return in_context_step(
            slope, of_both(formula), n, d, ranges, method="faithful", chosen=chosen, id="UA-12", dtype=dtype
        )

    return on_grid(P) if P is not None else _fine_enough(on_grid, float(tol or 0.0))


def _fine_enough(on_grid: Callable[[int], AttentionNetwork], tol: float) -> AttentionNetwork:
    """The network of the first grid within tol: the error falls as 1/P, so each bound says which P to try next."""
    P, best = FIRST_P, math.inf
    with show_progress(True, f"looking for a grid within tol={tol:g}") as tell:
        while P <= MOST_P:
            tell(f"proving a grid of {P + 1} by {P + 1} anchors")
            net = on_grid(P)
            bound = proven_bound(net)
            best = min(best, bound)
            if best <= tol:
                return net
            P = max(P + 1, math.ceil(P * bound / tol * 0.98))
    raise ToleranceError(
        f"tol={tol:g} takes a grid of about {P} spacings along each axis, and at most {MOST_P} are proven:"
        f" {best:.3g} is the best that was; method='spectral' proves it with fewer anchors",
        best,
    )


def logistic_step(n: int, d: int, ranges: Ranges, tol: float = 1e-12, dtype: str = "float64") -> AttentionNetwork:
    """The same for log(1 + e^(-y w . x)), y = 1 or -1: the prompt holds y_i x_i for x_i and 0 for y_i, and two keys
    give -sigmoid(-w . y_i x_i) exactly.

    >>> net = logistic_step(4, 2, Ranges(1, 1, 1, 0.125))
    >>> net.about.chosen["anchors a sample"], net.certificate.bound < 1e-13
    (2.0, True)
    """
    margin, f = (1.0, 0.0), "-sigmoid(-x)"
    slope = spectral_slope(f, margin, beyond(d * ranges.x * ranges.w), tol, dtype)
    return in_context_step(slope, along(f, margin), n, d, ranges, method="spectral", id="UA-12", dtype=dtype)


@functools.lru_cache(maxsize=8)
def grid_slope(formula: str, reach: float, P: int, sharpness: float, dtype: str) -> Slope:
    """(P + 1)^2 anchors on [-reach, reach]^2 with the formula's values, beta = sharpness / dL^2."""
    axis = np.linspace(-reach, reach, P + 1)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    power, factor = split_beta(2 * sharpness / (2 * reach / P) ** 2, dtype)
    keys, offsets = (rounded(array, dtype) for array in (factor * grid, -factor * (grid**2).sum(axis=1) / 2))
    at_anchors = rounded(values_at(parse(formula, ("x", "y")), ("x", "y"), grid), dtype)
    if not np.isfinite(at_anchors).all():
        where = grid[~np.isfinite(at_anchors)][0].tolist()
        raise FormulaError(f"the slope {formula} is undefined at (w.x, y) = {where}: take a smaller range")
    table = PromptTable(
        keys[:, 0], keys[:, 1], offsets, at_anchors, power, 1.0, 0.0, f"{formula} of w.x and y, nearest anchor"
    )
    return Slope((Summand(formula, None, 1.0, 1, _claim(formula, table, beyond(reach), dtype)),), (table,))


def _claim(formula: str, table: PromptTable, reach: float, dtype: str) -> VectorLeaf:
    meant = vector_formula(parse(formula, ("x", "y")), (0.0, 0.0), (1.0, 1.0), Fraction(0))
    local = parse(to_text(meant), ("s0", "s1"))
    keys = np.stack([table.along, table.across], axis=1)
    head = VectorAnchors(table.beta * keys, keys, table.beta * table.offsets, table.values, -math.inf)
    lo, hi = np.full(2, -reach), np.full(2, reach)
    measured = _largest_error(formula, head, reach)
    proof = prove_vector(head, local, lo, hi, dtype, Goal(_GOAL * measured, 2 * _GOAL * measured, _BOXES))
    if not (proof.complete and math.isfinite(proof.terms.approximation)):
        raise ToleranceError(
            f"the error {measured:.3g} of {len(keys)} anchors for {formula} cannot be proven with {_BOXES:,} boxes;"
            " take a smaller P, a smaller sharpness, or method='spectral'"
        )
    terms = Terms(proof.terms.approximation, 0.0, proof.terms.rounding)
    return with_slopes(VectorLeaf(0, to_text(local), lo, hi, "taylor", proof.boxes, terms, np.zeros(2)))


def _largest_error(formula: str, head: VectorAnchors, reach: float) -> float:
    """On a grid of points, in plain floats."""
    axis = np.linspace(-reach, reach, _POINTS)
    s: Floats = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    scores = s @ head.slopes.T + head.offsets
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    found = (weights @ head.values) / weights.sum(axis=1)
    return float(np.abs(found - values_at(parse(formula, ("x", "y")), ("x", "y"), s)).max())
