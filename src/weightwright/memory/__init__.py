"""Memories that attention reads: `Hopfield` stores patterns, retrieves them and says how well."""

from __future__ import annotations

from weightwright.memory.hopfield import Hopfield, HopfieldAttention
from weightwright.memory.recall import Recall

__all__ = ["Hopfield", "HopfieldAttention", "Recall"]
