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
LARGE = {"layer norm", "logistic regression", "samples"}
NAMES = [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in BUILDERS]
#: Changes that are accepted, by the end of the field's path, and why nothing false is said.
HARMLESS: dict[str, set[str]] = {
    # texts and numbers of the user's own, which the bound is not about
    "target.name": {"more text"},
    "nodes.label": {"more text"},
    "words": {"more text"},
    "answers": {"one more", "one less"},
    "vectors": {"moved"},  # of the vocabulary: the contexts of the stored sequences still differ
    # not used: the index of a node that is not an input, the name of samples, a part's leaf repeats its layer, the
    # slope of the only layer, the way in which a single program is stacked
    "nodes.index": {"one more", "one less"},
    "leaf.formula": {"more text"},
    "claim.layer": {"one more", "one less"},
    "leaf.lipschitz": {"zero", "half", "twice", "moved"},
    "stacked": {"flipped"},
    "spread": {"flipped"},  # a result that goes to one coordinate with weight 1 is the same either way
    # says less: a larger slope, a narrower range where arguments are watched, boxes that cover more
    "claim.lipschitz": {"twice"},
    "summands.claim.lo": {"zero", "half"},
    "summands.claim.hi": {"zero", "half"},
    "boxes": {"moved"},
    # says more, and the checker's own bound is as small: the prover left room
    "terms.approximation": {"half"},
    "terms.leakage": {"half"},
    "parts.claim.lo": {"half"},
    "parts.claim.hi": {"half"},
    # says more, and the checker shows that, too: heads that may be zeroed
    "ablatable": {"flipped"},
    # rows of tokens that nobody reads
    "target.matrices": {"moved", "longer"},
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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_changes_is_refused(kind: str, name: str, tmp_path: Path) -> None:
    net = built(name)
    for path, made, new in mutations(net.certificate.claim):
        field = ".".join(step for step in path if isinstance(step, str))
        if made == kind:
            forged = replace(net.certificate, claim=altered(net.certificate.claim, path, lambda _, new=new: new))
            harmless = any(field.endswith(end) and kind in kinds for end, kinds in HARMLESS.items())
            assert harmless or not is_accepted(net.network, with_words(forged), tmp_path), (path, new)


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


@pytest.mark.parametrize("name", NAMES)
def test_a_weight_that_changes_is_refused_or_changes_no_output(name: str, tmp_path: Path) -> None:
    """Where it is accepted, both networks are within the bound of the same target; labels are told apart by 1."""
    net, refused = built(name), 0
    X = sample_inputs(net)
    right = reference_outputs(net, X)
    allowed = 0.5 if net.certificate.subject == "label" else 2 * net.certificate.bound
    for network in moved_networks(net.network):
        if is_accepted(network, net.certificate, tmp_path):
            assert np.abs(reference_outputs(network, X) - right).max() <= allowed
        else:
            refused += 1
    assert refused > 15
