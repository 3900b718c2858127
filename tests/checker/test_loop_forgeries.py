"""Networks whose loop is not one rule again and again, and certificates of one pass that are false."""

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
from support.graphs import graph_outputs
from support.networks import attending, linear

import weightwright as ww
from weightwright.claims.kinds import MASKED
from weightwright.claims.prompt import STATES, LoopClaim
from weightwright.claims.target import UNREAD
from weightwright.network import Mixed

PROMPT = np.column_stack([[0.9, -0.5, 0.7], [0.6, 0.2, -0.8], np.full(3, 0.4), np.full(3, -0.3)])
E, S = 2, 2


@ww.incontext.algorithm(steps=2)
def heavy(rows: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    x, y = rows.unbind(-1)
    speed = 0.5 * state[1] - 0.5 * (x * (x * state[0] - y)).mean()
    return torch.stack([state[0] + speed, speed])


@cache
def right() -> ww.AttentionNetwork:
    return heavy.compile((-np.ones(2), np.ones(2)), (-2 * np.ones(2), 2 * np.ones(2)), samples=3, tol=1e-8)


def said() -> Any:
    found = right().certificate
    assert found is not None
    return found


def loop_of(network: Any) -> Any:
    (loop,) = network.layers
    return loop


def with_body(change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Any:
    """Other layers in the loop; the last two join the passes."""
    loop = loop_of(right().network)
    return replace(right().network, layers=(replace(loop, layers=change(loop.layers)),))


def place(name: str) -> int:
    return right().network.embed.coordinates.index(name)


def with_gather(*path: Any, change: Callable[[Any], Any]) -> Any:
    """Something else in the map that ends a pass."""
    return with_body(lambda layers: altered(layers, (len(layers) - 2, *path), change))


def with_embed(change: Callable[[Any], Any]) -> Any:
    """Another embedding, before the loop and in it."""
    new = change(right().network.embed)
    return replace(with_body(lambda layers: (*layers[:-1], new)), embed=new)


def scaled_embed(name: str, of: str, weight: float) -> Any:
    """One entry of the embedding changed: what a coordinate takes of an input."""
    index = right().network.inputs.index(of), place(name)
    return with_embed(lambda embed: altered(embed, ("terms", 0, "A"), lambda A: with_entry(A, index, weight)))


def shifted_embed(name: str) -> Any:
    return with_embed(lambda embed: altered(embed, ("C",), lambda C: with_entry(C, (slice(None), place(name)), 0.25)))


def written(name: str) -> Any:
    """A head that also writes to a coordinate that should keep an input."""

    def write_there(W_O: np.ndarray) -> np.ndarray:
        return with_entry(W_O, (slice(None), place(name)), 1.0)

    return with_body(lambda layers: altered(layers, (0, "heads", 0, "W_O"), write_there))


def linear_in_the_body() -> Any:
    """A map before the end of a pass that halves the examples that are kept."""
    names = right().network.embed.coordinates
    A = with_entry(np.eye(len(names)), (place("kept x[0]"), place("kept x[0]")), 0.5)
    halving = linear(names, A)
    return with_body(lambda layers: (*layers[:-2], halving, *layers[-2:]))


def forgetting_attention() -> Any:
    """Attention that is not residual: every token copies itself, all but the examples."""
    names = right().network.embed.coordinates
    none, keep = np.zeros((len(names), 1)), np.eye(len(names))
    W_V = with_entry(keep, (place("kept x[1]"), place("kept x[1]")), 0.0)
    layer = attending(names, none, none, W_V, keep, data="self", residual=False)
    return with_body(lambda layers: (*layers[:-2], layer, *layers[-2:]))


def with_read(*path: Any, change: Callable[[Any], Any]) -> Any:
    return altered(right().network, ("read", *path), change)


def reads_the_new_state(A: np.ndarray) -> np.ndarray:
    other = np.zeros_like(A)
    other[[place("new state[0]"), place("new state[1]")], [0, 1]] = 1.0
    return other


def mixes_the_states(A: np.ndarray) -> np.ndarray:
    """Still a sum of weights of 1, the largest where it belongs."""
    mixed = with_entry(A, (place("kept state[0]"), 0), 0.75)
    return with_entry(mixed, (place("kept state[1]"), 0), 0.25)


def moves_the_examples(terms: tuple[Any, ...]) -> tuple[Any, ...]:
    first, second = terms
    return replace(first, tokens=replace(second.tokens, sources=(0, 0, 2))), second


def third_term(terms: tuple[Any, ...]) -> tuple[Any, ...]:
    A = with_entry(np.zeros_like(terms[0].A), (place("kept state[0]"), 2), 1.0)
    return (*terms, replace(terms[0], A=A, tokens=None))


#: What is forged, and what the checker says. Each is refused by the one rule that says so.
FORGED: dict[str, tuple[Callable[[], Any], str]] = {
    "a second loop": (
        lambda: replace(right().network, layers=(*right().network.layers, replace(loop_of(right().network), times=1))),
        "not one loop",
    ),
    "a linear map in a pass": (linear_in_the_body, "residual attention layers"),
    "attention that forgets": (forgetting_attention, "residual attention layers"),
    "another embedding in the loop": (
        lambda: with_body(lambda layers: altered(layers, (len(layers) - 1, "C"), lambda C: C + 0.25 * (C != 0))),
        "embed again",
    ),
    "another map in the loop": (
        lambda: with_body(lambda layers: altered(layers, (len(layers) - 1, "terms", 0, "A"), lambda A: A / 2)),
        "embed again",
    ),
    "tokens moved by the loop's embedding": (
        lambda: with_body(
            lambda layers: altered(
                layers, (len(layers) - 1, "terms", 0, "S"), lambda _: np.array([[1.0], [0.5], [1.0]])
            )
        ),
        "embed again",
    ),
    "examples that a head writes to": (lambda: written("kept x[0]"), "the examples change"),
    "examples that double": (lambda: scaled_embed("kept x[0]", "x[0]", 2.0), "the examples change"),
    "examples that take of others": (lambda: scaled_embed("kept x[0]", "x[1]", 0.5), "the examples change"),
    "examples that move": (lambda: shifted_embed("kept x[1]"), "the examples change"),
    "examples exchanged": (
        lambda: with_gather("terms", 0, "A", change=lambda A: A[:, [1, 0, 2, 3]]),
        "the examples change",
    ),
    "examples on other tokens": (
        lambda: with_gather("terms", change=moves_the_examples),
        "the examples change",
    ),
    "examples scaled by position": (
        lambda: with_gather("terms", 0, "S", change=lambda _: np.array([[1.0], [1.0], [0.5]])),
        "the examples change",
    ),
    "examples that go into the state": (
        lambda: with_gather("terms", 0, "A", change=lambda A: with_entry(A, (place("kept x[0]"), 2), 0.5)),
        "the examples change",
    ),
    "a constant between passes": (
        lambda: with_gather("C", change=lambda C: with_entry(C, (0, 2), 0.125)),
        "adds constants",
    ),
    "a third term between passes": (lambda: with_gather("terms", change=third_term), "a map to the inputs"),
    "a state that doubles": (
        lambda: with_gather("terms", 1, "A", change=lambda A: 2 * A),
        "no coordinate of the stream",
    ),
    "a state that takes of another": (
        lambda: with_gather("terms", 1, "A", change=lambda A: with_entry(A, (place("kept x[0]"), 3), 1.0)),
        "no coordinate of the stream",
    ),
    "a state that goes into the examples": (
        lambda: with_gather("terms", 1, "A", change=lambda A: with_entry(A, (place("new state[0]"), 0), 1.0)),
        "no coordinate of the stream",
    ),
    "a state that only some tokens get": (
        lambda: with_gather("terms", 1, "tokens", "sources", change=lambda _: (0, 0, -1)),
        "not copied to all tokens",
    ),
    "a state that is a sum of tokens": (
        lambda: with_gather("terms", 1, "tokens", change=lambda map: Mixed(with_entry(map.matrix(3), (0, 1), 1.0))),
        "not copied to all tokens",
    ),
    "a state scaled by position": (
        lambda: with_gather("terms", 1, "S", change=lambda _: np.array([[0.5], [1.0], [1.0]])),
        "not copied to all tokens",
    ),
    "another number read": (lambda: with_read("terms", 0, "A", change=reads_the_new_state), "what is read"),
    "twice the state read": (lambda: with_read("terms", 0, "A", change=lambda A: 2 * A), "what is read"),
    "a mean of two states read": (lambda: with_read("terms", 0, "A", change=mixes_the_states), "what is read"),
    "a constant read": (lambda: with_read("C", change=lambda C: C + 0.25), "what is read"),
    "positions read apart": (
        lambda: with_read("terms", 0, "S", change=lambda _: np.array([[0.5], [1.0], [1.0]])),
        "what is read",
    ),
    "a state that is halved for reading": (lambda: scaled_embed("kept state[1]", "state[1]", 0.5), "what is read"),
}


def expected(prompt: np.ndarray, passes: int) -> np.ndarray:
    """(3, states): the rule's graph, again and again, with the first token's result."""
    graph = said().claim.composite.target  # type: ignore[union-attr]
    for _ in range(passes):
        state = graph_outputs(graph, prompt)[0]
        prompt = np.column_stack([prompt[:, :E], np.tile(state, (3, 1))])
    return prompt[:, E:]


def off(network: Any) -> float:
    with torch.no_grad():
        found = ww.AttentionNetwork(network)(torch.tensor(PROMPT)).numpy()
    return float(np.abs(found - expected(PROMPT, 2)).max())


def test_what_is_forged_here_was_right(tmp_path: Path) -> None:
    proven(right().network, said(), tmp_path)
    assert off(right().network) <= 3 * said().bound


@pytest.mark.parametrize("name", FORGED)
def test_a_loop_that_is_not_the_rule_is_refused(name: str, tmp_path: Path) -> None:
    """Every one of them computes something else, though one pass by itself would be right."""
    forge, complaint = FORGED[name]
    network = forge()
    assert off(network) > 100 * said().bound
    assumptions = (*said().assumptions, MASKED)
    refused(network, replace(said(), assumptions=assumptions), tmp_path, complaint)


def test_a_state_of_another_token_is_refused(tmp_path: Path) -> None:
    """Nothing is claimed about it, though here it is as good."""
    network = with_gather("terms", 1, "tokens", "sources", change=lambda _: (1, 1, 1))
    refused(network, said(), tmp_path, "not copied to all tokens")


def with_outputs(count: int) -> Any:
    return altered(said(), ("claim", "composite", "target", "outputs"), lambda outputs: (*outputs, *outputs)[:count])


CLAIMS: dict[str, tuple[Callable[[], Any], str]] = {
    "no word of one pass": (lambda: replace(said(), formula="heavy"), "one pass of a graph of"),
    "states that go anywhere": (
        lambda: without(said(), STATES),
        "hides that states",
    ),
    "a claim about the whole loop": (
        lambda: replace(said(), claim=said().claim.composite, formula="heavy"),
        "layer 0 is a Loop",
    ),
    "one pass of nothing": (lambda: with_claim(said(), composite=None), "malformed"),
    "one pass of a loop": (lambda: with_claim(said(), composite=said().claim), "malformed"),
    "more features": (lambda: with_claim(said(), features=3), "features and 2 states"),
    "a state for a feature": (
        lambda: with_claim(said(), features=3, states=1),
        "the target of one pass has 1 outputs",
    ),
    "a truth for a number": (lambda: with_claim(said(), features=True, states=3), "LoopClaim.features is True"),
    "a smaller state": (lambda: with_outputs(1), "the target of one pass has 2 outputs"),
    "a larger state": (lambda: with_outputs(3), "the target of one pass has 2 outputs"),
    "a smaller error": (
        lambda: replace(said(), terms=scaled(said().terms, "approximation", 0.5), bound=said().bound),
        "approximation",
    ),
    "the first token unread": (
        lambda: altered(said(), ("claim", "composite", "parts", 0, "units"), lambda units: (UNREAD, *units[1:])),
        "used before it is computed",
    ),
    "a wider domain": (
        lambda: widened(said()),
        None,  # type: ignore[dict-item]
    ),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_false_claim_about_one_pass_is_refused(name: str, tmp_path: Path) -> None:
    forge, complaint = CLAIMS[name]
    refused(right().network, forge(), tmp_path, complaint)


def test_a_claim_about_one_pass_goes_with_no_other_kind(tmp_path: Path, sine: ww.AttentionNetwork) -> None:
    """Nothing would look at it there, and every text would speak of passes."""
    assert sine.certificate is not None
    of_one_layer = LoopClaim(1, 1, sine.certificate.claim)  # type: ignore[arg-type]
    refused(sine.network, replace(sine.certificate, claim=of_one_layer), tmp_path, "malformed")
    of_heavy = replace(sine.certificate, claim=said().claim, formula=said().formula)
    refused(sine.network, replace(of_heavy, assumptions=said().assumptions), tmp_path, "features and 2 states")


def test_no_entry_of_the_joining_maps_may_change(tmp_path: Path) -> None:
    """Three entries of every array, by a quarter: embedding, both maps of the loop, what is read."""
    rng = np.random.default_rng(5)
    last = len(loop_of(right().network).layers)
    for path in (
        ("layers", 0, "layers", last - 2, "terms", 0, "A"),
        ("layers", 0, "layers", last - 2, "terms", 1, "A"),
        ("layers", 0, "layers", last - 2, "C"),
        ("layers", 0, "layers", last - 1, "terms", 0, "A"),
        ("layers", 0, "layers", last - 1, "C"),
        ("read", "terms", 0, "A"),
        ("read", "C"),
    ):
        for _ in range(3):
            network = altered(right().network, path, lambda array: nudged(array, int(rng.integers(array.size))))
            refused(network, said(), tmp_path)
