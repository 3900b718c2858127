"""The interpreter's weights, all of them, as the checker expects them: whatever differs is refused.

The coordinates, in this order: one, x, codes (what a token asks with), hides (what hides it), offset and value of keys,
queries and values, their rows w of all heads, k, q and v of all heads, out.
"""

from __future__ import annotations

import numpy as np

from weightwright.checker.core.complaints import must, require
from weightwright.claims.program_claim import InterpreterClaim
from weightwright.limits import hold, tick
from weightwright.network import Attention, Head, Linear, Loop, Network, Sees, Term, TokenMap, token_map
from weightwright.numbers import Floats

#: An expected matrix, its comparison with the one that is there, and what the comparison makes of both.
_COPIES = 3


class ExpectedLayers:
    """Where everything stands, from the sizes alone."""

    def __init__(self, claim: InterpreterClaim) -> None:
        self.claim = claim
        T, d, h, m, g = claim.tokens, claim.features, claim.head_dim, claim.heads, claim.codes
        hold(_COPIES * max(claim.times, 1) * m * (2 * h + d) * (d + 1))  # where every weight stands
        self.rows = (h, h, d)  # of W_K, W_Q, W_V
        self.x = 1 + np.arange(d)
        self.codes = 1 + d + np.arange(g)
        self.hides = 1 + d + g + np.arange(g)
        start = 1 + d + 2 * g
        self.offsets, self.values = start + np.arange(3), start + 3 + np.arange(3)
        start += 6
        self.w: list[np.ndarray] = []  # (heads, rows, d) of each
        for rows in self.rows:
            self.w.append(start + np.arange(m * rows * d).reshape(m, rows, d))
            start += m * rows * d
        self.written: list[np.ndarray] = []  # (heads, rows) of each
        for rows in self.rows:
            self.written.append(start + np.arange(m * rows).reshape(m, rows))
            start += m * rows
        self.out = start + np.arange(d)
        self.width = start + d
        self.weights = 3 * m * d if claim.stacked else m * (2 * h + d) * d
        self.T = T
        waiting = max(claim.times - 1, 0)  # programs behind the first, carried through a pass
        self.waiting_w = self.width + np.arange(waiting * self.weights)
        self.waiting_hides = self.width + waiting * self.weights + np.arange(waiting * g)
        self.width += waiting * (self.weights + g)

    @property
    def prompt(self) -> int:
        """The numbers of a token: x, the weights of every program, codes, what hides it in every program."""
        times = max(self.claim.times, 1)
        return len(self.x) + times * self.weights + (1 + times) * len(self.codes)

    def agree(self, network: Network) -> None:
        """Refuse (CertificateError) a network that is not this one."""
        must(network.tokens == self.T and len(network.inputs) == self.prompt, "the prompt is of another size")
        must(len(network.registers) == 0, "the interpreter has no registers")
        if self.claim.times:
            self._agree_loop(network)
            return
        must(len(network.layers) == 2, "the interpreter has two layers")
        _same_map(network.embed, self._embed(), self.width, "embed")
        first, second = network.layers
        _same_heads(first, self._products(), self.width, "layer 0")
        _same_heads(second, self._attention(), self.width, "layer 1")
        read = np.zeros((self.width, len(self.out)))
        read[self.out, range(len(self.out))] = 1.0
        _same_map(network.read, ([Term(read)], np.zeros((1, len(self.out)))), len(self.out), "read")

    def _agree_loop(self, network: Network) -> None:
        """The state is the prompt: embedded as in a single pass, updated and moved on at its end."""
        d, P = len(self.x), self.prompt
        hold(_COPIES * P * P)
        _same_map(network.embed, ([Term(np.eye(P))], np.zeros((1, P))), P, "embed")
        loop = network.layers[0] if len(network.layers) == 1 else None
        must(isinstance(loop, Loop) and len(loop.layers) == 4 and loop.times == self.claim.times, "no loop of programs")
        assert isinstance(loop, Loop)
        start, first, second, end = loop.layers
        must(isinstance(start, Linear) and isinstance(end, Linear), "a pass begins and ends with a map")
        assert isinstance(start, Linear)
        assert isinstance(end, Linear)
        _same_map(start, self._embed(), self.width, "the start of a pass")
        _same_heads(first, self._products(), self.width, "layer 0")
        _same_heads(second, self._attention(), self.width, "layer 1")
        _same_map(end, ([Term(self._moved_on())], np.zeros((1, P))), P, "the end of a pass")
        read = np.zeros((P, d))
        read[range(d), range(d)] = 1.0
        _same_map(network.read, ([Term(read)], np.zeros((1, d))), d, "read")

    def _moved_on(self) -> Floats:
        """x and what the heads add to it; every program one place further; codes stay."""
        d, g, times = len(self.x), len(self.codes), self.claim.times
        hold(_COPIES * self.width * self.prompt)
        A = np.zeros((self.width, self.prompt))
        A[self.x, range(d)] = A[self.out, range(d)] = 1.0
        A[self.waiting_w, d + np.arange(len(self.waiting_w))] = 1.0
        first = d + times * self.weights
        A[self.codes, first + np.arange(g)] = 1.0
        A[self.waiting_hides, first + g + np.arange(len(self.waiting_hides))] = 1.0
        return A

    def _embed(self) -> tuple[list[Term], Floats]:
        d, g, claim = len(self.x), len(self.codes), self.claim
        hold(_COPIES * (self.prompt + self.T) * self.width)
        A, behind = np.zeros((self.prompt, self.width)), len(self.waiting_w)
        codes = d + self.weights + behind
        A[range(d), self.x] = 1.0
        A[d + self.weights + np.arange(behind), self.waiting_w] = 1.0
        A[codes + np.arange(g), self.codes] = 1.0
        A[codes + g + np.arange(g), self.hides] = 1.0
        A[codes + 2 * g + np.arange(len(self.waiting_hides)), self.waiting_hides] = 1.0
        terms, first = [Term(A)], d
        for part, table in enumerate(claim.tables):
            w, size = self.w[part], self.w[part].size
            if claim.stacked:
                for row in range(self.rows[part]):
                    places = first + np.arange(claim.heads * d)
                    terms.append(self._copies(places, w[:, row].ravel(), row, table.kappa))
                first += claim.heads * d
            else:
                terms.append(self._copies(first + np.arange(size), w.ravel(), 0, table.kappa))
                first += size
        C = np.zeros((self.T, self.width))
        C[:, 0] = 1.0
        for part, table in enumerate(claim.tables):
            p = len(table.kappa)
            C[:, self.offsets[part]] = claim.away
            C[:p, self.offsets[part]], C[:p, self.values[part]] = table.offsets, table.values
        return terms, C

    def _copies(self, inputs: np.ndarray, coordinates: np.ndarray, source: int, kappa: Floats) -> Term:
        """Numbers of one token, kappa_j times, on the first tokens."""
        hold(_COPIES * (self.prompt * self.width + self.T**2))
        A, R = np.zeros((self.prompt, self.width)), np.zeros((self.T, self.T))
        A[inputs, coordinates], R[: len(kappa), source] = 1.0, kappa
        return Term(A, token_map(R))

    def _products(self) -> list[Head]:
        heads = []
        for part, table in enumerate(self.claim.tables):
            for head, row in np.ndindex(self.claim.heads, self.rows[part]):
                d = len(self.x)
                hold(_COPIES * 2 * self.width * (d + 2))
                W_Q, W_K = np.zeros((2, self.width, d + 1))
                W_V, W_O = np.zeros((self.width, 1)), np.zeros((1, self.width))
                W_Q[self.x, range(d)] = W_Q[0, d] = 1.0
                W_K[self.w[part][head, row], range(d)] = W_K[self.offsets[part], d] = 1.0
                W_V[self.values[part], 0] = W_O[0, self.written[part][head, row]] = 1.0
                heads.append(Head("", W_Q, W_K, W_V, W_O, table.beta, Sees((0, 0), "all")))
        return heads

    def _attention(self) -> list[Head]:
        heads, h, g, d = [], self.claim.head_dim, len(self.codes), len(self.x)
        for head in range(self.claim.heads):
            k, q, v = (written[head] for written in self.written)
            hold(_COPIES * 2 * self.width * (h + g + d))
            W_Q, W_K = np.zeros((2, self.width, h + g))
            W_V, W_O = np.zeros((self.width, d)), np.zeros((d, self.width))
            W_Q[q, range(h)] = W_K[k, range(h)] = 1.0
            W_Q[self.codes, h + np.arange(g)] = W_K[self.hides, h + np.arange(g)] = 1.0
            W_V[v, range(d)] = W_O[range(d), self.out] = 1.0
            heads.append(Head("", W_Q, W_K, W_V, W_O, 1.0, Sees((0, 0), "all")))
        return heads


def _same_map(found: Linear, expected: tuple[list[Term], Floats], width: int, where: str) -> None:
    terms, C = expected
    require(len(found.coordinates) == width and len(found.terms) == len(terms), f"{where} is of another size")
    require(found.C.shape == C.shape and bool((found.C == C).all()), f"{where} adds other constants")
    for own, other in zip(found.terms, terms, strict=True):
        same = own.S is None and own.A.shape == other.A.shape and bool((own.A == other.A).all())
        require(same and _same_tokens(own.tokens, other.tokens, len(C)), f"{where} is another map")


def _same_tokens(found: TokenMap | None, expected: TokenMap | None, n: int) -> bool:
    if found is None or expected is None:
        return found is expected
    return type(found) is type(expected) and bool(np.array_equal(found.matrix(n), expected.matrix(n)))


def _same_heads(found: object, expected: list[Head], width: int, where: str) -> None:
    require(isinstance(found, Attention) and found.residual, f"{where} is no residual attention")
    assert isinstance(found, Attention)
    require(len(found.coordinates) == width and len(found.heads) == len(expected), f"{where} is of another size")
    for own, other in zip(found.heads, expected, strict=True):
        tick()
        plain = own.sees == other.sees and own.mask is None and own.window is None and own.beta == other.beta
        pairs = ((getattr(own, name), getattr(other, name)) for name in ("W_Q", "W_K", "W_V", "W_O"))
        require(plain and all(a.shape == b.shape and bool((a == b).all()) for a, b in pairs), f"{where}: another head")
