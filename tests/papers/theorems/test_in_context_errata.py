"""What the papers print about algorithms in context and what does not hold (docs/errata.md)."""

from __future__ import annotations

import numpy as np
from papers.support.in_context import PROBLEMS, made, pairs
from support.running import torch_outputs

from weightwright.papers.descent.regression import (
    curvature_is_between,
    exact_optimum,
    fraction_iterates,
    least_squares,
)
from weightwright.papers.descent.steps import descend, spectral_identity


def test_the_average_of_the_gradients_forgets_the_state() -> None:
    """AE-3: as printed the update is the attention's output times 1/n: without a residual it is the gradient alone."""
    net = made("P")
    rng, w = np.random.default_rng(8), np.array([1.0, 1.0])
    prompt = np.concatenate([rng.uniform(-0.1, 0.1, (3, 3)), np.tile(w, (3, 1))], axis=1)
    printed = torch_outputs(net, prompt).mean(axis=0)
    assert np.abs(printed - w).max() > 0.9  # all gradients are small: w should hardly move


def test_states_may_leave_the_ball_of_the_lemma() -> None:
    """AE-4, Lemma D.4: |w_L| <= R/2 + L e for R = 2 |w*| and steps of up to 2/L_f. For (w - 1)^2 / 2 the first step of
    2/L_f = 2 leads to 2 = 2 |w*| = R, with no error at all."""
    problem = least_squares(np.ones((1, 1)), np.ones(1))
    assert exact_optimum(problem) == [1]
    assert curvature_is_between(problem, 0.5, 2 / 1.9)
    first = fraction_iterates(problem, 1.9, 1)[1][0]
    R = 2 * abs(exact_optimum(problem)[0])
    assert R / 2 < first <= R


def test_one_layer_is_one_step_and_no_regression() -> None:
    """AE-5: stated for a single layer, which is far from the solution; the error falls with the depth."""
    run = descend(PROBLEMS["least squares"], 1.0, 24, spectral_identity(1e-9))
    assert run.to_optimum[1] > 0.5
    assert run.to_optimum[24] < 0.1 * run.to_optimum[1]


def test_a_coordinate_of_the_gradient_is_no_function_of_the_prediction() -> None:
    """UA-12, (G.66): two samples with the same (w . x, y), and gradients that differ."""
    net, w = pairs("spectral"), np.array([0.5, 0.5])
    steps = []
    for x in ([1.0, 0.0], [0.0, 1.0]):
        samples = np.tile(np.concatenate([x, 0.25 * np.array(x), [1.0], w]), (4, 1))
        steps.append(torch_outputs(net, samples)[0] - w)
    assert np.dot([1.0, 0.0], w) == np.dot([0.0, 1.0], w)
    assert abs(steps[0][0] - steps[1][0]) > 0.2


def test_a_sum_of_relus_is_no_slope_of_the_squared_loss() -> None:
    """UA-12, (G.66): without output weights the sum is never negative and is convex, l' = w.x - y is -2 at (-1, 1). And
    a w.x + b y + c is 3 B_R where w.x = y = 1 = B_1 and a = b = c = B_R: Range[0, B_R B_1^2] cuts it off. The anchors'
    values have both signs."""
    rng = np.random.default_rng(12)
    s, y = np.array([-1.0, 1.0]), np.array([1.0, -1.0])  # the slope is -2 and 2
    for _ in range(50):
        a, b, c = rng.normal(size=(3, 40))
        found = np.maximum(np.outer(s, a) + np.outer(y, b) + c, 0).sum(axis=1)
        assert (found >= 0).all()
        assert abs(found[0] - (s[0] - y[0])) >= 2
    assert np.clip(1.0 + 1.0 + 1.0, 0.0, 1.0) < 3.0  # B_R = B_1 = 1
    net, w = pairs("spectral"), np.array([-0.5, -0.5])
    steps = []
    for target in (1.0, -1.0):
        sample = np.concatenate([[1.0, 1.0], [0.25, 0.25], [target], w])
        steps.append(float(torch_outputs(net, np.tile(sample, (4, 1)))[0, 0] - w[0]))
    assert steps[0] > 0.1 > -0.1 > steps[1]


def test_the_constant_that_keeps_samples_apart_is_half_of_the_footnotes() -> None:
    """AE-1, footnote 3: M = 2 L* (2 d B^2 + 2 B), and C is said to be M - ln(e0)/beta but printed with half of M. The
    argument needs M: for one anchor scores of two samples differ by nearly that much; yet the largest scores of two
    samples differ by (d B^2 + B)^2 at most, so the printed one is enough."""
    d, B = 2, 1.0
    reach = d * B * B + B
    M, printed = 2 * reach * (2 * d * B**2 + 2 * B), reach * (2 * d * B**2 + 2 * B)
    anchors = np.linspace(-reach, reach, 9)
    scores = [2 * anchors * s - anchors**2 for s in (reach, -reach)]  # of two samples at the ends
    assert printed < M
    assert (scores[0] - scores[1]).max() > 0.99 * printed
    assert max(s.max() for s in scores) - min(s.max() for s in (*scores, 2 * anchors * 0 - anchors**2)) <= printed
