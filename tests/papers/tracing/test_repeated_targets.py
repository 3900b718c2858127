"""Targets of grids that are another function at every call."""

from __future__ import annotations

import pytest
import torch

from weightwright.errors import NotRepeatable
from weightwright.papers.grids.grid_targets import scalar_target


def test_a_target_that_changes_is_refused() -> None:
    with pytest.raises(NotRepeatable):
        scalar_target(lambda x0, x1: x0 * x1 * torch.rand(()), 1, 2)
