"""Progress is shown where somebody sees it, after a while, and gone afterwards."""

from __future__ import annotations

import importlib
import io
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import weightwright as ww
from weightwright import progress
from weightwright.progress import show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, patience: float = 0.0) -> Terminal:
    """In the test itself and in no fixture: pytest puts its own stderr there before a test begins."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")  # rich shows nothing that moves on a dumb one
    monkeypatch.setattr(progress, "PATIENCE", patience)
    return shown


def fitted(progress: Any) -> Any:
    return ww.incontext.fitting([[1.0], [2.0]], [1.0, 2.0], steps=2, progress=progress)


def run_rule(progress: Any) -> Any:
    @ww.incontext.algorithm(steps=1)
    def rule(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return w / 2 + x.mean() / 4

    return rule.run([[1.0], [2.0]], [0.0], progress=progress)


def ridge_heads(progress: Any) -> Any:

    base = importlib.import_module("weightwright.estimators.base")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(base, "heads_picture", lambda *given: None)
        return ww.incontext.Ridge().fit([[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0]).plot_heads(progress=progress)


NET = ww.approximate("x", (-1, 1), 0.5)
#: What takes long, and the last thing that it says: rich shows a message when it next draws.
LONG = {
    "approximate": (lambda progress: ww.approximate("x", (-1, 1), 0.5, progress=progress), "checking the certificate"),
    "compile": (
        lambda progress: ww.compile(torch.nn.Linear(1, 1), (-1, 1), 0.5, progress=progress),
        "checking 0 layers",
    ),
    "search": (lambda progress: ww.search(NET, 0.0, progress=progress), "looking for the worst input"),
    "fitting": (fitted, "building the network and proving its bound"),
    "run": (run_rule, "running"),
    "plot_heads": (ridge_heads, "drawing what each head does"),
}


@pytest.mark.parametrize("name", LONG)
def test_everything_long_says_what_it_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    build, message = LONG[name]
    build(True)
    assert message in terminal.getvalue()
    terminal.truncate(0)
    build(False)
    assert not terminal.getvalue().strip("\0")
    with pytest.raises(TypeError, match="progress must be True, False or a function of a message, not 5"):
        build(5)


def test_nothing_is_shown_where_nobody_sees_it(capfd: pytest.CaptureFixture[str]) -> None:
    with show_progress(True, "working", patience=0.0) as tell:
        tell("still working")
        time.sleep(0.05)
    assert capfd.readouterr() == ("", "")


def test_what_is_quick_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch, patience=60.0)
    with show_progress(True, "working") as tell:
        tell("still working")
    assert "working" not in terminal.getvalue()


def test_a_notebook_has_a_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Any:
        shown.append(data["text/plain"])
        return handle

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    with show_progress(True, "working", patience=0.0) as tell:
        time.sleep(0.05)
        tell("still working")
    assert shown == ["working", "still working", ""]
