"""Which runs are recorded as graphs of a GPU, which are replayed, and what happens where none can be made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from weightwright.runtime.passes import recorded
from weightwright.runtime.passes.recorded import Recorder


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """The shapes that were recorded, on a machine without a GPU: what is replayed runs again here."""
    shapes: list[torch.Size] = []

    class Recorded:
        def __init__(self, run: Callable[[Tensor], Any], x: Tensor) -> None:
            shapes.append(x.shape)
            if len(x) == 13:
                raise RuntimeError("operation not permitted when stream is capturing")

        def __call__(self, x: Tensor) -> Any:
            return x + 100, None

    monkeypatch.setattr(recorded, "RecordedRun", Recorded)
    monkeypatch.setattr(torch.cuda, "device_of", lambda x: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    return shapes


def plain(x: Tensor) -> Any:
    return x + 1, None


def test_the_first_run_is_plain_the_second_is_recorded_later_ones_are_replayed(made: list[torch.Size]) -> None:
    recorder, x = Recorder(), torch.zeros(2)
    assert [float(recorder(plain, x, ("a",))[0][0]) for _ in range(4)] == [1, 100, 100, 100]
    assert made == [(2,)]
    assert float(recorder(plain, x, ("b",))[0][0]) == 1  # other kernels
    assert float(recorder(plain, torch.zeros(3), ("a",))[0][0]) == 1  # another shape


def test_the_oldest_graphs_go(made: list[torch.Size]) -> None:
    recorder = Recorder()
    for n in (*range(1, 7), 1):
        for _ in range(2):
            recorder(plain, torch.zeros(n), ())
    assert len(recorder.graphs) <= 4
    assert made == [(1,), (2,), (3,), (4,), (5,), (6,), (1,)]


def test_what_cannot_be_recorded_runs_as_it_is(made: list[torch.Size]) -> None:
    recorder, x = Recorder(), torch.zeros(13)
    assert [float(recorder(plain, x, ())[0][0]) for _ in range(4)] == [1, 1, 1, 1]
    assert made == [(13,)]  # nobody tries again


def test_a_run_that_fails_is_no_first_run(made: list[torch.Size]) -> None:
    recorder, x = Recorder(), torch.zeros(2)

    def failing(x: Tensor) -> Any:
        raise ValueError("no step")

    for _ in range(2):
        with pytest.raises(ValueError, match="no step"):
            recorder(failing, x, ())
    assert not made
