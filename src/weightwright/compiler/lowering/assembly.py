"""From cells and parts to the network: names, registers, heads in layers, and what is claimed about them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from weightwright.approximation.table import ProposedTable
from weightwright.circuit.contributions import bare_in_words
from weightwright.claims.graph import MIX, PRODUCT, AttentionClaim, Fused, SoftmaxClaim, attended, square_units, units
from weightwright.claims.target import Composite, TableClaim
from weightwright.compiler.lowering.affine_forms import attentions, softmaxes
from weightwright.compiler.lowering.cells import Cell, Cells
from weightwright.compiler.lowering.stream_registers import Registers
from weightwright.compiler.lowering.token_matrices import Mixing, mixings
from weightwright.network import Attention, Head, Linear, Network, Term, selection
from weightwright.numbers import Floats, rounded

#: Formulas up to this length stand in the roles of heads; for longer ones the line that asks for them does.
SHORT = 40


def assemble(cells: Cells, farthest: float, dtype: str) -> tuple[Network, Composite]:
    """The network of the cells and its claims. farthest: the largest argument of any softmax."""
    return _Assembly(cells, farthest, dtype).result()


class _Assembly:
    def __init__(self, cells: Cells, farthest: float, dtype: str) -> None:
        self.cells, self.forms, self.graph, self.dtype = cells, cells.forms, cells.forms.graph, dtype
        self.depth = self.forms.depths()
        plan = self.forms.plan
        self.softmaxes = softmaxes(self.graph, plan)
        self.mixes = defaultdict[tuple[int, int], list[int]](list)  # (layer, matrix) -> units
        for unit in plan.units:
            if self.graph.nodes[unit].op == MIX:
                self.mixes[self.depth[unit], self.graph.nodes[unit].index].append(unit)
        self.mixings = {matrix: mixings(self.graph.matrices[matrix]) for _, matrix in self.mixes}
        self.attentions = attentions(self.graph, plan)
        used = [*cells.parts.values(), *([cells.square] if cells.square is not None else [])]
        self.layout = Registers(
            list({id(part): part for part in used}.values()),
            sorted({len(of) for of in self.softmaxes}),
            self.forms.n if self.mixes or self.attentions else 0,
            [cells.name(cell) for cell in cells.cells],
            farthest,
        )
        self.layers = [list[Head]() for _ in range(max(self.depth.values(), default=-1) + 1)]
        self.parts: list[TableClaim] = []
        self.chosen: list[SoftmaxClaim] = []
        self.attending: list[AttentionClaim] = []

    def result(self) -> tuple[Network, Composite]:
        for unit in self.forms.plan.units:
            if unit in self.forms.plan.functions:
                self._function(unit)
            elif self.graph.nodes[unit].op == PRODUCT:
                self._product(unit)
        for of, entries in self.softmaxes.items():
            self._softmax(of, entries)
        for (layer, matrix), members in self.mixes.items():
            for mixing in self.mixings[matrix]:
                self._mix(layer, mixing, members)
        for (_, seen), members in self.attentions.items():
            self._attend(seen, members)
        plan = self.forms.plan
        composite = Composite(
            self.graph,
            tuple(self.parts),
            fused=tuple(Fused(k, plan.functions[k].base) for k in plan.fused(self.graph)),
            products=tuple(self.cells.products.values()),
            softmaxes=tuple(self.chosen),
            attentions=tuple(self.attending),
        )
        return self._network(), composite

    def _network(self) -> Network:
        layout, cells, d = self.layout, self.cells, self.forms.d
        coded = self.graph.tokens is not None and (self.layout.mixes or bool(np.ptp(cells.constants, axis=1).any()))
        C = np.zeros((self.forms.n if coded else 1, layout.width))
        C[:, layout.cell(0) :] = cells.constants.T[: len(C)]
        C[:, layout.one] = 1.0
        if self.layout.mixes:
            C[:, layout.positions] = np.eye(self.forms.n)
        A = np.zeros((d, layout.width))
        A[:, layout.cell(0) :] = cells.weights[:, :d].T
        outputs = [layout.names[layout.cell(cells.place["out", m])] for m in range(len(self.graph.outputs))]
        return Network(
            inputs=tuple(f"x[{c}]" for c in range(d)),
            embed=Linear(layout.names, (Term(rounded(A, self.dtype)),), rounded(C, self.dtype)),
            registers=layout.registers(),
            layers=tuple(Attention(layout.names, tuple(heads)) for heads in self.layers),
            read=selection(layout.names, outputs),
            tokens=self.graph.tokens,
            dtype=self.dtype,
        )

    def _row(self, unit: int, index: int = 0) -> Floats:
        """What every coordinate takes of a head's result."""
        row = np.zeros(self.layout.width)
        row[self.layout.cell(0) :] = self.cells.weights[:, self.cells.sources[unit, index]]
        return row

    def _place(self, cell: Cell) -> int:
        return self.layout.cell(self.cells.place[cell])

    def _function(self, unit: int) -> None:
        cell: Cell = ("column", self.forms.plan.functions[unit].base)
        self._part(unit, self.cells.parts[unit], cell, self._row(unit), list(units(self.graph, unit)))

    def _product(self, unit: int) -> None:
        square = self.cells.square
        assert square is not None
        for index, side in enumerate(("plus", "minus")):
            named = [square_units(self.graph, unit, token)[index] for token in range(self.forms.n)]
            self._part(unit, square, (side, unit), self._row(unit, index), named)

    def _part(self, unit: int, part: ProposedTable, cell: Cell, row: Floats, named: Sequence[int]) -> None:
        layer = self.layers[self.depth[unit]]
        first, place = len(layer), self._place(cell)
        label = self.graph.nodes[unit].label
        what = part.profile if len(part.profile) <= SHORT or not label else f"a chain that ends in {label},"
        what, beside = bare_in_words(what, part.mean, part.slope, part.bound)
        for index in range(len(part.tables)):
            share = "" if len(part.tables) == 1 else f", head {index + 1} of {len(part.tables)} that add up to it"
            role = f"{what} of {self.layout.names[place]}{beside}{share}"
            layer.append(self.layout.part_head(part, index, place, rounded(row, self.dtype), role))
        claim = part.at(self.depth[unit], range(first, len(layer)), named)
        self.parts.append(dataclasses.replace(claim, spread=True))

    def _softmax(self, of: tuple[int, ...], entries: dict[int, int]) -> None:
        k, depth = len(of), self.depth[next(iter(entries.values()))]
        W_O = np.zeros((k, self.layout.width))
        for index, unit in entries.items():
            W_O[index] = self._row(unit)
        sources = [self._place(("column", column)) for column in of]
        label = self.graph.nodes[next(iter(entries.values()))].label
        head = self.layout.softmax_head(sources, rounded(W_O, self.dtype), f"softmax of {k} numbers: {label}")
        self.chosen.append(SoftmaxClaim(depth, len(self.layers[depth]), tuple(entries.get(j, -1) for j in range(k))))
        self.layers[depth].append(head)

    def _mix(self, layer: int, mixing: Mixing, members: list[int]) -> None:
        layout = self.layout
        W_V, W_O = np.zeros((layout.width, len(members))), np.zeros((len(members), layout.width))
        for index, unit in enumerate(members):
            W_V[self._place(("column", self.graph.nodes[unit].of[0])), index] = 1.0
            W_O[index] = mixing.factor * self._row(unit)
        role = f"mix of tokens: {', '.join(dict.fromkeys(self.graph.nodes[u].label for u in members))}"
        head = layout.mixing_head(mixing, W_V, rounded(W_O, self.dtype), role)
        self.layers[layer].append(dataclasses.replace(head, W_K=rounded(head.W_K, self.dtype)))

    def _attend(self, seen: int, members: list[int]) -> None:
        """One head for all values of one attention."""
        layout, layer = self.layout, self.depth[members[0]]
        q, k, _ = attended(self.graph.nodes[members[0]])
        queries, keys = ([self._place(("column", column)) for column in part] for part in (q, k))
        values = [self._place(("column", attended(self.graph.nodes[unit])[2])) for unit in members]
        W_O = np.stack([self._row(unit) for unit in members])
        mask = None if seen == -1 else self.graph.matrices[seen]
        role = f"attention: {', '.join(dict.fromkeys(self.graph.nodes[unit].label for unit in members))}"
        head = layout.attention_head(queries, keys, values, mask, rounded(W_O, self.dtype), role)
        self.attending.append(AttentionClaim(layer, len(self.layers[layer]), tuple(members)))
        self.layers[layer].append(head)
