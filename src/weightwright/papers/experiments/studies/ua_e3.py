"""UA-E3: two trained attention layers on a sequence-to-sequence task, against p and H (Figure 4), and constructed ones.

The target is a ReLU network of m = 10 hidden units on all d n numbers at once. The constructed networks emulate it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weightwright.numbers import Floats
from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.panels import Curves, Picture
from weightwright.papers.experiments.machinery.read import stack
from weightwright.papers.experiments.machinery.study import (
    TRAINING,
    Cells,
    Condition,
    Cut,
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
from weightwright.papers.experiments.training.constructed_networks import describe_network, run
from weightwright.papers.experiments.training.training_loop import count_training, stack_seeds, train_and_measure
from weightwright.papers.theorems import constructions
from weightwright.progress import Tell


def conditions(chosen: Json) -> list[Condition]:
    """The variations are run at the ends of the sweep of p."""
    usual = {"per_position": True, "normal": False}
    ends = min(chosen["p"]), max(chosen["p"])
    sweep = {p: usual | chosen["p_sweep"] | {"p": p} for p in chosen["p"]}
    return [
        Condition("built", build, usual | {"n": 10, "seeds": chosen["seeds"][:1]}),
        *(Condition(f"trained-p{p}", train, given, f"-p{p}" if p in ends else None) for p, given in sweep.items()),
        Condition("trained-heads", train, usual | chosen["H_sweep"]),
    ]


def draw_relu_network(seed: int, numbers: int, m: int, normal: bool) -> nn.Sequential:
    """Linear, ReLU, Linear on `numbers` inputs with m hidden units, float64.

    normal: standard normal weights; else uniform in +-1/sqrt(inputs), as torch starts its layers.
    """
    generator = torch.Generator().manual_seed(seed + 77)
    layers = (nn.Linear(numbers, m, dtype=torch.float64), nn.Linear(m, numbers, dtype=torch.float64))
    network = nn.Sequential(layers[0], nn.ReLU(), layers[1]).requires_grad_(False)
    for layer in layers:
        for weight in (layer.weight, layer.bias):
            if normal:
                weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))
            else:
                drawn = torch.rand(weight.shape, generator=generator, dtype=torch.float64)
                weight.copy_((2 * drawn - 1) / layer.in_features**0.5)
    return network


def draw_sequences(seed: int, samples: int, n: int, d: int) -> Tensor:
    """(samples, n, d), uniform in [0, 1]."""
    return torch.rand(samples, n, d, generator=torch.Generator().manual_seed(seed))


def apply_to_sequences(network: nn.Module, X: Tensor) -> Tensor:
    """The network on flattened sequences: every output number depends on the whole input."""
    return network(X.double().flatten(-2)).view(X.shape).to(X.dtype)


def stack_two_layers(group: Group, n: int, p: int, d: int, hidden: int, per_position: bool = True) -> nn.Sequential:
    """Attention after A_1, attention after A_2, and the first n tokens are read: (G, B, n, d) -> (G, B, n, d)."""
    return nn.Sequential(
        MappedAttention(group, n, p, p, d, hidden, hidden, per_position),
        MappedAttention(group, p, p, n, hidden, hidden, d, per_position),
    )


def train(unit: Json, tell: Tell) -> Json:
    """All seeds and head counts side by side. `share` is the MSE over the variance of the held-out targets."""
    group, n, d = Group(tuple(unit["seeds"]), tuple(unit["H"])), unit["n"], unit["d"]

    def draw(seed: int) -> Any:
        X = draw_sequences(seed, unit["samples"], n, d)
        return X, apply_to_sequences(draw_relu_network(seed, n * d, unit["m"], unit["normal"]), X)

    X, Y = stack_seeds(map(draw, unit["seeds"]), unit["device"])
    model = stack_two_layers(group, n, unit["p"], d, unit["hidden"], unit["per_position"])
    found = train_and_measure(model, group, X, Y, unit, tell)
    variance = Y[:, count_training(unit) :].var(1).sum(-1).mean(-1)  # of a token, as the MSE
    found["share"] = [error / total for error, total in zip(found["mse"], group.repeat(variance).tolist(), strict=True)]
    return {key: group.by_heads(found[key]) for key in ("mse", "largest", "share")}


def build(unit: Json, tell: Tell) -> Json:
    """UA-8's network (ours and the paper's anchors) and UA-10's, at d n = 50, on held-out sequences."""
    n, d, seed = unit["n"], unit["d"], unit["seeds"][0]
    target = draw_relu_network(seed, n * d, unit["m"], unit["normal"])
    X = draw_sequences(seed, unit["samples"], n, d)[count_training(unit) :][:500].double()
    wanted = target(X.flatten(-2)).view(X.shape)
    builders: dict[str, Any] = {
        "spectral": lambda: constructions.relu_network(target, n, (0.0, 1.0), tol=1e-6),
        "faithful": lambda: constructions.relu_network(target, n, (0.0, 1.0), tol=1.0, method="faithful"),
        "native": lambda: constructions.native_relu(target, n, (0.0, 1.0), tol=1e-6),
    }
    found: Json = {}
    for name, builder in builders.items():
        tell(name)
        net = builder()
        errors = (run(net, X) - wanted).numpy()
        found[name] = describe_network(net, errors) | {
            "mse": float((errors**2).sum(-1).mean()),
            "heads": len(list(net.network.heads)),
            "chosen": net.about.chosen,
        }
    return found


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    by_p, heads = [results[f"trained-p{p}"] for p in chosen["p"]], results["trained-heads"]
    mse = {"p": stack([one["mse"][0] for one in by_p]), "H": stack(heads["mse"])}
    shares = {"p": [one["share"][0] for one in by_p], "H": heads["share"]}
    cells: Cells = [
        ([f"trained, {name} = {value}"], {"mse": mse[name][:, i], "share": shares[name][i]})
        for name in ("p", "H")
        for i, value in enumerate(chosen[name])
    ]
    built = results["built"]
    cells += [([f"constructed, {name}, {one['heads']} heads"], one) for name, one in built.items()]
    trends = [fit_trend(f"trained MSE against {k}", chosen[k], mse[k], f"O(1/{k}): about -1") for k in ("p", "H")]
    verdicts = [judge_slope(name, trend, -1) for name, trend in zip(("p", "H"), trends, strict=True)]
    ends = [min(chosen["p"]), max(chosen["p"])]
    for name, words in (("shared", "A_1 and A_2 shared by all tokens"), ("normal", "targets with normal weights")):
        varied = stack([results[f"varied-{name}-p{p}"]["mse"][0] for p in ends])
        trends.append(fit_trend(f"trained MSE against p, {words}", ends, varied, "varied"))
    constructed = {name: one["mse"] for name, one in built.items()}
    return Summary(trends, cells, verdicts, {name: one.tolist() for name, one in mse.items()} | {"built": constructed})


def read_slope(chosen: Json, found: list[Json]) -> float:
    """The slope of the MSE against p between the ends of its sweep."""
    first, last = (np.array(one["mse"][0]) for one in found)
    ratio: Floats = np.log(last / first)
    return float(ratio.mean() / np.log(max(chosen["p"]) / min(chosen["p"])))


def draw_sweep(name: str, record: Json) -> Curves:
    built, curves = dict(record["curves"]["built"]), {"trained": record["curves"][name]}
    levels = {"faithful": built.pop("faithful")}
    return Curves(name, record["settings"][name], curves, levels, {key: built[key] for key in ("spectral", "native")})


UA_E3 = Study(
    texts=read_texts("UA-E3"),
    paper={"slopes": {"p": -1, "H": -1}, "numbers": "none are printed"},
    settings=TRAINING
    | {
        "d": 5,
        "m": 10,
        "epochs": 3,
        "samples": Sized(2000, 12_000, 50_000),
        "p": Sized([12, 24, 48], [12, 24, 48, 96], [12, 24, 48, 96]),
        "p_sweep": {"n": 10, "hidden": 16, "H": [2]},
        "H": Sized([1, 4, 16], [1, 4, 32], [1, 2, 4, 8, 16, 32]),
        "H_sweep": {"n": 20, "hidden": 32, "p": 24},
        "seeds": Sized(2, 3, 10),
    },
    cut=(
        Cut("seeds", {"seeds": 10}),
        Cut("samples", {"samples": 50_000}),
        Cut("epochs", {"epochs": 3}),
        Sized(None, "heads", None),
    ),
    conditions=conditions,
    variations=(
        Variation("shared", {"per_position": False}),
        Variation("normal", {"normal": True}),
    ),
    compared=read_slope,
    compares_slopes=True,
    columns={
        "model": None,
        "MSE": read.mean("mse"),
        "std": read.spread("mse"),
        "share left": read.mean("share"),
        "largest error": read.value("largest"),
        "bound": read.value("bound"),
    },
    summarise=summarise,
    picture=lambda record: Picture([[draw_sweep(name, record) for name in ("p", "H")]]),
)
