"""What `approximate` chooses, and what it says when it cannot."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import weightwright as ww
from weightwright.heads.faithful import anchors_needed, inverse_temperature


def anchors(net: ww.AttentionNetwork) -> int:
    return len(net.network.registers)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "formula", ["sigmoid(x)", "tanh(3*x)", "2 - 3*tanh(x/2 + 1)", "sigmoid(0.1*x)/3 + sigmoid(0.1*x)"]
)
def test_sigmoid_shapes_are_two_exact_keys(formula: str) -> None:
    net = ww.approximate(formula, (-3, 3), 1e-13)
    assert anchors(net) == 2
    assert net.certificate.status == "PROVEN"


@pytest.mark.parametrize("formula", ["sigmoid(x) + sigmoid(2*x)", "x*sigmoid(x)", "tanh(x**2)", "tanh(x) + x"])
def test_other_shapes_are_not_mistaken_for_sigmoids(formula: str) -> None:
    net = ww.approximate(formula, (-1, 1), 1e-6)
    assert anchors(net) > 2


def test_a_weaker_tolerance_costs_less() -> None:
    counts = [anchors(ww.approximate("sin(5*x)", (-1, 1), tol)) for tol in (1e-2, 1e-5, 1e-8)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_values_are_centred_and_small() -> None:
    net = ww.approximate("1000 + exp(x)", (-1, 1), 1e-8)
    values = net.network.registers[:, 4]
    assert net.network.embed.C[0, 5] == pytest.approx(1000 + math.cosh(1), rel=1e-3)
    assert np.abs(values).max() <= 100 * 2 * math.sinh(1)


def test_a_constant() -> None:
    net = ww.approximate("3", (0, 1), 1e-12)
    assert net(torch.tensor([[0.5]], dtype=torch.float64)).item() == pytest.approx(3, abs=net.certificate.bound)


def test_domains_as_numbers_texts_fractions_and_boxes() -> None:
    for domain in ((0, 1), (0.0, 1.0), ("0", "1"), (Fraction(0), Fraction(1)), ww.Box(0, 1), ww.Box([0], [1])):
        assert ww.approximate("x", domain, 1e-3).certificate.domain == ww.Box(0.0, 1.0)


def test_a_decimal_end_is_rounded_outward() -> None:
    box = ww.Box("0.1", "0.3")
    assert Fraction(float(box.lo[0])) <= Fraction(1, 10) < Fraction(float(np.nextafter(box.lo[0], 1)))
    assert Fraction(float(box.hi[0])) >= Fraction(3, 10) > Fraction(float(np.nextafter(box.hi[0], 0)))
    assert ww.Box(0.1, 0.3).lo[0] == 0.1  # a float is what it is


@pytest.mark.parametrize(
    ("domain", "reason"),
    [
        ((1, 1), "lo must be below hi"),
        ((1, -1), "lo = 1.0.* hi = -1.0"),
        ((0, math.nan), "hi must be a finite number, not nan"),
        ((-math.inf, 0), "lo must be a finite number, not -inf"),
        (("0", "one"), "hi must be a finite number, not 'one'"),
        ((0, None), "hi must be a finite number, not None"),
        (5, "a pair .* was expected, not 5"),
        ((1, 2, 3), "a pair"),
        (ww.Box([0] * 4, [1] * 4), "an interval, or a box of two or three"),
        (([0, 1], [1]), "shape"),
        ((-1.7e308, 1.7e308), "must be between .* wide"),
        ((0, 1e-310), "must be between .* wide"),
        (("0", "1e-99999999"), "hi must be a finite number"),
        (("0", "1e99999999"), "hi must be a finite number"),
    ],
)
def test_bad_domains(domain: Any, reason: str) -> None:
    with pytest.raises(ww.DomainError, match=reason):
        ww.approximate("x", domain, 1e-3)


@pytest.mark.parametrize("tol", [0, -1e-8, math.nan, math.inf, "small", None])
def test_bad_tolerances(tol: Any) -> None:
    with pytest.raises(ValueError, match="tol must be a positive finite number, not"):
        ww.approximate("x", (-1, 1), tol)


def test_bad_options() -> None:
    with pytest.raises(ValueError, match="method must be 'spectral' or 'faithful', not 'magic'"):
        ww.approximate("x", (-1, 1), 1e-3, method="magic")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"max_anchors must be .* not 1"):
        ww.approximate("x", (-1, 1), 1e-3, max_anchors=1)
    with pytest.raises(ww.FormulaError, match="f must be a formula or a torch function, not int: 5"):
        ww.approximate(5, (-1, 1), 1e-3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("formula", "domain", "where"),
    [
        ("log(x)", (-1, 1), "-1.0"),
        ("sqrt(x)", (-1, 1), "-1.0"),
        ("1/x", (-1, 1), "0.0"),
        ("exp(x)", (1000, 1001), "1000.0"),
        ("x**0.5", (-1, 1), "-1.0"),
    ],
)
def test_functions_that_are_undefined_somewhere(formula: str, domain: tuple[int, int], where: str) -> None:
    with pytest.raises(ww.FormulaError, match=f"undefined, infinite or too large .* x = {where}"):
        ww.approximate(formula, domain, 1e-3)


@pytest.mark.parametrize(
    ("formula", "where"),
    [("1/(x - 0.3)", "0.3"), ("tan(3*x)", "0.52"), ("log(abs(x - 0.3))", "0.3"), ("sqrt(x**2 - 1e-9)", "0.0")],
)
def test_a_pole_between_any_samples_is_found(formula: str, where: str) -> None:
    with pytest.raises(ww.FormulaError, match=rf"at or near x = -?({where}|0\.299999)"):
        ww.approximate(formula, (-1, 1), 1e-2)


@pytest.mark.parametrize(
    ("formula", "tol"),
    [
        ("tanh(x)", 1e-17),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [("x", 1e-17), ("sin(5*x)", 1e-15), ("abs(x)", 1e-17), ("relu(x)", 1e-17)]
        ),
    ],
)
def test_a_tolerance_that_cannot_be_proven_names_the_best(formula: str, tol: float) -> None:
    start = time.perf_counter()
    with pytest.raises(ww.ToleranceError, match="cannot be proven; the best bound found is") as caught:
        ww.approximate(formula, (-1, 1), tol)
    assert caught.value.best is not None
    assert caught.value.best > tol
    assert time.perf_counter() - start < 60
    # and that bound can really be had, give or take the search
    assert ww.approximate(formula, (-1, 1), 2 * caught.value.best).certificate.bound <= 2 * caught.value.best


def test_no_bound_at_all_says_so() -> None:
    with pytest.raises(ww.ToleranceError, match="no error bound could be proven") as caught:
        ww.approximate("sqrt(x)", (0, 1), 1e-2)
    assert caught.value.best is None


def test_too_few_anchors_are_a_tolerance_error() -> None:
    with pytest.raises(ww.ToleranceError, match="the best bound found") as caught:
        ww.approximate("sin(5*x)", (-1, 1), 1e-8, max_anchors=8)
    assert caught.value.best is not None


def test_a_budget_error_comes_before_memory_is_taken() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ww.BudgetError, match=r"needs 400,000,000 anchors .* more than max_anchors=65,536"):
            ww.approximate("x", (-1, 1), 1e-8, method="faithful")
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


def test_the_faithful_head_has_the_corollarys_parameters() -> None:
    """Cor G.6 for Range on [-1, 1]: p = 2(b-a)/eps; beta at least the formula's, at most twice that."""
    tol = 1e-2
    net = ww.approximate("x", (-1, 1), tol, method="faithful")
    p = anchors(net)
    assert p == anchors_needed(2.0, 1.0, tol) == 400
    corollary = 2 * p**2 / 4 * (math.log(p - 2) + math.log(2 / tol))
    head = next(net.network.heads)
    assert corollary <= head.beta == inverse_temperature(2.0, p, 1.0, tol) < 2 * corollary
    np.testing.assert_array_equal(net.network.registers[:, 2], -1 + np.arange(p) * (2 / p))


@pytest.mark.slow
def test_the_spectral_head_is_a_thousand_times_smaller() -> None:
    faithful = ww.approximate("x", (-1, 1), 1e-4, method="faithful")
    spectral = ww.approximate("x", (-1, 1), 1e-4)
    assert anchors(faithful) >= 1000 * anchors(spectral)
    assert max(faithful.certificate.bound, spectral.certificate.bound) <= 1e-4


def test_progress_is_told() -> None:
    messages: list[str] = []
    ww.approximate("exp(x)", (-1, 1), 1e-6, progress=messages.append)
    assert any("anchors" in message for message in messages)
    assert messages[-1] == "checking the certificate"


@pytest.mark.slow
def test_proving_and_checking_are_quick() -> None:
    """About 25 and 12 yardsticks, whatever else the machine does; 50 are under 3 s where nothing else runs."""
    script, one = (
        Path(__file__).parents[1] / "support" / "yardsticks.py",
        {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    told = subprocess.run([sys.executable, script], env=os.environ | one, capture_output=True, text=True, check=True)
    proving, checking = map(float, told.stdout.split())
    assert proving < 50
    assert checking < 50
