"""One head on registers by hand, and certificates of any claim about it."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter
from typing import Any

import numpy as np

import weightwright as ww
from weightwright.claims.certificate import Certificate, Terms, local_formula
from weightwright.claims.leaf import Leaf
from weightwright.claims.one_layer_claims import OneLayerClaim
from weightwright.expressions import parse, to_text
from weightwright.heads.registers import Design, Query, assemble
from weightwright.prover.machine import assumptions

Three = tuple[float, float, float]


def one_table(
    table: Any,
    query: tuple[float, float] = (0.0, 1.0),
    slope: float = 0.0,
    mean: float = 0.0,
    role: str = "forged",
    dtype: str = "float64",
) -> Any:
    """A head that looks its table up at s = scale (x - centre). query: the centre and the scale."""
    return assemble(Design((table,), (role,), mean, slope), Query(*query), "f", dtype)


def local_text(formula: str, centre: float, scale: float, mean: float) -> str:
    """What a leaf says of a head that computes formula(centre + s / scale) - mean of its query s."""
    return to_text(local_formula(parse(formula), centre, scale, mean))


def one_head_certificate(
    network: Any,
    formula: str,
    domain: tuple[float, float],
    reach: tuple[float, float],
    inner: Three,
    whole: Three,
    boxes: Any,
    query: tuple[float, float] = (0.0, 1.0),
    mean: float = 0.0,
    lipschitz: float = 0.0,
    zones: tuple[tuple[float, float], ...] = (),
    kernel: str = "dot",
    bound: float | None = None,
) -> Certificate:
    """reach, inner: where the leaf is about its query, and its terms. whole: the network's; the bound is their sum."""
    local = local_text(formula, *query, mean)
    leaf = Leaf(0, local, *reach, "taylor", np.array(boxes, dtype=float), Terms(*inner), lipschitz)
    return Certificate(
        claim=OneLayerClaim(leaf, zones),
        formula=to_text(parse(formula)),
        domain=ww.Box(*domain),
        dtype=network.dtype,
        kernel=kernel,
        bound=nextafter(float(sum(map(Fraction, whole))), inf) if bound is None else bound,
        terms=Terms(*whole),
        network=ww.AttentionNetwork(network).digest(),
        assumptions=assumptions(network.dtype, kernel),
    )
