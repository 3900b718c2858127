"""docs/compiled.md and the benchmark that writes it; the benchmark's functions on the cheapest example."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import compiled as benchmark
import pytest
import torch

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compiled.md").read_text()
COMPILER = (ROOT / "docs" / "compiler.md").read_text()
examples = benchmark.load_examples()
SOFTMAX = "softmax of 5"
ONE = {SOFTMAX: examples.EXAMPLES[SOFTMAX]}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def rows(section: str) -> list[list[str]]:
    """The rows of the first table below a title of the page."""
    table = PAGE.split(f"## {section}\n")[1].split("\n|", 1)[1].split("\n\n")[0]
    return [cells(line) for line in table.splitlines()[2:]]


@pytest.mark.parametrize("section", ["float64", "float32"])
def test_the_page_has_every_example(section: str) -> None:
    assert set(examples.EXAMPLES) == {row[0] for row in rows(section)}, "run make docs"


def test_the_page_says_what_each_table_is() -> None:
    for words in (benchmark.INTRODUCTION, *benchmark.ABOUT.values()):
        assert words in PAGE, "run make docs"
    assert re.search(benchmark.load_average(1.5, 2).replace("1.5", r"\d+\.\d").replace("2", r"\d+") + "$", PAGE)


def test_no_error_on_the_page_is_above_its_bound_or_its_tolerance() -> None:
    for row in rows("float64"):
        tol, status, bound, error = row[-4:]
        assert float(error) <= float(tol), row
        assert status == "MEASURED" or float(error) <= float(bound) <= float(tol), row


def test_the_page_proves_every_prediction() -> None:
    digits = rows("All predictions, proven")
    assert [row[0] for row in digits] == [name for name in examples.EXAMPLES if name.startswith("digits")]
    assert all(row[3:] == ["1,797"] * 3 for row in digits), "run make docs"


def test_the_guide_repeats_rows_of_the_page() -> None:
    """Operations, layers, heads, registers, bound and largest error, as they stand on the page."""
    page = {row[0]: [*row[1:5], *row[-2:]] for row in rows("float64")}
    section = COMPILER.split("## What it costs\n")[1].split("\n## ")[0]
    shown = [cells(line) for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(shown) >= 5
    for row in shown:
        assert row[1:] == page[row[0]], row[0]


def test_float64_tables() -> None:
    _, _, line, _, _, _, exported = benchmark.float64_tables(ONE, seconds=0.1)
    row = cells(line)
    assert row[:5] == [SOFTMAX, "5", "1", "1", "5"]
    assert row[10] == "PROVEN"
    assert 0 < float(row[12]) <= float(row[11]) <= 1e-6
    assert all(float(difference) < 1e-14 for difference in cells(exported)[1:])


def test_an_example_that_asks_to_be_measured_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weightwright.compiler.measured_network.SECONDS", 0.1)
    lines = list(benchmark.float64_tables({SOFTMAX: replace(ONE[SOFTMAX], proof="measured")}))
    assert cells(lines[2])[10:12] == [
        "MEASURED",
        "none: no proof was asked for; proof='proven' would give the bound 7.66e-15",
    ]


def test_float32_table() -> None:
    row = cells(list(benchmark.float32_table(ONE, seconds=0.1))[2])
    assert 0.9 < float(row[1]) <= 1
    assert row[3] == "PROVEN"
    assert float(row[6]) == pytest.approx(float(row[5]) / float(row[1]), rel=0.1)


def test_what_cannot_be_compiled_is_told_in_the_tables() -> None:
    def sorts(x: torch.Tensor) -> torch.Tensor:
        return torch.argsort(x, dim=-1)

    refused: dict[str, Any] = {"sort": replace(ONE[SOFTMAX], function=lambda: sorts)}
    lines = list(benchmark.float64_tables(refused, seconds=0.1))
    assert "torch's argsort cannot be traced" in lines[2]
    assert cells(lines[-1]) == ["sort", "", "", ""]


def test_a_row_is_one_line_of_cells() -> None:
    assert benchmark.row("a|b", "two\nlines") == r"| a\|b | two lines |"


def test_cost_for_one_operation() -> None:
    line = list(benchmark.growth_table((4,)))[2]
    width, operations, heads, *others = cells(line)
    assert (width, operations, heads) == ("4", "16", "4")  # 4 units, 4 activations, 8 outputs
    assert float(others[5]) == 0.25


def test_one_table_alone_or_the_page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["compiled.py", "--only", "c", "--write", "page.md"])
    with pytest.raises(SystemExit):
        benchmark.main()
    assert "--write writes the whole page" in capsys.readouterr().err


def test_the_page_is_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["compiled.py", "--write", str(tmp_path / "page.md")])
    monkeypatch.setattr(benchmark, "page", lambda examples, only: iter(["# Title", "", "text", "", ""]))
    benchmark.main()
    assert (tmp_path / "page.md").read_text() == "# Title\n\ntext\n"


def test_every_image_of_the_pages_is_there() -> None:
    for name in ("README.md", "docs/compiler.md"):
        path = ROOT / name
        for image in re.findall(r"!\[[^]]*\]\(([^)]+)\)", path.read_text()):
            assert (path.parent / image).is_file(), f"{name}: {image}"
