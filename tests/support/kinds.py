"""Which kinds of claim there are, the library's and those that extensions register, and what none of them passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.built import built
from support.forging import refused
from support.stored import forge

import weightwright as ww
from weightwright.checker.check import rules
from weightwright.claims.certificate import MeasuredClaim
from weightwright.claims.files import certificate_types
from weightwright.claims.kinds import Claim

CLAIMS = [kind for kind in certificate_types().values() if issubclass(kind, Claim)]
#: Those that claim something.
PROVABLE = [kind for kind in CLAIMS if kind is not MeasuredClaim]
#: A built network of every kind of claim of the library that there is a rule for.
ONE_OF_EACH = {
    "OneLayerClaim": "a coarse sine",
    "SampledClaim": "samples",
    "VectorLayerClaim": "several numbers",
    "Composite": "tanh",
    "LoopClaim": "a loop",
    "PromptClaim": "a prompt",
    "MemoryClaim": "a memory",
    "InterpreterClaim": "an interpreter",
}


def one_of(kind: str) -> ww.AttentionNetwork:
    net = built(ONE_OF_EACH[kind])
    assert type(net.certificate.claim).__name__ == kind
    return net


def refuse_other_claim(net: ww.AttentionNetwork, other: ww.AttentionNetwork, folder: Path) -> None:
    """The claim of another network is refused, also with the words and assumptions that go with it."""
    right, claim = net.certificate, other.certificate
    forged = replace(right, claim=claim.claim)
    refused(net.network, forged, folder)
    words = replace(forged, formula=claim.formula, assumptions=right.assumptions + claim.assumptions)
    refused(net.network, words, folder)
    refused(net.network, replace(words, domain=claim.domain, bound=1e9), folder)


def refuse_what_is_no_claim(net: ww.AttentionNetwork, folder: Path) -> None:
    right = net.certificate
    for claim in (None, "sin(x)", 0.0, True, (), ww.Box(-1, 1), (right.claim,), right):
        refused(net.network, replace(right, claim=claim), folder, "no rule for a claim of type")


def refuse_parts_of_claims(net: ww.AttentionNetwork, folder: Path) -> None:
    """A leaf, samples, a table: whatever a file may hold, there is no rule for it by itself."""
    certificate = net.certificate
    for part in vars(certificate.claim).values():
        for one in part if isinstance(part, tuple) else (part,):
            if hasattr(one, "__dataclass_fields__") and type(one) not in rules():
                refused(net.network, replace(certificate, claim=one), folder, "no rule for a claim of type")


def refuse_contents(net: ww.AttentionNetwork, change: Callable[[Any], Any], folder: Path) -> None:
    """A claim whose contents are of another type than they should be."""
    certificate = net.certificate
    forged = replace(certificate, claim=change(certificate.claim))
    refused(net.network, forged, folder, "the certificate is malformed")


#: What once stood beside every other claim.
BESIDE = {"dead_zones": [], "norm": 1.0, "samples": None, "one_pass": None, "layers": []}


def refuse_second_claims(net: ww.AttentionNetwork, of_claim: bool, folder: Path) -> None:
    """None fits beside the first, in the claim or in the certificate."""
    path, claim = folder / "net.safetensors", net.certificate.claim
    for name, value in BESIDE.items():
        if of_claim and hasattr(claim, name):
            continue
        net.save(path)
        add_field(path, name, value, type(claim).__name__ if of_claim else "Certificate")
        with pytest.raises(ww.FileFormatError, match="is not a Certificate"):
            ww.check(path)


def add_field(path: Path, name: str, value: Any, kind: str) -> None:
    """A field more in every item of a kind in the file's certificate, the digest made to fit."""

    def add(payload: dict[str, Any], _: Any) -> None:
        types, items = payload["certificate"]["types"], payload["certificate"]["items"]
        (number,) = (i for i, row in enumerate(types) if row[0] == kind)
        types[number].append(name)
        for item in items:
            if item[0] == number:
                item.append(value)

    forge(path, add)
