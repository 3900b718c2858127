"""What a study says of a claim of the paper, and the numbers over seeds that it says it from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weightwright.papers.experiments.machinery.study_units import Json


def say(claim: str, reproduced: bool, because: str, in_part: bool = False) -> Json:
    """A verdict: whether a claim was reproduced ("yes", "in part", "no"), and because of what."""
    return {
        "claim": claim,
        "reproduced": "yes" if reproduced else "in part" if in_part else "no",
        "because": because,
    }


def say_slope(claim: str, trend: Json, target: float) -> Json:
    """The verdict on a slope: its sign must be that of the target, and its interval contain it."""
    right_sign = trend["sign"] == ("falls" if target < 0 else "grows")
    near = right_sign and trend["lo"] <= target <= trend["hi"]
    between = "no interval" if trend["lo"] is None else f"{trend['lo']:.2f}, {trend['hi']:.2f}"
    return say(claim, near, f"the slope is {trend['slope']:.2f} [{between}]: {trend['sign']}", right_sign)


def mean_of(values: Any) -> float:
    """The mean over seeds."""
    return float(np.mean(values))


def spread_of(values: Any) -> float | None:
    """The sample standard deviation over seeds, 0 of one; None of a number that was not measured over seeds."""
    array = np.asarray(values, float)
    if not array.ndim:
        return None
    return float(array.std(ddof=1)) if len(array) > 1 else 0.0


def show(values: Any) -> str:
    """Mean and standard deviation over seeds, as text."""
    return f"{mean_of(values):.3g} ± {spread_of(values):.2g}"


def show_power(value: float) -> str:
    """A number by its order of magnitude, as text; "-" if there is none."""
    return f"{value:.1e}" if np.isfinite(value) else "-"


def stack(parts: Sequence[Sequence[float]]) -> Any:
    """Numbers of seeds for each value of a parameter, as an array (seeds, values)."""
    return np.array(parts).T
