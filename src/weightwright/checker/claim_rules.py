"""The rules by kind of claim. A claim of any other type is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weightwright.checker.composite.loop import agree_loop
from weightwright.checker.composite.walk import agree_composite
from weightwright.checker.grid.grid import agree_grid
from weightwright.checker.one_layer.layer import agree_one_layer, agree_samples
from weightwright.checker.one_layer.vector import agree_vector
from weightwright.checker.prompt.prompt_passes import agree_prompt
from weightwright.checker.side_by_side import agree_side_by_side
from weightwright.claims.cell_grid import GridClaim
from weightwright.claims.certificate import Certificate, SideBySideClaim
from weightwright.claims.leaf import OneLayerClaim, SampledClaim, VectorLayerClaim
from weightwright.claims.prompt import LoopClaim, PromptClaim
from weightwright.claims.target import Composite
from weightwright.network import Network

#: Takes the network, its certificate and the claim, of the rule's own type; raises CertificateError unless the claim
#: makes all of the certificate true.
Rule = Callable[[Network, Certificate, Any], None]

RULES: dict[type, Rule] = {
    OneLayerClaim: agree_one_layer,
    SampledClaim: agree_samples,
    VectorLayerClaim: agree_vector,
    SideBySideClaim: agree_side_by_side,
    Composite: agree_composite,
    LoopClaim: agree_loop,
    GridClaim: agree_grid,
    PromptClaim: agree_prompt,
}
