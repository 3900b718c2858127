"""No map on the token axis may be another one: of grids, of networks side by side."""

from __future__ import annotations

from pathlib import Path

import pytest
from papers.support.grids import GRIDS, SIDES, made
from support.token_maps import maps, refuse_other_maps

CASES = (*GRIDS, *SIDES)


def test_every_kind_has_maps() -> None:
    assert all(maps(made(kind).network) for kind in CASES)


@pytest.mark.parametrize("kind", CASES)
def test_no_map_may_be_another_one(kind: str, tmp_path: Path) -> None:
    refuse_other_maps(made(kind), tmp_path)
