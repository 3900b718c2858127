"""UA-E2: attention heat maps of a layer that is guided by interpolation points, for |b - a| = 0.5, 1.5, 3 (Figure 3).

p = n = 30, though Theorem 3.4 asks for p > n: p = n + 1 is run as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weightwright.papers.experiments.machinery.panels import name_dependence
from weightwright.papers.experiments.machinery.study import (
    Choice,
    Options,
    Study,
    Summary,
    compare_variation,
    describe_certificate,
)
from weightwright.papers.experiments.machinery.study_units import Json, Unit
from weightwright.papers.experiments.machinery.trends import fit_trend
from weightwright.progress import Tell

#: Held-out samples whose heat maps are kept.
SHOWN = 3


def settings(options: Options) -> Json:
    seeds = list(range(1234, 1234 + (options.seeds or (1 if options.quick else 5))))
    epochs = options.epochs_or(15 if options.quick else 100)
    return {
        "d": 10,
        "n": 30,
        "p": 30,
        "hidden": 10,
        "beta": 30.0,
        "rate": 1e-3,
        "batch": 32,
        "epochs": epochs,
        "samples": 1000,
        "train_share": 0.8,
        "widths": [0.5, 1.5, 3.0],
        "seeds": seeds,
        "cut": [f"{epochs} epochs in the place of 100"] if epochs < 100 else [],
    }


def plan(chosen: Json) -> list[Unit]:
    base = {key: chosen[key] for key in chosen if key not in ("widths", "cut", "study", "device")} | {
        "wide": False,
        "keys_see_data": False,
    }
    units = []
    for width in chosen["widths"]:
        units += [
            Unit(f"trained-width{width:g}", train_guided, base | {"width": width}),
            Unit(f"trained-p31-width{width:g}", train_guided, base | {"width": width, "p": chosen["n"] + 1}),
            Unit(f"built-width{width:g}", build_pair, base | {"width": width}),
        ]
    first = base | {"width": chosen["widths"][0]}
    return [
        *units,
        Unit("varied-wide", train_guided, first | {"wide": True}),
        Unit("varied-keys", train_guided, first | {"keys_see_data": True}),
    ]


def train_guided(unit: Json, tell: Tell) -> Json:
    """Guided models of all seeds; where they look on held-out samples."""
    import torch

    from weightwright.papers.experiments.training.batched_models import Group
    from weightwright.papers.experiments.training.training_loop import measure, train
    from weightwright.papers.experiments.training.truncated_models import GuidedAttention, draw_problem

    group, (n, p, d) = Group(tuple(unit["seeds"])), (unit["n"], unit["p"], unit["d"])
    half = unit["width"] if unit["wide"] else unit["width"] / 2
    X, Y = draw_problem(unit["seeds"], unit["samples"], n, d, -half, half)
    points = -half + torch.arange(p) * (2 * half / p)  # Definition 3.3: no point at b
    rows = torch.stack(
        [torch.randint(d, (p,), generator=torch.Generator().manual_seed(seed)) for seed in unit["seeds"]]
    )
    Y = place_in_rows(Y[..., 0], points, rows, d)
    X, Y = X.to(unit["device"]), Y.to(unit["device"])
    kept = round(unit["train_share"] * unit["samples"])
    model = GuidedAttention(group, n, points, rows, d, unit["hidden"], unit["beta"], unit["keys_see_data"]).to(
        unit["device"]
    )
    train(
        model, group, X[:, :kept], Y[:, :kept], epochs=unit["epochs"], batch=unit["batch"], rate=unit["rate"], tell=tell
    )
    mse, _ = measure(model, group, X[:, kept:], Y[:, kept:])
    with torch.no_grad():
        weights = model.attention(X[:, kept:])
    return {"mse": mse} | look_at(weights.cpu().numpy())


def place_in_rows(y: Any, points: Any, rows: Any, d: int) -> Any:
    """Values (S, N, n) -> (S, N, n, d): y in the row G(k) of the interpolation point k nearest to it."""
    import torch

    nearest = (y[..., None] - points).abs().argmin(-1)  # (S, N, n)
    chosen = torch.stack([rows[s][nearest[s]] for s in range(len(rows))])
    return torch.nn.functional.one_hot(chosen, d).to(y) * y[..., None]


def look_at(weights: Any) -> Json:
    """What heat maps show, from attention (S, N, n, p): a number for each seed, and the first seed's first maps.

    ends: the weight on the first and the last point; top: the largest weight of a query, 1 for one-hot columns;
    keys: how many points are some query's first choice, out of p.
    """
    ends = (weights[..., 0] + weights[..., -1]).mean((1, 2))
    top = weights.max(-1).mean((1, 2))
    keys = [len(np.unique(one.argmax(-1))) for one in weights]
    maps = np.round(weights[0, :SHOWN].transpose(0, 2, 1), 3)  # keys are rows, as in the paper
    return {"ends": ends.tolist(), "top": top.tolist(), "keys": keys, "maps": maps.astype(float).tolist()}


def build_pair(unit: Json, tell: Tell) -> Json:
    """Theorem 3.4's network with p = n + 1 (p = n is refused), and ours with p = n registers, on held-out samples."""
    import torch

    from weightwright.network.interpreter import attention_weights
    from weightwright.papers.experiments.training.truncated_models import draw_inputs, draw_models, truncated_values
    from weightwright.papers.theorems import constructions

    n, d, seed, half = unit["n"], unit["d"], unit["seeds"][0], unit["width"] / 2
    w, t = (part.double() for part in draw_models(seed, n, d))
    kept = round(unit["train_share"] * unit["samples"])
    X = draw_inputs(seed, unit["samples"], n, d)[kept:].double()
    Y = truncated_values(X, w, t, -half, half)
    found: Json = {"share_at_the_ends": float((Y.abs() == half).double().mean())}
    for name, p, method in (
        ("faithful, p = n", n, "faithful"),
        ("faithful, p = n + 1", n + 1, "faithful"),
        ("spectral, p = n", n, "spectral"),
        ("spectral, p = n + 1", n + 1, "spectral"),
    ):
        tell(name)
        try:
            net = constructions.truncated_linear(w.numpy(), t.numpy(), -half, half, (-5.0, 5.0), p=p, method=method)  # type: ignore[arg-type]
        except ValueError as error:
            found[name] = {"refused": str(error)}
            continue
        with torch.no_grad():
            errors = (net(X)[..., 0] - Y).numpy()
        found[name] = {
            "mse": float((errors**2).mean()),
            **describe_certificate(net),
        }
        if method == "faithful":
            weights = attention_weights(net.network, X[:50].numpy())[:, :n]
            found[name] |= look_at(weights[None])
    return found


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    widths = chosen["widths"]
    rows, ends, keys, tops = [], [], [], []
    for width in widths:
        trained, more, built = (results[f"{kind}-width{width:g}"] for kind in ("trained", "trained-p31", "built"))
        faithful = built["faithful, p = n + 1"]
        ends.append(trained["ends"])
        keys.append(trained["keys"])
        tops.append(trained["top"])
        rows.append(
            [
                width,
                built["share_at_the_ends"],
                *(float(np.mean(trained[key])) for key in ("ends", "top", "keys", "mse")),
                float(np.mean(more["mse"])),
                faithful["ends"][0],
                faithful["top"][0],
                faithful["mse"],
                built["spectral, p = n"]["mse"],
            ]
        )
    trends = [
        fit_trend("trained: weight on the two end points against |b-a|", widths, np.array(ends).T, "falls", "linear"),
        fit_trend("trained: interpolation points in use against |b-a|", widths, np.array(keys).T, "grows", "linear"),
    ]
    wide, seeing = results["varied-wide"], results["varied-keys"]
    varied = [
        compare_variation(
            "the interval for |b - a| = 0.5: [-0.25, 0.25], or the text's [-0.5, 0.5]",
            "weight on the end points:",
            float(np.mean(ends[0])),
            float(np.mean(wide["ends"])),
        ),
        compare_variation(
            "the trained rows of the keys: numbers, or W_K A(X), with |b - a| = 0.5",
            "weight on the end points:",
            float(np.mean(ends[0])),
            float(np.mean(seeing["ends"])),
        ),
        compare_variation("p = n, or the theorem's p > n", "trained MSE at |b - a| = 3:", rows[-1][5], rows[-1][6]),
    ]
    one_hot = float(np.mean(tops))
    concentrates = float(np.mean(ends[0]))
    verdicts = [
        {
            "claim": "with |b - a| = 0.5 the attention concentrates on the two end points",
            "reproduced": "yes" if concentrates > 0.5 else "no",
            "because": f"they have {concentrates:.2f} of the weight; {rows[0][1]:.2f} of the targets are there; "
            f"in the constructed network {rows[0][7]:.2f}",
        },
        {
            "claim": "with a larger |b - a| it spreads over more points",
            "reproduced": "yes"
            if trends[0]["sign"] == "falls"
            else "no"
            if trends[0]["sign"] == "grows"
            else "in part",
            "because": f"the weight on the ends goes {', '.join(f'{np.mean(e):.3f}' for e in ends)}; points in "
            f"use {', '.join(f'{np.mean(k):.1f}' for k in keys)}",
        },
        {
            "claim": "columns of the softmax are close to one-hot",
            "reproduced": "yes" if one_hot > 0.9 else "in part" if one_hot > 0.5 else "no",
            "because": f"the largest weight of a query is {one_hot:.2f} on average",
        },
    ]
    curves = {
        "trained": [results[f"trained-width{width:g}"]["maps"] for width in widths],
        "built": [results[f"built-width{width:g}"]["faithful, p = n + 1"]["maps"][0] for width in widths],
    }
    return Summary(trends, _COLUMNS, _MEANINGS, rows, verdicts, varied, curves)


_COLUMNS = [
    "|b-a|",
    "targets at the ends",
    "trained: weight on ends",
    "trained: top weight",
    "trained: points in use",
    "trained MSE",
    "trained MSE, p = n + 1",
    "faithful: weight on ends",
    "faithful: top weight",
    "faithful MSE",
    "spectral MSE",
]
_MEANINGS = {
    "targets at the ends": "share of held-out targets that are a or b",
    "weight on ends": "attention on the first and the last interpolation point, mean over queries",
    "top weight": "largest attention weight of a query, mean; 1 is one-hot",
    "points in use": "of 30 interpolation points, those that are some query's first choice",
    "faithful": "Theorem 3.4's network with p = n + 1 = 31; p = n is refused, since the theorem asks for p > n",
    "spectral": "our soft anchors with p = n = 30 registers; they are not one-hot and are not meant to be",
}


def draw(record: Json, figure: Any) -> None:
    figure.set_size_inches(10, 7.5)
    widths, curves = record["settings"]["widths"], record["curves"]
    for row, (width, axes) in enumerate(zip(widths, figure.subplots(len(widths), SHOWN + 1), strict=True)):
        maps = [*curves["trained"][row], curves["built"][row]]
        for column, (panel, weights) in enumerate(zip(axes, maps, strict=True)):
            panel.imshow(np.array(weights), vmin=0, vmax=1, cmap="viridis", aspect="auto", interpolation="nearest")
            panel.grid(False)
            panel.set_title(
                f"|b-a| = {width:g}, " + (f"trained, sample {column + 1}" if column < SHOWN else "constructed"),
                fontsize=8,
            )
            panel.tick_params(labelsize=6)
        axes[0].set_ylabel("key (interpolation point)", fontsize=7)
    name_dependence(figure, record)


UA_E2 = Study(
    id="UA-E2",
    title="attention selects interpolation points",
    source="UA, Figure 3",
    claim="the attention of a guided layer is close to one-hot, on the end points for |b - a| = 0.5, on more "
    "points for 1.5 and 3",
    paper={"widths": [0.5, 1.5, 3.0], "numbers": "none are printed"},
    choices=(
        Choice("[a, b]", "[-|b-a|/2, |b-a|/2]", "the text has [-0.5, 0.5] for |b-a| = 0.5", "[-|b-a|, |b-a|] for 0.5"),
        Choice("samples", "1000, split 80/20", "as for Figure 2", "not varied"),
        Choice(
            "what is trained",
            "A, W_Q and all rows of the keys but the last, which are numbers",
            "the text fixes K's last row and V; in the proof keys hold nothing of X",
            "those rows are W_K A(X)",
        ),
        Choice("seeds", "1234 as in the paper, and the next four", "the paper has one", "they are the variation"),
    ),
    settings=settings,
    plan=plan,
    summarise=summarise,
    draw=draw,
)
