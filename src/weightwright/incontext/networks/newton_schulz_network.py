"""A frozen network that solves H w = b for a symmetric positive definite H, by products alone: Newton-Schulz.

Statement: Y <- Y + (I - Y H) Y squares the residual I - Y H at every pass, so that from Y = I, with H scaled to norm 1
or less, log2(condition number) + 5 passes give the inverse as well as floats can; then w = Y b. Gradient descent takes
as many steps as the condition number, with momentum its square root.

Source: G. Schulz (1933); the pass is AE Theorem 3.1 twice, on matrices. Here H and b stand in the prompt: whoever
writes it forms the Gram matrix of the examples. There are d^2 tokens; token (i, j) has row j of H, row i of Y and row j
of Y. One pass:
    a = y_i . h_j              a table of the identity: entry (i, j) of Y H; attention takes the inner product
    g = (delta_ij - a) y_j     a table of the identity, times a row: the residual's entry times row j of Y
    y_i <- y_i + sum_j g, and every token (., j) is handed the new row j
Errors: the table's argument is an entry of Y H, at most 1 in size, though Y is as large as H is ill-conditioned; and an
error of the second table multiplies Y from the left, so that both come to an error of the residual. With tables within
tol the inverse is within about d tol + u cond(H), relative to itself, u = 1.1e-16 in float64.
Hypotheses: H is symmetric; checked at every pass: the entries of Y H are at most 1, rounding counted (they grow where H
is not positive, or too ill-conditioned), and those of w at most `reach`.
Cost: two tables of three layers and two maps a pass; d^2 tokens, one map of d^2 x d^2.

>>> H, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
>>> net = newton_schulz_network(2, steps=newton_schulz_steps(H, smallest=1.3), reach=1.0)
>>> w = net(newton_schulz_prompt(H, b))[:, 0].numpy()
>>> bool(np.abs(H @ w - b).max() < 1e-9)
True
"""

from __future__ import annotations

import math

import numpy as np
import torch

from weightwright.errors import BudgetError
from weightwright.incontext.networks.blocks import Layout
from weightwright.incontext.networks.guarded import Argument, GuardedLayers, looped_network, multiplied
from weightwright.incontext.networks.slopes import Slope, beyond, spectral_slope
from weightwright.network import Block, Gather, Linear, Term
from weightwright.numbers import Floats, rounded
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import DTYPES

#: Entries of Y H are at most 1 in size; rounding may carry them a little further.
ROOM = 1.125
#: Features that a network may have: each of its d^2 tokens is one pair of features.
MOST = 128
#: Passes are counted until the residual is so small.
SMALL = {"float64": 2.0**-50, "float32": 2.0**-22}


def newton_schulz_network(
    d: int, *, steps: int, reach: float, targets: int = 1, head_tol: float | None = None, dtype: str = "float64"
) -> AttentionNetwork:
    """`steps` passes, then w = Y b for each of the targets: d^2 tokens, which `newton_schulz_prompt` writes, become d
    tokens, one number of w for each target. reach: how large the numbers of w may get. head_tol: the error asked of a
    table as a share of what it reaches; unless given, 1e-10 in float64."""
    for name, number in (("reach", reach), ("head_tol", 1.0 if head_tol is None else head_tol)):
        if not 0 < number < math.inf:
            raise ValueError(f"{name} must be positive and finite, not {number!r}")
    if d > MOST:
        raise BudgetError(f"d={d}: every pair of features takes a token; at most d={MOST} is built")
    for name, count in (("d", d), ("steps", steps), ("targets", targets)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, not {count!r}")
    numbers = [f"w[{k}]" for k in range(targets)]
    given: dict[str, int | None] = {"h": d, **{f"b{k}": d for k in range(targets)}}
    made: dict[str, int | None] = {"one": None, "delta": None, "yi": d, "yj": d, "a": None, "g": d}
    layout = Layout(given | made | dict.fromkeys(numbers))
    eye = np.eye(d)
    constants = {
        "one": np.ones((1, 1)),
        "delta": eye.reshape(-1, 1),
        "yi": np.repeat(eye, d, axis=0),
        "yj": np.tile(eye, (d, 1)),
    }
    last = GuardedLayers(())
    for k, name in enumerate(numbers):
        of_w = Argument(
            layout.reading("yi"), layout.at[f"b{k}"], f"a number of w of target {k}", "build it with a larger reach"
        )
        last += multiplied(layout, _identity(reach, head_tol, dtype), of_w, layout.at["one"], layout.at[name])
    columns = np.hstack([layout.reading(name) for name in numbers])
    read = Linear(tuple(numbers), (Term(columns, _first_of_rows(d)),), np.zeros((1, targets)))
    one_pass = _products(layout, head_tol, dtype) + GuardedLayers(_handed_round(layout, d))
    return looped_network(layout, list(given), constants, None, steps, one_pass, last, read, d * d, dtype)


def _identity(reach: float, tol: float | None, dtype: str) -> Slope:
    return spectral_slope("x", (1.0, 0.0), beyond(reach), None if tol is None else tol * reach, dtype)


def _products(layout: Layout, tol: float | None, dtype: str) -> GuardedLayers:
    """a = y_i . h_j and g = (delta - a) y_j."""
    at, identity = layout.at, _identity(ROOM, tol, dtype)
    remedy = "H must be positive definite, and its condition number below about 1e12 in float64, 1e4 in float32"
    product = Argument(layout.reading("yi"), at["h"], "an entry of Y H", remedy)
    residual = Argument(layout.reading("delta") - layout.reading("a"), at["one"], "an entry of I - Y H", remedy)
    return multiplied(layout, identity, product, at["one"], at["a"], fresh=("a", "g")) + multiplied(
        layout, identity, residual, at["yj"], at["g"]
    )


def _handed_round(layout: Layout, d: int) -> tuple[Linear, Linear]:
    """y_i is the sum over all tokens (i, .), and tokens (., j) get row j."""
    nothing, every = np.zeros((1, layout.width)), list(layout.at)
    summed = Linear(
        layout.names,
        (
            Term(layout.map(layout, keep=every)),
            Term(layout.map(layout, ("g", "yi", 1.0)), Block(np.ones((d, d)))),
        ),
        nothing,
    )
    others = [group for group in every if group != "yj"]
    handed = Linear(
        layout.names,
        (
            Term(layout.map(layout, keep=others)),
            Term(layout.map(layout, ("yi", "yj", 1.0)), _first_of_rows(d, times=d)),  # (i, j) reads (j, 0)
        ),
        nothing,
    )
    return summed, handed


def _first_of_rows(d: int, times: int = 1) -> Gather:
    """The tokens (0, 0), (1, 0), ..., again and again."""
    return Gather(tuple(range(0, d * d, d)) * times)


def newton_schulz_prompt(H: Floats, b: Floats, dtype: str = "float64") -> torch.Tensor:
    """(d^2, inputs): row j of H at token (i, j), and b everywhere; b of shape (d,) or (d, targets). Both are divided by
    a power of two, so that H has norm 1 or less; w is the same."""
    scale = _scale(H)
    d = len(H)
    columns = b.reshape(d, -1) if b.shape[:1] == (d,) else None
    if columns is None or not np.isfinite(b).all():
        raise ValueError(f"b must have shape ({d},) or ({d}, targets) and finite numbers, not {b!r}")
    rows = np.tile(H / scale, (d, 1))
    shared = np.broadcast_to(columns.T.ravel() / scale, (d * d, columns.size))
    return torch.tensor(rounded(np.hstack([rows, shared]), dtype), dtype=DTYPES[dtype])


def newton_schulz_steps(H: Floats, smallest: float, dtype: str = "float64") -> int:
    """Passes until the residual is as small as rounding, for an H whose smallest eigenvalue is at least `smallest`."""
    scale = _scale(H)
    if not 0 < smallest <= scale:
        raise ValueError(f"smallest={smallest!r}: a positive lower bound on H's eigenvalues is needed, below {scale:g}")
    first = 1 - min(smallest / scale, 0.5)  # the residual begins at this or below, and is squared at every pass
    return math.ceil(math.log2(math.log(SMALL[dtype]) / math.log(first)))


def plain_newton_schulz(H: Floats, steps: int) -> Floats:
    """The same in float64 numpy: (steps + 1, d, d), what stands for the inverse of H after every pass."""
    scale = _scale(H)
    Y, eye = np.eye(len(H)), np.eye(len(H))
    path = [Y]
    for _ in range(steps):
        Y = Y + (eye - Y @ (H / scale)) @ Y
        path.append(Y)
    return np.array(path) / scale


def _scale(H: Floats) -> float:
    """A power of two that is no less than the norm of H: above its largest sum of a row's sizes."""
    if H.ndim != 2 or H.shape[0] != H.shape[1] or not np.isfinite(H).all() or not (H == H.T).all():
        raise ValueError(f"H must be a symmetric matrix of finite numbers, not {H!r}")
    largest = float(np.abs(H).sum(axis=1).max())
    if largest == 0:
        raise ValueError("H is 0, and has no inverse")
    return 2.0 ** math.ceil(math.log2(largest))
