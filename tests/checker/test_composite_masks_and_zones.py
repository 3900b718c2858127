"""Networks of several layers that hide keys by masks, or leave out dead zones, in ways that were once PROVEN."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

import numpy as np
from support.forging import about_composite, affine, named, one_head, proven, refused
from support.networks import attending
from support.units import identity_unit

import weightwright as ww
from weightwright.claims.target import IDENTITY

HALF_OPEN = ww.Box(np.array([-1.0]), np.array([1.0]))


def moved(
    names: tuple[str, ...],
    query: str | tuple[str, str],
    key: str,
    value: str,
    to: str,
    registers: tuple[int, int] = (0, 0),
    data: Literal["none", "earlier", "all"] = "all",
    mask: np.ndarray | None = None,
) -> Any:
    """A layer of one head that adds a coordinate of what is seen to another; a query of two is their sum."""
    W_Q = named(names, **dict.fromkeys((query,) if isinstance(query, str) else query, 1.0))
    W_O = np.eye(len(names))[[names.index(to)]]
    W_K, W_V = named(names, **{key: 1}), named(names, **{value: 1})
    return attending(names, W_Q, W_K, W_V, W_O, registers=registers, data=data, mask=mask)


def test_dead_zones_of_what_is_no_unit(tmp_path: Path) -> None:
    anchors = np.linspace(-1, 1, 65)
    wrong = np.where(np.abs(anchors) < 0.4, 100.0, anchors)
    names = ("s", "one", "key", "offset", "value", "out")
    part, registers, layer = identity_unit(names, wrong, zones=np.array([[-0.99, 0.99]]))
    net = one_head(names, registers, (layer,))
    terms = dataclasses.replace(part.claim.terms, approximation=0.02)
    part = dataclasses.replace(part, claim=dataclasses.replace(part.claim, terms=terms))
    composite = dataclasses.replace(affine([[1.0]]), parts=(part.at(0, [0], [IDENTITY]),))
    refused(*about_composite(net, composite, HALF_OPEN, (0.021, 1e-9, 1e-6)), tmp_path, "zones")


def test_a_register_that_does_not_see_the_silent_one_behind_it() -> None:
    names = ("x", "one", "c", "k", "v", "out")
    registers = np.zeros((2, 6))
    registers[0, 4], registers[1, 3], registers[:, 1] = 7.0, 2000.0, 1.0
    first = moved(names, "one", "k", "v", "c", (0, 2), "none")
    second = moved(names, "one", "one", "c", "out", (0, 1), "none")
    net = one_head(names, registers, (first, second))
    assert not net.native


def test_a_mask_is_said(tmp_path: Path) -> None:
    names = ("x", "one", "out")
    layer = moved(names, "one", "one", "x", "out", mask=np.eye(2, dtype=bool))
    net = one_head(names, np.zeros((0, 3)), (layer,), tokens=2)
    refused(*about_composite(net, affine(np.eye(2)), HALF_OPEN, (0.0, 1e-300, 1e-12)), tmp_path, "masked")


def test_a_token_does_not_see_those_after_it(tmp_path: Path) -> None:
    """A mean of all tokens, and a sum over those before: neither is the other."""
    names = ("x", "one", "out")

    def mean(sees: Literal["earlier", "all"]) -> Any:
        return one_head(names, np.zeros((0, 3)), (moved(names, "one", "one", "x", "out", data=sees),), tokens=2)

    of_all, of_earlier = affine(np.full((2, 2), 0.5)), affine(np.array([[1.0, 0.0], [0.5, 0.5]]))
    for sees, right, wrong in (("all", of_all, of_earlier), ("earlier", of_earlier, of_all)):
        terms = (0.0, 1e-300 if sees == "all" else 4.0, 1e-12)  # a plain Transformer would need a causal mask
        proven(*about_composite(mean(sees), right, HALF_OPEN, terms), tmp_path)
        refused(*about_composite(mean(sees), wrong, HALF_OPEN, terms), tmp_path, "rounding")


def test_registers_that_a_plain_transformer_has_written(tmp_path: Path) -> None:
    names = ("x", "one", "reg", "k", "v", "c", "out")
    registers = np.zeros((2, 7))
    registers[0, 3], registers[0, 4], registers[:, 2] = -1000.0, 1e6, -2.0
    first = moved(names, ("one", "reg"), "k", "v", "c", (0, 2), "none")
    second = moved(names, "one", "reg", "c", "out", (0, 0), "all")
    net = one_head(names, registers, (first, second))
    refused(*about_composite(net, affine([[0.0]]), HALF_OPEN, (0.0, 1e-12, 1e-12)), tmp_path, "masked")
