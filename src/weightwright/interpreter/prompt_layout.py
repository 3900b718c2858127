"""Where a program stands in a prompt: its weights, and who is hidden from whom."""

from __future__ import annotations

import numpy as np

from weightwright.interpreter.frozen_module import Sizes
from weightwright.interpreter.programs import Program
from weightwright.numbers import Bools, Floats


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
