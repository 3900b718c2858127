"""Predictions as a forward pass: the rows stand in a prompt beside the coefficients, and attention multiplies them.

Each row is a token with keys of its own, so no row is computed from another. Rows and coefficients are scaled by powers
of two, exactly, such that every product that occurs lies in [-1, 1]: one network serves all models with as
many features.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt
import torch

from weightwright.estimators.solving.networks import in_few_sizes
from weightwright.incontext.networks.descent_network import Ranges, gradients_network
from weightwright.incontext.networks.slopes import spectral_slope
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork

#: The number of rows in one prompt.
ROWS = 32
#: The number of prompts in one call, which bounds the memory.
TOGETHER = 64
#: The error that is asked of the table of products, which are 1 at most.
TABLE_TOL = 1e-13


@functools.lru_cache(maxsize=32)
def predictor_network(features: int) -> AttentionNetwork:
    """(x, u, y, w) of every token to (w.x) u, for |w.x| <= 1."""
    slope = spectral_slope("x", (1.0, 0.0), 1.0 + 2.0**-20, TABLE_TOL, "float64")
    return gradients_network(slope, ROWS, features, Ranges(x=1.0, y=1.0, w=1.0, value=1.0), own_values=True)


def predict(X: Floats, coef: Floats, intercept: Floats) -> Floats:
    """(n, outputs): w.x + c by the network. X: (n, d), coef: (outputs, d), intercept: (outputs,)."""
    return np.stack([_one(X, w, c)[0] for w, c in zip(coef, intercept, strict=True)], axis=1)


def bound_predictions(X: Floats, coef: Floats, intercept: Floats) -> Floats:
    """(n, outputs): what `predict` can be off by at most, rounding included."""
    return np.stack([_one(X, w, c)[1] for w, c in zip(coef, intercept, strict=True)], axis=1)


def _one(X: Floats, w: Floats, c: float) -> tuple[Floats, Floats]:
    state, rows, exponents = _scaled(X, np.append(w, c))
    n, d = rows.shape
    D = in_few_sizes(d)  # features that are 0 fill up, so that few networks serve all
    net = predictor_network(D)
    assert net.certificate is not None
    prompt = np.zeros((-(-n // ROWS) * ROWS, 3 * D + 1))
    prompt[:n, :d] = rows
    prompt[:, D] = 1.0  # u = (1, 0, ..., 0)
    prompt[:, 2 * D + 1 : 2 * D + 1 + d] = state
    tokens = torch.tensor(prompt.reshape(-1, ROWS, 3 * D + 1))
    with torch.no_grad():
        answers = torch.cat([net(part)[..., 0] for part in tokens.split(TOGETHER)])
    # scaling is exact but for products below 2^-1000 of the largest, and for answers that are no normal floats
    bound = math.nextafter(net.certificate.bound + 2.0**-1000, math.inf)
    with np.errstate(over="ignore", under="ignore"):  # what is too large for a float is infinite
        back = np.ldexp(answers.numpy().reshape(-1)[:n], exponents)
        bounds = np.nextafter(np.ldexp(bound, exponents) + 2.0**-1060, np.inf)
    return back, np.where(np.isfinite(back), bounds, np.inf)


def _scaled(X: Floats, w: Floats) -> tuple[Floats, Floats, npt.NDArray[np.int32]]:
    """The coefficients with entries up to 1, the rows such that products add up to 1 at most, and the
    exponents of the factors, powers of two, that make up for it."""
    rows = np.concatenate([X, np.ones((len(X), 1))], axis=1)
    _, of_w = np.frexp(w)
    state = np.ldexp(w, -of_w)
    mantissas, places = np.frexp(rows * (w != 0))
    places = places + of_w
    largest = np.where(mantissas != 0, places, -5000).max(axis=1)
    largest = np.where(largest > -5000, largest, 0)
    with np.errstate(under="ignore"):
        rows = np.ldexp(mantissas, places - largest[:, None])
        more = np.maximum(np.frexp(np.abs(state * rows).sum(axis=1))[1], 0)
        return state, np.ldexp(rows, -more[:, None]), np.asarray(largest + more, dtype=np.int32)
