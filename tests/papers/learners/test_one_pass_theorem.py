"""The theorem about learning in one forward pass."""

from __future__ import annotations

from papers.support.measuring import shown_theorem


def test_the_theorem_comes_out_as_declared() -> None:
    shown = shown_theorem("AE-16")
    assert shown.status == shown.theorem.expects
    assert len(shown.checks) == 3
    assert all(0 < check.measured <= check.bound < 1e-8 for check in shown.checks)
