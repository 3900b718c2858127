"""The checks that the summary of the universal approximation paper asks for, SU-1 to SU-4, as small instances."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from functools import partial

import numpy as np
import torch

from weightwright.adversary.signatures import Diagnosis, diagnose
from weightwright.approximation.approximate import approximate
from weightwright.heads.lookup import softmax_error
from weightwright.heads.registers import Design, Query, Table, assemble
from weightwright.network import Attention
from weightwright.numbers import Floats
from weightwright.papers.kit.constructed import About, Method
from weightwright.papers.kit.instance import Check, Instance, judge, judge_series
from weightwright.papers.kit.rates import Series, Study, at_places, ends, lengths, parting, sweep
from weightwright.papers.theorems.constructions import hopfield_function, truncated_linear, truncated_linear_heads
from weightwright.runtime import AttentionNetwork

# SU-1: anchors that pick the nearest, with any beta that is a power of two, in three floating-point formats
#
# p = 256 anchors L_k = a + k (b-a)/p on an interval [a, b] of width 2, scores beta (s L_k - L_k²/2), values L_k: the
# head of UA-2 for Range(s), s at most 1 outside of [a, b], with any beta that is a power of two.
#
# In exact arithmetic the error is at most dL + (b - a) tail, tail = softmax_error(beta, dL²/2, p). Proof. For s <= a
# the anchor a itself is nearest and leads by dL²/2 at least. Between two anchors both are within dL of s, and the
# third lies dL²/2 below the first. Beyond the last anchor b - dL it is nearest, leads by dL²/2, and is within dL of
# Range(s). All other anchors share the tail, and no value is further than b - a from Range(s).
#
# A rounded score is off by about L² u, u the unit roundoff: once that is more than the lead dL²/2, wrong anchors are
# picked, whatever beta is. So [a, b] around 0 is kinder than one around 16.

_P, _WIDTH = 256, 2.0
_SPACING = _WIDTH / _P  # a power of two
_DTYPES = ("float64", "float32", "bfloat16")
_SUMMARY = (1.0, 10.0, 50.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8)  # the summary asks for 10 to 1000 and more
_BETAS = tuple(2.0**k for k in range(28))  # 1 to 1.3e8; powers of two multiply exactly in every format


def errors_by_beta() -> Instance:
    """SU-1: 16 anchors, proven in every format from beta = 1 to 1e8; then 256, measured, with beta a power of eight."""
    proven, soft = _proven_study(), _soft_study(0.0, _BETAS[::3])
    checks = (_check_betas(known, found) for known, found in zip(proven.series, soft.series, strict=True))
    return Instance(checks=tuple(checks), studies=(proven, soft), rates=_beta_rates)


def _beta_rates() -> tuple[Study, ...]:
    """16 anchors, proven; and 256 on [-1, 1] and on [15, 17], measured with beta = 2, 8, 32, ..., 2^27."""
    return _proven_study(), _soft_study(0.0, _BETAS[1::2]), _soft_study(16.0, _BETAS[1::2])


def _proven_study() -> Study:
    """UA-2 for one number, p = 16, on [-1, 1] with s in [-2, 2]: error and proven bound in every format."""
    series = tuple(sweep(dtype, partial(_proven, dtype=dtype), _SUMMARY, count=512) for dtype in _DTYPES)
    return Study("16 anchors on [-1, 1], proven", "beta", series)


def _proven(beta: float, dtype: str) -> AttentionNetwork:
    return truncated_linear([[1.0]], [0.0], -1.0, 1.0, (-2, 2), p=16, beta=beta, dtype=dtype)


def _check_betas(series: Series, fine: Series) -> Check:
    """The beta with the smallest bound stands for all. fine: the 256 anchors."""
    best = min(series.points, key=lambda point: math.inf if point.bound is None else point.bound)
    useful = [point.value for point in series.points if point.bound is not None and point.bound < _WIDTH]
    said = f"the bound is below b - a for beta from {min(useful):g} to {max(useful):g}" if useful else "no bound helps"
    apart = parting(fine)
    theory = f"more than exact arithmetic allows from beta = {apart:g} on" if apart else "never leaves the theory"
    named = dataclasses.replace(series, name=f"{series.name}, p = 16")
    return judge_series(named, best, chosen={"best beta": best.value}, notes=(said, f"256 anchors, measured: {theory}"))


def nearest_anchor(beta: float, dtype: str, centre: float = 0.0) -> AttentionNetwork:
    """The anchors with this beta, around this centre, rounded to the dtype; nothing is proven about it."""
    a, b = centre - _WIDTH / 2, centre + _WIDTH / 2
    grid = a + np.arange(_P, dtype=np.float64) * _SPACING
    table = Table(grid, -(grid**2) / 2, grid, beta).rounded(dtype)
    net = AttentionNetwork(assemble(Design((table,), ("nearest anchor",), 0.0), Query(0.0, 1.0), "Range(s)", dtype))
    chosen = {"beta": beta, "p": _P, "a": a, "b": b}
    net.about = About("SU-1", "faithful", chosen, {}, {}, lambda X: np.clip(X, a, b), partial(_around_anchors, a))
    return net


def exact_arithmetic(beta: float) -> float:
    """dL + (b - a) tail, rounded up."""
    spacing = Fraction(_SPACING)
    tail = Fraction(softmax_error(beta, float(spacing**2 / 2), _P))
    return math.nextafter(float(spacing + Fraction(_WIDTH) * tail), math.inf)


def _soft_study(centre: float, betas: tuple[float, ...]) -> Study:
    build = partial(nearest_anchor, centre=centre)
    series = (sweep(dtype, partial(build, dtype=dtype), betas, bound=exact_arithmetic, count=512) for dtype in _DTYPES)
    title = f"{_P} anchors on [{centre - _WIDTH / 2:g}, {centre + _WIDTH / 2:g}]"
    return Study(title, "beta", tuple(series), bound_is="bound in exact arithmetic")


def _around_anchors(a: float, rng: np.random.Generator, count: int) -> Floats:
    """Anchors and the middles between them (a random part), the ends, and random ones; (about count, 1, 1)."""
    places = a + _SPACING / 2 * np.arange(-1, 2 * _P + 2)
    special = rng.choice(places, min(count // 2, len(places)), replace=False)
    random = a - 1 + rng.uniform(0, _WIDTH + 2, max(count - len(special), 0))
    ends = [a, a + _WIDTH, a - 1, a + _WIDTH + 1]
    return np.concatenate([ends, special, random])[:, None, None]


# SU-2: UA-2 and UA-3 at the ends of [a, b], beyond them, and where the anchors of two heads meet.
#
# Six tokens x_i, Range(x_i) on [a, b] = [0, 1], x_i in [-10, 11]; p = 16 anchors, H = 4 heads.
#
# Then targets that are sharp near b: a ramp clip(k (s - 0.9), 0, 1) of slope k by the nearest of P + 1 anchors on [0,
# 1] (AE-13's layer, which takes any values on the anchors), and a jump at 0.9 with a dead zone around it.

_N, _H = 6, 4
_SHARP, _SLOPES, _ANCHORS = 0.9, (1.0, 10.0, 100.0, 1000.0), 64
_SEAM = 1 / ((_N - 2) * _H)  # the spacing of the anchors


def places() -> Instance:
    """SU-2: the worst place of each network, and of ramps and a jump near b."""
    studied = _ends_study(), sharp_study(_SLOPES, _ANCHORS)
    return Instance(checks=tuple(_check_worst(series) for study in studied for series in study.series), studies=studied)


def sharp_study(slopes: tuple[float, ...], P: int) -> Study:
    """Ramps of these slopes and a jump, all a tenth before b: the error at the middle, there, and at both ends."""
    half = 0.5 / P
    places = {"a": 0.0, "middle": 0.5, "0.9 - dL": _SHARP - 2 * half, "0.9": _SHARP, "b - dL/2": 1 - half, "b": 1.0}
    series = []
    for k in slopes:
        ramp = hopfield_function(f"clip({k!r}*(x - {_SHARP!r}), 0, 1)", [1.0], 0.0, (0, 1), P=P)
        series.append(at_places(f"ramp of slope {k:g}", ramp, places, half / 4))
    jump: AttentionNetwork = approximate(f"step(x - {_SHARP!r})", (0, 1), 1e-6, dead_zone=half)

    def reference(X: Floats) -> Floats:
        """1 from the jump on; nothing is claimed in the dead zone."""
        return np.where(np.abs(X - _SHARP) < half, np.nan, (X >= _SHARP).astype(np.float64))

    jump.about = About("SU-2", "spectral", {}, {}, {}, reference, lambda rng, count: rng.random((count, 1, 1)))
    beside = places | {"0.9": _SHARP + 1.3 * half}  # what is searched is just beyond the dead zone
    series.append(at_places(f"jump, dead zone {half:.2g}", jump, beside, half / 4))
    title = f"sharp targets near b, P = {P} anchors"
    return Study(title, "place on the axis of s", tuple(series), axis="places")


def _ends_study() -> Study:
    w, t, domain = np.ones((_N, 1)), np.zeros(_N), (-10, 11)
    nets = {
        "UA-2 faithful": truncated_linear(w, t, 0.0, 1.0, domain, p=(_N - 2) * _H),
        "UA-2 spectral": truncated_linear(w, t, 0.0, 1.0, domain, tol=1e-6, method="spectral"),
        "UA-3 faithful": truncated_linear_heads(w[0], t, 0.0, 1.0, domain, H=_H),
    }
    places = ends(0.0, 1.0, _SEAM, [(_N - 2) * h * _SEAM - _SEAM / 2 for h in range(1, _H)])
    series = tuple(at_places(name, net, places, _SEAM / 4) for name, net in nets.items())
    return Study("p = 16, H = 4, [a, b] = [0, 1]", "place on the axis of s", series, axis="places")


def _check_worst(series: Series) -> Check:
    worst = max(series.points, key=lambda point: point.measured)
    return judge_series(series, worst, notes=(f"worst near {worst.label}",))


# SU-3: a thousand and ten thousand tokens: error, seconds and memory.
#
# The head of UA-2 for Range(x_i) on [-1, 1], the same model for every token, with anchors on registers: n tokens and
# at least n + 1 anchors (the paper needs p > n), so n p scores; and ours, whose anchors do not grow with n. Then UA-3
# with one head, every token with a shift of its own: n tokens are its n keys, so n^2 scores. Then UA-2 itself with d =
# 10 and 50 features and a model w_i, t_i for every token: p = n + 1 tokens inside, so p^2 scores.


def long_sequences() -> Instance:
    """SU-3: both lengths, one sequence each; UA-3 with a thousand tokens, since ten thousand take a minute to prove."""
    studied = _by_length((1_000, 10_000)), _shared((1_000,)), _wide((300,))
    return Instance(
        checks=tuple(_check_longest(series) for study in studied for series in study.series),
        studies=studied,
        rates=lambda: (_by_length((1_000, 3_000, 10_000)), _shared((100, 1_000, 10_000)), _wide((100, 300, 1_000))),
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


def _for_tokens(method: Method, n: float) -> AttentionNetwork:
    """A proven network for sequences of n tokens."""
    tol = 4 * 2.0 / (n + 1) if method == "faithful" else 1e-6  # the faithful head has 2 (b - a) / tol anchors
    net: AttentionNetwork = approximate("clip(x, -1, 1)", (-2, 2), tol, method, max_anchors=10**6)
    net.about = About("SU-3", method, {"tokens": n}, {}, {}, lambda X: np.clip(X, -1, 1), partial(_sequences, int(n)))
    return net


def _by_length(tokens: tuple[int, ...]) -> Study:
    series = (
        lengths("faithful", partial(_for_tokens, "faithful"), tokens, -1.0),
        lengths("spectral", partial(_for_tokens, "spectral"), tokens),
    )
    return Study("n tokens; faithful with p = n + 1 anchors", "n, tokens", series)


def _check_longest(series: Series) -> Check:
    """The longest sequence."""
    last = series.points[-1]
    cost = {name: value for name, value in last.extras.items() if name in ("anchors", "peak bytes")}
    notes = (f"{last.value:,.0f} tokens in {last.extras['seconds']:.2f} s",)
    return judge_series(series, last, inputs=1, cost=cost, notes=notes)


def _sequences(n: int, rng: np.random.Generator, count: int) -> Floats:
    """Sequences with ends, middles between anchors and random numbers; (count, n, 1)."""
    X = rng.uniform(-2, 2, (count, n, 1))
    X[:, :4, 0] = (-2.0, -1.0, 1.0, 2.0)[: min(n, 4)]
    return X


# SU-4: the signatures of failure, brought about one by one, and found by `ww.diagnose`.
#
# Range(x_i) on [-1, 1] for six tokens: UA-2 with 32 anchors and the beta of the theorem; with a beta so small that all
# keys weigh the same; with one between, whose head drifts between anchors; and UA-3 with the sentinels as printed,
# whose error is at the ends. Fitted heads (spectral) are soft on purpose: they drift, and their certificate holds.

_SIGNED_BETAS = {"theorem's beta": None, "beta 1/2": 0.5, "beta 300": 300.0}
#: Of each network: uniform attention, drift, artefacts at the ends.
_EXPECTED = {
    "theorem's beta": (False, False, False),
    "beta 1/2": (True, False, False),
    "beta 300": (False, True, False),
    "printed sentinels": (False, False, True),
}


def signatures() -> Instance:
    """SU-4: each network has the signature that it was given, and no other; measured: the largest entropy of a head."""
    return Instance(checks=tuple(_check_signs(name, found) for name, found in _diagnoses(6, 32, 0).items()))


def diagnosed(seed: int) -> bool:
    """The same with other tokens, anchors and inputs."""
    found = _diagnoses(8, 16, seed, soft=75.0)
    return all(_signs(one) == _EXPECTED[name] for name, one in found.items())


def _diagnoses(n: int, p: int, seed: int, soft: float = 300.0) -> dict[str, Diagnosis]:
    X = torch.tensor(np.random.default_rng(seed).uniform(-2, 2, (200, n, 1)))
    found = {}
    for name, beta in _SIGNED_BETAS.items():
        used = soft if name == "beta 300" else beta
        net = truncated_linear(np.ones((n, 1)), np.zeros(n), -1.0, 1.0, (-2, 2), p=p, beta=used)
        found[name] = diagnose(net, X)
    return found | {"printed sentinels": diagnose(_printed(n), X[:, :n])}


def _printed(n: int) -> AttentionNetwork:
    """UA-3 on [-1.95, 1.95] with sentinels of value 0: wrong beyond the last anchors alone, which is near the ends."""
    net = truncated_linear_heads([1.0], np.zeros(n), -1.95, 1.95, (-2, 2), H=8)
    (layer,) = net.network.layers
    assert isinstance(layer, Attention)
    heads = list(layer.heads)
    for head, token in ((0, 0), (-1, n - 1)):
        W_V = heads[head].W_V.copy()
        W_V[2 + token] = 0.0
        heads[head] = dataclasses.replace(heads[head], W_V=W_V)
    changed = AttentionNetwork(dataclasses.replace(net.network, layers=(Attention(layer.coordinates, tuple(heads)),)))
    changed.about = net.about
    return changed


def _signs(found: Diagnosis) -> tuple[bool, bool, bool | None]:
    return found.uniform_attention, found.drift, found.end_artefacts


def _check_signs(name: str, found: Diagnosis) -> Check:
    signs, expected = _signs(found), _EXPECTED[name]
    reason = None if signs == expected else f"uniform, drift, ends: {signs}, not {expected}"
    entropy = max(head.entropy for head in found.heads)
    notes = tuple(line.strip() for line in repr(found).splitlines()[:1])
    chosen = {"error at the ends": found.error_at_ends or 0.0, "error inside": found.error_inside or 0.0}
    return judge("MEASURED", name, None, entropy, reason, norm="entropy / ln(keys)", chosen=chosen, notes=notes)
