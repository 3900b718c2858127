"""The notebook: every cell runs, prints what is stored beside it, and what its text claims is so."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
from run_notebook import NOTEBOOK, Json, read, run, text_of
from sklearn import linear_model


@functools.cache
def executed() -> tuple[Json, Json]:
    return run(read())


def code_cells(which: Json) -> list[Json]:
    return [cell for cell in which["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
def test_every_cell_prints_what_is_stored() -> None:
    before, after = code_cells(read()), code_cells(executed()[1])
    assert len(before) == len(after) >= 9
    for stored, fresh in zip(before, after, strict=True):
        assert text_of(fresh) == text_of(stored), "".join(stored["source"])
        assert text_of(fresh)


@pytest.mark.slow
def test_nothing_that_is_said_to_be_so_is_not() -> None:
    printed = "".join(text_of(cell) for cell in code_cells(executed()[1]))
    assert "False" not in printed
    assert printed.count("True") == 11
    assert printed.count("PROVEN") == 3


@pytest.mark.slow
def test_the_network_finds_the_coefficients_of_scikit_learn() -> None:
    names = executed()[0]
    for model, other in zip(names["models"], names["known"], strict=True):
        assert np.linalg.norm(model.coef_ - other.coef_) < 1e-8
    assert np.abs(names["coef"] - names["again"].coef_).max() < 1e-8
    assert np.abs(names["coef"] - names["model"].coef_).max() > 0.1  # another target, another model
    own = names["run"]
    assert np.abs(np.asarray(own.state) - np.asarray(own.plain[-1])).max() < 1e-6
    exact = linear_model.Lasso(alpha=0.1, tol=1e-14).fit(names["X"], names["y"])
    assert np.abs(names["lasso"].coef_ - exact.coef_).max() < 1e-7


def test_the_picture_is_stored_small() -> None:
    pictures = [
        output["data"]["image/png"]
        for cell in code_cells(read())
        for output in cell["outputs"]
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 1
    assert NOTEBOOK.stat().st_size < 250_000


def test_links_lead_somewhere() -> None:
    text = "".join("".join(cell["source"]) for cell in read()["cells"] if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert all((NOTEBOOK.parent / link).is_file() for link in links)


def test_a_cell_that_raises_is_named() -> None:
    cells = [{"cell_type": "code", "source": ["a = 1\n", "a"]}, {"cell_type": "code", "source": ["b = a / 0"]}]
    with pytest.raises(ZeroDivisionError) as raised:
        run({"cells": cells})
    assert raised.value.__notes__ == ["in cell 1 of the notebook:\nb = a / 0"]
    namespace, done = run({"cells": cells[:1]})
    assert namespace["a"] == 1
    assert text_of(done["cells"][0]) == "1"
