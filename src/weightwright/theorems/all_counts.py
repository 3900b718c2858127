"""UA-14: the exact counts of every construction, beside the paper's orders."""

from __future__ import annotations

import dataclasses

from weightwright.theorems.kit.instance import Check, Instance
from weightwright.theorems.registry import THEOREMS


def small() -> Instance:
    """The counts of all other theorems' small instances; the "error" is the largest difference from a formula."""
    counts = tuple(
        dataclasses.replace(count, what=f"{theorem.id} {count.what}")
        for theorem in THEOREMS.values()
        if theorem.id.startswith(("UA-", "AE-")) and theorem.id != "UA-14"
        for count in theorem.instance().counts
    )
    difference = max((abs(count.value - count.built) for count in counts), default=0)
    notes = (f"{len(counts)} counts; what was found is the largest difference between a formula and a network",)
    return Instance(checks=(Check("formulas", "MEASURED", None, float(difference), notes=notes),), counts=counts)
