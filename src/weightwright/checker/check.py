"""`check`: one saved file in, one certificate with status PROVEN out, or a CertificateError that says why not."""

from __future__ import annotations

import dataclasses
import os

import numpy as np

from weightwright.checker.claim_rules import RULES
from weightwright.checker.core.complaints import agree_identity, agree_ordinary, require
from weightwright.claims.certificate import Certificate
from weightwright.claims.files import read
from weightwright.claims.prompt import PromptClaim
from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import CertificateError
from weightwright.network import Network


def check(path: str | os.PathLike[str]) -> Certificate:
    """Recompute every claim in the file. Returns the certificate, PROVEN; raises CertificateError otherwise."""
    return check_file(path)[1]


def check_file(path: str | os.PathLike[str]) -> tuple[Network, Certificate]:
    """The network that was read, and its certificate, PROVEN; raises CertificateError otherwise."""
    network, certificate = read(path)
    if certificate is None:
        raise CertificateError(f"{path}: the network has no certificate")
    if certificate.measured is not None:
        raise CertificateError(
            f"{path}: nothing is proven here; an error of {certificate.measured.error:.3g} was measured"
        )
    try:
        _agree(network, certificate)
    except FloatingPointError as error:  # numpy overflowed, or made a NaN: nothing that is computed from it is a proof
        raise CertificateError(f"{path}: a number of the proof is not bounded ({error})") from error
    except (AttributeError, TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise CertificateError(f"{path}: the certificate is malformed ({error})") from error
    return network, dataclasses.replace(certificate, status="PROVEN")


def _agree(network: Network, certificate: Certificate) -> None:
    """The certificate is about this network, and the rule for its kind of claim agrees with all that it says."""
    claim = certificate.claim
    rule = RULES.get(type(claim))
    with working_precision(), np.errstate(all="raise", under="ignore"):
        agree_identity(network, certificate)
        require(rule is not None, f"no rule for a claim of type {type(claim).__name__}")
        assert rule is not None
        if not isinstance(claim, PromptClaim):
            agree_ordinary(network)
        rule(network, certificate, claim)
