"""From a network and what is claimed about it to a network with a certificate, or an error that says why not."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from weightwright.box import Box
from weightwright.checker.check import check
from weightwright.checker.composite.loop import about_one_pass, one_pass
from weightwright.checker.composite.walk import composed_errors
from weightwright.checker.prompt.prompt_passes import prompt_errors, with_costs
from weightwright.claims.certificate import Certificate, Claim, Terms, assumptions
from weightwright.claims.files import network_digest, write
from weightwright.claims.graph import Graph
from weightwright.claims.prompt import ARGUMENTS, STATES, LoopClaim, PromptClaim, loop_in_words, prompt_in_words
from weightwright.claims.target import MASKED, Composite, composite_in_words
from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import CertificateError, ToleranceError
from weightwright.network import Network
from weightwright.prover.composite import propose
from weightwright.runtime import AttentionNetwork

#: Rounding is claimed so many times larger where the checker could not show what was proposed.
ROOM = (1.0, 16.0)


def certified(
    network: Network, composite: Composite, domain: Box, tol: float | None = None, proposed: Terms | None = None
) -> AttentionNetwork:
    """The network with a certificate that the checker agreed with; ToleranceError if it did not, or above tol.

    proposed: the terms, where the construction knows them better than the prover's walk.
    """
    proposed = _proposed(network, composite, domain) if proposed is None else proposed
    return _agreed(network, lambda terms: _certificate(network, composite, domain, terms), proposed, tol)


def certified_prompted(network: Network, claim: PromptClaim, domain: Box, tol: float | None = None) -> AttentionNetwork:
    """The same for a network that runs an algorithm on its prompt: `bound` is about one pass.

    The claims of the summands need not say what leakage and rounding of their tables come to in this network; what is
    claimed in the end does.
    """
    nothing = Terms(0.0, 0.0, 0.0)
    try:
        with working_precision():
            whole = with_costs(network, _prompted_certificate(network, claim, domain, nothing), claim)
            draft = _prompted_certificate(network, whole, domain, nothing)
            proposed = prompt_errors(network, draft, whole)
    except CertificateError as error:
        raise ToleranceError(f"no bound can be composed: {error}") from error
    return _agreed(network, lambda terms: _prompted_certificate(network, whole, domain, terms), proposed, tol)


def certified_loop(network: Network, claim: LoopClaim, domain: Box) -> AttentionNetwork:
    """The same for a network that runs a rule in a loop: `bound` is about one pass."""

    def certificate(terms: Terms) -> Certificate:
        said = (*assumptions(network.dtype, "dot"), *claim.composite.assumptions(), STATES)
        return _about(network, claim, loop_in_words(claim), domain, terms, said)

    try:
        with working_precision():
            draft = about_one_pass(certificate(Terms(0.0, 0.0, 0.0)), claim)
            one = one_pass(network, claim)
            errors = composed_errors(one, draft, claim.composite, parts_hold=True, first=True)
    except CertificateError as error:
        raise ToleranceError(f"no bound can be composed: {error}") from error
    return _agreed(network, certificate, Terms(*(errors * (1 + 2.0**-40)).tolist()), None)


def _agreed(
    network: Network, certificate_with: Callable[[Terms], Certificate], proposed: Terms, tol: float | None
) -> AttentionNetwork:
    """With the first certificate that the checker agrees with, more and more room being left for rounding."""
    refusal = "no finite bound was proposed"
    for room in ROOM:
        terms = dataclasses.replace(proposed, rounding=proposed.rounding * room)
        try:
            certificate = _checked(network, certificate_with(terms))
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


def _proposed(network: Network, composite: Composite, domain: Box) -> Terms:
    """What to claim. For a graph of columns the checker's own rules for composing are asked first, the parts' claims
    being taken for granted; the check that follows examines everything."""
    if isinstance(composite.target, Graph):
        draft = _certificate(network, composite, domain, Terms(0.0, 0.0, 0.0))
        try:
            with working_precision():
                errors = composed_errors(network, draft, composite, parts_hold=True) * (1 + 2.0**-40)
        except CertificateError as error:
            raise ToleranceError(f"no bound can be composed: {error}") from error
        return Terms(*errors.tolist())
    n, d = network.tokens or 1, len(network.inputs)
    largest = np.broadcast_to(np.maximum(np.abs(domain.lo), np.abs(domain.hi)), (n, d))
    return propose(network, composite, largest)


def _certificate(network: Network, composite: Composite, domain: Box, terms: Terms) -> Certificate:
    said = assumptions(network.dtype, "dot") + composite.assumptions() + (() if network.native else (MASKED,))
    return _about(network, composite, composite_in_words(composite), domain, terms, said)


def _prompted_certificate(network: Network, claim: PromptClaim, domain: Box, terms: Terms) -> Certificate:
    said = (*assumptions(network.dtype, "dot"), ARGUMENTS, STATES, MASKED)
    return _about(network, claim, prompt_in_words(claim), domain, terms, said)


def _about(
    network: Network, claim: Claim, formula: str, domain: Box, terms: Terms, said: tuple[str, ...]
) -> Certificate:
    total = (terms.approximation + terms.leakage + terms.rounding) * (1 + 2.0**-40)
    return Certificate(claim, formula, domain, network.dtype, "dot", total, terms, network_digest(network), said)


def _checked(network: Network, certificate: Certificate) -> Certificate:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.safetensors"
        write(path, network, certificate)
        return dataclasses.replace(certificate, status=check(path).status)
