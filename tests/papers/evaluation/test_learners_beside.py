"""Learners in context beside each other: tasks, baselines, linear attention, metrics, curves."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import weightwright as ww
from weightwright.papers.evaluation.context_curve import measure_curve

TASK, SMALL = ww.incontext.RegressionTask(3, 8), ww.incontext.RegressionTask(1, 3, scale=0.25)
BASELINES = (
    ww.incontext.LeastSquaresLearner(),
    ww.incontext.RidgeLearner(0.5),
    ww.incontext.DescentLearner(7),
    ww.incontext.LinearAttentionLearner(7),
)


def prompts(task: ww.incontext.RegressionTask = TASK, count: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    return task.sample(count, seed=3)


def test_tasks_are_what_they_say() -> None:
    xs, ys = prompts()
    assert torch.equal(prompts()[0], xs)
    assert not torch.equal(TASK.sample(4, seed=4)[0], xs)
    w = torch.linalg.pinv(xs) @ ys.unsqueeze(2)
    assert (xs @ w - ys.unsqueeze(2)).abs().max() < 1e-12
    scaled, of_scaled = prompts(ww.incontext.RegressionTask(3, 8, scale=2.0))
    assert torch.equal(scaled, 2 * xs)
    assert torch.allclose(of_scaled, 2 * ys)
    noisy, of_noisy = prompts(ww.incontext.RegressionTask(3, 8, noise=0.5))
    assert torch.equal(noisy, xs)
    many = ww.incontext.RegressionTask(1, 2, noise=0.5).sample(20_000, seed=0)
    assert abs(float((of_noisy - ys).std()) - 0.5) < 0.2
    assert abs(float(many[1].var()) - 1.25) < 0.05  # of w.x and of the noise
    rows, targets = ww.incontext.RegressionTask(6, 12, nonzero=2).sample(50, seed=0)
    found = (torch.linalg.pinv(rows) @ targets.unsqueeze(2)).squeeze(2).abs() > 1e-9
    assert (found.sum(dim=1) == 2).all()
    assert found.any(dim=0).all()


def test_the_usual_sizes_are_drawn() -> None:
    for d, points in ((5, 11), (20, 41)):
        xs, ys = ww.incontext.RegressionTask(d, points).sample(2, seed=0, dtype=torch.float32)
        assert (tuple(xs.shape), tuple(ys.shape), xs.dtype) == ((2, points, d), (2, points), torch.float32)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"features": 0, "points": 3}, "features .* not 0"),
        ({"features": 3, "points": 0}, "points .* not 0"),
        ({"features": 3, "points": 3, "noise": -1.0}, r"noise .* not -1\.0"),
        ({"features": 3, "points": 3, "scale": 0.0}, r"scale .* not 0\.0"),
        ({"features": 3, "points": 3, "nonzero": 4}, "nonzero .* at most 3, not 4"),
    ],
)
def test_tasks_refuse_what_they_cannot_draw(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ww.incontext.RegressionTask(**given)


def test_baselines_against_numpy() -> None:
    xs, ys = prompts(ww.incontext.RegressionTask(3, 8, noise=0.3))
    found = [np.asarray(learner(xs, ys)) for learner in BASELINES]
    step, n = 1 / (1 + np.sqrt(3 / 8)) ** 2, 8
    for b in range(len(xs)):
        for i in range(8):
            X, y, query = (np.asarray(part) for part in (xs[b, :i], ys[b, :i], xs[b, i]))
            A, rhs = X.T @ X, X.T @ y
            shortest = np.linalg.lstsq(X, y)[0] if i else np.zeros(3)
            descent = np.zeros(3)
            for _ in range(7):
                descent = (np.eye(3) - step / n * A) @ descent + step / n * rhs
            wanted = [shortest, np.linalg.solve(A + 0.5 * np.eye(3), rhs), descent, descent]
            for one, w in zip(found, wanted, strict=True):
                assert abs(one[b, i] - query @ w) < 1e-12


@pytest.mark.parametrize("learner", BASELINES, ids=lambda learner: learner.name)
def test_predictions_take_the_examples_before_them_alone(learner: Any) -> None:
    xs, ys = prompts()
    later = xs.clone(), ys.clone()
    later[0][:, 5:] += 1.0
    later[1][:, 4:] -= 1.0
    before, after = learner(xs, ys), learner(*later)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5:], after[:, 5:])
    assert not before[:, 0].any()
    assert torch.equal(learner(xs, ys, [6, 2]), before[:, [6, 2]])


def test_linear_attention_has_the_matrices_of_the_paper() -> None:
    W_Q, W_V, P = ww.incontext.LinearAttentionLearner(2, step=0.5, examples=10).matrices(2, 8, torch.float64)
    assert W_Q.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert W_V.tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, -1]]
    assert P == 0.05


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ww.incontext.RidgeLearner(0.0), r"penalty .* not 0\.0"),
        (lambda: ww.incontext.DescentLearner(0), "steps .* not 0"),
        (lambda: ww.incontext.DescentLearner(2, step=-1.0), r"step .* not -1\.0"),
        (lambda: ww.incontext.HookedLearner("h", 3), "predict .* not 3"),  # type: ignore[arg-type]
        (lambda: ww.incontext.NetworkLearner(3), r"predict\(X, y\).* not 3"),
        (lambda: BASELINES[0](torch.zeros(2, 3), torch.zeros(2, 3)), r"xs must have the shape .* not \(2, 3\)"),
        (lambda: BASELINES[0](torch.zeros(2, 3, 1), torch.zeros(2)), r"ys must have the shape \(2, 3\).* not \(2,\)"),
        (lambda: BASELINES[0](*prompts(), [8]), "inds must be positions from 0 to 7, not 8"),
        (lambda: ww.incontext.curve(TASK, [8]), "lengths must be from 0 to 7"),
        (lambda: ww.incontext.curve(3, [0]), "tasks must be .* not 3"),  # type: ignore[arg-type]
        (lambda: ww.incontext.curve(TASK, [0], [abs]), "has no name; write a dictionary"),
        (
            lambda: ww.incontext.curve(TASK, [0], {"all": lambda xs, ys, inds: ys}),
            r"all returns .* \(256, 8\), not \(256, 1\)",
        ),
    ],
)
def test_bad_arguments_are_named(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_metrics() -> None:
    """Of two learners that are one, of one that returns no gradients, and of two that differ."""
    xs, ys = prompts()
    descent, attention = BASELINES[2:]
    alike = ww.incontext.compare(attention, descent, xs, ys)
    assert alike.predictions < 1e-13
    assert alike.gradients < 1e-12
    assert abs(alike.cosine - 1) < 1e-12
    assert alike.losses[0] == pytest.approx(alike.losses[1])
    by_differences = ww.incontext.HookedLearner("no gradients", lambda xs, ys, inds: descent(xs.detach(), ys, inds))
    slopes = [ww.incontext.query_gradients(learner, xs, ys, 6) for learner in (by_differences, descent)]
    assert (slopes[0] - slopes[1]).abs().max() < 1e-10
    w = descent.weights(xs[:, :6], ys[:, :6], 8)
    assert torch.allclose(slopes[1], w)
    other = ww.incontext.compare(BASELINES[0], descent, xs, ys, position=2)
    assert -1 <= other.cosine < 1 - 1e-3
    assert other.predictions > 1e-3
    assert other.losses[0] == pytest.approx(float((BASELINES[0](xs, ys) - ys)[:, 2].square().mean() / 3))


@cache
def ours() -> ww.incontext.NetworkLearner:
    return ww.incontext.NetworkLearner(
        ww.incontext.causal_learner(features=1, examples=3, steps=4, step=1.0, domain=(4.0, 8.0, 8.0), tol=1e-7)
    )


def test_ours_has_the_usual_interface_and_a_proven_band() -> None:
    xs, ys = SMALL.sample(5, seed=0)
    exact = ww.incontext.DescentLearner(4, step=1.0, examples=3)
    bounds = ours().bounds(xs, ys)
    assert (np.abs(np.asarray(ours()(xs, ys) - exact(xs, ys))) <= bounds + 1e-14).all()  # floats beside the exact ones
    assert 0 < bounds.max() < 1e-6
    assert ours()(xs, ys, [2]).shape == (5, 1)
    found = measure_curve(ours(), "t", xs, ys, [0, 2])
    assert found.band is not None
    plain = measure_curve(exact, "t", xs, ys, [0, 2])
    for error in (found.errors, plain.errors):
        assert (found.band[0] <= error + 1e-15).all()
        assert (error <= found.band[1] + 1e-15).all()
    assert found.band[0][1] < found.errors[1] < found.band[1][1]
    assert plain.band is None


def test_curves_are_data_and_a_picture(tmp_path: Path) -> None:
    tasks = [TASK, ww.incontext.RegressionTask(3, 8, noise=1.0)]
    trained = {"half": lambda xs, ys, inds: 0.5 * ys[:, inds]}
    found = ww.incontext.curve(tasks, [0, 3, 7], trained, prompts=32, seed=5, path=tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    names = ["least squares", "ridge 0.1", "10 steps of descent", "half"]
    assert [one.learner for one in found.curves] == 2 * names
    ys = TASK.sample(32, seed=5)[1]
    assert found.errors("half") == pytest.approx(np.asarray((0.5 * ys[:, [0, 3, 7]]).square().mean(dim=0) / 3))
    assert found.errors("least squares")[1:].max() < 1e-20
    assert found.errors("least squares", tasks[1].name)[2] > 0.1
    assert json.loads(json.dumps(found.facts()))["lengths"] == [0, 3, 7]
    with pytest.raises(ValueError, match=r"no curve of learner 'x'.*half"):
        found.errors("x")
    assert "2 tasks, 4 learners" in repr(found)


def test_curves_take_learners_of_ours() -> None:
    found = ww.incontext.curve(
        SMALL, [0, 1, 2], [ours().learner, ww.incontext.DescentLearner(4)], prompts=3, progress=False
    )
    assert [one.learner for one in found.curves][3:] == ["ours, 4 steps", "4 steps of descent"]
    assert found.curves[3].band is not None
