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
    Ramps,
    Sees,
    Softmax,
    Term,
    selection,
    token_wise,
)
from weightwright.network.network import Network
from weightwright.network.token_maps import Block, Gather, Mixed, TokenMap, Total, token_map

__all__ = [
    "Attention",
    "Block",
    "Cost",
    "FeedForward",
    "Gather",
    "Head",
    "Layer",
    "Linear",
    "Loop",
    "Mixed",
    "Network",
    "Ramps",
    "Sees",
    "Softmax",
    "Term",
    "TokenMap",
    "Total",
    "cost",
    "selection",
    "token_map",
    "token_wise",
]
