"""A network against the function that it was built from, called again: what a guard at compile time cannot see."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from weightwright.adversary.sequences import excepted
from weightwright.claims.certificate import Certificate, round_up
from weightwright.claims.one_layer_claims import VectorLayerClaim
from weightwright.errors import NotRepeatable, WeightwrightError
from weightwright.numbers import counted
from weightwright.runtime import AttentionNetwork
from weightwright.tracing.guard.confirm import LOST, as_numbers, as_rows
from weightwright.tracing.guard.inputs import FEWEST, choose_inputs
from weightwright.tracing.repeated import keep_randomness, place_of
from weightwright.tracing.running import run


def compare_with_function(net: AttentionNetwork, function: Callable[..., Any], inputs: int, seed: int) -> float:
    """The largest difference; see `AttentionNetwork.confirm`. A difference counts where it is above the bound and what
    the function itself may lose by rounding in float64.

    Numbers that are not finite are not compared: a formula may be defined by its limit, such as sin(x)/x at 0. At least
    half of the tokens must be compared in all outputs, else nothing is confirmed."""
    if not callable(function):
        raise TypeError(f"function must be what the network was built from, not {function!r}")
    if type(inputs) is not int or inputs < FEWEST:
        raise ValueError(f"inputs must be a whole number of at least {FEWEST}, not {inputs!r}")
    said, name = _certificate(net), place_of(function)
    largest, compared, claims = 0.0, 0, 0
    with keep_randomness(), torch.no_grad():
        for x in _draw(net, said, inputs, seed):
            if not len(x):
                continue
            y = net.run_anywhere(x.to(net.device)).double().cpu()
            try:
                given = tuple(x.double().T) if isinstance(said.claim, VectorLayerClaim) else (x.double(),)
                wanted = _as_outputs(function, given, y, name)
            except Exception as error:
                raise _fails(name, x, error) from error
            off = (y - wanted).abs()
            allowed = said.bound + LOST * torch.maximum(wanted.abs(), x.double().abs().max())
            finite = wanted.isfinite()
            claims, compared = claims + len(finite), compared + int(finite.all(dim=1).sum())
            if (wrong := finite & ~(off <= allowed)).any():
                raise _differs(name, said, x, y, wanted, torch.where(wrong, off - allowed, -math.inf))
            largest = max(largest, float(torch.where(finite, off, 0.0).max()))
    if 2 * compared < claims or not claims:
        raise NotRepeatable(
            f"{name} is not confirmed: it is finite at {compared} of {counted(claims, 'token')} that were tried, and at"
            " least half of them must be compared with the network"
        )
    return largest


def _certificate(net: AttentionNetwork) -> Certificate:
    said = net.certificate
    if said is None or said.subject != "output" or said.bound == math.inf:
        kind = "no certificate" if said is None else f"status {said.status} and a bound that is about: {said.subject}"
        raise WeightwrightError(
            f"confirm needs a network whose outputs have a proven bound, as `ww.compile` returns one; this has {kind}"
        )
    return said


def _draw(net: AttentionNetwork, said: Certificate, inputs: int, seed: int) -> Iterator[torch.Tensor]:
    """Inputs (tokens, features) in the network's dtype, without those that a dead zone takes out of the claim. Where
    every token is treated by itself, they are tokens."""
    tokens, features = net.network.tokens, len(net.network.inputs)
    shape = (features,) if tokens is None else (tokens, features)
    lo, hi = np.broadcast_to(said.domain.lo, shape), np.broadcast_to(said.domain.hi, shape)
    x = torch.tensor(choose_inputs(lo, hi, inputs, seed)).to(net.dtype)
    if tokens is None:
        x = x[_claimed(net, said, x)]
        yield from (x, x[-1:])
    else:
        yield from (one for one in x if _claimed(net, said, one).all())


def _as_outputs(
    function: Callable[..., Any], given: tuple[torch.Tensor, ...], y: torch.Tensor, name: str
) -> torch.Tensor:
    """What the function returns, (tokens, outputs), as y is."""
    found = as_numbers(run(function, given), name)
    rows = as_rows(found, *y.shape)
    if rows is None:
        raise ValueError(f"{name} returned shape {tuple(found.shape)} for {len(y)} tokens and {y.shape[1]} outputs")
    return rows


def _claimed(net: AttentionNetwork, said: Certificate, x: torch.Tensor) -> torch.Tensor:
    """(tokens,): what no dead zone takes out of the claim."""
    alone = net.network.tokens is None
    found = ~torch.tensor(excepted(net, x[:, None] if alone else x[None]))
    for start, end in said.dead_zones:
        found = found & ~((x[:, 0].double() > start) & (x[:, 0].double() < end))
    return found.expand(len(x))


def _fails(name: str, x: torch.Tensor, error: Exception) -> NotRepeatable:
    """Where the network has an answer, and the function none. x: (tokens, features), given in one call."""
    among = f"{counted(len(x), 'token')}, the first of them " if len(x) > 1 else ""
    return NotRepeatable(
        f"{name} is not what the network computes: it fails at {among}({_point(x[0])}), where the network has an"
        f" answer: {error}"
    )


def _point(x: torch.Tensor) -> str:
    return ", ".join(f"{number:.4g}" for number in x.tolist()[:3]) + (", ..." if len(x) > 3 else "")


def _differs(
    name: str, said: Certificate, x: torch.Tensor, y: torch.Tensor, wanted: torch.Tensor, beyond: torch.Tensor
) -> NotRepeatable:
    """Where they differ most. beyond: by how much more than is allowed."""
    token, output = divmod(int(beyond.argmax()), y.shape[1])
    which = f"output {output} of " if y.shape[1] > 1 else ""
    return NotRepeatable(
        f"{name} is not what the network computes: {which}the function is {float(wanted[token, output]):.6g} at"
        f" ({_point(x[token])}), the network {float(y[token, output]):.6g}, and the bound is {round_up(said.bound)}."
        " The function has changed since the network was built, or is another one; build the network again"
    )
