"""How many patterns a Hopfield memory holds, and how many updates it takes: measured on random patterns.

Patterns are random directions of length sqrt(dim). What is found here is measured; bounds are `recall_bound`'s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from weightwright.memory.hopfield import Hopfield
from weightwright.numbers import Floats

#: A pattern counts as retrieved if the result is nearer than this share of its length.
NEAR = 0.1
#: Largest number of memories that are drawn for each number of patterns.
_MEMORIES = 64
#: Number of patterns in all memories together, at most, where each has many.
_PATTERNS = 2**14


@dataclass(frozen=True)
class Capacity:
    """The share of queries that are retrieved in one step, for each number of stored patterns."""

    dim: int
    counts: tuple[int, ...]
    fractions: tuple[float, ...]

    @property
    def half(self) -> float | None:
        """The number of patterns at which every second query fails, between two counts; None if that is never."""
        for i in range(1, len(self.counts)):
            before, after = self.fractions[i - 1], self.fractions[i]
            if before >= 0.5 > after:
                share = (before - 0.5) / (before - after)
                return float(self.counts[i - 1] ** (1 - share) * self.counts[i] ** share)
        return None


@dataclass(frozen=True)
class Updates:
    """The largest distance from a pattern, as a share of its length, for queries that start at a given distance.

    errors and bounds: by the number of steps, one number for each entry of noise.
    """

    patterns: int
    dim: int
    noise: Floats
    errors: dict[int, Floats]
    bounds: dict[int, Floats]

    def needed(self, near: float = 1e-6) -> list[int | None]:
        """For each entry of noise the first number of steps that brings every query so near."""
        reached = {steps: errors <= near for steps, errors in self.errors.items()}
        return [next((s for s in sorted(reached) if reached[s][i]), None) for i in range(len(self.noise))]


def capacity(
    dim: int, counts: Sequence[int], beta: float = 1.0, noise: float = 0.25, queries: int = 256, seed: int = 0
) -> Capacity:
    """Queries lie `noise` times a pattern's length away from it, in a random direction."""
    rng = np.random.default_rng((seed, dim))
    fractions = []
    for count in counts:
        memories = max(1, min(_MEMORIES, _PATTERNS // count))  # of few patterns one may be lucky
        near = [_retrieved(rng, dim, count, beta, noise, -(-queries // memories)) for _ in range(memories)]
        fractions.append(float(np.mean(near)))
    return Capacity(dim, tuple(counts), tuple(fractions))


def _retrieved(rng: np.random.Generator, dim: int, count: int, beta: float, noise: float, queries: int) -> float:
    memory = Hopfield(dim, beta).store(_directions(rng, count, dim))
    chosen = memory.patterns[torch.as_tensor(rng.integers(count, size=queries))]
    found = memory.retrieve(chosen + noise * _directions(rng, queries, dim))
    return float(((found - chosen).norm(dim=1) <= NEAR * math.sqrt(dim)).double().mean())


def updates(
    dim: int,
    count: int,
    noise: Sequence[float],
    steps: Sequence[int],
    beta: float = 1.0,
    queries: int = 256,
    seed: int = 0,
) -> Updates:
    """Queries around one pattern, in random directions and towards every other pattern."""
    rng = np.random.default_rng((seed, dim, count))
    memory = Hopfield(dim, beta).store(_directions(rng, count, dim))
    pattern, length = memory.patterns[0], math.sqrt(dim)
    ways = torch.cat([_directions(rng, queries, dim), memory.patterns[1:] - pattern])
    ways = length * ways / ways.norm(dim=1, keepdim=True)
    starts = [pattern + share * ways for share in noise]
    errors, bounds = {}, {}
    for number in steps:
        away = [float((memory.retrieve(start, number) - pattern).norm(dim=1).max()) for start in starts]
        proven = [memory.recall_bound(share * length, number, pattern=0).bound for share in noise]
        errors[number], bounds[number] = np.array(away) / length, np.array(proven) / length
    return Updates(count, dim, np.array(noise), errors, bounds)


def _directions(rng: np.random.Generator, count: int, dim: int) -> torch.Tensor:
    x = rng.normal(size=(count, dim))
    return torch.tensor(x / np.linalg.norm(x, axis=1, keepdims=True) * math.sqrt(dim))
