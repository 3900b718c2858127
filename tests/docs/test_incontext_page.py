"""docs/incontext.md and the benchmark that writes into it: the example runs, and the figures say what is claimed."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import incontext as benchmark
import numpy as np
import pytest
from pages import written_into

import weightwright as ww
from weightwright.incontext.run import StudyPoint

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "incontext.md").read_text()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]


def rows(letter: str) -> list[list[str]]:
    """The rows of the first table of a part of the page."""
    part = PAGE.split(f"<!-- {letter}: written by")[1].split(f"<!-- {letter}: end")[0]
    table = part.split("\n|", 1)[1].split("\n\n")[0]
    return [cells(line) for line in table.splitlines()[2:]]


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = re.search(r"```pycon\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    test = doctest.DocTestParser().get_doctest(example[1], {}, "docs/incontext.md", None, None)
    assert len(test.examples) > 10
    said: list[str] = []
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)
    assert (tmp_path / "run.png").is_file()


def test_every_image_is_there() -> None:
    images = re.findall(r"!\[[^]]*\]\(([^)]+)\)", PAGE)
    assert len(images) == 4
    for image in images:
        assert (ROOT / "docs" / image).is_file(), image


def test_every_loss_of_the_page_keeps_what_is_asked_for_and_what_is_proven() -> None:
    found = rows("a")
    assert [row[0] for row in found[::2]] == [row[0] for row in found[1::2]] == list(benchmark.CASES)
    for name, dtype, anchors, proven, one_step, _, *_, largest, asked, inside in found:
        _, most, tols = benchmark.CASES[name]
        assert int(anchors) <= most
        assert float(one_step) <= float(proven)
        assert float(largest) <= tols[dtype == "float32"]
        assert asked.endswith(": met")
        assert inside == "yes"


def test_the_page_has_the_steps_on_real_data() -> None:
    assert {row[0]: int(row[4]) for row in rows("b")} == {"diabetes": 130, "concrete": 49, "Hitters": 436}
    for row in rows("b"):
        assert row[4] == row[8]  # the plain algorithm takes as many
        assert int(row[4]) < int(row[9].replace(",", "")) < int(row[10].replace(",", ""))


def test_the_large_run_kept_its_limits() -> None:
    (row,) = rows("c")
    build, forward, _, _, memory = row[1:6]
    assert float(build.removesuffix(" s")) + float(forward.removesuffix(" s")) < 60
    assert float(memory.removesuffix(" GB")) < 2


def test_a_step_that_is_off_is_seen() -> None:
    X, y, _ = benchmark.examples(6, 2)
    descent = ww.incontext.fitting(X, y, steps=3)
    run = descent.run(X, y)
    assert run.net.certificate is not None
    assert benchmark.within(run) == "yes"
    assert float(benchmark.step_cells(run)[1]) <= run.net.certificate.bound
    moved = descent.run(X, y)
    moved.states[2, 0, 1] += 1e-3
    assert benchmark.within(moved) == "NO"
    assert benchmark.single_steps(moved)[1] >= 0.99e-3


def test_steps_until_near() -> None:
    best = np.array([1.0, -2.0])
    path = np.array([[0.0, 0.0], [1.0, -2.0], [1.001, -2.0], [1.00005, -2.0], [1.0, -2.0001]])
    assert benchmark.reached(path, best) == ("1", "3")
    assert benchmark.reached(path[:3], best) == ("1", "above 2")
    assert benchmark.reached(path[:1], best) == ("above 0", "above 0")


def test_the_large_run_is_told_in_one_row() -> None:
    measured = benchmark.large_run(n=10, d=2, steps=3)
    row = cells(list(benchmark.large_table(measured))[2])
    assert row[0] == str(measured["anchors"])
    assert all(cell.endswith(" s") for cell in row[1:4])
    assert 0.05 < float(row[4].removesuffix(" GB")) <= float(row[5].removesuffix(" GB"))
    assert 0 < float(row[6]) < 1e-4


def test_studies_are_told_point_by_point() -> None:
    (coarse, fine) = benchmark.anchors_study({"squared": ww.incontext.loss("squared")}, (1e-2, 1e-9), 5, 2, 2)[
        "squared"
    ]
    assert coarse.at < fine.at
    assert 0 < fine.error < coarse.error <= coarse.bound
    assert fine.error <= fine.bound < coarse.bound
    worse = StudyPoint(fine.at + 1, 2 * fine.error, fine.bound)
    assert benchmark.fronts([worse, fine, coarse]) == [coarse, fine]
    lines = list(benchmark.study_table("n", {"one": [StudyPoint(10, 0.5, 2.0), StudyPoint(50, 0.25, float("inf"))]}))
    assert lines[-1] == "| one | 10: 0.5 (2) | 50: 0.25 (no bound) |"


def test_lines_go_between_the_markers_of_their_part(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    marks = "<!-- {0}: written by benchmarks/incontext.py -->\nold\n<!-- {0}: end -->\n"
    page.write_text("# Title\n" + marks.format("a") + "between\n" + marks.format("b"))
    parts = {letter: lambda letter=letter: iter(["", f"new {letter}", ""]) for letter in "ab"}
    benchmark.main(["--only", "b", "--write", str(page)], parts)
    assert page.read_text().count("old") == 1
    benchmark.main(["--write", str(page)], parts)
    text = page.read_text()
    assert "old" not in text
    assert text.index("new a") < text.index("between") < text.index("new b")
    with pytest.raises(ValueError, match="<!-- c: end -->' once each"):
        written_into(text, "c", [], "benchmarks/incontext.py")
