"""The command line as people and scripts meet it: what is printed, what is written, how it fails."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pickle
import pty
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from support.command_line import complaint, printed, printed_json, process, weightwright
from support.forging import save_forged
from support.zoo import ZOO

import weightwright as ww
from weightwright.network import Cost

ON_UNIT = ("--domain", "-1 1", "--tol", "1e-6")


# approximate


def test_approximate_saves_draws_and_says_what_was_proven(tmp_path: Path) -> None:
    out, plot = tmp_path / "net.safetensors", tmp_path / "net.png"
    text = printed("approximate", "sin(5*x)", "--domain", "-1 1", "--tol", "1e-8", "--out", out, "--plot", plot)
    assert sorted(tmp_path.iterdir()) == [plot, out]
    assert plot.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    lines = {" ".join(line.split()) for line in text.splitlines()}
    anchors = len(ww.load(out).network.registers)
    assert {"formula sin(5*x)", "domain [-1, 1]", "status PROVEN", f"anchors {anchors}"} <= lines
    assert any(line.startswith("the proof assumes exp is computed within") for line in lines)
    for word in ("bound", "approximation", "leakage", "rounding", "beta", "parameters", "bytes", "time taken"):
        assert word in text
    assert "multiply-adds per token" in text
    assert str(out) in text
    assert str(plot) in text


def test_approximate_json_says_what_the_file_says(tmp_path: Path) -> None:
    out = tmp_path / "net.safetensors"
    facts = printed_json("approximate", "sin(5*x)", *ON_UNIT, "--out", out)
    certificate = ww.check(out)
    assert facts["status"] == "PROVEN"
    assert facts["bound"] == certificate.bound <= facts["tol"] == 1e-6
    assert facts["terms"] == dataclasses.asdict(certificate.terms)
    assert facts["assumptions"] == list(certificate.assumptions)
    assert facts["saved"] == str(out)
    assert facts["beta"] == [head.beta for head in ww.load(out).network.heads]
    assert "plot" not in facts


@pytest.mark.parametrize("domain", [("--domain", "-1 1"), ("--domain=-1,1",), ("--domain", " -1.0 , 1e0 ")])
def test_the_domain_is_two_decimals(domain: tuple[str, ...]) -> None:
    facts = printed_json("approximate", "tanh(x)", *domain, "--tol", "1e-6")
    assert facts["domain"] == {"lo": [-1.0], "hi": [1.0]}


def test_decimals_are_exact_and_rounded_outward() -> None:
    domain = printed_json("approximate", "tanh(x)", "--domain", "0.1 0.3", "--tol", "1e-6")["domain"]
    assert Fraction(domain["lo"][0]) <= Fraction("0.1")  # the nearest float is above 0.1
    assert Fraction(domain["hi"][0]) >= Fraction("0.3")  # the nearest float is below 0.3


def test_a_formula_may_begin_with_a_minus() -> None:
    facts = json.loads(printed("approximate", *ON_UNIT, "--json", "--", "-x**2"))
    assert facts["formula"] == "-x**2"


def test_the_method_and_the_most_anchors_are_passed_on() -> None:
    command = ("approximate", "x", "--domain", "0 1", "--tol", "0.1", "--method", "faithful")
    facts = printed_json(*command)
    assert facts["method"] == "faithful"
    assert facts["anchors"] >= 20  # 2 (b - a) / tol; a spectral head needs far fewer
    assert "--max-anchors 9" in complaint(weightwright(*command, "--max-anchors", "9"), 2)


# run


def test_run_prints_every_digit_and_the_bound(sine: ww.AttentionNetwork, saved: Path) -> None:
    assert sine.certificate is not None
    lines = [line.split() for line in printed("run", saved, "--", "-1", "-0.5", "0.1").splitlines()]
    assert [line[0] for line in lines] == ["-1", "-0.5", "0.10000000000000001"]
    x, y, bounds = zip(*(map(float, line) for line in lines), strict=True)
    assert set(bounds) == {sine.certificate.bound}
    assert list(y) == sine(torch.tensor(x, dtype=torch.float64)[:, None])[:, 0].tolist()
    assert max(abs(b - math.sin(5 * a)) for a, b in zip(x, y, strict=True)) <= sine.certificate.bound


def test_run_takes_negative_values_without_a_separator(saved: Path) -> None:
    assert printed("run", saved, "-1", "-1e-3", "1") == printed("run", saved, "--", "-1", "-1e-3", "1")


def test_run_reads_standard_input(saved: Path) -> None:
    assert printed("run", saved, stdin=" 0.5\n\n-1\t0 ") == printed("run", saved, "0.5", "-1", "0")


def test_run_json(saved: Path) -> None:
    facts = printed_json("run", saved, "0.5")
    (row,) = facts["values"]
    x, y, bound = printed("run", saved, "0.5").split()
    assert (row["x"], row["y"], row["bound"]) == (float(x), float(y), float(bound))
    assert facts["status"] == "PROVEN"


def test_run_says_what_its_bound_leans_on(tmp_path: Path) -> None:
    net = ww.approximate(math.sin, (-1, 1), 1e-2, derivative_bound=(2, 1))
    net.save(tmp_path / "net.safetensors")
    done = weightwright("run", tmp_path / "net.safetensors", "0.5")
    assert len(done.stdout.split()) == 3
    assert "status CONDITIONAL: assuming that the derivative of f of order 2 is at most 1.0" in done.stderr


def test_no_bound_is_printed_where_none_holds(saved: Path) -> None:
    clamped, ignored = (printed("run", saved, "0", "3", "--on-domain", how) for how in ("clamp", "ignore"))
    for text in (clamped, ignored):
        assert [line.split()[2] == "-" for line in text.splitlines()] == [False, True]
    at_the_end, clamped_y, ignored_y = (
        text.splitlines()[1].split()[1] for text in (printed("run", saved, "0", "1"), clamped, ignored)
    )
    assert clamped_y == at_the_end != ignored_y


def test_json_has_no_word_for_nan(saved: Path) -> None:
    (row,) = printed_json("run", saved, "nan", "--on-domain", "ignore")["values"]
    assert row == {"x": None, "y": None, "bound": None}


# check and info


def test_check_says_proven(sine: ww.AttentionNetwork, saved: Path) -> None:
    assert sine.certificate is not None
    text, facts = printed("check", saved), printed_json("check", saved)
    assert "PROVEN" in text
    assert "exp is computed within" in text
    assert facts["status"] == "PROVEN"
    assert facts["formula"] == "sin(5*x)"
    assert facts["bound"] == sine.certificate.bound
    assert facts["terms"] == dataclasses.asdict(sine.certificate.terms)
    assert facts["boxes"] == len(sine.certificate.claim.leaf.boxes)
    assert facts["seconds"] > 0


def test_info_runs_no_proof_and_says_so(saved: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("weightwright.checker.check.check_file", _never)
    plot = tmp_path / "info.png"
    text, facts = printed("info", saved), printed_json("info", saved, "--plot", plot)
    assert facts["status"] == "UNCHECKED"
    assert facts["check_with"] == f"weightwright check {saved}"
    assert "PROVEN" not in text
    for line in ("UNCHECKED", "bound, as claimed", "x[0], data, key, offset, value, sin(5*x)", "soft anchors; beta "):
        assert line in text
    assert facts["cost"].keys() == {field.name for field in dataclasses.fields(Cost)}
    assert facts["native"] is True
    assert facts["layers"][0]["heads"][0]["anchors"] == facts["registers"]
    assert plot.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def _never(*args: Any, **options: Any) -> Any:
    raise AssertionError("this work should not have been started")


# errors


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("sin(", *ON_UNIT), "formula 'sin(', character 5"),
        (("log(x)", *ON_UNIT), "undefined"),
        (("x", "--domain", "1 -1", "--tol", "1"), "lo must be below hi"),
        (("x", "--domain", "1 1", "--tol", "1"), "lo must be below hi"),
        (("x", "--domain", "0 b", "--tol", "1"), "hi must be a finite number, not 'b'"),
        (("x", "--domain", "0 1 2", "--tol", "1"), "--domain takes two numbers"),
        (("x", "--domain", "0 1", "--tol", "-1"), "tol must be a positive finite number"),
        (("x", "--domain", "0 1", "--tol", "nan"), "tol must be a positive finite number"),
        (("x", "--domain", "0 1", "--tol", "1", "--max-anchors", "1"), "--max-anchors must be"),
        (("sin(5*x)", "--domain", "-1 1", "--tol", "1e-8", "--method", "faithful"), "needs 2,000,000,001 anchors"),
        (("x", "--domain", "0 1", "--tol", "1e-17", "--max-anchors", "4"), "--tol 1e-17 cannot be proven; the best"),
        (("\x1b[31m\nx", *ON_UNIT), r"formula '\x1b[31m\nx', character 1"),
    ],
)
def test_approximate_fails_with_one_line_and_leaves_nothing(
    args: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    result = weightwright("approximate", *args, "--out", tmp_path / "a.safetensors", "--plot", tmp_path / "a.png")
    assert message in complaint(result, 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--out", "missing/a.safetensors", "there is no folder"),
        ("--plot", "missing/a.png", "there is no folder"),
        ("--plot", "a.gif", "must end in one of .png, .svg, .pdf"),
        ("--plot", "a", "must end in one of"),
        ("--out", ".", "it is a folder"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_work(
    option: str, name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weightwright.approximation.approximate.approximate", _never)
    assert message in complaint(weightwright("approximate", "x", *ON_UNIT, option, tmp_path / name), 2)
    assert list(tmp_path.iterdir()) == []


def test_the_network_and_the_plot_need_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weightwright.approximation.approximate.approximate", _never)
    path = tmp_path / "a.png"
    assert "same file" in complaint(weightwright("approximate", "x", *ON_UNIT, "--out", path, "--plot", path), 2)


@pytest.mark.parametrize(
    ("value", "message"),
    [("1.5", "is 1.5, outside [-1.0, 1.0], off by 0.5"), ("nan", "is nan, outside"), ("one", "'one' is not a number")],
)
def test_run_refuses_a_value_outside_the_domain(saved: Path, value: str, message: str) -> None:
    assert message in complaint(weightwright("run", saved, "0", value), 2)


@pytest.mark.parametrize(("stdin", "message"), [("", "no values"), (b"0.5 \xff", "is not a number")])
def test_run_refuses_useless_input(saved: Path, stdin: str | bytes, message: str) -> None:
    assert message in complaint(weightwright("run", saved, stdin=stdin), 2)


@pytest.mark.parametrize("command", ["run", "check", "info"])
def test_files_that_are_no_networks(command: str, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(saved.read_bytes()[:1000])
    (tmp_path / "pickle").write_bytes(pickle.dumps({"weights": [1.0] * 100}))
    (tmp_path / "folder").mkdir()
    expected = {"missing": "No such file", "cut": "cut short", "pickle": "not a safetensors", "folder": "is a folder"}
    for name, message in expected.items():
        assert message in complaint(weightwright(command, tmp_path / name), 2)


def test_a_name_cannot_steer_the_terminal(tmp_path: Path) -> None:
    line = complaint(weightwright("check", tmp_path / "a\n\x1b[2J"), 2)
    assert line.endswith(r"a\n\x1b[2J")


def altered(saved: Path) -> Path:
    """The same metadata over a changed weight."""
    with safe_open(saved, framework="numpy") as file:
        metadata = file.metadata()
    arrays = load_file(saved)
    arrays["floats"] = arrays["floats"] * 1.001
    save_file(arrays, saved, metadata)
    return saved


def overstated(saved: Path, sine: ww.AttentionNetwork) -> Path:
    """A file in good order whose certificate claims too much."""
    assert sine.certificate is not None
    save_forged(sine.network, dataclasses.replace(sine.certificate, bound=sine.certificate.bound / 2), saved)
    return saved


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_refused_certificate_is_exit_code_1(saved: Path, sine: ww.AttentionNetwork, options: tuple[str, ...]) -> None:
    refused = weightwright("check", overstated(saved, sine), *options)
    assert "the certificate was refused: the terms add up to" in complaint(refused, 1)
    assert "match their digest" in complaint(weightwright("check", altered(saved), *options), 1)


def test_run_prints_no_bound_that_was_refused(saved: Path, sine: ww.AttentionNetwork) -> None:
    assert "the terms add up to" in complaint(weightwright("run", overstated(saved, sine), "0"), 1)


def test_a_network_of_two_inputs_takes_two_numbers_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "zoo.safetensors"
    ww.AttentionNetwork(ZOO["looped"]()).save(path)
    assert "takes 2 numbers at a time, and 1 were given" in complaint(weightwright("run", path, "0"), 2)
    assert "has no certificate" in complaint(weightwright("check", path), 1)
    facts = printed_json("info", path)
    assert (facts["status"], facts["check_with"], facts["bound"]) == (None, None, None)
    assert "times: 3" in printed("info", path)


# as a process


def test_help_does_not_wait_for_torch() -> None:
    code = """if True:
        import sys
        from weightwright.cli import app
        app(["--help"], standalone_mode=False)
        print({"torch", "scipy", "matplotlib", "flint"} & set(sys.modules))
    """
    helped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "approximate" in helped.stdout
    assert helped.stdout.splitlines()[-1] == "set()"


def test_version() -> None:
    assert process("--version").stdout == f"weightwright {ww.__version__}\n"


def test_a_process_fails_with_one_line_and_no_traceback(tmp_path: Path) -> None:
    failed = process("check", tmp_path / "missing")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == f"error: No such file or directory: {tmp_path / 'missing'}\n"


@pytest.mark.slow
def test_a_reader_that_has_left_is_no_error_of_ours(saved: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "weightwright.cli", "run", str(saved), "0.5"]
    alone = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(theirs)
    assert alone.stderr == ""


def test_progress_is_shown_on_a_terminal_only(saved: Path) -> None:
    printed("check", saved)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "weightwright.cli", "check", str(saved), "--json"]
    environment = os.environ | {"TERM": "xterm"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment) as running:
        os.close(theirs)
        stdout = running.communicate(timeout=60)[0]
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert json.loads(stdout)["status"] == "PROVEN"
    assert "checking the certificate" in shown


def test_float32_from_the_command_line(tmp_path: Path) -> None:
    path, picture = tmp_path / "net.safetensors", tmp_path / "net.png"
    printed("approximate", "exp(x)", "--domain", "-1 1", "--tol", "1e-5", "--dtype", "float32", "--out", path)
    assert ww.check(path).dtype == "float32"
    printed("info", path, "--plot", picture)
    assert picture.exists()
    (row,) = printed_json("run", path, "0.1")["values"]
    assert row["x"] == 0.10000000149011612  # 0.1 as float32 has it
    assert abs(row["y"] - math.exp(row["x"])) <= row["bound"] <= 1e-5


# kernels, kinks and dead zones


def test_kernel_and_keys_are_options(tmp_path: Path) -> None:
    windowed = printed_json("approximate", "exp(x)", *ON_UNIT, "--kernel", "anchor")
    assert (windowed["status"], windowed["kernel"]) == ("PROVEN", "anchor")
    gate = printed_json("approximate", "relu(x)", *ON_UNIT, "--sees", "self", "--out", tmp_path / "gate.safetensors")
    assert (gate["status"], gate["anchors"], gate["heads"]) == ("PROVEN", 1, 1)
    shown = printed_json("info", tmp_path / "gate.safetensors")
    assert shown["layers"][0]["heads"][0]["data_tokens_seen"] == "self"
    assert not shown["native"]  # a token that sees itself alone takes a position code
    assert any("position code" in obstacle for obstacle in shown["obstacles"])


def test_a_dead_zone_is_shown_everywhere(tmp_path: Path) -> None:
    out, plot = tmp_path / "sign.safetensors", tmp_path / "sign.png"
    text = printed("approximate", "sign(x)", *ON_UNIT, "--dead-zone", "0.125", "--out", out, "--plot", plot)
    assert "dead zones [-0.125, 0.125]" in " ".join(text.split())
    assert plot.stat().st_size > 10_000
    for command in ("check", "info"):
        assert printed_json(command, out)["zones"] == [{"lo": -0.125, "hi": 0.125, "of": "x", "share": 0.125}]
    rows = printed_json("run", out, "--on-domain", "ignore", "-0.5", "0.0625", "0.125", "0.5")["values"]
    assert [row["bound"] is None for row in rows] == [False, True, False, False]
    assert "in the dead zone between -0.125 and 0.125" in complaint(weightwright("run", out, "0.0625"), 2)
    assert "dead zone -0.125 to 0.125, 12.5% of the domain, UNCHECKED" in repr(ww.load(out, verify=False))
    said = " ".join(printed("check", out).split())
    assert "CONDITIONAL: assuming that x does not lie between -0.125 and 0.125 (12.5% of the domain)" in said
    assert printed("check", "--dead-share", "0.125", out).split()[3] == "PROVEN:"


def test_a_jump_without_a_dead_zone_is_one_line() -> None:
    line = complaint(weightwright("approximate", "sign(x)", *ON_UNIT), 2)
    assert line.startswith("error: sign(x) on [-1, 1] jumps at x = 0")
