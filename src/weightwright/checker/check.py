"""`check`: one saved file in, one certificate out, PROVEN or CONDITIONAL, or a CertificateError that says why not."""

from __future__ import annotations

import os
from typing import Unpack

import numpy as np

from weightwright.checker.claim_rules import RULES
from weightwright.checker.core.complaints import agree_identity, agree_ordinary, require
from weightwright.claims.certificate import Certificate, agreed
from weightwright.claims.files import read
from weightwright.claims.prompt import PromptClaim
from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import CertificateError
from weightwright.limits import LimitOptions, Limits, limited
from weightwright.network import Network


def check(path: str | os.PathLike[str], **limits: Unpack[LimitOptions]) -> Certificate:
    """Recompute every claim in the file. Returns the certificate, PROVEN, or CONDITIONAL on what the caller
    stated; raises CertificateError otherwise.

    limits: what the file may cost before a BudgetError ends the check; math.inf for no limit.
    seconds: 60 by default.
    megabytes: what the process may grow by; 1,024 by default.
    tokens: data tokens, and registers; 2^20 by default.
    boxes: pieces of a domain that are examined one by one; 2^20 by default.
    """
    return check_file(path, **limits)[1]


def check_file(path: str | os.PathLike[str], **limits: Unpack[LimitOptions]) -> tuple[Network, Certificate]:
    """The network that was read, and its certificate as `check` returns it."""
    with limited(path, Limits(**limits)):
        network, certificate = read(path)
        if certificate is None:
            raise CertificateError(f"{path}: the network has no certificate")
        return network, prove(path, network, certificate)


def prove(path: str | os.PathLike[str], network: Network, certificate: Certificate) -> Certificate:
    """The certificate with its status; raises CertificateError otherwise. path: what complaints begin with."""
    if certificate.measured is not None:
        raise CertificateError(
            f"{path}: nothing is proven here; an error of {certificate.measured.error:.3g} was measured"
        )
    try:
        _agree(network, certificate)
    except FloatingPointError as error:  # numpy overflowed, or made a NaN: nothing that is computed from it is a proof
        raise CertificateError(f"{path}: a number of the proof is not bounded ({error})") from error
    except (AttributeError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
        raise CertificateError(f"{path}: the certificate is malformed ({error})") from error
    return agreed(certificate)


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
