"""The tables of docs/one_pass.md: python benchmarks/one_pass.py prints them, --write docs/one_pass.md writes them.

(a) 50 examples of 8 features, 20 queries, three losses: one call against the algorithm and the optimum in 60 digits;
(b) five ridge penalties, one network, against scikit-learn's Ridge; (c) 1,000 random prompts: errors and bounds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import torch
from compiled import head, row
from exact_learning import inner, optimum, steps_of_prompt, steps_on_examples
from mpmath import mp, mpf
from pages import told

import weightwright as ww
from weightwright.claims.certificate import round_up
from weightwright.incontext import Learner, Ranges
from weightwright.numbers import Floats

FEATURES, EXAMPLES, QUERIES, STEPS = 8, 50, 20, 400
DOMAIN = Ranges(x=1.0, y=4.0, w=4.0, fitted=8.0, ridge=1.0)
#: The largest step of the learners: 2 over the largest curvature of such examples, about.
STEP = 3.0
#: Of part (a), and what the loss is called there.
LOSSES = {"squared": "squared", "logistic": "logistic", "huber": "Huber, threshold 1.35"}
RIDGE, PENALTIES = 0.05, (0.02, 0.05, 0.1, 0.5, 1.0)
DIGITS = 60
#: Part (c): small learners (features, examples, queries, steps) and how many prompts each loss gets of each.
SMALL = {(2, 6, 3, 12): 300, (1, 3, 1, 5): 30, (8, 50, 20, 30): 4}

Lines = Iterator[str]


def data(loss: str, n: int, d: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Examples, targets or labels, queries."""
    X, X_q, w = rng.uniform(-1, 1, (n, d)), rng.uniform(-1, 1, (m, d)), rng.normal(size=d) / np.sqrt(d)
    y = np.clip(X @ w + 0.3 * rng.standard_t(2, size=n), -4, 4)
    return X, np.where(y > 0, 1.0, -1.0) if loss == "logistic" else y, X_q


def built(loss: str, sizes: tuple[int, int, int, int]) -> Learner:
    d, n, m, steps = sizes
    return ww.incontext.learner(d, n, m, loss, steps, domain=DOMAIN, step=STEP, progress=False)


def stable(X: Floats, loss: str) -> float:
    """1 over the largest curvature of the examples."""
    return (4.0 if loss == "logistic" else 1.0) / float(np.linalg.eigvalsh(X.T @ X / len(X)).max())


def predicted(w: list[object], X_q: Floats) -> list[object]:
    return [inner(w, [mpf(x) for x in query]) for query in X_q.tolist()]


def largest(found: torch.Tensor, exact: list[object]) -> float:
    return max(float(abs(mpf(a) - b)) for a, b in zip(found.tolist(), exact, strict=True))


def in_one_call() -> Lines:
    yield from head(
        "loss", "bound of a pass", "seconds a call", "to the algorithm", "proven", "to the optimum", "proven",
        "missing steps",
    )  # fmt: skip
    for loss, name in LOSSES.items():
        icl = built(loss, (FEATURES, EXAMPLES, QUERIES, STEPS))
        X, y, X_q = data(loss, EXAMPLES, FEATURES, QUERIES, np.random.default_rng(0))
        step = min(stable(X, loss), STEP)
        prompt = icl.prompt(X, y, X_q, ridge=RIDGE, step=step)
        icl(prompt)
        start = time.perf_counter()
        found = icl(prompt)
        seconds, bound = time.perf_counter() - start, icl.bound(prompt)
        with mp.workdps(DIGITS):
            exact = predicted(steps_on_examples(loss, X, y, RIDGE, step, STEPS), X_q)
            best = predicted(optimum(loss, X, y, RIDGE), X_q)
        assert icl.net.certificate is not None
        assert icl.net.certificate.status == "PROVEN"
        yield row(
            name, round_up(icl.net.certificate.bound), f"{seconds:.2f}", f"{largest(found, exact):.1e}",
            round_up(float(bound.to_algorithm.max())), f"{largest(found, best):.1e}",
            round_up(float(bound.to_optimum.max())), round_up(float(bound.missing_steps.max())),
        )  # fmt: skip


def one_network_for_all_penalties() -> Lines:
    from sklearn.linear_model import Ridge

    icl = built("squared", (FEATURES, EXAMPLES, QUERIES, STEPS))
    X, y, X_q = data("squared", EXAMPLES, FEATURES, QUERIES, np.random.default_rng(1))
    yield from head(
        "ridge", "alpha of scikit-learn", "fingerprint", "away from scikit-learn's Ridge", "proven distance"
    )
    for ridge in PENALTIES:
        alpha = ridge * EXAMPLES
        prompt = icl.prompt(X, y, X_q, ridge=ridge, step=1 / (1 / stable(X, "squared") + ridge))
        theirs = Ridge(alpha=alpha, fit_intercept=False).fit(X, y).predict(X_q)
        away, bound = np.abs(icl(prompt).numpy() - theirs).max(), icl.bound(prompt).to_optimum.max()
        yield row(f"{ridge:g}", f"{alpha:g}", icl.net.digest()[:12], f"{away:.1e}", round_up(float(bound)))


def random_prompts() -> Lines:
    yield from head("loss", "prompts", "predictions", "largest error / bound, algorithm", "the same, optimum", "below")
    total = 0
    for loss, name in LOSSES.items():
        rng, prompts, predictions, below, worst = np.random.default_rng(2), 0, 0, 0, [0.0, 0.0]
        for sizes, count in SMALL.items():
            d, n, m, steps = sizes
            icl = built(loss, sizes)
            for _ in range(count):
                used = int(rng.integers(1, n + 1))
                X, y, X_q = data(loss, used, d, m, rng)
                ridge = float(rng.choice([0.1, 0.3, 1.0]))
                prompt = icl.prompt(X, y, X_q, ridge=ridge)
                found, bound = icl(prompt), icl.bound(prompt, progress=False)
                with mp.workdps(DIGITS):
                    exact = steps_of_prompt(prompt.tolist(), icl.net.network.inputs, loss, steps, m)
                    best = predicted(optimum(loss, X, y, ridge), X_q)
                    pairs = ((exact, bound.to_algorithm), (best, bound.to_optimum))
                    for part, (true, bounds) in enumerate(pairs):
                        for a, b, most in zip(found.tolist(), true, bounds.tolist(), strict=True):
                            below += not abs(mpf(a) - b) <= most
                            worst[part] = max(worst[part], float(abs(mpf(a) - b) / most) if most else 0.0)
                prompts, predictions = prompts + 1, predictions + m
        total += prompts
        yield row(name, f"{prompts:,}", f"{predictions:,}", f"{worst[0]:.6f}", f"{worst[1]:.6f}", str(below))
    yield ""
    yield f'{total:,} prompts in all; {DIGITS} digits; "below" counts predictions whose bound is below the error.'


PARTS = {"a": in_one_call, "b": one_network_for_all_penalties, "c": random_prompts}

if __name__ == "__main__":
    told(PARTS, "benchmarks/one_pass.py", __doc__ or "")
