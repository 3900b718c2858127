"""Checks of arguments that several heads share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weightwright.network.layers import Floats


def finite_matrix(name: str, value: npt.ArrayLike) -> Floats:
    """The argument as a float64 matrix with at least one row and column, or ValueError."""
    matrix = np.asarray(value, dtype=np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"{name} must be a matrix with rows and columns, not of shape {matrix.shape}")
    for i, j in np.argwhere(~np.isfinite(matrix)):
        raise ValueError(f"{name}[{i}, {j}] must be finite, not {float(matrix[i, j])!r}")
    return matrix
