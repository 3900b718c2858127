"""The network of a plan, its prompts, and running it to its fixed point.

A network is built for sizes: the numbers of samples and features, a loss, an algorithm and how large numbers
get, all rounded up. Data sets of about the same size share one; it is kept.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from weightwright.errors import DomainError
from weightwright.estimators.solving.plan import Plan, make_algorithm
from weightwright.estimators.solving.scaling import power_above
from weightwright.incontext.descent import slope_tables
from weightwright.incontext.networks.descent_network import Ranges, descent_network
from weightwright.incontext.problem.contexts import Contexts
from weightwright.incontext.problem.loss import Loss
from weightwright.numbers import Floats, rounded
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import DTYPES

#: The error of a table, as a share of the largest slope, unless head_tol is given.
HEAD_TOL = {"float64": 1e-12, "float32": 4e-6}
#: Ranges are this many times the largest numbers of the rehearsal.
ROOM = 1.25
#: The most networks that are built, each for numbers twice as large, where numbers turn out larger than rehearsed.
TRIES = 4
#: The most numbers of the stream that are held at once, about: further contexts run afterwards, in the same memory.
MOST_NUMBERS = 2**22
#: The most examples in a prompt: the map that adds up its tokens grows with their square.
MOST_SAMPLES = 2**13


@dataclass(frozen=True)
class NetworkDesign:
    """All that a network is made from."""

    loss: Loss
    kind: str
    condition: float
    shrink: tuple[float, ...]
    samples: int
    features: int
    steps: int
    reach: tuple[float, float]
    ranges: Ranges
    head_tol: float
    dtype: str


@functools.lru_cache(maxsize=16)
def build_network(design: NetworkDesign) -> AttentionNetwork:
    slope = slope_tables(design.loss, design.reach, design.head_tol * _steepest(design), design.dtype)
    algorithm = make_algorithm(design.kind, design.condition, np.array(design.shrink), design.dtype)
    return descent_network(slope, algorithm, design.samples, design.features, design.steps, design.ranges, design.dtype)


def _steepest(design: NetworkDesign) -> float:
    """The largest slope, about."""
    if design.loss.name == "squared":
        return design.reach[0]
    return math.exp(design.reach[0]) if design.loss.name == "poisson" else 1.0


def design_network(contexts: Contexts, plan: Plan, steps: int, head_tol: float | None, dtype: str) -> NetworkDesign:
    """The design for these contexts; sizes are rounded up to powers of two."""
    values = plan.step[:, None, None] * contexts.pulls
    largest = ROOM * float(np.abs(contexts.targets).max())
    ranges = Ranges(
        x=power_above(float(np.abs(contexts.rows).max())),
        y=power_above(largest),
        w=power_above(ROOM * max(plan.state, 2.0**-10)),
        value=power_above(float(np.abs(values).max())),
        tau=power_above(float((plan.step[:, None] * contexts.l1).max())) if contexts.has_l1 else 0.0,
    )
    return NetworkDesign(
        loss=contexts.loss,
        kind=plan.kind,
        condition=plan.condition,
        shrink=tuple((float(plan.step.max()) * contexts.ridge).tolist()),
        samples=contexts.samples,
        features=contexts.features,
        steps=steps,
        reach=(power_above(ROOM * max(plan.argument, 2.0**-10)), power_above(largest)),
        ranges=ranges,
        head_tol=HEAD_TOL[dtype] if head_tol is None else head_tol,
        dtype=dtype,
    )


def in_few_sizes(count: int) -> int:
    """Rounded up to two leading bits: 1, 2, 3, 4, 6, 8, 12, 16, ..."""
    unit = 2 ** max(count.bit_length() - 2, 0)
    return -(-count // unit) * unit


def prompt_size(samples: int) -> int:
    """Examples in a prompt, rounded up; more than a prompt holds are refused."""
    if samples > MOST_SAMPLES:
        raise ValueError(
            f"X has {samples} samples, and a prompt holds {MOST_SAMPLES}: the map that adds up its tokens grows with"
            " their square. Fit a part of them, or take method='newton-schulz' for least squares"
        )
    return in_few_sizes(samples)


def write_prompts(net: AttentionNetwork, contexts: Contexts, step: Floats, theta: Floats) -> torch.Tensor:
    """(B, samples, inputs): the examples, the same times the step, and the state to start from."""
    B, n, D = contexts.rows.shape
    everyone = {
        "x": contexts.rows,
        "u": step[:, None, None] * contexts.pulls,
        "y": np.zeros((B, n, 1)) if contexts.loss.form == "margin" else contexts.targets[..., None],
        "w": np.broadcast_to(theta[:, None], (B, n, D)),
        "p": np.broadcast_to(theta[:, None], (B, n, D)),
        "tau": np.broadcast_to((step[:, None] * contexts.l1)[:, None], (B, n, D)),
    }
    dtype = net.network.dtype
    groups = dict.fromkeys(name.split("[")[0] for name in net.network.inputs)
    return torch.tensor(
        rounded(np.concatenate([everyone[group] for group in groups], axis=2), dtype), dtype=DTYPES[dtype]
    )


@dataclass(frozen=True, eq=False)
class Fixed:
    """theta: (B, D), where the network came to rest. steps: passes in all. remaining: (B,), by estimate."""

    theta: Floats
    steps: int
    remaining: Floats
    network: AttentionNetwork


def run_to_fixed_point(
    contexts: Contexts, plan: Plan, max_steps: int, tol: float, head_tol: float | None, dtype: str
) -> Fixed:
    """The network of the plan, until no step is missing or no more is gained."""

    def run(steps: int, theta: Floats) -> tuple[Floats, AttentionNetwork]:
        return _run(contexts, plan, design_network(contexts, plan, steps, head_tol, dtype), theta)

    return repeat_runs(contexts, in_few_sizes(plan.needed), max_steps, tol, run)


def repeat_runs(
    contexts: Contexts,
    passes: int,
    max_steps: int,
    tol: float,
    run: Callable[[int, Floats], tuple[Floats, AttentionNetwork]],
    worth: float = 0.5,
) -> Fixed:
    """A network again and again on its own answer. passes: of one run. run: from a number of passes and where they
    start to where they end. worth: a run that leaves more than this share of the distance is the last."""
    theta, total = contexts.start, 0
    remaining = np.full(len(theta), np.inf)
    while True:
        steps = min(passes, max_steps - total)
        found, net = run(steps, theta)
        total += steps
        left = contexts.remaining(found)
        better = left < remaining
        gained = bool((left < worth * remaining).any())
        theta = np.where(better[:, None], found, theta)
        remaining = np.minimum(left, remaining)
        if (remaining <= tol).all() or total >= max_steps or not gained:
            return Fixed(theta, total, remaining, net)


def _run(contexts: Contexts, plan: Plan, design: NetworkDesign, theta: Floats) -> tuple[Floats, AttentionNetwork]:
    for _ in range(TRIES):
        net = build_network(design)
        try:
            return last_states(net, write_prompts(net, contexts, plan.step, theta)), net
        except DomainError as error:
            last = error
        ranges = replace(design.ranges, w=2 * design.ranges.w)
        design = replace(design, ranges=ranges, reach=(2 * design.reach[0], design.reach[1]))
    raise last


def last_states(net: AttentionNetwork, prompt: torch.Tensor) -> Floats:
    """The answers, (B, D)."""
    return answers(net, prompt)[:, 0]


def answers(net: AttentionNetwork, prompt: torch.Tensor) -> Floats:
    """(B, tokens, outputs), in as many calls as memory asks for."""
    keys = max(head.sees.block for head in net.network.heads)
    together = max(1, MOST_NUMBERS // (prompt.shape[1] * keys * 4 * len(net.network.embed.coordinates)))
    with torch.no_grad():
        parts = [net(part) for part in prompt.split(together)]
    return torch.cat(parts).double().numpy()
