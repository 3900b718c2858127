"""The small instances of AE-9 to AE-12 and AE-15: programs of one frozen module, against the plain heads."""

from __future__ import annotations

import functools

import numpy as np
import torch

from weightwright.interpreter import Interpreter, library
from weightwright.papers.kit.instance import Check, Count, Instance, judge

_N, _D, _H = 6, 4, 3
#: Programs that a check runs.
_PROGRAMS = 32


@functools.cache
def module(form: str) -> Interpreter:
    """Two heads of size 3 on six tokens of four features."""
    return Interpreter(_N, _D, _H, heads=2, rows=2, form=form)  # type: ignore[arg-type]


def embedding() -> Instance:
    """AE-9: random programs, one fingerprint; outputs in the order of the tokens."""
    return _random_programs(module("embedding"))


def stacked() -> Instance:
    """AE-10: the same, a row of weights on each token."""
    return _random_programs(module("stacked"))


def _random_programs(vm: Interpreter) -> Instance:
    given = _run_programs(vm, "random programs", 0, [0, 1, 2, 3, 4, 5])
    reordered = _run_programs(vm, "another order of tokens", 1, [3, 0, 5, 1, 4, 2])
    return Instance(checks=(given, reordered), counts=_counts(vm))


def _run_programs(vm: Interpreter, name: str, seed: int, order: list[int]) -> Check:
    """Tokens in this order, outputs in the same."""
    before, off, rng = vm.fingerprint, 0.0, np.random.default_rng(seed)
    for _ in range(_PROGRAMS):
        x = rng.uniform(-1, 1, (_N, _D))
        W_Q, W_K, W_V = (rng.uniform(-1, 1, (2, size, _D)) for size in (_H, _H, _D))
        program = vm.program(W_Q, W_K, W_V, rows=rng.uniform(-1, 1, (2, _D)))
        off = max(off, float(np.abs(vm(torch.tensor(x[order]), program).numpy() - program.run(x)[order]).max()))
    assert vm.fingerprint == before
    return _check(vm, name, off, _PROGRAMS)


def library_of_programs() -> Instance:
    """AE-11: six algorithms in one batch, and a selector that picks one of two functions."""
    vm = Interpreter(4, 8, 8, rows=32, x_max=1.25, w_max=8.0, k_max=8.0, q_max=8.0, v_max=8.0)
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (4, 2)), rng.uniform(-0.3, 0.3, 4)
    made = [
        library.gradients(vm, X, y), library.gradients(vm, X, y, "huber"), library.average(vm), library.previous(vm),
        library.smooth(vm, "sin(3*x)"), library.route(vm, ["sin(2*x)", "x**2"], (1, 2), rows=8),
    ]  # fmt: skip
    x = rng.uniform(-1, 1, (len(made), 4, 8))
    x[..., -1] = 1.0
    x[:2] = library.state_tokens(vm, [0.6, -0.4], 4)
    x[3, :, -2:] = library.position_code(4)
    x[-1, :, 1:3] = np.eye(2)[[0, 1, 1, 0]]
    outputs = vm(torch.tensor(x), made).numpy()
    checks = []
    for algorithm, given, out in zip(made, x, outputs, strict=True):
        allowed, off = algorithm.error + vm.certificate.bound, float(np.abs(out - algorithm.plain(given)).max())
        note = f"the head is off by {algorithm.error:.2g} ({algorithm.how}), the module by its bound at most"
        reason = f"{off:.3g} is more than {allowed:.3g}" if off > allowed else None
        checks.append(judge("MEASURED", algorithm.name, None, off, reason, notes=(note,)))
    return Instance(checks=tuple(checks), counts=_counts(vm))


def linear_layer() -> Instance:
    """AE-12: a linear layer with bias of three inputs and two outputs."""
    torch.manual_seed(0)
    vm, layer = module("embedding"), torch.nn.Linear(3, 2).double().requires_grad_(False)
    x = torch.cat([torch.rand(_N, 3, dtype=torch.float64) * 2 - 1, torch.ones(_N, 1, dtype=torch.float64)], dim=1)
    made = library.linear(vm, layer)
    off = float((vm(x, made)[:, :2] - layer(x[:, :3])).abs().max())
    return Instance(checks=(_check(vm, "nn.Linear(3, 2)", off, _N),))


def folded() -> Instance:
    """AE-15: a head on A x, times B, as one head."""
    vm, rng = module("stacked"), np.random.default_rng(1)
    A, B = rng.uniform(-0.4, 0.4, (2, _D, _D))
    x = rng.uniform(-1, 1, (_N, _D))
    W_Q, W_K, W_V = rng.uniform(-1, 1, (3, _H, _D))
    head = vm.program(W_Q, W_K, W_V)
    one = library.fold(vm, head, A, B)
    off = float(np.abs(vm(torch.tensor(x), one).numpy() - one.run(x)).max())
    same = float(np.abs(one.run(x) - head.run(x @ A.T) @ B.T).max())
    notes = ("W_Q A, W_K A and B W_V A are rounded once: no bound is claimed of that",)
    checks = (
        _check(vm, "the folded head", off, _N),
        Check("B head(A x)", "MEASURED", None, same, inputs=_N, notes=notes),
    )
    return Instance(checks=checks)


def _check(vm: Interpreter, name: str, off: float, inputs: int) -> Check:
    said = vm.certificate
    holds = said.status == "PROVEN" and off <= said.bound
    reason = None if holds else f"the module is {said.status}, an error of {off:.3g} was found"
    cost = {of: getattr(vm.cost, of) for of in ("layers", "heads", "anchors", "parameters")}
    return judge("PROVEN", name, said.bound, off, reason, inputs=inputs, native=False, cost=cost)


def _counts(vm: Interpreter) -> tuple[Count, ...]:
    """What the module says it takes before it is built, and what was built."""
    papers = vm.papers_cost(1e-3)
    order = (f"{papers.theorem}, for 1e-3", float(papers.heads))
    said, built = vm.cost, vm.net.cost
    return (
        Count("heads", "module_cost", said.heads, built.heads, *order),
        Count("parameters", "module_cost", said.parameters, built.parameters),
        Count("multiply-adds", "module_cost", said.multiply_adds, built.multiply_adds),
    )
