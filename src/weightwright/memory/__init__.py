"""Memories that attention reads: `Hopfield` stores patterns, retrieves them and says how well; a rank-1 layer gives
every context of a data set an id, and `ww.memorize` returns its labels."""

from __future__ import annotations

from weightwright.memory.context_mapping import ContextualMapping, contextual_mapping
from weightwright.memory.equivariant import equivariant, lookup_cost
from weightwright.memory.hopfield import Hopfield, HopfieldAttention
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
