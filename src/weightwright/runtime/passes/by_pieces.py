"""When a module may run by pieces: nothing was handed out or changed, and nobody but its own watchers looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_modules

from weightwright.errors import WeightwrightError
from weightwright.network import Layer, Loop, Network
from weightwright.runtime.passes.looks import Look
from weightwright.runtime.passes.pass_plan import NOWHERE, Plan, spell_out
from weightwright.runtime.passes.piece_steps import Place, Run, UnplannedError, is_table

#: Dtypes in which the roundings of this order of computing are counted.
_DTYPES = (torch.float64, torch.float32)


def run_by_pieces(net: Any, x: Tensor) -> Tensor | None:
    """What the network computes of x, (..., n, inputs); None where it must run as whole streams."""
    ran = _run(net, x)
    return None if ran is None else ran[0]


def hear_by_pieces(
    net: Any, x: Tensor, ends: Callable[[Layer], bool], names: Sequence[str], columns: Sequence[int]
) -> list[Tensor] | None:
    """These columns of the streams that layers with this end make, (..., n, columns), one pass after the other; None as
    above. The layers make streams of these coordinates; the columns are whole groups."""
    ran = _run(net, x, frozenset(place for place, layer in _places(net.was.layers) if ends(layer)))
    if ran is None:
        return None
    _, run, plan = ran
    flat, space = x.reshape(-1, *x.shape[-2:]), plan.spaces[tuple(names)]
    return [spell_out(one, space, columns, flat, run.n).reshape(*x.shape[:-1], -1) for one in run.heard]


def _places(layers: Sequence[Layer], place: Place = ()) -> Iterator[tuple[Place, Layer]]:
    """Every layer with its place, loops opened once."""
    for number, layer in enumerate(layers):
        yield (*place, number), layer
        if isinstance(layer, Loop):
            yield from _places(layer.layers, (*place, number))


def _run(net: Any, x: Tensor, hear: frozenset[Place] = NOWHERE) -> tuple[Tensor, Run, Plan] | None:
    if not _has_passes(net.was) or x.dtype not in _DTYPES or x.numel() == 0 or x.device != net.device:
        return None
    if torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(x):
        return None
    plan = _plan_of(net, x.device)
    if plan is None:
        return None
    try:
        found = plan(x.reshape(-1, *x.shape[-2:]), net.on_domain != "ignore", hear)
    except UnplannedError:  # a step that had nothing to compute
        return None
    return None if found is None else (found[0].reshape(*x.shape[:-2], *found[0].shape[1:]), found[1], plan)


def _has_passes(network: Network) -> bool:
    """Whether it has a loop, or tables of the examples in its prompt."""
    layers = network.layers
    return network.tokens is not None and any(
        isinstance(layer, Loop) or is_table(layers[number : number + 3]) for number, layer in enumerate(layers)
    )


@dataclass(eq=False)
class _Kept:
    """The plans of a module, None where there can be none, and the parts and hooks that it had when they were made."""

    parts: list[nn.Module]
    hooks: list[Any]
    plans: dict[torch.device, Plan | None] = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """A copy has other parts, and makes plans of its own."""


def _plan_of(net: Any, device: torch.device) -> Plan | None:
    parts = list(net.modules())
    if not all(map(_is_ours, parts)) or torch_modules._has_any_global_hook():
        return None
    hooks = [hook for part in parts for hook in part._forward_pre_hooks.values()]
    if any(_watcher(hook) is None for hook in hooks):
        return None
    if any(getattr(part._buffers, "out", False) for part in parts):  # a weight may change at any time
        return _make_plan(net, device)
    kept: _Kept | None = net.__dict__.get("_passes")
    if kept is None or kept.parts != parts or kept.hooks != hooks:
        kept = net.__dict__["_passes"] = _Kept(parts, hooks)
    if device not in kept.plans:
        kept.plans[device] = _make_plan(net, device)
    return kept.plans[device]


def _make_plan(net: Any, device: torch.device) -> Plan | None:
    """Of the network that runs now, every bit of it."""
    try:
        now = net.read_back()
        return Plan(now, dict(_looks(now.layers, net.layers)), net.dtype, device)
    except (UnplannedError, WeightwrightError):
        return None


def _is_ours(part: nn.Module) -> bool:
    """Nobody trains it or looks at what it returns, and no code is another's."""
    own = type(part) is nn.ModuleList or type(part).__module__.startswith("weightwright.runtime.")
    hooked = part._forward_hooks or part._backward_hooks or part._backward_pre_hooks
    return own and not part._parameters and not hooked and "forward" not in part.__dict__


def _watcher(hook: Any) -> Any:
    """The object with `looks` that a hook of ours is, or belongs to; None for those of others."""
    found = getattr(hook, "__self__", hook)
    ours = type(found).__module__ == "weightwright.runtime.watch"
    return found if ours and hasattr(found, "looks") else None


def _looks(layers: Sequence[Layer], modules: nn.ModuleList, place: Place = ()) -> Iterator[tuple[Place, list[Look]]]:
    """What our hooks watch before each layer."""
    for number, (layer, module) in enumerate(zip(layers, modules, strict=True)):
        here = (*place, number)
        hooks = module._forward_pre_hooks.values()
        yield here, [look for hook in hooks for look in _watcher(hook).looks(hook)]
        if isinstance(layer, Loop):
            yield from _looks(layer.layers, module.layers, here)  # type: ignore[arg-type]
