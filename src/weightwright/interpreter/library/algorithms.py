"""An algorithm: a program with what it is to compute, and how far its head is from that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from weightwright.errors import DomainError
from weightwright.interpreter.programs import Program
from weightwright.interpreter.virtual_machine import Interpreter
from weightwright.numbers import UNIT, Floats
from weightwright.runtime.weights import dtype_name

#: How an error is known. checked: by the checker, from the certificate of the network that a table was taken from.
#: derived: by the formula in the docstring. measured: on a grid, no bound.
How = Literal["checked", "derived", "measured"]
#: Roundings of an entry of a program on its way into the prompt's dtype, in units of the last place: scaled, shared out
#: among rows of W_Q and W_K, rounded.
ROUNDINGS = 8
#: The share of a bound that programs use: what comes back from a run and goes in again may be a little larger.
ROOM = 1 - 2.0**-20


@dataclass(frozen=True, eq=False, repr=False)
class Algorithm(Program):
    """A program and its plain version: `run` is within `error` of `plain` where the function that made it says, so the
    module's output is within that and the module's own bound."""

    plain: Callable[[Floats], Floats] = np.asarray  # data (..., n, d) to outputs (..., n, d)
    error: float = 0.0
    how: How = "derived"


def state(vm: Interpreter, program: Program, plain: Callable[[Floats], Floats], error: float, how: How) -> Algorithm:
    """A program with its plain version; the error grows by what the program's own numbers round."""
    held = {field.name: getattr(program, field.name) for field in fields(Program)}
    return Algorithm(**held, plain=plain, error=error + rounding(vm, program), how=how)


def rounding(vm: Interpreter, program: Program) -> float:
    """Scores that are off by t change a softmax by e^(2t) - 1 at most, and values by their own share."""
    u, x_max, total = ROUNDINGS * UNIT[dtype_name(vm.net.dtype)], vm.bounds["x_max"], 0.0
    for W_Q, W_K, W_V in zip(program.W_Q, program.W_K, program.W_V, strict=True):
        q, k, v = (
            np.minimum(np.abs(W).sum(axis=-1) * x_max, vm.bounds[name])
            for W, name in ((W_Q, "q_max"), (W_K, "k_max"), (W_V, "v_max"))
        )
        total += float(v.max(initial=0.0)) * (math.expm1(2 * u * float(q @ k)) + u)
    return total


@dataclass(frozen=True)
class Part:
    """A part of a score: a linear function of the token that asks, times a number of each row.

    of: its weights (features,). reach: the largest it gets. rows: (r,), what it is multiplied by.
    """

    of: Floats
    reach: float
    rows: Floats


@dataclass(frozen=True)
class Scores:
    """W_Q, W_K and what the rows hold in their first features, one for each part."""

    W_Q: Floats
    W_K: Floats
    held: Floats  # (r, parts)


def encode_scores(vm: Interpreter, parts: Sequence[Part], what: str) -> Scores:
    """Share scores out among the entries of queries and keys, as many as each part needs to stay within the bounds."""
    if len(parts) > vm.features:
        raise ValueError(f"{what} takes {len(parts)} features of a row, and the interpreter has features={vm.features}")
    counts = [_copies(vm, part) for part in parts]
    if sum(counts) > vm.head_dim:
        raise DomainError(
            f"{what} takes queries and keys of size {sum(counts)}, and the interpreter was built for"
            f" head_dim={vm.head_dim}; smaller scores or larger w_max, q_max and k_max help as well"
        )
    W_Q, W_K = np.zeros((2, vm.head_dim, vm.features))
    held, r = np.zeros((len(parts[0].rows), len(parts))), 0
    for i, (part, count) in enumerate(zip(parts, counts, strict=True)):
        if count == 0:
            continue
        size, x_max = float(np.abs(part.rows).max()), vm.bounds["x_max"]
        factor = _query_factor(vm, part)
        W_Q[r : r + count] = factor * part.of
        W_K[r : r + count, i] = size / (count * factor * x_max)
        held[:, i] = part.rows / size * x_max
        r += count
    return Scores(W_Q, W_K, held)


def entries_needed(vm: Interpreter, parts: Sequence[Part]) -> int:
    """Of queries and keys, for scores of these parts."""
    return sum(_copies(vm, part) for part in parts)


def largest_beta(vm: Interpreter, parts: Callable[[float], Sequence[Part]], most: float = 2.0**20) -> float:
    """The largest factor whose scores still fit, up to a millionth; 0 where none does."""

    def fits(beta: float) -> bool:
        return entries_needed(vm, parts(beta)) <= vm.head_dim

    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * (1 - 1e-6)


def _query_factor(vm: Interpreter, part: Part) -> float:
    """With a little room: products are looked at with their roundings, and on rows as well, which hold up to x_max."""
    size, x_max = np.abs(part.of), vm.bounds["x_max"]
    reach = max(part.reach, float(size.sum()) * x_max)
    return ROOM * min(vm.bounds["w_max"] / float(size.max()), vm.bounds["q_max"] / reach)


def _copies(vm: Interpreter, part: Part) -> int:
    size = float(np.abs(part.rows).max(initial=0.0))
    room = ROOM * min(vm.bounds["w_max"] * vm.bounds["x_max"], vm.bounds["k_max"])
    return math.ceil(size / (_query_factor(vm, part) * room))


def data_tokens(vm: Interpreter, tokens: int | None, rows: int = 0) -> int:
    """How many data tokens a program is for: as asked, or as many as there is room for beside its rows."""
    return tokens or max(1, min(vm.tokens, vm.sizes.tokens - rows))


def unit(vm: Interpreter, feature: int) -> Floats:
    """The linear function that is one feature; -1 is the last, which is 1 on data tokens where a program says so."""
    return np.eye(vm.features)[feature]
