"""Attention in the source is attention in the network: one head for one head, PROVEN, with the source's pattern."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.forging import nudged, refused
from torch import Tensor, nn
from torch.nn.functional import one_hot, scaled_dot_product_attention

import weightwright as ww
from weightwright.claims.graph import ATTENTION, attended

N, D = 6, 4


@cache
def projections(seed: int) -> list[nn.Linear]:
    torch.manual_seed(seed)
    return [nn.Linear(D, D).double() for _ in range(3)]


def projected(x: Tensor) -> list[Tensor]:
    return [map(x) for map in projections(0)]


@cache
def module(heads: int) -> nn.MultiheadAttention:
    torch.manual_seed(1)
    return nn.MultiheadAttention(D, heads, batch_first=True).double().eval()


SEEN = torch.tensor(np.random.default_rng(0).random((N, N)) < 0.5) | torch.eye(N, dtype=torch.bool)
CAUSAL = torch.ones(N, N, dtype=torch.bool).tril()
PADDED = torch.tensor([False] * (N - 2) + [True] * 2)


def written_out(x: Tensor, mask: Tensor | None = None) -> Tensor:
    q, k, v = projected(x)
    scores = q @ k.mT / D**0.5
    return torch.softmax(scores if mask is None else scores.masked_fill(~mask, -torch.inf), dim=-1) @ v


def infinite(seen: Tensor) -> Tensor:
    return torch.zeros(N, N, dtype=torch.float64).masked_fill(~seen, -torch.inf)


#: (the function, the number of its heads)
SOURCES: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "fused": (lambda x: scaled_dot_product_attention(*projected(x)), 1),
    "fused, scale": (lambda x: scaled_dot_product_attention(*projected(x), scale=2.0), 1),
    "fused, causal": (lambda x: scaled_dot_product_attention(*projected(x), is_causal=True), 1),
    "fused, truth values": (lambda x: scaled_dot_product_attention(*projected(x), attn_mask=SEEN), 1),
    "fused, minus infinity": (lambda x: scaled_dot_product_attention(*projected(x), attn_mask=infinite(SEEN)), 1),
    "written out": (written_out, 1),
    "written out, causal": (lambda x: written_out(x, CAUSAL), 1),
    "written out, any mask": (lambda x: written_out(x, SEEN), 1),
    "added mask": (lambda x: torch.softmax(projected(x)[0] @ x.mT + infinite(CAUSAL), -1) @ x, 1),
    "x itself": (lambda x: torch.softmax(x @ x.mT, -1) @ x, 1),
    "module": (lambda x: module(2)(x, x, x, need_weights=False)[0], 2),
    "module, causal": (lambda x: module(4)(x, x, x, attn_mask=~CAUSAL, need_weights=False)[0], 4),
    "module, padding": (lambda x: module(1)(x, x, x, key_padding_mask=PADDED, need_weights=False)[0], 1),
    "two layers": (lambda x: written_out(x + written_out(x, CAUSAL)), 2),
}


@cache
def compiled(name: str, dtype: torch.dtype = torch.float64) -> ww.AttentionNetwork:
    tol = 1e-8 if dtype == torch.float64 else 1e-3
    return ww.compile(SOURCES[name][0], ww.Box([-1] * D, [1] * D), tol, tokens=N, dtype=dtype)


def random_inputs(dtype: torch.dtype = torch.float64) -> Tensor:
    rng = np.random.default_rng(2)
    inside, corners = rng.uniform(-1, 1, (20, N, D)), rng.choice([-1.0, 1.0], (20, N, D))
    return torch.tensor(np.concatenate([inside, corners])).to(dtype)


#: Of masks and scales, given in other ways: `make test-all` compiles all of them.
ALIKE = {
    "fused, scale", "fused, truth values", "fused, minus infinity", "written out", "written out, causal", "x itself",
    "module, padding",
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE)) for name in SOURCES])
def test_one_head_for_one_head(name: str) -> None:
    source, heads = SOURCES[name]
    net, x = compiled(name), random_inputs()
    wanted = torch.stack([source(row) for row in x]).detach()
    assert net.certificate.status == "PROVEN"
    assert net.cost.heads == heads
    assert float((net(x) - wanted).abs().max()) <= net.certificate.bound <= 1e-8
    assert not ww.search(net, 0.1).violated


@pytest.mark.parametrize("name", ["fused, causal", "module", "two layers"])
def test_float32(name: str) -> None:
    net, x = compiled(name, torch.float32), random_inputs(torch.float32)
    wanted = torch.stack([SOURCES[name][0](row.double()) for row in x]).detach()
    assert net.certificate.status == "PROVEN"
    assert float((net(x).double() - wanted).abs().max()) <= net.certificate.bound <= 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dtype", "tol"), [("float64", 1e-8), ("float32", 1e-3)])
@pytest.mark.parametrize("heads", [1, 4])
def test_sixty_four_tokens_of_sixteen_numbers(heads: int, dtype: str, tol: float, causal: bool) -> None:
    """Weights as torch initialises them, |x| <= 1."""
    torch.manual_seed(heads)
    n, d = 64, 16
    source = nn.MultiheadAttention(d, heads, batch_first=True).eval()
    mask = ~torch.ones(n, n, dtype=torch.bool).tril() if causal else None
    start = time.perf_counter()
    net = ww.compile(
        lambda x: source(x, x, x, attn_mask=mask, need_weights=False)[0],
        ww.Box([-1] * d, [1] * d), tol, tokens=n, dtype=dtype,
    )  # fmt: skip
    print(f"{net.certificate.bound:.3g} in {time.perf_counter() - start:.1f} s")
    assert (net.certificate.status, net.cost.heads) == ("PROVEN", heads)


@pytest.mark.parametrize("name", ["fused", "written out, any mask"])
def test_the_pattern_in_transformer_lens_is_the_sources(name: str) -> None:
    net, x = compiled(name), random_inputs()[:3]
    export = net.to_transformer_lens()
    _, cache = export.model.run_with_cache(export.residual(x), start_at_layer=0)
    r = len(net.network.registers)
    pattern = cache["pattern", 0][:, 0, r:, r:]
    q, k, _ = projected(x)
    scores = q @ k.mT / D**0.5
    wanted = torch.softmax(scores if name == "fused" else scores.masked_fill(~SEEN, -torch.inf), -1)
    assert float((pattern - wanted).detach().abs().max()) < 1e-12


def test_what_is_no_attention_of_tokens_is_multiplied_out() -> None:
    """Scores that are looked at by themselves, and attention along other axes than that of the tokens."""
    box = ww.Box([-1, -1], [1, 1])
    net = ww.compile(lambda x: (x @ x.mT).sum(-1, keepdim=True), box, 1e-6, tokens=2)
    x = torch.tensor([[0.5, -0.25], [1.0, 0.75]], dtype=torch.float64)
    assert torch.allclose(net(x), (x @ x.mT).sum(-1, keepdim=True), rtol=0, atol=1e-6)
    weights = ww.compile(lambda x: torch.softmax(x @ x.mT, -1)[:, :1], box, 1e-5, tokens=2)
    assert torch.allclose(weights(x), torch.softmax(x @ x.mT, -1)[:, :1], rtol=0, atol=1e-5)


def test_masked_scores_that_are_used_otherwise_are_refused() -> None:
    with pytest.raises(ww.UnsupportedOperation, match="masked"):
        ww.compile(lambda x: (x @ x.mT).masked_fill(~CAUSAL, -torch.inf)[:, :1], (-1, 1), 1e-3, tokens=N)
    nothing = torch.zeros(N, N, dtype=torch.bool)
    with pytest.raises(ww.UnsupportedOperation, match="sees no token"):
        ww.compile(lambda x: written_out(x, nothing), ww.Box([-1] * D, [1] * D), 1e-3, tokens=N)


def test_an_induction_head_takes_two_heads_and_shows_it() -> None:
    """Tokens are one-hot, with their positions. The first head brings every token the one before it; the second looks
    for a token whose predecessor is like this one, and copies it: after a b ... a comes b."""
    V, n, sharp = 3, 7, 40.0
    shift = sharp * torch.eye(n, dtype=torch.float64)[:, 1:]  # position t asks for position t - 1, 0 for none
    shift = torch.nn.functional.pad(shift, (0, 1))

    def induction(x: Tensor) -> Tensor:
        token, position = x[:, :V], x[:, V:]
        before = torch.softmax(position @ shift @ position.mT, -1) @ token
        return torch.softmax(sharp * token @ before.mT, -1) @ token

    net = ww.compile(induction, ww.Box([0] * (V + n), [1] * (V + n)), 1e-5, tokens=n)
    assert net.certificate.status == "PROVEN"
    assert net.cost.heads == 2
    said = [2, 0, 1, 2, 2, 1, 0]
    x = torch.cat([one_hot(torch.tensor(said), V), torch.eye(n)], 1).double()
    assert float((net(x) - induction(x)).abs().max()) <= net.certificate.bound <= 1e-5
    export = net.to_transformer_lens()
    _, cache = export.model.run_with_cache(export.residual(x), start_at_layer=0)
    r = len(net.network.registers)
    assert cache["pattern", 0][0, 0, r:, r:].argmax(-1).tolist()[1:] == list(range(n - 1))
    # the last token is a 0: the one after the earlier 0 is a 1, and that is where it looks
    assert int(cache["pattern", 1][0, 0, r + n - 1, r:].argmax()) == 2
    assert net(x)[-1].argmax() == 1


# forgeries


def only_head(network: Any) -> tuple[Any, int]:
    layer = network.layers[0]
    return layer, 0


def with_head(network: Any, **changes: object) -> Any:
    layer, place = only_head(network)
    heads = list(layer.heads)
    heads[place] = replace(heads[place], **changes)
    return replace(network, layers=(replace(layer, heads=tuple(heads)), *network.layers[1:]))


@pytest.mark.parametrize("name", ["W_Q", "W_K", "W_V", "W_O"])
def test_every_changed_weight_is_refused(name: str, tmp_path: Path) -> None:
    net = compiled("fused, causal")
    array = getattr(only_head(net.network)[0].heads[0], name)
    used = np.argwhere(array[:, :D])  # the others tell registers from tokens
    for place in used[:: max(1, len(used) // 6)]:
        changed = with_head(net.network, **{name: nudged(array, tuple(place), 1e-3)})
        refused(changed, net.certificate, tmp_path)


@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_another_temperature_is_refused(beta: float, tmp_path: Path) -> None:
    """A power of two that no rounding betrays: a fuzzer found it PROVEN."""
    for name in ("fused", "fused, causal"):
        net = compiled(name)
        refused(with_head(net.network, beta=beta), net.certificate, tmp_path, "beta 1")


def test_a_key_that_is_let_in_is_refused(tmp_path: Path) -> None:
    """The entries that hide what comes later: one of them less."""
    net = compiled("fused, causal")
    head = only_head(net.network)[0].heads[0]
    coded = [i for i, name in enumerate(net.network.embed.coordinates) if name.startswith("pos[")]
    hiding = [place for place in np.argwhere(head.W_K < -100) if place[0] in coded]
    assert len(hiding) == N * (N - 1) // 2
    for place in hiding[:: max(1, len(hiding) // 6)]:
        W_K = head.W_K.copy()
        W_K[tuple(place)] = 0.0
        refused(with_head(net.network, W_K=W_K), net.certificate, tmp_path)


def claimed_otherwise(composite: Any) -> dict[str, Any]:
    graph = composite.target
    (claim, *_) = composite.attentions
    node = graph.nodes[claim.nodes[0]]
    q, k, v = attended(node)

    def swapped(**changes: object) -> Any:
        nodes = tuple(replace(n, **changes) if n.op == ATTENTION else n for n in graph.nodes)
        return replace(composite, target=replace(graph, nodes=nodes))

    return {
        "keys are queries": swapped(of=(*k, *q, v)),
        "another value": swapped(of=(*q, *k, q[0])),
        "sees all": swapped(index=-1),
        "fewer queries": swapped(of=(*q[1:], *k[1:], v)),
        "no keys": swapped(of=(v,)),
        "an even number": swapped(of=(*q, *k)),
        "a matrix that is not there": swapped(index=7),
        "columns in another order": replace(composite, attentions=(replace(claim, nodes=claim.nodes[::-1]),)),
        "a column of another kind": replace(composite, attentions=(replace(claim, nodes=(0, *claim.nodes[1:])),)),
        "a value less": replace(composite, attentions=(replace(claim, nodes=claim.nodes[:-1]),)),
        "another layer": replace(composite, attentions=(replace(claim, layer=1),)),
        "another head": replace(composite, attentions=(replace(claim, head=1),)),
        "nobody": replace(composite, attentions=()),
        "twice": replace(composite, attentions=(claim, claim)),
        "half a matrix": replace(composite, target=replace(graph, matrices=tuple(m / 2 for m in graph.matrices))),
    }


@pytest.mark.parametrize("forgery", claimed_otherwise(compiled("fused, causal").certificate.claim))
def test_another_claim_is_refused(forgery: str, tmp_path: Path) -> None:
    net = compiled("fused, causal")
    changed = claimed_otherwise(net.certificate.claim)[forgery]
    refused(net.network, replace(net.certificate, claim=changed), tmp_path)


@pytest.mark.parametrize("term", ["approximation", "leakage", "rounding"])
def test_smaller_terms_are_refused(term: str, tmp_path: Path) -> None:
    certificate = compiled("two layers").certificate
    if getattr(certificate.terms, term) > 0:
        smaller = replace(certificate.terms, **{term: 0.9 * getattr(certificate.terms, term)})
        refused(compiled("two layers").network, replace(certificate, terms=smaller), tmp_path, "could be shown")
