"""The kinds of claim and of target that a file may hold besides the library's."""

from __future__ import annotations

from weightwright.papers.claims.cell_grid import GridClaim
from weightwright.papers.claims.ridge_functions import FormulasClaim, GateClaim, RidgeFunctions, TokenModels
from weightwright.papers.claims.shared_keys_claim import SharedKeysClaim
from weightwright.papers.claims.side_by_side_claim import SideBySideClaim, SideNetwork

_KINDS = (
    FormulasClaim,
    GateClaim,
    GridClaim,
    RidgeFunctions,
    SharedKeysClaim,
    SideBySideClaim,
    SideNetwork,
    TokenModels,
)
CLAIMS = {kind.__name__: kind for kind in _KINDS}
