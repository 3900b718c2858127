"""Learning from prompts that are written x_1, y_1, x_2, y_2, ...: one frozen network with a causal mask predicts at
every x from the examples before it, in one pass."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from weightwright.claims.certificate import Certificate, measured_in_words, round_up
from weightwright.compiler.compile import compile
from weightwright.compiler.loop.measured_stages import measure_stages
from weightwright.compiler.loop.own_states import compile_stages
from weightwright.errors import DomainError
from weightwright.incontext.errors.prefixes import PrefixErrors, bound_everywhere, enclose_errors, exact_predictions
from weightwright.incontext.networks.causal_network import PrefixDescent, all_steps, stages
from weightwright.incontext.networks.descent_network import Ranges
from weightwright.numbers import FORMATS, Floats, counted
from weightwright.progress import Progress, show_progress
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import DTYPES
from weightwright.runtime.weights import dtype_name

#: The dtypes that prompts are written in.
IN_CONTEXT = ("float64", "float32")
#: Ranges that standard normal examples with w of the same kind stay in, but for about one number in a million.
USUAL = Ranges(x=5.0, y=32.0, w=16.0)
#: What a pass may be off by, as a share of the largest product in it, in units of the dtype's precision.
UNITS = 2.0**12


def causal_learner(
    features: int,
    examples: int,
    steps: int,
    *,
    step: float | None = None,
    ridge: float = 0.0,
    domain: Ranges | tuple[float, float, float] | None = None,
    tol: float | None = None,
    dtype: torch.dtype | str = torch.float64,
    proof: Literal["proven", "measured"] = "proven",
    progress: Progress = True,
) -> CausalLearner:
    """One frozen network that reads x_1, y_1, x_2, y_2, ... and predicts at every x from the examples before it.

    It runs gradient descent on the squared loss with a ridge penalty, from w = 0, on every prefix at once: the mean is
    over `examples` examples, those that are still to come counting as 0, so that one step size serves all prefixes.

    examples: the most examples that a prompt can have.
    step: None: 1 over the curvature that as many standard normal examples have at most, about (1 + sqrt(d/n))^2.
    ridge: the penalty ridge/2 |w|^2.
    domain: how large the numbers of x, of y and of w may get, in size; None: 5, 32 and 16.
    tol: what one pass, and the sums that it begins with, may be off by; None: what suits dtype and domain.
    proof: "measured" proves nothing, and says the largest error of both that was seen.

    >>> import numpy as np, weightwright as ww
    >>> icl = ww.incontext.causal_learner(features=1, examples=3, steps=8, step=1.0, domain=(1.0, 2.0, 4.0))
    >>> predicted = icl.predict(np.array([[1.0], [0.5], [-1.0]]), np.array([2.0, 1.0, -2.0]))
    >>> icl.net.certificate.status, predicted.shape, float(predicted[0])
    ('PROVEN', torch.Size([3]), 0.0)
    """
    for name, size in (("features", features), ("examples", examples), ("steps", steps)):
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, not {size!r}")
    if proof not in ("proven", "measured"):
        raise ValueError(f"proof must be 'proven' or 'measured', not {proof!r}")
    d, n = int(features), int(examples)
    ridge, ranges = _number("ridge", ridge, least=0.0), _ranges(domain)
    if step is None:
        step = 1.0 / ((1.0 + math.sqrt(d / n)) ** 2 + ridge)
    descent = PrefixDescent(d, n, int(steps), _number("step", step), ridge, ranges)
    held = dtype_name(dtype, IN_CONTEXT)
    tol = _usual_tol(descent, held) if tol is None else _number("tol", tol)
    with show_progress(progress, "tracing") as tell:
        both = stages(descent)
        make = compile_stages if proof == "proven" else measure_stages
        return CausalLearner(descent, make(both, descent.steps + 1, tol, held, tell))


class CausalLearner:
    """What `causal_learner` returns: a frozen network, its prompts, and what is proven of its predictions.

    descent: the algorithm and its numbers.
    net: the network, (..., 2 examples, features + 1) -> (..., 2 examples, 1): it saves, exports and checks as any.
    """

    def __init__(self, descent: PrefixDescent, net: AttentionNetwork) -> None:
        self.descent, self.net = descent, net

    def __repr__(self) -> str:
        one, said = self.descent, self.net.certificate
        sizes = f"{counted(one.features, 'feature')}, {counted(one.examples, 'example')}, {counted(one.steps, 'step')}"
        known = ""
        if said is not None and said.measured is not None:
            known = f"; one pass: {measured_in_words(said)} {said.measured.error:.3g}, {said.status}"
        elif said is not None:
            known = f"; one pass: bound {round_up(said.bound)}, {said.status}"
        return f"CausalLearner({sizes}, step {one.step:.4g}, ridge {one.ridge:.4g}{known})"

    @property
    def certificate(self) -> Certificate | None:
        """Of the network: `bound` is about one pass, and about the sums that the first begins with."""
        return self.net.certificate

    def prompt(self, X: Any, y: Any) -> Tensor:
        """(..., 2 examples, features + 1): tokens (x, 0) and (0, y) for every example, zeros for those to come.

        X: (..., m, features), m at most `examples`. In float32 numbers are rounded here, before all that is proven.
        y: (..., m), or (..., m - 1): no prediction takes the last target.
        """
        d, n, dtype = self.descent.features, self.descent.examples, self.net.dtype
        x, targets = _tensor("X", X, dtype), _tensor("y", y, dtype)
        if x.ndim < 2 or x.shape[-1] != d or not 1 <= x.shape[-2] <= n:
            raise ValueError(f"X must have the shape (..., m, {d}) with m from 1 to {n}, not {tuple(x.shape)}")
        m = x.shape[-2]
        if targets.ndim < 1 or targets.shape[:-1] != x.shape[:-2] or targets.shape[-1] not in (m, m - 1):
            given = f"{tuple(targets.shape)} for X of shape {tuple(x.shape)}"
            raise ValueError(f"y must have a target for every example, or for all but the last, not {given}")
        prompt = torch.zeros(*x.shape[:-2], 2 * n, d + 1, dtype=dtype)
        prompt[..., 0 : 2 * m : 2, :d] = x
        prompt[..., 1 : 2 * targets.shape[-1] : 2, d] = targets
        return prompt.to(self.net.device)

    def __call__(self, prompt: Tensor) -> Tensor:
        """(..., examples): the prediction at every x, in one pass of the network."""
        predicted: Tensor = self.net(prompt)
        return predicted[..., 0::2, 0]

    def predict(self, X: Any, y: Any) -> Tensor:
        """(..., m): the prediction at every x from the examples before it.

        X: (..., m, features), m at most `examples`.
        y: (..., m), or (..., m - 1): no prediction takes the last target.
        """
        prompt = self.prompt(X, y)
        with torch.no_grad():
            return self(prompt)[..., : np.shape(X)[-2]]

    def exact(self, X: Any, y: Any) -> Floats:
        """(m,): what the algorithm predicts in exact arithmetic, rounded to floats: for one prompt.

        X: (m, features).
        y: (m,), or (m - 1,).
        """
        return exact_predictions(self.descent, *self._examples(self.prompt(X, y), np.shape(X)[-2]))

    def bound(self, prompt: Tensor | None = None) -> float | PrefixErrors:
        """How far predictions are from exact descent on the prefix, at most: proven.

        prompt: None: of any prompt in the domain, a number; infinite where the step is so large that errors of single
        passes may grow. A prompt, (2 examples, features + 1): of each of its predictions, and how far these are from
        exact descent and from the optimum. Infinite where the network is only measured, was edited, or not checked.
        """
        said = self.net.certificate
        bound = said.bound if said is not None and said.status in ("PROVEN", "CONDITIONAL") else math.inf
        if prompt is None:
            return bound_everywhere(self.descent, bound) if math.isfinite(bound) else math.inf
        if prompt.shape != (self.descent.tokens, self.descent.features + 1):
            shape = (self.descent.tokens, self.descent.features + 1)
            raise ValueError(f"prompt must be one prompt, of shape {shape}, not {tuple(prompt.shape)}")
        with torch.no_grad():
            predicted = self(prompt).double().cpu().numpy()
        X, y = self._examples(prompt, self.descent.examples)
        found = enclose_errors(self.descent, X, y, predicted, bound if math.isfinite(bound) else 0.0)
        if math.isfinite(bound):
            return found
        return PrefixErrors(np.full_like(found.bounds, math.inf), found.arithmetic, found.missing, found.optimum)

    def unroll(self, tol: float, *, progress: Progress = True) -> AttentionNetwork:
        """The same algorithm without a loop, for a few steps: an attention-only network that a plain Transformer with a
        causal mask can load (`to_transformer_lens`), (..., 2 examples, features + 1) -> (..., 2 examples, 1). Its bound
        is about all steps together; ToleranceError where ranges that grow from step to step leave none of at most tol.

        tol: what a prediction may be off by.
        """
        one, largest = self.descent, [self.descent.ranges.x] * self.descent.features + [self.descent.ranges.y]
        box = (-np.array(largest), np.array(largest))
        held = self.net.network.dtype
        return compile(all_steps(one), box, tol, tokens=one.tokens, dtype=DTYPES[held], progress=progress)

    def _examples(self, prompt: Tensor, m: int) -> tuple[Floats, Floats]:
        """X and y as they stand in a prompt, the first m of them."""
        held, d = prompt.double().cpu().numpy(), self.descent.features
        if held.ndim != 2:
            raise ValueError(f"one prompt at a time, not {held.shape[:-2]}")
        return held[0 : 2 * m : 2, :d], held[1 : 2 * m : 2, d]


def _usual_tol(descent: PrefixDescent, dtype: str) -> float:
    largest = float(descent.sizes.max()) * max(1.0, descent.ranges.x)
    return UNITS * 2.0 ** -FORMATS[dtype].bits * largest


def _number(name: str, value: Any, least: float | None = None) -> float:
    """A finite float above 0, or at least `least`."""
    right = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    number = float(value) if right else math.nan
    if not (math.isfinite(number) and (number > 0 if least is None else number >= least)):
        wanted = "above 0" if least is None else f"of at least {least:g}"
        raise ValueError(f"{name} must be a finite number {wanted}, not {value!r}")
    return number


def _ranges(domain: Any) -> Ranges:
    if domain is None:
        return USUAL
    sizes = (domain.x, domain.y, domain.w) if isinstance(domain, Ranges) else domain
    try:
        x, y, w = sizes
    except (TypeError, ValueError):
        said = "the largest sizes of x, y and w, as in domain=(5.0, 32.0, 16.0)"
        raise DomainError(f"domain must be three numbers, {said}; not {domain!r}") from None
    return Ranges(*(_number(f"domain: the size of {name}", size) for name, size in (("x", x), ("y", y), ("w", w))))


def _tensor(name: str, given: Any, dtype: torch.dtype) -> Tensor:
    try:
        found = given.detach() if isinstance(given, Tensor) else torch.tensor(np.asarray(given))
        if found.is_complex() or found.dtype == torch.bool:
            raise TypeError(f"{found.dtype} was given")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None
    return found.to(device="cpu", dtype=dtype)
