"""How tests forge files: one thing in a certificate or a network is changed, all digests are made to fit, and the
checker must refuse what is left."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.networks import by_hand, linear

import weightwright as ww
from weightwright.claims.certificate import Certificate, MeasuredClaim, Terms, measured_certificate
from weightwright.claims.files import network_digest, write
from weightwright.claims.graph import Graph, Node
from weightwright.claims.kinds import MASKED
from weightwright.claims.one_layer_claims import OneLayerClaim
from weightwright.claims.prompt import PromptClaim
from weightwright.claims.target import Composite
from weightwright.network import Attention
from weightwright.prover.machine import assumptions

Change = Callable[[Certificate], Certificate]
Forged = tuple[Any, Certificate]
Path_ = tuple[Any, ...]  # from a value to a part of it: names of fields, places in tuples


# files


def save_forged(network: Any, certificate: Certificate, path: Path) -> Path:
    """A file whose certificate names the network rightly."""
    write(path, network, replace(certificate, network=network_digest(network)))
    return path


def refused(network: Any, certificate: Certificate, folder: Path, said: str | None = None) -> None:
    """The file is refused though the certificate names the network rightly."""
    path = save_forged(network, certificate, folder / "forged.safetensors")
    with pytest.raises(ww.CertificateError, match=said):
        ww.check(path)


def proven(network: Any, certificate: Certificate, folder: Path) -> None:
    """The same file without the lie is PROVEN, or CONDITIONAL if it was."""
    path = save_forged(network, certificate, folder / "right.safetensors")
    assert ww.check(path).status == ("CONDITIONAL" if certificate.status == "CONDITIONAL" else "PROVEN")


# anything made of dataclasses and tuples


def array_places(value: Any, path: Path_ = ()) -> list[Path_]:
    """Where arrays stand in nested dataclasses and tuples."""
    if isinstance(value, np.ndarray):
        return [path]
    if dataclasses.is_dataclass(value):
        return [p for f in dataclasses.fields(value) for p in array_places(getattr(value, f.name), (*path, f.name))]
    if isinstance(value, tuple):
        return [p for i, item in enumerate(value) for p in array_places(item, (*path, i))]
    return []


def entry(value: Any, path: Path_) -> Any:
    """What stands at the path."""
    for step in path:
        value = value[step] if isinstance(step, int) else getattr(value, step)
    return value


def altered(value: Any, path: Path_, change: Callable[[Any], Any]) -> Any:
    """The same with what stands at the path changed."""
    if not path:
        return change(value)
    head, rest = path[0], path[1:]
    if isinstance(head, int):
        return (*value[:head], altered(value[head], rest, change), *value[head + 1 :])
    return replace(value, **{head: altered(getattr(value, head), rest, change)})


def nudged(array: np.ndarray, place: Any, by: float = 0.25) -> np.ndarray:
    """The same array with one entry, or several, moved; a whole number counts them row by row."""
    new = np.array(array)
    if isinstance(place, int):
        new.flat[place] += by
    else:
        new[place] += by
    return new


def with_entry(array: Any, place: Any, value: float) -> Any:
    new = np.array(array)
    new[place] = value
    return new


def nudged_networks(network: Any, choose: Callable[[np.ndarray], Iterator[int]]) -> Iterator[Any]:
    """The network with one entry of one array moved by a quarter: `choose` says which entries of an array to try."""
    for path in array_places(network):
        for index in choose(entry(network, path)):
            yield altered(network, path, lambda old, index=index: nudged(old, index))


# certificates


def with_claim(certificate: Certificate, **changes: Any) -> Certificate:
    """Fields of the claim changed."""
    return replace(certificate, claim=replace(certificate.claim, **changes))


def with_leaf(certificate: Certificate, **changes: Any) -> Certificate:
    """Fields of the leaf of a claim about one layer changed."""
    return with_claim(certificate, leaf=replace(certificate.claim.leaf, **changes))  # type: ignore[union-attr]


def with_one_layer(certificate: Certificate, leaf: Any, zones: tuple[tuple[float, float], ...] = ()) -> Certificate:
    """With a claim about one layer in place of its own."""
    return replace(certificate, claim=OneLayerClaim(leaf, zones))


def with_composite(certificate: Certificate, **changes: Any) -> Certificate:
    """With the words that go with it, so that nothing but the claim is wrong."""
    assert isinstance(certificate.claim, Composite)
    composite = replace(certificate.claim, **changes)
    return replace(certificate, claim=composite, formula=composite.in_words())


def with_prompt(certificate: Certificate, **changes: Any) -> Certificate:
    """The same for a claim about a prompt."""
    assert isinstance(certificate.claim, PromptClaim)
    prompt = replace(certificate.claim, **changes)
    return replace(certificate, claim=prompt, formula=prompt.in_words())


def with_values(terms: Terms, approximation: float, leakage: float, rounding: float) -> Terms:
    """All three terms replaced."""
    return replace(terms, approximation=approximation, leakage=leakage, rounding=rounding)


def scaled(terms: Terms, name: str, factor: float) -> Terms:
    return replace(terms, **{name: getattr(terms, name) * factor})


def without(certificate: Certificate, assumption: str) -> Certificate:
    return replace(certificate, assumptions=tuple(said for said in certificate.assumptions if said != assumption))


def widened(certificate: Certificate, factor: float = 2.0) -> Certificate:
    """About a larger domain."""
    return replace(certificate, domain=ww.Box(factor * certificate.domain.lo, factor * certificate.domain.hi))


def about_composite(
    network: Any,
    composite: Composite,
    box: ww.Box,
    terms: tuple[float, ...] = (0.0, 0.0, 0.0),
    masked: bool = False,
) -> Forged:
    """A network of several layers with a certificate of any composite and terms."""
    said = assumptions(network.dtype, "dot") + composite.left_out + ((MASKED,) if masked else ())
    bound, words = sum(terms) * (1 + 2.0**-30), composite.in_words()
    digest = network_digest(network)
    return network, Certificate(composite, words, box, network.dtype, "dot", bound, Terms(*terms), digest, said)


def affine(weights: Any) -> Composite:
    """Outputs that are affine in the inputs, one of each token, without any unit."""
    W = np.array(weights, dtype=float)
    mixed = Node("mix", (0,))
    return Composite(Graph("affine", (Node("input"), mixed), (1,), (W,), len(W)), ())


def measured(
    network: Any,
    error: float,
    count: int,
    how: str,
    why: str = "",
    formula: str = "f",
    domain: ww.Box | None = None,
    kernel: str = "dot",
) -> Certificate:
    """A certificate that claims nothing, which any network can have."""
    d = len(network.inputs)
    box = ww.Box([-9.0] * d, [9.0] * d) if domain is None else domain
    claim = MeasuredClaim(error, count, how, why)
    return measured_certificate(claim, formula, box, network.dtype, kernel, network_digest(network))


# networks


def with_layer(network: Any, index: int, **changes: Any) -> Any:
    layers = list(network.layers)
    layers[index] = replace(layers[index], **changes)
    return replace(network, layers=tuple(layers))


def with_heads(network: Any, change: Callable[[tuple[Any, ...]], tuple[Any, ...]], layer: int | None = None) -> Any:
    """Other heads in a layer, by default in the first one of attention."""
    first = next(i for i, one in enumerate(network.layers) if isinstance(one, Attention))
    at = first if layer is None else layer
    return with_layer(network, at, heads=change(network.layers[at].heads))  # type: ignore[union-attr]


def named(names: tuple[str, ...], **values: float) -> np.ndarray:
    return np.array([[float(values.get(name, 0.0))] for name in names])


def one_head(names: tuple[str, ...], registers: np.ndarray, layers: tuple[Attention, ...], tokens: int = 1) -> Any:
    """x is read, "one" is 1, "k" is -1000 on data tokens where there is such a coordinate."""
    C, A = np.zeros((1, len(names))), np.zeros((1, len(names)))
    A[0, 0], C[0, names.index("one")] = 1.0, 1.0
    if "k" in names:
        C[0, names.index("k")] = -1000.0
    return by_hand(("x",), linear(names, A, C), layers, ("out",), registers=registers, tokens=tokens)
