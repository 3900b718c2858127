"""Layers of torch and whole descents as programs of one module."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from torch import nn

import weightwright as ww

library = ww.interpreter.library


@functools.cache
def built() -> ww.Interpreter:
    """Room for a constant of 1 that comes back a little larger."""
    return ww.Interpreter(4, 6, 4, heads=4, rows=32, x_max=1.25, w_max=8.0, k_max=8.0, q_max=8.0, v_max=8.0)


@functools.cache
def five_heads() -> ww.Interpreter:
    return ww.Interpreter(4, 6, 6, heads=5, rows=32, x_max=1.25, w_max=8.0, k_max=8.0, q_max=8.0, v_max=8.0)


def tokens(rng: np.random.Generator, n: int = 4) -> torch.Tensor:
    x = torch.tensor(rng.uniform(-1, 1, (n, 6)))
    x[:, -1] = 1.0
    return x


@pytest.mark.parametrize(
    "activation", [nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SiLU(), nn.Softplus(), nn.ReLU()], ids=repr
)
def test_linear_layers_with_an_activation_in_between(activation: nn.Module) -> None:
    torch.manual_seed(1)
    vm, net = built(), nn.Sequential(nn.Linear(5, 3), activation, nn.Linear(3, 2)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter *= 0.6
    programs, error = library.stack(vm, net)
    x = tokens(np.random.default_rng(2))
    off = float((vm.run(programs, x)[:, :2] - net(x[:, :5])).detach().abs().max())
    assert off <= error <= 5e-3, (off, error)


def test_a_stack_says_what_is_outside() -> None:
    with pytest.raises(ValueError, match="layer must be one of Tanh, Sigmoid, GELU, SiLU, Softplus or ReLU, not ELU"):
        library.stack(built(), nn.Sequential(nn.Linear(2, 2), nn.ELU()))
    with pytest.raises(ValueError, match="layer takes 6 features and one that is 1"):
        library.linear(built(), nn.Linear(6, 2))


@pytest.mark.parametrize("seed", range(3))
def test_a_linear_map_folds_into_a_head(seed: int) -> None:
    """Lemma D.3."""
    vm, rng = built(), np.random.default_rng(seed)
    x, (A, B) = tokens(rng), rng.normal(size=(2, 6, 6)) / 4
    head = vm.program(*(rng.normal(size=(3, 4, 6)) / 3))
    folded = library.fold(vm, head, before=A, after=B)
    wanted = head.run(x.numpy() @ A.T) @ B.T
    assert np.abs(vm(x, folded).numpy() - wanted).max() <= vm.certificate.bound + 1e-13
    table = library.smooth(vm, "sin(x)", rows=6)
    turned = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    rows = library.fold(vm, table, before=turned) if np.abs(table.rows @ turned).max() <= 1.25 else None
    if rows is not None:
        assert np.abs(rows.run(x.numpy()) - table.run(x.numpy() @ turned.T)).max() < 1e-9
    with pytest.raises(ValueError, match="before has no inputs that it turns into the rows"):
        library.fold(vm, table, before=np.zeros((6, 6)))


X = np.array([[0.5, -0.4], [0.3, 0.5], [-0.5, 0.2], [0.1, -0.3]])
Y = np.array([0.2, -0.1, 0.3, 0.0])


@pytest.mark.parametrize(("ridge", "lasso"), [(0.0, 0.0), (0.2, 0.0), (0.0, 0.02)])
def test_descent_is_programs_in_turn(ridge: float, lasso: float) -> None:
    """Each step adds no more than its programs say: eta times the gradients' error, and the threshold's."""
    vm, eta, steps = five_heads(), 0.5, 5
    programs = [library.gradients(vm, X, Y), library.update(vm, 2, eta, ridge)]
    if lasso:
        programs.append(library.soft_threshold(vm, 2, eta * lasso))
    w = np.array([0.8, -0.6])
    found = library.descend(vm, programs, w, steps).numpy()
    for _ in range(steps):
        w = (1 - eta * ridge) * w - eta * X.T @ (X @ w - Y) / 4
        w = np.sign(w) * np.maximum(np.abs(w) - eta * lasso, 0) if lasso else w
    each = eta * (programs[0].error + vm.certificate.bound) + sum(p.error + vm.certificate.bound for p in programs[1:])
    assert np.abs(found - w).max() <= 1.001 * np.sqrt(2) * steps * each
    assert np.abs(found - [0.8, -0.6]).max() > 0.1


def test_a_trained_attention_layer_is_a_program() -> None:
    """Trained to return the token before, on codes of four tokens."""
    torch.manual_seed(3)
    layer = nn.MultiheadAttention(4, 2, batch_first=True).double()
    optimizer = torch.optim.Adam(layer.parameters(), 0.02)
    x = torch.cat([torch.tensor(library.position_code(4)).expand(64, 4, 2), torch.rand(64, 4, 2) * 2 - 1], dim=2)
    for _ in range(120):
        loss = (layer(x, x, x, need_weights=False)[0][..., 2:] - x.roll(1, 1)[..., 2:]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.05
    layer.eval().requires_grad_(False)
    vm = ww.Interpreter(4, 5, 3, heads=2, w_max=8.0, k_max=16.0, q_max=16.0, v_max=8.0)
    x = x[:8]
    ones = torch.cat([x, torch.ones(8, 4, 1, dtype=torch.float64)], dim=2)
    off = (vm(ones, ww.interpreter.from_torch(vm, layer))[..., :4] - layer(x, x, x, need_weights=False)[0]).abs().max()
    assert float(off) <= vm.certificate.bound <= 1e-6


def test_gates_are_off_by_what_they_say_where_they_bend() -> None:
    vm = built()
    relu = library.activation(vm, nn.ReLU(), 1, 1.0)
    x = np.zeros((201, 4, 6))
    x[..., -1], x[..., 0] = 1.0, np.linspace(-0.1, 0.1, 201)[:, None]
    off = float(np.abs(relu.run(x) - relu.plain(x)).max())
    assert 0.9 * relu.error < off <= relu.error


@pytest.mark.parametrize("gap", [0.01, 0.03, 0.1])
def test_selections_are_off_by_what_they_say_at_the_gap(gap: float) -> None:
    """Two keys whose scores are as near as the gap allows: the other weighs e^(-beta gap)/(1 + that)."""
    vm, x = built(), np.zeros((2, 6))
    x[:, -1] = 1.0
    x[:, 0] = gap / 2  # (x + 1/2)² - (x - 1/2)² = 2 x
    near = library.nearest(vm, [[0.5], [-0.5]], [[1.0], [0.0]], gap, tokens=2)
    off = float(np.abs(near.run(x) - near.plain(x)).max())
    assert 0.4 * near.error < off <= near.error
    x[:, 0] = [0.5, 0.5 - gap]
    x[:, 1] = [-1.25, 1.25]
    most = library.select(vm, 0, gap, tokens=2)
    off = float(np.abs(most.run(x) - most.plain(x)).max())
    assert 0.4 * most.error < off <= most.error


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda vm: library.gradients(vm, np.ones((5, 2)), np.ones(5)), "takes as many tokens of 5 features"),
        (lambda vm: library.gradients(vm, np.ones((2, 3)), np.ones(2)), "takes as many tokens of 7 features"),
        (lambda vm: library.gradients(vm, np.ones((2, 2)), np.ones(3)), r"X must be \(n, k\) and y \(n,\)"),
        (lambda vm: library.smooth(vm, ww.approximate("sin(x)", (-1, 1), 1e-3), 2.0), "asks for \\[-2, 2\\]"),
        (lambda vm: library.smooth(vm, ww.approximate("abs(x)", (-1, 1), 1e-1), 1.0), "must be one head on"),
        (lambda vm: library.smooth(vm, "sin(x)", rows=40), "40 rows, and the interpreter was built for rows=32"),
        (lambda vm: library.smooth(vm, "100*x"), "no table of up to 16 rows for this f has values within"),
        (lambda vm: library.smooth(vm, "sign(x)"), "f jumps between"),
        (lambda vm: library.smooth(vm, "log(x)"), "f must be finite on"),
        (lambda vm: library.smooth(vm, 3), "f must be a formula, a function of a tensor or a network"),
        (lambda vm: library.copy(vm, 7), "source must be a token, 0 to 3, not 7"),
        (lambda vm: library.soft_threshold(vm, 2, 0.1), "takes 5 heads, and the interpreter was built for heads=4"),
        (lambda vm: library.route(vm, ["x"], (1, 2)), "selectors has 2 features for 1 functions"),
        (lambda vm: library.nearest(vm, np.ones((3, 4)), np.ones((3, 2)), 0.1), "takes 7 features of a row"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_the_limit(make: object, said: str) -> None:
    with pytest.raises((ValueError, TypeError, ww.WeightwrightError), match=said):
        make(built())  # type: ignore[operator]
