"""Attention as a fixed matrix on the tokens: X -> R X A for any real R, without masks.

Checks of arguments that several heads share.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weightwright.network import Attention, Head, Linear, Network, Sees, Term, selection
from weightwright.numbers import Floats


def finite_matrix(name: str, value: npt.ArrayLike) -> Floats:
    """The argument as a float64 matrix with at least one row and column, or ValueError."""
    matrix = np.asarray(value, dtype=np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"{name} must be a matrix with rows and columns, not of shape {matrix.shape}")
    for i, j in np.argwhere(~np.isfinite(matrix)):
        raise ValueError(f"{name}[{i}, {j}] must be finite, not {float(matrix[i, j])!r}")
    return matrix


def mix(R: npt.ArrayLike, A: npt.ArrayLike, role: str = "mix") -> Network:
    """The network X -> R X A, exact up to rounding: R (n, n) on the tokens, A (d_in, d_out) on the features.

    Source: universal approximation paper, Lemma I.1 (UA-9). There tokens are columns: its B is R^T, its A is A^T.
    A head whose scores are ln of positive numbers P_ij, and ln(D - sum_j P_ij) for one padding register of value
    0, has the weights P_ij / D: every row has the same denominator D, which W_O multiplies back.
    Deviations:
    - R needs no positive entries: R = scale (P - N), P = R+/scale + c, N = R-/scale + c, one head each (errata
      UA-10), with scale = max |R_ij| and c = 1/n. The two c cancel, and cost no more than one entry of 1 per row.
    - D = 2 M with M the largest row sum of P and N, not 3 M: no one reads what the register receives, so D > M is
      enough; 2 M leaves the padding at least half of the weight. Scores are ln(P/D), in [-ln(2 n (n+1)), 0].

    Shapes: X (n, d_in) -> (n, d_out). Any finite R and A; the number of tokens n is fixed.
    Error: rounding only, in units of (largest row sum of |R|) (largest entry of |X| |A|).
    The stream: x[.] the input, pos[.] a one-hot position code, padding (1 on the register), out[.] 0 at first.
    Cost: 1 layer, 2 heads with queries of size n, 1 register, width d_in + n + 1 + d_out, largest weight at most
    max(2 (n+1) max |R|, max |A|, ln(2 n (n+1)), 1).

    >>> from weightwright.runtime import interpret
    >>> network = mix([[1, -2], [0, 3]], [[1], [10]])
    >>> interpret(network, np.array([[1.0, 2.0], [3.0, 4.0]])).round(12).tolist(), network.native
    ([[-65.0], [129.0]], True)
    """
    R, A = finite_matrix("R", R), finite_matrix("A", A)
    n, (d_in, d_out) = len(R), A.shape
    if R.shape != (n, n):
        raise ValueError(f"R must be square, not of shape {R.shape}")
    scale = float(np.abs(R).max()) or 1.0
    P, N = np.maximum(R, 0) / scale + 1 / n, np.maximum(-R, 0) / scale + 1 / n
    D = 2 * max(float(part.sum(axis=1).max()) for part in (P, N))

    x, out = tuple(f"x[{c}]" for c in range(d_in)), tuple(f"out[{c}]" for c in range(d_out))
    names = (*x, *(f"pos[{i}]" for i in range(n)), "padding", *out)
    C, embedding = np.zeros((n, len(names))), np.eye(d_in, len(names))
    C[:, d_in : d_in + n] = np.eye(n)
    register = np.zeros((1, len(names)))
    register[0, d_in + n] = 1.0
    heads = (_head(f"{role}, plus", P / D, A, D * scale), _head(f"{role}, minus", N / D, A, -D * scale))
    return Network(
        inputs=x,
        embed=Linear(names, (Term(embedding),), C),
        registers=register,
        layers=(Attention(names, heads),),
        read=selection(names, out),
        tokens=n,
    )


def _head(role: str, weights: Floats, A: Floats, factor: float) -> Head:
    """The head with these weights on the data tokens, the rest on the padding; values X A, times the factor."""
    n, (d_in, d_out) = len(weights), A.shape
    width = d_in + n + 1 + d_out
    pos = slice(d_in, d_in + n)
    W_Q, W_K = np.zeros((width, n)), np.zeros((width, n))
    W_Q[pos] = np.eye(n)
    W_K[pos], W_K[d_in + n] = np.log(weights).T, np.log(1 - weights.sum(axis=1))
    W_V, W_O = np.zeros((width, d_out)), np.zeros((d_out, width))
    W_V[:d_in], W_O[:, -d_out:] = A, factor * np.eye(d_out)
    return Head(role, W_Q, W_K, W_V, W_O, sees=Sees(registers=(0, 1), data="all"))
