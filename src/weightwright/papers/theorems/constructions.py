"""The papers' constructions, one file each, and a registry by id (`registry.THEOREMS`, `weightwright theorems`).

Every function but `pad_tokens` returns a network with its certificate, and says more about itself in `net.about`.
Arguments that mean the same in all of them:

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

from weightwright.papers.descent.gradients import in_context_gradients, per_sample_gradients
from weightwright.papers.descent.pairs import in_context_step_of_pairs, logistic_step
from weightwright.papers.descent.steps import in_context_step
from weightwright.papers.descent.truncated import in_context_truncated_linear, in_context_truncated_linear_heads
from weightwright.papers.grids.bumps import bumps
from weightwright.papers.grids.grid_lookup import (
    sequence_to_scalar,
    sequence_to_scalar_softmax,
    sequence_to_sequence,
    sequence_to_sequence_softmax,
)
from weightwright.papers.hopfield.hopfield_layer import hopfield_function
from weightwright.papers.hopfield.hopfield_prompt import hopfield_gradients
from weightwright.papers.kit.arguments import pad_tokens
from weightwright.papers.linear.activations import clipped_relu, hard_tanh, relu
from weightwright.papers.linear.hardmax import nearly_hardmax
from weightwright.papers.linear.literal import literal_truncated_linear
from weightwright.papers.linear.one_head import truncated_linear
from weightwright.papers.linear.shared_anchors import truncated_linear_heads
from weightwright.papers.relu.emulated import relu_network
from weightwright.papers.relu.native import native_relu
from weightwright.papers.relu.token_mixing import token_mixing

__all__ = [
    "bumps",
    "clipped_relu",
    "hard_tanh",
    "hopfield_function",
    "hopfield_gradients",
    "in_context_gradients",
    "in_context_step",
    "in_context_step_of_pairs",
    "in_context_truncated_linear",
    "in_context_truncated_linear_heads",
    "literal_truncated_linear",
    "logistic_step",
    "native_relu",
    "nearly_hardmax",
    "pad_tokens",
    "per_sample_gradients",
    "relu",
    "relu_network",
    "sequence_to_scalar",
    "sequence_to_scalar_softmax",
    "sequence_to_sequence",
    "sequence_to_sequence_softmax",
    "token_mixing",
    "truncated_linear",
    "truncated_linear_heads",
]


def __dir__() -> list[str]:
    return __all__
