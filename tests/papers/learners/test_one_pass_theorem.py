"""The theorem about learning in one forward pass."""

from __future__ import annotations

from weightwright.papers.theorems.registry import find
from weightwright.papers.theorems.show import show


def test_the_theorem_comes_out_as_declared() -> None:
    shown = show(find("AE-16"))
    assert (shown.status, shown.reason) == (find("AE-16").expects, None)
    assert len(shown.checks) == 3
    assert all(0 < check.measured <= check.bound < 1e-8 for check in shown.checks)
