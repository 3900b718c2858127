"""A part on registers: every token i computes the part's function of w_i . x_i + t_i."""

from __future__ import annotations

import numpy as np

from weightwright.box import Box
from weightwright.certificates.composites import Composite
from weightwright.constructions.certify import certified
from weightwright.constructions.models import target
from weightwright.constructions.parts import Part
from weightwright.heads.assemble import HIDDEN
from weightwright.network import Attention, Head, Linear, Network, Sees, Term, selection
from weightwright.network.laws import rounded
from weightwright.network.layers import Floats
from weightwright.runtime import AttentionNetwork


def on_registers(
    part: Part, w: Floats, t: Floats, box: Box, tol: float | None, dtype: str = "float64"
) -> AttentionNetwork:
    """The stream: s = w_i . x_i + t_i, one (1 on data tokens), key, offset and value of every head on registers, and
    the result, which starts as mean + slope s. Native where all w_i are the same."""
    n, d = w.shape
    inputs = tuple(f"x[{c}]" for c in range(d))
    numbers = range(len(part.tables))
    names = ("s", "one", *(f"{word}[{i}]" for i in numbers for word in ("key", "offset", "value")), part.profile)
    shared = bool((w == w[0]).all())
    A, C = np.zeros((d, len(names))), np.zeros((n, len(names)))
    A[:, 0] = rounded(w[0], dtype) if shared else 1.0
    C[:, 0], C[:, 1] = rounded(t, dtype), 1.0
    A[:, -1], C[:, -1] = rounded(part.slope * A[:, 0], dtype), rounded(part.mean + part.slope * C[:, 0], dtype)
    registers, heads = part_heads(part, names, 0, 1, 2, len(names) - 1)
    network = Network(
        inputs=inputs,
        embed=Linear(names, (Term(A, None, None if shared else rounded(w, dtype)),), C),
        registers=registers,
        layers=(Attention(names, tuple(heads)),),
        read=selection(names, (part.profile,)),
        tokens=n,
        dtype=dtype,
    )
    composite = Composite(target([part.profile], w, t), (part.at(0, range(len(heads)), range(n)),))
    return certified(network, composite, box, tol)


def part_heads(
    part: Part, names: tuple[str, ...], source: int, one: int, first: int, result: int
) -> tuple[Floats, list[Head]]:
    """Registers and heads of a part whose keys, offsets and values stand in the coordinates from `first` on."""
    ends = np.cumsum([len(table.keys) for table in part.tables]).tolist()
    registers = np.zeros((ends[-1], len(names)))
    heads = []
    for index, (table, end) in enumerate(zip(part.tables, ends, strict=True)):
        rows, column = slice(end - len(table.keys), end), first + 3 * index
        registers[:, column + 1] = HIDDEN / table.beta  # the other heads' registers
        registers[rows, column], registers[rows, column + 1] = table.keys, table.offsets
        registers[rows, column + 2] = table.values
        W_Q, W_K = np.zeros((len(names), 2)), np.zeros((len(names), 2))
        W_Q[source, 0], W_Q[one, 1] = part.query.scale, 1.0
        W_Q[one, 0] = -part.query.centre * part.query.scale
        W_K[column, 0], W_K[column + 1, 1], W_K[one, 1] = 1.0, 1.0, HIDDEN / table.beta
        W_V, W_O = np.zeros((len(names), 1)), np.zeros((1, len(names)))
        W_V[column + 2, 0], W_O[0, result] = 1.0, table.weight
        role = f"{part.profile} of {names[source]}"
        heads.append(Head(role, W_Q, W_K, W_V, W_O, table.beta, Sees((rows.start, rows.stop), "none")))
    return registers, heads
