"""Columns as affine forms: what every column is of the inputs and of the columns that heads compute, on one token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.claims.graph import AFFINE, ATTENTION, INPUT, MIX, SOFTMAX, Graph
from weightwright.compiler.lowering.fusing import FusingPlan
from weightwright.numbers import Floats


@dataclass(frozen=True)
class Form:
    """weights times (the d inputs, the units), plus a constant for each token."""

    weights: Floats  # (d + units,)
    constants: Floats  # (tokens,)

    @property
    def known(self) -> bool:
        """Whether it depends on nothing."""
        return not self.weights.any()


class Forms:
    """The forms of all columns that a plan needs, found when they are asked for.

    Basis number c < d is input feature c; basis number d + i is the plan's unit i.
    """

    def __init__(self, graph: Graph, plan: FusingPlan, features: int) -> None:
        self.graph, self.plan, self.d = graph, plan, features
        self.n = graph.tokens or 1
        self.size = features + len(plan.units)
        self.place = {column: features + i for i, column in enumerate(plan.units)}
        self._found: dict[int, Form] = {}

    def __getitem__(self, column: int) -> Form:
        stack = [column]
        while stack:
            k = stack[-1]
            node = self.graph.nodes[k]
            affine = node.op == AFFINE and k not in self._found
            missing = [c for c in node.of if c not in self._found and self._basis(c) is None] if affine else []
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if k not in self._found:
                self._found[k] = self._form(k)
        return self._found[column]

    def arguments(self, unit: int) -> tuple[int, ...]:
        """The columns that the heads of a unit read."""
        function = self.plan.functions.get(unit)
        return (function.base,) if function is not None else self.graph.nodes[unit].of

    def depths(self) -> dict[int, int]:
        """For every unit the layer that its heads stand in: one after the latest of what they read."""
        layer, after = dict[int, int](), np.zeros(self.size, dtype=int)
        for unit in self.plan.units:
            group = self.arguments(unit)
            layer[unit] = max((int(after[self[c].weights != 0].max(initial=0)) for c in group), default=0)
            after[self.place[unit]] = layer[unit] + 1
        return layer

    def _basis(self, column: int) -> int | None:
        node = self.graph.nodes[column]
        return node.index if node.op == INPUT else self.place.get(column)

    def _form(self, column: int) -> Form:
        weights, constants = np.zeros(self.size), np.zeros(self.n)
        basis = self._basis(column)
        if basis is not None:
            weights[basis] = 1.0
            return Form(weights, constants)
        node = self.graph.nodes[column]
        places = np.array([-1 if (b := self._basis(c)) is None else b for c in node.of], dtype=int)
        alone = places >= 0
        np.add.at(weights, places[alone], node.weights[alone])
        constants += node.constants
        for index in np.flatnonzero(~alone):
            other = self._found[node.of[index]]
            weights += node.weights[index] * other.weights
            constants += node.weights[index] * other.constants
        return Form(weights, constants)


def softmaxes(graph: Graph, plan: FusingPlan) -> dict[tuple[int, ...], dict[int, int]]:
    """The softmaxes by their arguments, each with the column of every entry that is needed."""
    found: dict[tuple[int, ...], dict[int, int]] = {}
    for unit in plan.units:
        node = graph.nodes[unit]
        if node.op == SOFTMAX:
            found.setdefault(node.of, {})[node.index] = unit
    return found


def attentions(graph: Graph, plan: FusingPlan) -> dict[tuple[tuple[int, ...], int], list[int]]:
    """The units that attend, by their queries, keys and the tokens that are seen: one head each."""
    found: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for unit in plan.units:
        node = graph.nodes[unit]
        if node.op == ATTENTION:
            found.setdefault((node.of[:-1], node.index), []).append(unit)
    return found


def mixes(graph: Graph, plan: FusingPlan) -> list[int]:
    """The units that mix tokens."""
    return [unit for unit in plan.units if graph.nodes[unit].op == MIX]
