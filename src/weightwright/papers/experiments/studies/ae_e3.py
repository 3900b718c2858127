"""AE-E3: one frozen attention layer runs lasso, ridge and linear regression, synthetic data (Table 2).

The paper's task: the prompt *has* w, the model computes X w. Another task, ours: it has (X, y), and w is learned.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weightwright.papers.experiments.machinery.panels import name_dependence
from weightwright.papers.experiments.machinery.study import Choice, Options, Study, Summary, compare_variation
from weightwright.papers.experiments.machinery.study_units import Json, Unit
from weightwright.papers.experiments.machinery.trends import fit_trend, mean_and_spread
from weightwright.papers.experiments.training.ames_housing import ALGORITHMS
from weightwright.progress import Tell

PAPER = {
    "frozen": {"lasso": 0.059, "ridge": 0.071, "linear": 0.120},
    "baseline": {"lasso": 0.068, "ridge": 0.004, "linear": 0.147},
}
KINDS = ("frozen", *ALGORITHMS)
_PAPER_STEPS = 50_000 // 32 * 300


def settings(options: Options) -> Json:
    samples, epochs = options.choose((600, 4), (16_000, 20), (50_000, 300))
    epochs = options.epochs_or(epochs)
    seeds = list(range(options.seeds or options.choose(1, 3, 5)))
    steps = samples // 32 * epochs
    cut = [f"{len(seeds)} seeds in the place of 5"] * (len(seeds) != 5)
    cut += [
        f"{samples} samples and {epochs} epochs in the place of 50000 and 300: {steps} steps, "
        f"1/{_PAPER_STEPS // steps} of the paper's"
    ] * (steps < _PAPER_STEPS)
    return {
        "n": 32,
        "d": 24,
        "hidden": 48,
        "H": 6,
        "sigma": 0.1,
        "ridge": 5.0,
        "lasso": 0.1,
        "rate": 1e-3,
        "batch": 32,
        "epochs": epochs,
        "samples": samples,
        "test": options.choose(300, 1000, 10_000),
        "prompts": options.choose(2, 5, 5),
        "steps": 2000,
        "momentum": 0.9,
        "seeds": seeds,
        "cut": cut,
    }


def plan(chosen: Json) -> list[Unit]:
    base = {key: chosen[key] for key in chosen if key not in ("cut", "study", "device", "steps", "momentum")}
    first = base | {"seeds": chosen["seeds"][:1]}
    return [
        Unit("given", compute_given, first),
        Unit("learned", learn_from_examples, first),
        Unit("one-pass", learn_in_a_pass, first | {key: chosen[key] for key in ("steps", "momentum")}),
        Unit("trained", train_regressions, base),
        Unit("varied-noise", train_regressions, first | {"sigma": 0.5}),
    ]


def train_regressions(unit: Json, tell: Tell) -> Json:
    """The frozen model, which sees all algorithms, and one model for each; all seeds and kinds side by side."""
    import torch

    from weightwright.papers.experiments.training.batched_models import Group
    from weightwright.papers.experiments.training.regression_models import PromptedAttention, draw_regression
    from weightwright.papers.experiments.training.training_loop import run_in_pieces, train

    n, d, seeds = unit["n"], unit["d"], unit["seeds"]
    group = Group(tuple(10 * seed + kind for kind in range(len(KINDS)) for seed in seeds), (unit["H"],))

    def draw(seed: int, kind: int, samples: int) -> Any:
        return draw_regression(seed, kind, samples, n, d, unit["sigma"], unit["ridge"])

    def mix(seed: int) -> Any:
        parts = [draw(seed, kind, -(-unit["samples"] // 3)) for kind in range(3)]
        return tuple(torch.cat(both)[: unit["samples"]] for both in zip(*parts, strict=True))

    drawn = [mix(seed) for seed in seeds] + [draw(seed, kind, unit["samples"]) for kind in range(3) for seed in seeds]
    X, Y = (torch.stack(parts).to(unit["device"]) for parts in zip(*drawn, strict=True))
    model = PromptedAttention(group, 2 * d, unit["hidden"]).to(unit["device"])
    curve = train(model, group, X, Y, epochs=unit["epochs"], batch=unit["batch"], rate=unit["rate"], tell=tell)
    found: Json = {"frozen": {}, "baseline": {}, "variance": {}, "curve": np.array(curve)[: len(seeds)].tolist()}
    S = len(seeds)
    for kind, name in enumerate(ALGORITHMS):
        held = [draw(seed + 100_003, kind, unit["test"]) for seed in seeds]
        Z, wanted = (torch.stack(parts).to(unit["device"]) for parts in zip(*held, strict=True))
        errors = (
            (run_in_pieces(model, group, Z.repeat(len(KINDS), 1, 1, 1)) - wanted.repeat(len(KINDS), 1, 1, 1))
            .square()
            .flatten(1)
            .mean(1)
        )
        found["frozen"][name] = errors[:S].tolist()
        found["baseline"][name] = errors[(kind + 1) * S : (kind + 2) * S].tolist()
        found["variance"][name] = float(wanted.var())
    return found


def compute_given(unit: Json, tell: Tell) -> Json:
    """The paper's task by construction (AE-12): w stands in the prompt of one frozen interpreter, which returns X w."""
    import torch
    from torch import nn

    from weightwright.interpreter import Interpreter, library
    from weightwright.papers.experiments.training.regression_models import draw_regression

    n, d, seed = unit["n"], unit["d"], unit["seeds"][0]
    found: Json = {}
    held = {
        name: draw_regression(seed + 100_003, kind, unit["prompts"], n, d, unit["sigma"], unit["ridge"])
        for kind, name in enumerate(ALGORITHMS)
    }
    trained = [draw_regression(seed, kind, unit["samples"], n, d, unit["sigma"], unit["ridge"])[0] for kind in range(3)]
    x_max, w_max = (
        1.5 * max(float(part[..., piece].abs().max()) for part in trained) for piece in (slice(0, d), slice(d, None))
    )
    reach = 1.5 * max(float((part[..., :d] * part[..., d:]).sum(-1).abs().max()) for part in trained)
    vm = Interpreter(n, d + 1, 1, x_max=x_max, w_max=max(w_max, 1.0), v_max=reach)
    for name, (Z, target) in held.items():
        tell(name)
        to_product, to_target, largest = [], [], 0.0
        for sample, wanted in zip(Z.double(), target.double(), strict=True):
            layer = nn.Linear(d, 1, bias=False).double()
            layer.weight.data.copy_(sample[:1, d:])
            x = torch.cat([sample[:, :d], torch.ones(n, 1, dtype=torch.float64)], 1)
            with torch.no_grad():
                y = vm(x, library.linear(vm, layer))[:, 0]
            product = sample[:, :d] @ sample[0, d:]
            largest = max(largest, float((y - product).abs().max()))
            to_product.append(float((y - product).square().mean()))
            to_target.append(float((y - wanted[:, 0]).square().mean()))
        found[name] = {"mse": float(np.mean(to_target)), "mse_to_Xw": float(np.mean(to_product)), "largest": largest}
    return found | {"bound": float(vm.certificate.bound), "status": vm.certificate.status}


def learn_from_examples(unit: Json, tell: Tell) -> Json:
    """Another task: w is unknown and learned from n examples (X, y); errors on n new rows of the same w."""
    from weightwright.papers.experiments.training.in_context_learners import exact_weights, learn_in_context

    found: Json = {}
    for name in ALGORITHMS:
        held, algorithm, bounds = [], [], []
        for k in range(unit["prompts"]):
            tell(f"{name}, prompt {k + 1}")
            X, y, Xq, yq = _draw_examples(unit, name, k)
            said = learn_in_context(name, X, y, Xq, unit["lasso"], unit["ridge"])
            exact = Xq @ exact_weights(name, X, y, unit["lasso"], unit["ridge"])
            held.append(float(((said["predictions"] - yq) ** 2).mean()))
            algorithm.append(float(((said["predictions"] - exact) ** 2).mean()))
            bounds.append(said["bound"])
        found[name] = {
            "mse_held_out": float(np.mean(held)),
            "mse_to_algorithm": float(np.mean(algorithm)),
            "bound": max(bounds),
        }
    return found


def learn_in_a_pass(unit: Json, tell: Tell) -> Json:
    """The same prompts in one forward pass of one frozen network, which has no l1."""
    from weightwright.papers.experiments.training.in_context_learners import exact_weights, learn_in_one_pass

    found: Json = {}
    for name in ("ridge", "linear"):
        held, algorithm = [], []
        for k in range(unit["prompts"]):
            tell(f"{name}, prompt {k + 1}")
            X, y, Xq, yq = _draw_examples(unit, name, k)
            ridge = unit["ridge"] if name == "ridge" else 0.0
            said = learn_in_one_pass(X, y, Xq, ridge, unit["steps"], unit["momentum"])
            exact = Xq @ exact_weights(name, X, y, unit["lasso"], unit["ridge"])
            held.append(float(((said["predictions"] - yq) ** 2).mean()))
            algorithm.append(float(((said["predictions"] - exact) ** 2).mean()))
        found[name] = {
            "mse_held_out": float(np.mean(held)),
            "mse_to_algorithm": float(np.mean(algorithm)),
            "status": said["status"],
        }
    return found


def _draw_examples(unit: Json, name: str, k: int) -> tuple[Any, ...]:
    """Prompt k of an algorithm: n examples, their targets, n new rows of the same w, theirs."""
    n, d = unit["n"], unit["d"]
    rng = np.random.default_rng(1000 * unit["seeds"][0] + 10 * k + ALGORITHMS.index(name))
    w = rng.standard_normal(d) * (rng.random(d) < 0.5 if name == "lasso" else 1.0)
    X, Xq = 2 * rng.standard_normal((2, n, d)) - 1
    y, yq = (rows @ w + unit["sigma"] * rng.standard_normal(n) for rows in (X, Xq))
    return X, y, Xq, yq


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    trained, given, learned, one_pass, noisy = (
        results[name] for name in ("trained", "given", "learned", "one-pass", "varied-noise")
    )
    rows: list[list[Any]] = []
    for model in ("frozen", "baseline"):
        rows.append([f"paper, {model}", "w given", *(PAPER[model][name] for name in ALGORITHMS)])
        rows.append([f"trained, {model}", "w given", *(_shown(trained[model][name]) for name in ALGORITHMS)])
    rows += [
        ["variance of the targets", "-", *(trained["variance"][name] for name in ALGORITHMS)],
        ["constructed (AE-12), to the target", "w given", *(given[name]["mse"] for name in ALGORITHMS)],
        ["constructed (AE-12), to X w", "w given", *(given[name]["mse_to_Xw"] for name in ALGORITHMS)],
        [
            "constructed learner, to held-out y",
            "w learned from (X, y)",
            *(learned[name]["mse_held_out"] for name in ALGORITHMS),
        ],
        [
            "constructed learner, to the algorithm",
            "w learned from (X, y)",
            *(learned[name]["mse_to_algorithm"] for name in ALGORITHMS),
        ],
        *(
            [
                f"one-pass learner, to {words}",
                "w learned from (X, y)",
                *(one_pass.get(name, {}).get(key) for name in ALGORITHMS),
            ]
            for key, words in (("mse_held_out", "held-out y"), ("mse_to_algorithm", "the algorithm"))
        ),
    ]
    curve = np.array(trained["curve"])
    trends = [
        fit_trend(
            "trained frozen model: training MSE against epochs", list(range(1, curve.shape[1] + 1)), curve, "falls"
        )
    ]
    frozen = {name: float(np.mean(trained["frozen"][name])) for name in ALGORITHMS}
    baseline = {name: float(np.mean(trained["baseline"][name])) for name in ALGORITHMS}
    better = [name for name in ALGORITHMS if frozen[name] <= baseline[name]]
    ahead = frozen["linear"] / max(given["linear"]["mse"], 1e-300)
    verdicts = [
        {
            "claim": "the frozen model is better than its baselines for lasso and linear, worse for ridge",
            "reproduced": "yes" if better == ["lasso", "linear"] else "no",
            "because": f"it is better for {', '.join(better) or 'none'}",
        },
        {
            "claim": "the frozen model has MSE 0.059, 0.071, 0.120",
            "reproduced": "yes" if all(frozen[name] < 2 * PAPER["frozen"][name] for name in ALGORITHMS) else "no",
            "because": ", ".join(f"{name} {value:.3g}" for name, value in frozen.items())
            + "; training was cut" * bool(chosen["cut"]),
        },
        {
            "claim": "(ours) for the paper's task the constructed network is exact",
            "reproduced": "yes",
            "because": f"its distance to X w is {given['linear']['mse_to_Xw']:.1e} (linear), proven bound "
            f"{given['bound']:.1e}; to the noisy target it has the noise, "
            f"{given['linear']['mse']:.3g}, {ahead:.0f} times less than the trained one",
        },
    ]
    taken, varied = (
        frozen["linear"] / trained["variance"]["linear"],
        float(np.mean(noisy["frozen"]["linear"])) / noisy["variance"]["linear"],
    )
    trained_share = compare_variation(
        "sigma, the noise: 0.1 or 0.5", "share of the variance left, frozen, linear:", taken, varied
    )
    curves = {
        "frozen": frozen,
        "baseline": baseline,
        "given": {name: given[name]["mse"] for name in ALGORITHMS},
        "learned": {name: learned[name]["mse_held_out"] for name in ALGORITHMS},
    }
    return Summary(trends, ["model", "task", *ALGORITHMS], _MEANINGS, rows, verdicts, [trained_share], curves)


_MEANINGS = {
    "w given": "the paper's task: every token holds x and the algorithm's weights w, the output is X w; nothing "
    "is learned in context",
    "w learned from (X, y)": "another task, ours: examples (X, y) stand in the prompt, new rows are predicted; "
    "constructed learner: the estimators of `ww.incontext`; one-pass learner: `ww.incontext.learner`, one forward pass "
    "of a frozen network from examples, penalty and new rows to predictions, without l1",
    "to the target": "lasso and linear: X w + noise, so the noise is a floor; ridge: X w",
    "to the algorithm": "to the prediction of the algorithm itself, computed by scikit-learn or lapack",
    "frozen": "one model for all three algorithms; baseline: a model for each; MSE, mean ± std over seeds",
}


def _shown(values: list[float]) -> str:
    said = mean_and_spread(values)
    return f"{said['mean']:.3g} ± {said['std']:.2g}"


def draw(record: Json, figure: Any) -> None:
    axes = figure.subplots()
    bars = {
        "paper, frozen": record["paper"]["frozen"],
        "paper, baseline": record["paper"]["baseline"],
        "trained, frozen": record["curves"]["frozen"],
        "trained, baseline": record["curves"]["baseline"],
        "constructed, w given": record["curves"]["given"],
        "constructed learner": record["curves"]["learned"],
    }
    colours = ("tab:red", "lightcoral", "tab:blue", "lightsteelblue", "tab:green", "tab:olive")
    for number, (name, values) in enumerate(bars.items()):
        shown = [name for name in ALGORITHMS if values.get(name) is not None]
        places = np.array([ALGORITHMS.index(one) for one in shown]) + 0.13 * (number - 2.5)
        axes.bar(places, [max(values[one], 1e-16) for one in shown], 0.12, label=name, color=colours[number])
    axes.set_xticks(range(3), ALGORITHMS)
    axes.set_yscale("log")
    axes.set_ylabel("MSE")
    axes.set_ylim(top=1e3 * axes.get_ylim()[1])  # room for the legend above the bars
    axes.legend(fontsize=7, ncols=3, loc="upper center")
    name_dependence(figure, record)


AE_E3 = Study(
    id="AE-E3",
    title="one frozen layer runs lasso, ridge and linear regression",
    source="AE, Table 2",
    claim="one frozen model does as well as a model for each algorithm: 0.059, 0.071, 0.120 against 0.068, "
    "0.004, 0.147",
    paper=PAPER,
    choices=(
        Choice("sigma", "0.1", "not stated", "0.5"),
        Choice("n", "32", "not stated; more than d = 24, so that (X, y) determines w", "not varied"),
        Choice(
            "target of ridge",
            "X w of the ridge weights, no noise",
            "the text gives its weights and not its target",
            "not varied",
        ),
        Choice("lasso of the learner", "alpha = 0.1", "the paper fits none: its lasso is a sparse w", "not varied"),
    ),
    settings=settings,
    plan=plan,
    summarise=summarise,
    draw=draw,
)
