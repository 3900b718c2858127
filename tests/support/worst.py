"""The product's own search as the tests use it: one round and a little more, with the error as a ball."""

from __future__ import annotations

from flint import arb
from support.exact import errors
from torch import tensor

import weightwright as ww


def worst_error(net: ww.AttentionNetwork, seed: int, seconds: float = 0.05) -> tuple[float, arb]:
    """(input, error) of the largest error that was found, the error recomputed by the tests' own reference."""
    x = ww.search(net, seconds, seed).x
    y = net(tensor([[x]], dtype=net.dtype)).item()
    return x, errors(net.certificate.formula, [x], [y])[0]
