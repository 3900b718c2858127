"""UA-7: a function from sequences to sequences, one lookup for each entry of the output."""

from __future__ import annotations

from collections.abc import Sequence

from weightwright.constructions.about import Method
from weightwright.constructions.grid_target import Function, sequence_target
from weightwright.constructions.grids import Asked
from weightwright.constructions.scalar_lookup import MAX_HEADS, by_method, counts_by_heads
from weightwright.runtime import AttentionNetwork


def sequence_to_sequence(
    f: Function | Sequence[str],
    n: int,
    d: int,
    *,
    B: float = 1.0,
    tol: float | None = None,
    g: int | None = None,
    delta: float | None = None,
    p: int | None = None,
    beta: float | None = None,
    norm: float = 1.0,
    lipschitz: float | None = None,
    max_heads: int = MAX_HEADS,
    method: Method = "faithful",
) -> AttentionNetwork:
    """Two attention layers within `bound` of f: [-B, B]^(n x d) -> R^(n x d), in L_p over all entries.

    Statement: for a continuous f and any tolerance there are two multi-head layers, with linear maps around them, that
    are within it. The bumps do not depend on f: the first layer is that of `sequence_to_scalar`; the second has n d
    heads, each with the scores beta R_v and the values f_ij(v) of one entry.

    Source: universal approximation paper, Theorem 3.14, (G.56) to (G.58) (UA-7). Deviations: those of
    `sequence_to_scalar`; (G.57) multiplies by the all-ones vector too (errata UA-7).

    f: n d formulas in x0, x1, ..., token by token; a function of so many numbers that returns so many; or one of arrays
    (count, n, d) -> (count, n, d), with `lipschitz` for every entry. The norm is that of all entries together,
    (integral of the sum of |error_ij|^p)^(1/p). Other arguments, hypotheses and error terms: `sequence_to_scalar`.

    Shapes: X (n, d) -> (n, d).
    Cost: 2 layers, 2 d g^(nd) + n d heads, p + g^(nd) registers, width d + n + g^(nd) + 3 + 2 n d.

    >>> net = sequence_to_sequence(["max(x0, x1)", "min(x0, x1)"], n=2, d=1, g=4)
    >>> net.certificate.status, f"{net.certificate.bound:.3f}"
    ('PROVEN', '3.113')
    """
    asked = Asked(n, d, B, tol, g, delta, norm, lipschitz)
    target = sequence_target(f, n, d)
    return by_method("UA-7", method, asked, target, p, beta, max_heads, second_layer=True, sequence=True)


def sequence_to_sequence_softmax(
    f: Function | Sequence[str],
    n: int,
    d: int,
    *,
    B: float = 1.0,
    tol: float | None = None,
    g: int | None = None,
    delta: float | None = None,
    p: int | None = None,
    beta: float | None = None,
    norm: float = 1.0,
    lipschitz: float | None = None,
    max_heads: int = MAX_HEADS,
    method: Method = "faithful",
) -> AttentionNetwork:
    """The same with one attention layer, a softmax over the bumps and a linear map with the values f_ij(v).

    Source: universal approximation paper, Corollary 3.15 (UA-7). Deviations and arguments: `sequence_to_sequence`.
    Cost: 1 layer, 2 d g^(nd) heads, p registers, width d + n + g^(nd) + 3.

    >>> net = sequence_to_sequence_softmax(["max(x0, x1)", "min(x0, x1)"], n=2, d=1, g=4)
    >>> net.certificate.status, f"{net.certificate.bound:.3f}"
    ('PROVEN', '3.113')
    """
    asked = Asked(n, d, B, tol, g, delta, norm, lipschitz)
    target = sequence_target(f, n, d)
    return by_method("UA-7", method, asked, target, p, beta, max_heads, second_layer=False, sequence=True)


def counts_sequence_to_sequence(n: int, d: int, g: int, p: int) -> dict[str, int]:
    """Exact counts of the two layers as stored, as `cost` counts them (UA-14)."""
    return counts_by_heads(n, d, g, p, second_layer=True, sequence=True)


def counts_sequence_to_sequence_softmax(n: int, d: int, g: int, p: int) -> dict[str, int]:
    """The same for one layer and a softmax."""
    return counts_by_heads(n, d, g, p, second_layer=False, sequence=True)
