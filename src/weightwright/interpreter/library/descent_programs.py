"""Gradient descent as programs: the examples and the loss stand in the rows, the state w on every data token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from weightwright.interpreter.library.algorithms import Algorithm, Part, encode_scores, state, unit
from weightwright.interpreter.library.layer_programs import gates
from weightwright.interpreter.library.row_tables import Function, make_table
from weightwright.interpreter.virtual_machine import Interpreter
from weightwright.numbers import Floats

#: Derivatives of losses of w.x - y. For the logistic loss of labels -1 and 1 give y x in the place of x, and y = 0.
SLOPES = {"squared": "x", "logistic": "-sigmoid(-x)", "huber": "clip(x, -1, 1)"}


@dataclass(frozen=True)
class Examples:
    """X (n, k), y (n,): a state is w (k,), and a data token holds w, room for a gradient, and 1: 2 k + 1 features, as
    the first, the following, and the last of the module."""

    X: Floats
    y: Floats

    @classmethod
    def of(cls, vm: Interpreter, X: Any, y: Any) -> Examples:
        found, answers = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if found.ndim != 2 or answers.shape != found.shape[:1]:
            raise ValueError(f"X must be (n, k) and y (n,), not {found.shape} and {answers.shape}")
        n, k = found.shape
        if n > vm.tokens or 2 * k + 1 > vm.features:
            raise ValueError(
                f"X of {n} examples takes as many tokens of {2 * k + 1} features, and the interpreter was built for"
                f" tokens={vm.tokens}, features={vm.features}"
            )
        return cls(found, answers)

    @property
    def size(self) -> int:
        return self.X.shape[1]


def state_tokens(vm: Interpreter, w: Any, n: int) -> torch.Tensor:
    """(n, features): the state on every token, no gradient yet, and the constant."""
    x = torch.zeros(n, vm.features, dtype=vm.net.dtype)
    w = torch.as_tensor(w, dtype=vm.net.dtype)
    x[:, : len(w)], x[:, -1] = w, 1.0
    return x


def gradients(
    vm: Interpreter, X: Any, y: Any, loss: Function = "squared", w_reach: float = 1.0, anchors: int | None = None
) -> Algorithm:
    """f(w . x_i - y_i) x_i of every example i, on token i, in the features behind w (Theorem 3.1).

    loss: "squared", "logistic" or "huber", or the derivative f of your own: a formula of x, a function of a tensor, a
    network that `ww.approximate` made. w_reach: the largest entry of w. anchors: rows for each example; by default as
    many as there is room for. Row (i, j) holds a_j x_i, b_j - a_j y_i and f_j x_i: its score is a_j (w . x_i - y_i) +
    b_j. The weights are the same whatever the loss: f stands in the rows. Token i sees the rows of example i.

    The error is the table's, times the largest |x_i|: checked where f is a network, measured otherwise.
    """
    examples = Examples.of(vm, X, y)
    n, k = examples.X.shape
    reach = float((np.abs(examples.X).sum(axis=1) * w_reach + np.abs(examples.y)).max())
    f = SLOPES.get(loss, loss) if isinstance(loss, str) else loss
    each = examples.X

    def scores_of(slopes: Floats, offsets: Floats) -> list[Part]:
        """Row (i, j) is row j of example i; what all rows of an example share is no score."""
        keys = np.multiply.outer(each, slopes)  # (n, k, p)
        rest = offsets - np.outer(examples.y, slopes)
        rest = rest - (rest.max(1, keepdims=True) + rest.min(1, keepdims=True)) / 2
        parts = [Part(unit(vm, c), w_reach, keys[:, c].ravel()) for c in range(k)]
        return [*parts, Part(unit(vm, -1), 1.0, rest.ravel())]

    table = make_table(vm, f, reach, anchors or min(vm.rows, vm.sizes.tokens - n) // n, scores_of, vm.head_dim)
    p = len(table.slopes)
    scores = encode_scores(vm, scores_of(table.slopes, table.offsets), "gradients")
    held = (np.multiply.outer(table.values, each)).transpose(1, 0, 2).reshape(n * p, k)
    room = vm.bounds["x_max"]
    size = max(float(np.abs(held).max()), room)
    rows, W_V = np.zeros((n * p, vm.features)), np.zeros((vm.features, vm.features))
    rows[:, : k + 1], rows[:, k + 1 : 2 * k + 1] = scores.held, held / size * room
    W_V[k + np.arange(k), k + 1 + np.arange(k)] = size / room
    sees = np.zeros((n, n * p + n), dtype=bool)
    for i in range(n):
        sees[i, i * p : (i + 1) * p] = True
    program = vm.program(scores.W_Q, scores.W_K, W_V, rows=rows, sees=sees, name=f"gradients, {loss}")

    def plain(x: Floats) -> Floats:
        out = np.zeros_like(x)
        r = (x[..., :k] * examples.X).sum(axis=-1) - examples.y
        out[..., k : 2 * k] = table.f(r)[..., None] * examples.X
        return out

    return state(vm, program, plain, table.error * float(np.abs(examples.X).max()), table.how)


def update(vm: Interpreter, size: int, eta: float, ridge: float = 0.0, name: str = "update") -> Algorithm:
    """w becomes (1 - eta ridge) w - eta times the mean of the gradients, on every token; room for gradients is 0 again.
    All data tokens weigh the same: no error but rounding. A ridge penalty is this factor and no head of its own."""
    d = vm.features
    W, none = np.zeros((d, d)), np.zeros((1, d))
    W[range(size), range(size)], W[range(size), size + np.arange(size)] = 1 - eta * ridge, -eta
    W[-1, -1] = 1.0
    program = vm.program(none, none, W, name=name)

    def plain(x: Floats) -> Floats:
        return np.broadcast_to(x.mean(axis=-2, keepdims=True), x.shape) @ W.T

    return state(vm, program, plain, 0.0, "derived")


def soft_threshold(
    vm: Interpreter, size: int, threshold: float, tokens: int | None = None, name: str = "soft threshold"
) -> Algorithm:
    """The step of the lasso: entries of w move to 0 by `threshold`. It bends, so it takes gates, two heads for each
    entry and one for the constant: relu(w - t) - relu(-w - t), off by 0.557/beta at most."""
    keep = np.zeros((vm.features, vm.features))
    keep[-1, -1] = 1.0
    pieces = [piece for c in range(size) for piece in ((c, c, threshold, 1.0), (c, c, -threshold, -1.0))]
    return gates(vm, keep, pieces, tokens, name)


def descend(
    vm: Interpreter, programs: tuple[Algorithm, ...] | Sequence[Algorithm], w: Any, steps: int = 1
) -> torch.Tensor:
    """Steps of gradient descent: programs are `gradients`, `update` and, for the lasso, `soft_threshold`.

    Inside the module: gradients, their mean, the new w, the threshold. Outside: that gradients are added to their
    token, and that what comes out goes in again.
    """
    first, *others = programs
    assert first.sees is not None
    x = state_tokens(vm, w, len(first.sees))
    for _ in range(steps):
        x = x + vm(x, first)
        for program in others:
            x = vm(x, program)
    size = len(torch.as_tensor(w))
    return x[0, :size]
