"""UA-4: an explicit ReLU network from bump functions on a grid."""

from __future__ import annotations

from weightwright.papers.grids.certified import GridRequest, certified_grid, choose_grid, refuse_beyond
from weightwright.papers.grids.grid_points import Grid, bump_network
from weightwright.papers.grids.grid_targets import Function
from weightwright.runtime import AttentionNetwork

NOTES = (
    "the ramps of one number are stored once and shared by all cells: 4 N g units, not 4 N g^N",
    "the shells have the volume (2B)^N (1 - (1-delta)^N), not B^N (...) as printed",
)


def bumps(
    f: Function,
    n: int,
    d: int,
    *,
    B: float = 1.0,
    tol: float | None = None,
    g: int | None = None,
    delta: float | None = None,
    norm: float = 1.0,
    lipschitz: float | None = None,
    max_cells: int = 20_000,
) -> AttentionNetwork:
    """FFN(x) = sum over the grid points v of f(v) relu(R_v(x) - N + 1): within `bound` of f in L_p on [-B, B]^N.

    Statement: for a continuous f and any tolerance there is such a network, two hidden layers of ReLU. R_v(x) =
    sum_i phi(x_i, v_i), phi = 1 on the core |x_i - v_i| <= (1-delta) B/g, 0 outside of the cell, linear between. So a
    bump is 1 on its core, between 0 and 1 on its shell, and 0 elsewhere: at most one counts anywhere.

    Source: universal approximation paper, Lemma 3.11, (G.33) to (G.40); deviations: `weightwright theorems UA-4`.

    f: a formula in x0, x1, ... (the numbers token by token), a function of n d numbers that can be traced, or a
    function of arrays (count, n, d) -> (count,), whose error is proven if `lipschitz` (in the infinity norm) is stated,
    and measured if not. tol, in the L_p norm of `norm`, or g; delta is g^-2 unless given, and an
    8th of it for every number beyond two.
    Hypotheses, each checked: f is defined and bounded on the domain; B > 0; 0 < delta < 1; no more than max_cells
    cells, else BudgetError.

    Shapes: X (n, d) -> (1, 1). The stream: x[.] all numbers on one token; then phi of every number and grid line; then
    the output.
    Error: sup |f - f(v)| over the cores, what can happen on the shells, and rounding, about 1e-16 g^N / delta.
    Cost: no heads, 2 feed-forward layers of 4 N g and g^N units, largest weight about g / (delta B).

    >>> net = bumps("x0*x1", n=2, d=1, g=4)
    >>> net.certificate.status, f"{net.certificate.bound:.3f}", f"{net.about.bounds['exceptional']:.3f}"
    ('PROVEN', '1.295', '0.484')
    """
    asked = GridRequest("UA-4", "bumps", f, n, d, B, tol, g, delta, norm, lipschitz)

    def within_budget(grid: Grid) -> None:
        refuse_beyond(grid, "units", 1, 8 * (grid.N * grid.g + 3), max_cells, "max_cells")

    grid, values = choose_grid(asked, within_budget)
    chosen = {"units": 4 * grid.N * grid.g + grid.cells}
    return certified_grid(asked, grid, bump_network(grid, values), values, None, chosen, {}, NOTES)
