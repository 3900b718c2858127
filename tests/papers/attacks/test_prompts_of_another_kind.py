"""Predictions that nobody watched: what a second look by fresh eyes found."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weightwright as ww
from weightwright.papers.linear.literal import literal_prompt


def test_nothing_is_certified_where_nobody_watches() -> None:
    """The claim is about prompts in which every token holds a multiple of one w; with -w in it, signs are wrong."""
    net, rng = ww.constructions.literal_truncated_linear(-0.5, 0.5, 6, 2, H=2), np.random.default_rng(0)
    x, w = rng.uniform(-1, 1, (6, 2)), rng.uniform(-1, 1, 2)
    prompt = torch.as_tensor(literal_prompt(torch.tensor(x), torch.tensor(w))).clone()
    assert net.certifies(prompt).any()
    prompt[..., 2:4] *= -1
    with pytest.raises(ww.DomainError):
        net.certifies(prompt)
    net.on_domain = "ignore"
    assert not net.certifies(prompt).any()
