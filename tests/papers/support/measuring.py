"""Constructions measured against what is proven of them, and theorems built by their id."""

from __future__ import annotations

import weightwright as ww
from weightwright.papers.kit.measure import measure
from weightwright.papers.theorems.registry import find
from weightwright.papers.theorems.show import Shown, show


def error_within_bound(net: ww.AttentionNetwork, count: int, seed: int = 0) -> float:
    """The largest error that a search from so many inputs finds, which must not exceed the certificate's bound."""
    found = measure(net, count, seed).error
    assert net.certificate is not None
    assert found <= net.certificate.bound
    return found


def shown_theorem(id: str, count: int = 2048) -> Shown:
    """The theorem's small instance, built and measured; it must not have failed."""
    shown = show(find(id), count=count)
    assert shown.reason is None
    return shown
