"""One small file of every kind of claim, as the format holds it today."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.kinds import CLAIMS
from support.stored import SAVED, checked_and_written_again

import weightwright as ww

PATHS = sorted(SAVED.glob("*.safetensors"))
#: Kinds of claim that no file here holds: their networks are large.
LARGE = {"InterpreterClaim", "MemoryClaim"}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_saved_file_is_checked_and_written_again_as_it_is(path: Path) -> None:
    checked_and_written_again(path)


def test_every_small_kind_of_claim_is_saved() -> None:
    stored = [ww.load(path, verify=False).certificate for path in PATHS]
    kinds = {type(said.claim).__name__ for said in stored if said is not None}
    assert kinds == {kind.__name__ for kind in CLAIMS if kind.__module__.startswith("weightwright.claims.")} - LARGE
