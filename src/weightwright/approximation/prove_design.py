"""From a design to a network with a certificate: prove, save, check the saved file.

Squares that are accurate also where they are small, for variances in few bits: `heads.graded_square`, proven.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np

from weightwright.approximation.task import SAMPLES, Task, make_task, well_formed
from weightwright.box import Box
from weightwright.checker.check import check
from weightwright.claims.certificate import Certificate, Claim, Leaf, assumptions, rounded_up
from weightwright.claims.files import network_digest, write
from weightwright.claims.graph import SQUARE
from weightwright.claims.leaf import OneLayerClaim, SampledClaim
from weightwright.errors import CertificateError, ToleranceError
from weightwright.expressions import to_text
from weightwright.heads.graded import graded_square
from weightwright.heads.one_sided import samples
from weightwright.heads.registers import Design, assemble
from weightwright.network import Network
from weightwright.numbers import FORMATS, SMALLEST, Floats
from weightwright.prover import Anchors, Sampled, Sum, first_edges, network_terms, prove, prove_nearest
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import DTYPES

#: The prover does not look for approximation errors below so much of the tolerance.
WORTHWHILE = 1e-6
_IN_A_BOX = 17  # samples, where the first boxes are not even

Rule = Literal["taylor", "nearest"]


def certified(
    task: Task, design: Design, rule: Rule, kinks: Floats, zones: Floats
) -> tuple[Network, Certificate] | None:
    """The network and an unchecked certificate, or None where the prover found no finite bound.

    kinks: where, in s, boxes should end. zones: (number, 2), the dead zones in x.
    """
    query = design.query or task.query
    lo, hi = query.reach(float(task.box.lo[0]), float(task.box.hi[0]), task.dtype)
    network = build(task, design)
    layer, local = design.layer(query), task.provable(design.mean, query)
    if rule == "nearest":
        assert not isinstance(local, Sampled)
        proof = prove_nearest(layer.heads[0], local, lo, hi, task.dtype)
    else:
        holes = _holes(task, zones)
        between = local.edges(lo, hi) if isinstance(local, Sampled) else kinks
        first = first_edges(layer, lo, hi) if design.edges is None else np.clip(design.edges, lo, hi)
        edges = np.unique(np.concatenate([first, [lo, hi], between, holes.ravel()]))
        edges = edges[(edges >= lo) & (edges <= hi)]
        s = np.union1d(np.linspace(lo, hi, SAMPLES), samples(lo, hi, kinks.tolist(), 60))
        if design.edges is not None:
            s = np.union1d(s, np.linspace(edges[:-1], edges[1:], _IN_A_BOX))
        s = s[~((s[:, None] > holes[:, 0]) & (s[:, None] < holes[:, 1])).any(axis=1)]
        measured = float(np.abs(evaluate(layer, s) - task.target(s, design.mean, query)).max())
        proof = prove(layer, local, edges, task.dtype, max(1.03 * measured, WORTHWHILE * task.tol), holes)
    lipschitz = 0.0 if query.exact else proof.lipschitz
    terms, bound = network_terms(
        proof.terms,
        lipschitz,
        layer,
        centre=query.centre,
        exact_query=query.exact,
        mean=design.mean,
        lo=lo,
        hi=hi,
        dtype=task.dtype,
    )
    if not math.isfinite(bound):
        return None
    kernel = "anchor" if layer.heads[0].window is not None else "dot"
    leaf = Leaf(
        0,
        task.text if isinstance(local, Sampled) else to_text(local),
        lo,
        hi,
        rule,
        proof.boxes,
        proof.terms,
        lipschitz,
    )
    claim: Claim = OneLayerClaim(leaf, tuple((float(lo), float(hi)) for lo, hi in zones))
    if task.samples is not None:
        claim = SampledClaim(leaf, task.samples)
    certificate = Certificate(
        claim,
        task.text,
        task.box,
        task.dtype,
        kernel,
        bound,
        terms,
        network_digest(network),
        assumptions(task.dtype, kernel) + (task.samples.assumptions() if task.samples is not None else ()),
    )
    return network, certificate


def build(task: Task, design: Design) -> Network:
    """The network of a design."""
    return assemble(design, design.query or task.query, task.text, task.dtype)


def _holes(task: Task, zones: Floats) -> Floats:
    """The queries that inputs inside the dead zones alone can lead to."""
    holes = (zones - task.query.centre) * task.query.scale
    if task.query.exact:
        return holes
    slip = 2.0 ** (2 - FORMATS[task.dtype].bits) * np.abs(holes) + 2 * SMALLEST[task.dtype]
    return holes + slip * np.array([1.0, -1.0])


def evaluate(layer: Sum, s: Floats) -> Floats:
    """The layer's output in plain floats."""

    def head(anchors: Anchors) -> Floats:
        scores = s[:, None] * anchors.slopes + anchors.offsets
        if anchors.window is not None:
            L = anchors.window.first + np.arange(len(anchors.slopes))
            scores = np.where(np.abs(L - np.rint(s)[:, None]) <= anchors.window.M, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        mixed: Floats = (weights * (anchors.values + s[:, None] * anchors.tilts)).sum(axis=1) / weights.sum(axis=1)
        return mixed

    return layer.slope * s + sum(anchors.weight * head(anchors) for anchors in layer.heads)


def checked(network: Network, certificate: Certificate) -> Certificate | None:
    """Saved to a file of its own and checked there; None if the checker does not agree."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.safetensors"
        write(path, network, certificate)
        try:
            return dataclasses.replace(certificate, status=check(path).status)
        except CertificateError:
            return None


def relative_square(reach: float, tol: float, dtype: str = "float32") -> AttentionNetwork:
    """x^2 within tol for |x| <= reach, with an error that falls with x^2 where x is small.

    Proven is tol alone; `heads.graded_square` says what is measured. Raises ToleranceError with the bound that there is
    if it is above tol. Keys: 70 in two heads.

    >>> import torch
    >>> net = relative_square(1.0, 1e-5)
    >>> net.certificate.status, abs(net(torch.tensor([[1e-3]])).item() - 1e-6) < 1e-11
    ('PROVEN', True)
    """
    well_formed(SQUARE, tol)
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(map(repr, DTYPES))}, not {dtype!r}")
    design = graded_square(reach, dtype)
    task = make_task(SQUARE, Box.of((-reach, reach)), tol, dtype, 0.0, False, None)
    attempt = certified(task, design, "taylor", np.zeros(0), np.zeros((0, 2)))
    bound = None if attempt is None else attempt[1].bound
    if attempt is None or bound is None or bound > tol:
        found = "no error bound could be proven" if bound is None else f"the bound is {rounded_up(bound)}"
        raise ToleranceError(f"{task.where}: tol={tol:g} cannot be proven by graded keys: {found}", best=bound)
    certificate = checked(*attempt)
    if certificate is None:
        raise ToleranceError(f"{task.where}: tol={tol:g} cannot be proven by graded keys: the checker disagrees")
    return AttentionNetwork(attempt[0], certificate)
