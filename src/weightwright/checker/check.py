"""`check`: one saved file in, one certificate with status PROVEN out, or a CertificateError that says why not.

Networks that stand side by side in one layer, taken apart exactly: each part then has a certificate of its own.

Coordinates, registers and heads come in consecutive blocks, one for each part. Between blocks every weight is 0, and a
product with 0 adds nothing: what a part computes, rounding included, is what it would compute alone.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
from flint import arb

from weightwright.checker.composite.loop import agree_one_pass
from weightwright.checker.composite.walk import agree_composite
from weightwright.checker.core.complaints import must, parsed, require, terms_hold
from weightwright.checker.core.rounding import SMALLEST, UNIT
from weightwright.checker.grid.grid import agree_grid
from weightwright.checker.one_layer.layer import Hole, Target, adding_up, covers, layer_holds, reach
from weightwright.checker.one_layer.samples import check_samples, pieces
from weightwright.checker.one_layer.stored import OneLayer, read_one_layer
from weightwright.checker.one_layer.vector import agree_vector
from weightwright.checker.prompt.prompt_passes import agree_prompted
from weightwright.claims.certificate import (
    OPAQUE,
    Certificate,
    Leaf,
    SideNetwork,
    VectorLeaf,
    assumptions,
    local_formula,
)
from weightwright.claims.files import network_digest, read
from weightwright.enclosures.balls.series import largest, working_precision
from weightwright.errors import CertificateError
from weightwright.expressions import to_text
from weightwright.network import Attention, Block, Head, Linear, Network, Sees, Term
from weightwright.network.token_maps import pick, place
from weightwright.numbers import Floats


def split(network: Network, certificate: Certificate) -> Iterator[tuple[Network, Certificate]]:
    """Every part as a network of one token with its certificate, which is then to be checked."""
    n, d, parts = network.tokens or 0, len(network.inputs), certificate.parts
    _one_claim(certificate, n, d)
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


def _one_claim(certificate: Certificate, n: int, d: int) -> None:
    """The whole says no more than its parts do together."""
    plain = not (certificate.layers or certificate.dead_zones) and certificate.samples is None
    require(plain and certificate.composite is None, "networks side by side go with no other claim")
    require(certificate.norm == np.inf, f"no rule for norm {certificate.norm!r} here")
    lo, hi = certificate.domain.lo, certificate.domain.hi
    require(lo.shape == hi.shape == (n, d), f"the domain is not one of {n} tokens of {d} features")
    parts = [part.certificate for part in certificate.parts if isinstance(part, SideNetwork)]
    require(len(parts) == len(certificate.parts), "a part is none")
    for part in parts:
        require(not part.parts and part.grid is None and part.measured is None, "a part must be one plain network")
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


KERNELS = ("dot", "anchor")


def check(path: str | os.PathLike[str]) -> Certificate:
    """Recompute every claim in the file. Returns the certificate, PROVEN; raises CertificateError otherwise."""
    return checked(path)[1]


def checked(path: str | os.PathLike[str]) -> tuple[Network, Certificate]:
    """The network that was read, and its certificate, PROVEN; raises CertificateError otherwise."""
    network, certificate = read(path)
    if certificate is None:
        raise CertificateError(f"{path}: the network has no certificate")
    if certificate.measured is not None:
        raise CertificateError(
            f"{path}: nothing is proven here; an error of {certificate.measured.error:.3g} was measured"
        )
    try:
        _agree(network, certificate)
    except (AttributeError, TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise CertificateError(f"{path}: the certificate is malformed ({error})") from error
    return network, dataclasses.replace(certificate, status="PROVEN")


def _agree(network: Network, certificate: Certificate) -> None:
    with working_precision():
        _identity(network, certificate)
        whole = (certificate.composite, certificate.grid, certificate.prompted)
        kinds = [bool(certificate.layers), bool(certificate.parts), *(claim is not None for claim in whole)]
        require(sum(kinds) <= 1, "a certificate makes claims of one kind")
        whole_or_pass = certificate.one_pass is None or certificate.composite is not None
        require(whole_or_pass, "a claim about one pass goes with a target")
        if certificate.prompted is not None:
            require(certificate.norm == math.inf, f"no rule for norm {certificate.norm!r} here")
            with np.errstate(all="ignore"):  # infinity and NaN are refused where numbers are compared
                agree_prompted(network, certificate, certificate.prompted)
            return
        _ordinary(network)
        if certificate.grid is not None:
            agree_grid(network, certificate)
            return
        require(certificate.norm == math.inf, f"no rule for norm {certificate.norm!r} here")
        if certificate.one_pass is not None:
            with np.errstate(all="ignore"):  # infinity and NaN are refused where numbers are compared
                agree_one_pass(network, certificate, certificate.one_pass)
            return
        if certificate.composite is not None:
            with np.errstate(all="ignore"):  # infinity and NaN are refused where numbers are compared
                agree_composite(network, certificate, certificate.composite)
            return
        if certificate.parts:
            for part in split(network, certificate):
                _agree(*part)
            return
        if any(isinstance(claim, VectorLeaf) for claim in certificate.layers):
            plain = certificate.kernel == "dot" and not certificate.dead_zones and certificate.samples is None
            require(plain, "several variables go with kernel 'dot' and a formula alone")
            agree_vector(network, certificate)
            return
        stored = read_one_layer(network)
        windows = {head.window is not None for head in stored.heads}
        require(windows == {certificate.kernel == "anchor"}, f"the heads do not run in kernel {certificate.kernel!r}")
        claim = _only_claim(certificate)
        holes = _domain(certificate, claim, stored)
        require(not holes or claim.rule == "taylor", f"no rule {claim.rule!r} with dead zones")
        layer_holds(stored, claim, list(_targets(certificate, claim, stored)), not stored.exact_query, holes)
        _composition(stored, certificate, claim)


def _ordinary(network: Network) -> None:
    """No map acts on blocks of tokens and every token asks: no rule but that for prompts knows of these."""
    linear = [network.embed, network.read, *(layer for layer in network.flat_layers if isinstance(layer, Linear))]
    blocks = any(isinstance(term.tokens, Block) for map in linear for term in map.terms)
    require(not blocks, "no rule for maps on blocks of tokens here")
    require(all(head.sees.asks == "all" for head in network.heads), "no rule for tokens that do not ask here")


def _targets(certificate: Certificate, claim: Leaf, stored: OneLayer) -> Iterator[Target]:
    """One for the whole domain, or one between each two samples, in order."""
    if certificate.samples is None:
        formula = parsed(certificate.formula, ("x",), "formula")
        expected = to_text(local_formula(formula, stored.centre, stored.scale, stored.mean))
        require(
            claim.formula == expected,
            f"the layer must compute {expected!r}, but the claim is {claim.formula!r}",
        )
        yield Target(parsed(claim.formula, ("s",), "the layer's formula"))
        return
    samples, name = certificate.samples, certificate.formula
    require(name.startswith(OPAQUE) and claim.formula == name, f"{name!r} is no name of a function given by samples")
    require(set(samples.assumptions()) <= set(certificate.assumptions), "the certificate hides an assumption")
    require(claim.rule == "taylor", f"no rule {claim.rule!r} for samples")
    check_samples(samples, float(certificate.domain.lo[0]), float(certificate.domain.hi[0]))
    for piece in pieces(samples, stored.centre, stored.scale, stored.mean):
        yield Target(piece.polynomial, piece.lo, piece.hi, piece)


def _identity(network: Network, certificate: Certificate) -> None:
    """The certificate is about this network, this dtype, a known kernel and the stated assumptions."""
    require(certificate.network == network_digest(network), "the certificate is about another network")
    require(certificate.dtype == network.dtype, f"certified for {certificate.dtype}, stored as {network.dtype}")
    require(certificate.dtype in UNIT, f"no rule for dtype {certificate.dtype}")
    require(certificate.kernel in KERNELS, f"no rule for kernel {certificate.kernel!r}")
    assumed = assumptions(certificate.dtype, certificate.kernel)
    require(set(assumed) <= set(certificate.assumptions), "the certificate hides an assumption")
    for terms in (certificate.terms, *(claim.terms for claim in certificate.layers)):
        for name, value in dataclasses.asdict(terms).items():
            _number(value, name)
    _number(certificate.bound, "bound")
    for claim in certificate.layers:
        for slope in np.atleast_1d(claim.lipschitz).tolist():
            _number(slope, "lipschitz")


def _number(value: float, name: str) -> None:
    valid = isinstance(value, float) and math.isfinite(value) and value >= 0
    require(valid, f"{name} = {value!r} is not a finite number at or above zero")


def _only_claim(certificate: Certificate) -> Leaf:
    require(len(certificate.layers) == 1, f"one layer's claim was expected, not {len(certificate.layers)}")
    claim = certificate.layers[0]
    require(isinstance(claim, Leaf) and claim.layer == 0, f"the claim is about layer {claim.layer}")
    assert isinstance(claim, Leaf)
    return claim


def _domain(certificate: Certificate, claim: Leaf, stored: OneLayer) -> list[Hole]:
    """The claim covers every query that an input of the domain can lead to; the queries that are left out."""
    lo, hi = certificate.domain.lo, certificate.domain.hi
    require(
        lo.shape == hi.shape == (1,) and bool(lo[0] < hi[0]),
        f"the domain {certificate.domain} is no interval",
    )
    holes = list(_holes(certificate, stored))
    covers(claim, stored, float(lo[0]), float(hi[0]), holes, certificate.dtype)
    return holes


def _holes(certificate: Certificate, stored: OneLayer) -> Iterator[tuple[Fraction, Fraction]]:
    """The certificate's dead zones as queries that no input outside them can lead to."""
    for zone in certificate.dead_zones:
        lo, hi = zone
        require(math.isfinite(lo) and math.isfinite(hi) and lo < hi, f"the dead zone {zone!r} is no interval")
    lo, hi = float(certificate.domain.lo[0]), float(certificate.domain.hi[0])
    reached = lo
    for start, end in sorted(certificate.dead_zones):
        reached = max(reached, end) if start <= reached else reached
    require(reached < hi, "the dead zones leave nothing of the domain")
    for lo, hi in certificate.dead_zones:
        yield reach(Fraction(lo), Fraction(hi), stored, certificate.dtype, outward=-1)


def _composition(stored: OneLayer, certificate: Certificate, claim: Leaf) -> None:
    """From the layer's query to the network's input: the query rounds once, adding up rounds a few times."""
    u, smallest = UNIT[certificate.dtype], SMALLEST[certificate.dtype]
    s = max(abs(claim.lo), abs(claim.hi))
    query = (u * s if stored.centre else arb(0)) + smallest
    # the start of the output and a token's own value take x as it is, while formula and scores take the rounded query
    moves = arb(claim.lipschitz) + abs(arb(stored.slope) / arb(stored.scale))
    moves += sum((abs(head.weight) * largest(abs(tilt) for tilt in head.tilts) for head in stored.heads), arb(0))
    slip = arb(0) if stored.exact_query else moves * query
    inner = claim.terms
    rounding = arb(inner.rounding) + slip + adding_up(stored, s, arb(inner.rounding), u, smallest)
    terms_hold(inner, rounding, certificate)
