"""A certificate makes one claim, and the checker has one rule for its type: a claim of another kind is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.forging import proven, refused, with_claim
from support.kinds import PROVABLE
from support.prompts import made as made_prompt
from support.stored import forge

import weightwright as ww
from weightwright.box import Box
from weightwright.checker.check import rules
from weightwright.claims import files
from weightwright.claims.certificate import MeasuredClaim
from weightwright.claims.leaf import Samples
from weightwright.claims.one_layer_claims import OneLayerClaim, SampledClaim, VectorLayerClaim
from weightwright.papers.claims.side_by_side_claim import SideBySideClaim
from weightwright.papers.grids.grid_lookup import sequence_to_scalar
from weightwright.papers.linear.literal import literal_truncated_linear
from weightwright.papers.linear.one_head import truncated_linear
from weightwright.runtime import AttentionNetwork


@ww.incontext.algorithm(steps=1)
def halved(rows: Any, state: Any) -> Any:
    return 0.5 * state + rows.mean(dim=0)


#: One network of every kind of claim that there is a rule for.
NETS: dict[str, Callable[[], AttentionNetwork]] = {
    "OneLayerClaim": lambda: ww.approximate("sin(x)", (-1, 1), 1e-3),
    "SampledClaim": lambda: ww.approximate(lambda x: np.array(np.sin(x)), (-1, 1), 1e-2, derivative_bound=(2, 1.0)),
    "VectorLayerClaim": lambda: ww.approximate("x*y", Box([-1, -1], [1, 1]), 0.1),
    "Composite": lambda: truncated_linear([[1.0], [-1.0]], [0.1, 0.1], -1.0, 1.0, (-1, 1), p=8),
    "LoopClaim": lambda: halved.compile(([-1.0], [1.0]), ([-2.0], [2.0]), samples=2),
    "GridClaim": lambda: sequence_to_scalar("x0 + x1", 2, 1, g=2, delta=0.25),
    "PromptClaim": lambda: made_prompt("descent", "float64"),
    "MemoryClaim": lambda: ww.memorize([["a", "b"], ["b"]], [[0, 1], [2]]),
    "InterpreterClaim": lambda: ww.Interpreter(2, 1, 1, anchors=6).net,
    "SharedKeysClaim": lambda: literal_truncated_linear(-1.0, 1.0, 4, 1, H=2),
    "SideBySideClaim": lambda: sequence_to_scalar("sin(x0)*x1", 2, 1, tol=0.1, method="spectral"),
}


@cache
def made(kind: str) -> AttentionNetwork:
    net = NETS[kind]()
    assert net.certificate is not None
    assert type(net.certificate.claim).__name__ == kind
    return net


def test_every_kind_of_claim_has_one_rule() -> None:
    """But that which claims nothing."""
    assert set(rules()) == set(PROVABLE)
    assert {kind.__name__ for kind in rules()} == set(NETS)
    assert len(set(rules().values())) == len(rules())


@pytest.mark.parametrize("kind", NETS)
def test_the_right_claim_is_proven(kind: str, tmp_path: Path) -> None:
    proven(made(kind).network, made(kind).certificate, tmp_path)


@pytest.mark.parametrize("other", NETS)
@pytest.mark.parametrize("kind", NETS)
def test_a_claim_of_another_kind_is_refused(kind: str, other: str, tmp_path: Path) -> None:
    """Also with the words and assumptions that go with it."""
    if kind == other:
        return
    right, claim = made(kind).certificate, made(other).certificate
    forged = replace(right, claim=claim.claim)
    refused(made(kind).network, forged, tmp_path)
    words = replace(forged, formula=claim.formula, assumptions=right.assumptions + claim.assumptions)
    refused(made(kind).network, words, tmp_path)
    refused(made(kind).network, replace(words, domain=claim.domain, bound=1e9), tmp_path)


@pytest.mark.parametrize("kind", NETS)
def test_a_claim_that_is_none_is_refused(kind: str, tmp_path: Path) -> None:
    right = made(kind).certificate
    for claim in (None, "sin(x)", 0.0, True, (), Box(-1, 1), (right.claim,), right):
        refused(made(kind).network, replace(right, claim=claim), tmp_path, "no rule for a claim of type")


@pytest.mark.parametrize("kind", NETS)
def test_parts_of_claims_are_no_claims(kind: str, tmp_path: Path) -> None:
    """A leaf, samples, a table: whatever a file may hold, there is no rule for it by itself."""
    certificate = made(kind).certificate
    for part in vars(certificate.claim).values():
        for one in part if isinstance(part, tuple) else (part,):
            if hasattr(one, "__dataclass_fields__") and type(one) not in rules():
                refused(made(kind).network, replace(certificate, claim=one), tmp_path, "no rule for a claim of type")


@dataclass(frozen=True)
class TrustMe:
    """A claim that a newer version might make."""

    leaf: object


def test_a_claim_whose_type_has_no_rule_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file cannot even hold it; and if it could, the checker would not know what to show."""
    net, path = made("OneLayerClaim"), tmp_path / "net.safetensors"
    forged = replace(net.certificate, claim=TrustMe(net.certificate.claim.leaf))
    files.write(path, net.network, forged)
    with pytest.raises(ww.FileFormatError, match="TrustMe"):
        ww.check(path)
    monkeypatch.setitem(files.certificate_types(), "TrustMe", TrustMe)
    refused(net.network, forged, tmp_path, "no rule for a claim of type TrustMe")


def test_a_rule_is_not_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Softer(OneLayerClaim):
        """Its rule would look at what it shares with the claim that there is a rule for, and at nothing else."""

    net = made("OneLayerClaim")
    monkeypatch.setitem(files.certificate_types(), "Softer", Softer)
    forged = replace(net.certificate, claim=Softer(net.certificate.claim.leaf))
    refused(net.network, forged, tmp_path, "no rule for a claim of type Softer")


SAMPLES = Samples(np.array([-1.0, 1.0]), np.zeros(2), 0.0, 1, 1.0)


def leaf_of(kind: str) -> Any:
    return made(kind).certificate.claim.leaf


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
    "cells that are numbers": ("GridClaim", lambda c: replace(c, core=1.0)),
    "a head that is a text": ("GridClaim", lambda c: replace(c, head="clip(s, 0, 1)")),
    "passes that are numbers": ("PromptClaim", lambda c: replace(c, passes=(1.0,))),
    "tokens that are words": ("MemoryClaim", lambda c: replace(c, tokens=("a", "b", "b"))),
    "words that are numbers between": ("MemoryClaim", lambda c: replace(c, words=(0.5, 1.5))),
    "tables that are leaves": ("InterpreterClaim", lambda c: replace(c, tables=tuple(t.claim for t in c.tables))),
    "sizes that are texts": ("InterpreterClaim", lambda c: replace(c, tokens="2")),
    "a formula that is a number": ("SharedKeysClaim", lambda c: replace(c, formula=1.0)),
    "heads that are a text": ("SharedKeysClaim", lambda c: replace(c, heads="2")),
    "parts that are a number": ("SideBySideClaim", lambda c: SideBySideClaim(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTYPED)
def test_contents_of_another_type_are_malformed(name: str, tmp_path: Path) -> None:
    kind, forge = MISTYPED[name]
    certificate = made(kind).certificate
    forged = replace(certificate, claim=forge(certificate.claim))
    refused(made(kind).network, forged, tmp_path, "the certificate is malformed")


def test_a_measured_claim_is_no_proof(tmp_path: Path) -> None:
    net, path = made("OneLayerClaim"), tmp_path / "net.safetensors"
    measured = replace(net.certificate, claim=MeasuredClaim(0.0, 1, "not at all"))
    files.write(path, net.network, measured)
    with pytest.raises(ww.FileFormatError, match="claims no bound"):
        ww.check(path)
    files.write(path, net.network, replace(measured, bound=np.inf))
    with pytest.raises(ww.CertificateError, match="nothing is proven here"):
        ww.check(path)
    assert ww.load(path).certificate.status == "MEASURED"


def test_what_is_searched_against_is_never_claimed(tmp_path: Path) -> None:
    """A true claim inside a measured one stays unproven."""
    net = made("Composite")
    claim = MeasuredClaim(0.0, 1, "not at all", against=net.certificate.claim)
    files.write(tmp_path / "net.safetensors", net.network, replace(net.certificate, claim=claim, bound=np.inf))
    with pytest.raises(ww.CertificateError, match="nothing is proven here"):
        ww.check(tmp_path / "net.safetensors")


def with_field(path: Path, name: str, value: Any, kind: str) -> None:
    """The file with a field more in every item of a kind in its certificate, the digest made to fit."""

    def add(payload: dict[str, Any], _: Any) -> None:
        types, items = payload["certificate"]["types"], payload["certificate"]["items"]
        (number,) = (i for i, row in enumerate(types) if row[0] == kind)
        types[number].append(name)
        for item in items:
            if item[0] == number:
                item.append(value)

    forge(path, add)


#: What once stood beside every other claim.
BESIDE = {"dead_zones": [], "norm": 1.0, "samples": None, "one_pass": None, "layers": []}


@pytest.mark.parametrize("of_claim", [True, False])
@pytest.mark.parametrize("kind", NETS)
def test_no_second_claim_fits_beside_the_first(kind: str, of_claim: bool, tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    for name, value in BESIDE.items():
        if of_claim and hasattr(made(kind).certificate.claim, name):
            continue
        files.write(path, made(kind).network, made(kind).certificate)
        with_field(path, name, value, kind if of_claim else "Certificate")
        with pytest.raises(ww.FileFormatError, match="is not a Certificate"):
            ww.check(path)


def test_what_is_told_of_certificates_of_every_kind() -> None:
    """The shorthands are those of the claim."""
    said = {kind: made(kind).certificate for kind in NETS}
    assert {kind for kind in NETS if said[kind].norm != np.inf} == {"GridClaim"}
    assert {kind for kind in NETS if said[kind].composite is not None} == {"Composite", "LoopClaim"}
    assert not any(said[kind].dead_zones or said[kind].measured for kind in NETS)
    assert with_claim(said["OneLayerClaim"], dead_zones=((0.0, 0.5),)).dead_zones == ((0.0, 0.5),)
    assert all(said[kind].against is said[kind].claim for kind in NETS)
