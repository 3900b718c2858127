"""The small instances of AE-13 and AE-14, and how their error falls with the number of stored patterns.

Each instance imports its own construction only.
"""

from __future__ import annotations

import numpy as np

from weightwright.numbers import Floats
from weightwright.papers.exhibits.counts import (
    counts_hopfield_function,
    counts_hopfield_gradients,
    counts_hopfield_heads,
)
from weightwright.papers.kit.instance import Instance, Line, counted
from weightwright.papers.kit.measure import measure
from weightwright.papers.kit.rates import Point, Series, Study, sweep
from weightwright.runtime import AttentionNetwork

_A, _B = np.array([1.0, -0.5]), 0.25  # a . z + b is between -1.25 and 1.75 for z in [-1, 1]^2
_F, _TWO = "sin(3*x)", ("sin(3*x)", "abs(x)")
_SLOPE = "x/sqrt(1 + x*x)"  # of the pseudo-Huber loss
_N, _D = 4, 2  # examples, features
_TOLERANCES = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10)


def function() -> Instance:
    """AE-13: three tokens and 33 stored patterns; ours; and two outputs that share 33 stored patterns."""
    from weightwright.papers.hopfield.hopfield_layer import hopfield_function

    faithful = hopfield_function(_F, _A, _B, (-1, 1), P=32, tokens=3)
    spectral = hopfield_function(_F, _A, _B, (-1, 1), tol=1e-8, tokens=3, method="spectral")
    two = hopfield_function(_TWO, _A, _B, (-1, 1), P=32, tokens=3)
    heads, keys = (int(spectral.about.chosen[name]) for name in ("heads", "keys"))
    counts = (
        *counted(faithful, "counts_hopfield_function", counts_hopfield_function(2, 32), {"heads": ("1", 1.0)}),
        *counted(spectral, "counts_hopfield_heads", counts_hopfield_heads(2, heads, keys)),
        *counted(two, "counts_hopfield_function", counts_hopfield_function(2, 32, 2), name="two outputs"),
    )

    def at(s: Floats) -> Floats:
        Z = np.zeros((len(s), 3, 2))
        Z[:, 0] = ((s - _B) / (_A @ _A))[:, None] * _A
        return Z

    anchors = tuple(np.linspace(-1.25, 1.75, 33).tolist())
    line = Line(-1.0, 1.5, at, "a·z + b of token 0, along a", anchors)  # there z stays in the domain
    return Instance((faithful, spectral, two), ("faithful", "spectral", "two outputs"), counts=counts, line=line)


def gradients() -> Instance:
    """AE-14: four examples of two features, 33 stored patterns for each; ours."""
    from weightwright.papers.hopfield.hopfield_prompt import hopfield_gradients

    faithful = hopfield_gradients(_SLOPE, _N, _D, P=32)
    spectral = hopfield_gradients(_SLOPE, _N, _D, tol=1e-6, method="spectral")
    keys = (int(spectral.about.chosen["keys"]),)
    counts = (
        *counted(faithful, "counts_hopfield_gradients", counts_hopfield_gradients(_D, (33,)), {"heads": ("1", 1.0)}),
        *counted(spectral, "counts_hopfield_gradients", counts_hopfield_gradients(_D, keys)),
    )

    def at(r: Floats) -> Floats:
        """Example 0 is x = (r/3, r/3), y = -r/3, and w = (1, 1): its residual is r. The others are 0."""
        prompt = np.zeros((len(r), _N, 2 * _D + 1))
        prompt[:, :, _D + 1 :] = 1.0
        prompt[:, 0, :_D], prompt[:, 0, _D] = r[:, None] / 3, -r / 3
        return prompt

    line = Line(-3.0, 3.0, at, "w·x - y of example 0", tuple(np.linspace(-3, 3, 33).tolist()), heads=())
    return Instance((faithful, spectral), counts=counts, line=line)


def function_studies() -> tuple[Study, ...]:
    """AE-13: the error against the number of stored patterns."""
    from weightwright.papers.hopfield.hopfield_layer import hopfield_function

    def faithful(P: float) -> AttentionNetwork:
        return hopfield_function(_F, _A, _B, (-1, 1), P=int(P))

    fitted = [hopfield_function(_F, _A, _B, (-1, 1), tol=tol, method="spectral") for tol in _TOLERANCES]
    series = (sweep("faithful", faithful, (8, 16, 32, 64, 128), -1.0), _by_keys(fitted))
    return (Study("error against stored patterns", "P, or keys", series),)


def gradients_studies() -> tuple[Study, ...]:
    """AE-14: the error against the number of stored patterns of an example."""
    from weightwright.papers.hopfield.hopfield_prompt import hopfield_gradients

    def faithful(P: float) -> AttentionNetwork:
        return hopfield_gradients(_SLOPE, _N, _D, P=int(P))

    fitted = [hopfield_gradients(_SLOPE, _N, _D, tol=tol, method="spectral") for tol in _TOLERANCES[:4]]
    series = (sweep("faithful", faithful, (8, 16, 32, 64), -1.0), _by_keys(fitted))
    return (Study("error against stored patterns of an example", "P, or keys", series),)


def _by_keys(nets: list[AttentionNetwork]) -> Series:
    """One point for each network, at the number of its keys."""
    points = []
    for net in nets:
        assert net.certificate is not None
        points.append(Point(net.about.chosen["keys"], measure(net, 1024).error, net.certificate.bound))
    return Series("spectral", tuple(points))
