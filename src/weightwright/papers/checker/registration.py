"""Which rule goes with which kind of claim, target, formulas and head: what the checker's tables take from here."""

from __future__ import annotations

from types import NoneType

from weightwright.papers.checker.declared_targets import DeclaredUnits
from weightwright.papers.checker.grid import agree_grid
from weightwright.papers.checker.picking import picking
from weightwright.papers.checker.relu_formulas import agree_formulas
from weightwright.papers.checker.shared_gate import agree_gate
from weightwright.papers.checker.shared_keys import agree_shared_keys, shared_keys_errors
from weightwright.papers.checker.side_by_side import agree_side_by_side
from weightwright.papers.claims.cell_grid import GridClaim
from weightwright.papers.claims.ridge_functions import FormulasClaim, GateClaim, RidgeFunctions, TokenModels
from weightwright.papers.claims.shared_keys_claim import SharedKeysClaim
from weightwright.papers.claims.side_by_side_claim import SideBySideClaim

RULES = {GridClaim: agree_grid, SharedKeysClaim: agree_shared_keys, SideBySideClaim: agree_side_by_side}
UNITS = {RidgeFunctions: DeclaredUnits, TokenModels: DeclaredUnits}
FORMULAS = {FormulasClaim: agree_formulas}
HEADS = {GateClaim: agree_gate, NoneType: picking}  # NoneType: heads that no claim names
PROPOSALS = {SharedKeysClaim: shared_keys_errors}
