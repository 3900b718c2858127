"""plot_heads shows the network: its prompt, what its tables return, its attention, and the way to coef_."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from weightwright import incontext
from weightwright.estimators.heads_picture.table_points import head_weights
from weightwright.estimators.heads_picture.watching import watch_run
from weightwright.incontext.networks.huber_network import huber_network, huber_prompt, huber_ranges, plain_huber
from weightwright.incontext.networks.multinomial_network import (
    multinomial_network,
    multinomial_prompt,
    plain_multinomial,
)
from weightwright.incontext.networks.newton_schulz_network import newton_schulz_network, newton_schulz_prompt
from weightwright.network.interpreter import attention_weights
from weightwright.runtime.watch import flat

RNG = np.random.default_rng(3)
X = RNG.standard_normal((30, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.standard_normal(30) + 4.0
FITS: dict[str, Any] = {
    "ridge": lambda: incontext.Ridge(tol=1e-6).fit(X, Y),
    "float32": lambda: incontext.Ridge(dtype="float32", tol=1e-4, fit_intercept=False).fit(X, Y - 4),
    "lasso": lambda: incontext.Lasso(0.1, tol=1e-6).fit(X, Y),
    "logistic": lambda: incontext.LogisticRegression(multi_class="ovr", tol=1e-5).fit(X, np.arange(30) % 3),
    "poisson": lambda: incontext.PoissonRegressor(tol=1e-6).fit(X, np.arange(30) % 5),
    "two outputs": lambda: incontext.LinearRegression(tol=1e-6).fit(X, np.stack([Y, -Y], axis=1)),
}


@functools.cache
def fitted(name: str) -> Any:
    return FITS[name]()


@pytest.fixture(params=FITS)
def model(request: pytest.FixtureRequest) -> Any:
    return fitted(request.param)


def seen_of(model: Any) -> Any:
    return watch_run(model.network_, model.prompt_, model.n_iter_)


def axes_of(figure: Any) -> list[Any]:
    return [axes for part in figure.subfigs for axes in axes_of(part)] or list(figure.axes)


@pytest.mark.few(4)
def test_the_path_goes_from_the_prompt_to_coef(model: Any) -> None:
    seen = seen_of(model)
    assert seen.passes == model.n_iter_
    assert not seen.path[0].any()
    end = np.append(np.atleast_2d(model.coef_)[0], np.atleast_1d(model.intercept_)[0])
    last = model._read_off(seen.path[-1])
    assert np.linalg.norm(last - end) <= 1e-4 * np.linalg.norm(end)
    assert np.linalg.norm(model._read_off(seen.path[0]) - end) > 0.1 * np.linalg.norm(end[:-1])


@pytest.mark.few(4)
def test_tables_return_what_they_should_within_what_is_proven(model: Any) -> None:
    tables = seen_of(model).tables
    assert [table.formula for table in tables] == {
        "squared": ["x"],
        "logistic": ["-sigmoid(-x)"],
        "poisson": ["exp(x)", "-x"],
    }[model._loss]
    for table in tables:
        assert (table.errors <= table.bound).all()
        assert table.errors.max() > table.bound / 1e5  # found by running the head, not made up
        assert table.first.min() >= table.s[0]
        assert table.last.max() <= table.s[-1]
        assert len(table.first) == len(table.last) == 30
        mixed = table.weights @ table.values
        assert np.ptp(mixed - table.found) <= 1e-6 * max(np.abs(table.values).max(), 1.0)  # up to a constant


def test_the_arguments_of_the_examples_are_their_residuals() -> None:
    model = fitted("ridge")
    (table,) = seen_of(model).tables
    unit = model.scaling_.y_scale
    assert np.abs(unit * table.last - (X @ model.coef_ + model.intercept_ - Y)).max() < 1e-6
    assert np.abs(unit * table.first - (Y.mean() - Y)).max() < 1e-12


def test_weights_are_those_of_the_interpreter() -> None:
    model = fitted("lasso")
    network, prompt = model.network_.network, model.prompt_.numpy()
    for number in (0, 1):
        layer = [one for one, _ in flat(network.layers, model.network_.layers) if type(one).__name__ == "Attention"][
            number
        ]
        stream = prompt_stream(model, layer)
        head, P = layer.heads[0], max(layer.heads[0].sees.block, 1)
        every = attention_weights(network, prompt, number, 0)  # (n P, registers + n P)
        mine = head_weights(head, stream, network.registers)
        r = len(network.registers)
        for i in range(5):
            shown = every[i * P] if number == 0 else every[i]
            seen = shown[r + i * P : r + (i + 1) * P]
            seen = seen if number == 0 else np.append(shown[:r], seen)
            assert np.abs(mine[i] - seen).max() < 1e-13


def prompt_stream(model: Any, layer: Any) -> Any:
    """What goes into a layer in the first pass."""
    kept: list[Any] = []
    module = next(module for one, module in flat(model.network_.network.layers, model.network_.layers) if one is layer)
    hook = module.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    model.network_(model.prompt_)
    hook.remove()
    return kept[0].detach().numpy()


def test_patterns_are_of_the_heads_of_one_pass(model: Any) -> None:
    patterns = seen_of(model).patterns
    assert all(pattern.tokens in ((), (0, 3, 5, 8, 11, 13, 16, 18, 21, 24, 26, 29)) for pattern in patterns)
    assert all(np.abs(pattern.weights.sum(axis=1) - 1).max() < 1e-12 for pattern in patterns)
    assert {p.role: p.heads for p in patterns} == {
        "Ridge": {"x of w.x - y": 1, "momentum": 1},
        "LinearRegression": {"x of w.x - y": 1, "momentum": 1},
        "Lasso": {"x of w.x - y": 1, "soft threshold": 8},
        "LogisticRegression": {"-sigmoid(-x) of w.x": 1},
        "PoissonRegressor": {"exp(x) of w.x": 1, "-x of y": 1},
    }[type(model).__name__]


@pytest.mark.few(3)
def test_the_figure_has_the_bound_and_every_group_of_the_prompt(model: Any) -> None:
    axes = axes_of(model.plot_heads())
    titles = [one.get_title() for one in axes]
    for name in model.network_.network.inputs:
        assert name.split("[")[0] in titles
    (last,) = (one for one in axes if one.get_title().startswith("how far it is"))
    line = next(line for line in last.lines if "optimum" in line.get_label())
    assert set(line.get_ydata()) == {model.bound_}
    assert len([one for one in axes if one.get_title().startswith("how well: proven within")]) == len(
        seen_of(model).tables
    )


def test_it_is_written_as_a_file(tmp_path: Path) -> None:
    assert fitted("ridge").plot_heads(tmp_path / "heads.png") is None
    assert (tmp_path / "heads.png").stat().st_size > 50_000
    with pytest.raises(ValueError, match=r"heads\.txt.*must end in one of \.png"):
        fitted("ridge").plot_heads(tmp_path / "heads.txt")
    with pytest.raises(NotFittedError):
        incontext.Ridge().plot_heads()


def test_a_fit_without_a_prompt_is_refused() -> None:
    model = copy.copy(fitted("ridge"))
    model.prompt_ = None
    with pytest.raises(ValueError, match=r"Ridge\(tol=1e-06\) found its coefficients with several prompts"):
        model.plot_heads()


@pytest.mark.slow
def test_one_example_and_many_features() -> None:
    incontext.Ridge().fit([[1.0, 2.0]], [3.0]).plot_heads()
    wide = incontext.Lasso(0.5, tol=1e-3).fit(RNG.standard_normal((20, 100)), RNG.standard_normal(20))
    titles = [axes.get_title() for axes in axes_of(wide.plot_heads())]
    assert "x, 101 columns" in titles


def test_names_of_features_are_theirs() -> None:
    pandas = pytest.importorskip("pandas")
    model = incontext.Ridge(tol=1e-4).fit(pandas.DataFrame(X, columns=["a", "b", "a very long name"]), Y)
    first = axes_of(model.plot_heads())[0]
    assert [label.get_text() for label in first.get_xticklabels()] == ["a", "b", "a very lo…", "1"]


def test_a_huber_network_has_four_tables_and_no_bound() -> None:
    given = {"step": np.array([0.1, 0.1, 0.1, 0.1, 0.05]), "start": np.array([0.0, 0.0, 0.0, 0.0, 2.0])}
    same: dict[str, Any] = {"epsilon": 1.35, "momentum": 0.5, "steps": 20}
    plain = plain_huber(X, Y - 4, **given, **same)
    sigma_range, reach = huber_ranges(plain, X, Y - 4)
    net = huber_network(30, 3, sigma_range=sigma_range, reach=reach, **same)
    seen = watch_run(net, huber_prompt(X, Y - 4, **given), 20)
    assert np.abs(seen.path - plain[:, 1]).max() < 1e-9
    assert [table.bound for table in seen.tables] == [None] * 4
    assert max(table.errors.max() for table in seen.tables) < 1e-9
    assert np.abs(seen.tables[1].first - (4 - Y)).max() < 1e-12  # the residuals of the first state, w = 0


def test_networks_of_products_and_of_classes() -> None:
    H, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    seen = watch_run(newton_schulz_network(2, steps=10, reach=4.0), newton_schulz_prompt(H, b), 10)
    assert seen.path.shape == (11, 2)
    assert np.abs(H @ seen.path[-1] - b).max() < 1e-8
    labels, step = np.arange(30) % 3, np.full(3, 0.5)
    net = multinomial_network(30, 3, 3, momentum=0.5, steps=10, shrink=0.01)
    seen = watch_run(net, multinomial_prompt(X, labels, 3, step=step), 10)
    plain = plain_multinomial(X, labels, 3, step=step, momentum=0.5, steps=10, shrink=0.01)
    assert np.abs(seen.path - plain[:, 1].reshape(11, 9)).max() < 1e-12
    assert seen.tables == ()
    assert seen.patterns[0].weights.shape == (12, 3)
