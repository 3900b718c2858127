"""A part on registers: every token i computes the part's function of w_i . x_i + t_i."""

from __future__ import annotations

import numpy as np

from weightwright.box import Box
from weightwright.certificates.composites import Composite
from weightwright.compiler.composed import certified
from weightwright.compiler.parts import Part, part_heads
from weightwright.constructions.models import target
from weightwright.network import Attention, Linear, Network, Term, selection
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
