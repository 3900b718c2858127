"""The search for networks that run a rule in a loop: one pass, of which the first token's new state counts, or every
token's where each has its own."""

from __future__ import annotations

import dataclasses

from weightwright.adversary.sequences import search_sequences
from weightwright.adversary.worst import Worst
from weightwright.checker.composite.loop import about_beginning, about_one_pass, network_before, one_pass
from weightwright.claims.files import network_digest
from weightwright.claims.prompt import LoopClaim
from weightwright.network import Term
from weightwright.network.token_maps import pick
from weightwright.runtime import AttentionNetwork


def search_one_pass(net: AttentionNetwork, claim: LoopClaim, seconds: float, seed: int) -> Worst:
    """The worst input of one pass that can be found in about `seconds` seconds; where there are layers before the loop,
    they are searched as long, and the larger error counts."""
    assert net.certificate is not None
    if not claim.own:
        return search_sequences(first_token_of_one_pass(net, claim), claim.composite, seconds, seed, first=True)
    found = [(one_pass(net.network, claim), about_one_pass(net.certificate, claim), claim.composite)]
    if (beginning := claim.beginning) is not None:
        before, about = network_before(net.network, claim, beginning), about_beginning(net.certificate, beginning)
        found.append((before, about, beginning.composite))
    worst = []
    for network, about, composite in found:
        one = AttentionNetwork(network, dataclasses.replace(about, network=network_digest(network)))
        worst.append(search_sequences(one, composite, seconds / len(found), seed))
    return max(worst, key=lambda one: one.error)


def first_token_of_one_pass(net: AttentionNetwork, claim: LoopClaim) -> AttentionNetwork:
    """The network of one pass, (..., n, features + states) -> (..., 1, states)."""
    assert net.certificate is not None
    one = one_pass(net.network, claim)
    read = dataclasses.replace(one.read, terms=(Term(one.read.terms[0].A, pick(0)),))
    network = dataclasses.replace(one, read=read)
    said = dataclasses.replace(about_one_pass(net.certificate, claim), network=network_digest(network))
    return AttentionNetwork(network, said)
