"""Tables say no less than what is known and no more than what is proven; plots are whole or not there."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import re
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from support.forging import with_values
from support.zoo import ZOO

import weightwright as ww
from weightwright import report
from weightwright.claims.certificate import round_up
from weightwright.errors import install_line
from weightwright.report import plot

CHECK = "weightwright check net.safetensors"


def shown(facts: dict[str, Any], width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(report.table(facts))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


# numbers and words


def test_a_shortened_bound_is_still_a_bound() -> None:
    rng = np.random.default_rng(0)
    for bound in [*(10.0 ** rng.uniform(-300, 300, 500)).tolist(), 5e-324, 0.001, 1.0, 999.5]:
        text = round_up(bound)
        assert Fraction(Decimal(text)) >= Fraction(bound)
        assert len(text.partition("e")[0].replace(".", "").strip("0")) <= 3
        assert Fraction(Decimal(text)) <= Fraction(bound) * Fraction("1.011")
        assert text == f"{float(text):.3g}" or bound < 1e-307


def test_bounds_and_terms_are_rounded_up_in_tables(sine: ww.AttentionNetwork) -> None:
    assert sine.certificate is not None
    terms = with_values(sine.certificate.terms, 1.001e-9, 2.001e-30, 3.001e-14)
    said = dataclasses.replace(sine.certificate, bound=1.1001e-9, terms=terms)
    text = shown(report.certificate_facts(said))
    for number in ("1.11e-09", "1.01e-09", "2.01e-30", "3.01e-14"):
        assert number in text
    tiny = dataclasses.replace(said, terms=dataclasses.replace(terms, leakage=2.001e-300))
    assert "< 1e-99" in shown(report.certificate_facts(tiny))  # still a bound


def test_names_from_a_file_cannot_steer_the_terminal(sine: ww.AttentionNetwork) -> None:
    assert sine.certificate is not None
    hostile = "x\x1b[2J\r[red]\u202e\n"
    said = dataclasses.replace(sine.certificate, formula=hostile)
    text = shown(report.certificate_facts(said))
    assert r"x\x1b[2J\r[red]\u202e\n" in text
    assert "\x1b" not in text


def test_json_knows_numbers_only() -> None:
    facts = {"a": [1.5, math.nan, {"b": math.inf}], "c": None, "d": True}
    assert json.loads(report.to_json(facts)) == {"a": [1.5, None, {"b": None}], "c": None, "d": True}


def test_a_value_outside_the_domain_has_no_bound(sine: ww.AttentionNetwork) -> None:
    assert sine.certificate is not None
    ends = [-1.0, 1.0, math.nextafter(1.0, 2.0), math.nextafter(-1.0, -2.0), math.nan]
    bounds = [row["bound"] for row in report.value_facts(sine, [[end] for end in ends], ends)]
    assert bounds == [sine.certificate.bound, sine.certificate.bound, None, None, None]


# networks of every kind


@pytest.mark.parametrize("name", ZOO)
def test_every_network_can_be_told(name: str) -> None:
    network = ZOO[name]()
    facts = report.network_facts(ww.AttentionNetwork(network), CHECK)
    text = shown(facts, 200)
    assert json.loads(report.to_json(facts)) == facts
    assert facts["native"] == network.native == (not facts["obstacles"])
    for head in network.heads:
        assert f"{head.role}; beta {head.beta:g}" in text
    for words in (*network.obstacles, ", ".join(network.embed.coordinates)):
        assert words in text
    assert (facts["status"], facts["bound"], facts["check_with"]) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sees its block", "sees its block of data tokens"),
        ("sees itself", "sees 4 anchors and itself"),
        ("compiled", "sees 3 anchors and no data token"),
        ("feed-forward", "FeedForward, residual: no, hidden: 5"),
        ("softmaxes", "Softmax, beta: 3, over: tokens"),
        ("looped", "Loop, times: 3"),
    ],
)
def test_layers_and_heads_are_put_in_words(name: str, words: str) -> None:
    assert words in shown(report.network_facts(ww.AttentionNetwork(ZOO[name]()), CHECK), 200)


def test_nothing_is_cut_off_in_a_narrow_terminal(sine: ww.AttentionNetwork) -> None:
    assert sine.certificate is not None
    said = dataclasses.replace(sine.certificate, formula=" + ".join(f"sin({k}*x)" for k in range(99)))
    text = "".join(shown(report.certificate_facts(said), 50).split())
    assert "…" not in text
    for k in range(99):
        assert f"sin({k}*x)" in text


# plots


def figure(net: ww.AttentionNetwork) -> Any:
    assert net.certificate is not None
    return plot._figure(net, net.certificate)


def labels(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


@pytest.mark.few(2)
@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG\r\n\x1a\n"), (".svg", b"<?xml"), (".PDF", b"%PDF")])
def test_equal_networks_give_equal_pictures(
    sine: ww.AttentionNetwork, suffix: str, start: bytes, tmp_path: Path
) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for path in (first, second):
        report.plot_network(sine, path)
    assert first.read_bytes().startswith(start)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_the_picture_says_what_is_proven(sine: ww.AttentionNetwork) -> None:
    assert sine.certificate is not None
    drawn = figure(sine)
    assert drawn.get_suptitle().startswith("sin(5*x)   on [-1, 1]\n")
    assert f"{len(sine.network.registers)} anchors, error at most " in drawn.get_suptitle()
    assert drawn.get_suptitle().endswith(f"{round_up(sine.certificate.bound)}, PROVEN")
    measured, bound = drawn.axes[1].lines[:2]
    assert bound.get_ydata()[0] == sine.certificate.bound
    assert 0.5 * sine.certificate.bound < np.nanmax(measured.get_ydata()) <= sine.certificate.bound
    assert any(label.startswith("proven bound") for label in labels(drawn.axes[1]))
    assert any(label.startswith("approximation") for label in labels(drawn.axes[1]))
    assert not any(label.startswith("leakage") for label in labels(drawn.axes[1]))


def test_an_unchecked_bound_is_not_called_proven(saved: Path) -> None:
    drawn = figure(ww.load(saved, verify=False))
    assert drawn.get_suptitle().endswith("UNCHECKED")
    assert "proven" not in " ".join(labels(drawn.axes[1]))


def test_errors_near_rounding_are_seen() -> None:
    """Against a float reference most errors of tanh would be multiples of 1e-16, many of them 0."""
    net = ww.approximate("tanh(3*x)", (-1, 1), 1e-8)
    assert net.certificate is not None
    errors = figure(net).axes[1].lines[0].get_ydata()
    assert np.isfinite(errors).mean() > 0.99
    assert 1e-17 < np.median(errors[np.isfinite(errors)]) < 1e-15
    assert np.nanmax(errors) <= net.certificate.bound


def test_anchors_stand_where_the_construction_puts_them() -> None:
    net = ww.approximate("x", (3, 4), 0.1, method="faithful")
    p = len(net.network.registers)
    positions = figure(net).axes[0].lines[2].get_xdata()
    np.testing.assert_allclose(positions, 3 + np.arange(p) / p, rtol=0, atol=1e-12)


def test_soft_anchors_are_half_their_keys(sine: ww.AttentionNetwork) -> None:
    keys = sine.network.registers[:, 2]
    positions = figure(sine).axes[0].lines[2].get_xdata()
    np.testing.assert_allclose(positions, (keys / 2)[abs(keys) <= 2], rtol=0, atol=1e-12)
    assert f"{len(positions)} of {len(keys)} inside the domain" in labels(figure(sine).axes[0])[2]


def test_two_keys_stand_nowhere() -> None:
    assert labels(figure(ww.approximate("sigmoid(x + 0.25)", (-1, 1), 1e-8)).axes[0]) == ["function", "network"]


def test_no_error_at_all_is_drawn_as_none() -> None:
    """A constant is computed exactly: nothing positive for a log axis, and the bound is not a measurement."""
    assert "largest 0" in labels(figure(ww.approximate("3", (-1, 1), 1e-6)).axes[1])[0]


def test_a_failed_picture_leaves_the_old_one(
    sine: ww.AttentionNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"old")

    def half_written(self: Any, target: Path, **options: Any) -> None:
        target.write_bytes(b"half a pict")
        raise OSError("disk full")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", half_written)
    with pytest.raises(OSError, match="disk full"):
        report.plot_network(sine, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_without_matplotlib_the_error_says_what_to_install(
    sine: ww.AttentionNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ww.WeightwrightError, match=re.escape(install_line("plot"))):
        report.plot_network(sine, tmp_path / "a.png")


def test_pictures_of_unknown_kind_or_of_nothing_are_refused(sine: ww.AttentionNetwork, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in one of \.png, \.svg, \.pdf"):
        report.plot_network(sine, tmp_path / "a.txt")
    with pytest.raises(ww.WeightwrightError, match="without a certificate"):
        report.plot_network(ww.AttentionNetwork(sine.network), tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []
