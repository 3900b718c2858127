"""Runs networks: a torch module, and a plain numpy interpreter as its reference.

Importing and loading need torch, numpy and safetensors only.
"""

from weightwright.network.interpreter import interpret
from weightwright.runtime.module import AttentionNetwork

__all__ = ["AttentionNetwork", "interpret"]
