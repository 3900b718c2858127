"""What the coordinates of a compiled network hold: every cell is affine in the inputs and in what heads return.

A head adds its result to all cells that use it, each with a weight of its own: linear maps cost nothing.
"""

from __future__ import annotations

import numpy as np

from weightwright.approximation.table import ProposedTable
from weightwright.claims.graph import INPUT, PRODUCT, ProductClaim
from weightwright.compiler.lowering.affine_forms import Form, Forms
from weightwright.numbers import Floats

#: A cell by what it holds: ("column", number), ("plus" or "minus", product), ("out", output).
Cell = tuple[str, int]


class Cells:
    """The cells that the heads of a plan read, and the outputs, as weights of sources and constants.

    Source number c < d is input feature c; a head's result is the source `sources[unit, i]`: i = 0, or 0 and 1 for the
    two squares of a product.
    """

    def __init__(
        self,
        forms: Forms,
        parts: dict[int, ProposedTable],
        products: dict[int, ProductClaim],
        square: ProposedTable | None,
    ):
        self.forms, self.parts, self.products, self.square = forms, parts, products, square
        pairs = [(u, i) for u in forms.plan.units for i in range(1 + (u in products))]
        self.sources = {pair: forms.d + i for i, pair in enumerate(pairs)}
        S = forms.d + len(pairs)
        self._weights, self._constants = np.zeros((forms.size, S)), np.zeros((forms.size, forms.n))
        self._weights[: forms.d, : forms.d] = np.eye(forms.d)
        for unit in forms.plan.units:
            place = forms.place[unit]
            self._weights[place], self._constants[place] = self._unit(unit)
        self.cells: dict[Cell, tuple[Floats, Floats]] = {}
        for unit in forms.plan.units:
            if unit in products:
                self._arguments(unit)
            else:
                for column in forms.arguments(unit):
                    self.cells.setdefault(("column", column), self._of(forms[column]))
        for index, column in enumerate(forms.graph.outputs):
            self.cells["out", index] = self._of(forms[column])
        self.place = {cell: i for i, cell in enumerate(self.cells)}
        #: (cells, sources) and (cells, tokens)
        self.weights = np.array([weights for weights, _ in self.cells.values()]).reshape(-1, S)
        self.constants = np.array([constants for _, constants in self.cells.values()]).reshape(-1, forms.n)

    def name(self, cell: Cell) -> str:
        """What a cell holds, in words; not always a different name."""
        kind, number = cell
        if kind == "out":
            return f"out[{number}]"
        node = self.forms.graph.nodes[number]
        if node.op == INPUT:
            return node.label or f"x[{node.index}]"
        label = node.label or node.op
        return label if kind == "column" else f"{label}, {kind}"

    def _of(self, form: Form) -> tuple[Floats, Floats]:
        used = np.flatnonzero(form.weights)
        w = form.weights[used]
        return w @ self._weights[used], w @ self._constants[used] + form.constants

    def _unit(self, unit: int) -> tuple[Floats, Floats]:
        """A unit's value: what its heads return, what their part adds, and what was taken off."""
        weights, constants = np.zeros(self._weights.shape[1]), np.zeros(self.forms.n)
        if self.forms.graph.nodes[unit].op == PRODUCT and unit in self.products:
            return self._product(self.products[unit])
        weights[self.sources[unit, 0]] = 1.0
        if unit in self.parts:
            part = self.parts[unit]
            constants = constants + part.mean
            if part.slope:
                base = self._of(self.forms[self.forms.plan.functions[unit].base])
                weights, constants = weights + part.slope * base[0], constants + part.slope * base[1]
        return weights, constants

    def _product(self, claim: ProductClaim) -> tuple[Floats, Floats]:
        (a, a_0), (b, b_0) = (self._of(self.forms[c]) for c in self.forms.graph.nodes[claim.node].of)
        weights, factor = claim.x * b + claim.y * a, 1 / (4 * claim.scale**2)
        weights[self.sources[claim.node, 0]] += factor
        weights[self.sources[claim.node, 1]] -= factor
        constants = claim.x * b_0 + claim.y * a_0 - claim.x * claim.y
        assert self.square is not None
        if self.square.slope:  # of the two arguments; their difference is 2 scale (b - y) / balance
            slope = self.square.slope / (2 * claim.scale * claim.balance)
            weights, constants = weights + slope * b, constants + slope * (b_0 - claim.y)
        return weights, constants

    def _arguments(self, unit: int) -> None:
        claim = self.products[unit]
        (a, a_0), (b, b_0) = (self._of(self.forms[c]) for c in self.forms.graph.nodes[unit].of)
        p, q = claim.scale * claim.balance, claim.scale / claim.balance
        self.cells["plus", unit] = p * a + q * b, p * (a_0 - claim.x) + q * (b_0 - claim.y)
        self.cells["minus", unit] = p * a - q * b, p * (a_0 - claim.x) - q * (b_0 - claim.y)
