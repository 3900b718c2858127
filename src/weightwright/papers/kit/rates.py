"""Studies: how the error moves with one parameter. Data only; `report` draws and prints them.

A construction plugs in with a callable that builds its network for a value of the parameter.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from weightwright.papers.kit.measure import (
    estimate,
    measure,
    norm_of,
    outputs,
    pointwise_bound,
    taken,
    worst_errors,
)
from weightwright.runtime import AttentionNetwork

Build = Callable[[Any], AttentionNetwork]
Axis = Literal["log", "linear", "places"]


#: What a point knows of the target: its norm in L_p, and the largest number of it that was met.
OWN_NORM, OWN_SIZE = "target's own norm", "target's largest number"


@dataclass(frozen=True)
class Point:
    """One value of the parameter. bound: None where nothing is proven. extras: seconds, bytes, anchors, by name."""

    value: float
    measured: float
    bound: float | None = None
    label: str = ""  # of a place
    extras: Mapping[str, float] = field(default_factory=dict)

    @property
    def vacuous(self) -> bool:
        """Whether the bound is no smaller than the target itself, as far as its size is known."""
        own = self.extras.get(OWN_NORM, self.extras.get(OWN_SIZE))
        return self.bound is not None and own is not None and self.bound >= own


@dataclass(frozen=True)
class Series:
    """One method over the values of a parameter. slope: the theorem's, on log axes; None where it has none."""

    name: str
    points: tuple[Point, ...]
    slope: float | None = None

    def fitted(self) -> float | None:
        """The slope of log(measured) against log(value) by least squares, over all points with a positive error."""
        pairs = [(p.value, p.measured) for p in self.points if p.value > 0 and 0 < p.measured < math.inf]
        if len(pairs) < 2:
            return None
        x, y = np.log(np.array(pairs)).T
        return float(np.polyfit(x, y, 1)[0])


@dataclass(frozen=True)
class Study:
    """Several series over the same parameter. bound_is: what the points' bounds are about, where it needs saying."""

    title: str
    parameter: str  # as the axis is labelled
    series: tuple[Series, ...]
    axis: Axis = "log"
    bound_is: str = "proven bound"
    error_is: str = "largest error found"

    @property
    def one_bound(self) -> bool:
        """Whether all series have the same bounds: one column or line is enough."""
        bounds = [[point.bound for point in series.points] for series in self.series]
        return len(bounds) > 1 and all(bound == bounds[0] for bound in bounds)


def sweep(
    name: str,
    build: Build,
    values: Sequence[float],
    slope: float | None = None,
    *,
    bound: Callable[[float], float] | None = None,
    count: int = 1024,
) -> Series:
    """Build a network for every value and measure it: the largest error found, or an estimate in the certificate's L_p.

    A study of L_p errors says so in `error_is`. bound: what is proven of a value, where it is not the certificate's.
    """
    points = (_point(build(value), value, count) for value in values)
    if bound is not None:
        points = (dataclasses.replace(point, bound=bound(point.value)) for point in points)
    return Series(name, tuple(points), slope)


def by_keys(name: str, nets: Sequence[AttentionNetwork], slope: float | None = None) -> Series:
    """One point for each network, at the number of keys that it chose, or of its heads' blocks."""
    keys = [net.about.chosen.get("keys") or float(sum(head.sees.block for head in net.network.heads)) for net in nets]
    return Series(name, tuple(_point(net, value, 1024) for net, value in zip(nets, keys, strict=True)), slope)


def both_methods(
    title: str, parameter: str, faithful: Series, build: Callable[..., AttentionNetwork], tolerances: Sequence[float]
) -> tuple[Study, ...]:
    """The paper's anchors against ours, which are built for tolerances and take the keys that they need."""
    spectral = by_keys("spectral", [build(tol=tol, method="spectral") for tol in tolerances])
    return (Study(title, parameter, (faithful, spectral)),)


def parting(series: Series) -> float | None:
    """The first value of the parameter at which the error exceeds the bound: there theory and floats part."""
    return next((p.value for p in series.points if p.bound is not None and p.measured > p.bound), None)


def ends(a: float, b: float, spacing: float, seams: Sequence[float] = ()) -> dict[str, float]:
    """SU-2's places on the axis of s, by name."""
    places = {
        "a - 10(b-a)": a - 10 * (b - a),
        "a": a,
        "b - dL/2": b - spacing / 2,
        "b": b,
        "b + dL/2": b + spacing / 2,
        "b + 10(b-a)": b + 10 * (b - a),
    }
    return places | {f"seam {i + 1}": seam for i, seam in enumerate(seams)}


def at_places(name: str, net: AttentionNetwork, places: Mapping[str, float], reach: float) -> Series:
    """SU-2: the largest error within `reach` of each place, itself included, where all tokens are the same number."""
    steps = reach * np.concatenate([[0.0], np.linspace(-1, 1, 65), 2.0 ** -np.arange(60), -(2.0 ** -np.arange(60))])
    points = []
    for label, place in places.items():
        X = np.broadcast_to((place + steps)[:, None, None], (len(steps), net.network.tokens or 1, 1))
        error = float(worst_errors(net, taken(net, X)).max())
        points.append(Point(place, error, pointwise_bound(net), label))
    return Series(name, tuple(points))


def lengths(name: str, build: Build, tokens: Sequence[int], slope: float | None = None) -> Series:
    """SU-3: a sequence of each length: its largest error, the seconds of a forward pass, the bytes it adds.

    build(n) returns a network for sequences of n tokens whose probes are such sequences.
    """
    points = []
    for n in tokens:
        net = build(n)
        X = taken(net, net.about.probes(np.random.default_rng(0), 1)[:1])
        before = _peak(reset=True)
        start = time.perf_counter()
        y = outputs(net, X)
        seconds = time.perf_counter() - start
        after = _peak()
        extras = {"seconds": seconds, "tokens": float(n), "anchors": float(len(net.network.registers))}
        if before is not None and after is not None:
            extras["peak bytes"] = float(max(after - before, 0))
        error = float(np.nanmax(np.abs(y - net.about.reference(X))))
        points.append(Point(n, error, pointwise_bound(net), extras=extras))
    return Series(name, tuple(points), slope)


def _point(net: AttentionNetwork, value: float, count: int) -> Point:
    extras = {"anchors": float(len(net.network.registers)), "heads": float(len(list(net.network.heads)))}
    said, power = net.certificate, norm_of(net)
    bound = None if said is None or said.measured is not None else said.bound
    if math.isinf(power):
        searched = measure(net, count)
        return Point(value, searched.error, bound, extras=extras | {OWN_SIZE: searched.size})
    found = estimate(net, power, max(count, 4096))
    if net.about.target_norm is not None:
        extras[OWN_NORM] = net.about.target_norm
    return Point(value, found.error, bound, extras={**extras, "lo": found.lo, "hi": found.hi})


def _peak(reset: bool = False) -> int | None:
    """The most memory that the process has held since the last reset, in bytes; None where the system does not say.

    Linux: writing 5 to clear_refs sets the peak back to what is held now. Memory that was freed but not given back
    counts as held, so it is given back first, where the C library can.
    """
    try:
        if reset:
            torch.zeros(1)  # so that torch itself is not counted
            getattr(ctypes.CDLL(None), "malloc_trim", lambda pad: 0)(0)
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    line = next((line for line in status.splitlines() if line.startswith("VmHWM:")), None)
    return int(line.split()[1]) * 1024 if line else None
