"""What a certificate may assume: the lines that its claim knows, and no other text."""

from __future__ import annotations

from weightwright.checker.core.machine import assumed
from weightwright.claims.certificate import Certificate
from weightwright.claims.kinds import MASKED


def known_assumptions(certificate: Certificate) -> set[str]:
    """All lines that a certificate with its claim may hold; the rule for the claim says which of them it must."""
    about_claim = certificate.claim.possible_assumptions(certificate.domain)
    return {*assumed(certificate.dtype, certificate.kernel), MASKED, *about_claim}
