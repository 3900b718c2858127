"""Functions that are no formulas: measured, or proven from samples under a bound on a derivative."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx
from scipy import special
from support.forging import save_forged, with_claim, with_one_layer
from support.stored import certified_file

import weightwright as ww
from weightwright.approximation.opaque import Opaque
from weightwright.claims.certificate import MeasuredClaim, sampled_in_words
from weightwright.claims.one_layer_claims import OneLayerClaim


def bessel(x: np.ndarray) -> np.ndarray:
    """J_0; its derivatives of every order are at most 1 in size."""
    return special.j0(x)


def worst_error(net: ww.AttentionNetwork, seed: int) -> arb:
    """The largest error against J_0 in 200 bits, among the inputs that a search thinks worst."""
    x = ww.search(net, 0.1, seed, reference=Opaque(bessel)).x
    y = net(torch.tensor([[x]], dtype=net.dtype)).item()
    before, ctx.prec = ctx.prec, 200
    try:
        return abs(arb(y) - arb(x).bessel_j(0))
    finally:
        ctx.prec = before


@pytest.mark.parametrize(
    ("domain", "tol", "order", "dtype"),
    [
        ((-1, 1), 1e-8, 6, torch.float64),
        pytest.param((0, 10), 1e-6, 4, torch.float64, marks=pytest.mark.slow),
        pytest.param((0, 10), 1e-3, 2, torch.float64, marks=pytest.mark.slow),
        pytest.param((-1, 1), 1e-2, 1, torch.float64, marks=pytest.mark.slow),
        ((1000, 1001), 1e-4, 3, torch.float32),
    ],
)
def test_a_bound_on_a_derivative_is_enough(domain: tuple[int, int], tol: float, order: int, dtype: torch.dtype) -> None:
    net = ww.approximate(bessel, domain, tol, derivative_bound=(order, 1), dtype=dtype)
    said = net.certificate
    samples = said.claim.samples
    assert (said.status, said.name) == ("CONDITIONAL", "bessel")
    assert said.formula.startswith(f"a function known by {len(samples.x)} samples, sha256 ")
    assert said.why == "; ".join(said.assumptions[-2:])  # what the caller stated stands with the status
    assert said.assumptions[-2:] == (
        f"the derivative of f of order {order} is at most 1.0 in size between {float(samples.x[0])!r} and"
        f" {float(samples.x[-1])!r}, as the caller states",
        f"the {len(samples.x)} values of f that are stored are right within {samples.accuracy!r}, as is taken"
        " for granted",
    )
    error = worst_error(net, seed=1)
    assert error <= said.bound <= tol
    assert error >= said.bound / 100


def test_kernels_and_files_take_samples_too(tmp_path: object) -> None:
    net = ww.approximate(bessel, (-1, 1), 2e-6, derivative_bound=(4, 1.0), kernel="anchor", dtype=torch.float32)
    net.save(f"{tmp_path}/net.safetensors")
    loaded = ww.load(f"{tmp_path}/net.safetensors")
    assert (loaded.certificate.status, loaded.certificate.kernel) == ("CONDITIONAL", "anchor")
    assert worst_error(loaded, seed=2) <= loaded.certificate.bound


def test_without_a_bound_it_is_measured_and_says_how() -> None:
    net = ww.approximate(bessel, (0, 1), 1e-4, proof="measured")
    said = net.certificate
    assert (said.status, said.bound, type(said.claim)) == ("MEASURED", math.inf, MeasuredClaim)
    assert said.measured.error <= 1e-4
    assert said.measured.inputs > 10_000
    assert said.measured.how.endswith("against the values that the function itself computed in float64")
    assert worst_error(net, seed=3) <= 1.5 * said.measured.error


def test_measured_files_prove_nothing(tmp_path: object) -> None:
    path = f"{tmp_path}/net.safetensors"
    net = ww.approximate(bessel, (0, 1), 1e-2, proof="measured")
    net.save(path)
    assert ww.load(path).certificate.status == "MEASURED"
    with pytest.raises(ww.CertificateError, match="nothing is proven here"):
        ww.check(path)
    with pytest.raises(ww.WeightwrightError, match=r"is not a formula: search needs the function itself"):
        ww.search(net)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "function",
    [bessel, special.j0, torch.special.bessel_j0, lambda x: math.cos(x) if x > 0.3 else math.cos(x) + 0.0],
    ids=["numpy", "scipy", "torch", "floats"],
)
def test_whatever_a_function_takes(function: object) -> None:
    net = ww.approximate(function, (-1, 1), 1e-4, proof="measured")
    assert net.certificate.formula.startswith("opaque ")
    assert net.certificate.measured.error <= 1e-4


def test_two_variables_are_measured() -> None:
    net = ww.approximate(lambda x, y: special.jv(1, x * y), ((0, 0), (1, 1)), 1e-2, proof="measured")
    assert net.certificate.status == "MEASURED"
    assert net.certificate.measured.error <= 1e-2


def test_what_could_be_traced_is_a_formula_still() -> None:
    net = ww.approximate(torch.tanh, (-1, 1), 1e-6, derivative_bound=(4, 100.0))
    assert net.certificate.formula == "tanh(x)"
    assert isinstance(net.certificate.claim, OneLayerClaim)


def test_nothing_is_taken_as_opaque_unasked() -> None:
    with pytest.raises(ww.UnsupportedOperation, match=r"proof='measured'.*derivative_bound=\(order, bound\)"):
        ww.approximate(bessel, (-1, 1), 1e-4)


def test_a_mistake_in_the_function_is_not_swallowed() -> None:
    def broken(x: object) -> object:
        return undefined_name  # noqa: F821

    with pytest.raises(NameError, match="undefined_name"):
        ww.approximate(broken, (-1, 1), 1e-4)


@pytest.mark.parametrize(
    "wrong", [(0, 1.0), (13, 1.0), (2, -1.0), (2, math.inf), (2.0, 1.0), 3, (True, 1.0), (1, 2, 3)]
)
def test_a_wrong_derivative_bound_is_named(wrong: object) -> None:
    with pytest.raises(ValueError, match="derivative_bound must be"):
        ww.approximate(bessel, (-1, 1), 1e-4, derivative_bound=wrong)


def test_too_many_samples_are_refused_before_the_function_is_called() -> None:
    def never(x: object) -> object:
        raise TypeError("called")

    with pytest.raises(ww.BudgetError, match=r"asks for 2,500,001 samples.*higher order asks for fewer"):
        ww.approximate(never, (-1, 1), 1e-6, derivative_bound=(1, 1.0))


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda x: np.where(np.asarray(x) > 0, np.nan, 1.0), r"opaque <lambda> is (np\.float64\()?nan\)? at \["),
        (lambda x: special.j0(np.asarray(x)).sum(), r"returned shape \(1,\) for 2049 inputs"),
    ],
)
def test_values_that_are_no_numbers(function: object, complaint: str) -> None:
    with pytest.raises(ww.FormulaError, match=complaint):
        ww.approximate(function, (-1, 1), 1e-4, proof="measured")


# --- what the checker refuses ---


@pytest.fixture(scope="module")
def proven() -> ww.AttentionNetwork:
    return ww.approximate(bessel, (-1, 1), 1e-6, derivative_bound=(4, 1.0))


def of(certificate: ww.Certificate) -> Any:
    assert type(certificate.claim).__name__ == "SampledClaim"
    return certificate.claim.samples


def with_samples(certificate: object, admitted: bool = True, **changes: object) -> object:
    """The certificate with other samples, which it admits or does not."""
    samples = dataclasses.replace(of(certificate), **changes)
    words = (*certificate.assumptions[:-2], *samples.assumptions()) if admitted else certificate.assumptions
    changed = with_claim(certificate, samples=samples)
    return dataclasses.replace(changed, assumptions=words, formula=sampled_in_words(samples))


def shifted(samples: object, by: float) -> np.ndarray:
    y = samples.y.copy()
    y[len(y) // 2] += by
    return y


FORGERIES = {
    "a larger derivative": (lambda c: with_samples(c, derivative=1000.0), "approximation on"),
    "a derivative that is not admitted": (lambda c: with_samples(c, False, derivative=0.5), "hides an assumption"),
    "an accuracy that is not admitted": (lambda c: with_samples(c, False, accuracy=0.0), "hides an assumption"),
    "worse samples": (lambda c: with_samples(c, accuracy=1e-3), "approximation on"),
    "another value": (lambda c: with_samples(c, y=shifted(of(c), 1e-4)), "approximation on"),
    "fewer samples": (
        lambda c: with_samples(c, x=of(c).x[::4], y=of(c).y[::4]),
        "reach from|approximation on",
    ),
    "samples that stop early": (
        lambda c: with_samples(c, x=of(c).x[:-1], y=of(c).y[:-1]),
        "reach from",
    ),
    "no samples": (lambda c: with_one_layer(c, c.claim.leaf), "formula"),
    "samples that are none": (lambda c: with_claim(c, samples=None), "malformed"),
    "samples out of order": (
        lambda c: with_samples(c, x=of(c).x[::-1], y=of(c).y[::-1]),
        "malformed",
    ),
    "a NaN": (lambda c: with_samples(c, y=shifted(of(c), math.nan)), "malformed"),
    "an order of 0": (lambda c: with_samples(c, order=0), "malformed"),
    "an order that is no number": (lambda c: with_samples(c, order="4"), "malformed"),
    "a negative derivative": (lambda c: with_samples(c, derivative=-1.0), "malformed"),
    "a formula's name": (
        lambda c: dataclasses.replace(c, formula="cos(x)"),
        "computes 'a function known by",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_samples_are_refused(proven: ww.AttentionNetwork, name: str, tmp_path: object) -> None:
    forge, complaint = FORGERIES[name]
    path = f"{tmp_path}/net.safetensors"
    save_forged(proven.network, forge(proven.certificate), path)
    with pytest.raises(ww.CertificateError, match=complaint):
        ww.check(path)


def test_what_is_forged_here_was_right(proven: ww.AttentionNetwork, tmp_path: object) -> None:
    path = f"{tmp_path}/net.safetensors"
    proven.save(path)
    save_forged(proven.network, certified_file(path)[1], path)
    assert ww.check(path).status == "CONDITIONAL"
