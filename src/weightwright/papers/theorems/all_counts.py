"""UA-14: the exact counts of every construction, beside the paper's orders; what of it is learnable, what is fixed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from weightwright.network.costs import count_learnable
from weightwright.papers.kit.instance import Check, Count, Instance
from weightwright.papers.theorems.registry import THEOREMS


def small() -> Instance:
    """The counts of all other theorems' small instances; the "error" is the largest difference from a formula."""
    counts = tuple(
        dataclasses.replace(count, what=f"{theorem.id} {count.what}")
        for theorem in THEOREMS.values()
        if theorem.id.startswith(("UA-", "AE-")) and theorem.id != "UA-14"
        for count in (*theorem.instance().counts, *_learnable(theorem.instance()))
    )
    difference = max((abs(count.value - count.built) for count in counts), default=0)
    notes = (
        f"{len(counts)} counts; what was found is the largest difference between a formula and a network",
        "learnable: stored numbers other than 0 and 1 (Remark E.2); the others are fixed by the construction",
    )
    return Instance(checks=(Check("formulas", "MEASURED", None, float(difference), notes=notes),), counts=counts)


def _learnable(instance: Instance) -> Iterator[Count]:
    """Of every network whose parameters are counted: all of them less those that are 0 or 1."""
    counted = {count.what for count in instance.counts}
    for name, net in instance.nets.items():
        if f"parameters, {name}" in counted:
            built, every = count_learnable(net.network), net.cost.parameters
            said = f"parameters less {every - built:,} fixed as 0 or 1"
            yield Count(f"learnable, {name}", said, built, built, "all parameters", float(every))
