"""The checker's rule for networks that remember a data set; docs/certificates.md, "Memories".

Every stored token's id, as the network computes it, lies on a plateau of the feed-forward layer (`network.ramps`), and
that plateau is the number of its label. Plateaus are sums of whole numbers below 2^bits, which are exact in any order.

Sorted: the network compares the id with kinks, which is exact, and returns the plateau.
Plain: it sums all units. With every kink and every id between 2^e and 2^(e+1), all are multiples of one power of two
and their differences are exact; where slopes times the largest differences add up to less than 2^bits of the least
such multiple, so is every product and every sum, in any order.
"""

from __future__ import annotations

import math

import numpy as np

from weightwright.checker.core.complaints import must, require
from weightwright.checker.memory.context_ids import Whole, enclose_ids, lowest_bit, read_mapping
from weightwright.claims.certificate import Certificate
from weightwright.claims.memory_claim import UNCLAIMED, MemoryClaim, memory_in_words
from weightwright.enclosures.balls.midrad import ROOM
from weightwright.errors import LawError
from weightwright.limits import hold
from weightwright.network import FeedForward, Network, Ramps
from weightwright.network.ramps import RampTable, ramps_of
from weightwright.numbers import FORMATS, Floats, rounded

#: Of the size of what is stored: whole numbers, places, ids and what tells them apart.
_ARRAYS = 20


def agree_memory(network: Network, certificate: Certificate, claim: MemoryClaim) -> None:
    """Refuse (CertificateError) unless every stored token comes back with its label."""
    tokens, lengths, labels = _well_formed(network, certificate, claim)
    table, plain = _read_ramps(network)
    stored = read_mapping(network, table.coordinate)
    plateaus = _plateaus(table, network.dtype)
    middles, radii = enclose_ids(stored, claim.vectors, tokens, lengths, claim.positions)
    low, high = middles - radii, middles + radii
    low, high = np.nextafter(low, -math.inf), np.nextafter(high, math.inf)
    passed = np.searchsorted(table.kinks, low, side="right")
    inside = (passed % 2 == 0) & (np.searchsorted(table.kinks, high, side="left") <= passed)
    claimed = labels != UNCLAIMED
    _none("the id of token {} may lie on a ramp", claimed & ~inside)
    _none(
        "token {} comes back with another label",
        claimed & (plateaus[np.minimum(passed // 2, len(plateaus) - 1)] != labels),
    )
    if plain:
        _sums_are_exact(table, network.dtype, float(low[claimed].min()), float(high[claimed].max()))


def _none(complaint: str, wrong: np.ndarray) -> None:
    found = np.flatnonzero(wrong)
    require(not len(found), complaint.format(int(found[0]) if len(found) else ""))


def _well_formed(network: Network, certificate: Certificate, claim: MemoryClaim) -> tuple[Whole, Whole, Whole]:
    """(tokens, lengths, labels) as whole numbers; sizes, texts and the domain are right."""
    hold(_ARRAYS * (claim.tokens.size + claim.lengths.size + claim.labels.size))
    require(certificate.kernel == "dot", f"no rule for memories in kernel {certificate.kernel!r}")
    require(certificate.formula == memory_in_words(claim, network), "the certificate says something else of the memory")
    vectors = claim.vectors
    require(
        vectors.ndim == 2 and claim.tokens.ndim == claim.lengths.ndim == claim.labels.ndim == 1,
        "arrays have other shapes",
    )
    inputs = vectors.shape[1] + claim.positions
    require(inputs == len(network.inputs), f"tokens of {inputs} numbers for a network of {len(network.inputs)} inputs")
    require(
        bool(np.isfinite(vectors).all() and (vectors == rounded(vectors, network.dtype)).all()),
        "a vector is no number of the dtype",
    )
    names = (claim.words, claim.answers)
    require(all(len(set(some)) == len(some) for some in names), "two words, or two answers, are the same")
    require(len(claim.words) in (0, len(vectors)), "there is not one word for each vector")
    tokens = _whole(claim.tokens, 0, len(vectors), "tokens")
    longest = len(tokens) + 1
    lengths = _whole(claim.lengths, 1, longest, "lengths")
    labels = _whole(claim.labels, UNCLAIMED, len(claim.answers), "labels")
    require(len(labels) == len(tokens) == int(lengths.sum()), "there is not one label for each token")
    require(bool((labels != UNCLAIMED).any()), "nothing is claimed of any token")
    require(int(lengths.max()) < 2 ** FORMATS[network.dtype].bits, "positions are no numbers of the dtype")
    _inside(certificate, claim, int(lengths.max()))
    return tokens, lengths, labels


def _whole(numbers: Floats, first: int, beyond: int, what: str) -> Whole:
    fits = bool((np.isfinite(numbers) & (numbers == np.rint(numbers)) & (numbers >= first) & (numbers < beyond)).all())
    require(fits, f"{what} are not whole numbers from {first} to {beyond - 1}")
    return numbers.astype(np.int64)


def _inside(certificate: Certificate, claim: MemoryClaim, longest: int) -> None:
    """What is stored lies in the domain: the module takes no other inputs."""
    ends = np.array([[0.0], [longest - 1.0]]) if claim.positions else np.zeros((2, 0))
    least = np.concatenate([claim.vectors.min(axis=0), ends[0]])
    most = np.concatenate([claim.vectors.max(axis=0), ends[1]])
    lo, hi = certificate.domain.lo, certificate.domain.hi
    require(lo.shape == hi.shape == least.shape, f"the domain has shape {lo.shape}")
    require(bool((lo <= least).all() and (most <= hi).all()), "a stored token lies outside the domain")


def _read_ramps(network: Network) -> tuple[RampTable, bool]:
    """The ramps of the second layer, for one output, and whether all of its units are summed."""
    must(len(network.layers) == 2, "an attention layer and a feed-forward layer were expected")
    layer, read = network.layers[1], network.read
    must(type(layer) in (Ramps, FeedForward), "the second layer is no feed-forward layer")
    assert isinstance(layer, FeedForward)
    must(layer.residual, "the feed-forward layer has no skip connection")
    try:
        table = ramps_of(layer)
    except LawError as error:
        must(False, str(error))
    must(len(read.terms) == 1 and not read.moves_tokens and not read.knows_positions, "one token-wise map was expected")
    A = read.terms[0].A
    label = int(np.argmax(A[:, 0]))
    must(
        A.shape[1] == 1 and A[label, 0] == 1 and np.count_nonzero(A) == 1 and not read.C.any(), "something else is read"
    )
    must(label != table.coordinate, "the label stands where the id does")
    heads = list(network.heads)
    empty = not network.embed.C[:, label].any() and not any(term.A[:, label].any() for term in network.embed.terms)
    must(empty and not any(head.W_O[:, label].any() for head in heads), "the label's coordinate is not empty before")
    return RampTable(
        table.coordinate, table.kinks, table.slopes[:, label : label + 1], table.first[label : label + 1]
    ), type(layer) is FeedForward


def _plateaus(table: RampTable, dtype: str) -> Floats:
    """(m + 1,), exact: widths of ramps are powers of two, heights whole numbers, their sums small."""
    bits = FORMATS[dtype].bits
    if len(table.kinks):
        grain = lowest_bit(table.kinks)
        size = float(np.abs(table.kinks).max())
        must(
            grain >= FORMATS[dtype].least_exponent and 2 * size <= 2.0 ** (bits + min(grain, 500.0)),
            "kinks are on no common grid",
        )
    widths = table.kinks[1::2] - table.kinks[0::2]
    must(bool((np.frexp(widths)[0] == 0.5).all()), "the width of a ramp is no power of two")
    heights = np.concatenate([table.first, table.heights[:, 0]])
    must(bool((heights == np.rint(heights)).all()), "the height of a ramp is no whole number")
    must(float(np.abs(heights).sum()) * ROOM < 2.0**bits, "the heights of all ramps add up to too much")
    return np.cumsum(heights)


def _sums_are_exact(table: RampTable, dtype: str, low: float, high: float) -> None:
    """Of all units, in any order, for ids from low to high."""
    bits, kinks, slopes = FORMATS[dtype].bits, table.kinks, np.abs(table.slopes[:, 0])
    if not len(kinks):
        return
    least, most = min(low, float(kinks[0])), max(high, float(kinks[-1]))
    must(least > 0, "sums of all units are exact for positive ids only")
    exponent = math.frexp(least)[1]
    must(math.frexp(math.nextafter(most, math.inf))[1] == exponent, "ids lie on both sides of a power of two")
    far = np.repeat(slopes, 2) * np.maximum(high - kinks, 0.0)
    unit = exponent - bits + lowest_bit(slopes)  # of all products
    total = (float(far.sum()) + abs(float(table.first[0]))) * ROOM
    must(
        unit >= FORMATS[dtype].least_exponent and total < 2.0 ** (bits + unit),
        f"sums of all units may round: {total:.3g}",
    )
