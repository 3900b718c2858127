"""Which tables an interpreter gets: those with the smallest bound, among a few that differ in how soft they are."""

from __future__ import annotations

import math

from weightwright.certify import with_table_costs
from weightwright.checker.prompt.interpreting import interpreter_errors
from weightwright.claims.leaf import Terms
from weightwright.claims.program_claim import AnchorTable, InterpreterClaim
from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import CertificateError, ToleranceError
from weightwright.heads.registers import HIDDEN
from weightwright.interpreter.anchors import faithful_table, identity_tables
from weightwright.interpreter.frozen_module import Sizes

#: How far below every score that is seen a hidden one lies at least.
FAR = 750.0


def choose_tables(
    sizes: Sizes, bounds: dict[str, float], dtype: str, anchors: int, grid: float | None = None
) -> InterpreterClaim:
    """The claim with the smallest error of the whole; whether it holds is for the checker to say. grid: how far the
    papers' own anchors reach, where they are asked for."""
    reaches = [bounds[name] for name in ("k_max", "q_max", "v_max")]
    if grid is None:
        candidates = [identity_tables(reach, dtype, anchors) for reach in reaches]
    else:
        found = (faithful_table(reach, grid, anchors, dtype) for reach in reaches)
        candidates = [[table] if table is not None else [] for table in found]
    if not all(candidates):
        raise ToleranceError(f"no table of the identity with anchors={anchors} could be proven in {dtype}")
    best: tuple[float, InterpreterClaim] | None = None
    for choice in range(max(map(len, candidates))):
        keys, queries, values = (tables[min(choice, len(tables) - 1)] for tables in candidates)
        claim = _claim(sizes, bounds, (keys, queries, values))
        try:
            terms = _estimate(claim, dtype)
        except CertificateError:
            continue
        total = terms.approximation + terms.leakage + terms.rounding
        if best is None or total < best[0]:
            best = total, claim
    if best is None:
        raise ToleranceError(f"no bound can be composed in {dtype} for {bounds}: smaller bounds help")
    return best[1]


def _claim(
    sizes: Sizes, bounds: dict[str, float], tables: tuple[AnchorTable, AnchorTable, AnchorTable]
) -> InterpreterClaim:
    score = sizes.head_dim * bounds["k_max"] * bounds["q_max"]
    hidden = 2.0 ** math.ceil(math.log2(4 * score + FAR))
    away = min(HIDDEN / table.beta for table in tables)
    return InterpreterClaim(
        sizes.tokens, sizes.features, sizes.head_dim, sizes.heads, sizes.codes, sizes.stacked, bounds["x_max"],
        bounds["w_max"], hidden, away, tables, sizes.times,
    )  # fmt: skip


def _estimate(claim: InterpreterClaim, dtype: str) -> Terms:
    """By the checker's own rules; the check itself follows."""
    with working_precision():
        return interpreter_errors(with_table_costs(claim, dtype), dtype)
