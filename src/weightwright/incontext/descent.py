"""A frozen network that runs an algorithm on the examples in its prompt: nothing is trained, nothing is solved outside.

The weights know the loss, the algorithm's coefficients and how large numbers may get. The prompt holds the examples x
and y, the same examples times the step, u = step c_i x, the first state, and thresholds for an l1 penalty.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch

from weightwright.errors import DomainError
from weightwright.expressions import Variable, substitute, to_text
from weightwright.incontext.errors.lemma import require_stable
from weightwright.incontext.networks.descent_network import Ranges, descent_network
from weightwright.incontext.networks.passes import Algorithm, gradient_descent, proximal
from weightwright.incontext.networks.slopes import Slope, spectral_slope, vector_slope
from weightwright.incontext.problem.loss import Loss, loss
from weightwright.incontext.problem.loss_forms import separate_slope
from weightwright.incontext.problem.method import Method, method
from weightwright.incontext.problem.problem import Problem, read_penalty
from weightwright.incontext.run import Run
from weightwright.numbers import Floats, counted, rounded
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import DTYPES
from weightwright.runtime.watch import all_states, largest_distance
from weightwright.runtime.weights import dtype_name

#: A prompt may have this many times fewer samples than the network was built for: each then counts that much more.
FEWER = 2.0
#: The error that is asked of a table of w.x and y together, unless told: its anchors fill a plane, and cost more.
PAIR_TOL = 1e-5

#: The dtypes that prompts are written in.
IN_CONTEXT = ("float64", "float32")


class Descent:
    """`steps` steps of an algorithm as one network, for at most `samples` examples of `features` numbers.

    samples: the most examples that a prompt can have.
    step: its size, for the mean of the losses.
    ridge, l1: penalties, a number or an array with one for each feature.
    algorithm: passes as data; None: gradient descent.
    reach: how large the arguments of the loss's slope may get.
    ranges: how large everything else may; None: 4 for x, 16 for y and w.
    looped: the same weights at every step; else the steps are stacked.

    >>> gd = Descent("squared", samples=4, features=1, steps=50, step=0.5)
    >>> run = gd.run([[1.0], [-1.0], [0.5], [2.0]], [2.0, -2.0, 1.0, 4.0])
    >>> abs(float(run.w[0]) - 2.0) < 1e-9
    True
    """

    def __init__(
        self,
        loss: str | Loss = "squared",
        *,
        samples: int,
        features: int,
        steps: int,
        step: float,
        ridge: float | Floats = 0.0,
        l1: float | Floats = 0.0,
        algorithm: Algorithm | None = None,
        reach: float | tuple[float, float] = 16.0,
        ranges: Ranges | None = None,
        tol: float | None = None,
        dtype: torch.dtype | str = torch.float64,
        looped: bool = True,
    ) -> None:
        self.loss = as_loss(loss)
        self.dtype = dtype_name(dtype, IN_CONTEXT)
        for name, size in (("samples", samples), ("features", features), ("steps", steps)):
            if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, not {size!r}")
        if not (math.isfinite(step) and step > 0):
            raise ValueError(f"step must be a finite number above 0, not {step!r}")
        self.samples, self.features, self.steps = int(samples), int(features), int(steps)
        self.step = float(step)
        self.ridge, self.l1 = (read_penalty(name, given, features) for name, given in (("ridge", ridge), ("l1", l1)))
        plain = proximal if np.any(self.l1) else gradient_descent
        self.algorithm = plain(self.step * self.ridge, self.dtype) if algorithm is None else algorithm
        self.slope = slope_tables(self.loss, reach, tol, self.dtype)
        self.ranges = ranges or Ranges(
            x=4.0, y=16.0, w=16.0, value=FEWER * 4.0 * step / samples, tau=step * float(np.max(self.l1))
        )
        self.net: AttentionNetwork = descent_network(
            self.slope, self.algorithm, self.samples, self.features, self.steps, self.ranges, self.dtype, looped
        )

    def __repr__(self) -> str:
        return (
            f"Descent({self.loss.name[:30]}, {counted(self.steps, 'step')} of {self.algorithm.name}, at most"
            f" {counted(self.samples, 'sample')} of {counted(self.features, 'feature')},"
            f" {counted(self.slope.anchors, 'anchor')} a sample, {self.dtype})"
        )

    def problem(self, X: Any, y: Any, weights: Any = None) -> Problem:
        """The examples as the network gets them, rounded to its dtype, with its loss and penalties."""
        given = Problem(X, y, self.loss, weights, self.ridge, self.l1)
        if given.d != self.features:
            raise ValueError(f"X has {given.d} features, but the network was built for features={self.features}")
        if given.n > self.samples:
            raise ValueError(
                f"X has {given.n} samples, but the network was built for samples={self.samples} at most;"
                f" build it with samples={given.n}"
            )
        return dataclasses.replace(given, X=rounded(given.X, self.dtype), y=rounded(given.y, self.dtype))

    def method(self, problem: Problem) -> Method:
        """The algorithm on the numbers of the prompt."""
        plain = method(problem, self.algorithm, self.step)
        tau = None if plain.thresholds is None else rounded(plain.thresholds, self.dtype)
        return Method(self.algorithm, rounded(plain.values, self.dtype), tau)

    def prompt(self, X: Any, y: Any, weights: Any = None, start: Any = None) -> torch.Tensor:
        """(samples, inputs): one token for each example; missing ones are 0 and add nothing."""
        problem = self.problem(X, y, weights)
        w = np.zeros(self.features) if start is None else np.asarray(start, dtype=np.float64)
        if w.shape != (self.features,) or not np.isfinite(w).all():
            raise ValueError(f"start must be {self.features} finite numbers, not {start!r}")
        plain = self.method(problem)
        largest = float(np.abs(plain.values).max())
        if largest > self.ranges.value:
            raise ValueError(
                f"X: the largest of the {problem.n} examples times step/n is {largest:.6g}, but the network was built"
                f" for at most {self.ranges.value:.6g}; build it with ranges=Ranges(..., value={largest:.3g}), or for"
                f" samples={problem.n}"
            )
        groups = {
            "x": problem.rows,
            "u": plain.values,
            "y": np.zeros((problem.n, 1)) if self.loss.form == "margin" else problem.y[:, None],
        }
        shared = {"w": w, "p": w, "tau": plain.thresholds}
        columns = []
        for group in dict.fromkeys(name.split("[")[0] for name in self.net.network.inputs):
            if group in shared:
                columns.append(np.broadcast_to(np.asarray(shared[group]), (self.samples, self.features)))
            else:
                rows = groups[group]
                columns.append(np.concatenate([rows, np.zeros((self.samples - problem.n, rows.shape[1]))]))
        return torch.tensor(rounded(np.concatenate(columns, axis=1), self.dtype), dtype=DTYPES[self.dtype])

    def run(self, X: Any, y: Any, weights: Any = None, start: Any = None) -> Run:
        """One forward pass on the prompt, every state on its way, and how far each is from the exact algorithm.

        A step with which plain descent diverges on these data is refused: ValueError names the largest stable one.
        """
        prompt = self.prompt(X, y, weights, start)
        problem = self.problem(X, y, weights)
        plain = self.method(problem)
        if problem.loss.name == "squared" and plain.states == 1:
            require_stable(problem, self.step)
        try:
            states = all_states(self.net, prompt)
        except DomainError:
            require_stable(problem, self.step, math.sqrt(self.features) * self.ranges.w)  # the likely reason
            raise
        apart = largest_distance(states)
        return Run(problem, plain, self.step, states[..., 0, :], self.net, apart)


def as_loss(given: str | Loss) -> Loss:
    """A loss by its name in the catalogue, or as it is."""
    return given if isinstance(given, Loss) else loss(given)


def slope_tables(loss: Loss, reach: float | tuple[float, float], tol: float | None, dtype: str) -> Slope:
    """The tables of l'. reach: of the residual or margin; of w.x and y where the loss takes them apart."""
    sizes = (reach, reach) if isinstance(reach, int | float) else reach
    for size in sizes:
        if not (math.isfinite(size) and size > 0):
            raise ValueError(f"reach must be positive and finite, not {reach!r}")
    if loss.form == "residual":
        return spectral_slope(loss.slope, (1.0, -1.0), sizes[0], tol, dtype)
    if loss.form == "margin":
        return spectral_slope(loss.slope, (1.0, 0.0), sizes[0], tol, dtype)
    if loss.form == "separable":
        of_x, of_y = separate_slope(loss.slope_expression)
        slope = spectral_slope(to_text(of_x), (1.0, 0.0), sizes[0], tol, dtype)
        if of_y is None:
            return slope
        text = to_text(substitute(of_y, "y", Variable("x")))
        return slope + spectral_slope(text, (0.0, 1.0), sizes[1], tol, dtype)
    return vector_slope(loss.slope, max(sizes), PAIR_TOL if tol is None else tol, dtype)
