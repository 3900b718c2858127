"""The small instances of UA-11, UA-12 and AE-8, and how their errors fall with anchors and heads."""

from __future__ import annotations

import dataclasses

import numpy as np

from weightwright.incontext.networks.descent_network import Ranges
from weightwright.numbers import Floats
from weightwright.papers.exhibits.counts import PromptShape, counted_prompted, counts_literal, heads_shared
from weightwright.papers.exhibits.gradient_instances import by_keys, step_line
from weightwright.papers.kit.instance import Instance, Line, counted
from weightwright.papers.kit.measure import outputs
from weightwright.papers.kit.rates import Study, sweep
from weightwright.runtime import AttentionNetwork

_A, _B = -1.0, 1.0
_N, _D, _P = 6, 2, 16
_H = 6  # heads of AE-8
_PAIR = "(1 + y**2/4)*softplus(x) - x*y/2"  # no function of x - y or of x y, and its slope is no sum
_SAMPLES, _RANGES = 4, Ranges(1.0, 1.0, 0.5, 0.25)


def truncated() -> Instance:
    """UA-11: six samples with models of their own, 16 anchors; ours."""
    from weightwright.papers.descent.truncated import in_context_truncated_linear

    faithful = in_context_truncated_linear(_A, _B, _N, _D, p=_P)
    spectral = in_context_truncated_linear(_A, _B, _N, _D, tol=1e-3, method="spectral")
    paper = {"heads": ("1", 1.0), "width": ("2d + d_o + 2", float(2 * _D + 3))}
    counts = (
        *counted_prompted(faithful, "faithful", PromptShape(_N, _D, [_P], values=True), paper),
        *counted_prompted(spectral, "spectral", PromptShape(_N, _D, _keys(spectral), values=True)),
    )
    return Instance((faithful, spectral), counts=counts, line=_line(0))


def shared() -> Instance:
    """AE-8: 24 anchors on six heads of one layer, as printed; and on six layers of one head, a w for each sample."""
    from weightwright.papers.descent.truncated import in_context_truncated_linear_heads
    from weightwright.papers.linear.literal import literal_truncated_linear

    literal = literal_truncated_linear(_A, _B, _N, _D, H=_H)
    net = in_context_truncated_linear_heads(_A, _B, _N, _D, H=_H)
    apart, prompts = _from_the_literal_layout(literal, net)
    note = f"the two differ by at most {apart:.2g} on {prompts:,} prompts with one w"
    net.about = dataclasses.replace(net.about, notes=(note,))
    names = ("one layer", "one head a layer")
    paper = {"heads": ("p / (n-2)", float(heads_shared(_N, (_N - 2) * _H)))}
    counts = (
        *counted(literal, "counts_literal", counts_literal(_N, _D, _H), paper, names[0]),
        *counted_prompted(net, names[1], PromptShape(_N, _D, [_N] * _H, values=True), paper),
    )
    return Instance((literal, net), names, counts=counts, line=_literal_line(), drawn=1)


def _from_the_literal_layout(literal: AttentionNetwork, net: AttentionNetwork) -> tuple[float, int]:
    """How far the two networks are apart, and on how many prompts, one w for all samples."""
    from weightwright.papers.linear.literal import literal_prompt

    rng = np.random.default_rng(8)
    x, w = rng.uniform(-1, 1, (512, _N, _D)), rng.uniform(-1, 1, (512, _D))
    ours = np.concatenate(
        [x, np.tile([1.0, 0.0], (512, _N, 1)), np.zeros((512, _N, 1)), np.tile(w[:, None], (1, _N, 1))], axis=-1
    )
    return float(np.abs(outputs(literal, literal_prompt(x, w)) - outputs(net, ours)[..., :1]).max()), 512


def _literal_line() -> Line:
    """s = w . x of the first sample: x = (1, 1), w = s/2 (1, 1); the other samples are 0."""
    from weightwright.papers.linear.literal import literal_prompt

    def at(s: Floats) -> Floats:
        x, w = np.zeros((len(s), _N, _D)), np.tile(s[:, None] / _D, (1, _D))
        x[:, 0] = 1.0
        return literal_prompt(x, w)

    p = (_N - 2) * _H
    anchors = tuple((_A + np.arange(p) * ((_B - _A) / p)).tolist())
    heads = tuple((0, h) for h in range(_H))
    return Line(-1.5, 1.5, at, "s = w·x of sample 0", anchors, {"a": _A, "b": _B}, heads=heads)


def pairs() -> Instance:
    """UA-12: one step for a loss that takes w . x and y apart, 4 by 4 anchors; ours; and the logistic loss."""
    from weightwright.papers.descent.pairs import in_context_step_of_pairs, logistic_step

    faithful = in_context_step_of_pairs(_PAIR, _SAMPLES, _D, _RANGES, P=3)
    spectral = in_context_step_of_pairs(_PAIR, _SAMPLES, _D, _RANGES, tol=1e-5, method="spectral")
    logistic = logistic_step(_SAMPLES, _D, Ranges(1.0, 1.0, 1.0, 0.25))
    names = ("faithful", "spectral", "logistic, two keys")
    nets = (faithful, spectral, logistic)
    counts = tuple(
        count
        for name, net in zip(names, nets, strict=True)
        for count in counted_prompted(net, name, PromptShape(_SAMPLES, _D, _keys(net), 1, 1, values=True))
    )
    return Instance(nets, names, counts=counts, line=step_line(_SAMPLES, _D, _RANGES))


def _keys(net: AttentionNetwork) -> list[int]:
    return [head.sees.block for head in net.network.heads]


def truncated_studies() -> tuple[Study, ...]:
    """UA-11: the error against p."""
    from weightwright.papers.descent.truncated import in_context_truncated_linear

    def faithful(p: float) -> AttentionNetwork:
        return in_context_truncated_linear(_A, _B, _N, _D, p=int(p))

    fitted = [in_context_truncated_linear(_A, _B, _N, _D, tol=tol, method="spectral") for tol in (1e-1, 1e-2, 1e-3)]
    series = (sweep("faithful", faithful, (8, 16, 32, 64, 128), -1.0), by_keys("spectral", fitted))
    return (Study("error against the anchors of a sample", "anchors of a sample", series),)


def shared_studies() -> tuple[Study, ...]:
    """AE-8: the error against H."""
    from weightwright.papers.descent.truncated import in_context_truncated_linear_heads

    def faithful(H: float) -> AttentionNetwork:
        return in_context_truncated_linear_heads(_A, _B, _N, _D, H=int(H))

    series = (sweep("faithful", faithful, (1, 2, 4, 8, 16), -1.0),)
    return (Study("error against H, six samples", "H, heads", series),)


def pairs_studies() -> tuple[Study, ...]:
    """UA-12: the error against the anchors of a sample."""
    from weightwright.papers.descent.pairs import in_context_step_of_pairs

    grids = [in_context_step_of_pairs(_PAIR, _SAMPLES, _D, _RANGES, P=P) for P in (2, 3, 4)]
    fitted = [
        in_context_step_of_pairs(_PAIR, _SAMPLES, _D, _RANGES, tol=tol, method="spectral")
        for tol in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
    ]
    series = (dataclasses.replace(by_keys("faithful", grids), slope=-0.5), by_keys("spectral", fitted))
    return (Study("error of a step against the anchors of a sample", "anchors of a sample", series),)


def _line(head: int) -> Line:
    """s = w . x + t of the first sample: x = (1, 1), w = r (1, 1), t = r; the other samples are 0."""
    reach = _D + 1.0

    def at(s: Floats) -> Floats:
        X, r = np.zeros((len(s), _N, 3 * _D + 1)), s / reach
        X[:, 0, :_D], X[:, 0, _D], X[:, 0, 2 * _D], X[:, 0, 2 * _D + 1 :] = 1.0, 1.0, r, r[:, None]
        return X

    anchors = tuple((_A + np.arange(_P) * ((_B - _A) / _P)).tolist())
    return Line(-1.5, 1.5, at, "s = w·x + t of sample 0", anchors, {"a": _A, "b": _B}, heads=((head, 0),))
