"""A few hundred mutated files: benchmarks/fuzz_files.py runs many thousands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fuzz_files import Summary, examine, fuzz
from fuzz_truth import worst_violation

from weightwright.claims.files import read
from weightwright.errors import WeightwrightError

SAVED = Path(__file__).parent / "saved"
PROVEN = sorted(path.stem for path in SAVED.glob("*.safetensors") if path.stem not in ("no_certificate",))


def test_mutated_files_break_no_promise(tmp_path: Path) -> None:
    found = fuzz(seed=7, start=0, count=250, everything=False, folder=tmp_path)
    assert found.broken == []
    assert found.outcomes["PROVEN"] > 20
    assert found.outcomes["CertificateError"] > 50
    assert found.outcomes["FileFormatError"] > 50


@pytest.mark.parametrize("name", PROVEN)
def test_what_is_false_would_be_seen(name: str) -> None:
    """With a bound below 0 every claim is false, and inputs show it; with its own none of them do."""
    network, said = read(SAVED / f"{name}.safetensors")
    assert said is not None
    if said.measured is not None:
        return
    rng = np.random.default_rng(0)
    assert worst_violation(network, said, rng) is None
    assert worst_violation(network, replace(said, bound=-1.0), rng) is not None


def test_a_crash_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, summary = SAVED / "formula.safetensors", Summary()

    def crash(*_: object) -> None:
        raise KeyError("a bug")

    assert examine(path, np.random.default_rng(0), summary) is None
    monkeypatch.setattr("weightwright.claims.files._contents", crash)
    assert "a bug" in (examine(path, np.random.default_rng(0), summary) or "")
    assert not issubclass(KeyError, WeightwrightError)
