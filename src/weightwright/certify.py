"""The one place that proposes a bound for a network, saves it, has it checked and sets its status."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from weightwright.box import Box
from weightwright.checker.check import check
from weightwright.checker.composite.loop import about_beginning, about_one_pass, network_before, one_pass
from weightwright.checker.composite.walk import compose_errors
from weightwright.checker.prompt.interpreting import interpreter_errors, with_table_costs
from weightwright.checker.prompt.prompt_passes import prompt_errors, with_costs
from weightwright.claims.certificate import Certificate, Terms, agreed_with
from weightwright.claims.files import network_digest, write
from weightwright.claims.graph import Graph
from weightwright.claims.kinds import ComposedClaim
from weightwright.claims.program_claim import InterpreterClaim
from weightwright.claims.prompt import LoopClaim, PromptClaim
from weightwright.claims.target import Composite
from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import CertificateError, ToleranceError
from weightwright.extensions import registry
from weightwright.limits import UNLIMITED
from weightwright.network import Network
from weightwright.prover.machine import assumptions
from weightwright.runtime import AttentionNetwork
from weightwright.stopwatch import stage

#: Factors of the rounding that is claimed, one after the other, where the checker could not show what was proposed.
ROOM = (1.0, 16.0)
#: Room for adding up numbers that were rounded up.
_SUMMED = 1 + 2.0**-40


def certify(
    network: Network, claim: ComposedClaim, domain: Box, tol: float | None = None, proposed: Terms | None = None
) -> AttentionNetwork:
    """The network with a certificate that the checker agreed with; ToleranceError if it did not, or above tol. Networks
    of one layer know the terms of their bound, and ask `confirm`.

    claim: `bound` is about the outputs, for a network with a prompt or a loop about one pass. The summands of a prompt
    need not say what leakage and rounding of their tables come to in this network; what is claimed in the end does.
    proposed: the terms, where the construction knows them better.
    """
    try:
        with working_precision():
            if isinstance(claim, PromptClaim):
                claim = with_costs(network, _draft(network, claim, domain), claim)
            if isinstance(claim, InterpreterClaim):
                claim = with_table_costs(claim, network.dtype)
            with stage("propose the bound's terms"):
                terms = proposed or _propose(network, claim, domain)
    except CertificateError as error:
        raise ToleranceError(f"no bound can be composed: {error}") from error
    return _agree(network, claim, domain, terms, tol)


def confirm(network: Network, certificate: Certificate) -> Certificate:
    """The certificate with the status that the checker gives it, from a saved file, or its CertificateError."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.safetensors"
        with stage("write the file"):
            write(path, network, certificate)
        with stage("check the file"):
            checked = check(path, **UNLIMITED)
    return agreed_with(checked, certificate)


def _agree(network: Network, claim: ComposedClaim, domain: Box, proposed: Terms, tol: float | None) -> AttentionNetwork:
    """With the first certificate that the checker agrees with, more and more room being left for rounding."""
    refusal = "no finite bound was proposed"
    for room in ROOM:
        terms = dataclasses.replace(proposed, rounding=proposed.rounding * room)
        try:
            certificate = confirm(network, _about(network, claim, domain, terms))
        except CertificateError as error:
            refusal = str(error)
            continue
        if tol is not None and certificate.bound > tol:
            raise ToleranceError(
                f"tol={tol:g} cannot be proven: {certificate.bound:.3g} is the best, of which approximation"
                f" {terms.approximation:.3g}, leakage {terms.leakage:.3g}, rounding {terms.rounding:.3g}",
                certificate.bound,
            )
        return AttentionNetwork(network, certificate)
    raise ToleranceError(f"the independent checker does not agree with any bound: {refusal}")


def _propose(network: Network, claim: ComposedClaim, domain: Box) -> Terms:
    """What to claim. The checker's own rules for composing are asked, the tables' leaves being taken for granted; the
    check that follows examines everything. For targets that are no graphs an extension walks through the network."""
    draft = _draft(network, claim, domain)
    match claim:
        case PromptClaim():
            return prompt_errors(network, draft, claim)
        case InterpreterClaim():
            return interpreter_errors(claim, network.dtype)
        case LoopClaim():
            one, about = one_pass(network, claim), about_one_pass(draft, claim)
            errors = compose_errors(one, about, claim.composite, parts_hold=True, first=not claim.own)
            if (beginning := claim.beginning) is not None:
                before, about = network_before(network, claim, beginning), about_beginning(draft, beginning)
                errors = np.maximum(errors, compose_errors(before, about, beginning.composite, parts_hold=True))
        case Composite(target=Graph()):
            errors = compose_errors(network, draft, claim, parts_hold=True)
        case Composite():
            return _proposals()[type(claim.target)](network, claim, domain)
        case _:
            return _proposals()[type(claim)](network, draft, claim)
    return Terms(*(errors * _SUMMED).tolist())


@cache
def _proposals() -> dict[type, Callable[..., Terms]]:
    """What extensions register under "proposals": for a kind of target a function of the network, the composite and
    the domain; for a kind of claim one of the network, a draft of the certificate and the claim."""
    return registry("proposals")


def _draft(network: Network, claim: ComposedClaim, domain: Box) -> Certificate:
    return _about(network, claim, domain, Terms(0.0, 0.0, 0.0))


def _about(network: Network, claim: ComposedClaim, domain: Box, terms: Terms) -> Certificate:
    """What is claimed, with the words and assumptions that go with a claim of its kind; unchecked."""
    said = (*assumptions(network.dtype, "dot"), *claim.leans_on(network.native))
    bound = (terms.approximation + terms.leakage + terms.rounding) * _SUMMED
    words, digest = claim.in_words(), network_digest(network)
    return Certificate(claim, words, domain, network.dtype, "dot", bound, terms, digest, said)
