"""The papers' constructions, one file each, and a registry by id (`registry.THEOREMS`, `weightwright theorems`).

Every function returns a network with its certificate, and says more about itself in `net.about`. Names are loaded on
first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weightwright.constructions.activations import clipped_relu, hard_tanh, relu
    from weightwright.constructions.bump_network import bumps
    from weightwright.constructions.emulated_relu import relu_network
    from weightwright.constructions.hardmax import nearly_hardmax
    from weightwright.constructions.hopfield_layer import hopfield_function
    from weightwright.constructions.hopfield_prompt import hopfield_gradients
    from weightwright.constructions.in_context_pairs import in_context_step_of_pairs, logistic_step
    from weightwright.constructions.in_context_steps import in_context_step
    from weightwright.constructions.in_context_truncated import (
        in_context_truncated_linear,
        in_context_truncated_linear_heads,
    )
    from weightwright.constructions.literal_truncated import literal_truncated_linear
    from weightwright.constructions.mixed_tokens import token_mixing
    from weightwright.constructions.one_head import truncated_linear
    from weightwright.constructions.plain_transformer import native_relu
    from weightwright.constructions.sample_gradients import in_context_gradients, per_sample_gradients
    from weightwright.constructions.scalar_lookup import sequence_to_scalar, sequence_to_scalar_softmax
    from weightwright.constructions.sequence_lookup import sequence_to_sequence, sequence_to_sequence_softmax
    from weightwright.constructions.shared_anchors import truncated_linear_heads

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

_HOMES = {
    **dict.fromkeys(("clipped_relu", "hard_tanh", "relu"), "activations"),
    **dict.fromkeys(("sequence_to_scalar", "sequence_to_scalar_softmax"), "scalar_lookup"),
    **dict.fromkeys(("sequence_to_sequence", "sequence_to_sequence_softmax"), "sequence_lookup"),
    **dict.fromkeys(("in_context_gradients", "per_sample_gradients"), "sample_gradients"),
    **dict.fromkeys(("in_context_step_of_pairs", "logistic_step"), "in_context_pairs"),
    **dict.fromkeys(("in_context_truncated_linear", "in_context_truncated_linear_heads"), "in_context_truncated"),
    "bumps": "bump_network",
    "hopfield_function": "hopfield_layer",
    "hopfield_gradients": "hopfield_prompt",
    "in_context_step": "in_context_steps",
    "literal_truncated_linear": "literal_truncated",
    "native_relu": "plain_transformer",
    "nearly_hardmax": "hardmax",
    "relu_network": "emulated_relu",
    "token_mixing": "mixed_tokens",
    "truncated_linear": "one_head",
    "truncated_linear_heads": "shared_anchors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'weightwright.constructions' has no attribute {name!r}")
    return getattr(import_module(f"weightwright.constructions.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
