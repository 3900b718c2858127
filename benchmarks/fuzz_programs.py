"""Whether what a certificate says of an interpreter is true, as far as random programs can tell: each is run through
the module and compared with the plain heads in 200 bits. For `fuzz_truth.py`."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from flint import arb

from weightwright.claims.certificate import Certificate
from weightwright.claims.program_claim import InterpreterClaim
from weightwright.errors import DomainError
from weightwright.network import Network
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.program_watch import weights_of

#: Prompts of a module, and of these how many tokens are compared.
PROMPTS, TOKENS = 24, 3


def worst_program(
    network: Network, certificate: Certificate, claim: InterpreterClaim, rng: np.random.Generator, count: int = PROMPTS
) -> str | None:
    """A prompt that the module takes and on which it is off by more than its bound, in words."""
    net = AttentionNetwork(network, dataclasses.replace(certificate, status="PROVEN"))
    for _ in range(count):
        prompt = random_prompt(claim, net.dtype, rng)
        try:
            with torch.no_grad():
                found = net(prompt).double().numpy()
        except DomainError:  # nothing is claimed of it
            continue
        for i in rng.permutation(claim.tokens)[:TOKENS].tolist():
            for c, want in enumerate(plain_token(prompt.double().numpy(), claim, i)):
                error = abs(arb(float(found[i, c])) - want)
                if not error.upper() <= arb(certificate.bound):
                    return f"output {c} of token {i} is off by {error} where {certificate.bound!r} is claimed"
    return None


def random_prompt(claim: InterpreterClaim, dtype: torch.dtype, rng: np.random.Generator) -> torch.Tensor:
    """Any numbers in the domain, often at its ends, as large as the bounds of products allow."""
    T, g, d = claim.tokens, claim.codes, claim.features
    numbers = d + (3 * claim.heads * d if claim.stacked else claim.heads * (2 * claim.head_dim + d) * d)
    kind = rng.integers(4)
    x = rng.uniform(-1, 1, (T, numbers))
    if kind < 2:
        x = np.where(rng.random(x.shape) < 0.7, np.sign(x), x)
    if kind == 2:
        x = x * 2.0 ** rng.integers(-30, 1, x.shape)
    x[:, :d] *= claim.x_max
    x[:, d:] *= claim.w_max
    codes = np.eye(g)[rng.permutation(T) % g]
    hides = np.where(rng.random((T, g)) < rng.choice([0.0, 0.5]), -claim.hidden, 0.0)
    hides[rng.integers(T)] = 0.0  # somebody is seen by all
    prompt = torch.tensor(np.concatenate([x, codes, hides], axis=1)).to(dtype)
    first = d
    for table, rows, W in zip(
        claim.tables, (claim.head_dim, claim.head_dim, d), weights_of(prompt, claim), strict=True
    ):
        size = claim.heads * d * (1 if claim.stacked else rows)
        products = (W.double() @ prompt[:, :d].double().T).abs().amax(dim=-1)  # (heads, rows)
        share = (1 - 2.0**-12) * table.claim.hi / products.clamp(min=1e-300)
        prompt[:, first : first + size] *= float(share.min().clamp(max=1.0))
        first += size
    return prompt


def plain_token(prompt: np.ndarray, claim: InterpreterClaim, i: int) -> list[arb]:
    """All outputs of token i: the plain heads."""
    d, g = claim.features, claim.codes
    W_K, W_Q, W_V = (W.numpy() for W in weights_of(torch.tensor(prompt), claim))
    x = prompt[:, :d]
    seen = [j for j in range(claim.tokens) if not (prompt[i, -2 * g : -g] @ prompt[j, -g:])]
    out = [arb(0)] * d
    for m in range(claim.heads):
        q = [_dot(row, x[i]) for row in W_Q[m]]
        scores = [sum((a * _dot(row, x[j]) for a, row in zip(q, W_K[m], strict=True)), arb(0)) for j in seen]
        weights = [score.exp() for score in scores]
        total = sum(weights, arb(0))
        for c, row in enumerate(W_V[m]):
            out[c] += sum((a * _dot(row, x[j]) for a, j in zip(weights, seen, strict=True)), arb(0)) / total
    return out


def _dot(a: np.ndarray, b: np.ndarray) -> arb:
    return sum((arb(u) * arb(v) for u, v in zip(a.tolist(), b.tolist(), strict=True)), arb(0))
