"""SU-3: the trained layer of UA-E1 at lengths of 1,000 and 10,000 tokens (the summary's third check), once.

The constructed networks of these lengths are the row SU-3 of the theorems.
"""

from __future__ import annotations

import time

import numpy as np

from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.panels import Curves, Picture
from weightwright.papers.experiments.machinery.read import mean_of
from weightwright.papers.experiments.machinery.study import (
    TRAINING,
    Cells,
    Condition,
    Cut,
    Sized,
    Study,
    Summary,
    Variation,
    judge,
    read_texts,
)
from weightwright.papers.experiments.machinery.study_units import Json, Worker
from weightwright.papers.experiments.machinery.trends import fit_trend
from weightwright.papers.experiments.studies import ua_e1

#: From this many tokens on, fewer samples fit in a batch, and fewer are drawn.
LONG = 5000


def conditions(chosen: Json) -> list[Condition]:
    """Keys are a fifth more than tokens; the shortest length is tried otherwise."""
    usual = {"width": 2.0, "H": 1, "schedule": "constant"} | ua_e1.READINGS["own"]
    found = []
    for n in chosen["n"]:
        size = {"n": n, "p": n + n // 5}
        if n >= LONG:
            size |= {"samples": chosen["samples"] // 5, "batch": chosen["batch"] // 4}
        found.append(Condition(f"trained-n{n}", train, usual | size, "" if n == min(chosen["n"]) else None))
    return found


def train(unit: Json, worker: Worker) -> Json:
    """UA-E1's training, and the seconds of this call."""
    start = time.perf_counter()
    return ua_e1.train(unit, worker) | {"seconds": time.perf_counter() - start, "p": unit["p"]}


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    lengths = chosen["n"]
    found = [results[f"trained-n{n}"] for n in lengths]
    shares = [[a / b for a, b in zip(one["mse"], one["variance"], strict=True)] for one in found]
    cells: Cells = [
        ([n, one["p"]], one | {"share": share}) for n, one, share in zip(lengths, found, shares, strict=True)
    ]
    trends = [
        fit_trend("MSE against n", lengths, np.array([one["mse"] for one in found]).T, "O(1/p), p about n: -1"),
        fit_trend("seconds against n", lengths, np.array([[one["seconds"] for one in found]]), "n p: about +2"),
    ]
    left = [mean_of(share) for share in shares]
    shown = ", ".join(f"{value:.1%}" for value in left)
    seconds = ", ".join(f"{one['seconds']:.0f}" for one in found)
    verdicts = [
        judge("learns", max(left) < 0.1, min(left[1:]) < 0.5, left=shown),
        judge("rate", trends[0]["slope"] < -0.5, trends[0]["slope"] < -0.1, slope=trends[0]["slope"]),
        judge("cost", trends[1]["slope"] <= 2.2, seconds=seconds, slope=trends[1]["slope"]),
    ]
    return Summary(trends, cells, verdicts, {"trained": np.array(shares).T.tolist()})


SU_3 = Study(
    texts=read_texts("SU-3"),
    paper={"numbers": "none: the summary asks"},
    settings=TRAINING
    | {
        "d": 10,
        "hidden": 32,
        "n": Sized([20, 40], [50, 200, 1000], [50, 1000, 10_000]),
        "epochs": Sized(5, 50, 50),
        "samples": Sized(200, 1000, 1000),
        "seeds": 1,
    },
    cut=(Cut("epochs", {"epochs": 50}), Sized("lengths", "lengths", None)),
    conditions=conditions,
    variations=(
        Variation("output", {"output": "sequence"}),
        Variation("faster", {"rate": 1e-2}),
        Variation("late", {"schedule": "late"}),
    ),
    compared=lambda chosen, found: mean_of(found[0]["mse"]) / mean_of(found[0]["variance"]),
    about="learns",
    supports=lambda share: share < 0.5,
    columns={
        "n": None,
        "p": None,
        "MSE": read.mean_and_spread("mse"),
        "share left": read.mean("share"),
        "seconds": read.value("seconds"),
    },
    summarise=summarise,
    picture=lambda record: Picture(
        [[Curves("n, tokens", record["settings"]["n"], record["curves"], name="share left")]], (6.0, 4.2)
    ),
)
