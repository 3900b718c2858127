from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

import weightwright as ww

settings.register_profile("project", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("project")


@pytest.fixture(scope="session")
def sine() -> ww.AttentionNetwork:
    """A proven network that many tests look at and none changes."""
    return ww.approximate("sin(5*x)", (-1, 1), 1e-8)


@pytest.fixture
def saved(sine: ww.AttentionNetwork, tmp_path: Path) -> Path:
    path = tmp_path / "sine.safetensors"
    sine.save(path)
    return path
