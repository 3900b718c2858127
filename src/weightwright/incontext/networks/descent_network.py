"""Networks that run an algorithm on the examples in their prompt, with certificates: AE-1 to AE-7, AE-16, UA-12.

Statement: for examples (x_i, y_i) and a state w in the prompt, attention computes f(w . x_i - y_i) x_i for every i,
any continuously differentiable f; with f the slope of a loss that is a step of gradient descent, and the same layer
again and again is the algorithm.

Source: AE Theorem 3.1 (D.2), Corollaries 3.1.1 to 3.1.4, Example 2; UA Theorem 4.2 (D.4).
Deviations: a sample sees its own block of keys alone, instead of all keys behind a one-hot code times a large C; the
state is carried by the residual stream; the step size stands in the prompt as u = step x / n (nothing in the paper
puts w into the output). For losses that are no function of w . x - y the anchors have two dimensions.
Hypotheses, checked: |x|, |u|, |y|, |w| within the stated ranges, and every argument of f within `reach`.
Cost: three layers for each table of f, one head each, n P scores a step for P keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.box import Box
from weightwright.certify import certify
from weightwright.claims.prompt import PromptClaim
from weightwright.incontext.networks.passes import Algorithm
from weightwright.incontext.networks.prompted import ReadOut, prompted_network
from weightwright.incontext.networks.slopes import Slope
from weightwright.network import Network
from weightwright.numbers import rounded
from weightwright.runtime import AttentionNetwork


@dataclass(frozen=True)
class Ranges:
    """How large the numbers of a prompt, and the states, may be in size."""

    x: float  # of the examples' entries
    y: float  # of the targets
    w: float  # of the states' entries
    value: float = 0.0  # of u, where it is an input of its own
    tau: float = 0.0  # of the thresholds
    fitted: float = 0.0  # of w.x, for any token; 0: a `learner` takes twice the larger of y and w
    ridge: float = 0.0  # of the penalty that a prompt may ask for


def gradients_network(
    slope: Slope, n: int, d: int, ranges: Ranges, dtype: str = "float64", own_values: bool = False
) -> AttentionNetwork:
    """f(w . x_i, y_i) x_i for each of the n tokens (x_i, y_i, w): AE-1, AE-2. own_values: tokens (x_i, u_i, y_i, w) and
    f(w . x_i, y_i) u_i, AE-8, UA-11."""
    network = prompted_network(n, d, slope.tables, (), None, "gradients", own_values, dtype)
    claim = PromptClaim(d, own_values, "gradients", slope.summands)
    return certify(network, claim, _domain(network.inputs, ranges, dtype))


def descent_network(
    slope: Slope,
    algorithm: Algorithm,
    n: int,
    d: int,
    steps: int,
    ranges: Ranges,
    dtype: str = "float64",
    looped: bool = True,
) -> AttentionNetwork:
    """`steps` steps of the algorithm on n tokens (x_i, u_i, y_i, w, ...): AE-3 to AE-7, UA-12. `bound` is about one
    step. looped: the same weights again; else every step has layers of its own."""
    return certify(*descent_claim(slope, algorithm, n, d, steps, ranges, dtype, looped))


def descent_claim(
    slope: Slope,
    algorithm: Algorithm,
    n: int,
    d: int,
    steps: int,
    ranges: Ranges,
    dtype: str = "float64",
    looped: bool = True,
) -> tuple[Network, PromptClaim, Box]:
    """The weights of `descent_network`, what is claimed of them, and the domain: nothing is proven yet."""
    passes, layers = algorithm.arranged(steps, slope.tables, n, d, dtype, looped)
    network = prompted_network(n, d, slope.tables, passes, layers, algorithm.answer, True, dtype, algorithm.clock)
    claim = PromptClaim(d, True, algorithm.answer, slope.summands, tuple(passes), algorithm.clock)
    return network, claim, _domain(network.inputs, ranges, dtype)


def learner_network(
    slope: Slope,
    read_out: Slope,
    queries: int,
    d: int,
    algorithm: Algorithm,
    steps: int,
    domain: Box,
    dtype: str = "float64",
) -> AttentionNetwork:
    """The same with predictions for the last tokens, read_out(w . x) of the state w after `steps` steps: AE-16. `bound`
    is about one step, and about the read-out from the state that it begins with.

    domain: (tokens, inputs), an interval for every number of the prompt.
    """
    n, (read,) = len(domain.lo), read_out.summands
    passes, layers = algorithm.arranged(steps, slope.tables, n, d, dtype, looped=True, reads=True)
    reads = ReadOut(read_out.tables, queries)
    network = prompted_network(
        n, d, slope.tables, passes, layers, algorithm.answer, True, dtype, algorithm.clock, reads
    )
    claim = PromptClaim(d, True, algorithm.answer, slope.summands, tuple(passes), algorithm.clock, read, queries)
    return certify(network, claim, domain)


def _domain(inputs: tuple[str, ...], ranges: Ranges, dtype: str) -> Box:
    """Every input between minus and plus its range, thresholds from 0 on."""
    sizes = {"x": ranges.x, "u": ranges.value, "y": ranges.y, "w": ranges.w, "p": ranges.w, "tau": ranges.tau}
    hi = np.array([sizes[name.split("[")[0]] for name in inputs])
    hi = rounded(hi, dtype)
    lo = np.where([name.startswith("tau") for name in inputs], 0.0, -hi)
    return Box(lo, hi)
