"""Tables of the identity for an interpreter: soft anchors on which w.x comes back as itself, whatever w and x."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from weightwright.approximation.proposals import Choice, Proposals
from weightwright.approximation.task import make_task
from weightwright.box import Box
from weightwright.claims.leaf import Leaf, Terms
from weightwright.claims.program_claim import AnchorTable

#: Tolerances of the identity that are tried, as shares of its range: rounding decides which is best.
SHARES = {"float64": (1e-2, 1e-5, 2e-8, 2e-10, 2e-12, 2e-13), "float32": (1e-2, 1e-3, 1e-4, 3e-5, 1e-5, 5e-6, 2e-6)}
#: A bound on the slope of the identity, with room for how it is enclosed.
STEEPEST = 1 + 2.0**-20


@functools.lru_cache(maxsize=64)
def identity_tables(reach: float, dtype: str, most: int) -> tuple[AnchorTable, ...]:
    """Tables of at most `most` anchors that return s for |s| <= reach, from coarse to fine. Their claims say nothing of
    rounding yet, which depends on the sizes of w and x."""
    found = []
    for share in SHARES[dtype]:
        found += list(_tables(reach, share * reach, dtype, most))
    return tuple(found)


def _tables(reach: float, tol: float, dtype: str, most: int) -> Iterator[AnchorTable]:
    task = make_task("x", Box.of((-reach, reach)), tol, dtype, 0.0, False, None)
    for proposal in Proposals(task, Choice(most=most, bare=True)):
        table, scale, leaf = proposal.design.tables[0], proposal.query.scale, proposal.leaf
        claim = Leaf(0, "s", -reach, reach, "taylor", leaf.boxes / scale, _without_rounding(leaf.terms), STEEPEST)
        claim = dataclasses.replace(claim, boxes=claim.boxes.clip(-reach, reach))
        yield AnchorTable(table.keys * scale, table.offsets, table.values, table.beta, claim)
        return


def _without_rounding(terms: Terms) -> Terms:
    return dataclasses.replace(terms, rounding=0.0)
