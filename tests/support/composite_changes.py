"""What tests change in certificates about several layers, and in their networks, whatever these compute."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from support.forging import Change, widened, with_composite, with_heads, with_one_layer

import weightwright as ww
from weightwright.claims.certificate import Terms
from weightwright.claims.leaf import Leaf
from weightwright.claims.target import UNREAD, Composite, TableClaim
from weightwright.prover.machine import assumptions

NAN, INF = math.nan, math.inf
NO_INTERVAL, MUST_COMPUTE = (
    "no interval|dead zones are about|not around a jump",
    "a part must compute|dead zones are about",
)
NO_RULE = "must be constant|no key leads|a head that no claim names"
#: A part of a layer that no network here has.
STRAY = TableClaim(
    9, (0,), 0, (0,), 0.0, 0.0, Leaf(9, "s", -1.0, 1.0, "taylor", np.array([[-1.0, 1.0]]), Terms(0.0, 0.0, 0.0), 1.0)
)


def of(c: Any) -> Composite:
    assert isinstance(c.claim, Composite)
    return c.claim


def with_parts(c: Any, **changes: Any) -> Any:
    return with_composite(c, parts=tuple(replace(part, **changes) for part in of(c).parts))


def with_claims(c: Any, **changes: Any) -> Any:
    return with_composite(c, parts=tuple(replace(part, claim=replace(part.claim, **changes)) for part in of(c).parts))


def with_terms(c: Any, **changes: float) -> Any:
    return with_composite(
        c,
        parts=tuple(
            replace(part, claim=replace(part.claim, terms=replace(part.claim.terms, **changes))) for part in of(c).parts
        ),
    )


def with_target(c: Any, **changes: Any) -> Any:
    return with_composite(c, target=replace(of(c).target, **changes))


#: Of every kind: what is changed in the certificate, and what the checker says.
WHOLE: dict[str, tuple[Change, str]] = {
    "a smaller bound": (lambda c: replace(c, bound=0.999 * c.bound), "the terms add up"),
    "no bound": (lambda c: replace(c, bound=0.0), "the terms add up"),
    "a negative bound": (lambda c: replace(c, bound=-1.0), "bound = -1.0 is not a finite number"),
    "an infinite bound": (lambda c: replace(c, bound=INF), "bound = inf is not a finite number"),
    "a bound that is no number": (lambda c: replace(c, bound=NAN), "bound = nan is not a finite number"),
    "no rounding": (lambda c: replace(c, terms=replace(c.terms, rounding=0.0)), "rounding: "),
    "rounding a hundredth": (
        lambda c: replace(c, terms=replace(c.terms, rounding=c.terms.rounding / 100)), "rounding: ",
    ),
    "negative rounding": (lambda c: replace(c, terms=replace(c.terms, rounding=-1.0)), "rounding = -1.0 is not"),
    "another formula": (lambda c: replace(c, formula=c.formula + " "), "the network computes"),
    "a domain ten times as large": (
        lambda c: widened(c, 10.0),
        "claimed|the claim covers|a gate hides its value by",
    ),
    "a domain of other shape": (lambda c: replace(c, domain=ww.Box([-1] * 7, [1] * 7)), "is no box of"),
    "another dtype": (
        lambda c: replace(c, dtype="float32" if c.dtype == "float64" else "float64"),
        "certified for float.., stored as float..",
    ),
    "another kernel": (
        lambda c: replace(c, kernel="anchor", assumptions=c.assumptions + assumptions("float64", "anchor")),
        "run in kernel 'dot'",
    ),
    "no assumptions": (lambda c: replace(c, assumptions=()), "hides an assumption"),
    "a dead zone of x": (lambda c: with_one_layer(c, STRAY.claim, ((-1.0, 1.0),)), "no rule covers"),
    "a claim about one layer": (lambda c: with_one_layer(c, STRAY.claim), "no rule covers"),
    "no claim at all": (lambda c: replace(c, claim=None), "no rule for a claim of type NoneType"),
    "a part of a layer that is not there": (
        lambda c: with_composite(c, parts=(STRAY,)),
        "claim|no rule|a part computes",
    ),
}  # fmt: skip


def gap(boxes: np.ndarray) -> np.ndarray:
    """The last box cut in two, with a hole between."""
    lo, hi = boxes[-1]
    return np.concatenate([boxes[:-1], [[lo, lo + 0.4 * (hi - lo)], [lo + 0.6 * (hi - lo), hi]]])


#: Of networks with parts.
PART: dict[str, tuple[Change, str]] = {
    "perfect heads": (lambda c: with_terms(c, approximation=0.0), "approximation on"),
    "heads a little better": (
        lambda c: with_terms(c, approximation=0.9 * of(c).parts[0].claim.terms.approximation), "approximation on",
    ),
    "heads that do not round": (lambda c: with_terms(c, rounding=0.0), "rounding on"),
    "heads with a negative error": (lambda c: with_terms(c, leakage=-1e-9), "a negative error"),
    "heads without a number": (lambda c: with_terms(c, rounding=NAN), "no finite number"),
    "heads with an infinite error": (lambda c: with_terms(c, rounding=INF), "no finite number"),
    "no slope": (lambda c: with_claims(c, lipschitz=0.0), "slope on"),
    "half the slope": (lambda c: with_claims(c, lipschitz=of(c).parts[-1].claim.lipschitz / 2), "slope on"),
    "an infinite slope": (lambda c: with_claims(c, lipschitz=INF), "no finite number"),
    "a later start": (lambda c: with_claims(c, lo=0.0), "the claim covers|cover"),
    "an earlier end": (lambda c: with_claims(c, hi=0.1), "the claim covers|cover"),
    "no range": (lambda c: with_claims(c, lo=NAN), "no finite number"),
    "a gap between boxes": (lambda c: with_claims(c, boxes=gap(of(c).parts[0].claim.boxes)), "no box covers"),
    "boxes turned round": (lambda c: with_claims(c, boxes=of(c).parts[0].claim.boxes[:, ::-1]), NO_INTERVAL),
    "boxes that are none": (lambda c: with_claims(c, boxes=np.zeros((0, 2))), "boxes of shape"),
    "boxes without numbers": (
        lambda c: with_claims(c, boxes=NAN * of(c).parts[0].claim.boxes), "a box is no interval",
    ),
    "boxes that end early": (
        lambda c: with_claims(c, boxes=np.minimum(of(c).parts[0].claim.boxes, 0.9 * of(c).parts[0].claim.hi)),
        "the boxes cover",
    ),
    "another rule": (lambda c: with_claims(c, rule="linear"), "no rule 'linear'"),
    "another formula of heads": (lambda c: with_claims(c, formula="s + 1"), MUST_COMPUTE),
    "a formula that is none": (lambda c: with_claims(c, formula="f("), MUST_COMPUTE),
    "another mean": (lambda c: with_parts(c, mean=of(c).parts[0].mean + 0.25), MUST_COMPUTE),
    "another slope of parts": (lambda c: with_parts(c, slope=of(c).parts[0].slope + 0.25), "."),
    "units that nobody reads": (
        lambda c: with_parts(c, units=(UNREAD,) * len(of(c).parts[0].units)), "one profile",
    ),
    "units that are not there": (lambda c: with_parts(c, units=(99,) * len(of(c).parts[0].units)), "a part computes"),
    "a unit too few": (lambda c: with_parts(c, units=of(c).parts[0].units[:-1]), "tokens of|computes"),
    "units of another kind": (lambda c: with_parts(c, units=(0.5,) * len(of(c).parts[0].units)), "TableClaim.units is"),
    "no heads": (lambda c: with_parts(c, heads=()), "a part of the heads"),
    "a head twice": (lambda c: with_parts(c, heads=of(c).parts[0].heads * 2), "claim the same head|of the heads"),
    "a head that is not there": (lambda c: with_parts(c, heads=(99,)), "a head that layer . lacks"),
    "a negative head": (lambda c: with_parts(c, heads=(-1,)), "a head that layer . lacks"),
    "another column": (lambda c: with_parts(c, column=1), "."),
    "another layer": (lambda c: with_parts(c, layer=1), "."),
    "no parts": (lambda c: with_composite(c, parts=()), NO_RULE),
    "the first part twice": (lambda c: with_composite(c, parts=(of(c).parts[0], *of(c).parts)), "the same head"),
    "a zone that is silent": (lambda c: with_parts(c, zones=np.array([[-0.5, 0.5]])), "hides a dead zone"),
    "a zone that is no interval": (lambda c: said(with_parts(c, zones=np.array([[0.5, -0.5]]))), NO_INTERVAL),
    "a zone without end": (lambda c: said(with_parts(c, zones=np.array([[0.0, INF]]))), NO_INTERVAL),
    "a zone that is a number": (lambda c: with_parts(c, zones=np.array([0.5])), "."),
}  # fmt: skip


def said(c: Any) -> Any:
    """With every zone among the assumptions."""
    return replace(c, assumptions=(*c.assumptions, *of(c).left_out))


#: Of every kind: other networks.
NETWORKS: dict[str, Callable[[Any], Any]] = {
    "a head twice": lambda n: with_heads(n, lambda heads: (*heads, heads[0])),
    "a softer head": lambda n: with_heads(n, lambda heads: (replace(heads[0], beta=heads[0].beta / 64), *heads[1:])),
    "a beta that is no power of two": lambda n: with_heads(n, lambda heads: (replace(heads[0], beta=3.0), *heads[1:])),
    "a head that sees itself": lambda n: with_heads(
        n, lambda heads: (replace(heads[0], sees=replace(heads[0].sees, data="self")), *heads[1:])
    ),
    "a head turned round": lambda n: with_heads(n, lambda heads: (replace(heads[0], W_O=-heads[0].W_O), *heads[1:])),
    "queries twice as long": lambda n: with_heads(
        n, lambda heads: (replace(heads[0], W_Q=2 * heads[0].W_Q), *heads[1:]), len(n.layers) - 1
    ),
    "the layer twice": lambda n: replace(n, layers=(*n.layers, n.layers[-1])),
    "twice the input": lambda n: replace(
        n, embed=replace(n.embed, terms=tuple(replace(term, A=2 * term.A) for term in n.embed.terms))
    ),
    "another position code": lambda n: replace(n, embed=replace(n.embed, C=n.embed.C + 2.0**-10)),
    "another result": lambda n: replace(n, read=replace(n.read, C=n.read.C + 2.0**-3)),
}
