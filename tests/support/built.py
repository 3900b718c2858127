"""Networks that several tests look at, built once in a run: whoever asks first builds and saves one, all load it.

Loading is checking without the search for a proof, which takes a fifth of the time.
"""

from __future__ import annotations

import copy
import fcntl
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from support.prompts import made as made_prompt
from support.torch_zoo.moons import trained_moons
from support.user_networks import BUILDERS
from torch import nn

import weightwright as ww


@ww.incontext.algorithm(steps=1)
def halved(rows: Any, state: Any) -> Any:
    return 0.5 * state + rows.mean(dim=0)


def layers(*sizes: int, between: type[nn.Module], tol: float = 1e-2, dtype: str = "float64") -> ww.AttentionNetwork:
    """Linear layers, as torch draws them."""
    torch.manual_seed(3)
    parts = [part for i in range(len(sizes) - 1) for part in (nn.Linear(sizes[i], sizes[i + 1]), between())]
    return ww.compile(nn.Sequential(*parts[:-1]), (-1, 1), tol, features=sizes[0], dtype=dtype)


def causal_attention() -> ww.AttentionNetwork:
    torch.manual_seed(3)
    W, b = torch.randn(3, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)

    def attend(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(x @ W, x, x + b, is_causal=True)

    return ww.compile(attend, (-1, 1), 1e-6, features=3, tokens=4)


def several_heads() -> ww.AttentionNetwork:
    torch.manual_seed(4)
    attention = nn.MultiheadAttention(4, 2, batch_first=True).double().eval()
    return ww.compile(lambda x: attention(x, x, x)[0], (-1, 1), 1e-6, features=4, tokens=3)


def linear() -> ww.AttentionNetwork:
    torch.manual_seed(5)
    return ww.compile(nn.Linear(3, 2).double().eval(), (-1, 1), 1e-9)


def all_tables(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.sin(x[..., 0]) * x[..., 1], torch.exp(torch.cos(x[..., 1]))], -1)


def mean_in_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.tanh(x).mean(-2, keepdim=True), -1)


NETWORKS: dict[str, Callable[[], ww.AttentionNetwork]] = {
    # a function of one number
    "sine": lambda: ww.approximate("sin(5*x)", (-1, 1), 1e-8),
    "sine, 1e-6": lambda: ww.approximate("sin(5*x)", (-1, 1), 1e-6),
    "sine, float32": lambda: ww.approximate("sin(5*x)", (-1, 1), 1e-4, dtype="float32"),
    "a coarse sine": lambda: ww.approximate("sin(x)", (-1, 1), 1e-3),
    "exponential, float32": lambda: ww.approximate("exp(x)", (-1, 1), 1e-4, dtype="float32"),
    "tanh, bfloat16": lambda: ww.approximate("tanh(x)", (-1, 1), 0.2, dtype="bfloat16"),
    "off centre": lambda: ww.approximate("exp(x)", (1, 2), 1e-8),
    "kink": lambda: ww.approximate("abs(x - 0.3) + 0.1*x", (-1, 1), 1e-6),
    "kink at 0": lambda: ww.approximate("relu(x)", (-1, 1), 1e-2),
    "two kinks": lambda: ww.approximate("relu(x) + abs(x - 1/3)", (-1, 1), 1e-2),
    "gate": lambda: ww.approximate("relu(x)", (-1, 1), 1e-6, sees="self"),
    "jump": lambda: ww.approximate("sign(x)", (-1, 1), 1e-6, dead_zone=0.01),
    "window": lambda: ww.approximate("sin(20*x)", (-1, 1), 1e-6, kernel="anchor"),
    "window, float32": lambda: ww.approximate("sin(20*x)", (-1, 1), 1e-4, kernel="anchor", dtype="float32"),
    "small window": lambda: ww.approximate("sin(5*x)", (-1, 1), 1e-4, kernel="anchor"),
    "samples": lambda: ww.approximate(lambda x: np.array(np.sin(x)), (-1, 1), 1e-2, derivative_bound=(2, 1.0)),
    # of several numbers
    "several numbers": lambda: ww.approximate("x*y", ww.Box([-1, -1], [1, 1]), 0.1),
    "two variables": lambda: ww.approximate("x*y", ww.Box([-1, -1], [1, 1]), 1e-6),
    "half a square": lambda: ww.approximate("x*y", ww.Box([-1, 0], [1, 1]), 1e-2),
    # compiled
    "tanh": lambda: ww.compile(torch.tanh, (-1, 1), 1e-3),
    "ablatable exponential": lambda: ww.compile(torch.exp, (-1, 1), 1e-3, ablatable=True),
    "linear": linear,
    "small layers": lambda: layers(2, 3, 1, between=nn.Tanh),
    "tanh layers": lambda: layers(3, 5, 2, between=nn.Tanh),
    "tanh layers, float32": lambda: layers(3, 5, 2, between=nn.Tanh, dtype="float32"),
    "relu layers": lambda: layers(2, 4, 4, 1, between=nn.ReLU),
    "moons": lambda: ww.compile(trained_moons(seed=1), (-2, 3), 1e-6),
    "moons, ablatable": lambda: ww.compile(trained_moons(seed=1), (-2, 3), 1e-6, ablatable=True),
    "products": lambda: ww.compile(lambda x: torch.sin(x[:, :1]) * x[:, 1:], (-1, 1), 1e-6, features=2),
    "tables of all kinds": lambda: ww.compile(all_tables, (-1, 1), 1e-2, features=2),
    "softmax": lambda: ww.compile(lambda x: torch.softmax(x, -1), (-1, 1), 1e-9, features=3),
    # of several tokens
    "self-attention": lambda: ww.compile(
        lambda x: torch.softmax(x @ x.mT, -1) @ x, ww.Box([-1] * 2, [1] * 2), 1e-6, tokens=3
    ),
    "attention": causal_attention,
    "multi-head": several_heads,
    "mixing": lambda: ww.compile(lambda x: torch.tanh(x) - x.mean(0), (-1, 1), 1e-6, features=2, tokens=3),
    "mean in a softmax": lambda: ww.compile(mean_in_softmax, (-1, 1), 1e-2, features=2, tokens=3),
    # of other kinds of claim
    "a loop": lambda: halved.compile(([-1.0], [1.0]), ([-2.0], [2.0]), samples=2),
    "a prompt": lambda: made_prompt("descent", "float64"),
    "a prompt with a read-out": lambda: made_prompt("one prediction", "float64"),
    "states of their own": lambda: ww.incontext.causal_learner(1, 2, 2, domain=(1.0, 1.0, 8.0), tol=1e-3).net,
    "a memory": lambda: ww.memorize([["a", "b"], ["b"]], [[0, 1], [2]]),
    "a memory of numbers": lambda: ww.memorize([[-1.0, 1.0, 0.5], [1.0, -1.0]], [[0, 1, 2], [2, 0]], positions=False),
    "an interpreter": lambda: ww.Interpreter(2, 1, 1, anchors=6).net,
    "a coarse interpreter": lambda: ww.Interpreter(2, 1, 1, anchors=3, tol=1.0).net,
    "an interpreter of eight programs": lambda: (
        ww.Interpreter(tokens=1, features=2, head_dim=1, programs=8, w_max=2.0, x_max=1.0).net
    ),
    # one of every kind, for forgeries
    **BUILDERS,
}

_folders: list[Path] = []


def use_folder(folder: Path) -> None:
    """Where networks of this run are saved, by whichever process builds them."""
    folder.mkdir(exist_ok=True)
    _folders[:] = [folder]


def built_file(name: str) -> Path:
    """The saved network. Of two processes that ask at once, one builds it and the other waits."""
    (folder,) = _folders
    path = folder / f"{list(NETWORKS).index(name)}.safetensors"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            NETWORKS[name]().save(path)
    return path


@cache
def _loaded(name: str) -> ww.AttentionNetwork:
    return ww.load(built_file(name))


def copied(name: str) -> ww.AttentionNetwork:
    """A network of one's own: for tests that change it, or look at what happens when it runs first."""
    return copy.deepcopy(_loaded(name))


@cache
def built(name: str) -> ww.AttentionNetwork:
    """One network for all tests of a process that leave it as it is."""
    return copied(name)
