"""UA-E1: the error of one trained attention layer against p, |b - a| and H (Figure 2), beside the constructed ones.

The theory bounds the *largest* error by (b - a)/p and (b - a)/((n - 2) H); the paper plots the MSE. Both are reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.panels import Curves, Picture
from weightwright.papers.experiments.machinery.read import mean_of, stack
from weightwright.papers.experiments.machinery.study import (
    TRAINING,
    Cells,
    Condition,
    Cut,
    Sized,
    Study,
    Summary,
    Variation,
    Verdict,
    judge,
    judge_slope,
    read_texts,
)
from weightwright.papers.experiments.machinery.study_units import Json, Worker
from weightwright.papers.experiments.machinery.trends import fit_trend, slope_between
from weightwright.papers.experiments.training.batched_models import Group, MappedAttention
from weightwright.papers.experiments.training.training_loop import count_training, train_and_measure
from weightwright.papers.experiments.training.truncated_models import build_truncated, draw_problem

#: Readings of "a single layer with an extra linear layer A", all run in full. "trained": Definition 2.1's layer after a
#: map of the whole sequence; "position": the same after a map of its own for every token; "own": as that, but without
#: W_O, and heads share the width.
READINGS = {
    "trained": {"mixing": "all", "output": "sequence", "divided": False},
    "position": {"mixing": "own", "output": "sequence", "divided": False},
    "own": {"mixing": "own", "output": "none", "divided": True},
}


def conditions(chosen: Json) -> list[Condition]:
    """p and |b - a| are swept with one head, H at the usual p and |b - a|."""
    p0, width0 = chosen["p_otherwise"], chosen["width_otherwise"]
    usual = {"p": p0, "width": width0, "H": 1, "schedule": "constant"}
    cases = {name_case(p, width0): {"p": p} for p in chosen["p"]}
    cases |= {name_case(p0, width): {"width": width} for width in chosen["widths"]}
    cases |= {f"heads{H}": {"H": H} for H in chosen["H"][1:]}
    ends = {name_case(p, width0): f"p{p}" for p in (min(chosen["p"]), max(chosen["p"]))}
    found = []
    for reading, taken in READINGS.items():
        for case, given in cases.items():
            varied_as = ends.get(case) if reading == "trained" else None
            found.append(Condition(f"{reading}-{case}", train, usual | taken | given, varied_as))
    return found + [Condition(f"built-{case}", build, usual | given) for case, given in cases.items()]


def name_case(p: int, width: float) -> str:
    return f"p{p}-width{width:g}"


def train(unit: Json, worker: Worker) -> Json:
    """Models of all seeds side by side; errors on the held-out fifth."""
    group = Group(tuple(unit["seeds"]))
    n, d, half = unit["n"], unit["d"], unit["width"] / 2
    X, Y = (part.to(unit["device"]) for part in draw_problem(unit["seeds"], unit["samples"], n, d, -half, half))
    model = MappedAttention(group, n, unit["p"], n, d, d, unit["H"], unit)
    found = train_and_measure(model, group, X, Y, unit, worker)
    variance = Y[:, count_training(unit) :].var(1).sum(-1).mean(-1)
    return {key: found[key] for key in ("mse", "largest", "checks")} | {"variance": variance.tolist()}


def build(unit: Json, worker: Worker) -> Json:
    """The faithful and the spectral network of the first seed's models, on the same held-out samples."""
    n, p, H = unit["n"], unit["p"], unit["H"]
    # Theorem 3.9 is about one w for all tokens; (n - 2) H anchors in one head are UA-2
    anchors = {"faithful": max((n - 2) * H, n + 1) if H > 1 else p, "spectral": p}
    found: Json = {"p": p}
    for method, count in anchors.items():
        worker.tell(method)
        if method == "faithful" and count <= n:
            found[method] = {"refused": f"Theorem 3.4 asks for p > n, and p = {count}, n = {n}"}
        else:
            found[method] = build_truncated(unit, count, method)[1] | {"anchors": count}
    return found


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    p0, width0 = chosen["p_otherwise"], chosen["width_otherwise"]
    usual = name_case(p0, width0)
    sweeps = {
        "p": (chosen["p"], [name_case(p, width0) for p in chosen["p"]]),
        "|b-a|": (chosen["widths"], [name_case(p0, width) for width in chosen["widths"]]),
        "H": (chosen["H"], [usual, *(f"heads{H}" for H in chosen["H"][1:])]),
    }
    trends: list[Json] = []
    cells: Cells = []
    verdicts: list[Verdict] = []
    curves: Json = {}
    for name, (values, cases) in sweeps.items():
        built = [results[f"built-{case}"] for case in cases]
        curves[name] = {"x": values, "built": built}
        mse = {}
        for reading, words in _WORDS.items():
            found = [results[f"{reading}-{case}"] for case in cases]
            mse[reading] = stack([one["mse"] for one in found])
            curves[name][reading] = mse[reading].tolist()
            trends.append(fit_trend(f"MSE against {name}, {words}", values, mse[reading], _PREDICTED[name]))
        slopes = trends[-len(READINGS) :]
        shown = ", ".join(
            f"{slope['slope']:.2f} ({words})" for slope, words in zip(slopes, _WORDS.values(), strict=True)
        )
        left = mean_of(mse["trained"]) / mean_of(results[f"trained-{usual}"]["variance"])
        verdicts.append(judge_slope(name, slopes[0], _TARGETS[name], all=shown, left=left))
        if name == "p":
            verdicts.append(judge_spread(values, mse))
        for i, value in enumerate(values):
            numbers: Json = {f"mse_{reading}": mse[reading][:, i] for reading in READINGS}
            cells.append(([name, value], numbers | {method: built[i][method] for method in ("faithful", "spectral")}))
    for name, key, words in _THEORY:
        y = [one["faithful"].get(key) for one in curves[name]["built"]]
        there = [i for i, value in enumerate(y) if value is not None]
        x, y = ([values[i] for i in there] for values in (curves[name]["x"], y))
        error = {"largest": "largest error", "mse": "MSE"}[key]
        trends.append(fit_trend(f"faithful {error} against {name}", x, np.array([y]), f"{words} (theory)"))
    return Summary(trends, cells, verdicts, curves)


def judge_spread(values: list[int], mse: dict[str, Any]) -> Verdict:
    """The claim that a larger p makes the results of the seeds scatter less, relatively to their mean."""
    spreads = {
        reading: (one.std(0, ddof=1) / one.mean(0) if len(one) > 1 else np.zeros(len(values)))
        for reading, one in mse.items()
    }
    first = spreads["trained"]
    shown = "; ".join(f"{_WORDS[reading]} {one[0]:.1%} to {one[-1]:.1%}" for reading, one in spreads.items())
    falls = [one[-1] < 0.8 * one[0] for one in spreads.values()]
    return judge("spread", bool(first[-1] < 0.8 * first[0]) and all(falls), any(falls), spreads=shown)


#: What the readings are called.
_WORDS = {"trained": "Definition 2.1", "position": "A by position", "own": "without W_O"}
#: Parameter, the slope of the error against it as the paper has it, and that in words.
_TARGETS = {"p": -1.0, "|b-a|": 1.0, "H": -1.0}
_PREDICTED = {"p": "O(1/p): about -1", "|b-a|": "linear: about +1", "H": "O(1/H): about -1"}
#: Parameter, error of the faithful network, and its slope in theory.
_THEORY = (("p", "largest", "-1"), ("p", "mse", "-2"), ("|b-a|", "largest", "+1"), ("H", "largest", "-1"))


def draw_sweep(name: str, curve: Json) -> Curves:
    faithful = [one["faithful"].get("mse") for one in curve["built"]]
    below = {"spectral": max(one["spectral"]["mse"] for one in curve["built"])}
    trained = {f"trained, {words}": curve[reading] for reading, words in _WORDS.items()}
    return Curves(name, curve["x"], trained | {"faithful": faithful}, below=below)


UA_E1 = Study(
    texts=read_texts("UA-E1"),
    paper={"slopes": {"p": -1, "|b-a|": 1, "H": -1}, "numbers": "none are printed"},
    settings=TRAINING
    | {
        "d": 10,
        "n": Sized(20, 50, 50),
        "hidden": 32,
        "epochs": Sized(10, 50, 50),
        "samples": 1000,
        "p": Sized([24, 48, 96], [60, 90, 135, 200], [60, 90, 135, 200]),
        "widths": [0.5, 1.0, 2.0, 4.0],
        "H": Sized([1, 4, 16], [1, 2, 8, 32], [1, 2, 8, 32]),
        "p_otherwise": Sized(24, 60, 60),
        "width_otherwise": 2.0,
        "seeds": Sized(2, 10, 10),
    },
    cut=(
        Cut("seeds", {"seeds": 10}),
        Cut("n", {"n": 50}),
        Cut("epochs", {"epochs": 50}),
    ),
    conditions=conditions,
    variations=(
        Variation("own", {"mixing": "own"}),
        Variation("one", {"mixing": "one"}),
        Variation("no-output", {"output": "none"}),
        Variation("divided", {"divided": True}),
        Variation("late", {"schedule": "late"}),
        Variation("faster", {"rate": 1e-2}),
        Variation("as-before", READINGS["own"]),
    ),
    compared=lambda chosen, found: slope_between(chosen["p"], found),
    about="p",
    supports=lambda slope: slope < -0.1,
    columns={
        "sweep": None,
        "value": None,
        **{f"trained MSE, {words}": read.mean_and_spread(f"mse_{reading}") for reading, words in _WORDS.items()},
        **{
            f"{method} {words}": read.value(method, key)
            for method in ("faithful", "spectral")
            for words, key in (("MSE", "mse"), ("bound", "bound"))
        },
    },
    summarise=summarise,
    picture=lambda record: Picture([[draw_sweep(*sweep) for sweep in record["curves"].items()]]),
)
