"""`weightwright compile` and what is shown of compiled networks, as people and scripts meet it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.command_line import complaint, printed_json, weightwright

import weightwright as ww
from weightwright import compiler

SOURCE = """
import torch
from torch import nn


def softmax(x):
    return torch.softmax(x, dim=-1)


def wave(x):
    a, b = x.unbind(-1)
    return torch.sin(a) * b


def tiny():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()


class Squash(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def forward(self, x):
        return torch.sigmoid(self.inner(x))


class names:
    inner = staticmethod(softmax)
    number = 3


def sorts(x):
    return torch.argsort(x)


def fails(x):
    return x + [1, 2][5]


def fails_to_build():
    raise RuntimeError("no weights today")


def nothing():
    return 7


def mean(x):
    return x.mean(dim=0)
"""
UNIT = ("--domain", "-1 1", "--tol", "1e-6")


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Path]:
    """A user's file; what is imported from its folder is forgotten afterwards."""
    path, before = tmp_path / "mine.py", list(sys.path)
    path.write_text(SOURCE)
    yield path
    sys.path[:] = before
    for name in [name for name in sys.modules if name.split(".")[0].startswith("mine")]:
        del sys.modules[name]


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


# what is compiled


def test_compile_saves_draws_and_says_what_was_proven(source: Path, tmp_path: Path) -> None:
    out, drawing = tmp_path / "net.safetensors", tmp_path / "net.svg"
    command = ("compile", f"{source}:wave", "--domain", "-1 1; -2 2", "--tol", "1e-6")
    result = weightwright(*command, "--out", out, "--draw", drawing)
    assert result.exit_code == 0, result.stderr
    lines = {" ".join(line.split()) for line in result.stdout.splitlines()}
    assert {f"compiled from {source}:wave", "domain [-1, 1] x [-2, 2]", "status PROVEN", "layers 2", "heads 3"} <= lines
    for word in ("bound", "registers", "parameters", "time to compile", "time to prove", "the proof assumes"):
        assert word in result.stdout
    assert drawing.read_text().startswith("<?xml")
    assert files(tmp_path) == {"mine.py", "net.safetensors", "net.svg"}
    net = ww.load(out)
    x = torch.tensor([[0.5, -2.0]], dtype=torch.float64)
    assert net.certificate is not None
    assert net.certificate.status == "PROVEN"
    assert abs(float(net(x)) + 2 * torch.sin(x[0, 0]).item()) <= net.certificate.bound <= 1e-6


def test_json_has_the_figures(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.safetensors"
    facts = printed_json("compile", f"{source}:softmax", *UNIT, "--features", "3", "--out", out)
    net = ww.load(out)
    assert net.certificate is not None
    assert (facts["status"], facts["bound"], facts["tol"]) == ("PROVEN", net.certificate.bound, 1e-6)
    assert facts["domain"] == {"lo": [-1.0] * 3, "hi": [1.0] * 3}
    assert (facts["layers"], facts["heads"], facts["registers"]) == (1, 1, 3)
    assert facts["compile_seconds"] > 0
    assert facts["proof_seconds"] > 0
    assert "called" not in facts
    assert "drawing" not in facts


@pytest.mark.parametrize(("name", "called", "features"), [("tiny", "tiny()", 2), ("Squash", "Squash()", 3)])
def test_what_makes_a_module_is_called_and_that_is_said(source: Path, name: str, called: str, features: int) -> None:
    facts = printed_json("compile", f"{source}:{name}", *UNIT)
    assert facts["called"] == called
    assert len(facts["domain"]["lo"]) == features  # one interval stands for all that the first layer takes
    assert facts["status"] == "PROVEN"


def test_dots_go_deeper_and_modules_are_imported(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source.parent)
    for target in ("mine.py:names.inner", "mine:names.inner"):
        facts = printed_json("compile", target, *UNIT, "--features", "2")
        assert (facts["status"], facts["target"]) == ("PROVEN", target)


@pytest.mark.slow
def test_options_are_passed_on(source: Path) -> None:
    facts = printed_json(
        *("compile", f"{source}:mean", "--domain", "-1 1", "--tol", "1e-3"),
        *("--tokens", "3", "--dtype", "float32", "--proof", "measured"),
    )
    assert (facts["status"], facts["dtype"], facts["bound"]) == ("MEASURED", "float32", None)
    assert facts["measured"]["error"] <= 1e-3
    assert facts["measured"]["reason"]


def test_a_file_may_be_called_like_a_library(source: Path) -> None:
    like = source.with_name("random.py")
    like.write_text(SOURCE)
    before = sys.modules["random"]
    assert printed_json("compile", f"{like}:softmax", *UNIT, "--features", "2")["status"] == "PROVEN"
    assert sys.modules["random"] is before


# errors


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{}:softmx", "has no 'softmx'; did you mean softmax?"),
        ("{}:names.iner", ":names has no 'iner'; did you mean inner"),
        ("{}:zzz", "has no 'zzz'; it has "),
        ("{}:names.number", "is a int, neither a function nor a torch module"),
        ("{}:nothing", "it returned a int, neither"),
        ("{}:sorts", "mine.py:35: `return torch.argsort(x)`"),
        ("{}:fails", "mine.py:39: `return x + [1, 2][5]` raised IndexError: list index out of range"),
        ("{}:fails_to_build", 'mine.py:43: `raise RuntimeError("no weights today")` raised RuntimeError: no weights'),
        ("{}", "file.py:name or package.module:name, not "),
        ("{}x.py:softmax", "there is no file "),
        ("no_such_module_at_all:f", "there is no module no_such_module_at_all; for a file write"),
    ],
)
def test_what_is_wrong_with_the_target_is_one_line(source: Path, target: str, message: str, tmp_path: Path) -> None:
    result = weightwright(
        "compile", target.format(source), *UNIT, "--out", tmp_path / "a.safetensors", "--draw", tmp_path / "a.png"
    )
    assert message in complaint(result, 2)
    assert files(tmp_path) == {"mine.py"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import torch\n1 / 0\n", "wrong.py:2: `1 / 0` raised ZeroDivisionError: division by zero"),
        ("import torch\ndef f(:\n", "wrong.py:2: `def f(:` raised SyntaxError"),
        ("import sys\nsys.exit(3)\n", "wrong.py:2: `sys.exit(3)` raised SystemExit: 3"),
        ("import no_such_library\n", "wrong.py:1: `import no_such_library` raised ModuleNotFoundError"),
    ],
)
@pytest.mark.parametrize("imported", [False, True])
def test_an_error_in_the_users_file_names_its_line(
    text: str, message: str, imported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.py").write_text(text)
    said = complaint(weightwright("compile", "wrong:f" if imported else "wrong.py:f", *UNIT), 2)
    assert message in said or (imported and "no_such_library" in message and "importing wrong" in said)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--domain", "-1 1 2"), "--domain takes two numbers for each variable"),
        (("--domain", "1 -1"), "lo must be below hi"),
        (("--domain", "-1 1; 0 1; 0 2", "--features", "2"), "3 intervals for 2 features"),
        (("--domain", "-1 1", "--tokens", "0"), "tokens must be a whole number of at least 1"),
    ],
)
def test_bad_options_are_one_line(source: Path, options: tuple[str, ...], message: str) -> None:
    assert message in complaint(weightwright("compile", f"{source}:softmax", "--tol", "1e-6", *options), 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "missing/a.safetensors"), "there is no folder"),
        (("--draw", "missing/a.png"), "there is no folder"),
        (("--draw", "a.gif"), "must end in one of .png, .svg, .pdf"),
        (("--out", "a.png", "--draw", "a.png"), "--out and --draw are the same file"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_work(
    source: Path, options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: Any, **options: Any) -> Any:
        raise AssertionError("this work should not have been started")

    monkeypatch.setattr(compiler, "compile", never)
    monkeypatch.chdir(tmp_path)
    assert message in complaint(weightwright("compile", f"{source}:softmax", *UNIT, *options), 2)
    assert files(tmp_path) == {"mine.py"}


# info


@pytest.fixture
def network(source: Path, tmp_path: Path) -> Path:
    path = tmp_path / "net.safetensors"
    printed_json("compile", f"{source}:wave", "--domain", "-1 1; -2 2", "--tol", "1e-6", "--out", path)
    return path


def test_info_tells_graph_parts_and_heads(network: Path) -> None:
    text, facts = weightwright("info", network).stdout, printed_json("info", network)
    assert facts["graph"]["columns_by_kind"] == {"input": 2, "sin(x)": 1, "product": 1}
    assert (facts["graph"]["inputs"], facts["graph"]["outputs"], facts["graph"]["products_by_squares"]) == (2, 1, 1)
    parts = facts["error_by_part"]
    assert {(part["computes"], part["groups"]) for part in parts} == {("sin(x)", 1), ("x**2, for products", 2)}
    sizes = [sum(part["terms"].values()) for part in parts]
    assert sizes == sorted(sizes, reverse=True)
    for words in ("sin(x) of x[0]; beta", "of each head or group of heads, in its own units", "2 x", "columns by kind"):
        assert words in text


def test_many_heads_are_told_in_few_lines(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    printed_json("compile", f"{source}:tiny", *UNIT, "--out", path)
    lines = [" ".join(line.split()) for line in weightwright("info", path).stdout.splitlines()]
    assert any(line.startswith("8 heads tanh(x) of neuron … of module 0 (Linear); beta") for line in lines)
    assert "... 5 more like these ..." in lines
    assert any(line.startswith("8 x tanh(x): approximation ") for line in lines)
    assert len(lines) < 60


def test_info_draws_any_network_and_plots_formulas_only(network: Path, tmp_path: Path) -> None:
    drawing = tmp_path / "net.png"
    facts = printed_json("info", network, "--draw", drawing)
    assert facts["drawing"] == str(drawing)
    assert drawing.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert 'this is a compiled function, named "wave": x[1]*sin(x[0]): weightwright info NET --draw' in complaint(
        weightwright("info", network, "--plot", tmp_path / "plot.png"), 2
    )
    assert not (tmp_path / "plot.png").exists()


def test_a_compiled_network_runs_from_the_command_line(network: Path) -> None:
    (row,) = printed_json("run", network, "0.5", "-2")["values"]
    assert abs(row["y"] + 2 * torch.sin(torch.tensor(0.5, dtype=torch.float64)).item()) <= row["bound"] <= 1e-6
