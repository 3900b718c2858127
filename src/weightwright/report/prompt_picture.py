"""A picture of an interpreter's prompt: a line for each token, its blocks side by side."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from weightwright.export.figures import check_plottable, write_figure

if TYPE_CHECKING:
    from torch import Tensor

    from weightwright.interpreter.programs import Program
    from weightwright.interpreter.virtual_machine import Interpreter

_WORDS = {"x": "x", "w_k": "W_K", "w_q": "W_Q", "w_v": "W_V", "code": "asks", "hides": "is hidden from"}


def plot_prompt(vm: Interpreter, x: Tensor, program: Program, path: str | os.PathLike[str]) -> None:
    """Draw what goes into the network for one sequence: blocks of numbers, rows, data and padding."""
    check_plottable(path)
    if x.ndim != 2:
        raise ValueError(f"x must be one sequence, (tokens, {vm.features}), not {tuple(x.shape)}")
    prompt = vm.prompt(x, program).double().numpy()
    write_figure(path, lambda: _draw(vm, prompt, len(program.rows), len(x), program.name))


def _draw(vm: Interpreter, prompt: Any, r: int, n: int, name: str) -> Any:
    from matplotlib.figure import Figure

    kinds = [label.split("[")[0] for label in vm.sizes.inputs]
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    figure.suptitle(f"the prompt of the program {name!r}: {prompt.shape[0]} tokens of {prompt.shape[1]} numbers")
    widths = [kinds.count(kind) for kind in _WORDS]
    for i, (axes, (kind, words)) in enumerate(
        zip(figure.subplots(1, len(_WORDS), width_ratios=np.sqrt(widths).tolist()), _WORDS.items(), strict=True)
    ):
        block = prompt[:, [place for place, own in enumerate(kinds) if own == kind]]
        largest = max(float(np.abs(block).max()), 1e-300)
        axes.imshow(block, aspect="auto", cmap="RdBu_r", vmin=-largest, vmax=largest, interpolation="nearest")
        axes.set_title(words, fontsize=10)
        axes.set_xlabel(f"{block.shape[1]} numbers", fontsize=8)
        axes.set_xticks([])
        axes.grid(visible=False)
        for edge in (r, r + n):
            axes.axhline(edge - 0.5, color="0.3", linewidth=0.8)
        if i:
            axes.set_yticks([])
        else:
            parts = [("rows", 0, r), ("data", r, r + n), ("padding", r + n, len(prompt))]
            shown = [((lo + hi - 1) / 2, label) for label, lo, hi in parts if hi > lo]
            axes.set_yticks([place for place, _ in shown], [label for _, label in shown])
    return figure
