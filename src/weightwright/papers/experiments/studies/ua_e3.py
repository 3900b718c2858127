"""UA-E3: two trained attention layers on a sequence-to-sequence task, against p and H (Figure 4), and constructed ones.

The target is a ReLU network of m = 10 hidden units on all d n numbers at once. The constructed networks emulate it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weightwright.numbers import Floats
from weightwright.papers.experiments.machinery.panels import draw_errors, mention_below, name_dependence
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


def settings(options: Options) -> Json:
    samples = options.choose(2000, 12_000, 50_000)
    seeds = list(range(options.seeds or options.choose(2, 3, 10)))
    cut = [f"{len(seeds)} seeds in the place of 10"] * (len(seeds) != 10)
    cut += [f"{samples} samples in the place of 50000"] * (samples != 50_000)
    epochs = options.epochs_or(3)
    cut += [f"{epochs} epochs in the place of 3"] * (epochs < 3)
    cut += ["H = 2, 8 and 16 left out"] * (not options.quick and not options.full)
    return {
        "d": 5,
        "m": 10,
        "rate": 1e-3,
        "epochs": epochs,
        "batch": 32,
        "samples": samples,
        "train_share": 0.8,
        "p": options.choose([12, 24, 48], [12, 24, 48, 96], [12, 24, 48, 96]),
        "p_sweep": {"n": 10, "hidden": 16, "H": [2]},
        "H": options.choose([1, 4, 16], [1, 4, 32], [1, 2, 4, 8, 16, 32]),
        "H_sweep": {"n": 20, "hidden": 32, "p": 24},
        "seeds": seeds,
        "cut": cut,
    }


def plan(chosen: Json) -> list[Unit]:
    base = {key: chosen[key] for key in ("d", "m", "rate", "epochs", "batch", "samples", "train_share", "seeds")}
    base |= {"per_position": True, "normal": False}
    sweep = base | chosen["p_sweep"]
    ends = _ends(chosen)
    return [
        Unit("built", build_networks, base | {"n": 10, "seeds": chosen["seeds"][:1]}),
        *(Unit(f"trained-p{p}", train_layers, sweep | {"p": p}) for p in chosen["p"]),
        Unit("trained-heads", train_layers, base | chosen["H_sweep"] | {"H": chosen["H"]}),
        *(Unit(f"varied-shared-p{p}", train_layers, sweep | {"p": p, "per_position": False}) for p in ends),
        *(Unit(f"varied-normal-p{p}", train_layers, sweep | {"p": p, "normal": True}) for p in ends),
    ]


def _ends(chosen: Json) -> list[int]:
    return [min(chosen["p"]), max(chosen["p"])]


def train_layers(unit: Json, tell: Tell) -> Json:
    """All seeds and head counts side by side. `share` is the MSE over the variance of the held-out targets."""
    import torch

    from weightwright.papers.experiments.training.batched_models import Group
    from weightwright.papers.experiments.training.sequence_models import (
        TwoLayers,
        apply_to_sequences,
        draw_relu_network,
        draw_sequences,
    )
    from weightwright.papers.experiments.training.training_loop import measure, train

    group, n, d, seeds = Group(tuple(unit["seeds"]), tuple(unit["H"])), unit["n"], unit["d"], unit["seeds"]
    X = torch.stack([draw_sequences(seed, unit["samples"], n, d) for seed in seeds])
    targets = [draw_relu_network(seed, n * d, unit["m"], unit["normal"]) for seed in seeds]
    Y = torch.stack([apply_to_sequences(target, X[s]) for s, target in enumerate(targets)])
    X, Y = X.to(unit["device"]), Y.to(unit["device"])
    kept = round(unit["train_share"] * unit["samples"])
    model = TwoLayers(group, n, unit["p"], d, unit["hidden"], unit["per_position"]).to(unit["device"])
    train(
        model, group, X[:, :kept], Y[:, :kept], epochs=unit["epochs"], batch=unit["batch"], rate=unit["rate"], tell=tell
    )
    mse, largest = measure(model, group, X[:, kept:], Y[:, kept:])
    variance = Y[:, kept:].var(1).sum(-1).mean(-1).repeat(len(unit["H"])).tolist()  # of a token, as the MSE
    S = len(seeds)

    def by_heads(values: list[float]) -> list[list[float]]:
        return [values[k : k + S] for k in range(0, len(values), S)]

    share = [error / total for error, total in zip(mse, variance, strict=True)]
    return {"mse": by_heads(mse), "largest": by_heads(largest), "share": by_heads(share)}


def build_networks(unit: Json, tell: Tell) -> Json:
    """UA-8's network (ours and the paper's anchors) and UA-10's, at d n = 50, on held-out sequences."""
    import torch

    from weightwright.papers.experiments.training.sequence_models import draw_relu_network, draw_sequences
    from weightwright.papers.theorems import constructions

    n, d, seed = unit["n"], unit["d"], unit["seeds"][0]
    target = draw_relu_network(seed, n * d, unit["m"], unit["normal"])
    kept = round(unit["train_share"] * unit["samples"])
    X = draw_sequences(seed, unit["samples"], n, d)[kept:][:500].double()
    wanted = target(X.flatten(-2)).view(X.shape)
    found: Json = {}
    for name, build in (
        ("spectral", lambda: constructions.relu_network(target, n, (0.0, 1.0), tol=1e-6)),
        ("faithful", lambda: constructions.relu_network(target, n, (0.0, 1.0), tol=1.0, method="faithful")),
        ("native", lambda: constructions.native_relu(target, n, (0.0, 1.0), tol=1e-6)),
    ):
        tell(name)
        net = build()
        with torch.no_grad():
            errors = (net(X) - wanted).numpy()
        found[name] = {
            "mse": float((errors**2).sum(-1).mean()),
            "largest": float(np.abs(errors).max()),
            **describe_certificate(net),
            "heads": len(list(net.network.heads)),
            "chosen": net.about.chosen,
        }
    return found


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    rows: list[list[Any]] = []
    mse = np.array([results[f"trained-p{p}"]["mse"][0] for p in chosen["p"]]).T
    heads = np.array(results["trained-heads"]["mse"]).T
    for name, values, errors, shares in (
        ("p", chosen["p"], mse, [results[f"trained-p{p}"]["share"][0] for p in chosen["p"]]),
        ("H", chosen["H"], heads, results["trained-heads"]["share"]),
    ):
        for i, value in enumerate(values):
            spread = float(errors[:, i].std(ddof=1)) if len(errors) > 1 else 0.0
            rows.append(
                [
                    f"trained, {name} = {value}",
                    float(errors[:, i].mean()),
                    spread,
                    float(np.mean(shares[i])),
                    None,
                    None,
                ]
            )
    built = results["built"]
    rows += [
        [f"constructed, {name}, {one['heads']} heads", one["mse"], None, None, one["largest"], one["bound"]]
        for name, one in built.items()
    ]
    ends = _ends(chosen)
    shared, normal = (
        np.array([results[f"varied-{kind}-p{p}"]["mse"][0] for p in ends]).T for kind in ("shared", "normal")
    )
    trends = [
        fit_trend("trained MSE against p", chosen["p"], mse, "O(1/p): about -1"),
        fit_trend("trained MSE against H", chosen["H"], heads, "O(1/H): about -1"),
        fit_trend("trained MSE against p, A_1 and A_2 shared by all tokens", ends, shared, "varied"),
        fit_trend("trained MSE against p, targets with normal weights", ends, normal, "varied"),
    ]
    slope = _slope(mse[:, [0, -1]], ends)
    varied = [
        compare_variation(
            "whether A_1 and A_2 have a map for every token",
            "slope against p between its ends:",
            slope,
            _slope(shared, ends),
            slopes=True,
        ),
        compare_variation(
            "weights of the target (uniform +-1/sqrt(inputs), or standard normal)",
            "slope against p between its ends:",
            slope,
            _slope(normal, ends),
            slopes=True,
        ),
    ]
    return Summary(
        trends,
        _COLUMNS,
        _MEANINGS,
        rows,
        [_verdict(trends[0], "p"), _verdict(trends[1], "H")],
        varied,
        {"p": mse.tolist(), "H": heads.tolist(), "built": {name: one["mse"] for name, one in built.items()}},
    )


_COLUMNS = ["model", "MSE", "std", "share left", "largest error", "bound"]
_MEANINGS = {
    "MSE": "squared error of a token (summed over its 5 numbers), held-out, mean over seeds",
    "share left": "MSE over the variance of the held-out targets: 1 is what the best constant gives",
    "constructed": "at d n = 50, for the first seed's target: UA-8 with our soft anchors (spectral) and with the "
    "paper's (faithful, "
    "asked for an error of 1), UA-10 that an ordinary Transformer can load (native)",
    "bound": "proven, of the largest error of one number",
}


def _slope(ends: Floats, x: list[int]) -> float:
    return float(np.log(ends[:, 1] / ends[:, 0]).mean() / np.log(x[1] / x[0]))


def _verdict(trend: Json, name: str) -> Json:
    near = trend["lo"] <= -1 <= trend["hi"] and trend["sign"] == "falls"
    return {
        "claim": f"the MSE of two trained layers falls as 1/{name}",
        "reproduced": "yes" if near else "in part" if trend["sign"] == "falls" else "no",
        "because": f"the slope is {trend['slope']:.2f} [{trend['lo']:.2f}, {trend['hi']:.2f}]: {trend['sign']}",
    }


def draw(record: Json, figure: Any) -> None:
    curves, chosen = record["curves"], record["settings"]
    for axes, name in zip(figure.subplots(1, 2), ("p", "H"), strict=True):
        draw_errors(axes, chosen[name], {"trained": curves[name]}, name)
        axes.axhline(curves["built"]["faithful"], color="tab:green", label="faithful")
        for key in ("spectral", "native"):
            mention_below(axes, key, curves["built"][key])
        axes.legend(fontsize=7)
    name_dependence(figure, record)


UA_E3 = Study(
    id="UA-E3",
    title="two attention layers learn a sequence-to-sequence map",
    source="UA, Figure 4",
    claim="the MSE of two trained layers falls as 1/p and as 1/H",
    paper={"slopes": {"p": -1, "H": -1}, "numbers": "none are printed"},
    choices=(
        Choice(
            "values of p",
            "12, 24, 48, 96 (quick: without 96)",
            "the figure's axis is not in the text",
            "they are swept",
        ),
        Choice("p of the sweep of H", "24", "not stated; n is 20", "not varied"),
        Choice(
            "weights of the ReLU network",
            "uniform in +-1/sqrt(inputs), as torch starts layers",
            "not stated",
            "standard normal",
        ),
        Choice(
            "A_1 and A_2",
            "a map of its own for every token, p - n empty tokens",
            "the theorem's are maps of the whole sequence",
            "one map for all tokens",
        ),
    ),
    settings=settings,
    plan=plan,
    summarise=summarise,
    draw=draw,
)
