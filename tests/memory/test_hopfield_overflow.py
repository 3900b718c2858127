"""Memories whose numbers may overflow have no bound."""

from __future__ import annotations

import pytest
import torch

import weightwright as ww


@pytest.mark.parametrize(
    ("dtype", "size", "beta", "radius"),
    [(torch.float32, 1e25, 1.0, 0.0), (torch.float64, 1e200, 1.0, 0.0), (torch.float32, 10.0, 1e38, 0.0),
     (torch.float32, 1.0, 1.0, 1e38)],
)  # fmt: skip
def test_memories_that_overflow_have_no_bound(dtype: torch.dtype, size: float, beta: float, radius: float) -> None:
    """The bound was finite, and what was retrieved was no number."""
    memory = ww.memory.Hopfield(2, beta=beta, dtype=dtype).store([[size, 0.0], [0.0, size]])
    with pytest.raises(ww.ToleranceError, match="may overflow float"):
        memory.recall_bound(radius=radius)
    if not radius:
        assert memory.retrieve(torch.tensor([size, 0.0], dtype=dtype)).isnan().any()


def test_values_that_overflow_have_no_bound() -> None:
    memory = ww.memory.Hopfield(1, dtype=torch.float32).store([[1.0], [0.0]], values=[[3e38], [-3e38]])
    with pytest.raises(ww.ToleranceError, match=r"may be as large as 3e\+38"):
        memory.recall_bound()
