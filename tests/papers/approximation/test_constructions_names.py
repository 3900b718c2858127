"""Names of `ww.constructions` that are mistyped."""

from __future__ import annotations

import pytest

import weightwright as ww


def test_python_can_suggest_the_nearest_name() -> None:
    with pytest.raises(AttributeError) as caught:
        ww.constructions.aproximate  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("aproximate", ww.constructions)
