"""A network whose keys are tokens that was changed says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from support.edits import edit_every_weight

import weightwright as ww
from weightwright.papers.linear.literal import literal_prompt


def test_editing_any_weight_changes_what_runs_and_what_is_saved_together(tmp_path: Path) -> None:
    net = ww.constructions.literal_truncated_linear(-0.5, 1.0, 3, 1, H=2)
    n, d = net.network.tokens or 3, len(net.network.inputs)
    x = np.random.default_rng(2).uniform(-0.05, 0.05, (2, n, d))
    prompt = literal_prompt(x[..., : d // 3], x[:, 0, : d // 3])
    edit_every_weight(net, torch.tensor(prompt, dtype=net.dtype), tmp_path)
