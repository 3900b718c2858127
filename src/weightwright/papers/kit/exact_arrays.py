"""Arrays of fractions: numpy adds and multiplies them exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Exact = npt.NDArray[np.object_]


def fractions(numbers: Any) -> Exact:
    """The same numbers, exactly; an array of fractions stays what it is."""
    return np.asarray(np.frompyfunc(Fraction, 1, 1)(np.asarray(numbers, dtype=object)), dtype=object)
