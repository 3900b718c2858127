"""The algorithms that a prompted network runs, as coefficients of its passes.

With G = sum_i f(w . x_i, y_i) u_i, the gradient times the step (the step stands in the prompt, in u):

    gradient descent   w <- alpha w - G                                                  alpha = 1 - step ridge
    heavy ball         w <- alpha w - G + m (w - p),            p <- w
    Nesterov           z = alpha w - G,  w <- z + m (z - p),    p <- z
    proximal           w <- soft(alpha w - G, tau)
    FISTA              z = soft(alpha w - G, tau),  w <- z + m_k (z - p),  p <- z;  m_k starts again after each cycle
    Chebyshev          z = alpha w - G,  w <- z + m_k (z - p),  p <- w

Chebyshev's m_k = cosh((k-1) t) / cosh((k+1) t), with cosh t = (L+mu)/(L-mu) for a step of 2/(L+mu), is
e^(2t) - 2 sinh(2t) sigmoid(2 (k+1) t): one gate whose score is a clock gives it in a loop of one and the same pass.

shrink, the step times the ridge penalty, and so alpha, is one number, or an array with one for each feature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weightwright.claims.prompt import Pass
from weightwright.errors import WeightwrightError
from weightwright.incontext.networks.prompted import PromptTable, layout_of, pass_layers
from weightwright.network import Layer, Loop
from weightwright.numbers import Floats, rounded


@dataclass(frozen=True)
class Algorithm:
    """Passes that run once, then passes that run again and again; the state that is the answer; the clock's start."""

    name: str  # shown to people
    cycle: tuple[Pass, ...]  # passes that run again and again
    first: tuple[Pass, ...] = ()  # passes that run once, before
    answer: Literal["w", "p"] = "w"  # the state that is returned
    clock: float = 0.0  # what the clock starts with

    def __post_init__(self) -> None:
        every = (*self.first, *self.cycle)
        if not self.cycle or len({len(one.method) for one in every}) != 1:
            raise ValueError(f"cycle={self.cycle!r}: at least one pass is needed, and all must have the same states")
        for one in every:
            _require_pass(one)
        if self.answer == "p" and len(every[0].method) == 1:
            raise ValueError("answer='p': the passes have no state p")

    def steps(self, count: int) -> list[Pass]:
        """The passes, one after the other.

        count: of steps.
        """
        return [self.step(k) for k in range(count)]

    def step(self, k: int) -> Pass:
        """The pass that is step k.

        k: from 0.
        """
        return self.first[k] if k < len(self.first) else self.cycle[(k - len(self.first)) % len(self.cycle)]

    def arranged(
        self,
        count: int,
        tables: Sequence[PromptTable],
        n: int,
        d: int,
        dtype: str,
        looped: bool,
        reads: bool = False,
    ) -> tuple[list[Pass], list[Layer]]:
        """The passes as they stand in the layers (those of a loop once), and the layers.

        count: of steps.
        tables: of the loss's slope.
        n: examples of the prompt.
        d: features of an example.
        reads: whether a read-out comes after them.
        """
        layout = layout_of(d, [*self.first, *self.cycle], tables, reads)

        def layers(passes: Sequence[Pass]) -> list[Layer]:
            return [layer for one in passes for layer in pass_layers(layout, tables, one, n, dtype)]

        rounds, rest = divmod(max(count - len(self.first), 0), len(self.cycle))
        first = list(self.first[:count])
        if not looped or rounds == 0:
            passes = self.steps(count)
            return passes, layers(passes)
        last = list(self.cycle[:rest])
        loop = Loop(tuple(layers(self.cycle)), rounds)
        return [*first, *self.cycle, *last], [*layers(first), loop, *layers(last)]


def gradient_descent(shrink: float | Floats = 0.0, dtype: str = "float64") -> Algorithm:
    """w <- (1 - shrink) w - G; shrink is the step times the ridge penalty."""
    return Algorithm("gradient descent", (_pass(shrink, [[1, 0, 0, 0]], dtype),))


def heavy_ball(momentum: float, shrink: float | Floats = 0.0, dtype: str = "float64") -> Algorithm:
    """Gradient descent and momentum times the last change."""
    m = _exactly_above_one(_fraction("momentum", momentum), dtype)
    return Algorithm("heavy ball", (_pass(shrink, [[1, 0, -m, m], [0, 0, 0, 1]], dtype),))


def nesterov(momentum: float, shrink: float | Floats = 0.0, dtype: str = "float64") -> Algorithm:
    """Nesterov's method with a fixed momentum."""
    m = _exactly_above_one(_fraction("momentum", momentum), dtype)
    return Algorithm("Nesterov", (_pass(shrink, [[1 + m, 0, -m, 0], [1, 0, 0, 0]], dtype),), answer="p")


def proximal(shrink: float | Floats = 0.0, dtype: str = "float64") -> Algorithm:
    """Proximal gradient descent for an l1 penalty: tau = step times penalty stands in the prompt."""
    return Algorithm("proximal gradient", (_pass(shrink, [[0, 1, 0, 0]], dtype, "threshold"),))


def proximal_nesterov(momentum: float, shrink: float | Floats = 0.0, dtype: str = "float64") -> Algorithm:
    """FISTA with a fixed momentum, for a problem that is strongly convex."""
    m = _exactly_above_one(_fraction("momentum", momentum), dtype)
    only = _pass(shrink, [[0, 1 + m, -m, 0], [0, 1, 0, 0]], dtype, "threshold")
    return Algorithm("proximal Nesterov", (only,), answer="p")


def fista(restart: int, shrink: float | Floats = 0.0, dtype: str = "float64") -> Algorithm:
    """FISTA that forgets its momentum after every `restart` steps."""
    if restart < 1:
        raise ValueError(f"restart must be at least 1, not {restart!r}")
    t, cycle = 1.0, []
    for k in range(restart):
        after = (1 + math.sqrt(1 + 4 * t * t)) / 2
        m = 0.0 if k == restart - 1 else _exactly_above_one((t - 1) / after, dtype)
        cycle.append(_pass(shrink, [[0, 1 + m, -m, 0], [0, 1, 0, 0]], dtype, "threshold"))
        t = after
    return Algorithm("FISTA with restart", tuple(cycle), answer="p")


def chebyshev(smallest: float, largest: float, shrink: float | Floats = 0.0, dtype: str = "float64") -> Algorithm:
    """Chebyshev's steps for a quadratic whose second derivatives lie between these, for a step of
    2/(smallest + largest); shrink counts among the second derivatives."""
    if not 0 < smallest <= largest < math.inf:
        raise ValueError(f"0 < smallest <= largest is needed, not smallest={smallest!r}, largest={largest!r}")
    # second derivatives that are nearly the same would make the clock run too fast to be computed
    t = min(math.acosh((largest + smallest) / max(largest - smallest, 1e-3 * largest)), 2.0)
    growth = _exactly_above_one(math.exp(2 * t), dtype)
    tick = float(rounded(np.array(2 * t), dtype))
    steady = _pass(shrink, [[1 + growth, -2 * math.sinh(2 * t), -growth, 0], [0, 0, 0, 1]], dtype, "clock", tick)
    start = _pass(shrink, [[1, 0, 0, 0], [0, 0, 0, 1]], dtype)
    return Algorithm("Chebyshev", (steady,), (start,), clock=2 * tick)


def _require_pass(one: Pass) -> None:
    method = np.asarray(one.method)
    if method.shape not in ((1, 4), (2, 4)) or not np.isfinite(method).all():
        raise ValueError(f"method must be finite of shape (1, 4) or (2, 4), not {method.tolist()}")
    if one.middle not in ("none", "threshold", "clock"):
        raise ValueError(f"middle must be 'none', 'threshold' or 'clock', not {one.middle!r}")
    if len(method) == 1 and (method[0, 2] != 0 or one.middle == "clock"):
        raise ValueError("method has one row, so there is no state p to read; give it a second row")
    if not isinstance(one.alpha, np.ndarray) or one.alpha.ndim > 1:
        raise ValueError(f"alpha={one.alpha!r}: a float is needed, or an array with one for each feature")
    for name, numbers in (("alpha", one.alpha), ("tick", np.array(one.tick))):
        if not np.isfinite(numbers).all():
            raise ValueError(f"{name}={numbers.tolist()!r}: finite numbers are needed")


def _pass(
    shrink: float | Floats,
    method: Sequence[Sequence[float]],
    dtype: str,
    middle: Literal["none", "threshold", "clock"] = "none",
    tick: float = 0.0,
) -> Pass:
    shrinks = np.asarray(shrink, dtype=np.float64)
    # from 2 on the penalty alone drives w away from 0
    for wrong in shrinks[~((shrinks >= 0) & (shrinks < 2))].tolist()[:1]:
        raise ValueError(f"step times ridge must be at least 0 and below 2, not {wrong!r}: take a smaller step")
    return Pass(np.asarray(rounded(1 - shrinks, dtype)), rounded(np.array(method, dtype=float), dtype), middle, tick)


def _fraction(name: str, value: float) -> float:
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be at least 0 and below 1, not {value!r}")
    return value


def _exactly_above_one(m: float, dtype: str) -> float:
    """m in the dtype, such that 1 + m is exact too: the fixed point is then that of the algorithm itself."""
    near = float(rounded(np.array(1 + m), dtype)) - 1
    if float(rounded(np.array(near), dtype)) != near:
        raise WeightwrightError(f"1 + {m!r} minus 1 is no {dtype}")
    return near
