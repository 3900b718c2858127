"""Stacks of programs in one prompt: a frozen loop runs networks of several layers, and algorithms of many steps."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.forging import proven, refused
from torch import nn

import weightwright as ww
from weightwright.claims.program_claim import ENTRIES


@functools.cache
def looped(form: str = "embedding", dtype: str = "float64") -> ww.Interpreter:
    bounds = {"x_max": 4.0, "k_max": 8.0, "q_max": 8.0, "v_max": 2.0, "w_max": 1.0}
    return ww.Interpreter(5, 3, 2, heads=2, rows=2, programs=4, form=form, dtype=dtype, **bounds)  # type: ignore[arg-type]


def stack(vm: ww.Interpreter, rng: np.random.Generator, count: int) -> list[ww.interpreter.Program]:
    rows = rng.uniform(-1, 1, (2, 3))
    return [
        vm.program(
            rng.uniform(-0.6, 0.6, (2, 2, 3)),
            rng.uniform(-0.6, 0.6, (2, 2, 3)),
            rng.uniform(-0.2, 0.2, (2, 3, 3)),
            rows=rows,
            sees="causal" if number == 1 else None,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("form", ["embedding", "stacked"])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_a_loop_runs_the_programs_of_its_prompt(form: str, count: int) -> None:
    """As one after the other outside the network; every pass is within the bound of the plain one."""
    vm, rng = looped(form), np.random.default_rng(count)
    programs, x = stack(vm, rng, count), torch.tensor(rng.uniform(-1, 1, (5, 3)))
    before = vm.fingerprint
    found = vm.loop(programs, x).numpy()
    assert np.abs(found - ww.interpreter.run_in_turn(programs, x.numpy())).max() <= 20 * vm.certificate.bound
    assert np.abs(found - x.numpy()).max() > 0.01
    assert vm.fingerprint == before


@pytest.mark.parametrize("form", ["embedding", "stacked"])
def test_one_pass_is_within_the_bound(form: str) -> None:
    vm, rng = looped(form), np.random.default_rng(5)
    single = ww.Interpreter(
        5, 3, 2, heads=2, rows=2, programs=1, x_max=4.0, k_max=8.0, q_max=8.0, v_max=2.0, w_max=1.0, form=form
    )  # type: ignore[arg-type]  # fmt: skip
    for _ in range(20):
        (program,) = stack(vm, rng, 1)
        x = torch.tensor(rng.uniform(-2, 2, (5, 3)))
        error = np.abs(single.loop([program], x).numpy() - ww.interpreter.run_in_turn([program], x.numpy())).max()
        assert error <= single.certificate.bound


@pytest.mark.few(1)
@pytest.mark.parametrize("activation", [nn.Tanh, nn.GELU])
def test_a_compiled_network_runs_from_a_prompt(activation: type[nn.Module]) -> None:
    """Three layers of heads; the embedding and the reading of the result are outside."""
    torch.manual_seed(0)
    sizes = (nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    layers = [part for linear in sizes for part in (linear, activation())]
    module = nn.Sequential(*layers, nn.Linear(2, 1)).double().eval().requires_grad_(False)
    net = ww.compile(module, (-1, 1), 1e-3 if activation is nn.GELU else 1e-6)
    assert len(net.network.layers) == 3
    inside = ww.interpreter.emulate(net, tokens=3)
    assert inside.vm.certificate.status == "PROVEN"
    x = torch.rand(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 2 - 1
    assert float((inside(x) - net(x)).abs().max()) <= inside.stated_error
    assert float((inside(x) - module(x)).abs().max()) <= inside.stated_error + net.certificate.bound
    assert inside.stated_error < 1e-2


def test_twenty_steps_of_gradient_descent_are_a_prompt() -> None:
    """w <- w - step (G w - c) for every token's own w: a head that sees its own token alone, twenty times."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(12, 2)), rng.normal(size=12)
    G, c, step = X.T @ X / 12, X.T @ y / 12, 0.4
    vm = ww.Interpreter(3, 3, 1, programs=20, x_max=4.0, w_max=2.0, v_max=4.0, k_max=1.0, q_max=1.0)
    W_V = np.zeros((3, 3))
    W_V[:2, :2], W_V[:2, 2] = -step * G, step * c
    program = vm.program(np.zeros((1, 3)), np.zeros((1, 3)), W_V, sees=np.eye(3, dtype=bool), name="a step")
    start = rng.uniform(-1, 1, (3, 2))
    found = vm.loop([program] * 20, torch.tensor(np.concatenate([start, np.ones((3, 1))], axis=1))).numpy()
    w = start
    for _ in range(20):
        w = w - step * (w @ G - c)
    assert np.abs(found[:, :2] - w).max() <= 20 * vm.certificate.bound  # no step makes errors larger
    assert np.abs(found[:, :2] - np.linalg.solve(G, c)).max() < np.abs(start - np.linalg.solve(G, c)).max() / 10


def test_states_that_leave_the_bounds_are_refused() -> None:
    vm = looped()
    doubling = vm.program(np.zeros((1, 3)), np.zeros((1, 3)), np.eye(3), sees=np.eye(2, dtype=bool))
    x = torch.full((2, 3), 0.9, dtype=torch.float64)
    assert np.allclose(vm.loop([doubling], x).numpy(), 1.8)
    with pytest.raises(ww.DomainError, match=r"an entry of W_V x is 3.6 .* above v_max=2"):
        vm.loop([doubling] * 4, x)
    gentle = replace(doubling, W_V=doubling.W_V / 2)
    with pytest.raises(ww.DomainError, match=r"an entry of x became 4\.05"):
        vm.loop([gentle] * 4, torch.full((2, 3), 1.2, dtype=torch.float64))


def test_loops_and_single_programs_are_told_apart() -> None:
    vm = looped()
    (program,) = stack(vm, np.random.default_rng(0), 1)
    x = torch.zeros(5, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"use vm.loop\(programs, x\)"):
        vm(x, program)
    with pytest.raises(ValueError, match="5 programs, and the interpreter was built for programs=4"):
        vm.loop([program] * 5, x)
    with pytest.raises(ValueError, match="share their rows"):
        vm.loop([program, replace(program, rows=program.rows / 2)], x)
    with pytest.raises(ValueError, match="build it with programs="):
        ww.Interpreter(5, 3, 2).loop([program], x)


def test_networks_that_cannot_be_emulated_are_refused() -> None:
    mixed = ww.compile(lambda x: torch.tanh(x) - x.mean(0), (-1, 1), 1e-3, features=2, tokens=3)
    with pytest.raises(ww.UnsupportedOperation, match="emulate"):
        ww.interpreter.emulate(mixed, 3)


def test_heads_that_look_at_different_registers_run_in_turn() -> None:
    def two(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(torch.tanh(x[:, :1]) + torch.sin(x[:, 1:]))

    net = ww.compile(two, (-1, 1), 1e-6, features=2)
    inside = ww.interpreter.emulate(net, 4)
    assert len(inside.programs) == 3 > len(net.network.layers)
    x = torch.rand(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 2 - 1
    assert float((inside(x) - net(x)).abs().max()) <= inside.stated_error < 1e-4


CLAIMS: dict[str, Any] = {
    "fewer programs": lambda c: replace(c, times=c.times - 1),
    "no loop": lambda c: replace(c, times=0),
    "times is no number": lambda c: replace(c, times=True),
    "x_max": lambda c: replace(c, x_max=c.x_max / 2),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_about_another_loop_is_refused(name: str, tmp_path: Path) -> None:
    net = looped().net
    proven(net.network, net.said, tmp_path)
    refused(net.network, replace(net.said, claim=CLAIMS[name](net.said.claim)), tmp_path)


def test_a_loop_that_moves_programs_otherwise_is_refused(tmp_path: Path) -> None:
    net = looped("stacked").net
    (loop,) = net.network.layers
    start, first, second, end = loop.layers
    A = end.terms[0].A.copy()
    A[:, [3, 4]] = A[:, [4, 3]]
    other = replace(end, terms=(replace(end.terms[0], A=A),))
    forged = replace(net.network, layers=(replace(loop, layers=(start, first, second, other)),))
    refused(forged, net.said, tmp_path, "the end of a pass is another map")
    fewer = tuple(one for one in net.said.assumptions if one != ENTRIES)
    refused(net.network, replace(net.said, assumptions=fewer), tmp_path, "the certificate hides that")
