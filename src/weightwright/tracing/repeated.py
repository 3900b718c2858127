"""Tracing again: a function that is another one at every call (random, or with a memory) is refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from weightwright.claims.graph import MIX, Graph, Node
from weightwright.errors import NotRepeatable
from weightwright.expressions import Expression, Number, Variable, shortened
from weightwright.expressions.nodes import fold
from weightwright.numbers import Floats

T = TypeVar("T")

#: The generators' states for the calls after the first. One more call is enough to see most of what changes; where
#: random numbers were drawn all are made, since draws may agree by chance, as dropped elements do.
SEEDS = tuple(range(101, 117))
THE_SAME = (
    "a compiled function is the same at every call: leave randomness out (call .eval() on a module), and read nothing"
    " that a call changes"
)


def repeated(trace: Callable[[], T], difference: Callable[[T, T], str], name: str) -> T:
    """What `trace` returns, if it returns the same again. difference: in words, empty if there is none."""
    with keep_randomness():
        before = _states()
        first = trace()
        seeds = SEEDS[:1] if _states() == before else SEEDS
        for seed in seeds:
            torch.default_generator.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed)
            try:
                again = trace()
            except Exception as error:
                raise NotRepeatable(f"{name} can be called once only, then it fails: {error}; {THE_SAME}") from error
            found = difference(first, again)
            if found:
                raise NotRepeatable(f"{name} is not the same at every call: {found}; {THE_SAME}")
    return first


@contextmanager
def keep_randomness() -> Iterator[None]:
    """Random numbers drawn inside do not change those that the caller draws afterwards."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    pythons, numpys = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(pythons)
        np.random.set_state(numpys)


def _states() -> tuple[Any, ...]:
    kind, key, *rest = np.random.get_state()
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), np.asarray(key).tobytes(), (kind, *rest)


def place_of(function: Any) -> str:
    """The name of a function and where it is defined, as far as that is known."""
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(function, "__code__", None)
    return f"{name} ({Path(code.co_filename).name}:{code.co_firstlineno})" if code is not None else name


def graphs_differ(first: Graph, second: Graph) -> str:
    """The first column that is another one."""
    for a, b in zip(first.nodes, second.nodes, strict=False):
        found = _columns_differ(a, b) or _constants_differ(_matrix(first, a), _matrix(second, b))
        if found:
            return f"{shortened(a.label or a.op)} {found}"
    if len(first.nodes) != len(second.nodes):
        return f"it has {len(first.nodes)} columns at one call and {len(second.nodes)} at another"
    return "" if first.outputs == second.outputs else "it returns other columns at one call than at another"


def expressions_differ(first: Expression, second: Expression) -> str:
    """The first constant or operation that is another one."""
    ours, theirs = _steps(first), _steps(second)
    for (a, a_of), (b, b_of) in zip(ours, theirs, strict=False):
        if isinstance(a, Number) and isinstance(b, Number) and a != b:
            return _constants_differ(np.array([float(a.value)]), np.array([float(b.value)]))
        if a != b or a_of != b_of:
            return f"has {_shown(a)} at one call where it has {_shown(b)} at another"
    return "" if len(ours) == len(theirs) else "has more operations at one call than at another"


def _columns_differ(a: Node, b: Node) -> str:
    if a.op != b.op:
        return f"is {shortened(a.op)} at one call and {shortened(b.op)} at another"
    if a.of != b.of or a.index != b.index:
        return "takes other columns at one call than at another"
    return _constants_differ(a.weights, b.weights) or _constants_differ(a.constants, b.constants)


def _matrix(graph: Graph, node: Node) -> Floats:
    return graph.matrices[node.index] if node.op == MIX else np.zeros(0)


def _constants_differ(a: Floats, b: Floats) -> str:
    if a.shape != b.shape:
        return f"has {a.size} constants at one call and {b.size} at another"
    wrong = np.flatnonzero(a.ravel() != b.ravel())
    if not len(wrong):
        return ""
    one, other = a.ravel()[wrong[0]], b.ravel()[wrong[0]]
    digits = 6 if f"{one:.6g}" != f"{other:.6g}" else 17
    return f"has the constant {one:.{digits}g} at one call and {other:.{digits}g} at another"


def _steps(expression: Expression) -> list[tuple[Number | Variable | str, tuple[int, ...]]]:
    """The leaves and operations in the order in which they are computed, with the places of the arguments."""
    steps = list[tuple[Number | Variable | str, tuple[int, ...]]]()

    def made(what: Number | Variable | str, of: Sequence[int] = ()) -> int:
        steps.append((what, tuple(of)))
        return len(steps) - 1

    fold(expression, made, made)
    return steps


def _shown(step: Number | Variable | str) -> str:
    if isinstance(step, Number):
        return f"the constant {float(step.value):.6g}"
    return step.name if isinstance(step, Variable) else step
