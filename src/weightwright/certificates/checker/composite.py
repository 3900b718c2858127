"""The checker's walk through a network of several layers: what every coordinate holds, and how far off it may be.

Layer by layer the stream is compared with the declared target: parts and gates turn affine forms into units, heads
with constant scores mix tokens, linear maps act on the forms. In the end the outputs' forms are the target's.
"""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

import numpy as np
from flint import arb

from weightwright.certificates.checker.adding import Sum, no_overflow, scales_exactly
from weightwright.certificates.checker.balls import series
from weightwright.certificates.checker.complaints import must, parsed, require
from weightwright.certificates.checker.declared import Affine, Declared
from weightwright.certificates.checker.midrad import Balls, above, gamma
from weightwright.certificates.checker.mixing import Keys, Machine, constant_mixing, gate
from weightwright.certificates.checker.parts import Place, hides_others, part_holds, query_slip, read_part
from weightwright.certificates.checker.picking import picking
from weightwright.certificates.checker.rounding import SMALLEST, UNIT, StoredHead
from weightwright.certificates.checker.stream import (
    APPROXIMATION,
    LARGE,
    LEAKAGE,
    ROUNDING,
    Basis,
    Row,
    Stream,
    exact_numbers,
    linear,
)
from weightwright.certificates.checker.targets import agree_target
from weightwright.certificates.claims import Certificate
from weightwright.certificates.composites import (
    IDENTITY,
    MASKED,
    UNREAD,
    Composite,
    Models,
    PartClaim,
    Ridge,
    assumed,
    in_words,
)
from weightwright.network import Attention, Head, Linear, Network
from weightwright.network.laws import spares_registers
from weightwright.network.layers import Floats

#: A profile's range over an interval is enclosed on so many parts of it.
PARTS_OF_A_RANGE = 16


def agree_composite(network: Network, certificate: Certificate, composite: Composite) -> None:
    """Refuse (CertificateError) unless every output is within the certificate's bound of its target."""
    require(certificate.kernel == "dot", "networks of several layers run in kernel 'dot'")
    nothing = certificate.layers == () and certificate.dead_zones == () and certificate.samples is None
    require(nothing, "a claim about one layer does not go with one about several")
    require(certificate.formula == in_words(composite), f"the network computes {in_words(composite)!r}")
    require(set(assumed(composite)) <= set(certificate.assumptions), "the certificate hides a dead zone")
    n, d = network.tokens, len(network.inputs)
    must(n is not None, "the number of tokens must be fixed")
    assert n is not None
    box = certificate.domain
    fits = box.lo.shape in ((d,), (n, d)) and bool((box.lo < box.hi).all())
    require(fits, f"the domain {box} is no box of {n} tokens and {d} features")
    lo, hi = (np.broadcast_to(end, (n, d)).ravel() for end in (box.lo, box.hi))
    walk = _Walk(network, composite, lo, hi)
    outputs = walk.run()
    if walk.masks:
        require(MASKED in certificate.assumptions, "the certificate hides that keys are masked")
    errors = walk.distance(outputs)  # (3,)
    if composite.target is not None:
        require(isinstance(composite.ridge, Ridge), "formulas go with a ReLU network")
        assert isinstance(composite.ridge, Ridge)
        agree_target(composite.ridge, composite.target, lo, hi)
        errors[APPROXIMATION] += composite.target.error
    whole = certificate.terms
    claimed = np.array([whole.approximation, whole.leakage, whole.rounding])
    names = ("approximation", "leakage", "rounding")
    for name, found, claim in zip(names, above(errors, 2).tolist(), claimed.tolist(), strict=True):
        require(found <= claim, f"{name}: {found:.6g} could be shown, {claim:.6g} is claimed")
    total = float(above(claimed.sum(), 3))
    require(total <= certificate.bound, f"the terms add up to {total:.6g}, the bound is {certificate.bound:.6g}")


class _Walk:
    def __init__(self, network: Network, composite: Composite, lo: Floats, hi: Floats) -> None:
        self.network, self.composite = network, composite
        self.machine = Machine(float(UNIT[network.dtype]), float(SMALLEST[network.dtype]), network.dtype)
        self.basis, self.N = Basis(lo, hi), len(lo)
        self.declared = Declared(composite.ridge, self.N)
        if isinstance(composite.ridge, Models):
            shape = (network.tokens, len(network.inputs))
            require(composite.ridge.weights.shape == shape, f"the target has other tokens than {shape}")
        self.unit_ids: dict[int, int] = {}  # units whose basis function is known
        self.shown: set[tuple[object, ...]] = set()  # parts that were examined already
        self.masks = False
        self.written: set[int] = set()  # coordinates that heads have written, on registers too in a plain Transformer
        _well_formed(self.composite, self.declared.units)

    def run(self) -> Stream:
        n, d = self.network.tokens or 0, len(self.network.inputs)
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
        for index in [part.layer for part in self.composite.parts] + [claim.layer for claim in self.composite.gates]:
            require(0 <= index < len(self.network.layers), f"a claim is about layer {index}")
        return self._linear(stream, self.network.read)

    def _linear(self, stream: Stream, map: Linear) -> Stream:
        return linear(stream, map, self.basis, self.machine.unit, self.machine.smallest)

    def _attention(self, stream: Stream, layer: Attention, index: int) -> Stream:
        T, width = len(stream.rows), len(layer.coordinates)
        held = stream.rows[0].forms.mid.shape[1]
        registers = self.network.registers if self.network.registers.shape[1] == held else np.zeros((0, held))
        keys = Keys(registers, stream, self.basis, self.machine, self.network.native)
        zero = Stream([Row.constant(np.zeros(width))] * T, np.zeros((3, T, width)))
        sum_of = Sum(stream if layer.residual else zero, self.basis)
        sizes = np.concatenate([np.abs(registers), stream.sizes(self.basis)])
        for head in layer.heads:
            no_overflow(head, sizes)
            self._registers_as_stored(head, len(registers))
        parts = [part for part in self.composite.parts if part.layer == index]
        gates = [claim for claim in self.composite.gates if claim.layer == index]
        named = [head for part in parts for head in part.heads] + [claim.head for claim in gates]
        require(all(0 <= head < len(layer.heads) for head in named), f"a claim names a head that layer {index} lacks")
        _every_column_once(layer, parts, [claim.head for claim in gates])
        for part in parts:
            self._part(sum_of, layer, part, keys)
        for claim in gates:
            self._gate(sum_of, layer, claim.head, claim.unit, keys)
        for head in (layer.heads[i] for i in range(len(layer.heads)) if i not in set(named)):
            if not self.network.native:
                whole = head.sees.registers == (0, len(registers)) and head.sees.data == "all" and head.mask is None
                self.masks = self.masks or not whole
            constant = bool(np.isfinite(exact_numbers(stream.constants, head.W_Q, self.machine.dtype)).all())
            mixed = constant_mixing(head, keys) if constant else picking(head, keys)
            sum_of.add_all(mixed, np.count_nonzero(head.W_O, axis=0) > 0)
        self.written |= {
            int(c)
            for head in layer.heads
            if not (index == 0 and spares_registers(self.network, head))
            for c in np.flatnonzero(head.W_O.any(axis=0))
        }
        return sum_of.stream(self.machine)

    def _registers_as_stored(self, head: Head, registers: int) -> None:
        """A plain Transformer writes to registers too, and shows them to heads that should not see them."""
        reads = set(np.flatnonzero(head.W_K.any(axis=1) | head.W_V.any(axis=1)).tolist())
        if registers and reads & self.written and head.sees.registers != (0, registers):
            self.masks = True

    def _part(self, sum_of: Sum, layer: Attention, part: PartClaim, keys: Keys) -> None:
        stream, dtype = keys.stream, self.machine.dtype
        require(len(part.units) == len(stream.rows), f"a part names {len(part.units)} tokens of {len(stream.rows)}")
        place = read_part(layer, part, stream.constants, keys.registers, dtype)
        self.masks = self.masks or not hides_others(place.stored, len(keys.registers) + len(stream.rows))
        profiles = {"x" if unit == IDENTITY else self.declared.profile(unit) for unit in part.units if unit != UNREAD}
        require(len(profiles) == 1, f"a part computes one profile, not {sorted(profiles)}")
        errors = stream.total()[:, place.source]
        lo, hi, off = math.inf, -math.inf, 0.0
        differences: dict[int, float] = {}
        for token, unit in enumerate(part.units):
            if unit == UNREAD:
                continue
            row_lo, row_hi = (float(end[place.source]) for end in stream.rows[token].range(self.basis))
            away = 1.01 * float(errors[token])
            if unit != IDENTITY:
                differences[token] = self._difference(stream.rows[token], place.source, unit)
                away += 1.01 * differences[token]
            require(all(map(math.isfinite, (row_lo, row_hi, away))), "a query is not bounded")
            _leaves_something(self._zones(token), row_lo, row_hi)
            lo, hi, off = min(lo, row_lo - away), max(hi, row_hi + away), max(off, away)
        lo, hi = math.nextafter(lo, -math.inf), math.nextafter(hi, math.inf)
        self._examine(place, part, profiles.pop(), lo, hi, off)
        self._no_overflow(place, float(stream.sizes(self.basis)[:, place.source].max()))
        slope = (part.claim.lipschitz * place.stored.scale + abs(part.slope)) * 1.0001
        slip, largest, terms = query_slip(place, part, dtype), place.largest_output(), part.claim.terms
        own = np.array([terms.approximation, terms.leakage, terms.rounding + slip])
        inexact = sum(not scales_exactly(float(head.weight)) for head in place.stored.heads)
        for token, unit in enumerate(part.units):
            incoming = stream.err[:, token, place.source]
            if unit == UNREAD:
                row, error = Row.constant(np.zeros(1)), np.array([largest, 0.0, 0.0])
            elif unit == IDENTITY:
                row = _column(stream.rows[token], place.source)
                row = row.plus(row.times(np.array([[-part.slope]]))).plus(Row.constant(np.array([-part.mean])))
                error = own + (1.0 + abs(part.slope)) * incoming
            else:
                row = Row((0, self._unit(unit)), Balls.exact(np.array([[-part.mean], [1.0]])))
                if part.slope:
                    row = row.plus(_column(stream.rows[token], place.source).times(np.array([[-part.slope]])))
                error = own + slope * incoming
                error[ROUNDING] += slope * differences[token]
            sum_of.add(token, place.target, row, above(error, 8), largest, len(part.heads), inexact)

    def _zones(self, token: int) -> Floats:
        """The dead zones of all rows of a token together; with units of another kind there are none."""
        zones = [part.zones for part in self.composite.parts if token < len(part.units) and part.units[token] != UNREAD]
        return np.concatenate([*zones, np.zeros((0, 2))])

    def _examine(self, place: Place, part: PartClaim, profile: str, lo: float, hi: float, off: float) -> None:
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
        part_holds(place, part, profile, lo, hi, off, self.machine.dtype, examined=same in self.shown)
        self.shown.add(same)

    def _no_overflow(self, place: Place, size: float) -> None:
        """Tokens whose result nobody reads are run too."""
        stored = place.stored
        query = size * stored.scale + abs(stored.centre) * stored.scale
        sizes = stored.sizes(size, 1.01 * query)
        require(all(bool(x < LARGE) for x in sizes), "a number may overflow")

    def _gate(self, sum_of: Sum, layer: Attention, head: int, unit: int, keys: Keys) -> None:
        found = gate(layer.heads[head], keys)
        profile = self.declared.profile(unit)
        require(profile == "relu(x)", f"a gate computes relu(x), not {profile!r}")
        stream = keys.stream
        # every token's number may be the value, and the query's own the score: twice the largest error of any
        apart = max(self._difference(row, found.source, unit) for row in stream.rows)
        incoming = stream.err[:, :, found.source].max(axis=1)
        incoming[ROUNDING] += apart
        roundings = 2 * (len(stream.rows) + len(keys.registers)) + 8  # of a mean of all values
        size = (1.01 + float(gamma(roundings, self.machine.unit))) * float(
            stream.sizes(self.basis)[:, found.source].max()
        )
        own = 2.01 * incoming + np.array([found.approximation, 0.0, found.rounding])
        for target in np.flatnonzero(found.weights).tolist():
            weight = float(found.weights[target])
            row = Row((0, self._unit(unit)), Balls.exact(np.array([[0.0], [weight]])))
            nothing, inexact = Row.constant(np.zeros(1)), int(not scales_exactly(weight))
            for token, active in enumerate(found.active.tolist()):
                error = own if active else np.array([0.0, found.silent, 0.0])
                form, error = row if active else nothing, above(abs(weight) * error, 8)
                sum_of.add(token, target, form, error, abs(weight) * size, 1, inexact)

    def _difference(self, row: Row, coordinate: int, unit: int) -> float:
        """How far the form of a coordinate is from the argument of a unit."""
        return self._apart(_column(row, coordinate), self._form(self.declared.argument(unit)))

    def _apart(self, form: Row, declared: Row) -> float:
        lo, hi = form.plus(Row(declared.ids, Balls(-declared.forms.mid, declared.forms.rad))).range(self.basis)
        apart = float(np.maximum(np.abs(lo), np.abs(hi))[0])
        require(math.isfinite(apart), "how far a form is from the declared one is not bounded")
        return apart

    def _form(self, affine: Affine) -> Row:
        """An affine combination of inputs and units that are known by now."""
        late = [i - self.N for i in affine.places if i >= self.N and i - self.N not in self.unit_ids]
        require(not late, f"units {late} are used before they are computed")
        ids = [0, *(i + 1 if i < self.N else self.unit_ids[i - self.N] for i in affine.places)]
        order = np.argsort(ids)
        values = np.array([affine.constant, *affine.weights])
        return Row(tuple(ids[i] for i in order), Balls.exact(values[order][:, None]))

    def _unit(self, unit: int) -> int:
        """The basis function of a unit, with the range of its profile over the range of its argument."""
        if unit not in self.unit_ids:
            argument = self._form(self.declared.argument(unit))
            lo, hi = (float(end[0]) for end in argument.range(self.basis))
            profile = parsed(self.declared.profile(unit), ("x",), "a profile")
            edges = np.linspace(lo, hi, PARTS_OF_A_RANGE + 1)
            edges[0], edges[-1] = lo, hi
            over = [series(profile, arb(a).union(arb(b)), 0)[0] for a, b in pairwise(edges.tolist())]
            ends = [float(x.lower()) for x in over], [float(x.upper()) for x in over]
            require(all(map(math.isfinite, (*ends[0], *ends[1]))), f"a profile is unbounded on [{lo!r}, {hi!r}]")
            least, most = math.nextafter(min(ends[0]), -math.inf), math.nextafter(max(ends[1]), math.inf)
            self.unit_ids[unit] = self.basis.add(least, most)
        return self.unit_ids[unit]

    def distance(self, outputs: Stream) -> Floats:
        """The largest errors of any output: what the forms differ by counts as rounding."""
        worst = outputs.err.max(axis=(1, 2))
        width = outputs.rows[0].forms.mid.shape[1]
        count = len(outputs.rows) * width
        require(self.declared.outputs == count, f"the target has {self.declared.outputs} outputs, not {count}")
        target = self.composite.ridge
        if isinstance(target, Models):
            require(width == len(target.profiles), f"the target has {len(target.profiles)} rows, not {width}")
        for index in range(count):
            row, column = outputs.rows[index // width], index % width
            apart = self._apart(_column(row, column), self._form(self.declared.output(index)))
            rounding = outputs.err[ROUNDING, index // width, column] + apart
            worst[ROUNDING] = np.maximum(worst[ROUNDING], above(np.array(rounding), 2))  # a NaN stays one
        require(bool(np.isfinite(worst).all()), "an error is not bounded")
        worst[LEAKAGE] = max(worst[LEAKAGE], 0.0)
        return worst


def _leaves_something(zones: Floats, lo: float, hi: float) -> None:
    """The dead zones do not cover all that a token's argument can be."""
    reached = lo
    for start, end in sorted(zones.tolist()):
        reached = max(reached, end) if start <= reached else reached
    require(not len(zones) or reached < hi, "the dead zones leave nothing of the domain")


def _numbers(head: StoredHead) -> list[arb]:
    return [*head.slopes, *head.offsets, *head.values, head.weight]


def _column(row: Row, coordinate: int) -> Row:
    return Row(row.ids, Balls(row.forms.mid[:, [coordinate]], row.forms.rad[:, [coordinate]]))


def _every_column_once(layer: Attention, parts: list[PartClaim], gates: list[int]) -> None:
    """No head is claimed twice, and no column of a part's head is left out."""
    claimed = [(head, part.column) for part in parts for head in part.heads]
    require(len(set(claimed)) == len(claimed), "two parts claim the same head")
    require(len(set(gates)) == len(gates) and not set(gates) & {head for head, _ in claimed}, "a head is claimed twice")
    for index in {head for head, _ in claimed}:
        for column in np.flatnonzero(layer.heads[index].W_O.any(axis=1)).tolist():
            require((index, column) in claimed, f"no claim covers column {column} of head {index}")


def _well_formed(composite: Composite, K: int) -> None:
    for part in composite.parts:
        require(all(isinstance(u, int) and IDENTITY <= u < K for u in part.units), f"a part computes {part.units}")
        require(part.zones.ndim == 2 and part.zones.shape[1] == 2, f"dead zones of shape {part.zones.shape}")
        require(IDENTITY not in part.units or not len(part.zones), "dead zones are about arguments of units")
        fits = isinstance(composite.ridge, Models) or not len(part.zones)
        require(fits, "dead zones are about models of single tokens")
        claim = part.claim
        numbers = (part.mean, part.slope, claim.lo, claim.hi, claim.lipschitz, *dataclasses.astuple(claim.terms))
        require(all(isinstance(x, float) and math.isfinite(x) for x in numbers), "a part's claim has no finite number")
        require(min(claim.lipschitz, *dataclasses.astuple(claim.terms)) >= 0, "a part claims a negative error")
