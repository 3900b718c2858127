"""The plan for running a network: made from its weights when it first runs, and again when they change.

The modules say what a network is, head by head, and run so where somebody looks at the parts: hooks, gradients of
weights, torch.compile. Everywhere else this plan runs. It computes the same sums, and rounds as the model says:

- Only coordinates that somebody reads exist. The stream is a list of pieces: the input, then what each layer wrote.
  Coordinates that are constant are numbers of the plan.
- A layer whose heads see registers alone is one product into the queries of all heads, a table for all heads that share
  it, and one product out of their answers. Maps that pick coordinates are picks.
- Any other layer is called as the module that it is, on the whole stream.

Sums of products are taken in another order than the modules take them, which the rounding model allows. Scores, softmax
and mixing are those of docs/certificates.md, "Rounding", in kernels "dot" (`DenseTable`) and "anchor" (`WindowTable`).

Shapes: T tokens of the whole batch, d coordinates, H heads, p keys, h and v the sizes of a query and of a value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weightwright.errors import WeightwrightError
from weightwright.network import Layer, Loop, Softmax
from weightwright.runtime.attention_modules import AttentionHead, AttentionLayer
from weightwright.runtime.kernels.table_kernel import DenseTable
from weightwright.runtime.kernels.window_kernel import WindowTable
from weightwright.runtime.layer_modules import FeedForwardLayer, LoopLayer
from weightwright.runtime.sparse_maps import LinearMap, LinearTerm, numbers
from weightwright.runtime.stream_pieces import Stream, Sum, map_of, rows_of
from weightwright.runtime.table_layer import LookUp, TableLayer, one_head
from weightwright.runtime.weights import HandedOut, Weights, can_be_read, is_transformed, without_transforms

#: Numbers of the stream that are held at a time on a CPU, of tokens or inputs that do not look at each other: 2 MB in
#: float32. With more they leave the cache between two layers, with less a product has too little to do.
_NUMBERS_AT_ONCE = 2**19
#: The share of a GPU's free memory that a part of a batch may take; what is computed on the way takes as much again.
_SHARE_OF_MEMORY = 1 / 8
#: Products on a GPU have a multiple of this many columns, some of which nobody reads: other widths may take twice as
#: long.
_EIGHT = 8
#: Bytes below which nobody asks a GPU for its free memory.
_LITTLE = 2**28


#: Where a module keeps the hooks that somebody put on it.
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@dataclass(frozen=True, eq=False)
class ModuleLayer:
    """Any other layer, called on the whole stream, which is one piece afterwards."""

    module: nn.Module
    stream: Sum

    def __call__(self, pieces: list[Tensor], shape: torch.Size) -> tuple[list[Tensor], torch.Size]:
        X = self.module(self.stream(pieces).unflatten(0, shape))
        return [X.flatten(0, -2)], X.shape[:-1]


class Plan:
    """`run(x)` for inputs that are admitted; `holds` says whether it still is the plan of its network."""

    def __init__(self, net: Any) -> None:
        self.net = net
        self.parts = [(module, tuple(module._modules.values())) for module in net.modules()]
        self.weights = [module for module, _ in self.parts if isinstance(module, Weights)]
        # who holds a weight may write to it at any time, also while the plan is made: from then on it is made from
        # copies, and every call compares the weights with these
        twins = _Twins(net) if self._is_handed() or _is_edited(net) else None
        self.copies = None if twins is None else [_state(twins.of(module)) for module in self.weights]
        with without_transforms():
            self._make(list(net.layers), net if twins is None else twins.of(net))

    def holds(self) -> bool:
        """Whether it would be made just so again, and nobody looks at the parts."""
        net = self.net
        for module, children in self.parts:
            own = module.__dict__
            if tuple(own["_modules"].values()) != children or own.get("_owner", net) is not net:
                return False
            if (
                own["_forward_hooks"]
                or own["_forward_pre_hooks"]
                or own["_backward_hooks"]
                or own["_backward_pre_hooks"]
            ):
                return False
        if self.copies is None:
            return not self._is_handed()
        return all(map(_is_same, self.weights, self.copies))

    def _is_handed(self) -> bool:
        return any(module._buffers.out for module in self.weights)  # type: ignore[attr-defined]

    def _make(self, layers: list[nn.Module], net: Any) -> None:
        """net: whose weights are read; modules that are called are those of the network itself."""
        like, twins = net.matrix("registers"), list(net.layers)
        self.steps: list[TableLayer | ModuleLayer] = []
        self.alone = all(getattr(part, "alone", False) for part in (net.embed, *twins, net.read))
        self.scores = max(_scores(twins), default=0)
        live = _live([*twins, net.read])
        stream = self._embed(net, live[0], like)
        self.numbers = sum(stream.widths)
        for layer, twin, after in zip(layers, twins, live[1:], strict=True):
            if _is_table_layer(twin):
                step = _table_layer(twin, stream, after)
                self.numbers += stream.widths[-1] + sum(2 * group.numbers for group in step.groups)
                self.steps.append(step)
            else:
                self.steps.append(ModuleLayer(layer, stream.whole(like)))
                stream = Stream(_width_after(layer.was, stream.width))  # type: ignore[arg-type]
                self.numbers += stream.width
        plain = _plain(net.read)
        if plain is None:
            self.steps.append(ModuleLayer(self.net.read, stream.whole(like)))
        self.read = None if plain is None else stream.times(*plain)
        self.one_head = one_head(self.steps, self.read)

    def _embed(self, net: Any, live: set[int] | None, like: Tensor) -> Stream:
        """The first stream; with a step for what is neither constant nor an input."""
        plain = _plain(net.embed)
        if plain is None:
            self.steps.append(ModuleLayer(self.net.embed, Stream(len(self.net.was.inputs)).whole(like)))
            return Stream(len(self.net.embed.was.coordinates))
        A, row = plain
        entries, constants = numbers(A), numbers(row)
        stream = Stream(len(A))
        stream.width, stream.places = A.shape[1], {}
        computed = []
        for c in range(stream.width) if live is None else sorted(live):
            sources = np.flatnonzero(entries[:, c])
            if not len(sources):
                stream.constants[c] = float(constants[c])
            elif len(sources) == 1 and entries[sources[0], c] == 1 and constants[c] == 0:
                stream.places[c] = 0, int(sources[0])
            else:
                computed.append(c)
        if computed:
            W, plus = A[:, computed], row[computed]
            unused = -len(computed) % _EIGHT if like.is_cuda and map_of(W).W is not None else 0
            W, plus = (nn.functional.pad(part, (0, unused)) for part in (W, plus))
            self.steps.append(TableLayer(Stream(len(A)).times(W, plus), ()))
            stream.add_piece(computed, unused)
        return stream

    def run(self, x: Tensor) -> Tensor:
        """(..., n, inputs) -> (..., n, outputs), in parts that do not look at each other: tokens, or whole inputs."""
        one = x.shape[-1:] if self.alone else x.shape[-2:]
        rest = x.shape[: -len(one)]
        parts = x.reshape(math.prod(rest), *one)
        size = self._size(parts, math.prod(one[:-1]))
        if len(parts) <= size:
            y = self._run(parts)
            y = y.clone() if _is_view(y, x) else y
        elif torch.is_grad_enabled() and x.requires_grad:
            y = torch.cat([self._run(part) for part in parts.split(size)])
        else:
            first = self._run(parts[:size])
            y = first.new_empty(len(parts), *first.shape[1:])
            y[:size] = first
            for start in range(size, len(parts), size):
                y[start : start + size] = self._run(parts[start : start + size])
        return y.reshape(*rest, *y.shape[1:])

    def _size(self, parts: Tensor, tokens: int) -> int:
        """How many at a time."""
        each = max(1, tokens * max(self.numbers, self.scores + tokens * (self.scores > 0)))
        if not parts.is_cuda:
            return max(1, _NUMBERS_AT_ONCE * torch.get_num_threads() // each)
        if len(parts) * each * parts.element_size() < _LITTLE:
            return max(1, len(parts))
        free = torch.cuda.mem_get_info(parts.device)[0] * _SHARE_OF_MEMORY
        return max(1, int(free / (each * parts.element_size())))

    def _run(self, x: Tensor) -> Tensor:
        shape = x.shape[:-1]
        pieces = [x.reshape(math.prod(shape), x.shape[-1])]
        for step in self.steps:
            pieces, shape = step(pieces, shape)
        return (pieces[0] if self.read is None else self.read(pieces)).unflatten(0, shape)


def _is_view(y: Tensor, x: Tensor) -> bool:
    return not is_transformed(y) and y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def _live(consumers: Sequence[nn.Module]) -> list[set[int] | None]:
    """The coordinates that are looked at from every layer on, the read-out last; None: all."""
    plain = _plain(consumers[-1])
    live = [None if plain is None else rows_of(numbers(plain[0]))]
    for layer in reversed(consumers[:-1]):
        after = live[-1]
        if not _is_table_layer(layer) or after is None:
            live.append(None)
            continue
        queries = (head.matrix("W_Q") for head in layer.heads if _reach(head, after))  # type: ignore[union-attr]
        read = set[int]().union(*(rows_of(numbers(W)) for W in queries))
        live.append(read | after if layer.residual else read)
    return live[::-1]


def _table_layer(layer: AttentionLayer, stream: Stream, live: set[int] | None) -> TableLayer:
    """The heads in groups, by the tables that they share. The stream goes on with what they write."""
    heads: list[Any] = [head for head in layer.heads if _reach(head, live)]
    written = list(dict.fromkeys(c for head in heads for c in _reach(head, live)))
    like, width = layer.owner_registers, len(layer.was.coordinates)
    picked = torch.eye(width, dtype=like.dtype, device=like.device)[:, written]
    before = stream.times(picked if layer.residual else torch.zeros_like(picked))
    groups: dict[Any, list[tuple[AttentionHead, Lookable]]] = {}
    for head in heads:
        found = _look_up(head, stream)
        groups.setdefault(found.bits, []).append((head, found))
    steps = []
    for group in groups.values():
        one = group[0][1]
        queries = stream.times(torch.cat([found.W_Q for _, found in group], 1))
        out = torch.cat([head.matrix("W_O")[:, written] for head, _ in group])
        steps.append(LookUp(queries, one.beta, one.table, one.W_Q.shape[1], map_of(out), len(out)))
    if not layer.residual:
        stream.width, stream.constants, stream.places = width, dict.fromkeys(range(width), 0.0), {}
    stream.add_piece(written)
    return TableLayer(before, tuple(steps))


@dataclass(frozen=True, eq=False)
class Lookable:
    """A head as a table and what it is looked up at; `bits` are the same for heads that share it."""

    table: DenseTable | WindowTable
    W_Q: Tensor  # (d, h) without what is constant
    beta: float
    bits: tuple[Any, ...]


def _look_up(head: AttentionHead, stream: Stream) -> Lookable:
    tables, W_Q, beta = head._kept(), head.matrix("W_Q"), float(head.beta)
    K, V = tables.K, tables.V
    if tables.decay is not None:
        window = WindowTable(V, tables.decay, tables.first, beta)
        return Lookable(window, W_Q[:, :1], 1.0, (_bits(V), _bits(tables.decay), tables.first, beta))
    columns = numbers(W_Q).T
    moving = [r for r, column in enumerate(columns) if not stream.is_constant(column)] or [0]
    if len(moving) > 1:
        return Lookable(DenseTable(K, None, V), W_Q, beta, (_bits(K), _bits(V), beta))
    still = [r for r in range(len(columns)) if r != moving[0]]
    q = beta * stream.times(W_Q[:, still]).row  # the numbers of the query that are constant
    offsets = (K[:, still] @ q)[:, None] if still else None
    W_Q, beta = _take_in(beta, W_Q[:, moving])
    table = DenseTable(K[:, moving], offsets, V)
    bits = (_bits(table.K), b"" if offsets is None else _bits(offsets), _bits(V), beta)
    return Lookable(table, W_Q, beta, bits)


def _take_in(beta: float, W: Tensor) -> tuple[Tensor, float]:
    """beta in the weights, if that is exact: it is a power of two, and nothing over- or underflows."""
    scaled = beta * W
    exact = math.frexp(beta)[0] == 0.5 and bool((scaled.double() == beta * W.double()).all())
    return (scaled, 1.0) if exact else (W, beta)


def _is_table_layer(layer: nn.Module) -> bool:
    """Heads that see registers alone, as we built them, with weights that can be read and are not trained."""
    return type(layer) is AttentionLayer and not _own_methods(layer) and all(map(_is_table_head, layer.heads))


def _is_table_head(head: nn.Module) -> bool:
    if type(head) is not AttentionHead or head.sees.data != "none" or head.sees.asks != "all" or _own_methods(head):
        return False
    weights = [*dict.values(head._buffers), head.__dict__["_owner"].matrix("registers")]
    return not head._parameters and all(map(_is_readable, weights)) and head.weight("mask") is None


def _plain(linear: nn.Module) -> tuple[Tensor, Tensor] | None:
    """(A, row) of a linear map of each token by itself, the same for all; None for any other."""
    if type(linear) is not LinearMap or len(linear.terms) != 1 or not linear.alone or _own_methods(linear):
        return None
    (term,) = linear.terms
    if type(term) is not LinearTerm or _own_methods(term) or term._parameters or linear._parameters:
        return None
    A, C = term.matrix("A"), linear.matrix("C")
    return (A, C[0]) if _is_readable(A) and _is_readable(C) else None


def _is_readable(weight: Tensor | None) -> bool:
    """Whether it is as the plan may take it: a tensor whose numbers are known, and that has no gradient."""
    return weight is None or (type(weight) is Tensor and can_be_read(weight) and not weight.requires_grad)


def _own_methods(module: nn.Module) -> bool:
    """Whether something was put in the place of a method of this module."""
    return any(callable(value) and hasattr(type(module), name) for name, value in vars(module).items())


def _reach(head: Any, live: set[int] | None) -> list[int]:
    """The coordinates that a head writes to, of those that are looked at."""
    written = np.flatnonzero(numbers(head.matrix("W_O")).any(axis=0)).tolist()
    return [c for c in written if live is None or c in live]


def _bits(part: Tensor) -> tuple[Any, bytes]:
    return part.shape, numbers(part).tobytes()


def _width_after(layer: Layer, width: int) -> int:
    """Coordinates of the stream after a layer."""
    if isinstance(layer, Loop):
        for inner in layer.layers:
            width = _width_after(inner, width)
        return width
    return width if isinstance(layer, Softmax) else len(layer.coordinates)


def _scores(layers: Sequence[nn.Module]) -> Iterator[int]:
    """The numbers that modules hold for a token beside the stream, loops opened: scores and hidden units."""
    for layer in layers:
        if isinstance(layer, LoopLayer):
            yield from _scores(list(layer.layers))
        elif isinstance(layer, FeedForwardLayer):
            yield layer.units
        elif isinstance(layer, AttentionLayer) and not _is_table_layer(layer):
            yield layer.scores


def _is_edited(net: Any) -> bool:
    """Whether a weight is not what the network was built from, though nobody was seen to take it: a plan that no call
    compares with the weights is one of `net.was`."""
    try:
        return net.read_back() is not net.was
    except WeightwrightError:
        return True


class _Twins:
    """The modules of a network with copies of their weights and settings, which nobody else can write to."""

    def __init__(self, net: Any) -> None:
        self._found: dict[int, Any] = {}
        self.of(net)

    def of(self, module: Any) -> Any:
        """The twin of a module; of one that is not ours, which is only called, the module itself."""
        if type(module) is not nn.ModuleList and not isinstance(module, Weights):
            return module
        if id(module) not in self._found:
            twin = self._found[id(module)] = object.__new__(type(module))
            held = dict(vars(module))
            for name in ("_derived", "_plan", "_passes"):
                held.pop(name, None)
            twin.__dict__.update(held, _modules={name: self.of(part) for name, part in held["_modules"].items()})
            if isinstance(module, Weights):
                twin.__dict__["_buffers"] = HandedOut({
                    name: None if weight is None else weight.detach().clone()
                    for name, weight in dict.items(module._buffers)
                })  # fmt: skip
            if "_owner" in held:
                twin.__dict__["_owner"] = self.of(held["_owner"])
            if "_built" in held:
                twin.__dict__["_built"] = [self.of(head) for head in held["_built"]]
        return self._found[id(module)]


def _state(module: Weights) -> list[Any]:
    """What of a module the plan may hang on."""
    return [*dict.values(module._buffers), *_settings(module)]


def _is_same(module: Weights, before: list[Any]) -> bool:
    weights = list(dict.values(module._buffers))
    if not all(map(_is_readable, weights)) or len(weights) + len(_settings(module)) != len(before):
        return False
    return all(map(_equal, weights, before)) and _settings(module) == before[len(weights) :]


def _equal(now: Tensor | None, before: Tensor | None) -> bool:
    """Bit by bit, -0 beside 0 too."""
    if now is None or before is None:
        return now is before
    alike = now.dtype == before.dtype and now.device == before.device and now.shape == before.shape
    return alike and _bits(now) == _bits(before)


def _settings(module: Weights) -> list[Any]:
    """What is not a weight, and the plan was made from."""
    return [*(getattr(module, name, None) for name in ("beta", "sees", "window", "residual")), _own_methods(module)]
