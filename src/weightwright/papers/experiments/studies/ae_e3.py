"""AE-E3: one frozen attention layer runs lasso, ridge and linear regression, synthetic data (Table 2).

The paper's task: the prompt *has* w, the model computes X w. Another task, ours: it has (X, y), and w is learned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from weightwright.interpreter import Interpreter, library
from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.panels import Bars, Picture
from weightwright.papers.experiments.machinery.read import mean_of, show
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
from weightwright.papers.experiments.machinery.study_units import Json
from weightwright.papers.experiments.machinery.trends import fit_curve
from weightwright.papers.experiments.training.ames_housing import ALGORITHMS
from weightwright.papers.experiments.training.batched_models import EmbeddedAttention, Group
from weightwright.papers.experiments.training.constructed_networks import describe_certificate, learn, run
from weightwright.papers.experiments.training.training_loop import run_in_pieces, stack_seeds, train_models
from weightwright.progress import Tell

PAPER = {
    "frozen": {"lasso": 0.059, "ridge": 0.071, "linear": 0.120},
    "baseline": {"lasso": 0.068, "ridge": 0.004, "linear": 0.147},
}
KINDS = ("frozen", *ALGORITHMS)
_PAPER_STEPS = 50_000 // 32 * 300


def conditions(chosen: Json) -> list[Condition]:
    first = {"seeds": chosen["seeds"][:1]}
    return [
        Condition("given", compute_given, first),
        Condition("learned", learn_from_examples, first | {"one_pass": False}),
        Condition("one-pass", learn_from_examples, first | {"one_pass": True}),
        Condition("trained", train, {}, varied_as=""),
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


def train(unit: Json, tell: Tell) -> Json:
    """The frozen model, which sees all algorithms, and one model for each; all seeds and kinds side by side."""
    samples, seeds, models = unit["samples"], unit["seeds"], len(KINDS)
    group = Group(tuple(10 * seed + kind for kind in range(models) for seed in seeds), (unit["H"],))

    def mix(seed: int) -> Any:
        parts = [draw(unit, seed, kind, -(-samples // 3)) for kind in range(3)]
        return tuple(torch.cat(both)[:samples] for both in zip(*parts, strict=True))

    alone = [draw(unit, seed, kind, samples) for kind in range(3) for seed in seeds]
    X, Y = stack_seeds([*map(mix, seeds), *alone], unit["device"])
    model = EmbeddedAttention(group, 2 * unit["d"], unit["hidden"], 1, scaled=True)
    curve = train_models(model, group, X, Y, unit, tell)
    found: Json = {"frozen": {}, "baseline": {}, "variance": {}, "curve": curve[: len(seeds)]}
    for kind, name in enumerate(ALGORITHMS):
        Z, wanted = stack_seeds((draw(unit, seed + 100_003, kind, unit["test"]) for seed in seeds), unit["device"])
        outputs = run_in_pieces(model, group, Z.repeat(models, 1, 1, 1))
        errors = (outputs - wanted.repeat(models, 1, 1, 1)).square().flatten(1).mean(1).view(models, -1).tolist()
        found["frozen"][name] = errors[0]
        found["baseline"][name] = errors[kind + 1]
        found["variance"][name] = float(wanted.var())
    return found


def compute_given(unit: Json, tell: Tell) -> Json:
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
        tell(name)
        to_product, to_target, largest = [], [], 0.0
        Z, target = draw(unit, seed + 100_003, kind, unit["prompts"])
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


def learn_from_examples(unit: Json, tell: Tell) -> Json:
    """Another task: w is unknown and learned from n examples (X, y); errors on n new rows of the same w.

    By the estimators, or in one forward pass of one frozen network, which has no l1.
    """
    found: Json = {}
    for name in ALGORITHMS[1:] if unit["one_pass"] else ALGORITHMS:
        runs = []
        for k in range(unit["prompts"]):
            tell(f"{name}, prompt {k + 1}")
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
    trained, given, learned = (results[name] for name in ("trained", "given", "learned"))
    cells: Cells = []
    for model in ("frozen", "baseline"):
        cells.append(([f"paper, {model}", "w given"], PAPER[model]))
        cells.append(([f"trained, {model}", "w given"], {name: show(trained[model][name]) for name in ALGORITHMS}))
    cells.append((["variance of the targets", "-"], trained["variance"]))
    for words, task, part, key in _CONSTRUCTED:
        cells.append(([words, task], by_algorithm(results[part], key)))
    frozen, baseline = (
        {name: mean_of(trained[model][name]) for name in ALGORITHMS} for model in ("frozen", "baseline")
    )
    better = [name for name in ALGORITHMS if frozen[name] <= baseline[name]]
    linear = given["linear"]
    ahead = frozen["linear"] / max(linear["mse"], 1e-300)
    verdicts = [
        judge("better", better == ["lasso", "linear"], better=", ".join(better) or "none"),
        judge(
            "numbers",
            all(frozen[name] < 2 * PAPER["frozen"][name] for name in ALGORITHMS),
            errors=", ".join(f"{name} {value:.3g}" for name, value in frozen.items()),
            cut="; training was cut" * bool(chosen["cut"]),
        ),
        judge("exact", True, distance=linear["mse_to_Xw"], bound=given["bound"], noise=linear["mse"], ahead=ahead),
    ]
    curves = {
        "frozen": frozen,
        "baseline": baseline,
        "given": by_algorithm(given, "mse"),
        "learned": by_algorithm(learned, "mse_held_out"),
    }
    return Summary([fit_curve("trained frozen model", trained["curve"])], cells, verdicts, curves)


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
        "hidden": 48,
        "H": 6,
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
    variations=(Variation("noise", {"sigma": 0.5}, seeds=1),),
    compared=read_share,
    columns={"model": None, "task": None} | {name: read.value(name) for name in ALGORITHMS},
    summarise=summarise,
    picture=lambda record: Picture([[draw_bars(record, "MSE", log=True)]]),
)
