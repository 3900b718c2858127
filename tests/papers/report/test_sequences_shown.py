"""Networks of several tokens as users see them: reprs, tables, `run`, `check --search`, `info`, figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.command_line import weightwright

import weightwright as ww
from weightwright.papers.kit.instance import Line
from weightwright.papers.pages.pictures import Curve, curve, pictures
from weightwright.papers.pages.theorem_plots import plot_theorem
from weightwright.papers.theorems.registry import find

W, T = np.array([[1.5, 0.5], [-1.0, 1.0], [0.25, -2.0]]), np.array([0.125, 0.0, -0.25])
BUILT = {
    "one head": lambda: ww.constructions.truncated_linear(W, T, -1, 1, (-1, 1), p=16),
    "two rows": lambda: ww.constructions.truncated_linear(W, T, -1, 1, (-1, 1), p=16, G=lambda k: k // 8),
    "forty heads": lambda: ww.constructions.truncated_linear_heads([1.5, 0.5], [0.0] * 6, -1, 1, (-1, 1), H=40),
    "mixing": lambda: ww.constructions.token_mixing(np.arange(9.0).reshape(3, 3), np.eye(2), (-1, 1)),
    "gates": lambda: ww.constructions.native_relu((np.eye(4), np.zeros(4), np.eye(4), np.zeros(4)), 2, (-1, 1)),
    "grid": lambda: ww.constructions.sequence_to_scalar("x0*x1", n=2, d=1, g=3, delta=0.1),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("nets")
    paths = {name: folder / f"{name}.safetensors" for name in BUILT}
    for name, build in BUILT.items():
        build().save(paths[name])
    return paths


@pytest.mark.parametrize("name", BUILT)
def test_a_network_and_what_it_says_are_one_short_line_each(files: dict[str, Path], name: str) -> None:
    net = ww.load(files[name], verify=False)
    assert net.certificate is not None
    layer = net.network.layers[0]
    for shown in (net, net.certificate, net.network, net.certificate.composite, layer.heads[0]):  # type: ignore[union-attr]
        assert "\n" not in repr(shown)
        assert len(repr(shown)) < 250
    assert max(len(repr(net)), len(repr(net.certificate))) < 120
    assert net.certificate.formula[:40] in repr(net)


@pytest.mark.parametrize("name", BUILT)
def test_info_and_check_are_short_tables(files: dict[str, Path], name: str) -> None:
    for command in ("info", "check"):
        said = weightwright(command, files[name])
        assert said.exit_code == 0, said.stderr
        assert len(said.stdout.splitlines()) < 60
        assert "[[" not in said.stdout
        assert "[-1, 1] for each of" in said.stdout


def test_many_heads_are_counted(files: dict[str, Path]) -> None:
    said = weightwright("info", files["forty heads"]).stdout
    assert "... 37 more like these ..." in said
    assert "head 39" in said
    assert "sees 0 anchors" not in said


def test_run_takes_sequences(files: dict[str, Path]) -> None:
    said = weightwright("run", files["mixing"], "--", *"100100000001")
    lines = [line.split() for line in said.stdout.splitlines()]
    assert [len(line) for line in lines] == [5, 5, 5, 0, 5, 5, 5]
    assert [float(line[2]) for line in lines[:3]] == pytest.approx([0, 3, 6])
    one = weightwright("run", files["mixing"], "--", "1", "0")
    assert (one.exit_code, one.stderr) == (
        2,
        "error: the network takes 6 numbers at a time (3 tokens of 2), and 2 were given\n",
    )
    assert len(weightwright("run", files["grid"], "--", "0.5", "0.25").stdout.split()) == 4  # one number comes out


def test_run_prints_no_bound_in_a_dead_zone(files: dict[str, Path]) -> None:
    """The argument of the first token, 1.5 x + 0.125, in the middle of the zone, and far from it."""
    zone = json.loads(weightwright("info", files["two rows"], "--json").stdout)["zones"]
    lo, hi = zone[0]["lo"], zone[0]["hi"]
    inside = (lo / 2 + hi / 2 - 0.125) / 1.5
    for x, bounded in ((inside, False), (0.5, True)):
        numbers = (repr(x), "0", "0.5", "0", "0", "0")
        said = weightwright("run", files["two rows"], "--on-domain", "ignore", "--json", "--", *numbers)
        (value,) = json.loads(said.stdout)["values"]
        assert (value["bound"] is not None) == bounded
        refused = weightwright("run", files["two rows"], "--", *numbers)
        assert (refused.exit_code == 0) == bounded
        assert bounded or "brings an argument into a dead zone" in refused.stderr


def test_what_cannot_be_searched_is_checked_all_the_same(files: dict[str, Path]) -> None:
    said = weightwright("check", files["grid"], "--search", "0")
    assert said.exit_code == 2
    assert "PROVEN" in said.stdout
    assert "L_p norm" in said.stderr
    assert "error" in weightwright("check", files["gates"], "--search", "0").stdout


def test_the_figure_of_mixing_compares_matrices(tmp_path: Path) -> None:
    instance = find("UA-9").instance()
    assert instance.matrices is not None
    asked, attended = instance.matrices.shown.values()
    assert np.abs(asked - attended).max() < 1e-14
    assert any(type(picture).__name__ == "Matrices" for picture in pictures(instance))
    plot_theorem("UA-9", pictures(instance), tmp_path / "mixing.png")


def test_the_figure_of_gates_shows_where_they_are_wrong() -> None:
    """Away from kinks gates are exact to rounding, and a figure there shows nothing."""
    drawn = next(picture for picture in pictures(find("UA-10").instance()) if isinstance(picture, Curve))
    (bound,), (errors,) = drawn.bounds.values(), drawn.errors.values()
    assert bound is not None
    assert 0.1 * bound < errors.max() <= bound


def test_a_figure_has_a_target_for_each_variant() -> None:
    nets = {name: BUILT[name]() for name in ("one head", "two rows")}
    line = Line(-0.5, 0.5, np.zeros((3, 2)), np.ones((3, 2)), "x")
    assert len(curve(nets, line).targets) == 2
    assert len(curve({"a": nets["one head"], "b": nets["one head"]}, line).targets) == 1
