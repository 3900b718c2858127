"""A distance from an enclosure: the optimum in balls, in as many bits as make the distance to it sharp."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weightwright.enclosures.balls.linear_algebra import Balls, balls, float_above, norm
from weightwright.enclosures.balls.series import working_precision
from weightwright.incontext.errors.distance import Distance
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats

NO_WEIGHT = "all weights are zero; give one sample a weight"
#: Bits of the working precision, tried one after the other until the bound is sharp.
BITS = (256, 512, 1024, 2048, 4096)
#: A bound is sharp within SHARP times the true distance, or below the share NEGLIGIBLE of the coefficients.
SHARP, NEGLIGIBLE = 1.01, 2.0**-80


@dataclass(frozen=True)
class Enclosure:
    """box: the optimum is in it; None where nothing is proven. why: in words. hopeless: more bits would not help."""

    box: Balls | None
    why: str
    hopeless: bool = False


#: Takes where to start, and what says whether a box is sharp enough; computes in the bits that are set.
Method = Callable[[Balls, Callable[[Balls], bool]], Enclosure]


def enclose_sharply(method: Method, given: Floats, measured: int) -> Enclosure:
    """The enclosure with the fewest bits that makes the distance to the first numbers sharp, or the last one."""
    start, result = balls(given), Enclosure(None, "")

    def is_sharp(box: Balls) -> bool:
        off = norm(a - b for a, b in zip(start[:measured], box[:measured], strict=True))
        return bool(off.upper() <= SHARP * off.lower() or off.upper() <= NEGLIGIBLE * norm(start[:measured]))

    for bits in BITS:
        with working_precision(bits):
            result = method(start, is_sharp)
            if result.hopeless or (result.box is not None and is_sharp(result.box)):
                break
    return result


def read_numbers(name: str, given: Floats | float, shape: tuple[int, ...]) -> Floats:
    """As an array; ValueError that names it if it has another shape."""
    array = np.asarray(given, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; the data need {shape}")
    return array.reshape(-1)


def require_squares_with_ridge(problem: Problem) -> None:
    """ValueError for a problem that does not stand for the data and a ridge penalty alone."""
    if problem.has_l1 or not problem.loss.is_quadratic:
        raise ValueError(f"problem: give the squared loss without l1, not {problem.loss.name} with l1={problem.l1}")


def far_side(given: Floats, box: Balls) -> float:
    """A float that is not below the distance of the given numbers to any point of the box."""
    with working_precision(BITS[0]):
        return float_above(norm(a - b for a, b in zip(balls(given), box, strict=True)))


def nowhere(why: str, gradient: float = math.inf) -> Distance:
    """No bound."""
    return Distance(math.inf, 0.0, 0.0, gradient, math.inf, why)
