"""What extensions add to the library's tables, and that they replace nothing."""

from __future__ import annotations

import pytest

from weightwright import extensions


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, int]]:
    """Tables that two extensions register."""
    tables: list[dict[str, int]] = [{"a": 1}, {"b": 2}]
    monkeypatch.setattr(extensions, "registered", lambda hook: tuple(tables))
    return tables


def test_a_table_holds_what_all_register(registered: list[dict[str, int]]) -> None:
    assert extensions.registry("rules", {"own": 0}) == {"own": 0, "a": 1, "b": 2}


def test_an_entry_of_the_library_is_not_replaced(registered: list[dict[str, int]]) -> None:
    with pytest.raises(RuntimeError, match="registers 'rules' for b, which has an entry already"):
        extensions.registry("rules", {"b": 0})


def test_two_extensions_do_not_register_the_same(registered: list[dict[str, int]]) -> None:
    registered.append({"a": 3})
    with pytest.raises(RuntimeError, match="registers 'rules' for a, which has an entry already"):
        extensions.registry("rules")
