"""Designs for a formula with kinks: steps for its jumps beside gates or one-sided keys for its bends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weightwright.compiler.designs import AIMS
from weightwright.compiler.gates import Gates
from weightwright.compiler.kinked import Kinked, Sees
from weightwright.compiler.one_sided import OneSided
from weightwright.heads.assemble import Design


def kinked_designs(kinked: Kinked, most: int, sees: Sees) -> Iterator[Design]:
    """Everything worth proving, fewest keys first."""
    continuous = Gates(kinked, most) if sees == "self" else OneSided(kinked, most)
    for share in AIMS:
        aim = share * kinked.task.tol
        tables, roles = kinked.step_tables(aim / (4 * max(len(kinked.steps), 1)))
        for rest in continuous.designs(aim if not tables else aim / 2):
            design = replace(rest, tables=(*rest.tables, *tables), roles=(*rest.roles, *roles))
            if 0 < design.size <= most:
                yield design
