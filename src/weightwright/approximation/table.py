"""Functions of one number, ready to be built into larger networks: tables of keys and values with what is claimed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weightwright.approximation.approximate import approximate
from weightwright.approximation.prove_design import relative_square
from weightwright.claims.certificate import Leaf
from weightwright.claims.graph import SQUARE
from weightwright.claims.leaf import OneLayerClaim
from weightwright.claims.target import NO_ZONES, TableClaim
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet
from weightwright.expressions import parse, to_text
from weightwright.heads.registers import HIDDEN, Query, Table
from weightwright.network import Head, Sees
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import DTYPES


@dataclass(frozen=True)
class CertifiedTable:
    """profile(s) = mean + slope s + the heads of the tables, within the claim's terms."""

    profile: str
    tables: tuple[Table, ...]
    query: Query
    mean: float
    slope: float
    claim: Leaf
    zones: Floats = dataclasses.field(default_factory=lambda: NO_ZONES)

    @property
    def keys(self) -> int:
        return sum(table.size for table in self.tables)

    @property
    def bound(self) -> float:
        terms = self.claim.terms
        return terms.approximation + terms.leakage + terms.rounding

    def at(self, layer: int, heads: Sequence[int], units: Sequence[int], column: int = 0) -> TableClaim:
        """What is claimed where these heads of this layer are the part."""
        return TableClaim(
            layer, tuple(heads), column, tuple(units), self.mean, self.slope, self.claim, np.asarray(self.zones)
        )


def spectral_part(
    profile: str, lo: float, hi: float, tol: float, dtype: str = "float64", most: int = 512
) -> CertifiedTable:
    """The function as `approximate` builds it on registers; ToleranceError where it cannot be proven."""
    return _part(profile, approximate(profile, (lo, hi), tol, dtype=DTYPES[dtype], max_anchors=most))


def square_part(reach: float, tol: float, dtype: str = "float32") -> CertifiedTable:
    """x^2 for |x| <= reach with an error that falls with x^2, as `relative_square` builds it."""
    return _part(SQUARE, relative_square(reach, tol, dtype))


def _part(profile: str, net: AttentionNetwork) -> CertifiedTable:
    network, certificate = net.network, net.certificate
    assert certificate is not None
    tables = []
    for head in network.heads:
        rows = network.registers[slice(*head.sees.registers)]
        keys, offsets = (rows @ head.W_K).T
        weight = float(head.W_O[0, -1])
        tables.append(Table(keys, offsets, (rows @ head.W_V)[:, 0], head.beta, weight))
    first = next(iter(network.heads))
    scale = float(first.W_Q[0, 0])
    query = Query(-float(first.W_Q[1, 0]) / scale if first.W_Q[1, 0] else 0.0, scale)
    mean, slope = float(network.embed.C[0, -1]), float(network.embed.terms[0].A[0, -1])
    assert isinstance(certificate.claim, OneLayerClaim)
    text = to_text(parse(profile, ("x",)))
    return CertifiedTable(text, tuple(tables), query, mean, slope, with_slope(certificate.claim.leaf))


def with_slope(claim: Leaf) -> Leaf:
    """The claim with a bound on the formula's slope, which a network of one layer may not need."""
    steepest = jet(parse(claim.formula, ("s",)), Interval(claim.boxes[:, 0], claim.boxes[:, 1]), 1)[1].magnitude()
    return dataclasses.replace(claim, lipschitz=(1 + 2.0**-20) * float(np.max(steepest)))


def part_heads(
    part: CertifiedTable, names: tuple[str, ...], source: int, one: int, first: int, result: int
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
