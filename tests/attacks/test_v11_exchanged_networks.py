"""What is kept on disk is used for what was asked for and for nothing else; no trouble with the disk is an error."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import weightwright as ww
from weightwright import incontext
from weightwright.approximation import table
from weightwright.estimators.solving import huber_fit, networks
from weightwright.runtime.watch import guards_of

X = np.random.default_rng(0).normal(size=(12, 2))
Y = X @ [1.0, 2.0]


def forget() -> None:
    """What another process does not have."""
    table.forget_tables()
    networks.build_network.cache_clear()
    huber_fit.build_network.cache_clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("WEIGHTWRIGHT_CACHE", str(tmp_path / "kept"))
    forget()
    yield tmp_path / "kept"
    forget()


def fit(*models: Any) -> list[tuple[list[float], float, str]]:
    """What models come to in a new process."""
    forget()
    return [(m.fit(X, Y).coef_.tolist(), m.bound_, m.network_.certificate.status) for m in models]


def both() -> tuple[Any, Any]:
    return incontext.Ridge(), incontext.Lasso(alpha=0.01)


def test_kept_networks_that_are_exchanged_are_built_anew(folder: Path) -> None:
    before = fit(*both())
    a, b = folder.glob("*.safetensors")
    A, B = a.read_bytes(), b.read_bytes()
    a.write_bytes(B)
    b.write_bytes(A)
    assert fit(*both()) == before
    assert {a.read_bytes(), b.read_bytes()} == {A, B}
    assert a.read_bytes() == A


@pytest.mark.parametrize("proof", ["proven", "none"])
def test_any_other_network_is_none_of_ours(folder: Path, proof: str) -> None:
    before = fit(incontext.Ridge())
    (file,) = folder.glob("*.safetensors")
    other = ww.approximate("x", (-1, 1), 1e-3, progress=False)
    other.certificate = other.certificate if proof == "proven" else None
    other.save(file)
    assert fit(incontext.Ridge()) == before


def test_kept_tables_that_are_exchanged_are_found_anew(folder: Path) -> None:
    def proven() -> list[float]:
        table.forget_tables()
        x = torch.tensor([[0.5]], dtype=torch.float64)
        nets = [ww.compile(f, (-1, 1), 1e-6, features=1, progress=False) for f in (torch.sin, torch.exp)]
        assert all(net.certificate.status == "PROVEN" for net in nets)
        return [float(net(x)) for net in nets]

    before = proven()
    a, b = folder.glob("*.table")
    A, B = a.read_bytes(), b.read_bytes()
    a.write_bytes(B)
    b.write_bytes(A)
    assert proven() == before
    assert a.read_bytes() == A


def test_a_table_of_another_formula_is_found_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it is what was asked for: only its contents do not."""
    asked = ("exp(x)", -1.0, 1.0, 2.0**-20, "float64", 64, False, 0.0)
    wrong = table.propose_table("sin(x)", *asked[1:])
    table.keep_value(table.kept_path("table", *asked), wrong)
    assert table.propose_table_near(*asked).profile == "exp(x)"


def test_the_networks_of_hubers_regression_look_at_their_ranges_in_every_process(folder: Path) -> None:
    found = []
    for _ in range(2):
        forget()
        net = incontext.HuberRegressor().fit(X, Y).network_
        found.append(len(guards_of(net)))
    assert found[0] > 0
    assert found[1] == found[0]


def refusing(call: Callable[..., Any], error: int, folder: Path) -> Callable[..., Any]:
    """The call to the system, and its error for what lies in this folder."""

    def refuse(path: Any, *others: Any, **options: Any) -> Any:
        if str(path).startswith(str(folder)):
            raise OSError(error, os.strerror(error))
        return call(path, *others, **options)

    return refuse


def test_a_read_only_folder_and_a_full_disk_are_no_errors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = fit(*both())
    kept = {file: file.read_bytes() for file in folder.iterdir()}
    for file in kept:
        file.write_bytes(kept[file][:-9] + b"a bad end")
    with monkeypatch.context() as patch:
        for name in ("replace", "unlink", "utime", "mkdir"):
            patch.setattr(os, name, refusing(getattr(os, name), errno.EROFS, folder))
        assert fit(*both()) == without
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", refusing(Path.write_bytes, errno.ENOSPC, folder))
        assert fit(*both()) == without
    assert {file.name for file in folder.iterdir()} <= {file.name for file in kept}
    assert fit(*both()) == without
    assert {file: file.read_bytes() for file in folder.iterdir()} == kept
    with monkeypatch.context() as patch:  # what is read there is used, though nobody can say that it was
        patch.setattr(os, "utime", refusing(os.utime, errno.EROFS, folder))
        patch.setattr(table, "_find_table_near", lambda *_: pytest.fail("it was looked for again"))
        assert fit(*both()) == without


def test_a_folder_that_cannot_be_looked_at_keeps_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fit(incontext.Ridge())
    monkeypatch.setenv("WEIGHTWRIGHT_CACHE", "/tmp/" + "a" * 5000)
    assert fit(incontext.Ridge()) == before
    monkeypatch.delenv("WEIGHTWRIGHT_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", lambda _: (_ for _ in ()).throw(RuntimeError("no home")))
    assert fit(incontext.Ridge()) == before
