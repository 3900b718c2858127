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

from weightwright.errors import DomainError, ToleranceError
from weightwright.estimators.solving.kept_networks import certify_or_recall
from weightwright.estimators.solving.plan import DIVERGED, ROOM_EXP, WIDEST_EXP, Plan, make_algorithm
from weightwright.estimators.solving.scaling import power_above
from weightwright.incontext.descent import slope_tables
from weightwright.incontext.networks.descent_network import Ranges, descent_claim
from weightwright.incontext.problem.contexts import Contexts
from weightwright.incontext.problem.loss import Loss
from weightwright.numbers import Floats, rounded
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import DTYPES

#: The error of a table, as a share of the largest slope, unless head_tol is given.
HEAD_TOL = {"float64": 1e-12, "float32": 4e-6}
#: Ranges are this many times the largest numbers of the rehearsal.
ROOM = 1.25
#: The smallest range of numbers that a network is built for: the product of two is a normal number of the dtype, with
#: bits to spare. What is smaller is 0, or nearly, beside the coefficients' unit.
LEAST = {"float64": 2.0**-400, "float32": 2.0**-40}
#: The most networks that are built, each for numbers twice as large, where numbers turn out larger than rehearsed.
TRIES = 4
#: The most numbers of the stream that would be held at once, written out: further contexts run afterwards, in the same
#: memory. 256 MB; a network that runs by pieces takes a hundredth of it.
MOST_NUMBERS = 2**25
#: Where a run leaves the ranges of every network that can be built, this share of its passes is tried next.
FEWER_PASSES = 4
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
    device: str


@functools.lru_cache(maxsize=16)
def build_network(design: NetworkDesign) -> AttentionNetwork:
    slope = slope_tables(design.loss, design.reach, design.head_tol * _steepest(design), design.dtype)
    algorithm = make_algorithm(design.kind, design.condition, np.array(design.shrink), design.dtype)
    sizes = (design.samples, design.features, design.steps)
    wanted = descent_claim(slope, algorithm, *sizes, design.ranges, design.dtype)
    return certify_or_recall(*wanted, replace(design, device="")).to(design.device)


def _steepest(design: NetworkDesign) -> float:
    """The largest slope, about."""
    if design.loss.name == "squared":
        return design.reach[0]
    return math.exp(design.reach[0]) if design.loss.name == "poisson" else 1.0


def design_network(
    contexts: Contexts, plan: Plan, steps: int, head_tol: float | None, dtype: str, device: str
) -> NetworkDesign:
    """The design for these contexts; sizes are rounded up to powers of two."""
    values = plan.step[:, None, None] * contexts.pulls
    largest = ROOM * float(np.abs(contexts.targets).max())

    def reach_of(size: float) -> float:
        return power_above(max(size, LEAST[dtype]) if size > 0 else 0.0)

    ranges = Ranges(
        x=reach_of(float(np.abs(contexts.rows).max())),
        y=reach_of(largest),
        w=power_above(ROOM * max(plan.state, 2.0**-10)),
        value=reach_of(float(np.abs(values).max())),
        tau=reach_of(float((plan.step[:, None] * contexts.l1).max())) if contexts.has_l1 else 0.0,
    )
    return NetworkDesign(
        loss=contexts.loss,
        kind=plan.kind,
        condition=plan.condition,
        shrink=tuple((float(plan.step.max()) * contexts.ridge).tolist()),
        samples=contexts.samples,
        features=contexts.features,
        steps=steps,
        reach=(_reach(contexts.loss, plan.argument), reach_of(largest)),
        ranges=ranges,
        head_tol=HEAD_TOL[dtype] if head_tol is None else head_tol,
        dtype=dtype,
        device=device,
    )


def _reach(loss: Loss, argument: float) -> float:
    """How far the table of the slope goes, in few sizes: powers of two; for exp, which grows with it, whole numbers."""
    if loss.name == "poisson":
        return min(float(math.ceil(min(argument, DIVERGED) + ROOM_EXP)), WIDEST_EXP)
    return power_above(ROOM * max(argument, 2.0**-10))


def _more_reach(loss: Loss, reach: float) -> float:
    return min(reach + 2 * ROOM_EXP, WIDEST_EXP) if loss.name == "poisson" else 2 * reach


def in_few_sizes(count: int) -> int:
    """Rounded up to two leading bits: 1, 2, 3, 4, 6, 8, 12, 16, ..."""
    unit = 2 ** max(count.bit_length() - 2, 0)
    return -(-count // unit) * unit


def prompt_size(samples: int) -> int:
    """Examples in a prompt, rounded up; more than a prompt holds are refused."""
    if samples > MOST_SAMPLES:
        raise ValueError(
            f"X has {samples} samples, and a prompt holds {MOST_SAMPLES}: the map that adds up its tokens grows with"
            " their square. Fit a part of them, or take method='newton-schulz' where there is one"
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
    contexts: Contexts, plan: Plan, max_steps: int, tol: float, head_tol: float | None, dtype: str, device: str
) -> Fixed:
    """The network of the plan, until no step is missing or no more is gained."""

    def run(steps: int, theta: Floats) -> tuple[Floats, AttentionNetwork, int]:
        """As many steps as stay in the ranges of a network that can be built."""
        while True:
            design = design_network(contexts, plan, steps, head_tol, dtype, device)
            try:
                return *_run(contexts, plan, design, theta), steps
            except (DomainError, ToleranceError):
                if steps == 1:
                    return theta, build_network(design), steps
                steps = max(1, steps // FEWER_PASSES)

    most = max_steps if plan.most is None else min(plan.most, max_steps)
    return repeat_runs(contexts, in_few_sizes(plan.needed), most, tol, run)


def repeat_runs(
    contexts: Contexts,
    passes: int,
    max_steps: int,
    tol: float,
    run: Callable[[int, Floats], tuple[Floats, AttentionNetwork, int]],
    worth: float = 0.5,
) -> Fixed:
    """A network again and again on its own answer. passes: of one run. run: from a number of passes and where they
    start to where they end, and how many there were. worth: a run that leaves more than this share of the distance
    is the last."""
    theta, total = contexts.start, 0
    remaining = np.full(len(theta), np.inf)
    while True:
        found, net, taken = run(min(passes, max_steps - total), theta)
        total, passes = total + taken, min(passes, max(taken, 1))
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
        design = replace(design, ranges=ranges, reach=(_more_reach(design.loss, design.reach[0]), design.reach[1]))
    raise last


def last_states(net: AttentionNetwork, prompt: torch.Tensor) -> Floats:
    """The answers, (B, D)."""
    return answers(net, prompt)[:, 0]


def answers(net: AttentionNetwork, prompt: torch.Tensor) -> Floats:
    """(B, tokens, outputs), in as many calls as memory asks for."""
    keys = max(head.sees.block for head in net.network.heads)
    together = max(1, MOST_NUMBERS // (prompt.shape[1] * keys * 4 * len(net.network.embed.coordinates)))
    with torch.no_grad():
        parts = [net(part.to(net.device)) for part in prompt.split(together)]
    return torch.cat(parts).double().cpu().numpy()
