"""AE-E1: one trained head computes tanh(w . x - y) x (section 5.1), beside Theorem 3.1's network and ours."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from weightwright.incontext import Ranges
from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.panels import Curves, Picture
from weightwright.papers.experiments.machinery.read import mean_of
from weightwright.papers.experiments.machinery.study import (
    TRAINING,
    Cells,
    Condition,
    Sized,
    Study,
    Summary,
    Variation,
    judge,
    read_texts,
)
from weightwright.papers.experiments.machinery.study_units import Json, Worker
from weightwright.papers.experiments.machinery.trends import fit_curve, fit_trend
from weightwright.papers.experiments.training.batched_models import EmbeddedAttention, Group, SpreadAttention
from weightwright.papers.experiments.training.constructed_networks import describe_network, run
from weightwright.papers.experiments.training.training_loop import count_training, stack_seeds, train_and_measure
from weightwright.papers.theorems import constructions

#: Held-out samples that the constructed networks are run on.
BUILT_SAMPLES = 1000


def conditions(chosen: Json) -> list[Condition]:
    first = {"seeds": chosen["seeds"][:1]}
    return [
        Condition(
            "trained-block",
            train,
            {"reading": "block", "schedule": "late", "H": 1, "divided": False, "output": "none", "skip": False},
            varied_as="",
        ),
        *(Condition(f"faithful-P{P}", build, first | {"P": P, "method": "faithful"}) for P in chosen["faithful_P"]),
        Condition("spectral", build, first | {"P": None, "method": "spectral"}),
    ]


def draw_gradient_data(seed: int, samples: int, n: int, d: int) -> tuple[Tensor, Tensor]:
    """Tokens (x_i, y_i, w_i), (samples, n, 2d + 1), and tanh(w_i . x_i - y_i) x_i, (samples, n, d)."""
    generator = torch.Generator().manual_seed(seed)
    x = 10 * torch.randn(samples, n, d, generator=generator) - 5
    y = torch.randn(samples, n, 1, generator=generator)
    w = torch.randn(samples, n, d, generator=generator)
    residual = (w * x).sum(-1, keepdim=True) - y
    return torch.cat([x, y, w], -1), torch.tanh(residual) * x


def train(unit: Json, worker: Worker) -> Json:
    """All seeds side by side; errors on held-out samples, and the targets' own size."""
    group, n, d, hidden = Group(tuple(unit["seeds"])), unit["n"], unit["d"], unit["hidden"]
    X, Y = stack_seeds((draw_gradient_data(seed, unit["samples"], n, d) for seed in group.seeds), unit["device"])
    # tokens: one for each sample, the sum of a map of (x_i, y_i) and one of w_i; all see all
    block = unit["reading"] == "block"
    if block:
        model: nn.Module = SpreadAttention(group, d + 1, d, hidden, d, unit["P"])
    else:
        model = EmbeddedAttention(group, 2 * d + 1, d, unit)
    found = train_and_measure(model, group, X, Y, unit, worker)
    return {
        "mse": [one / d for one in found["mse"]],
        "largest": found["largest"],
        "mean_square_of_targets": float(Y[:, count_training(unit) :].square().mean()),
        "curve": [[value / d for value in one] for one in found["curve"]],
        "checks": found["checks"],
    }


def build(unit: Json, worker: Worker) -> Json:
    """Theorem 3.1's network or ours. Its ranges come from the training samples, with a margin of a half; held-out
    tokens beyond them are refused, and counted. It is run on the first held-out samples: it has P numbers a token."""
    d, kept = unit["d"], count_training(unit)
    last = kept + BUILT_SAMPLES
    X = draw_gradient_data(unit["seeds"][0], unit["samples"], unit["n"], d)[0].double()
    x, y, w = X[..., :d], X[..., d], X[..., d + 1 :]
    signed = (x * w).sum(-1) - y
    Y, residual = torch.tanh(signed)[..., None] * x, signed.abs()  # in float64, as the network runs
    ranges = Ranges(*(1.5 * float(part[:kept].abs().max()) for part in (x, y, w)))
    reach = 1.5 * float(residual[:kept].max())
    how = {"tol": 1e-6} if unit["method"] == "spectral" else {"P": unit["P"]}
    net = constructions.in_context_gradients("tanh(x)", 1, d, ranges=ranges, reach=reach, method=unit["method"], **how)
    worker.tell("running")
    limits = [(x.abs().amax(-1), ranges.x), (y.abs(), ranges.y), (w.abs().amax(-1), ranges.w), (residual, reach)]
    inside = torch.stack([values[kept:last].flatten() <= most for values, most in limits]).all(0)
    tokens, wanted = X[kept:last].reshape(-1, 1, 2 * d + 1), Y[kept:last].reshape(-1, d)
    said = describe_network(net, run(net, tokens[inside])[:, 0] - wanted[inside])
    return said | {"reach": reach, "refused": int((~inside).sum()), "tokens": len(inside)}


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    block, spectral = results["trained-block"], results["spectral"]
    faithful = [results[f"faithful-P{P}"] for P in chosen["faithful_P"]]
    cells: Cells = [(["trained, P keys for each sample"], block)]
    size = {"mean_square_of_targets": block["mean_square_of_targets"]}
    built = {f"faithful, P = {P}": one for P, one in zip(chosen["faithful_P"], faithful, strict=True)}
    built["spectral"] = spectral
    cells += [([name], one | size) for name, one in built.items()]
    errors = np.array([[one["largest"] for one in faithful]])
    trends = [
        fit_curve("trained", block["curve"]),
        fit_trend("faithful: largest error against P", chosen["faithful_P"], errors, "-1 (theory)"),
    ]
    share = share_left(block)
    mse = mean_of(block["mse"])
    verdict = judge("approximates", share < 0.01, share < 0.5, mse=mse, share=share, constructed=spectral["mse"])
    curves = {"trained, P keys": block["curve"], "built": {name: one["mse"] for name, one in built.items()}}
    return Summary(trends, cells, [verdict], curves)


def share_left(result: Json) -> float:
    return mean_of(result["mse"]) / float(result["mean_square_of_targets"])


def picture(record: Json) -> Picture:
    curves = dict(record["curves"])
    built = dict(curves.pop("built"))
    below = {"spectral": built.pop("spectral")}
    epochs = range(1, len(curves["trained, P keys"][0]) + 1)
    trained = {f"{name} (training MSE)": values for name, values in curves.items()}
    levels = {f"{name} (held-out MSE)": mse for name, mse in built.items()}
    name = "MSE of a number"
    return Picture([[Curves("epoch", epochs, trained, levels, below, "", name, ("linear", "log"), markers=False)]])


AE_E1 = Study(
    texts=read_texts("AE-E1"),
    paper={"numbers": "none are printed"},
    settings=TRAINING
    | {
        "n": 20,
        "d": 24,
        "hidden": 48,
        "P": 10,
        "epochs": Sized(4, 50, 50),
        "samples": Sized(1000, 5000, 50_000),
        "faithful_P": [256, 1024, 4096],
        "seeds": Sized(2, 5, 5),
    },
    cut=("sizes",),
    conditions=conditions,
    variations=(
        Variation("constant", {"schedule": "constant"}),
        Variation("tokens", {"reading": "tokens"}),
        Variation("small", {"n": 10, "d": 4}),
        Variation("slower", {"rate": 3e-4}),
        Variation("faster", {"rate": 3e-3}),
    ),
    compared=lambda chosen, found: share_left(found[0]),
    about="approximates",
    supports=lambda share: share < 0.1,
    columns={
        "model": None,
        "MSE": read.mean_and_spread("mse"),
        "share left": share_left,
        "largest error": read.mean("largest"),
        "bound": read.value("bound"),
    },
    summarise=summarise,
    picture=picture,
)
