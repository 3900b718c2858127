"""What UA-4 to UA-7 share: arguments, parameters from a tolerance, the budget, certificates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from weightwright.box import Box
from weightwright.certify import confirm
from weightwright.claims.certificate import Certificate, Leaf, MeasuredClaim, measured_certificate
from weightwright.claims.files import network_digest
from weightwright.errors import BudgetError, DomainError, FormulaError
from weightwright.expressions import parse
from weightwright.network import Network
from weightwright.numbers import Floats
from weightwright.papers.claims.cell_grid import GridClaim, Kind
from weightwright.papers.grids.estimates import SAMPLES, SEED, lp_norm, probes, run, say_if_void
from weightwright.papers.grids.grid_points import Grid
from weightwright.papers.grids.grid_targets import Function, GridTarget, scalar_target, sequence_target
from weightwright.papers.kit.arguments import positive, whole
from weightwright.papers.kit.constructed import About
from weightwright.papers.prover.grid import (
    GridCells,
    bump_gap,
    bump_rounding,
    cell_errors,
    exceptional_volume,
    grid_terms,
    pick_errors,
    ramp_reach,
    stated_errors,
)
from weightwright.prover import Anchors, prove_nearest
from weightwright.prover.machine import assumptions
from weightwright.runtime import AttentionNetwork

RAMP = "clip(s, 0, 1)"
#: Weight on other cells that beta is chosen for, and how far below it the anchors' own tail is put.
TAIL, ANCHOR_SCORE = 1e-9, 16.0


@dataclass(frozen=True)
class GridRequest:
    """The arguments that all grid constructions share, checked."""

    id: str
    kind: Kind
    f: Function | Sequence[str]
    n: int
    d: int
    B: float
    tol: float | None
    g: int | None
    delta: float | None
    norm: float
    lipschitz: float | None
    sequence: bool = False  # whether the outputs are n tokens of d features, too

    def __post_init__(self) -> None:
        for name in ("n", "d", "g"):
            whole(name, getattr(self, name), 1)
        if not (_is_number(self.B) and 2.0**-200 <= self.B <= 2.0**200):
            raise DomainError(f"B must be a positive number between 2^-200 and 2^200, not {self.B!r}")
        if (self.tol is None) == (self.g is None):
            raise ValueError(f"give tol or g, one of the two: tol={self.tol!r}, g={self.g!r}")
        positive("tol", self.tol)
        if self.delta is not None and not (_is_number(self.delta) and 2.0**-30 <= self.delta < 1):
            raise ValueError(f"delta must lie in (0, 1), and not below 2^-30, not at {self.delta!r}")
        if not (_is_number(self.norm) and 1 <= self.norm <= 64):
            raise ValueError(f"norm must be the p of an L_p norm, from 1 to 64, not {self.norm!r}")
        if self.lipschitz is not None and not (_is_number(self.lipschitz) and self.lipschitz >= 0):
            raise ValueError(f"lipschitz must be a finite number at or above 0, not {self.lipschitz!r}")

    @cached_property
    def target(self) -> GridTarget:
        read: Callable[[Any, int, int], GridTarget] = sequence_target if self.sequence else scalar_target
        return read(self.f, self.n, self.d)

    @property
    def shape(self) -> tuple[int, int]:
        """Of an output."""
        return (self.n, self.d) if self.sequence else (1, 1)

    def grid(self, g: int) -> Grid:
        """delta = g^-2 where none is given, and an 8th of it for every number beyond two: the shells, N delta of all of
        the volume, then cost less than the cores. Not below 2^-16, where scores of bump heads begin to round much."""
        N = self.n * self.d
        delta = max(1 / max(g, 2) ** 2 * 8.0 ** -max(N - 2, 0), 2.0**-16) if self.delta is None else self.delta
        return Grid(self.n, self.d, g, float(delta), float(self.B))

    def reference(self, X: Floats) -> Floats:
        return self.target(X).reshape(len(X), *self.shape)


def _is_number(x: object) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)


def cells_of(grid: Grid) -> GridCells:
    return GridCells(grid.g, grid.delta, grid.B, grid.indices())


def values_at_points(grid: Grid, target: GridTarget) -> Floats:
    """(outputs, G); FormulaError where a formula has no finite value."""
    points = grid.points()
    values = target(points).T
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        k, v = wrong[0]
        raise FormulaError(f"{target.formulas[k]} is undefined or infinite at {points[v].ravel().tolist()}")
    return values


def choose_grid(asked: GridRequest, within_budget: Callable[[Grid], None]) -> tuple[Grid, Floats]:
    """The grid that was asked for, or about the coarsest whose proposed bound meets the tolerance; and the values."""
    target = asked.target
    if target.expressions is not None and asked.lipschitz is not None:
        raise ValueError(f"lipschitz is for functions that are no formulas, and {target.formulas[0]} is one")
    if target.expressions is None and asked.lipschitz is None and asked.g is None:
        raise ValueError(f"{target.formulas[0]} is no formula: tol needs lipschitz; with g its error is measured")
    g = asked.g or 1
    while True:
        grid = asked.grid(g)
        within_budget(grid)
        values, cells = values_at_points(grid, target), cells_of(grid)
        if asked.tol is None:
            return grid, values
        bound = grid_terms(cells, *errors_on_cells(asked, cells, values), 0.0, 0.0, asked.norm)[1]
        if bound <= asked.tol * (1 - 1e-4):
            return grid, values
        g = max(g + 1, math.ceil(0.8 * g * bound / asked.tol) if g > 2 else g + 1)


def errors_on_cells(asked: GridRequest, cells: GridCells, values: Floats) -> tuple[Floats, Floats]:
    """(core, shell), each (outputs, G); FormulaError where a formula is undefined. Values (outputs, G)."""
    target, both = asked.target, []
    for k, row in enumerate(values):
        if target.expressions is not None:
            found = cell_errors(target.expressions[k], target.names, cells, row, asked.kind)
        else:
            lipschitz = asked.lipschitz or 0.0
            accuracy = target.accuracy(values, lipschitz, cells.B)
            found = stated_errors(cells, row, asked.kind, lipschitz, accuracy)
        wrong = np.flatnonzero(~(np.isfinite(found[0]) & np.isfinite(found[1])))
        if len(wrong):
            at = (cells.B * ((2 * cells.indices[wrong[0]] + 1) / cells.g - 1)).tolist()
            raise FormulaError(
                f"{target.formulas[k]} is undefined, unbounded or defined no further than the edge of the domain in the"
                f" cell around {at}"
            )
        both.append(found)
    return np.stack([core for core, _ in both]), np.stack([shell for _, shell in both])


def refuse_beyond(grid: Grid, what: str, count_per_cell: int, bytes_per_cell: float, limit: int, name: str) -> None:
    """BudgetError, with the numbers in words, before anything is allocated."""
    digits = grid.N * math.log10(grid.g)
    if digits < 15 and count_per_cell * grid.cells <= limit:
        return

    def many(each: float) -> str:
        if digits < 15:
            return f"{math.ceil(each * grid.g**grid.N):,}"
        return f"about 1e{digits + math.log10(each):.0f}"

    raise BudgetError(
        f"g = {grid.g} cells along each of {grid.N} numbers are {many(1)} cells: {many(count_per_cell)} {what}, more"
        f" than {name}={limit:,}, and at least {many(bytes_per_cell)} bytes; the count grows as g^(nd)"
    )


def ramp_claim(cells: GridCells, p: int, beta: float) -> Leaf:
    """What the prover says of a bump head with p anchors."""
    L = np.arange(p) / p
    reach = ramp_reach(cells)
    anchors = Anchors(beta * L, -beta * L**2 / 2, L, np.zeros(p), True, -(2.0**20))
    proof = prove_nearest(anchors, parse(RAMP, ("s",)), -reach, reach, "float64")
    return Leaf(0, RAMP, -reach, reach, "nearest", proof.boxes, proof.terms, proof.lipschitz)


def power_of_two_above(x: float) -> float:
    return 2.0 ** math.ceil(math.log2(x))


@dataclass(frozen=True)
class PickedGrid:
    """The parameters of a softmax over bumps."""

    p: int
    beta_bumps: float
    beta: float
    head: Leaf
    gap: float


def pick_parameters(cells: GridCells, n: int, p: int | None, beta: float | None) -> PickedGrid:
    """p anchors so that the bumps' errors leave a gap, beta so large that the softmax picks the largest of them."""
    wanted = 16 * cells.N if p is None else p
    if type(wanted) is not int or wanted < 3:
        raise ValueError(f"p must be a whole number of at least 3, not {p!r}")
    beta_bumps = power_of_two_above(2 * wanted**2 * ANCHOR_SCORE)
    head = ramp_claim(cells, wanted, beta_bumps)
    gap = bump_gap(cells, n, head)
    if not math.isfinite(gap):
        raise ValueError(
            f"delta = {cells.delta!r} with g = {cells.g} and p = {wanted} makes ramps so steep that scores of the bump"
            " heads round too much for a proof; a larger delta or fewer anchors p do not"
        )
    if not gap > 0:
        raise ValueError(
            f"p = {wanted} anchors leave bumps with errors of {(1 - gap) / 2:.3g} each: nothing remains of the gap of 1"
            f" between the largest and the second; it takes more than 4 n d = {4 * cells.N}"
        )
    if beta is None:
        beta = power_of_two_above(max(math.log(len(cells.indices) / TAIL) / gap, 1.0))
    elif not (_is_number(beta) and beta > 0 and math.frexp(beta)[0] == 0.5):
        raise ValueError(f"beta must be a power of two, so that it multiplies exactly, not {beta!r}")
    return PickedGrid(wanted, beta_bumps, float(beta), head, gap)


def certify_grid(
    asked: GridRequest, grid: Grid, network: Network, values: Floats, picked: PickedGrid | None
) -> Certificate:
    """PROVEN by the checker on the saved file; MEASURED for a function that is no formula and states nothing."""
    target, norm = asked.target, float(asked.norm)
    domain = Box(np.full((grid.n, grid.d), -grid.B), np.full((grid.n, grid.d), grid.B))
    if target.expressions is None and asked.lipschitz is None:
        net = AttentionNetwork(network)
        error, half = lp_norm(lambda X: run(net, X) - target(X), grid, norm)
        how = f"a Monte-Carlo estimate of the L_{norm:g} norm, 95% half width {half:.3g}, seed {SEED}"
        said = target.formulas[0] if len(target.formulas) == 1 else f"({', '.join(target.formulas)})"
        measured = MeasuredClaim(error, SAMPLES, how, norm=norm)
        return measured_certificate(measured, said, domain, "float64", "dot", network_digest(network))
    cells = cells_of(grid)
    core, shell = errors_on_cells(asked, cells, values)
    if picked is None:
        leakage, rounding = 0.0, bump_rounding(cells, values)
    else:
        leakage, rounding = pick_errors(cells, values, picked.gap, picked.beta)
    terms, bound = grid_terms(cells, core, shell, leakage, rounding, asked.norm)
    lipschitz = None if target.expressions is not None else float(asked.lipschitz or 0.0)
    claim = GridClaim(
        kind=asked.kind,
        tokens=grid.n,
        features=grid.d,
        g=grid.g,
        delta=grid.delta,
        B=grid.B,
        formulas=target.formulas,
        core=core,
        shell=shell,
        leakage=leakage,
        rounding=rounding,
        exceptional=exceptional_volume(cells),
        norm=norm,
        head=picked.head if picked is not None else None,
        lipschitz=lipschitz,
        accuracy=0.0 if lipschitz is None else target.accuracy(values, lipschitz, grid.B),
    )
    words, digest, leans_on = claim.in_words(), network_digest(network), assumptions("float64", "dot") + claim.stated
    return confirm(network, Certificate(claim, words, domain, "float64", "dot", bound, terms, digest, leans_on))


def printed_parameters(asked: GridRequest, grid: Grid, values: Floats, certificate: Certificate) -> dict[str, float]:
    """g and delta by the proof of Lemma 3.11 for the same request (or the bound), and its volume, for the delta built.

    (G.38) asks for |f(v) - f(x)| <= eps / (2 (2B)^(N/p) mu^(1/p)) on the cores, of measure mu; (G.40) for a volume of
    the shells of at most eps^p / (2^(p+1) max |f|^p), which is printed as B^N (1 - (1-delta)^N).
    """
    N, p, B, claim = grid.N, asked.norm, grid.B, certificate.claim
    printed = {"exceptional": B**N * -math.expm1(N * math.log1p(-grid.delta))}
    if not isinstance(claim, GridClaim):
        return printed
    eps, largest = asked.tol or certificate.bound, float((np.abs(values) + claim.core).max())
    outside = min((eps / (2 * largest)) ** p / 2 / B**N, 1.0)
    slope = float(claim.core.max()) / ((1 - grid.delta) * B / grid.g)
    near = eps / (2 * (2 * B) ** (N / p) * ((1 - outside) * (2 * B) ** N) ** (1 / p)) if outside < 1 else math.inf
    return {"g": float(max(1, math.ceil(slope * B / near))), "delta": 1 - (1 - outside) ** (1 / N), **printed}


def certified_grid(
    asked: GridRequest,
    grid: Grid,
    network: Network,
    values: Floats,
    picked: PickedGrid | None,
    chosen: Mapping[str, float],
    printed: Mapping[str, float],
    notes: tuple[str, ...],
) -> AttentionNetwork:
    """The network with its certificate and what the construction says of it."""
    certificate = certify_grid(asked, grid, network, values, picked)
    net = AttentionNetwork(network, certificate)
    bounds = {"exceptional": exceptional_volume(cells_of(grid))}
    claim, size = certificate.claim, lp_norm(asked.target, grid, certificate.norm)[0]
    if isinstance(claim, GridClaim):
        above = 1 + 2.0**-50
        bounds |= {
            f"L{certificate.norm:g}": certificate.bound,
            "core": (float(claim.core.max()) + claim.leakage + claim.rounding) * above,
            "everywhere": (float(np.maximum(claim.core + claim.leakage, claim.shell).max()) + claim.rounding) * above,
            "exceptional": claim.exceptional,
        }
    net.about = About(
        asked.id,
        "faithful",
        {"g": grid.g, "delta": grid.delta, "B": grid.B, "norm": certificate.norm, **chosen},
        {**printed_parameters(asked, grid, values, certificate), **printed},
        bounds,
        asked.reference,
        probes(grid),
        (*notes, *say_if_void(certificate, size, grid)),
        size,
    )
    return net
