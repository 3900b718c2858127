"""UA-E1: the error of one trained attention layer against p, |b - a| and H (Figure 2), beside the constructed ones.

The theory bounds the *largest* error by (b - a)/p and (b - a)/((n - 2) H); the paper plots the MSE. Both are reported.
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
    seeds = list(range(options.seeds or (2 if options.quick else 10)))
    cut = [f"{len(seeds)} seeds in the place of 10"] if len(seeds) != 10 else []
    epochs = options.epochs_or(10 if options.quick else 50)
    cut += ["n = 20 in the place of 50"] * options.quick
    cut += [f"{epochs} epochs in the place of 50"] * (epochs < 50)
    return {
        "d": 10,
        "n": 20 if options.quick else 50,
        "hidden": 32,
        "rate": 1e-3,
        "epochs": epochs,
        "batch": 32,
        "samples": 1000,
        "train_share": 0.8,
        "p": [24, 48, 96] if options.quick else [60, 90, 135, 200],
        "widths": [0.5, 1.0, 2.0, 4.0],
        "H": [1, 4, 16] if options.quick else [1, 2, 8, 32],
        "p_otherwise": 24 if options.quick else 60,
        "width_otherwise": 2.0,
        "seeds_of_variation": seeds[:3],
        "seeds": seeds,
        "cut": cut,
    }


def plan(chosen: Json) -> list[Unit]:
    base = {
        key: chosen[key] for key in ("d", "n", "hidden", "rate", "epochs", "batch", "samples", "train_share", "seeds")
    }
    base |= {"p": chosen["p_otherwise"], "width": chosen["width_otherwise"], "H": [1], "per_position": True}
    p0, width0 = chosen["p_otherwise"], chosen["width_otherwise"]
    cases = {_case(p, width0): {"p": p} for p in chosen["p"]} | {
        _case(p0, width): {"width": width} for width in chosen["widths"]
    }
    many = chosen["H"][1:]
    varied = {"per_position": False, "seeds": chosen["seeds_of_variation"]}
    return [
        *(Unit(f"trained-{name}", train_models, base | given) for name, given in cases.items()),
        *(Unit(f"built-{name}", build_networks, base | given) for name, given in cases.items()),
        *(Unit(f"built-heads{H}", build_networks, base | {"H": [H]}) for H in many),
        *(Unit(f"varied-shared-p{p}", train_models, base | varied | {"p": p}) for p in _ends(chosen)),
        Unit("trained-heads", train_models, base | {"H": many}),
    ]


def _case(p: int, width: float) -> str:
    return f"p{p}-width{width:g}"


def _ends(chosen: Json) -> list[int]:
    return [min(chosen["p"]), max(chosen["p"])]


def train_models(unit: Json, tell: Tell) -> Json:
    """Models of all seeds and head counts side by side; errors on the held-out fifth."""
    from weightwright.papers.experiments.training.batched_models import Group
    from weightwright.papers.experiments.training.training_loop import measure, train
    from weightwright.papers.experiments.training.truncated_models import TruncatedLinearAttention, draw_problem

    group = Group(tuple(unit["seeds"]), tuple(unit["H"]))
    n, d, half = unit["n"], unit["d"], unit["width"] / 2
    X, Y = (part.to(unit["device"]) for part in draw_problem(unit["seeds"], unit["samples"], n, d, -half, half))
    kept = round(unit["train_share"] * unit["samples"])
    model = TruncatedLinearAttention(group, n, unit["p"], d, unit["hidden"], unit["per_position"]).to(unit["device"])
    how = {"epochs": unit["epochs"], "batch": unit["batch"], "rate": unit["rate"]}
    curve = train(model, group, X[:, :kept], Y[:, :kept], **how, tell=tell)
    mse, largest = measure(model, group, X[:, kept:], Y[:, kept:])
    S = len(unit["seeds"])
    return {
        "H": unit["H"],
        "mse": _by_heads(mse, S),
        "largest": _by_heads(largest, S),
        "last_loss": [c[-1] for c in curve],
    }


def _by_heads(values: list[float], S: int) -> list[list[float]]:
    """(H, seeds)."""
    return [values[k : k + S] for k in range(0, len(values), S)]


def build_networks(unit: Json, tell: Tell) -> Json:
    """The faithful and the spectral network of the first seed's models, on the same held-out samples."""
    from weightwright.papers.experiments.training.truncated_models import draw_inputs, draw_models, truncated_values

    n, d, half, seed, p = unit["n"], unit["d"], unit["width"] / 2, unit["seeds"][0], unit["p"]
    w, t = draw_models(seed, n, d)
    kept = round(unit["train_share"] * unit["samples"])
    X = draw_inputs(seed, unit["samples"], n, d)[kept:].double()
    Y = truncated_values(X, w.double(), t.double(), -half, half).numpy()
    found: Json = {"p": p}
    for method in ("faithful", "spectral"):
        tell(method)
        found[method] = _measure(method, unit, w.double().numpy(), t.double().numpy(), half, X, Y)
    return found


def _measure(method: str, unit: Json, w: Floats, t: Floats, half: float, X: Any, Y: Floats) -> Json:
    import torch

    from weightwright.papers.theorems import constructions

    n, p, H = unit["n"], unit["p"], unit["H"][0]
    if (
        method == "faithful" and H > 1
    ):  # Theorem 3.9 is about one w for all tokens; (n - 2) H anchors in one head are UA-2
        p = max((n - 2) * H, n + 1)
    if method == "faithful" and p <= n:
        return {"refused": f"Theorem 3.4 asks for p > n, and p = {p}, n = {n}"}
    net = constructions.truncated_linear(w, t, -half, half, (-5.0, 5.0), p=p, method=method)  # type: ignore[arg-type]
    with torch.no_grad():
        errors = net(X)[..., 0].numpy() - Y
    return {
        "mse": float((errors**2).mean()),
        "largest": float(np.abs(errors).max()),
        **describe_certificate(net),
        "anchors": p,
    }


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    trends: list[Json] = []
    rows: list[list[Any]] = []
    curves: Json = {}
    p0, width0 = chosen["p_otherwise"], chosen["width_otherwise"]
    sweeps = (
        ("p", chosen["p"], [_case(p, width0) for p in chosen["p"]], "O(1/p): about -1"),
        ("|b-a|", chosen["widths"], [_case(p0, width) for width in chosen["widths"]], "linear: about +1"),
    )
    for name, values, keys, predicted in sweeps:
        mse = np.array([results[f"trained-{key}"]["mse"][0] for key in keys]).T  # (seeds, values)
        largest = np.array([results[f"trained-{key}"]["largest"][0] for key in keys]).T
        trends += [
            fit_trend(f"trained MSE against {name}", values, mse, predicted),
            fit_trend(f"trained largest error against {name}", values, largest, predicted),
        ]
        built = [results[f"built-{key}"] for key in keys]
        _add_rows(rows, name, values, mse, largest, built)
        curves[name] = {"x": values, "trained": mse.tolist(), "built": built}
    one, heads = results[f"trained-{_case(p0, width0)}"], results["trained-heads"]
    mse, largest = (np.array([*one[key], *heads[key]]).T for key in ("mse", "largest"))
    trends.append(fit_trend("trained MSE against H", chosen["H"], mse, "O(1/H): about -1"))
    built = [results[f"built-{_case(p0, width0)}"], *(results[f"built-heads{H}"] for H in chosen["H"][1:])]
    _add_rows(rows, "H", chosen["H"], mse, largest, built)
    curves["H"] = {"x": chosen["H"], "trained": mse.tolist(), "built": built}
    trends += _built_trends(chosen, curves)
    ends = _ends(chosen)
    shared = np.array([results[f"varied-shared-p{p}"]["mse"][0] for p in ends]).T
    taken = np.array([results[f"trained-{_case(p, width0)}"]["mse"][0] for p in ends]).T
    trends.append(fit_trend("trained MSE against p, A shared by all tokens", ends, shared, "varied"))
    varied = [
        compare_variation(
            "whether A has a map for every token or shares one",
            f"trained MSE at p = {ends[-1]}:",
            taken[:, 1].mean(),
            shared[:, 1].mean(),
        ),
        compare_variation(
            "the interval |b - a|",
            f"trained MSE at |b - a| = {chosen['widths'][0]}, and {chosen['widths'][-1]}:",
            float(np.mean(curves["|b-a|"]["trained"], 0)[0]),
            float(np.mean(curves["|b-a|"]["trained"], 0)[-1]),
        ),
    ]
    return Summary(trends, _COLUMNS, _MEANINGS, rows, _verdicts(trends), varied, curves)


_COLUMNS = [
    "sweep",
    "value",
    "trained MSE",
    "std",
    "trained largest",
    "faithful MSE",
    "faithful bound",
    "spectral MSE",
    "spectral bound",
]
_MEANINGS = {
    "trained MSE": "squared error of a token, mean over the 200 held-out samples, tokens and seeds",
    "trained largest": "largest error of one number, mean over seeds",
    "faithful": "Theorem 3.4's network for the first seed's models, built with the same p; at H heads with "
    "(n-2)H anchors, "
    "as many as Theorem 3.9 has, since that theorem is about one w for all tokens",
    "spectral": "our soft anchors, the same p",
    "bound": "proven, of the largest error over the whole domain",
}


def _add_rows(
    rows: list[list[Any]], name: str, values: list[float], mse: Floats, largest: Floats, built: list[Json]
) -> None:
    for i, value in enumerate(values):
        faithful, spectral = built[i]["faithful"], built[i]["spectral"]
        spread = float(mse[:, i].std(ddof=1)) if len(mse) > 1 else 0.0
        rows.append(
            [
                name,
                value,
                float(mse[:, i].mean()),
                spread,
                float(largest[:, i].mean()),
                faithful.get("mse"),
                faithful.get("bound"),
                spectral["mse"],
                spectral["bound"],
            ]
        )


def _built_trends(chosen: Json, curves: Json) -> list[Json]:
    found = []
    for name, key, words in (
        ("p", "largest", "-1"),
        ("p", "mse", "-2"),
        ("|b-a|", "largest", "+1"),
        ("H", "largest", "-1"),
    ):
        pairs = [
            (x, one["faithful"][key])
            for x, one in zip(curves[name]["x"], curves[name]["built"], strict=True)
            if key in one["faithful"]
        ]
        x, y = zip(*pairs, strict=True)
        error = {"largest": "largest error", "mse": "MSE"}[key]
        found.append(fit_trend(f"faithful {error} against {name}", x, np.array([y]), f"{words} (theory)"))
    return found


def _verdicts(trends: list[Json]) -> list[Json]:
    by_name = {trend["name"]: trend for trend in trends}
    found = []
    for name, wanted, target in (("p", "falls", -1.0), ("|b-a|", "grows", 1.0), ("H", "falls", -1.0)):
        trend = by_name[f"trained MSE against {name}"]
        right_sign = trend["sign"] == wanted
        near = trend["lo"] <= target <= trend["hi"]
        found.append(
            {
                "claim": f"the MSE of the trained layer {wanted} with {name} at the slope {target:+g}",
                "reproduced": "yes" if right_sign and near else "in part" if right_sign else "no",
                "because": f"it {trend['sign']}, slope {trend['slope']:.2f} [{trend['lo']:.2f}, {trend['hi']:.2f}]"
                if trend["sign"] != "undecided"
                else f"the slope is {trend['slope']:.2f} [{trend['lo']:.2f}, {trend['hi']:.2f}]: no sign can be told",
            }
        )
    return found


def draw(record: Json, figure: Any) -> None:
    for axes, (name, curve) in zip(figure.subplots(1, 3), record["curves"].items(), strict=True):
        draw_errors(axes, curve["x"], {"trained": curve["trained"]}, name)
        pairs = [
            (x, one["faithful"]["mse"])
            for x, one in zip(curve["x"], curve["built"], strict=True)
            if "mse" in one["faithful"]
        ]
        axes.plot(*zip(*pairs, strict=True), marker="D", markersize=4, color="tab:green", label="faithful")
        mention_below(axes, "spectral", max(one["spectral"]["mse"] for one in curve["built"]))
        axes.legend(fontsize=7)
    name_dependence(figure, record)


UA_E1 = Study(
    id="UA-E1",
    title="one attention layer learns truncated linear models",
    source="UA, Figure 2",
    claim="the MSE of a trained layer falls as 1/p and as 1/H, and grows linearly with |b - a|",
    paper={"slopes": {"p": -1, "|b-a|": 1, "H": -1}, "numbers": "none are printed"},
    choices=(
        Choice(
            "values of p, |b - a|, H",
            "see settings",
            "the figure's axes are not in the text",
            "not varied: they are swept",
        ),
        Choice(
            "A",
            "a map of its own for every token, p - n empty tokens that are biases",
            "Theorem 3.4 has w_i . x_i in A(X)",
            "one map for all tokens",
        ),
        Choice("[a, b]", "[-|b-a|/2, |b-a|/2]", "not stated for Figure 2", "swept"),
        Choice("p and |b - a| where they are not swept", "60 and 2 (quick: 24)", "not stated", "swept"),
        Choice("scores", "not divided by the root of the head's size", "as the paper writes them", "not varied"),
    ),
    settings=settings,
    plan=plan,
    summarise=summarise,
    draw=draw,
)
