"""The search for networks that run a rule in a loop: one pass, of which the first token's new state counts."""

from __future__ import annotations

import dataclasses

import numpy as np

from weightwright.adversary.sequences import search_sequences
from weightwright.adversary.worst import Worst
from weightwright.certificates.checker.loops import about_one_pass, one_pass
from weightwright.certificates.composites import Composite
from weightwright.certificates.loops import OnePass
from weightwright.network import Term
from weightwright.runtime import AttentionNetwork


def search_one_pass(net: AttentionNetwork, composite: Composite, claim: OnePass, seconds: float, seed: int) -> Worst:
    """The worst input of one pass that can be found in about so many seconds."""
    return search_sequences(first_token_of_one_pass(net, composite, claim), composite, seconds, seed, first=True)


def first_token_of_one_pass(net: AttentionNetwork, composite: Composite, claim: OnePass) -> AttentionNetwork:
    """The network of one pass, (..., n, features + states) -> (..., 1, states)."""
    assert net.certificate is not None
    one = one_pass(net.network, claim, composite)
    first = np.eye(1, one.tokens)
    read = dataclasses.replace(one.read, terms=(Term(one.read.terms[0].A, first),))
    return AttentionNetwork(dataclasses.replace(one, read=read), about_one_pass(net.certificate, composite))
