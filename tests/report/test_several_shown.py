"""Networks of several variables, and measured ones, as the command line, tables, plots and exports show them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from support.command_line import weightwright

import weightwright as ww
from weightwright import report

SQUARE = ("--domain", "-1 1, 0 2", "--tol", "1e-3")


@pytest.fixture(scope="module")
def product() -> ww.AttentionNetwork:
    return ww.approximate("x*y", ww.Box([-1, 0], [1, 2]), 1e-3)


@pytest.fixture(scope="module")
def measured() -> ww.AttentionNetwork:
    return ww.approximate("x*y", ww.Box([-1, 0], [1, 2]), 1e-3, proof="measured")


def test_approximate_run_and_check_two_variables(tmp_path: Path) -> None:
    out = tmp_path / "net.safetensors"
    facts = json.loads(weightwright("approximate", "x*y", *SQUARE, "--out", out, "--json").stdout)
    assert facts["status"] == "PROVEN"
    assert facts["domain"] == {"lo": [-1.0, 0.0], "hi": [1.0, 2.0]}
    rows = json.loads(weightwright("run", out, "0.5", "1.5", "-1", "0.25", "--json").stdout)["values"]
    assert [row["x"] for row in rows] == [[0.5, 1.5], [-1.0, 0.25]]
    for row in rows:
        assert abs(row["y"] - row["x"][0] * row["x"][1]) <= row["bound"] == facts["bound"]
    line = weightwright("run", out, "0.5", "1.5").stdout.split()
    assert (line[:2], float(line[3])) == (["0.5", "1.5"], facts["bound"])
    outside = json.loads(weightwright("run", out, "0.5", "3", "--on-domain", "ignore", "--json").stdout)
    assert outside["values"][0]["bound"] is None
    searched = json.loads(weightwright("check", out, "--search", "0", "--json").stdout)["search"]
    assert len(searched["x"]) == 2
    assert searched["error"] <= searched["bound"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--domain", "-1 1 0"), "--domain takes two numbers for each variable"),
        (("--domain", "-1 1, 0 1, 0 1, 0 1"), "two or three features"),
    ],
)
def test_bad_domains_are_named(args: tuple[str, str], message: str) -> None:
    result = weightwright("approximate", "x", *args, "--tol", "1e-3")
    assert result.exit_code == 2
    assert message in result.stderr


def test_numbers_that_do_not_come_in_pairs_are_counted(product: ww.AttentionNetwork, tmp_path: Path) -> None:
    product.save(tmp_path / "net.safetensors")
    result = weightwright("run", tmp_path / "net.safetensors", "1", "1", "1")
    assert result.exit_code == 2
    assert "takes 2 numbers at a time, and 3 were given" in result.stderr


def test_a_measured_error_is_never_shown_as_a_bound(measured: ww.AttentionNetwork, tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    measured.save(path)
    facts = report.certificate_facts(measured.certificate)
    assert (facts["status"], facts["bound"], facts["terms"]) == ("MEASURED", None, None)
    found = measured.certificate.measured
    assert facts["measured"] == {"error": found.error, "inputs": found.inputs, "how": found.how, "reason": ""}
    text = weightwright("info", path).stdout
    assert "largest error" not in text
    assert "against the formula in 128 bits" in " ".join(text.split())
    assert json.loads(weightwright("run", path, "0.5", "1", "--json").stdout)["values"][0]["bound"] is None
    assert weightwright("check", path).exit_code == 1
    assert "largest error found" in repr(measured)
    assert "bound" not in repr(measured)
    asked = json.loads(weightwright("approximate", "x*y", *SQUARE, "--proof", "measured", "--json").stdout)
    assert (asked["status"], asked["bound"]) == ("MEASURED", None)


@pytest.mark.slow
def test_pictures_of_two_variables_and_of_measured_errors(
    product: ww.AttentionNetwork, measured: ww.AttentionNetwork, tmp_path: Path
) -> None:
    for name, net in (("proven", product), ("measured", measured)):
        first, second = tmp_path / f"{name}.png", tmp_path / f"{name}2.png"
        report.plot_network(net, first)
        report.plot_network(net, second)
        assert first.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert first.read_bytes() == second.read_bytes()
    svg = tmp_path / "net.svg"
    report.plot_network(ww.approximate("tanh(x)", (-1, 1), 1e-3, proof="measured"), svg)
    assert svg.stat().st_size > 1000


def test_three_variables_are_not_drawn(tmp_path: Path) -> None:
    net = ww.approximate("x + y + z", ww.Box([0] * 3, [1] * 3), 0.1, proof="measured")
    with pytest.raises(ww.WeightwrightError, match="one or two variables, not of 3"):
        report.plot_network(net, tmp_path / "net.png")


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_transformer_lens_model_agrees(dtype: torch.dtype) -> None:
    pytest.importorskip("transformer_lens")
    net = ww.approximate("x*y", ww.Box([-1, 0], [1, 2]), 1e-2, dtype=dtype)
    assert net.to_transformer_lens(tokens=64).difference <= {torch.float64: 1e-10, torch.float32: 1e-5}[dtype]


def test_exports_of_measured_networks_do_not_speak_of_a_bound(measured: ww.AttentionNetwork, tmp_path: Path) -> None:
    assert measured.to_torch(tmp_path / "net.py") <= 1e-10
    text = (tmp_path / "net.py").read_text()
    assert "MEASURED" in text
    assert "inf" not in text.lower().replace("information", "")
