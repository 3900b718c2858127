"""Where the seconds of a call go: stages count their own time, once each, and stand where the source says."""

from __future__ import annotations

import json
import time
from pathlib import Path

import torch
from support.command_line import weightwright as run_command

import weightwright as ww
from weightwright import stopwatch
from weightwright.stopwatch import stage, watch_stages


def test_a_stage_counts_its_own_time() -> None:
    stopwatch._ROOT = Path(__file__).parent
    try:
        with watch_stages() as watch, stage("outer"):
            with stage("inner"):
                time.sleep(0.05)
            with stage("inner"):
                time.sleep(0.01)
    finally:
        stopwatch._ROOT = Path(stopwatch.__file__).parent
    first, second, outer = watch.longest()
    assert (first.name, second.name, outer.name) == ("inner", "inner", "outer")  # two lines, two stages
    assert first.seconds >= 0.05
    assert outer.seconds < 0.05
    assert first.place.startswith("test_stopwatch.py:")


def test_nobody_watches() -> None:
    with stage("alone"):
        pass


def test_a_compile_says_where_its_seconds_went() -> None:
    net = ww.compile(lambda x: torch.sin(x), ww.Box([-1.0], [1.0]), tol=1e-6)
    names = [one.name for one in net.about.stages]
    assert {"trace the function", "lower the graph", "check the file"} <= set(names)
    assert any(name.startswith("a table for sin(x)") for name in names)
    spent = sum(one.seconds for one in net.about.stages)
    assert spent <= net.about.compile_seconds + net.about.proof_seconds
    source = Path(ww.__file__).parent
    for one in net.about.stages:
        file, line = one.place.split(":")
        assert "stage(" in (source / file).read_text().splitlines()[int(line) - 1]


def test_the_command_shows_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import torch\n\ndef wave(x):\n    return torch.sin(x)\n")
    told = run_command("compile", f"{tmp_path}/mine.py:wave", "--domain", "-1 1", "--features", "1", "--tol", "1e-4")
    assert "certify.py:" not in told.output
    options = ("--domain", "-1 1", "--features", "1", "--tol", "1e-4", "--profile")
    told = run_command("compile", f"{tmp_path}/mine.py:wave", *options)
    assert "check the file" in told.output
    assert "certify.py:" in told.output
    told = run_command("compile", f"{tmp_path}/mine.py:wave", *options, "--json")
    assert {"name", "place", "seconds", "calls"} <= set(json.loads(told.output)["profile"][0])
