"""What heads really add to the stream, from what the certificate claims: bypasses and offsets are taken off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weightwright.claims.certificate import VARIABLES, Certificate
from weightwright.claims.chain import compose_chain
from weightwright.claims.graph import SQUARE, Graph
from weightwright.claims.leaf import Terms
from weightwright.claims.one_layer_claims import OneLayerClaim, SampledClaim, VectorLayerClaim
from weightwright.claims.program_claim import InterpreterClaim
from weightwright.claims.prompt import LoopClaim, PromptClaim
from weightwright.claims.target import IDENTITY, UNREAD, Composite, TableClaim
from weightwright.expressions import to_text
from weightwright.network import Attention, Head, Network

Place = tuple[int, int]  # layer and head


@dataclass(frozen=True)
class Contribution:
    """What is known of a head; see `CircuitNode`."""

    kind: str
    function: str = ""
    argument: str = ""
    together: tuple[Place, ...] = ()
    proven: tuple[tuple[float, float], ...] = ()
    left_open: tuple[tuple[float, float], ...] = ()
    error: float | None = None
    weight: float = 1.0


def bare(profile: str, mean: float, slope: float, argument: str = "x") -> str:
    """A function less what stands beside its head in the stream, with all digits.

    >>> bare("relu(x)", 0.0, 1.0), bare("tanh(x)", -0.25, 0.0)
    ('relu(x) - x', 'tanh(x) + 0.25')
    """
    text = profile
    if slope:
        text += f" {'-' if slope > 0 else '+'} {argument if abs(slope) == 1 else f'{_digits(slope)}*{argument}'}"
    return text + (f" {'-' if mean > 0 else '+'} {_digits(mean)}" if mean else "")


def _digits(number: float) -> str:
    return repr(abs(number)).removesuffix(".0")


def bare_in_words(profile: str, mean: float, slope: float, error: float) -> tuple[str, str]:
    """The same for people, and what stands beside the head: with few digits, and without constants below the error.

    >>> bare_in_words("relu(x)", 1e-17, 1.0, 1e-9), bare_in_words("tanh(x)", -0.25, 0.0, 1e-9)
    (('relu(x) - x', ', beside x in the stream'), ('tanh(x) + 0.25', ', beside -0.25 in the stream'))
    """
    mean, slope = (float(f"{number:.4g}") if abs(number) > error else 0.0 for number in (mean, slope))
    beside = bare(bare("", 0.0, -slope), -mean, 0.0).removeprefix(" + ").replace(" - ", "-", 1)
    return bare(profile, mean, slope), f", beside {beside} in the stream" if beside else ""


def contributions(network: Network, said: Certificate | None) -> dict[Place, Contribution]:
    """By layer and head, where the certificate says anything. Layers of a loop's body count from 0, unless there are
    layers before the loop: then these are meant, and `contributions_in_loop` has the others."""
    if said is None or said.status == "EDITED":
        return {}
    claim, composite = said.against, said.composite
    if isinstance(claim, LoopClaim) and claim.beginning is not None:
        composite = claim.beginning.composite
    if composite is not None:
        return _as_known(said, dict(_of_composite(network, composite)))
    if isinstance(claim, OneLayerClaim | SampledClaim | VectorLayerClaim):
        return _of_one_layer(network, said.formula, claim)
    if isinstance(claim, PromptClaim):
        return {place: Contribution("prompt") for place in _places(network)}
    if isinstance(claim, InterpreterClaim) and not claim.times:
        return dict(_of_interpreter(claim))
    return {}


def contributions_in_loop(network: Network, said: Certificate | None) -> dict[Place, Contribution]:
    """The same for the body of a loop, whose layers count from 0."""
    claim = None if said is None or said.status == "EDITED" else said.against
    if said is None or not isinstance(claim, LoopClaim) or claim.beginning is None:
        return contributions(network, said)
    return _as_known(said, dict(_of_composite(replace(network, layers=network.layers[-1:]), claim.composite)))


def _as_known(said: Certificate, found: dict[Place, Contribution]) -> dict[Place, Contribution]:
    return found if said.measured is None else {place: _unproven(one) for place, one in found.items()}


def _unproven(one: Contribution) -> Contribution:
    """What a table was made for; of a network whose error was only measured nothing is known to hold."""
    return replace(one, proven=(), left_open=(), error=None)


def _of_composite(network: Network, composite: Composite) -> Iterator[tuple[Place, Contribution]]:
    for part in composite.parts:
        places = tuple((part.layer, head) for head in part.heads)
        profile = _profile(composite, part)
        function = bare(profile, part.mean, part.slope) if profile else ""
        for place in places:
            yield place, _table(network, place, function, part, places)
    for gate in composite.gates:
        yield (gate.layer, gate.head), Contribution("gate", composite.target.profile(gate.unit))
    for softmax in composite.softmaxes:
        yield (softmax.layer, softmax.head), Contribution("softmax")
    for attention in composite.attentions:
        yield (attention.layer, attention.head), Contribution("attention")


def _of_interpreter(claim: InterpreterClaim) -> Iterator[tuple[Place, Contribution]]:
    """Products of two things that both stand in the prompt, for every row of W_K, W_Q and W_V; then the heads."""
    rows = (claim.head_dim, claim.head_dim, claim.features)
    tables = [table for table, count in zip(claim.tables, rows, strict=True) for _ in range(claim.heads * count)]
    for head, table in enumerate(tables):
        leaf = table.claim
        yield (0, head), Contribution("product", proven=((leaf.lo, leaf.hi),), error=total(leaf.terms))
    for head in range(claim.heads):
        yield (1, head), Contribution("attention")


def _table(
    network: Network, place: Place, function: str, part: TableClaim, together: tuple[Place, ...]
) -> Contribution:
    ends, zones = ((part.claim.lo, part.claim.hi),), [(lo, hi) for lo, hi in part.zones.tolist()]
    open = _as_queries(_head(network, place)[1], zones)
    return Contribution("table", function, _argument(network, place), together, ends, open, total(part.claim.terms))


def total(terms: Terms) -> float:
    return terms.approximation + terms.leakage + terms.rounding


def _argument(network: Network, place: Place) -> str:
    """The coordinate that a table reads: in its first query entry, behind the one that is 1 on every token."""
    layer, head = _head(network, place)
    rows = np.flatnonzero(head.W_Q[:, 0]).tolist()
    return layer.coordinates[rows[-1]] if rows else ""


def _head(network: Network, place: Place) -> tuple[Attention, Head]:
    layer = list(network.flat_layers)[place[0]]
    assert isinstance(layer, Attention)
    return layer, layer.heads[place[1]]


def _as_queries(head: Head, zones: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Intervals of the number that a table reads, as those of its first query entry, scale times it and a shift."""
    if not zones:
        return ()
    one = head.W_Q[:, 1] != 0  # the coordinate that is 1 on every token
    shift, scale = float(head.W_Q[one, 0].sum()), float(head.W_Q[~one, 0].sum())
    return tuple((scale * lo + shift, scale * hi + shift) for lo, hi in zones)


def _profile(composite: Composite, part: TableClaim) -> str:
    unit = next((u for u in part.units if u != UNREAD), UNREAD)
    target = composite.target
    if unit == UNREAD:
        return ""
    if unit == IDENTITY:
        return "x"
    if not isinstance(target, Graph):
        return target.profile(unit)
    node = unit // (target.tokens or 1)
    if node >= len(target.nodes):
        return SQUARE
    base = {fused.node: fused.base for fused in composite.fused}.get(node, target.nodes[node].of[0])
    return to_text(compose_chain(target, node, base))


def _of_one_layer(
    network: Network, formula: str, claim: OneLayerClaim | SampledClaim | VectorLayerClaim
) -> dict[Place, Contribution]:
    """The output is the formula: the heads add what is left of it when the line beside them is taken off."""
    leaf, places = claim.leaf, tuple(_places(network))
    out = network.embed.coordinates.index(network.outputs[0]) if network.outputs[0] in network.embed.coordinates else -1
    line, constant = network.embed.terms[0].A[:, out], float(network.embed.C[0, out])
    ends = tuple(zip(np.atleast_1d(leaf.lo).tolist(), np.atleast_1d(leaf.hi).tolist(), strict=True))
    function = formula
    for slope, name in zip(line.tolist(), VARIABLES, strict=False):
        function = bare(function, 0.0, slope, name)
    function = bare(function, constant, 0.0)
    layer = network.layers[0]
    assert isinstance(layer, Attention)
    argument, error = ", ".join(network.inputs), total(leaf.terms)
    zones = claim.dead_zones if isinstance(claim, OneLayerClaim) else ()
    return {
        place: Contribution(
            "table", function, argument, places, ends, _as_queries(head, zones), error, float(head.W_O[0, out])
        )
        for place, head in zip(places, layer.heads, strict=True)
    }


def _places(network: Network) -> Iterator[Place]:
    for index, layer in enumerate(network.flat_layers):
        if isinstance(layer, Attention):
            yield from ((index, head) for head in range(len(layer.heads)))
