"""What a network did with a prompt, as plain arrays: the answer after every pass, its tables, and who looks at whom.

`pictures` draws them. Everything here is read off the network as it runs; nothing is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from weightwright.certificates.leaves import LayerClaim
from weightwright.certificates.prompted import Summand, argument_in_words
from weightwright.certificates.prover.jets import values
from weightwright.expressions import parse
from weightwright.network import Attention, Head, Layer, Loop
from weightwright.network.layers import Floats
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.prompts import flat

#: Points along the argument of a table.
POINTS = 241
#: Examples whose attention is shown.
ROWS = 12


@dataclass(frozen=True, eq=False)
class Table:
    """A function that a head looks up, along its argument. weights, values: (points, keys) and (keys,), of the table's
    first head. exact: the function itself. bound: what is proven of the error, None where nothing is. first, last: the
    arguments of the examples before the first pass and after the last."""

    formula: str
    argument: str
    s: Floats
    found: Floats
    exact: Floats
    weights: Floats
    values: Floats
    bound: float | None
    first: Floats
    last: Floats

    @property
    def errors(self) -> Floats:
        return np.abs(self.found - self.exact)


@dataclass(frozen=True, eq=False)
class Pattern:
    """Who looks at whom, in the last pass. weights: (rows, keys). says: the same in words. rows, keys: what the rows and
    the columns are. heads: how many heads the layer has."""

    role: str
    says: str
    weights: Floats
    rows: str
    keys: str
    heads: int
    labels: tuple[str, ...] = ()  # of the columns, where they are few


@dataclass(frozen=True, eq=False)
class Watched:
    """path: (passes + 1, numbers of the answer), in the network's coordinates."""

    path: Floats
    tables: tuple[Table, ...]
    patterns: tuple[Pattern, ...]

    @property
    def passes(self) -> int:
        return len(self.path) - 1


def watched(net: AttentionNetwork, prompt: torch.Tensor, passes: int) -> Watched:
    """The network on this prompt, and again on its own answer, until there are so many passes."""
    path, last = _path(net, prompt, passes)
    return Watched(path, tuple(_tables(net, prompt, path)), tuple(_patterns(net, last)))


def group(names: Sequence[str], name: str) -> list[int]:
    """The places of the coordinates of a group: x[0], x[1], ... for x."""
    return [i for i, one in enumerate(names) if one.split("[")[0] == name]


def examples(prompt: Floats, inputs: Sequence[str]) -> Floats:
    """The tokens that hold an example; the others are padding."""
    own = [i for i, name in enumerate(inputs) if name.split("[")[0] not in ("w", "p", "tau")]
    return prompt[prompt[:, own].any(axis=1)]


def _path(net: AttentionNetwork, prompt: torch.Tensor, passes: int) -> tuple[Floats, dict[int, Floats]]:
    """The answers after every pass, and by the identity of each attention layer the stream that it saw last."""
    place = next((i for i, layer in enumerate(net.network.layers) if isinstance(layer, Loop)), None)
    ends = [net.layers[-1]] if place is None else [net.layers[place].layers[-1]]  # type: ignore[union-attr,index]
    if place:
        ends.append(net.layers[place - 1])
    after = () if place is None else tuple(net.layers)[place + 1 :]
    answers: list[torch.Tensor] = []
    streams: dict[int, torch.Tensor] = {}
    hooks = [module.register_forward_hook(_Answer(net, after, answers)) for module in ends]
    for layer, module in flat(net.network.layers, net.layers):
        if isinstance(layer, Attention):
            hooks.append(module.register_forward_pre_hook(_Stream(streams, id(layer))))
    given = prompt
    states = [columns for name in ("w", "p") if (columns := group(net.network.inputs, name))]
    try:
        with torch.no_grad():
            while len(answers) < passes:
                had = len(answers)
                net(prompt[None])
                prompt = prompt.clone()
                for columns in states:
                    prompt[:, columns] = answers[-1]
                if not states or len(answers) == had:
                    break
    finally:
        for hook in hooks:
            hook.remove()
    start = given[0, states[0]] if states else torch.zeros_like(answers[0])
    path = np.stack([answer.double().numpy() for answer in (start, *answers[:passes])])
    return path, {key: stream.double().numpy() for key, stream in streams.items()}


class _Answer:
    """A hook: what would be read if the passes ended here."""

    def __init__(self, net: AttentionNetwork, after: Sequence[nn.Module], answers: list[torch.Tensor]) -> None:
        self.net, self.after, self.answers = net, after, answers

    def __call__(self, _: nn.Module, __: object, X: torch.Tensor) -> None:
        for module in self.after:
            X = module(X)
        found = self.net.read(X)[0]  # (tokens, outputs)
        self.answers.append(found[0] if len(found) == 1 else found[:, 0])


class _Stream:
    """A hook: keeps what goes into a layer."""

    def __init__(self, streams: dict[int, torch.Tensor], key: int) -> None:
        self.streams, self.key = streams, key

    def __call__(self, _: nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        self.streams[self.key] = arguments[0][0]


def _tables(net: AttentionNetwork, prompt: torch.Tensor, path: Floats) -> Iterator[Table]:
    """Of a certified network: each summand of the loss's slope."""
    certificate = net.certificate
    if certificate is None or certificate.prompted is None:
        return
    triples = _triples(net)
    rows = examples(prompt.double().numpy(), net.network.inputs)
    names = net.network.inputs
    x, y = rows[:, group(names, "x")], rows[:, group(names, "y")][:, 0]
    for summand in certificate.prompted.summands:
        own, triples = triples[: summand.tables], triples[summand.tables :]
        claim, along = summand.claim, summand.along
        if along is None or not isinstance(claim, LayerClaim):
            continue
        s, stream = _along(net, summand)
        found, weights, own_values = _looked_up(net, own, stream)
        first, last = (along[0] * (x @ theta) + along[1] * y for theta in (path[0], path[-1]))
        exact = np.broadcast_to(values(parse(summand.formula, ("x",)), s), s.shape)
        terms = claim.terms
        bound = math.nextafter(math.fsum((terms.approximation, terms.leakage, terms.rounding)), math.inf)
        argument = argument_in_words(along)
        yield Table(summand.formula, argument, s, found, exact, weights, own_values, bound, first, last)


Triple = tuple[tuple[Layer, nn.Module], tuple[Layer, nn.Module], tuple[Layer, nn.Module]]


def _triples(net: AttentionNetwork) -> list[Triple]:
    """The tables of a pass: the layer that spreads tokens into blocks, the attention, the layer that gathers them."""
    layers = list(flat(net.network.layers, net.layers))
    return [
        (layers[i - 1], layers[i], layers[i + 1])
        for i in range(1, len(layers) - 1)
        if isinstance(layers[i][0], Attention) and layers[i][0].heads[0].sees.data == "block"  # type: ignore[union-attr]
    ]


def _along(net: AttentionNetwork, summand: Summand) -> tuple[Floats, Floats]:
    """Arguments from one end of the table to the other, and tokens that have them, with u = (1, 0, ...)."""
    assert summand.along is not None and net.certificate is not None  # noqa: PT018
    claim, (a, b), names = summand.claim, summand.along, net.network.embed.coordinates
    end = min(-claim.lo, claim.hi) / summand.scale * (1 - 2.0**-15)  # rounding may not carry it outside
    dtype = np.float64 if net.network.dtype == "float64" else np.float32
    s = np.linspace(-end, end, POINTS, dtype=dtype).astype(np.float64)
    stream = np.zeros((POINTS, len(names)))
    stream[:, [names.index("one"), names.index("u[0]")]] = 1.0
    if a:
        state = float(np.atleast_2d(net.certificate.domain.hi)[0, net.network.inputs.index("w[0]")])  # a power of two
        stream[:, names.index("w[0]")] = state
        stream[:, names.index("x[0]")] = s / a / state
    else:
        stream[:, names.index("y")] = s / b
    return s, stream


def _looked_up(net: AttentionNetwork, tables: Sequence[Triple], stream: Floats) -> tuple[Floats, Floats, Floats]:
    """What these tables make of the stream, in g[0]; the weights and the values of the first."""
    X = torch.tensor(stream, dtype=net.dtype)[None]
    place = net.network.embed.coordinates.index("g[0]")
    shown: list[tuple[Floats, Floats]] = []
    with torch.no_grad():
        for (_, spread), (layer, attend), (_, gather) in tables:
            blocks = spread(X)
            assert isinstance(layer, Attention)
            head, keys = layer.heads[0], blocks[0].double().numpy()
            own = (keys[: head.sees.block] @ head.W_V @ head.W_O)[:, layer.coordinates.index("g[0]")]
            shown.append((head_weights(head, keys, net.network.registers), own))
            X = gather(attend(blocks))
    return X[0, :, place].double().numpy(), *shown[0]


def head_weights(head: Head, X: Floats, registers: Floats) -> Floats:
    """(tokens that ask, keys): registers first, then those of the data tokens that each of them sees. X: the stream,
    (n, d); tokens see themselves, their own block or no data token."""
    size = {"none": 0, "self": 1, "block": head.sees.block}[head.sees.data]
    blocks = X.reshape(-1, max(size, 1), X.shape[-1])  # (n / size, size, d)
    asking = blocks[:, :1] if head.sees.asks == "first" else blocks
    Q = head.beta * (asking @ head.W_Q)
    start, stop = head.sees.registers
    seen = registers[start:stop] @ head.W_K if stop > start else np.zeros((0, head.W_K.shape[1]))
    scores = Q @ seen.T
    if size:
        scores = np.concatenate([scores, Q @ np.swapaxes(blocks @ head.W_K, 1, 2)], axis=-1)
    scores = scores.reshape(-1, scores.shape[-1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _patterns(net: AttentionNetwork, streams: dict[int, Floats]) -> Iterator[Pattern]:
    """The attention of the last pass, layer by layer."""
    layers = [layer for layer, _ in flat(net.network.layers, net.layers) if id(layer) in streams]
    last = _of_last_pass(net, layers)
    for layer in last:
        assert isinstance(layer, Attention)
        X, first = streams[id(layer)], layer.heads[0]
        if first.sees.data == "block":
            P = first.sees.block
            weights = head_weights(first, X[: ROWS * P], net.network.registers)
            says = f"each example sees its own {P} keys"
            yield Pattern(first.role, says, weights, "example that asks", "keys of its own block", len(layer.heads))
        elif first.sees.data == "none":
            weights = head_weights(first, X[:ROWS], net.network.registers)
            says = "each example sees the same registers"
            yield Pattern(first.role, says, weights, "example that asks", "registers", len(layer.heads))
        else:
            rows = [head_weights(head, X[:1], net.network.registers)[0] for head in layer.heads]
            says, keys = "a token sees itself and a register of zeros", ("register", "itself")
            yield Pattern(_common(layer.heads), says, np.stack(rows), "head", "what it sees", len(rows), keys)


def _of_last_pass(net: AttentionNetwork, layers: Sequence[Layer]) -> list[Layer]:
    loop = next((layer for layer in net.network.layers if isinstance(layer, Loop)), None)
    inside = [] if loop is None else [id(layer) for layer in loop.layers]
    return [layer for layer in layers if loop is None or id(layer) in inside]


def _common(heads: Sequence[Head]) -> str:
    """The role of all of them: the first, less what tells it from the others."""
    return heads[0].role if len(heads) == 1 else heads[0].role.split(" of ")[0].split("(")[0]
