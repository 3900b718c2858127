"""What a user calls most, by name: `walks.py` follows these calls, `repetition.py` counts what they do twice.

Every entry makes ready what the call needs, and returns the call.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import weightwright as ww

Call = Callable[[], Any]
#: For files; it goes when the process ends.
FOLDER = tempfile.TemporaryDirectory()


def approximate_sine() -> Call:
    return lambda: ww.approximate("sin(5*x)", domain=(-1, 1), tol=1e-8)


def compile_product() -> Call:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x[..., :1]) * x[..., 1:]

    return lambda: ww.compile(function, domain=ww.Box([-1, -1], [1, 1]), tol=1e-6)


def make_module() -> nn.Module:
    """2-16-2 with tanh."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)).double()


def compile_module() -> Call:
    module = make_module()
    return lambda: ww.compile(module, (-1, 1), 1e-6)


def fit_ridge() -> Call:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    ridge = ww.incontext.Ridge
    return lambda: ridge().fit(X, y)


def memorize_sentences() -> Call:
    sentences = [["the", "cat", "sat"], ["a", "dog", "sat", "down"], ["the", "dog", "barked"]]
    tags = [["DET", "NOUN", "VERB"], ["DET", "NOUN", "VERB", "ADV"], ["DET", "NOUN", "VERB"]]
    return lambda: ww.memorize(sentences, tags)


def interpret_program() -> Call:
    """An interpreter is built, and runs one attention head."""
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.uniform(-1, 1, (3, 2)))
    W_Q, W_K, W_V = (rng.uniform(-1, 1, shape) for shape in ((1, 2), (1, 2), (2, 2)))

    def call() -> Any:
        machine = ww.Interpreter(tokens=3, features=2, head_dim=1)
        return machine(x, machine.program(W_Q, W_K, W_V))

    return call


def compiled() -> ww.AttentionNetwork:
    return ww.compile(make_module(), (-1, 1), 1e-6)


def saved() -> Path:
    """The file of the compiled module."""
    path = Path(FOLDER.name) / "saved.safetensors"
    compiled().save(path)
    return path


def save_compiled() -> Call:
    net, path = compiled(), Path(FOLDER.name) / "written.safetensors"
    return lambda: net.save(path)


def check_saved() -> Call:
    path = saved()
    return lambda: ww.check(path)


def load_saved() -> Call:
    path = saved()
    return lambda: ww.load(path)


def check_compiled() -> Call:
    return compiled().check


def run_compiled() -> Call:
    net = compiled()
    return lambda: net(torch.zeros(4, 2, dtype=torch.float64))


def take_circuit() -> Call:
    return compiled().circuit


def search_compiled() -> Call:
    net = compiled()
    return lambda: ww.search(net, seconds=0, progress=False)


CALLS: dict[str, Callable[[], Call]] = {
    "approximate sin(5*x)": approximate_sine,
    "compile sin(a) b": compile_product,
    "compile a 2-16-2 tanh module": compile_module,
    "Ridge().fit, diabetes": fit_ridge,
    "memorize three sentences": memorize_sentences,
    "Interpreter and a run": interpret_program,
    "save the module": save_compiled,
    "check its file": check_saved,
    "load its file": load_saved,
    "net.check()": check_compiled,
    "net(x), the first time": run_compiled,
    "net.circuit()": take_circuit,
    "search, one round": search_compiled,
}
