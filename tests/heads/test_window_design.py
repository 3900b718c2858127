"""The design of windowed heads: what they reach, in float64, float32 and bfloat16, and what the fit does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import lstsq
from support.running import reference_outputs

import weightwright as ww
from weightwright.heads.registers import Design, Query, assemble
from weightwright.heads.window_anchors import NODES, WindowDesigner, _Cells, _mix, _solve, fit_values, windows

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}


def sine(frequency: float):  # type: ignore[no-untyped-def]
    return lambda s: np.sin(frequency * s)


def best(frequency: float, tol: float, dtype: str, most: int = 4096) -> Any:
    return next(WindowDesigner(sine(frequency), -1.0, 1.0, tol, most, dtype).candidates(tol))


def network(fit: Any, dtype: str, window: bool = True):  # type: ignore[no-untyped-def]
    table = (
        fit.table if window else type(fit.table)(fit.table.keys, fit.table.offsets, fit.table.values, fit.table.beta)
    )
    return assemble(Design((table,), ("windowed",), 0.0), Query(0.0, 1.0).finer(fit.factor), "f", dtype)


@pytest.mark.parametrize(
    ("frequency", "dtype", "tol", "anchors"),
    [
        (5, "float64", 1e-11, 31),
        (5, "float32", 2e-6, 43),
        (5, "bfloat16", 5e-2, 21),
        (200, "float64", 5e-12, 535),
        (200, "float32", 2e-6, 1035),
    ],
)
def test_sines(frequency: float, dtype: str, tol: float, anchors: int) -> None:
    """The measured error, on points that no fit has seen and in the dtype, is below the design's and the tolerance."""
    fit = best(frequency, tol, dtype)
    assert len(fit.table.keys) <= anchors
    inputs = torch.tensor(np.random.default_rng(0).uniform(-1, 1, (100_000, 1)), dtype=DTYPES[dtype])
    x, y = inputs.double().numpy(), ww.AttentionNetwork(network(fit, dtype))(inputs).double().numpy()
    assert np.abs(y - np.sin(frequency * x)).max() <= fit.error <= tol


def test_about_a_thousand_anchors_for_two_hundred_radians() -> None:
    fits = WindowDesigner(sine(200), -1.0, 1.0, 1e-12, 1100, "float64").fits(9)
    fit = min(fits, key=lambda fit: fit.error)
    assert 1024 < len(fit.table.keys) < 1100
    assert fit.error <= 1e-12
    assert ww.AttentionNetwork(network(fit, "float64")).cost.multiply_adds < 150


@pytest.mark.few(2)
@pytest.mark.parametrize("M", [8, 9, 11, 12])
def test_the_dense_head_differs_by_the_tail(M: int) -> None:
    """The same table without its window: what is left out weighs e^(-c M (M + 1)) of the nearest anchor and less."""
    fit = fit_values(sine(5), -1.0, 1.0, 16.0, 0.25, M, 1e-14, "float64")
    assert fit is not None
    x = np.concatenate([np.linspace(-1, 1, 1001), (np.arange(-16, 16) + 0.5) / 16])[:, None]
    difference = np.abs(
        reference_outputs(network(fit, "float64"), x) - reference_outputs(network(fit, "float64", window=False), x)
    ).max()
    tail = math.exp(-0.25 * M * (M + 1))
    assert 0.01 * tail <= difference + 1e-15
    assert difference <= 4 * np.abs(fit.table.values).max() * tail + 1e-13


def test_no_query_of_the_domain_is_cut_off() -> None:
    """Every cell of the domain has M anchors on both sides, wherever the domain lies."""
    for lo, hi in ((-1.0, 1.0), (0.0, 1.0), (0.3, 0.7), (-0.91, -0.13), (0.5, 0.5625)):
        for level in (2, 5):
            fit = fit_values(np.exp, lo, hi, 2.0**level, 0.25, 6, 1e-9, "float64")
            assert fit is not None
            L, M = fit.table.keys / 2, 6
            assert L[M] - 0.5 <= lo * fit.factor
            assert hi * fit.factor <= L[-1 - M] + 0.5
            assert len(L) <= (hi - lo) * fit.factor + 2 + 2 * M


def test_the_banded_fit_is_the_least_squares_fit() -> None:
    """Against the same equations written out in full; 37 cells are more than two groups."""
    cells = _Cells(np.arange(-18.0, 19.0), -18.2, 18.4, 0.25, 5)
    t, W = cells.rows(NODES)
    target, ridge = np.cos(t / 4), 1e-6
    values = _solve(W, target, ridge)
    p = len(values)
    full = np.zeros((*t.shape, p))
    for cell in range(len(t)):
        full[cell, :, cell : cell + 11] = W[cell]
    system = np.concatenate([full.reshape(-1, p), ridge * math.sqrt(t.size) * np.eye(p)])
    expected = lstsq(system, np.concatenate([target.ravel(), np.zeros(p)]))[0]
    np.testing.assert_allclose(values, expected, atol=1e-8)
    np.testing.assert_allclose(_mix(W, values).ravel(), full.reshape(-1, p) @ values, atol=1e-13)


def test_candidates_meet_the_aim_or_are_the_best() -> None:
    designer = WindowDesigner(sine(5), -1.0, 1.0, 1e-9, 4096, "float64")
    good = list(designer.candidates(1e-9))
    assert good
    assert all(fit.error <= 1e-9 for fit in good)
    assert [fit.factor for fit in good] == sorted({fit.factor for fit in good})
    hopeless = list(WindowDesigner(np.abs, -1.0, 1.0, 1e-9, 60, "float64").candidates(1e-9))
    assert hopeless
    assert all(fit.error > 1e-9 for fit in hopeless)
    assert max(len(fit.table.keys) for fit in hopeless) <= 60


def test_a_grid_that_the_dtype_cannot_hold_is_not_designed() -> None:
    assert fit_values(sine(5), -1.0, 1.0, 2.0**10, 0.5, 3, 1e-4, "bfloat16") is None
    for fit in WindowDesigner(sine(200), -1.0, 1.0, 1e-3, 4096, "bfloat16").candidates(1e-3):
        network(fit, "bfloat16")  # its laws hold


def test_windows_leave_out_what_they_say() -> None:
    for dtype, u in (("float64", 2.0**-53), ("float32", 2.0**-24), ("bfloat16", 2.0**-8)):
        for c in (0.125, 0.25, 0.5, 1.0):
            M = max(windows(c, dtype))
            assert math.exp(-c * M * (M + 1)) <= u < math.exp(-c * (M - 1) * M)
