"""`algorithm`: an update rule in PyTorch becomes a looped attention network, beside the plain rule.

The examples are the tokens; every token also holds a copy of the state. One pass of the loop is the rule, proven within
a bound for all examples and states of two boxes; what many passes add up to is measured, run by run.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch

from weightwright.approximation.several import Proof
from weightwright.approximation.task import well_formed
from weightwright.box import Box
from weightwright.compiler.attempts import Compiled
from weightwright.compiler.loop.measured_rules import measure_rule
from weightwright.compiler.loop.proven_rules import compile_rule, is_still
from weightwright.compiler.loop.rehearsal import RuleRehearsal, width
from weightwright.errors import DomainError, ToleranceError
from weightwright.incontext.rule_runs import AlgorithmRun
from weightwright.numbers import Bools, Floats, counted
from weightwright.progress import Progress, Tell, show_progress
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.watch import passes


def algorithm(*, steps: int) -> Callable[[Callable[..., Any]], Rule]:
    """A decorator: rule(examples (n, e), state (s,)) -> the new state (s,).

    steps: how often one call of the network runs it.

    >>> import torch, weightwright as ww
    >>> @ww.incontext.algorithm(steps=20)
    ... def mean(x, m):  # of all examples, by gradient descent
    ...     return m - 0.5 * (m - x.mean(dim=0))
    >>> run = mean.run([[1.0], [2.0], [6.0]], [0.0])
    >>> run.net.certificate.status, abs(float(run.state[0]) - 3.0) < 1e-5
    ('PROVEN', True)
    """
    if callable(steps) or not _whole(steps):
        raise ValueError(f"steps must be a whole number of at least 1, as in @algorithm(steps=10), not {steps!r}")
    return lambda rule: Rule(rule, int(steps))


class Rule:
    """A rule that can be called as it was written, compiled, and run as a network. See `algorithm`.

    rule: rule(examples (n, e), state (s,)) -> the new state (s,), in torch operations.
    steps: how often one call of the network runs it.
    """

    def __init__(self, rule: Callable[..., Any], steps: int) -> None:
        if not callable(rule):
            raise ValueError(f"rule must be a function of (examples, state), not {rule!r}")
        try:
            inspect.signature(rule).bind(None, None)
        except TypeError as error:
            raise ValueError(f"rule must be a function of (examples, state): {error}") from None
        self.rule, self.steps = rule, steps
        self.name = getattr(rule, "__name__", type(rule).__name__)
        self._compiled: dict[Any, AttentionNetwork] = {}
        functools.update_wrapper(self, rule)

    def __repr__(self) -> str:
        return f"Rule({self.name}, {counted(self.steps, 'step')})"

    def __call__(self, examples: Any, state: Any) -> Any:
        return self.rule(examples, state)

    def compile(
        self,
        examples: Box | tuple[Any, Any],
        state: Box | tuple[Any, Any],
        samples: int,
        tol: float = 1e-9,
        *,
        proof: Proof = "proven",
        on_domain: Literal["raise", "ignore"] = "raise",
        progress: Progress = True,
    ) -> AttentionNetwork:
        """A network whose loop runs the rule `steps` times, on (samples, e + s): every token an example and the state.

        examples: an interval for each feature, or for each example and feature.
        state: an interval for each of its numbers; one that leaves it on the way raises DomainError.
        samples: how many examples there are.
        tol: what one pass may be off by, from anything inside the boxes.
        proof: "proven"; "measured" needs examples, and is for `run`.
        on_domain: "raise" or "ignore", for states that leave their box.

        Every token returns the last state.
        """
        well_formed(self.rule, tol)
        if _known_proof(proof) == "measured":
            raise ValueError("proof='measured' needs examples and a first state to rehearse with: use run")
        if on_domain not in ("raise", "ignore"):
            raise ValueError(f"on_domain must be 'raise' or 'ignore', not {on_domain!r}: states cannot be clamped")
        if not _whole(samples):
            raise ValueError(f"samples must be a whole number of at least 1, not {samples!r}")
        of_examples, of_state = _box("examples", examples), _box("state", state)
        _fitting(of_examples, of_state, int(samples))
        key = (of_examples, of_examples.lo.shape, of_state, int(samples), float(tol))
        made = self._kept(key, int(samples), of_examples, of_state)
        if made is None:
            with show_progress(progress, "compiling the rule") as tell:
                made = self._compiled[key] = compile_rule(
                    self.rule, self.name, self.steps, int(samples), of_examples, of_state, tol, progress=tell
                )
        net = AttentionNetwork(made.network, made.certificate, on_domain)
        net.about = made.about
        return net

    def _kept(self, key: Any, samples: int, examples: Box, state: Box) -> AttentionNetwork | None:
        """What was compiled before, if the rule still is what it was: it may read what has changed since."""
        made = self._compiled.get(key)
        if made is None:
            return None
        assert isinstance(made.about, Compiled)
        return made if is_still(self.rule, made.about.graph, samples, examples, state) else None

    def plain(self, examples: Any, first: Any) -> Floats:
        """(steps + 1, s): the states of the rule as it was written, run by PyTorch in float64.

        examples: (n, e).
        first: the state before the first step, (s,).
        """
        x, state = _tensor("examples", examples, 2), _tensor("first", first, 1)
        found = [state]
        for step in range(self.steps):
            found.append(self._stepped(x, found[-1], step))
        return torch.stack(found).numpy()

    def run(
        self,
        examples: Any,
        first: Any,
        *,
        examples_box: Box | tuple[Any, Any] | None = None,
        state_box: Box | tuple[Any, Any] | None = None,
        room: float = 0.125,
        tol: float = 1e-9,
        proof: Proof = "proven",
        progress: Progress = True,
    ) -> AlgorithmRun:
        """Run the network on these examples, beside the plain rule.

        examples: (n, e).
        first: the state before the first step, (s,).
        examples_box: what examples may be; None: all that these are, and room.
        state_box: what states may be; None: all that a rehearsal of the plain rule meets, and room.
        room: this times the width, on either side of what a rehearsal meets.
        tol: what one pass may be off by.
        proof: "proven" or "measured".

        Networks are kept, so that the same boxes are compiled once.

        proof="measured" is for rules that ranges over whole boxes cannot show to be defined, such as u / u.norm(): the
        rehearsal also finds where all columns lie, and the network is made for these examples and for states near those
        that were met. Its status is MEASURED, `bound` is infinite; a pass that is off by more than tol is a
        ToleranceError.
        """
        _known_proof(proof)
        if not (isinstance(room, int | float) and np.isfinite(room) and room > 0):
            raise ValueError(f"room must be a finite number above 0, not {room!r}")
        x, state = _tensor("examples", examples, 2), _tensor("first", first, 1)
        plain = self.plain(x, state)
        of_examples = _around(x.numpy(), room) if examples_box is None else _box("examples_box", examples_box)
        of_state = _around(plain, room) if state_box is None else _box("state_box", state_box)
        sizes, given = (x.shape[1], len(state)), (of_examples.lo.shape[-1], of_state.lo.shape[-1])
        if sizes != given:
            raise DomainError(
                f"examples and first have {sizes[0]} and {sizes[1]} numbers, the boxes {given[0]} and {given[1]}"
            )
        with show_progress(progress, "compiling the rule") as tell:
            if proof == "measured":
                rehearsal = RuleRehearsal(x.numpy(), plain[:-1], float(room))
                net = self._measured(of_examples, of_state, tol, rehearsal, tell)
            else:
                net = self.compile(of_examples, of_state, len(x), tol, progress=tell)
            prompt = torch.cat([x, state.expand(len(x), -1)], dim=1)
            tell("running")
            states = passes(net, prompt)[:, 0]  # as the first token has them
        steps = [self._stepped(x, torch.tensor(states[k]), k).numpy() for k in range(self.steps)]
        run = AlgorithmRun(self.name, states, plain, np.stack(steps), net)
        if proof == "measured" and not run.errors.max() <= tol:
            worst = int(run.errors.argmax())
            raise ToleranceError(
                f"{self.name}: pass {worst + 1} is off by {run.errors[worst]:.3g}, above tol={tol:g}: the run left"
                " what was rehearsed. Ask for more room, or for a larger tol"
            )
        return run

    def _measured(
        self, examples: Box, state: Box, tol: float, rehearsal: RuleRehearsal, progress: Tell
    ) -> AttentionNetwork:
        well_formed(self.rule, tol)
        _fitting(examples, state, len(rehearsal.examples))
        within = _within(rehearsal.states, state)
        if not within[0]:
            raise DomainError(f"first = {rehearsal.states[0].tolist()} is outside the state box {state}")
        wrong = np.flatnonzero(~_within(rehearsal.examples, examples))
        if len(wrong):
            row = rehearsal.examples[wrong[0]].tolist()
            raise DomainError(f"examples: row {wrong[0]}, {row}, is outside the examples box {examples}")
        inside = replace(rehearsal, states=rehearsal.states[within])
        key = (examples, state, float(tol), inside.examples.tobytes(), inside.states.tobytes(), inside.room)
        made = self._kept(key, len(inside.examples), examples, state)
        if made is None:
            made = self._compiled[key] = measure_rule(
                self.rule, self.name, self.steps, examples, state, tol, inside, progress=progress
            )
        net = AttentionNetwork(made.network, made.certificate)
        net.about = made.about
        return net

    def _stepped(self, x: torch.Tensor, state: torch.Tensor, step: int) -> torch.Tensor:
        try:
            with torch.enable_grad():  # a rule may take gradients
                new = self.rule(x.clone(), state.clone())  # and change its arguments
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            shapes = f"examples of shape {tuple(x.shape)} and a state of shape {tuple(state.shape)}"
            raise ValueError(f"{self.name} fails for {shapes}: {error}") from error
        if not isinstance(new, torch.Tensor) or new.shape != state.shape:
            got = tuple(new.shape) if isinstance(new, torch.Tensor) else type(new).__name__
            raise ValueError(f"{self.name} must return the new state, of shape {tuple(state.shape)}, not {got}")
        if not torch.isfinite(new).all():
            raise ValueError(f"{self.name}: step {step + 1} makes {new.tolist()} of the state {state.tolist()}")
        return new.detach().double()


def _known_proof(proof: Any) -> Any:
    if proof not in ("proven", "measured"):
        raise ValueError(f"proof must be 'proven' or 'measured', not {proof!r}")
    return proof


def _whole(size: Any) -> bool:
    return isinstance(size, int | np.integer) and not isinstance(size, bool) and bool(size >= 1)


def _box(name: str, given: Box | tuple[Any, Any]) -> Box:
    try:
        return Box.of(given)
    except DomainError as error:
        raise DomainError(f"{name}: {error}") from None


def _fitting(examples: Box, state: Box, samples: int) -> None:
    if examples.lo.ndim == 2 and len(examples.lo) != samples:
        raise DomainError(f"examples: a box for {len(examples.lo)} examples, but samples={samples!r}")
    if state.lo.ndim != 1:
        raise DomainError(f"state: a box has one interval for each number, not the shape {state.lo.shape}")


def _within(rows: Floats, box: Box) -> Bools:
    """(count,): which rows lie in the box."""
    return np.logical_and.reduce((rows >= box.lo) & (rows <= box.hi), axis=1)


def _tensor(name: str, given: Any, ndim: int) -> torch.Tensor:
    """A float64 tensor with ndim axes, none of them empty, with finite numbers only."""
    try:
        x = given.detach() if isinstance(given, torch.Tensor) else torch.tensor(np.array(given, order="C"))
        if x.is_complex() or x.dtype == torch.bool:
            raise TypeError(f"{x.dtype} was given")
        x = x.to(device="cpu", dtype=torch.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None
    what = "(n, features), an example a row" if ndim == 2 else "(s,), the numbers of the state"
    if x.ndim != ndim or not x.numel():
        raise ValueError(f"{name} must have the shape {what}, not {tuple(x.shape)}")
    wrong = ~torch.isfinite(x)
    if wrong.any():
        at = tuple(int(i) for i in wrong.nonzero()[0])
        raise ValueError(f"{name} must be finite, but entry {list(at)} is {float(x[at])!r}")
    return x


def _around(rows: Floats, room: float) -> Box:
    """All rows, and some room; where nothing varies, room around the number itself."""
    more = room * width(rows)
    return Box(rows.min(axis=0) - more, rows.max(axis=0) + more)
