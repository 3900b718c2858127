"""The papers' constructions, one file each, and a registry by id (`registry.THEOREMS`, `weightwright theorems`).

Every function but `pad_tokens` returns a network with its certificate, and says more about itself in `net.about`.
Names are loaded on first use. Arguments that mean the same in all of them:

n: tokens of the input, or examples in the prompt.
d: features of a token, or of an example.
domain: a Box with an interval for each feature, or for each token and feature; a pair of numbers stands for all.
tol: the largest error that is allowed, from which the paper's parameters follow; give it, or those.
p: anchors of a head; None: from tol.
P: P + 1 anchors; None: from tol.
H: heads; None: from tol.
beta: inverse temperature of the softmax; None: as large as the error asks for.
w: weights of the linear models, (n, d); a model for each token.
t: their shifts, (n,).
a: the lower end of Range[a, b], below which results are cut.
b: its upper end.
f: what is computed: a formula, or a function that can be traced.
loss: a formula in x, the residual w . x - y.
ranges: how large the entries of x, y and w may be (`ww.incontext.Ranges`); 1 each unless given.
reach: how large |w . x_i - y_i| may be; None: all that the ranges allow.
method: "faithful", the paper's construction, or "spectral", ours.
dtype: "float64" or "float32": what the network runs in, and the bound covers.
B: inputs lie in [-B, B].
g: cells of the grid along each number; None: from tol.
delta: the share of a cell that its shell takes; None: g^-2, and an 8th of it for every number beyond two.
norm: p of the L_p norm that the error is measured in.
lipschitz: of an f that cannot be traced, in the infinity norm; without it the error is measured, not proven.
keys: of a head, two of them sentinels, where heads share the anchors.
max_cells, max_heads, max_anchors: more than these raise BudgetError before anything is built.
parameters: tol, p, beta, method, dtype and the others of `truncated_linear`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weightwright.papers.descent.gradients import in_context_gradients as in_context_gradients
    from weightwright.papers.descent.gradients import per_sample_gradients as per_sample_gradients
    from weightwright.papers.descent.pairs import in_context_step_of_pairs as in_context_step_of_pairs
    from weightwright.papers.descent.pairs import logistic_step as logistic_step
    from weightwright.papers.descent.steps import in_context_step as in_context_step
    from weightwright.papers.descent.truncated import in_context_truncated_linear as in_context_truncated_linear
    from weightwright.papers.descent.truncated import (
        in_context_truncated_linear_heads as in_context_truncated_linear_heads,
    )
    from weightwright.papers.grids.bumps import bumps as bumps
    from weightwright.papers.grids.grid_lookup import sequence_to_scalar as sequence_to_scalar
    from weightwright.papers.grids.grid_lookup import sequence_to_scalar_softmax as sequence_to_scalar_softmax
    from weightwright.papers.grids.grid_lookup import sequence_to_sequence as sequence_to_sequence
    from weightwright.papers.grids.grid_lookup import sequence_to_sequence_softmax as sequence_to_sequence_softmax
    from weightwright.papers.hopfield.hopfield_layer import hopfield_function as hopfield_function
    from weightwright.papers.hopfield.hopfield_prompt import hopfield_gradients as hopfield_gradients
    from weightwright.papers.kit.arguments import pad_tokens as pad_tokens
    from weightwright.papers.linear.activations import clipped_relu as clipped_relu
    from weightwright.papers.linear.activations import hard_tanh as hard_tanh
    from weightwright.papers.linear.activations import relu as relu
    from weightwright.papers.linear.hardmax import nearly_hardmax as nearly_hardmax
    from weightwright.papers.linear.literal import literal_truncated_linear as literal_truncated_linear
    from weightwright.papers.linear.one_head import truncated_linear as truncated_linear
    from weightwright.papers.linear.shared_anchors import truncated_linear_heads as truncated_linear_heads
    from weightwright.papers.relu.emulated import relu_network as relu_network
    from weightwright.papers.relu.native import native_relu as native_relu
    from weightwright.papers.relu.token_mixing import token_mixing as token_mixing

#: The functions by the module that has them, below `weightwright.papers`.
_HOMES = {
    "descent.gradients": ("in_context_gradients", "per_sample_gradients"),
    "descent.pairs": ("in_context_step_of_pairs", "logistic_step"),
    "descent.steps": ("in_context_step",),
    "descent.truncated": ("in_context_truncated_linear", "in_context_truncated_linear_heads"),
    "grids.bumps": ("bumps",),
    "grids.grid_lookup": (
        "sequence_to_scalar",
        "sequence_to_scalar_softmax",
        "sequence_to_sequence",
        "sequence_to_sequence_softmax",
    ),
    "hopfield.hopfield_layer": ("hopfield_function",),
    "hopfield.hopfield_prompt": ("hopfield_gradients",),
    "kit.arguments": ("pad_tokens",),
    "linear.activations": ("clipped_relu", "hard_tanh", "relu"),
    "linear.hardmax": ("nearly_hardmax",),
    "linear.literal": ("literal_truncated_linear",),
    "linear.one_head": ("truncated_linear",),
    "linear.shared_anchors": ("truncated_linear_heads",),
    "relu.emulated": ("relu_network",),
    "relu.native": ("native_relu",),
    "relu.token_mixing": ("token_mixing",),
}
__all__ = sorted(chain.from_iterable(_HOMES.values()))


def __getattr__(name: str) -> Any:
    """On first use: listing the theorems waits for no torch."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"weightwright.papers.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return __all__
