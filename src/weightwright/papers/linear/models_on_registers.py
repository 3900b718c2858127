"""Functions of w_i . x_i + t_i whose keys stand on registers: for every token as many outputs as there are tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weightwright.approximation.table import ProposedTable
from weightwright.certify import certify
from weightwright.claims.target import Composite
from weightwright.heads.registers import on_registers
from weightwright.network import Head, Network, Term
from weightwright.numbers import Floats, rounded
from weightwright.papers.kit.models import Models
from weightwright.papers.kit.named_stream import NamedStream, features
from weightwright.runtime import AttentionNetwork


def register_network(
    parts: Sequence[ProposedTable],
    asked: Models,
    tol: float | None,
    input: str = "x",
    results: Sequence[str] | None = None,
    alike: bool = False,
) -> AttentionNetwork:
    """Every token computes the parts' functions of w_i . x_i + t_i.

    input: what the features are called. results: what the outputs are called; None: as their profiles. alike: all
    tokens have one model, and no code of their own.
    """
    profiles = [part.profile for part in parts]
    tables = [table for part in parts for table in part.tables]
    held = table_coordinates(len(tables))
    stream = NamedStream({"s": None, "one": None, "table": held, "result": results or profiles})
    first, result = stream.at["table"].start, stream.at["result"].start
    registers, rows = on_registers(tables, range(first, result, 3), stream.width)
    heads: list[Head] = []
    claims = []
    for index, part in enumerate(parts):
        own = range(len(heads), len(heads) + len(part.tables))
        own_rows = rows[own.start : own.stop]
        heads += part.heads(stream.names, 0, 1, first + 3 * len(heads), own_rows, result + index)
        claims.append(part.at(0, own, units_of(index, len(parts), len(asked.w))))
    network = models_network(stream, parts, asked, input, alike, heads, registers)
    return certify(network, Composite(asked.target(profiles), tuple(claims)), asked.box, tol)


def table_coordinates(count: int) -> list[str]:
    """What the coordinates of this many tables are called."""
    return [f"{word}[{i}]" for i in range(count) for word in ("key", "offset", "value")]


def units_of(row: int, rows: int, n: int) -> range:
    """Of one row of the outputs, for every token."""
    return range(row, rows * n, rows)


def models_network(
    stream: NamedStream,
    parts: Sequence[ProposedTable],
    asked: Models,
    input: str,
    alike: bool,
    heads: Sequence[Head],
    registers: Floats,
) -> Network:
    """The stream: s = w_i . x_i + t_i, one, which is 1 on data tokens, and the results, which start as mean + slope s.
    Native where all w_i are the same."""
    factor, scale = asked.factors
    A = stream.tokens(asked.w.shape[1], {"s": factor, "one": 0.0})
    t = rounded(asked.t[:1] if alike else asked.t, asked.dtype)
    C = stream.tokens(len(t), {"s": t[:, None], "one": 1.0})
    slopes, means = np.array([part.slope for part in parts]), np.array([part.mean for part in parts])
    A[:, stream.at["result"]] = rounded(slopes * A[:, :1], asked.dtype)
    C[:, stream.at["result"]] = rounded(means + slopes * C[:, :1], asked.dtype)
    inputs = features(input, len(A))
    return stream.network(inputs, Term(A, None, scale), C, [heads], "result", registers, len(asked.w), asked.dtype)
