"""LR-4, LR-5, LR-7: data sets come back as they were given, exactly, or are refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.running import reference_outputs

import weightwright as ww
from weightwright.network import FeedForward

ABC = [["the", "cat", "sat"], ["the", "dog", "the", "dog"], ["sat"], ["sat", "cat", "the"]]
TAGS = [["D", "N", "V"], ["D", "N", "D", "V"], ["V"], ["V", "N", "X"]]


def same(given_labels: Any, found: Any) -> bool:
    return all(
        np.array_equal(a, b)
        for one, two in zip(given_labels, found, strict=True)
        for a, b in zip(one, two, strict=True)
    )


@pytest.mark.parametrize("kernel", ["sorted", "plain"])
@pytest.mark.parametrize("mask", [None, "causal"])
def test_labels_come_back_from_the_file(kernel: Any, mask: Any, tmp_path: Path) -> None:
    net = ww.memorize(ABC, TAGS, mask=mask, kernel=kernel)
    assert (net.certificate.status, net.certificate.bound) == ("PROVEN", 0.0)
    assert kernel in net.certificate.formula
    net.save(tmp_path / "memory.safetensors")
    loaded = ww.load(tmp_path / "memory.safetensors")
    assert loaded.certificate.status == "PROVEN"
    assert loaded.predict(ABC) == net.predict(ABC) == TAGS


def test_a_new_context_is_not_stored() -> None:
    net = ww.memorize(ABC, TAGS)
    assert net.predict([["sat", "sat"], ["the", "bird"], ["sat"]]) == [
        [ww.memory.NOT_STORED] * 2,
        [ww.memory.NOT_STORED] * 2,
        ["V"],
    ]
    assert net.predict([["sat"] * 9]) == [[ww.memory.NOT_STORED] * 9]  # longer than everything stored
    causal = ww.memorize(ABC, TAGS, mask="causal")
    assert causal.predict([["the", "cat", "bird", "cat"]]) == [["D", "N", ww.memory.NOT_STORED, ww.memory.NOT_STORED]]
    assert not ww.memory.NOT_STORED
    assert repr(ww.memory.NOT_STORED) == "not stored"


def test_margins_say_how_far_rounding_is_from_mattering() -> None:
    labels, margins = ww.memorize(ABC, TAGS).predict(ABC, margins=True)
    assert labels == TAGS
    assert min(min(row) for row in margins) > 1e3


@pytest.mark.parametrize(
    "labels", [[[1.5, -0.1], [3.0]], [[True, False], [True]], [[[1.0, 2.0], [0.0, 1.0]], [[1.0, 2.0]]]]
)
def test_classes_numbers_and_vectors(labels: Any) -> None:
    net = ww.memorize([[7, 8], [8]], labels)
    assert same(labels, net.predict([[7, 8], [8]]))


def test_arrays_and_tensors_are_sequences_too() -> None:
    tokens, labels = torch.tensor([[3, 1, 3], [1, 1, 2]]), np.array([[0, 1, 2], [2, 1, 0]])
    net = ww.memorize(tokens, labels)
    assert net.predict(tokens) == net.predict(tokens.numpy()) == net.predict(tokens.tolist()) == labels.tolist()
    vectors = torch.randn(2, 3, 4, dtype=torch.float32)
    net = ww.memorize(vectors, torch.tensor(labels), dtype=torch.float32)
    assert net.predict(vectors) == net.predict(vectors.tolist()) == labels.tolist()
    with pytest.raises(ValueError, match=r"must have shape \(n, 4\)"):
        net.predict([[[1.0, 2.0]]])


def test_vectors_nearly_coincide() -> None:
    a, b = np.array([0.3, 0.7]), np.array([0.3, 0.7 + 1e-9])
    net = ww.memorize([[a, b], [b, b, a]], [[0, 1], [1, 0, 1]])
    assert net.predict([np.array([a, b]), np.array([b, b, a])]) == [[0, 1], [1, 0, 1]]
    with pytest.raises(ww.WeightwrightError, match=r"1e-09 apart and the same in float32"):
        ww.memorize([[a, b]], [[0, 1]], dtype="float32")


@given(st.data())
@settings(max_examples=25)
def test_random_data_sets_are_remembered_or_refused_with_the_reason(data: Any) -> None:
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    N, n, d = draw(st.integers(1, 40)), draw(st.integers(1, 20)), draw(st.integers(1, 8))
    V, C = draw(st.integers(1, 60)), draw(st.integers(1, 6))
    positions, mask = draw(st.booleans()), draw(st.sampled_from([None, "causal"]))
    near = draw(st.sampled_from([1.0, 1e-6, 1e-12]))
    vocabulary = rng.normal(size=(V, d)) * near + draw(st.sampled_from([0.0, 1.0, 1e3]))
    sequences = [rng.integers(0, V, int(rng.integers(1, n + 1))) for _ in range(N)]
    sequences += [rng.permutation(sequences[0]), sequences[0]]
    labels = [rng.integers(0, C, len(one)).tolist() for one in sequences]
    tokens = [vocabulary[one] if near < 1 or d > 4 else one for one in sequences]
    try:
        net = ww.memorize(tokens, labels, positions, mask=mask, on_conflict="skip")
    except (ww.WeightwrightError, ww.ToleranceError) as error:
        said = str(error)
        assert "repeated" in said or "apart" in said or "no token is left" in said, said
        assert not (positions and near == 1.0 and "apart" in said), said
        return
    assert net.certificate.status == "PROVEN"
    found = net.predict(tokens)
    for one, given_row, found_row in zip(sequences, labels, found, strict=True):
        for k, (a, b) in enumerate(zip(given_row, found_row, strict=True)):
            seen = one[: k + 1] if mask == "causal" else one
            repeated = not positions and len(set(seen.tolist())) < len(seen)
            assert b is ww.memory.NOT_STORED if repeated else b is ww.memory.INCONSISTENT or a == b
    assert net.about.remembered == sum(
        b is not ww.memory.INCONSISTENT and b is not ww.memory.NOT_STORED for row in found for b in row
    )
    assert net.about.parameters <= net.about.formula


def test_inconsistent_labels_are_reported_never_resolved() -> None:
    sequences, labels = [["a", "b"], ["a", "b"]], [[0, 1], [0, 2]]
    with pytest.raises(
        ww.WeightwrightError, match=r"'b' \(sequence 0, position 1 and sequence 1, position 1\) has the labels 1, 2"
    ):
        ww.memorize(sequences, labels)
    net = ww.memorize(sequences, labels, on_conflict="skip")
    assert net.predict([["a", "b"]]) == [[0, ww.memory.INCONSISTENT]]
    (conflict,) = net.about.conflicts
    assert (conflict.token, conflict.labels) == ("b", (1, 2))


def test_without_positions_a_label_is_a_function_of_the_set() -> None:
    net = ww.memorize([["a", "b"], ["b", "a"], ["a"]], [[0, 1], [1, 0], [2]], positions=False)
    assert net.predict([["b", "a"], ["a"]]) == [[1, 0], [2]]
    with pytest.raises(ww.WeightwrightError, match="the set of tokens that it sees"):
        ww.memorize([["a", "b"], ["b", "a"]], [[0, 1], [1, 2]], positions=False)
    with pytest.raises(ww.WeightwrightError, match=r"'a' at positions 0 and 2; without positions"):
        ww.memorize([["a", "b", "a"]], [[0, 1, 0]], positions=False)


def test_sequences_with_repeated_tokens_can_be_left_out() -> None:
    """Without positions nothing is said of them, also where their set is stored: the head sees a multiset."""
    sequences, labels = [["a", "b", "a"], ["a", "b"], ["c", "c"]], [[0, 1, 2], [3, 4], [5, 6]]
    with pytest.raises(ww.WeightwrightError, match="'a' at positions 0 and 2; sequence 2 has the token 'c'"):
        ww.memorize(sequences, labels, positions=False)
    net = ww.memorize(sequences, labels, positions=False, on_conflict="skip")
    assert net.predict(sequences) == [[ww.memory.NOT_STORED] * 3, [3, 4], [ww.memory.NOT_STORED] * 2]
    assert (len(net.about.repeated), net.about.remembered, net.about.contexts) == (2, 2, 2)
    causal = ww.memorize(sequences, labels, positions=False, on_conflict="skip", mask="causal")
    assert causal.predict([["c", "c"], ["a", "b"]]) == [
        [5, ww.memory.NOT_STORED],
        [ww.memory.INCONSISTENT, ww.memory.INCONSISTENT],
    ]


def test_both_paths_and_the_definition_return_the_same() -> None:
    rng = np.random.default_rng(4)
    sequences = [rng.integers(0, 20, n).tolist() for n in rng.integers(1, 12, 40)]
    labels = [rng.integers(0, 5, len(one)).tolist() for one in sequences]
    net = ww.memorize(sequences, labels, kernel="plain")
    fast = ww.memorize(sequences, labels)
    assert net.predict(sequences) == fast.predict(sequences) == labels
    network, claim = fast.network, fast.certificate.claim
    layer = network.layers[1]
    plain = FeedForward(layer.coordinates, layer.W_1, layer.b_1, layer.W_2, layer.b_2)
    x = np.column_stack([claim.vectors[claim.tokens[:1].astype(int)], [0.0]])
    exact = reference_outputs(network, x)
    slow = reference_outputs(
        type(network)(network.inputs, network.embed, network.registers, (network.layers[0], plain), network.read), x
    )
    assert np.abs(exact - slow).max() < 1e-3
    line = torch.linspace(-2000, 2000, 4001, dtype=torch.float64)[:, None] * torch.tensor([[0.0, 1.0, 0.0]])
    by_search, summed = (
        ww.AttentionNetwork(network).layers[1](line),
        torch.tensor(interpret_layer(plain, line.numpy())),
    )
    assert (by_search - summed).abs().max() < 1e-6


def interpret_layer(layer: FeedForward, X: np.ndarray) -> np.ndarray:
    return X + np.maximum(X @ layer.W_1 + layer.b_1, 0) @ layer.W_2 + layer.b_2


def test_ranks_are_one_and_counts_are_the_formulas() -> None:
    net = ww.memorize(ABC, TAGS, head_size=3)
    (head,) = net.network.heads
    assert [np.linalg.matrix_rank(W) for W in (head.W_Q, head.W_K, head.W_V)] == [1, 1, 1]
    about, s, D, T = net.about, 3, 3, 11
    assert about.formula == 4 * (s + D) + D * (2 * T + D)
    assert about.parameters == 4 * (s + D) + D + 3 * about.changes + 1 <= about.formula


BAD: dict[str, tuple[Any, Any, str]] = {
    "nothing": ([], [], "sequences is empty"),
    "an empty sequence": ([["a"], []], [[0], []], "sequence 1 is empty"),
    "a text": (["a cat"], [[0]], "sequence 0 is the text 'a cat'"),
    "too few labels": ([["a", "b"]], [[0]], "sequence 0 has 2 tokens, but 1 labels"),
    "labels of other sequences": ([["a"]], [[0], [1]], "labels has 2 sequences, but there are 1"),
    "NaN": ([[[0.0, np.nan]]], [[0]], "token 0 of sequence 0 must be finite, but number 1 is"),
    "another size": ([[[0.0, 1.0]], [[1.0]]], [[0], [1]], r"sequence 1 must have shape \(n, 2\)"),
    "mixed": ([["a", 0.5]], [[0, 1]], "token 1 of sequence 0 is 0.5"),
    "a label that is none": ([["a"]], [[None]], "must be a class, a number or a vector"),
    "an infinite label": ([["a"]], [[np.inf]], "must be finite"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case: str) -> None:
    sequences, labels, said = BAD[case]
    with pytest.raises((ValueError, TypeError), match=said):
        ww.memorize(sequences, labels)


def test_options_are_checked() -> None:
    for options in (
        {"mask": "future"},
        {"kernel": "fast"},
        {"on_conflict": "vote"},
        {"head_size": 0},
        {"query": "none"},
    ):
        with pytest.raises(ValueError, match=next(iter(options))):
            ww.memorize(ABC, TAGS, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs tokens of at least two numbers"):
        ww.memorize(ABC, TAGS, query="other")
    with pytest.raises(ww.WeightwrightError, match="remembers no data set"):
        ww.approximate("x", (0, 1), 0.1).predict([["a"]])


def test_too_much_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(ww.BudgetError, match="that is enough for about 1 such sequences"):
        ww.memorize([["a", "b"], ["b"]], [[0, 1], [1]], megabytes=0.007)


def test_a_sequence_that_is_too_long_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(ww.BudgetError, match=r"a sequence of 3,000 tokens .* enough for sequences of 1,280"):
        ww.memorize([[0] * 3000], [[0] * 3000], megabytes=100)


def test_float32_says_what_it_can_hold() -> None:
    rng = np.random.default_rng(0)
    sequences = rng.integers(0, 8, (600, 20))
    labels = rng.integers(0, 9, (600, 20))
    with pytest.raises(
        ww.ToleranceError, match=r"float32 cannot tell two contexts apart: .* the first \d+ of 600 sequences"
    ):
        ww.memorize(sequences, labels, dtype="float32")
    net = ww.memorize(sequences[:8], labels[:8], dtype="float32")
    assert net.certificate.status == "PROVEN"
    assert net.predict(sequences[:8]) == labels[:8].tolist()


def test_exports_sum_all_units_and_say_so(tmp_path: Path) -> None:
    """torch file and ONNX: the plain path."""
    onnxruntime = pytest.importorskip("onnxruntime")
    net = ww.memorize(ABC, TAGS)
    net.to_torch(tmp_path / "memory.py")
    net.to_onnx(tmp_path / "memory.onnx")
    assert "CONDITIONAL" in (tmp_path / "memory.py").read_text()
    session = onnxruntime.InferenceSession(str(tmp_path / "memory.onnx"))
    scope: dict[str, Any] = {"__file__": str(tmp_path / "memory.py"), "__name__": "memory"}
    exec((tmp_path / "memory.py").read_text(), scope)
    exported, claim = scope["Network"](), net.certificate.claim
    for words, tags in zip(ABC, TAGS, strict=True):
        rows = claim.vectors[[claim.words.index(word) for word in words]]
        x = np.column_stack([rows, np.arange(float(len(words)))])
        numbers = [claim.answers.index(tag) for tag in tags]
        assert np.rint(session.run(None, {session.get_inputs()[0].name: x[None]})[0].ravel()).tolist() == numbers
        assert exported(torch.tensor(x))[:, 0].round().tolist() == numbers


def test_a_padding_mask_computes_what_the_sequence_alone_does() -> None:
    """LR-7: padded to four tokens, of which the mask shows the first n."""
    net = ww.memorize(ABC, TAGS)
    network, claim = net.network, net.certificate.claim
    first = network.layers[0]
    for words, tags in zip(ABC, TAGS, strict=True):
        n = len(words)
        mask = np.broadcast_to(np.arange(4) < n, (4, 4))
        masked = replace(first, heads=(replace(first.heads[0], mask=mask),))
        padded = ww.AttentionNetwork(replace(network, tokens=4, layers=(masked, network.layers[1])))
        rows = claim.vectors[[claim.words.index(word) for word in (*words, *["the"] * (4 - n))]]
        out = padded(torch.tensor(np.column_stack([rows, np.arange(4.0)])))[:n, 0]
        assert [claim.answers[int(label)] for label in out.tolist()] == tags


@pytest.mark.slow
@given(st.data())
@settings(max_examples=150)
def test_larger_random_data_sets(data: Any) -> None:
    """d to 8, n to 20, N to 200."""
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    N, n, d, V = (draw(st.integers(1, most)) for most in (200, 20, 8, 100))
    kind, positions = draw(st.sampled_from(["words", "vectors"])), draw(st.booleans())
    dtype, kernel = draw(st.sampled_from(["float64", "float32"])), draw(st.sampled_from(["sorted", "plain"]))
    vocabulary = rng.normal(size=(V, d))
    sizes = rng.integers(1, n + 1, N)
    sequences = [rng.integers(0, V, k) if positions else rng.permutation(V)[:k] for k in sizes]
    labels = [rng.integers(0, 5, len(one)).tolist() for one in sequences]
    tokens = [vocabulary[one] if kind == "vectors" else one for one in sequences]
    try:
        net = ww.memorize(tokens, labels, positions, on_conflict="skip", dtype=dtype, kernel=kernel)
    except ww.WeightwrightError as error:
        said = str(error)
        assert dtype == "float32" or kernel == "plain" or "repeated" in said or "no token is left" in said, said
        return
    assert net.certificate.status == "PROVEN"
    for given_row, found_row in zip(labels, net.predict(tokens), strict=True):
        assert all(b is ww.memory.INCONSISTENT or a == b for a, b in zip(given_row, found_row, strict=True))
