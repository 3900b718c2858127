"""Looks for the worst input of a one-variable network: ends, anchors, between anchors, steep places, then nearby."""

from __future__ import annotations

import numpy as np
import torch
from exact import errors
from flint import arb

from weightwright import AttentionNetwork


def worst_error(net: AttentionNetwork, seed: int, rounds: int = 2) -> tuple[float, arb]:
    """(input, error) of the largest error that was found."""
    certificate = net.certificate
    assert certificate is not None
    lo, hi = float(certificate.domain.lo[0]), float(certificate.domain.hi[0])
    rng = np.random.default_rng(seed)
    x = _first_inputs(net, lo, hi, rng)
    best: tuple[float, arb] = (lo, arb(-1))
    for round_number in range(rounds + 1):
        found = _errors(net, x)
        sizes = np.array([float(error) for error in found])
        top = int(sizes.argmax())
        if found[top] > best[1]:
            best = (float(x[top]), found[top])
        # next: close to the worst ones, closer every time
        seeds = x[np.argsort(-sizes)[:8]]
        reach = (hi - lo) * 10.0 ** -(2 + 3 * round_number)
        x = np.clip((seeds[:, None] + reach * rng.uniform(-1, 1, (8, 24))).ravel(), lo, hi)
    return best


def _first_inputs(net: AttentionNetwork, lo: float, hi: float, rng: np.random.Generator) -> np.ndarray:
    head = next(net.network.heads)
    keys = net.network.registers[:, 2]
    scale, shift = head.W_Q[0, 0], head.W_Q[1, 0]
    offsets = net.network.registers[:, 3]
    steps = np.diff(keys)
    crossings = -np.diff(offsets)[steps != 0] / steps[steps != 0] if len(keys) < 1000 else np.array([])
    anchors = (np.concatenate([crossings, (crossings[1:] + crossings[:-1]) / 2]) - shift) / scale
    near_ends = [lo, hi, np.nextafter(lo, hi), np.nextafter(hi, lo), (lo + hi) / 2, 0.0]
    spread = lo + (hi - lo) * np.linspace(0, 1, 257)
    random = rng.uniform(lo, hi, 256)
    x = np.concatenate([near_ends, anchors, spread, random])
    return np.clip(x[np.isfinite(x)], lo, hi)


def _errors(net: AttentionNetwork, x: np.ndarray) -> list[arb]:
    assert net.certificate is not None
    with torch.no_grad():
        y = net(torch.tensor(x)[:, None])[:, 0]
    return errors(net.certificate.formula, x.tolist(), y.tolist())
