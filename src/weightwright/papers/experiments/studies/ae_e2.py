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
from weightwright.papers.experiments.machinery.read import mean_of
from weightwright.papers.experiments.machinery.study import (
    TRAINING,
    Cells,
    Condition,
    Cut,
    Reader,
    Sized,
    Study,
    Summary,
    Variation,
    judge,
    judge_slope,
    read_texts,
)
from weightwright.papers.experiments.machinery.study_units import Json
from weightwright.papers.experiments.machinery.trends import fit_trend
from weightwright.papers.experiments.training.batched_models import Group, MultiHead, TokenMap
from weightwright.papers.experiments.training.constructed_networks import describe_network, run
from weightwright.papers.experiments.training.training_loop import (
    count_training,
    run_in_pieces,
    squared_error,
    train_and_measure,
)
from weightwright.progress import Tell

#: Number of heads: the paper's MSE.
PAPER_MSE = {1: 3.469, 2: 2.802, 4: 1.222, 6: 1.012, 8: 0.793, 12: 0.686}
#: Samples of 50,000, seen 50 times, in batches of 32: steps of a stage in the paper.
_PAPER_STEPS = 50_000 // 32 * 50


def conditions(chosen: Json) -> list[Condition]:
    """On a GPU all models are trained side by side; cores share the numbers of heads among them."""
    together = [[H] for H in chosen["H"]] if chosen["device"] == "cpu" else [chosen["H"]]
    found = [Condition("built", build, {"seeds": chosen["seeds"][:1], "H": [1]})]
    for heads in together[::-1]:
        varied_as = "" if heads[-1] == chosen["H"][-1] else None
        found.append(Condition(f"trained-{'-'.join(map(str, heads))}", train, {"H": heads}, varied_as))
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

    def __init__(self, group: Group, d: int, hidden: int) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(TokenMap(group, d, hidden) for _ in range(3))
        self.layers = nn.ModuleList(MultiHead(group, hidden, hidden, out) for out in (hidden, hidden, d))

    def forward(self, X: Tensor) -> Tensor:
        return torch.cat([layer(embed(X)) for embed, layer in zip(self.embeddings, self.layers, strict=True)], -1)


class LastHead(nn.Module):
    """Second stage: one softmax head over the parts that the first stage returns, (G, B, n, 2h + d)."""

    def __init__(self, group: Group, d: int, hidden: int) -> None:
        super().__init__()
        wide = 2 * hidden + d
        self.K, self.Q, self.V = (TokenMap(group, wide, out, bias=False) for out in (hidden, hidden, d))

    def forward(self, parts: Tensor) -> Tensor:
        return apply_head(self.K(parts), self.Q(parts), self.V(parts), 1.0)


def train(unit: Json, tell: Tell) -> Json:
    """All seeds and head counts of the unit side by side: held-out errors of K, Q and V, and of the whole.

    Over one first stage two last heads are trained: for scores as the paper writes them, and for divided ones.
    """
    group, n, d, h = Group(tuple(unit["seeds"]), tuple(unit["H"])), unit["n"], unit["d"], unit["hidden"]
    X = torch.stack([draw_head_inputs(seed, unit["samples"], n, d) for seed in unit["seeds"]])
    W = [torch.cat(draw_head(seed, d, h)) for seed in unit["seeds"]]  # (2h + d, d) each
    P = (X @ torch.stack(W).transpose(1, 2)[:, None]).to(unit["device"])  # K, Q and V of every sample
    X, kept = X.to(unit["device"]), count_training(unit)
    first = HeadParts(group, d, h)
    parts = train_and_measure(first, group, X, P, unit, lambda said: tell(f"K, Q, V: {said}"))["mse"]
    returned = run_in_pieces(first, group, X)  # the first stage is frozen from here on

    def emulate(parts: torch.Tensor, scale: float) -> torch.Tensor:
        K, Q, V = parts.split([h, h, d], -1)
        return apply_head(K, Q, V, scale)

    def by_heads(values: list[float], numbers: int = d) -> list[list[float]]:
        return group.by_heads([value / numbers for value in values])

    def finish(scale: float, words: str) -> Json:
        Y = emulate(P, scale)
        found = train_and_measure(
            LastHead(group, d, h), group, returned, Y, unit, lambda said: tell(f"head, {words}: {said}")
        )
        as_in_proof = squared_error(emulate(returned[:, kept:], scale), group.repeat(Y[:, kept:]))
        return {
            "mse": by_heads(found["mse"]),
            "as_in_proof": by_heads(as_in_proof.tolist()),
            "variance": float(Y[:, kept:].var()),
            "last_loss": by_heads([losses[-1] for losses in found["curve"]]),
        }

    heads = {"plain": finish(1.0, "scores as written"), "scaled": finish(h**-0.5, "scores divided")}
    return heads | {"H": unit["H"], "parts": by_heads(parts, 2 * h + d)}


def build(unit: Json, tell: Tell) -> Json:
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
    tell("running")
    errors = run(vm, x, program).numpy() - program.run(x.numpy())
    return describe_network(vm, errors) | {"heads": len(list(vm.net.network.heads))}


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    heads, built = chosen["H"], results["built"]
    trained = (part for name, part in results.items() if name.startswith("trained"))
    parts = sorted(trained, key=lambda part: part["H"])
    of_parts = np.concatenate([part["parts"] for part in parts]).T  # (seeds, H)
    mse, proof = (np.concatenate([part["plain"][key] for part in parts]).T for key in ("mse", "as_in_proof"))
    variance = parts[0]["plain"]["variance"]
    cells: Cells = []
    for i, H in enumerate(heads):
        numbers = {"paper": PAPER_MSE[H], "mse": mse[:, i], "proof": proof[:, i], "parts": of_parts[:, i]}
        cells.append(([f"trained, H = {H}"], numbers))
    cells.append(([f"constructed, {built['heads']} heads"], built))
    trends = [
        fit_trend("trained MSE against H", heads, mse, "O(1/H): about -1 (the table's: -0.69)"),
        fit_trend("MSE against H, last head as in the proof", heads, proof, "O(1/H): about -1"),
        fit_trend("trained: MSE of K, Q, V against H", heads, of_parts, "falls"),
    ]
    one, most = mse.mean(0)[0], mse.mean(0)[-1]
    verdicts = [
        judge_slope("falls", trends[0], -1),
        judge(
            "numbers",
            abs(np.log(most / PAPER_MSE[12])) < 0.5 and abs(np.log(one / PAPER_MSE[1])) < 0.5,
            first=mean_of(mse[:, 0]),
            fewest=heads[0],
            last=mean_of(mse[:, -1]),
            most=heads[-1],
            variance=variance,
            cut="; training was cut" * (chosen["epochs"] < 50),
        ),
        judge("frozen", True, **built),
    ]
    curves = {"trained": mse.tolist(), "paper": [PAPER_MSE[H] for H in heads], "constructed": built["mse"]}
    return Summary(trends, cells, verdicts, curves)


def read_share(kind: str, key: str) -> Reader:
    """The share of the variance that is left with the most heads."""
    return lambda chosen, found: mean_of(found[0][kind][key][-1]) / float(found[0][kind]["variance"])


def picture(record: Json) -> Picture:
    curves = dict(record["curves"])
    below = {"constructed (interpreter)": curves.pop("constructed")}
    shown = {name: curves[name] for name in ("paper", "trained")}
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
    compared=read_share("plain", "mse"),
    variations=(
        Variation("scaled", None, read=read_share("scaled", "mse")),
        Variation(
            "in-proof",
            None,
            read=read_share("plain", "as_in_proof"),
        ),
    ),
    columns={
        "model": None,
        "paper MSE": read.value("paper"),
        "our MSE": read.mean("mse"),
        "std": read.spread("mse"),
        "last head as in the proof": read.mean("proof"),
        "MSE of K, Q, V": read.mean("parts"),
        "bound": read.value("bound"),
    },
    summarise=summarise,
    picture=picture,
)
