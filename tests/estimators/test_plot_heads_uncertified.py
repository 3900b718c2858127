"""plot_heads where the network has no certificate: no bound of a table, but that of the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

import weightwright as ww
from weightwright.estimators.heads_picture.watching import watch_run

RNG = np.random.default_rng(5)
X = RNG.standard_normal((30, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.standard_normal(30) + 4.0
CASES: dict[str, tuple[Any, Any, int]] = {
    "huber": (ww.incontext.HuberRegressor(tol=1e-6), Y, 4),
    "newton-schulz": (ww.incontext.Ridge(method="newton-schulz"), np.stack([Y, -Y], axis=1), 4),
    "multinomial": (ww.incontext.LogisticRegression(tol=1e-6), np.arange(30) % 3, 0),
}


@pytest.mark.parametrize("name", ["multinomial", *(pytest.param(n, marks=pytest.mark.slow) for n in list(CASES)[:2])])
def test_the_picture_of_a_network_without_a_certificate(name: str) -> None:
    model, y, tables = CASES[name]
    model.fit(X, y)
    seen = watch_run(model.network_, model.prompt_, model.n_iter_)
    end = np.append(model.coef_.reshape(-1, 3)[0], np.atleast_1d(model.intercept_)[0])
    assert np.linalg.norm(model._read_off(seen.path[-1]) - end) < 1e-5
    assert [table.bound for table in seen.tables] == [None] * tables
    figure = model.plot_heads()
    titles = [axes.get_title() for axes in figure.findobj(Axes)]
    assert not any("how well: proven" in title for title in titles)
    assert sum(title.startswith("how far it is; coef_ to the optimum: proven within") for title in titles) == 1
