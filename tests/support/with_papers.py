"""Tests of pages that speak of what the papers' part of the package adds."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

needs_papers = pytest.mark.skipif(
    find_spec("weightwright.papers") is None, reason="the page speaks of weightwright.papers, which is not there"
)
