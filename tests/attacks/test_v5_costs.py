"""Small files that ask for arrays of tokens x tokens: what they may cost is exceeded by a fifth at most."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import weightwright as ww
from weightwright.checker.prompt.interpreter_layers import ExpectedLayers
from weightwright.claims.files import encode_file
from weightwright.network import Attention, Linear, Network, Term

#: How far a limit may be exceeded, and what a process takes anyway: caches of numpy and python, one look at the clock.
OVER, NOISE_MEGABYTES, NOISE_SECONDS = 1.2, 16.0, 0.3


def resident() -> float:
    """MiB of memory that the process has."""
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * 4096 / 2**20


def cost_of(check: Callable[[], object]) -> tuple[float, float]:
    """(seconds, MiB that the process grew by at most, looked at every millisecond)"""
    before, most, done = resident(), 0.0, threading.Event()

    def look() -> None:
        nonlocal most
        while not done.wait(0.001):
            most = max(most, resident() - before)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    start = time.perf_counter()
    with suppress(ww.BudgetError):
        check()
    took = time.perf_counter() - start
    done.set()
    watcher.join()
    return took, most


@cache
def attention() -> Any:
    return ww.compile(lambda x: torch.softmax(x @ x.mT, -1) @ x, (-1, 1), 1e-3, tokens=3, features=1, progress=False)


def attention_of(tokens: int) -> bytes:
    """Attention between so many tokens, all of which see each other: nothing in the file grows with them."""
    net = attention()
    said, network = net.certificate, net.network
    claim = dataclasses.replace(said.claim, target=dataclasses.replace(said.claim.target, tokens=tokens))
    embed = dataclasses.replace(network.embed, C=network.embed.C[:1].copy())
    network = dataclasses.replace(network, tokens=tokens, embed=embed)
    terms = dataclasses.replace(said.terms, rounding=0.1, approximation=0.1, leakage=0.1)
    said = dataclasses.replace(
        said,
        claim=claim,
        formula=claim.in_words(),
        network=ww.AttentionNetwork(network).digest(),
        bound=1.0,
        terms=terms,
    )
    return encode_file(network, said)


def interpreter_of(tokens: int) -> bytes:
    """An interpreter of so many tokens, whose first layer copies weights to the tokens that are anchors."""
    vm = ww.Interpreter(tokens=16, features=1, head_dim=1, anchors=8)
    said: Any = vm.certificate
    claim = dataclasses.replace(said.claim, tokens=tokens, codes=1)
    layers = ExpectedLayers(claim)
    names, outputs = tuple(f"c{i}" for i in range(layers.width)), tuple(f"out[{i}]" for i in range(claim.features))
    terms, C = layers._embed()
    read = np.zeros((layers.width, claim.features))
    read[layers.out, range(claim.features)] = 1.0
    network = Network(
        tuple(f"i{k}" for k in range(layers.prompt)), Linear(names, tuple(terms), C), np.zeros((0, layers.width)),
        (Attention(names, tuple(layers._products())), Attention(names, tuple(layers._attention()))),
        Linear(outputs, (Term(read),), np.zeros((1, claim.features))), tokens=tokens,
    )  # fmt: skip
    ends = np.concatenate([np.full(claim.features, claim.x_max), np.full(layers.weights, claim.w_max)])
    box = ww.Box(np.concatenate([-ends, [0.0, -claim.hidden]]), np.concatenate([ends, [1.0, 0.0]]))
    terms_ = dataclasses.replace(said.terms, rounding=5e-4, leakage=1e-4, approximation=1e-4)
    said = dataclasses.replace(
        said, claim=claim, domain=box, network=ww.AttentionNetwork(network).digest(), formula=claim.in_words(),
        bound=1e-3, terms=terms_,
    )  # fmt: skip
    return encode_file(network, said)


@pytest.mark.parametrize(
    ("use", "make", "tokens", "seconds", "megabytes"),
    [
        (ww.check, attention_of, 9000, 1.0, 256.0),
        (ww.load, interpreter_of, 3000, 20.0, 128.0),
        pytest.param(ww.load, attention_of, 9000, 1.0, 256.0, marks=pytest.mark.slow),
        pytest.param(ww.check, interpreter_of, 3000, 20.0, 128.0, marks=pytest.mark.slow),
        pytest.param(ww.check, attention_of, 3000, 20.0, 64.0, marks=pytest.mark.slow),
        pytest.param(ww.load, attention_of, 3000, 20.0, 64.0, marks=pytest.mark.slow),
    ],
)
def test_a_limit_is_exceeded_by_a_fifth_at_most(
    use: Callable[..., object],
    make: Callable[[int], bytes],
    tokens: int,
    seconds: float,
    megabytes: float,
    tmp_path: Path,
) -> None:
    path = tmp_path / "net.safetensors"
    path.write_bytes(make(tokens))
    assert path.stat().st_size < 2**18
    took, grown = cost_of(lambda: use(path, seconds=seconds, megabytes=megabytes))
    assert took <= OVER * seconds + NOISE_SECONDS
    assert grown <= OVER * megabytes + NOISE_MEGABYTES


def test_attention_among_thousands_of_tokens_is_proven(tmp_path: Path) -> None:
    """It was refused for its arrays of tokens x tokens."""
    path = tmp_path / "net.safetensors"
    path.write_bytes(attention_of(1000))
    assert ww.check(path, megabytes=16).status == "PROVEN"
