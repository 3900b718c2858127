"""Certificates of networks side by side that are false, as a whole or of one part: the checker refuses all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers.support.grids import SIDES, made
from support.forging import nudged_networks, proven, refused, widened, with_claim, with_values

import weightwright as ww
from weightwright.claims.certificate import MeasuredClaim, Terms
from weightwright.claims.leaf import Leaf, Samples
from weightwright.claims.one_layer_claims import OneLayerClaim, SampledClaim

SAMPLES = Samples(np.array([-1.0, 1.0]), np.zeros(2), 0.0, 1, 1.0)
LEAF = Leaf(0, "s", -1.0, 1.0, "taylor", np.array([[-1.0, 1.0]]), Terms(0.0, 0.0, 0.0), 1.0)


@cache
def a_grid() -> Any:
    claim = ww.constructions.sequence_to_scalar("x0 + abs(x1)", 2, 1, g=2, delta=0.25).certificate.claim
    return claim


@pytest.mark.parametrize("kind", SIDES)
def test_what_is_forged_here_was_right(kind: str, tmp_path: Path) -> None:
    proven(made(kind).network, made(kind).certificate, tmp_path)


def with_part(certificate: Any, **changes: Any) -> Any:
    """The last part's certificate changed."""
    *others, last = certificate.claim.parts
    return with_claim(certificate, parts=(*others, replace(last, certificate=replace(last.certificate, **changes))))


def resized(certificate: Any, **changes: Any) -> Any:
    *others, last = certificate.claim.parts
    return with_claim(certificate, parts=(*others, replace(last, **changes)))


def part_of(certificate: Any) -> Any:
    return certificate.claim.parts[-1].certificate


SIDE_CLAIMS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a smaller bound": (lambda c: replace(c, bound=0.5 * c.bound), "more than the whole's"),
    "smaller terms": (lambda c: replace(c, terms=with_values(c.terms, 0.0, 0.0, 0.0)), "a part has a larger"),
    "a part of a smaller bound": (lambda c: with_part(c, bound=0.5 * c.bound), "the terms add up"),
    "a part without claims": (lambda c: with_part(c, claim=None), "one plain network"),
    "a part about another formula": (lambda c: with_part(c, formula="x"), "the parts are about"),
    "another formula": (lambda c: replace(c, formula="x"), "the parts are about"),
    "a wider domain": (widened, "a part has another domain"),
    "a flat domain": (lambda c: replace(c, domain=ww.Box([-1, -1], [1, 1])), "tokens of"),
    "a grid": (lambda c: replace(c, claim=a_grid(), formula="x0 + abs(x1)"), "no rule covers"),
    "a grid in a part": (lambda c: with_part(c, claim=a_grid()), "one plain network"),
    "a part that was measured": (
        lambda c: with_part(c, claim=MeasuredClaim(0.0, 1, "not at all")),
        "one plain network",
    ),
    "parts in a part": (lambda c: with_part(c, claim=c.claim), "one plain network"),
    "a part with samples": (
        lambda c: with_part(c, claim=SampledClaim(LEAF, SAMPLES)), "one plain network",
    ),
    "a part of one number": (lambda c: with_part(c, claim=OneLayerClaim(part_of(c).claim.leaf)), "malformed"),
    "a part twice": (lambda c: with_claim(c, parts=(*c.claim.parts, c.claim.parts[0])), "."),
    "no parts": (lambda c: with_claim(c, parts=()), "."),
    "parts of other sizes": (lambda c: resized(c, width=c.claim.parts[-1].width - 1), "do not make"),
    "a part of another network": (lambda c: with_part(c, network="0" * 64), "another network"),
    "a hidden assumption": (lambda c: replace(c, assumptions=()), "hides an assumption"),
    "a dead zone in a part": (
        lambda c: with_part(c, claim=OneLayerClaim(LEAF, ((-1.0, 1.0),))), "dead zones",
    ),
    "a part that is none": (lambda c: with_claim(c, parts=(part_of(c),)), "a part is none|malformed"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SIDES)
@pytest.mark.parametrize("change", SIDE_CLAIMS)
def test_false_claims_about_parts_are_refused(kind: str, change: str, tmp_path: Path) -> None:
    forge, said = SIDE_CLAIMS[change]
    refused(made(kind).network, forge(made(kind).certificate), tmp_path, said)


@pytest.mark.parametrize("kind", SIDES)
def test_no_entry_between_parts_may_change(kind: str, tmp_path: Path) -> None:
    """Every array, at four places each; the parts' own digests say what was certified, whatever the whole says."""
    net, rng = made(kind), np.random.default_rng(16)

    def four(array: np.ndarray) -> set[int]:
        return {int(i) for i in rng.choice(array.size, 4)} if array.size else set()

    for network in nudged_networks(net.network, four):
        refused(network, net.certificate, tmp_path)
