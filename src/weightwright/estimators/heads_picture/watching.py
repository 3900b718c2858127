"""What a network did with a prompt, as plain arrays: the answer after every pass, its tables, and who looks at whom.

`pictures` draws them. Everything here is read off the network as it runs; nothing is claimed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from weightwright.claims.prompt import PromptClaim
from weightwright.estimators.heads_picture.table_points import DrawnTable, guarded_tables, head_weights, proven_tables
from weightwright.network import Attention, Head, Loop
from weightwright.numbers import Bools, Floats
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.watch import flat, guards_of

#: The most tokens that are shown.
ROWS = 12


@dataclass(frozen=True, eq=False)
class Pattern:
    """Who looks at whom, in the last pass. weights: (rows, keys). says: the same in words. rows, keys: what the rows
    and the columns are. heads: how many heads the layer has. tokens: that ask, where rows are tokens."""

    role: str
    says: str
    weights: Floats
    rows: str
    keys: str
    heads: int
    tokens: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()  # of the columns, where they are few


@dataclass(frozen=True, eq=False)
class WatchedRun:
    """path: (passes + 1, numbers of the answer), in the network's coordinates."""

    path: Floats
    tables: tuple[DrawnTable, ...]
    patterns: tuple[Pattern, ...]

    @property
    def passes(self) -> int:
        return len(self.path) - 1


def watch_run(net: AttentionNetwork, prompt: torch.Tensor, passes: int) -> WatchedRun:
    """The network on this prompt, and again on its own answer, until there are as many passes."""
    seen = _seen(net, prompt, passes)
    count = int(is_example(prompt.double().numpy(), net.network.inputs).sum())
    return WatchedRun(seen.path, tuple(_tables(net, prompt, seen)), tuple(_patterns(net, seen.last, count)))


def group(names: Sequence[str], name: str) -> list[int]:
    """The places of the coordinates of a group: x[0], x[1], ... for x."""
    return [i for i, one in enumerate(names) if one.split("[")[0] == name]


def is_example(prompt: Floats, inputs: Sequence[str]) -> Bools:
    """Which tokens hold an example; the others are padding."""
    own = [i for i, name in enumerate(inputs) if name.split("[")[0] not in ("w", "p", "tau")]
    return np.asarray(prompt[:, own].any(axis=1))


def some_tokens(count: int) -> tuple[int, ...]:
    """Those that are shown of these: from the first to the last."""
    return tuple(np.linspace(0, count - 1, min(count, ROWS)).round().astype(int).tolist())


@dataclass(frozen=True, eq=False)
class _Seen:
    """path: the answers after every pass. first, last: by the identity of a layer, what went into it."""

    path: Floats
    first: dict[int, Floats]
    last: dict[int, Floats]


def _seen(net: AttentionNetwork, prompt: torch.Tensor, passes: int) -> _Seen:
    place = next((i for i, layer in enumerate(net.network.layers) if isinstance(layer, Loop)), None)
    modules: list[Any] = list(net.layers)
    ends = modules[-1:] if place is None else [modules[place].layers[-1], *modules[max(place - 1, 0) : place]]
    after = () if place is None else modules[place + 1 :]
    answers: list[torch.Tensor] = []
    streams = _Streams()
    hooks = [module.register_forward_hook(_Answer(net, after, answers)) for module in ends]
    tables = {id(layer) for layer, _ in guards_of(net)}
    for layer, module in flat(net.network.layers, net.layers):
        if isinstance(layer, Attention) or id(layer) in tables:
            hooks.append(module.register_forward_pre_hook(functools.partial(streams.keep, id(layer))))
    states = [columns for name in ("w", "p") if (columns := group(net.network.inputs, name))]
    start = prompt[0, states[0]] if states else None
    try:
        with torch.no_grad():
            net(prompt[None])
            while states and len(answers) < passes:
                prompt = prompt.clone()
                for columns in states:
                    prompt[:, columns] = answers[-1]
                net(prompt[None])
    finally:
        for hook in hooks:
            hook.remove()
    first = torch.zeros_like(answers[0]) if start is None else start
    path = np.stack([answer.double().numpy() for answer in (first, *answers[:passes])])
    return _Seen(
        path, *({key: X.double().numpy() for key, X in part.items()} for part in (streams.first, streams.last))
    )


class _Answer:
    """A hook: what would be read if the passes ended here."""

    def __init__(self, net: AttentionNetwork, after: Sequence[nn.Module], answers: list[torch.Tensor]) -> None:
        self.net, self.after, self.answers = net, after, answers

    def __call__(self, _: nn.Module, __: object, X: torch.Tensor) -> None:
        for module in self.after:
            X = module(X)
        found = self.net.read(X)[0]  # (tokens, outputs)
        self.answers.append(found[0] if len(found) == 1 else found[:, 0])


class _Streams:
    """What goes into layers, the first time and the last."""

    def __init__(self) -> None:
        self.first: dict[int, torch.Tensor] = {}
        self.last: dict[int, torch.Tensor] = {}

    def keep(self, key: int, _: nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        self.last[key] = arguments[0][0]
        self.first.setdefault(key, arguments[0][0])


def _tables(net: AttentionNetwork, prompt: torch.Tensor, seen: _Seen) -> Iterator[DrawnTable]:
    rows, inputs = prompt.double().numpy(), net.network.inputs
    own = is_example(rows, inputs)
    if net.certificate is not None and isinstance(net.certificate.claim, PromptClaim):
        x, y = rows[own][:, group(inputs, "x")], rows[own][:, group(inputs, "y")][:, 0]
        yield from proven_tables(net, x, y, (seen.path[0], seen.path[-1]))
    else:
        first, last = (
            {key: X[own] for key, X in part.items() if len(X) == len(own)} for part in (seen.first, seen.last)
        )
        yield from guarded_tables(net, first, last)


def _patterns(net: AttentionNetwork, streams: dict[int, Floats], count: int) -> Iterator[Pattern]:
    """The attention of the last pass, layer by layer. count: of the tokens that are examples."""
    some = some_tokens(count)
    loop = next((layer for layer in net.network.layers if isinstance(layer, Loop)), None)
    for layer in net.network.layers if loop is None else loop.layers:
        if not isinstance(layer, Attention):
            continue
        X, first, many = streams[id(layer)], layer.heads[0], len(layer.heads)
        if first.sees.data == "self":
            rows = [head_weights(head, X[:1], net.network.registers)[0] for head in layer.heads]
            says, keys = "a token sees itself and a register of zeros", ("register", "itself")
            yield Pattern(_common(layer.heads), says, np.stack(rows), "head", "what it sees", many, labels=keys)
            continue
        size = max(first.sees.block, 1)
        asking = X.reshape(-1, size, X.shape[1])[list(some)].reshape(-1, X.shape[1])
        weights = head_weights(first, asking, net.network.registers)
        own = first.sees.data == "block"
        says = f"each token sees its own {size} keys" if own else "each token sees the same registers"
        seen = "keys of its own block" if own else "registers"
        yield Pattern(first.role, says, weights, "token that asks", seen, many, some)


def _common(heads: Sequence[Head]) -> str:
    """The role of all of them: the first, less what tells it from the others."""
    return heads[0].role if len(heads) == 1 else heads[0].role.split(" of ")[0].split("(")[0]
