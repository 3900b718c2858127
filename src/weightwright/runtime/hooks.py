"""What the parts of a network return, kept while it runs, and something else put in their place.

`L0H3` is what head 3 of layer 0 adds to the stream, `L0` the stream after the layer, `embed` the one before the first,
each of shape (..., tokens, coordinates); `L0/L1H2` stands in a loop, which is layer 0.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from weightwright.runtime.attention_modules import AttentionHead
from weightwright.runtime.layer_modules import LAYERS

#: A tensor is put in the place of what the part returns; a function gets that, and returns what takes its place.
Replacement = Tensor | float | Callable[[Tensor], Tensor]


def hook_points(net: nn.Module) -> dict[str, nn.Module]:
    """Every part that can be looked at, by name: the embedding, layers, heads and the read-out, in their order."""
    found = net.named_modules()
    return {_in_short(path): module for path, module in found if isinstance(module, (AttentionHead, *LAYERS))}


def _in_short(path: str) -> str:
    """`layers.0.layers.1.heads.2` is called L0/L1H2."""
    return path.replace(".layers.", "/L").replace("layers.", "L").replace(".heads.", "H")


def run_with_cache(net: nn.Module, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The output, and what every part returned; of a part in a loop for every pass, (passes, ..., tokens, d)."""
    seen: dict[str, list[Tensor]] = {}

    def keep(name: str) -> Callable[..., None]:
        return lambda module, inputs, output: seen.setdefault(name, []).append(output)

    with _hooked({module: keep(name) for name, module in hook_points(net).items()}):
        y: Tensor = net(x)
    return y, {name: found[0] if len(found) == 1 else torch.stack(found) for name, found in seen.items()}


def run_with_hooks(net: nn.Module, x: Tensor, hooks: Mapping[str, Replacement]) -> Tensor:
    """The output with something else in the place of what these parts return, at every pass of a loop."""
    points = hook_points(net)
    for name in hooks:
        if name not in points:
            near = (
                " or ".join(map(repr, difflib.get_close_matches(name, points, 3))) or "a name from net.run_with_cache"
            )
            raise ValueError(f"hooks: there is no part {name!r}; write {near} instead")
    with _hooked({points[name]: _put(name, instead) for name, instead in hooks.items()}):
        y: Tensor = net(x)
    return y


def _put(name: str, instead: Replacement) -> Callable[..., Tensor]:
    def put(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        found = instead(output) if callable(instead) else instead
        if found is None:
            raise ValueError(f"hooks: the function for {name!r} returns None; what it returns takes the part's place")
        new = torch.as_tensor(found).to(output)
        try:
            return new.expand_as(output)
        except RuntimeError:
            shapes = f"returns {tuple(output.shape)}, which {tuple(new.shape)} does not fit"
            raise ValueError(f"hooks: {name!r} {shapes}") from None

    return put


@contextmanager
def _hooked(hooks: Mapping[nn.Module, Callable[..., Any]]) -> Iterator[None]:
    with ExitStack() as stack:
        for module, hook in hooks.items():
            stack.callback(module.register_forward_hook(hook).remove)
        yield
