"""Pictures of runs show the run: the network's path, the exact one, and two errors that keep below their bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weightwright import incontext
from weightwright.incontext.run import StudyPoint, distances_to_optimum, errors_figure, plot_errors_against, run_figure

STEPS, FEATURES = 20, 3


def made(**options: Any) -> incontext.Run:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, FEATURES))
    y = X @ [1.0, -2.0, 0.0] + 0.1 * rng.standard_normal(12)
    return incontext.fitting(X, y, steps=STEPS, **options).run(X, y)


@pytest.fixture(scope="module")
def plain() -> incontext.Run:
    return made()


@pytest.fixture(scope="module")
def lasso() -> incontext.Run:
    return made(l1=0.1, algorithm="fista")


def panels(run: incontext.Run) -> list[Any]:
    return [part.axes[0] for part in run_figure(run).subfigs]


def test_a_picture_is_written_whole(plain: incontext.Run, tmp_path: Path) -> None:
    for name in ("run.png", "run.svg"):
        plain.plot(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 10_000
    assert {path.name for path in tmp_path.iterdir()} == {"run.png", "run.svg"}


def test_a_name_without_a_known_ending_is_refused(plain: incontext.Run, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"run\.txt.*must end in one of \.png"):
        plain.plot(tmp_path / "run.txt")
    with pytest.raises(ValueError, match="must end in one of"):
        plot_errors_against("n", {"a": [StudyPoint(1, 1, 1)]}, "title", tmp_path / "errors")
    assert not any(tmp_path.iterdir())


def test_the_left_panel_has_every_coefficient_of_network_and_algorithm(plain: incontext.Run) -> None:
    lines = [line for line in panels(plain)[0].lines if len(line.get_xdata())]
    network, exact = lines[::2], lines[1::2]
    exactly = incontext.plain_iterates(plain.problem, plain.method, STEPS)
    assert [line.get_label() for line in network] == ["w[0]", "w[1]", "w[2]"]
    for r, (line, dots) in enumerate(zip(network, exact, strict=True)):
        assert np.array_equal(line.get_ydata(), plain.path[:, r])
        at = np.asarray(dots.get_xdata())
        assert at[0] == 0
        assert at[-1] == STEPS
        assert np.abs(exactly[at, 0, r] - dots.get_ydata()).max() < 1e-14  # the network is 1e-11 away
        assert dots.get_linestyle() == "None"
        assert line.get_color() == pytest.approx(dots.get_color())


def test_the_right_panel_has_both_errors_and_their_bounds(plain: incontext.Run) -> None:
    axes = panels(plain)[1]
    assert axes.get_yscale() == "log"
    by_colour: dict[str, list[Any]] = {}
    for line in axes.lines:
        by_colour.setdefault(line.get_color(), []).append(line)
    assert list(by_colour) == ["tab:blue", "tab:red"]
    for error, bound in by_colour.values():
        assert (error.get_linestyle(), bound.get_linestyle()) == ("-", "--")
        seen = np.isfinite(error.get_ydata()) & np.isfinite(bound.get_ydata())
        assert seen.sum() > STEPS // 2
        assert (error.get_ydata()[seen] <= bound.get_ydata()[seen]).all()
    errors = by_colour["tab:blue"][0].get_ydata()
    assert np.array_equal(errors[1:], plain.errors[1:])
    assert np.isnan(errors[0])  # 0 has no place on a logarithmic axis


def test_without_the_lemma_no_bound_is_drawn_to_the_iterate(lasso: incontext.Run) -> None:
    assert lasso.lemma.bounds is None
    lines = panels(lasso)[1].lines
    assert [line.get_color() for line in lines] == ["tab:blue", "tab:red", "tab:red"]


def test_the_measured_distance_is_never_above_what_is_proven(plain: incontext.Run, lasso: incontext.Run) -> None:
    for run in (plain, lasso):
        found = distances_to_optimum(run)
        assert found is not None
        seen = np.isfinite(found)
        assert seen[: STEPS // 2].all()
        assert (found[seen] <= run.optimum_bounds()[seen]).all()


def test_an_optimum_that_is_not_known_is_not_drawn() -> None:
    X, y = [[1.0, 1.0], [2.0, 2.0]], [1.0, 2.0]  # two features that are one
    run = incontext.fitting(X, y, steps=3, tol=1e-4).run(X, y)
    assert distances_to_optimum(run) is None
    assert [line.get_color() for line in panels(run)[1].lines] == ["tab:blue"]


def test_many_features_have_no_names() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20, 12))
    y = X[:, 0]
    legend = run_figure(incontext.fitting(X, y, steps=2, tol=1e-4).run(X, y)).subfigs[0].legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["network", "exact algorithm"]


def test_errors_against_a_size(tmp_path: Path) -> None:
    found = {
        "one": [StudyPoint(10, 1e-6, 1e-3), StudyPoint(1000, 0.0, float("inf"))],
        "two": [StudyPoint(10, 1e-2, 1.0)],
    }
    axes = errors_figure("examples n", found, "title", "bound").axes[0]
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_xlabel()) == ("log", "log", "examples n")
    drawn = {line.get_label(): np.asarray(line.get_ydata()) for line in axes.lines}
    assert list(drawn) == ["one: error found", "one: bound", "two: error found", "two: bound"]
    assert drawn["one: error found"][0] == 1e-6
    assert np.isnan(drawn["one: error found"][1])
    assert np.isnan(drawn["one: bound"][1])
    narrow = {"one": [StudyPoint(10, 1e-6, 1e-3), StudyPoint(12, 1e-7, 1e-3)]}
    assert errors_figure("anchors", narrow, "title", "bound").axes[0].get_xscale() == "linear"
    plot_errors_against("anchors", narrow, "title", tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").is_file()
    with pytest.raises(ValueError, match="at least one point"):
        plot_errors_against("anchors", {"one": []}, "title", tmp_path / "b.png")
