"""Networks that several tests look at, built once in a run: whoever asks first builds and saves one, all load it.

Loading is checking without the search for a proof. What `built` returns is one object for a whole process: a test that
changes its network takes `copied`.
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

import weightwright as ww


@ww.incontext.algorithm(steps=1)
def halved(rows: Any, state: Any) -> Any:
    return 0.5 * state + rows.mean(dim=0)


NETWORKS: dict[str, Callable[[], ww.AttentionNetwork]] = {
    "sine": lambda: ww.approximate("sin(5*x)", (-1, 1), 1e-8),
    "a coarse sine": lambda: ww.approximate("sin(x)", (-1, 1), 1e-3),
    "samples": lambda: ww.approximate(lambda x: np.array(np.sin(x)), (-1, 1), 1e-2, derivative_bound=(2, 1.0)),
    "several numbers": lambda: ww.approximate("x*y", ww.Box([-1, -1], [1, 1]), 0.1),
    "tanh": lambda: ww.compile(torch.tanh, (-1, 1), 1e-3),
    "a loop": lambda: halved.compile(([-1.0], [1.0]), ([-2.0], [2.0]), samples=2),
    "a prompt": lambda: made_prompt("descent", "float64"),
    "a memory": lambda: ww.memorize([["a", "b"], ["b"]], [[0, 1], [2]]),
    "an interpreter": lambda: ww.Interpreter(2, 1, 1, anchors=6).net,
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
def built(name: str) -> ww.AttentionNetwork:
    """For tests that leave it as it is."""
    return ww.load(built_file(name))


def copied(name: str) -> ww.AttentionNetwork:
    """For tests that change it."""
    return copy.deepcopy(built(name))
