"""Certificates of sums, gates, windows and dead zones that are false. Each of the claims was once accepted as PROVEN,
with an error of the network above the bound."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import ctx
from support.exact import errors
from support.forging import Change, Forged, measured, save_forged, with_claim
from support.one_head import one_head_certificate, one_table

import weightwright as ww
from weightwright.checker.composite.table_heads import read_part
from weightwright.checker.one_layer.layer import Target, layer_holds
from weightwright.claims.certificate import (
    Certificate,
    Terms,
)
from weightwright.claims.leaf import Leaf, Samples
from weightwright.claims.one_layer_claims import SampledClaim
from weightwright.expressions import parse
from weightwright.heads.registers import Own, Table
from weightwright.prover.machine import assumptions

Zones = tuple[tuple[float, float], ...]


def plain(value: float | Decimal) -> str:
    """Every digit, without an exponent."""
    with localcontext() as context:
        context.prec = 400
        return format(Decimal(value), "f")


def times(a: float, b: float) -> Decimal:
    with localcontext() as context:
        context.prec = 400
        return Decimal(a) * Decimal(b)


def claim(network: Any, *about: Any, **more: Any) -> Forged:
    return network, one_head_certificate(network, *about, **more)


def negative_scale() -> Forged:
    """|slope| s / scale was taken off the rounding term."""
    nothing, query = Table(np.zeros(2), np.zeros(2), np.zeros(2)), (0.0, -1.0)
    tiny = (1e-30, 1e-300, 1e-300)
    return claim(
        one_table(nothing, query, 0.1), f"x*{plain(0.1)}", (1, 2), (-2.0000001, -0.9999999), tiny, tiny,
        [[-2.0000001, -0.9999999]], query, 0.2,
    )  # fmt: skip


def weight_that_underflows(dtype: str, value: float, rounding: float) -> Forged:
    """A product with a power of two was taken to be exact."""
    network = one_table(Table(np.zeros(1), np.zeros(1), np.array([value]), 1.0, 2.0**-100), dtype=dtype)
    terms = (1e-80, 1e-60, rounding)
    return claim(
        network, plain(times(value, 2.0**-100)), (-1, 1), (-1.0, 1.0), terms, terms, [[-1, 0], [0, 1]]
    )  # fmt: skip


def windowed(L: np.ndarray, values: np.ndarray) -> Any:
    return one_table(Table(2 * L, -(L**2), values, 0.25, window=3))


def point_between_zones() -> Forged:
    """A box that is a point between two zones was not looked at."""
    terms = (1e-9, 0.0, 1e-12)
    return claim(
        windowed(np.arange(-8, 9.0), np.ones(17)), "1+1000*x*(x-4)", (0, 4), (0.0, 4.0), terms, terms,
        [[0, 0], [2.25, 2.25], [4, 4]], zones=((0.0, 2.25), (2.25, 4.0)), kernel="anchor",
    )  # fmt: skip


def tie_at_the_edge_of_a_zone() -> Forged:
    """Half way between two anchors, beside a zone, only one of the two windows was looked at."""
    values = np.ones(25)
    values[13] = 1e6
    terms = (1e-9, 0.0, 1e-8)
    return claim(
        windowed(np.arange(-8, 17.0), values), "1", (-4, 10), (-4.0, 10.0), terms, terms, [[-4, 1.5], [9, 10]],
        zones=((1.5, 9.0),), kernel="anchor",
    )  # fmt: skip


def anchors_beyond_whole_numbers() -> Forged:
    """Indices overflowed: the output was NaN."""
    L = 2.0**31 + 100 + np.arange(64)
    terms = (1e-9, 0.0, 1e-12)
    ends = (float(L[3]), float(L[-4]))
    return claim(windowed(L, np.ones(64)), "1", ends, ends, terms, terms, [list(ends)], kernel="anchor")


def own_value_that_overflows() -> Forged:
    """slope x overflows, though slope x + value does not."""
    own, query = Own(0.0, 0.0, 2.0**127, -(2.0**128 - 2.0**104)), (2.0, 1.0)
    network = one_table(Table(np.zeros(1), np.array([-2048.0]), np.zeros(1), own=own), query, dtype="float32")
    return claim(
        network, f"{plain(own.slope)}*x+({plain(own.value)})", (2.0, math.nextafter(2, 3)), (-(2.0**-120), 2.0**-50),
        (1e10, 0.0, 2.0**104), (1e10, 0.0, 2.0**105), [[-(2.0**-120), 2.0**-50]], query, 2.0**127,
    )  # fmt: skip


def own_value_and_a_query_that_rounds() -> Forged:
    """The value takes x, the score takes the rounded query: what lies between was not counted."""
    k, C, offset = float(np.float32(1.2 / 128)), 2.0**20 + 2**10, -9840.0
    V, query = float(np.float32(-2 / (1.2 / 128))), (-C, 1.0)
    p = f"sigmoid({plain(k)}*(x+{plain(C)})+({plain(offset)}))"
    table = Table(np.array([k]), np.array([offset]), np.array([V]), own=Own(0.0, 0.0, 1.0, 0.0))
    edges = np.linspace(C - 0.2503, C + 0.5003, 17)
    return claim(
        one_table(table, query, dtype="float32"), f"{p}*({plain(V)})+(1-{p})*x", (0, 0.25), (edges[0], edges[-1]),
        (1e-30, 0.0, 0.03167), (1e-30, 0.0, 0.03184), np.stack([edges[:-1], edges[1:]], 1), query, 0.00267,
    )  # fmt: skip


def zones_that_swallow_the_domain() -> Forged:
    terms = (1e-30, 0.0, 1e-30)
    nothing = one_table(Table(np.zeros(2), np.zeros(2), np.zeros(2)))
    return claim(
        nothing, "1000*(x-1)*(x+1)", (-1, 1), (-1.0, 1.0), terms, terms, [[-1, -1], [1, 1]], zones=((-5.0, 5.0),)
    )  # fmt: skip


def zone_that_ends_where_the_domain_does(formula: str, zone: tuple[float, float], box: list[float]) -> Forged:
    """Zones are open, so the end of the domain was claimed, and no box had it."""
    inner, whole = (1e-9, 1e-300, 1e-12), (1e-9, 1e-300, 2e-12)
    constant = one_table(Table(np.zeros(2), np.zeros(2), np.ones(2)))
    return claim(constant, formula, (0, 4), (0.0, 4.0), inner, whole, [box], zones=(zone,))


def samples_of_truth_values() -> Forged:
    """Differences of truth values are never negative: samples out of order, between which no box was looked at."""
    samples = Samples(np.array([0.0, 1.0, 0.0, 1.0]), np.zeros(4), 0.0, 1, 1.0)
    object.__setattr__(samples, "x", np.array([0, 1, 0, 1], dtype=bool))
    network = one_table(Table(np.zeros(1), np.zeros(1), np.array([1000.0])))
    terms = Terms(1e-9, 1e-9, 1e-9)
    leaf = Leaf(0, "opaque f", 0.6, 0.9, "taylor", np.array([[0.6, 0.9]]), terms, 0.0)
    words = (*assumptions("float64", "dot"), *samples.assumptions())
    whole = Terms(1e-9, 1e-9, 2e-9)
    digest = ww.AttentionNetwork(network).digest()
    claim = SampledClaim(leaf, samples)
    return network, Certificate(claim, "opaque f", ww.Box(0.6, 0.9), "float64", "dot", 1e-8, whole, digest, words)


FORGERIES: dict[str, Callable[[], Forged]] = {
    "a negative scale": negative_scale,
    "a weight that underflows in float32": lambda: weight_that_underflows(
        "float32", float(np.float32(1.7 * 2.0**-49)), 1e-50
    ),
    "a weight that underflows in bfloat16": lambda: weight_that_underflows("bfloat16", 1.625 * 2.0**-32, 4e-42),
    "a point between two zones": point_between_zones,
    "a tie at the edge of a zone": tie_at_the_edge_of_a_zone,
    "anchors beyond whole numbers": anchors_beyond_whole_numbers,
    "an own value that overflows": own_value_that_overflows,
    "an own value and a query that rounds": own_value_and_a_query_that_rounds,
    "zones that swallow the domain": zones_that_swallow_the_domain,
    "a zone that begins with the domain": lambda: zone_that_ends_where_the_domain_does(
        "1+1000*relu(2-x)", (0.0, 2.0), [2, 4]
    ),
    "a zone that ends with the domain": lambda: zone_that_ends_where_the_domain_does(
        "1+1000*relu(x-2)", (2.0, 4.0), [0, 2]
    ),
    "samples of truth values": samples_of_truth_values,
}


@pytest.mark.parametrize("name", FORGERIES)
def test_false_layer_claims_are_refused(name: str, tmp_path: Path) -> None:
    def load() -> None:
        save_forged(*FORGERIES[name](), tmp_path / "net.safetensors")
        ww.load(tmp_path / "net.safetensors")

    with pytest.raises((ww.CertificateError, ww.LawError)):
        load()


@pytest.mark.few(1)
@pytest.mark.parametrize("formula", ["relu(x)", "max(x, 0.25)", "clip(x, -0.5, 0.5)"])
def test_gates_of_subnormal_size_keep_their_bound(formula: str) -> None:
    """2^-140 relu(x) in float32: the weight of the head is a power of two, and its products are not exact."""
    text = f"{plain(2.0**-140)}*{formula}"
    net = ww.approximate(text, (-1, 1), 1e-36, dtype=torch.float32, sees="self")
    x = torch.linspace(-1, 1, 1001)[:, None]
    assert max(errors(text, x[:, 0].tolist(), net(x)[:, 0].tolist())) <= net.certificate.bound
    with pytest.raises(ww.ToleranceError):
        ww.approximate(text, (-1, 1), 1e-46, dtype=torch.float32, sees="self")


@pytest.mark.parametrize("formula", ["step(x - 0.5) + x", "sign(x - 1.5)"])
def test_a_zone_may_end_where_the_domain_does(formula: str) -> None:
    net = ww.approximate(formula, (0, 2), 1e-3, dead_zone=0.5)
    assert [zone.share for zone in net.certificate.zones] == [0.5]
    assert net.certificate.status == "CONDITIONAL"
    assert not ww.search(net, 0.1).violated
    ends = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
    assert max(errors(formula, [0.0, 2.0], net(ends)[:, 0].tolist())) <= net.certificate.bound


def test_a_zone_may_reach_over_the_end_of_the_domain() -> None:
    net = ww.approximate("step(x + 0.1043)*-0.259 + 1.1*x", (-0.105, 0.0234), 1e-3, dtype=torch.float32, dead_zone=0.01)
    assert net.certificate.status == "CONDITIONAL"
    assert net.certificate.why.endswith("(8.33% of the domain)")
    assert not ww.search(net, 0.1).violated


ODD: dict[str, tuple[Change, str]] = {
    "a measured error and a finite bound": (lambda c: dataclasses.replace(c, bound=1.0), "claims no bound"),
    "a measured error that is a text": (
        lambda c: with_claim(c, error="0"),
        "MeasuredClaim.error is '0'",
    ),
    "a measured error that is a whole number": (lambda c: with_claim(c, error=0), "measured error 0 is no number"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_measured_files_are_refused(name: str, tmp_path: Path) -> None:
    network, (change, said) = one_table(Table(np.zeros(2), np.zeros(2), np.zeros(2))), ODD[name]
    honest = measured(network, 0.0, 1, "not at all", formula="0*x", domain=ww.Box(-1, 1))
    path = tmp_path / "net.safetensors"
    save_forged(network, honest, path)
    assert ww.load(path).certificate.status == "MEASURED"
    save_forged(network, change(honest), path)
    for read in (ww.check, ww.load):
        with pytest.raises(ww.FileFormatError, match=said):
            read(path)


def test_only_arguments_that_are_floats_may_skip_what_lies_between_two_of_them() -> None:
    """A clamp at 0.1 by a table so steep that it is good at floats alone: no bound for the arguments of a prompt."""
    net = ww.compile(lambda x: torch.clamp(x, min=0.1), (-0.0078125, 1.0078125), 1e-11)
    (part,), (layer,) = net.certificate.claim.parts, net.network.layers
    data, registers = net.network.embed.C.copy(), net.network.registers
    data[:, net.network.embed.terms[0].A.any(axis=0)] = np.nan
    stored = read_part(layer, part, data, registers, "float64").stored
    target = [Target(parse(part.claim.formula, ("s",)))]
    with ctx.workprec(128):
        layer_holds(stored, part.claim, target, True, ())
        with pytest.raises(ww.CertificateError, match="could be shown"):
            layer_holds(stored, part.claim, target, True, (), floats=False)
