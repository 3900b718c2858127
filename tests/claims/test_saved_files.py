"""One small file of every kind of claim, as the format holds it today."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.kinds import CLAIMS

import weightwright as ww
from weightwright.claims.files import encode_file, read

SAVED = sorted((Path(__file__).parent / "saved").glob("*.safetensors"))
#: Kinds of claim that no file here holds: their networks are large.
LARGE = {"InterpreterClaim", "MemoryClaim", "SharedKeysClaim"}


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_a_saved_file_is_checked_and_written_again_as_it_is(path: Path) -> None:
    network, said = read(path)
    assert encode_file(network, said) == path.read_bytes()
    if said is None or said.measured is not None:
        return
    checked = ww.check(path)
    assert checked.status == ("CONDITIONAL" if path.stem == "samples" else "PROVEN")
    assert checked.formula == said.formula


def test_every_small_kind_of_claim_is_saved() -> None:
    kinds = {type(said.claim).__name__ for path in SAVED if (said := read(path)[1]) is not None}
    assert kinds == {kind.__name__ for kind in CLAIMS} - LARGE
