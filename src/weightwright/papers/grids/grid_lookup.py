"""UA-5 to UA-7: functions of a whole sequence by a layer of bump heads, and a lookup of the largest bump.

UA-5 and UA-6 have one output, UA-7 a lookup for each entry of a sequence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weightwright.papers.grids.certified import (
    TAIL,
    GridRequest,
    cells_of,
    certified_grid,
    choose_grid,
    pick_parameters,
    refuse_beyond,
)
from weightwright.papers.grids.grid_points import Grid, attention_network
from weightwright.papers.grids.grid_targets import Function
from weightwright.papers.grids.spectral_lookup import spectral
from weightwright.papers.kit.arguments import known_method
from weightwright.papers.kit.constructed import Method
from weightwright.runtime import AttentionNetwork

MAX_HEADS = 4096
NOTES = (
    "the shift that the printed bump heads lack is there: Range[0,1]((g (x - v)/B + 1)/delta) and its mirror image",
    "the bumps stay features of one token, so that scores are beta R_v: no columns are multiplied or added up",
    "the last softmax is controlled by the gap between the two largest bumps, 1 - 4 n d e0, e0 a head's error",
    "what the bump heads of a cell write is added up by the layer, over tokens by a linear map: 2 d g^(nd) heads",
)


def sequence_to_scalar(
    f: Function,
    n: int,
    d: int,
    *,
    B: float = 1.0,
    tol: float | None = None,
    g: int | None = None,
    delta: float | None = None,
    p: int | None = None,
    beta: float | None = None,
    norm: float = 1.0,
    lipschitz: float | None = None,
    max_heads: int = MAX_HEADS,
    method: Method = "faithful",
) -> AttentionNetwork:
    """Two attention layers within `bound` of f in L_p on [-B, B]^(n x d): bumps, then a lookup.

    Statement: for a continuous f and any tolerance there are a multi-head and a single-head layer, with linear maps
    around them, that are within it in L_p. The head (v, c, +-) of the first layer computes on token i the ramp
    Range[0,1]((+-g (x_ic - v_ic)/B + 1)/delta) with p anchors; the ramps of v add up to R_v, 2 n d on the core of v and
    at most 2 n d - 1 on all others; the head of the second layer has scores beta R_v and values f(v).

    Source: universal approximation paper, Lemma 3.12, (G.45) to (G.53); deviations: `weightwright theorems UA-5`.

    f, tol or g, delta: as in `bumps`. p is 16 n d, beta for a weight of 1e-9 on other cells, unless given.
    method="spectral" is ours, for a tol and up to three numbers: see `spectral_lookup.spectral`.
    Hypotheses, each checked: f is defined and bounded on the domain; B > 0; 0 < delta < 1; p leaves a gap (p > 4 n d);
    no more than max_heads heads, else BudgetError before anything is allocated.

    Shapes: X (n, d) -> (1, 1). The stream: see `attention_network`.
    Error: on a core |f(x) - f(v)| plus the tail times the spread of the values; on a shell the network returns a mean
    of values, and nothing more is used; rounding. `about.bounds` has the pointwise ones.
    Cost: 2 layers, 2 d g^(nd) + 1 heads, p + g^(nd) registers, width d + n + g^(nd) + 5.

    >>> net = sequence_to_scalar("x0*x1", n=2, d=1, g=4)
    >>> net.certificate.status, f"{net.certificate.bound:.3f}", f"{net.about.bounds['core']:.3f}"
    ('PROVEN', '1.568', '0.408')
    """
    asked = GridRequest("UA-5", "lookup", f, n, d, B, tol, g, delta, norm, lipschitz)
    return by_method(asked, method, p, beta, max_heads)


def sequence_to_scalar_softmax(
    f: Function,
    n: int,
    d: int,
    *,
    B: float = 1.0,
    tol: float | None = None,
    g: int | None = None,
    delta: float | None = None,
    p: int | None = None,
    beta: float | None = None,
    norm: float = 1.0,
    lipschitz: float | None = None,
    max_heads: int = MAX_HEADS,
    method: Method = "faithful",
) -> AttentionNetwork:
    """The same with one attention layer: a softmax over the bumps, and a linear map with the values f(v).

    Source: universal approximation paper, Lemma 3.13, (G.54), (G.55); deviations: `weightwright theorems UA-6`.
    Arguments, hypotheses and error terms: as in `sequence_to_scalar`.
    Cost: 1 layer, 2 d g^(nd) heads, p registers, width d + n + g^(nd) + 3.

    >>> net = sequence_to_scalar_softmax("x0*x1", n=2, d=1, g=4)
    >>> net.certificate.status, f"{net.certificate.bound:.3f}"
    ('PROVEN', '1.568')
    """
    asked = GridRequest("UA-6", "softmax", f, n, d, B, tol, g, delta, norm, lipschitz)
    return by_method(asked, method, p, beta, max_heads)


def by_method(
    asked: GridRequest, method: Method, p: int | None, beta: float | None, max_heads: int
) -> AttentionNetwork:
    """What UA-5, UA-6 and UA-7 have in common: choose, build, prove."""
    known_method(method)
    if method == "spectral":
        if not (asked.delta is None and p is None and beta is None):
            raise ValueError("method='spectral' takes tol; g, delta, p and beta are for method='faithful'")
        return spectral(asked)

    def within_budget(grid: Grid) -> None:
        each = 2 * grid.d
        bytes_each = each * 6 * 8 * min(float(grid.g) ** grid.N, 1e300)
        refuse_beyond(grid, "heads", each, bytes_each, max_heads, "max_heads")

    grid, values = choose_grid(asked, within_budget)
    picked = pick_parameters(cells_of(grid), grid.n, p, beta)
    chosen = {"p": picked.p, "beta_bumps": picked.beta_bumps, "beta": picked.beta}
    network = attention_network(
        grid, values, picked.p, picked.beta_bumps, picked.beta, asked.kind == "lookup", asked.sequence
    )
    # Remark E.1 has p = g^(nd); Lemma F.1 the beta for the gap of 1 that (G.53) takes for granted
    printed = {"p": float(grid.cells), "beta": math.log(max(grid.cells - 1, 1) / TAIL)}
    return certified_grid(asked, grid, network, values, picked, {**chosen, "gap": picked.gap}, printed, NOTES)


def sequence_to_sequence(
    f: Function | Sequence[str],
    n: int,
    d: int,
    *,
    B: float = 1.0,
    tol: float | None = None,
    g: int | None = None,
    delta: float | None = None,
    p: int | None = None,
    beta: float | None = None,
    norm: float = 1.0,
    lipschitz: float | None = None,
    max_heads: int = MAX_HEADS,
    method: Method = "faithful",
) -> AttentionNetwork:
    """Two attention layers within `bound` of f: [-B, B]^(n x d) -> R^(n x d), in L_p over all entries.

    Statement: for a continuous f and any tolerance there are two multi-head layers, with linear maps around them, that
    are within it. The bumps do not depend on f: the first layer is that of `sequence_to_scalar`; the second has n d
    heads, each with the scores beta R_v and the values f_ij(v) of one entry.

    Source: universal approximation paper, Theorem 3.14, (G.56) to (G.58); deviations: `weightwright theorems UA-7`.

    f: n d formulas in x0, x1, ..., token by token; a function of n d numbers that returns n d; or one of arrays
    (count, n, d) -> (count, n, d), with `lipschitz` for every entry. The norm is that of all entries together,
    (integral of the sum of |error_ij|^p)^(1/p). Other arguments, hypotheses and error terms: `sequence_to_scalar`.

    Shapes: X (n, d) -> (n, d).
    Cost: 2 layers, 2 d g^(nd) + n d heads, p + g^(nd) registers, width d + n + g^(nd) + 3 + 2 n d.

    >>> net = sequence_to_sequence(["max(x0, x1)", "min(x0, x1)"], n=2, d=1, g=4)
    >>> net.certificate.status, f"{net.certificate.bound:.3f}"
    ('PROVEN', '3.113')
    """
    asked = GridRequest("UA-7", "lookup", f, n, d, B, tol, g, delta, norm, lipschitz, sequence=True)
    return by_method(asked, method, p, beta, max_heads)


def sequence_to_sequence_softmax(
    f: Function | Sequence[str],
    n: int,
    d: int,
    *,
    B: float = 1.0,
    tol: float | None = None,
    g: int | None = None,
    delta: float | None = None,
    p: int | None = None,
    beta: float | None = None,
    norm: float = 1.0,
    lipschitz: float | None = None,
    max_heads: int = MAX_HEADS,
    method: Method = "faithful",
) -> AttentionNetwork:
    """The same with one attention layer, a softmax over the bumps and a linear map with the values f_ij(v).

    Source: universal approximation paper, Corollary 3.15. Deviations and arguments: `sequence_to_sequence`.
    Cost: 1 layer, 2 d g^(nd) heads, p registers, width d + n + g^(nd) + 3.

    >>> net = sequence_to_sequence_softmax(["max(x0, x1)", "min(x0, x1)"], n=2, d=1, g=4)
    >>> net.certificate.status, f"{net.certificate.bound:.3f}"
    ('PROVEN', '3.113')
    """
    asked = GridRequest("UA-7", "softmax", f, n, d, B, tol, g, delta, norm, lipschitz, sequence=True)
    return by_method(asked, method, p, beta, max_heads)
