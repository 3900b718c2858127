"""What the bounds of a run must count: tokens that hold different weights, kinks however small or far out, local
minima."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from flint import arb

import weightwright as ww
from weightwright import incontext
from weightwright.incontext.errors.convexity import curvatures


def test_tokens_that_hold_different_weights_are_counted_in_the_lemma() -> None:
    """In float32 sums are rounded differently on different tokens; here one token stays so far away from the other."""
    apart, steps, step = 1e-3, 20, 0.5
    problem = incontext.Problem([[1.0], [1.0]], [1.0, 1.0], incontext.loss("squared"))
    method = incontext.gradient_descent(problem, step)
    exact = incontext.exact_iterates(problem, method, steps).w
    first, path = 0.0, [[0.0]]
    for _ in range(steps):
        first -= step / 2 * ((first - 1.0) + (first + apart - 1.0))
        path.append([first])
    off = incontext.to_iterates(np.array(path), exact)[1]
    near = np.array([1.0])
    found = incontext.composed_error(problem, method, step, 1e-12, steps, near, apart)
    assert found.bounds is not None
    assert (off <= np.array(found.bounds)).all()
    alike = incontext.composed_error(problem, method, step, 1e-12, steps, near)
    assert alike.bounds is not None
    assert off[1] > alike.bounds[1]  # what was said of both
    with pytest.raises(ValueError, match=r"apart=-1\.0: a finite number that is not negative"):
        incontext.composed_error(problem, method, step, 1e-12, steps, near, -1.0)


def test_a_run_knows_how_far_its_tokens_are_apart() -> None:
    descent = incontext.Descent("squared", samples=3, features=1, steps=2, step=0.25, tol=1e-2, reach=2.0)

    def drift(_: torch.nn.Module, __: tuple[torch.Tensor], X: torch.Tensor) -> torch.Tensor:
        X = X.clone()
        X[..., 2, descent.net.network.embed.coordinates.index("w[0]")] += 0.125
        return X

    plain_run = descent.run([[1.0], [0.5], [1.0]], [1.0, 1.0, 1.0])
    (loop,) = descent.net.layers
    hook = loop.layers[-1].register_forward_hook(drift)  # after each of two steps
    run = descent.run([[1.0], [0.5], [1.0]], [1.0, 1.0, 1.0])
    assert descent.net.certificate.status == "EDITED"
    hook.remove()
    assert plain_run.apart < 1e-6
    assert 0.24 <= run.apart <= 0.26
    assert run.lemma.step_error > plain_run.lemma.step_error + 0.125 * 0.25 / 3


@pytest.mark.parametrize("formula", ["1e-30*(x**2 + 4*abs(x - 1))", "1e-20*x**2 - 1e-16*abs(x)"])
def test_small_kinks_are_kinks(formula: str) -> None:
    """They were forgotten, and the slope was another function's: a bound of 1e-76 at x = 2 for an optimum at 1."""
    with pytest.raises(ww.FormulaError, match=r"has a kink at x = .*: its slope jumps"):
        incontext.loss(formula=formula)


@pytest.mark.parametrize("scale", ["1e-30", "1", "1e30"])
def test_smooth_joints_are_none_at_any_scale(scale: str) -> None:
    for formula in ("relu(x - 1)**2", "abs(x)**1.5", "clip(x, -1, 1)*(x - clip(x, -1, 1)/2)"):
        assert incontext.loss(formula=f"{scale}*({formula})").form == "residual"


def test_a_kink_far_out_has_no_curvature() -> None:
    """Kinks are looked for up to 2^40 only; both branches curve upwards here, but the loss does not."""
    far = 2**41
    bent = incontext.loss(formula=f"3*sqrt(1 + x**2) + x**2/2 - 1e12*abs(x - {far})")
    problem = incontext.Problem([[1.0], [1.0]], [0.0, float(far)], bent)
    least, most = curvatures(problem, [arb(far)], 10.0)
    assert (least[0], most[0]) == (-math.inf, math.inf)
    assert least[1] >= 1
    assert most[1] <= 4.1


def test_a_local_minimum_is_called_one() -> None:
    problem = incontext.Problem([[1.0]] * 3, [0.0, 0.0, 10.0], incontext.loss(formula="x**2/(1 + x**2)"))
    found = incontext.to_optimum(problem, np.array([10.0]))  # the best is near 0
    assert found.bound < 0.01
    assert "local minimum" in found.why
    convex = incontext.Problem([[1.0]] * 3, [0.0, 0.0, 10.0], incontext.loss("pseudo_huber"))
    assert "local" not in incontext.to_optimum(convex, np.array([0.5])).why
