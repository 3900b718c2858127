"""The small instances of LR-1 to LR-7, how far apart ids are, how much a dtype holds, and how LR-6's error falls."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from weightwright.errors import ToleranceError
from weightwright.memory.boltzmann import boltzmann, boltzmann_slopes, log_separation, needed_distance
from weightwright.memory.context_mapping import contextual_mapping
from weightwright.memory.data_set import number_contexts, read_sequences
from weightwright.memory.hardmax_pair import PAIR, PRINTED_PAIR, are_confused, hardmax_cases, random_heads
from weightwright.memory.looked_up import equivariant
from weightwright.memory.memorizing import memorize
from weightwright.memory.projection import separations_by_temperature
from weightwright.papers.kit.instance import Check, Count, Instance, judge, judge_network
from weightwright.papers.kit.rates import Point, Series, Study
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.data_sets.remembering import Unanswered

_CLOSEST = "closest ids / error of an id"


def boltzmann_operator() -> Instance:
    """LR-1: slopes against differences, and the distance of results against Lemma 7, on a thousand random vectors."""
    rng = np.random.default_rng(0)
    a = rng.uniform(-4, 4, (1000, 6))
    step = 1e-6 * np.eye(6)
    slopes = (boltzmann(a[:, None] + step) - boltzmann(a[:, None] - step)) / 2e-6
    off = float(np.abs(slopes - boltzmann_slopes(a)).max())
    places = np.cumsum(needed_distance(3) + 0.1 + rng.exponential(size=(1000, 6)), axis=1)
    pairs = [(row[:3], np.append(row[:2], row[3])) for row in places - places[:, -1:]]
    nearest = min(math.log(abs(boltzmann(x) - boltzmann(y))) - log_separation(x, y) for x, y in pairs)
    reason = None if nearest > 0 else "two results are closer than Lemma 7 says"
    slopes_hold = judge("MEASURED", "slopes against differences", None, off, inputs=1000)
    distances_hold = judge("MEASURED", "log of distance over Lemma 7's", None, nearest, reason, inputs=1000)
    return Instance(checks=(slopes_hold, distances_hold))


def hardmax_pair() -> Instance:
    """LR-2: the three cases in rational arithmetic, 200 random layers, and the softmax head that separates."""
    rng = np.random.default_rng(0)
    proven = all(case.confused for case in hardmax_cases())
    tried = all(are_confused(rng.integers(-9, 9, 2).astype(float), random_heads(rng, 2, 2, 2)) for _ in range(200))
    printed = sum(not case.confused for case in hardmax_cases(PRINTED_PAIR))
    softmax = contextual_mapping([np.outer(part, [1.0, -0.5]) for part in PAIR])
    notes = (
        f"the printed pair is told apart in {printed} of the three cases",
        f"softmax: {softmax.separation:.3g} apart",
    )
    reason = None if proven and tried and softmax.separation > 0 else "a case tells the pair apart"
    return Instance(checks=(judge("PROVEN", "every hardmax layer confuses the pair", 0.0, 0.0, reason, notes=notes),))


def mapping() -> Instance:
    """LR-3: 60 sets of 6 out of 24 words, and as many sets of vectors with another direction for the query."""
    rng = np.random.default_rng(0)
    sets = [rng.permutation(24)[:6] for _ in range(60)]
    vectors = rng.normal(size=(24, 3))
    found = {
        "words": contextual_mapping([one.tolist() for one in sets], head_size=4),
        "vectors, another query": contextual_mapping([vectors[one] for one in sets], query="other"),
    }
    checks = (
        Check(
            name,
            "PROVEN",
            one.id_error,
            None,
            inputs=len(one.data.tokens),
            chosen={"beta": one.head.beta, "separation": one.separation, "radius": one.radius},
            printed={"log of the separation": one.log_theorem},
            notes=(f"the bound is on the error of an id; {one.contexts} contexts",),
        )
        for name, one in found.items()
    )
    return Instance(checks=tuple(checks), rates=lambda: (separation_by_temperature(),))


def separation_by_temperature() -> Study:
    """LR-3: the closest ids of 2,000 contexts against the inverse temperature, in units of what an id is off by."""
    rng = np.random.default_rng(0)
    data = read_sequences([rng.integers(0, 50, 20) for _ in range(100)], "float64")
    contexts = number_contexts(data, True, False)
    found = separations_by_temperature(data, contexts, True, np.geomspace(0.0625, 64, 11))
    points = tuple(Point(beta, ratio) for beta, ratio in found)
    return Study("separation against temperature", "beta", (Series("words", points),), error_is=_CLOSEST)


def labelled_sets() -> Instance:
    """LR-4: 40 sets of 5 out of 20 tokens, 4 labels, in both kernels."""
    rng = np.random.default_rng(1)
    sets = [rng.permutation(20)[:5].tolist() for _ in range(40)]
    known: dict[Any, int] = {}
    labels = [[known.setdefault((frozenset(one), t), int(rng.integers(4))) for t in one] for one in sets]
    store = partial(memorize, sets, labels, positions=False)
    return _recall({"sorted": store(kernel="sorted"), "plain": store(kernel="plain")}, sets, labels)


def labelled_sequences() -> Instance:
    """LR-5: 60 sequences of up to 9 of 12 words, repeated ones included; classes, and float32."""
    sequences, labels = random_sequences(60, 9, 12, 4)
    nets = {
        "sorted": memorize(sequences, labels, on_conflict="skip"),
        "float32": memorize(sequences[:6], labels[:6], on_conflict="skip", dtype="float32"),
    }
    return dataclasses.replace(_recall(nets, sequences, labels), rates=lambda: (capacity_of_dtypes(),))


def masks() -> Instance:
    """LR-7: the same under a causal mask, sequences of all lengths from 1 to 9."""
    sequences, labels = random_sequences(60, 9, 12, 4)
    return _recall({"causal": memorize(sequences, labels, on_conflict="skip", mask="causal")}, sequences, labels)


def random_sequences(N: int, n: int, V: int, C: int) -> tuple[list[list[int]], list[list[int]]]:
    """N sequences of 1 to n of V words, with one of C labels each."""
    rng = np.random.default_rng(2)
    sequences = [rng.integers(0, V, int(rng.integers(1, n + 1))).tolist() for _ in range(N)]
    return sequences, [rng.integers(0, C, len(one)).tolist() for one in sequences]


def _recall(nets: dict[str, AttentionNetwork], sequences: list[list[int]], labels: list[list[int]]) -> Instance:
    """Every label as it comes back, and the counts of the paper."""
    checks = (_check_labels(name, net, sequences, labels) for name, net in nets.items())
    counts = (
        Count(
            f"parameters, {name}",
            "4 (s + D) + D + 3 m + 1",
            net.about.parameters,
            _count_parameters(net),
            "4 (s + D) + D (2 n N + D)",
            net.about.formula,
        )
        for name, net in nets.items()
    )
    return Instance(checks=tuple(checks), counts=tuple(counts))


def _check_labels(
    name: str, net: AttentionNetwork, sequences: list[list[int]], labels: Sequence[Sequence[int]]
) -> Check:
    about, said = net.about, net.certificate
    assert said is not None
    answers = zip(net.predict(sequences[: about.sequences]), labels[: about.sequences], strict=True)
    wrong = sum(
        a != b and not isinstance(a, Unanswered) for found, given in answers for a, b in zip(found, given, strict=True)
    )
    reason = None if said.status == "PROVEN" and not wrong else f"{wrong} labels are wrong"
    return judge_network(
        net,
        name,
        said.bound,
        float(wrong),
        native=None,
        inputs=about.tokens,
        chosen={"beta": about.beta, "separation": about.separation, "error of an id": about.id_error},
        notes=(f"{about.remembered} of {about.tokens} tokens are consistent, and come back",),
        reason=reason,
    )


def _count_parameters(net: AttentionNetwork) -> int:
    """As the paper counts them: four vectors of the head, its direction, kinks and heights of the ramps."""
    layer, head = net.network.layers[1], next(net.network.heads)
    D, kinks = len(net.network.embed.coordinates), layer.b_1.size  # type: ignore[union-attr]
    return int(4 * (head.W_Q.shape[1] + D) + D + kinks + kinks // 2 + 1)


def capacity_of_dtypes() -> Study:
    """LR-5: the closest ids against the number of sequences of 20 of 200 words, over what an id is off by."""
    sizes = {"float64": (10, 30, 100, 300, 1000, 3000), "float32": (1, 2, 4, 8, 16, 32, 64, 128)}
    series = []
    for dtype, numbers in sizes.items():
        points = []
        for N in numbers:
            rng = np.random.default_rng(3)
            sequences, labels = rng.integers(0, 200, (N, 20)), rng.integers(0, 4, (N, 20))
            try:
                about = memorize(sequences, labels, dtype=dtype).about
            except ToleranceError:
                break
            points.append(Point(float(N), about.separation / about.id_error))
        series.append(Series(dtype, tuple(points)))
    return Study("what a dtype holds", "sequences of 20 tokens", tuple(series), error_is=_CLOSEST)


#: Of each function of LR-6: itself, tokens, features, whether it depends on positions.
_FUNCTIONS: dict[str, tuple[Any, int, int, bool]] = {
    "sin(3x) mean(x)": (lambda x: np.sin(3 * x[..., 0]) * x[..., 0].mean(axis=1, keepdims=True), 3, 1, False),
    "|x|² - max x": (lambda x: (x**2).sum(axis=-1) - x.max(axis=1, keepdims=True)[..., 0], 2, 2, False),
    "x0 x1, x1 - x0², with positions": (
        lambda x: np.stack([x[:, 0, 0] * x[:, 1, 0], x[:, 1, 0] - x[:, 0, 0] ** 2], axis=1), 2, 1, True,
    ),
}  # fmt: skip


def functions() -> Instance:
    """LR-6: two equivariant functions of three numbers and of two pairs, and one of positions, 8 cells for a number."""
    checks = []
    for name, (f, tokens, features, positions) in _FUNCTIONS.items():
        net = equivariant(f, tokens, features, 8, positions)
        cost, notes = dataclasses.asdict(net.cost), (f"{net.about.cost.tokens:,} ids",)
        checks.append(Check(name, "MEASURED", None, net.about.error, norm="L1", inputs=4096, cost=cost, notes=notes))
    return Instance(checks=tuple(checks), rates=_function_rates)


def _function_rates() -> tuple[Study, ...]:
    """The L_1 error against the granularity."""
    series = []
    for name, (f, tokens, features, positions) in _FUNCTIONS.items():
        errors = {D: equivariant(f, tokens, features, D, positions).about.error for D in (3, 4, 6, 8, 12)}
        series.append(Series(name, tuple(Point(float(D), error) for D, error in errors.items()), -1.0))
    return (Study("error against granularity", "D", tuple(series), error_is="L_1 error"),)
