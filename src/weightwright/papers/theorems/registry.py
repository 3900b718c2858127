"""Every theorem by its id, in the order in which they are listed. A new row is one entry in the table.

`show` builds the small instance of one; nothing heavy is imported before that.
"""

from __future__ import annotations

import re

from weightwright.errors import WeightwrightError
from weightwright.papers.theorems.algorithm_emulation import EMULATION, HOPFIELD, ONE_PASS
from weightwright.papers.theorems.low_rank_attention import LOW_RANK
from weightwright.papers.theorems.prompted_programs import FOLDING, PROGRAMS
from weightwright.papers.theorems.theorem import Theorem
from weightwright.papers.theorems.universal_approximation import SUMMARY, UNIVERSAL

#: By id. Later papers add their rows here.
THEOREMS: dict[str, Theorem] = {
    row.id: row for row in (*UNIVERSAL, *SUMMARY, *EMULATION, *PROGRAMS, *HOPFIELD, *FOLDING, *ONE_PASS, *LOW_RANK)
}


def find(id: str) -> Theorem:
    """The theorem of this id, in any case, with or without its hyphen; an error that names the known ones."""
    plain = {known.replace("-", ""): theorem for known, theorem in THEOREMS.items()}
    theorem = plain.get(re.sub(r"[-_ ]", "", id.upper()))
    if theorem is None:
        raise WeightwrightError(f"there is no theorem {id!r}; known are {', '.join(THEOREMS)}")
    return theorem
