"""AE-E4: the same as AE-E3 on Ames Housing (Table 3), with the auxiliary network that guesses the weights (AE-17).

262 features in the paper. 36 numbers and 43 categories, one-hot less one, give 260 on all rows; keeping the row numbers
`Order` and `PID`, which say nothing of a house, would make it 262. A hidden dimension of 524 = 2 * 262 is not divisible
by 8 heads; ours is the number of features times two, rounded to a multiple of 8.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weightwright.errors import WeightwrightError
from weightwright.incontext import Ranges
from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.checks import check_training, follows
from weightwright.papers.experiments.machinery.panels import Picture
from weightwright.papers.experiments.machinery.read import mean_of, show, spread_of
from weightwright.papers.experiments.machinery.study import (
    Cells,
    Condition,
    Cut,
    Reader,
    Sized,
    Study,
    Summary,
    Variation,
    judge,
    read_texts,
)
from weightwright.papers.experiments.machinery.study_units import Json, Worker
from weightwright.papers.experiments.machinery.trends import fit_curve
from weightwright.papers.experiments.studies.ae_e3 import by_algorithm, draw_bars
from weightwright.papers.experiments.training.ames_housing import (
    ALGORITHMS,
    by_rows,
    fit_algorithms,
    make_sequences,
    read_ames,
)
from weightwright.papers.experiments.training.batched_models import EmbeddedAttention, Group, TokenMap
from weightwright.papers.experiments.training.constructed_networks import describe_certificate, learn, run
from weightwright.papers.experiments.training.training_loop import run_in_pieces, squared_error, train_models
from weightwright.papers.theorems import constructions

PAPER = {
    "frozen": {"lasso": 0.0322, "ridge": 0.0252, "linear": 0.0250},
    "baseline": {"lasso": 0.0354, "ridge": 0.0132, "linear": 0.0288},
}
#: How many times the error of the baseline is as well as the baseline.
AS_WELL = 1.25
#: Models that are trained side by side: who they serve, whether weights are guessed, and what they are trained on.
KINDS = {
    "frozen": ("all", True, "algorithm"),
    "frozen, weights given": ("all", False, "algorithm"),
    "frozen, trained on prices": ("all", True, "price"),
    "baseline lasso": ("lasso", False, "algorithm"),
    "baseline ridge": ("ridge", False, "algorithm"),
    "baseline linear": ("linear", False, "algorithm"),
}


def conditions(chosen: Json) -> list[Condition]:
    estimator = {"one_pass": False}
    return [
        Condition("trained", train, {}, varied_as="ames"),
        Condition("given", compute_given, {}),
        *(Condition(f"learned-{name}", learn_from_rows, estimator | {"name": name}) for name in chosen["learners"]),
        Condition("one-pass", learn_from_rows, {"name": "ridge", "one_pass": True}),
    ]


class HousingAttention(nn.Module):
    """Tokens (x_i, which algorithm as one-hot) -> a number for each; the weights come from one of two places.

    weights (3, d): of the three algorithms, fitted on training rows. guessing (G,): where true, the weights are guessed
    by the auxiliary network (AE-17), 3 -> 64 -> d, which is trained with the rest and sees no data. unit: `slope` is
    that of its units below 0.
    """

    weights: Tensor
    guessing: Tensor

    def __init__(self, group: Group, weights: Tensor, guessing: Tensor, unit: Json) -> None:
        super().__init__()
        d = weights.shape[-1]
        self.first, self.second = TokenMap(group, len(ALGORITHMS), 64), TokenMap(group, 64, d)
        self.model, self.slope = EmbeddedAttention(group, 2 * d, 1, unit), unit["slope"]
        self.register_buffer("weights", weights)
        self.register_buffer("guessing", guessing[:, None, None, None])

    def guess(self, which: Tensor) -> Tensor:
        """The auxiliary network: one-hot algorithms (G, B, n, 3) to weights (G, B, n, d)."""
        return self.second(nn.functional.leaky_relu(self.first(which), self.slope))

    def live(self) -> list[float]:
        """The share of its units that are above 0 for one of the algorithms, or have a slope below 0 too."""
        if self.slope:
            return [1.0] * len(self.guessing)
        which = torch.eye(len(ALGORITHMS), device=self.weights.device).expand(len(self.guessing), 1, -1, -1)
        return (self.first(which) > 0).any(2).double().mean((1, 2)).tolist()

    def forward(self, Z: Tensor) -> Tensor:
        x, which = Z[..., : -len(ALGORITHMS)], Z[..., -len(ALGORITHMS) :]
        return self.model(torch.cat([x, torch.where(self.guessing, self.guess(which), which @ self.weights)], -1))


def train(unit: Json, worker: Worker) -> Json:
    """All kinds and seeds side by side, on one split of the rows. Held-out errors: to the algorithm's prediction, and
    to the log price; and what a model answers where it is asked for another algorithm."""
    seeds, kinds, n = unit["seeds"], list(KINDS.values()), unit["n"]
    group = Group(tuple(10 * seed + k for k in range(len(kinds)) for seed in seeds))
    worker.tell("fitting the algorithms")
    house = read_ames(unit["split"], unit["train_share"])
    W = fit_algorithms(house.X, house.y, unit["lasso"], unit["ridge"])
    drawn = [make_sequences(house.X, house.y, W, served, goal, n, seed) for served, _, goal in kinds for seed in seeds]

    def single(arrays: Any) -> torch.Tensor:
        return torch.tensor(np.stack(arrays), dtype=torch.float32, device=unit["device"])

    X, Y = map(single, zip(*drawn, strict=True))
    guessing = torch.tensor([kind[1] for kind in kinds for _ in seeds])
    model = HousingAttention(group, single(W), guessing, unit)
    curve = train_models(model, group, X, Y, unit, worker).curve
    training = squared_error(run_in_pieces(model, X), Y).tolist()
    held = [by_rows(house.X_test, a, n) for a in range(len(ALGORITHMS))]
    outputs = [run_in_pieces(model, single([one]).expand(group.size, -1, -1, -1)) for one in held]
    y = np.stack([one.flatten(1).double().cpu().numpy().reshape(len(kinds), len(seeds), -1) for one in outputs])
    count = y.shape[-1]  # y: (asked for, kind, seed, rows)
    algorithms = np.stack([(house.X_test @ one)[:count] for one in W])
    price = house.y_test[:count]
    names = list(KINDS)
    to_each = ((y[:, None] - algorithms[None, :, None, None]) ** 2).mean(-1)  # (asked for, answer of, kind, seed)
    to_price = ((y - price) ** 2).mean(-1)
    own = [list(range(3)) if served == "all" else [ALGORITHMS.index(served)] for served, _, _ in kinds]
    goals = [to_price if goal == "price" else to_each[range(3), range(3)] for _, _, goal in kinds]
    held_out = np.concatenate([goals[k][own[k], k].mean(0) for k in range(len(kinds))])
    pairs = [(0, 1), (0, 2), (1, 2)]
    of_frozen = y[:, names.index("frozen")]
    change = [sum(float(((algorithms[a] - algorithms[b]) ** 2).sum()) for a, b in pairs)] * len(seeds)
    moves = [((of_frozen[a] - of_frozen[b]) - (algorithms[a] - algorithms[b])) ** 2 for a, b in pairs]
    checks = check_training(curve, training, held_out.tolist())
    checks |= {"live": model.live()[: len(seeds)], "prompt": follows(change, np.sum(moves, (0, 2)).tolist())}
    return {
        "to_algorithm": {
            name: dict(zip(names, to_each[a, a].tolist(), strict=True)) for a, name in enumerate(ALGORITHMS)
        },
        "to_price": {name: dict(zip(names, to_price[a].tolist(), strict=True)) for a, name in enumerate(ALGORITHMS)},
        "algorithm_to_price": dict(zip(ALGORITHMS, ((algorithms - price) ** 2).mean(-1).tolist(), strict=True)),
        "asked_and_answered": to_each[:, :, names.index("frozen")].tolist(),
        "between_algorithms": ((algorithms[:, None] - algorithms) ** 2).mean(-1).tolist(),
        "variance": float(house.y_test.var()),
        "features": house.about["features"],
        "curve": curve[: len(seeds)],
        "checks": checks,
    }


def compute_given(unit: Json, worker: Worker) -> Json:
    """The paper's task by construction: w stands in the prompt beside x, one frozen network returns w . x (UA-11).

    Its ranges are those of the training rows with a margin of a half; held-out rows beyond are counted and left out.
    """
    house = read_ames(unit["split"], unit["train_share"])
    W = fit_algorithms(house.X, house.y, unit["lasso"], unit["ridge"])
    d, reach = house.X.shape[1], 1.5 * float(np.abs(house.X @ W.T).max())
    ranges = Ranges(1.5 * float(np.abs(house.X).max()), 1e-6, float(np.abs(W).max()), 1.0)
    worker.tell("building")
    net = constructions.in_context_truncated_linear(-reach, reach, 1, d, ranges=ranges, tol=1e-6, method="spectral")
    inside = (np.abs(house.X_test).max(1) <= ranges.x) & (np.abs(house.X_test @ W.T).max(1) <= reach)
    X, price = house.X_test[inside], house.y_test[inside]
    found: Json = describe_certificate(net) | {"left_out": int((~inside).sum()), "rows": len(inside)}
    for a, name in enumerate(ALGORITHMS):
        worker.tell(f"running {name}")
        first = np.zeros((len(X), d))
        first[:, 0] = 1.0
        prompt = np.concatenate([X, first, np.zeros((len(X), 1)), np.tile(W[a], (len(X), 1))], 1)[:, None]
        y = run(net, torch.tensor(prompt))[:, 0, 0].numpy()
        found[name] = {
            "to_algorithm": float(((y - X @ W[a]) ** 2).mean()),
            "largest": float(np.abs(y - X @ W[a]).max()),
            "to_price": float(((y - price) ** 2).mean()),
        }
    return found


def learn_from_rows(unit: Json, worker: Worker) -> Json:
    """Another task: the weights are learned in context from some training rows and their prices.

    By an estimator, or in one forward pass: rows, prices and held-out houses in, their prices out.
    """
    house, rows, name = read_ames(unit["split"], unit["train_share"]), unit["learner_rows"], unit["name"]
    worker.tell(f"learning {name} from {rows} rows")
    try:
        said = learn(unit, name, house.X[:rows], house.y[:rows], house.X_test, house.y_test)
    except WeightwrightError as error:
        return {"refused": str(error)}
    found = {"to_algorithm": said["to_algorithm"], "to_price": said["held_out"]}
    if unit["one_pass"]:
        return found | {"status": said["status"]}
    return found | {"algorithm_to_price": said["algorithm_held_out"], "bound": said["bound"]}


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    trained, given = results["trained"], results["given"]
    learned = {name: results.get(f"learned-{name}", {}) for name in ALGORITHMS}
    errors = {"to_price": "log price", "to_algorithm": "algorithm"}
    cells: Cells = [([f"paper, {model}"], PAPER[model]) for model in ("frozen", "baseline")]
    for kind in ("frozen", "frozen, weights given", "frozen, trained on prices", "baseline"):
        for key, words in errors.items():
            shown = {name: show(of_kind(trained[key], kind, name)) for name in ALGORITHMS}
            cells.append(([f"trained, {kind}, to the {words}"], shown))
    themselves = {name: f"{trained['algorithm_to_price'][name]:.3g}" for name in ALGORITHMS}
    cells.append((["the algorithms themselves, to the log price"], themselves))
    asked = np.mean(trained["asked_and_answered"], -1)  # (asked for, nearness to)
    for a, name in enumerate(ALGORITHMS):
        shown = {other: f"{asked[a, b]:.3g}" for b, other in enumerate(ALGORITHMS)}
        cells.append(([f"trained, frozen, asked for {name}, to each algorithm"], shown))
    for model, numbers in (
        ("constructed, w given", given),
        ("constructed learner", learned),
        ("one-pass learner", {"ridge": results["one-pass"]}),
    ):
        for key, words in errors.items():
            rows = f" ({chosen['learner_rows']} rows)" * (model == "constructed learner" and key == "to_price")
            cells.append(([f"{model}{rows}, to the {words}"], by_algorithm(numbers, key)))
    frozen, plain = (
        {name: mean_of(of_kind(trained["to_price"], kind, name)) for name in ALGORITHMS}
        for kind in ("frozen", "baseline")
    )
    ahead = mean_of(trained["to_algorithm"]["ridge"]["frozen"]) / max(given["ridge"]["to_algorithm"], 1e-300)
    largest = max(given[name]["largest"] for name in ALGORITHMS)
    own = [name for a, name in enumerate(ALGORITHMS) if asked[a].argmin() == a]
    spreads = {
        kind: [spread_of(of_kind(trained["to_price"], kind, name)) or 0.0 for name in ALGORITHMS]
        for kind in ("frozen", "baseline")
    }
    steadier = [k for k, a, b in zip(ALGORITHMS, spreads["frozen"], spreads["baseline"], strict=True) if a < b]
    said: Json = {"frozen": _list(frozen.values()), "baseline": _list(plain.values())}
    verdicts = [
        judge("as-well", all(frozen[name] <= AS_WELL * plain[name] for name in ALGORITHMS), **said),
        judge(
            "numbers",
            all(abs(np.log(frozen[name] / PAPER["frozen"][name])) < 0.3 for name in ALGORITHMS),
            themselves=", ".join(themselves.values()),
            **said,
        ),
        judge("prompted", len(own) == 3, own=", ".join(own) or "none", distances="; ".join(map(_list, asked))),
        judge(
            "steadier",
            len(steadier) == 3,
            bool(steadier),
            frozen=_list(spreads["frozen"]),
            baseline=_list(spreads["baseline"]),
        ),
        judge("exact", True, ours=True, largest=largest, bound=given["bound"], ahead=ahead),
    ]
    curves = {
        "frozen": frozen,
        "baseline": plain,
        "given": by_algorithm(given, "to_price"),
        "learned": by_algorithm(learned, "to_price"),
    }
    trends = [fit_curve("trained frozen model", trained["curve"])]
    return Summary(trends, cells, verdicts, curves, numbers={"features": trained["features"]})


def _list(numbers: Iterable[float]) -> str:
    return ", ".join(f"{number:.3g}" for number in numbers)


def of_kind(errors: Json, kind: str, name: str) -> list[float]:
    """The errors of a trained model on an algorithm's task, by seed; there is a baseline for each algorithm."""
    found: list[float] = errors[name][f"baseline {name}" if kind == "baseline" else kind]
    return found


def read_ratio(kind: str) -> Reader:
    """The error of a trained model to the price over that of its baseline, the largest of the three algorithms."""

    def read_largest(chosen: Json, found: list[Json]) -> float:
        errors = found[0]["to_price"]
        return max(mean_of(of_kind(errors, kind, k)) / mean_of(of_kind(errors, "baseline", k)) for k in ALGORITHMS)

    return read_largest


AE_E4 = Study(
    texts=read_texts("AE-E4"),
    paper=PAPER,
    settings={
        "n": 8,
        "hidden": Sized(32, 128, 520),
        "H": 8,
        "lasso": 0.01,
        "ridge": 10.0,
        "rate": 3e-4,
        "schedule": "late",
        "slope": 0.01,
        "divided": True,
        "output": "none",
        "skip": False,
        "split": 0,
        "batch": 4,
        "epochs": Sized(3, 15, 300),
        "train_share": 0.8,
        "learner_rows": Sized(100, 300, 2344),
        "learners": Sized(["ridge"], list(ALGORITHMS), list(ALGORITHMS)),
        "steps": Sized(200, 1000, 3000),
        "momentum": 0.98,
        "seeds": Sized(1, 3, 5),
    },
    cut=(
        Cut("seeds", {"seeds": 5}),
        Cut(
            "hidden",
            {"hidden": 520, "epochs": 300},
        ),
        Cut("rows", {"learner_rows": 2344}),
    ),
    conditions=conditions,
    compared=read_ratio("frozen"),
    about="as-well",
    supports=lambda ratio: ratio <= AS_WELL,
    variations=(
        Variation("as-before", {"rate": 1e-3, "schedule": "constant", "slope": 0.0}),
        Variation("given", None, read=read_ratio("frozen, weights given")),
        Variation("prices", None, read=read_ratio("frozen, trained on prices")),
        Variation("split", {"split": 1}),
        Variation("slower", {"rate": 1e-4}),
        Variation("faster", {"rate": 1e-3}),
        Variation("clipped", {"clip": 1.0}),
        Variation("output", {"output": "sequence"}),
        Variation("own-width", {"divided": False}),
        Variation("skip", {"skip": True}),
    ),
    columns={"model, and what its MSE is to": None} | {name: read.value(name) for name in ALGORITHMS},
    summarise=summarise,
    picture=lambda record: Picture([[draw_bars(record, "MSE to the held-out log price")]]),
)
