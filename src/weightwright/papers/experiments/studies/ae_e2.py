"""AE-E2: trained modules of 1 to 12 heads emulate an attention head (Figure 2, Table 1), beside the frozen interpreter.

First multi-head layers learn K, Q and V of the tokens, then one head learns softmax(K^T Q) of what they return.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from weightwright.interpreter import Interpreter
from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.panels import Curves, Picture
from weightwright.papers.experiments.machinery.read import mean_of, stack
from weightwright.papers.experiments.machinery.study import (
    TRAINING,
    Condition,
    Cut,
    Sized,
    Study,
    Summary,
    Variation,
    judge,
    judge_slope,
    read_texts,
)
from weightwright.papers.experiments.machinery.study_units import Json, Worker
from weightwright.papers.experiments.machinery.trends import fit_trend
from weightwright.papers.experiments.training.batched_models import AttentionLayer, Group, TokenMap
from weightwright.papers.experiments.training.constructed_networks import describe_network, run
from weightwright.papers.experiments.training.training_loop import (
    count_training,
    run_in_pieces,
    squared_error,
    train_and_measure,
)

#: Number of heads: the paper's MSE.
PAPER_MSE = {1: 3.469, 2: 2.802, 4: 1.222, 6: 1.012, 8: 0.793, 12: 0.686}
#: Samples of 50,000, seen 50 times, in batches of 32: steps of a stage in the paper.
_PAPER_STEPS = 50_000 // 32 * 50


def conditions(chosen: Json) -> list[Condition]:
    """Every head has the whole width; W_O acts on the sequence; the last head is the proof's."""
    usual = {"output": "sequence", "divided": False, "last": "proof", "scale": 1.0, "own_head": False}
    usual |= {"schedule": "constant"}
    readings = [("trained", {}), ("no-output", {"output": "none"})]
    most = chosen["H"][-1]
    found = [Condition("built", build, usual | {"seeds": chosen["seeds"][:1], "H": 1})]
    for reading, taken in readings:
        for H in chosen["H"]:
            varied_as = f"heads{H}" if reading == "trained" and H in (chosen["H"][0], most) else None
            found.append(Condition(f"{reading}-heads{H}", train, usual | taken | {"H": H}, varied_as))
    return found


def draw_head(seed: int, d: int, h: int) -> tuple[Tensor, Tensor, Tensor]:
    """W_K (h, d), W_Q (h, d), W_V (d, d), standard normal."""
    generator = torch.Generator().manual_seed(seed + 31)
    return tuple(torch.randn(rows, d, generator=generator) for rows in (h, h, d))  # type: ignore[return-value]


def draw_head_inputs(seed: int, samples: int, n: int, d: int) -> Tensor:
    """(samples, n, d), 2 N(0, 1) - 1."""
    return 2 * torch.randn(samples, n, d, generator=torch.Generator().manual_seed(seed)) - 1


def apply_head(K: Tensor, Q: Tensor, V: Tensor, scale: float) -> Tensor:
    """softmax(scale Q K^T) V with tokens as rows: (..., n, h), (..., n, h), (..., n, d) -> (..., n, d)."""
    return torch.softmax(scale * Q @ K.transpose(-1, -2), -1) @ V


class HeadParts(nn.Module):
    """First stage: a multi-head layer with a linear map before it for each of K, Q and V; all three at once.

    (G, B, n, d) -> (G, B, n, 2h + d).
    """

    def __init__(self, group: Group, d: int, unit: Json) -> None:
        super().__init__()
        n, hidden, H = unit["n"], unit["hidden"], unit["H"]
        width = hidden // H if unit["divided"] else hidden
        self.embeddings = nn.ModuleList(TokenMap(group, d, hidden) for _ in range(3))
        self.layers = nn.ModuleList(
            AttentionLayer(group, n, n, hidden, width, out, H, unit["output"]) for out in (hidden, hidden, d)
        )

    def forward(self, X: Tensor) -> Tensor:
        return torch.cat([layer(embed(X)) for embed, layer in zip(self.embeddings, self.layers, strict=True)], -1)


class LastHead(nn.Module):
    """Second stage: one softmax head over the parts that the first stage returns, (G, B, n, 2h + d).

    as_proof: whether it starts as the proof's head, which takes each part as it is; else at random.
    """

    def __init__(self, group: Group, d: int, hidden: int, scale: float, as_proof: bool) -> None:
        super().__init__()
        wide, at, self.scale = 2 * hidden + d, 0, scale
        self.K, self.Q, self.V = (TokenMap(group, wide, out, bias=False) for out in (hidden, hidden, d))
        for one, out in ((self.K, hidden), (self.Q, hidden), (self.V, d)):
            if as_proof:
                one.W.data.zero_()
                one.W.data[:, at : at + out] = torch.eye(out)
            at += out

    def forward(self, parts: Tensor) -> Tensor:
        return apply_head(self.K(parts), self.Q(parts), self.V(parts), self.scale)


def train(unit: Json, worker: Worker) -> Json:
    """All seeds side by side: held-out errors of K, Q and V, and of the whole.

    own_head: whether each sample has a head of its own, which no model sees.
    last: "proof": the last head takes K, Q and V as the first stage returns them; "random", "from proof": it is trained
    over the frozen first stage, from a random start or from there.
    """
    group, n, d, h = Group(tuple(unit["seeds"])), unit["n"], unit["d"], unit["hidden"]
    X = torch.stack([draw_head_inputs(seed, unit["samples"], n, d) for seed in unit["seeds"]])
    if unit["own_head"]:
        P = torch.stack([products_of_own_heads(seed, one, h) for seed, one in zip(unit["seeds"], X, strict=True)])
    else:
        W = [torch.cat(draw_head(seed, d, h)) for seed in unit["seeds"]]  # (2h + d, d) each
        P = X @ torch.stack(W).transpose(1, 2)[:, None]  # K, Q and V of every sample
    X, P, kept = X.to(unit["device"]), P.to(unit["device"]), count_training(unit)
    first = HeadParts(group, d, unit)
    parts = train_and_measure(first, group, X, P, unit, worker, stage="parts")
    returned = run_in_pieces(first, X)  # the first stage is frozen from here on

    def emulate(parts: torch.Tensor) -> torch.Tensor:
        K, Q, V = parts.split([h, h, d], -1)
        return apply_head(K, Q, V, unit["scale"])

    Y = emulate(P)
    found: Json = {"checks": parts["checks"], "parts": [one / (2 * h + d) for one in parts["mse"]]}
    if unit["last"] == "proof":
        mse = squared_error(emulate(returned[:, kept:]), Y[:, kept:]).tolist()
    else:
        head = LastHead(group, d, h, unit["scale"], unit["last"] == "from proof")
        last = train_and_measure(head, group, returned, Y, unit, worker, stage="last")
        mse, found["checks"] = last["mse"], last["checks"]
    return found | {"mse": [one / d for one in mse], "variance": float(Y[:, kept:].var())}


def products_of_own_heads(seed: int, X: Tensor, h: int) -> Tensor:
    """K, Q and V of every sample (N, n, d), each with a head of its own: (N, n, 2h + d)."""
    generator = torch.Generator().manual_seed(seed + 53)
    W = torch.randn(len(X), 2 * h + X.shape[2], X.shape[2], generator=generator)
    return X @ W.transpose(1, 2)


def build(unit: Json, worker: Worker) -> Json:
    """The interpreter, whose bounds are the training samples' with a margin of a half, on twenty held-out samples."""
    n, d, h, seed = unit["n"], unit["d"], unit["hidden"], unit["seeds"][0]
    kept = count_training(unit)
    X = draw_head_inputs(seed, unit["samples"], n, d).double()
    W_K, W_Q, W_V = (W.double().numpy() for W in draw_head(seed, d, h))
    largest = max(float(np.abs(W).max()) for W in (W_K, W_Q, W_V))
    reach = 1.5 * max(float(np.abs(X[:kept].numpy() @ W.T).max()) for W in (W_K, W_Q, W_V))
    vm = Interpreter(
        n, d, h, x_max=1.5 * float(X[:kept].abs().max()), w_max=largest, k_max=reach, q_max=reach, v_max=reach
    )
    program = vm.program(W_Q, W_K, W_V)
    x = X[kept : kept + 20]
    worker.tell("running")
    errors = run(vm, x, program).numpy() - program.run(x.numpy())
    return describe_network(vm, errors) | {"heads": len(list(vm.net.network.heads))}


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    heads, built = chosen["H"], results["built"]
    mse, cells, trends = {}, [], []
    for reading, words in _WORDS.items():
        found = [results[f"{reading}-heads{H}"] for H in heads]
        mse[reading] = stack([one["mse"] for one in found])
        trends.append(
            fit_trend(f"MSE against H, {words}", heads, mse[reading], "O(1/H): about -1 (the table's: -0.69)")
        )
        cells += [
            ([f"trained, {words}, H = {H}"], one | {"paper": PAPER_MSE[H]}) for H, one in zip(heads, found, strict=True)
        ]
    cells.append(([f"constructed, {built['heads']} heads"], built))
    shown = "; ".join(
        f"{words}: {one.mean(0)[0]:.3g} to {one.mean(0)[-1]:.3g}"
        for words, one in zip(_WORDS.values(), mse.values(), strict=True)
    )
    first, last = mse["trained"].mean(0)[[0, -1]]
    variance = results[f"trained-heads{heads[-1]}"]["variance"]
    near = abs(np.log(last / PAPER_MSE[heads[-1]])) < 0.5 and abs(np.log(first / PAPER_MSE[heads[0]])) < 0.5
    verdicts = [
        judge_slope(
            "falls",
            trends[0],
            -1,
            all=", ".join(f"{one['slope']:.2f} ({words})" for one, words in zip(trends, _WORDS.values(), strict=True)),
        ),
        judge("numbers", bool(near), bool(last < 0.1 * variance), all=shown, variance=variance),
        judge("frozen", True, ours=True, **built),
    ]
    curves = {"paper": [PAPER_MSE[H] for H in heads], "constructed": built["mse"]}
    return Summary(trends, cells, verdicts, curves | {reading: one.tolist() for reading, one in mse.items()})


#: What the readings are called.
_WORDS = {"trained": "Definition 2.1", "no-output": "without W_O"}


def picture(record: Json) -> Picture:
    curves = record["curves"]
    shown = {"paper": curves["paper"]} | {f"trained, {words}": curves[reading] for reading, words in _WORDS.items()}
    below = {"constructed (interpreter)": curves["constructed"]}
    return Picture([[Curves("H, heads", record["settings"]["H"], shown, below=below)]])


AE_E2 = Study(
    texts=read_texts("AE-E2"),
    paper={"H": list(PAPER_MSE), "MSE": list(PAPER_MSE.values())},
    settings=TRAINING
    | {
        "n": 20,
        "d": 24,
        "hidden": 48,
        "H": Sized([1, 4, 12], list(PAPER_MSE), list(PAPER_MSE)),
        "epochs": Sized(4, 12, 50),
        "samples": Sized(500, 50_000, 50_000),
        "seeds": Sized(1, 3, 10),
    },
    cut=(
        Cut("seeds", {"seeds": 10}),
        Cut(
            "steps",
            {"samples": 50_000, "epochs": 50},
            _PAPER_STEPS,
        ),
    ),
    conditions=conditions,
    compared=lambda chosen, found: mean_of(found[-1]["mse"]) / float(found[-1]["variance"]),
    about="numbers",
    supports=lambda share: share < 0.1,
    variations=(
        Variation("no-output", {"output": "none"}),
        Variation("divided", {"divided": True}),
        Variation("random", {"last": "random"}),
        Variation("from-proof", {"last": "from proof"}),
        Variation("scaled", {"scale": 48**-0.5}),
        Variation("own-head", {"own_head": True}),
        Variation("late", {"schedule": "late"}),
        Variation("slower", {"rate": 3e-4}),
    ),
    columns={
        "model": None,
        "paper MSE": read.value("paper"),
        "our MSE": read.mean_and_spread("mse"),
        "MSE of K, Q, V": read.mean("parts"),
        "bound": read.value("bound"),
    },
    summarise=summarise,
    picture=picture,
)
