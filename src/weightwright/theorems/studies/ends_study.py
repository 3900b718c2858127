"""SU-2: UA-2 and UA-3 at the ends of [a, b], beyond them, and where the anchors of two heads meet.

Six tokens x_i, Range(x_i) on [a, b] = [0, 1], x_i in [-10, 11]; p = 16 anchors, H = 4 heads.
"""

from __future__ import annotations

import numpy as np

from weightwright.numbers import Floats
from weightwright.theorems.kit.instance import Check, Instance
from weightwright.theorems.kit.rates import Series, Study, at_places, ends

_N, _H = 6, 4
_SPACING = 1 / ((_N - 2) * _H)


def small() -> Instance:
    """The worst place of each network."""
    study = _study()
    return Instance(checks=tuple(_check(series) for series in study.series), studies=(study,))


def studies() -> tuple[Study, ...]:
    return (_study(),)


def _study() -> Study:
    from weightwright.theorems.linear.one_head import truncated_linear
    from weightwright.theorems.linear.shared_anchors import truncated_linear_heads

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
    fine = all(point.bound is not None and point.measured <= point.bound for point in series.points)
    reason = None if fine else f"at {worst.label} the error is {worst.measured!r}, the bound {worst.bound!r}"
    notes = (f"worst near {worst.label}",)
    return Check(series.name, "PROVEN" if fine else "FAILED", worst.bound, worst.measured, notes=notes, reason=reason)
