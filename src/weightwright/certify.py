"""The one place that proposes a bound for a network, saves it, has it checked and sets its status."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from pathlib import Path

import numpy as np
from flint import arb

from weightwright.box import Box
from weightwright.checker.check import check
from weightwright.checker.composite.loop import about_beginning, about_one_pass, network_before, one_pass
from weightwright.checker.composite.walk import compose_errors
from weightwright.checker.core.rounding import StoredHead
from weightwright.checker.one_layer.head import rounding_alone
from weightwright.checker.prompt.interpreting import head_of, interpreter_errors
from weightwright.checker.prompt.prompt_passes import PassErrors, prompt_errors
from weightwright.checker.prompt.prompt_tables import Tables, float_above, tables_cost
from weightwright.claims.certificate import Certificate, Terms, agreed_with
from weightwright.claims.files import network_digest, write
from weightwright.claims.graph import Graph
from weightwright.claims.kinds import ComposedClaim
from weightwright.claims.leaf import Leaf
from weightwright.claims.program_claim import AnchorTable, InterpreterClaim
from weightwright.claims.prompt import LoopClaim, PromptClaim, Summand
from weightwright.claims.target import Composite
from weightwright.enclosures.balls.series import largest, working_precision
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
#: Most halvings of boxes to find out what rounding comes to; a box is halved where a point in it is better than the
#: whole box by the factor WORTHWHILE.
HALVINGS, WORTHWHILE = 200, 1.25
#: How many results are kept: learners and interpreters try the same tables again and again.
_KEPT = 256
_kept: dict[Hashable, arb] = {}


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
                claim = _with_costs(network, _draft(network, claim, domain), claim)
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


def _with_costs(network: Network, certificate: Certificate, prompt: PromptClaim) -> PromptClaim:
    """The same with claims that say what leakage and rounding of the tables come to in this network."""
    found = PassErrors(network, certificate, prompt)

    def costed(tables: Tables) -> Summand:
        claim = dataclasses.replace(tables.summand.claim, terms=tables_cost(tables, worst_rounding))
        return dataclasses.replace(tables.summand, claim=claim)

    read_out = costed(found.read_out[0]) if found.read_out else None
    return dataclasses.replace(prompt, summands=tuple(map(costed, found.summands)), read_out=read_out)


def with_table_costs(claim: InterpreterClaim, dtype: str) -> InterpreterClaim:
    """The same with claims that say what rounding of the tables comes to in this network."""

    def costed(table: AnchorTable) -> AnchorTable:
        rounding = float_above(worst_rounding([head_of(claim, table, dtype)], table.claim))
        terms = dataclasses.replace(table.claim.terms, rounding=rounding)
        return dataclasses.replace(table, claim=dataclasses.replace(table.claim, terms=terms))

    keys, queries, values = map(costed, claim.tables)
    return dataclasses.replace(claim, tables=(keys, queries, values))


def worst_rounding(heads: list[StoredHead], claim: Leaf) -> arb:
    """The largest rounding on any box; the worst box is halved as long as its points are much better than it is."""
    key = (tuple(map(_exactly, heads)), claim.boxes.tobytes())
    if key not in _kept:
        if len(_kept) >= _KEPT:
            _kept.clear()
        _kept[key] = _worst_rounding(heads, claim)
    return _kept[key]


def _worst_rounding(heads: list[StoredHead], claim: Leaf) -> arb:
    def found(a: float, b: float) -> arb:
        shown = rounding_alone(heads, arb(a), arb(b))
        return shown if shown.is_finite() else arb.pos_inf()

    boxes = [(found(a, b), a, b) for a, b in claim.boxes.tolist()]
    for _ in range(HALVINGS):
        boxes.sort(key=lambda box: float(box[0]))
        worst, a, b = boxes[-1]
        middle = a / 2 + b / 2
        if not a < middle < b or worst <= WORTHWHILE * largest(found(x, x) for x in (a, middle, b)):
            break
        boxes[-1:] = [(found(a, middle), a, middle), (found(middle, b), middle, b)]
    return largest(shown for shown, _, _ in boxes)


def _exactly(head: StoredHead) -> Hashable:
    """All numbers of a head, to the last bit."""

    def numbers(values: Iterable[arb]) -> Hashable:
        return tuple((x.mid().man_exp(), x.rad().man_exp()) for x in values)

    others = [head.weight, *head.own, *(() if head.hidden is None else (head.hidden,))]
    parts = (head.slopes, head.offsets, head.values, head.tilts, others, head.off or ())
    return (*map(numbers, parts), head.copied, head.hidden is None, head.dtype, head.window)
