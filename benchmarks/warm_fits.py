"""Warm fits of the seven estimators beside scikit-learn's, and 256 data sets in one call: seconds and ratios.

python warm_fits.py                          all sizes, all estimators
python warm_fits.py --before SRC             the same of another checkout's src folder too, alternately
python warm_fits.py --estimators Ridge --sizes 1000x30 --no-proof --device cuda

Warm is the second fit of a size and later ones: the network is there. Seconds are those of the processor, of one
thread, the least of several fits, so that other work on the machine counts little; on a GPU those of a clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

SIZES = ((100, 5), (500, 10), (1000, 30), (3000, 10))
#: Name, settings, and what the targets are.
MODELS: dict[str, tuple[dict[str, float], str]] = {
    "LinearRegression": ({}, "line"),
    "Ridge": ({"alpha": 1.0}, "line"),
    "Lasso": ({"alpha": 0.05}, "line"),
    "ElasticNet": ({"alpha": 0.05, "l1_ratio": 0.5}, "line"),
    "LogisticRegression": ({}, "classes"),
    "PoissonRegressor": ({"alpha": 0.1}, "counts"),
    "HuberRegressor": ({}, "outliers"),
}
#: Data sets in one call of `fit_many`, and their size.
MANY, MANY_SIZE, MANY_MODELS = 256, (100, 10), ("LinearRegression", "Ridge", "Lasso")
#: Fits of which the fastest counts.
REPEATS = 3


def make_data(n: int, d: int, kind: str, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d) / np.sqrt(d)
    s = X @ w
    if kind == "classes":
        return X, (s + rng.logistic(size=n) > 0).astype(int)
    if kind == "counts":
        return X, rng.poisson(np.exp(0.5 * s)).astype(float)
    y = s + 0.3 * rng.normal(size=n)
    if kind == "outliers":
        y[::10] += 5 * rng.normal(size=len(y[::10]))
    return X, y


def least_seconds(fit: Callable[[], object], clock: Callable[[], float]) -> float:
    times = []
    for _ in range(REPEATS):
        start = clock()
        fit()
        times.append(clock() - start)
    return min(times)


def measure(name: str, size: str, options: dict[str, Any]) -> tuple[float, float]:
    """Seconds of a warm fit of ours, and of scikit-learn's; size "many" for 256 data sets."""
    from sklearn import linear_model

    from weightwright import incontext

    settings, kind = MODELS[name]
    ours, theirs = getattr(incontext, name)(**settings, **options), getattr(linear_model, name)(**settings)
    clock = time.perf_counter if "device" in options else time.process_time
    if size == "many":
        Xs, ys = zip(*(make_data(*MANY_SIZE, kind, seed) for seed in range(MANY)), strict=True)
        ours.fit_many(Xs, ys)
        loop = least_seconds(lambda: [theirs.fit(X, y) for X, y in zip(Xs, ys, strict=True)], clock)
        return least_seconds(lambda: ours.fit_many(Xs, ys), clock), loop
    X, y = make_data(*map(int, size.split("x")), kind)
    ours.fit(X, y)
    return least_seconds(lambda: ours.fit(X, y), clock), least_seconds(lambda: theirs.fit(X, y), clock)


def measure_elsewhere(source: str, name: str, size: str, options: dict[str, Any]) -> tuple[float, float]:
    """The same in a process of its own, with the package from that folder."""
    threads = {f"{which}_NUM_THREADS": "1" for which in ("OMP", "OPENBLAS", "MKL")}
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    env = {**os.environ, **threads, "PYTHONPATH": path}
    command = [sys.executable, __file__, "--one", json.dumps([name, size, options])]
    told = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    ours, theirs = json.loads(told.stdout.splitlines()[-1])
    return ours, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="the src folder of another checkout, to be measured beside this one")
    parser.add_argument("--estimators", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--sizes", nargs="+", default=[*(f"{n}x{d}" for n, d in SIZES), "many"])
    parser.add_argument("--no-proof", action="store_true", help="without the enclosure of the optimum")
    parser.add_argument("--device", help="where the networks run: cuda")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.one:
        print(json.dumps(measure(*json.loads(given.one))))
        return
    options = ({"proof": False} if given.no_proof else {}) | ({"device": given.device} if given.device else {})
    here = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")
    head = "| estimator | data | ours, s | scikit-learn, s | ratio |"
    print(head + (" before, s | ratio | times faster |" if given.before else ""))
    print("|---|---|---|---|---|" + ("---|---|---|" if given.before else ""))
    for size in given.sizes:
        for name in given.estimators:
            if size == "many" and name not in MANY_MODELS:
                continue
            ours, theirs = measure_elsewhere(here, name, size, options)
            row = f"| {name} | {size} | {ours:.4f} | {theirs:.4f} | {ours / theirs:.0f} |"
            if given.before:
                then, _ = measure_elsewhere(given.before, name, size, {})
                row += f" {then:.4f} | {then / theirs:.0f} | {then / ours:.1f} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
