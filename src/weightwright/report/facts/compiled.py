"""Facts about what the compiler made: the graph of columns, where the error comes from, what the stages cost."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any

from weightwright.claims.certificate import Certificate
from weightwright.claims.graph import KINDS, SQUARE, Graph
from weightwright.claims.target import IDENTITY, UNREAD, Composite, TableClaim

if TYPE_CHECKING:
    from weightwright.runtime import AttentionNetwork

Facts = dict[str, Any]

#: Kinds of column that are told apart; the rest is only counted.
MOST_KINDS = 12
#: Formulas longer than this are told by where they stand.
SHORT = 60


def graph_facts(certificate: Certificate | None) -> Facts:
    """What a compiled network computes: how many columns of which kind; nothing for other networks."""
    graph = _graph(certificate)
    if graph is None:
        return {}
    assert certificate is not None
    assert certificate.composite is not None
    counts = Counter(node.op if len(node.op) <= SHORT else "longer formulas" for node in graph.nodes)
    common = counts.most_common(MOST_KINDS)
    rest = sum(counts.values()) - sum(count for _, count in common)
    composite = certificate.composite
    built = {
        "chains_in_one_head": len(composite.fused),
        "products_by_squares": len(composite.products),
        "softmax_heads": len(composite.softmaxes),
    }
    return {
        "graph": {
            "name": graph.name,
            "columns": len(graph.nodes),
            "columns_by_kind": dict(common) | ({"of other kinds": rest} if rest else {}),
            "inputs": counts["input"],
            "outputs": len(graph.outputs),
            "tokens": "any number" if graph.tokens is None else graph.tokens,
            **{what: count for what, count in built.items() if count},
        }
    }


def error_by_part(certificate: Certificate | None) -> Facts:
    """The claims about heads, equal ones together, the largest error first; nothing where there are none.

    Each is in the units of what the heads compute, not of the network's output.
    """
    composite = None if certificate is None else certificate.composite
    if composite is None or not composite.parts:
        return {}
    groups: dict[tuple[str, Any, int], int] = {}
    for part in composite.parts:
        key = computed_by(composite, part), part.claim.terms, len(part.heads)
        groups[key] = groups.get(key, 0) + 1
    found = [
        {"computes": what, "groups": count, "heads": heads, "terms": dataclasses.asdict(terms)}
        for (what, terms, heads), count in groups.items()
    ]
    return {"error_by_part": sorted(found, key=lambda part: -sum(part["terms"].values()))}


def computed_by(composite: Composite, part: TableClaim) -> str:
    """The function that a part computes, in words."""
    unit = next((unit for unit in part.units if unit != UNREAD), UNREAD)
    if unit in (IDENTITY, UNREAD):
        return "x"
    target = composite.target
    if not isinstance(target, Graph):
        return target.profile(unit)
    column = unit // (target.tokens or 1)
    if column >= len(target.nodes):
        return f"{SQUARE}, for products"
    node = target.nodes[column]
    fused = any(one.node == column for one in composite.fused)
    if node.op in KINDS or fused or len(node.op) > SHORT:
        return f"a chain that ends in {node.label or node.op}"
    return node.op


def compilation_facts(net: AttentionNetwork, said: Facts, tol: float, seconds: float) -> Facts:
    """What `compile` returned, and what it costs to run. said: the certificate's facts."""
    costs, about = net.cost, net.about
    graph = _graph(net.certificate)
    stages = ("compile_seconds", "proof_seconds")
    times = {name: getattr(about, name) for name in stages if hasattr(about, name)} or {"seconds": seconds}
    names = (
        *("name", "formula", "domain", "zones", "dtype", "kernel", "status", "why"),
        *("bound", "subject", "bound_is_about", "terms", "measured"),
    )
    return {
        **{key: said[key] for key in names if key in said},
        "tol": tol,
        **({"columns": len(graph.nodes)} if graph is not None else {}),
        "layers": costs.layers,
        "heads": costs.heads,
        "registers": len(net.network.registers),
        "parameters": costs.parameters,
        "bytes": costs.bytes,
        "multiply_adds": costs.multiply_adds,
        "native": net.network.native,
        **times,
        "assumptions": said["assumptions"],
    }


def _graph(certificate: Certificate | None) -> Graph | None:
    target = None if certificate is None or certificate.composite is None else certificate.composite.target
    return target if isinstance(target, Graph) else None
