"""Files that cannot be written, and libraries that are not there: said before anything is done, nothing left behind."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weightwright as ww
from weightwright.errors import install_line

WAYS: dict[str, tuple[str, Callable[[ww.AttentionNetwork, Any], Any]]] = {
    "save": (".safetensors", lambda net, path: net.save(path)),
    "plot": (".png", lambda net, path: net.plot(path)),
    "draw": (".png", lambda net, path: net.draw(path)),
    "to_onnx": (".onnx", lambda net, path: net.to_onnx(path)),
    "to_torch": (".py", lambda net, path: net.to_torch(path)),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_be_written_is_said_without_temporary_names(
    way: str, sine: ww.AttentionNetwork, tmp_path: Path
) -> None:
    ending, write = WAYS[way]
    (tmp_path / "file").touch()
    cases: list[tuple[Any, type[Exception], str]] = [
        (tmp_path / "net.pt", ValueError, f"the name must end in .*; write {tmp_path / 'net'}{ending}$"),
        (tmp_path / "net", ValueError, f"the name must end in .*; write {tmp_path / 'net'}{ending}$"),
        (tmp_path / "no" / f"net{ending}", FileNotFoundError, f"there is no folder {tmp_path / 'no'}; make it first$"),
        (tmp_path / "file" / f"net{ending}", NotADirectoryError, f"{tmp_path / 'file'} is a file, not a folder$"),
        (tmp_path, IsADirectoryError, "it is a folder; name a file in it$"),
        (None, TypeError, "path must be the name of a file, not None$"),
    ]
    for path, kind, message in cases:
        with pytest.raises(kind, match=message) as caught:
            write(sine, path)
        assert "partial" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("library", "ours", "use", "message"),
    [
        ("matplotlib", "", "plot", f"plots need matplotlib (the extra plot): {install_line('plot')}"),
        ("matplotlib", "", "draw", f"plots need matplotlib (the extra plot): {install_line('plot')}"),
        (
            "onnx",
            "weightwright.export.onnx",
            "to_onnx",
            f"onnx and onnxruntime (the extra onnx): {install_line('onnx')}",
        ),
        ("onnxruntime", "weightwright.export.onnx", "to_onnx", install_line("onnx")),
        ("transformer_lens.config", "weightwright.export.lens", "lens", install_line("lens")),
        (
            "sklearn",
            "weightwright.estimators",
            "Ridge",
            f"Ridge needs scikit-learn (the extra sklearn): {install_line('sklearn')}",
        ),
    ],
)
def test_a_missing_extra_is_an_error_of_ours_with_the_line_that_installs_it(
    library: str, ours: str, use: str, message: str, sine: ww.AttentionNetwork, tmp_path: Path, monkeypatch: Any
) -> None:
    for name in [name for name in sys.modules if ours and name.startswith(ours)]:
        monkeypatch.delitem(sys.modules, name)
    for name in [library, *(name for name in sys.modules if name.startswith(f"{library}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    uses: dict[str, Callable[[], Any]] = {
        "lens": sine.to_transformer_lens,
        "Ridge": lambda: importlib.import_module("weightwright.incontext").Ridge,
    }
    with pytest.raises(ww.WeightwrightError, match=re.escape(message)) as caught:
        uses.get(use, lambda: WAYS[use][1](sine, tmp_path / f"net{WAYS[use][0]}"))()
    assert isinstance(caught.value, ImportError)
    assert not list(tmp_path.iterdir())
