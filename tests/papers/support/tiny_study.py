"""A study of seconds: three small trainings of UA-E1, and what a test needs to stop it half way."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from weightwright.papers.experiments.machinery.study import Choice, Options, Study, Summary, compare_variation
from weightwright.papers.experiments.machinery.study_units import Json, Unit
from weightwright.papers.experiments.machinery.trends import fit_trend
from weightwright.papers.experiments.studies.ua_e1 import train_models

BASE = {"d": 2, "n": 3, "hidden": 4, "rate": 1e-2, "epochs": 2, "batch": 8, "samples": 20, "train_share": 0.8}


def work(counting: Path | None, stop_at: str | None, unit: Json, tell: Any) -> Json:
    """A training; its name goes into a file, and where the file `stop` names it the user presses Ctrl-C."""
    if counting is not None:
        with (counting / "done").open("a") as lines:
            lines.write(f"{unit['p']}\n")
        if stop_at == str(unit["p"]):
            raise KeyboardInterrupt
    return train_models(unit, tell)


def tiny_study(counting: Path | None = None, stop_at: str | None = None) -> Study:
    def settings(options: Options) -> Json:
        return BASE | {"p": [4, 5, 6], "seeds": list(range(options.seeds or 2)), "cut": [], "width": 2.0}

    def plan(chosen: Json) -> list[Unit]:
        shared = {key: chosen[key] for key in (*BASE, "seeds", "width")} | {"H": [1, 2], "per_position": True}
        doing = functools.partial(work, counting, stop_at)
        return [Unit(f"p{p}", doing, shared | {"p": p}) for p in chosen["p"]]

    def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
        mse = np.array([results[f"p{p}"]["mse"][0] for p in chosen["p"]]).T
        trend = fit_trend("MSE against p", chosen["p"], mse, "falls")
        rows = [[p, float(mse[:, i].mean())] for i, p in enumerate(chosen["p"])]
        verdict = {"claim": "it falls", "reproduced": "no", "because": "it is small"}
        varied = [compare_variation("p", "MSE:", rows[0][1], rows[-1][1])]
        return Summary([trend], ["p", "MSE"], {"MSE": "an error"}, rows, [verdict], varied, {"mse": mse.tolist()})

    def draw(record: Json, figure: Any) -> None:
        figure.subplots().plot(record["settings"]["p"], record["curves"]["mse"][0])

    choice = Choice("p", "4", "not stated", "6")
    return Study("TINY", "a small study", "here", "it falls", {}, (choice,), settings, plan, summarise, draw)
