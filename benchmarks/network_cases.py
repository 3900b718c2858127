"""About 180 small networks of every kind, by name: what `same_networks.py` builds before and after a change.

Only the public names of weightwright are used, so that one file runs on both sides of a change of its inside.
A case that raises is a case too: the error is part of what must stay.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import weightwright as ww

#: How many inputs a network is run on.
COUNT = 24
F64, F32, BF16 = torch.float64, torch.float32, torch.bfloat16
SQUARE = ww.Box([-1, -1], [1, 1])


@dataclass
class Made:
    """What a case has made: a network, perhaps with inputs of its own; other outputs and bounds by name; the estimator
    whose network it is."""

    net: Any = None
    inputs: Tensor | None = None
    tokens: int | None = None  # of an input, where the domain does not say how many there are
    outputs: dict[str, Any] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    model: Any = None


@dataclass(frozen=True)
class Case:
    group: str
    make: Callable[[], Any]  # a network, or Made


CASES: dict[str, Case] = {}


def add(group: str, cases: Mapping[str, Callable[[], Any]]) -> None:
    for name, make in cases.items():
        if name in CASES:
            raise ValueError(f"there are two cases {name!r}")
        CASES[name] = Case(group, make)


def draw(seed: int, *shape: int) -> np.ndarray:
    """Numbers around 0, the same for the same seed."""
    return np.random.default_rng(seed).normal(size=shape)


def draw_inputs(made: Made) -> Tensor:
    """(tokens, features) or (COUNT, tokens, features): from the whole domain, a quarter of them corners."""
    domain = made.net.certificate.domain
    lo, hi = (np.asarray(end, dtype=np.float64) for end in (domain.lo, domain.hi))
    tokens = len(lo) if lo.ndim == 2 else made.tokens
    shape = (4 * COUNT, lo.shape[-1]) if tokens is None else (COUNT, tokens, lo.shape[-1])
    rng = np.random.default_rng(0)
    x = rng.uniform(lo, hi, shape)
    corners = np.where(rng.random(shape) < 0.5, lo, hi)
    x[: len(x) // 4] = corners[: len(x) // 4]
    return round_inward(torch.tensor(x), torch.tensor(lo), torch.tensor(hi), made.net.dtype)


def round_inward(x: Tensor, lo: Tensor, hi: Tensor, dtype: torch.dtype) -> Tensor:
    """In the dtype, and still between the ends: the middle stands for what would round to outside of them."""
    rounded = x.to(dtype)
    inside = (rounded.double() >= lo) & (rounded.double() <= hi)
    return torch.where(inside, rounded, ((lo + hi) / 2).expand_as(x).to(dtype))


# one head, or a few, of one number


def approximate(f: Any, domain: Any, tol: float, **options: Any) -> Callable[[], Any]:
    return partial(_approximate, f, domain, tol, options)


def _approximate(f: Any, domain: Any, tol: float, options: dict[str, Any]) -> Any:
    return ww.approximate(f, domain, tol, **options)


SINE, UNIT = "sin(5*x)", (-1, 1)

add("heads", {
    "sine, float64": approximate(SINE, UNIT, 1e-8),
    "sine, float32": approximate(SINE, UNIT, 1e-5, dtype=F32),
    "sine, bfloat16": approximate("sin(2*x)", UNIT, 0.25, dtype=BF16),
    "sine, faithful, float64": approximate("sin(x)", UNIT, 0.02, method="faithful"),
    "sine, faithful, float32, refused": approximate("sin(x)", UNIT, 0.05, method="faithful", dtype=F32),
    "sine, faithful, bfloat16, refused": approximate("sin(x)", UNIT, 0.5, method="faithful", dtype=BF16),
    "sine, anchor, float64": approximate(SINE, UNIT, 1e-8, kernel="anchor"),
    "sine, anchor, float32": approximate(SINE, UNIT, 1e-5, kernel="anchor", dtype=F32),
    "sine, anchor, bfloat16": approximate("sin(2*x)", UNIT, 0.25, kernel="anchor", dtype=BF16),
    "identity": approximate("x", UNIT, 1e-8),
    "square": approximate("x**2", UNIT, 1e-8),
    "exp": approximate("exp(x)", UNIT, 1e-10),
    "tanh, two keys": approximate("tanh(3*x)", UNIT, 1e-10),
    "sigmoid, two keys, float32": approximate("2*sigmoid(4*x) + 1", UNIT, 1e-5, dtype=F32),
    "erf": approximate("erf(2*x)", UNIT, 1e-8),
    "gelu": approximate("gelu(4*x)", UNIT, 1e-8),
    "log": approximate("log(2+x)", UNIT, 1e-8),
    "root": approximate("sqrt(1.5+x)", UNIT, 1e-6),
    "Runge": approximate("1/(1+25*x**2)", UNIT, 1e-6),
    "many waves": approximate("sin(40*x)", UNIT, 1e-6),
    "far from 0, float32": approximate("x", (1000, 1001), 1e-4, dtype=F32),
    "a narrow domain": approximate("cos(x)", ("0.1", "0.7"), 1e-9),
    "a torch function": approximate(lambda x: x * torch.exp(-x), UNIT, 1e-8),
    "a module": approximate(nn.GELU(), (-3, 3), 1e-6),
})  # fmt: skip

add("kinks", {
    "relu, registers, float64": approximate("relu(x)", UNIT, 1e-8),
    "relu, registers, float32": approximate("relu(x)", UNIT, 1e-5, dtype=F32),
    "relu, self, float64": approximate("relu(x)", UNIT, 1e-8, sees="self"),
    "relu, self, float32": approximate("relu(x)", UNIT, 1e-6, sees="self", dtype=F32),
    "relu, anchor": approximate("relu(x)", UNIT, 1e-2, kernel="anchor"),
    "abs, registers": approximate("abs(x)", UNIT, 1e-8),
    "abs, self": approximate("abs(x - 0.25)", UNIT, 1e-8, sees="self"),
    "max, registers, float32": approximate("max(x, 0.3)", UNIT, 1e-5, dtype=F32),
    "max, self": approximate("max(x, 0.3)", UNIT, 1e-8, sees="self"),
    "clip, registers": approximate("clip(x, -0.5, 0.5)", UNIT, 1e-8),
    "clip, self, float32": approximate("clip(x, -0.5, 0.5)", UNIT, 1e-6, sees="self", dtype=F32),
    "softshrink, self": approximate("softshrink(x, 0.2)", UNIT, 1e-8, sees="self"),
    "abs of a sine": approximate("abs(sin(3*x))", UNIT, 1e-6),
    "relu times exp, self": approximate("relu(x)*exp(x)", UNIT, 1e-3, sees="self"),
    "relu, faithful": approximate("relu(x)", UNIT, 0.05, method="faithful"),
})  # fmt: skip

add("jumps", {
    "sign, float32": approximate("sign(x)", UNIT, 1e-6, dead_zone=0.01, dtype=F32),
    "step and a line": approximate("step(x - 0.3) + x", UNIT, 1e-6, dead_zone=0.01),
    "sign times a square": approximate("sign(x)*(1 + x**2)", UNIT, 1e-6, dead_zone=0.01),
    "two steps": approximate("step(x + 0.5) - 2*step(x - 0.5)", UNIT, 1e-9, dead_zone=1e-3),
    "sign, measured": approximate("sign(x)", UNIT, 1e-3, dead_zone=0.1, proof="measured"),
    "a jump without a dead zone, refused": approximate("step(x - 0.25)", UNIT, 1e-3),
})  # fmt: skip

add("several variables", {
    "waves of two": approximate("sin(3*x)*cos(2*y)+x*y", SQUARE, 1e-3),
    "product of two": approximate("x*y", SQUARE, 1e-6),
    "product, shifted, float32": approximate("x*y", ww.Box([0, 5], [3, 7]), 1e-2, dtype=F32),
    "product, bfloat16": approximate("x*y", SQUARE, 2.0, dtype=BF16),
    "a plane": approximate("x - 2*y", ((0, 5), (2, 7)), 1e-3),
    "max of two": approximate("max(x, y) + 0.5*x", SQUARE, 0.15),
    "product of three": approximate("x*y*z", ww.Box([0, 5, -3], [1, 7, 2]), 1e-2),
    "a torch function of two": approximate(lambda x, y: torch.sin(x) * y, ww.Box([0, 5], [2, 7]), 1e-4),
    "product, measured": approximate("x*y", SQUARE, 1e-3, proof="measured"),
})  # fmt: skip


def bessel(x: np.ndarray) -> np.ndarray:
    """J_0; its derivatives of every order are at most 1 in size."""
    from scipy import special

    return special.j0(x)


def product_of_sines(x: Any, y: Any) -> Any:
    """No formula: numpy takes it out of torch's hands."""
    return np.sin(np.asarray(x)) * np.sin(np.asarray(y))


add("opaque", {
    "Bessel, order 6": approximate(bessel, UNIT, 1e-8, derivative_bound=(6, 1)),
    "Bessel, order 4, far": approximate(bessel, (0, 10), 1e-6, derivative_bound=(4, 1)),
    "Bessel, order 1": approximate(bessel, UNIT, 1e-2, derivative_bound=(1, 1)),
    "Bessel, anchor, float32": approximate(
        bessel, UNIT, 2e-6, derivative_bound=(4, 1.0), kernel="anchor", dtype=F32
    ),
    "Bessel, measured": approximate(bessel, (0, 10), 1e-6, proof="measured"),
    "two variables, measured": approximate(product_of_sines, SQUARE, 1e-3, proof="measured"),
    "sine, measured": approximate(SINE, UNIT, 1e-6, proof="measured"),
})  # fmt: skip


# compiled


def compile(function: Any, domain: Any, tol: float, **options: Any) -> Callable[[], Any]:
    """function: of torch tensors, or what makes a module."""
    return partial(_compile, function, domain, tol, options)


def _compile(function: Any, domain: Any, tol: float, options: dict[str, Any]) -> Made:
    if isinstance(function, partial):
        torch.manual_seed(0)
        function = function()
    return Made(ww.compile(function, domain, tol, **options), tokens=options.get("tokens"))


def make_mlp(activation: type[nn.Module], *sizes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers[:-1]).double()


class Attention(nn.Module):
    """One head with a residual connection, on tokens of `width` numbers; causal: later ones hardly count."""

    def __init__(self, width: int, causal: bool = False) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.causal = causal

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).T / math.sqrt(x.shape[-1])
        if self.causal:
            scores = scores + torch.triu(torch.full(scores.shape, -30.0, dtype=x.dtype), 1)
        return x + torch.softmax(scores, dim=-1) @ self.value(x)


def make_attention(width: int, causal: bool = False) -> nn.Module:
    return Attention(width, causal).double()


def wave(x: Tensor) -> Tensor:
    a, b = x.unbind(-1)
    return torch.sin(a) * b


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=-1)


def lotka_volterra(x: Tensor) -> Tensor:
    """One step of Euler's method, prey and predators."""
    prey, predators = x.unbind(-1)
    change = [1.1 * prey - 0.4 * prey * predators, 0.1 * prey * predators - 0.4 * predators]
    return x + 0.1 * torch.stack(change, dim=-1)


def newton_root(x: Tensor) -> Tensor:
    root = (1 + x) / 2
    for _ in range(3):
        root = (root + x / root) / 2
    return root


def standardise(x: Tensor) -> Tensor:
    mean = x.mean(dim=0)
    return (x - mean) / torch.sqrt(((x - mean) ** 2).mean(dim=0) + 1e-2)


def mix_tokens(x: Tensor) -> Tensor:
    R = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0], [0.25, 0.0, -1.0]], dtype=x.dtype)
    return R @ torch.tanh(x)


def divide(x: Tensor) -> Tensor:
    return x[:, :1] / (x[:, 1:] + 3)


def take_black_box(x: Tensor) -> Tensor:
    """What cannot be traced."""
    return torch.tensor(np.sin(x.numpy()[:, 0]) * x.numpy()[:, 1])


def branch(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


def cube(features: int, lo: float = -1.0, hi: float = 1.0) -> ww.Box:
    return ww.Box([lo] * features, [hi] * features)


add("compiled", {
    "MLP, tanh": compile(partial(make_mlp, nn.Tanh, 6, 8, 3), UNIT, 1e-8),
    "MLP, tanh, float32": compile(partial(make_mlp, nn.Tanh, 6, 8, 3), UNIT, 1e-4, dtype=F32),
    "MLP, tanh, two layers": compile(partial(make_mlp, nn.Tanh, 3, 5, 4, 2), UNIT, 1e-6),
    "MLP, relu": compile(partial(make_mlp, nn.ReLU, 6, 8, 3), UNIT, 1e-6),
    "MLP, relu, float32": compile(partial(make_mlp, nn.ReLU, 4, 6, 2), UNIT, 0.02, dtype=F32),
    "MLP, gelu": compile(partial(make_mlp, nn.GELU, 4, 6, 6, 1), UNIT, 1e-6),
    "MLP, silu": compile(partial(make_mlp, nn.SiLU, 3, 4, 1), UNIT, 1e-6),
    "only linear": compile(partial(make_mlp, nn.Identity, 4, 6, 2), UNIT, 1e-9),
    "product with a sine": compile(wave, ww.Box([-1, -2], [1, 2]), 1e-6),
    "product with a sine, float32": compile(wave, ww.Box([-1, -2], [1, 2]), 1e-2, dtype=F32),
    "softmax of 5": compile(softmax, cube(5, -4, 4), 1e-9),
    "softmax of 3, float32": compile(softmax, cube(3, -2, 2), 1e-4, dtype=F32),
    "layer norm of 3": compile(lambda x: nn.functional.layer_norm(x, (3,), eps=0.1), cube(3), 1e-4),
    "Lotka-Volterra, Euler": compile(lotka_volterra, cube(2, 0.5, 2), 1e-6),
    "Newton's root": compile(newton_root, cube(1, 0.5, 4), 1e-6),
    "a quotient": compile(divide, SQUARE, 1e-6),
    "log-sum-exp": compile(lambda x: torch.logsumexp(x, -1, keepdim=True), cube(3), 1e-6),
    "standardised, 4 tokens": compile(standardise, (-3, 3), 1e-4, tokens=4),
    "mixed tokens": compile(mix_tokens, cube(2), 1e-8, tokens=3),
    "mean over tokens": compile(lambda x: x.mean(0), SQUARE, 1e-10, tokens=3),
    "attention, 3 tokens": compile(partial(make_attention, 2), SQUARE, 1e-5, tokens=3),
    "attention, causal": compile(partial(make_attention, 2, True), SQUARE, 1e-5, tokens=3),
    "any number of tokens": compile(lambda x: torch.tanh(x) * x, UNIT, 1e-8),
    "a box for each token": compile(mix_tokens, ww.Box([[-1], [0], [1]], [[0], [1], [2]]), 1e-8, tokens=3),
    "kernel anchor": compile(lambda x: 2 * torch.sin(3 * x) + 1, UNIT, 1e-6, kernel="anchor"),
    "product, compiled and measured": compile(wave, SQUARE, 1e-6, proof="measured"),
    "black box, measured": compile(take_black_box, SQUARE, 1e-3, proof="measured"),
    "a tolerance out of reach is refused": compile(wave, SQUARE, 1e-17),
    "a branch is refused": compile(branch, UNIT, 1e-3),
})  # fmt: skip


# theorems

C = ww.constructions
SORT = ("min(x0, x1)", "max(x0, x1)")
TWO = "sin(2*x0) + abs(x1)/2"
PAIR_LOSS = "(1 + y**2/4)*softplus(x) - x*y/2"
MODELS = (draw(1, 3, 2), draw(2, 3))
SHARED = (draw(14, 2) / 2, draw(15, 6) / 2)


def make_relu_arrays(seed: int, inputs: int, units: int, outputs: int) -> tuple[np.ndarray, ...]:
    """A ReLU network as torch has it."""
    return (
        draw(seed, units, inputs) / math.sqrt(inputs),
        draw(seed + 1, units),
        draw(seed + 2, outputs, units) / math.sqrt(units),
        draw(seed + 3, outputs),
    )


def ranges(*sizes: float) -> Any:
    return ww.incontext.Ranges(*sizes)


def with_one_state(net: Any) -> Made:
    """Inputs for four tokens (x, u, y, w) with two features: all of them hold the same w."""
    x = draw_inputs(Made(net, tokens=4))
    x[..., -2:] = x[:, :1, -2:]
    return Made(net, x)


def take_step(tol: float) -> Made:
    """AE-3: the tables are those that `Descent` builds for a loss."""
    slope = ww.incontext.Descent("pseudo_huber", samples=4, features=2, steps=1, step=0.5, tol=tol).slope

    def f(inner: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (inner - y) / np.sqrt(1 + (inner - y) ** 2)

    net = C.in_context_step(slope, f, 4, 2, ranges(1.0, 1.0, 1.0, 0.125), method="spectral")
    return with_one_state(net)


def prompt_literally() -> Made:
    """AE-8 in the paper's layout: token k holds x, k w and w. There is no certificate."""
    net, rng = C.literal_truncated_linear(-1.0, 1.0, 6, 2, H=4), np.random.default_rng(8)
    x, w = rng.uniform(-1, 1, (COUNT, 6, 2)), np.repeat(rng.uniform(-1, 1, (COUNT, 1, 2)), 6, axis=1)
    return Made(net, torch.tensor(np.concatenate([x, np.arange(6)[:, None] * w, w], axis=-1)))


def theorem(name: str, *given: Any, rows: int | None = None, **options: Any) -> Callable[[], Made]:
    """rows: the tokens of an input."""
    return lambda: Made(getattr(C, name)(*given, **options), tokens=rows)


def theorem_of_steps(name: str, *given: Any, **options: Any) -> Callable[[], Made]:
    """Of n = 4 samples of 2 features, with one state."""
    return lambda: with_one_state(getattr(C, name)(*given, **options))


add("theorems", {
    "UA-1 hardmax": theorem("nearly_hardmax", 8, 0.5, error=1e-6),
    "UA-2 faithful": theorem("truncated_linear", *MODELS, -1.0, 1.0, UNIT, p=16, rows=3),
    "UA-2 faithful, float32": theorem(
        "truncated_linear", *MODELS, -1.0, 1.0, UNIT, p=16, dtype="float32", rows=3
    ),
    "UA-2 faithful, bfloat16": theorem(
        "truncated_linear", draw(1, 3, 2) / 4, draw(2, 3) / 4, -1.0, 1.0, UNIT, p=6, beta=16.0,
        dtype="bfloat16", rows=3,
    ),
    "UA-2 spectral": theorem("truncated_linear", *MODELS, -1.0, 1.0, UNIT, p=16, method="spectral", rows=3),
    "UA-2 rows": theorem("truncated_linear", *MODELS, -1.0, 2.0, UNIT, p=12, G=[0] * 4 + [1] * 8, rows=3),
    "UA-3 faithful": theorem("truncated_linear_heads", *SHARED, -1.0, 1.0, UNIT, H=4, rows=6),
    "UA-3 spectral": theorem(
        "truncated_linear_heads", *SHARED, -1.0, 1.0, UNIT, tol=1e-4, method="spectral", rows=6
    ),
    "UA-4 bumps": theorem("bumps", TWO, 2, 1, g=5, rows=2),
    "UA-5 to scalar": theorem("sequence_to_scalar", TWO, 2, 1, g=3, rows=2),
    "UA-5 to scalar, spectral": theorem(
        "sequence_to_scalar", "sin(x0)*x1", 2, 1, tol=0.1, method="spectral", rows=2
    ),
    "UA-6 to scalar, softmax": theorem("sequence_to_scalar_softmax", TWO, 2, 1, g=3, rows=2),
    "UA-7 to sequence": theorem("sequence_to_sequence", SORT, 2, 1, g=3, rows=2),
    "UA-7 to sequence, spectral": theorem(
        "sequence_to_sequence", ["sin(x0)*x1", "x0 + x1"], 2, 1, tol=0.1, method="spectral", rows=2
    ),
    "UA-7 to sequence, softmax": theorem("sequence_to_sequence_softmax", SORT, 2, 1, g=3, rows=2),
    "UA-8 sort": theorem("relu_network", SORT, 2, UNIT, tol=1e-6, rows=2),
    "UA-8 sort, faithful": theorem("relu_network", SORT, 2, UNIT, tol=0.1, method="faithful", rows=2),
    "UA-8 waves": theorem("relu_network", ["x0*x1", "x0 - x1"], 2, UNIT, tol=5e-2, rows=2),
    "UA-9 mixing": theorem("token_mixing", draw(23, 4, 4), draw(24, 3, 2), UNIT, rows=4),
    "UA-10 native": theorem("native_relu", make_relu_arrays(26, 6, 4, 3), 3, UNIT, rows=3),
    "UA-11 faithful": theorem("in_context_truncated_linear", -1.0, 1.0, 4, 2, p=16, rows=4),
    "UA-11 spectral": theorem(
        "in_context_truncated_linear", -1.0, 1.0, 4, 2, tol=1e-2, method="spectral", rows=4
    ),
    "UA-12 pairs, faithful": theorem_of_steps(
        "in_context_step_of_pairs", PAIR_LOSS, 4, 2, ranges(1.0, 1.0, 0.5, 0.25), P=3
    ),
    "UA-12 pairs, spectral": theorem_of_steps(
        "in_context_step_of_pairs", PAIR_LOSS, 4, 2, ranges(1.0, 1.0, 0.5, 0.25), tol=1e-3, method="spectral"
    ),
    "UA-12 logistic": theorem_of_steps("logistic_step", 4, 2, ranges(1.0, 1.0, 1.0, 0.25)),
    "UA-13 relu": theorem("relu", *MODELS, UNIT, p=16, rows=3),
    "UA-13 relu, spectral": theorem("relu", *MODELS, UNIT, tol=1e-5, method="spectral", rows=3),
    "UA-13 hard tanh": theorem("hard_tanh", *MODELS, UNIT, p=16, rows=3),
    "UA-13 clipped relu": theorem("clipped_relu", *MODELS, 0.5, UNIT, p=16, rows=3),
    "AE-1 gradients, faithful": theorem("in_context_gradients", "sin(x)", 4, 2, P=32, rows=4),
    "AE-1 gradients, spectral": theorem(
        "in_context_gradients", "sin(x)", 4, 2, tol=1e-8, method="spectral", rows=4
    ),
    "AE-1 gradients, float32": theorem(
        "in_context_gradients", "sin(x)", 4, 2, tol=1e-3, method="spectral", dtype="float32", rows=4
    ),
    "AE-2 of a loss": theorem(
        "per_sample_gradients", "sqrt(1 + x**2) - 1", 4, 2, tol=1e-6, method="spectral", rows=4
    ),
    "AE-3 one step": partial(take_step, 1e-6),
    "AE-8 heads": theorem("in_context_truncated_linear_heads", -1.0, 1.0, 6, 2, H=4, rows=6),
    "AE-8 literal": prompt_literally,
    "AE-13 faithful": theorem(
        "hopfield_function", "sin(3*x)", [1.0, -0.5], 0.25, UNIT, P=32, rows=3, tokens=3
    ),
    "AE-13 spectral": theorem(
        "hopfield_function", ("sin(3*x)", "abs(x)"), [1.0, -0.5], 0.25, UNIT, tol=1e-6, method="spectral",
        rows=2, tokens=2,
    ),
    "AE-14 faithful": theorem("hopfield_gradients", "tanh(x)", 4, 2, P=32, rows=4),
    "AE-14 spectral": theorem("hopfield_gradients", "tanh(x)", 4, 2, tol=1e-6, method="spectral", rows=4),
})  # fmt: skip


# in context


def make_examples(seed: int, n: int = 12, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Features and targets, some of them far off."""
    X = draw(seed, n, d).clip(-2.5, 2.5)
    y = X @ np.linspace(1.0, -0.5, d) + 0.2 * draw(seed + 1, n)
    y[::5] += 1.5
    return X, y


def descend(loss: Any = "squared", *, steps: int = 12, targets: str = "real", **options: Any) -> Callable[[], Made]:
    """A network for one data set, run on it and on a part of another; states, and what is proven."""
    return partial(_descend, loss, steps, targets, options)


def _descend(loss: Any, steps: int, targets: str, options: dict[str, Any]) -> Made:
    loss = loss() if callable(loss) else loss
    (X, y), (other, z) = (_with_targets(make_examples(seed), targets) for seed in (50, 60))
    descent = ww.incontext.fitting(X, y, loss, steps=steps, **options)
    run = descent.run(X, y)
    small = (other[:8] / 4, z[:8] if targets == "signs" else z[:8] / 4)  # well within what it was built for
    prompts = torch.stack([descent.prompt(X, y), descent.prompt(*small)])
    bounds = {"to the optimum": run.to_optimum.bound, "to the exact iterates": float(np.max(run.bounds))}
    return Made(descent.net, prompts, outputs={"states": run.states, "errors": run.errors}, bounds=bounds)


def _with_targets(examples: tuple[np.ndarray, np.ndarray], targets: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = examples
    if targets == "signs":
        return X, np.where(y > 0, 1.0, -1.0)
    return X, np.floor(np.exp(y / 2)) if targets == "counts" else y


def find_loss(name: str | None = None, **given: Any) -> Callable[[], Any]:
    return lambda: ww.incontext.loss(name, **given)


def build_descent() -> Made:
    """All sizes given by hand, stacked steps, and both penalties."""
    descent = ww.incontext.Descent(
        "squared", samples=6, features=2, steps=3, step=0.25, ridge=0.1, l1=0.05, looped=False, reach=16.0
    )
    X, y = make_examples(70, 6, 2)
    return Made(descent.net, descent.prompt(X, y)[None])


PAIR = "softplus(x) - x*tanh(y)/(1 + exp(-x/4))"

add("in context", {
    "squared": descend(),
    "squared, float32": descend(dtype=F32),
    "squared, stacked": descend(steps=3, looped=False),
    "squared, ridge for each feature": descend(ridge=np.array([0.1, 0.0, 0.3])),
    "squared, heavy ball": descend(algorithm="heavy ball"),
    "squared, Nesterov": descend(algorithm="nesterov"),
    "squared, Chebyshev": descend(algorithm="chebyshev"),
    "squared, proximal": descend(algorithm="proximal", l1=0.1),
    "squared, FISTA": descend(algorithm="fista", l1=0.1, ridge=0.2),
    "squared, FISTA, float32": descend(algorithm="fista", l1=0.1, ridge=0.2, dtype=F32),
    "logistic": descend("logistic", targets="signs"),
    "logistic, Nesterov, float32": descend(
        "logistic", targets="signs", algorithm="nesterov", ridge=0.1, dtype=F32
    ),
    "Huber": descend("huber"),
    "pseudo-Huber": descend(find_loss("pseudo_huber", delta=0.5)),
    "quantile": descend(find_loss("quantile", q=0.75, width=0.5)),
    "hinge": descend("hinge", targets="signs", step=0.25),
    "Poisson": descend("poisson", targets="counts", step=0.1),
    "own formula": descend(find_loss(formula="log(cosh(x))")),
    "own torch function": descend(find_loss(fn=lambda x: torch.log(1 + x**2))),
    "a loss of pairs": descend(find_loss(formula=PAIR), steps=4, step=0.25, tol=1e-2),
    "Descent, stacked, both penalties": build_descent,
    "a step that is too long, refused": descend(step=90.0),
})  # fmt: skip


# rules


def average(x: Tensor, m: Tensor) -> Tensor:
    return m - 0.5 * (m - x.mean(dim=0))


def take_tanh_step(rows: Tensor, w: Tensor) -> Tensor:
    x, y = rows.unbind(-1)
    return w - 0.5 * (x * (x * w - torch.tanh(y))).mean(dim=0)


def take_momentum_step(rows: Tensor, state: Tensor) -> Tensor:
    """Heavy ball for least squares: rows are (x, y), the state is (w, velocity)."""
    x, y, w, velocity = rows[:, :2], rows[:, 2], state[:2], state[2:]
    velocity = 0.5 * velocity - 0.8 * (x * (x @ w - y)[:, None]).mean(dim=0)
    return torch.cat([w + velocity, velocity])


def take_power_step(rows: Tensor, v: Tensor) -> Tensor:
    u = (rows * (rows @ v)[:, None]).mean(dim=0)
    return u * torch.rsqrt((u**2).sum() + 0.01)


def scale_matrix(K: Tensor, v: Tensor) -> Tensor:
    """Sinkhorn's."""
    u = 1 / (K * v).mean(dim=1)
    return 1 / (K * u[:, None]).mean(dim=0)


def normalise(x: Tensor, v: Tensor) -> Tensor:
    """Nothing can be proven of this: ranges do not show that the norm is not 0."""
    u = x.T @ (x @ v) / len(x)
    return u / u.norm()


def run_rule(rule: Any, steps: int, examples: np.ndarray, first: Sequence[float], **options: Any) -> Callable[[], Made]:
    return partial(_run_rule, rule, steps, examples, first, options)


def _run_rule(rule: Any, steps: int, examples: np.ndarray, first: Sequence[float], options: dict[str, Any]) -> Made:
    run = ww.incontext.algorithm(steps=steps)(rule).run(examples, first, **options)
    prompt = np.column_stack([examples, np.tile(first, (len(examples), 1))])
    return Made(run.net, torch.tensor(prompt)[None], outputs={"states": run.states, "errors": run.errors})


def spread(seed: int, *shape: int, lo: float = -1.0, hi: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(lo, hi, shape)


add("rules", {
    "mean": run_rule(average, 10, np.array([[1.0], [2.0], [6.0]]), [0.0]),
    "tanh step": run_rule(take_tanh_step, 4, spread(3, 5, 2), [0.25], state_box=([-1.0], [1.0]), tol=1e-8),
    "momentum": run_rule(take_momentum_step, 10, spread(0, 6, 3), [0.0] * 4, tol=1e-8),
    "power": run_rule(take_power_step, 5, spread(1, 5, 2, lo=-0.5), [0.7, 0.7], tol=1e-6),
    "Sinkhorn": run_rule(scale_matrix, 6, spread(2, 2, 2, lo=0.5, hi=1.5), [1.0, 1.0], tol=1e-7),
    "power, measured": run_rule(normalise, 5, draw(5, 6, 2), [0.5, 0.5], proof="measured"),
    "a state that leaves its box, refused": run_rule(
        lambda x, w: 2 * w * x.mean(dim=0), 3, np.ones((2, 1)), [1.0], state_box=([0.5], [1.5])
    ),
})  # fmt: skip


# estimators


def fit(name: str, targets: str = "real", seed: int = 80, n: int = 20, **options: Any) -> Callable[[], Made]:
    """Coefficients, predictions and bounds of an estimator, and its network on its own prompt."""
    return partial(_fit, name, targets, seed, n, options)


def _fit(name: str, targets: str, seed: int, n: int, options: dict[str, Any]) -> Made:
    X = draw(seed, n, 3)
    y = make_targets(X, seed, targets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(ww.incontext, name)(**options).fit(X, y)
    return describe_fit(model, X)


def make_targets(X: np.ndarray, seed: int, targets: str) -> np.ndarray:
    y = X @ [1.5, -1.0, 0.5] + 1.0 + 0.4 * draw(seed + 1, len(X))
    if targets == "several":
        return np.stack([y, X[:, 0] - y / 2], axis=1)
    if targets == "counts":
        return np.floor(np.exp(y / 2))
    if targets == "outliers":
        return np.where(np.arange(len(y)) % 7 == 0, y + 6.0, y)
    if targets == "two classes":
        return (y > 1).astype(int)
    return np.digitize(y, [0.0, 2.0]) if targets == "three classes" else y


def describe_fit(model: Any, X: np.ndarray) -> Made:
    outputs = {"coef": model.coef_, "intercept": model.intercept_, "predictions": model.predict(X)}
    bounds = {"bound": model.bound_, "prediction bound": float(np.max(model.prediction_bound(X)))}
    if hasattr(model, "predict_proba"):
        outputs["probabilities"] = model.predict_proba(X)
    if hasattr(model, "scale_"):
        outputs["scale"], bounds["scale bound"] = model.scale_, model.scale_bound_
    outputs["steps"] = np.array([model.n_iter_, model.steps_needed_])
    prompt = None if model.prompt_ is None else model.prompt_[None]
    return Made(model.network_, prompt, outputs=outputs, bounds=bounds, model=model)


def fit_many() -> Made:
    """Three data sets in one call of one network."""
    Xs = [draw(seed, n, 2) for seed, n in ((90, 10), (91, 15), (92, 7))]
    ys = [X @ [1.0, -2.0] + 0.1 * draw(93, len(X)) for X in Xs]
    models = ww.incontext.Ridge(0.5).fit_many(Xs, ys)
    outputs = {f"coef of {k}": model.coef_ for k, model in enumerate(models)}
    bounds = {f"bound of {k}": model.bound_ for k, model in enumerate(models)}
    return Made(models[0].network_, models[0].prompt_[None], outputs=outputs, bounds=bounds, model=models[0])


add("estimators", {
    "LinearRegression": fit("LinearRegression"),
    "LinearRegression, Newton-Schulz": fit("LinearRegression", method="newton-schulz"),
    "LinearRegression, no intercept, float32": fit("LinearRegression", fit_intercept=False, dtype="float32"),
    "Ridge": fit("Ridge"),
    "Ridge, two outputs": fit("Ridge", "several", alpha=0.25),
    "Ridge, Newton-Schulz": fit("Ridge", "several", method="newton-schulz"),
    "Ridge, three data sets": fit_many,
    "Lasso": fit("Lasso", alpha=0.25),
    "ElasticNet": fit("ElasticNet", alpha=0.25, l1_ratio=0.3),
    "LogisticRegression, two classes": fit("LogisticRegression", "two classes"),
    "LogisticRegression, multinomial": fit("LogisticRegression", "three classes"),
    "LogisticRegression, ovr": fit("LogisticRegression", "three classes", multi_class="ovr"),
    "LogisticRegression, balanced": fit("LogisticRegression", "two classes", class_weight="balanced", C=0.5),
    "PoissonRegressor": fit("PoissonRegressor", "counts"),
    "HuberRegressor": fit("HuberRegressor", "outliers"),
    "HuberRegressor, larger alpha": fit("HuberRegressor", "outliers", alpha=0.1, epsilon=1.5),
    "Lasso, a negative alpha, refused": fit("Lasso", alpha=-1.0),
})  # fmt: skip


# memory


def recall(steps: int = 1, size: int | None = None, dtype: torch.dtype = F64) -> Callable[[], Made]:
    """A memory of 12 patterns of 4 numbers, perhaps with values of another size, and its network."""
    return partial(_recall, steps, size, dtype)


def _recall(steps: int, size: int | None, dtype: torch.dtype) -> Made:
    patterns = torch.tensor(2 * draw(100, 12, 4)).to(dtype)
    values = None if size is None else torch.tensor(draw(101, 12, size)).to(dtype)
    queries = torch.tensor(draw(102, 5, 4)).to(dtype)
    queries[0] += patterns[0]
    memory = ww.memory.Hopfield(4, 0.75, dtype).store(patterns, values)
    outputs = {"retrieved": memory.retrieve(queries, steps), "energy": memory.energy(queries)}
    if steps == 1:
        outputs["by torch"] = memory.to_torch_attention()(queries)
    outputs["separation"] = memory.separation()
    bounds = {"recall": memory.recall_bound(radius=0.1, steps=steps).bound}
    return Made(memory.network(steps), queries, outputs=outputs, bounds=bounds)


add("memory", {
    "Hopfield": recall(),
    "Hopfield, three steps": recall(3),
    "Hopfield, values": recall(1, 2),
    "Hopfield, longer values, two steps": recall(2, 7),
    "Hopfield, float32": recall(1, None, F32),
})  # fmt: skip
