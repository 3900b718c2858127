"""The prompts of a `learner`: examples, a penalty and queries as tokens of one tensor, written and read again.

    token        x      u               r             y    w
    example      x_i    step c_i x_i    0             y_i  start
    penalty      e_j    step ridge e_j  or here       0    start     one for each feature j
    query        x_q    0               0             0    start

A pass adds up f(w.x, y) u over all tokens. So examples pull, queries do not, and a penalty's token pulls with
step ridge w_j: for the squared loss f(w.e_j, 0) is w_j itself and the values stand in u; any other loss has a second
function, h(s) = s, for values that stand in r. Tokens that nothing is written to are 0 and add nothing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from flint import arb

from weightwright.box import Box
from weightwright.enclosures.balls.linear_algebra import Balls
from weightwright.incontext.networks.descent_network import Ranges
from weightwright.incontext.problem.loss import Loss
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import SMALLEST, UNIT, Floats, rounded
from weightwright.runtime.module import DTYPES

#: What is 0 in every prompt ranges between minus and plus this: an interval of the domain has a length.
NOTHING = 2.0**-100
#: A prompt may have this many times fewer examples than there are tokens for; with less, examples stand there twice.
FEWER = 2.0


@dataclass(frozen=True)
class Written:
    """What a prompt says, its floats meant exactly."""

    rows: Floats  # (n, d): the x of all examples whose u is not 0
    y: Floats  # (n,)
    values: Floats  # (n, d): their u
    shrinks: Floats  # (d,): step times ridge
    queries: Floats  # (m, d)
    start: Floats  # (d,)


@dataclass(frozen=True, eq=False)
class WrittenProblem(Problem):
    """A problem whose weights and ridge penalties are known as well as a prompt tells them: within `share` of each.

    All of its bounds hold for every problem with such weights, so for the one that the prompt was written from.
    """

    share: float = 0.0

    def sample_weights(self) -> Balls:
        """The c_i, each as a ball."""
        return self._known(super().sample_weights())

    def ridge_balls(self) -> Balls:
        """The ridge penalty of every fitted number, as a ball."""
        return self._known(super().ridge_balls())

    def _known(self, numbers: Balls) -> Balls:
        return [number * arb(1, self.share) for number in numbers]


@dataclass(frozen=True)
class PromptTokens:
    """Where everything stands in the prompts of one network."""

    examples: int
    features: int
    queries: int
    loss: Loss
    states: int  # 1, or 2 with momentum
    dtype: str

    @property
    def has_r(self) -> bool:
        """Whether a penalty's values stand in r."""
        return not self.loss.is_quadratic

    @property
    def count(self) -> int:
        """Tokens of a prompt."""
        return self.examples + self.features + self.queries

    @property
    def groups(self) -> dict[str, slice]:
        """The columns of each group of inputs."""
        d, r, p = self.features, ("r",) if self.has_r else (), ("p",) if self.states == 2 else ()
        sizes = {name: 1 if name == "y" else d for name in ("x", "u", *r, "y", "w", *p)}
        ends = np.cumsum(list(sizes.values())).tolist()
        return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}

    @property
    def of_penalty(self) -> slice:
        """Its tokens."""
        return slice(self.examples, self.examples + self.features)

    def domain(self, ranges: Ranges) -> Box:
        """(tokens, inputs): what every number may be. ranges.ridge: of step times ridge here."""
        groups, penalty, asked = self.groups, self.of_penalty, slice(self.count - self.queries, self.count)
        hi = np.full((self.count, groups["w"].stop if self.states == 1 else groups["p"].stop), NOTHING)
        hi[: self.examples, groups["x"]] = hi[asked, groups["x"]] = ranges.x
        hi[: self.examples, groups["u"]] = ranges.value
        if self.loss.form != "margin":  # the label is part of x
            hi[: self.examples, groups["y"]] = ranges.y
        for name in ("w", "p")[: self.states]:
            hi[:, groups[name]] = ranges.w
        own = np.eye(self.features, dtype=bool)
        hi[penalty, groups["x"]][own] = 1.0
        hi[penalty, groups["r" if self.has_r else "u"]][own] = max(ranges.ridge, NOTHING)
        hi = rounded(hi, self.dtype)
        return Box(-hi, hi)

    def write(self, problem: Problem, queries: Floats, step: float, start: Floats) -> torch.Tensor:
        """(tokens, inputs). u and r are step times weight times x, and step times ridge, exactly, then rounded."""
        groups, n = self.groups, problem.n
        prompt = np.zeros((self.count, max(group.stop for group in groups.values())))
        copies = self.examples // n
        exact = [Fraction(step) * c / copies for c in problem.exact_weights()]
        rows = zip(exact, problem.rows.tolist(), strict=True)
        values = np.array([[float(c * Fraction(x)) for x in row] for c, row in rows])
        for copy in range(copies):
            place = slice(copy * n, (copy + 1) * n)
            prompt[place, groups["x"]], prompt[place, groups["u"]] = problem.rows, values
            if self.loss.form != "margin":
                prompt[place, groups["y"]] = problem.y[:, None]
        prompt[self.of_penalty, groups["x"]] = np.eye(self.features)
        pulls = [float(Fraction(step) * ridge) for ridge in problem.exact_ridges()]
        prompt[self.of_penalty, groups["r" if self.has_r else "u"]] = np.diag(pulls)
        prompt[self.count - self.queries :][: len(queries), groups["x"]] = queries
        for name in ("w", "p")[: self.states]:
            prompt[:, groups[name]] = start
        return torch.tensor(rounded(prompt, self.dtype), dtype=DTYPES[self.dtype])

    def read(self, prompt: torch.Tensor) -> Written:
        """What stands in a prompt; ValueError where it is none of this network."""
        numbers, groups = prompt.double().numpy(), self.groups
        held = {name: numbers[:, columns] for name, columns in groups.items()}
        states = np.concatenate([held[name] for name in ("w", "p")[: self.states]])
        if not (states == states[:1]).all():
            raise ValueError("prompt: its tokens hold different states; `prompt` writes one start to all of them")
        penalty, asked = self.of_penalty, slice(self.count - self.queries, self.count)
        pulls = held["r" if self.has_r else "u"][penalty]
        shrinks, one_each = np.diagonal(pulls).copy(), held["x"][penalty] == np.eye(self.features)
        elsewhere = [pulls - np.diag(shrinks), held["u"][asked], held["y"][self.examples :]]
        if self.has_r:
            elsewhere += [held["r"][: self.examples], held["r"][asked], held["u"][penalty]]
        if not one_each.all() or any(part.any() for part in elsewhere):
            raise ValueError("prompt: penalty and queries are not where `prompt` writes them")
        used = held["u"][: self.examples].any(axis=1)
        if not used.any():
            raise ValueError("prompt: no example has a weight; give one whose x is not 0")
        own = {name: held[name][: self.examples][used] for name in ("x", "u", "y")}
        return Written(own["x"], own["y"][:, 0], own["u"], shrinks, held["x"][asked], states[0])


def problem_of(written: Written, loss: Loss, dtype: str) -> WrittenProblem:
    """The problem that a prompt was written from, times its step: weights step c_i and ridge penalties step ridge.

    ValueError where the u of an example is no multiple of its x.
    """
    unit = UNIT[dtype]
    best = np.abs(written.values).argmax(axis=1)
    rows = np.arange(len(best))
    u, x = written.values[rows, best], written.rows[rows, best]
    with np.errstate(all="ignore"):
        weights = u / x
        off = np.abs(written.values - weights[:, None] * written.rows)
        fits = (off <= 8 * unit * np.abs(written.values) + SMALLEST[dtype]).all(axis=1) & (np.abs(u) >= SMALLEST[dtype])
    for i in np.flatnonzero(~(fits & (weights > 0))):
        raise ValueError(f"prompt: u of example {i} is no positive multiple of its x, so it has no weight")
    margin = loss.form == "margin"  # the label is part of x
    y = np.ones(len(u)) if margin else written.y
    plain = Problem(written.rows, y, loss, weights, written.shrinks)
    given = {part.name: getattr(plain, part.name) for part in dataclasses.fields(Problem)}
    # u was rounded (in float32 twice), so were the quotient, the weight and the sum that it was divided by
    return WrittenProblem(**given, share=8 * unit)
