"""Memories that attention reads: `Hopfield` stores patterns, retrieves them and says how well; a rank-1 layer gives
every context of a data set an id, and `ww.memorize` returns its labels.

Names are loaded on first use: listing the theorems loads nothing heavy.

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

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weightwright.memory.context_mapping import ContextualMapping, contextual_mapping
    from weightwright.memory.hopfield import Hopfield, HopfieldAttention
    from weightwright.memory.looked_up import equivariant, lookup_cost
    from weightwright.memory.recall import Recall
    from weightwright.runtime.data_sets.remembering import INCONSISTENT, NOT_STORED

__all__ = [
    "INCONSISTENT",
    "NOT_STORED",
    "ContextualMapping",
    "Hopfield",
    "HopfieldAttention",
    "Recall",
    "contextual_mapping",
    "equivariant",
    "lookup_cost",
]

#: Where each name stands, below `weightwright`.
_HOMES = {
    "INCONSISTENT": "runtime.data_sets.remembering",
    "NOT_STORED": "runtime.data_sets.remembering",
    "ContextualMapping": "memory.context_mapping",
    "contextual_mapping": "memory.context_mapping",
    "Hopfield": "memory.hopfield",
    "HopfieldAttention": "memory.hopfield",
    "equivariant": "memory.looked_up",
    "lookup_cost": "memory.looked_up",
    "Recall": "memory.recall",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    return getattr(import_module(f"weightwright.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
