"""What a certificate may assume: the lines that the rule for its claim knows, and no other text."""

from __future__ import annotations

from typing import Any

from weightwright.checker.core.machine import assumed
from weightwright.claims.cell_grid import GridClaim
from weightwright.claims.certificate import Certificate, SideBySideClaim
from weightwright.claims.leaf import OneLayerClaim, SampledClaim
from weightwright.claims.program_claim import CODES, ENTRIES, PRODUCTS, InterpreterClaim
from weightwright.claims.prompt import ARGUMENTS, MULTIPLES, READ_OUT, STATES, LoopClaim, PromptClaim, SharedKeysClaim
from weightwright.claims.target import MASKED, Composite


def known_assumptions(certificate: Certificate, claim: Any) -> set[str]:
    """All lines that a certificate with this claim may hold; the rule for the claim says which of them it must."""
    return {*assumed(certificate.dtype, certificate.kernel), MASKED, *_of_claim(certificate, claim)}


def _of_claim(certificate: Certificate, claim: Any) -> tuple[str, ...]:
    match claim:
        case OneLayerClaim():
            return claim.assumptions(certificate.domain)
        case SampledClaim():
            return claim.samples.assumptions()
        case GridClaim() | Composite():
            return claim.assumptions()
        case LoopClaim():
            begins = () if claim.beginning is None else claim.beginning.composite.assumptions()
            return (*claim.composite.assumptions(), claim.watched, *begins)
        case PromptClaim():
            return ARGUMENTS, STATES, READ_OUT
        case InterpreterClaim():
            return PRODUCTS, CODES, ENTRIES
        case SharedKeysClaim():
            return (MULTIPLES,)
        case SideBySideClaim():
            return tuple(
                line for part in claim.parts for line in known_assumptions(part.certificate, part.certificate.claim)
            )
        case _:
            return ()
