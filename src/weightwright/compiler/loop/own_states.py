"""A network whose tokens each run a rule of their own: layers that compute what the rule begins with, then a loop.

Both are compiled like any function, and stand side by side in one stream. Between them, and between two passes, two
linear maps join them: the first picks what a pass begins with, features and state, of every token; the second is the
embedding of a pass. No token sees another in the loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from weightwright.box import Box
from weightwright.certify import certify
from weightwright.claims.graph import Graph
from weightwright.claims.prompt import Beginning, LoopClaim
from weightwright.compiler.loop.proven_rules import the_rule
from weightwright.compiler.lowering.lower import Lowered, lower
from weightwright.compiler.lowering.stream_registers import hide_register
from weightwright.errors import ToleranceError
from weightwright.network import Attention, Head, Layer, Linear, Loop, Network, Term
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork

#: Heads are asked for tol times these, one after the other, until the bound is at most tol.
FINER = (0.5, 2.0**-4, 2.0**-8)


@dataclasses.dataclass(frozen=True)
class Stages:
    """What is compiled: two graphs, what they are proven for, and names for people.

    before: on a fixed number of tokens, to features and first state of every token.
    rule: one token's features and state to the same and the new state: inputs first.
    """

    before: Graph
    prompt: Box  # of the network's inputs
    rule: Graph
    one_pass: Box  # of features, then states
    features: int
    inputs: tuple[str, ...]  # names of the network's inputs
    entering: tuple[str, ...]  # names of features, then of states
    read: int  # number of states that are returned, the last ones

    @property
    def states(self) -> int:
        return len(self.entering) - self.features


def compile_stages(
    stages: Stages, steps: int, tol: float, dtype: str, progress: Callable[[str], None] = lambda message: None
) -> AttentionNetwork:
    """The network, with a bound of at most tol on what the loop begins with and on one pass; ToleranceError if there
    is none."""
    best: ToleranceError | None = None
    for finer in FINER:
        try:
            lowered = lower_stages(stages, finer * tol, dtype, progress)
            progress("checking one pass, and the layers before the loop")
            return certify(*join_stages(stages, *lowered, steps), stages.prompt, tol)
        except ToleranceError as error:
            best = error
    assert best is not None
    raise ToleranceError(
        f"{stages.rule.name}: {best}; ask for a larger tol, or for smaller ranges", best.best
    ) from best


def lower_stages(
    stages: Stages, tol: float, dtype: str, progress: Callable[[str], None], provable: bool = True
) -> tuple[Lowered, Lowered]:
    """What stands before the loop, and one pass, each aiming at tol."""
    progress(f"lowering {len(stages.before.nodes)} columns before the loop")
    before = lower(stages.before, stages.prompt, tol, dtype, progress, provable)
    progress(f"lowering {len(stages.rule.nodes)} columns of a pass")
    return before, lower(stages.rule, stages.one_pass, tol, dtype, progress, provable)


def join_stages(stages: Stages, before: Lowered, rule: Lowered, steps: int) -> tuple[Network, LoopClaim]:
    """One network of both, and what is claimed about it."""
    first, one, e, s = before.network, rule.network, stages.features, stages.states
    beside = _Beside(first, one)
    names, width = beside.names, len(beside.names)
    places = [len(first.embed.coordinates) + int(c) for c in one.read.terms[0].A.argmax(axis=0)]
    pick = np.eye(width)[:, places]  # (width, inputs and new state)
    stays, new = np.zeros((width, e + s)), np.zeros((width, e + s))
    stays[:, :e], new[:, e:] = pick[:, :e], pick[:, e + s :]
    nothing = np.zeros((1, e + s))
    entering = Linear(stages.entering, (Term(beside.first_rows(first.read.terms[0].A)),), nothing)
    gather = Linear(stages.entering, (Term(stays), Term(new)), nothing)
    embed = Linear(names, (Term(beside.second_columns(one.embed.terms[0].A)),), beside.second_columns(one.embed.C))
    embed_prompt = Linear(
        names, (Term(beside.first_columns(first.embed.terms[0].A)),), beside.first_columns(first.embed.C)
    )
    loop = Loop((*map(beside.second, one.layers), gather, embed), steps)
    last = pick[:, e + s - stages.read : e + s]
    network = Network(
        inputs=stages.inputs,
        embed=embed_prompt,
        registers=beside.registers,
        layers=(*map(beside.first, first.layers), entering, embed, loop),
        read=Linear(stages.entering[e + s - stages.read :], (Term(last),), np.zeros((1, stages.read))),
        tokens=first.tokens,
        dtype=first.dtype,
    )
    composite = dataclasses.replace(rule.composite, target=the_rule(stages.rule, s))
    return network, LoopClaim(e, s, composite, own=True, beginning=Beginning(before.composite, stages.one_pass))


class _Beside:
    """Two streams side by side, each with registers that nobody looks at in the other."""

    def __init__(self, first: Network, second: Network) -> None:
        self.sizes = len(first.embed.coordinates), len(second.embed.coordinates)
        self.count = len(first.registers)
        before = tuple(f"before: {name}" for name in first.embed.coordinates)
        self.names = (*before, *second.embed.coordinates)
        hidden = [hide_register(network) for network in (first, second)]
        upper = np.hstack([first.registers, np.tile(hidden[1], (self.count, 1))])
        lower = np.hstack([np.tile(hidden[0], (len(second.registers), 1)), second.registers])
        self.registers = np.vstack([upper, lower])

    def first_rows(self, W: Floats) -> Floats:
        return np.pad(W, ((0, self.sizes[1]), (0, 0)))

    def first_columns(self, W: Floats) -> Floats:
        return np.pad(W, ((0, 0), (0, self.sizes[1])))

    def second_rows(self, W: Floats) -> Floats:
        return np.pad(W, ((self.sizes[0], 0), (0, 0)))

    def second_columns(self, W: Floats) -> Floats:
        return np.pad(W, ((0, 0), (self.sizes[0], 0)))

    def first(self, layer: Layer) -> Attention:
        return self._layer(layer, self.first_rows, self.first_columns, 0)

    def second(self, layer: Layer) -> Attention:
        return self._layer(layer, self.second_rows, self.second_columns, self.count)

    def _layer(
        self, layer: Layer, rows: Callable[[Floats], Floats], columns: Callable[[Floats], Floats], shift: int
    ) -> Attention:
        assert isinstance(layer, Attention)

        def head(one: Head) -> Head:
            start, stop = one.sees.registers
            seen = (start + shift, stop + shift) if start < stop else (0, 0)
            sees = dataclasses.replace(one.sees, registers=seen)
            W_Q, W_K, W_V = (rows(W) for W in (one.W_Q, one.W_K, one.W_V))
            return dataclasses.replace(one, W_Q=W_Q, W_K=W_K, W_V=W_V, W_O=columns(one.W_O), sees=sees)

        return Attention(self.names, tuple(map(head, layer.heads)))
