"""SU-3: a thousand and ten thousand tokens: error, seconds and memory.

The head of UA-2 for Range(x_i) on [-1, 1], the same model for every token, with anchors on registers: n tokens and
at least n + 1 anchors (the paper needs p > n), so n p scores; and ours, whose anchors do not grow with n. Then UA-3
with one head, every token with a shift of its own: n tokens are its n keys, so n^2 scores. Then UA-2 itself with d = 10
and 50 features and a model w_i, t_i for every token: p = n + 1 tokens inside, so p^2 scores.
"""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np

from weightwright.approximation.approximate import approximate
from weightwright.numbers import Floats
from weightwright.papers.kit.constructed import About, Method
from weightwright.papers.kit.instance import Check, Instance, check_series
from weightwright.papers.kit.rates import Series, Study, lengths
from weightwright.papers.linear.one_head import truncated_linear
from weightwright.papers.linear.shared_anchors import truncated_linear_heads
from weightwright.runtime import AttentionNetwork


def long_sequences() -> Instance:
    """SU-3: both lengths, one sequence each; UA-3 with a thousand tokens, since ten thousand take a minute to prove."""
    studied = _study((1_000, 10_000)), _shared((1_000,)), _wide((300,))
    return Instance(
        checks=tuple(_check(series) for study in studied for series in study.series),
        studies=studied,
        rates=lambda: (_study((1_000, 3_000, 10_000)), _shared((100, 1_000, 10_000)), _wide((100, 300, 1_000))),
    )


def _wide(tokens: tuple[int, ...]) -> Study:
    series = tuple(lengths(f"d = {d}", partial(own_models, d=d), tokens, -1.0) for d in (10, 50))
    return Study("UA-2, a model for every token, p = n + 1", "n, tokens", series)


def own_models(n: float, d: int, seed: int = 4) -> AttentionNetwork:
    """UA-2 for n tokens of d features, w_i and t_i of each token at random."""
    rng = np.random.default_rng(seed)
    w, t = rng.normal(size=(int(n), d)) / np.sqrt(d), rng.uniform(-0.5, 0.5, int(n))
    net = truncated_linear(w, t, -1.0, 1.0, (-1, 1), p=int(n) + 1)

    def probes(rng: np.random.Generator, count: int) -> Floats:
        """Random sequences whose first token is beyond b, where the anchors are a whole spacing off."""
        X = rng.uniform(-1, 1, (count, *w.shape))
        X[:, 0] = np.sign(w[0])
        return X

    net.about = dataclasses.replace(net.about, probes=probes)
    return net


def _shared(tokens: tuple[int, ...]) -> Study:
    series = (lengths("UA-3, H = 1", _tokens_as_keys, tokens, -1.0),)
    return Study("UA-3 with one head: n tokens are its keys", "n, tokens", series)


def _tokens_as_keys(n: float) -> AttentionNetwork:
    shifts = np.random.default_rng(3).uniform(-0.5, 0.5, int(n))
    return truncated_linear_heads([1.0], shifts, -1.0, 1.0, (-1, 1), H=1)


def for_tokens(method: Method, n: float) -> AttentionNetwork:
    """A proven network for sequences of n tokens."""
    tol = 4 * 2.0 / (n + 1) if method == "faithful" else 1e-6  # the faithful head has 2 (b - a) / tol anchors
    net: AttentionNetwork = approximate("clip(x, -1, 1)", (-2, 2), tol, method, max_anchors=10**6)
    net.about = About("SU-3", method, {"tokens": n}, {}, {}, lambda X: np.clip(X, -1, 1), partial(_probes, int(n)))
    return net


def _study(tokens: tuple[int, ...]) -> Study:
    series = (
        lengths("faithful", partial(for_tokens, "faithful"), tokens, -1.0),
        lengths("spectral", partial(for_tokens, "spectral"), tokens),
    )
    return Study("n tokens; faithful with p = n + 1 anchors", "n, tokens", series)


def _check(series: Series) -> Check:
    """The longest sequence."""
    last = series.points[-1]
    cost = {name: value for name, value in last.extras.items() if name in ("anchors", "peak bytes")}
    notes = (f"{last.value:,.0f} tokens in {last.extras['seconds']:.2f} s",)
    return check_series(series, last, inputs=1, cost=cost, notes=notes)


def _probes(n: int, rng: np.random.Generator, count: int) -> Floats:
    """Sequences with ends, middles between anchors and random numbers; (count, n, 1)."""
    X = rng.uniform(-2, 2, (count, n, 1))
    X[:, :4, 0] = (-2.0, -1.0, 1.0, 2.0)[: min(n, 4)]
    return X
