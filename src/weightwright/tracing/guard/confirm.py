"""The guard behind the tracer: the original runs in float64, and its numbers must lie where its trace says.

`confirm_function` is for functions of tokens, `confirm_rule` for update rules. Both raise UnsupportedOperation that
names the first operation that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from weightwright.box import Box
from weightwright.claims.graph import Graph
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.errors import NotRepeatable, UnsupportedOperation
from weightwright.numbers import Floats
from weightwright.tracing.advice import COMPARED
from weightwright.tracing.elementary import beyond_softplus
from weightwright.tracing.following.traced_function import trace_on
from weightwright.tracing.guard.first_difference import enclose_steps, lies_in, name_first_difference
from weightwright.tracing.guard.inputs import FEWEST, MOST_NUMBERS, ROWS, WHOLE, choose_counts, choose_inputs
from weightwright.tracing.guard.running_error import enclose_columns
from weightwright.tracing.repeated import THE_SAME, keep_randomness
from weightwright.tracing.running import record, run
from weightwright.tracing.sheet import Sheet

Inputs = tuple[torch.Tensor, ...]
#: What a function returned for so many tokens, as (tokens, outputs); None for another shape.
Read = Callable[[torch.Tensor, int], torch.Tensor | None]
#: Of the largest input or output: how far a function's own rounding may carry it from its graph, ten of 53 bits.
LOST = 2.0**-43


@dataclass(frozen=True)
class Case:
    """Inputs as the function takes them, and as (n, features); where the outputs lie if the trace is right; and where
    they lie if the function's own steps lose no digits."""

    inputs: Inputs
    x: Floats
    outputs: Interval
    exact: Interval


def confirm_function(function: Callable[..., Any], graph: Graph, box: Box) -> Callable[[], None]:
    """Refuse (UnsupportedOperation) a function of (tokens, features) that does not compute its graph on the box.

    Returns what compares them once more, for when all else is done: NotRepeatable where the function has changed."""
    tokens, name = graph.tokens, graph.name

    def trace(n: int, unfolded: bool = True) -> tuple[Sheet, Graph]:
        sheet = Sheet(n, tokens is None, unfolded)
        return sheet, trace_on(sheet, function, box.lo.shape[-1], name)

    with keep_randomness():
        sheet, unfolded = trace(tokens or 2)
        if sheet.ends:
            _stay_below_ends(trace(tokens or 2, unfolded=False)[0], box)
        both, outputs = (graph, unfolded), len(graph.outputs)
        cases = _cases_of_tokens(both, box, tokens) if tokens is not None else _cases_of_any_tokens(function, both, box)
        read: Read = lambda result, n: as_rows(result, n, outputs)  # noqa: E731
        few = _compare(function, cases, read, lambda n: trace(n)[0], name)
    return lambda: _compare_again(function, few, read, name)


def confirm_rule(
    rule: Callable[..., Any], graph: Graph, trace: Callable[[Sheet], Graph], box: Box, sizes: tuple[int, int]
) -> Callable[[], None]:
    """The same for rule(examples, state). box: of an example and the state; sizes: features of an example, and states.

    The graph's last outputs are the new state, the same on every token; trace: once more, on this sheet.
    """
    samples, (features, states), name = graph.tokens or 1, sizes, graph.name

    def sheet_of(n: int, unfolded: bool = True) -> Sheet:
        sheet = Sheet(n, False, unfolded)
        trace(sheet)
        return sheet

    def share_state(x: Floats) -> Floats:
        """(count, samples, features + states), with the first token's state on all tokens."""
        return np.concatenate([x[..., :features], np.repeat(x[:, :1, features:], samples, axis=1)], axis=-1)

    def cases(unfolded: Graph) -> Iterator[Case]:
        for case in _cases_of_tokens((graph, unfolded), box, samples, share_state):
            inputs = torch.tensor(case.x[:, :features]), torch.tensor(case.x[0, features:])
            yield Case(inputs, case.x, case.outputs[:1, -states:], case.exact[:1, -states:])

    with keep_randomness():
        unfolded = trace(Sheet(samples, False, unfolded=True))
        _stay_below_ends(sheet_of(samples, unfolded=False), box)
        read: Read = lambda new, n: new[None] if new.shape == (states,) else None  # noqa: E731
        few = _compare(rule, cases(unfolded), read, sheet_of, name)
    return lambda: _compare_again(rule, few, read, name)


def _stay_below_ends(sheet: Sheet, box: Box) -> None:
    """Refuse what may leave the smooth part of torch's softplus, by the ranges of all columns over the box."""
    shape = (1, sheet.n, box.lo.shape[-1])
    columns = enclose_columns(sheet.graph(), Interval(np.broadcast_to(box.lo, shape), np.broadcast_to(box.hi, shape)))
    for column, end, place in sheet.ends:
        highest = columns[column].hi.max()
        if not highest <= end:
            raise beyond_softplus(end, float(highest), place)


def _cases_of_tokens(
    graphs: Sequence[Graph], box: Box, tokens: int, arrange: Callable[[Floats], Floats] = lambda x: x
) -> Iterator[Case]:
    shape = (tokens, box.lo.shape[-1])
    count = min(WHOLE, max(MOST_NUMBERS // (tokens * len(graphs[1].nodes)), FEWEST))
    x = arrange(choose_inputs(np.broadcast_to(box.lo, shape), np.broadcast_to(box.hi, shape), count))
    exact, outputs = _enclose_outputs(graphs, x)
    yield from (Case((torch.tensor(one),), one, outputs[i], exact[i]) for i, one in enumerate(x))


def _cases_of_any_tokens(function: Any, graphs: Sequence[Graph], box: Box) -> Iterator[Case]:
    """Rows are enclosed once, and put together to inputs of several numbers of tokens."""
    rows, rng = choose_inputs(box.lo, box.hi, ROWS), np.random.default_rng(1)
    exact, outputs = (where[:, 0] for where in _enclose_outputs(graphs, rows[:, None]))
    for count in (len(rows), *choose_counts(function, len(graphs[1].nodes))):
        chosen = np.arange(count) if count == len(rows) else rng.integers(len(rows), size=count)
        yield Case((torch.tensor(rows[chosen]),), rows[chosen], outputs[chosen], exact[chosen])


def _enclose_outputs(graphs: Sequence[Graph], x: Floats) -> tuple[Interval, Interval]:
    """(count, tokens, outputs) each: where any evaluation of the folded and of the unfolded graph lies. The folded one
    will be compiled: were it another function, the two could not both hold the exact number."""
    folded, unfolded = (_enclose(graph, x) for graph in graphs)
    with np.errstate(invalid="ignore"):
        apart = (folded.lo > unfolded.hi) | (unfolded.lo > folded.hi)
    if apart.any():
        raise NotRepeatable(f"{graphs[0].name} is not the same when it is traced again; {THE_SAME}")
    return folded, unfolded


def _enclose(graph: Graph, x: Floats) -> Interval:
    columns = enclose_columns(graph, Interval(x, x))
    found = [
        (np.broadcast_to(columns[k].lo, x.shape[:2]), np.broadcast_to(columns[k].hi, x.shape[:2]))
        for k in graph.outputs
    ]
    return Interval(np.stack([lo for lo, _ in found], axis=-1), np.stack([hi for _, hi in found], axis=-1))


def as_rows(result: torch.Tensor, n: int, outputs: int) -> torch.Tensor | None:
    """(n, outputs), as the tracer reads what a function returns; None for another shape."""
    shape = tuple(result.shape)
    if shape == (n, outputs):
        return result
    if shape == (n,) and outputs == 1:
        return result[:, None]
    return result.expand(n, outputs) if result.numel() == outputs and result.shape[:-1] in ((), (1,)) else None


def _compare(
    function: Callable[..., Any],
    cases: Iterable[Case],
    read: Read,
    retrace: Callable[[int], Sheet],
    name: str,
) -> list[Case]:
    """Every case twice. Cases that fail are left out: the network has an answer where the function has none. Returns
    the first that did not."""
    failed, ran, few = None, False, list[Case]()
    for case in cases:
        if not ran:
            ask_for_no_numbers(function, case.inputs, name)
        for again in (False, True):
            try:
                with torch.set_grad_enabled(torch.is_grad_enabled() != again):  # a function may ask for this too
                    result = run(function, case.inputs)
            except Exception as error:
                failed = error
                break
            ran, n = True, len(case.x)
            rows = read(as_numbers(result, name), n)
            if rows is not None and lies_in(rows.numpy(), case.outputs).all():
                _keep_digits(rows.numpy(), case, name)
                continue
            if again:
                raise NotRepeatable(
                    f"{name} returns other numbers when it is called again, with gradients switched on or off;"
                    f" {THE_SAME}"
                )
            sheet = retrace(n)
            steps, ran_steps = enclose_steps(sheet, case.x), record(function, case.inputs).steps
            raise name_first_difference(function, ran_steps, steps, name, n if sheet.free else None)
        else:
            few += [case] if len(few) < FEWEST else []
    if not ran:
        raise UnsupportedOperation(f"{name} can be traced, but fails when it is run in float64: {failed}") from failed
    return few


def _compare_again(function: Callable[..., Any], cases: Sequence[Case], read: Read, name: str) -> None:
    """The function as it is now, once in every case."""
    with keep_randomness():
        for case in cases:
            try:
                rows = read(as_numbers(run(function, case.inputs), name), len(case.x))
            except Exception as error:
                raise NotRepeatable(f"{name} fails when it is called again: {error}; {THE_SAME}") from error
            if rows is None or not lies_in(rows.numpy(), case.outputs).all():
                raise NotRepeatable(f"{name} has changed while it was compiled; {THE_SAME}")


def _keep_digits(found: Floats, case: Case, name: str) -> None:
    """Refuse a function whose own steps lose what its graph does not, such as (x + 1e8) - 1e8."""
    with np.errstate(invalid="ignore"):
        off = np.maximum(case.exact.lo - found, found - case.exact.hi)
    if np.max(off, initial=0.0, where=np.isfinite(off)) > LOST * max(np.abs(case.x).max(), np.abs(found).max()):
        raise UnsupportedOperation(
            f"{name} loses digits: in float64 it is {np.nanmax(off):.2g} from what it stands for; write it so that"
            " large numbers do not cancel, as they do in (x + 1e8) - 1e8"
        )


def ask_for_no_numbers(function: Callable[..., Any], inputs: Inputs, name: str) -> None:
    """Refuse a function that looks at the numbers of its input when it is run, and did not when it was traced."""
    asked = record(function, inputs).asked
    if asked.startswith(("array", "numpy")):
        raise UnsupportedOperation(f"{name} makes a numpy array of its input; use the torch function of the same name")
    if asked:
        raise UnsupportedOperation(f"{name} decides by the value of its input: {asked}; {COMPARED}")


def as_numbers(result: Any, name: str) -> torch.Tensor:
    """What a function returned, as float64. Complex numbers are refused: their imaginary parts would be lost."""
    if not isinstance(result, torch.Tensor | int | float):
        raise UnsupportedOperation(f"{name} returns {type(result).__name__} when it is run, not a tensor")
    if isinstance(result, torch.Tensor) and result.is_complex():
        raise UnsupportedOperation(
            f"{name} returns complex numbers when it is run; return real ones, such as the real and the imaginary part"
            " as two outputs"
        )
    return torch.as_tensor(result).detach().to("cpu", torch.float64)
