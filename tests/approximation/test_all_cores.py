"""Tables that are found on several cores are those of one; what a branch cannot do, this process does."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np
import pytest

import weightwright as ww
from weightwright import all_cores
from weightwright.all_cores import work_on_all_cores
from weightwright.approximation import shared_tables, table
from weightwright.approximation.shared_tables import Wish, share_tables

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes branch off on Linux alone")

FORMULAS = ("sin(3*x)", "exp(x)", "x**2", "tanh(x)")


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIGHTWRIGHT_CACHE", "off")  # what other tests found is found again
    for module in (all_cores, table, shared_tables):
        monkeypatch.setattr(module, "processes", lambda: 2)
    table.forget_tables()


def find(formulas: tuple[str, ...], most: int = 64) -> list[object]:
    wishes = [Wish(formula, -1.0, 1.0, 1e-9, 1e-6, needed=True) for formula in formulas]
    found = share_tables(wishes, "float64", most, lambda message: None)
    return [found.get(number) for number in range(len(wishes))]


def test_tables_are_those_of_one_core(two_cores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    together = find(FORMULAS)
    for module in (all_cores, table, shared_tables):
        monkeypatch.setattr(module, "processes", lambda: 1)
    table.forget_tables()
    for one, other in zip(together, find(FORMULAS), strict=True):
        assert isinstance(one, table.ProposedTable)
        assert isinstance(other, table.ProposedTable)
        assert one.claim.terms == other.claim.terms
        assert all(np.array_equal(a.keys, b.keys) for a, b in zip(one.tables, other.tables, strict=True))


def test_no_table_is_looked_for_twice(two_cores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    search = table._find_table_near

    def spied(formula: str, *rest: object) -> table.ProposedTable:
        looked.append(formula)  # of this process: branches have lists of their own
        time.sleep(0.05)
        return search(formula, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(table, "_find_table_near", spied)
    find(FORMULAS)
    assert 0 < len(looked) < len(FORMULAS)  # a branch found the others
    find(FORMULAS)
    assert len(looked) < len(FORMULAS)


def test_what_cannot_be_had_is_said_once(two_cores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    formulas = "sin(3*x)", "sin(300*x)"
    found = find(formulas, most=16)
    assert isinstance(found[0], table.ProposedTable)
    monkeypatch.setattr(table, "_find_table_near", lambda *asked: pytest.fail("looked for again"))
    assert isinstance(found[1], ww.ToleranceError)
    assert str(found[1]) == str(find(formulas, most=16)[1])


def test_every_piece_is_done_by_one(two_cores: None) -> None:
    def work(item: int) -> tuple[int, int]:
        time.sleep(0.02)
        return item, os.getpid()

    found = work_on_all_cores(work, range(10, 20))
    assert {number: item for number, (item, _) in found.items()} == {k: 10 + k for k in range(10)}
    assert len({process for _, process in found.values()}) == 2


def test_a_branch_that_ends_leaves_its_piece_to_this_process(two_cores: None) -> None:
    here = os.getpid()

    def work(item: int) -> int:
        time.sleep(0.02)
        if os.getpid() != here:
            os._exit(1)
        return item

    found = work_on_all_cores(work, range(6))
    assert set(found.values()) <= set(range(6))
    assert len(found) >= 4


def test_what_this_process_raises_is_raised_and_no_branch_stays(
    two_cores: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, branches, fork = os.getpid(), list[int](), os.fork

    def spied() -> int:
        branches.append(fork())
        return branches[-1]

    monkeypatch.setattr(os, "fork", spied)

    def work(item: int) -> int:
        if os.getpid() == here:
            raise ValueError(f"piece {item}")
        time.sleep(30)
        return item

    start = time.perf_counter()
    with pytest.raises(ValueError, match="piece"):
        work_on_all_cores(work, range(4))
    assert time.perf_counter() - start < 5
    assert len(branches) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(branches[0], 0)


def test_without_processes_one_does_all(two_cores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(os, "fork", refused)
    before = len(os.listdir("/proc/self/fd"))
    assert work_on_all_cores(lambda item: item + 1, range(5)) == {k: k + 1 for k in range(5)}
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_program_that_buries_its_children_itself_gets_its_results(two_cores: None) -> None:
    def work(item: int) -> int:
        time.sleep(0.01)
        return item

    kept = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    before = len(os.listdir("/proc/self/fd"))
    try:
        assert set(work_on_all_cores(work, range(8)).values()) == set(range(8))
    finally:
        signal.signal(signal.SIGCHLD, kept)
    assert len(os.listdir("/proc/self/fd")) == before
