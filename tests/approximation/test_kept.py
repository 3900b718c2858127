"""What is kept on disk: found again by another process, never believed, and nothing where it is turned off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import weightwright as ww
from weightwright import kept
from weightwright.approximation import table
from weightwright.estimators.solving import kept_networks
from weightwright.incontext.networks.descent_network import descent_claim
from weightwright.incontext.networks.passes import gradient_descent
from weightwright.incontext.networks.slopes import spectral_slope
from weightwright.kept import keep_value, kept_folder, kept_path, recall_value
from weightwright.network.storage import NETWORK_TYPES


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEIGHTWRIGHT_CACHE", str(tmp_path / "kept"))
    table.forget_tables()
    yield tmp_path / "kept"
    table.forget_tables()


ASKED = ("exp(x)", -1.0, 1.0, 2.0**-20, "float64", 64)


def as_in_another_process() -> table.ProposedTable:
    table.forget_tables()
    return table.propose_table_near(*ASKED)


def test_a_table_is_found_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = as_in_another_process()
    (file,) = folder.iterdir()
    monkeypatch.setattr(table, "_find_table_near", lambda *_: pytest.fail("it was looked for again"))
    again = as_in_another_process()
    assert (again.mean, again.slope, again.query, again.claim.terms) == (
        first.mean,
        first.slope,
        first.query,
        first.claim.terms,
    )
    for one, other in zip(again.tables, first.tables, strict=True):
        for name in ("keys", "offsets", "values"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
    assert file.suffix == ".table"


@pytest.mark.parametrize("damage", [lambda b: b[:-8] + b"12345678", lambda b: b[: len(b) // 2], lambda b: b""])
def test_a_damaged_file_is_found_anew(folder: Path, damage: object) -> None:
    first = as_in_another_process()
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))  # type: ignore[operator]
    assert as_in_another_process().bound == first.bound
    assert file.read_bytes() == whole


def test_a_table_that_lies_is_refused_by_the_checker_and_found_anew(folder: Path) -> None:
    """Its file is whole, and its values are not what its leaf says. Later attempts take other tables."""
    net = ww.compile(lambda x: torch.exp(x), ww.Box([-1.0], [1.0]), tol=1e-6)
    assert net.certificate.status == "PROVEN"
    for file in folder.glob("*.table"):
        kept = recall_value(file, table.ProposedTable, table._KEPT)
        assert kept is not None
        (one,) = kept.tables
        lie = table.dataclasses.replace(one, values=one.values + 1e-4)
        keep_value(file, table.dataclasses.replace(kept, tables=(lie,)))
    table.forget_tables()
    again = ww.compile(lambda x: torch.exp(x), ww.Box([-1.0], [1.0]), tol=1e-6)
    assert again.certificate.status == "PROVEN"
    x = torch.linspace(-1, 1, 1001, dtype=torch.float64)[:, None]
    assert float((again(x) - x.exp()).abs().max()) <= again.certificate.bound <= 1e-6
    assert again.digest() != net.digest()


def test_networks_are_proven_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certify, made = kept_networks.certify, []

    def count(*wanted: object) -> ww.AttentionNetwork:
        made.append(wanted)
        return certify(*wanted)  # type: ignore[arg-type]

    def ask(steps: int) -> ww.AttentionNetwork:
        slope = spectral_slope("x", (1.0, -1.0), 2.0, None, "float64")
        wanted = descent_claim(
            slope, gradient_descent(), 2, 1, steps, ww.incontext.Ranges(x=1.0, y=1.0, w=1.0, value=1.0)
        )
        return kept_networks.certify_or_recall(*wanted, "size", steps)

    monkeypatch.setattr(kept_networks, "certify", count)
    first, again = ask(3), ask(3)
    assert len(made) == 1
    assert again.certificate.status == "PROVEN"
    assert again.certificate.bound == first.certificate.bound
    assert again.digest() == first.digest()
    (file,) = folder.glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-4] + b"\0\0\0\1")
    assert ask(3).certificate.status == "PROVEN"
    assert ask(4).certificate.status == "PROVEN"
    assert len(made) == 3


@pytest.mark.parametrize("named", ["", "off"])
def test_nothing_is_kept_where_it_is_turned_off(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIGHTWRIGHT_CACHE", named)
    assert kept_folder() is None
    assert kept_path("table", 1) is None


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("WEIGHTWRIGHT_CACHE", str(tmp_path / "file" / "kept"))
    keep_value(kept_path("table", 1), ww.approximate("x", domain=(-1, 1), tol=1e-3).network)
    assert recall_value(kept_path("table", 1), ww.network.Network, NETWORK_TYPES) is None


def test_the_folder_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEIGHTWRIGHT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept_folder() == tmp_path / "weightwright"


def test_the_oldest_are_forgotten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_FILES", 4)
    for number in range(5):
        path = kept_path("text", number)
        assert path is not None
        kept.keep(path, lambda partial: partial.write_text("x"))
    assert len(list(folder.iterdir())) == 3
