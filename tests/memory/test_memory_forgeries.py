"""Certificates of memories that are false, and networks that are not what theirs says: the checker refuses all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.forging import nudged_networks, proven, refused, save_forged, with_claim

import weightwright as ww
from weightwright.checker.memory.context_ids import enclose_ids, read_mapping
from weightwright.claims.memory_claim import memory_in_words
from weightwright.network import FeedForward, Ramps

WORDS = [["a", "b", "c"], ["b", "a"], ["c", "c"]]
TAGS = [["X", "Y", "Z"], ["X", "X"], ["Y", "Z"]]


@cache
def made(kernel: str) -> ww.AttentionNetwork:
    return ww.memorize(WORDS, TAGS, kernel=kernel)  # type: ignore[arg-type]


def put_layer(network: Any, index: int, layer: Any) -> Any:
    layers = list(network.layers)
    layers[index] = layer
    return replace(network, layers=tuple(layers))


def as_ramps(layer: Any) -> Ramps:
    return Ramps(layer.coordinates, layer.W_1, layer.b_1, layer.W_2, layer.b_2)


def changed(array: np.ndarray, place: Any, value: float) -> np.ndarray:
    new = array.copy()
    new[place] = value
    return new


@pytest.mark.parametrize("kernel", ["sorted", "plain"])
def test_what_is_forged_here_was_right(kernel: str, tmp_path: Path) -> None:
    proven(made(kernel).network, made(kernel).certificate, tmp_path)


#: What is claimed otherwise, and what the checker says.
CLAIMS: dict[str, tuple[Callable[[Any], dict[str, Any]], str]] = {
    "another label": (lambda c: {"labels": changed(c.labels, 0, 1.0)}, "comes back with another label"),
    "a label beyond": (lambda c: {"labels": changed(c.labels, 0, 3.0)}, "labels are not whole numbers"),
    "a label between": (lambda c: {"labels": changed(c.labels, 0, 0.5)}, "labels are not whole numbers"),
    "no labels": (lambda c: {"labels": np.full(len(c.labels), -1.0)}, "something else|nothing is claimed"),
    "too few labels": (lambda c: {"labels": c.labels[:-1]}, "something else|one label for each token"),
    "another token": (lambda c: {"tokens": changed(c.tokens, 0, 1.0)}, "ramp|another label"),
    "a token beyond": (lambda c: {"tokens": changed(c.tokens, 0, 9.0)}, "tokens are not whole numbers"),
    "another length": (lambda c: {"lengths": changed(c.lengths, 0, 4.0)}, "one label for each token"),
    "an empty sequence": (lambda c: {"lengths": np.append(c.lengths, 0.0)}, "lengths are not whole numbers"),
    "another vector": (lambda c: {"vectors": c.vectors[::-1]}, "ramp|another label"),
    "a vector outside": (lambda c: {"vectors": changed(c.vectors, 0, 9999.0)}, "outside the domain"),
    "a vector that is none": (lambda c: {"vectors": changed(c.vectors, 0, np.nan)}, "no number of the dtype"),
    "no positions": (lambda c: {"positions": False}, "tokens of 1 numbers"),
    "words twice": (lambda c: {"words": ("a", "a", "c")}, "are the same"),
    "too few words": (lambda c: {"words": ("a", "b")}, "one word for each vector"),
    "too few answers": (lambda c: {"answers": ("X", "Y")}, "labels are not whole numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLAIMS)
def test_other_claims_are_refused(name: str, tmp_path: Path) -> None:
    change, said = CLAIMS[name]
    net = made("sorted")
    forged = with_claim(net.certificate, **change(net.certificate.claim))
    refused(net.network, forged, tmp_path, said)


def test_other_words_about_the_memory_are_refused(tmp_path: Path) -> None:
    net = made("sorted")
    for text in (
        "labels of 8 stored tokens, sorted kernel",
        "x",
        net.certificate.formula.replace("sorted", "plain"),
    ):
        refused(net.network, replace(net.certificate, formula=text), tmp_path, "something else of the memory")
    refused(net.network, replace(net.certificate, kernel="anchor"), tmp_path)
    refused(net.network, replace(net.certificate, assumptions=()), tmp_path, "hides an assumption")


def renamed(network: Any, certificate: Any) -> Any:
    """In the words that fit the network."""
    return replace(certificate, formula=memory_in_words(certificate.claim, network))


def test_a_plain_layer_is_no_sorted_one(tmp_path: Path) -> None:
    """The weights of the sorted kernel do not sum exactly, and those of the plain one may be sorted."""
    net = made("sorted")
    layer = net.network.layers[1]
    assert isinstance(layer, Ramps)
    plain = FeedForward(layer.coordinates, layer.W_1, layer.b_1, layer.W_2, layer.b_2)
    network = put_layer(net.network, 1, plain)
    refused(network, renamed(network, net.certificate), tmp_path, "sums of all units are exact|power of two|may round")
    net = made("plain")
    layer = net.network.layers[1]
    network = put_layer(net.network, 1, Ramps(layer.coordinates, layer.W_1, layer.b_1, layer.W_2, layer.b_2))
    proven(network, renamed(network, net.certificate), tmp_path)


@pytest.mark.parametrize("kernel", ["sorted", "plain"])
def test_a_ramp_that_is_moved_onto_an_id_is_refused(kernel: str, tmp_path: Path) -> None:
    """By the width of the gap; kinks stay on their grid."""
    net = made(kernel)
    layer = net.network.layers[1]
    kinks = -layer.b_1[0]
    for j in range(len(kinks) // 2):
        gap = (
            kinks[2 * j + 2] - kinks[2 * j + 1]
            if 2 * j + 2 < len(kinks)
            else 2.0 ** np.ceil(np.log2(kinks[-1] - kinks[0]))
        )
        moved = kinks.copy()
        moved[2 * j : 2 * j + 2] += np.floor(gap)
        network = put_layer(net.network, 1, replace(layer, b_1=-moved[None]))
        refused(network, net.certificate, tmp_path)


def test_an_id_on_a_ramp_is_refused_though_it_rounds_to_its_label(tmp_path: Path) -> None:
    """The start of a ramp is moved below the id before it: half of the first tenth of the ramp is not the label."""
    net = made("sorted")
    layer, claim = net.network.layers[1], net.certificate.claim
    kinks = -layer.b_1[0]
    ids, radii = enclose_ids(
        read_mapping(net.network, 1), claim.vectors, claim.tokens.astype(int), claim.lengths.astype(int), True
    )
    for j in range(len(kinks) // 2):
        width = kinks[2 * j + 1] - kinks[2 * j]
        before = ids[ids < kinks[2 * j]].max()
        moved = kinks.copy()
        room = before - kinks[2 * j - 1] if j else width
        moved[2 * j] = np.round((before - min(width / 32, room / 2)) * 2**30) / 2**30
        moved[2 * j + 1] = moved[2 * j] + width
        network = put_layer(net.network, 1, replace(layer, b_1=-moved[None]))
        refused(network, net.certificate, tmp_path, "may lie on a ramp")
    assert radii.max() < 1e-9


def test_other_forms_are_refused(tmp_path: Path) -> None:
    net = made("sorted")
    network, layer, first = net.network, net.network.layers[1], net.network.layers[0]
    (head,) = first.heads
    kinks = np.where(np.arange(layer.b_1.size) % 2, layer.b_1 - 0.1, layer.b_1)

    def with_head(**changes: Any) -> Any:
        return put_layer(network, 0, replace(first, heads=(replace(head, **changes),)))

    forms = {
        "no skip connection": put_layer(network, 1, replace(layer, residual=False)),
        "two heads": put_layer(network, 0, replace(first, heads=(head, head))),
        "no other token": with_head(sees=replace(head.sees, data="self")),
        "the label is not empty": with_head(W_O=np.roll(head.W_O, 1, axis=1)),
        "half ramps": put_layer(network, 1, replace(layer, W_2=layer.W_2 / 2)),
        "wider ramps": put_layer(network, 1, replace(layer, b_1=kinks)),
        "another first label": put_layer(network, 1, replace(layer, b_2=layer.b_2 + 1.0)),
        "no attention": replace(network, layers=(layer,)),
    }
    for name, forged in forms.items():
        try:
            refused(forged, renamed(forged, net.certificate), tmp_path)
        except pytest.fail.Exception as error:
            raise AssertionError(name) from error


def test_ramps_have_laws() -> None:
    layer = made("sorted").network.layers[1]
    broken = {
        "weight 1": {"W_1": layer.W_1 * 2},
        "must end after it starts": {"b_1": layer.b_1[:, ::-1]},
        "take back": {"W_2": np.abs(layer.W_2)},
    }
    longer = layer.b_1.copy()
    longer[0, 1] = layer.b_1[0, 2] - 1.0  # ramp 0 ends where ramp 1 has begun
    for said, change in [*broken.items(), ("before the next one starts", {"b_1": longer})]:
        with pytest.raises(ww.LawError, match=said):
            put_layer(made("sorted").network, 1, replace(layer, **change))


def test_nudged_weights_are_refused_or_change_nothing(tmp_path: Path) -> None:
    """Where the checker still agrees every label still comes back."""
    for kernel in ("sorted", "plain"):
        net = made(kernel)
        path = tmp_path / "net.safetensors"
        layer = net.network.layers[1]
        plain = put_layer(net.network, 1, FeedForward(layer.coordinates, layer.W_1, layer.b_1, layer.W_2, layer.b_2))
        for nudged in nudged_networks(plain, lambda array: iter(range(min(array.size, 12)))):
            try:
                network = nudged if kernel == "plain" else put_layer(nudged, 1, as_ramps(nudged.layers[1]))
            except ww.LawError:
                continue
            save_forged(network, net.certificate, path)
            try:
                said = ww.check(path)
            except ww.CertificateError:
                continue
            assert ww.AttentionNetwork(network, said).predict(WORDS) == TAGS
