"""The claims that the papers register, against each other and against the library's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.forging import proven
from support.kinds import (
    ONE_OF_EACH,
    one_of,
    refuse_contents,
    refuse_other_claim,
    refuse_parts_of_claims,
    refuse_second_claims,
    refuse_what_is_no_claim,
)

import weightwright as ww
from weightwright.checker.check import rules
from weightwright.papers.claims.side_by_side_claim import SideBySideClaim

#: One network of every kind of claim that the papers add, and one of ridge functions.
NETS: dict[str, Callable[[], ww.AttentionNetwork]] = {
    "Composite": lambda: ww.constructions.truncated_linear([[1.0], [-1.0]], [0.1, 0.1], -1.0, 1.0, (-1, 1), p=8),
    "GridClaim": lambda: ww.constructions.sequence_to_scalar("x0 + x1", 2, 1, g=2, delta=0.25),
    "SharedKeysClaim": lambda: ww.constructions.literal_truncated_linear(-1.0, 1.0, 4, 1, H=2),
    "SideBySideClaim": lambda: ww.constructions.sequence_to_scalar("sin(x0)*x1", 2, 1, tol=0.1, method="spectral"),
}
KINDS = list(ONE_OF_EACH | NETS)
PAIRS = [pair for pair in product(KINDS, KINDS) if pair[0] != pair[1] and not set(pair).isdisjoint(NETS)]


@cache
def made(kind: str) -> ww.AttentionNetwork:
    if kind not in NETS:
        return one_of(kind)
    net = NETS[kind]()
    assert type(net.certificate.claim).__name__ == kind
    return net


def test_every_kind_of_claim_has_one_rule() -> None:
    assert {kind.__name__ for kind in rules()} == set(KINDS)


@pytest.mark.parametrize("kind", NETS)
def test_the_right_claim_is_proven(kind: str, tmp_path: Path) -> None:
    proven(made(kind).network, made(kind).certificate, tmp_path)


@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_a_claim_of_another_kind_is_refused(kind: str, other: str, tmp_path: Path) -> None:
    refuse_other_claim(made(kind), made(other), tmp_path)


@pytest.mark.parametrize("kind", NETS)
def test_a_claim_that_is_none_is_refused(kind: str, tmp_path: Path) -> None:
    refuse_what_is_no_claim(made(kind), tmp_path)


@pytest.mark.parametrize("kind", NETS)
def test_parts_of_claims_are_no_claims(kind: str, tmp_path: Path) -> None:
    refuse_parts_of_claims(made(kind), tmp_path)


#: Contents of another type than they should be.
MISTYPED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "tables that are numbers": ("Composite", lambda c: replace(c, parts=(1, 2))),
    "a target that is a leaf": ("Composite", lambda c: replace(c, target=c.parts[0].claim)),
    "cells that are numbers": ("GridClaim", lambda c: replace(c, core=1.0)),
    "a head that is a text": ("GridClaim", lambda c: replace(c, head="clip(s, 0, 1)")),
    "a formula that is a number": ("SharedKeysClaim", lambda c: replace(c, formula=1.0)),
    "heads that are a text": ("SharedKeysClaim", lambda c: replace(c, heads="2")),
    "parts that are a number": ("SideBySideClaim", lambda c: SideBySideClaim(2)),
}


@pytest.mark.parametrize("name", MISTYPED)
def test_contents_of_another_type_are_malformed(name: str, tmp_path: Path) -> None:
    kind, change = MISTYPED[name]
    refuse_contents(made(kind), change, tmp_path)


@pytest.mark.parametrize("of_claim", [True, False])
@pytest.mark.parametrize("kind", NETS)
def test_no_second_claim_fits_beside_the_first(kind: str, of_claim: bool, tmp_path: Path) -> None:
    refuse_second_claims(made(kind), of_claim, tmp_path)


def test_what_is_told_of_certificates_of_every_kind() -> None:
    """The shorthands are those of the claim."""
    said = {kind: made(kind).certificate for kind in NETS}
    assert {kind for kind in NETS if said[kind].norm != np.inf} == {"GridClaim"}
    assert {kind for kind in NETS if said[kind].composite is not None} == {"Composite"}
    assert not any(said[kind].dead_zones or said[kind].measured for kind in NETS)
    assert all(said[kind].against is said[kind].claim for kind in NETS)
