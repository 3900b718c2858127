"""Small files of the kinds of claim that the papers add, as the format holds them today."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stored import checked_and_written_again, saved

PATHS = sorted((Path(__file__).parent / "saved").glob("*.safetensors"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_saved_file_is_checked_and_written_again_as_it_is(path: Path) -> None:
    checked_and_written_again(path)


def test_every_small_kind_of_claim_is_saved() -> None:
    kinds = {type(saved(path.stem, path.parent)[1].claim).__name__ for path in PATHS}
    assert kinds == {"Composite", "GridClaim", "SideBySideClaim"}
