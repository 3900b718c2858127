"""A file that says more of an interpreter than is true is refused."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.forging import Forged, altered, array_places, entry, proven, refused

import weightwright as ww
from weightwright.claims.program_claim import CODES, PRODUCTS


@functools.cache
def made(form: str) -> Forged:
    vm = ww.Interpreter(3, 2, 2, heads=2, form=form, anchors=6)  # type: ignore[arg-type]
    said = vm.net.said
    assert said is not None
    return vm.net.network, said


FORMS = ("embedding", "stacked")
CLAIMS: dict[str, Any] = {
    "x_max": lambda c: replace(c, x_max=2 * c.x_max),
    "w_max": lambda c: replace(c, w_max=2 * c.w_max),
    "hidden": lambda c: replace(c, hidden=c.hidden / 2),
    "nothing is hidden": lambda c: replace(c, hidden=2.0**-20),
    "away": lambda c: replace(c, away=c.away / 2),
    "tokens": lambda c: replace(c, tokens=c.tokens + 1),
    "heads": lambda c: replace(c, heads=1),
    "head size": lambda c: replace(c, head_dim=1),
    "codes": lambda c: replace(c, codes=c.codes - 1),
    "form": lambda c: replace(c, stacked=not c.stacked),
    "beta": lambda c: replace(c, tables=(replace(c.tables[0], beta=2 * c.tables[0].beta), *c.tables[1:])),
    "no table": lambda c: replace(c, tables=c.tables[:2]),
    "a wider table": lambda c: replace(c, tables=(_wider(c.tables[0]), *c.tables[1:])),
    "no error": lambda c: replace(c, tables=(_without(c.tables[0], "approximation"), *c.tables[1:])),
    "no rounding": lambda c: replace(c, tables=(*c.tables[:2], _without(c.tables[2], "rounding"))),
    "another function": lambda c: replace(c, tables=(_formula(c.tables[0]), *c.tables[1:])),
}


def _wider(table: Any) -> Any:
    return replace(table, claim=replace(table.claim, lo=2 * table.claim.lo, hi=2 * table.claim.hi))


def _without(table: Any, term: str) -> Any:
    return replace(table, claim=replace(table.claim, terms=replace(table.claim.terms, **{term: 0.0})))


def _formula(table: Any) -> Any:
    return replace(table, claim=replace(table.claim, formula="2*s"))


@pytest.mark.parametrize("form", FORMS)
def test_the_file_itself_is_proven(form: str, tmp_path: Path) -> None:
    proven(*made(form), tmp_path)


@pytest.mark.few(10)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_that_says_more_is_refused(name: str, form: str, tmp_path: Path) -> None:
    network, said = made(form)
    refused(network, replace(said, claim=CLAIMS[name](said.claim)), tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_no_entry_of_the_weights_may_change(form: str, tmp_path: Path) -> None:
    network, said = made(form)
    rng = np.random.default_rng(0)
    places = [path for path in array_places(network) if entry(network, path).size]
    for path in (places[i] for i in rng.choice(len(places), min(12, len(places)), replace=False)):

        def change(array: np.ndarray) -> np.ndarray:
            new = array.copy()
            new.flat[int(rng.integers(new.size))] += 0.25
            return new

        refused(altered(network, path, change), said, tmp_path)


@pytest.mark.parametrize("assumption", [PRODUCTS, CODES])
def test_what_a_bound_leans_on_is_not_hidden(assumption: str, tmp_path: Path) -> None:
    network, said = made("embedding")
    fewer = tuple(one for one in said.assumptions if one != assumption)
    refused(network, replace(said, assumptions=fewer), tmp_path, "the certificate hides that")


def test_the_domain_is_that_of_the_claim(tmp_path: Path) -> None:
    network, said = made("embedding")
    for lo, hi in ((2 * said.domain.lo, 2 * said.domain.hi), (said.domain.lo / 2, said.domain.hi / 2)):
        wider = ww.Box(lo, np.where(hi > lo, hi, lo + 1))
        refused(network, replace(said, domain=wider), tmp_path, "the domain is not that of the claim")


@pytest.mark.parametrize("term", ["approximation", "leakage", "rounding"])
def test_a_smaller_bound_is_refused(term: str, tmp_path: Path) -> None:
    network, said = made("stacked")
    terms = replace(said.terms, **{term: 0.99 * getattr(said.terms, term)})
    refused(network, replace(said, terms=terms, bound=said.bound), tmp_path)
