"""Networks that run a rule in a loop: the network of one pass is taken out of the loop, and checked like any other; so
are the layers before the loop, where there are any.

That the next pass begins as the first did is read off the weights: features and state are kept in coordinates that no
head writes to, the new state of the first token is copied to all, or every token keeps its own, and the embedding is
run again, bit by bit the same.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from weightwright.checker.composite.walk import agree_composite
from weightwright.checker.core.complaints import must, require
from weightwright.claims.certificate import Certificate
from weightwright.claims.graph import Graph
from weightwright.claims.prompt import Beginning, LoopClaim
from weightwright.claims.target import Composite
from weightwright.network import Attention, Layer, Linear, Loop, Network, Term
from weightwright.network.token_maps import copy
from weightwright.numbers import Floats


def agree_loop(network: Network, certificate: Certificate, claim: LoopClaim) -> None:
    """Refuse (CertificateError) unless one pass, from any input of its domain, is within the bound of its target, and
    so is what the loop begins with."""
    require(
        set(claim.watched) <= set(certificate.assumptions), "the certificate hides that states must stay in the domain"
    )
    # where the first token's new state is what the next pass begins with, nothing else is read
    one, about = one_pass(network, claim), about_one_pass(certificate, claim)
    zones = agree_composite(one, about, claim.composite, not claim.own)
    require(not zones, "a loop has no dead zones: nobody could keep its states out of them")
    if claim.beginning is not None:
        before = network_before(network, claim, claim.beginning)
        zones = agree_composite(before, about_beginning(certificate, claim.beginning), claim.beginning.composite)
        require(not zones, "what a loop begins with has no dead zones")
    said = claim.in_words()
    require(certificate.formula == said, f"the bound is about {said!r}, and the certificate says otherwise")


def about_one_pass(certificate: Certificate, claim: LoopClaim) -> Certificate:
    """The same certificate about the network of one pass."""
    domain = certificate.domain if claim.beginning is None else claim.beginning.domain
    return dataclasses.replace(_about(certificate, claim.composite), domain=domain)


def about_beginning(certificate: Certificate, beginning: Beginning) -> Certificate:
    """The same certificate about the layers before the loop."""
    return _about(certificate, beginning.composite)


def _about(certificate: Certificate, composite: Composite) -> Certificate:
    return dataclasses.replace(certificate, claim=composite, formula=composite.in_words())


def network_before(network: Network, claim: LoopClaim, beginning: Beginning) -> Network:
    """The network of the layers before the loop, from the prompt to what the first pass begins with."""
    size, graph = claim.features + claim.states, beginning.composite.target
    require(isinstance(graph, Graph) and len(graph.outputs) == size, f"a loop begins with {size} numbers of a token")
    *before, entering, _, _ = network.layers  # as `one_pass` has seen
    assert isinstance(entering, Linear)
    return dataclasses.replace(network, layers=tuple(before), read=entering)


def one_pass(network: Network, claim: LoopClaim) -> Network:
    """The network of one pass, from features and state to the new state on every token.

    Refuses (CertificateError) where what is run is not that network, again and again, with its own results.
    """
    e, s = claim.features, claim.states
    sizes = all(isinstance(size, int) and not isinstance(size, bool) and size >= 1 for size in (e, s))
    fits = sizes and (claim.beginning is not None or len(network.inputs) == e + s)
    require(fits, f"inputs are {e!r} features and {s!r} states by claim")
    inputs, embed, loop = _parts(network, claim)
    require(len(inputs) == e + s, f"a pass begins with {e!r} features and {s!r} states by claim")
    graph = claim.composite.target
    require(isinstance(graph, Graph) and len(graph.outputs) == s, f"the target of one pass has {s} outputs")
    assert isinstance(graph, Graph)
    must(network.tokens is not None, "the number of tokens must be fixed")
    *body, gather, again = loop.layers
    for layer in body:
        must(isinstance(layer, Attention) and layer.residual, "a pass has residual attention layers, and no others")
    must(_same(again, embed), "the loop does not embed again as the network does")
    kept = _kept(embed, body)
    new = _gathers(gather, network, inputs, kept, claim)
    picked = _picked(network.read.terms[0].A) if _one_plain_term(network.read) else None
    right = picked is not None and 1 <= len(picked) <= s and not network.read.C.any()
    last = e + s - len(picked or ())
    right = right and all(place in kept[last + j] for j, place in enumerate(picked or ()))
    must(right, "what is read is not the state that the last pass ended with")
    names, width = tuple(f"new {name}" for name in inputs[e:]), len(embed.coordinates)
    read = Linear(names, (Term(np.eye(width)[:, new]),), np.zeros((1, s)))
    alone = graph.tokens is None and not embed.knows_positions  # every token by itself: one stands for all
    tokens = None if alone else network.tokens
    return dataclasses.replace(network, inputs=inputs, embed=embed, layers=tuple(body), read=read, tokens=tokens)


def _parts(network: Network, claim: LoopClaim) -> tuple[tuple[str, ...], Linear, Loop]:
    """(what a pass begins with, by name; the embedding of a pass; the loop)"""
    *before, only = network.layers or (None,)
    right = isinstance(only, Loop) and len(only.layers) >= 2 and (claim.beginning is not None or not before)
    must(right, "the layers are not one loop that embeds again")
    assert isinstance(only, Loop)
    if claim.beginning is None:
        return network.inputs, network.embed, only
    entering, embed = before[-2:] if len(before) >= 2 else (None, None)
    linear = isinstance(entering, Linear) and isinstance(embed, Linear)
    must(linear, "before the loop there is no map to what a pass begins with, and its embedding")
    assert isinstance(entering, Linear)
    assert isinstance(embed, Linear)
    must(embed.coordinates == network.embed.coordinates, "a pass has other coordinates than the registers")
    return entering.coordinates, embed, only


def _kept(embed: Linear, body: list[Layer]) -> list[set[int]]:
    """For every input of a pass the coordinates that hold it exactly, before and after every layer."""
    must(_one_plain_term(embed), "the embedding is no map of every token by itself")
    A = embed.terms[0].A
    written = np.zeros(len(embed.coordinates), dtype=bool)
    for layer in body:
        assert isinstance(layer, Attention)
        for head in layer.heads:
            written |= head.W_O.any(axis=0)
    free = ((A != 0).sum(axis=0) == 1) & ~embed.C.any(axis=0) & ~written
    return [set(np.flatnonzero(free & (row == 1)).tolist()) for row in A]


def _gathers(
    gather: Layer, network: Network, inputs: tuple[str, ...], kept: list[set[int]], claim: LoopClaim
) -> list[int]:
    """The coordinates of the new state, if the examples stay and the first token's state goes to all tokens, or every
    token's own to itself."""
    right = isinstance(gather, Linear) and gather.coordinates == inputs and len(gather.terms) == 2
    must(right, "a pass does not end with a map to the inputs of the next")
    assert isinstance(gather, Linear)
    assert network.tokens is not None
    e = claim.features
    must(not gather.C.any(), "a pass ends with a map that adds constants")
    examples, state = gather.terms
    stays = _picked(examples.A[:, :e]) if _plain(examples) and not examples.A[:, e:].any() else None
    must(stays is not None and all(place in kept[c] for c, place in enumerate(stays)), "the examples change")
    goes = None if claim.own else copy(network.tokens)
    whose = (
        "state of every token is not its own" if claim.own else "state of the first token is not copied to all tokens"
    )
    must(state.S is None and state.tokens == goes, f"the {whose}")
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
