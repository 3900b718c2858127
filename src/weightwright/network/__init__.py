"""The intermediate form: attention networks as data, with numpy weights and named coordinates.

Nothing here computes an attention; `weightwright.runtime` does. Tokens are rows: X is (n, d).
"""

from weightwright.network.costs import Cost, cost
from weightwright.network.layers import (
    Attention,
    FeedForward,
    Head,
    Layer,
    Linear,
    Loop,
    Sees,
    Softmax,
    Term,
    selection,
    token_wise,
)
from weightwright.network.network import Network

__all__ = [
    "Attention",
    "Cost",
    "FeedForward",
    "Head",
    "Layer",
    "Linear",
    "Loop",
    "Network",
    "Sees",
    "Softmax",
    "Term",
    "cost",
    "selection",
    "token_wise",
]
