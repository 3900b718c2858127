"""The checker's walk through a network of several layers: what every coordinate holds, and how far off it may be.

Layer by layer the stream is compared with the declared target: parts and gates turn affine forms into units, heads
with constant scores mix tokens, linear maps act on the forms. In the end the outputs' forms are the target's.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from types import NoneType
from typing import Any

import numpy as np
from flint import arb

from weightwright.checker.composite.adding import SumOfHeads, Writes, no_overflow, scales_exactly
from weightwright.checker.composite.attending import attend
from weightwright.checker.composite.dead_zones import Lost, only_around_jumps
from weightwright.checker.composite.graph_columns import GraphUnits
from weightwright.checker.composite.mixing import Keys, constant_mixing
from weightwright.checker.composite.softmax_heads import softmax_head
from weightwright.checker.composite.stream import (
    APPROXIMATION,
    BYTES_OF_AN_INPUT,
    LARGE,
    LEAKAGE,
    Basis,
    Row,
    Stream,
    exact_numbers,
    linear,
    of_one,
)
from weightwright.checker.composite.table_heads import (
    TablePlace,
    every_column_once,
    hides_others,
    part_holds,
    query_slip,
    read_part,
)
from weightwright.checker.composite.units import Units, one_range
from weightwright.checker.core.complaints import must, require
from weightwright.checker.core.machine import Machine
from weightwright.checker.core.rounding import StoredHead
from weightwright.claims.certificate import MAX_TOKENS, Certificate
from weightwright.claims.graph import Graph
from weightwright.claims.kinds import MASKED
from weightwright.claims.scope import DeadZone
from weightwright.claims.target import (
    IDENTITY,
    UNREAD,
    Composite,
    TableClaim,
)
from weightwright.enclosures.balls.midrad import ROOM, SPARE, Balls, above
from weightwright.extensions import registry
from weightwright.limits import hold, tick
from weightwright.network import Attention, Head, Linear, Network
from weightwright.network.laws import spares_registers
from weightwright.numbers import Floats

#: Numbers that the form of a token takes in memory, beside those that it holds.
_ITEMS_OF_A_ROW = 64


def agree_composite(
    network: Network, certificate: Certificate, composite: Composite, first: bool = False
) -> tuple[DeadZone, ...]:
    """Refuse (CertificateError) unless every output, or every one of the first token, is within the certificate's bound
    of its target. Returns the dead zones."""
    errors, zones = _walk(network, certificate, composite, first=first)
    whole = certificate.terms
    claimed = np.array([whole.approximation, whole.leakage, whole.rounding])
    names = ("approximation", "leakage", "rounding")
    for name, found, claim in zip(names, errors.tolist(), claimed.tolist(), strict=True):
        require(found <= claim, f"{name}: {found:.6g} could be shown, {claim:.6g} is claimed")
    total = float(above(claimed.sum(), 3))
    require(total <= certificate.bound, f"the terms add up to {total:.6g}, the bound is {certificate.bound:.6g}")
    return zones


def compose_errors(
    network: Network, certificate: Certificate, composite: Composite, parts_hold: bool = False, first: bool = False
) -> Floats:
    """(3,): approximation, leakage and rounding of the whole network, from what is claimed about its parts.

    parts_hold: take the parts' own claims for granted. Only for finding out what to claim: a check examines them.
    first: of the outputs those of the first token count alone.
    """
    return _walk(network, certificate, composite, parts_hold, first)[0]


def _walk(
    network: Network, certificate: Certificate, composite: Composite, parts_hold: bool = False, first: bool = False
) -> tuple[Floats, tuple[DeadZone, ...]]:
    """What `compose_errors` returns, and the dead zones."""
    require(certificate.kernel == "dot", "networks of several layers run in kernel 'dot'")
    require(set(composite.left_out) <= set(certificate.assumptions), "the certificate hides a dead zone")
    d = len(network.inputs)
    alone = isinstance(composite.target, Graph) and network.one_token_at_a_time
    must(network.tokens is not None or alone, "the number of tokens must be fixed")
    n, box = network.tokens or 1, certificate.domain  # where every token is by itself, one stands for all
    fits = box.lo.shape in ((d,), (n, d)) and bool((box.lo < box.hi).all())
    require(fits, f"the domain {box} is no box of {n} tokens and {d} features")
    hold(n * d, each=BYTES_OF_AN_INPUT)
    lo, hi = (np.broadcast_to(end, (n, d)).ravel() for end in (box.lo, box.hi))
    walk = _CompositeWalk(network, composite, lo, hi, parts_hold)
    outputs = walk.run()
    if walk.masks:
        require(MASKED in certificate.assumptions, "the certificate hides that keys are masked")
    errors = walk.distance(outputs, 1 if first else len(outputs.rows))  # (3,)
    if composite.formulas is not None:
        _rule_for(composite.formulas, "formulas")(composite.target, composite.formulas, lo, hi)
        more = composite.formulas.error
        require(type(more) is float and 0 <= more < math.inf, f"formulas with an error of {more!r}")
        errors[APPROXIMATION] += more
    words = composite.in_words()
    require(certificate.formula == words, f"the network computes {words!r}, and the certificate says otherwise")
    return above(errors, 2), walk.lost.zones()


class _CompositeWalk:
    def __init__(self, network: Network, composite: Composite, lo: Floats, hi: Floats, parts_hold: bool) -> None:
        self.network, self.composite, self.parts_hold = network, composite, parts_hold
        self.native = network.native  # not asked again for every head
        self.machine = Machine(network.dtype)
        self.basis, self.n = Basis(lo, hi), network.tokens or 1
        shape, target = (self.n, len(network.inputs)), composite.target
        self.graph: GraphUnits | None = None
        if isinstance(target, Graph):
            self.graph = GraphUnits(composite, self.basis, shape, network.tokens)
            self.units: Units = self.graph
        else:
            self.units = _rule_for(target, "units")(target, self.basis, shape)
            require(composite.ablatable is False, "ablatable: only graphs of columns have a rule")
        self.shown: set[tuple[object, ...]] = set()  # parts that were examined already
        self.lost = Lost(lo, hi)
        self.masks = False
        self.written: set[int] = set()  # coordinates that heads have written on registers, in a plain Transformer
        self.moved: set[int] = set()  # those that they have written on data tokens
        self.grown = np.zeros(len(network.embed.coordinates))  # what heads have added to registers at most, in size
        _well_formed(self.composite, self.units)

    def run(self) -> Stream:
        n, d = self.n, len(self.network.inputs)
        hold(n * (d + _ITEMS_OF_A_ROW))
        ids = [(0, *range(1 + t * d, 1 + (t + 1) * d)) for t in range(n)]
        one_token = np.vstack([np.zeros((1, d)), np.eye(d)])
        stream = Stream([Row(i, Balls.exact(one_token)) for i in ids], np.zeros((3, n, d)))
        stream = self._linear(stream, self.network.embed)
        for index, layer in enumerate(self.network.layers):
            if isinstance(layer, Linear):
                stream = self._linear(stream, layer)
            else:
                must(isinstance(layer, Attention), f"layer {index} is a {type(layer).__name__}")
                assert isinstance(layer, Attention)
                stream = self._attention(stream, layer, index)
        all = self.composite
        named = [c.layer for c in all.parts] + [c.layer for c in all.gates]
        named += [c.layer for c in all.softmaxes] + [c.layer for c in all.attentions]
        for index in named:
            require(0 <= index < len(self.network.layers), f"a claim is about layer {index}")
        return self._linear(stream, self.network.read)

    def _linear(self, stream: Stream, map: Linear) -> Stream:
        return linear(stream, map, self.basis, self.machine)

    def _attention(self, stream: Stream, layer: Attention, index: int) -> Stream:
        T, width = len(stream.rows), len(layer.coordinates)
        held = stream.rows[0].forms.mid.shape[1]
        registers = self.network.registers if self.network.registers.shape[1] == held else np.zeros((0, held))
        keys = Keys(registers, stream.entering(self.machine), self.basis, self.machine, self.native)
        zero = Stream([Row.constant(np.zeros(width))] * T, np.zeros((3, T, width)))
        sum_of = SumOfHeads(stream if layer.residual else zero, self.basis, self.machine)
        # a plain Transformer runs the registers too: what is no number there would spoil every token
        grown = self.grown if self.native and len(registers) else np.zeros(held)
        sizes = np.concatenate([np.abs(registers) + grown, stream.sizes(self.basis)])
        added = [no_overflow(head, sizes) for head in layer.heads]
        for head in layer.heads:
            tick()
            self._registers_as_stored(head, len(registers))
        parts = [part for part in self.composite.parts if part.layer == index]
        gates = [claim for claim in self.composite.gates if claim.layer == index]
        softmaxes = [claim for claim in self.composite.softmaxes if claim.layer == index]
        attentions = [claim for claim in self.composite.attentions if claim.layer == index]
        entire = [c.head for c in gates] + [c.head for c in softmaxes] + [c.head for c in attentions]
        named = [head for part in parts for head in part.heads] + entire
        require(all(0 <= head < len(layer.heads) for head in named), f"a claim names a head that layer {index} lacks")
        every_column_once(layer, parts, entire)
        for part in parts:
            self._part(sum_of, layer, part, keys)
        for claim in gates:
            _rule_for(claim, "heads")(layer.heads[claim.head], claim, keys, self.units, sum_of)
        for softmax in softmaxes:
            self._softmax(sum_of, layer.heads[softmax.head], softmax.nodes, keys)
        for attention in attentions:
            self._attend(sum_of, layer.heads[attention.head], attention.nodes, keys)
        must(self.network.tokens is not None or len(set(named)) == len(layer.heads), "a head that no claim names")
        for head in (layer.heads[i] for i in range(len(layer.heads)) if i not in set(named)):
            if not self.native:
                whole = head.sees.registers == (0, len(registers)) and head.sees.data == "all" and head.mask is None
                self.masks = self.masks or not whole
            constant = bool(np.isfinite(exact_numbers(stream.constants, head.W_Q, self.machine.dtype)).all())
            rule = constant_mixing if constant else registry("heads").get(NoneType, constant_mixing)
            sum_of.add_all(rule(head, keys), np.count_nonzero(head.W_O, axis=0) > 0)
        new_written, new_moved = set[int](), set[int]()
        for head, most in zip(layer.heads, added, strict=True):
            targets = set(np.flatnonzero(head.W_O.any(axis=0)).tolist())
            if not spares_registers(self.network, head, self.moved, self.written):
                new_written |= targets
                if self.native:  # then no layer changes the coordinates
                    self.grown = self.grown + self._mean_of_all(len(sizes)) * most
            new_moved |= targets
        self.written, self.moved = self.written | new_written, self.moved | new_moved
        return sum_of.stream()

    def _mean_of_all(self, keys: int) -> float:
        """How many times the largest value a computed mean can be: weights add up to 1, or are at most 1 each."""
        return 2.0 if self.machine.unit * MAX_TOKENS < 0.25 else float(keys + 1)

    def _registers_as_stored(self, head: Head, registers: int) -> None:
        """A plain Transformer writes to registers too, and shows them to heads that should not see them."""
        reads = set(np.flatnonzero(head.W_K.any(axis=1) | head.W_V.any(axis=1)).tolist())
        if registers and reads & self.written and head.sees.registers != (0, registers):
            self.masks = True

    def _part(self, sum_of: SumOfHeads, layer: Attention, part: TableClaim, keys: Keys) -> None:
        stream, dtype = keys.stream, self.machine.dtype
        require(len(part.units) == len(stream.rows), f"a part names {len(part.units)} tokens of {len(stream.rows)}")
        place = read_part(layer, part, stream.constants, keys.registers, dtype)
        self.masks = self.masks or not hides_others(place.stored, len(keys.registers) + len(stream.rows))
        profiles = {"x" if unit == IDENTITY else self.units.profile(unit) for unit in part.units if unit != UNREAD}
        require(len(profiles) == 1, f"a part computes one profile, not {sorted(profiles)}")
        errors = stream.total[:, place.source]
        lo, hi, off = math.inf, -math.inf, 0.0
        differences: dict[int, Floats] = {}
        for token, unit in enumerate(part.units):
            if unit == UNREAD:
                continue
            held, away = stream.rows[token].column(place.source), SPARE * float(errors[token])
            row_lo, row_hi = one_range(held, self.basis)
            if unit != IDENTITY:
                differences[token] = self.units.apart(held, unit)
                away += SPARE * float(differences[token].sum())
                row_lo, row_hi = self.units.argument_range(unit, held)
            require(all(map(math.isfinite, (row_lo, row_hi, away))), "a query is not bounded")
            zones = part.zones if self.graph is not None else self._zones(token)
            if len(zones):
                argument = held if unit == IDENTITY else self.units.argument(unit)
                self.lost.add(zones, argument, row_lo, row_hi, *profiles)
            lo, hi, off = min(lo, row_lo - away), max(hi, row_hi + away), max(off, away)
        lo, hi = math.nextafter(lo, -math.inf), math.nextafter(hi, math.inf)
        if self.graph is not None:
            only_around_jumps(part, profiles)
        self._examine(place, part, profiles.pop(), lo, hi, off)
        self._no_overflow(place, float(stream.sizes(self.basis)[:, place.source].max()))
        slope = (part.claim.lipschitz * place.stored.scale + abs(part.slope)) * ROOM
        slip, largest, terms = query_slip(place, part, dtype), place.largest_output(), part.claim.terms
        own = np.array([terms.approximation, terms.leakage, terms.rounding + slip])
        inexact = sum(not scales_exactly(float(head.weight)) for head in place.stored.heads)
        for token, unit in enumerate(part.units):
            tick()
            incoming = stream.err[:, token, place.source]
            if unit == UNREAD:
                row, error = Row.constant(np.zeros(1)), np.array([largest, 0.0, 0.0])
            elif unit == IDENTITY:
                row = stream.rows[token].column(place.source)
                row = row.plus(row.times(np.array([[-part.slope]]))).plus(Row.constant(np.array([-part.mean])))
                error = own + (1.0 + abs(part.slope)) * incoming
            else:
                incoming = above(incoming + differences[token], 2)
                error = own + slope * incoming
                if self.units.waits(unit):  # its products take what the argument is off by
                    self.units.wait(unit, incoming)
                    error = own + ROOM * abs(part.slope) * incoming
                row = Row((0, self.units.id(unit)), Balls.exact(np.array([[-part.mean], [1.0]])))
                if part.slope:
                    row = row.plus(stream.rows[token].column(place.source).times(np.array([[-part.slope]])))
            sum_of.add(token, row, place.writes, above(error, 8), largest, len(part.heads), inexact)

    def _zones(self, token: int) -> Floats:
        """The dead zones of all rows of a token together; with units of another kind there are none."""
        tick()
        zones = [part.zones for part in self.composite.parts if token < len(part.units) and part.units[token] != UNREAD]
        return np.concatenate([*zones, np.zeros((0, 2))])

    def _examine(self, place: TablePlace, part: TableClaim, profile: str, lo: float, hi: float, off: float) -> None:
        """The same heads with the same claim are examined once."""
        claim = part.claim
        numbers = tuple(
            (None if head.hidden is None else float(head.hidden), *map(float, _numbers(head)))
            for head in place.stored.heads
        )
        same = (
            profile, part.mean, part.slope, claim.formula, claim.lo, claim.hi, claim.rule, claim.boxes.tobytes(),
            claim.terms, claim.lipschitz, part.zones.tobytes(), place.stored.centre, place.stored.scale, numbers,
            off if len(part.zones) else 0.0,
        )  # fmt: skip
        known = self.parts_hold or same in self.shown
        part_holds(place, part, profile, lo, hi, off, self.machine.dtype, examined=known)
        self.shown.add(same)

    def _no_overflow(self, place: TablePlace, size: float) -> None:
        """Tokens whose result nobody reads are run too."""
        stored = place.stored
        query = size * stored.scale + abs(stored.centre) * stored.scale
        sizes = stored.sizes(size, SPARE * query)
        require(all(bool(x < LARGE) for x in sizes), "a number may overflow")

    def _softmax(self, sum_of: SumOfHeads, head: Head, nodes: tuple[int, ...], keys: Keys) -> None:
        require(self.graph is not None, "softmax heads go with graphs")
        assert self.graph is not None
        found, stream = softmax_head(head, keys), keys.stream
        require(len(nodes) == len(found.sources), f"a softmax head of {len(found.sources)} entries computes {nodes}")
        of = next(self.graph.graph.nodes[k].of for k in nodes if k != -1)
        for token, row in enumerate(stream.rows):
            tick()
            # if every score is off by at most D, a weight p changes by at most tanh(D / 2)
            off = np.zeros(3)
            for source, k in zip(found.sources, of, strict=True):
                apart = self.graph.column_apart(row.column(source), k, token)
                off = np.maximum(off, above(stream.err[:, token, source] + apart, 2))
            error = ROOM / 2 * off + np.array([0.0, found.leakage, found.rounding])
            for entry, k in enumerate(nodes):
                targets = np.flatnonzero(found.weights[entry])
                require(k != -1 or not len(targets), "an entry of a softmax that is no column is read")
                if len(targets):
                    writes, form = Writes(targets, found.weights[entry, targets]), of_one(self.graph.softmax(k, token))
                    sum_of.add(token, form, writes, above(error, 8), SPARE, 1, 0)

    def _attend(self, sum_of: SumOfHeads, head: Head, nodes: tuple[int, ...], keys: Keys) -> None:
        require(self.graph is not None, "attention goes with graphs")
        assert self.graph is not None
        found = attend(head, nodes, self.graph, keys)
        for value, node in enumerate(nodes):
            targets = np.flatnonzero(head.W_O[value])
            writes = Writes(targets, head.W_O[value, targets])
            for token in range(len(keys.stream.rows)):
                form = of_one(self.graph.attention(node, token))
                sum_of.add(token, form, writes, found.err[:, token, value], float(found.sizes[value]), 1, 0)

    def distance(self, outputs: Stream, tokens: int) -> Floats:
        """The largest errors of any output of the first tokens: what the forms differ by counts as rounding."""
        worst = outputs.err[:, :tokens].max(axis=(1, 2))
        shape = (len(outputs.rows), outputs.rows[0].forms.mid.shape[1])
        for token, column in np.ndindex(tokens, shape[1]):
            apart = self.units.output_apart(outputs.rows[token].column(column), token, column, shape)
            worst = np.maximum(worst, above(outputs.err[:, token, column] + apart, 2))  # a NaN stays one
        require(bool(np.isfinite(worst).all()), "an error is not bounded")
        worst[LEAKAGE] = max(worst[LEAKAGE], 0.0)
        return worst


def _numbers(head: StoredHead) -> list[arb]:
    return [*head.slopes, *head.offsets, *head.values, head.weight]


def _well_formed(composite: Composite, units: Units) -> None:
    for part in composite.parts:
        require(
            all(isinstance(u, int) and IDENTITY <= u < units.count for u in part.units), f"a part computes {part.units}"
        )
        require(part.zones.ndim == 2 and part.zones.shape[1] == 2, f"dead zones of shape {part.zones.shape}")
        require(IDENTITY not in part.units or not len(part.zones), "dead zones are about arguments of units")
        require(
            units.takes_zones or not len(part.zones),
            "dead zones are about models of single tokens, and jumps of graphs",
        )
        claim = part.claim
        numbers = (part.mean, part.slope, claim.lo, claim.hi, claim.lipschitz, *dataclasses.astuple(claim.terms))
        require(all(isinstance(x, float) and math.isfinite(x) for x in numbers), "a part's claim has no finite number")
        require(min(claim.lipschitz, *dataclasses.astuple(claim.terms)) >= 0, "a part claims a negative error")


def _rule_for(claimed: object, table: str) -> Callable[..., Any]:
    """The rule that an extension registers for a kind of target, formulas or head; a refusal where there is none."""
    rules = registry(table)
    require(type(claimed) in rules, f"no rule for {table} of type {type(claimed).__name__}")
    found: Callable[..., Any] = rules[type(claimed)]
    return found
