"""Networks that run a rule in a loop: the network of one pass is taken out of the loop, and checked like any other.

That the next pass begins as the first did is read off the weights: examples and state are kept in coordinates that no
head writes to, the new state of the first token is copied to all, and the embedding is run again, bit by bit the same.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from weightwright.checker.composite.walk import agree_composite
from weightwright.checker.core.complaints import must, require
from weightwright.claims.certificate import Certificate
from weightwright.claims.graph import Graph
from weightwright.claims.prompt import STATES, LoopClaim, loop_in_words
from weightwright.claims.target import composite_in_words
from weightwright.network import Attention, Layer, Linear, Loop, Network, Term
from weightwright.network.token_maps import copy
from weightwright.numbers import Floats


def agree_loop(network: Network, certificate: Certificate, claim: LoopClaim) -> None:
    """Refuse (CertificateError) unless one pass, from any input of the domain, is within the bound of its target."""
    said = loop_in_words(claim)
    require(certificate.formula == said, f"the bound is about {said!r}, and the certificate says otherwise")
    require(STATES in certificate.assumptions, "the certificate hides that states must stay in the domain")
    # the first token's new state is what the next pass begins with: nothing else is read
    agree_composite(one_pass(network, claim), about_one_pass(certificate, claim), claim.composite, first=True)


def about_one_pass(certificate: Certificate, claim: LoopClaim) -> Certificate:
    """The same certificate about the network of one pass."""
    return dataclasses.replace(certificate, claim=claim.composite, formula=composite_in_words(claim.composite))


def one_pass(network: Network, claim: LoopClaim) -> Network:
    """The network of one pass, from examples and state to the new state on every token.

    Refuses (CertificateError) where what is run is not that network, again and again, with its own results.
    """
    e, s = claim.features, claim.states
    sizes = all(isinstance(size, int) and not isinstance(size, bool) and size >= 1 for size in (e, s))
    require(sizes and len(network.inputs) == e + s, f"inputs are {e!r} features and {s!r} states by claim")
    graph = claim.composite.target
    require(isinstance(graph, Graph) and len(graph.outputs) == s, f"the target of one pass has {s} outputs")
    must(network.tokens is not None, "the number of tokens must be fixed")
    only = network.layers[0] if len(network.layers) == 1 else None
    must(isinstance(only, Loop) and len(only.layers) >= 2, "the layers are not one loop that embeds again")
    assert isinstance(only, Loop)
    *body, gather, again = only.layers
    for layer in body:
        must(isinstance(layer, Attention) and layer.residual, "a pass has residual attention layers, and no others")
    must(_same(again, network.embed), "the loop does not embed again as the network does")
    kept = _kept(network, body)
    new = _gathers(gather, network, kept, e)
    picked = _picked(network.read.terms[0].A) if _one_plain_term(network.read) else None
    right = picked is not None and all(place in kept[e + j] for j, place in enumerate(picked))
    must(right and not network.read.C.any(), "what is read is not the state that the last pass ended with")
    names, width = network.read.coordinates, len(network.embed.coordinates)
    read = Linear(names, (Term(np.eye(width)[:, new]),), np.zeros((1, s)))
    return dataclasses.replace(network, layers=tuple(body), read=read)


def _kept(network: Network, body: list[Layer]) -> list[set[int]]:
    """For every input the coordinates that hold it exactly, before and after every layer of a pass."""
    embed = network.embed
    must(_one_plain_term(embed), "the embedding is no map of every token by itself")
    A = embed.terms[0].A
    written = np.zeros(len(embed.coordinates), dtype=bool)
    for layer in body:
        assert isinstance(layer, Attention)
        for head in layer.heads:
            written |= head.W_O.any(axis=0)
    free = ((A != 0).sum(axis=0) == 1) & ~embed.C.any(axis=0) & ~written
    return [set(np.flatnonzero(free & (row == 1)).tolist()) for row in A]


def _gathers(gather: Layer, network: Network, kept: list[set[int]], e: int) -> list[int]:
    """The coordinates of the new state, if the examples stay and the first token's state goes to all tokens."""
    right = isinstance(gather, Linear) and gather.coordinates == network.inputs and len(gather.terms) == 2
    must(right, "a pass does not end with a map to the inputs of the next")
    assert isinstance(gather, Linear)
    assert network.tokens is not None
    must(not gather.C.any(), "a pass ends with a map that adds constants")
    examples, state = gather.terms
    stays = _picked(examples.A[:, :e]) if _plain(examples) and not examples.A[:, e:].any() else None
    must(stays is not None and all(place in kept[c] for c, place in enumerate(stays)), "the examples change")
    copies = state.S is None and state.tokens == copy(network.tokens)
    must(copies, "the state of the first token is not copied to all tokens")
    new = _picked(state.A[:, e:]) if not state.A[:, :e].any() else None
    must(new is not None, "a new state is no coordinate of the stream")
    assert new is not None
    return new


def _picked(A: Floats) -> list[int] | None:
    """The rows that the columns pick, if each is 1 in one row and 0 in the others."""
    if not bool(((A == 0) | (A == 1)).all() and (A.sum(axis=0) == 1).all()):
        return None
    return [int(row) for row in A.argmax(axis=0)]


def _plain(term: Term) -> bool:
    return term.tokens is None and term.S is None


def _one_plain_term(map: Linear) -> bool:
    return len(map.terms) == 1 and _plain(map.terms[0])


def _same(layer: Layer, embed: Linear) -> bool:
    """Bit by bit, but for the sign of a 0."""
    return (
        isinstance(layer, Linear)
        and layer.coordinates == embed.coordinates
        and _one_plain_term(layer)
        and _one_plain_term(embed)
        and np.array_equal(layer.terms[0].A, embed.terms[0].A)
        and np.array_equal(layer.C, embed.C)
    )
