"""Networks side by side in one layer are taken apart exactly, for each to be checked alone.

Coordinates, registers and heads come in consecutive blocks, one for each part. Between blocks every weight is 0, and a
product with 0 adds nothing: what a part computes, rounding included, is what it would compute alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import numpy as np

from weightwright.checker.check import agree
from weightwright.checker.core.complaints import must, require
from weightwright.claims.certificate import Certificate
from weightwright.claims.one_layer_claims import OneLayerClaim, VectorLayerClaim
from weightwright.network import Attention, Head, Linear, Network, Sees, Term
from weightwright.network.token_maps import pick, place
from weightwright.numbers import Floats
from weightwright.papers.claims.side_by_side_claim import SideBySideClaim, SideNetwork


def agree_side_by_side(network: Network, certificate: Certificate, claim: SideBySideClaim) -> None:
    """Refuse (CertificateError) unless every network alone is as its certificate says. No part may have dead zones."""
    for part, said in split(network, certificate, claim):
        agree(part, said)


def split(network: Network, certificate: Certificate, claim: SideBySideClaim) -> Iterator[tuple[Network, Certificate]]:
    """Every part as a network of one token with its certificate, which is then to be checked."""
    n, d, parts = network.tokens or 0, len(network.inputs), claim.parts
    _says_no_more(certificate, claim, n, d)
    must(n >= 1 and len(parts) in (1, n * d), f"{len(parts)} parts for {n} tokens of {d} features")
    layer = network.layers[0] if len(network.layers) == 1 else None
    must(isinstance(layer, Attention) and layer.residual, "one residual layer was expected")
    assert isinstance(layer, Attention)
    sizes = [(part.width, part.registers, part.heads) for part in parts]
    must(all(type(x) is int and x >= 1 for size in sizes for x in size), f"parts of sizes {sizes}")
    total = (len(layer.coordinates), len(network.registers), len(layer.heads))
    must(tuple(map(sum, zip(*sizes, strict=True))) == total, f"parts of sizes {sizes} do not make {total}")
    A, outputs = _flattened(network.embed, n, d), _outputs(network.read, n, d, len(parts))
    column, row, first = 0, 0, 0
    for k, part in enumerate(parts):
        block, rows = slice(column, column + part.width), slice(row, row + part.registers)
        _alone(network.registers[rows], block, "a register")
        _alone(outputs[:, k : k + 1].T, block, "an output")
        heads = tuple(_inside(head, block, rows) for head in layer.heads[first : first + part.heads])
        names = layer.coordinates[block]
        yield (
            Network(
                inputs=tuple(f"x[{i}]" for i in range(n * d)),
                embed=Linear(names, (Term(A[:, block]),), network.embed.C[:, block]),
                registers=network.registers[rows, block],
                layers=(Attention(names, heads),),
                read=Linear(("f",), (Term(outputs[block, k : k + 1]),), np.zeros((1, 1))),
                dtype=network.dtype,
            ),
            part.certificate,
        )
        column, row, first = block.stop, rows.stop, first + part.heads


def _says_no_more(certificate: Certificate, claim: SideBySideClaim, n: int, d: int) -> None:
    """The whole says no more than its parts do together."""
    lo, hi = certificate.domain.lo, certificate.domain.hi
    require(lo.shape == hi.shape == (n, d), f"the domain is not one of {n} tokens of {d} features")
    parts = [part.certificate for part in claim.parts if isinstance(part, SideNetwork)]
    require(len(parts) == len(claim.parts), "a part is none")
    for part in parts:
        require(type(part.claim) in (OneLayerClaim, VectorLayerClaim), "a part must be one plain network")
        same = np.array_equal(part.domain.lo, lo.ravel()) and np.array_equal(part.domain.hi, hi.ravel())
        require(same, "a part has another domain")
        require(part.kernel == certificate.kernel, "a part runs in another kernel")
        require(not part.dead_zones, "a part has dead zones")
        require(set(part.assumptions) <= set(certificate.assumptions), "the certificate hides an assumption")
        require(part.bound <= certificate.bound, f"a part's bound is {part.bound:.6g}, more than the whole's")
        for name in (field.name for field in fields(part.terms)):
            require(getattr(part.terms, name) <= getattr(certificate.terms, name), f"a part has a larger {name}")
    said = parts[0].formula if len(parts) == 1 else f"({', '.join(part.formula for part in parts)})"
    require(certificate.formula == said, f"the parts are about {said!r}, the certificate about {certificate.formula!r}")


def _flattened(embed: Linear, n: int, d: int) -> Floats:
    """(n d, D): the features of all tokens to the coordinates of one token, each a copy of one number at most."""
    must(len(embed.terms) == n and embed.C.shape[0] == 1, "embed must place every token's features on one token")
    for i, term in enumerate(embed.terms):
        must(term.S is None and term.tokens == pick(i), "embed must place every token's features on one token")
    A = np.concatenate([term.A for term in embed.terms])
    must(bool((np.count_nonzero(A, axis=0) <= 1).all()), "a coordinate must take one number at most")
    return A


def _outputs(read: Linear, n: int, d: int, parts: int) -> Floats:
    """(D, parts): one output; or n d of them, which go back to n tokens of d features."""
    must(not read.C.any() and all(term.S is None for term in read.terms), "read must copy outputs")
    if parts == 1 and len(read.terms) == 1 and read.terms[0].tokens is None:
        must(read.terms[0].A.shape[1] == 1, "one output was expected")
        return read.terms[0].A
    must(parts == n * d and len(read.terms) == n and read.C.shape == (1, d), f"{n} tokens of {d} outputs were expected")
    for i, term in enumerate(read.terms):
        must(term.tokens == place(i, n), "read must place every output")
    return np.concatenate([term.A for term in read.terms], axis=1)


def _alone(rows: Floats, block: slice, what: str) -> None:
    must(not (rows[:, : block.start].any() or rows[:, block.stop :].any()), f"{what} stands in two parts")


def _inside(head: Head, block: slice, rows: slice) -> Head:
    """The head without the other parts' coordinates, which it neither reads nor writes."""
    for W in (head.W_Q.T, head.W_K.T, head.W_V.T, head.W_O):
        _alone(W, block, "a head")
    start, stop = head.sees.registers
    must(rows.start <= start <= stop <= rows.stop, "a head sees another part's registers")
    must(head.sees.data in ("none", "self") and head.mask is None, "a head sees other tokens")
    return replace(
        head,
        W_Q=head.W_Q[block],
        W_K=head.W_K[block],
        W_V=head.W_V[block],
        W_O=head.W_O[:, block],
        sees=Sees((start - rows.start, stop - rows.start), head.sees.data),
    )
