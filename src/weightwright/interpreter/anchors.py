"""Tables of the identity for an interpreter: soft anchors on which w.x comes back as itself, whatever w and x."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from weightwright.approximation.proposals import Choice, Proposals, propose
from weightwright.approximation.task import make_task
from weightwright.box import Box
from weightwright.claims.leaf import Leaf
from weightwright.claims.program_claim import AnchorTable
from weightwright.heads.registers import Design, Table

#: Tolerances of the identity on [-1, 1] that are tried: rounding decides which is best.
SHARES = {"float64": (1e-2, 1e-5, 2e-8, 2e-10, 2e-12, 2e-13), "float32": (1e-2, 1e-3, 1e-4, 3e-5, 1e-5, 5e-6, 2e-6)}
#: The inverse temperature of the papers' experiment with hand-set weights.
FAITHFUL_BETA = 2.0
#: A bound on the slope of the identity, with room for how it is enclosed.
STEEPEST = 1 + 2.0**-20


def identity_tables(reach: float, dtype: str, most: int) -> list[AnchorTable]:
    """Tables of at most `most` anchors that return s for |s| <= reach, from coarse to fine. Their claims say nothing of
    rounding yet, which depends on the sizes of w and x."""
    return [_scaled(table, reach) for table in _unit_tables(dtype, most)]


@functools.lru_cache(maxsize=64)
def _unit_tables(dtype: str, most: int) -> tuple[AnchorTable, ...]:
    """For |s| <= 1."""
    found = []
    for share in SHARES[dtype]:
        task = make_task("x", Box.of((-1.0, 1.0)), share, dtype, 0.0, False, None)
        proposal = next(iter(Proposals(task, Choice(most=most, bare=True))), None)
        if proposal is not None:
            table, scale, leaf = proposal.design.tables[0], proposal.query.scale, proposal.leaf
            terms = dataclasses.replace(leaf.terms, rounding=0.0)
            claim = Leaf(0, "s", -1.0, 1.0, "taylor", leaf.boxes / scale, terms, STEEPEST)
            found.append(AnchorTable(table.keys * scale, table.offsets, table.values, table.beta, claim))
    return tuple(found)


def faithful_table(reach: float, grid: float, anchors: int, dtype: str) -> AnchorTable | None:
    """The papers' anchors: evenly from -grid to grid, each its own value, at their beta; None where nothing of them can
    be proven for |s| <= reach."""
    task = make_task("x", Box.of((-reach, reach)), reach, dtype, 0.0, False, None)
    L = np.linspace(-grid, grid, anchors)
    scale = task.query.scale
    table = Table(2 * L / scale, -(L**2), L, FAITHFUL_BETA).rounded(dtype)
    found = propose(task, Design((table,), ("the papers' anchors",), 0.0), "taylor", np.zeros(0), np.zeros((0, 2)))
    if found is None:
        return None
    terms = dataclasses.replace(found.leaf.terms, rounding=0.0)
    claim = Leaf(0, "s", -reach, reach, "taylor", (found.leaf.boxes / scale).clip(-reach, reach), terms, STEEPEST)
    return AnchorTable(table.keys * scale, table.offsets, table.values, table.beta, claim)


def _scaled(table: AnchorTable, reach: float) -> AnchorTable:
    """The same scores for s as the unit table has for s / 2^k, 2^k being the next power of two: all exact."""
    power = 2.0 ** math.ceil(math.log2(reach))
    terms = table.claim.terms
    terms = dataclasses.replace(terms, approximation=power * terms.approximation, leakage=power * terms.leakage)
    boxes = (power * table.claim.boxes).clip(-reach, reach)
    boxes = boxes[boxes[:, 0] < boxes[:, 1]]
    claim = dataclasses.replace(table.claim, lo=-reach, hi=reach, boxes=boxes, terms=terms)
    return AnchorTable(table.kappa / power, table.offsets, power * table.values, table.beta, claim)
