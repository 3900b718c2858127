"""Several threads save to one path: readers see one whole file or another, and no failed save leaves anything."""

from __future__ import annotations

import resource
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import weightwright as ww
from weightwright.interpreter.program_files import save_program
from weightwright.output_files import whole


def test_two_that_write_one_path_share_no_temporary_name(tmp_path: Path) -> None:
    target = tmp_path / "net.txt"
    with whole(target) as (first,):
        first.write_text("first")
        with whole(target) as (second,):
            second.write_text("second, which is longer")
        assert target.read_text() == "second, which is longer"
    assert target.read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["net.txt"]


def test_threads_save_to_one_path(sine: ww.AttentionNetwork, tmp_path: Path) -> None:
    kink, path = ww.approximate("abs(x)", (-1, 1), 1e-2, progress=False), tmp_path / "net.safetensors"
    sine.save(path)
    errors, left = Counter[str](), threading.Barrier(5)

    def save(net: ww.AttentionNetwork) -> None:
        left.wait()
        for _ in range(30):
            try:
                net.save(path)
            except OSError as error:
                errors[type(error).__name__] += 1

    threads = [threading.Thread(target=save, args=(net,)) for net in (sine, kink, sine, kink)]
    for thread in threads:
        thread.start()
    left.wait()
    seen = Counter[str]()
    while any(thread.is_alive() for thread in threads):
        seen[ww.load(path, verify=False).network.outputs[0]] += 1
    for thread in threads:
        thread.join()
    assert not errors
    assert seen.keys() <= {"sin(5*x)", "abs(x)"}
    assert [path.name for path in tmp_path.iterdir()] == ["net.safetensors"]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The system refuses to make any file larger: what a disk does that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def save_a_program(path: Path) -> None:
    W = np.arange(4096.0).reshape(64, 64)
    save_program(ww.interpreter.Program(W, W, W, np.zeros((0, 64)), None, "a program"), path)


SAVES: dict[str, Callable[[ww.AttentionNetwork, Path], object]] = {
    "net.safetensors": lambda net, path: net.save(path),
    "net.py": lambda net, path: net.to_torch(path),
    "program.npz": lambda _, path: save_a_program(path),
    "program.json": lambda _, path: save_a_program(path),
}


def test_a_save_that_fails_leaves_what_was_there(sine: ww.AttentionNetwork, tmp_path: Path) -> None:
    for name, save in SAVES.items():
        path = tmp_path / name
        path.write_text("what was there before")
        with files_of_at_most(2000), pytest.raises(OSError, match="File too large"):
            save(sine, path)
        assert path.read_text() == "what was there before"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(SAVES)
