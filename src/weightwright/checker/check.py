"""`check`: one saved file in, one certificate out, PROVEN or CONDITIONAL, or a CertificateError that says why not."""

from __future__ import annotations

import os

import numpy as np

from weightwright.checker.claim_rules import RULES
from weightwright.checker.core.complaints import agree_identity, agree_ordinary, require
from weightwright.claims.certificate import Certificate, agreed
from weightwright.claims.files import read
from weightwright.claims.prompt import PromptClaim
from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import CertificateError
from weightwright.network import Network


def check(path: str | os.PathLike[str]) -> Certificate:
    """Recompute every claim in the file. Returns the certificate, PROVEN, or CONDITIONAL on what the caller stated;
    raises CertificateError otherwise."""
    return check_file(path)[1]


def check_file(path: str | os.PathLike[str]) -> tuple[Network, Certificate]:
    """The network that was read, and its certificate as `check` returns it."""
    network, certificate = read(path)
    if certificate is None:
        raise CertificateError(f"{path}: the network has no certificate")
    if certificate.measured is not None:
        raise CertificateError(
            f"{path}: nothing is proven here; an error of {certificate.measured.error:.3g} was measured"
        )
    try:
        _agree(network, certificate)
    except (AttributeError, TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise CertificateError(f"{path}: the certificate is malformed ({error})") from error
    return network, agreed(certificate)


def _agree(network: Network, certificate: Certificate) -> None:
    """The certificate is about this network, and the rule for its kind of claim agrees with all that it says."""
    claim = certificate.claim
    rule = RULES.get(type(claim))
    with working_precision(), np.errstate(all="ignore"):  # infinity and NaN are refused where numbers are compared
        agree_identity(network, certificate)
        require(rule is not None, f"no rule for a claim of type {type(claim).__name__}")
        assert rule is not None
        if not isinstance(claim, PromptClaim):
            agree_ordinary(network)
        rule(network, certificate, claim)
