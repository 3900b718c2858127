"""What is left of a certificate, given the module that runs now: what was edited, and what is only assumed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.modules import module as torch_modules

from weightwright.claims.certificate import Certificate, Terms, conditional, unless_changed
from weightwright.errors import WeightwrightError
from weightwright.runtime.program_watch import is_watch
from weightwright.runtime.weights import Weights, is_same

#: Weights that are named one by one when they were changed.
_MOST_NAMES = 3
COMPILED = "what torch.compile made of it computes the same up to the order of sums, and rounds as the model says"
NOTHING = Terms(math.inf, math.inf, math.inf)


class Standing(Protocol):
    """The module that a certificate is held against, as far as it is looked at here."""

    watchers: int
    was_compiled: bool

    @property
    def on_domain(self) -> str: ...

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...

    def digest(self) -> str: ...


def standing(net: Standing, said: Certificate) -> Certificate:
    """The certificate with the status that it has for this module now. After an edit its bound is infinite."""
    edits = list(_edits(net, said))
    if edits:
        return replace(said, status="EDITED", why="; ".join(edits), bound=math.inf, terms=NOTHING)
    return conditional(unless_changed(said), list(_assumed(net, said)))


def _edits(net: Standing, said: Certificate) -> Iterator[str]:
    """What makes this module compute something else than the network that the certificate is about."""
    try:
        same = net.digest() == said.network
    except WeightwrightError as error:
        yield f"this is no network any more: {error}"
    else:
        if not same:
            names = list(changed_weights(net))
            more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            where = f" (here {', '.join(names[:_MOST_NAMES])}{more} changed)" if names else ""
            yield f"the certificate is about another network{where}"
    for name, module in net.named_modules():
        place = name or "the network"
        hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
        if any(not is_watch(hook) for hook in hooks):
            yield f"{place} has a hook that may change what is computed"
        if any(callable(value) and hasattr(type(module), key) for key, value in vars(module).items()):
            yield f"{place} has a method of its own"
    if not type(net).__module__.startswith("weightwright."):
        yield f"{type(net).__name__} is a class of your own, which may compute something else"
    if torch_modules._global_forward_hooks or torch_modules._global_forward_pre_hooks:
        yield "torch has a hook for all modules"


def changed_weights(net: Any) -> Iterator[str]:
    """The names of weights and settings that are not what the module was built from."""
    for place, module in net.named_modules():
        if isinstance(module, Weights):
            for name, now in module.parts().items():
                before = getattr(module.was, name)
                inner = isinstance(module._modules.get(name), nn.Module)
                if not inner and not is_same(now, before):
                    yield f"{place}.{name}".removeprefix(".")


def _assumed(net: Standing, said: Certificate) -> Iterator[str]:
    """What nobody looks at while this module runs."""
    devices = {str(held.device) for _, module in net.named_modules() for held in _held(module)} - {"cpu"}
    if devices:
        yield f"arithmetic on {', '.join(sorted(devices))} rounds as the model says, which was measured on CPUs alone"
    if net.was_compiled:
        yield COMPILED
    if is_unwatched(net, said):
        yield from passes_assume(said)


def is_unwatched(net: Standing, said: Certificate) -> bool:
    """Whether the module does not watch what the claim takes for granted."""
    return bool(passes_assume(said)) and (net.on_domain == "ignore" or watchers(net) < net.watchers)


def passes_assume(said: Certificate) -> tuple[str, ...]:
    """What the module watches while it runs, and others do not."""
    return said.claim.watched


def watchers(net: Any) -> int:
    """The number of hooks of our own, which watch."""
    return sum(is_watch(hook) for _, module in net.named_modules() for hook in module._forward_pre_hooks.values())


def _held(module: nn.Module) -> Iterator[torch.Tensor]:
    held = (*dict.values(module._buffers), *module._parameters.values())
    return (one for one in held if one is not None)
