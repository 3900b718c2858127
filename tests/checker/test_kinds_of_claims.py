"""A certificate makes one claim, and the checker has one rule for its type: a claim of another kind is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.forging import proven, refused, save_forged, with_claim
from support.kinds import (
    ONE_OF_EACH,
    PROVABLE,
    one_of,
    refuse_contents,
    refuse_other_claim,
    refuse_parts_of_claims,
    refuse_second_claims,
    refuse_what_is_no_claim,
)

import weightwright as ww
from weightwright.checker.check import rules
from weightwright.claims.certificate import MeasuredClaim
from weightwright.claims.files import certificate_types
from weightwright.claims.leaf import Samples
from weightwright.claims.one_layer_claims import OneLayerClaim, SampledClaim, VectorLayerClaim


def test_every_kind_of_claim_has_one_rule() -> None:
    """But that which claims nothing. What extensions register is tested with them."""
    assert set(rules()) == set(PROVABLE)
    ours = {kind.__name__ for kind in rules() if kind.__module__.startswith("weightwright.claims.")}
    assert ours == set(ONE_OF_EACH)
    assert len(set(rules().values())) == len(rules())


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_the_right_claim_is_proven(kind: str, tmp_path: Path) -> None:
    proven(one_of(kind).network, one_of(kind).certificate, tmp_path)


@pytest.mark.parametrize("other", ONE_OF_EACH)
@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_a_claim_of_another_kind_is_refused(kind: str, other: str, tmp_path: Path) -> None:
    if kind != other:
        refuse_other_claim(one_of(kind), one_of(other), tmp_path)


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_a_claim_that_is_none_is_refused(kind: str, tmp_path: Path) -> None:
    refuse_what_is_no_claim(one_of(kind), tmp_path)


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_parts_of_claims_are_no_claims(kind: str, tmp_path: Path) -> None:
    refuse_parts_of_claims(one_of(kind), tmp_path)


@dataclass(frozen=True)
class TrustMe:
    """A claim that a newer version might make."""

    leaf: object


def test_a_claim_whose_type_has_no_rule_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file cannot even hold it; and if it could, the checker would not know what to show."""
    net, path = one_of("OneLayerClaim"), tmp_path / "net.safetensors"
    forged = replace(net.certificate, claim=TrustMe(net.certificate.claim.leaf))
    save_forged(net.network, forged, path)
    with pytest.raises(ww.FileFormatError, match="TrustMe"):
        ww.check(path)
    monkeypatch.setitem(certificate_types(), "TrustMe", TrustMe)
    refused(net.network, forged, tmp_path, "no rule for a claim of type TrustMe")


def test_a_rule_is_not_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Softer(OneLayerClaim):
        """Its rule would look at what it shares with the claim that there is a rule for, and at nothing else."""

    net = one_of("OneLayerClaim")
    monkeypatch.setitem(certificate_types(), "Softer", Softer)
    forged = replace(net.certificate, claim=Softer(net.certificate.claim.leaf))
    refused(net.network, forged, tmp_path, "no rule for a claim of type Softer")


SAMPLES = Samples(np.array([-1.0, 1.0]), np.zeros(2), 0.0, 1, 1.0)


def leaf_of(kind: str) -> Any:
    return one_of(kind).certificate.claim.leaf


#: Contents of another type than they should be.
MISTYPED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a vector leaf for one number": ("OneLayerClaim", lambda c: OneLayerClaim(leaf_of("VectorLayerClaim"))),
    "a leaf of one number for a vector": ("VectorLayerClaim", lambda c: VectorLayerClaim(leaf_of("OneLayerClaim"))),
    "no leaf": ("OneLayerClaim", lambda c: replace(c, leaf=None)),
    "a leaf that is its formula": ("OneLayerClaim", lambda c: replace(c, leaf="sin(s)")),
    "a leaf in a tuple": ("VectorLayerClaim", lambda c: replace(c, leaf=(c.leaf,))),
    "dead zones that are a number": ("OneLayerClaim", lambda c: replace(c, dead_zones=1.0)),
    "dead zones that are texts": ("OneLayerClaim", lambda c: replace(c, dead_zones=(("a", "b"),))),
    "samples that are a leaf": ("SampledClaim", lambda c: replace(c, samples=c.leaf)),
    "samples without a leaf": ("SampledClaim", lambda c: SampledClaim(SAMPLES, SAMPLES)),
    "tables that are numbers": ("Composite", lambda c: replace(c, parts=(1, 2))),
    "a target that is a leaf": ("Composite", lambda c: replace(c, target=c.parts[0].claim)),
    "one pass of a leaf": ("LoopClaim", lambda c: replace(c, composite=c.composite.parts[:1])),
    "passes that are numbers": ("PromptClaim", lambda c: replace(c, passes=(1.0,))),
    "tokens that are words": ("MemoryClaim", lambda c: replace(c, tokens=("a", "b", "b"))),
    "words that are numbers between": ("MemoryClaim", lambda c: replace(c, words=(0.5, 1.5))),
    "tables that are leaves": ("InterpreterClaim", lambda c: replace(c, tables=tuple(t.claim for t in c.tables))),
    "sizes that are texts": ("InterpreterClaim", lambda c: replace(c, tokens="2")),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTYPED)
def test_contents_of_another_type_are_malformed(name: str, tmp_path: Path) -> None:
    kind, change = MISTYPED[name]
    refuse_contents(one_of(kind), change, tmp_path)


def test_a_measured_claim_is_no_proof(tmp_path: Path) -> None:
    net, path = one_of("OneLayerClaim"), tmp_path / "net.safetensors"
    measured = replace(net.certificate, claim=MeasuredClaim(0.0, 1, "not at all"))
    save_forged(net.network, measured, path)
    with pytest.raises(ww.FileFormatError, match="claims no bound"):
        ww.check(path)
    save_forged(net.network, replace(measured, bound=np.inf), path)
    with pytest.raises(ww.CertificateError, match="nothing is proven here"):
        ww.check(path)
    assert ww.load(path).certificate.status == "MEASURED"


def test_what_is_searched_against_is_never_claimed(tmp_path: Path) -> None:
    """A true claim inside a measured one stays unproven."""
    net = one_of("Composite")
    claim = MeasuredClaim(0.0, 1, "not at all", against=net.certificate.claim)
    save_forged(net.network, replace(net.certificate, claim=claim, bound=np.inf), tmp_path / "net.safetensors")
    with pytest.raises(ww.CertificateError, match="nothing is proven here"):
        ww.check(tmp_path / "net.safetensors")


@pytest.mark.parametrize("of_claim", [True, False])
@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_no_second_claim_fits_beside_the_first(kind: str, of_claim: bool, tmp_path: Path) -> None:
    refuse_second_claims(one_of(kind), of_claim, tmp_path)


def test_what_is_told_of_certificates_of_every_kind() -> None:
    """The shorthands are those of the claim."""
    said = {kind: one_of(kind).certificate for kind in ONE_OF_EACH}
    assert {kind for kind in ONE_OF_EACH if said[kind].norm != np.inf} == set()
    assert {kind for kind in ONE_OF_EACH if said[kind].composite is not None} == {"Composite", "LoopClaim"}
    assert not any(said[kind].dead_zones or said[kind].measured for kind in ONE_OF_EACH)
    assert with_claim(said["OneLayerClaim"], dead_zones=((0.0, 0.5),)).dead_zones == ((0.0, 0.5),)
    assert all(said[kind].against is said[kind].claim for kind in ONE_OF_EACH)
