"""What the prover is given and what it returns."""

from __future__ import annotations

from dataclasses import dataclass

from weightwright.certificates.claims import Terms
from weightwright.network.layers import Floats


@dataclass(frozen=True)
class Anchors:
    """A head on registers, as stored: scores z_j = slopes_j s + offsets_j (beta included), values v_j."""

    slopes: Floats
    offsets: Floats
    values: Floats
    hidden: float  # the score of a key that the head must not see


@dataclass(frozen=True)
class Proof:
    """Boxes that cover the domain and terms that hold on each of them; NaN where nothing was proven."""

    boxes: Floats
    terms: Terms
    lipschitz: float
