"""The target of a compiled network, as the search sees it: a graph of columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright.claims.graph import AFFINE, ATTENTION, INPUT, MIX, PRODUCT, SOFTMAX, Graph, Node, attended, sees
from weightwright.claims.target import Composite
from weightwright.enclosures.balls.series import series
from weightwright.expressions import parse
from weightwright.numbers import Bools, Floats
from weightwright.prover.graph_values import column_values, evaluate

_BISECTIONS = 50


@dataclass(frozen=True)
class GraphTarget:
    """Inputs are (count, N), the numbers of all tokens."""

    composite: Composite
    graph: Graph
    shape: tuple[int, int]  # tokens, features
    first: bool = False  # outputs of the first token alone

    def rough(self, x: Floats) -> Floats:
        """All outputs in plain floats, (count, N) -> (count, outputs)."""
        found = evaluate(self.graph, x.reshape(-1, *self.shape))  # (count, tokens, outputs)
        return (found[:, :1] if self.first else found).reshape(len(x), -1)

    def exact(self, x: Floats, index: int) -> arb:
        """One output, as a ball."""
        token, output = divmod(index, len(self.graph.outputs))
        inputs = [[arb(float(value)) for value in row] for row in x.reshape(self.shape)]
        found: dict[tuple[int, int], arb] = {}
        stack = [(self.graph.outputs[output], token)]
        while stack:
            missing = [key for key in self._needs(*stack[-1]) if key not in found]
            if missing:
                stack.extend(missing)
            else:
                key = stack.pop()
                found[key] = self._value(*key, inputs, found)
        return found[self.graph.outputs[output], token]

    def _needs(self, node: int, token: int) -> list[tuple[int, int]]:
        own = self.graph.nodes[node]
        n = range(self.shape[0])
        if own.op == ATTENTION:
            q, k, v = attended(own)
            return [*((column, token) for column in q), *((column, t) for column in (*k, v) for t in n)]
        return [(k, t) for k in own.of for t in (n if own.op == MIX else [token])]

    def _value(self, node: int, token: int, inputs: list[list[arb]], found: dict[tuple[int, int], arb]) -> arb:
        own = self.graph.nodes[node]
        of = [found[key] for key in self._needs(node, token)]
        if own.op == INPUT:
            return inputs[token][own.index]
        if own.op == AFFINE:
            start = arb(float(own.constants[token % len(own.constants)]))
            return sum((arb(w) * v for w, v in zip(own.weights.tolist(), of, strict=True)), start)
        if own.op == MIX:
            row = self.graph.matrices[own.index][token].tolist()
            return sum((arb(w) * v for w, v in zip(row, of, strict=True)), arb(0))
        if own.op == PRODUCT:
            return of[0] * of[1]
        if own.op == ATTENTION:
            return self._mean(own, token, of)
        if own.op == SOFTMAX:
            return 1 / sum(((z - of[own.index]).exp() for z in of), arb(0))
        return series(parse(own.op, ("x",)), of[0], 0)[0]

    def _mean(self, own: Node, token: int, of: list[arb]) -> arb:
        """of: the queries, then every key and the value on all tokens."""
        h, n = len(own.of) // 2, self.shape[0]
        seen = sees(self.graph, own)[token]
        rest = [of[h + r * n : h + (r + 1) * n] for r in range(h + 1)]
        scores = {j: sum((of[r] * rest[r][j] for r in range(h)), arb(0)) for j in np.flatnonzero(seen).tolist()}
        top = max(scores.values(), key=lambda score: float(score.mid()))
        weights = {j: (score - top).exp() for j, score in scores.items()}
        return sum((w * rest[-1][j] for j, w in weights.items()), arb(0)) / sum(weights.values(), arb(0))

    def in_zones(self, x: Floats) -> Bools:
        """Which inputs bring the argument of a jump into its dead zone, as far as floats can tell."""
        inside, parts = np.zeros(len(x), dtype=bool), [part for part in self.composite.parts if len(part.zones)]
        columns = column_values(self.graph, x.reshape(-1, *self.shape)) if parts else []
        for part in parts:
            for node, token in {divmod(unit, self.graph.tokens or 1) for unit in part.units if unit >= 0}:
                s = columns[self.graph.nodes[node].of[0]]  # (count, tokens)
                s = s if self.graph.tokens is None else s[:, [token]]
                room = 1e-12 * (1 + np.abs(s))
                for start, end in part.zones.tolist():
                    inside |= ((s > start - room) & (s < end + room)).any(axis=1)
        return inside

    def aimed(self, rng: np.random.Generator, x: Floats, lo: Floats, hi: Floats, places: Floats) -> Floats:
        """A third as they are; a third with all tokens or all features nearly alike, where norms are steep; the others
        moved along a line until some column is at one of the places."""
        kind = rng.integers(0, 3, len(x))
        alike = x.reshape(-1, *self.shape).copy()
        same = alike[:, :, :1] if rng.random() < 0.5 and self.shape[1] > 1 else alike[:, :1, :]
        step = 10.0 ** rng.uniform(-12, 0, (len(x), 1, 1)) * rng.uniform(-1, 1, alike.shape)
        alike = np.clip((same + step).reshape(len(x), -1), lo, hi)
        moved = self._moved(rng, x, rng.uniform(lo, hi, x.shape), places)
        return np.where(kind[:, None] == 0, x, np.where(kind[:, None] == 1, alike, moved))

    def _moved(self, rng: np.random.Generator, start: Floats, end: Floats, places: Floats) -> Floats:
        """Points between start and end where an argument of a function has the value of a place, if there are any."""
        functions = [node.of[0] for node in self.graph.nodes if len(node.of) == 1 and node.op not in (AFFINE, MIX)]
        if not functions or not len(places):
            return start
        column, token = rng.choice(functions), rng.integers(self.shape[0])

        def value(x: Floats) -> Floats:
            return column_values(self.graph, x.reshape(-1, *self.shape))[column][:, token]

        first, last = value(start), value(end)
        wanted = np.array([_between(rng, places, *sorted(ends)) for ends in zip(first, last, strict=True)])
        low, high = np.zeros(len(start)), np.ones(len(start))
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            above = (value(start + middle[:, None] * (end - start)) > wanted) == (last > first)
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return start + low[:, None] * (end - start)


def _between(rng: np.random.Generator, places: Floats, lo: float, hi: float) -> float:
    inside = places[(places > lo) & (places < hi)]
    return float(rng.choice(inside)) if len(inside) else (lo + hi) / 2
