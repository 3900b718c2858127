"""A step with a dead zone: two keys make a sigmoid, so steep that outside the zone it is 0 or 1."""

from __future__ import annotations

import math

import numpy as np

from weightwright.heads.registers import Table


def step_keys(at: float, height: float, zone: float, error: float) -> Table:
    """height * step(s - at) within the error wherever |s - at| >= zone; between 0 and height inside.

    beta is a power of two and carries the steepness, the keys are +-1/2.
    """
    steepness = math.log(max(abs(height) / error, 2.0)) / zone
    beta = math.ldexp(1.0, math.ceil(math.log2(steepness)))
    keys = np.array([0.5, -0.5])
    return Table(keys, -at * keys, np.array([height, 0.0]), beta)
