"""sees="self": a kink takes a gate, whose keys are the token itself and a register or two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from weightwright.approximation.kinked import Kinked, KinkLine
from weightwright.heads.gate import choice_gate, relu_gate, sharpness
from weightwright.heads.kinks import Kink
from weightwright.heads.registers import Design
from weightwright.heads.spectral import MAX_SPECTRAL, SpectralDesigner
from weightwright.numbers import Floats

#: Fractions of the aim that the gates may leave at their kinks.
SHARES = (0.45, 0.1, 0.02)


class Gates:
    """Designs of what a kinked formula is without its jumps."""

    def __init__(self, kinked: Kinked, most: int) -> None:
        self.kinked, self.task, self.most = kinked, kinked.task, most

    def designs(self, aim: float) -> Iterator[Design]:
        k = self.kinked
        if not k.linear:
            yield from self._with_soft_anchors(aim)
            return
        if not k.bends:
            yield k.start(k.line(self.task.lo, self.task.hi))
            return
        lines = [k.line(*piece) for piece in k.pieces()]
        varying = [i for i, line in enumerate(lines) if line.slope != 0]
        bends = float(sum(abs(kink.bend) for kink in k.bends)) * self.task.query.scale
        for share in SHARES:
            beta = sharpness(bends, self.task.query, share * aim)
            if len(varying) == 1:
                yield self._one_head(lines, varying[0], beta)
            else:
                yield self._sum(lines, beta)

    def _one_head(self, lines: list[KinkLine], own: int, beta: float) -> Design:
        """All pieces but one are constant: softmax picks the piece."""
        k, query = self.kinked, self.task.query
        ends = [self._at(kink) for kink in k.bends]
        weight = k.number(lines[own].slope * query.scale)
        constants = [line.constant + self.task.mean for line in lines]
        shift = k.number(constants[own] / weight - query.centre)
        others = [k.number(c / weight) for i, c in enumerate(constants) if i != own]
        table = choice_gate(ends, others, own, shift, beta, weight, query).rounded(self.task.dtype)
        return Design((table,), (f"{self.task.text}, picks its piece, {table.size} keys",), 0.0)

    def _sum(self, lines: list[KinkLine], beta: float) -> Design:
        """A line and a relu for every bend. Far from 0 a line in x would cancel: then the first bend takes its part."""
        k, query = self.kinked, self.task.query
        sides = k.rightward() if query.centre == 0 else [True] * len(k.bends)
        line = lines[sides.count(False)]  # between the bends to the left and those to the right
        gates = [(kink, kink.bend * query.scale, right) for kink, right in zip(k.bends, sides, strict=True)]
        if query.centre != 0:
            corner = k.bends[0]
            gates[0] = (corner, (line.slope + corner.bend) * query.scale, True)
            gates.insert(0, (corner, -line.slope * query.scale, False))
            line = KinkLine(0.0, line.slope * corner.at + line.constant)
        return self._gated(k.start(line), [(kink, weight, right) for kink, weight, right in gates if weight], beta)

    def _gated(self, start: Design, gates: list[tuple[Kink, float, bool]], beta: float) -> Design:
        k, query = self.kinked, self.task.query
        tables = tuple(
            relu_gate(self._at(kink), beta, k.number(w), query, right).rounded(self.task.dtype)
            for kink, w, right in gates
        )
        roles = tuple(f"{w:g} relu({'' if right else '-'}(x - {self._at(kink):g})), gate" for kink, w, right in gates)
        return replace(start, tables=tables, roles=roles)

    def _with_soft_anchors(self, aim: float) -> Iterator[Design]:
        """Gates take the bends, soft anchors what is left, which may still bend in its second derivative."""
        k, task = self.kinked, self.task
        gates = [
            (kink, kink.bend * task.query.scale, right) for kink, right in zip(k.bends, k.rightward(), strict=True)
        ]
        gates = [gate for gate in gates if gate[1]]

        def smooth(s: Floats) -> Floats:
            sides = ((kink, 1.0 if right else -1.0) for kink, _, right in gates)
            return k.rest(s) - sum((g.bend * np.maximum(side * (s - g.at), 0.0) for g, side in sides), np.zeros_like(s))

        beta = sharpness(sum(abs(weight) for _, weight, _ in gates) or 1.0, task.query, 0.1 * aim)
        gated = self._gated(Design((), (), task.mean), gates, beta)
        designer = SpectralDesigner(
            smooth, task.lo, task.hi, task.tol, min(self.most, MAX_SPECTRAL[task.dtype]), task.dtype
        )
        for fit in designer.candidates(0.8 * aim):
            role = f"what is smooth in {task.text}, {fit.table.size} soft anchors"
            yield replace(gated, tables=(*gated.tables, fit.table), roles=(*gated.roles, role))

    def _at(self, kink: Kink) -> float:
        """The kink's x in the dtype."""
        return self.kinked.number(self.kinked.x(kink.at))
