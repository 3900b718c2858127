"""Every field of the certificates, and every array of the networks, that users make: what is changed is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.built import built
from support.forging import altered, array_places, entry, save_forged, widened
from support.mutating import mutations, with_flat
from support.running import reference_outputs
from support.user_networks import BUILDERS

import weightwright as ww
from weightwright.claims.memory_claim import MemoryClaim

#: Kinds of change of a certificate's fields.
KINDS = (
    *("flipped", "one more", "one less", "zero", "half", "twice", "no number", "more text"),
    *("moved", "shorter", "longer"),
)
#: Networks whose files take longest to check: only `make test-all` forges them here.
LARGE = {"layer norm", "logistic regression", "mlp", "product", "relu layer", "ridge", "samples"}
NAMES = [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in BUILDERS]
#: Of the next one, kinds of change that `make test` tries.
QUICK = ("flipped", "half", "no number", "moved")
FORGERIES = [
    pytest.param(
        kind, name, marks=[pytest.mark.slow] * (name in LARGE or (name == "interpreter" and kind not in QUICK))
    )
    for kind in KINDS
    for name in BUILDERS
]


def each(kinds: str, *fields: str) -> set[str]:
    """Kinds of change of some fields."""
    return {f"{field}: {kind}" for field in fields for kind in kinds.split(", ")}


#: The slope of the only layer is not used; of leakage the prover claims more than the checker finds.
LAYER = each("zero, twice", "leaf.lipschitz") | each("half", "leaf.terms.leakage")
#: Free text; the index of a node that is not an input is not used.
GRAPH = each("more text", "target.name", "target.nodes.label") | each("one more, one less", "target.nodes.index")
#: A part's leaf repeats its layer. Boxes may cover more than is needed; of leakage more is claimed than is found.
TABLES = (
    each("one more, one less", "parts.claim.layer")
    | each("moved", "parts.claim.boxes")
    | each("half", "parts.claim.terms.leakage")
)
#: The same where larger slopes say less, or where heads may be zeroed: the checker shows that, too.
SLOPES, ZEROED = each("twice", "parts.claim.lipschitz"), each("flipped", "ablatable")
#: A slope that says less; narrower ranges of arguments, which are watched.
PASSES = each("twice", "summands.claim.lipschitz") | each("zero, half", "summands.claim.lo", "summands.claim.hi")
#: Of every network exactly these changes of fields are accepted, and none of them says anything that is false.
ACCEPTED: dict[str, set[str]] = {
    "formula": LAYER,
    "formula in float32": LAYER | each("moved", "leaf.boxes"),
    "absolute value": LAYER | each("moved", "leaf.boxes"),
    "two variables": each("moved", "leaf.lipschitz") | each("half", "leaf.terms.leakage"),
    "samples": LAYER | each("more text", "leaf.formula"),  # there the formula is a name
    # two keys are tanh itself: the checker's bounds are smaller than the prover's, and the ranges larger than needed
    "mlp": GRAPH
    | TABLES
    | ZEROED
    | each("half", "parts.claim.lo", "parts.claim.hi", "parts.claim.terms.approximation"),
    # a result that goes to one coordinate with weight 1 may be called spread, or not
    "relu layer": GRAPH | TABLES | ZEROED | each("flipped", "parts.spread"),
    "product": GRAPH | TABLES | SLOPES,
    "layer norm": GRAPH | TABLES | SLOPES,
    "attention": GRAPH | ZEROED,
    "attention in float32": GRAPH | ZEROED,
    # free text; rows of the matrix on the tokens that nobody reads
    "loop": each("more text", "composite.target.name", "composite.target.nodes.label")
    | each("flipped", "composite.ablatable")
    | each("longer, moved", "composite.target.matrices"),
    "ridge": PASSES,
    "logistic regression": PASSES
    | each("moved", "summands.claim.boxes")
    | each("half", "summands.claim.terms.approximation"),
    # what tokens and labels are called, and vectors for which the stored contexts still differ
    "memory": each("one more, one less", "answers") | each("moved", "vectors") | each("more text", "words"),
    # of one program; a table's leaf repeats its layer
    "interpreter": each("flipped", "stacked")
    | each("one more, one less", "tables.claim.layer")
    | each("twice", "tables.claim.lipschitz")
    | each("half", "tables.claim.terms.leakage"),
}


def is_accepted(network: Any, certificate: Any, folder: Path) -> bool:
    """Whether the checker agrees with a file that names its network rightly."""
    path = save_forged(network, certificate, folder / "forged.safetensors")
    try:
        ww.check(path)
    except (ww.CertificateError, ww.FileFormatError):
        return False
    return True


def with_words(certificate: Any) -> Any:
    """The words that go with the claim, where they are composed from it."""
    try:
        return replace(certificate, formula=certificate.claim.in_words())  # type: ignore[union-attr]
    except (AttributeError, TypeError, ValueError, LookupError):
        return certificate


@pytest.mark.parametrize("name", NAMES)
def test_what_is_forged_here_was_right(name: str, tmp_path: Path) -> None:
    assert is_accepted(built(name).network, built(name).certificate, tmp_path)


@pytest.mark.parametrize(("kind", "name"), FORGERIES)
def test_a_field_that_changes_is_refused(kind: str, name: str, tmp_path: Path) -> None:
    """But for changes that say nothing, less than before, or what the checker finds to be true."""
    net = built(name)
    certificate, accepted, tried = net.certificate, set(), 0
    for path, made, new in mutations(certificate.claim):
        if made == kind:
            tried += 1
            forged = replace(certificate, claim=altered(certificate.claim, path, lambda _, new=new: new))
            if is_accepted(net.network, with_words(forged), tmp_path):
                accepted.add(f"{'.'.join(step for step in path if isinstance(step, str))}: {kind}")
    if not tried:
        pytest.skip("no field can change in this way")
    assert accepted == {change for change in ACCEPTED[name] if change.endswith(f": {kind}")}


#: What may be changed in any certificate.
CERTIFICATES: dict[str, Callable[[Any], Any]] = {
    "a smaller bound": lambda c: replace(c, bound=0.999 * c.bound if c.bound else -1e-300),
    "a negative bound": lambda c: replace(c, bound=-1.0),
    "an infinite bound": lambda c: replace(c, bound=math.inf),
    "a bound that is NaN": lambda c: replace(c, bound=math.nan),
    "negative rounding": lambda c: replace(c, terms=replace(c.terms, rounding=-1.0)),
    "rounding that is NaN": lambda c: replace(c, terms=replace(c.terms, rounding=math.nan)),
    "leakage that is infinite": lambda c: replace(c, terms=replace(c.terms, leakage=math.inf)),
    "another formula": lambda c: replace(c, formula=c.formula + " + 1"),
    "an empty formula": lambda c: replace(c, formula=""),
    "another dtype": lambda c: replace(c, dtype="float32" if c.dtype == "float64" else "float64"),
    "a kernel that is not known": lambda c: replace(c, kernel="flash"),
    "a domain of another shape": lambda c: replace(c, domain=ww.Box([-1] * 7, [1] * 7)),
    "a domain a thousand times as large": lambda c: widened(c, 1000.0),
    "an assumption of its own": lambda c: replace(c, assumptions=(*c.assumptions, "all inputs are 0")),
    "no claim": lambda c: replace(c, claim=None),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", CERTIFICATES)
def test_a_certificate_that_changes_is_refused(change: str, name: str, tmp_path: Path) -> None:
    net = built(name)
    assert not is_accepted(net.network, CERTIFICATES[change](net.certificate), tmp_path)


def some_entries(array: Any) -> list[int]:
    """The first, the middle and the last entry, and the first and last that are not 0, counted row by row."""
    held = np.flatnonzero(array)
    return sorted({0, array.size // 2, array.size - 1, *(int(held[place]) for place in (0, -1) if held.size)})


def moved_networks(network: Any) -> Iterator[Any]:
    """The network with one entry of one array moved by a quarter, wherever that is still a network."""
    dtype = np.float32 if network.dtype == "float32" else np.float64
    for path in array_places(network):
        array = entry(network, path)
        for place in some_entries(array) if array.size else ():
            new = with_flat(array, place, array.flat[place] + 0.25).astype(dtype)
            with suppress(ww.LawError):
                yield altered(network, path, lambda _, new=new: new)


def sample_inputs(net: ww.AttentionNetwork) -> np.ndarray:
    """Inputs that the certificate is about: (samples, tokens, features)."""
    network, domain, claim = net.network, net.certificate.domain, net.certificate.claim
    if isinstance(claim, MemoryClaim):
        positions = np.arange(len(claim.tokens)) % int(claim.lengths[0])
        return np.column_stack([claim.vectors[claim.tokens.astype(int)], positions]).reshape(len(claim.lengths), -1, 2)
    size = (16, network.tokens or 1, len(network.inputs))
    return np.random.default_rng(0).uniform(domain.lo, domain.hi, size)


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_a_weight_that_changes_is_refused_or_changes_no_output(name: str, part: int, tmp_path: Path) -> None:
    """Where it is accepted, both networks are within the bound of the same target; labels are told apart by 1."""
    net, refused = built(name), 0
    X = sample_inputs(net)
    right = reference_outputs(net, X)
    allowed = 0.5 if net.certificate.subject == "label" else 2 * net.certificate.bound
    for network in list(moved_networks(net.network))[part::2]:
        if is_accepted(network, net.certificate, tmp_path):
            assert np.abs(reference_outputs(network, X) - right).max() <= allowed
        else:
            refused += 1
    assert refused > 7
