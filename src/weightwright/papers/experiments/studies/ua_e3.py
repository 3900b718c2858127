"""UA-E3: two trained attention layers on a sequence-to-sequence task, against p and H (Figure 4), and constructed ones.

The target is a ReLU network of m = 10 hidden units on all d n numbers at once. The constructed networks emulate it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

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
from weightwright.papers.experiments.training.constructed_networks import describe_network, run
from weightwright.papers.experiments.training.training_loop import count_training, stack_seeds, train_and_measure
from weightwright.papers.theorems import constructions

#: Readings, all run in full. "trained": Definition 2.1's layers after maps of the whole sequence; "divided": the same,
#: but heads share the width; "own": as that, but without W_O and after a map of its own for every token.
READINGS = {
    "trained": {"mixing": "all", "output": "sequence", "divided": False},
    "divided": {"mixing": "all", "output": "sequence", "divided": True},
    "own": {"mixing": "own", "output": "none", "divided": True},
}


def conditions(chosen: Json) -> list[Condition]:
    """The variations are tried at the ends of the sweep of p."""
    usual = {"normal": False, "schedule": "constant"}
    ends = min(chosen["p"]), max(chosen["p"])
    found = [Condition("built", build, usual | {"n": 10, "seeds": chosen["seeds"][:1]})]
    for reading, taken in READINGS.items():
        for p in chosen["p"]:
            varied_as = f"p{p}" if reading == "trained" and p in ends else None
            found.append(Condition(f"{reading}-p{p}", train, usual | taken | chosen["p_sweep"] | {"p": p}, varied_as))
        for H in chosen["H"]:
            found.append(Condition(f"{reading}-heads{H}", train, usual | taken | chosen["H_sweep"] | {"H": H}))
    return found


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


def stack_two_layers(group: Group, n: int, d: int, unit: Json) -> nn.Sequential:
    """Attention after A_1, attention after A_2: (G, B, n, d) -> (G, B, n, d)."""
    p, hidden, H = unit["p"], unit["hidden"], unit["H"]
    return nn.Sequential(
        MappedAttention(group, n, p, p, d, hidden, H, unit), MappedAttention(group, p, p, n, hidden, d, H, unit)
    )


def train(unit: Json, worker: Worker) -> Json:
    """All seeds side by side. `share` is the MSE over the variance of the held-out targets."""
    group, n, d = Group(tuple(unit["seeds"])), unit["n"], unit["d"]

    def draw(seed: int) -> Any:
        X = draw_sequences(seed, unit["samples"], n, d)
        return X, apply_to_sequences(draw_relu_network(seed, n * d, unit["m"], unit["normal"]), X)

    X, Y = stack_seeds(map(draw, unit["seeds"]), unit["device"])
    found = train_and_measure(stack_two_layers(group, n, d, unit), group, X, Y, unit, worker)
    variance = Y[:, count_training(unit) :].var(1).sum(-1).mean(-1)  # of a token, as the MSE
    share = [error / total for error, total in zip(found["mse"], variance.tolist(), strict=True)]
    return {key: found[key] for key in ("mse", "largest", "checks")} | {"share": share}


def build(unit: Json, worker: Worker) -> Json:
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
        worker.tell(name)
        net = builder()
        errors = (run(net, X) - wanted).numpy()
        found[name] = describe_network(net, errors) | {
            "mse": float((errors**2).sum(-1).mean()),
            "heads": len(list(net.network.heads)),
            "chosen": net.about.chosen,
        }
    return found


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    cells: Cells = []
    trends: list[Json] = []
    verdicts: list[Verdict] = []
    curves: Json = {}
    for name, case in (("p", "p"), ("H", "heads")):
        slopes = []
        for reading, words in _WORDS.items():
            found = [results[f"{reading}-{case}{value}"] for value in chosen[name]]
            mse = stack([one["mse"] for one in found])
            curves[f"{name}, {reading}"] = mse.tolist()
            slopes.append(fit_trend(f"MSE against {name}, {words}", chosen[name], mse, f"O(1/{name}): about -1"))
            cells += [
                ([f"trained, {words}, {name} = {value}"], one | {"largest": mean_of(one["largest"])})
                for value, one in zip(chosen[name], found, strict=True)
            ]
        trends += slopes
        shown = ", ".join(
            f"{slope['slope']:.2f} ({words})" for slope, words in zip(slopes, _WORDS.values(), strict=True)
        )
        verdicts.append(judge_slope(name, slopes[0], -1, all=shown))
    built = results["built"]
    cells += [([f"constructed, {name}, {one['heads']} heads"], one) for name, one in built.items()]
    left = min(mean_of(results[f"trained-p{p}"]["share"]) for p in chosen["p"])
    verdicts.append(judge("learns", left < 0.05, left < 0.5, left=left))
    constructed = {name: one["mse"] for name, one in built.items()}
    return Summary(trends, cells, verdicts, curves | {"built": constructed})


#: What the readings are called.
_WORDS = {"trained": "Definition 2.1", "divided": "heads share the width", "own": "without W_O, A by position"}


def draw_sweep(name: str, record: Json) -> Curves:
    built, curves = dict(record["curves"]["built"]), record["curves"]
    trained = {f"trained, {words}": curves[f"{name}, {reading}"] for reading, words in _WORDS.items()}
    levels = {"faithful": built.pop("faithful")}
    return Curves(name, record["settings"][name], trained, levels, {key: built[key] for key in ("spectral", "native")})


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
        "p_sweep": {"n": 10, "hidden": 16, "H": 2},
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
        Variation("own", {"mixing": "own"}),
        Variation("one", {"mixing": "one"}),
        Variation("no-output", {"output": "none"}),
        Variation("divided", {"divided": True}),
        Variation("normal", {"normal": True}),
        Variation("late", {"schedule": "late"}),
        Variation("faster", {"rate": 1e-2}),
        Variation("as-before", READINGS["own"]),
    ),
    compared=lambda chosen, found: slope_between(chosen["p"], found),
    about="p",
    supports=lambda slope: slope < -0.1,
    columns={
        "model": None,
        "MSE": read.mean_and_spread("mse"),
        "share left": read.mean("share"),
        "largest error": read.value("largest"),
        "bound": read.value("bound"),
    },
    summarise=summarise,
    picture=lambda record: Picture([[draw_sweep(name, record) for name in ("p", "H")]]),
)
