"""The small instances of AE-1 to AE-3, AE-8, AE-13 and AE-14: networks that read samples, and how their errors fall."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from weightwright.incontext.networks.descent_network import Ranges
from weightwright.incontext.networks.slopes import beyond, faithful_slope, spectral_slope
from weightwright.papers.descent.gradients import RESIDUAL, inverse_temperature
from weightwright.papers.descent.probes import along as along_argument
from weightwright.papers.kit.instance import IN_A_PROMPT, Instance, Line, Orders, counted, counted_each
from weightwright.papers.kit.measure import outputs
from weightwright.papers.kit.rates import Series, Study, both_methods, sweep
from weightwright.papers.linear.literal import literal_prompt
from weightwright.papers.theorems import constructions as c
from weightwright.runtime import AttentionNetwork

_N, _D, _P = 4, 2, 32
_REACH = 3.0  # of w . x - y, where all entries are at most 1
_STEP = Ranges(1.0, 1.0, 1.0, 0.5 / _N)  # step 1/2
_GRADIENTS = partial(c.in_context_gradients, "sin(x)", _N, _D)
_OF_A_LOSS = partial(c.per_sample_gradients, "sqrt(1 + x**2) - 1", _N, _D)
_ONE_HEAD: Orders = {"heads": ("1", 1.0)}


def gradients() -> Instance:
    """AE-1: sin(w . x_i - y_i) x_i for four samples, 33 anchors each; ours."""
    nets = {"faithful": _GRADIENTS(P=_P), "spectral": _GRADIENTS(tol=1e-8, method="spectral")}
    return _per_sample(
        nets,
        rates=lambda: both_methods(
            "error against the anchors of a sample",
            "anchors of a sample",
            sweep("faithful", lambda anchors: _GRADIENTS(P=anchors - 1), (9, 17, 33, 65, 129), -1.0),
            _GRADIENTS,
            (1e-2, 1e-4, 1e-6, 1e-8),
        ),
    )


def of_a_loss() -> Instance:
    """AE-2: the gradients of the pseudo-Huber loss sqrt(1 + s^2) - 1, sample by sample."""
    return _per_sample({"faithful": _OF_A_LOSS(P=_P), "spectral": _OF_A_LOSS(tol=1e-6, method="spectral")})


def _per_sample(nets: dict[str, AttentionNetwork], **further: Any) -> Instance:
    """Drawn along the residual s of the first sample: x = (1, 1), w = s/3 (1, 1), y = -s/3; the others are 0."""
    scores = ("n² (P + 1)", float(_N**2 * (_P + 1)))
    faithful: Orders = {**_ONE_HEAD, "width": ("2(2d + n + 2)", float(2 * (2 * _D + _N + 2))), "scores a step": scores}
    start, along = np.zeros((_N, 2 * _D + 1)), np.zeros((_N, 2 * _D + 1))
    start[0, :_D], along[0, _D:] = 1.0, [-1 / _REACH, 1 / _REACH, 1 / _REACH]
    anchors = np.linspace(-_REACH, _REACH, _P + 1).tolist()
    line = Line(-_REACH, _REACH, start, along, "s = w·x - y of sample 0", anchors)
    return Instance(nets, counts=counted_each(nets, {"faithful": faithful}, shown=IN_A_PROMPT), line=line, **further)


def one_step() -> Instance:
    """AE-3: one step of size 1/2 for the mean of the pseudo-Huber losses of four samples."""
    slope = "x/sqrt(1 + x**2)"
    anchors = faithful_slope(slope, RESIDUAL, _REACH, _P, inverse_temperature(_REACH, _P), "float64")
    fitted = spectral_slope(slope, RESIDUAL, beyond(_REACH), 1e-7, "float64")
    f = along_argument(slope, RESIDUAL)
    nets = {
        "faithful": c.in_context_step(anchors, f, _N, _D, _STEP, method="faithful", chosen={"P": float(_P)}),
        "spectral": c.in_context_step(fitted, f, _N, _D, _STEP, method="spectral"),
    }
    return Instance(nets, counts=counted_each(nets, shown=IN_A_PROMPT), line=along_one_step(_N, _D, _STEP))


def along_one_step(n: int, d: int, ranges: Ranges) -> Line:
    """The state w = s (1, ..., 1) before the step, for fixed samples; the first coefficient after it is drawn."""
    rng = np.random.default_rng(3)
    x, y = ranges.x * rng.uniform(0, 1, (n, d)), ranges.y * rng.uniform(-1, 1, (n, 1))
    start = np.concatenate([x, ranges.value * x / ranges.x, y, np.zeros((n, d))], axis=1)
    along = np.concatenate([np.zeros((n, 2 * d + 1)), np.ones((n, d))], axis=1)
    return Line(-ranges.w, ranges.w, start, along, "w[0] before the step, w along (1, ..., 1)")


# AE-8

_TOKENS, _H = 6, 6
_IN_CONTEXT_HEADS = partial(c.in_context_truncated_linear_heads, -1.0, 1.0, _TOKENS, _D)


def shared() -> Instance:
    """AE-8: 24 anchors on six heads of one layer, as printed; and on six layers of one head, a w for each sample."""
    literal = c.literal_truncated_linear(-1.0, 1.0, _TOKENS, _D, H=_H)
    net = _IN_CONTEXT_HEADS(H=_H)
    apart, prompts = _distance_from_literal(literal, net)
    note = f"the two differ by at most {apart:.2g} on {prompts:,} prompts with one w"
    net.about = dataclasses.replace(net.about, notes=(note,))
    orders = {"heads": ("p / (n-2)", float(_H))}
    # s = w . x of the first sample: x = (1, 1), w = s/2 (1, 1); the other samples are 0
    start = literal_prompt(np.outer(np.eye(_TOKENS)[0], np.ones(_D)), np.zeros(_D))
    along = literal_prompt(np.zeros((_TOKENS, _D)), np.full(_D, 1 / _D))
    heads, anchors = tuple((0, h) for h in range(_H)), anchors_from(-1.0, 1.0, (_TOKENS - 2) * _H)
    line = Line(-1.5, 1.5, start, along, "s = w·x of sample 0", anchors, {"a": -1.0, "b": 1.0}, heads=heads)
    return Instance(
        {"one layer": literal, "one head a layer": net},
        counts=(
            *counted(literal, "one layer", orders),
            *counted(net, "one head a layer", orders, shown=IN_A_PROMPT),
        ),
        line=line,
        drawn=1,
        rates=lambda: (Study("error against H, six samples", "H, heads", (by_heads(_IN_CONTEXT_HEADS),)),),
    )


def by_heads(build: Callable[..., AttentionNetwork]) -> Series:
    return sweep("faithful", lambda H: build(H=H), (1, 2, 4, 8, 16), -1.0)


def anchors_from(a: float, b: float, p: int) -> Sequence[float]:
    """The paper's p anchors on [a, b], of which none stands at b."""
    anchors: list[float] = (a + np.arange(p) * ((b - a) / p)).tolist()
    return anchors


def _distance_from_literal(literal: AttentionNetwork, net: AttentionNetwork) -> tuple[float, int]:
    """How far the two networks are apart, and on how many prompts, one w for all samples."""
    rng = np.random.default_rng(8)
    x, w = rng.uniform(-1, 1, (512, _TOKENS, _D)), rng.uniform(-1, 1, (512, _D))
    multiples, shifts = np.tile([1.0, 0.0], (512, _TOKENS, 1)), np.zeros((512, _TOKENS, 1))
    ours = np.concatenate([x, multiples, shifts, np.tile(w[:, None], (1, _TOKENS, 1))], axis=-1)
    return float(np.abs(outputs(literal, literal_prompt(x, w)) - outputs(net, ours)[..., :1]).max()), 512


# AE-13 and AE-14

_A, _B = np.array([1.0, -0.5]), 0.25  # a . z + b is between -1.25 and 1.75 for z in [-1, 1]^2
_TOLERANCES = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
_FUNCTION = partial(c.hopfield_function, "sin(3*x)", _A, _B, (-1, 1))
_HOPFIELD_GRADIENTS = partial(c.hopfield_gradients, "x/sqrt(1 + x*x)", _N, _D)  # of the pseudo-Huber loss


def hopfield_layer() -> Instance:
    """AE-13: three tokens and 33 stored patterns; ours; and two outputs that share 33 stored patterns."""
    nets = {
        "faithful": _FUNCTION(P=32, tokens=3),
        "spectral": _FUNCTION(tol=1e-8, tokens=3, method="spectral"),
        "two outputs": c.hopfield_function(("sin(3*x)", "abs(x)"), _A, _B, (-1, 1), P=32, tokens=3),
    }
    along = np.outer([1.0, 0.0, 0.0], _A / (_A @ _A))
    anchors = np.linspace(-1.25, 1.75, 33).tolist()
    line = Line(-1.0, 1.5, -_B * along, along, "a·z + b of token 0, along a", anchors)  # there z stays in the domain
    return Instance(
        nets,
        counts=counted_each(nets, {"faithful": _ONE_HEAD}),
        line=line,
        rates=lambda: both_methods(
            "error against stored patterns",
            "P, or keys",
            sweep("faithful", lambda P: _FUNCTION(P=P), (8, 16, 32, 64, 128), -1.0),
            _FUNCTION,
            _TOLERANCES,
        ),
    )


def hopfield_prompt() -> Instance:
    """AE-14: four examples of two features, 33 stored patterns for each; ours."""
    nets = {"faithful": _HOPFIELD_GRADIENTS(P=32), "spectral": _HOPFIELD_GRADIENTS(tol=1e-6, method="spectral")}
    # example 0 is x = (s/3, s/3), y = -s/3, and w = (1, 1): its residual is s; the others are 0
    start, along = np.zeros((_N, 2 * _D + 1)), np.zeros((_N, 2 * _D + 1))
    start[:, _D + 1 :], along[0, : _D + 1] = 1.0, [1 / 3, 1 / 3, -1 / 3]
    line = Line(-3.0, 3.0, start, along, "w·x - y of example 0", np.linspace(-3, 3, 33).tolist(), heads=())
    return Instance(
        nets,
        counts=counted_each(nets, {"faithful": _ONE_HEAD}),
        line=line,
        rates=lambda: both_methods(
            "error against stored patterns of an example",
            "P, or keys",
            sweep("faithful", lambda P: _HOPFIELD_GRADIENTS(P=P), (8, 16, 32, 64), -1.0),
            _HOPFIELD_GRADIENTS,
            _TOLERANCES[:4],
        ),
    )
