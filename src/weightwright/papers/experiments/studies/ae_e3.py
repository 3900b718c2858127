"""AE-E3: one frozen attention layer runs lasso, ridge and linear regression, synthetic data (Table 2).

The paper's task: the prompt *has* w, the model computes X w. Another task, ours: it has (X, y), and w is learned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weightwright.interpreter import Interpreter, library
from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.checks import check_training, follows
from weightwright.papers.experiments.machinery.panels import Bars, Picture
from weightwright.papers.experiments.machinery.read import mean_of, show, spread_of
from weightwright.papers.experiments.machinery.study import (
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
from weightwright.papers.experiments.machinery.trends import fit_curve
from weightwright.papers.experiments.training.ames_housing import ALGORITHMS
from weightwright.papers.experiments.training.batched_models import EmbeddedAttention, Group, SpreadAttention
from weightwright.papers.experiments.training.constructed_networks import describe_certificate, learn, run
from weightwright.papers.experiments.training.training_loop import (
    MEASURED,
    run_in_pieces,
    squared_error,
    stack_seeds,
    train_models,
)

PAPER = {
    "frozen": {"lasso": 0.059, "ridge": 0.071, "linear": 0.120},
    "baseline": {"lasso": 0.068, "ridge": 0.004, "linear": 0.147},
}
KINDS = ("frozen", *ALGORITHMS)
_PAPER_STEPS = 50_000 // 32 * 300


#: Readings of "a task-specific prompt vector w". "sample": every sample has a w of its own, and the linear layer makes
#: P keys of each token, as the proofs have it; "task": every algorithm has one w, and tokens are (x_i, w).
READINGS = {
    "sample": {"reading": "sample", "H": 6, "hidden": 48},
    "task": {"reading": "task", "H": 6, "hidden": 48},
}


def conditions(chosen: Json) -> list[Condition]:
    first = {"seeds": chosen["seeds"][:1]}
    usual = {"schedule": "constant", "divided": True, "output": "none", "skip": False}
    return [
        Condition("given", compute_given, first),
        Condition("learned", learn_from_examples, first | {"one_pass": False}),
        Condition("one-pass", learn_from_examples, first | {"one_pass": True}),
        *(Condition(f"trained-{name}", train, usual | taken, name) for name, taken in READINGS.items()),
    ]


def draw_regression(
    seed: int, kind: int, samples: int, n: int, d: int, sigma: float, penalty: float
) -> tuple[Tensor, Tensor]:
    """Tokens (x_i, w), (samples, n, 2d), and targets (samples, n, 1) of one of ALGORITHMS.

    x is 2 N(0, 1) - 1. Lasso and linear: w is normal (lasso: half of it 0) and the target X w + noise. Ridge: Y = X w +
    noise, the prompt has (X^T X + penalty I)^-1 X^T Y, and the target is what these weights predict.
    """
    generator = torch.Generator().manual_seed(1009 * seed + kind)
    X = 2 * torch.randn(samples, n, d, generator=generator) - 1
    w = torch.randn(samples, d, 1, generator=generator)
    if ALGORITHMS[kind] == "lasso":
        w = w * (torch.rand(w.shape, generator=generator) < 0.5)
    Y = X @ w + sigma * torch.randn(samples, n, 1, generator=generator)
    if ALGORITHMS[kind] == "ridge":
        gram = X.transpose(1, 2) @ X + penalty * torch.eye(d)
        w = torch.linalg.solve(gram, X.transpose(1, 2) @ Y)
        Y = X @ w
    return torch.cat([X, w.transpose(1, 2).expand(-1, n, -1)], -1), Y


def draw(unit: Json, seed: int, kind: int, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    return draw_regression(seed, kind, samples, unit["n"], unit["d"], unit["sigma"], unit["ridge"])


def draw_task(unit: Json, seed: int, kind: int, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same with one w for the algorithm, that of its first sample; data of another seed have the same w."""
    n, d = unit["n"], unit["d"]
    w = draw(unit, seed % _HELD_OUT, kind, 1)[0][0, 0, d:]
    generator = torch.Generator().manual_seed(2003 * seed + kind)
    X = 2 * torch.randn(samples, n, d, generator=generator) - 1
    noise = unit["sigma"] * torch.randn(samples, n, 1, generator=generator)
    Y = (X @ w)[..., None] + (0.0 if ALGORITHMS[kind] == "ridge" else noise)
    return torch.cat([X, w.expand(samples, n, d)], -1), Y


#: Added to a seed for held-out data.
_HELD_OUT = 100_003


def train(unit: Json, worker: Worker) -> Json:
    """The frozen model, which sees all algorithms, and one model for each; all seeds and kinds side by side."""
    samples, seeds, models = unit["samples"], unit["seeds"], len(KINDS)
    group = Group(tuple(10 * seed + kind for kind in range(models) for seed in seeds))
    drawn = draw_task if unit["reading"] == "task" else draw

    def mix(seed: int) -> Any:
        parts = [drawn(unit, seed, kind, -(-samples // 3)) for kind in range(3)]
        return tuple(torch.cat(both)[:samples] for both in zip(*parts, strict=True))

    alone = [drawn(unit, seed, kind, samples) for kind in range(3) for seed in seeds]
    X, Y = stack_seeds([*map(mix, seeds), *alone], unit["device"])
    model = make_model(group, unit)
    curve = train_models(model, group, X, Y, unit, worker).curve
    training = squared_error(run_in_pieces(model, X[:, -MEASURED:]), Y[:, -MEASURED:]).tolist()
    found: Json = {"frozen": {}, "baseline": {}, "variance": {}, "curve": curve[: len(seeds)]}
    held_out, change, missed = torch.zeros(group.size), torch.zeros(len(seeds)), torch.zeros(len(seeds))
    for kind, name in enumerate(ALGORITHMS):
        Z, wanted = stack_seeds((drawn(unit, seed + _HELD_OUT, kind, unit["test"]) for seed in seeds), unit["device"])
        outputs = run_in_pieces(model, Z.repeat(models, 1, 1, 1))
        errors = squared_error(outputs, wanted.repeat(models, 1, 1, 1)).view(models, -1).cpu()
        found["frozen"][name], found["baseline"][name] = errors[0].tolist(), errors[kind + 1].tolist()
        found["variance"][name] = float(wanted.var())
        held_out.view(models, -1)[0] += errors[0] / 3
        held_out.view(models, -1)[kind + 1] = errors[kind + 1]
        other = ask_otherwise(unit, Z, seeds, kind)
        moved = run_in_pieces(model, other.repeat(models, 1, 1, 1))[: len(seeds)] - outputs[: len(seeds)]
        wanted_move = _product(other, unit["d"]) - _product(Z, unit["d"])
        change += squared_error(wanted_move, torch.zeros_like(wanted_move)).cpu()
        missed += squared_error(moved, wanted_move).cpu()
    checks = check_training(curve, training, held_out.tolist())
    return found | {"checks": checks | {"prompt": follows(change.tolist(), missed.tolist())}}


def make_model(group: Group, unit: Json) -> nn.Module:
    """The layer of a reading: tokens (x_i, w), (G, B, n, 2d), to a number for each."""
    d = unit["d"]
    if unit["reading"] == "sample":
        return SpreadAttention(group, d, d, unit["hidden"] // unit["H"], 1, unit["P"], unit["H"])
    return EmbeddedAttention(group, 2 * d, 1, unit)


def ask_otherwise(unit: Json, Z: Tensor, seeds: list[int], kind: int) -> Tensor:
    """The same x with another w: that of the next sample, or of the next algorithm where an algorithm has one w."""
    d = unit["d"]
    if unit["reading"] != "task":
        return torch.cat([Z[..., :d], Z[..., d:].roll(1, 1)], -1)
    others = torch.stack([draw_task(unit, seed, (kind + 1) % 3, 1)[0][0, 0, d:] for seed in seeds]).to(Z)
    return torch.cat([Z[..., :d], others[:, None, None].expand(*Z.shape[:3], d)], -1)


def _product(Z: Tensor, d: int) -> Tensor:
    return (Z[..., :d] * Z[..., d:]).sum(-1, keepdim=True)


def compute_given(unit: Json, worker: Worker) -> Json:
    """The paper's task by construction (AE-12): w stands in the prompt of one frozen interpreter, which returns X w."""
    n, d, seed = unit["n"], unit["d"], unit["seeds"][0]
    trained = [draw(unit, seed, kind, unit["samples"])[0] for kind in range(3)]
    x_max, w_max = (
        1.5 * max(float(part[..., piece].abs().max()) for part in trained) for piece in (slice(0, d), slice(d, None))
    )
    reach = 1.5 * max(float((part[..., :d] * part[..., d:]).sum(-1).abs().max()) for part in trained)
    vm = Interpreter(n, d + 1, 1, x_max=x_max, w_max=max(w_max, 1.0), v_max=reach)
    found: Json = describe_certificate(vm)
    for kind, name in enumerate(ALGORITHMS):
        worker.tell(name)
        to_product, to_target, largest = [], [], 0.0
        Z, target = draw(unit, seed + _HELD_OUT, kind, unit["prompts"])
        for sample, wanted in zip(Z.double(), target.double(), strict=True):
            layer = torch.nn.Linear(d, 1, bias=False).double()
            layer.weight.data.copy_(sample[:1, d:])
            x = torch.cat([sample[:, :d], torch.ones(n, 1, dtype=torch.float64)], 1)
            y = run(vm, x, library.linear(vm, layer))[:, 0]
            product = sample[:, :d] @ sample[0, d:]
            largest = max(largest, float((y - product).abs().max()))
            to_product.append(float((y - product).square().mean()))
            to_target.append(float((y - wanted[:, 0]).square().mean()))
        found[name] = {"mse": mean_of(to_target), "mse_to_Xw": mean_of(to_product), "largest": largest}
    return found


def learn_from_examples(unit: Json, worker: Worker) -> Json:
    """Another task: w is unknown and learned from n examples (X, y); errors on n new rows of the same w.

    By the estimators, or in one forward pass of one frozen network, which has no l1.
    """
    found: Json = {}
    for name in ALGORITHMS[1:] if unit["one_pass"] else ALGORITHMS:
        runs = []
        for k in range(unit["prompts"]):
            worker.tell(f"{name}, prompt {k + 1}")
            runs.append(learn(unit, name, *_draw_examples(unit, name, k)))
        last = {"status": runs[-1]["status"]} if unit["one_pass"] else {"bound": max(one["bound"] for one in runs)}
        found[name] = last | {f"mse_{key}": mean_of([one[key] for one in runs]) for key in ("held_out", "to_algorithm")}
    return found


def _draw_examples(unit: Json, name: str, k: int) -> Any:
    """Prompt k of an algorithm: n examples, their targets, n new rows of the same w, theirs."""
    n, d = unit["n"], unit["d"]
    rng = np.random.default_rng(1000 * unit["seeds"][0] + 10 * k + ALGORITHMS.index(name))
    w = rng.standard_normal(d) * (rng.random(d) < 0.5 if name == "lasso" else 1.0)
    X, Xq = 2 * rng.standard_normal((2, n, d)) - 1
    y, yq = (rows @ w + unit["sigma"] * rng.standard_normal(n) for rows in (X, Xq))
    return X, y, Xq, yq


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    given, learned = results["given"], results["learned"]
    cells: Cells = [([f"paper, {model}", "w given"], PAPER[model]) for model in ("frozen", "baseline")]
    trends, means = [], {}
    for reading, words in _WORDS.items():
        found = results[f"trained-{reading}"]
        for model in ("frozen", "baseline"):
            cells.append(([f"trained, {words}, {model}", "w given"], {k: show(found[model][k]) for k in ALGORITHMS}))
            means[reading, model] = {name: mean_of(found[model][name]) for name in ALGORITHMS}
        cells.append(([f"variance of the targets, {words}", "-"], found["variance"]))
        trends.append(fit_curve(f"trained frozen model, {words}", found["curve"]))
    for words, task, part, key in _CONSTRUCTED:
        cells.append(([words, task], by_algorithm(results[part], key)))
    frozen, baseline = means["sample", "frozen"], means["sample", "baseline"]
    better = [name for name in ALGORITHMS if frozen[name] <= baseline[name]]
    spreads = {
        model: {k: spread_of(results["trained-sample"][model][k]) for k in ALGORITHMS}
        for model in ("frozen", "baseline")
    }
    steadier = [k for k in ALGORITHMS if (spreads["frozen"][k] or 0.0) < (spreads["baseline"][k] or 0.0)]
    linear = given["linear"]
    shown = "; ".join(f"{words}: {_list(means[reading, 'frozen'])}" for reading, words in _WORDS.items())
    verdicts = [
        judge(
            "better",
            better == ["lasso", "linear"],
            bool({"lasso", "linear"} & set(better)),
            better=", ".join(better) or "none",
            frozen=_list(frozen),
            baseline=_list(baseline),
        ),
        judge("numbers", all(frozen[name] < 1.25 * PAPER["frozen"][name] for name in ALGORITHMS), errors=shown),
        judge(
            "steadier",
            len(steadier) == 3,
            bool(steadier),
            steadier=", ".join(steadier) or "none",
            frozen=_list(spreads["frozen"]),
            baseline=_list(spreads["baseline"]),
        ),
        judge(
            "exact",
            True,
            ours=True,
            distance=linear["mse_to_Xw"],
            bound=given["bound"],
            noise=linear["mse"],
            ahead=frozen["linear"] / max(linear["mse"], 1e-300),
        ),
    ]
    curves = {
        "frozen": frozen,
        "baseline": baseline,
        "given": by_algorithm(given, "mse"),
        "learned": by_algorithm(learned, "mse_held_out"),
    }
    return Summary(trends, cells, verdicts, curves)


#: What the readings are called.
_WORDS = {"sample": "a w for each sample", "task": "a w for each algorithm"}


def _list(numbers: Json) -> str:
    return ", ".join(f"{numbers[name]:.3g}" if numbers[name] is not None else "-" for name in ALGORITHMS)


def by_algorithm(results: Json, key: str) -> Json:
    """A number of the results for each algorithm; None where there is none."""
    return {name: results.get(name, {}).get(key) for name in ALGORITHMS}


#: Rows of the constructed networks: words, task, the condition and the number of it.
_LEARNED = "w learned from (X, y)"
_CONSTRUCTED = (
    ("constructed (AE-12), to the target", "w given", "given", "mse"),
    ("constructed (AE-12), to X w", "w given", "given", "mse_to_Xw"),
    ("constructed learner, to held-out y", _LEARNED, "learned", "mse_held_out"),
    ("constructed learner, to the algorithm", _LEARNED, "learned", "mse_to_algorithm"),
    ("one-pass learner, to held-out y", _LEARNED, "one-pass", "mse_held_out"),
    ("one-pass learner, to the algorithm", _LEARNED, "one-pass", "mse_to_algorithm"),
)


def read_share(chosen: Json, found: list[Json]) -> float:
    return mean_of(found[0]["frozen"]["linear"]) / float(found[0]["variance"]["linear"])


def draw_bars(record: Json, name: str, log: bool = False) -> Bars:
    """The trained models, next to the paper's and the constructed ones, for each algorithm."""
    paper, curves = record["paper"], record["curves"]
    bars = (
        ("paper, frozen", "tab:red", paper["frozen"]),
        ("paper, baseline", "lightcoral", paper["baseline"]),
        ("trained, frozen", "tab:blue", curves["frozen"]),
        ("trained, baseline", "lightsteelblue", curves["baseline"]),
        ("constructed, w given", "tab:green", curves["given"]),
        ("constructed learner", "tab:olive", curves["learned"]),
    )
    return Bars(ALGORITHMS, bars, name, log)


AE_E3 = Study(
    texts=read_texts("AE-E3"),
    paper=PAPER,
    settings={
        "n": 32,
        "d": 24,
        "P": 10,
        "sigma": 0.1,
        "ridge": 5.0,
        "lasso": 0.1,
        "rate": 1e-3,
        "batch": 32,
        "epochs": Sized(4, 20, 300),
        "samples": Sized(600, 16_000, 50_000),
        "test": Sized(300, 1000, 10_000),
        "prompts": Sized(2, 5, 5),
        "steps": 2000,
        "momentum": 0.9,
        "seeds": Sized(1, 3, 5),
    },
    cut=(
        Cut("seeds", {"seeds": 5}),
        Cut(
            "steps",
            {"steps": _PAPER_STEPS},
            _PAPER_STEPS,
        ),
    ),
    conditions=conditions,
    variations=(
        Variation("as-before", {"reading": "token"}, where="sample"),
        Variation("noise", {"sigma": 0.5}, where="sample"),
        Variation("late", {"schedule": "late"}, where="sample"),
        Variation("output", {"output": "sequence"}, where="task"),
        Variation("skip", {"skip": True}, where="task"),
    ),
    compared=read_share,
    about="numbers",
    supports=lambda share: share < 0.05,
    columns={"model": None, "task": None} | {name: read.value(name) for name in ALGORITHMS},
    summarise=summarise,
    picture=lambda record: Picture([[draw_bars(record, "MSE", log=True)]]),
)
