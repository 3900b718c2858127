"""The small instances of UA-2, UA-3 and UA-13, and how their error falls with anchors and heads.

Each instance imports its own construction only.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from weightwright.numbers import Floats
from weightwright.papers.exhibits.counts import (
    counts_on_registers,
    counts_shared_anchors,
    counts_truncated_linear,
    heads_shared,
)
from weightwright.papers.kit.instance import Instance, Line, counted
from weightwright.papers.kit.rates import Study, sweep
from weightwright.runtime import AttentionNetwork

_A, _B, _P = -1.0, 1.0, 16
_W, _T = np.array([[1.5, 0.5], [-1.0, 1.0], [0.25, -2.0]]), np.array([0.1, 0.0, -0.2])
_SHARED, _SHIFTS = np.array([1.5, 0.5]), np.linspace(-0.2, 0.2, 6)  # of UA-3: one w for six tokens


def one_head() -> Instance:
    """UA-2: three tokens with a model each, 16 anchors; ours with as many; and anchors in two rows of the output."""
    from weightwright.papers.linear.one_head import truncated_linear

    faithful = truncated_linear(_W, _T, _A, _B, (-1, 1), p=_P)
    spectral = truncated_linear(_W, _T, _A, _B, (-1, 1), p=_P, method="spectral")
    zone = 2.0**-8  # zones that cover less than 1% of the domain
    rows = truncated_linear(_W, _T, _A, _B, (-1, 1), p=_P, G=lambda k: k // 8, dead_zone=zone)
    keys = int(spectral.about.chosen["p"])
    counts = (
        *counted(faithful, "counts_truncated_linear", counts_truncated_linear(3, 2, _P), {"heads": ("1", 1.0)}),
        *counted(spectral, "counts_on_registers", counts_on_registers(3, 2, len(list(spectral.network.heads)), keys)),
        *counted(rows, "counts_truncated_linear", counts_truncated_linear(3, 2, _P, 2), name="two rows"),
    )
    names = ("faithful", "spectral", "two rows")
    return Instance((faithful, spectral, rows), names, counts=counts, line=_line(_W, _T, _P))


def shared_anchors() -> Instance:
    """UA-3: six tokens, four heads with four anchors each; ours."""
    from weightwright.papers.linear.shared_anchors import truncated_linear_heads

    faithful = truncated_linear_heads(_SHARED, _SHIFTS, _A, _B, (-1, 1), H=4)
    spectral = truncated_linear_heads(_SHARED, _SHIFTS, _A, _B, (-1, 1), tol=1e-6, method="spectral")
    orders = {"heads": ("p / (n-2)", float(heads_shared(6, _P)))}
    counts = counted(faithful, "counts_shared_anchors", counts_shared_anchors(6, 2, 4), orders)
    line = _line(np.tile(_SHARED, (6, 1)), _SHIFTS, _P, tuple((0, h) for h in range(4)))
    return Instance((faithful, spectral), counts=counts, line=line)


def activations() -> Instance:
    """UA-13: the three activations of the same three models, 16 anchors each."""
    from weightwright.papers.linear.activations import clipped_relu, hard_tanh, relu

    nets = (relu(_W, _T, (-1, 1), p=_P), hard_tanh(_W, _T, (-1, 1), p=_P), clipped_relu(_W, _T, 0.5, (-1, 1), p=_P))
    names, one_head = ("ReLU", "hard tanh", "clipped ReLU"), {"heads": ("1", 1.0)}
    counts = tuple(
        count
        for name, net in zip(names, nets, strict=True)
        for count in counted(net, "counts_truncated_linear", counts_truncated_linear(3, 2, _P), one_head, name)
    )
    return Instance(nets, names, counts=counts)


def one_head_studies() -> tuple[Study, ...]:
    """UA-2: the error against p."""
    from weightwright.papers.linear.one_head import truncated_linear

    def faithful(p: float) -> AttentionNetwork:
        net: AttentionNetwork = truncated_linear(_W, _T, _A, _B, (-1, 1), p=int(p))
        return net

    def spectral(p: float) -> AttentionNetwork:
        net: AttentionNetwork = truncated_linear(_W, _T, _A, _B, (-1, 1), p=int(p), method="spectral")
        return net

    series = (sweep("faithful", faithful, (8, 16, 32, 64, 128), -1.0), sweep("spectral", spectral, (8, 16, 24, 32)))
    return Study("error against p", "p, anchors", series), _formats()


def _formats() -> Study:
    """The faithful head in three formats: beta grows as p^2, and rounding with it."""
    from weightwright.papers.linear.one_head import truncated_linear

    def build(p: float, dtype: str) -> AttentionNetwork:
        return truncated_linear(_W, _T, _A, _B, (-1, 1), p=int(p), dtype=dtype)

    cases = (("float64", (8, 16, 32, 64, 128)), ("float32", (8, 16, 32, 64, 128)), ("bfloat16", (8, 16)))
    series = tuple(sweep(dtype, partial(build, dtype=dtype), values, -1.0) for dtype, values in cases)
    return Study("error against p in three formats", "p, anchors", series)


def shared_anchors_studies() -> tuple[Study, ...]:
    """UA-3: the error against H, with six tokens."""
    from weightwright.papers.linear.shared_anchors import truncated_linear_heads

    def faithful(H: float) -> AttentionNetwork:
        net: AttentionNetwork = truncated_linear_heads(_SHARED, _SHIFTS, _A, _B, (-1, 1), H=int(H))
        return net

    def tokens(anchors: float) -> AttentionNetwork:
        return truncated_linear_heads(_SHARED, np.linspace(-0.2, 0.2, int(anchors) + 2), _A, _B, (-1, 1), H=2)

    heads = Study("error against H, six tokens", "H, heads", (sweep("faithful", faithful, (1, 2, 4, 8, 16), -1.0),))
    lengths = sweep("faithful", tokens, (2, 4, 8, 16, 32), -1.0)
    return heads, Study("error against n - 2, two heads", "n - 2, anchors of a head", (lengths,))


def _line(w: Floats, t: Floats, p: int, heads: tuple[tuple[int, int], ...] = ((0, 0),)) -> Line:
    """s = w_0 . x_0 + t_0 of the first token, along w_0; the other tokens are 0."""

    def at(s: Floats) -> Floats:
        X = np.zeros((len(s), *w.shape))
        X[:, 0] = ((s - t[0]) / (w[0] @ w[0]))[:, None] * w[0]
        return X

    anchors = tuple((_A + np.arange(p) * ((_B - _A) / p)).tolist())
    return Line(-1.5, 1.5, at, "s = w·x + t of token 0", anchors, {"a": _A, "b": _B}, heads=heads)
