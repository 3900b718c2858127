"""From a design to a network with a certificate: prove, save, check the saved file."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np

from weightwright.certificates.checker import check
from weightwright.certificates.claims import Certificate, LayerClaim, assumptions
from weightwright.certificates.files import network_digest, write
from weightwright.certificates.prover import Anchors, Sampled, Sum, first_edges, network_terms, prove, prove_nearest
from weightwright.certificates.prover.rounding import UNDERFLOW
from weightwright.compiler.task import SAMPLES, Task
from weightwright.errors import CertificateError
from weightwright.expressions import to_text
from weightwright.heads.assemble import Design, assemble
from weightwright.heads.one_sided import samples
from weightwright.network import Network
from weightwright.network.laws import PRECISION
from weightwright.network.layers import Floats

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
    claim = LayerClaim(
        0,
        task.text if isinstance(local, Sampled) else to_text(local),
        lo,
        hi,
        rule,
        proof.boxes,
        proof.terms,
        lipschitz,
    )
    certificate = Certificate(
        task.text,
        task.box,
        task.dtype,
        kernel,
        bound,
        terms,
        (claim,),
        network_digest(network),
        assumptions(task.dtype, kernel) + (task.samples.assumptions() if task.samples is not None else ()),
        dead_zones=tuple((float(lo), float(hi)) for lo, hi in zones),
        samples=task.samples,
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
    slip = 2.0 ** (2 - PRECISION[task.dtype][0]) * np.abs(holes) + 2 * UNDERFLOW[task.dtype]
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
