"""Every study of the catalogue can be planned, and trends are what they say."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from weightwright.papers.experiments.catalogue import STUDIES, find_study
from weightwright.papers.experiments.machinery.study import Options, compare_variation
from weightwright.papers.experiments.machinery.study_units import write_json
from weightwright.papers.experiments.machinery.trends import fit_trend, trend_in_words
from weightwright.papers.experiments.training.constructed_networks import exact_weights, learn_in_one_pass

IDS = ["UA-E1", "UA-E2", "UA-E3", "AE-E1", "AE-E2", "AE-E3", "AE-E4", "AE-E5", "LR-E1"]


def test_the_nine_studies_are_there() -> None:
    assert list(STUDIES) == IDS
    assert find_study("ua-e1").id == "UA-E1"
    with pytest.raises(ValueError, match="there is no study 'UA-E9'; write one of UA-E1"):
        find_study("UA-E9")


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("options", [Options(quick=True), Options(), Options(full=True)], ids=["quick", "cut", "full"])
def test_a_study_is_planned(name: str, options: Options) -> None:
    study = STUDIES[name]
    chosen = study.choose_settings(options)
    units = study.plan(chosen)
    assert len({unit.name for unit in units}) == len(units)
    assert all(write_json(unit.settings) and pickle.dumps(unit.work) for unit in units)
    assert chosen["seeds"]
    assert study.choices
    assert options.full or chosen["cut"] or name in ("UA-E1", "UA-E2", "AE-E5")  # whatever is smaller says so


@pytest.mark.parametrize("name", [name for name in IDS if name != "AE-E5"])
def test_epochs_that_are_asked_for_are_trained_and_said(name: str) -> None:
    study = STUDIES[name]
    chosen = study.choose_settings(Options(full=True, epochs=2))
    trained = [unit.settings["epochs"] for unit in study.plan(chosen) if "batch" in unit.settings]
    assert trained
    assert set(trained) == {2}
    assert name == "AE-E1" or any("2 epochs" in line for line in chosen["cut"])  # the paper has no sizes of AE-E1
    longer = study.choose_settings(Options(full=True, epochs=10**6))
    assert (longer["epochs"], longer["cut"]) == (10**6, study.choose_settings(Options(full=True))["cut"])


def test_epochs_are_refused_where_nothing_is_trained() -> None:
    with pytest.raises(ValueError, match="epochs=7: AE-E5 trains nothing"):
        STUDIES["AE-E5"].choose_settings(Options(epochs=7))


@pytest.mark.parametrize("ridge", [0.0, 2.0])
def test_one_pass_learns_what_the_algorithm_does(ridge: float) -> None:
    rng = np.random.default_rng(4)
    X, Xq, w = rng.normal(size=(12, 3)), rng.normal(size=(5, 3)), rng.normal(size=3)
    y = X @ w + 0.1 * rng.normal(size=12)
    said = learn_in_one_pass(X, y, Xq, ridge, steps=300, momentum=0.5)
    exact = Xq @ exact_weights("ridge" if ridge else "linear", X, y, 0.0, ridge)
    assert said["status"] == "PROVEN"
    assert np.abs(said["predictions"] - exact).max() < 1e-10


def test_a_slope_is_found_with_its_interval() -> None:
    rng = np.random.default_rng(0)
    x = [1.0, 2.0, 4.0, 8.0]
    y = np.array([[3 * v**-2 * np.exp(0.01 * rng.standard_normal()) for v in x] for _ in range(10)])
    trend = fit_trend("MSE", x, y, "-2")
    assert trend["lo"] <= -2 <= trend["hi"]
    assert trend["hi"] - trend["lo"] < 0.1
    assert trend["sign"] == "falls"
    assert "falls, log-log slope" in trend_in_words(trend)


def test_a_sign_that_cannot_be_told_is_undecided() -> None:
    flat = fit_trend("MSE", [1, 2, 4], np.array([[1.0, 2.0, 1.0]]), "-1")
    assert flat["sign"] == "undecided"
    assert flat["lo"] < 0 < flat["hi"]
    two = fit_trend("MSE", [1, 2], np.array([[1.0, 0.5]]), "-1")
    assert two["sign"] == "undecided"
    assert "no interval" in trend_in_words(two)


def test_the_largest_effect_is_a_ratio() -> None:
    assert compare_variation("a", "MSE:", 1.0, 100.0)["effect"] > compare_variation("b", "MSE:", 1.0, 0.5)["effect"]
    assert compare_variation("c", "slope:", 0.1, 1.1, slopes=True)["effect"] == 1.0
