"""AE-3 to AE-7: steps of gradient descent on the samples in the prompt, one or many, stacked or looped.

Statement, source and deviations: `weightwright theorems AE-3` to `AE-7`. Hypotheses of many steps, checked exactly:
w_0 = 0; eta <= 2/L_f; R inside the network's range; arguments of l' within its reach for all |w| <= R.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch

from weightwright.errors import WeightwrightError
from weightwright.incontext.networks.descent_network import Ranges, descent_network
from weightwright.incontext.networks.passes import gradient_descent, proximal
from weightwright.incontext.networks.slopes import Slope, beyond, faithful_slope, spectral_slope
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats
from weightwright.papers.descent.gradients import RESIDUAL, inverse_temperature
from weightwright.papers.descent.probes import Function, Probes, grouped, products
from weightwright.papers.descent.regression import (
    curvature_is_between,
    distance,
    exact_curvature,
    exact_optimum,
    fraction_iterates,
    length,
)
from weightwright.papers.kit.arguments import positive, whole
from weightwright.papers.kit.constructed import Method, described, proven_bound
from weightwright.papers.kit.exact_arrays import fractions
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.watch import all_states, largest_distance


def in_context_step(
    slope: Slope,
    f: Function,
    n: int,
    d: int,
    ranges: Ranges,
    *,
    method: Method,
    chosen: dict[str, float] | None = None,
    id: str = "AE-3",
    dtype: str = "float64",
) -> AttentionNetwork:
    """Prompt (n, 3d + 1), tokens (x_i, u_i, y_i, w) -> (1, d): w - sum_i f(w . x_i, y_i) u_i, u_i = eta x_i / n.

    slope: the tables of f.
    f: the same as a function of w . x and y, to compare with.
    chosen: parameters that `net.about` tells; None: none.
    id: of the theorem that the step belongs to.
    Error: `net.certificate.bound`. Cost: 3 layers for each table and 2 more, n keys for each anchor.

    >>> from weightwright.papers.descent.probes import along
    >>> slope = spectral_slope("tanh(x)", RESIDUAL, beyond(3.0), 1e-9, "float64")
    >>> net = in_context_step(slope, along("tanh(x)", RESIDUAL), 4, 2, Ranges(1, 1, 1, 0.125), method="spectral")
    >>> net.certificate.status, net.certificate.bound < 1e-8
    ('PROVEN', True)
    """
    net = descent_network(slope, gradient_descent(dtype=dtype), n, d, 1, ranges, dtype)

    def reference(X: Floats) -> Floats:
        of = grouped(X, net.network.inputs)
        g = f(products(of["x"], of["w"]), of["y"][..., 0])[..., None] * of["u"]
        return np.asarray(of["w"][:, :1] - g.astype(np.longdouble).sum(axis=1, keepdims=True), dtype=np.float64)

    chosen = {"anchors a sample": float(slope.anchors), **(chosen or {})}
    probes = _prompts(net.network.inputs, n, ranges)
    return described(net, id, method, chosen, {}, reference, probes, {"one step": proven_bound(net)})


def _prompts(inputs: Sequence[str], n: int, ranges: Ranges) -> Probes:
    """Prompts with one w, a part of them with every u in the direction that adds the errors up."""
    sizes = {"x": ranges.x, "u": ranges.value, "y": ranges.y, "w": ranges.w}
    half = np.array([sizes[name.split("[")[0]] for name in inputs])
    w, u = ([i for i, name in enumerate(inputs) if name.startswith(group)] for group in ("w[", "u["))

    def probes(rng: np.random.Generator, count: int) -> Floats:
        X = rng.uniform(-half, half, (count, n, len(inputs)))
        corners = rng.random((count, 1, 1)) < 0.25
        X = np.where(corners, np.where(X < 0, -half, half), X)
        X[..., w] = X[:, :1, w]
        aligned = rng.random((count, 1, 1)) < 0.5  # the same sample n times: errors of one sign
        X = np.where(aligned, X[:, :1], X)
        X[..., u] = np.where(aligned, ranges.value, X[..., u])
        return X

    return probes


@dataclass(frozen=True, eq=False)
class Descended:
    """A network of L steps on one problem, its states, and what is known of them.

    errors: |w_t - exact iterate t|_2 and |w_t - w*|_2 for t = 0..L. bounds: t sqrt(d) e, and that plus
    e^(-t / (2 kappa)) |w*|; where the problem is not strongly convex the second is infinite.
    """

    net: AttentionNetwork
    states: Floats
    to_iterate: list[float]
    to_optimum: list[float]
    iterate_bounds: list[float]
    optimum_bounds: list[float]
    kappa: float
    radius: float

    @property
    def holds(self) -> bool:
        """Every error is within its bound, at every step."""
        errors, bounds = self.to_iterate + self.to_optimum, self.iterate_bounds + self.optimum_bounds
        return all(error <= bound for error, bound in zip(errors, bounds, strict=True))


def descend(
    problem: Problem,
    step: float,
    steps: int,
    tables: Callable[[float], Slope],
    *,
    looped: bool = True,
    dtype: str = "float64",
) -> Descended:
    """Build the network for the problem, run it on it, and compare with exact arithmetic.

    step: a power of two. u = step x / n is rounded where n is none; what that moves a step by is part of e.
    tables: of f(x) = x for residuals up to the reach that it is given.
    WeightwrightError names a condition of the lemma that fails.
    """
    whole("steps", steps, 1)
    positive("step", step)
    u = step * problem.X / problem.n
    if math.frexp(step)[0] != 0.5:
        raise ValueError(f"step must be a power of two, so that it multiplies exactly, not {step!r}")
    smoothness = 1 / step
    if not curvature_is_between(problem, -1.0, 2 * smoothness):
        raise WeightwrightError(f"step={step!r} exceeds 2/L_f: the lemma on composed steps does not apply")
    optimum = exact_optimum(problem)
    size = length(optimum)
    radius = 2.0 ** math.ceil(math.log2(2.5 * size))
    x, y = float(np.abs(problem.X).max()), float(np.abs(problem.y).max())
    longest = float(np.sqrt((problem.X**2).sum(axis=1)).max()) * (1 + 2.0**-40)
    largest_residual = longest * radius + y
    slope = tables(largest_residual)
    threshold = step * float(problem.l1s.max())
    ranges = Ranges(x, y, radius, float(np.abs(u).max()), threshold)
    shrink = step * problem.ridge
    algorithm = proximal(shrink, dtype) if problem.has_l1 else gradient_descent(shrink, dtype)
    net = descent_network(slope, algorithm, problem.n, problem.d, steps, ranges, dtype, looped)
    error = math.sqrt(problem.d) * proven_bound(net) * (1 + 2.0**-40)
    every = all_states(net, _prompt(problem, net, u, threshold))[:, 0]  # (steps + 1, n, d)
    # tokens whose sums round differently hold different w: the gradient is then not quite that at one w
    lengths = np.sqrt((u**2).sum(axis=1) * (problem.X**2).sum(axis=1)).sum()
    error += largest_distance(every) * float(lengths) * (1 + 2.0**-40)
    error += largest_residual * _rounding_of(problem, step, u)
    if 2 * size + steps * error > radius:
        raise WeightwrightError(f"{steps} steps with an error of {error:.3g} each may leave |w| <= {radius:g}")
    states = every[:, 0]
    exact = fraction_iterates(problem, step, steps)
    kappa = _condition(problem, step)
    falls = [math.exp(-t / (2 * kappa)) * size * (1 + 2.0**-40) for t in range(steps + 1)]
    return Descended(
        net,
        states,
        [distance(w, e) for w, e in zip(states, exact, strict=True)],
        [distance(w, optimum) for w in states],
        [t * error for t in range(steps + 1)],
        [t * error + fall for t, fall in enumerate(falls)],
        kappa,
        radius,
    )


def _rounding_of(problem: Problem, step: float, u: Floats) -> float:
    """The sum over the samples of |u_i - step x_i / n| in exact arithmetic, rounded up: 0 where n is a power of two."""
    off = np.abs(Fraction(step) * fractions(problem.X) / problem.n - fractions(u))
    return float(off.sum()) * (1 + 2.0**-40)  # the 1-norm is at least the 2-norm


def _condition(problem: Problem, step: float) -> float:
    """1/step over a proven lower bound of the curvature; infinite where none is found or 1/step is no upper bound."""
    least = float(np.linalg.eigvalsh(exact_curvature(problem).astype(np.float64))[0]) * (1 - 1e-9)
    return 1 / (step * least) if least > 0 and curvature_is_between(problem, least, 1 / step) else math.inf


def _prompt(problem: Problem, net: AttentionNetwork, u: Floats, threshold: float) -> torch.Tensor:
    """(n, inputs): one token for each sample, w = 0."""
    groups = {"x": problem.X, "u": u, "y": problem.y[:, None], "w": 0 * problem.X, "tau": 0 * problem.X + threshold}
    names = dict.fromkeys(name.split("[")[0] for name in net.network.inputs)
    return torch.tensor(np.concatenate([groups[name] for name in names], axis=1), dtype=net.dtype)


def spectral_identity(tol: float, dtype: str = "float64") -> Callable[[float], Slope]:
    """Tables of f(x) = x with fitted values, for any reach."""
    return lambda reach: spectral_slope("x", RESIDUAL, beyond(reach), tol, dtype)


def anchored_identity(P: int, dtype: str = "float64") -> Callable[[float], Slope]:
    """Tables of f(x) = x with P + 1 of the paper's anchors, for any reach."""
    return lambda reach: faithful_slope("x", RESIDUAL, reach, P, inverse_temperature(reach, P), dtype)
