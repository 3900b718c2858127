"""`check`: one saved file in, one certificate out, PROVEN or CONDITIONAL, or a CertificateError that says why not."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any, Unpack

import numpy as np

from weightwright.checker.composite.loop import agree_loop
from weightwright.checker.composite.walk import agree_composite
from weightwright.checker.core.complaints import agree_identity, agree_ordinary, require
from weightwright.checker.core.machine import assumed
from weightwright.checker.memory.remembered import agree_memory
from weightwright.checker.one_layer.layer import agree_one_layer, agree_samples
from weightwright.checker.one_layer.vector import agree_vector
from weightwright.checker.prompt.interpreting import agree_interpreter
from weightwright.checker.prompt.prompt_passes import agree_prompt
from weightwright.claims.certificate import Certificate, agreed
from weightwright.claims.files import read
from weightwright.claims.kinds import MASKED
from weightwright.claims.memory_claim import MemoryClaim
from weightwright.claims.one_layer_claims import OneLayerClaim, SampledClaim, VectorLayerClaim
from weightwright.claims.program_claim import InterpreterClaim
from weightwright.claims.prompt import LoopClaim, PromptClaim
from weightwright.claims.scope import DeadZone
from weightwright.claims.target import Composite
from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import CertificateError
from weightwright.extensions import registry
from weightwright.limits import LimitOptions, Limits, dead_share, limited
from weightwright.network import Network

#: Takes the network, its certificate and the claim, of the rule's own type; raises CertificateError unless the claim
#: makes all of the certificate true. Returns the dead zones, where the claim says nothing; None if it has none.
Rule = Callable[[Network, Certificate, Any], tuple[DeadZone, ...] | None]

RULES: dict[type, Rule] = {
    OneLayerClaim: agree_one_layer,
    SampledClaim: agree_samples,
    VectorLayerClaim: agree_vector,
    Composite: agree_composite,
    LoopClaim: agree_loop,
    PromptClaim: agree_prompt,
    MemoryClaim: agree_memory,
    InterpreterClaim: agree_interpreter,
}


def check(path: str | os.PathLike[str], **limits: Unpack[LimitOptions]) -> Certificate:
    """Recompute every claim in the file. Returns the certificate, PROVEN, or CONDITIONAL on what the caller
    stated; raises CertificateError otherwise.

    path: the file that `net.save` wrote.
    limits: what the file may cost before a BudgetError ends the check; math.inf for no limit.
    seconds: 60 by default.
    megabytes: what the process may grow by; 2,048 by default.
    tokens: data tokens, and registers; 2^20 by default.
    boxes: pieces of a domain that are examined one by one; 2^20 by default.
    dead_share: share of a domain that dead zones may cover before the status is CONDITIONAL on inputs that avoid them;
    0.01 by default.
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
            f"{path}: nothing is proven here; it says that an error of {certificate.measured.error:.3g} was measured"
        )
    try:
        with working_precision(), np.errstate(all="raise", under="ignore"):
            zones = agree(network, certificate)
    except FloatingPointError as error:  # numpy overflowed, or made a NaN: nothing that is computed from it is a proof
        raise CertificateError(f"{path}: a number of the proof is not bounded ({error})") from error
    except (AttributeError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
        raise CertificateError(f"{path}: the certificate is malformed ({error})") from error
    return agreed(certificate, zones, dead_share())


def agree(network: Network, certificate: Certificate) -> tuple[DeadZone, ...]:
    """The certificate is about this network, and the rule for its kind of claim agrees with all that it says. Returns
    the dead zones."""
    claim = certificate.claim
    agree_identity(network, certificate)
    if not isinstance(claim, PromptClaim):
        agree_ordinary(network)
    rule = rules().get(type(claim))
    require(rule is not None, f"no rule for a claim of type {type(claim).__name__}")
    assert rule is not None
    zones = rule(network, certificate, claim) or ()
    require({*claim.watched, *claim.stated} <= set(certificate.assumptions), "the certificate hides an assumption")
    unknown = set(certificate.assumptions) - known_assumptions(certificate)  # what is assumed is printed
    require(not unknown, f"an assumption that no rule knows: {min(unknown, default='')[:60]!r}")
    return zones


def known_assumptions(certificate: Certificate) -> set[str]:
    """All lines that a certificate with its claim may hold; the rule for the claim says which of them it must."""
    about_claim = certificate.claim.possible_assumptions(certificate.domain)
    return {*assumed(certificate.dtype, certificate.kernel), MASKED, *about_claim}


@cache
def rules() -> dict[type, Rule]:
    """The rule for each kind of claim: ours, and those that extensions register under "rules"."""
    return registry("rules", RULES)
