"""Every study of the catalogue can be planned, and trends are what they say."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from weightwright.papers.experiments.catalogue import STUDIES, find_study
from weightwright.papers.experiments.machinery import checks
from weightwright.papers.experiments.machinery.panels import Bars, Curves, HeatMap
from weightwright.papers.experiments.machinery.study import (
    Condition,
    Cut,
    Options,
    Sized,
    Variation,
    judge,
    judge_slope,
)
from weightwright.papers.experiments.machinery.study_units import write_json
from weightwright.papers.experiments.machinery.trends import fit_trend, slope_between, trend_in_words
from weightwright.papers.experiments.training.constructed_networks import exact_weights, learn_in_one_pass

IDS = ["UA-E1", "UA-E2", "UA-E3", "AE-E1", "AE-E2", "AE-E3", "AE-E4", "AE-E5", "LR-E1", "SU-3"]


def test_the_ten_studies_are_there() -> None:
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
    assert study.texts.choices
    assert options.full or chosen["cut"] or name in ("UA-E1", "UA-E2", "AE-E5")  # whatever is smaller says so


def test_what_is_smaller_than_in_the_paper_is_said() -> None:
    cut = Cut("steps", {"seeds": 10, "epochs": 5}, paper_steps=240)
    texts = {"steps": "{seeds} seed{s}, {steps} steps, 1/{share}"}
    chosen = {"seeds": [0] * 10, "samples": 100, "train_share": 0.8, "batch": 32, "epochs": 5}
    assert cut.sentences(texts, chosen) == []
    assert cut.sentences(texts, chosen | {"epochs": 6}) == []
    assert cut.sentences(texts, chosen | {"epochs": 4}) == ["10 seeds, 8 steps, 1/30"]
    assert cut.sentences(texts, chosen | {"seeds": [0]}) == ["1 seed, 10 steps, 1/24"]
    assert cut.sentences(texts, chosen | {"seeds": [0] * 12}) == ["12 seeds, 10 steps, 1/24"]


def test_a_choice_is_tried_otherwise() -> None:
    """What is varied is tried as it is and with the change: a seed that is not reported, a tenth of the steps."""
    conditions = [Condition("one", work_of_none, {"H": 1}, varied_as="a"), Condition("two", work_of_none, {"H": 2})]
    conditions.append(Condition("three", work_of_none, {"H": 3}, varied_as="b"))
    study = replace(
        STUDIES["AE-E5"],
        conditions=lambda chosen: conditions,
        variations=(Variation("rate", {"rate": 0.5}, where="a"),),
        compared=lambda chosen, found: found[0]["error"],
        supports=lambda error: error < 2.0,
    )
    chosen = study.choose_settings(Options(seeds=3))
    units = {unit.name: unit.settings for unit in study.plan(chosen)}
    assert list(units) == ["one", "two", "three", "trial-a", "trial-rate-a"]
    left_out = ("cut", "study", "quick")
    assert units["one"] == {key: value for key, value in chosen.items() if key not in left_out} | {"H": 1}
    assert units["trial-a"] == units["one"] | {"seeds": [1000], "share": 0.1}
    assert units["trial-rate-a"] == units["trial-a"] | {"rate": 0.5}
    assert 1000 not in chosen["seeds"]
    (row,) = study.compare_variations(chosen, {"trial-a": {"error": 1.0}, "trial-rate-a": {"error": 4.0}})
    texts = {"rate": {"setting": "the rate", "number": "error:"}}
    found = {**texts["rate"], "taken": 1.0, "varied": 4.0, "turns": True, "in_full": False}
    assert row.write_row(texts) == found
    (row,) = study.compare_variations(chosen, {"trial-a": {"error": 1.0}, "trial-rate-a": {"error": 1.5}})
    assert row.turns is False


@pytest.mark.parametrize("name", [name for name in IDS if name != "AE-E5"])
def test_no_study_reports_the_seed_of_its_trials(name: str) -> None:
    study = STUDIES[name]
    chosen = study.choose_settings(Options(full=True))
    for unit in study.plan(chosen):
        seeds = set(unit.settings["seeds"])
        assert seeds == {1000} if unit.name.startswith("trial") else seeds <= set(chosen["seeds"])
        assert unit.settings.get("share", 1.0) == (0.1 if unit.name.startswith("trial") else 1.0)


def test_a_quick_run_does_not_judge_what_is_trained() -> None:
    texts = {"claim": {"claim": "it falls", "paper": "-1", "ours": "{slope:.1f}", "because": "{slope:.2f}"}}
    trained, ours = judge("claim", True, slope=-1.0), judge("claim", True, ours=True, slope=-1.0)
    why = STUDIES["AE-E3"].why_not_judged(STUDIES["AE-E3"].choose_settings(Options(quick=True)))
    assert why == "a quick run, 1/6250 of the training"
    assert STUDIES["AE-E3"].why_not_judged(STUDIES["AE-E3"].choose_settings(Options(full=True))) == ""
    row = trained.write_row(texts, why, "")
    assert (row["reproduced"], row["because"], row["ours"]) == ("not judged", why, "-")
    assert ours.write_row(texts, why, "")["reproduced"] == "yes"
    assert trained.write_row(texts, "", "it diverges: 3")["because"] == "-1.00; checks fire: it diverges: 3"


def work_of_none(unit: Any, tell: Any) -> Any:
    raise AssertionError("nothing is run here")


@pytest.mark.parametrize("name", [name for name in IDS if name != "AE-E5"])
def test_epochs_that_are_asked_for_are_trained_and_said(name: str) -> None:
    study = STUDIES[name]
    chosen = study.choose_settings(Options(full=True, epochs=2))
    trained = [unit.settings["epochs"] for unit in study.plan(chosen) if "batch" in unit.settings]
    assert trained
    assert set(trained) == ({2, 4} if name == "LR-E1" else {2})  # its shallowest model trains twice as long
    assert name == "AE-E1" or any("2 epochs" in line for line in chosen["cut"])  # the paper has no sizes of AE-E1
    longer = study.choose_settings(Options(full=True, epochs=10**6))
    assert (longer["epochs"], longer["cut"]) == (10**6, study.choose_settings(Options(full=True))["cut"])


def test_epochs_are_refused_where_nothing_is_trained() -> None:
    with pytest.raises(ValueError, match="epochs=7: AE-E5 trains nothing"):
        STUDIES["AE-E5"].choose_settings(Options(epochs=7))


@pytest.mark.parametrize("ridge", [pytest.param(0.0, marks=pytest.mark.slow), 2.0])
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


def test_the_slope_between_the_ends_is_that_of_the_logarithms() -> None:
    assert slope_between([2, 4, 8], [{"mse": [1.0, 4.0]}, {"mse": [0.25, 1.0]}]) == pytest.approx(-1.0)


def test_checks_fire_beyond_their_limits() -> None:
    curves, training, held_out = [[4.0, 2.0, 2.5], [4.0, 2.0, 8.0]], [1.0, 1.0], [1.5, 3.0]
    found = checks.check_training(curves, training, held_out) | {
        "live": [0.2, 0.9],
        "prompt": checks.follows([1.0], [0.9]),
    }
    rows = checks.find_checks({"trained": {"checks": found}, "trial-x": {"checks": {"end": [9.0]}}, "built": {}})
    assert {(row["part"], row["check"], row["fired"]) for row in rows} == {
        ("trained", "end", 1), ("trained", "held_out", 1), ("trained", "live", 1), ("trained", "prompt", 1),
        ("trial-x", "end", 1),
    }  # fmt: skip
    said = checks.fired_in_words(rows)
    assert said.count("in 1 of 1 trained parts") == 4
    assert "9" not in said  # of a trial
    assert (
        checks.fired_in_words(
            checks.find_checks({"trained": {"checks": checks.check_training([[2.0, 1.0]], [1.0], [1.0])}})
        )
        == ""
    )
    assert checks.CHECKS["end"].fires(float("nan"))


def test_a_slope_is_reproduced_where_its_sign_and_interval_are_those_of_the_claim() -> None:
    trend = {"sign": "falls", "slope": -1.1, "lo": -1.5, "hi": -0.5}
    verdicts = [judge_slope("claim", trend | changed, -1) for changed in ({}, {"hi": -1.2}, {"sign": "grows"})]
    assert [one.reproduced for one in verdicts] == ["yes", "in part", "no"]
    texts = {"claim": {"claim": "it falls", "because": "{slope:.2f} [{between}]: {sign}"}}
    assert verdicts[0].write_row(texts, "", "") == {
        "claim": "it falls",
        "because": "-1.10 [-1.50, -0.50]: falls",
        "reproduced": "yes",
        "constructed": False,
    }
    assert judge_slope("claim", {"sign": "undecided", "slope": -1.0, "lo": None, "hi": None}, -1).reproduced == "no"


@pytest.mark.parametrize("name", IDS)
def test_code_and_texts_of_a_study_have_the_same_names(name: str) -> None:
    """Verdicts and what else is varied need results: `test_a_record_follows_from_its_results`."""
    study = STUDIES[name]
    texts = study.texts
    assert {one.name for one in study.variations} <= set(texts.variations)
    cuts = [one for cut in study.cut for one in (vars(cut).values() if isinstance(cut, Sized) else [cut])]
    named = {one.name if isinstance(one, Cut) else one for one in cuts if one is not None}
    assert named == set(texts.smaller) - {"corpus"}  # that sentence is said by `describe_corpus`
    assert all((texts.title, texts.claim, texts.source, texts.verdicts))


def test_curves_and_bars_leave_out_what_is_missing() -> None:
    axes = Figure().subplots(1, 3)
    Curves("x", [1, 2], {"faithful": [None, 2.0], "trained": [[1.0, 2.0], [3.0, 4.0]]}, {"faithful, P": 1.0}).draw(
        axes[0]
    )
    faithful, trained, level = axes[0].get_lines()
    assert np.isnan(faithful.get_ydata()[0])
    assert list(trained.get_ydata()) == [2.0, 3.0]
    assert (faithful.get_color(), level.get_color()) == ("tab:green", "tab:green")
    assert (faithful.get_linestyle(), level.get_linestyle()) == ("-", "--")  # lines of one colour are told apart
    bars = [("one", "tab:red", {"a": 1.0, "b": None}), ("two", "tab:blue", {"a": 0.0, "b": 3.0})]
    Bars(("a", "b"), bars, "MSE").draw(axes[1])
    assert sorted(bar.get_height() for bar in axes[1].patches) == [1e-16, 1.0, 3.0]
    HeatMap("title", [[0.0, 1.0]]).draw(axes[2])
    assert axes[2].get_title() == "title"
