"""What a `learner` should answer, in as many digits as mpmath is set to: gradient descent, and the optimum.

Shares nothing with the package but the names of a prompt's columns: plain loops over plain numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpmath import mp, mpf

#: Where the slope of the Huber loss bends, as a fraction: the default of the catalogue, 1.35.
DELTA = (27, 20)


def slope(loss: str, s: Any) -> Any:
    """l' of one of three losses."""
    if loss == "squared":
        return s
    return -1 / (1 + mp.exp(s)) if loss == "logistic" else max(min(s, mp.fraction(*DELTA)), -mp.fraction(*DELTA))


def inner(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return mp.fsum(x * y for x, y in zip(a, b, strict=True))


def steps_of_prompt(
    rows: list[list[float]], names: Sequence[str], loss: str, steps: int, queries: int, momentum: float = 0.0
) -> list[Any]:
    """Predictions of the algorithm on a prompt's own numbers. rows, names: of its tokens and columns."""
    place = {name: [i for i, own in enumerate(names) if own.split("[")[0] == name] for name in ("x", "u", "r", "y")}
    groups = [{name: [mpf(row[i]) for i in at] for name, at in place.items()} for row in rows]
    w = last = [mpf(0)] * len(place["x"])
    # Nesterov's answer is z, his next state a little beyond it; the network holds 1 + m as one float
    beyond = mpf(1 + momentum) - 1
    for _ in range(steps):
        z = list(w)
        for token in groups:
            product = inner(w, token["x"])
            if any(token["u"]):
                pull = slope(loss, product - token["y"][0])
                z = [a - pull * u for a, u in zip(z, token["u"], strict=True)]
            if any(token["r"]):
                z = [a - product * r for a, r in zip(z, token["r"], strict=True)]
        w, last = [a + beyond * (a - b) for a, b in zip(z, last, strict=True)], z
    return [inner(last, token["x"]) for token in groups[-queries:]]


def steps_on_examples(loss: str, X: Any, y: Any, ridge: float, step: float, steps: int) -> list[Any]:
    """The weights after these steps on the mean of the losses and ridge/2 |w|^2, every number meant exactly."""
    rows, targets = _rows(loss, X, y)
    w = [mpf(0)] * len(rows[0])
    for _ in range(steps):
        pulls = [slope(loss, inner(w, row) - t) / len(rows) for row, t in zip(rows, targets, strict=True)]
        g = [inner(pulls, [row[j] for row in rows]) + mpf(ridge) * w[j] for j in range(len(w))]
        w = [a - mpf(step) * b for a, b in zip(w, g, strict=True)]
    return w


def optimum(loss: str, X: Any, y: Any, ridge: float) -> list[Any]:
    """The weights that minimise the mean of the losses and ridge/2 |w|^2, by Newton's method. With kinks it may jump
    to and fro, so it starts with steps that never overshoot."""
    rows, targets = _rows(loss, X, y)
    n, d = len(rows), len(rows[0])
    w = mp.matrix(d, 1)
    for number in range({"squared": 1, "logistic": 12, "huber": 50}[loss]):
        H, g = mp.eye(d) * mpf(ridge), mpf(ridge) * w
        for row, t in zip(rows, targets, strict=True):
            s = inner(row, list(w)) - t
            k = mpf(1) if loss == "squared" else 1 / (2 + mp.exp(s) + mp.exp(-s))
            k = mpf(bool(abs(s) < mp.fraction(*DELTA) or number < 45)) if loss == "huber" else k
            pull = slope(loss, s)
            for i in range(d):
                g[i] += pull * row[i] / n
                for j in range(d):
                    H[i, j] += k * row[i] * row[j] / n
        w = w - mp.lu_solve(H, g)
    return list(w)


def _rows(loss: str, X: Any, y: Any) -> tuple[list[list[Any]], list[Any]]:
    """Examples and targets; of margins the rows times their labels, and targets 0."""
    margin = loss == "logistic"
    rows = [[mpf(x) * (mpf(t) if margin else 1) for x in row] for row, t in zip(X.tolist(), y.tolist(), strict=True)]
    return rows, [mpf(0) if margin else mpf(t) for t in y.tolist()]
