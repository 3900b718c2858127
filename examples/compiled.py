"""Functions and modules to compile, with their domains: what the table in docs/compiled.md is about.

weightwright compile examples/compiled.py:black_scholes --domain "80 120; 80 120; 0.1 2; 0.1 0.5; 0 0.1" --tol 1e-4
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

import weightwright as ww


def black_scholes(x: Tensor) -> Tensor:
    """The price of a call: S, K, T, sigma, r -> one number."""
    S, K, T, sigma, r = x.unbind(-1)
    spread = sigma * torch.sqrt(T)
    d1 = (torch.log(S / K) + (r + sigma**2 / 2) * T) / spread
    d2 = d1 - spread
    return S * _normal(d1) - K * torch.exp(-r * T) * _normal(d2)


def _normal(x: Tensor) -> Tensor:
    return (1 + torch.erf(x / math.sqrt(2))) / 2


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=-1)


def lotka_volterra(x: Tensor) -> Tensor:
    """One Runge-Kutta step of prey and predators, dt = 0.1."""

    def field(z: Tensor) -> Tensor:
        prey, predators = z.unbind(-1)
        return torch.stack([1.1 * prey - 0.4 * prey * predators, 0.1 * prey * predators - 0.4 * predators], dim=-1)

    dt = 0.1
    k1 = field(x)
    k2 = field(x + dt / 2 * k1)
    k3 = field(x + dt / 2 * k2)
    k4 = field(x + dt * k3)
    return x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def newton_sqrt(x: Tensor) -> Tensor:
    """Five Newton steps for the square root."""
    root = (1 + x) / 2
    for _ in range(5):
        root = (root + x / root) / 2
    return root


def standardised(x: Tensor) -> Tensor:
    """Over the tokens: mean, variance, and what is left when both are taken out."""
    mean = x.mean(dim=0)
    variance = ((x - mean) ** 2).mean(dim=0)
    z = (x - mean) / torch.sqrt(variance + 1e-2)
    return torch.cat([mean.expand_as(x), variance.expand_as(x), z], dim=-1)


def layer_norm() -> nn.Module:
    return nn.LayerNorm(8, eps=1e-5)


@cache
def gelu_mlp() -> nn.Module:
    """8-32-32-1, as it is initialised with seed 0."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 1)).double()


class AttentionBlock(nn.Module):
    """Single-head attention and a two-layer MLP, both with a residual connection, on tokens of `width` numbers. norm:
    what enters each is normalised first."""

    def __init__(self, width: int = 4, hidden: int = 8, norm: bool = False) -> None:
        super().__init__()
        self.first, self.second = (nn.LayerNorm(width) if norm else nn.Identity() for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        scores = self.query(y) @ self.key(y).T / math.sqrt(x.shape[-1])
        x = x + self.out(torch.softmax(scores, dim=-1) @ self.value(y))
        return x + self.mlp(self.second(x))


@cache
def attention_block() -> nn.Module:
    torch.manual_seed(0)
    return AttentionBlock().double()


@cache
def normed_block() -> nn.Module:
    torch.manual_seed(0)
    return AttentionBlock(norm=True).double()


def digits() -> tuple[Tensor, Tensor]:
    """scikit-learn's 1,797 digits, pixels between 0 and 1."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)


def _trained(hidden: int, activation: type[nn.Module], steps: int = 150) -> nn.Module:
    X, y = digits()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, hidden), activation(), nn.Linear(hidden, 10))
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.01)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(X), y).backward()
        optimiser.step()
    return net


@cache
def digits_tanh() -> nn.Module:
    """64-128-10, trained on the digits in float32."""
    return _trained(128, nn.Tanh)


@cache
def digits_relu() -> nn.Module:
    """64-32-10, trained on the digits in float32."""
    return _trained(32, nn.ReLU)


@dataclass(frozen=True)
class Example:
    """What to compile, and how."""

    function: Callable[[], Callable[[Tensor], Tensor]]
    domain: ww.Box
    tol: float = 1e-6
    tokens: int | None = None
    proof: str = "proven"


def _cube(features: int, lo: float, hi: float) -> ww.Box:
    return ww.Box([lo] * features, [hi] * features)


EXAMPLES: dict[str, Example] = {
    "digits, tanh 64-128-10": Example(digits_tanh, _cube(64, 0, 1)),
    "digits, ReLU 64-32-10": Example(digits_relu, _cube(64, 0, 1)),
    "GELU 8-32-32-1": Example(gelu_mlp, _cube(8, -1, 1)),
    "Black-Scholes call": Example(
        lambda: black_scholes, ww.Box([80, 80, 0.1, 0.1, 0], [120, 120, 2, 0.5, 0.1]), tol=1e-4
    ),
    "softmax of 5": Example(lambda: softmax, _cube(5, -4, 4)),
    "layer norm of 8": Example(layer_norm, _cube(8, -3, 3)),
    "Lotka-Volterra, RK4 step": Example(lambda: lotka_volterra, _cube(2, 0.5, 2)),
    "5 Newton steps for sqrt": Example(lambda: newton_sqrt, _cube(1, 0.5, 4)),
    "standardised, 6 tokens": Example(lambda: standardised, _cube(1, -3, 3), tokens=6),
    "attention block, 4 tokens": Example(attention_block, _cube(4, -1, 1), tokens=4),
    "the same with layer norms": Example(normed_block, _cube(4, -1, 1), tol=1e-5, tokens=4, proof="measured"),
}
