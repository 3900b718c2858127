"""AE-8's printed layer: its bound in exact arithmetic, what is refused when it runs, and what the checker refuses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb
from support.forging import refused
from support.running import torch_outputs

import weightwright as ww
from weightwright.papers.checker import shared_keys
from weightwright.papers.claims.shared_keys_claim import MULTIPLES
from weightwright.papers.linear.literal import literal_prompt


@cache
def built(dtype: str = "float64") -> ww.AttentionNetwork:
    return ww.constructions.literal_truncated_linear(-0.5, 1.25, 5, 2, H=3, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_prompt_is_worse_than_the_bound_in_exact_arithmetic(dtype: str) -> None:
    net = built(dtype)
    assert net.certificate.status == "PROVEN"
    X = net.about.probes(np.random.default_rng(1), 80)
    found, bound = torch_outputs(net, X), Fraction(net.certificate.bound)
    for prompt, out in zip(X.tolist(), found[..., 0].tolist(), strict=True):
        for token, y in zip(prompt, out, strict=True):
            s = sum((Fraction(x) * Fraction(w) for x, w in zip(token[:2], token[4:], strict=True)), Fraction(0))
            assert abs(Fraction(y) - min(max(s, Fraction(-1, 2)), Fraction(5, 4))) <= bound


@pytest.mark.parametrize("sizes", [(3, 1, 1, 1.0, 1.0), (7, 3, 4, 0.25, 8.0), (4, 2, 9, 16.0, 0.125)])
def test_sizes_and_ranges(sizes: tuple[int, int, int, float, float]) -> None:
    n, d, H, x_max, w_max = sizes
    net = ww.constructions.literal_truncated_linear(-1.0, 2.0, n, d, H=H, ranges=ww.incontext.Ranges(x_max, 1.0, w_max))
    assert net.certificate.status == "PROVEN"
    assert net.certificate.bound < 1.01 * 3 / ((n - 2) * H) + 1e-3
    X = net.about.probes(np.random.default_rng(2), 200)
    wanted = np.clip((X[..., :d] * X[..., 2 * d :]).sum(axis=-1), -1.0, 2.0)
    assert np.abs(torch_outputs(net, X)[..., 0] - wanted).max() <= net.certificate.bound


def test_prompts_without_the_multiples_are_refused(tmp_path: Path) -> None:
    net = built()
    net.save(tmp_path / "net.safetensors")
    for one in (net, ww.load(tmp_path / "net.safetensors")):
        prompt = torch.tensor(literal_prompt(np.full((5, 2), 0.25), np.array([0.3, -0.7])))
        one(prompt)
        prompt[3, 2] = torch.nextafter(prompt[3, 2], torch.tensor(9.0, dtype=torch.float64))
        with pytest.raises(ww.DomainError, match="token 3 of the prompt does not hold 3 w"):
            one(prompt)
        prompt[3, 4] += 0.125
        with pytest.raises(ww.DomainError, match="hold different w"):
            one(prompt)
    with pytest.raises(ww.WeightwrightError, match="tokens hold one w and its multiples"):
        ww.search(net, 0.1)


def changed(net: ww.AttentionNetwork, head: int, part: str, at: tuple[int, int], by: float) -> Any:
    """The network with one weight of one head moved."""
    (layer,) = net.network.layers
    heads = list(layer.heads)
    W = getattr(heads[head], part).copy()
    W[at] += by
    heads[head] = dataclasses.replace(heads[head], **{part: W})
    return dataclasses.replace(net.network, layers=(dataclasses.replace(layer, heads=tuple(heads)),))


#: Entries of D = 13 coordinates: x, k w and w take two each, the position code five, then one and range.
MOVED = {
    "a query that reads k w": (0, "W_Q", (2, 0), 1.0),
    "a query that misses x": (1, "W_Q", (0, 0), -1.0),
    "a key with a factor of its own": (0, "W_K", (3, 1), 0.5),
    "a key that reads x": (2, "W_K", (0, 0), 1.0),
    "another first anchor": (1, "W_K", (4, 0), 2.0),
    "an offset": (0, "W_K", (8, 2), 3.0),
    "a value": (1, "W_V", (8, 0), 0.5),
    "a value that is taken from w": (1, "W_V", (4, 0), 0.5),
    "an output elsewhere": (2, "W_O", (0, 0), 1.0),
    "a larger output": (2, "W_O", (0, 12), 1.0),
}


@pytest.mark.parametrize("name", MOVED)
def test_moved_weights_are_refused(name: str, tmp_path: Path) -> None:
    net = built()
    refused(changed(net, *MOVED[name]), net.certificate, tmp_path)


def _layer(net: Any) -> Any:
    (layer,) = net.layers
    return layer


def _heads(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def made(net: Any) -> Any:
        layer = _layer(net)
        return dataclasses.replace(
            net, layers=(dataclasses.replace(layer, heads=(change(layer.heads[0]), *layer.heads[1:])),)
        )

    return made


def _scaled(net: Any) -> Any:
    term = net.embed.terms[0]
    scaled = dataclasses.replace(term, tokens=None, S=np.full((5, 6), 2.0))
    return dataclasses.replace(net, embed=dataclasses.replace(net.embed, terms=(scaled,)))


FORGED: dict[str, Callable[[Any], Any]] = {
    "softer": _heads(lambda head: dataclasses.replace(head, beta=head.beta / 4)),
    "a beta that is no power of two": _heads(lambda head: dataclasses.replace(head, beta=head.beta * 1.5)),
    "a head less": lambda net: dataclasses.replace(
        net, layers=(dataclasses.replace(_layer(net), heads=_layer(net).heads[:-1]),)
    ),
    "no residual": lambda net: dataclasses.replace(net, layers=(dataclasses.replace(_layer(net), residual=False),)),
    "a scale of the positions": _scaled,
}


@pytest.mark.parametrize("name", FORGED)
def test_networks_made_otherwise_are_refused(name: str, tmp_path: Path) -> None:
    net = built()
    refused(FORGED[name](net.network), net.certificate, tmp_path)


def test_certificates_that_say_more_are_refused(tmp_path: Path) -> None:
    net, said = built(), built().certificate
    for name in ("approximation", "leakage", "rounding"):
        smaller = dataclasses.replace(said.terms, **{name: 0.99 * getattr(said.terms, name)})
        refused(net.network, dataclasses.replace(said, terms=smaller), tmp_path, name)
    refused(net.network, dataclasses.replace(said, bound=0.999 * said.bound), tmp_path, "the terms add up to")
    without = tuple(text for text in said.assumptions if text != MULTIPLES)
    refused(net.network, dataclasses.replace(said, assumptions=without), tmp_path, "hides an assumption")
    wider = ww.Box(2 * said.domain.lo, 2 * said.domain.hi)
    refused(net.network, dataclasses.replace(said, domain=wider), tmp_path, "rounding")
    claim = dataclasses.replace(said.claim, formula="clip(x, -0.5, 1.375)")
    forged = dataclasses.replace(said, claim=claim, formula=claim.in_words())
    refused(net.network, forged, tmp_path, "approximation")
    refused(net.network, dataclasses.replace(said, formula="x"), tmp_path, "the network computes")


def test_scores_are_off_by_no_more_than_the_rule_says() -> None:
    """In float32, as a kernel computes them and in Fractions: k w rounded, keys, products and their sum."""
    net, d = built("float32"), 2
    heads = shared_keys.read_shared_keys(net.network, net.certificate.claim)
    X = net.about.probes(np.random.default_rng(3), 60).astype(np.float32)
    worst = 0.0
    for head, layer_head in zip(heads, net.network.heads, strict=True):
        stored = shared_keys._stored(head, arb(2), arb(2), d, "float32")  # |x|, |w| <= 1
        assert stored.off is not None
        keys = X[..., d : 2 * d] * np.float32(head.f) + X[..., 2 * d :] * np.float32(head.g)
        scores = np.float32(layer_head.beta) * (X[..., :d] @ keys.transpose(0, 2, 1) + head.c.astype(np.float32))
        for prompt, found in zip(X.tolist(), scores.tolist(), strict=True):
            w = [Fraction(entry) for entry in prompt[0][2 * d :]]
            for token, row in zip(prompt, found, strict=True):
                s = sum((Fraction(x) * entry for x, entry in zip(token[:d], w, strict=True)), Fraction(0))
                for k, (score, off) in enumerate(zip(row, stored.off, strict=True)):
                    slope = Fraction(head.f) * k + Fraction(head.g)
                    exact = Fraction(head.beta) * (slope * s + Fraction(float(head.c[k])))
                    away = abs(Fraction(score) - exact)
                    assert away <= Fraction(float(off))
                    worst = max(worst, float(away))
    assert worst > 0


def test_what_a_claim_leans_on_is_watched_or_the_network_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind of claim whose watch is not registered: its certificate would speak of inputs that nobody looks at."""
    net = ww.constructions.literal_truncated_linear(-1.0, 1.0, 4, 1, H=2)
    monkeypatch.setattr("weightwright.runtime.program_watch._added_watches", dict)
    with pytest.raises(RuntimeError, match="nothing watches what a SharedKeysClaim leans on: every token holds"):
        ww.AttentionNetwork(net.network, net.certificate)
