"""Memories that attention reads: `Hopfield` stores patterns, retrieves them and says how well."""

from __future__ import annotations

from weightwright.memory.hopfield import Hopfield
from weightwright.memory.recall import Recall
from weightwright.memory.torch_attention import HopfieldAttention

__all__ = ["Hopfield", "HopfieldAttention", "Recall"]
