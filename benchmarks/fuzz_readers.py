"""Whether somebody who reads an accepted certificate is misled: about what is computed, where, and about what the bound
is. For `fuzz_files.py`; `fuzz_truth.py` compares a network with its own claim.

Formulas are read from their text, words are looked for where a reader looks. Dead zones: `fuzz_zones.py`.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import torch
from flint import arb, ctx
from fuzz_formulas import DeadError, Formulas, UnreadableError, read_formulas
from fuzz_mutations import zone_lines
from fuzz_truth import BITS, Row, inputs_of, run, stages
from fuzz_zones import evenly, shares_are_right, zones_are_shown

import weightwright as ww
from weightwright.checker.core.machine import assumed
from weightwright.claims.certificate import Certificate, status_in_words
from weightwright.claims.graph import Graph
from weightwright.claims.kinds import MASKED
from weightwright.claims.one_layer_claims import OneLayerClaim, SampledClaim
from weightwright.claims.program_claim import CODES, ENTRIES, PRODUCTS, InterpreterClaim
from weightwright.claims.prompt import ARGUMENTS, ENTERING, READ_OUT, STATES, LoopClaim
from weightwright.claims.scope import DeadZone
from weightwright.claims.target import Composite
from weightwright.expressions import parse
from weightwright.network import Loop, Network
from weightwright.papers.claims.shared_keys_claim import MULTIPLES
from weightwright.runtime import AttentionNetwork

#: Inputs at which a formula is computed.
POINTS = 40
#: Most numbers of an input of networks that are run.
LARGEST = 1024
#: A name in quotes; where the line is cut, it ends in three dots, perhaps in the middle of an escape.
_QUOTED = re.compile(r'"(?:(?!\.\.\.)(?:\\(?=\.\.\.)|\\.|[^"\\]))*(?:"|\.\.\.|$)')
_DIGEST = re.compile(r"sha256 [0-9a-f]{16}")
#: What rules ask for beside the machine, the zones and what only the caller knows.
_RULES_SAY = {MASKED, PRODUCTS, CODES, ENTRIES, STATES, ENTERING, ARGUMENTS, READ_OUT, MULTIPLES}


def can_be_run(network: Network) -> bool:
    """Whether the network is small enough to be compared with what it computes."""
    return (network.tokens or 1) * len(network.inputs) <= LARGEST


class Readers:
    """What was read so far: texts that are digests, and what they stood for."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        self.read: Counter[str] = Counter()  # certificates whose formula was computed, whose words were not, ...

    def misled(self, network: Network, said: Certificate, rng: np.random.Generator) -> str | None:
        """What is misleading, in words; None if nothing was found."""
        before, ctx.prec = ctx.prec, BITS
        try:
            runs = (self._formula, _subject, shares_are_right) if can_be_run(network) else ()
            for look in (zones_are_shown, *runs, self._digest, _words, _names, _sizes):
                found = look(network, said, rng)
                if found:
                    return f"{look.__name__.strip('_')}: {found}"
            return None
        finally:
            ctx.prec = before

    def _formula(self, network: Network, said: Certificate, rng: np.random.Generator) -> str | None:
        """The formula, read as a text, is what the network computes."""
        if said.subject not in ("output", "pass"):
            return None
        for text, part, about, pick in pieces_of(network, said):
            try:
                formulas = read_formulas(text)
                found = _differs(formulas, part, about, pick, rng)
            except UnreadableError:
                self.read["words"] += 1
                continue
            self.read["formulas"] += 1
            if found:
                return f"{text[:200]!r} {found}"
        return None

    def _digest(self, network: Network, said: Certificate, rng: np.random.Generator) -> str | None:
        """The same digest stands for the same function, whatever it is called."""
        for part, text in _digested(said):
            self.read["digests"] += 1
            meant = self.seen.setdefault(text, part)
            if meant != part:
                return f"{text} stands for two functions"
        return None


# what is computed

Pick = Callable[[np.ndarray], np.ndarray]  # of the outputs (tokens, features) those that the formula is about


def pieces_of(network: Network, said: Certificate) -> Iterator[tuple[str, Network, Certificate, Pick]]:
    """Texts, and the network that each is about: the whole one; of a loop one pass, and what stands before it."""
    claim = said.claim
    if not isinstance(claim, LoopClaim):
        yield said.formula, network, said, lambda y: y
        return
    text, _, before = said.formula.removeprefix("one pass of ").partition("; and ")
    text = text.removesuffix(", every token by itself")
    if not claim.own and claim.beginning is None:
        once = dataclasses.replace(network, layers=(dataclasses.replace(network.layers[0], times=1),))  # type: ignore[type-var]
        yield text, once, said, lambda y: y[:1]
        return
    apart = stages(network, said, claim)
    states = claim.states
    yield text, apart.once, apart.said, lambda y: y[:, -states:]
    if apart.first is not None:
        yield before, apart.first, said, lambda y: y


def _differs(
    formulas: Formulas, network: Network, said: Certificate, pick: Pick, rng: np.random.Generator
) -> str | None:
    """The first input where no way to read the formula is within the bound of what is returned."""
    x = inputs_of(network, said, rng)
    x = x[torch.tensor(rng.permutation(len(x))[:POINTS])]
    if not len(x):
        raise UnreadableError("no input of the dtype is in the domain")
    by_itself = network.tokens is None
    for tokens, y in zip(x.double().numpy(), run(network, x), strict=True):
        outputs = pick(y)
        rows = zip(tokens, outputs, strict=True) if by_itself else [(tokens, outputs)]
        for given, returned in rows:
            found = _one_input(formulas, np.atleast_2d(given), np.atleast_2d(returned), said)
            if found:
                return f"at {np.ravel(given).tolist()}: {found}"
    return None


def _one_input(formulas: Formulas, x: np.ndarray, y: np.ndarray, said: Certificate) -> str | None:
    if any(zone.of == "x" and zone.lo < float(x.flat[0]) < zone.hi for zone in said.zones):
        return None
    worst, readable = "", False
    for reading in (_token_by_token, _all_numbers):
        try:
            wanted = reading(formulas, x, said.zones)
        except DeadError:
            return None
        except UnreadableError:
            continue
        have = np.ravel(y).tolist()
        if reading is _token_by_token and len(have) < len(wanted):
            wanted = wanted[: len(have)]  # of a loop the first token's state goes to all
        if len(have) != len(wanted):
            if len(formulas.items) > len(have):  # a loop may return some of the states, the last ones
                continue
            worst = worst or f"{len(wanted)} numbers are named and {len(have)} returned"
            continue
        readable = True
        errors = [abs(arb(value) - want) for value, want in zip(have, wanted, strict=True)]
        wrong = [error for error in errors if error.is_finite() and not error.lower() <= arb(said.bound)]
        if not wrong:
            return None
        worst = f"the network returns {have}, off by {wrong[0]} where {said.bound!r} is claimed"
    if not readable and not worst:
        raise UnreadableError("no way to read it")
    return worst


def _token_by_token(formulas: Formulas, x: np.ndarray, zones: tuple[DeadZone, ...]) -> Row:
    out: Row = []
    for token in x.tolist():
        row = [arb(value) for value in token]
        out += formulas.at(dict(zip(("x", "y", "z"), row, strict=False)), row, zones)
    return out


def _all_numbers(formulas: Formulas, x: np.ndarray, zones: tuple[DeadZone, ...]) -> Row:
    flat = [arb(value) for value in np.ravel(x).tolist()]
    known = {f"x{i}": value for i, value in enumerate(flat)} | dict(zip(("x", "y", "z"), flat, strict=False))
    return formulas.at(known, [], zones)


def _digested(said: Certificate) -> Iterator[tuple[str, str]]:
    """(what a digest stands for, in numbers of another kind; the text with the digest)"""
    claim = said.claim
    if isinstance(claim, SampledClaim):
        samples = claim.samples
        numbers = [samples.x.tolist(), samples.y.tolist(), samples.accuracy, samples.order, samples.derivative]
        yield repr(numbers), said.formula
    composites = [said.composite] if said.composite is not None else []
    if isinstance(claim, LoopClaim) and claim.beginning is not None:
        composites.append(claim.beginning.composite)
    texts = said.formula.removeprefix("one pass of ").split("; and ")
    for composite, text in zip(composites, texts, strict=False):
        digest = _DIGEST.search(text)
        if isinstance(composite.target, Graph) and digest and text.startswith("a graph of "):
            yield _meant(composite.target), digest[0]


def _meant(graph: Graph) -> str:
    """All of a graph but the names in it."""
    nodes = [(n.op, n.of, n.weights.tolist(), n.constants.tolist(), n.index) for n in graph.nodes]
    return repr((nodes, graph.outputs, [m.tolist() for m in graph.matrices], graph.tokens))


# what the bound is about


def _subject(network: Network, said: Certificate, rng: np.random.Generator) -> str | None:
    """A bound on one of several passes is called one, and certifies no prediction."""
    loops = any(isinstance(layer, Loop) and layer.times != 1 for layer in network.layers)
    if loops and said.subject == "output":
        return "the network runs a loop, and its bound is said to be about outputs"
    if said.subject == "output" and not getattr(said.claim, "times", 0):
        return None
    net = AttentionNetwork(network, said, on_domain="ignore")
    x = torch.tensor(evenly(network, said, rng, 16), dtype=net.dtype)
    if bool(net.certifies(x).any()):
        return f"a bound about a {said.subject} certifies predictions"
    return None


def _words(network: Network, said: Certificate, rng: np.random.Generator) -> str | None:
    """What is said in a line is what the fields say."""
    line, status = repr(said), status_in_words(said.status, said.why)
    if not (line.isprintable() and said.formula.isprintable()):
        return f"marks that a screen obeys: {line!r}"
    shown = re.search(r"bound (\S+)", _unquoted(line))
    if shown is None or not float(shown[1].rstrip(",")) >= said.bound:
        return f"the bound {said.bound!r} is shown as {line!r}"
    if said.subject == "pass" and "pass" not in line.partition(", bound ")[2]:
        return f"nothing says that the bound is about a pass: {line!r}"
    if said.zones and "dead zone" not in line:
        return f"nothing says that there are dead zones: {line!r}"
    for zone in said.zones:
        ends = repr(zone.lo), repr(zone.hi)
        if not all(end in status for end in ends) or not any(all(e in one for e in ends) for one in said.assumptions):
            return f"{zone} stands in no status or no assumption: {status!r}, {said.assumptions}"
        if str(zone) not in status:
            return f"{zone} stands otherwise in the status: {status!r}"
    return None


def _names(network: Network, said: Certificate, rng: np.random.Generator) -> str | None:
    """A name stands in quotes, and only where it is called a name."""
    line = _unquoted(repr(said))
    for name in filter(lambda text: len(text) > 3, {said.name, getattr(said.against, "name", "")}):
        if name in line and name not in said.formula:
            return f"the name {name[:80]!r} stands outside of quotes in {line!r}"
    if said.name and said.name == said.formula and not isinstance(said.claim, OneLayerClaim):
        try:
            parse(said.formula, ("x",))
        except ww.WeightwrightError:
            return f"the formula is the name {said.name!r}"
    return None


def strange_lines(said: Certificate) -> list[str]:
    """Assumptions that no rule of the checker asks for: free text, in the place where the checker's words stand."""
    known = {*assumed(said.dtype, said.kernel), *zone_lines(said), *said.claim.stated, *_RULES_SAY}
    return [line for line in said.assumptions if line not in known]


def _sizes(network: Network, said: Certificate, rng: np.random.Generator) -> str | None:
    """Numbers of tokens and passes in the words are the network's."""
    tokens = re.search(r"(?:for each of|whose weights stand in the prompt:) (\d+) tokens", said.formula)
    if tokens and isinstance(said.claim, InterpreterClaim | Composite) and int(tokens[1]) != network.tokens:
        return f"{said.formula!r} of a network of {network.tokens} tokens"
    passes = re.search(r"one pass of (\d+),", said.formula)
    if isinstance(said.claim, InterpreterClaim):
        times = [layer.times for layer in network.layers if isinstance(layer, Loop)]
        if times != ([int(passes[1])] if passes else []):
            return f"{said.formula!r} of a network that runs {times} passes"
    return None


def _unquoted(line: str) -> str:
    return _QUOTED.sub("", line)
