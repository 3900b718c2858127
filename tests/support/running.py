"""Networks run at arrays or tensors, by the torch module and by the plain interpreter; outputs are float64 arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import weightwright as ww
from weightwright.runtime import interpret


def reference_outputs(net: Any, x: Any) -> np.ndarray:
    """What the numpy interpreter gives for a module or a network, at inputs (..., tokens, features)."""
    network = net.network if isinstance(net, ww.AttentionNetwork) else net
    return interpret(network, x.double().numpy() if isinstance(x, torch.Tensor) else x)


def torch_outputs(net: Any, x: Any) -> np.ndarray:
    """What the module gives, also outside the domain, where it would refuse to answer; inputs rounded to its dtype."""
    module = net if isinstance(net, ww.AttentionNetwork) else ww.AttentionNetwork(net)
    with torch.no_grad():
        return module.run_anywhere(torch.tensor(np.asarray(x), dtype=module.dtype)).double().cpu().numpy()
