"""Certificates of networks whose passes end in predictions: what is changed in the read-out, or in the values of a
penalty, is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.forging import Change, altered, array_places, entry, nudged, refused, with_claim, with_prompt, without
from support.prompts import made

import weightwright as ww
from weightwright.claims.prompt import READ_OUT
from weightwright.network import Loop


def right(kind: str) -> tuple[Any, Any]:
    net = made(kind, "float64")
    assert net.certificate is not None
    return net.network, net.certificate


def with_read_out(c: Any, **changes: Any) -> Any:
    assert c.claim.read_out is not None
    return with_prompt(c, read_out=replace(c.claim.read_out, **changes))


def with_leaf_of_read_out(c: Any, change: Callable[[Any], dict[str, Any]]) -> Any:
    leaf = c.claim.read_out.claim  # type: ignore[union-attr]
    return with_read_out(c, claim=replace(leaf, **change(leaf)))


def less(name: str) -> Change:
    return lambda c: with_leaf_of_read_out(c, lambda leaf: {"terms": replace(leaf.terms, **{name: 1e-18})})


def with_factors(c: Any, *factors: str) -> Any:
    pairs = zip(c.claim.summands, factors, strict=True)
    return with_prompt(c, summands=tuple(replace(one, factor=factor) for one, factor in pairs))


#: What is changed in the certificate, and what the checker says.
CLAIMS: dict[str, tuple[Change, str]] = {
    "another function": (lambda c: with_read_out(c, formula="1.001*x"), "the tables must compute"),
    "another argument": (lambda c: with_read_out(c, along=(1.0, -1.0)), "not along"),
    "another scale": (lambda c: with_read_out(c, scale=2 * c.claim.read_out.scale), "must compute|smaller|is claimed"),
    "no number of tables": (lambda c: with_read_out(c, tables=0), "has 0 tables"),
    "more tables": (lambda c: with_read_out(c, tables=3), "no layers but|a table takes|more passes|fewer passes"),
    "another factor": (lambda c: with_read_out(c, factor="u"), "the read-out is multiplied with 'u'"),
    "the penalty's factor": (lambda c: with_read_out(c, factor="r"), "the read-out is multiplied with 'r'"),
    "wider": (lambda c: with_leaf_of_read_out(c, lambda leaf: {"hi": 1.1 * leaf.hi}), "do not cover|boxes"),
    "less approximation": (less("approximation"), "approximation"),
    "less rounding": (less("rounding"), "rounding"),
    "another layer": (lambda c: with_leaf_of_read_out(c, lambda leaf: {"layer": 1}), "the claim is about layer 1"),
    "a query more": (lambda c: with_prompt(c, queries=c.claim.queries + 1), "read is not what it must be"),
    "more queries than tokens": (lambda c: with_prompt(c, queries=4), "4 predictions from 3 tokens"),
    "no query": (lambda c: with_prompt(c, queries=0), "queries = 0 is no number"),
    "a query that is true": (lambda c: with_claim(c, queries=True), "queries"),
    "no read-out": (lambda c: with_prompt(c, read_out=None), "nothing is read out"),
    "no read-out, no query": (lambda c: with_prompt(c, read_out=None, queries=0), "embed is not|more passes|outputs"),
    "no passes": (lambda c: with_prompt(c, passes=(), answer="gradients"), "comes after passes|go with values"),
    "the other state": (lambda c: with_prompt(c, answer={"p": "w", "w": "p"}[c.claim.answer]), "the read-out|answer"),
    "an assumption is hidden": (lambda c: without(c, READ_OUT), "hides an assumption"),
    "a smaller bound": (lambda c: replace(c, bound=0.999 * c.bound), "the terms add up"),
    "words without the read-out": (lambda c: replace(c, formula=c.formula.split("; then")[0]), "the network computes"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["read-out", "read-out of p"])
@pytest.mark.parametrize("forgery", CLAIMS)
def test_forged_read_outs_are_refused(kind: str, forgery: str, tmp_path: Path) -> None:
    (network, certificate), (forge, said) = right(kind), CLAIMS[forgery]
    refused(network, forge(certificate), tmp_path, said)


#: The same of the values of a penalty.
PENALTIES: dict[str, tuple[Change, str]] = {
    "values of the examples": (lambda c: with_factors(c, "u", "u"), "its inputs are"),
    "the two the other way": (lambda c: with_factors(c, "r", "u"), "is not what it must be"),
    "a penalty alone": (lambda c: with_factors(c, "r", "r"), "f is multiplied with"),
    "the number 1": (lambda c: with_factors(c, "u", "one"), "f is multiplied with"),
    "no such values": (lambda c: with_factors(c, "u", "q"), "factor|f is multiplied with"),
    "without own values": (lambda c: with_prompt(c, own_values=False), "go with values of the examples"),
}


@pytest.mark.parametrize("forgery", PENALTIES)
def test_forged_penalties_are_refused(forgery: str, tmp_path: Path) -> None:
    (network, certificate), (forge, said) = right("read-out"), PENALTIES[forgery]
    refused(network, forge(certificate), tmp_path, said)


def with_layers(network: Any, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Any:
    """The layers after the loop changed."""
    loop = next(i for i, layer in enumerate(network.layers) if isinstance(layer, Loop))
    return replace(network, layers=(*network.layers[: loop + 1], *change(network.layers[loop + 1 :])))


def with_head(layers: tuple[Any, ...], **changes: Any) -> tuple[Any, ...]:
    spread, attend, *rest = layers
    return (spread, replace(attend, heads=(replace(attend.heads[0], **changes),)), *rest)


def everybody_seen(layers: tuple[Any, ...]) -> tuple[Any, ...]:
    """All data tokens ask and are seen."""
    sees = replace(layers[1].heads[0].sees, registers=(0, 0), data="all", block=0, asks="all")
    return with_head(layers, sees=sees)


def read_from(network: Any, *sources: int) -> Any:
    (term,) = network.read.terms
    return replace(
        network, read=replace(network.read, terms=(replace(term, tokens=replace(term.tokens, sources=sources)),))
    )


#: What is changed in the network.
NETWORKS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "the read-out twice": (lambda n: with_layers(n, lambda layers: layers + layers[-3:]), "more passes|is not"),
    "no read-out": (lambda n: with_layers(n, lambda layers: ()), "no layers but|a table takes|fewer passes|is not"),
    "in a loop": (lambda n: with_layers(n, lambda layers: (Loop(layers, 2),)), "a table takes|no layers but|is not"),
    "steeper": (lambda n: with_layers(n, lambda layers: with_head(layers, beta=2 * layers[1].heads[0].beta)), "approx"),
    "everybody is seen": (
        lambda n: with_layers(n, everybody_seen), "layer 1 of the read-out",
    ),
    "other tokens": (lambda n: read_from(n, 0, 1), "read is not what it must be"),
    "the queries the other way": (lambda n: read_from(n, 2, 1), "read is not what it must be"),
}  # fmt: skip


@pytest.mark.parametrize("forgery", NETWORKS)
def test_forged_networks_with_a_read_out_are_refused(forgery: str, tmp_path: Path) -> None:
    (network, certificate), (forge, said) = right("read-out"), NETWORKS[forgery]
    refused(forge(network), certificate, tmp_path, said)


def test_no_entry_of_any_array_of_a_read_out_may_change(tmp_path: Path) -> None:
    """Every array after the loop, of the loop's own the keys of the penalty, where it is 0 and where it is not."""
    (network, certificate), rng = right("read-out"), np.random.default_rng(12)
    tried = 0
    for path in array_places(network):
        if path[:2] == ("layers", 0) and path[3] not in (3, 4, 5):
            continue
        array = entry(network, path)
        for choice in (np.flatnonzero(array), np.flatnonzero(array.ravel() == 0)):
            if len(choice):
                index = int(rng.choice(choice))
                try:
                    forged = altered(network, path, lambda old, index=index: nudged(old, index))
                except ww.LawError:
                    continue
                refused(forged, certificate, tmp_path)
                tried += 1
    assert tried > 40
