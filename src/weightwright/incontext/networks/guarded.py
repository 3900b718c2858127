"""What networks that run one pass again and again on their prompt share, where no certificate speaks of the passes.

Nothing is claimed of such a network but that its tables stay in their ranges: a guard looks at every argument, and
raises DomainError where one leaves. What its answer is worth is shown afterwards, from the answer alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from weightwright.claims.certificate import Leaf
from weightwright.incontext.networks.blocks import Layout, table_layers
from weightwright.incontext.networks.slopes import Slope
from weightwright.network import Attention, Head, Layer, Linear, Loop, Network, Sees, Term
from weightwright.numbers import Floats, rounded
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import DTYPES
from weightwright.runtime.watch import Guard, guard


@dataclass(frozen=True)
class Argument:
    """q . k as the argument of a function. query: (width, h), makes q of the stream. key: coordinates of k. what: its
    name. remedy: what to do where it leaves the function's range. shift: what q . k leaves out, for messages."""

    query: Floats
    key: Sequence[int]
    what: str
    remedy: str
    shift: float = 0.0


@dataclass(frozen=True)
class GuardedLayers:
    """Some layers of a pass, and guards for those where a table begins."""

    layers: tuple[Layer, ...]
    guards: tuple[tuple[Layer, Guard], ...] = ()

    def __add__(self, other: GuardedLayers) -> GuardedLayers:
        return GuardedLayers(self.layers + other.layers, self.guards + other.guards)


def multiplied(
    layout: Layout,
    function: Slope,
    argument: Argument,
    value: Sequence[int],
    target: Sequence[int],
    fresh: Sequence[str] = (),
) -> GuardedLayers:
    """Every token gets f(q . k) times what stands in the coordinates `value`, added to `target`. fresh: groups that are
    0 from here on."""
    layers: list[Layer] = []
    guards = []
    for table, one in zip(function.tables, _guards(function, argument), strict=True):
        new = table_layers(layout, table, argument.query, argument.key, value, target, fresh=() if layers else fresh)
        guards.append((new[0], one))
        layers += new
    return GuardedLayers(tuple(layers), tuple(guards))


def look_up(
    layout: Layout, function: Slope, argument: Argument, target: int, first: int
) -> tuple[GuardedLayers, Floats]:
    """Every token gets f(q) of one number q, added to `target`, with the registers from `first` on that hold its table
    in the group "held". Nothing is multiplied, so tokens need no keys of their own: much cheaper than `multiplied`."""
    held, heads, rows = layout.at["held"], [], []
    for table in function.tables:
        registers = np.zeros((table.size, layout.width))
        # the weights of a softmax add up to 1: a constant that is part of every value is part of the result
        registers[:, held] = np.stack([table.along, table.offsets, table.values + table.mean / table.weight], axis=1)
        W_K, W_O = layout.reading("held")[:, :2], np.zeros((1, layout.width))
        W_O[0, target] = table.weight
        W_Q = np.hstack([argument.query, layout.reading("one")])
        sees = Sees((first, first + table.size), "none")
        heads.append(Head(table.role, W_Q, W_K, layout.reading("held")[:, 2:], W_O, table.beta, sees))
        rows.append(registers)
        first += table.size
    layer = Attention(layout.names, tuple(heads))
    return GuardedLayers((layer,), tuple((layer, one) for one in _guards(function, argument))), np.concatenate(rows)


def _guards(function: Slope, argument: Argument) -> list[Guard]:
    """One for each table."""
    guards = []
    for summand in function.summands:
        claim = summand.claim
        assert isinstance(claim, Leaf)
        lo, hi = claim.lo / summand.scale, claim.hi / summand.scale
        one = Guard(argument.what, argument.query, tuple(argument.key), lo, hi, argument.remedy, argument.shift)
        guards += [one] * summand.tables
    return guards


def looped_network(
    layout: Layout,
    inputs: Sequence[str],
    constants: Mapping[str, Floats],
    registers: Floats | None,
    steps: int,
    one_pass: GuardedLayers,
    last: GuardedLayers,
    read: Linear,
    n: int,
    dtype: str,
) -> AttentionNetwork:
    """The pass `steps` times, then the last layers. inputs: groups. constants: what groups hold at first, (1 or n,
    size)."""
    names = [layout.names[i] for group in inputs for i in layout.at[group]]
    A = np.zeros((len(names), layout.width))
    A[np.arange(len(names)), [layout.names.index(name) for name in names]] = 1.0
    C = np.zeros((max((len(value) for value in constants.values()), default=1), layout.width))
    for group, value in constants.items():
        C[:, layout.at[group]] = value
    network = Network(
        inputs=tuple(names),
        embed=Linear(layout.names, (Term(A),), C),
        registers=np.zeros((0, layout.width)) if registers is None else registers,
        layers=(Loop(one_pass.layers, steps), *last.layers),
        read=read,
        tokens=n,
        dtype=dtype,
    )
    net = AttentionNetwork(network)
    guard(net, one_pass.guards + last.guards)
    return net


def tokens(own: Mapping[str, Floats], shared: Mapping[str, Floats], samples: int | None, dtype: str) -> torch.Tensor:
    """(samples, inputs): what each example has of its own, then what all tokens hold. Missing examples are 0."""
    n = len(next(iter(own.values())))
    count = n if samples is None else samples
    if n > count:
        raise ValueError(f"X has {n} samples, but samples={count} tokens were asked for: give at least {n}")
    columns = [np.concatenate([rows, np.zeros((count - n, rows.shape[1]))]) for rows in own.values()]
    columns += [np.broadcast_to(numbers, (count, len(numbers))) for numbers in shared.values()]
    prompt = np.concatenate(columns, axis=1)
    if not np.isfinite(prompt).all():
        raise ValueError("X, y, step and sample_weight must make a prompt of finite numbers, but some are not")
    return torch.tensor(rounded(prompt, dtype), dtype=DTYPES[dtype])


def shares(sample_weight: Floats | None, n: int) -> Floats:
    """The weight of each sample over the sum of them all."""
    if sample_weight is None:
        return np.full(n, 1 / n)
    if sample_weight.shape != (n,) or not (sample_weight >= 0).all() or not 0 < sample_weight.sum() < np.inf:
        raise ValueError(f"sample_weight={sample_weight!r}: {n} numbers from 0 on are needed, not all of them 0")
    return sample_weight / sample_weight.sum()
