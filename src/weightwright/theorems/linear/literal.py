"""AE-8 in the paper's own layout: token k holds k w and w beside x_k, and a one-hot position code is all else.

Head h reads the key of anchor K_h + k, K_h = (h-1)(n-2) - 1, off token k as k w + K_h w; queries are x_i, values stand
in the position code. Only token-wise maps: an ordinary Transformer loads the layer. The prompt holds one w for all.

Source: in-context algorithm emulation paper, Theorem D.1, (D.2) to (D.7).
Deviations: the sentinels' values and L_{-1} as in `in_context_truncated`; beta is ours.
There is no certificate: scores are products of two inputs, x_i and k w, which no rule for plain heads covers. The
network of `in_context_truncated_linear_heads` has the same scores up to what all keys share, the same values, and one.
"""

from __future__ import annotations

import numpy as np

from weightwright.approximation.faithful_tables import split_beta
from weightwright.network import Attention, Head, Linear, Network, Sees, Term, selection
from weightwright.numbers import Floats, rounded
from weightwright.runtime import AttentionNetwork
from weightwright.theorems.kit.arguments import interval, whole
from weightwright.theorems.linear.shared_anchors import heads_for, shared_runs


def literal_truncated_linear(
    a: float, b: float, n: int, d: int, *, H: int, beta: float | None = None, dtype: str = "float64"
) -> AttentionNetwork:
    """Prompt (n, 3d), tokens (x_i, i w, w) -> (n, 1): Range[a,b](w . x_i) by H heads of n keys. Measured, not proven.

    Cost: 1 layer, H heads, width 3d + n + 2, no registers.

    >>> import torch
    >>> net = literal_truncated_linear(-1.0, 1.0, n=6, d=1, H=4)
    >>> x = np.linspace(-1, 1, 6)[:, None]
    >>> found = net(torch.tensor(literal_prompt(x, np.array([0.5])))).numpy()
    >>> net.network.native, bool(np.abs(found - 0.5 * x).max() <= 2 / 16)
    (True, True)
    """
    whole("n", n, 3, ": a head has n - 2 anchors and two sentinels")
    whole("d", d, 1)
    a, b = interval(a, b)
    H, beta = heads_for(a, b, n, None, H, beta)
    anchors, runs = shared_runs(a, b, n, H, dtype)
    spacing = (b - a) / ((n - 2) * H)
    names = tuple(
        [f"{word}[{r}]" for word in ("x", "k w", "w") for r in range(d)]
        + [f"pos[{k}]" for k in range(n)]
        + ["one", "range"]
    )
    # the paper's beta times dL: scores -(beta/2)(s - L_k)^2 up to what the keys share
    power, factor = split_beta(beta * spacing / 2, dtype)
    heads = []
    for first, values in runs:
        k = first - 1 + np.arange(n)  # the first anchor is L_{-1}
        offsets = -factor * k * (anchors[first : first + n] + a)
        role = f"anchors {first} to {first + n - 3} of clip(x, {a:g}, {b:g})"
        heads.append(_head(role, d, names, power, 2 * factor, float(k[0]), rounded(offsets, dtype), values, dtype))
    C = np.zeros((n, len(names)))
    C[:, 3 * d : 3 * d + n], C[:, -2] = np.eye(n), 1.0
    return AttentionNetwork(
        Network(
            inputs=names[: 3 * d],
            embed=Linear(names, (Term(np.eye(3 * d, len(names))),), C),
            registers=np.zeros((0, len(names))),
            layers=(Attention(names, tuple(heads)),),
            read=selection(names, ("range",)),
            tokens=n,
            dtype=dtype,
        )
    )


def literal_prompt(x: Floats, w: Floats) -> Floats:
    """(..., n, d) samples and one w (..., d) as the layout has them: (..., n, 3d)."""
    repeated = np.broadcast_to(w[..., None, :], x.shape)
    return np.concatenate([x, np.arange(x.shape[-2])[:, None] * repeated, repeated], axis=-1)


def _head(
    role: str,
    d: int,
    names: tuple[str, ...],
    beta: float,
    factor: float,
    first: float,
    offsets: Floats,
    values: Floats,
    dtype: str,
) -> Head:
    """Keys factor (k w + first w) and the offset of the position, queries x and 1."""
    n, width = len(offsets), len(names)
    W_Q, W_K = np.zeros((width, d + 1)), np.zeros((width, d + 1))
    W_V, W_O = np.zeros((width, 1)), np.zeros((1, width))
    W_Q[:d, :d], W_Q[-2, d] = np.eye(d), 1.0
    W_K[d : 2 * d, :d], W_K[2 * d : 3 * d, :d] = factor * np.eye(d), factor * first * np.eye(d)
    W_K[3 * d : 3 * d + n, d], W_V[3 * d : 3 * d + n, 0], W_O[0, -1] = offsets, values, 1.0
    return Head(role, W_Q, rounded(W_K, dtype), W_V, W_O, beta, Sees(data="all"))
