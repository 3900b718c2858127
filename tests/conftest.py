from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from support.built import built, use_folder

import weightwright as ww

settings.register_profile("project", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("project")
torch.set_num_threads(1)  # many small products: more threads only wait for each other


@pytest.hookimpl(tryfirst=True)  # before what is slow is left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked few(n), n cases run in `make test`, spread evenly; the others are slow."""
    cases = defaultdict[tuple[Path, str, int], list[pytest.Function]](list)
    for item in items:
        few = item.get_closest_marker("few")
        if few is not None and item.get_closest_marker("slow") is None and isinstance(item, pytest.Function):
            cases[item.path, item.originalname, few.args[0]].append(item)
    for (_, _, count), group in cases.items():
        kept = {round(i * len(group) / count) for i in range(count)}
        for place, item in enumerate(group):
            if place not in kept:
                item.add_marker("slow")


def pytest_collection_finish() -> None:
    """What is imported stays to the end: the garbage collector need not go through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """A test that leaves torch with more threads makes all that come after it slow."""
    left = torch.get_num_threads()
    torch.set_num_threads(1)
    assert left == 1, f"the test leaves torch with {left} threads"


@pytest.fixture(scope="session", autouse=True)
def _built(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> None:
    """Networks that tests share stand in one folder, also for the workers of a run."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if hasattr(request.config, "workerinput") else own
    use_folder(shared / "built")


@pytest.fixture(scope="session", autouse=True)
def _short_searches(request: pytest.FixtureRequest) -> Iterator[None]:
    """Networks of which nothing is proven are searched for seconds; without the slow tests for a tenth of one."""
    with pytest.MonkeyPatch.context() as patch:
        if "not slow" in request.config.getoption("markexpr"):
            for place in ("approximation.measured", "compiler.measured_network"):
                patch.setattr(f"weightwright.{place}.SECONDS", 0.1)
        yield


@pytest.fixture(scope="session")
def sine() -> ww.AttentionNetwork:
    """A proven network that many tests look at and none changes."""
    return built("sine")


@pytest.fixture
def saved(sine: ww.AttentionNetwork, tmp_path: Path) -> Path:
    path = tmp_path / "sine.safetensors"
    sine.save(path)
    return path
