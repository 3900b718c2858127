"""Learning in one forward pass: a frozen network reads examples and queries and returns predictions (AE-16).

Statement: one network of T looped layers and a read-out takes (x_1, y_1, ..., x_n, y_n, x_q) and returns w_T.x_q, with
w_T the T-th step of gradient descent on the examples. Nothing is read off, rescaled or fed back in between.

Source: AE Theorem 3.1 and Corollaries 3.1.1 and 3.1.2, with the usual definition of in-context learning.
Deviations: the step and the ridge penalty stand in the prompt, so one network serves all of them (AE-6: a penalty is d
further tokens); the inner product w.x_q is a table of the function s, read by the tokens of the queries.
Hypotheses, checked: everything in the prompt within the ranges that the network was built for, and w.x, too, at every
pass; else DomainError.
Cost: three layers for each table of the loss's slope (and one more for the penalty, unless the loss is squared), two to
sum up, T times; three for the read-out. (n + d + m) tokens.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch

from weightwright.errors import DomainError
from weightwright.incontext.answer_bound import AnswerBound, Answered, bound_answer, bound_every_prompt, stack_bounds
from weightwright.incontext.descent import IN_CONTEXT, as_loss, slope_tables
from weightwright.incontext.networks.descent_network import Ranges, learner_network
from weightwright.incontext.networks.passes import Algorithm, gradient_descent, nesterov
from weightwright.incontext.networks.slopes import Slope, bends, spectral_slope
from weightwright.incontext.problem.loss import Loss
from weightwright.incontext.problem.problem import Problem, read_penalty
from weightwright.incontext.prompt_tokens import FEWER, PromptTokens
from weightwright.numbers import Floats, counted, rounded
from weightwright.progress import Progress, show_progress
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.watch import all_states
from weightwright.runtime.weights import dtype_name

#: The error that is asked of a table, as a multiple of the range of its argument, unless another is given.
TABLE_TOL = {"float64": 1e-13, "float32": 4e-6}
#: What numbers may be unless told: x as standard normals are, y and w a few times larger.
USUAL = Ranges(x=4.0, y=16.0, w=8.0, ridge=1.0)
#: The largest step, unless told, suits examples whose root mean square is this share of their range.
USUAL_SIZE = 0.25
#: Room for the rounding of the step that `prompt` chooses, and of step times ridge.
SLACK = 1 + 1e-6


class Learner:
    """What `learner` returns: a frozen network, and the way to write its prompts.

    net: the network, one and the same for all prompts.
    tokens: where everything stands in a prompt.
    ranges: how large its numbers may be.
    steps: how many the network takes.
    algorithm: the method, as passes.
    X: the examples, (n, features); fewer than the network has tokens for are fine.
    X_q: the queries, (queries, features) at most; predictions for missing ones are 0.
    ridge: the penalty ridge/2 |w|^2 on the mean of the losses; a number, or one for each feature.
    weights: how much each example counts, (n,), as class weights do; None: all alike.
    step: its size, up to the largest that the learner was built for; None: 1 over (curvature times the mean of |x|^2,
    plus ridge), which is stable for all examples.
    prompt: what `prompt` returned, or several, stacked: (..., tokens, inputs).
    """

    def __init__(
        self, net: AttentionNetwork, tokens: PromptTokens, ranges: Ranges, steps: int, step: float, algorithm: Algorithm
    ) -> None:
        self.net, self.tokens, self.ranges, self.steps, self.step = net, tokens, ranges, steps, step
        self.loss, self.algorithm, self.dtype = tokens.loss, algorithm, tokens.dtype

    def __repr__(self) -> str:
        t = self.tokens
        return (
            f"Learner({self.loss.name[:30]}, {counted(self.steps, 'step')} of {self.algorithm.name}, at most"
            f" {counted(t.examples, 'example')} of {counted(t.features, 'feature')}, {t.queries} queries, {self.dtype})"
        )

    def prompt(
        self,
        X: Any,
        y: Any,
        X_q: Any,
        ridge: float | Floats = 0.0,
        weights: Any = None,
        step: float | None = None,
    ) -> torch.Tensor:
        """(tokens, inputs): examples, penalty and queries in one tensor.

        With half as many examples as there are tokens for, or fewer, every example stands there several times with
        as much less weight; the tokens that are left are empty.
        """
        problem = self._problem(X, y, ridge, weights)
        queries = self._queries(X_q)
        size = self._step(problem) if step is None else float(step)
        if not (math.isfinite(size) and size > 0):
            raise ValueError(f"step={step!r}: a finite number above 0 is needed")
        written = self.tokens.write(problem, queries, size, np.zeros(self.tokens.features))
        self._require_ranges(written, size)
        return written

    def __call__(self, prompt: torch.Tensor) -> torch.Tensor:
        """The predictions w.x_q, (..., queries): one forward pass."""
        self._require_prompt(prompt)
        try:
            found: torch.Tensor = self.net(prompt)[..., 0]
        except DomainError as error:
            raise DomainError(
                f"{error}. The ranges of a learner are its domain=Ranges(x=..., y=..., w=..., fitted=...): give larger"
                " ones, or scale y down"
            ) from error
        return found

    def bound(self, prompt: torch.Tensor, progress: Progress = True) -> AnswerBound:
        """Proven distances of this answer to the exact algorithm's predictions and to the optimum's, with their parts.

        progress: True says in a terminal or notebook which prompt it is at, once it takes two seconds.
        """
        self._require_prompt(prompt)
        flat = prompt.detach().reshape(-1, *prompt.shape[-2:])
        bounds = []
        with show_progress(progress, "enclosing the exact algorithm") as tell:
            for number, one in enumerate(flat):
                tell(f"enclosing the exact algorithm, prompt {number + 1} of {len(flat)}")
                bounds.append(self._bound(one))
        return stack_bounds(bounds, prompt.shape[:-2])

    def guarantee(self) -> float:
        """No prediction is farther from the exact algorithm's, for any prompt with the step that `prompt` chooses,
        unless its run is refused. For plain descent and convex losses of bounded curvature; ValueError for others."""
        if self.algorithm.answer != "w" or not self.loss.convex:
            what = f"momentum ({self.algorithm.name})" if self.loss.convex else f"the loss {self.loss.name}"
            raise ValueError(f"guarantee: the steps' lemma says nothing about {what}; `bound` encloses a given prompt")
        reach, certificate = _reach(self.loss, self.ranges), self.net.certificate
        assert certificate is not None
        # exact states may be a little farther out than those that are watched
        growth = SLACK * _curvature(self.loss, 2 * reach) / _curvature(self.loss, reach)
        t = self.tokens
        found, off = bound_every_prompt(certificate.bound, self.steps, t.features, self.ranges.x, growth, self.dtype)
        if not (growth <= 2 and 2 * t.features * self.ranges.x * off <= reach):
            raise ValueError(
                f"guarantee: the curvature of {self.loss.name} grows by a factor of {growth:.3g} outside of its range,"
                f" or states drift by {off:.3g}; `bound` encloses a given prompt"
            )
        return found

    def _bound(self, prompt: torch.Tensor) -> AnswerBound:
        written = self.tokens.read(prompt)
        with torch.no_grad():
            predictions = self(prompt).double().numpy()
        state = 1 if self.algorithm.answer == "p" else 0
        states = all_states(self.net, prompt)[-1, state, -self.tokens.queries :]
        answered = Answered(predictions, states)
        return bound_answer(written, answered, self.loss, self.algorithm, self.steps, self.dtype)

    def _problem(self, X: Any, y: Any, ridge: Any, weights: Any) -> Problem:
        t = self.tokens
        penalty = read_penalty("ridge", ridge, t.features)
        given = Problem(X, y, self.loss, weights, penalty)
        if given.d != t.features:
            raise ValueError(f"X has {given.d} features, but the learner was built for features={t.features}")
        if given.n > t.examples:
            raise ValueError(
                f"X has {given.n} examples, but the learner was built for at most examples={t.examples}; build one with"
                f" examples={given.n}"
            )
        if weights is not None:
            if not given.plain_weights.any():
                raise ValueError("weights: all of them are 0; give one example a weight")
            given = dataclasses.replace(given, weights=given.plain_weights / math.fsum(given.plain_weights))
        return dataclasses.replace(given, X=rounded(given.X, self.dtype), y=rounded(given.y, self.dtype))

    def _queries(self, X_q: Any) -> Floats:
        t, given = self.tokens, np.asarray(X_q, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != t.features or not 0 < len(given) <= t.queries:
            raise ValueError(
                f"X_q has shape {given.shape}; (queries, {t.features}) is needed, with 1 to {t.queries} queries"
            )
        if not np.isfinite(given).all():
            raise ValueError("X_q: only finite numbers can be used")
        return rounded(given, self.dtype)

    def _step(self, problem: Problem) -> float:
        """1 over a bound on the largest curvature of the problem, at most the largest step."""
        curvature = _curvature(self.loss, _reach(self.loss, self.ranges))
        largest = curvature * float(problem.plain_weights @ (problem.rows**2).sum(axis=1)) + float(problem.ridges.max())
        return min(self.step, 1 / largest) if largest > 0 else self.step

    def _require_ranges(self, prompt: torch.Tensor, step: float) -> None:
        """DomainError that says what to do where the prompt holds a number that the network was not built for."""
        t, ranges, numbers = self.tokens, self.ranges, np.abs(prompt.double().numpy())
        groups, n = t.groups, t.examples
        asked = numbers[t.count - t.queries :, groups["x"]].max()
        penalty = numbers[t.of_penalty, groups["r" if t.has_r else "u"]].max()
        wider = "scale it down, or build a learner with domain=Ranges({}={:.3g}, ...)"
        faster = "take a smaller step, or build a learner with step={:.3g}"
        held = (
            ("X", numbers[:n, groups["x"]].max(), ranges.x, wider, "x"),
            ("X_q", asked, ranges.x, wider, "x"),
            ("y", numbers[:n, groups["y"]].max(), ranges.y, wider, "y"),
            ("step times weight times X", numbers[:n, groups["u"]].max(), ranges.value, faster, ""),
            ("step times ridge", penalty, self.step * ranges.ridge, f"{faster} or a larger ridge in its domain", ""),
        )
        for what, found, most, remedy, name in held:
            if found > float(rounded(np.array(most), self.dtype)):
                enough = (name, 1.01 * found) if name else (1.01 * self.step * found / most,)
                raise DomainError(
                    f"{what} is up to {found:.6g} in size (step={step:.6g}), and this learner was built for at most"
                    f" {most:.6g}: {remedy.format(*enough)}"
                )

    def _require_prompt(self, prompt: torch.Tensor) -> None:
        shape = (self.tokens.count, len(self.net.network.inputs))
        if not isinstance(prompt, torch.Tensor) or tuple(prompt.shape[-2:]) != shape:
            given = tuple(prompt.shape) if isinstance(prompt, torch.Tensor) else type(prompt).__name__
            raise ValueError(f"prompt: a tensor of shape (..., {shape[0]}, {shape[1]}) is needed, not {given}")


def learner(
    features: int,
    examples: int,
    queries: int,
    loss: str | Loss = "squared",
    steps: int = 100,
    domain: Ranges | None = None,
    step: float | None = None,
    momentum: float = 0.0,
    tol: float | None = None,
    dtype: torch.dtype | str = torch.float64,
    progress: Progress = True,
) -> Learner:
    """A frozen network that learns from the examples in its prompt and predicts, in one forward pass.

    examples: the most that a prompt can have.
    queries: the most points that are predicted at once.
    steps: T; more are nearer to the optimum, and take longer.
    domain: how large the numbers of a prompt may be; None: 4 for x, 16 for y, 8 for w, 1 for ridge.
    step: the largest that a prompt may ask for; None: 16 over (curvature times the square of the range of x).
    momentum: Nesterov's; 0 is plain gradient descent.
    tol: what a table may be off by; None: 1e-13 of the range of its argument (4e-6 in float32), 1e-9 of the slope's
    range where it has kinks.

    >>> icl = learner(features=1, examples=4, queries=2, steps=20)
    >>> prompt = icl.prompt([[1.0], [-1.0], [0.5], [2.0]], [2.0, -2.0, 1.0, 4.0], [[3.0], [-0.5]])
    >>> [round(float(prediction), 6) for prediction in icl(prompt)]
    [6.0, -1.0]
    >>> bool((icl.bound(prompt).to_algorithm < 1e-9).all())
    True
    """
    given, dtype = as_loss(loss), dtype_name(dtype, IN_CONTEXT)
    for name, size in (("features", features), ("examples", examples), ("queries", queries), ("steps", steps)):
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, not {size!r}")
    ranges = _complete(USUAL if domain is None else domain)
    algorithm = nesterov(momentum, 0.0, dtype) if momentum else gradient_descent(0.0, dtype)
    tokens = PromptTokens(int(examples), int(features), int(queries), given, len(algorithm.cycle[0].method), dtype)
    most = _largest_step(given, ranges) if step is None else float(step)
    if not (math.isfinite(most) and most > 0):
        raise ValueError(f"step must be a finite number above 0, not {step!r}")
    if not ranges.value:
        ranges = dataclasses.replace(ranges, value=FEWER * ranges.x * most / examples)
    with show_progress(progress, "fitting the tables") as tell:
        slope, fine = _slope(given, ranges, tol, dtype), TABLE_TOL[dtype] * ranges.fitted
        line = spectral_slope("x", (1.0, 0.0), ranges.fitted, fine if tol is None else tol, dtype)
        if tokens.has_r:
            slope += line.times("r")
        tell("proving the network")
        box = tokens.domain(dataclasses.replace(ranges, ridge=most * ranges.ridge))
        net = learner_network(slope, line.times("one"), int(queries), int(features), algorithm, int(steps), box, dtype)
    return Learner(net, tokens, ranges, int(steps), most, algorithm)


def _slope(loss: Loss, ranges: Ranges, tol: float | None, dtype: str) -> Slope:
    """The tables of l'. Those with kinks, and those in two variables, are as fine as others of their kind."""
    reach = _reach(loss, ranges)
    usual = loss.form == "pair" or bends(loss.slope)
    wanted = tol if tol is not None or usual else TABLE_TOL[dtype] * reach
    return slope_tables(loss, (reach, ranges.y) if loss.form in ("separable", "pair") else reach, wanted, dtype)


def _reach(loss: Loss, ranges: Ranges) -> float:
    """How large the argument of the loss's slope may get: w.x - y, or w.x alone."""
    return ranges.fitted + (ranges.y if loss.form == "residual" else 0.0)


def _complete(ranges: Ranges) -> Ranges:
    """The ranges with what follows from the others; ValueError for what is no range."""
    if not isinstance(ranges, Ranges):
        raise ValueError(f"domain: give weightwright.incontext.Ranges(x=..., y=..., w=...), not {ranges!r}")
    if not ranges.fitted:
        ranges = dataclasses.replace(ranges, fitted=2 * max(ranges.y, ranges.w))
    for name in ("x", "y", "w", "fitted"):
        size = getattr(ranges, name)
        if not (math.isfinite(size) and size > 0):
            raise ValueError(f"domain: {name}={size!r}; a finite number above 0 is needed")
    if not (math.isfinite(ranges.ridge) and ranges.ridge >= 0):
        raise ValueError(f"domain: ridge={ranges.ridge!r}; a finite number that is not negative is needed")
    if ranges.fitted < ranges.w:
        raise ValueError(
            f"domain: fitted={ranges.fitted!r} is below w={ranges.w!r}; the tokens of the penalty have w.x = w, so give"
            f" fitted={ranges.w!r} or more"
        )
    return ranges


def _curvature(loss: Loss, reach: float) -> float:
    """The largest second derivative of the loss for arguments of this size."""
    if loss.form == "pair":
        raise ValueError(f"step=None: the curvature of {loss.name} depends on y; give a step to `learner` and `prompt`")
    return loss.curvature(-reach, reach, 0.0 if loss.form == "separable" else None)


def _largest_step(loss: Loss, ranges: Ranges) -> float:
    return 1 / (_curvature(loss, _reach(loss, ranges)) * (USUAL_SIZE * ranges.x) ** 2)
