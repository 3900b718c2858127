"""That a graph of columns and the claims about it are well formed. Refuses (CertificateError) all else."""

from __future__ import annotations

import math

import numpy as np

from weightwright.checker.core.complaints import parse_or_refuse, require
from weightwright.claims.graph import (
    AFFINE,
    ATTENTION,
    INPUT,
    KINDS,
    MIX,
    PRODUCT,
    SOFTMAX,
    AttentionClaim,
    Graph,
    Node,
    SoftmaxClaim,
)
from weightwright.claims.target import IDENTITY, UNREAD, Composite
from weightwright.enclosures.balls.midrad import power_of_two
from weightwright.expressions import to_text
from weightwright.limits import tick

#: Balance and scale of a product lie between 1 / these and these: far from where their products stop being exact.
LARGEST_BALANCE, LARGEST_SCALE = 2.0**300, 2.0**100
#: Most parts of the domain that are looked at one by one.
MAX_CELLS = 4096


def well_formed(graph: Graph, composite: Composite, tokens: int | None, features: int) -> None:
    """The graph is about this number of tokens and features, and every claim names what there is."""
    require(isinstance(graph.name, str) and graph.tokens == tokens, f"the target is about {graph.tokens} tokens")
    for matrix in graph.matrices:
        fits = isinstance(matrix, np.ndarray) and matrix.dtype == np.float64 and matrix.shape == (tokens, tokens)
        require(fits and bool(np.isfinite(matrix).all()), "a matrix of the target does not fit its tokens")
    for place, node in enumerate(graph.nodes):
        _node(graph, node, place, features)
    require(len(graph.outputs) > 0, "the target has no outputs")
    require(all(_whole(m) and 0 <= m < len(graph.nodes) for m in graph.outputs), f"outputs {graph.outputs}")
    _claims(graph, composite)
    require(isinstance(composite.ablatable, bool), f"ablatable is {composite.ablatable!r}")
    if composite.ablatable:
        _nothing_beside_heads(composite)
    count = math.prod(composite.splits)
    whole = all(_whole(parts) and parts >= 1 for parts in composite.splits)
    require(whole and count <= MAX_CELLS, f"the domain cannot be looked at in {composite.splits} parts")
    require(len(composite.splits) in (0, (tokens or 1) * features), "splits go with the inputs of all tokens")


def _node(graph: Graph, node: Node, place: int, features: int) -> None:
    tick()
    what = f"column {place} ({node.op!r})"
    require(isinstance(node, Node) and isinstance(node.op, str), f"{what} is no column")
    require(all(_whole(c) and 0 <= c < place for c in node.of), f"{what} takes the columns {node.of[:8]}")
    require(node.constants.shape in ((1,), (graph.tokens,)), f"{what} has constants of another shape")
    require(bool(np.isfinite(node.constants).all() and np.isfinite(node.weights).all()), f"{what} is not finite")
    counts = {INPUT: 0, PRODUCT: 2, MIX: 1}
    if node.op in counts:
        require(len(node.of) == counts[node.op], f"{what} takes {len(node.of)} columns")
    if node.op == AFFINE:
        require(node.weights.shape == (len(node.of),), f"{what} has other weights than columns")
        return
    require(not node.weights.size and not node.constants.any(), f"{what} has weights or constants")
    limits = {INPUT: features, SOFTMAX: len(node.of), MIX: len(graph.matrices)}
    if node.op in limits:
        require(_whole(node.index) and 0 <= node.index < limits[node.op], f"{what} has the index {node.index!r}")
    if node.op == ATTENTION:
        _attention(graph, node, what)
    if node.op not in KINDS:
        require(len(node.of) == 1, f"{what} takes {len(node.of)} columns")
        require(to_text(parse_or_refuse(node.op, ("x",), what)) == node.op, f"{what} is not written in the usual way")


def _claims(graph: Graph, composite: Composite) -> None:
    K = len(graph.nodes)
    fused, products = [claim.node for claim in composite.fused], [claim.node for claim in composite.products]
    together = fused + products
    require(all(_whole(k) and 0 <= k < K for k in together), "a claim is about a column that is not there")
    require(len(set(together)) == len(together), "two claims are about the same column")
    for claim in composite.fused:
        require(_whole(claim.base) and 0 <= claim.base < claim.node, f"column {claim.node} is based on {claim.base!r}")
    for product in composite.products:
        what = f"the product {product.node}"
        require(graph.nodes[product.node].op == PRODUCT, f"{what} is none")
        numbers = (product.balance, product.scale, product.x, product.y)
        require(all(isinstance(x, float) and math.isfinite(x) for x in numbers), f"{what} has numbers {numbers}")
        for name, number, most in (
            ("balance", product.balance, LARGEST_BALANCE),
            ("scale", product.scale, LARGEST_SCALE),
        ):
            fits = 1 / most <= number <= most and bool(power_of_two(np.array(number)))
            require(
                fits, f"{what}: the {name} must be a power of two between {1 / most!r} and {most!r}, not {number!r}"
            )
        require(_whole(product.lemma) and product.lemma in (-1, 0, 1), f"{what} has the lemma {product.lemma!r}")
    for softmax in composite.softmaxes:
        _softmax(graph, softmax.nodes)
    for nodes in (attention.nodes for attention in composite.attentions):
        require(len(nodes) > 0 and all(_whole(k) and 0 <= k < K for k in nodes), f"attention that computes {nodes}")
        first = graph.nodes[nodes[0]]
        same = all(graph.nodes[k].of[:-1] == first.of[:-1] and graph.nodes[k].index == first.index for k in nodes)
        kinds = all(graph.nodes[k].op == ATTENTION for k in nodes)
        require(kinds and same, f"the columns {nodes} are no values of one attention")


def _nothing_beside_heads(composite: Composite) -> None:
    """A head that returns 0 is what it computes being 0: nothing of that stands elsewhere."""
    for part in composite.parts:
        alone = part.mean == 0 and part.slope == 0 and len(part.heads) == 1 and IDENTITY not in part.units
        alone = alone and not len(part.zones)
        require(alone, f"ablatable: something stands beside the heads {part.heads} of layer {part.layer}")
    for product in composite.products:
        alone = product.x == 0 and product.y == 0 and product.lemma == -1
        require(alone, f"ablatable: something stands beside the product {product.node}, or the lemma is used")
    require(not composite.fused and not composite.gates, "ablatable: chains and gates have no rule")
    _one_head_for_each(composite)


def _one_head_for_each(composite: Composite) -> None:
    """A unit that two heads compute would be there in part when one of them returns 0."""
    computed = [(unit, part.layer, part.heads) for part in composite.parts for unit in part.units if unit != UNREAD]
    entire: tuple[SoftmaxClaim | AttentionClaim, ...] = (*composite.softmaxes, *composite.attentions)
    named = [(node, claim.layer, (claim.head,)) for claim in entire for node in claim.nodes if node != -1]
    for claims in (computed, named):
        makers = dict[int, tuple[int, tuple[int, ...]]]()
        for what, layer, heads in claims:
            alone = makers.setdefault(what, (layer, heads)) == (layer, heads)
            require(alone, f"ablatable: the heads {heads} of layer {layer} compute what another head computes too")


def _attention(graph: Graph, node: Node, what: str) -> None:
    """As many queries as keys, and a value; every token sees some token."""
    require(len(node.of) % 2 == 1 and len(node.of) >= 3, f"{what} takes {len(node.of)} columns")
    require(_whole(node.index) and -1 <= node.index < len(graph.matrices), f"{what} has the index {node.index!r}")
    require(graph.tokens is not None, f"{what} is about a fixed number of tokens")
    if node.index >= 0:
        seen = graph.matrices[node.index]
        fits = bool(((seen == 0) | (seen == 1)).all() and seen.any(axis=1).all())
        require(fits, f"{what}: what tokens see is no matrix of 0 and 1 with a 1 in every row")


def _softmax(graph: Graph, nodes: tuple[int, ...]) -> None:
    """All the entries of one softmax, in their order; -1 where no column needs one."""
    known = [k for k in nodes if k != -1]
    require(len(known) > 0 and all(_whole(k) and 0 <= k < len(graph.nodes) for k in known), f"a softmax of {nodes}")
    first = graph.nodes[known[0]]
    for index, k in enumerate(nodes):
        if k == -1:
            continue
        node = graph.nodes[k]
        fits = node.op == SOFTMAX and node.of == first.of and node.index == index and len(node.of) == len(nodes)
        require(fits, f"column {k} is not entry {index} of the softmax")


def _whole(x: object) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)
