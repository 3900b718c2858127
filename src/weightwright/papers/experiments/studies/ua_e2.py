"""UA-E2: attention heat maps of a layer that is guided by interpolation points, for |b - a| = 0.5, 1.5, 3 (Figure 3).

p = n = 30, though Theorem 3.4 asks for p > n: p = n + 1 is run as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weightwright.network.interpreter import attention_weights
from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.panels import HeatMap, Picture
from weightwright.papers.experiments.machinery.study import (
    TRAINING,
    Cells,
    Choice,
    ComparedNumber,
    Condition,
    Cut,
    Sized,
    Study,
    Summary,
    Variation,
    compare_variation,
)
from weightwright.papers.experiments.machinery.study_units import Json
from weightwright.papers.experiments.machinery.trends import fit_trend
from weightwright.papers.experiments.machinery.verdicts import mean_of, say, stack
from weightwright.papers.experiments.training.batched_models import Group
from weightwright.papers.experiments.training.constructed_networks import run
from weightwright.papers.experiments.training.training_loop import count_training, train_and_measure
from weightwright.papers.experiments.training.truncated_models import (
    GuidedAttention,
    build_truncated,
    draw_held_out,
    draw_problem,
)
from weightwright.progress import Tell

#: Held-out samples whose heat maps are kept.
SHOWN = 3


def conditions(chosen: Json) -> list[Condition]:
    usual = {"wide": False, "keys_see_data": False}
    found = []
    for width in chosen["widths"]:
        given, name = usual | {"width": width}, f"width{width:g}"
        first = "" if width == chosen["widths"][0] else None
        found += [
            Condition(f"trained-{name}", train, given, varied_as=first),
            Condition(f"trained-p31-{name}", train, given | {"p": chosen["n"] + 1}),
            Condition(f"built-{name}", build, given),
        ]
    return found


def train(unit: Json, tell: Tell) -> Json:
    """Guided models of all seeds; where they look on held-out samples."""
    seeds, (n, p, d) = unit["seeds"], (unit["n"], unit["p"], unit["d"])
    half = unit["width"] if unit["wide"] else unit["width"] / 2
    X, Y = draw_problem(seeds, unit["samples"], n, d, -half, half)
    points = -half + torch.arange(p) * (2 * half / p)  # Definition 3.3: no point at b
    rows = torch.stack([torch.randint(d, (p,), generator=torch.Generator().manual_seed(seed)) for seed in seeds])
    X, Y = (part.to(unit["device"]) for part in (X, place_in_rows(Y[..., 0], points, rows, d)))
    group = Group(tuple(seeds))
    model = GuidedAttention(group, n, points, rows, d, unit["hidden"], unit["beta"], unit["keys_see_data"])
    mse = train_and_measure(model, group, X, Y, unit, tell)["mse"]
    weights = run(model.attention, X[:, count_training(unit) :])
    return {"mse": mse} | look_at(weights.cpu().numpy())


def place_in_rows(y: Tensor, points: Tensor, rows: Tensor, d: int) -> Tensor:
    """Values (S, N, n) -> (S, N, n, d): y in the row G(k) of the interpolation point k nearest to it."""
    nearest = (y[..., None] - points).abs().argmin(-1)  # (S, N, n)
    chosen = torch.stack([rows[s][nearest[s]] for s in range(len(rows))])
    return torch.nn.functional.one_hot(chosen, d).to(y) * y[..., None]


def look_at(weights: Any) -> Json:
    """What heat maps show, from attention (S, N, n, p): a number for each seed, and the first seed's first maps.

    ends: the weight on the first and the last point; top: the largest weight of a query, 1 for one-hot columns;
    keys: how many points are some query's first choice, out of p.
    """
    ends = (weights[..., 0] + weights[..., -1]).mean((1, 2))
    top = weights.max(-1).mean((1, 2))
    keys = [len(np.unique(one.argmax(-1))) for one in weights]
    maps = np.round(weights[0, :SHOWN].transpose(0, 2, 1), 3)  # keys are rows, as in the paper
    return {"ends": ends.tolist(), "top": top.tolist(), "keys": keys, "maps": maps.astype(float).tolist()}


def build(unit: Json, tell: Tell) -> Json:
    """Theorem 3.4's network with p = n + 1 (p = n is refused), and ours with p = n registers, on held-out samples."""
    n = unit["n"]
    X, Y = draw_held_out(unit)[2:]
    found: Json = {"share_at_the_ends": float((Y.abs() == unit["width"] / 2).double().mean())}
    for method in ("faithful", "spectral"):
        for p, name in ((n, f"{method}, p = n"), (n + 1, f"{method}, p = n + 1")):
            tell(name)
            try:
                net, said = build_truncated(unit, p, method)
            except ValueError as error:
                found[name] = {"refused": str(error)}
                continue
            found[name] = {key: said[key] for key in ("mse", "bound", "status")}
            if method == "faithful":
                found[name] |= look_at(attention_weights(net.network, X[:50].numpy())[None, :, :n])
    return found


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    widths = chosen["widths"]
    trained, more, built = (
        [results[f"{kind}-width{width:g}"] for width in widths] for kind in ("trained", "trained-p31", "built")
    )
    faithful = [one["faithful, p = n + 1"] for one in built]
    cells: Cells = []
    for i, width in enumerate(widths):
        numbers = {"more": more[i]["mse"], "faithful": faithful[i], "spectral": built[i]["spectral, p = n"]}
        cells.append(([width], trained[i] | numbers | {"share": built[i]["share_at_the_ends"]}))
    ends, keys, tops = ([one[key] for one in trained] for key in ("ends", "keys", "top"))
    spreads = fit_trend("trained: weight on the two end points against |b-a|", widths, stack(ends), "falls", "linear")
    used = fit_trend("trained: interpolation points in use against |b-a|", widths, stack(keys), "grows", "linear")
    one_hot, concentrates = mean_of(tops), mean_of(ends[0])
    verdicts = [
        say(
            "with |b - a| = 0.5 the attention concentrates on the two end points",
            concentrates > 0.5,
            f"they have {concentrates:.2f} of the weight; {built[0]['share_at_the_ends']:.2f} of the targets are "
            f"there; in the constructed network {faithful[0]['ends'][0]:.2f}",
        ),
        say(
            "with a larger |b - a| it spreads over more points",
            spreads["sign"] == "falls",
            f"the weight on the ends goes {', '.join(f'{np.mean(e):.3f}' for e in ends)}; points in "
            f"use {', '.join(f'{np.mean(k):.1f}' for k in keys)}",
            in_part=spreads["sign"] == "undecided",
        ),
        say(
            "columns of the softmax are close to one-hot",
            one_hot > 0.9,
            f"the largest weight of a query is {one_hot:.2f} on average",
            in_part=one_hot > 0.5,
        ),
    ]
    at_most = mean_of(trained[-1]["mse"]), mean_of(more[-1]["mse"])
    points = compare_variation("p = n, or the theorem's p > n", "trained MSE at |b - a| = 3:", *at_most)
    curves = {"trained": [one["maps"] for one in trained], "built": [one["maps"][0] for one in faithful]}
    return Summary([spreads, used], cells, verdicts, curves, (points,))


def picture(record: Json) -> Picture:
    rows, curves = [], record["curves"]
    for width, trained, built in zip(record["settings"]["widths"], curves["trained"], curves["built"], strict=True):
        maps = {f"trained, sample {number + 1}": one for number, one in enumerate(trained)} | {"constructed": built}
        row = [HeatMap(f"|b-a| = {width:g}, {name}", weights) for name, weights in maps.items()]
        rows.append([replace(row[0], name="key (interpolation point)"), *row[1:]])
    return Picture(rows, (10, 7.5))


UA_E2 = Study(
    id="UA-E2",
    title="attention selects interpolation points",
    source="UA, Figure 3",
    claim="the attention of a guided layer is close to one-hot, on the end points for |b - a| = 0.5, on more "
    "points for 1.5 and 3",
    paper={"widths": [0.5, 1.5, 3.0], "numbers": "none are printed"},
    choices=(
        Choice("[a, b]", "[-|b-a|/2, |b-a|/2]", "the text has [-0.5, 0.5] for |b-a| = 0.5", "[-|b-a|, |b-a|] for 0.5"),
        Choice("samples", "1000, split 80/20", "as for Figure 2", "not varied"),
        Choice(
            "what is trained",
            "A, W_Q and all rows of the keys but the last, which are numbers",
            "the text fixes K's last row and V; in the proof keys hold nothing of X",
            "those rows are W_K A(X)",
        ),
        Choice("seeds", "1234 as in the paper, and the next four", "the paper has one", "they are the variation"),
    ),
    settings=TRAINING
    | {
        "d": 10,
        "n": 30,
        "p": 30,
        "hidden": 10,
        "beta": 30.0,
        "epochs": Sized(15, 100, 100),
        "samples": 1000,
        "widths": [0.5, 1.5, 3.0],
        "seeds": Sized(1, 5, 5),
    },
    first_seed=1234,
    cut=(Cut("{epochs} epochs in the place of 100", {"epochs": 100}),),
    conditions=conditions,
    variations=(
        Variation("wide", "the interval for |b - a| = 0.5: [-0.25, 0.25], or the text's [-0.5, 0.5]", {"wide": True}),
        Variation(
            "keys",
            "the trained rows of the keys: numbers, or W_K A(X), with |b - a| = 0.5",
            {"keys_see_data": True},
        ),
    ),
    compared=ComparedNumber("weight on the end points:", lambda chosen, found: mean_of(found[0]["ends"])),
    columns={
        "|b-a|": None,
        "targets at the ends": read.value("share"),
        "trained: weight on ends": read.mean("ends"),
        "trained: top weight": read.mean("top"),
        "trained: points in use": read.mean("keys"),
        "trained MSE": read.mean("mse"),
        "trained MSE, p = n + 1": read.mean("more"),
        "faithful: weight on ends": lambda cell: cell["faithful"]["ends"][0],
        "faithful: top weight": lambda cell: cell["faithful"]["top"][0],
        "faithful MSE": read.value("faithful", "mse"),
        "spectral MSE": read.value("spectral", "mse"),
    },
    meanings={
        "targets at the ends": "share of held-out targets that are a or b",
        "weight on ends": "attention on the first and the last interpolation point, mean over queries",
        "top weight": "largest attention weight of a query, mean; 1 is one-hot",
        "points in use": "of 30 interpolation points, those that are some query's first choice",
        "faithful": "Theorem 3.4's network with p = n + 1 = 31; p = n is refused, since the theorem asks for p > n",
        "spectral": "our soft anchors with p = n = 30 registers; they are not one-hot and are not meant to be",
    },
    summarise=summarise,
    picture=picture,
)
