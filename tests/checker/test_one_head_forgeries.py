"""Networks of one head built to deceive the checker, each wrong in a way that once passed. All digests fit; the claims
are false."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx
from support.exact import errors
from support.forging import Forged, save_forged
from support.one_head import one_head_certificate, one_table
from support.stored import certified_file

import weightwright as ww
from weightwright.enclosures.balls.series import series
from weightwright.expressions import Number, parse, to_text
from weightwright.heads.registers import Table


def forged_network(
    table: Table, scale: float = 1.0, shift: float = 0.0, data_key: float = -1024.0, dtype: str = "float64"
) -> Any:
    """A one-head network with any query scale x + shift, also ones that assemble would not make."""
    plain = Table(table.keys, table.offsets, table.values)
    network = one_table(plain)
    layer = network.layers[0]
    W_Q, W_K = np.array(layer.heads[0].W_Q), np.array(layer.heads[0].W_K)
    W_Q[0, 0], W_Q[1, 0], W_K[1, 1] = scale, shift, data_key
    head = dataclasses.replace(layer.heads[0], W_Q=W_Q, W_K=W_K, beta=table.beta)
    return dataclasses.replace(network, layers=(dataclasses.replace(layer, heads=(head,)),), dtype=dtype)


def forged_certificate(
    network: Any,
    formula: str,
    domain: tuple[float, float],
    claim: tuple[float, float],
    terms: tuple[float, float, float],
    query: tuple[float, float] = (0.0, 1.0),
    boxes: int = 1,
) -> Any:
    edges = np.linspace(*claim, boxes + 1)
    whole = (terms[0], terms[1], 2 * terms[2])
    return one_head_certificate(
        network, formula, domain, claim, terms, whole, np.stack([edges[:-1], edges[1:]], 1), query,
        mean=float(network.embed.C[0, 5]), bound=1.01 * sum(whole) + 1e-300,
    )  # fmt: skip


def two(slope: float, values: tuple[float, float] = (1.0, 0.0), beta: float = 1.0) -> Table:
    return Table(np.array([slope / 2, -slope / 2]), np.zeros(2), np.array(values), beta)


def tie_at_the_middle() -> Forged:
    """relu(-x**2) is 0, but at x = 0 both sides are 0, and the other one is -x**2."""
    network = ww.approximate("-(x**2)", (-1, 1), 1e-2).network
    return network, forged_certificate(network, "relu(-x**2)", (-1, 1), (-1.0, 1.0), (0.12, 1e-290, 1e-12))


def products_that_underflow() -> Forged:
    tiny = 2.0**-1074
    network = forged_network(Table(np.zeros(64), np.zeros(64), np.full(64, 31 * tiny)))
    formula = to_text(Number(31 * Fraction(tiny)))
    certificate = forged_certificate(network, formula, (-1, 1), (-1.0, 1.0), (0.0, tiny, tiny))
    return network, dataclasses.replace(certificate, bound=4 * tiny)


def queries_that_overflow() -> Forged:
    beta, s = 2.0**1000, 2.0**30
    network = forged_network(two(2.0**-1030, beta=beta), data_key=-1024 / beta)
    terms = (1e-12, 1e-300, 1e-12)
    return network, forged_certificate(network, "sigmoid(x/1073741824)", (-s, s), (-s, s), terms, boxes=16)


def products_that_overflow() -> Forged:
    scale, shift = 2.0, -(2.0**1023 + (2.0**1023 - 2.0**1020))
    centre, lo = -shift / scale, 2.0**1023
    hi = lo + 2.0**1019
    ends = [float((Fraction(x) - Fraction(centre)) * Fraction(scale)) for x in (lo, hi)]
    claim = (0.999 * ends[0], 1.001 * ends[1])
    network = forged_network(two(0.0, (1.0, 1.0)), scale, shift)
    return network, forged_certificate(network, "1", (lo, hi), claim, (0.0, 1e-300, 1e-14), (centre, scale))


def scores_that_overflow() -> Forged:
    beta, key = 2.0**20, 1e308
    network = forged_network(two(2 * key if 2 * key < np.inf else 1.7e308, beta=beta), data_key=-1024 / beta)
    slope = int(Fraction(float(network.registers[0, 2])) * 2 * Fraction(beta))
    return network, forged_certificate(network, f"sigmoid({slope}*x)", (0.5, 1), (0.5, 1.0), (1e-3, 1e-300, 3.0))


def a_centre_that_rounds_to_zero() -> Forged:
    scale, shift, d, s = 2.0**1023, 2.0**-53, 2.0**-1074, 2.0**-51
    network = forged_network(two(2.0**53), scale, shift)
    formula = f"sigmoid(x*{int(Fraction(2) ** 53 * Fraction(scale))})"
    terms = (1e-12, 1e-300, 1e-12)
    return network, forged_certificate(network, formula, (-d, d), (-s, s), terms, (0.0, scale), boxes=16)


def a_query_that_rounds_out_of_the_claim() -> Forged:
    t, beta = 2.0**-149, 2.0**60
    key, offset = (float(np.float32(x)) for x in (2000 / t / beta, -1900 / beta))
    table = Table(np.array([key, 0.0]), np.array([offset, 0.0]), np.array([1000.0, 0.0]), beta)
    network = forged_network(table, t, data_key=-1024 / beta, dtype="float32")
    d = float(np.float32(0.9))
    reach = d * t * (1 + 2.0**-22)
    terms = (1e-30, 1e-300, 2.0)
    return network, forged_certificate(network, "0", (-d, d), (-reach, reach), terms, (0.0, t), boxes=64)


def a_query_that_underflows() -> Forged:
    scale = 2.0**-1074
    network = forged_network(two(0.0, (0.0, 0.0)), scale)
    return network, forged_certificate(network, "1000*x**2", (-0.5, 0.5), (0.0, 0.0), (0.0, 0.0, 1e-300), (0.0, scale))


def undefined(formula: str) -> Callable[[], Forged]:
    def forge() -> Forged:
        network = forged_network(two(0.0, (0.0, 0.0)))
        return network, forged_certificate(network, formula, (-1, 1), (-1.0, 1.0), (1.0, 1e-300, 1e-9))

    return forge


FORGERIES: dict[str, Callable[[], Forged]] = {
    "a tie at the middle of a box": tie_at_the_middle,
    "products that underflow": products_that_underflow,
    "queries that overflow": queries_that_overflow,
    "products that overflow": products_that_overflow,
    "scores that overflow": scores_that_overflow,
    "a centre that rounds to zero": a_centre_that_rounds_to_zero,
    "a query that rounds out of the claim": a_query_that_rounds_out_of_the_claim,
    "a query that underflows": a_query_that_underflows,
    "0*log(x-5)": undefined("0*log(x-5)"),
    "0/x": undefined("0/x"),
    "relu(x-2)*sqrt(x-2)": undefined("relu(x-2)*sqrt(x-2)"),
    "log(x-5)**0": undefined("log(x-5)**0"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "forged.safetensors"
    save_forged(*FORGERIES[name](), path)
    with pytest.raises(ww.CertificateError):
        ww.check(path)


def test_the_same_forms_without_the_lie_are_proven(tmp_path: Path) -> None:
    """The forger's tools also make honest files: what refuses the others is not some accident of their form."""
    path = tmp_path / "honest.safetensors"
    network = forged_network(two(2.0))
    save_forged(
        network,
        forged_certificate(network, "sigmoid(2*x)", (-1, 1), (-1.0, 1.0), (1e-12, 1e-300, 1e-12), boxes=16),
        path,
    )
    assert ww.check(path).status == "PROVEN"


@pytest.mark.parametrize("formula", ["log(x-5)**0", "0*log(x-5)", "0/x", "relu(x-2)*sqrt(x-2)"])
def test_undefined_functions_are_not_approximated(formula: str) -> None:
    with pytest.raises((ww.FormulaError, ww.ToleranceError)):
        ww.approximate(formula, (-1, 1), 0.5)


@pytest.mark.parametrize("formula", ["relu(-x**2)", "min(x**2, 0)", "clip(-x**2, 0, 1)", "max(x, x)"])
def test_ties_leave_no_coefficient_beyond_the_first(formula: str) -> None:
    with ctx.workprec(128):
        at_tie = series(parse(formula), arb(0), 4)
    assert at_tie[0] == 0
    assert not any(coefficient.is_finite() for coefficient in at_tie[2:])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("formula", "tol"), [("1e-40*sin(5*x)", 3e-45), ("1e-42*sin(5*x)", 1e-45), ("1e-38*tanh(x)", 1e-36)]
)
def test_subnormal_values_in_float32(formula: str, tol: float) -> None:
    try:
        net = ww.approximate(formula, (-1, 1), tol, dtype=torch.float32)
    except ww.ToleranceError:
        return
    x = torch.linspace(-1, 1, 1001)[:, None]
    assert max(errors(formula, x[:, 0].tolist(), net(x)[:, 0].tolist())) <= net.certificate.bound


def test_two_threads_do_not_change_each_others_precision(tmp_path: Path) -> None:
    """flint's settings are global: a check beside others must not lose coefficients of its series."""
    network = forged_network(two(0.0, (0.0, 0.0)))
    false_claim = tmp_path / "false.safetensors"
    save_forged(
        network, forged_certificate(network, "1000*x**12", (-1, 1), (-1.0, 1.0), (1e-9, 1e-300, 1e-12)), false_claim
    )
    faithful = tmp_path / "faithful.safetensors"
    ww.approximate("x", (-1, 1), 0.05, method="faithful").save(faithful)
    stop = threading.Event()

    def others() -> None:
        while not stop.is_set():
            ww.check(faithful)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=others) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
        for _ in range(20):
            with pytest.raises(ww.CertificateError):
                ww.check(false_claim)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)


def test_loading_runs_the_network_that_was_checked(sine: ww.AttentionNetwork, saved: Path) -> None:
    assert ww.load(saved).digest() == certified_file(saved)[1].network
