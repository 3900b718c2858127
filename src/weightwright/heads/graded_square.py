"""The square in few bits, accurate relative to x^2 + tiny: two heads whose keys crowd towards 0, one from each side.

A uniform grid squares with an absolute error of about 1e-6 R^2 in float32 for |x| <= R, also where x is small: a
variance of small numbers drowns in it. Here the right head is about relu(x)^2 and the left one its mirror image. Left
of 0 the right head's steepest key, of value next to 0, has all the weight; right of it only keys as wide as x itself
have weight, so that scores are of order 1 and rounding is relative to x^2. The values are solved for relative to
x^2 + FLOOR R^2.

What is proven is absolute, about 5e-6 R^2 in float32, twice that of a uniform grid. What is measured there: at most
4e-6 (x^2 + 1e-7 R^2), and at most 5e-7 R^2.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from weightwright.heads.assemble import Design, Query, Table
from weightwright.heads.graded import Grading, graded_keys, places
from weightwright.heads.spectral import solve
from weightwright.network.layers import Floats

WIDTH = 3e-4  # over R: the keys next to 0 are about so far apart
SPACING, SHARPNESS, PAD = 0.3, 0.4, 3
FLOOR = 1e-7
_RIDGE = 1e-8
_SAMPLES = 700
_LEAST = 1e-6  # over R: the smallest sample beside 0
_KEYS_IN_A_BOX = 2


def graded_square(reach: float, dtype: str) -> Design:
    """Two heads that add up to x^2 for |x| <= reach, in numbers of the dtype.

    >>> [table.size for table in graded_square(3.0, "float32").tables]
    [35, 35]
    """
    if not (math.isfinite(reach) and reach > 0):
        raise ValueError(f"reach must be a positive finite number, not {reach!r}")
    query = Query.covering(-reach, reach, dtype)
    grading = Grading(-WIDTH, math.inf)
    right = graded_keys(0.0, 1.0, grading, SPACING, SHARPNESS, PAD).rounded(dtype)
    values = _values(right) / query.scale**2
    right = replace(right, values=values).rounded(dtype)
    left = replace(right, keys=-right.keys)
    half = places(grading, 0.0, 1.0, np.linspace(0.0, 1.0, right.size // _KEYS_IN_A_BOX))
    roles = tuple(f"x**2 for x {side} 0, {right.size} graded anchors" for side in (">", "<"))
    return Design((right, left), roles, 0.0, query=query, edges=np.unique(np.append(-half, half)))


def _values(right: Table) -> Floats:
    """For which the head and its mirror image add up to s^2."""
    s = np.append(0.0, np.geomspace(_LEAST, 1.0, _SAMPLES))
    weights = np.zeros((len(s), right.size))
    for side in (s, -s):
        scores = side[:, None] * right.keys + right.offsets
        w = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights += w / w.sum(axis=1, keepdims=True)
    relative = 1 / (s**2 + FLOOR)
    return solve(weights * relative[:, None], s**2 * relative, _RIDGE)
