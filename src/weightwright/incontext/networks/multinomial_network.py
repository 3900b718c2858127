"""A frozen network for multinomial logistic regression: the softmax of attention is the softmax of the model.

Statement: for examples (x_i, class_i) in the prompt the network runs Nesterov's method with a fixed momentum on

    F(W) = 1/S sum_i s_i (log sum_k exp(W_k . x_i) - W_(class_i) . x_i) + penalties/2 on the squares of W's entries,

S the sum of the weights s_i; its slope is 1/S sum_i s_i (p_k(x_i) - [k = class_i]) x_i for the row k of W, with p the
softmax of W x_i. W is (classes, d), and the state is its rows, one after the other. An intercept is a feature of ones.

Source: the prompted form of AE Theorem 3.1, with the softmax itself in the place of a table: nothing is approximated.
Every example has a block of one key for each class: key k is x_i in slot k, value k is u_i = step s_i/S x_i in slot k,
and the query is the whole state. The scores are W_k . x_i, so the head returns p_k u_i in slot k, for all k.
Hypotheses: none on how large numbers get, beyond floats.
Cost: three layers, one head of one key for each class, and two maps a pass.

>>> X, labels = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]), np.array([0, 1, 2])
>>> step = np.array([0.5, 0.5])
>>> net = multinomial_network(3, 2, 3, momentum=0.5, steps=10, shrink=0.01)
>>> W = net(multinomial_prompt(X, labels, 3, step=step))[0].reshape(3, 2).numpy()
>>> path = plain_multinomial(X, labels, 3, step=step, momentum=0.5, steps=10, shrink=0.01)
>>> bool(np.abs(W - path[-1, 1]).max() < 1e-13)
True
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from weightwright.incontext.networks.blocks import Layout
from weightwright.incontext.networks.guarded import GuardedLayers, looped_network, shares, tokens
from weightwright.incontext.networks.passes import nesterov
from weightwright.incontext.networks.prompted import pass_layers
from weightwright.network import Attention, Block, Head, Layer, Linear, Sees, Term
from weightwright.network.token_maps import pick
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork

Labels = npt.NDArray[np.integer[Any]]


def multinomial_network(
    n: int,
    d: int,
    classes: int,
    *,
    momentum: float,
    steps: int,
    shrink: float | Floats = 0.0,
    dtype: str = "float64",
) -> AttentionNetwork:
    """`steps` passes on n tokens, which `multinomial_prompt` writes; the answer is one token, the rows of W one after
    the other. shrink: the step times the penalty, one number, one for each of the d features, or one for each entry."""
    for name, count in (("n", n), ("d", d), ("classes", classes), ("steps", steps)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, not {count!r}")
    D = classes * d
    layout = Layout({"x": d, "u": d, "t": D, "w": D, "p": D, "g": D, "z": D})
    algorithm = nesterov(momentum, _of_each_entry(shrink, classes, d), dtype)
    one_pass = GuardedLayers((*_softmax(layout, classes, d), *pass_layers(layout, (), algorithm.cycle[0], n, dtype)))
    names = tuple(f"w[{k}][{r}]" for k in range(classes) for r in range(d))
    read = Linear(names, (Term(layout.reading(algorithm.answer), pick(0)),), np.zeros((1, D)))
    return looped_network(
        layout, ["x", "u", "t", "w", "p"], {}, None, steps, one_pass, GuardedLayers(()), read, n, dtype
    )


def _softmax(layout: Layout, classes: int, d: int) -> tuple[Layer, ...]:
    """g = p_k u in slot k, less t, which is u in the slot of the example's class."""
    D = classes * d
    wide = Layout(layout.sizes | {"key": D, "value": D})
    spread = [Term(layout.map(wide, keep=list(layout.at)), Block(np.eye(classes, 1)))]
    for k in range(classes):
        A, slot = np.zeros((layout.width, wide.width)), slice(k * d, (k + 1) * d)
        A[layout.at["x"], wide.at["key"][slot]] = 1.0
        A[layout.at["u"], wide.at["value"][slot]] = 1.0
        spread.append(Term(A, Block(np.eye(classes)[:, k : k + 1])))
    head = Head(
        "softmax of W x, times u",
        wide.reading("w"),
        wide.reading("key"),
        wide.reading("value"),
        wide.reading("g").T,
        sees=Sees((0, 0), "block", classes, "first"),
    )
    back = wide.map(layout, ("t", "g", -1.0), keep=list(layout.at))
    return (
        Linear(wide.names, tuple(spread), np.zeros((1, wide.width))),
        Attention(wide.names, (head,)),
        Linear(layout.names, (Term(back, Block(np.eye(1, classes))),), np.zeros((1, layout.width))),
    )


def multinomial_prompt(
    X: Floats,
    labels: Labels,
    classes: int,
    *,
    step: Floats,
    start: Floats | None = None,
    sample_weight: Floats | None = None,
    samples: int | None = None,
    dtype: str = "float64",
) -> torch.Tensor:
    """(samples, inputs): a token for each example; missing ones are 0 and add nothing. labels: whole numbers from 0 to
    below `classes`. step: one for each feature. start: the first W, (classes, d), 0 unless given."""
    u, own = _scaled(X, labels, classes, step, sample_weight)
    first = _start(start, classes, X.shape[1]).ravel()
    return tokens({"x": X, "u": u, "t": own.reshape(len(X), -1)}, {"w": first, "p": first}, samples, dtype)


def plain_multinomial(
    X: Floats,
    labels: Labels,
    classes: int,
    *,
    step: Floats,
    momentum: float,
    steps: int,
    shrink: float | Floats = 0.0,
    start: Floats | None = None,
    sample_weight: Floats | None = None,
) -> Floats:
    """The same in float64 numpy: (steps + 1, 2, classes, d), the states w and p after every pass; p is the answer."""
    u, own = _scaled(X, labels, classes, step, sample_weight)
    d = X.shape[1]
    alpha = 1 - _of_each_entry(shrink, classes, d).reshape(classes, d)
    w = p = _start(start, classes, d)
    path = [(w, p)]
    for _ in range(steps):
        scores = X @ w.T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        z = alpha * w - (weights.T @ u - own.sum(axis=0))
        w, p = z + momentum * (z - p), z
        path.append((w, p))
    return np.array(path)


def _scaled(
    X: Floats,
    labels: Labels,
    classes: int,
    step: Floats,
    sample_weight: Floats | None,
) -> tuple[Floats, Floats]:
    """u = step s/S x, and u in the slot of the example's class, (n, classes, d)."""
    n, d = X.shape
    if labels.shape != (n,) or labels.dtype.kind not in "iu" or not ((labels >= 0) & (labels < classes)).all():
        raise ValueError(f"labels={labels!r}: {n} whole numbers from 0 to {classes - 1} are needed")
    if step.shape != (d,) or not (np.isfinite(step).all() and (step > 0).all()):
        raise ValueError(f"step={step!r}: {d} positive numbers are needed, one for each feature")
    u = shares(sample_weight, n)[:, None] * step * X
    return u, np.eye(classes)[labels][:, :, None] * u[:, None, :]


def _of_each_entry(shrink: float | Floats, classes: int, d: int) -> Floats:
    if np.shape(shrink) not in ((), (d,), (classes, d)):
        raise ValueError(f"shrink has shape {np.shape(shrink)}; one number, ({d},) or ({classes}, {d}) is needed")
    return np.broadcast_to(np.asarray(shrink, dtype=np.float64), (classes, d)).ravel()


def _start(start: Floats | None, classes: int, d: int) -> Floats:
    if start is None:
        return np.zeros((classes, d))
    if start.shape != (classes, d) or not np.isfinite(start).all():
        raise ValueError(f"start={start!r}: finite numbers of shape ({classes}, {d}) are needed")
    return np.array(start, dtype=np.float64)
