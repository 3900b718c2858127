"""SU-2: UA-2 and UA-3 at the ends of [a, b], beyond them, and where the anchors of two heads meet.

Six tokens x_i, Range(x_i) on [a, b] = [0, 1], x_i in [-10, 11]; p = 16 anchors, H = 4 heads.

Then targets that are sharp near b: a ramp clip(k (s - 0.9), 0, 1) of slope k by the nearest of P + 1 anchors on [0, 1]
(AE-13's layer, which takes any values on the anchors), and a jump at 0.9 with a dead zone around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from weightwright.approximation.approximate import approximate
from weightwright.numbers import Floats
from weightwright.papers.kit.constructed import About
from weightwright.papers.kit.instance import Check, Instance, check_series
from weightwright.papers.kit.rates import Series, Study, at_places, ends
from weightwright.papers.theorems.constructions import hopfield_function, truncated_linear, truncated_linear_heads
from weightwright.runtime import AttentionNetwork

_N, _H = 6, 4
_SHARP, _SLOPES, _ANCHORS = 0.9, (1.0, 10.0, 100.0, 1000.0), 64
_SPACING = 1 / ((_N - 2) * _H)


def places() -> Instance:
    """SU-2: the worst place of each network, and of ramps and a jump near b."""
    studied = _study(), sharp_study(_SLOPES, _ANCHORS)
    return Instance(checks=tuple(_check(series) for study in studied for series in study.series), studies=studied)


def sharp_study(slopes: tuple[float, ...], P: int) -> Study:
    """Ramps of these slopes and a jump, all a tenth before b: the error at the middle, there, and at both ends."""
    half = 0.5 / P
    places = {"a": 0.0, "middle": 0.5, "0.9 - dL": _SHARP - 2 * half, "0.9": _SHARP, "b - dL/2": 1 - half, "b": 1.0}
    series = []
    for k in slopes:
        ramp = hopfield_function(f"clip({k!r}*(x - {_SHARP!r}), 0, 1)", [1.0], 0.0, (0, 1), P=P)
        series.append(at_places(f"ramp of slope {k:g}", ramp, _one, places, half / 4))
    jump: AttentionNetwork = approximate(f"step(x - {_SHARP!r})", (0, 1), 1e-6, dead_zone=half)
    jump.about = About("SU-2", "spectral", {}, {}, {}, _jumps(half), lambda rng, count: rng.random((count, 1, 1)))
    series.append(at_places(f"jump, dead zone {half:.2g}", jump, _one, _beside(places, half), half / 4))
    title = f"sharp targets near b, P = {P} anchors"
    return Study(title, "place on the axis of s", tuple(series), axis="places")


def _one(s: Floats) -> Floats:
    return s[:, None, None]


def _jumps(zone: float) -> Callable[[Floats], Floats]:
    """1 from the jump on; nothing is claimed in the dead zone."""
    return lambda X: np.where(np.abs(X - _SHARP) < zone, np.nan, (X >= _SHARP).astype(np.float64))


def _beside(places: Mapping[str, float], zone: float) -> dict[str, float]:
    """The place of the jump itself is left out: what is searched is just beyond its dead zone."""
    return {name: s + 1.3 * zone if s == _SHARP else s for name, s in places.items()}


def _study() -> Study:
    w, t, domain = np.ones((_N, 1)), np.zeros(_N), (-10, 11)
    nets = {
        "UA-2 faithful": truncated_linear(w, t, 0.0, 1.0, domain, p=(_N - 2) * _H),
        "UA-2 spectral": truncated_linear(w, t, 0.0, 1.0, domain, tol=1e-6, method="spectral"),
        "UA-3 faithful": truncated_linear_heads(w[0], t, 0.0, 1.0, domain, H=_H),
    }
    places = ends(0.0, 1.0, _SPACING, [(_N - 2) * h * _SPACING - _SPACING / 2 for h in range(1, _H)])
    series = tuple(at_places(name, net, _at, places, _SPACING / 4) for name, net in nets.items())
    return Study("p = 16, H = 4, [a, b] = [0, 1]", "place on the axis of s", series, axis="places")


def _at(s: Floats) -> Floats:
    return np.broadcast_to(s[:, None, None], (len(s), _N, 1)).copy()


def _check(series: Series) -> Check:
    worst = max(series.points, key=lambda point: point.measured)
    return check_series(series, worst, notes=(f"worst near {worst.label}",))
