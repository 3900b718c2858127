"""Certificates of networks that run an algorithm on their prompt: right ones hold, forged ones are refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.forging import (
    Change,
    affine,
    altered,
    array_places,
    entry,
    nudged,
    proven,
    refused,
    with_claim,
    with_one_layer,
    with_prompt,
    without,
)
from support.networks import linear
from support.prompts import KINDS, RESIDUAL, built, errors, fitted, made, plain, prompts, tables_of

import weightwright as ww
from weightwright.certify import certify
from weightwright.claims.kinds import MASKED
from weightwright.claims.prompt import ARGUMENTS, STATES
from weightwright.network import Gather
from weightwright.prover.machine import assumptions

FORGED = ["descent", "threshold", "clock", "gradients"]
NAN, INF = math.nan, math.inf


@pytest.mark.few(15)
@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_no_pass_is_further_off_than_the_bound(kind: str, dtype: str) -> None:
    net = made(kind, dtype)
    assert net.certificate is not None
    assert net.certificate.status == "PROVEN"
    found = [error for prompt in prompts(net, 10, 1) for error in errors(net, prompt)]
    assert len(found) >= 10
    assert 0 < max(found) <= net.certificate.bound


@pytest.mark.few(13)
@pytest.mark.parametrize(("kind", "dtype"), [pair for pair in KINDS if pair[0] != "threshold"])
def test_rounding_alone_covers_what_the_dtype_makes_of_the_tables(kind: str, dtype: str) -> None:
    """Against the same layers in exact arithmetic. (The exact threshold is no gate, so it has no such pass.)"""
    net = made(kind, dtype)
    assert net.certificate is not None
    found = [error for prompt in prompts(net, 6, 2) for error in errors(net, prompt, by_tables=True)]
    assert 0 < max(found) <= net.certificate.terms.rounding


@pytest.mark.few(1)
@pytest.mark.parametrize("profile", ["x", "relu(x)"])
def test_products_that_cancel_are_counted(profile: str) -> None:
    """w.x - y is small though w, x and y are not: keys and scores round by more than those of the residual would. The
    steep key of a kink may then weigh anything, where its value is as good as the others' mean."""
    line = tables_of(fitted(profile, 3.0, 1e-3, "float32"), RESIDUAL)
    net, small = built([line], "float32", own_values=True, largest_x=1024.0), built([line], "float32", own_values=True)
    assert net.certificate is not None
    assert small.certificate is not None
    found = [error for prompt in cancelling(20, 3) for error in errors(net, prompt, by_tables=True)]
    assert len(found) == 20
    assert small.certificate.terms.rounding < max(found) <= net.certificate.terms.rounding < 100 * max(found)


def cancelling(count: int, seed: int) -> Iterator[torch.Tensor]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x, gap = rng.uniform(-900, 900, (3, 1)), rng.uniform(-0.5, 0.5, (3, 1))
        w = rng.uniform(0.5, 1, (3, 1))
        y = w * gap + rng.uniform(-0.5, 0.5, (3, 1)) * 2.0 ** -rng.integers(0, 16, (3, 1))
        yield torch.tensor(np.concatenate([x, gap - x, rng.uniform(-1, 1, (3, 2)), y, w, w], axis=1)).float()


@pytest.mark.few(15)
@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_what_is_forged_here_was_right(kind: str, dtype: str, tmp_path: Path) -> None:
    net = made(kind, dtype)
    assert net.certificate is not None
    proven(net.network, net.certificate, tmp_path)


def test_a_bound_above_the_tolerance_is_no_network() -> None:
    net = made("descent", "float64")
    assert net.certificate is not None
    with pytest.raises(ww.ToleranceError, match=r"tol=1e-12 cannot be proven: 1\.15e-08 is the best"):
        certify(net.network, net.certificate.claim, net.certificate.domain, tol=1e-12)


def with_passes(c: Any, **changes: Any) -> Any:
    return with_prompt(c, passes=tuple(replace(step, **changes) for step in c.claim.passes))


def with_summands(c: Any, **changes: Any) -> Any:
    return with_prompt(c, summands=tuple(replace(summand, **changes) for summand in c.claim.summands))


def with_claims(c: Any, change: Callable[[Any], dict[str, Any]]) -> Any:
    summands = tuple(replace(s, claim=replace(s.claim, **change(s.claim))) for s in c.claim.summands)
    return with_prompt(c, summands=summands)


def with_claim_terms(c: Any, **changes: float) -> Any:
    return with_claims(c, lambda claim: {"terms": replace(claim.terms, **changes)})


#: Of every kind: what is changed in the certificate, and what the checker says.
ALL: dict[str, tuple[Change, str]] = {
    "a smaller bound": (lambda c: replace(c, bound=0.999 * c.bound), "the terms add up"),
    "a bound that is no number": (lambda c: replace(c, bound=NAN), "bound = nan is not a finite number"),
    "an infinite bound": (lambda c: replace(c, bound=INF), "bound = inf is not a finite number"),
    "less rounding": (
        lambda c: replace(c, terms=replace(c.terms, rounding=0.999 * c.terms.rounding)), "rounding: .* is needed",
    ),
    "less approximation": (
        lambda c: replace(c, terms=replace(c.terms, approximation=0.999 * c.terms.approximation)),
        "approximation is smaller",
    ),
    "other words": (lambda c: replace(c, formula=c.formula + " "), "the network computes"),
    "nothing about arguments": (lambda c: without(c, ARGUMENTS), "hides an assumption"),
    "nothing about states": (lambda c: without(c, STATES), "hides an assumption"),
    "nothing about masks": (lambda c: without(c, MASKED), "hides an assumption"),
    "nothing about arithmetic": (lambda c: without(c, assumptions("float64", "dot")[0]), "hides an assumption"),
    "another kernel": (
        lambda c: replace(c, kernel="anchor", assumptions=c.assumptions + assumptions("float64", "anchor")),
        "in kernel 'dot'",
    ),
    "another dtype": (lambda c: replace(c, dtype="float32"), "certified for float32, stored as float64"),
    "a dead zone": (
        lambda c: with_one_layer(c, c.claim.summands[0].claim, ((0.0, 1.0),)),
        "no rule for maps on blocks",
    ),
    "a claim about one layer": (
        lambda c: with_one_layer(c, c.claim.summands[0].claim), "no rule for maps on blocks",
    ),
    "an affine target": (lambda c: replace(c, claim=affine([[1.0]])), "no rule for maps on blocks"),
    "no claim": (lambda c: replace(c, claim=None), "no rule for a claim of type NoneType"),
    "a larger domain": (
        lambda c: replace(c, domain=ww.Box(np.where(c.domain.lo == 0, 0.0, 2 * c.domain.lo), 2 * c.domain.hi)),
        "rounding.*(is needed|could be shown)",
    ),
    "a domain of too many features": (
        lambda c: replace(c, domain=ww.Box([*c.domain.lo, -1.0], [*c.domain.hi, 1.0])), "is no box of",
    ),
    "another formula": (lambda c: with_summands(c, formula="x + 0.0001"), "the tables must compute"),
    "a formula of y": (lambda c: with_summands(c, formula="x*y"), "formula: "),
    "another direction": (lambda c: with_summands(c, along=(1.0, 1.0)), "are not along"),
    "no direction": (lambda c: with_summands(c, along=(0.0, 0.0)), "is no direction"),
    "a direction of another length": (lambda c: with_summands(c, along=(2.0, -2.0)), "is no direction"),
    "two variables": (lambda c: with_summands(c, along=None), "another number of variables"),
    "another scale": (lambda c: with_summands(c, scale=c.claim.summands[0].scale / 2), "the tables must compute"),
    "a scale that is no power of two": (lambda c: with_summands(c, scale=0.3), "scale = 0.3 is no power of two"),
    "more tables": (lambda c: with_summands(c, tables=2), "no rule covers|a table takes"),
    "no tables": (lambda c: with_summands(c, tables=0), "features and tables are"),
    "no summands": (lambda c: with_prompt(c, summands=()), "features and tables are"),
    "wider arguments": (lambda c: with_claims(c, lambda claim: {"hi": 1.1 * claim.hi}), "the boxes cover"),
    "wider arguments and boxes": (
        lambda c: with_claims(c, lambda claim: {"hi": 2 * claim.hi, "boxes": 2 * claim.boxes}),
        "could be shown|the boxes cover",
    ),
    "a box less": (lambda c: with_claims(c, lambda claim: {"boxes": claim.boxes[1:]}), "the boxes cover"),
    "a hole between boxes": (
        lambda c: with_claims(c, lambda claim: {"boxes": np.delete(claim.boxes, 3, axis=0)}), "no box covers",
    ),
    "a claim of less approximation": (lambda c: with_claim_terms(c, approximation=1e-12), "approximation on"),
    "a claim of less rounding": (lambda c: with_claim_terms(c, rounding=1e-18), "rounding on"),
    "a negative claim": (lambda c: with_claim_terms(c, leakage=-1.0), "is no finite number"),
    "a claim that is no number": (lambda c: with_claim_terms(c, rounding=NAN), "is no finite number"),
    "a flatter formula": (lambda c: with_claims(c, lambda claim: {"lipschitz": 0.5 * claim.lipschitz}), "slope on"),
    "a claim about another layer": (lambda c: with_claims(c, lambda claim: {"layer": 1}), "is about layer 1"),
    "another rule": (lambda c: with_claims(c, lambda claim: {"rule": "nearest"}), "could be shown|nothing"),
    "one feature more": (lambda c: with_prompt(c, features=3), "its inputs are"),
    "other values": (lambda c: with_prompt(c, own_values=not c.claim.own_values), "its inputs are"),
    "another answer": (
        lambda c: with_prompt(c, answer="w" if c.claim.answer != "w" else "p"), "the answer is|read is not",
    ),
    "a clock that starts elsewhere": (lambda c: with_prompt(c, clock=0.7), "there is no clock|embed is not"),
}  # fmt: skip

#: Where there are passes.
PASSES: dict[str, tuple[Change, str]] = {
    "another alpha": (lambda c: with_passes(c, alpha=0.5), "layer .* of a pass is not"),
    "alpha that is no number": (lambda c: with_passes(c, alpha=NAN), "a pass with no number"),
    "another method": (
        lambda c: with_prompt(c, passes=tuple(replace(s, method=s.method * 1.25) for s in c.claim.passes)),
        "layer .* of a pass is not",
    ),
    "another middle": (
        lambda c: with_passes(c, middle="none" if c.claim.has("threshold") else "threshold"),
        "nothing is in the middle|its inputs are|there is no clock|a tick without a clock",
    ),
    "no middle of any kind": (
        lambda c: with_claim(c, passes=(replace(c.claim.passes[0], middle="sundial"),)),
        "no rule for the middle 'sundial'",
    ),
    "another tick": (lambda c: with_passes(c, tick=0.25), "a tick without a clock|of a pass is not"),
    "a pass more": (lambda c: with_prompt(c, passes=c.claim.passes + c.claim.passes[-1:]), "fewer passes"),
    "no passes": (
        lambda c: with_prompt(c, passes=(), clock=0.0, answer="gradients"),
        "its inputs are|more passes|read is not",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["gradients", "clock"])
@pytest.mark.parametrize("forgery", ALL)
def test_forged_certificates_are_refused(kind: str, forgery: str, tmp_path: Path) -> None:
    net, (forge, said) = made(kind, "float64"), ALL[forgery]
    assert net.certificate is not None
    refused(net.network, forge(net.certificate), tmp_path, said)


@pytest.mark.parametrize("kind", ["descent", "threshold", "clock"])
@pytest.mark.parametrize("forgery", PASSES)
def test_forged_passes_are_refused(kind: str, forgery: str, tmp_path: Path) -> None:
    net, (forge, said) = made(kind, "float64"), PASSES[forgery]
    assert net.certificate is not None
    refused(net.network, forge(net.certificate), tmp_path, said)


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", FORGED)
def test_no_entry_of_any_array_may_change(kind: str, part: int, tmp_path: Path) -> None:
    """Every array of the network, where it is 0 and where it is not."""
    net, rng = made(kind, "float64"), np.random.default_rng(11)
    assert net.certificate is not None
    places = array_places(net.network)
    assert len(places) > 20
    for number, path in enumerate(places):
        array = entry(net.network, path)
        choices = [np.flatnonzero(array), np.flatnonzero(array.ravel() == 0)]
        indices = [int(rng.choice(choice)) for choice in choices if len(choice)]
        first = indices[number % len(indices) :][:1] if indices else []  # in make test one place of every array
        for index in first if part == 0 else [index for index in indices if index not in first]:
            try:
                forged = altered(net.network, path, lambda old, index=index: nudged(old, index))
            except ww.LawError:
                continue
            refused(forged, net.certificate, tmp_path)


def in_layers(network: Any, kind: str, change: Callable[[Any], Any], which: int = 0) -> Any:
    """One of the layers that have "heads", or "terms", changed, in the first loop if there is one."""
    layers, loop = network.layers, None
    for index, layer in enumerate(network.layers):
        if type(layer).__name__ == "Loop":
            layers, loop = layer.layers, index
    place = [i for i, layer in enumerate(layers) if hasattr(layer, kind)][which]
    new = (*layers[:place], change(layers[place]), *layers[place + 1 :])
    if loop is not None:
        new = (*network.layers[:loop], replace(network.layers[loop], layers=new), *network.layers[loop + 1 :])
    return replace(network, layers=new)


def in_heads(network: Any, which: int = 0, **changes: Any) -> Any:
    """The first head of a layer changed; sees: the fields that change of what it sees."""

    def change(layer: Any) -> Any:
        head = layer.heads[0]
        sees = replace(head.sees, **changes.get("sees", {}))
        return replace(layer, heads=(replace(head, **changes | {"sees": sees}), *layer.heads[1:]))

    return in_layers(network, "heads", change, which)


def first_term(layer: Any, **changes: Any) -> Any:
    return replace(layer, terms=(replace(layer.terms[0], **changes), *layer.terms[1:]))


def swapped(layer: Any) -> Any:
    return replace(layer, terms=(*layer.terms[:1], *layer.terms[:0:-1]))


#: What a head sees that sees all data tokens and no register; every token asks.
EVERYTHING = {"registers": (0, 0), "data": "all", "block": 0, "asks": "all"}


def block(network: Any) -> int:
    return next(head.sees.block for head in network.heads)


#: What is changed in the network, and what the checker says.
BUILT: dict[str, tuple[Callable[[Any], Any], str]] = {
    "everybody asks": (lambda n: in_heads(n, sees={"registers": (0, 0), "asks": "all"}), "layer 1 of a pass"),
    "all keys are seen": (lambda n: in_heads(n, sees=EVERYTHING), "layer 1 of a pass"),
    "larger blocks": (lambda n: in_heads(n, sees={"registers": (0, 0), "block": 3 * block(n)}), "layer 1 of a pass"),
    "twice the beta": (lambda n: in_heads(n, beta=2 * next(n.heads).beta), "layer 1 of a pass|approximation on"),
    "beta no power of two": (lambda n: in_heads(n, beta=1.5), "layer 1 of a pass|must be a power of two"),
    "a head twice": (
        lambda n: in_layers(n, "heads", lambda layer: replace(layer, heads=layer.heads * 2)),
        "five terms, a head|layer 1 of a pass",
    ),
    "no head": (
        lambda n: in_layers(n, "heads", lambda layer: replace(layer, heads=())), "five terms, a head|layer 1 of",
    ),
    "no residual": (
        lambda n: in_layers(n, "heads", lambda layer: replace(layer, residual=False)), "layer 1 of a pass",
    ),
    "a term twice": (
        lambda n: in_layers(n, "terms", lambda layer: replace(layer, terms=layer.terms + layer.terms[-1:])),
        "five terms|layer 0 of a pass",
    ),
    "terms in another order": (lambda n: in_layers(n, "terms", swapped), "layer 0 of a pass|columns|not along"),
    "a scale of positions": (
        lambda n: in_layers(n, "terms", lambda layer: first_term(layer, S=np.ones((3, 1)))), "layer 0 of a pass",
    ),
    "a map of tokens": (lambda n: replace(n, embed=first_term(n.embed, tokens=Gather((0, 1, 2)))), "embed is not"),
    "a layer more": (
        lambda n: replace(n, layers=(*n.layers, linear(n.embed.coordinates, np.eye(len(n.embed.coordinates))))),
        "more passes than are claimed",
    ),
    "a register more": (
        lambda n: replace(n, registers=np.concatenate([n.registers, np.zeros((1, len(n.embed.coordinates)))])),
        "its registers",
    ),
    "other inputs": (lambda n: replace(n, inputs=(*n.inputs[1:], n.inputs[0])), "its inputs are"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["gradients", "threshold"])
@pytest.mark.parametrize("forgery", BUILT)
def test_forged_networks_are_refused(kind: str, forgery: str, tmp_path: Path) -> None:
    net, (forge, said) = made(kind, "float64"), BUILT[forgery]
    assert net.certificate is not None
    refused(forge(net.network), net.certificate, tmp_path, said)


@pytest.mark.parametrize(
    "changes",
    [
        {"beta": 2.0**35},
        {"beta": 1.5},
        {"sees": EVERYTHING | {"registers": (0, 1)}},
        {"sees": EVERYTHING | {"data": "self"}},
    ],
)
def test_forged_gates_are_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    for kind in ("threshold", "clock"):
        net = made(kind, "float64")
        assert net.certificate is not None
        refused(in_heads(net.network, 1, **changes), net.certificate, tmp_path, "layer 4 of a pass|is no power of two")


TWO: dict[str, tuple[Change, str]] = {
    "another formula": (lambda c: with_summands(c, formula="x*y"), "the tables must compute"),
    "a direction": (lambda c: with_summands(c, along=(1.0, 1.0)), "another number of variables"),
    "wider arguments": (lambda c: with_claims(c, lambda claim: {"hi": 1.1 * claim.hi}), "the boxes do not cover"),
    "a box less": (lambda c: with_claims(c, lambda claim: {"boxes": claim.boxes[1:]}), "the boxes do not cover"),
    "less approximation": (lambda c: with_claim_terms(c, approximation=1e-6), "approximation: .* is claimed"),
    "less rounding": (lambda c: with_claim_terms(c, rounding=1e-18), "rounding: .* is claimed"),
    "flatter": (lambda c: with_claims(c, lambda claim: {"lipschitz": np.array([0.1, 9.0])}), "slope along axis 0"),
    "flatter along y": (lambda c: with_claims(c, lambda claim: {"lipschitz": np.array([9.0, 0.1])}), "along axis 1"),
}


@pytest.mark.parametrize("forgery", TWO)
def test_forged_claims_of_two_variables_are_refused(forgery: str, tmp_path: Path) -> None:
    net, (forge, said) = made("two variables", "float64"), TWO[forgery]
    assert net.certificate is not None
    refused(net.network, forge(net.certificate), tmp_path, said)


@pytest.mark.parametrize("term", [1, 2, 3, 4])
def test_keys_and_values_of_two_variables_are_looked_at(term: int, tmp_path: Path) -> None:
    net = made("two variables", "float64")
    assert net.certificate is not None

    def change(layer: Any) -> Any:
        new = np.array(layer.terms[term].tokens.R)
        new[3] += 0.25
        moved = replace(layer.terms[term], tokens=replace(layer.terms[term].tokens, R=new))
        return replace(layer, terms=(*layer.terms[:term], moved, *layer.terms[term + 1 :]))

    refused(in_layers(net.network, "terms", change), net.certificate, tmp_path, "approximation: .* is claimed")


@pytest.mark.parametrize(("beta", "said"), [(2.0, "approximation is smaller"), (0.5, "is no power of two")])
def test_softer_gates_are_refused(beta: float, said: str, tmp_path: Path) -> None:
    net = made("threshold", "float64")
    assert net.certificate is not None

    def soften(layer: Any) -> Any:
        return replace(layer, heads=tuple(replace(head, beta=beta) for head in layer.heads))

    refused(in_layers(net.network, "heads", soften, 1), net.certificate, tmp_path, said)


def test_thresholds_are_not_negative(tmp_path: Path) -> None:
    net = made("threshold", "float64")
    assert net.certificate is not None
    domain = ww.Box(np.minimum(net.certificate.domain.lo, -0.001), net.certificate.domain.hi)
    refused(net.network, replace(net.certificate, domain=domain), tmp_path, "a threshold may be negative")


def test_numbers_that_overflow_are_refused(tmp_path: Path) -> None:
    net = made("descent", "float32")
    assert net.certificate is not None
    domain = ww.Box(1e36 * net.certificate.domain.lo, 1e36 * net.certificate.domain.hi)
    refused(net.network, replace(net.certificate, domain=domain), tmp_path, "may overflow float32")


def test_a_whole_number_of_more_bits_than_a_float_is_no_alpha(tmp_path: Path) -> None:
    """2^53 + 1 became 2^53 where it was compared with the layers, and errors of half as much again were PROVEN away."""
    net = built([tables_of(fitted("x", 3.0, 1e-8, "float64"), RESIDUAL)], "float64", (plain(2.0**53),))
    certificate = net.certificate
    assert certificate is not None
    (step,) = certificate.claim.passes
    terms = replace(certificate.terms, rounding=certificate.terms.rounding + 1e-6)
    other = with_prompt(certificate, passes=(replace(step, alpha=2**53 + 1),))
    forged = replace(other, terms=terms, bound=certificate.bound + 2e-6)
    refused(net.network, forged, tmp_path, "Pass.alpha is 9007199254740993")


def test_a_whole_number_of_more_bits_than_a_float_is_no_beta() -> None:
    """It counted as a power of two, and the network ran with another number."""
    network = made("descent", "float64").network
    (loop,) = network.layers
    spread, attend, *rest = loop.layers
    head = replace(attend.heads[0], beta=2**53 + 1)
    layers = (spread, replace(attend, heads=(head,)), *rest)
    with pytest.raises(ww.LawError, match="beta = 9007199254740993 must be a positive finite float64"):
        replace(network, layers=(replace(loop, layers=layers),))
