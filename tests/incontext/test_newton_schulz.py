"""H w = b by products alone: the network against plain numpy and the exact solution, and its guards."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from flint import arb_mat, ctx

import weightwright as ww
from weightwright.incontext.networks.newton_schulz_network import (
    newton_schulz_network,
    newton_schulz_prompt,
    newton_schulz_steps,
    plain_newton_schulz,
)


def system(d: int, condition: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues from 3 down to 3/condition, in a random basis."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    H = (Q * np.geomspace(3.0, 3.0 / condition, d)) @ Q.T
    H = (H + H.T) / 2
    return H, H @ rng.normal(size=d)


def solved(H: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The exact solution, rounded once."""
    bits, ctx.prec = ctx.prec, 300
    try:
        w = arb_mat(H.tolist()).solve(arb_mat([[number] for number in b.tolist()]))
        return np.array([float(w[i, 0].mid()) for i in range(len(b))])
    finally:
        ctx.prec = bits


def relative(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def test_every_pass_is_the_plain_one() -> None:
    H, b = system(3, 100.0)
    path = plain_newton_schulz(H, 14)
    reach = 2 * float(np.abs(path @ b).max())
    prompt = newton_schulz_prompt(H, b)
    for steps in range(1, 15):
        net = newton_schulz_network(3, steps=steps, reach=reach)
        assert np.abs(net(prompt)[:, 0].numpy() - path[steps] @ b).max() < 1e-8
    assert net.certificate is None  # nothing is claimed
    assert relative(path[14] @ b, solved(H, b)) < 1e-13


@pytest.mark.parametrize("d", [5, 10])
@pytest.mark.parametrize(("condition", "tol"), [(1e2, 1e-9), (1e4, 1e-9), (1e6, 1e-9), (1e8, 1e-7)])
def test_how_well_systems_are_solved(d: int, condition: float, tol: float) -> None:
    H, b = system(d, condition)
    steps = newton_schulz_steps(H, 2.99 / condition)
    assert steps <= math.log2(condition) + 9  # of which at most 2 and log2(d)/2 are for the scaling of H
    exact = solved(H, b)
    reach = 2 * float(np.abs(exact).max())
    w = newton_schulz_network(d, steps=steps, reach=reach)(newton_schulz_prompt(H, b))[:, 0].numpy()
    assert relative(w, exact) < tol
    too_few = plain_newton_schulz(H, steps - 5)[-1] @ b
    assert relative(too_few, exact) > 1e-3  # the passes are needed


def test_finer_tables() -> None:
    H, b = system(5, 100.0)
    exact, steps = solved(H, b), newton_schulz_steps(H, 0.0299)
    net = newton_schulz_network(5, steps=steps, reach=4.0, head_tol=1e-13)
    assert relative(net(newton_schulz_prompt(H, b))[:, 0].numpy(), exact) < 1e-13


def test_several_targets_and_systems_at_once() -> None:
    systems = [system(4, 50.0, seed)[0] for seed in (1, 2)]
    b = np.random.default_rng(3).normal(size=(4, 2))
    net = newton_schulz_network(4, steps=14, reach=64.0, targets=2)
    w = net(torch.stack([newton_schulz_prompt(H, b) for H in systems])).numpy()  # (systems, d, targets)
    assert w.shape == (2, 4, 2)
    for found, H in zip(w, systems, strict=True):
        for k in range(2):
            assert relative(found[:, k], solved(H, b[:, k])) < 1e-8


def test_float32() -> None:
    H, b = system(4, 20.0)
    net = newton_schulz_network(4, steps=newton_schulz_steps(H, 0.149, "float32"), reach=4.0, dtype="float32")
    assert relative(net(newton_schulz_prompt(H, b, "float32"))[:, 0].double().numpy(), solved(H, b)) < 1e-3


@pytest.mark.slow
def test_arguments_that_leave_their_tables_are_errors() -> None:
    H, b = system(3, 10.0)
    indefinite = H - 1.0 * np.eye(3)
    with pytest.raises(ww.DomainError, match=r"an entry of I - Y H of token .* positive definite"):
        newton_schulz_network(3, steps=30, reach=10.0)(newton_schulz_prompt(indefinite, b))
    reach = float(np.abs(solved(H, b)).max())
    with pytest.raises(ww.DomainError, match=r"a number of w of target 0 of token .* larger reach"):
        newton_schulz_network(3, steps=12, reach=0.99 * reach)(newton_schulz_prompt(H, b))
    newton_schulz_network(3, steps=12, reach=1.01 * reach)(newton_schulz_prompt(H, b))
    singular, c = np.ones((2, 2)), np.array([1.0, 1.0])
    with pytest.raises(ww.DomainError, match="condition number"):  # what is nothing but rounding grows
        newton_schulz_network(2, steps=60, reach=10.0)(newton_schulz_prompt(singular, c))


def test_what_cannot_be_is_refused() -> None:
    H, b = system(3, 10.0)
    with pytest.raises(ValueError, match="symmetric"):
        newton_schulz_prompt(np.triu(H), b)
    with pytest.raises(ValueError, match="H is 0"):
        newton_schulz_prompt(0 * H, b)
    for wrong in (b[:2], b * np.nan):
        with pytest.raises(ValueError, match="b must have shape"):
            newton_schulz_prompt(H, wrong)
    with pytest.raises(ValueError, match="smallest="):
        newton_schulz_steps(H, 0.0)
    for name in ("d", "steps", "targets", "reach", "head_tol"):
        with pytest.raises(ValueError, match=f"{name} must be"):
            newton_schulz_network(**({"d": 3, "steps": 2, "reach": 1.0} | {name: 0}))  # type: ignore[arg-type]
    with pytest.raises(ww.BudgetError, match="d=129"):
        newton_schulz_network(129, steps=2, reach=1.0)
