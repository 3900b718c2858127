"""The layers of a pass as steps on pieces of the stream. Each is drafted from a layer, which says how its maps cut the
columns, and settled once all columns are cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from weightwright.network import Attention, Block, Gather, Head, Linear, Term
from weightwright.network.token_maps import Total
from weightwright.numbers import Floats
from weightwright.runtime.passes.pieces import Map, Space
from weightwright.runtime.passes.values import (
    Memory,
    Product,
    Value,
    Weight,
    add_up,
    inner_product,
    multiplied_out,
    sum_over_tokens,
)

Stream = list[Value]
#: Pieces times weights, to be added up.
Form = list[tuple[int, Weight]]
#: Numbers as the network's dtype and device have them.
Held = Callable[[Floats], Tensor]
#: Which layer: its number among the network's; in a loop followed by its number there.
Place = tuple[int, ...]


@dataclass(eq=False)
class Run:
    """One call, of n tokens. inside: whether what is watched was where it must be, on the device; None where nobody
    watches. heard: the streams that the layers at `hear` made, one after the other."""

    n: int
    inside: list[Tensor] | None
    hear: frozenset[Place]
    heard: list[Stream] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)


class UnplannedError(Exception):
    """A layer that has no step here: the network runs as whole streams."""


class Step(Protocol):
    maps: list[Map]

    def settle(self, held: Held) -> None: ...

    def __call__(self, stream: Stream, run: Run) -> Stream: ...


def forms_of(map: Map, held: Held) -> list[Form]:
    """For every piece of the target, what it is the sum of."""
    forms: list[Form] = [[] for _ in map.target.pieces()]
    for move in map.moves():
        forms[move.target].append((move.source, as_weight(move.weights, held)))
    return forms


def as_weight(weights: Floats, held: Held) -> Weight:
    return float(weights[0]) if (weights == weights[0]).all() else held(weights)


def add_form(form: Form, stream: Stream) -> Value:
    return add_up([(stream[k], weight) for k, weight in form])


def tensor_of(form: Form, stream: Stream) -> Tensor | None:
    value = add_form(form, stream)
    return None if value is None else multiplied_out(value)


class LinearStep:
    """Token-wise terms, totals, and copies of one token to all. last: the network's `read`, which may return any
    tokens; before it their number stays."""

    def __init__(self, layer: Linear, source: Space, target: Space, last: bool = False) -> None:
        self.layer, self.target = layer, target
        self.maps = [Map(term.A, source, target) for term in layer.terms]
        self.takes = [_of_tokens(term, last) for term in layer.terms]

    def settle(self, held: Held) -> None:
        where = held(np.zeros(1)).device  # of a list of tokens: nothing is moved to a GPU while passes run
        self.forms = [
            (
                torch.tensor(take, device=where) if isinstance(take, list) else take,
                [(place, form) for place, form in enumerate(forms_of(map, held)) if form],
            )
            for take, map in zip(self.takes, self.maps, strict=True)
        ]
        C = self.layer.C
        self.constants = [held(C[None, :, piece]) if C[:, piece].any() else None for piece in self.target.pieces()]

    def __call__(self, stream: Stream, run: Run) -> Stream:
        terms: list[list[tuple[Value, Weight]]] = [[(constant, 1.0)] for constant in self.constants]
        for take, forms in self.forms:
            for place, form in forms:
                terms[place] += [(_take(stream[k], take, run.n), weight) for k, weight in form]
        return [add_up(some) for some in terms]


def _of_tokens(term: Term, last: bool) -> int | list[int] | None:
    """Which token all others become; -1: the sum of all; a list: which tokens; None: every token stays where it is."""
    if term.S is not None:
        raise UnplannedError
    if term.tokens is None:
        return None
    if isinstance(term.tokens, Total):
        return -1
    if isinstance(term.tokens, Gather) and len(set(term.tokens.sources)) == 1 and term.tokens.sources[0] >= 0:
        return term.tokens.sources[0]
    if last and isinstance(term.tokens, Gather) and min(term.tokens.sources, default=-1) >= 0:
        return list(term.tokens.sources)
    raise UnplannedError


def _take(value: Value, take: int | Tensor | None, n: int) -> Value:
    if take is None or value is None:
        return value
    if isinstance(take, int) and take == -1:
        return sum_over_tokens(value, n)
    number = multiplied_out(value)
    if number.shape[-2] == 1:
        return number
    return number[..., take : take + 1, :] if isinstance(take, int) else number.index_select(-2, take)


class TableStep:
    """Every token becomes a block of keys, its first asks them, and the first is kept: three layers.

    The keys R_j x are not made: the score is R_j (q . x), and the head's answer (sum of p_j V_j) u, a product
    that a sum over the tokens need not multiply out.
    """

    def __init__(self, layers: Sequence[Any], source: Space, wide: Space, target: Space) -> None:
        spread, attend, gather = layers
        (head,) = attend.heads
        self.beta, self.target = head.beta, target
        self.spread = [(Map(term.A, source, wide), term.tokens.R[:, 0]) for term in spread.terms]
        query, value = Space(head.W_Q.shape[1]), Space(head.W_V.shape[1])
        self.query, self.key = Map(head.W_Q, wide, query), Map(head.W_K, wide, query)
        self.value, self.out = Map(head.W_V, wide, value), Map(head.W_O, value, wide)
        self.gather = Map(gather.terms[0].A, wide, target)
        self.maps = [*(map for map, _ in self.spread), self.query, self.key, self.value, self.out, self.gather]

    def settle(self, held: Held) -> None:
        parts: dict[int, list[tuple[int, Floats, Floats]]] = {}  # of a wide piece: source, weights, factors
        for map, factors in self.spread:
            for move in map.moves():
                parts.setdefault(move.target, []).append((move.source, move.weights, factors))

        def first(piece: int, weights: Floats) -> Form:
            """What the first token of a block holds there, times weights."""
            return [(k, as_weight(_one_product(w, R[:1], weights), held)) for k, w, R in parts.get(piece, []) if R[0]]

        def blocks(map: Map) -> list[tuple[int, int, Floats]]:
            """(place in the query or value, source, factor of each key)."""
            return [
                (move.target, k, _one_product(w[:1], R, move.weights[:1]))
                for move in map.moves()
                for k, w, R in parts.get(move.source, [])
                if _is_one_number(w) and _is_one_number(move.weights) and R.any()
            ]

        queries: dict[int, Form] = {}
        for move in self.query.moves():
            queries.setdefault(move.target, []).extend(first(move.source, move.weights))
        widths = [piece.stop - piece.start for piece in self.query.target.pieces()]
        scores = sorted(blocks(self.key), key=lambda part: widths[part[0]])  # what no state enters comes first
        exact = math.frexp(self.beta)[0] == 0.5
        self.late = 1.0 if exact else self.beta
        self.scores = [
            (queries[place], k, held((self.beta * R if exact else R)[:, None]))
            for place, k, R in scores
            if place in queries
        ]
        values = blocks(self.value)
        self.values = [(k, held(R[None])) for _, k, R in values]
        added: dict[int, Form] = {}
        for move in self.out.moves():
            weight = as_weight(move.weights, held)
            mine = [(number, weight) for number, (place, _, _) in enumerate(values) if place == move.source]
            added.setdefault(move.target, []).extend(mine)
        self.kept: list[Form] = [[] for _ in self.target.pieces()]
        self.added: list[Form] = [[] for _ in self.target.pieces()]
        for move in self.gather.moves():
            self.kept[move.target] += first(move.source, move.weights)
            for number, weight in added.get(move.source, []):
                if not (move.weights == 1).all():
                    raise UnplannedError
                self.added[move.target].append((number, weight))

    def __call__(self, stream: Stream, run: Run) -> Stream:
        weights = torch.softmax(self._scores(stream, run.memory), -2)  # (B, P, n): tokens side by side are quicker
        answers = []
        for k, factors in self.values:
            value = stream[k]
            answers.append(None if value is None else Product((factors @ weights).mT, multiplied_out(value)))
        return [
            add_up([*((stream[k], w) for k, w in kept), *((answers[k], w) for k, w in added)])
            for kept, added in zip(self.kept, self.added, strict=True)
        ]

    def _scores(self, stream: Stream, memory: Memory) -> Tensor:
        total = None
        for query, k, factors in self.scores:
            q, value = tensor_of(query, stream), stream[k]
            if q is None or value is None:
                continue
            inner = memory.once(inner_product, q, multiplied_out(value))
            total = (
                memory.once(begin_scores, inner, factors)
                if total is None
                else memory.once(add_scores, total, inner, factors)
            )
        if total is None:
            raise UnplannedError
        return total if self.late == 1.0 else total * self.late


def begin_scores(inner: Tensor, factors: Tensor) -> Tensor:
    """(B, P, n) of inner products (B, n, 1) and the factors of all keys, (P, 1)."""
    return inner.mT * factors


def add_scores(scores: Tensor, inner: Tensor, factors: Tensor) -> Tensor:
    return torch.addcmul(scores, inner.mT, factors)


def _one_product(*factors: Floats) -> Floats:
    """Numbers multiplied, of which all but one must be 1: nothing is rounded here."""
    others = [factor for factor in factors if not (factor == 1).all()]
    if len(others) > 1:
        raise UnplannedError
    return np.broadcast_to(others[0], np.broadcast_shapes(*(f.shape for f in factors))) if others else factors[0]


def _is_one_number(weights: Floats) -> bool:
    if not (weights == weights[0]).all():
        raise UnplannedError
    return True


def is_table(layers: Sequence[Any]) -> bool:
    """Whether these are the three layers of a table."""
    if len(layers) < 3 or not (isinstance(layers[0], Linear) and isinstance(layers[2], Linear)):
        return False
    spread, attend, gather = layers[:3]
    if not isinstance(attend, Attention) or len(attend.heads) != 1 or not attend.residual:
        return False
    sees, P = attend.heads[0].sees, attend.heads[0].sees.block
    repeats = all(_is_block(term, (P, 1)) for term in spread.terms)
    back = len(gather.terms) == 1 and _is_block(gather.terms[0], (1, P))
    alone = sees.data == "block" and sees.asks == "first" and sees.registers[0] == sees.registers[1]
    plain = repeats and back and alone and not spread.C.any() and not gather.C.any()
    return plain and bool(np.array_equal(gather.terms[0].tokens.R, np.eye(1, P)))


def _is_block(term: Term, shape: tuple[int, int]) -> bool:
    return isinstance(term.tokens, Block) and term.tokens.R.shape == shape and term.S is None


class HeadsStep:
    """Heads that look at registers, and perhaps at their own token, added to the stream."""

    def __init__(self, layer: Attention, registers: Floats, space: Space) -> None:
        if not layer.residual:
            raise UnplannedError
        self.groups = [_SameTable(heads, registers, space) for heads in _group_heads(layer.heads, registers)]
        self.maps = [map for group in self.groups for map in group.maps]

    def settle(self, held: Held) -> None:
        for group in self.groups:
            group.settle(held)

    def __call__(self, stream: Stream, run: Run) -> Stream:
        terms: list[list[tuple[Value, Weight]]] = [[(value, 1.0)] for value in stream]
        for group in self.groups:
            parts = group.answers(stream)
            for some, form in zip(terms, group.outs, strict=True):
                some += [(parts[k], weight) for k, weight in form]
        return [add_up(some) for some in terms]


def _group_heads(heads: Sequence[Head], registers: Floats) -> list[list[Head]]:
    """Together are heads that differ in what they ask, read of their own token and write alone."""
    groups: dict[Any, list[Head]] = {}
    for head in heads:
        if head.sees.data not in ("none", "self") or head.window is not None or head.mask is not None:
            raise UnplannedError
        seen = registers[slice(*head.sees.registers)]
        read = head.W_K if head.sees.data == "self" else head.W_K[:0]
        table = [part.tobytes() for part in (seen @ head.W_K, seen @ head.W_V, read)]
        groups.setdefault((head.sees.data, head.beta, head.W_Q.shape, head.W_V.shape, *table), []).append(head)
    return list(groups.values())


class _SameTable:
    """Heads with one table."""

    def __init__(self, heads: Sequence[Head], registers: Floats, space: Space) -> None:
        first = heads[0]
        self.H, self.h, self.v = len(heads), first.W_Q.shape[1], first.W_V.shape[1]
        self.own, self.beta = first.sees.data == "self", first.beta
        seen = registers[slice(*first.sees.registers)]
        self.K, self.V = seen @ first.W_K, seen @ first.W_V
        if self.own and self.h != 1:
            raise UnplannedError
        stacked = [np.stack([getattr(head, name) for head in heads], -1) for name in ("W_Q", "W_V")]  # (d, h or v, H)
        wide = [part.reshape(len(part), -1) for part in stacked]  # neighbouring columns are those of all heads
        W_O = np.stack([head.W_O for head in heads], 1).reshape(self.v * self.H, -1)
        value = Space(self.v * self.H)
        self.query, self.out = Map(wide[0], space, Space(self.h * self.H)), Map(W_O, value, space)
        self.value = Map(wide[1], space, value) if self.own else None
        self.key = Map(first.W_K, space, Space(1)) if self.own else None
        self.maps = [map for map in (self.query, self.out, self.value, self.key) if map is not None]

    def settle(self, held: Held) -> None:
        self.queries = forms_of(self.query, held)
        self.keys, self.registers = held(self.K), held(self.V)
        self.reads = bool(self.V.any())
        if self.value is not None and self.key is not None:
            self.values, (self.own_key,) = forms_of(self.value, held), forms_of(self.key, held)
        self.outs = forms_of(self.out, held)
        self.widths = [piece.stop - piece.start for piece in self.query.target.pieces()]
        self.parts = [piece.stop - piece.start for piece in self.out.source.pieces()]

    def answers(self, stream: Stream) -> Sequence[Tensor]:
        """By pieces of the values, (B, n, v H) together."""
        Q = self.beta * _side_by_side(self.queries, self.widths, stream, self.keys)  # (B, n, h H)
        return (self._on_own_token(Q, stream) if self.own else self._on_registers(Q)).split(self.parts, -1)

    def _on_registers(self, Q: Tensor) -> Tensor:
        asked = Q.unflatten(-1, (self.h, self.H)).mT  # (B, n, H, h)
        return (torch.softmax(asked @ self.keys.mT, -1) @ self.registers).mT.flatten(-2)

    def _on_own_token(self, Q: Tensor, stream: Stream) -> Tensor:
        own = tensor_of(self.own_key, stream)
        values = _side_by_side(self.values, self.parts, stream, self.keys).unflatten(-1, (self.v, self.H))
        own_scores = Q * own if own is not None else torch.zeros_like(Q)
        others = Q.unsqueeze(-3) * self.keys[:, :, None]  # (B, p, n, H)
        weights = torch.softmax(torch.cat([others, own_scores.unsqueeze(-3)], -3), -3)  # (B, p + 1, n, H)
        mixed = weights[..., -1, :, :].unsqueeze(-2) * values  # (B, n, v, H)
        if self.reads:
            mixed = mixed + torch.einsum("bpnh,pv->bnvh", weights[..., :-1, :, :], self.registers)
        return mixed.flatten(-2)


def _side_by_side(forms: Sequence[Form], widths: Sequence[int], stream: Stream, like: Tensor) -> Tensor:
    found = [tensor_of(form, stream) for form in forms]
    if len(found) == 1 and found[0] is not None:
        return found[0]
    shape = torch.broadcast_shapes((1, 1), *(one.shape[:-1] for one in found if one is not None))
    parts = [
        like.new_zeros(*shape, width) if one is None else one.expand(*shape, width)
        for one, width in zip(found, widths, strict=True)
    ]
    return torch.cat(parts, -1)
