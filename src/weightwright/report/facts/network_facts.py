"""Facts about networks and certificates as plain dictionaries; the keys are the fields' names."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weightwright.claims.certificate import Certificate, computed_in_words, zones_of
from weightwright.claims.scope import AS_TOLD, HENCE
from weightwright.network import Attention, FeedForward, Head, Layer, Linear, Loop, cost
from weightwright.report.facts.compiled import Facts, error_by_part, graph_facts

if TYPE_CHECKING:
    from weightwright.runtime import AttentionNetwork

#: What `approximate` repeats of a certificate.
_SAID = (
    *("name", "formula", "domain", "zones", "dtype", "kernel", "status", "why"),
    *("bound", "subject", "bound_is_about", "terms", "measured"),
)

#: What is repeated of an error that was measured.
_FOUND = ("error", "inputs", "how", "reason")


def certificate_facts(certificate: Certificate) -> Facts:
    """What a certificate says, and on how many boxes of which rules its proof stands."""
    proven, zones = _claims_a_bound(certificate), zones_of(certificate)
    return {
        "status": certificate.status,
        **({"why": certificate.why} if certificate.why else {}),
        **({"name": certificate.name} if certificate.name and certificate.vouched else {}),
        "formula": certificate.formula if certificate.vouched else computed_in_words(certificate),
        "domain": {"lo": certificate.domain.lo.tolist(), "hi": certificate.domain.hi.tolist()},
        **({"zones": [dataclasses.asdict(zone) for zone in zones]} if zones else {}),
        "dtype": certificate.dtype,
        "kernel": certificate.kernel,
        **({"norm": f"L_{certificate.norm:g}"} if math.isfinite(certificate.norm) else {}),
        "bound": certificate.bound if proven else None,
        **subject_facts(certificate),
        "terms": dataclasses.asdict(certificate.terms) if proven else None,
        **_measured(certificate),
        **_how(certificate),
        "assumptions": list(certificate.assumptions),
    }


def subject_facts(certificate: Certificate) -> Facts:
    """What the bound is about: for programs `certificate.subject`, for people a sentence."""
    if not _claims_a_bound(certificate):
        return {"subject": "nothing"}
    subject = certificate.subject
    outside = " outside the dead zones" if subject == "output" and zones_of(certificate) else ""
    return {"subject": subject, "bound_is_about": f"{certificate.claim.bounded}{HENCE[subject]}{outside}"}


def _claims_a_bound(certificate: Certificate) -> bool:
    return certificate.measured is None and certificate.status != "EDITED"


def _how(certificate: Certificate) -> Facts:
    """What the proof stands on: rules and boxes of the claims about heads, and what they are part of."""
    claim = certificate.against
    if claim is None:
        return {"boxes": 0, "rules": []}
    rules = {*(leaf.rule for leaf in claim.leaves), *claim.rules}
    return {**claim.facts, "boxes": sum(len(leaf.boxes) for leaf in claim.leaves), "rules": sorted(rules)}


def _measured(certificate: Certificate) -> Facts:
    found = certificate.measured
    if found is None:
        return {}
    told = {"told": AS_TOLD} if certificate.told else {}
    return {"measured": {**told, **{name: getattr(found, name) for name in _FOUND}}}


def approximation_facts(net: AttentionNetwork, tol: float, method: str, seconds: float) -> Facts:
    """What `approximate` returned, and what it costs to run."""
    said, costs = _said(net), cost(net.network)
    return {
        **{key: said[key] for key in _SAID if key in said},
        "tol": tol,
        "method": method,
        "anchors": costs.anchors,
        "heads": costs.heads,
        "beta": [head.beta for head in net.network.heads],
        "parameters": costs.parameters,
        "bytes": costs.bytes,
        "multiply_adds": costs.multiply_adds,
        "seconds": seconds,
        "assumptions": said["assumptions"],
    }


def network_facts(net: AttentionNetwork, check_with: str) -> Facts:
    """Everything in a file: the claims and the command that checks them, the structure in words, the cost."""
    network, said = net.network, _said(net)
    return {
        "status": said["status"],
        "check_with": check_with if net.certificate is not None and net.certificate.measured is None else None,
        **said,
        **error_by_part(net.certificate),
        **graph_facts(net.certificate),
        "inputs": list(network.inputs),
        "outputs": list(network.outputs),
        "coordinates": list(network.embed.coordinates),
        "registers": len(network.registers),
        "layers": [_layer(layer) for layer in network.layers],
        "cost": dataclasses.asdict(cost(network)),
        "native": network.native,
        "obstacles": list(network.obstacles),
    }


def value_facts(
    net: AttentionNetwork, x: Sequence[Any], y: Sequence[Any], excepted: Sequence[bool] = ()
) -> list[Facts]:
    """Inputs (a number, a list of several, or a list for each token) and outputs; the bound is None where none holds.

    excepted: the inputs about which nothing is claimed though they lie in the domain.
    """
    said = net.certificate

    def bound(values: Any) -> float | None:
        # a norm bounds no single input, one pass says nothing of several together, a memory nothing of what is new
        if said is None or said.subject != "output" or said.status == "EDITED":
            return None
        inside = bool((values >= said.domain.lo).all() and (values <= said.domain.hi).all())
        return said.bound if inside and not any(lo < values[0] < hi for lo, hi in said.dead_zones) else None

    none = [False] * len(x)
    return [
        {"x": a[0] if len(a) == 1 and not isinstance(a[0], list) else a, "y": b, "bound": None if left else bound(a)}
        for a, b, left in zip(x, y, excepted or none, strict=True)
    ]


def _said(net: AttentionNetwork) -> Facts:
    if net.certificate is not None:
        return certificate_facts(net.certificate)
    names = ("status", "name", "formula", "domain", "kernel", "bound", "subject", "terms", "boxes", "rules")
    return {**dict.fromkeys(names), "dtype": net.network.dtype, "assumptions": []}


def _layer(layer: Layer) -> Facts:
    facts: Facts = {"type": type(layer).__name__}
    if isinstance(layer, Attention):
        return facts | {"residual": layer.residual, "heads": [_head(head) for head in layer.heads]}
    if isinstance(layer, FeedForward):
        return facts | {"residual": layer.residual, "hidden": layer.W_1.shape[1]}
    if isinstance(layer, Loop):
        return facts | {"times": layer.times, "layers": [_layer(inner) for inner in layer.layers]}
    if isinstance(layer, Linear):
        return facts | {"coordinates": list(layer.coordinates)}
    return facts | {"beta": layer.beta, "over": layer.over}


def _head(head: Head) -> Facts:
    start, stop = head.sees.registers
    return {"role": head.role, "beta": head.beta, "anchors": stop - start, "data_tokens_seen": head.sees.data}
