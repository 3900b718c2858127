"""What the figures of a theorem show, as plain arrays: curves along a line, attention, errors on a plane.

`report` draws them. Everything here is evaluated from networks; nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from weightwright.network import Attention
from weightwright.network.interpreter import attention_weights
from weightwright.numbers import Floats
from weightwright.papers.kit.instance import Instance, Line, Matrices
from weightwright.papers.kit.measure import domain_ends, outputs, pointwise_bound, taken, worst_errors
from weightwright.papers.kit.rates import Study
from weightwright.runtime import AttentionNetwork

_POINTS = 1201  # along a line
_QUERIES = 161  # rows of a heat map along a line
_SIDE = 61  # of a plane
_TRIED = 4  # places along each axis of a pixel of a plane, whose worst is drawn
_ROUNDS, _JUMP, _BETWEEN, _MOST = 3, 0.02, 7, 6000  # points put between two whose outputs are 2% of all apart
_OFF_CENTRE = 0.15  # of the range of an input


@dataclass(frozen=True)
class Curve:
    """Targets and outputs along a line, and the error of the line's token under the bound (None: not proven)."""

    label: str
    x: Floats
    targets: Floats  # (number of different ones, points)
    outputs: Mapping[str, Floats]
    errors: Mapping[str, Floats]
    bounds: Mapping[str, float | None]
    anchors: Floats
    marks: Mapping[str, float]


@dataclass(frozen=True)
class HeatMap:
    """Attention weights, (queries, keys). extent: of the queries on a line, or None where they are tokens."""

    title: str
    weights: Floats
    query_label: str
    extent: tuple[float, float] | None = None
    breaks: Mapping[str, int] = field(default_factory=dict)  # where keys of another kind begin, by name


@dataclass(frozen=True)
class Plane:
    """The error over two inputs, the others fixed."""

    title: str
    labels: tuple[str, str]
    extent: tuple[float, float, float, float]
    errors: Floats  # (along the first, along the second)
    bound: float | None


Picture = Curve | HeatMap | Plane | Matrices | Study


def pictures(instance: Instance) -> tuple[Picture, ...]:
    """Along the instance's line; without one, along the first entry of the input, and over the first two. Matrices
    stand for the attention and the plane."""
    if not instance.nets:
        return instance.studies
    name, net = next(iter(instance.nets.items()))
    line = instance.line or _first_entry(net)
    drawn: list[Picture] = [curve(dict(list(instance.nets.items())[: instance.drawn]), line)]
    if instance.matrices is not None:
        return (*drawn, instance.matrices, *instance.studies)
    drawn += [heat_map(name, net, line)] if line.heads else []
    if instance.line is None and len(_centre(net).ravel()) > 1:
        drawn.append(plane(name, net))
    return (*drawn, *instance.studies)


def curve(nets: Mapping[str, AttentionNetwork], line: Line) -> Curve:
    """All networks along the line, by name."""
    x = _fine_enough(nets, line)
    found: dict[str, Floats] = {}
    errors: dict[str, Floats] = {}
    bounds: dict[str, float | None] = {}
    aims: list[Floats] = []
    for name, net in nets.items():
        X = taken(net, line.at(x))
        y = outputs(net, X)[:, line.token]
        found[name] = y[:, line.output]
        aim = net.about.reference(X)[:, line.token]
        errors[name] = np.abs(y - aim).max(axis=1)
        aims.append(aim[:, line.output])
        bounds[name] = pointwise_bound(net)
    different = [aims[i] for i in range(len(aims)) if not any(np.allclose(aims[i], other) for other in aims[:i])]
    return Curve(line.label, x, np.array(different), found, errors, bounds, np.array(line.anchors), line.marks)


def _fine_enough(nets: Mapping[str, AttentionNetwork], line: Line) -> Floats:
    """Evenly spaced points along the line, and more where an output jumps from one to the next."""
    x = np.linspace(line.lo, line.hi, _POINTS)
    for _ in range(_ROUNDS):
        jumps = np.zeros(len(x) - 1, dtype=bool)
        for net in nets.values():
            y = outputs(net, taken(net, line.at(x)))[:, line.token, line.output]
            jumps |= np.abs(np.diff(y)) > _JUMP * max(float(np.ptp(y)), 1e-300)
        where = np.flatnonzero(jumps)[: (_MOST - len(x)) // _BETWEEN]
        if not len(where):
            break
        shares = np.arange(1, _BETWEEN + 1) / (_BETWEEN + 1)
        more = x[where, None] + (x[where + 1] - x[where])[:, None] * shares
        x = np.unique(np.concatenate([x, more.ravel()]))
    return x


def heat_map(name: str, net: AttentionNetwork, line: Line) -> HeatMap:
    """What the line's token looks at, from one end of the line to the other, heads side by side; keys that never have
    any weight are left out."""
    X = taken(net, line.at(np.linspace(line.lo, line.hi, _QUERIES)))
    parts, breaks, start = [], {}, 0
    for layer, head in line.heads:
        weights = attention_weights(net.network, X, layer, head)[:, line.token]
        seen = np.flatnonzero(weights.max(axis=0) > 0)
        registers = int(np.count_nonzero(seen < len(net.network.registers)))
        if len(line.heads) > 1:
            breaks[f"head {head}"] = start
        elif 0 < registers < len(seen):
            breaks["tokens"] = registers
        parts.append(weights[:, seen])
        start += len(seen)
    what = _role(net, *line.heads[0]) if len(line.heads) == 1 else f"{len(line.heads)} heads side by side"
    title = f"{name}: layer {line.heads[0][0]}, {what}"
    return HeatMap(title, np.concatenate(parts, axis=1), line.label, (line.lo, line.hi), breaks)


def plane(name: str, net: AttentionNetwork) -> Plane:
    """The error over the first two entries of the input, the others in the middle of the domain; of each pixel the
    worst of a few places, among them those where the construction expects its largest errors."""
    assert net.certificate is not None
    centre, (lo, hi) = _centre(net), domain_ends(net)
    first, second = (np.linspace(lo.flat[i], hi.flat[i], _SIDE) for i in (0, 1))
    wrong = np.full((_SIDE, _SIDE), -np.inf)
    for across in _inside_pixels(net, 0, first):
        for along in _inside_pixels(net, 1, second):
            X = np.broadcast_to(centre, (_SIDE, _SIDE, *centre.shape)).copy().reshape(_SIDE, _SIDE, -1)
            X[..., 0], X[..., 1] = across[:, None], along[None, :]
            found = worst_errors(net, taken(net, X.reshape(-1, *centre.shape))).reshape(_SIDE, _SIDE)
            wrong = np.maximum(wrong, found)
    d = centre.shape[1]
    names = tuple(f"{net.network.inputs[i % d]} of token {i // d}" for i in (0, 1))
    return Plane(
        f"{name}: largest error of all outputs, in each pixel",
        (names[0], names[1]),
        (float(first[0]), float(first[-1]), float(second[0]), float(second[-1])),
        np.where(np.isneginf(wrong), np.nan, wrong),
        pointwise_bound(net),
    )


def _inside_pixels(net: AttentionNetwork, entry: int, middles: Floats) -> list[Floats]:
    """For every pixel of an axis its middle, and the places in it that this entry of the construction's probes has most
    often: seams, edges of shells, anchors."""
    probed = net.about.probes(np.random.default_rng(0), 4096).reshape(-1, _centre(net).size)[:, entry]
    places, times = np.unique(probed, return_counts=True)
    half = (middles[1] - middles[0]) / 2
    chosen = np.tile(middles, (_TRIED, 1))
    for i, middle in enumerate(middles):
        inside = np.flatnonzero((places > middle - half) & (places < middle + half))
        often = inside[np.argsort(-times[inside], kind="stable")][: _TRIED - 1]
        chosen[1 : 1 + len(often), i] = places[often]
    return list(chosen)


def _first_entry(net: AttentionNetwork) -> Line:
    """The first feature of the first token over its domain, the others fixed; the last layer's first head. They are
    fixed off the middle, where products are often 0."""
    lo, hi = domain_ends(net)
    fixed = _centre(net) + _OFF_CENTRE * (hi - lo)
    first = np.zeros(fixed.shape)
    first[0, 0] = 1.0
    name = net.network.inputs[0]
    same = np.ptp(fixed) == 0
    label = f"{name} of token 0, the other inputs {f'at {fixed[0, 0]:.3g}' if same else 'fixed'}"
    label = name if fixed.size == 1 else label
    last = sum(isinstance(step, Attention) for step in net.network.flat_layers) - 1
    heads = ((last, 0),) if last >= 0 else ()
    return Line(float(lo[0, 0]), float(hi[0, 0]), (1 - first) * fixed, first, label, heads=heads)


def _centre(net: AttentionNetwork) -> Floats:
    lo, hi = domain_ends(net)
    return lo / 2 + hi / 2


def _role(net: AttentionNetwork, layer: int, head: int) -> str:
    layers = [step for step in net.network.flat_layers if isinstance(step, Attention)]
    return layers[layer].heads[head].role
