"""Networks of ridge functions that leave out dead zones, or speak of other tokens, in ways that were once PROVEN."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
from support.forging import about_composite, one_head, refused, with_values
from support.units import identity_unit

import weightwright as ww
from weightwright.claims.target import Composite
from weightwright.papers.claims.ridge_functions import RidgeFunctions, TokenModels

HALF_OPEN = ww.Box(np.array([-1.0]), np.array([1.0]))


def test_dead_zones_that_leave_nothing(tmp_path: Path) -> None:
    honest = ww.constructions.truncated_linear([[1.0, -1.0]], [0.1], -1.0, 1.0, (-1, 1), p=16)
    certificate = honest.certificate
    assert certificate is not None
    (part,) = certificate.claim.parts
    claim = dataclasses.replace(
        part.claim, boxes=np.array([[0.0, 0.0]]), terms=with_values(part.claim.terms, 0.0, 0.0, 1e-6)
    )
    part = dataclasses.replace(part, claim=claim, zones=np.array([[-100.0, 100.0]]))
    composite = dataclasses.replace(certificate.claim, parts=(part,))
    case = about_composite(honest.network, composite, certificate.domain, (0.0, 0.0, 1.1e-6), masked=True)
    refused(*case, tmp_path, "zones leave nothing")


def test_models_of_other_tokens(tmp_path: Path) -> None:
    honest = ww.constructions.truncated_linear([[1.0], [-1.0]], [0.1, 0.1], -1.0, 1.0, (-1, 1), p=16)
    certificate = honest.certificate
    assert certificate is not None
    models = TokenModels(("clip(x, -1, 1)",) * 2, np.array([[1.0, -1.0]]), np.array([0.1]))
    composite = dataclasses.replace(certificate.claim, target=models)
    terms = dataclasses.astuple(certificate.terms)
    refused(
        *about_composite(honest.network, composite, certificate.domain, terms, masked=True), tmp_path, "other tokens"
    )


def test_dead_zones_of_units_that_share_inputs(tmp_path: Path) -> None:
    """Each leaves something of the domain, both together nothing."""
    anchors, names = np.linspace(-1, 1, 65), ("s", "one", "kA", "oA", "vA", "kB", "oB", "vB", "out")
    parts, registers, heads = [], [], []
    for index, (first, zone) in enumerate(((2, (-1.5, 0.5)), (5, (-0.5, 1.5)))):
        wrong = np.where(anchors < 0.25 if index == 0 else anchors > -0.25, 100.0, anchors)
        part, rows, layer = identity_unit(names, wrong, first, zones=np.array([zone]))
        terms = dataclasses.replace(part.claim.terms, approximation=0.04)
        part = dataclasses.replace(part, claim=dataclasses.replace(part.claim, terms=terms))
        rows[:, 6 if index == 0 else 3] = -(2.0**20)
        registers.append(rows)
        heads += [
            dataclasses.replace(head, sees=dataclasses.replace(head.sees, registers=(65 * index, 65 * index + 65)))
            for head in layer.heads
        ]
        parts.append(part.at(0, [index], [index]))
    net = one_head(names, np.concatenate(registers), (dataclasses.replace(layer, heads=tuple(heads)),))
    arguments = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    ridge = RidgeFunctions(("x", "x"), arguments, np.zeros(2), np.array([[0.0, 1.0, 1.0]]), np.zeros(1))
    case = about_composite(net, Composite(ridge, tuple(parts)), HALF_OPEN, (0.081, 1e-9, 1e-6), masked=True)
    refused(*case, tmp_path, "models of single tokens")
