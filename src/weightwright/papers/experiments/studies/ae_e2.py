"""AE-E2: trained modules of 1 to 12 heads emulate an attention head (Figure 2, Table 1), beside the frozen interpreter.

First multi-head layers learn K, Q and V of the tokens, then one head learns softmax(K^T Q) of what they return.
"""

from __future__ import annotations

import numpy as np
import torch

from weightwright.interpreter import Interpreter
from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.panels import Curves, Picture
from weightwright.papers.experiments.machinery.study import (
    TRAINING,
    Cells,
    Choice,
    ComparedNumber,
    Condition,
    Cut,
    Reader,
    Sized,
    Study,
    Summary,
    Variation,
)
from weightwright.papers.experiments.machinery.study_units import Json
from weightwright.papers.experiments.machinery.trends import fit_trend
from weightwright.papers.experiments.machinery.verdicts import mean_of, say, say_slope
from weightwright.papers.experiments.training.batched_models import Group
from weightwright.papers.experiments.training.constructed_networks import describe_network, run
from weightwright.papers.experiments.training.emulating_models import (
    HeadParts,
    LastHead,
    apply_head,
    draw_head,
    draw_head_inputs,
)
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
        say_slope("the MSE falls with the number of heads as 1/H", trends[0], -1),
        say(
            "MSE 3.469 with 1 head to 0.686 with 12",
            abs(np.log(most / PAPER_MSE[12])) < 0.5 and abs(np.log(one / PAPER_MSE[1])) < 0.5,
            f"{mean_of(mse[:, 0]):.3g} with {heads[0]} and {mean_of(mse[:, -1]):.3g} with {heads[-1]}, "
            f"of a variance of {variance:.0f}" + "; training was cut" * (chosen["epochs"] < 50),
        ),
        say(
            "(ours) one frozen module does it for every head within its bounds",
            True,
            f"largest error {built['largest']:.1e}, proven bound {built['bound']:.1e} ({built['status']})",
        ),
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
    id="AE-E2",
    title="attention emulates an attention head",
    source="AE, Figure 2 and Table 1",
    claim="the MSE falls as 1/H, from 3.469 with one head to 0.686 with 12",
    paper={"H": list(PAPER_MSE), "MSE": list(PAPER_MSE.values())},
    choices=(
        Choice(
            "W_K, W_Q, W_V",
            "drawn once for a seed",
            "drawn anew for every sample they would have to stand in the input, and no trained model of this "
            "size multiplies them",
            "not varied: 2,880 numbers more for each token",
        ),
        Choice("scores of the target", "not divided by sqrt(h)", "as the paper writes softmax(K^T Q)", "divided"),
        Choice(
            "the last head", "trained", "the caption says so", "set as in the proof: it takes K, Q and V as they are"
        ),
        Choice(
            "stages",
            "K, Q, V first; then the head, the first stage frozen",
            "'first ... then' in the text",
            "not varied",
        ),
        Choice("split", "80/20", "not stated", "not varied"),
    ),
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
        Cut("{seeds} seeds in the place of 10", {"seeds": 10}),
        Cut(
            "{samples} samples and {epochs} epochs in the place of 50000 and 50: {steps} steps of each stage, "
            "1/{share} of the paper's",
            {"samples": 50_000, "epochs": 50},
            _PAPER_STEPS,
        ),
    ),
    conditions=conditions,
    compared=ComparedNumber("share of the variance left with 12 heads:", read_share("plain", "mse")),
    variations=(
        Variation("scaled", "whether scores are divided by sqrt(h)", None, read=read_share("scaled", "mse")),
        Variation(
            "in-proof",
            "whether the last head is trained, or set as in the proof",
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
    meanings={
        "our MSE": "of a single number of the output, held-out, mean over seeds",
        "last head as in the proof": "MSE where the last head is set, not trained: it takes the first stage's K, Q, V",
        "MSE of K, Q, V": "of what the first stage returns, a single number",
        "constructed": "`ww.Interpreter`, the head's weights in the prompt; 120 heads compute K, Q and V, one is the "
        "head",
        "bound": "proven, of the largest error of any head and input within the module's bounds",
    },
    summarise=summarise,
    picture=picture,
)
