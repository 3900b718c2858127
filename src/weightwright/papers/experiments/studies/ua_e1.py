"""UA-E1: the error of one trained attention layer against p, |b - a| and H (Figure 2), beside the constructed ones.

The theory bounds the *largest* error by (b - a)/p and (b - a)/((n - 2) H); the paper plots the MSE. Both are reported.
"""

from __future__ import annotations

import numpy as np

from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.panels import Curves, Picture
from weightwright.papers.experiments.machinery.read import mean_of, stack
from weightwright.papers.experiments.machinery.study import (
    TRAINING,
    Cells,
    Condition,
    Cut,
    Effect,
    Sized,
    Study,
    Summary,
    Variation,
    judge_slope,
    read_texts,
)
from weightwright.papers.experiments.machinery.study_units import Json
from weightwright.papers.experiments.machinery.trends import fit_trend
from weightwright.papers.experiments.training.batched_models import Group, MappedAttention
from weightwright.papers.experiments.training.training_loop import train_and_measure
from weightwright.papers.experiments.training.truncated_models import build_truncated, draw_problem
from weightwright.progress import Tell


def conditions(chosen: Json) -> list[Condition]:
    """p and |b - a| are swept with one head, H at the usual p and |b - a|."""
    p0, width0 = chosen["p_otherwise"], chosen["width_otherwise"]
    usual = {"p": p0, "width": width0, "H": [1], "per_position": True}
    cases = {name_case(p, width0): {"p": p} for p in chosen["p"]}
    cases |= {name_case(p0, width): {"width": width} for width in chosen["widths"]}
    varied = {name_case(p, width0): f"-p{p}" for p in (min(chosen["p"]), max(chosen["p"]))}
    many = chosen["H"][1:]
    return [
        *(Condition(f"trained-{case}", train, usual | given, varied.get(case)) for case, given in cases.items()),
        *(Condition(f"built-{case}", build, usual | given) for case, given in cases.items()),
        *(Condition(f"built-heads{H}", build, usual | {"H": [H]}) for H in many),
        Condition("trained-heads", train, usual | {"H": many}),
    ]


def name_case(p: int, width: float) -> str:
    return f"p{p}-width{width:g}"


def train(unit: Json, tell: Tell) -> Json:
    """Models of all seeds and head counts side by side; errors on the held-out fifth."""
    group = Group(tuple(unit["seeds"]), tuple(unit["H"]))
    n, d, half = unit["n"], unit["d"], unit["width"] / 2
    X, Y = (part.to(unit["device"]) for part in draw_problem(unit["seeds"], unit["samples"], n, d, -half, half))
    model = MappedAttention(group, n, unit["p"], n, d, unit["hidden"], d, unit["per_position"])
    found = train_and_measure(model, group, X, Y, unit, tell)
    errors = {key: group.by_heads(found[key]) for key in ("mse", "largest")}
    return errors | {"H": unit["H"], "last_loss": [losses[-1] for losses in found["curve"]]}


def build(unit: Json, tell: Tell) -> Json:
    """The faithful and the spectral network of the first seed's models, on the same held-out samples."""
    n, p, H = unit["n"], unit["p"], unit["H"][0]
    # Theorem 3.9 is about one w for all tokens; (n - 2) H anchors in one head are UA-2
    anchors = {"faithful": max((n - 2) * H, n + 1) if H > 1 else p, "spectral": p}
    found: Json = {"p": p}
    for method, count in anchors.items():
        tell(method)
        if method == "faithful" and count <= n:
            found[method] = {"refused": f"Theorem 3.4 asks for p > n, and p = {count}, n = {n}"}
        else:
            found[method] = build_truncated(unit, count, method)[1] | {"anchors": count}
    return found


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    p0, width0 = chosen["p_otherwise"], chosen["width_otherwise"]
    usual = name_case(p0, width0)
    by_p = [name_case(p, width0) for p in chosen["p"]]
    by_width = [name_case(p0, width) for width in chosen["widths"]]
    built_heads = [usual, *(f"heads{H}" for H in chosen["H"][1:])]
    sweeps = (
        ("p", chosen["p"], by_p, by_p, "O(1/p): about -1"),
        ("|b-a|", chosen["widths"], by_width, by_width, "linear: about +1"),
        ("H", chosen["H"], [usual, "heads"], built_heads, "O(1/H): about -1"),
    )
    trends: list[Json] = []
    cells: Cells = []
    curves: Json = {}
    for name, values, trained, constructed, predicted in sweeps:
        mse, largest = (
            stack([one for case in trained for one in results[f"trained-{case}"][key]]) for key in ("mse", "largest")
        )
        built = [results[f"built-{case}"] for case in constructed]
        curves[name] = {"x": values, "trained": mse.tolist(), "built": built}
        trends.append(fit_trend(f"trained MSE against {name}", values, mse, predicted))
        if name != "H":
            trends.append(fit_trend(f"trained largest error against {name}", values, largest, predicted))
        for i, value in enumerate(values):
            numbers = {"mse": mse[:, i], "largest": largest[:, i]}
            cells.append(([name, value], numbers | {method: built[i][method] for method in ("faithful", "spectral")}))
    verdicts = [
        judge_slope(name, trend, target)
        for (name, target), trend in zip(_TARGETS, (trends[0], trends[2], trends[4]), strict=True)
    ]
    for name, key, words in _THEORY:
        y = [one["faithful"].get(key) for one in curves[name]["built"]]
        there = [i for i, value in enumerate(y) if value is not None]
        x, y = ([values[i] for i in there] for values in (curves[name]["x"], y))
        error = {"largest": "largest error", "mse": "MSE"}[key]
        trends.append(fit_trend(f"faithful {error} against {name}", x, np.array([y]), f"{words} (theory)"))
    ends = [min(chosen["p"]), max(chosen["p"])]
    shared = stack([results[f"varied-shared-p{p}"]["mse"][0] for p in ends])
    trends.append(fit_trend("trained MSE against p, A shared by all tokens", ends, shared, "varied"))
    widths, of_width = chosen["widths"], np.mean(curves["|b-a|"]["trained"], 0)
    ends_of_width = {"least": widths[0], "most": widths[-1]}
    interval = Effect("interval", float(of_width[0]), float(of_width[-1]), numbers=ends_of_width)
    return Summary(trends, cells, verdicts, curves, (interval,))


#: Parameter, and the slope of the error against it as the paper has it.
_TARGETS = (("p", -1.0), ("|b-a|", 1.0), ("H", -1.0))
#: Parameter, error of the faithful network, and its slope in theory.
_THEORY = (("p", "largest", "-1"), ("p", "mse", "-2"), ("|b-a|", "largest", "+1"), ("H", "largest", "-1"))


def draw_sweep(name: str, curve: Json) -> Curves:
    faithful = [one["faithful"].get("mse") for one in curve["built"]]
    below = {"spectral": max(one["spectral"]["mse"] for one in curve["built"])}
    return Curves(name, curve["x"], {"trained": curve["trained"], "faithful": faithful}, below=below)


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
    complete=lambda chosen, options: {"seeds_of_variation": chosen["seeds"][:3]},
    cut=(
        Cut("seeds", {"seeds": 10}),
        Cut("n", {"n": 50}),
        Cut("epochs", {"epochs": 50}),
    ),
    conditions=conditions,
    variations=(Variation("shared", {"per_position": False}, 3),),
    compared=lambda chosen, found: mean_of(found[-1]["mse"][0]),
    columns={
        "sweep": None,
        "value": None,
        "trained MSE": read.mean("mse"),
        "std": read.spread("mse"),
        "trained largest": read.mean("largest"),
        **{
            f"{method} {words}": read.value(method, key)
            for method in ("faithful", "spectral")
            for words, key in (("MSE", "mse"), ("bound", "bound"))
        },
    },
    summarise=summarise,
    picture=lambda record: Picture([[draw_sweep(*sweep) for sweep in record["curves"].items()]]),
)
