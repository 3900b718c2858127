"""The small instances of AE-1 to AE-3, and how the error of AE-1 falls with the anchors."""

from __future__ import annotations

import numpy as np

from weightwright.incontext.networks.descent_network import Ranges
from weightwright.numbers import Floats
from weightwright.papers.exhibits.counts import PromptShape, counted_prompted
from weightwright.papers.kit.instance import Instance, Line
from weightwright.papers.kit.rates import Point, Series, Study, sweep
from weightwright.runtime import AttentionNetwork

_N, _D, _P = 4, 2, 32
_F, _LOSS = "sin(x)", "sqrt(1 + x**2) - 1"
_REACH = 3.0  # of w . x - y, where all entries are at most 1
_STEP = Ranges(1.0, 1.0, 1.0, 0.5 / _N)  # step 1/2


def gradients() -> Instance:
    """AE-1: sin(w . x_i - y_i) x_i for four samples, 33 anchors each; ours."""
    from weightwright.papers.descent.gradients import in_context_gradients

    faithful = in_context_gradients(_F, _N, _D, P=_P)
    spectral = in_context_gradients(_F, _N, _D, tol=1e-8, method="spectral")
    return _per_sample(faithful, spectral)


def of_a_loss() -> Instance:
    """AE-2: the gradients of the pseudo-Huber loss sqrt(1 + s^2) - 1, sample by sample."""
    from weightwright.papers.descent.gradients import per_sample_gradients

    faithful = per_sample_gradients(_LOSS, _N, _D, P=_P)
    spectral = per_sample_gradients(_LOSS, _N, _D, tol=1e-6, method="spectral")
    return _per_sample(faithful, spectral)


def one_step() -> Instance:
    """AE-3: one step of size 1/2 for the mean of the pseudo-Huber losses of four samples."""
    from weightwright.incontext.networks.slopes import beyond, faithful_slope, spectral_slope
    from weightwright.papers.descent.gradients import RESIDUAL, inverse_temperature
    from weightwright.papers.descent.probes import along
    from weightwright.papers.descent.steps import in_context_step

    slope = "x/sqrt(1 + x**2)"
    anchors = faithful_slope(slope, RESIDUAL, _REACH, _P, inverse_temperature(_REACH, _P), "float64")
    fitted = spectral_slope(slope, RESIDUAL, beyond(_REACH), 1e-7, "float64")
    f = along(slope, RESIDUAL)
    nets = (
        in_context_step(anchors, f, _N, _D, _STEP, method="faithful", chosen={"P": float(_P)}),
        in_context_step(fitted, f, _N, _D, _STEP, method="spectral"),
    )
    shapes = [PromptShape(_N, _D, [table.size for table in s.tables], 1, 1, values=True) for s in (anchors, fitted)]
    counts = tuple(
        count
        for net, shape in zip(nets, shapes, strict=True)
        for count in counted_prompted(net, net.about.method, shape)
    )
    return Instance(nets, counts=counts, line=step_line(_N, _D, _STEP))


def _per_sample(faithful: AttentionNetwork, spectral: AttentionNetwork) -> Instance:
    keys = int(spectral.about.chosen["keys"])
    paper = {
        "heads": ("1", 1.0),
        "width": ("2(2d + n + 2)", float(2 * (2 * _D + _N + 2))),
        "scores a step": ("n² (P + 1)", float(_N**2 * (_P + 1))),
    }
    counts = (
        *counted_prompted(faithful, "faithful", PromptShape(_N, _D, [_P + 1]), paper),
        *counted_prompted(spectral, "spectral", PromptShape(_N, _D, [keys])),
    )
    return Instance((faithful, spectral), counts=counts, line=_line())


def _line() -> Line:
    """The residual of the first sample: x = (1, 1), w = t (1, 1), y = -t; the other samples are 0."""

    def at(s: Floats) -> Floats:
        X = np.zeros((len(s), _N, 2 * _D + 1))
        t = s / _REACH
        X[:, 0, :_D], X[:, 0, _D], X[:, 0, _D + 1 :] = 1.0, -t, t[:, None]
        return X

    anchors = tuple(np.linspace(-_REACH, _REACH, _P + 1).tolist())
    return Line(-_REACH, _REACH, at, "s = w·x - y of sample 0", anchors)


def step_line(n: int, d: int, ranges: Ranges) -> Line:
    """The state w = t (1, ..., 1) before the step, for fixed samples; the first coefficient after it is drawn."""
    rng = np.random.default_rng(3)
    x, y = ranges.x * rng.uniform(0, 1, (n, d)), ranges.y * rng.uniform(-1, 1, (n, 1))
    u = ranges.value * x / ranges.x

    def at(t: Floats) -> Floats:
        fixed = np.broadcast_to(np.concatenate([x, u, y], axis=1), (len(t), n, 2 * d + 1))
        return np.concatenate([fixed, np.broadcast_to(t[:, None, None], (len(t), n, d))], axis=-1)

    return Line(-ranges.w, ranges.w, at, "w[0] before the step, w along (1, ..., 1)")


def gradients_studies() -> tuple[Study, ...]:
    """AE-1: the error against the anchors of a sample."""
    from weightwright.papers.descent.gradients import in_context_gradients

    def faithful(P: float) -> AttentionNetwork:
        net: AttentionNetwork = in_context_gradients(_F, _N, _D, P=int(P) - 1)
        return net

    fitted = [in_context_gradients(_F, _N, _D, tol=tol, method="spectral") for tol in (1e-2, 1e-4, 1e-6, 1e-8)]
    series = (sweep("faithful", faithful, (9, 17, 33, 65, 129), -1.0), by_keys("spectral", fitted))
    return (Study("error against the anchors of a sample", "anchors of a sample", series),)


def by_keys(name: str, nets: list[AttentionNetwork]) -> Series:
    """One point for each network, at the number of keys that its fit took."""
    points: list[Point] = []
    for net in nets:
        keys = sum(head.sees.block for head in net.network.heads)
        points += sweep(name, lambda _, net=net: net, (float(keys),)).points  # type: ignore[misc]
    return Series(name, tuple(points))
