"""The small instances of UA-8, UA-9 and UA-10, and how the error of UA-10 falls with beta."""

from __future__ import annotations

import dataclasses

import numpy as np

from weightwright.network.interpreter import attention_weights
from weightwright.numbers import Floats
from weightwright.papers.exhibits import counts as paper_counts
from weightwright.papers.exhibits.counts import counts_native_relu, counts_relu_network, counts_token_mixing
from weightwright.papers.kit.instance import Instance, Line, Matrices, counted
from weightwright.papers.kit.measure import outputs
from weightwright.papers.kit.rates import Study, sweep
from weightwright.runtime import AttentionNetwork

_SORT = ("min(x0, x1)", "max(x0, x1)")
_TOKENS, _FEATURES, _UNITS = 3, 2, 8


def infinity_norm() -> Instance:
    """UA-8: sorting two numbers within 1e-6, and with the paper's anchors within 1e-1; a product along plane waves."""
    from weightwright.papers.relu.emulated import relu_network

    sort = relu_network(_SORT, 2, (-1, 1), tol=1e-6)
    faithful = relu_network(_SORT, 2, (-1, 1), tol=1e-1, method="faithful")
    waves = relu_network(("x0*x1", "sin(x0)*cos(x1)"), 2, (-1, 1), tol=2e-2)
    parts = tuple(int(sort.about.chosen[name]) for name in ("heads of x", "heads of relu", "p"))
    counts = counts_relu_network(2, 1, 1, 1, 2, (parts[0], parts[1], parts[2]))
    names = ("sort, spectral", "sort, faithful", "plane waves")
    return Instance((sort, faithful, waves), names, counts=counted(sort, "counts_relu_network", counts, name="sort"))


def shared_keys() -> Instance:
    """UA-15: sorting two numbers with ten keys a head; and UA-3 for ten tokens on inputs of three, padded."""
    from weightwright.papers.kit.arguments import pad_tokens
    from weightwright.papers.linear.shared_anchors import truncated_linear_heads
    from weightwright.papers.relu.emulated import relu_network

    sort = relu_network(_SORT, 2, (-1, 1), tol=2e-1, method="faithful", keys=10)
    padded = truncated_linear_heads([1.0, -0.5], np.zeros(10), -1.0, 1.0, (-1, 1), H=2)
    x = np.random.default_rng(15).uniform(-1, 1, (64, 3, 2))
    others = np.concatenate([x, np.random.default_rng(16).uniform(-1, 1, (64, 7, 2))], axis=1)
    apart = float(np.abs(outputs(padded, pad_tokens(x, 10))[:, :3] - outputs(padded, others)[:, :3]).max())
    note = f"three tokens padded with zeros, and with anything else, come out at most {apart:.2g} apart"
    padded.about = dataclasses.replace(padded.about, id="UA-15", notes=(note,))
    parts = tuple(int(sort.about.chosen[name]) for name in ("heads of x", "heads of relu", "p"))
    counts = counted(sort, "counts_relu_network", counts_relu_network(2, 1, 1, 1, 2, parts), name="sort, ten keys")  # type: ignore[arg-type]
    return Instance((sort, padded), ("sort, ten keys", "UA-3, padded"), counts=counts, drawn=1)


def mixing() -> Instance:
    """UA-9: random matrices of both signs."""
    from weightwright.papers.relu.token_mixing import token_mixing

    rng = np.random.default_rng(9)
    R = rng.normal(size=(5, 5))
    net = token_mixing(R, rng.normal(size=(3, 2)), (-1, 1))
    orders = {"heads": ("2", 2.0)}
    counts = counted(net, "counts_token_mixing", counts_token_mixing(5, 3, 2), orders)
    return Instance((net,), counts=counts, matrices=_mixed(net, R))


def _mixed(net: AttentionNetwork, R: Floats) -> Matrices:
    """R beside what the two heads' weights on the tokens add up to, each times the factor of its output map."""
    zero = np.zeros((1, len(R), len(net.network.inputs)))  # the weights are the same for every input
    factors = [float(head.W_O[0].max() + head.W_O[0].min()) for head in net.network.heads]
    weights = [attention_weights(net.network, zero, 0, head)[0][:, 1:] for head in range(2)]  # 0 is the register
    total: Floats = factors[0] * weights[0] + factors[1] * weights[1]
    name = f"{factors[0]:.2f} * attention of head 0 - {-factors[1]:.2f} * attention of head 1"
    apart = float(np.abs(total - R).max())
    title = f"what the tokens are mixed by; largest difference {apart:.1g}"
    return Matrices(title, {"R, as asked for": R, name: total})


def native() -> Instance:
    """UA-10: a random ReLU network of eight units on three tokens of two features; formulas, sorted and multiplied."""
    from weightwright.papers.relu.native import native_relu

    W = _network()
    net = native_relu(W, _TOKENS, (-1, 1), tol=1e-6)
    sort = native_relu(_SORT, 2, (-1, 1), tol=1e-6)
    waves = native_relu(("x0*x1", "sin(x0)*cos(x1)"), 2, (-1, 1), tol=2e-2)
    N = _UNITS * _FEATURES  # the proof's: units of one token, one for each output that takes it
    orders = {
        "heads": ("N = m d_o", float(paper_counts.heads_native(N))),
        "parameters": ("N (d² + d n) + n² N²", float(paper_counts.parameters_native(_TOKENS, N, _FEATURES))),
    }
    counts = counts_native_relu(_TOKENS, _FEATURES, _FEATURES, _UNITS)
    line = _through_a_kink(W[0], W[1], net.about.chosen["beta"])
    names = ("ReLU network", "formulas: sort", "formulas: plane waves")
    counted_all = counted(net, "counts_native_relu", counts, orders, names[0])
    return Instance((net, sort, waves), names, counts=counted_all, line=line, drawn=1)


def _through_a_kink(W: Floats, b: Floats, beta: float) -> Line:
    """Along the weights of the unit whose kink comes nearest to the middle of the domain, so near that it looks round:
    elsewhere a gate is exact to rounding."""
    sizes = (W * W).sum(axis=1)
    unit = int(np.abs(b / np.sqrt(sizes)).argmin())
    kink, along = -b[unit] * W[unit] / sizes[unit], W[unit] / sizes[unit]

    def at(s: Floats) -> Floats:
        return (kink + s[:, None] / beta * along).reshape(len(s), _TOKENS, _FEATURES)

    label = f"beta * (preactivation of unit {unit}), beta = {beta:.3g}"
    return Line(-24.0, 24.0, at, label, marks={"kink": 0.0}, heads=((1, unit * _TOKENS),))


def native_studies() -> tuple[Study, ...]:
    """UA-10: the error against beta."""
    from weightwright.papers.relu.native import native_relu

    def build(beta: float) -> AttentionNetwork:
        return native_relu(_network(), _TOKENS, (-1, 1), beta=beta)

    series = (sweep("gates", build, tuple(2.0**k for k in (4, 8, 12, 16, 20)), -1.0),)
    return (Study("error against beta", "beta", series),)


def _network() -> tuple[Floats, Floats, Floats, Floats]:
    rng = np.random.default_rng(10)
    N = _TOKENS * _FEATURES
    return (
        rng.normal(size=(_UNITS, N)) / np.sqrt(N),
        rng.normal(size=_UNITS),
        rng.normal(size=(N, _UNITS)) / np.sqrt(_UNITS),
        rng.normal(size=N),
    )
