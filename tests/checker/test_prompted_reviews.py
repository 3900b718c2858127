"""What reviews of networks with a prompt, and of what is said about their runs, found to be wrong once."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from flint import arb
from support.prompts import RESIDUAL, built, fitted, made, plain, tables_of
from test_grid_forgeries import refused

import weightwright as ww
from weightwright.claims.prompt import prompted_in_words
from weightwright.errors import LawError
from weightwright.incontext import (
    Descent,
    Problem,
    composed_error,
    exact_iterates,
    gradient_descent,
    loss,
    to_iterates,
    to_optimum,
)
from weightwright.incontext.errors.convexity import curvatures
from weightwright.memory import Hopfield
from weightwright.network import Attention, Loop
from weightwright.runtime import AttentionNetwork


def test_a_whole_number_of_more_bits_than_a_float_is_no_alpha(tmp_path: Path) -> None:
    """2^53 + 1 became 2^53 where it was compared with the layers, and errors of half as much again were PROVEN away."""
    net = built([tables_of(fitted("x", 3.0, 1e-8, "float64"), RESIDUAL)], "float64", (plain(2.0**53),))
    certificate = net.certificate
    assert certificate is not None
    assert certificate.prompted is not None
    (step,) = certificate.prompted.passes
    other = replace(certificate.prompted, passes=(replace(step, alpha=2**53 + 1),))
    terms = replace(certificate.terms, rounding=certificate.terms.rounding + 1e-6)
    forged = replace(
        certificate, prompted=other, formula=prompted_in_words(other), terms=terms, bound=certificate.bound + 2e-6
    )
    refused(net.network, forged, tmp_path, "alpha, ticks and clock must be floats, not .*9007199254740993")


def test_a_whole_number_of_more_bits_than_a_float_is_no_beta() -> None:
    """It counted as a power of two, and the network ran with another number."""
    network = made("descent", "float64").network
    (loop,) = network.layers
    assert isinstance(loop, Loop)
    spread, attend, *rest = loop.layers
    assert isinstance(attend, Attention)
    head = replace(attend.heads[0], beta=2**53 + 1)
    layers = (spread, replace(attend, heads=(head,)), *rest)
    with pytest.raises(LawError, match="beta = 9007199254740993 must be a positive finite float64"):
        replace(network, layers=(replace(loop, layers=layers),))


def leaving() -> tuple[AttentionNetwork, torch.Tensor]:
    """A network and a prompt in its domain whose states leave it."""
    net = made("descent", "float64")
    assert net.certificate is not None
    return net, torch.tensor(np.array(net.certificate.domain.hi)).expand(3, -1).clone()


def test_a_copy_watches_its_own_domain() -> None:
    """It looked at the original's `on_domain` instead."""
    net, prompt = leaving()
    original = copy.deepcopy(net)
    copied, pickled = copy.deepcopy(original), pickle.loads(pickle.dumps(original))
    original.on_domain = "ignore"
    original(prompt)
    for other in (copied, pickled):
        with pytest.raises(ww.DomainError, match="the state"):
            other(prompt)


def test_gradients_pass_through_blocks() -> None:
    """Adding to all of a block in place was refused by torch."""
    net, _ = leaving()
    prompt = 0.1 * torch.tensor(np.random.default_rng(5).uniform(-1, 1, (2, 3, 5)))
    inputs = prompt.clone().requires_grad_()
    out = net(inputs)
    (gradient,) = torch.autograd.grad(out.sum(), inputs)
    assert torch.equal(out, net(prompt))
    moved = prompt.clone()
    moved[0, 1, 2] += 1e-4  # y of the second sample
    assert float(gradient[0, 1, 2]) == pytest.approx(float((net(moved) - net(prompt)).sum()) / 1e-4, rel=1e-3)
    assert gradient[0, 1, 2] != 0


@pytest.mark.parametrize("kind", ["descent", "clock"])
def test_loops_on_a_prompt_can_be_exported(kind: str, tmp_path: Path) -> None:
    """The prompts that an export was compared on made the states leave the domain."""
    net = made(kind, "float64")
    assert net.to_torch(tmp_path / "net.py") <= 1e-14
    assert net.to_onnx(tmp_path / "net.onnx") <= 1e-14


def test_tokens_that_hold_different_weights_are_counted_in_the_lemma() -> None:
    """In float32 sums are rounded differently on different tokens; here one token stays so far away from the other."""
    apart, steps, step = 1e-3, 20, 0.5
    problem = Problem([[1.0], [1.0]], [1.0, 1.0], loss("squared"))
    method = gradient_descent(problem, step)
    exact = exact_iterates(problem, method, steps).w
    first, path = 0.0, [[0.0]]
    for _ in range(steps):
        first -= step / 2 * ((first - 1.0) + (first + apart - 1.0))
        path.append([first])
    off = to_iterates(np.array(path), exact)[1]
    near = np.array([1.0])
    found = composed_error(problem, method, step, 1e-12, steps, near, apart)
    assert found.bounds is not None
    assert (off <= np.array(found.bounds)).all()
    alike = composed_error(problem, method, step, 1e-12, steps, near)
    assert alike.bounds is not None
    assert off[1] > alike.bounds[1]  # what was said of both
    with pytest.raises(ValueError, match=r"apart=-1\.0: a finite number that is not negative"):
        composed_error(problem, method, step, 1e-12, steps, near, -1.0)


def test_a_run_knows_how_far_its_tokens_are_apart() -> None:
    descent = Descent("squared", samples=3, features=1, steps=2, step=0.25, tol=1e-2, reach=2.0)

    def drift(_: torch.nn.Module, __: tuple[torch.Tensor], X: torch.Tensor) -> torch.Tensor:
        X = X.clone()
        X[..., 2, descent.net.network.embed.coordinates.index("w[0]")] += 0.125
        return X

    plain_run = descent.run([[1.0], [0.5], [1.0]], [1.0, 1.0, 1.0])
    (loop,) = descent.net.layers
    loop.layers[-1].register_forward_hook(drift)  # after each of two steps
    run = descent.run([[1.0], [0.5], [1.0]], [1.0, 1.0, 1.0])
    assert plain_run.apart < 1e-6
    assert 0.24 <= run.apart <= 0.26
    assert run.lemma.step_error > plain_run.lemma.step_error + 0.125 * 0.25 / 3


@pytest.mark.parametrize("formula", ["1e-30*(x**2 + 4*abs(x - 1))", "1e-20*x**2 - 1e-16*abs(x)"])
def test_small_kinks_are_kinks(formula: str) -> None:
    """They were forgotten, and the slope was another function's: a bound of 1e-76 at x = 2 for an optimum at 1."""
    with pytest.raises(ww.FormulaError, match=r"has a kink at x = .*: its slope jumps"):
        loss(formula=formula)


@pytest.mark.parametrize("scale", ["1e-30", "1", "1e30"])
def test_smooth_joints_are_none_at_any_scale(scale: str) -> None:
    for formula in ("relu(x - 1)**2", "abs(x)**1.5", "clip(x, -1, 1)*(x - clip(x, -1, 1)/2)"):
        assert loss(formula=f"{scale}*({formula})").form == "residual"


def test_a_kink_far_out_has_no_curvature() -> None:
    """Kinks are looked for up to 2^40 only; both branches curve upwards here, but the loss does not."""
    far = 2**41
    bent = loss(formula=f"3*sqrt(1 + x**2) + x**2/2 - 1e12*abs(x - {far})")
    problem = Problem([[1.0], [1.0]], [0.0, float(far)], bent)
    least, most = curvatures(problem, [arb(far)], 10.0)
    assert (least[0], most[0]) == (-math.inf, math.inf)
    assert least[1] >= 1
    assert most[1] <= 4.1


def test_a_local_minimum_is_called_one() -> None:
    problem = Problem([[1.0]] * 3, [0.0, 0.0, 10.0], loss(formula="x**2/(1 + x**2)"))
    found = to_optimum(problem, np.array([10.0]))  # the best is near 0
    assert found.bound < 0.01
    assert "local minimum" in found.why
    convex = Problem([[1.0]] * 3, [0.0, 0.0, 10.0], loss("pseudo_huber"))
    assert "local" not in to_optimum(convex, np.array([0.5])).why


@pytest.mark.parametrize(
    ("dtype", "size", "beta", "radius"),
    [(torch.float32, 1e25, 1.0, 0.0), (torch.float64, 1e200, 1.0, 0.0), (torch.float32, 10.0, 1e38, 0.0),
     (torch.float32, 1.0, 1.0, 1e38)],
)  # fmt: skip
def test_memories_that_overflow_have_no_bound(dtype: torch.dtype, size: float, beta: float, radius: float) -> None:
    """The bound was finite, and what was retrieved was no number."""
    memory = Hopfield(2, beta=beta, dtype=dtype).store([[size, 0.0], [0.0, size]])
    with pytest.raises(ww.ToleranceError, match="may overflow float"):
        memory.recall_bound(radius=radius)
    if not radius:
        assert memory.retrieve(torch.tensor([size, 0.0], dtype=dtype)).isnan().any()


def test_values_that_overflow_have_no_bound() -> None:
    memory = Hopfield(1, dtype=torch.float32).store([[1.0], [0.0]], values=[[3e38], [-3e38]])
    with pytest.raises(ww.ToleranceError, match=r"may be as large as 3e\+38"):
        memory.recall_bound()
