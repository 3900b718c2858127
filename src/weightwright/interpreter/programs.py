"""A program: the weights of attention heads, constant rows that go into the prompt with them, and who sees whom; and
where all that stands in a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weightwright.interpreter.frozen_module import Sizes
from weightwright.numbers import Bools, Floats


@dataclass(frozen=True, eq=False)
class Program:
    """What an interpreter runs. Shapes: m heads, d features, h the size of queries and keys, r rows, n data tokens.

    The plain head, for a token i: the sum over the heads of sum_j softmax_j(W_Q x_i . W_K x_j) W_V x_j, j going over
    the tokens that it sees, rows before data. `beta` is in W_Q and `W_O` in W_V already.

    name: what messages call it.
    """

    W_Q: Floats  # (m, h, d)
    W_K: Floats  # (m, h, d)
    W_V: Floats  # (m, d, d)
    rows: Floats  # (r, d)
    sees: Bools | None = None  # (n, r + n), or (r + n, r + n); None where data tokens see all rows and data tokens
    name: str = "program"

    def __repr__(self) -> str:
        m, h, d = self.W_Q.shape
        return f"Program({self.name}: {m} heads of size {h}, {d} features, {len(self.rows)} rows)"

    def visible(self, n: int) -> Bools:
        """(r + n, r + n): which tokens each one sees. Rows see rows, and nobody reads what they make of it.

        n: the number of data tokens.
        """
        r = len(self.rows)
        found = np.ones((r + n, r + n), dtype=bool)
        found[:r, r:] = r == 0
        if self.sees is not None:
            found[r + n - len(self.sees) :] = self.sees
        return found

    def run(self, x: Floats) -> Floats:
        """The plain heads in float64, (..., n, d): what the interpreter is compared with.

        x: (..., n, d), the data.
        """
        return self.on_all(self.with_rows(x))[..., len(self.rows) :, :]

    def with_rows(self, x: Floats) -> Floats:
        """(..., r + n, d): rows before the data.

        x: (..., n, d), the data.
        """
        x = np.asarray(x, dtype=np.float64)
        return np.concatenate([np.broadcast_to(self.rows, (*x.shape[:-2], *self.rows.shape)), x], axis=-2)

    def on_all(self, X: Floats) -> Floats:
        """The plain heads on rows and data, (..., r + n, d).

        X: (..., r + n, d), as `with_rows` makes it.
        """
        total, seen = np.zeros(X.shape), self.visible(X.shape[-2] - len(self.rows))
        for W_Q, W_K, W_V in zip(self.W_Q, self.W_K, self.W_V, strict=True):
            scores = np.where(seen, (X @ W_Q.T) @ np.swapaxes(X @ W_K.T, -1, -2), -np.inf)
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            total = total + weights / weights.sum(axis=-1, keepdims=True) @ (X @ W_V.T)
        return total


def run_in_turn(programs: Sequence[Program], x: Floats) -> Floats:
    """The plain heads of one program after the other, each added to what it was given, rows too.

    programs: what runs, in this order; they share their rows.
    x: (..., n, d), the data.
    """
    X = programs[0].with_rows(x)
    for program in programs:
        X = X + program.on_all(X)
    return X[..., len(programs[0].rows) :, :]


def weights_in_prompt(program: Program, sizes: Sizes) -> Floats:
    """(tokens that hold some, numbers of each): heads that a program does not have are 0."""
    missing = sizes.heads - len(program.W_Q)
    padded = [np.concatenate([W, np.zeros((missing, *W.shape[1:]))]) for W in (program.W_K, program.W_Q, program.W_V)]
    if not sizes.stacked:
        return np.concatenate([W.ravel() for W in padded])[None]
    most = max(W.shape[1] for W in padded)
    even = [np.pad(W, ((0, 0), (0, most - W.shape[1]), (0, 0))) for W in padded]  # (heads, most, features)
    return np.concatenate([W.transpose(1, 0, 2).reshape(most, -1) for W in even], axis=1)


def hidden_tokens(program: Program, n: int, sizes: Sizes) -> Bools:
    """(tokens of a prompt, codes): whether a token is hidden from the one that asks with a code."""
    T, used = sizes.tokens, len(program.rows) + n
    visible = np.zeros((T, T), dtype=bool)
    visible[:used, :used] = program.visible(n)
    visible[used:, :used] = True  # nobody reads what padding makes of it
    return ~visible.T
