"""UA-E2: attention heat maps of a layer that is guided by interpolation points, for |b - a| = 0.5, 1.5, 3 (Figure 3).

p = n = 30, though Theorem 3.4 asks for p > n: p = n + 1 is run as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weightwright.network.interpreter import attention_weights
from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.panels import HeatMap, Picture
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
    judge,
    read_texts,
)
from weightwright.papers.experiments.machinery.study_units import Json, Worker
from weightwright.papers.experiments.machinery.trends import fit_trend
from weightwright.papers.experiments.training.batched_models import Group, SequenceMap
from weightwright.papers.experiments.training.constructed_networks import run
from weightwright.papers.experiments.training.training_loop import count_training, train_and_measure
from weightwright.papers.experiments.training.truncated_models import build_truncated, draw_held_out, draw_problem

#: Held-out samples whose heat maps are kept.
SHOWN = 3


#: Choices made otherwise at the least |b - a|, in full: after a tenth of the steps the attention has not concentrated.
OTHERWISE = {"wide": {"wide": True}, "keys": {"keys_see_data": True}}


def conditions(chosen: Json) -> list[Condition]:
    usual = {"wide": False, "keys_see_data": False}
    least = usual | {"width": chosen["widths"][0]}
    found = [Condition(name, train, least | changed) for name, changed in OTHERWISE.items()]
    for width in chosen["widths"]:
        given, name = usual | {"width": width}, f"width{width:g}"
        found += [
            Condition(f"trained-{name}", train, given),
            Condition(f"trained-p31-{name}", train, given | {"p": chosen["n"] + 1}),
            Condition(f"built-{name}", build, given),
        ]
    return found


class GuidedAttention(nn.Module):
    """One head whose keys have the interpolation points in the last row, and whose values are the points.

    (G, B, n, d) -> outputs (G, B, n, d_out) and attention (G, B, n, p). Queries and the other rows of the keys are
    trained; value k is L_k in the row G(k) of the output, as Theorem 3.4 has it. keys_see_data: whether those other
    rows are W_K A(X); else they are numbers of their own, since in the proof keys hold the points and nothing of X.
    """

    points: Tensor
    values: Tensor

    def __init__(
        self,
        group: Group,
        n: int,
        points: Tensor,
        rows: Tensor,
        d: int,
        hidden: int,
        beta: float,
        keys_see_data: bool = False,
    ) -> None:
        super().__init__()
        p = points.shape[-1]
        self.n, self.beta = n, beta
        self.A = SequenceMap(group, n, p, d, hidden, "own")
        self.Q = group.draw_uniform(hidden, hidden, fan_in=hidden)
        self.keys_see_data = keys_see_data
        self.K = group.draw_uniform(hidden if keys_see_data else p, hidden - 1, fan_in=hidden)
        self.register_buffer("points", points)  # (p,)
        self.register_buffer("values", torch.nn.functional.one_hot(rows, d).to(points) * points[..., None])  # (G, p, d)

    def attention(self, X: Tensor) -> Tensor:
        Z = self.A(X)
        queries = torch.einsum("gbni,gio->gbno", Z[:, :, : self.n], self.Q)
        trained = torch.einsum("gbpi,gio->gbpo", Z, self.K) if self.keys_see_data else self.K[:, None]
        keys = torch.cat([trained, self.points.expand(*trained.shape[:3])[..., None]], -1)
        return torch.softmax(self.beta * queries @ keys.transpose(-1, -2), -1)

    def forward(self, X: Tensor) -> Tensor:
        return self.attention(X) @ self.values[:, None]


def train(unit: Json, worker: Worker) -> Json:
    """Guided models of all seeds; where they look on held-out samples."""
    seeds, (n, p, d) = unit["seeds"], (unit["n"], unit["p"], unit["d"])
    half = unit["width"] if unit["wide"] else unit["width"] / 2
    X, Y = draw_problem(seeds, unit["samples"], n, d, -half, half)
    points = -half + torch.arange(p) * (2 * half / p)  # Definition 3.3: no point at b
    rows = torch.stack([torch.randint(d, (p,), generator=torch.Generator().manual_seed(seed)) for seed in seeds])
    X, Y = (part.to(unit["device"]) for part in (X, place_in_rows(Y[..., 0], points, rows, d)))
    group = Group(tuple(seeds))
    model = GuidedAttention(group, n, points, rows, d, unit["hidden"], unit["beta"], unit["keys_see_data"])
    trained = train_and_measure(model, group, X, Y, unit, worker)
    weights = run(model.attention, X[:, count_training(unit) :])
    return {"mse": trained["mse"], "checks": trained["checks"]} | look_at(weights.cpu().numpy())


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


def build(unit: Json, worker: Worker) -> Json:
    """Theorem 3.4's network with p = n + 1 (p = n is refused), and ours with p = n registers, on held-out samples."""
    n = unit["n"]
    X, Y = draw_held_out(unit)[2:]
    found: Json = {"share_at_the_ends": float((Y.abs() == unit["width"] / 2).double().mean())}
    for method in ("faithful", "spectral"):
        for p, name in ((n, f"{method}, p = n"), (n + 1, f"{method}, p = n + 1")):
            worker.tell(name)
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
        judge(
            "ends",
            concentrates > 0.5,
            weight=concentrates,
            targets=built[0]["share_at_the_ends"],
            constructed=faithful[0]["ends"][0],
        ),
        judge(
            "spreads",
            spreads["sign"] == "falls",
            spreads["sign"] == "undecided",
            ends=", ".join(f"{np.mean(e):.3f}" for e in ends),
            keys=", ".join(f"{np.mean(k):.1f}" for k in keys),
        ),
        judge("one-hot", one_hot > 0.9, one_hot > 0.5, top=one_hot),
    ]
    varied = [(name, mean_of(results[name]["ends"])) for name in OTHERWISE]
    others = [Effect(name, concentrates, weight, weight <= 0.5, True) for name, weight in varied]
    points = Effect("points", mean_of(trained[-1]["mse"]), mean_of(more[-1]["mse"]), None, True)
    curves = {"trained": [one["maps"] for one in trained], "built": [one["maps"][0] for one in faithful]}
    return Summary([spreads, used], cells, verdicts, curves, (*others, points))


def picture(record: Json) -> Picture:
    rows, curves = [], record["curves"]
    for width, trained, built in zip(record["settings"]["widths"], curves["trained"], curves["built"], strict=True):
        maps = {f"trained, sample {number + 1}": one for number, one in enumerate(trained)} | {"constructed": built}
        row = [HeatMap(f"|b-a| = {width:g}, {name}", weights) for name, weights in maps.items()]
        rows.append([replace(row[0], name="key (interpolation point)"), *row[1:]])
    return Picture(rows, (10, 7.5))


UA_E2 = Study(
    texts=read_texts("UA-E2"),
    paper={"widths": [0.5, 1.5, 3.0], "numbers": "none are printed"},
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
    cut=(Cut("epochs", {"epochs": 100}),),
    conditions=conditions,
    about="ends",
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
    summarise=summarise,
    picture=picture,
)
