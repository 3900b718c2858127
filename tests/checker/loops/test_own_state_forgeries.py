"""Networks whose tokens each run a rule of their own, after layers that begin it: what is not that is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.forging import altered, nudged, proven, refused, scaled, widened, with_claim, with_entry, without
from support.networks import linear

import weightwright as ww
from weightwright.claims.kinds import MASKED
from weightwright.claims.prompt import ENTERING, STATES
from weightwright.network import Gather

#: Features of a pass: A, b and x; states: w and the prediction.
E, S, TOKENS = 3, 2, 4
PROMPT = torch.tensor([[0.5, 0.0], [0.0, 0.75], [-1.0, 0.0], [0.0, 0.25]], dtype=torch.float64)


@cache
def right() -> ww.AttentionNetwork:
    return ww.incontext.causal_learner(1, 2, 2, step=0.5, ridge=0.25, domain=(1.0, 1.0, 2.0), tol=1e-6).net


def said() -> Any:
    found = right().certificate
    assert found is not None
    return found


def claim() -> Any:
    found = said().claim
    return found


LAYERS = 6  # a shift, products, sums; then two maps and the loop
ENTERS, EMBEDS, LOOP = LAYERS - 3, LAYERS - 2, LAYERS - 1


def with_part(*path: Any, change: Callable[[Any], Any]) -> Any:
    return altered(right().network, path, change)


def with_loop(*path: Any, change: Callable[[Any], Any]) -> Any:
    return with_part("layers", LOOP, "layers", *path, change=change)


def in_loop() -> int:
    loop = right().network.layers[LOOP]
    return len(loop.layers)


def place(name: str) -> int:
    return right().network.embed.coordinates.index(name)


def kept(number: int) -> int:
    """The coordinate that keeps an input of a pass: what the map to the next one, or the read-out, picks."""
    network, gather = right().network, right().network.layers[LOOP].layers[-2]  # type: ignore[union-attr]
    if number == E + 1:
        return int(network.read.terms[0].A.argmax())
    assert number < E
    return int(gather.terms[0].A[:, number].argmax())  # type: ignore[union-attr]


def with_both_embeddings(change: Callable[[Any], Any]) -> Any:
    new = change(right().network.layers[EMBEDS])  # type: ignore[arg-type]
    once = with_part("layers", EMBEDS, change=lambda _: new)
    return altered(once, ("layers", LOOP, "layers", in_loop() - 1), lambda _: new)


def scaled_embed(number: int, weight: float) -> Any:
    entry = number, kept(number)
    return with_both_embeddings(lambda embed: altered(embed, ("terms", 0, "A"), lambda A: with_entry(A, entry, weight)))


def written(number: int) -> Any:
    """A head of the pass that also writes to a coordinate that should keep an input."""

    def write_there(W_O: np.ndarray) -> np.ndarray:
        return with_entry(W_O, (slice(None), kept(number)), 1.0)

    return with_loop(0, "heads", 0, "W_O", change=write_there)


def reads(number: int) -> Any:
    """Another state is read: w in the place of the prediction."""
    A = np.zeros_like(right().network.read.terms[0].A)
    embed = right().network.layers[EMBEDS].terms[0].A  # type: ignore[union-attr]
    free = (embed[number] == 1) & ((embed != 0).sum(axis=0) == 1)
    A[int(np.flatnonzero(free)[-1])] = 1.0
    return with_part("read", "terms", 0, "A", change=lambda _: A)


def a_loop_more() -> Any:
    network = right().network
    return replace(network, layers=(*network.layers, replace(network.layers[LOOP], times=1)))


def sees_later_tokens() -> Any:
    """The head that adds up sees all, and gives the examples to come the same weight as those before."""

    def change(head: Any) -> Any:
        scores = head.W_K.copy()
        names = right().network.embed.coordinates
        positions = [i for i, name in enumerate(names) if name.startswith("before: pos[")]
        scores[positions[3], 0] = scores[positions[1], 1]  # token 0 sees the last example
        return replace(head, W_K=scores, sees=replace(head.sees, data="all"))

    return with_part("layers", 2, "heads", 0, change=change)


#: What is forged, and what the checker says.
FORGED: dict[str, tuple[Callable[[], Any], str | None]] = {
    "a second loop": (a_loop_more, "no map to what a pass begins with"),
    "another embedding in the loop": (
        lambda: with_loop(in_loop() - 1, "terms", 0, "A", change=lambda A: A / 2),
        "embed again",
    ),
    "another embedding before the loop": (
        lambda: with_part("layers", EMBEDS, "terms", 0, "A", change=lambda A: A / 2),
        "embed again",
    ),
    "features that a head writes to": (lambda: written(0), "the examples change"),
    "features that halve": (lambda: scaled_embed(2, 0.5), "the examples change"),
    "features of another token": (
        lambda: with_loop(in_loop() - 2, "terms", 0, "tokens", change=lambda _: Gather((0, 0, 0, 0))),
        "the examples change",
    ),
    "the first token's state for all": (
        lambda: with_loop(in_loop() - 2, "terms", 1, "tokens", change=lambda _: Gather((0,) * TOKENS)),
        "state of every token is not its own",
    ),
    "a state of the token before": (
        lambda: with_loop(in_loop() - 2, "terms", 1, "tokens", change=lambda _: Gather((0, 0, 1, 2))),
        "state of every token is not its own",
    ),
    "a state scaled by position": (
        lambda: with_loop(in_loop() - 2, "terms", 1, "S", change=lambda _: np.array([[1.0], [1.0], [0.5], [1.0]])),
        "state of every token is not its own",
    ),
    "a state that doubles": (
        lambda: with_loop(in_loop() - 2, "terms", 1, "A", change=lambda A: 2 * A),
        "no coordinate of the stream",
    ),
    "a constant between passes": (
        lambda: with_loop(in_loop() - 2, "C", change=lambda C: with_entry(C, (0, E), 0.125)),
        "adds constants",
    ),
    "another state read": (lambda: reads(E), "what is read"),
    "twice the prediction read": (lambda: with_part("read", "terms", 0, "A", change=lambda A: 2 * A), "what is read"),
    "a constant read": (lambda: with_part("read", "C", change=lambda C: C + 0.25), "what is read"),
    "tokens read in another order": (
        lambda: with_part("read", "terms", 0, "tokens", change=lambda _: Gather((1, 0, 3, 2))),
        "what is read",
    ),
    "sums that look ahead": (sees_later_tokens, None),
    "a first state that is not 0": (
        lambda: with_part("layers", ENTERS, "C", change=lambda C: with_entry(C, (0, E), 0.25)),
        None,
    ),
    "features that begin scaled": (
        lambda: with_part("layers", ENTERS, "terms", 0, "A", change=lambda A: 0.75 * A),
        None,
    ),
    "features on other tokens": (
        lambda: with_part("layers", ENTERS, "terms", 0, "tokens", change=lambda _: Gather((1, 0, 3, 2))),
        None,
    ),
}


def test_what_is_forged_here_was_right(tmp_path: Path) -> None:
    assert len(right().network.layers) == LAYERS
    proven(right().network, said(), tmp_path)


@pytest.mark.parametrize("name", FORGED)
def test_a_network_that_computes_something_else_is_refused(name: str, tmp_path: Path) -> None:
    forge, complaint = FORGED[name]
    network = forge()
    with torch.no_grad():
        gap = (ww.AttentionNetwork(network)(PROMPT) - ww.AttentionNetwork(right().network)(PROMPT)).abs().max()
    assert gap > 100 * said().bound
    refused(network, said(), tmp_path, complaint)


def narrower(box: ww.Box) -> ww.Box:
    return ww.Box(box.lo[:-1], box.hi[:-1])


CLAIMS: dict[str, tuple[Callable[[], Any], str | None]] = {
    "no word of its own": (
        lambda: replace(said(), formula=said().formula.replace(", every token by itself", "")),
        "one",
    ),
    "no word of the beginning": (
        lambda: replace(said(), formula=said().formula.partition(";")[0]),
        "the bound is about",
    ),
    "states that go anywhere": (lambda: without(said(), ENTERING), "hides that states"),
    "the assumption of other loops": (
        lambda: replace(without(said(), ENTERING), assumptions=(*said().assumptions[:-2], STATES, MASKED)),
        "hides that states",
    ),
    "a state that all share": (
        lambda: replace(with_claim(said(), own=False), formula=said().formula.replace(", every token by itself", "")),
        "not copied to all tokens",
    ),
    "no beginning": (
        lambda: replace(
            with_claim(said(), beginning=None),
            formula=said().formula.partition(";")[0],
            assumptions=(*said().assumptions, STATES),
        ),
        "inputs are 3 features and 2 states",
    ),
    "a truth that is a number": (lambda: with_claim(said(), own=1), "LoopClaim.own is 1"),
    "a beginning that is a graph": (
        lambda: with_claim(said(), beginning=claim().beginning.composite),  # type: ignore[union-attr]
        "LoopClaim.beginning",
    ),
    "more features": (lambda: with_claim(said(), features=4), "a pass begins with 4 features and 2 states"),
    "a feature for a state": (lambda: with_claim(said(), features=4, states=1), "the target of one pass has 1 outputs"),
    "fewer numbers to begin with": (
        lambda: altered(said(), ("claim", "beginning", "composite", "target", "outputs"), lambda outputs: outputs[:-1]),
        "a loop begins with 5 numbers",
    ),
    "other numbers to begin with": (
        lambda: altered(
            said(), ("claim", "beginning", "composite", "target", "outputs"), lambda o: (o[1], o[0], *o[2:])
        ),
        None,
    ),
    "another rule": (
        lambda: altered(said(), ("claim", "composite", "target", "outputs"), lambda o: (o[1], o[0])),
        None,
    ),
    "a pass proven for larger states": (
        lambda: altered(said(), ("claim", "beginning", "domain"), lambda box: ww.Box(64 * box.lo, 64 * box.hi)),
        None,
    ),
    "a domain of fewer numbers": (lambda: altered(said(), ("claim", "beginning", "domain"), narrower), "is no box"),
    "larger prompts": (lambda: widened(said()), None),
    "a smaller error": (
        lambda: replace(said(), terms=scaled(said().terms, "approximation", 0.5)),
        "approximation",
    ),
    "a smaller bound": (lambda: replace(said(), bound=said().bound / 2), "the terms add up"),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_false_claim_about_states_of_their_own_is_refused(name: str, tmp_path: Path) -> None:
    forge, complaint = CLAIMS[name]
    refused(right().network, forge(), tmp_path, complaint)


def test_no_entry_of_the_joining_maps_may_change(tmp_path: Path) -> None:
    """Two entries of every array, by a quarter: the maps before the loop, those in it, what is read. (What the first of
    them takes of coordinates that are 0 there may change: it takes nothing.)"""
    rng, last = np.random.default_rng(5), in_loop()
    for path in (
        ("layers", ENTERS, "C"),
        ("layers", EMBEDS, "terms", 0, "A"),
        ("layers", LOOP, "layers", last - 2, "terms", 0, "A"),
        ("layers", LOOP, "layers", last - 2, "terms", 1, "A"),
        ("layers", LOOP, "layers", last - 1, "C"),
        ("read", "terms", 0, "A"),
    ):
        for _ in range(2):
            network = altered(right().network, path, lambda array: nudged(array, int(rng.integers(array.size))))
            refused(network, said(), tmp_path)
    for entry in np.argwhere(right().network.layers[ENTERS].terms[0].A)[:2]:  # type: ignore[union-attr]
        path = ("layers", ENTERS, "terms", 0, "A")
        refused(altered(right().network, path, lambda A, entry=entry: nudged(A, tuple(entry))), said(), tmp_path)


def test_a_network_without_layers_is_refused(tmp_path: Path) -> None:
    names = right().network.embed.coordinates
    A = np.zeros((len(names), 1))
    read = linear(("prediction",), A)
    refused(replace(right().network, layers=(), read=read), said(), tmp_path, "not one loop")
