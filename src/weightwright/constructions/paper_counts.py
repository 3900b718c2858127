"""The paper's own counts of heads and parameters (UA-14), as numbers to set beside what was built.

Source: universal approximation paper, Remark E.1; where it gives an order, the constant is taken as 1.
d features, n tokens, g grid points along each axis, N hidden units, p anchors.
"""

from __future__ import annotations


def heads_to_scalar(d: int, n: int, g: int) -> int:
    """2 d g^(dn) + 1: two heads for each feature and grid point, and one that looks the value up.

    >>> heads_to_scalar(1, 2, 4)
    33
    """
    return int(2 * d * g ** (d * n) + 1)


def heads_to_sequence(d: int, n: int, g: int) -> int:
    """2 d g^(dn) + d n: the same first layer, and a lookup for each entry of the output."""
    return int(2 * d * g ** (d * n) + d * n)


def parameters_of_grids(d: int, n: int, g: int) -> int:
    """O(d n g^(2dn) + (dn)²), mostly the maps on the token axis of the first layer."""
    return int(d * n * g ** (2 * d * n) + (d * n) ** 2)


def heads_native(N: int) -> int:
    """O(N) for UA-10."""
    return N


def parameters_native(n: int, N: int, d: int) -> int:
    """O(N (d² + d n) + n² N²) for UA-10, first and third layer."""
    return N * (d**2 + d * n) + n**2 * N**2


def heads_shared(n: int, p: int) -> int:
    """H = p / (n-2) heads for UA-3, rounded up (Theorem 3.9)."""
    return -(-p // (n - 2))


def stream_of_one_head(d: int, outputs: int, p: int) -> int:
    """Numbers in what UA-2's linear map makes of the input: 2 d + outputs + 2 rows for each of p tokens."""
    return (2 * d + outputs + 2) * p
