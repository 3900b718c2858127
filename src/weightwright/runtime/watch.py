"""Networks that run an algorithm are watched while they run: arguments and states must stay where the bound holds.

`watch` looks at the arguments and states of a network with a prompt, `watch_passes` at the state wherever a pass of a
rule begins. `guard` is for networks without a certificate: an argument outside a table's range is an error, not a wrong
number; guards are part of the module and not of the stored network, so one that was saved and loaded has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from weightwright.claims.certificate import Certificate
from weightwright.claims.leaf import VectorLeaf
from weightwright.claims.prompt import LoopClaim, PromptClaim, Summand, argument_in_words
from weightwright.errors import DomainError
from weightwright.network import Block, Layer, Linear, Loop, Network
from weightwright.numbers import Floats
from weightwright.runtime.passes.by_pieces import hear_by_pieces
from weightwright.runtime.passes.looks import ArgumentLook, Look, StateLook
from weightwright.runtime.passes.piece_steps import UnplannedError


class Running(Protocol):
    """What is watched: the module that runs a network, as far as it is looked at here."""

    said: Certificate | None
    layers: nn.ModuleList
    __call__: Callable[..., Any]

    @property
    def network(self) -> Network: ...

    @property
    def on_domain(self) -> str: ...

    @property
    def embed(self) -> nn.Module: ...

    @property
    def read(self) -> nn.Module: ...

    @property
    def dtype(self) -> torch.dtype: ...

    def _admitted(self, x: Tensor) -> Tensor: ...


def ends_a_pass(layer: Layer) -> bool:
    """Whether this layer writes the new states: the one token-wise map without blocks."""
    return isinstance(layer, Linear) and len(layer.terms) == 1 and layer.terms[0].tokens is None


def flat(layers: tuple[Layer, ...], modules: nn.ModuleList) -> Iterator[tuple[Layer, nn.Module]]:
    """Every layer with its module, loops opened once."""
    for layer, module in zip(layers, modules, strict=True):
        if isinstance(layer, Loop):
            yield from flat(layer.layers, module.layers)  # type: ignore[arg-type]
        else:
            yield layer, module


def largest_distance(states: Floats) -> float:
    """How far any token's states are from the first's: in the sum norm, which is above the Euclidean one, and rounded
    up. states: (..., n, d)."""
    return float(np.abs(states - states[..., :1, :]).sum(axis=-1).max()) * (1 + 2.0**-40)


def all_states(net: Running, prompt: Tensor) -> Floats:
    """The states of every token, (steps + 1, states, ..., n, d), read off the stream at the end of every pass."""
    names = net.network.embed.coordinates
    inputs = net.network.inputs
    states = [group for group in ("w", "p") if f"{group}[0]" in inputs]

    def picked(X: Tensor, columns: tuple[str, ...]) -> Tensor:
        places = [[i for i, name in enumerate(columns) if name.split("[")[0] == group] for group in states]
        return torch.stack([X[..., place] for place in places])  # (states, ..., n, d)

    found = [picked(prompt, inputs)]
    columns = [i for group in states for i, name in enumerate(names) if name.split("[")[0] == group]
    with torch.no_grad():
        heard = hear_by_pieces(net, net._admitted(prompt), ends_a_pass, names, columns)
    if heard is not None:
        found += [torch.stack(X.chunk(len(states), -1)) for X in heard]
        return np.stack([state.double().numpy() for state in found])
    hooks = [
        module.register_forward_hook(lambda _, __, X: found.append(picked(X, names)))
        for layer, module in flat(net.network.layers, net.layers)
        if ends_a_pass(layer)
    ]
    try:
        with torch.no_grad():
            net(prompt)
    finally:
        for hook in hooks:
            hook.remove()
    return np.stack([state.double().numpy() for state in found])


def watch(net: Running, claim: PromptClaim) -> None:
    """Look at every pass's input, and the read-out's: DomainError where an argument of f or a state leaves what was
    built for."""
    layers = flat(net.network.layers, net.layers)
    spreads = [module for layer, module in layers if isinstance(layer, Linear) and _spreads(layer)]
    owners = [summand for summand in claim.summands for _ in range(min(summand.tables, len(spreads)))]
    last = 0 if claim.read_out is None else claim.read_out.tables
    for number, module in enumerate(spreads[: len(spreads) - last]):
        table = number % len(owners)
        module.register_forward_pre_hook(_Look(net, owners[table], first=table == 0))
    for number, module in enumerate(spreads[len(spreads) - last :]):
        assert claim.read_out is not None
        module.register_forward_pre_hook(_Look(net, claim.read_out, first=number == 0, asks=claim.answer))


def _spreads(layer: Linear) -> bool:
    """Whether every token becomes a block of keys."""
    map = layer.terms[0].tokens if layer.terms else None
    return isinstance(map, Block) and map.R.shape[1] == 1


class _Look:
    """A hook that is data and no closure: a copy of the network looks at its own domain, and can be pickled."""

    def __init__(self, net: Running, summand: Summand, first: bool, asks: str = "w") -> None:
        self.net, self.summand, self.asks = net, summand, asks
        self.names = net.network.embed.coordinates
        self.groups = {
            group: [i for i, name in enumerate(self.names) if name.split("[")[0] == group] for group in "xywp"
        }
        self.states = self.groups["w"] + self.groups["p"]
        self.ends = _ends(net, [self.names[i] for i in self.states]) if first else None

    def looks(self, _: Any) -> Iterator[Look]:
        """The same by pieces of the stream."""
        if self.ends is not None:
            yield StateLook(np.eye(len(self.names))[:, self.states], *self.ends.cpu().numpy())
        claim, scale, eps = self.summand.claim, self.summand.scale, torch.finfo(self.net.dtype).eps
        x, y, w = (self.groups[group] for group in ("x", "y", self.asks))
        if isinstance(claim, VectorLeaf):
            parts = [((1.0, 0.0), claim.lo[0], claim.hi[0]), ((0.0, 1.0), claim.lo[1], claim.hi[1])]
        else:
            assert self.summand.along is not None
            parts = [(self.summand.along, claim.lo, claim.hi)]
        for (a, b), lo, hi in parts:
            query = np.zeros((len(self.names), len(x) + 1))
            query[w, np.arange(len(x))], query[self.names.index("one"), -1] = a, b
            products = len(x) if a or len(parts) == 1 else 1
            yield ArgumentLook(query, (*x, *y), float(lo / scale), float(hi / scale), (products + 4) * eps)

    def __call__(self, _: nn.Module, arguments: tuple[Any, ...]) -> None:
        if self.net.on_domain == "ignore":
            return
        X: Tensor = arguments[0]
        if self.ends is not None:
            if self.ends.device != X.device:
                self.ends = self.ends.to(X.device)
            _states(X[..., self.states].detach(), self.ends, [self.names[i] for i in self.states])
        _arguments(self.summand, *(X[..., self.groups[group]] for group in ("x", "y", self.asks)))


def _ends(net: Running, states: list[str]) -> Tensor:
    """(2, 1 or n, states): what the certificate's domain says of them, lowest and highest."""
    assert net.said is not None
    place = {name: column for column, name in enumerate(net.network.inputs)}
    columns = [place[name] for name in states]
    domain = net.said.domain
    return torch.tensor(np.stack([np.atleast_2d(end)[:, columns] for end in (domain.lo, domain.hi)]))


def _states(found: Tensor, ends: Tensor, names: list[str]) -> None:
    """Refused unless all states, (B, n, states), lie between their ends."""
    lo, hi = ends
    outside = ~((found >= lo) & (found <= hi))
    if outside.any():
        i = int(outside.flatten(end_dim=-2).any(0).nonzero()[0])
        raise DomainError(
            f"the state {names[i]} became {float(found[..., i][outside[..., i]][0]):.6g}, outside"
            f" [{float(lo[:, i].max()):g}, {float(hi[:, i].min()):g}], which the network was built for; build it for"
            " larger states, or take a smaller step"
        )


def _arguments(summand: Summand, x: Tensor, y: Tensor, w: Tensor) -> None:
    """Refused unless every argument lies surely inside, its rounding here counted."""
    y, products = y[..., 0].detach(), (x * w).detach()
    inner, size = products.sum(-1), products.abs().sum(-1)
    claim = summand.claim
    if isinstance(claim, VectorLeaf):
        _inside(inner, size, claim.lo[0] / summand.scale, claim.hi[0] / summand.scale, "w.x", x.shape[-1])
        _inside(y, y.abs(), claim.lo[1] / summand.scale, claim.hi[1] / summand.scale, "y", 1)
        return
    assert summand.along is not None
    a, b = summand.along
    s, size = a * inner + b * y, abs(a) * size + abs(b) * y.abs()
    _inside(s, size, claim.lo / summand.scale, claim.hi / summand.scale, _named(summand.along), x.shape[-1])


def _inside(s: Tensor, size: Tensor, lo: float, hi: float, what: str, products: int) -> None:
    slack = (products + 4) * torch.finfo(s.dtype).eps * size
    outside = ~((s - slack >= lo) & (s + slack <= hi))
    if outside.any():
        token = int(outside.nonzero()[0][-1])
        raise DomainError(
            f"{what} of sample {token} is {float(s[outside][0]):.6g}, outside [{lo:.6g}, {hi:.6g}], which the network"
            f" was built for; over all samples it ranges over [{float(s.min()):.6g}, {float(s.max()):.6g}]:"
            f" build the network with reach={_rounded_up(float((s.abs() + slack).max()))}"
        )


def _named(along: tuple[float, float]) -> str:
    return f"{'the residual ' if along == (1.0, -1.0) else ''}{argument_in_words(along)}"


def _rounded_up(size: float) -> str:
    digits = 10.0 ** np.floor(np.log10(size) - 1) if np.isfinite(size) and size > 0 else 1.0
    return f"{np.ceil(1.001 * size / digits) * digits:g}" if np.isfinite(size) else "a finite number: it diverged"


@dataclass(frozen=True)
class Guard:
    """The argument q . k of a table lies between lo and hi. query: (width, h), makes q of the stream. key: coordinates
    of k. what: its name. shift: what is added to it in messages. remedy: what to do where it lies outside."""

    what: str
    query: Floats
    key: tuple[int, ...]
    lo: float
    hi: float
    remedy: str
    shift: float = 0.0


def guard(net: Running, guards: Sequence[tuple[Layer, Guard]]) -> None:
    """Look at what goes into these layers at every pass. With on_domain="ignore" nothing is looked at."""
    modules = {id(layer): module for layer, module in flat(net.network.layers, net.layers)}
    for layer, one in guards:
        modules[id(layer)].register_forward_pre_hook(_Watch(net, one))


def guards_of(net: Running) -> list[tuple[Layer, Guard]]:
    """What `guard` was given."""
    return [
        (layer, hook.guard)
        for layer, module in flat(net.network.layers, net.layers)
        for hook in module._forward_pre_hooks.values()
        if isinstance(hook, _Watch)
    ]


class _Watch:
    """A hook that is data and no closure: a copy of the network has its own, and can be pickled."""

    def __init__(self, net: Running, guard: Guard) -> None:
        self.net, self.guard, self.key = net, guard, list(guard.key)
        self.query = torch.tensor(guard.query, dtype=net.dtype)

    def looks(self, _: Any) -> Iterator[Look]:
        """The same by pieces of the stream."""
        one = self.guard
        slack = 2 * (len(self.key) + 4) * torch.finfo(self.net.dtype).eps
        yield ArgumentLook(one.query, one.key, one.lo, one.hi, slack)

    def __call__(self, _: nn.Module, arguments: tuple[Any, ...]) -> None:
        if self.net.on_domain == "ignore":
            return
        X: Tensor = arguments[0].detach()
        if self.query.device != X.device:
            self.query = self.query.to(X.device)
        K = X[..., self.key]
        s = ((X @ self.query) * K).sum(-1)  # (B, n)
        size = ((X.abs() @ self.query.abs()) * K.abs()).sum(-1)
        # rounded here and, in another order, in the head: both lie inside
        slack = 2 * (len(self.key) + 4) * torch.finfo(X.dtype).eps * size
        outside = ~((s - slack >= self.guard.lo) & (s + slack <= self.guard.hi))
        if outside.any():
            raise self._error(s, outside)

    def _error(self, s: Tensor, outside: Tensor) -> DomainError:
        shift = self.guard.shift
        token, worst = int(outside.nonzero()[0][-1]), float(s[outside][0]) + shift
        return DomainError(
            f"{self.guard.what} of token {token} became {worst:.6g}, outside [{self.guard.lo + shift:.6g},"
            f" {self.guard.hi + shift:.6g}], which the network was built for; over all tokens it ranges over"
            f" [{float(s.min()) + shift:.6g}, {float(s.max()) + shift:.6g}]: {self.guard.remedy}"
        )


def passes(net: Running, prompt: Tensor) -> Floats:
    """The states, (passes + 1, ..., n, states): the prompt's, then those that every pass ends with."""
    assert net.said is not None
    assert isinstance(net.said.against, LoopClaim)
    start = net.said.against.features
    found = [prompt[..., start:]]
    end, names = net.network.layers[0].layers[-2], net.network.inputs  # type: ignore[union-attr]
    with torch.no_grad():
        columns = range(start, len(names))
        heard = hear_by_pieces(net, net._admitted(prompt), lambda layer: layer is end, names, columns)
    if heard is not None:
        return np.stack([state.double().cpu().numpy() for state in [*found, *heard]])
    hook = _end_of_pass(net).register_forward_hook(lambda _, __, X: found.append(X[..., start:]))
    try:
        with torch.no_grad():
            net(prompt)
    finally:
        hook.remove()
    return np.stack([state.double().cpu().numpy() for state in found])


def is_ours(hook: object) -> bool:
    """Whether a hook is one of those that watch, which change nothing."""
    return type(hook) in (_Look, _Watch) or type(getattr(hook, "__self__", None)) is _PassLook


def watch_passes(net: Running, claim: LoopClaim) -> None:
    """Look at what every pass begins with: DomainError where a state has left the domain."""
    only = net.network.layers[0] if len(net.network.layers) == 1 else None
    if isinstance(only, Loop) and len(only.layers) >= 2:  # no check agrees with a claim about anything else
        look = _PassLook(net, claim, only.times)
        net.layers[0].register_forward_pre_hook(look.begin)
        cast(nn.ModuleList, net.layers[0].layers)[0].register_forward_pre_hook(look.before_a_pass)


def _end_of_pass(net: Running) -> nn.Module:
    """The map to the inputs of the next pass: the last layer but one of the loop."""
    return cast(nn.ModuleList, net.layers[0].layers)[-2]


class _PassLook:
    """Hooks that are data and no closures: a copy of the network looks at its own domain, and can be pickled."""

    def __init__(self, net: Running, claim: LoopClaim, times: int) -> None:
        self.net, self.claim, self.times = net, claim, times
        self.begun = 0  # passes of the last call, for the message alone: calls from several threads count together

    def looks(self, hook: Any) -> Iterator[Look]:
        """The same by pieces of the stream: the state that every pass begins with."""
        certificate, read = self.net.said, self.net.network.read
        if certificate is not None and hook == self.before_a_pass:
            if len(read.terms) != 1 or read.moves_tokens or read.knows_positions or read.C.any():
                raise UnplannedError
            ends = _state_ends(certificate.domain, self.claim.features)
            yield StateLook(read.terms[0].A, *(end[None] for end in ends))

    def begin(self, *_: Any) -> None:
        self.begun = 0

    def before_a_pass(self, _: nn.Module, given: tuple[Tensor]) -> None:
        self.begun += 1
        certificate = self.net.said
        if self.net.on_domain == "ignore" or certificate is None:
            return
        start, X = self.claim.features, given[0].detach()
        state = self.net.read(X)  # the state that the stream keeps, as it is
        lo, hi = (torch.as_tensor(np.array(end), device=X.device) for end in _state_ends(certificate.domain, start))
        outside = ~((state >= lo) & (state <= hi))
        if outside.any():
            j = int(outside.flatten(end_dim=-2).any(0).nonzero()[0])
            value = float(state[..., j][outside[..., j]][0])
            said = "proven" if certificate.measured is None else "made"
            raise DomainError(
                f"pass {self.begun} of {self.times} would begin with {self.net.network.inputs[start + j]} ="
                f" {value:.6g}, outside [{float(lo[j]):.6g}, {float(hi[j]):.6g}], which one pass is {said} for; compile"
                " with a wider state box, or take smaller steps"
            )


def _state_ends(domain: Any, start: int) -> tuple[Floats, Floats]:
    """(states,) each: what lies in the domain on every token."""
    return np.atleast_2d(domain.lo).max(axis=0)[start:], np.atleast_2d(domain.hi).min(axis=0)[start:]
