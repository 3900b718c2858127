"""What zeroing or replacing heads does to the outputs, predicted from the circuit: stored keys and values alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from weightwright.circuit.circuit import Circuit, CircuitNode
from weightwright.circuit.running_circuit import INSIDE, CircuitRun, run_circuit
from weightwright.numbers import Bools, Floats

#: A head by its name in the circuit ("L0H3", "L0/L1H2" in a loop), by layer and number, or by its role.
HeadName = str | tuple[int, int]
Ablation = Literal["zero", "mean"] | float | Sequence[float]


@dataclass(frozen=True)
class PredictedEffect:
    """What ablating heads does.

    change: what is added to every output, (..., tokens, outputs).
    inside: whether all that reads the ablated heads stays in the ranges that its tables are proven on, (..., tokens).
    left: the heads that leave theirs somewhere.

    Outside these ranges a table does not compute the function it is named after; the change is that of the table.
    """

    change: Floats
    inside: Bools
    left: tuple[str, ...]

    def __repr__(self) -> str:
        where = f"outside the proven ranges of {', '.join(self.left)}" if self.left else "inside all proven ranges"
        return f"PredictedEffect(change up to {float(np.abs(self.change).max(initial=0.0)):.4g}, {where})"


def predict_effect(
    circuit: Circuit, heads: HeadName | Sequence[HeadName], X: Floats, ablation: Ablation = "zero"
) -> PredictedEffect:
    """X: (..., tokens, inputs). Several heads are ablated together.

    ablation: "zero", "mean" (of the head's results over all of X), or the number or numbers that it returns instead.
    """
    names = [find_head(circuit, head) for head in _several(heads)]
    before = run_circuit(circuit, X)
    after = run_circuit(circuit, X, {name: _instead(before.results[name], name, ablation) for name in names})
    inside, left = _inside(after)
    return PredictedEffect(after.outputs - before.outputs, inside, left)


def find_head(circuit: Circuit, head: HeadName) -> str:
    """The name of a head in the circuit; ValueError that says what there is."""
    heads = dict(_heads(circuit))
    if isinstance(head, tuple):
        head = f"L{head[0]}H{head[1]}" if len(head) == 2 else str(head)
    if head in heads:
        return head
    called = [name for name, node in heads.items() if node.role == head]
    if len(called) == 1:
        return called[0]
    known = ", ".join(list(heads)[:6]) + (", ..." if len(heads) > 6 else "")
    what = f"{len(called)} heads have this role" if called else "no head is called so"
    raise ValueError(f"head={head!r}: {what}; name it as one of {known}, or as (layer, number)")


def _several(heads: HeadName | Sequence[HeadName]) -> list[HeadName]:
    one = isinstance(heads, str) or (isinstance(heads, tuple) and all(isinstance(part, int) for part in heads))
    return [cast(HeadName, heads)] if one else list(cast(Sequence[HeadName], heads))


def _heads(circuit: Circuit, before: str = "") -> list[tuple[str, CircuitNode]]:
    found = []
    for node in circuit.nodes:
        if node.type == "head":
            found.append((before + node.name, node))
        if node.body is not None:
            found += _heads(node.body, f"{before}{node.name}{INSIDE}")
    return found


def _instead(results: Floats, name: str, ablation: Ablation) -> Floats:
    """(results,)"""
    size = results.shape[-1]
    if isinstance(ablation, str):
        if ablation not in ("zero", "mean"):
            raise ValueError(f"ablation must be 'zero', 'mean' or numbers, not {ablation!r}")
        return np.zeros(size) if ablation == "zero" else results.reshape(-1, size).mean(axis=0)
    value = np.asarray(ablation, dtype=np.float64)
    if value.shape not in ((), (1,), (size,)) or not np.isfinite(value).all():
        raise ValueError(f"ablation={ablation!r}: {name} returns {size} numbers; give one for all, or as many")
    return np.broadcast_to(value, (size,))


def _inside(run: CircuitRun) -> tuple[Bools, tuple[str, ...]]:
    inside = np.ones(run.outputs.shape[:-1], dtype=bool)
    left = []
    for name, stays in run.stays.items():
        if not stays.all():
            left.append(name)
        inside = inside & (stays if stays.shape == inside.shape else stays.all(axis=-1, keepdims=True))
    return inside, tuple(left)
