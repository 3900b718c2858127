"""The one place that proposes a bound for a network, saves it, has it checked and sets its status."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import numpy as np

from weightwright.box import Box
from weightwright.checker.check import check
from weightwright.checker.composite.loop import about_beginning, about_one_pass, network_before, one_pass
from weightwright.checker.composite.walk import compose_errors
from weightwright.checker.prompt.interpreting import interpreter_errors, with_table_costs
from weightwright.checker.prompt.prompt_passes import prompt_errors, with_costs
from weightwright.checker.prompt.shared_keys import shared_keys_errors
from weightwright.claims.certificate import Certificate, Terms, agreed_with
from weightwright.claims.files import network_digest, write
from weightwright.claims.graph import Graph
from weightwright.claims.program_claim import CODES, ENTRIES, PRODUCTS, InterpreterClaim, interpreter_in_words
from weightwright.claims.prompt import (
    ARGUMENTS,
    MULTIPLES,
    READ_OUT,
    STATES,
    LoopClaim,
    PromptClaim,
    SharedKeysClaim,
    loop_in_words,
    prompt_in_words,
    shared_keys_in_words,
)
from weightwright.claims.target import MASKED, Composite, composite_in_words
from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import CertificateError, ToleranceError
from weightwright.limits import UNLIMITED
from weightwright.network import Network
from weightwright.prover.composite import propose
from weightwright.prover.machine import assumptions
from weightwright.runtime import AttentionNetwork
from weightwright.stopwatch import stage

#: Factors of the rounding that is claimed, one after the other, where the checker could not show what was proposed.
ROOM = (1.0, 16.0)
#: Room for adding up numbers that were rounded up.
_SUMMED = 1 + 2.0**-40

#: Claims whose terms are found here; networks of one layer and of grids know theirs, and ask `confirm`.
Composed = Composite | LoopClaim | PromptClaim | InterpreterClaim | SharedKeysClaim


def certify(
    network: Network, claim: Composed, domain: Box, tol: float | None = None, proposed: Terms | None = None
) -> AttentionNetwork:
    """The network with a certificate that the checker agreed with; ToleranceError if it did not, or above tol.

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


def _agree(network: Network, claim: Composed, domain: Box, proposed: Terms, tol: float | None) -> AttentionNetwork:
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


def _propose(network: Network, claim: Composed, domain: Box) -> Terms:
    """What to claim. The checker's own rules for composing are asked, the tables' leaves being taken for granted; the
    check that follows examines everything. For targets that are no graphs the prover walks through the network."""
    draft = _draft(network, claim, domain)
    if isinstance(claim, PromptClaim):
        return prompt_errors(network, draft, claim)
    if isinstance(claim, InterpreterClaim):
        return interpreter_errors(claim, network.dtype)
    if isinstance(claim, SharedKeysClaim):
        return shared_keys_errors(network, draft, claim)
    if isinstance(claim, LoopClaim):
        one, about = one_pass(network, claim), about_one_pass(draft, claim)
        errors = compose_errors(one, about, claim.composite, parts_hold=True, first=not claim.own)
        if (beginning := claim.beginning) is not None:
            before, about = network_before(network, claim, beginning), about_beginning(draft, beginning)
            errors = np.maximum(errors, compose_errors(before, about, beginning.composite, parts_hold=True))
    elif isinstance(claim.target, Graph):
        errors = compose_errors(network, draft, claim, parts_hold=True)
    else:
        n, d = network.tokens or 1, len(network.inputs)
        largest = np.broadcast_to(np.maximum(np.abs(domain.lo), np.abs(domain.hi)), (n, d))
        return propose(network, claim, largest)
    return Terms(*(errors * _SUMMED).tolist())


def _draft(network: Network, claim: Composed, domain: Box) -> Certificate:
    return _about(network, claim, domain, Terms(0.0, 0.0, 0.0))


def _about(network: Network, claim: Composed, domain: Box, terms: Terms) -> Certificate:
    """What is claimed, with the words and assumptions that go with a claim of its kind; unchecked."""
    leans_on: tuple[str, ...]
    if isinstance(claim, PromptClaim):
        more = () if claim.read_out is None else (READ_OUT,)
        words, leans_on = prompt_in_words(claim), (ARGUMENTS, STATES, *more, MASKED)
    elif isinstance(claim, InterpreterClaim):
        more = (ENTRIES,) if claim.times else ()
        words, leans_on = interpreter_in_words(claim), (PRODUCTS, CODES, MASKED, *more)
    elif isinstance(claim, SharedKeysClaim):
        words, leans_on = shared_keys_in_words(claim), (MULTIPLES,)
    elif isinstance(claim, LoopClaim):
        begins = () if claim.beginning is None else (*claim.beginning.composite.assumptions(), MASKED)
        words, leans_on = loop_in_words(claim), (*claim.composite.assumptions(), claim.watched, *begins)
    else:
        masked = () if network.native else (MASKED,)
        words, leans_on = composite_in_words(claim), (*claim.assumptions(), *masked)
    said = (*assumptions(network.dtype, "dot"), *leans_on)
    bound = (terms.approximation + terms.leakage + terms.rounding) * _SUMMED
    return Certificate(claim, words, domain, network.dtype, "dot", bound, terms, network_digest(network), said)
