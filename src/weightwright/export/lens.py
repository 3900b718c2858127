"""A native network as a TransformerLens model: registers stand first as tokens, the stream is made of the coordinates.

TransformerLens divides scores by sqrt(d_head), so d_head is a power of four (zeros fill it up) and W_Q is multiplied by
its root, a power of two: exact. Attention is causal unless a head looks at all data tokens; registers come first, so a
causal mask hides none of them. A head that sees less than the model shows must hide the rest by its scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weightwright.errors import MissingExtraError, UnsupportedOperation
from weightwright.export.about import about, line, sees, unwatched
from weightwright.export.compare import difference, largest, samples
from weightwright.network import Attention, Layer, Linear, Loop, Network
from weightwright.network.layers import Names
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork, interpret
from weightwright.runtime.module import DTYPES

try:
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge
except ImportError as error:
    raise MissingExtraError("to_transformer_lens needs transformer-lens", "lens") from error

#: A model that differs more than this in float64 is another model, not a rounding of this one.
TOLERATED = 1e-6


@dataclass(frozen=True)
class Export:
    """A TransformerLens model, how far it is from the module on random inputs, and where the heads are.

    `model.run_with_cache(export.residual(x), start_at_layer=0)` caches everything; the pattern of a head is
    `cache["pattern", layer][:, head]`, (batch, registers + tokens, registers + tokens), with layer, head from `heads`.
    The unembedding is the network's `read`: logits of data tokens are the outputs, less the constant of `read`.
    """

    model: Any
    difference: float
    heads: dict[str, tuple[int, int]]  # role -> (layer, head); a role that comes again is called "role (2)"
    network: Network
    about: dict[str, str]  # formula, domain, bound and status in words, as other exports write them

    def residual(self, x: Tensor) -> Tensor:
        """What enters layer 0 for x of shape (..., tokens, inputs): (batch, registers + tokens, coordinates)."""
        return _residual(self.network, self.model, x)

    def run(self, x: Tensor) -> Tensor:
        """(..., tokens, inputs) -> (..., tokens, outputs), as the module does."""
        return _run(self.network, self.model, x)


def to_transformer_lens(net: AttentionNetwork, tokens: int = 1024) -> Export:
    """The network as a TransformerLens model with room for `tokens` data tokens (or for its own fixed number).

    UnsupportedOperation if the network is not native, or if a plain Transformer computes something else because
    keys that a head does not see are not hidden by their scores.
    """
    network = net.network
    if not isinstance(tokens, int) or tokens < 1:
        raise ValueError(f"tokens must be a whole number of at least 1, not {tokens!r}")
    if not network.native:
        raise UnsupportedOperation(
            "to_transformer_lens: an attention-only Transformer has no place for this network: "
            + "; ".join(line(obstacle) for obstacle in network.obstacles)
        )
    exact = _model(network, tokens, torch.float64)
    leak = largest(
        lambda x: torch.from_numpy(interpret(network, x.double().numpy())),
        lambda x: _run(network, exact, x),
        samples(net, tokens),
    )
    if not leak <= TOLERATED:
        raise UnsupportedOperation(_leaking(network, leak))
    model = _model(network, tokens, DTYPES[network.dtype])
    heads: dict[str, tuple[int, int]] = {}
    for layer, attention in enumerate(_unrolled(network.layers)):
        for index, head in enumerate(attention.heads):
            heads[_fresh(head.role, heads)] = (layer, index)
    gap = difference(net, lambda x: _run(network, model, x), tokens)
    return Export(model, gap, heads, network, about(net, unwatched(net)))


def _model(network: Network, tokens: int, dtype: torch.dtype) -> Any:
    layers = list(_unrolled(network.layers))
    heads = [head for layer in layers for head in layer.heads]
    config = TransformerBridgeConfig(
        d_model=len(network.embed.coordinates),
        d_head=4 ** max((_fours(head.W_Q.shape[1], head.W_V.shape[1]) for head in heads), default=0),
        n_heads=max((len(layer.heads) for layer in layers), default=0) or 1,
        n_layers=len(layers) or 1,  # zero weights change nothing
        n_ctx=len(network.registers) + (network.tokens or tokens),
        d_vocab=1,
        d_vocab_out=len(network.outputs),
        attn_only=True,
        normalization_type=None,
        attention_dir="causal" if _causal(network) else "bidirectional",
        init_weights=False,
        dtype=dtype,
    )
    model = TransformerBridge.boot_native(config, dtype=dtype)
    weights = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}
    for index, layer in enumerate(layers):
        for part, array in _projections(layer, config.n_heads, config.d_head).items():
            weights[f"blocks.{index}.attn.{part}.weight"] = torch.tensor(array, dtype=dtype)
    unembed = _token_wise(network.read, network.embed.coordinates)
    weights["unembed.weight"] = torch.tensor(unembed.T, dtype=dtype)
    model.load_state_dict(weights)
    return model.requires_grad_(False).eval()


def _projections(layer: Attention, n_heads: int, d_head: int) -> dict[str, Floats]:
    """A layer's weights as nn.Linear has them: q, k, v (n_heads * d_head, d) and o (d, n_heads * d_head)."""
    d = len(layer.coordinates)
    Q, K, V, O = (np.zeros((n_heads, d_head, d)) for _ in range(4))  # noqa: E741
    for index, head in enumerate(layer.heads):
        h, v = head.W_Q.shape[1], head.W_V.shape[1]
        Q[index, :h] = math.sqrt(d_head) * head.beta * head.W_Q.T
        K[index, :h] = head.W_K.T
        V[index, :v] = head.W_V.T
        O[index, :v] = head.W_O
    return {"q": Q.reshape(-1, d), "k": K.reshape(-1, d), "v": V.reshape(-1, d), "o": O.reshape(-1, d).T}


def _residual(network: Network, model: Any, x: Tensor) -> Tensor:
    if x.ndim < 2 or x.shape[-1] != len(network.inputs) or x.shape[-2] != (network.tokens or x.shape[-2]):
        shape = f"(..., {network.tokens or 'tokens'}, {len(network.inputs)})"
        raise ValueError(f"x must have shape {shape}, not {tuple(x.shape)}")
    like = model.blocks[0].attn.q.weight
    A, C, registers = (
        torch.tensor(array, dtype=like.dtype, device=like.device)
        for array in (_token_wise(network.embed, network.inputs), network.embed.C, network.registers)
    )
    data = C + x.to(like).reshape(-1, *x.shape[-2:]) @ A  # (batch, n, d)
    return torch.cat([registers.expand(len(data), -1, -1), data], dim=1)


def _run(network: Network, model: Any, x: Tensor) -> Tensor:
    logits = model(_residual(network, model, x), start_at_layer=0)[:, len(network.registers) :]
    y = logits + torch.tensor(network.read.C).to(logits)
    return y.reshape(*x.shape[:-1], len(network.outputs))


def _token_wise(linear: Linear, inputs: Names) -> Floats:
    """(d_in, d_out): a native network's maps act on features alone, so their terms add up."""
    return sum((term.A for term in linear.terms), np.zeros((len(inputs), len(linear.coordinates))))


def _unrolled(layers: tuple[Layer, ...]) -> Iterator[Attention]:
    """The attention layers in the order they run; a native network has no others."""
    for layer in layers:
        if isinstance(layer, Loop):
            for _ in range(layer.times):
                yield from _unrolled(layer.layers)
        elif isinstance(layer, Attention):
            yield layer


def _fours(*sizes: int) -> int:
    """The least k with 4^k at least every size."""
    return math.ceil(math.log2(max(sizes)) / 2) if max(sizes) > 1 else 0


def _causal(network: Network) -> bool:
    return all(head.sees.data != "all" for head in network.heads)


def _fresh(role: str, taken: dict[str, tuple[int, int]]) -> str:
    count, name = 1, role
    while name in taken:
        count += 1
        name = f"{role} ({count})"
    return name


def _leaking(network: Network, leak: float) -> str:
    data: str = "earlier" if _causal(network) else "all"
    shown = ((0, len(network.registers)), data)
    narrow = dict.fromkeys(
        f"{line(head.role)!r} sees {sees(head)}"
        for head in network.heads
        if (head.sees.registers, head.sees.data) != shown
    )
    return (
        f"to_transformer_lens: a plain Transformer differs by {leak:.3g} on random inputs. It shows every head all"
        f" registers and {data} data tokens, but {'; '.join(narrow) or 'no head sees less'}."
        " Keys that a head does not see must score far below the others"
    )
