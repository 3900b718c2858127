"""The tables and pictures of docs/incontext.md: `make bench` prints them, `make docs` writes them into the page.

(a) 100 steps of five losses in both dtypes, (b) Chebyshev steps on real data, (c) 1,000 examples of 50 features, (d)
errors against anchors and samples, and a lasso.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from compiled import head, load_average, row
from data_sets import data_set
from pages import told

from weightwright.claims.certificate import round_up
from weightwright.errors import WeightwrightError
from weightwright.incontext import Loss, Problem, Run, fitting, loss, method, plain_iterates, to_iterates, to_optimum
from weightwright.incontext.choosing import choose_algorithm
from weightwright.incontext.errors.iterates import exact_iterates
from weightwright.incontext.run import StudyPoint, distances_to_optimum, plot_errors_against
from weightwright.numbers import Floats

IMAGES = Path(__file__).parents[1] / "docs" / "images"
STEPS = 100
DTYPES = {"float64": torch.float64, "float32": torch.float32}
#: Losses of part (a): how, the most anchors, and the errors that are asked for, in float64 and in float32.
CASES: dict[str, tuple[Loss, int, tuple[float, float]]] = {
    "squared": (loss("squared"), 32, (1e-9, 1e-5)),
    "Huber": (loss("huber"), 64, (1e-8, 1e-5)),
    "sqrt(1 + x^2) - 1": (loss(formula="sqrt(1 + x**2) - 1"), 64, (1e-8, 1e-5)),
    "log(1 + x^2)": (loss(formula="log(1 + x**2)"), 64, (1e-8, 1e-5)),
    "logistic": (loss("logistic"), 2, (1e-12, 1e-6)),
}
#: Data of part (b), and how many Chebyshev steps the network has.
CHEBYSHEV = {"diabetes": 160, "concrete": 70, "Hitters": 540}
NEAR, PLAIN_STEPS = 1e-4, 120_000
#: Losses of part (d), by their slopes.
SLOPES = {
    "slope x (squared)": loss("squared"),
    "slope atan(x)": loss(formula="x*atan(x) - log(1 + x**2)/2"),
    "slope x/sqrt(1 + x²) (pseudo-Huber)": loss("pseudo_huber"),
}
TOLS = (1e-1, 1e-3, 1e-5, 1e-7, 1e-10)
COUNTS = (10, 50, 200, 1000)

Lines = Iterator[str]


def examples(n: int, d: int, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """X, of features of different size; real targets, some of them far off; labels 1 and -1, not separable."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.linspace(1.0, 0.4, d)
    w = np.resize([1.5, -1.0, 0.5, 0.25, -0.5], d)
    y = X @ w + 0.3 * rng.standard_normal(n)
    y[::10] += 3.0
    labels = np.where(rng.random(n) < 1 / (1 + np.exp(-(X @ w) / 2)), 1.0, -1.0)
    return X, y, labels


def losses_table(cases: Iterable[str] = CASES, n: int = 50, d: int = 8, images: Path | None = IMAGES) -> Lines:
    """Part (a): gradient descent; what is proven of a step, and how far every state is from the exact one."""
    yield from head(
        *("loss", "dtype", "anchors", "one step: proven", "found", "100 steps: proven", "after 1", "10", "100"),
        *("largest", "asked for", "every step within its bounds"),
    )
    X, y, labels = examples(n, d)
    for name in cases:
        own, most, asked = CASES[name]
        target = labels if own.targets == "signs" else y
        for (dtype, torch_dtype), wanted in zip(DTYPES.items(), asked, strict=True):
            try:
                descent = fitting(X, target, own, steps=STEPS, dtype=torch_dtype)
            except WeightwrightError as error:
                yield row(name, dtype, f"none: {error}", *[""] * 9)
                continue
            run, anchors = descent.run(X, target), descent.slope.anchors
            largest = float(run.errors.max())
            met = f"{wanted:g}: {'met' if largest <= wanted and anchors <= most else 'NOT met'}"
            errors = [round_up(float(run.errors[t])) for t in (1, 10, 100)]
            yield row(name, dtype, anchors, *step_cells(run), *errors, round_up(largest), met, within(run))
            if name == "Huber" and dtype == "float64" and images is not None:
                run.plot(images / "incontext-huber.png")


def step_cells(run: Run) -> list[str]:
    """The proven error of one step, the largest that one step has, and the proven one of all of them."""
    assert run.net.certificate is not None
    why = (run.lemma.failed or "").split(":")[0]
    composed = f"none ({why})" if run.lemma.bounds is None else round_up(run.lemma.bounds[-1])
    return [round_up(run.net.certificate.bound), round_up(float(single_steps(run).max())), composed]


def single_steps(run: Run) -> Floats:
    """(steps,): how far every state is from an exact step of plain descent from the state before."""
    found = []
    for before, after in zip(run.states[:-1, 0], run.states[1:, 0], strict=True):
        exact = exact_iterates(run.problem, run.method, 1, before).w[1:]
        found.append(to_iterates(after[None], exact)[0][0])
    return np.array(found)


def within(run: Run) -> str:
    """Whether no step, and no state, is farther off than what is proven of it."""
    assert run.net.certificate is not None
    good = (single_steps(run) <= run.net.certificate.bound).all() and (run.errors <= run.bounds).all()
    return "yes" if good else "NO"


def real_data(name: str) -> tuple[Floats, Floats]:
    """Features and targets, every column with mean 0 and variance 1."""
    X, y = data_set(name, True)
    return X, (y - y.mean()) / y.std()


def steps_table(steps: dict[str, int] = CHEBYSHEV) -> Lines:
    """Part (b): the first step at which every coefficient is within 1e-4 of itself, and that from which on all are."""
    yield from head(
        *(
            "data",
            "examples",
            "features",
            "L / mu",
            "Chebyshev, in the network",
            "for good",
            "error to exact Chebyshev",
        ),
        *("proven distance to the optimum", "plain Chebyshev", "plain Nesterov", "plain gradient descent"),
    )
    for name, count in steps.items():
        X, y = real_data(name)
        best = np.linalg.lstsq(X, y, rcond=None)[0]
        run = fitting(X, y, steps=count, algorithm="chebyshev").run(X, y)
        first, settled = reached(run.path, best)
        values = np.linalg.eigvalsh(X.T @ X)
        sizes = len(X), X.shape[1], f"{values[-1] / values[0]:,.0f}"
        proven = round_up(float(run.errors.max())), round_up(run.to_optimum.bound)
        yield row(name, *sizes, first, settled, *proven, *plain_steps(X, y, best))


def reached(path: Floats, best: Floats) -> tuple[str, str]:
    """The first step within NEAR of every coefficient, and the first after which that stays so."""
    far = (np.abs(path - best) > NEAR * np.abs(best)).any(axis=1)
    never = f"above {len(path) - 1:,}"
    first = never if far.all() else f"{int(np.argmin(far)):,}"
    return first, never if far[-1] else f"{int(len(far) - np.argmax(far[::-1])):,}"


def plain_steps(X: Floats, y: Floats, best: Floats) -> list[str]:
    """The same of the plain algorithms in numpy, first step only."""
    problem, found = Problem(X, y, loss("squared")), []
    for name, most in (("chebyshev", 2_000), ("nesterov", 10_000), ("gradient descent", PLAIN_STEPS)):
        step, algorithm = choose_algorithm(problem, name, None, None, "float64")
        path = plain_iterates(problem, method(problem, algorithm, step), most)
        found.append(reached(path[:, 1 if algorithm.answer == "p" else 0], best)[0])
    return found


def large_run(n: int = 1000, d: int = 50, steps: int = STEPS) -> dict[str, float]:
    """Seconds to build, to run and to enclose the errors, memory after the run and in all, and the errors."""
    X, y, _ = examples(n, d)
    at = [time.perf_counter()]
    descent = fitting(X, y, steps=steps, dtype=torch.float32)
    at.append(time.perf_counter())
    run = descent.run(X, y)
    at.append(time.perf_counter())
    memory = peak_memory()
    largest = float(run.errors.max())
    at.append(time.perf_counter())
    build, forward, enclose = np.diff(at).tolist()
    return {
        "anchors": descent.slope.anchors,
        "build": build,
        "forward": forward,
        "enclose": enclose,
        "memory": memory,
        "memory_in_all": peak_memory(),
        "error": largest,
        "optimum": run.to_optimum.bound,
    }


def peak_memory() -> float:
    """The most that this process has held, in GB."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1e6  # type: ignore[index]


def large_table(measured: dict[str, float] | None = None) -> Lines:
    """Part (c), in a process of its own, so that its memory and its two threads are its own."""
    if measured is None:
        with multiprocessing.get_context("spawn").Pool(1, torch.set_num_threads, (2,)) as pool:
            measured = pool.apply(large_run)
    yield from head(
        *("anchors", "build and prove", "run 100 steps", "enclose all errors", "peak memory, built and run", "in all"),
        *("error to exact descent", "proven distance to the optimum"),
    )
    seconds = (f"{measured[key]:.1f} s" for key in ("build", "forward", "enclose"))
    memory = (f"{measured[key]:.2f} GB" for key in ("memory", "memory_in_all"))
    yield row(measured["anchors"], *seconds, *memory, *(round_up(measured[key]) for key in ("error", "optimum")))
    yield ""
    yield load_average(os.getloadavg()[2], os.cpu_count())


def anchors_study(
    losses: dict[str, Loss] = SLOPES, tols: Iterable[float] = TOLS, n: int = 20, d: int = 4, steps: int = 50
) -> dict[str, list[StudyPoint]]:
    """Part (d): errors after 50 steps against the keys of every example, for one tolerance after the other."""
    X, y, _ = examples(n, d)
    curves: dict[str, list[StudyPoint]] = {}
    for name, own in losses.items():
        descents = [fitting(X, y, own, steps=steps, tol=tol) for tol in tols]
        curves[name] = fronts([point(descent.slope.anchors, descent.run(X, y)) for descent in descents])
    return curves


def fronts(points: list[StudyPoint]) -> list[StudyPoint]:
    """Those that no other of as many anchors or fewer is better than: tables come in several kinds."""
    kept: list[StudyPoint] = []
    for one in sorted(points, key=lambda one: (one.at, one.error)):
        if not kept or one.error < kept[-1].error:
            kept.append(one)
    return kept


def samples_study(counts: Iterable[int] = COUNTS, d: int = 8, steps: int = STEPS) -> dict[str, list[StudyPoint]]:
    """Part (d): errors after 100 steps against the number of examples."""
    curves: dict[str, list[StudyPoint]] = {}
    for name, dtype in (("squared", "float64"), ("squared", "float32"), ("pseudo_huber", "float32")):
        points = curves[f"{name.replace('_', '-')}, {dtype}"] = []
        for n in counts:
            X, y, _ = examples(n, d)
            points.append(point(n, fitting(X, y, name, steps=steps, dtype=DTYPES[dtype]).run(X, y)))
    return curves


def point(at: int, run: Run) -> StudyPoint:
    return StudyPoint(at, float(run.errors.max()), float("inf") if run.lemma.bounds is None else run.lemma.bounds[-1])


def study_table(size: str, curves: dict[str, list[StudyPoint]]) -> Lines:
    yield from head("", *(f"{size}: error (proven bound)" for _ in range(max(map(len, curves.values())))))
    for name, points in curves.items():
        yield row(name, *(f"{p.at:g}: {round_up(p.error)} ({in_words(p.bound)})" for p in points))


def in_words(bound: float) -> str:
    return round_up(bound) if np.isfinite(bound) else "no bound"


def lasso(n: int = 100, d: int = 20) -> Run:
    """FISTA with restart on examples that depend on every fourth feature only."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d)) + 0.7 * rng.standard_normal((n, 1))
    y = X[:, ::4] @ np.linspace(2, 0.5, len(range(0, d, 4))) + 0.5 * rng.standard_normal(n)
    return fitting(X, y, l1=0.1, steps=STEPS, algorithm="fista").run(X, y)


def lasso_table(run: Run, at: Iterable[int] = (0, 1, 2, 5, 10, 20, 40, 60, 80, 100)) -> Lines:
    yield from head("steps", "coefficients not 0", "gap, proven", "distance to the optimum, proven", "measured")
    measured = distances_to_optimum(run)
    for t in at:
        found = to_optimum(run.problem, run.path[t])
        seen = "" if measured is None or np.isnan(measured[t]) else f"{measured[t]:.2g}"
        kept = int((np.abs(run.path[t]) > 1e-9).sum())
        yield row(t, kept, round_up(found.gap), round_up(found.bound), seen)


def studies(images: Path = IMAGES) -> Lines:
    """Part (d), with its pictures."""
    curves = anchors_study()
    title = "50 steps of gradient descent, 20 examples of 4 features, float64"
    bound = "proven for all steps"
    plot_errors_against("anchors of every example", curves, title, images / "incontext-anchors.png", bound)
    yield "![error against anchors](images/incontext-anchors.png)\n"
    yield from study_table("anchors", curves)
    curves = samples_study()
    title = "100 steps of gradient descent, examples of 8 features"
    plot_errors_against("examples n", curves, title, images / "incontext-samples.png", bound)
    yield "\n![error against examples](images/incontext-samples.png)\n"
    yield from study_table("n", curves)
    run = lasso()
    run.plot(images / "incontext-lasso.png")
    yield "\n![a lasso by FISTA](images/incontext-lasso.png)\n"
    yield from lasso_table(run)


PARTS: dict[str, Callable[[], Lines]] = {"a": losses_table, "b": steps_table, "c": large_table, "d": studies}


def main(arguments: list[str] | None = None, parts: dict[str, Callable[[], Any]] = PARTS) -> None:
    told(parts, "benchmarks/incontext.py", __doc__.splitlines()[0], arguments)


if __name__ == "__main__":
    main()
