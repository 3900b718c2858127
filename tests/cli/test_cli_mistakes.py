"""Mistakes on the command line: what is taken as it was meant, and what is answered with the option to change."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from support.command_line import complaint, printed, weightwright

TOL = ("--tol", "1e-3")
UNIT = ("--domain", "-1 1")


@pytest.mark.parametrize(
    ("domain", "ends"),
    [
        (("-1", "1"), (-1.0, 1.0)),
        (("[-1,1]",), (-1.0, 1.0)),
        (("[-1,", "1]"), (-1.0, 1.0)),
        (("(−1, 1)",), (-1.0, 1.0)),
        (("-1,1",), (-1.0, 1.0)),
        (("-1e0", "+.5e1"), (-1.0, 5.0)),
        (("0", "1/4"), (0.0, 0.25)),
        (("-pi", "pi"), (-math.nextafter(math.pi, 4), math.nextafter(math.pi, 4))),
        (("-pi/2, 2*e",), (-math.nextafter(math.pi / 2, 2), math.nextafter(2 * math.e, 6))),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_the_domain_is_taken_as_it_is_typed(domain: tuple[str, ...], ends: tuple[float, float], first: bool) -> None:
    options = ("--domain", *domain, *TOL, "--json")
    facts = json.loads(printed("approximate", *(("x", *options) if first else (*options, "x"))))
    assert (facts["domain"]["lo"], facts["domain"]["hi"]) == ([ends[0]], [ends[1]])


@pytest.mark.parametrize("domain", [("-1", "1", "0", "2"), ("[-1, 1] x [0, 2]",), ("-1 1; 0 2",)])
def test_two_variables_take_two_intervals(domain: tuple[str, ...]) -> None:
    facts = json.loads(printed("approximate", "x + y", "--domain", *domain, "--tol", "0.5", "--json"))
    assert facts["domain"] == {"lo": [-1.0, 0.0], "hi": [1.0, 2.0]}


@pytest.mark.parametrize(
    "args", [("-x**2", *UNIT, *TOL), (*UNIT, "-x**2", *TOL), ("--domain", "-1", "1", *TOL, "-x**2")]
)
def test_a_formula_may_begin_with_a_minus_anywhere(args: tuple[str, ...]) -> None:
    assert json.loads(printed("approximate", *args, "--json"))["formula"] == "-x**2"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("2x", *UNIT, *TOL), "products are written with *: write 2*x"),
        (("x*y", *UNIT, *TOL), "an interval for each of x and y is --domain 'lo hi; lo hi'"),
        (("x", "--domain", "0..1", *TOL), "--domain takes two numbers for each variable, as in '-1 1', -pi,pi or"),
        (("x", "--domain", "1", "-1", *TOL), "--domain: lo must be below hi"),
        (("x", "--domain", "0 a", *TOL), "--domain: hi must be a finite number, not 'a'"),
        (("x", *UNIT, "--tol", "0"), "--tol must be a positive finite number, not 0.0"),
        (("x", *UNIT, "--tol", "1e-17", "--max-anchors", "4"), "--tol 1e-17 cannot be proven"),
        (("sign(x)", *UNIT, *TOL), "with --dead-zone d nothing is claimed"),
        (
            ("x", *UNIT, *TOL, "--method", "faithful", "--max-anchors", "9"),
            "more than --max-anchors 9; --method spectral",
        ),
        (("x", *UNIT, *TOL, "--method", "faithful", "--kernel", "anchor"), "--kernel anchor is for soft anchors"),
    ],
)
def test_advice_names_options(args: tuple[str, ...], message: str) -> None:
    said = complaint(weightwright("approximate", *args), 2)
    assert message in said
    assert not re.search(r"\w=\S", said)


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--out", "net.pt", "the name must end in .safetensors; write {0}/net.safetensors"),
        ("--out", "net", "the name must end in .safetensors; write {0}/net.safetensors"),
        ("--out", "nowhere/net.safetensors", "there is no folder {0}/nowhere; make it first"),
        ("--out", "", "it is a folder; name a file in it"),
        ("--out", "file/net.safetensors", "{0}/file is a file, not a folder"),
        ("--plot", "net.jpg", "the name must end in one of .png, .svg, .pdf; write {0}/net.png"),
        ("--plot", "nowhere/net.png", "there is no folder {0}/nowhere; make it first"),
    ],
)
def test_a_file_that_cannot_be_written_is_found_before_the_work(
    option: str, name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("weightwright.approximation.approximate.approximate", lambda *a, **o: pytest.fail("begun"))
    said = complaint(weightwright("approximate", "x", *UNIT, *TOL, option, tmp_path / name), 2)
    assert said == f"error: cannot write {tmp_path / name}: {message.format(tmp_path)}"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_device_that_is_not_there() -> None:
    assert "--device gpu here; --device cpu is there" in complaint(weightwright("selftest", "--device", "gpu"), 2)
