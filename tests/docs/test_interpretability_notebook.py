"""The notebook on interpretability: every cell runs, prints what is stored beside it, and what is said is so."""

from __future__ import annotations

import functools
import re

import pytest
from run_notebook import NOTEBOOK, Json, read, run, text_of

HERE = NOTEBOOK.with_name("interpretability.ipynb")


@functools.cache
def executed() -> tuple[Json, Json]:
    return run(read(HERE))


def code_cells(which: Json) -> list[Json]:
    return [cell for cell in which["cells"] if cell["cell_type"] == "code"]


def test_what_is_stored_is_true_and_small() -> None:
    printed = "".join(text_of(cell) for cell in code_cells(read(HERE)))
    assert "False" not in printed
    assert printed.count("True") == 18
    assert printed.count("PROVEN") == printed.count("<Figure>") == 2
    assert HERE.stat().st_size < 150_000


def test_links_lead_somewhere() -> None:
    text = "".join("".join(cell["source"]) for cell in read(HERE)["cells"] if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) == 2
    assert all((HERE.parent / link).is_file() for link in links)


@pytest.mark.slow
def test_every_cell_prints_what_is_stored() -> None:
    for stored, fresh in zip(code_cells(read(HERE)), code_cells(executed()[1]), strict=True):
        assert text_of(fresh) == text_of(stored), "".join(stored["source"])


@pytest.mark.slow
def test_the_method_is_scored_against_the_model_itself() -> None:
    names = executed()[0]
    weight = names["model"][2].weight
    assert len(names["truth"]) == int((weight != 0).sum()) == 64
    recalls = [recall for _, recall in names["scores"].values()]
    assert 0.3 < recalls[0] < 1
    assert recalls[-1] < recalls[0]
