"""The small instances of UA-1 to UA-15, and how their errors move with what they are built from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from typing import get_args

import numpy as np
import numpy.typing as npt
from flint import arb, ctx

from weightwright.heads.lookup import Case, softmax_error
from weightwright.heads.lookup import Norm as VectorNorm
from weightwright.incontext.networks.descent_network import Ranges
from weightwright.network.costs import count_learnable
from weightwright.network.interpreter import attention_weights
from weightwright.numbers import Floats
from weightwright.papers.instances.emulation_instances import along_one_step, anchors_from, by_heads
from weightwright.papers.kit.instance import (
    IN_A_PROMPT,
    ON_A_GRID,
    Check,
    Count,
    Instance,
    Line,
    Matrices,
    Orders,
    counted,
    counted_each,
)
from weightwright.papers.kit.measure import outputs
from weightwright.papers.kit.rates import Build, Point, Series, Study, both_methods, by_keys, sweep
from weightwright.papers.theorems import constructions as c
from weightwright.papers.theorems.registry import THEOREMS
from weightwright.runtime import AttentionNetwork

#: Of UA-1: scores and the gap of the largest; bits of its exact distances, score vectors that are tried.
_SCORES, _GAP, _BITS, _VECTORS = 100, 0.5, 256, 6
_NORMS = {"inf": "infinity norm", "1": "1-norm"}

_A, _B, _P = -1.0, 1.0, 16
_ENDS = {"a": _A, "b": _B}
_ONE_HEAD: Orders = {"heads": ("1", 1.0)}
_SORT = ("min(x0, x1)", "max(x0, x1)")
_WAVES = ("x0*x1", "sin(x0)*cos(x1)")

#: Three tokens of two features with a model each; of UA-3 one w for six tokens.
_W, _T = np.array([[1.5, 0.5], [-1.0, 1.0], [0.25, -2.0]]), np.array([0.1, 0.0, -0.2])
_SHARED, _SHIFTS = np.array([1.5, 0.5]), np.linspace(-0.2, 0.2, 6)
_HEAD = partial(c.truncated_linear, _W, _T, _A, _B, (-1, 1))
_HEADS = partial(c.truncated_linear_heads, _SHARED, _SHIFTS, _A, _B, (-1, 1))
_IN_CONTEXT = partial(c.in_context_truncated_linear, _A, _B, 6, 2)


def hardmax() -> Instance:
    """UA-1: n = 100 scores, a gap of 1/2, an error of 1e-6 asked for: the head; and both cases in both norms."""
    nets = {"faithful": c.nearly_hardmax(_SCORES, _GAP, error=1e-6)}
    first = np.eye(_SCORES)[:1]  # the largest score against all others at 0, where they weigh most
    line = Line(_GAP, _GAP + 1.0, 0 * first, first, f"the largest score, {_SCORES - 1} others at 0", heads=())
    shown, asked = (16.0, 32.0, 48.0), np.linspace(4.0, 64.0, 16).tolist()
    return Instance(
        nets,
        counts=counted_each(nets),
        line=line,
        studies=(hardmax_study(shown),),
        rates=lambda: (hardmax_study(asked),),
    )


def hardmax_study(betas: Sequence[float]) -> Study:
    """Both cases in both norms among 100 scores: the largest distance found, and softmax_error's bound."""
    series = []
    for case in get_args(Case):
        for norm in get_args(VectorNorm):
            errors = [_largest(beta, case, norm) for beta in betas]
            bounds = [softmax_error(beta, _GAP, _SCORES, case, norm) for beta in betas]
            series.append(Series(f"{case}, {_NORMS[norm]}", tuple(map(Point, betas, errors, bounds))))
    said = "bound by the inequality in heads/lookup.py, rounded up"
    return Study("softmax against hardmax", "beta", tuple(series), axis="linear", bound_is=said)


def _largest(beta: float, case: Case, norm: VectorNorm) -> float:
    """The largest distance to hardmax among score vectors whose gap is just that, in 256 bits, rounded to a float."""
    return max(float(_distance(scores, beta, case, norm).mid()) for scores in _scores(case))


def _scores(case: Case) -> list[Floats]:
    """Vectors whose first score leads: all others exactly a gap below, then random ones further down. "two": the second
    stands anywhere between the first and a gap below."""
    rng = np.random.default_rng(0)
    found = []
    for index in range(_VECTORS):
        below = -_GAP - (0.0 if index < 4 else rng.exponential(_GAP / 4)) * rng.random(_SCORES)
        below[1 if case == "unique" else 2] = -_GAP
        below[0] = 0.0
        if case == "two":
            below[1] = (0.0, -_GAP, -_GAP / 2, -_GAP / 16)[index] if index < 4 else -_GAP * rng.random()
        found.append(below)
    return found


def _distance(scores: Floats, beta: float, case: Case, norm: VectorNorm) -> arb:
    old, ctx.prec = ctx.prec, _BITS
    try:
        weights = [(arb(beta) * arb(score)).exp() for score in scores.tolist()]
        total, kept = sum(weights, arb(0)), 1 if case == "unique" else 2
        top = sum(weights[:kept], arb(0))
        hard = [weight / top for weight in weights[:kept]] + [arb(0)] * (len(weights) - kept)
        moved = [abs(weight / total - target) for weight, target in zip(weights, hard, strict=True)]
        return sum(moved, arb(0)) if norm == "1" else max(moved, key=lambda x: float(x.mid()))
    finally:
        ctx.prec = old


# UA-2, UA-3 and UA-13: truncated linear models


def one_head() -> Instance:
    """UA-2: three tokens with a model each, 16 anchors; ours with as many; and anchors in two rows of the output."""
    zone = 2.0**-9  # zones that cover less than 1% of the domain, those of both rows together
    nets = {
        "faithful": _HEAD(p=_P),
        "spectral": _HEAD(p=_P, method="spectral"),
        "two rows": _HEAD(p=_P, G=lambda k: k // 8, dead_zone=zone),
    }
    line = _along_a_model(_W, _T)
    return Instance(nets, counts=counted_each(nets, {"faithful": _ONE_HEAD}), line=line, rates=_one_head_rates)


def _one_head_rates() -> tuple[Study, ...]:
    """The error against p; and in three formats, where beta grows as p², and rounding with it."""
    methods = (
        sweep("faithful", lambda p: _HEAD(p=p), (8, 16, 32, 64, 128), -1.0),
        sweep("spectral", lambda p: _HEAD(p=p, method="spectral"), (8, 16, 24, 32)),
    )
    cases = {"float64": (8, 16, 32, 64, 128), "float32": (8, 16, 32, 64, 128), "bfloat16": (8, 16)}
    formats = tuple(sweep(dtype, partial(_head_in, dtype), ps, -1.0) for dtype, ps in cases.items())
    return (
        Study("error against p", "p, anchors", methods),
        Study("error against p in three formats", "p, anchors", formats),
    )


def _head_in(dtype: str, p: int) -> AttentionNetwork:
    return _HEAD(p=p, dtype=dtype)


def shared_anchors() -> Instance:
    """UA-3: six tokens, four heads with four anchors each; ours."""
    nets = {"faithful": _HEADS(H=4), "spectral": _HEADS(tol=1e-6, method="spectral")}
    line = _along_a_model(np.tile(_SHARED, (6, 1)), _SHIFTS, tuple((0, h) for h in range(4)))
    counts = counted(nets["faithful"], "faithful", {"heads": ("p / (n-2)", float(_heads_shared(6, _P)))})
    return Instance(nets, counts=counts, line=line, rates=_shared_anchors_rates)


def _shared_anchors_rates() -> tuple[Study, ...]:
    """The error against H, with six tokens, and against the tokens, with two heads."""

    def of_tokens(anchors: int) -> AttentionNetwork:
        return c.truncated_linear_heads(_SHARED, np.linspace(-0.2, 0.2, anchors + 2), _A, _B, (-1, 1), H=2)

    lengths = sweep("faithful", of_tokens, (2, 4, 8, 16, 32), -1.0)
    return (
        Study("error against H, six tokens", "H, heads", (by_heads(_HEADS),)),
        Study("error against n - 2, two heads", "n - 2, anchors of a head", (lengths,)),
    )


def _heads_shared(n: int, p: int) -> int:
    """H = p / (n-2) heads for UA-3, rounded up (Theorem 3.9)."""
    return -(-p // (n - 2))


def activations() -> Instance:
    """UA-13: the three activations of the same three models, 16 anchors each."""
    nets = {
        "ReLU": c.relu(_W, _T, (-1, 1), p=_P),
        "hard tanh": c.hard_tanh(_W, _T, (-1, 1), p=_P),
        "clipped ReLU": c.clipped_relu(_W, _T, 0.5, (-1, 1), p=_P),
    }
    return Instance(nets, counts=counted_each(nets, dict.fromkeys(nets, _ONE_HEAD)))


def _along_a_model(w: Floats, t: Floats, heads: tuple[tuple[int, int], ...] = ((0, 0),)) -> Line:
    """s = w_0 . x_0 + t_0 of the first token, along w_0; the other tokens are 0."""
    along = np.zeros(w.shape)
    along[0] = w[0] / (w[0] @ w[0])
    anchors = anchors_from(_A, _B, _P)
    return Line(-1.5, 1.5, -t[0] * along, along, "s = w·x + t of token 0", anchors, _ENDS, heads=heads)


# UA-4 to UA-7: functions of n d = 2 numbers on [-1, 1]², delta = g^-2

_N, _D = 2, 1  # tokens, features
_GRID = 5  # cells along each axis
_F = "sin(2*x0) + abs(x1)/2"
_TERMS = ("sin(2*x0)", "abs(x1)/2", "x2*x0", "x3*x1", "x4/2", "x5/2")  # the first N are a function of N numbers
_CELLS = {1: 64, 2: 24, 3: 10, 4: 6, 5: 6, 6: 3}  # numbers: cells along each, as many as are proven in seconds
_L1 = "L_1 error, estimated"


def bumps() -> Instance:
    """UA-4 with 9² cells: an odd number, so that the middle of the domain is a grid point."""
    nets = {"faithful": c.bumps(_F, _N, _D, g=9)}
    return Instance(nets, counts=counted_each(nets, shown=ON_A_GRID), rates=_bumps_rates)


def _bumps_rates() -> tuple[Study, ...]:
    """g = 4, 6, ..., 16; and the bound beside the norm of the target, for functions of one to six numbers."""

    def of_numbers(N: int) -> AttentionNetwork:
        return c.bumps(" + ".join(_TERMS[:N]), N, 1, g=_CELLS[N])

    numbers = sweep("UA-4", of_numbers, tuple(_CELLS), count=4096)
    title = f"n d numbers, g = {', '.join(map(str, _CELLS.values()))}"
    by_numbers = Study(title, "n d, numbers", (numbers,), "linear", error_is=_L1)
    return *_by_cells("UA-4", lambda g: c.bumps(_F, _N, _D, g=g), (4, 6, 8, 11, 16)), by_numbers


def to_scalar() -> Instance:
    """UA-5 with 5² cells."""
    nets = {"faithful": c.sequence_to_scalar(_F, _N, _D, g=_GRID)}
    return Instance(
        nets,
        counts=counted_each(nets, {"faithful": _grid_orders("1", 1)}, ON_A_GRID),
        rates=lambda: _by_cells("UA-5", lambda g: c.sequence_to_scalar(_F, _N, _D, g=g), (4, 6, 8, 11, 16)),
    )


def to_scalar_by_softmax() -> Instance:
    """UA-6 with 5² cells."""
    nets = {"faithful": c.sequence_to_scalar_softmax(_F, _N, _D, g=_GRID)}
    return Instance(nets, counts=counted_each(nets, {"faithful": _grid_orders("1", 1)}, ON_A_GRID))


def to_sequence() -> Instance:
    """UA-7: sorting two numbers with 5² cells, in two layers, and in one layer and a softmax."""
    descending = ("max(x0, x1)", "min(x0, x1)")
    nets = {
        "two layers": c.sequence_to_sequence(descending, _N, _D, g=_GRID),
        "softmax": c.sequence_to_sequence_softmax(descending, _N, _D, g=_GRID),
    }
    return Instance(
        nets,
        counts=counted_each(nets, dict.fromkeys(nets, _grid_orders("d n", _D * _N)), ON_A_GRID),
        rates=lambda: _by_cells("UA-7", lambda g: c.sequence_to_sequence(descending, _N, _D, g=g), (4, 6, 8, 11)),
    )


def _grid_orders(last: str, lookups: int) -> Orders:
    """Two heads for each feature and grid point, and as many as look values up (Remark E.1)."""
    heads, parameters = 2 * _D * _GRID ** (_D * _N) + lookups, _D * _N * _GRID ** (2 * _D * _N) + (_D * _N) ** 2
    return {
        "heads": (f"2 d g^(dn) + {last}", float(heads)),
        "parameters": ("d n g^(2dn) + (dn)²", float(parameters)),
    }


def _by_cells(id: str, build: Build, cells: Sequence[int]) -> tuple[Study, ...]:
    series = sweep(id, build, cells, -1.0, count=4096)
    return (Study("L_1 error of n d = 2 numbers", "g, cells along each axis", (series,), error_is=_L1),)


# UA-8 to UA-10 and UA-15: ReLU networks

_TOKENS, _FEATURES, _UNITS = 3, 2, 8


def infinity_norm() -> Instance:
    """UA-8: sorting two numbers within 1e-6, and with the paper's anchors within 1e-1; a product along plane waves."""
    nets = {
        "sort, spectral": c.relu_network(_SORT, 2, (-1, 1), tol=1e-6),
        "sort, faithful": c.relu_network(_SORT, 2, (-1, 1), tol=1e-1, method="faithful"),
        "plane waves": c.relu_network(_WAVES, 2, (-1, 1), tol=2e-2),
    }
    return Instance(nets, counts=counted(nets["sort, spectral"], "sort"))


def mixing() -> Instance:
    """UA-9: random matrices of both signs."""
    rng = np.random.default_rng(9)
    R = rng.normal(size=(5, 5))
    nets = {"faithful": c.token_mixing(R, rng.normal(size=(3, 2)), (-1, 1))}
    counts = counted_each(nets, {"faithful": {"heads": ("2", 2.0)}})
    return Instance(nets, counts=counts, matrices=_compare_mixing(nets["faithful"], R))


def _compare_mixing(net: AttentionNetwork, R: Floats) -> Matrices:
    """R beside what the two heads' weights on the tokens add up to, each times the factor of its output map."""
    zero = np.zeros((1, len(R), len(net.network.inputs)))  # the weights are the same for every input
    factors = [float(head.W_O[0].max() + head.W_O[0].min()) for head in net.network.heads]
    weights = [attention_weights(net.network, zero, 0, head)[0][:, 1:] for head in range(2)]  # 0 is the register
    total: Floats = factors[0] * weights[0] + factors[1] * weights[1]
    name = f"{factors[0]:.2f} * attention of head 0 - {-factors[1]:.2f} * attention of head 1"
    title = f"what the tokens are mixed by; largest difference {float(np.abs(total - R).max()):.1g}"
    return Matrices(title, {"R, as asked for": R, name: total})


def native() -> Instance:
    """UA-10: a random ReLU network of eight units on three tokens of two features; formulas, sorted and multiplied."""
    W = _random_relu_network()
    build = partial(c.native_relu, W, _TOKENS, (-1, 1))
    nets = {
        "ReLU network": build(tol=1e-6),
        "formulas: sort": c.native_relu(_SORT, 2, (-1, 1), tol=1e-6),
        "formulas: plane waves": c.native_relu(_WAVES, 2, (-1, 1), tol=2e-2),
    }
    net, N = nets["ReLU network"], _UNITS * _FEATURES  # N in the proof: units of one token, one for each output
    parameters = N * (_FEATURES**2 + _FEATURES * _TOKENS) + _TOKENS**2 * N**2  # first and third layer
    orders = {"heads": ("N = m d_o", float(N)), "parameters": ("N (d² + d n) + n² N²", float(parameters))}
    betas = tuple(2.0**k for k in (4, 8, 12, 16, 20))
    return Instance(
        nets,
        counts=counted(net, "ReLU network", orders),
        line=_through_a_kink(W[0], W[1], net.about.chosen["beta"]),
        drawn=1,
        rates=lambda: (
            Study("error against beta", "beta", (sweep("gates", lambda beta: build(beta=beta), betas, -1.0),)),
        ),
    )


def _through_a_kink(W: Floats, b: Floats, beta: float) -> Line:
    """Along the weights of the unit whose kink comes nearest to the middle of the domain, so near that it looks round:
    elsewhere a gate is exact to rounding."""
    sizes = (W * W).sum(axis=1)
    unit = int(np.abs(b / np.sqrt(sizes)).argmin())
    kink, along = ((scale * W[unit] / sizes[unit]).reshape(_TOKENS, _FEATURES) for scale in (-b[unit], 1.0))
    label = f"beta * (preactivation of unit {unit}), beta = {beta:.3g}"
    return Line(-24.0, 24.0, kink, along / beta, label, marks={"kink": 0.0}, heads=((1, unit * _TOKENS),))


def _random_relu_network() -> tuple[Floats, Floats, Floats, Floats]:
    rng = np.random.default_rng(10)
    N = _TOKENS * _FEATURES
    return (
        rng.normal(size=(_UNITS, N)) / np.sqrt(N),
        rng.normal(size=_UNITS),
        rng.normal(size=(N, _UNITS)) / np.sqrt(_UNITS),
        rng.normal(size=N),
    )


def shared_keys() -> Instance:
    """UA-15: sorting two numbers with ten keys a head; and UA-3 for ten tokens on inputs of three, padded."""
    sort = c.relu_network(_SORT, 2, (-1, 1), tol=2e-1, method="faithful", keys=10)
    padded = c.truncated_linear_heads([1.0, -0.5], np.zeros(10), -1.0, 1.0, (-1, 1), H=2)
    x = np.random.default_rng(15).uniform(-1, 1, (64, 3, 2))
    others = np.concatenate([x, np.random.default_rng(16).uniform(-1, 1, (64, 7, 2))], axis=1)
    apart = float(np.abs(outputs(padded, c.pad_tokens(x, 10))[:, :3] - outputs(padded, others)[:, :3]).max())
    note = f"three tokens padded with zeros, and with anything else, come out at most {apart:.2g} apart"
    padded.about = dataclasses.replace(padded.about, id="UA-15", notes=(note,))
    counts = counted(sort, "sort, ten keys")
    return Instance({"sort, ten keys": sort, "UA-3, padded": padded}, counts=counts, drawn=1)


# UA-11 and UA-12: models and losses in the prompt

_PAIR = "(1 + y**2/4)*softplus(x) - x*y/2"  # no function of x - y or of x y, and its slope is no sum
_RANGES = Ranges(1.0, 1.0, 0.5, 0.25)
_PAIRS = partial(c.in_context_step_of_pairs, _PAIR, 4, 2, _RANGES)


def truncated() -> Instance:
    """UA-11: six samples with models of their own, 16 anchors; ours."""
    nets = {"faithful": _IN_CONTEXT(p=_P), "spectral": _IN_CONTEXT(tol=1e-3, method="spectral")}
    orders = {"faithful": {**_ONE_HEAD, "width": ("2d + d_o + 2", 7.0)}}
    # s = w . x + t of the first sample: x = (1, 1), w = s/3 (1, 1), t = s/3; the other samples are 0
    start, along = _first_token([1, 1, 1, 0, 0, 0, 0]), _first_token([0, 0, 0, 0, 1 / 3, 1 / 3, 1 / 3])
    line = Line(-1.5, 1.5, start, along, "s = w·x + t of sample 0", anchors_from(_A, _B, _P), _ENDS)
    return Instance(
        nets,
        counts=counted_each(nets, orders, shown=IN_A_PROMPT),
        line=line,
        rates=lambda: both_methods(
            "error against the anchors of a sample",
            "anchors of a sample",
            sweep("faithful", lambda p: _IN_CONTEXT(p=p), (8, 16, 32, 64, 128), -1.0),
            _IN_CONTEXT,
            (1e-1, 1e-2, 1e-3),
        ),
    )


def _first_token(numbers: npt.ArrayLike) -> Floats:
    """Six tokens of which the first holds these numbers, the others zeros."""
    return np.outer(np.eye(6)[0], np.asarray(numbers, dtype=np.float64))


def pairs() -> Instance:
    """UA-12: one step for a loss that takes w . x and y apart, 4 by 4 anchors; ours; and the logistic loss."""
    nets = {
        "faithful": _PAIRS(P=3),
        "spectral": _PAIRS(tol=1e-5, method="spectral"),
        "logistic, two keys": c.logistic_step(4, 2, Ranges(1.0, 1.0, 1.0, 0.25)),
    }
    return Instance(
        nets,
        counts=counted_each(nets, shown=IN_A_PROMPT),
        line=along_one_step(4, 2, _RANGES),
        rates=lambda: both_methods(
            "error of a step against the anchors of a sample",
            "anchors of a sample",
            by_keys("faithful", [_PAIRS(P=P) for P in (2, 3, 4)], -0.5),  # their number grows as the square of 1/dL
            _PAIRS,
            (1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
        ),
    )


# UA-14: the counts of all others


def every_count() -> Instance:
    """UA-14: the counts of all other small instances; the "error" is the largest difference from a formula."""
    counts = tuple(
        dataclasses.replace(count, what=f"{theorem.id} {count.what}")
        for theorem in THEOREMS.values()
        if theorem.id.startswith(("UA-", "AE-")) and theorem.id != "UA-14"
        for count in (*theorem.instance().counts, *_learnable(theorem.instance()))
    )
    difference = max((abs(count.value - count.built) for count in counts), default=0)
    notes = (
        f"{len(counts)} counts; what was found is the largest difference between a formula and a network",
        "learnable: stored numbers other than 0 and 1 (Remark E.2); the others are fixed by the construction",
    )
    return Instance(checks=(Check("formulas", "MEASURED", None, float(difference), notes=notes),), counts=counts)


def _learnable(instance: Instance) -> Iterator[Count]:
    """Of every network whose parameters are counted: all of them less those that are 0 or 1."""
    known = {count.what for count in instance.counts}
    for name, net in instance.nets.items():
        if f"parameters, {name}" in known:
            built, every = count_learnable(net.network), net.cost.parameters
            said = f"parameters less {every - built:,} fixed as 0 or 1"
            yield Count(f"learnable, {name}", said, built, built, "all parameters", float(every))
