"""Spectral versions of UA-5 to UA-7: one head for each output over all numbers of the sequence, in the infinity norm.

Ours, for up to three numbers: embed puts all tokens' features on one token; `approximate` designs and proves a head of
vector anchors for each output; the heads stand side by side in one layer.
"""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from weightwright.approximation.approximate import approximate
from weightwright.box import Box
from weightwright.certify import confirm
from weightwright.claims.certificate import VARIABLES, Certificate, Terms
from weightwright.claims.files import network_digest
from weightwright.expressions import Variable, substitute, to_text
from weightwright.network import Attention, Head, Linear, Network, Sees, Term
from weightwright.network.token_maps import pick
from weightwright.numbers import Floats
from weightwright.papers.claims.side_by_side_claim import SideBySideClaim, SideNetwork
from weightwright.papers.grids.certified import GridRequest
from weightwright.papers.grids.estimates import lp_norm, probes
from weightwright.papers.grids.grid_points import Grid, unflatten
from weightwright.papers.kit.constructed import About
from weightwright.papers.kit.named_stream import features
from weightwright.runtime import AttentionNetwork

NOTE = "ours: one layer of vector-anchor heads over the flattened sequence; formulas are in x, y, z, token by token"


def spectral(asked: GridRequest) -> AttentionNetwork:
    """Within tol in L_p, by a bound in the infinity norm: tol / (outputs (2B)^N)^(1/p) for every output.

    >>> from weightwright.papers.grids.grid_lookup import sequence_to_scalar
    >>> net = sequence_to_scalar("sin(x0)*x1", n=2, d=1, tol=1e-3, method="spectral")
    >>> net.certificate.status, net.certificate.norm, net.about.bounds["L1"] <= 1e-3
    ('PROVEN', inf, True)
    """
    N, target = asked.n * asked.d, asked.target
    if asked.tol is None:
        raise ValueError("method='spectral' takes tol; g, delta, p and beta are for method='faithful'")
    if len(VARIABLES) < N:
        raise ValueError(f"method='spectral' takes up to {len(VARIABLES)} numbers, not n d = {N}")
    if target.expressions is None:
        raise ValueError(f"method='spectral' needs a formula, and {target.formulas[0]} is none")
    everywhere = (len(target.formulas) * (2 * asked.B) ** N) ** (1 / asked.norm)
    box = Box([-asked.B] * N, [asked.B] * N)
    nets = []
    for formula in target.expressions:
        for old, new in zip(target.names, VARIABLES, strict=False):
            formula = substitute(formula, old, Variable(new))
        nets.append(approximate(to_text(formula), box, asked.tol / everywhere))
    network, certificate = side_by_side(nets, asked.n, asked.d, asked.sequence)
    certificate = confirm(network, certificate)
    net = AttentionNetwork(network, certificate)
    bound, grid = certificate.bound, Grid(asked.n, asked.d, 8, 0.25, asked.B)
    bounds = {"everywhere": bound, f"L{asked.norm:g}": bound * everywhere * (1 + 2.0**-50)}
    net.about = About(
        asked.id,
        "spectral",
        {"anchors": float(len(network.registers)), "heads": float(len(nets)), "B": asked.B, "norm": asked.norm},
        {},
        bounds,
        asked.reference,
        probes(grid),
        (NOTE,),
        lp_norm(target, grid, asked.norm)[0],
    )
    return net


def side_by_side(nets: list[AttentionNetwork], n: int, d: int, sequence: bool) -> tuple[Network, Certificate]:
    """One network of n tokens of d features out of networks of one token of n d features, and what it claims."""
    alone = [_renamed(net.network, k) for k, net in enumerate(nets)]
    certificates = [net.certificate for net in nets if net.certificate is not None]
    parts = tuple(
        SideNetwork(
            replace(certificate, network=network_digest(part)),
            len(part.embed.coordinates),
            len(part.registers),
            len(list(part.heads)),
        )
        for part, certificate in zip(alone, certificates, strict=True)
    )
    first = np.cumsum([0, *(part.width for part in parts)]).tolist()
    row = np.cumsum([0, *(part.registers for part in parts)]).tolist()
    D, names = first[-1], tuple(name for part in alone for name in part.embed.coordinates)
    A = np.concatenate([part.embed.terms[0].A for part in alone], axis=1)  # (n d, D)
    registers, read = np.zeros((row[-1], D)), np.zeros((D, len(parts)))
    for k, part in enumerate(alone):
        registers[row[k] : row[k + 1], first[k] : first[k + 1]] = part.registers
        read[first[k] : first[k + 1], k] = part.read.terms[0].A[:, 0]
    heads = tuple(_placed(head, first[k], row[k], D) for k, part in enumerate(alone) for head in part.heads)
    network = Network(
        inputs=features("x", d),
        embed=Linear(
            names,
            tuple(Term(A[i * d : (i + 1) * d], pick(i)) for i in range(n)),
            np.concatenate([part.embed.C for part in alone], axis=1),
        ),
        registers=registers,
        layers=(Attention(names, heads),),
        read=unflatten(read, n, d) if sequence else Linear(("f",), (Term(read),), np.zeros((1, 1))),
        tokens=n,
    )
    ends = certificates[0].domain
    said = certificates[0].formula if len(parts) == 1 else f"({', '.join(one.formula for one in certificates)})"
    largest = {name: max(asdict(one.terms)[name] for one in certificates) for name in asdict(certificates[0].terms)}
    whole = Certificate(
        SideBySideClaim(parts),
        said,
        Box(ends.lo.reshape(n, d), ends.hi.reshape(n, d)),
        network.dtype,
        "dot",
        max(one.bound for one in certificates),
        Terms(**largest),
        network_digest(network),
        tuple(dict.fromkeys(text for one in certificates for text in one.assumptions)),
    )
    return network, whole


def _renamed(network: Network, k: int) -> Network:
    """The same with coordinates that no other part has."""
    names = tuple(f"{name} of output {k}" for name in network.embed.coordinates)
    layer = network.layers[0]
    assert isinstance(layer, Attention)
    return replace(
        network,
        inputs=features("x", len(network.inputs)),
        embed=replace(network.embed, coordinates=names),
        layers=(replace(layer, coordinates=names),),
        read=replace(network.read, coordinates=("f",)),
    )


def _placed(head: Head, column: int, row: int, D: int) -> Head:
    """The head with its coordinates from `column` on, and its registers from `row` on."""
    start, stop = head.sees.registers

    def rows(W: Floats) -> Floats:
        return np.pad(W, ((column, D - column - len(W)), (0, 0)))

    sees = Sees((start + row, stop + row), head.sees.data)
    return replace(head, W_Q=rows(head.W_Q), W_K=rows(head.W_K), W_V=rows(head.W_V), W_O=rows(head.W_O.T).T, sees=sees)
