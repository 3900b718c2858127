"""Memories that attention reads: `Hopfield` stores patterns, retrieves them and says how well.

Arguments that mean the same everywhere:

dim: numbers of a pattern.
dtype: torch.float64 or torch.float32, or its name: what the memory computes in.
patterns: (N, dim), what is compared with a query.
values: (N, any size), what is read; None: the patterns themselves.
query: (..., dim), what is looked for.
steps: how often the query is replaced by what it finds; the last step reads the values.
radius: how far a query may be from the pattern, in the Euclidean norm.
beta: how sharply the nearest pattern is picked.
"""

from __future__ import annotations

from weightwright.memory.hopfield import Hopfield, HopfieldAttention
from weightwright.memory.recall import Recall

__all__ = ["Hopfield", "HopfieldAttention", "Recall"]
