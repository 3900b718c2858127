"""Certificates of grid networks that are false, and networks that are not what theirs says: the checker refuses all."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers.support.grids import GRIDS, made
from support.forging import (
    altered,
    nudged_networks,
    proven,
    refused,
    widened,
    with_claim,
    with_layer,
    with_one_layer,
    with_values,
)

import weightwright as ww
from weightwright.papers.grids.grid_points import Grid, attention_network, bump_network

HEADS = ["lookup", "softmax", "lookup, sequence", "softmax, sequence"]


@pytest.mark.parametrize("kind", GRIDS)
def test_what_is_forged_here_was_right(kind: str, tmp_path: Path) -> None:
    net = made(kind)
    proven(net.network, net.certificate, tmp_path)


def lowered(array: np.ndarray, factor: float = 0.99) -> np.ndarray:
    """The last cell's number made smaller."""
    changed = array.copy()
    changed[-1, -1] *= factor
    return changed


#: What is changed in the certificate, and what the checker says.
CLAIMS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a smaller bound": (lambda c: replace(c, bound=0.999 * c.bound), "the terms add up"),
    "smaller terms and bound": (
        lambda c: replace(
            c, bound=0.999 * c.bound, terms=replace(c.terms, approximation=0.999 * c.terms.approximation - 1e-6)
        ),
        "approximation in the norm",
    ),
    "no rounding in the norm": (lambda c: replace(c, terms=replace(c.terms, rounding=0.0)), "rounding in the norm"),
    "a smaller core": (lambda c: with_claim(c, core=lowered(c.claim.core)), "on the core of cell"),
    "a smaller shell": (lambda c: with_claim(c, shell=lowered(c.claim.shell)), "on cell"),
    "no rounding": (lambda c: with_claim(c, rounding=0.0), "rounding"),
    "a smaller volume": (lambda c: with_claim(c, exceptional=0.999 * c.claim.exceptional), "the shells take"),
    "the printed volume": (lambda c: with_claim(c, exceptional=c.claim.exceptional / 4), "the shells take"),
    "a core that is no number": (lambda c: with_claim(c, core=np.full_like(c.claim.core, np.nan)), "core holds no"),
    "a negative shell": (lambda c: with_claim(c, shell=-c.claim.shell), "shell holds no"),
    "cells without a claim": (lambda c: with_claim(c, core=c.claim.core[:, :-1]), "core has shape"),
    "a wider domain": (widened, "the domain is not that of the grid"),
    "a wider grid": (lambda c: with_claim(widened(c), B=2 * c.claim.B), "rounding|queries reach"),
    "a smaller delta": (lambda c: with_claim(c, delta=c.claim.delta / 2), "rounding|no gap"),
    "delta = 0": (lambda c: with_claim(c, delta=0.0), "delta or B"),
    "another norm": (
        lambda c: replace(
            with_claim(c, norm=8.0),
            bound=0.1 * c.bound,
            terms=replace(c.terms, approximation=0.1 * c.terms.approximation - 1e-9),
        ),
        "in the norm",
    ),
    "the infinity norm": (lambda c: with_claim(c, norm=math.inf), "norm = inf"),
    "a norm below 1": (lambda c: with_claim(c, norm=0.5), "norm = 0.5"),
    "no grid": (lambda c: replace(c, claim=None), "no rule for a claim of type NoneType"),
    "another formula": (lambda c: replace(c, formula="x0"), "the grid is about"),
    "other formulas": (
        lambda c: replace(
            with_claim(c, formulas=("x0 + 1",) * len(c.claim.formulas)),
            formula="x0 + 1" if len(c.claim.formulas) == 1 else "(x0 + 1, x0 + 1)",
        ),
        "on the core",
    ),
    "tokens for features": (lambda c: with_claim(c, tokens=1, features=2), "the domain"),
    "very many tokens": (lambda c: with_claim(c, tokens=10**9), "a grid of sizes"),
    "a finer grid": (lambda c: with_claim(c, g=4), "has shape"),
    "another kind": (
        lambda c: with_claim(c, kind="softmax" if c.claim.kind != "softmax" else "lookup"),
        "no rule covers",
    ),
    "an unheard-of kind": (lambda c: with_claim(c, kind="cells"), "no rule covers"),
    "a layer with a dead zone": (
        lambda c: with_one_layer(c, made("lookup").certificate.claim.head, ((-1.0, 1.0),)),
        "no rule covers",
    ),
    "a hidden assumption": (lambda c: replace(c, assumptions=()), "hides an assumption"),
    "an infinite leakage": (lambda c: with_claim(c, leakage=math.inf), "numbers"),
    "a Lipschitz constant for a formula": (
        lambda c: replace(
            with_claim(c, lipschitz=0.0), assumptions=c.assumptions + replace(c.claim, lipschitz=0.0).stated
        ),
        "needs no Lipschitz constant",
    ),
}


@pytest.mark.parametrize("kind", ["bumps", "softmax, sequence"])
@pytest.mark.parametrize("change", CLAIMS)
def test_false_claims_are_refused(kind: str, change: str, tmp_path: Path) -> None:
    forge, said = CLAIMS[change]
    refused(made(kind).network, forge(made(kind).certificate), tmp_path, said)


def with_head(certificate: Any, **changes: Any) -> Any:
    return with_claim(certificate, head=replace(certificate.claim.head, **changes))


HEAD_CLAIMS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no leakage": (lambda c: with_claim(c, leakage=0.0), "leakage"),
    "less leakage": (lambda c: with_claim(c, leakage=0.9 * c.claim.leakage), "leakage"),
    "the leakage of perfect bumps": (
        lambda c: with_claim(c, leakage=1.1 * 3 * math.exp(-32.0)),
        "leakage",
    ),
    "no claim about heads": (lambda c: with_claim(c, head=None), "no claim about the bump heads"),
    "perfect heads": (lambda c: with_head(c, terms=with_values(c.terms, 0.0, 0.0, 0.0)), "a bump head's approximation"),
    "heads that do not round": (
        lambda c: with_head(c, terms=replace(c.claim.head.terms, rounding=0.0)),
        "a bump head's rounding",
    ),
    "fewer queries": (lambda c: with_head(c, lo=c.claim.head.lo / 2), "queries reach"),
    "another ramp": (lambda c: with_head(c, formula="clip(s, 0, 2)"), "a bump head must compute"),
    "another rule": (lambda c: with_head(c, rule="taylor"), "no rule 'taylor'"),
    "poor heads": (lambda c: with_head(c, terms=with_values(c.terms, 0.2, 1e-3, 1e-3)), "no gap"),
}


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("change", HEAD_CLAIMS)
def test_false_claims_about_heads_are_refused(kind: str, change: str, tmp_path: Path) -> None:
    forge, said = HEAD_CLAIMS[change]
    refused(made(kind).network, forge(made(kind).certificate), tmp_path, said)


@pytest.mark.parametrize("places", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", GRIDS)
def test_no_entry_of_any_array_may_change(kind: str, places: int, tmp_path: Path) -> None:
    """Every array, at one or three places each: by a quarter, where it is not 0, and anywhere."""
    net, rng = made(kind), np.random.default_rng(11)

    def chosen(array: np.ndarray) -> set[int]:
        nonzero, anywhere = np.flatnonzero(array), np.arange(array.size)
        return {int(rng.choice(choice)) for choice in (nonzero, anywhere, anywhere)[:places] if len(choice)}

    forged = list(nudged_networks(net.network, chosen))
    assert len(forged) > 5 * places
    for network in forged:
        refused(network, net.certificate, tmp_path)


def hidden_head(network: Any) -> Any:
    """One bump head twice: its cell counts one ramp more."""
    layer = network.layers[0]
    return replace(network, layers=(replace(layer, heads=(*layer.heads, layer.heads[0])), *network.layers[1:]))


def swapped_heads(network: Any) -> Any:
    layer = network.layers[0]
    heads = (layer.heads[-1], *layer.heads[1:-1], layer.heads[0])
    return replace(network, layers=(replace(layer, heads=heads), *network.layers[1:]))


def weak_beta(network: Any) -> Any:
    """A softmax that picks nothing."""
    last = network.layers[-1]
    if type(last).__name__ == "Softmax":
        return with_layer(network, -1, beta=1.0)
    return with_layer(network, -1, heads=tuple(replace(head, beta=1.0) for head in last.heads))


def soft_anchors(network: Any) -> Any:
    return with_layer(network, 0, heads=tuple(replace(head, beta=1.0) for head in network.layers[0].heads))


def fewer_anchors(network: Any) -> Any:
    """Every head leaves out the first anchor."""
    heads = tuple(
        replace(head, sees=replace(head.sees, registers=(1, head.sees.registers[1])))
        for head in network.layers[0].heads
    )
    return with_layer(network, 0, heads=heads)


def sees_data(network: Any) -> Any:
    heads = tuple(replace(head, sees=replace(head.sees, data="self")) for head in network.layers[0].heads)
    return with_layer(network, 0, heads=heads)


NETWORKS = [hidden_head, swapped_heads, weak_beta, soft_anchors, fewer_anchors, sees_data]


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("forge", NETWORKS)
def test_networks_of_another_structure_are_refused(kind: str, forge: Callable[[Any], Any], tmp_path: Path) -> None:
    refused(forge(made(kind).network), made(kind).certificate, tmp_path)


class Shifted(Grid):
    """Every ramp begins a little later: a structure that is kept, around other cells."""

    def shifts(self) -> np.ndarray:
        return super().shifts() - 0.5


class Steeper(Grid):
    """Ramps that are steeper around the middle of the domain, not around their cells."""

    @property
    def slope(self) -> float:
        return 1.25 * super().slope


class Turned(Grid):
    """Ramps up where ramps down belong."""

    def shifts(self) -> np.ndarray:
        return super().shifts()[::-1]


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("grid", [Shifted, Steeper, Turned])
def test_cells_elsewhere_are_refused(kind: str, grid: type[Grid], tmp_path: Path) -> None:
    """The same arrays everywhere, but for the numbers that the structure leaves free."""
    net = made(kind)
    values = np.array([[-0.5 + 0.5, -0.5 + 0.5, 0.5 + 0.5, 0.5 + 0.5], [-0.5, 0.5, -0.5, 0.5]])
    sequence, chosen = "sequence" in kind, net.about.chosen
    values = values if sequence else values[:1]

    def built(cells: Grid) -> Any:
        if kind == "bumps":
            return bump_network(cells, values)
        heads = (chosen["p"], chosen["beta_bumps"], chosen["beta"])
        return attention_network(cells, values, *heads, "lookup" in kind, sequence)

    size = (2, 1, 2, 0.25, 1.0)
    assert ww.AttentionNetwork(built(Grid(*size))).digest() == net.certificate.network
    refused(built(grid(*size)), net.certificate, tmp_path, "rounding|no gap|queries reach")


@pytest.mark.parametrize("kind", HEADS)
def test_other_anchors_are_refused(kind: str, tmp_path: Path) -> None:
    """All anchors moved together: ramps between 0.3 and 1.3."""
    net = made(kind)

    def moved(registers: np.ndarray) -> np.ndarray:
        new = registers.copy()
        p, at = net.about.chosen["p"], 3
        L = new[:p, at] + 0.3
        new[:p, at : at + 3] = np.stack([L, -(L**2) / 2, L], axis=1)
        return new

    refused(altered(net.network, ("registers",), moved), net.certificate, tmp_path, "a bump head's approximation")


def test_a_softmax_over_tokens_is_refused(tmp_path: Path) -> None:
    net = made("softmax")
    refused(with_layer(net.network, -1, over="tokens"), net.certificate, tmp_path, "softmax over features")


def test_a_second_softmax_is_refused(tmp_path: Path) -> None:
    net = made("softmax")
    more = replace(net.network, layers=(*net.network.layers, net.network.layers[-1]))
    refused(more, net.certificate, tmp_path, "three layers")


@pytest.mark.parametrize("index", [0, 1])
def test_residual_feed_forward_layers_are_refused(index: int, tmp_path: Path) -> None:
    """A residual needs equal coordinates; where the shapes allow it, the output would change."""
    net = ww.constructions.bumps("x0", 1, 1, g=1)
    names = ("f",)
    network = replace(
        net.network,
        embed=replace(net.network.embed, coordinates=names),
        layers=tuple(
            replace(layer, coordinates=names, residual=i == index) for i, layer in enumerate(net.network.layers)
        ),
    )
    refused(network, net.certificate, tmp_path, "without residuals")


def test_a_function_that_states_nothing_is_refused(tmp_path: Path) -> None:
    """A Lipschitz constant must be said, and its words must stand among the assumptions."""

    def f(X: np.ndarray) -> np.ndarray:
        return np.abs(X).max(axis=(1, 2))

    net = ww.constructions.bumps(f, 2, 1, g=3, lipschitz=1.0)
    said = net.certificate
    refused(net.network, replace(said, assumptions=said.assumptions[:-2]), tmp_path, "hides an assumption")
    refused(net.network, with_claim(said, lipschitz=None), tmp_path, "a Lipschitz constant")
    refused(net.network, with_claim(said, lipschitz=0.5), tmp_path, "hides an assumption")
    refused(net.network, with_claim(said, core=0.9 * said.claim.core), tmp_path, "on the cores")
    refused(net.network, with_claim(said, shell=0.9 * said.claim.shell), tmp_path, "on cell")


@pytest.mark.parametrize("make", [ww.constructions.sequence_to_scalar, ww.constructions.sequence_to_scalar_softmax])
def test_a_query_that_overflows_before_it_meets_a_key(make: Any, tmp_path: Path) -> None:
    """Powers of two moved from the keys of the bump heads to beta: scores are the same, beta times a query is not."""
    honest = make("x0 + abs(x1)", 2, 1, g=2, delta=0.25)
    network, certificate = honest.network, honest.certificate
    first = network.layers[0]
    step = 2.0**1023 / first.heads[0].beta
    p = first.heads[0].sees.registers[1]
    registers = network.registers.copy()
    registers[:p, 3:5] /= step
    heads = tuple(replace(head, beta=2.0**1023) for head in first.heads)
    layers = (replace(first, heads=heads), *network.layers[1:])
    forged = replace(network, registers=registers, layers=layers)
    refused(forged, certificate, tmp_path, "a query may overflow")


def test_a_root_is_taken_of_every_norm(tmp_path: Path) -> None:
    """Powers of errors below 1 vanish in large norms; their roots do not."""
    honest = ww.constructions.bumps("0.1*x0 + 0.1*abs(x1)", 2, 1, g=2, delta=0.25)
    certificate = honest.certificate
    assert certificate is not None
    grid = certificate.claim
    terms = with_values(certificate.terms, 5e-324, grid.leakage * 1.01, grid.rounding * 1.01 + 1e-300)
    forged = replace(with_claim(certificate, norm=2.0**140), terms=terms, bound=2 * (terms.leakage + terms.rounding))
    refused(honest.network, forged, tmp_path, "no rule for the norm|approximation in the norm")
