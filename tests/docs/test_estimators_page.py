"""docs/estimators.md: its examples run, its links and pictures are there, and it names what exists."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path

import estimators as benchmark
import pytest
from pages import written_into

import weightwright.incontext as incontext

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "estimators.md").read_text()


@pytest.mark.slow
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n".join(re.findall(r"```pycon\n(.*?)```", PAGE, re.DOTALL))
    test = doctest.DocTestParser().get_doctest(text, {}, "docs/estimators.md", None, None)
    assert len(test.examples) > 14
    said: list[str] = []
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)
    assert (tmp_path / "heads.png").is_file()


def test_links_and_pictures_are_there() -> None:
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", PAGE)]
    assert "images/estimators-ridge.png" in links
    assert all((ROOT / "docs" / link).is_file() for link in links if link)


def test_every_estimator_and_parameter_is_named() -> None:
    for name in incontext._ESTIMATORS:
        assert f"`{name}(" in PAGE
        for parameter in inspect.signature(getattr(incontext, name)).parameters:
            assert f"`{parameter}`" in PAGE, (name, parameter)


def test_the_page_has_a_place_for_every_table() -> None:
    for letter in benchmark.PARTS:
        assert "\n\nnew\n\n" in written_into(PAGE, letter, ["new"], "benchmarks/estimators.py")
