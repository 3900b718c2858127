"""A head that copies: token i receives the features of token source[i]."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from weightwright.network import Attention, Head, Linear, Network, Sees, Term, selection

#: How far above the others the copied token scores: e^-1024 is 0 in float64, whose least number is e^-744.4.
GAP = 1024.0


def copy(source: Sequence[int], d: int, role: str = "copy") -> Network:
    """The network that gives token i the d features of token source[i], bit by bit in float64.

    Source: the position-gated copy head of errata UA-10 (universal approximation paper, Lemma F.1, unique largest
    entry). The score of token j for query i is GAP if j = source[i], else 0.
    Error: in exact arithmetic each feature is off by at most (n-1) e^-1024 times its spread over the tokens
    (Lemma F.1); in float64 the other weights underflow to 0, so finite features are copied exactly (-0 as 0).

    Shapes: X (n, d) -> (n, d), n = len(source) fixed. The stream: x[.] the input, pos[.] a one-hot position
    code, out[.] the copy, 0 at first.
    Cost: 1 layer, 1 head with queries of size n, no registers, width 2 d + n, largest weight 1, beta 1024.

    >>> from weightwright.runtime import interpret
    >>> network = copy([2, 0, 0], d=1)
    >>> interpret(network, np.array([[0.1], [0.2], [0.3]])).tolist(), network.native
    ([[0.3], [0.1], [0.1]], True)
    """
    n, rows = len(source), [_index(f"source[{i}]", j, len(source)) for i, j in enumerate(source)]
    if n == 0:
        raise ValueError(f"source must name a token for each token, not {source!r}")
    if not isinstance(d, int) or d < 1:
        raise ValueError(f"d must be a whole number >= 1, not {d!r}")

    x, out = tuple(f"x[{c}]" for c in range(d)), tuple(f"out[{c}]" for c in range(d))
    names = (*x, *(f"pos[{i}]" for i in range(n)), *out)
    pos = slice(d, d + n)
    C = np.zeros((n, len(names)))
    C[:, pos] = np.eye(n)
    W_Q, W_K = np.zeros((len(names), n)), np.zeros((len(names), n))
    W_Q[pos], W_K[pos] = np.eye(n)[rows], np.eye(n)
    W_V, W_O = np.zeros((len(names), d)), np.zeros((d, len(names)))
    W_V[:d], W_O[:, -d:] = np.eye(d), np.eye(d)
    head = Head(role, W_Q, W_K, W_V, W_O, GAP, Sees(data="all"))
    return Network(
        inputs=x,
        embed=Linear(names, (Term(np.eye(d, len(names))),), C),
        registers=np.zeros((0, len(names))),
        layers=(Attention(names, (head,)),),
        read=selection(names, out),
        tokens=n,
    )


def _index(name: str, value: int, n: int) -> int:
    try:
        index = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, not {value!r}") from None
    if not 0 <= index < n:
        raise ValueError(f"{name} must be one of the {n} tokens 0 to {n - 1}, not {index}")
    return index
