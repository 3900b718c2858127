"""What a stored grid network computes, read off its weights exactly. Whatever is built otherwise is refused.

Every array is compared, entry by entry, with what the structure demands; free are the slope of the ramps, their
shifts, the anchors of the bump heads, the betas and the values. Cells are numbered row by row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb

from weightwright.checker.core.complaints import must
from weightwright.checker.core.rounding import StoredHead
from weightwright.claims.certificate import LARGEST_KEY
from weightwright.limits import count_boxes, hold
from weightwright.network import Attention, FeedForward, Head, Linear, Network, Sees, Softmax, TokenMap
from weightwright.network.token_maps import pick, place, total
from weightwright.numbers import Floats
from weightwright.papers.claims.cell_grid import GridClaim

#: A bump head sees its registers only; the rule "nearest" counts hidden keys all the same, with this score.
UNSEEN = -(2.0**20)


@dataclass(frozen=True)
class StoredGrid:
    """Ramps clip(sign slope x + shifts[sign, k], 0, 1) of every number, and the values that the cells are given."""

    slope: float
    shifts: Floats  # (2, g), or (2, 2, g) for "bumps", whose second row is meant to be 1 less
    values: Floats  # (outputs, G)
    head: StoredHead | None = None  # the bump heads, all alike but for their query
    beta: float = 1.0  # of what picks the largest bump
    bump_beta: float = 1.0  # of the bump heads; it is multiplied with the query before the keys are


def read_grid(network: Network, claim: GridClaim) -> StoredGrid:
    """The network as the structure of its kind, or a refusal."""
    n, d = claim.tokens, claim.features
    must(network.dtype == "float64", f"grids are for float64, not {network.dtype}")
    must(network.tokens == n and len(network.inputs) == d, f"{n} tokens of {d} features were expected")
    if claim.kind == "bumps":
        return _bumps(network, claim)
    must(claim.kind in ("lookup", "softmax"), f"a grid of kind {claim.kind!r}")
    return _attention(network, claim)


def _equal(stored: Floats | None, demanded: npt.ArrayLike, what: str) -> None:
    wanted = np.asarray(demanded)
    same = stored is not None and stored.shape == wanted.shape and bool((stored == wanted).all())
    must(same, f"{what} is not what the structure demands")


def _indices(claim: GridClaim) -> npt.NDArray[np.intp]:
    """(G, N): where along each number a cell stands."""
    count_boxes(claim.g ** (claim.tokens * claim.features))
    N = claim.tokens * claim.features
    return np.stack(np.unravel_index(np.arange(claim.g**N), (claim.g,) * N), axis=1)


def _one_term(linear: object, A: npt.ArrayLike, tokens: TokenMap | None, C: npt.ArrayLike, what: str) -> None:
    must(isinstance(linear, Linear) and len(linear.terms) == 1, f"{what} must be one term")
    assert isinstance(linear, Linear)
    term = linear.terms[0]
    must(term.S is None and term.tokens == tokens, f"{what}: a scale, or another map on the tokens")
    _equal(term.A, A, f"{what}, A")
    _equal(linear.C, C, f"{what}, C")


def _bumps(network: Network, claim: GridClaim) -> StoredGrid:
    n, d, g = claim.tokens, claim.features, claim.g
    N = n * d
    G = g**N
    hold(N * N * g * 4 + 4 * N * g * N * g + N * g * G)
    _flattens(network.embed, n, d)
    must(len(network.layers) == 2 and len(claim.formulas) == 1, "two feed-forward layers and one output were expected")
    first, second = network.layers
    must(
        type(first) is FeedForward and type(second) is FeedForward and not (first.residual or second.residual),
        "two feed-forward layers without residuals were expected",
    )
    assert isinstance(first, FeedForward)
    assert isinstance(second, FeedForward)
    must(first.W_1.shape == (N, 4 * N * g) and first.b_1.shape == (1, 4 * N * g), "4 N g ramp units were expected")
    slope = float(first.W_1[0, 0])
    ramps = np.zeros((N, N, g, 4))
    ramps[range(N), range(N)] = slope * np.array([1.0, 1.0, -1.0, -1.0])
    _equal(first.W_1, ramps.reshape(N, -1), "the slopes of the ramps")
    starts = first.b_1.reshape(N, g, 4)
    _equal(starts, np.broadcast_to(starts[0], starts.shape), "the shifts of the ramps")
    signs = np.zeros((N * g, 4, N * g))
    signs[range(N * g), :, range(N * g)] = [1.0, -1.0, 1.0, -1.0]
    _equal(first.W_2, signs.reshape(4 * N * g, N * g), "the sum of the ramps")
    _equal(first.b_2, np.full((1, N * g), -1.0), "what is taken off the ramps")
    which = np.zeros((N * g, G))
    for i, along in enumerate(_indices(claim).T):
        which[i * g + along, np.arange(G)] = 1.0
    _equal(second.W_1, which, "the numbers of a cell")
    _equal(second.b_1, np.full((1, G), 1.0 - N), "what is taken off a bump")
    must(second.W_2.shape == (G, 1), "one output was expected")
    _equal(second.b_2, np.zeros((1, 1)), "what is added to the output")
    _one_term(network.read, np.ones((1, 1)), None, np.zeros((1, 1)), "read")
    return StoredGrid(slope, starts[0].T.reshape(2, 2, g), second.W_2.T)


def _flattens(linear: Linear, n: int, d: int) -> None:
    must(len(linear.terms) == n, "embed must place every token's features")
    _equal(linear.C, np.zeros((1, n * d)), "embed, C")
    for i, term in enumerate(linear.terms):
        must(term.S is None and term.tokens == pick(i), "embed must place every token's features")
        _equal(term.A, np.eye(n * d)[i * d : (i + 1) * d], "embed, A")


def _attention(network: Network, claim: GridClaim) -> StoredGrid:
    """x, at, key, offset, value, bump and, for a second layer, f and out, in this order."""
    n, d, G, K = claim.tokens, claim.features, claim.g ** (claim.tokens * claim.features), len(claim.formulas)
    again = claim.kind == "lookup"
    names, at, start = network.embed.coordinates, d + n, d + n + 3
    D = start + G + (2 * K if again else 0)
    must(len(names) == D and len(network.layers) == 3, f"{D} coordinates and three layers were expected")
    hold(D * D + len(network.registers) * D)
    position = np.zeros((n, D))
    position[:, d:at] = np.eye(n)
    _one_term(network.embed, np.eye(d, D), None, position, "embed")
    first, gather, last = network.layers
    must(isinstance(first, Attention) and first.residual, "the first layer must be a residual one of bump heads")
    assert isinstance(first, Attention)
    p = len(network.registers) - (G if again else 0)
    must(p > 0, "there are no anchors")
    anchors = network.registers[:p, at:start]
    expected = np.zeros_like(network.registers)
    expected[:p, at:start] = anchors
    keep = np.zeros((D, D if again else G))
    keep[start : start + G, start * again : start * again + G] = np.eye(G)
    if again:
        must(isinstance(last, Attention) and last.residual and len(last.heads) == K, "the last layer must look up")
        assert isinstance(last, Attention)
        values = network.registers[p:, start + G : start + G + K].T
        expected[p:, start : start + G], expected[p:, start + G : start + G + K] = np.eye(G), values.T
        betas = {_picks(head, k, K, p, G, start, D) for k, head in enumerate(last.heads)}
        read = np.eye(D)[:, D - K :]
    else:
        must(isinstance(last, Softmax) and last.over == "features", "the last layer must be a softmax over features")
        assert isinstance(last, Softmax)
        betas, values = {last.beta}, _read_values(network.read, G, K, n, d)
        read = values.T
    _equal(network.registers, expected, "a register")
    _one_term(gather, keep, total(n, 1), np.zeros((1, keep.shape[1])), "the sum over the tokens")
    _reads(network.read, read, n, d)
    must(len(betas) == 1 and _power_of_two(min(betas)), f"beta must be one power of two, not {sorted(betas)}")
    slope, shifts, beta = _bump_heads(first.heads, claim, p, at, start, D)
    must(float(np.abs(anchors).max()) <= LARGEST_KEY, "a key is too large")
    scale, none = arb(beta), [arb(0)] * p
    keys, offsets, held = (list(map(arb, column)) for column in anchors.T.tolist())
    head = StoredHead(
        [scale * k for k in keys], [scale * c for c in offsets], held, none, True, (arb(0), arb(0)),
        arb(UNSEEN), arb(1), network.dtype,
    )  # fmt: skip
    return StoredGrid(slope, shifts, values, head, min(betas), beta)


def _bump_heads(
    heads: tuple[Head, ...], claim: GridClaim, p: int, at: int, start: int, D: int
) -> tuple[float, Floats, float]:
    """(slope, shifts, beta): the heads in the order of cells, features and signs, all alike but for this."""
    n, d, g = claim.tokens, claim.features, claim.g
    along = _indices(claim).reshape(-1, n, d)
    G = len(along)
    must(len(heads) == 2 * d * G, f"{2 * d * G} bump heads were expected, not {len(heads)}")
    plain = all(head.mask is None and head.window is None and head.sees == Sees((0, p), "none") for head in heads)
    must(plain, "a bump head sees the anchors and nothing else")
    must(len({head.beta for head in heads}) == 1, "the bump heads must share their beta")
    beta = heads[0].beta
    must(_power_of_two(beta), f"beta = {beta!r} must be a power of two")
    must(all(head.W_Q.shape == (D, 2) and head.W_O.shape == (1, D) for head in heads), "a bump head's shape")
    W_K, W_V = np.zeros((D, 2)), np.zeros((D, 1))
    W_K[at, 0], W_K[at + 1, 1], W_V[at + 2, 0] = 1.0, 1.0, 1.0
    for head in heads:
        _equal(head.W_K, W_K, "a bump head's W_K")
        _equal(head.W_V, W_V, "a bump head's W_V")
    hold(2 * len(heads) * D * 2)
    W_Q = np.stack([head.W_Q for head in heads]).reshape(G, d, 2, D, 2)
    slope = float(W_Q[0, 0, 0, 0, 0])
    shifts = np.zeros((2, g))
    shifts[:, along[:, 0, 0]] = W_Q[:, 0, :, d, 0].T  # one cell for each; all the others are compared below
    expected = np.zeros_like(W_Q)
    expected[:, :, :, d:at, 1] = 1.0
    for c in range(d):
        for r, sign in enumerate((1.0, -1.0)):
            expected[:, c, r, c, 0] = sign * slope
            expected[:, c, r, d:at, 0] = shifts[r, along[:, :, c]]
    _equal(W_Q, expected, "a bump head's W_Q")
    hold(2 * len(heads) * D)
    W_O = np.stack([head.W_O[0] for head in heads]).reshape(G, 2 * d, D)
    written = np.zeros_like(W_O)
    written[range(G), :, range(start, start + G)] = 1.0
    _equal(W_O, written, "a bump head's W_O")
    return slope, shifts, beta


def _picks(head: Head, k: int, K: int, p: int, G: int, start: int, D: int) -> float:
    """beta of a head whose scores are beta times the bumps and whose values are those of output k."""
    must(head.mask is None and head.window is None and head.sees == Sees((p, p + G), "none"), "the last layer's keys")
    hold(D * G)
    one_hot = np.zeros((D, G))
    one_hot[start : start + G] = np.eye(G)
    _equal(head.W_Q, one_hot, "the last layer's W_Q")
    _equal(head.W_K, one_hot, "the last layer's W_K")
    _equal(head.W_V, np.eye(D)[:, start + G + k : start + G + k + 1], "the last layer's W_V")
    _equal(head.W_O, np.eye(D)[start + G + K + k :][:1], "the last layer's W_O")
    return head.beta


def _read_values(read: Linear, G: int, K: int, n: int, d: int) -> Floats:
    """(outputs, G), as they stand in the features of read."""
    must(all(term.A.shape[0] == G for term in read.terms) and len(read.terms) > 0, "read must take every bump")
    values = np.concatenate([term.A for term in read.terms], axis=1).T
    must(len(values) == K, f"{K} outputs were expected")
    return np.ascontiguousarray(values)


def _reads(read: Linear, weights: Floats, n: int, d: int) -> None:
    """One output; or n d of them, which go back to n tokens of d features."""
    K = weights.shape[1]
    if len(read.terms) == 1 and read.terms[0].tokens is None:
        must(K == 1, "one output was expected")
        _one_term(read, weights, None, np.zeros((1, 1)), "read")
        return
    must(n * d == K and len(read.terms) == n, f"{n} tokens of {d} outputs were expected")
    _equal(read.C, np.zeros((1, d)), "read, C")
    for i, term in enumerate(read.terms):
        must(term.S is None and term.tokens == place(i, n), "read must place every output")
        _equal(term.A, weights[:, i * d : (i + 1) * d], "read, A")


def _power_of_two(x: float) -> bool:
    return math.isfinite(x) and x > 0 and math.frexp(x)[0] == 0.5
