"""AE-E5: hand-set weights that emulate an attention head, against interpolation points P (Table 4, Fig. 5).

n = 12 tokens, X uniform in [-1, 1], W_K, W_Q, W_V (12, d) standard normal, 4 samples; Y = V softmax(K^T Q). The module
is built by `ww.Interpreter` and run; nothing is trained.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from weightwright.errors import DomainError, ToleranceError
from weightwright.interpreter import Interpreter
from weightwright.numbers import Floats
from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.panels import Curves, Picture
from weightwright.papers.experiments.machinery.read import show_power
from weightwright.papers.experiments.machinery.study import (
    Cells,
    Condition,
    Effect,
    Sized,
    Study,
    Summary,
    judge,
    read_texts,
)
from weightwright.papers.experiments.machinery.study_units import Json, Worker
from weightwright.papers.experiments.machinery.trends import fit_trend

PAPER: dict[str, list[Any]] = {
    "P": [20, 30, 40, 60, 80],
    "MSE": [4.002e-1, 2.442e-2, 5.852e-4, 5.770e-9, 5.037e-14],
    "std": [2.393e-1, 1.451e-2, 8.538e-5, 1.994e-9, 1.620e-14],
}
#: How far the anchors reach. The theorem says d B^2, and the paper does not print its B: this range is *fitted* to its
#: Table 4, where d = 4, and is B = 2.24 there.
FITTED_RANGE = 20.07
KINDS = ("faithful-fitted", "faithful-stated", "spectral", "spectral-float32")

Sample = tuple[Floats, list[Floats]]


def conditions(chosen: Json) -> list[Condition]:
    return [Condition(f"d{d}-{kind}", build, {"d": d, "kind": kind}) for d in chosen["d"] for kind in KINDS]


def build(unit: Json, worker: Worker) -> Json:
    """Errors (seeds, P) of one kind of module: built for the samples of a seed, run on them."""
    errors, bounds, ranges = [], [], []
    for seed in unit["seeds"]:
        samples = draw_samples(seed, unit["n"], unit["d"], unit["samples"])
        found = [_at(unit, P, samples, worker) for P in unit["P"]]
        errors.append([one[0] for one in found])
        bounds.append([one[1] for one in found])
        ranges.append(largest_entry(samples))
    return {"mse": errors, "bound": bounds, "B": max(ranges)}


def _at(unit: Json, P: int, samples: list[Sample], worker: Worker) -> tuple[list[float] | None, float | None]:
    """The mean squared error of every sample and the proven bound; None where no module can be certified."""
    worker.tell(f"d = {unit['d']}, P = {P}")
    d, kind = unit["d"], unit["kind"]
    how: Json = {"dtype": "float32" if kind.endswith("float32") else "float64"}
    if kind.startswith("faithful"):
        grid = FITTED_RANGE if kind == "faithful-fitted" else d * largest_entry(samples) ** 2
        how = {"method": "faithful", "grid": grid}
    try:
        vm = build_module(d, samples, anchors=P + 1, **how)
        return [squared_error_of(vm, *sample) for sample in samples], float(vm.certificate.bound)
    except (ToleranceError, DomainError):
        return None, None


def draw_samples(seed: int, n: int, d: int, count: int) -> list[Sample]:
    """X and the three weight matrices of every sample."""
    rng = np.random.default_rng(seed)
    return [(rng.uniform(-1, 1, (n, d)), [rng.standard_normal((n, d)) for _ in range(3)]) for _ in range(count)]


def largest_entry(samples: list[Sample]) -> float:
    """The theorem's B: the largest entry of X and of the weights, over all samples."""
    return max(float(np.abs(part).max()) for x, weights in samples for part in (x, *weights))


def build_module(d: int, samples: list[Sample], **options: Any) -> Any:
    """A frozen module whose bounds hold all samples; it knows their ranges and nothing else of them."""
    n = len(samples[0][0])
    products = [float(np.abs(x @ W.T).max()) for x, weights in samples for W in weights]
    w = max(float(np.abs(W).max()) for _, weights in samples for W in weights)
    reach = 1.001 * max(products)
    return Interpreter(n, max(d, n), n, x_max=1.0, w_max=w, k_max=reach, q_max=reach, v_max=reach, **options)


def squared_error_of(vm: Any, x: Floats, weights: list[Floats]) -> float:
    """Of the interpreted head against the plain one; both are filled up with zeros: values have n entries."""
    n, wide = len(x), vm.features - x.shape[1]
    X, K, Q, V = (np.pad(part, ((0, 0), (0, wide))) for part in (x, *weights))
    program = vm.program(Q, K, V)
    y = vm(torch.tensor(X, dtype=vm.net.dtype), program).double().numpy()
    return float(((y - program.run(X))[:, :n] ** 2).mean())


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    P = chosen["P"]
    trends: list[Json] = []
    cells: Cells = []
    curves: Json = {}
    for d in chosen["d"]:
        means = {kind: mean_over_samples(results[f"d{d}-{kind}"]) for kind in KINDS}
        curves[str(d)] = {kind: values.mean(0).tolist() for kind, values in means.items()}
        bounds = np.array(results[f"d{d}-spectral"]["bound"], dtype=float)
        for i, points in enumerate(P):
            numbers = {kind: values.mean(0)[i] for kind, values in means.items()}
            cells.append(([d, points], numbers | {"paper": PAPER["MSE"][i], "bound": np.fmax.reduce(bounds[:, i])}))
        for kind in ("faithful-fitted", "faithful-stated"):
            if np.isfinite(means[kind]).all():
                logarithms = np.log(means[kind])
                trends.append(fit_trend(f"d = {d}, {kind}: ln MSE against P", P, logarithms, "falls", "linear"))
    first = curves[str(chosen["d"][0])]
    fitted, spectral = np.array(first["faithful-fitted"]), first["spectral"][0]
    close = bool(np.isfinite(fitted).all() and (np.abs(np.log10(fitted / np.array(PAPER["MSE"]))) < 1).all())
    shown = "; ".join(f"d = {d}: {', '.join(map(show_power, curves[str(d)]['faithful-fitted']))}" for d in chosen["d"])
    verdicts = [
        judge(
            "falls", close, in_part=True, range=FITTED_RANGE, errors=shown,
            close=" (d = 4 within a factor of ten at every P)" * close,
        ),
        judge("soft", spectral < PAPER["MSE"][-1], ours=True, spectral=show_power(spectral)),
    ]  # fmt: skip
    place = {"P": P[-1], "d": chosen["d"][0]}
    varied = [Effect("range", fitted[-1], first["faithful-stated"][-1], True, True, place)]
    varied += [Effect("d", fitted[-1], curves[str(d)]["faithful-fitted"][-1], False, True) for d in chosen["d"][1:]]
    shown_effects = tuple(one for one in varied if np.isfinite(one.varied))
    return Summary(trends, cells, verdicts, curves, shown_effects, {"range": FITTED_RANGE})


def mean_over_samples(result: Json) -> Floats:
    """(seeds, P); nan where there was no module."""
    return np.array([[np.nan if one is None else np.mean(one) for one in row] for row in result["mse"]])


def draw_module(d: int, record: Json) -> Curves:
    curves = {name: one for name, one in record["curves"][str(d)].items() if None not in one}
    label, P = "P, interpolation points", record["settings"]["P"]
    return Curves(label, P, {"paper": record["paper"]["MSE"]} | curves, title=f"d = {d}", scales=("linear", "log"))


AE_E5 = Study(
    texts=read_texts("AE-E5"),
    paper=PAPER,
    settings={
        "n": 12,
        "d": Sized([4], [4, 24], [4, 24]),
        "samples": 4,
        "P": PAPER["P"],
        "beta": 2.0,
        "seeds": Sized(1, 5, 5),
    },
    cut=(Sized("d", None, None),),
    conditions=conditions,
    about="falls",
    columns={
        "d": None,
        "P": None,
        "paper": read.power("paper"),
        "faithful, range fitted": read.power("faithful-fitted"),
        "faithful, range as stated": read.power("faithful-stated"),
        "spectral": read.power("spectral"),
        "spectral float32": read.power("spectral-float32"),
        "bound of spectral": read.power("bound"),
    },
    summarise=summarise,
    picture=lambda record: Picture([[draw_module(d, record) for d in record["settings"]["d"]]], share_y=True),
)
