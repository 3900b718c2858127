"""What a second look by fresh eyes found about costs: small files that took many times what they may."""

from __future__ import annotations

import dataclasses
import json
import time
from collections import deque

import numpy as np
import pytest

import weightwright as ww
from weightwright.checker.prompt.interpreter_layers import ExpectedLayers
from weightwright.input_files import parse_json
from weightwright.limits import Limits, limited
from weightwright.network import Softmax
from weightwright.network.field_types import MistypedError, agree_types
from weightwright.runtime.weights import Weights

#: Seconds that work may take which stops at once where it should: far below what it took.
QUICK = 1.0


def test_a_name_given_twice_is_found_in_one_pass() -> None:
    """Every name was counted in all the others: 26 seconds for 60,000."""
    names = ",".join(f'"{i}":0' for i in range(60_000))
    start = time.perf_counter()
    with pytest.raises(ww.FileFormatError, match="names '59999' twice"):
        parse_json(f'{{{names},"59999":1}}')
    assert time.perf_counter() - start < QUICK


def test_modules_without_arrays_are_counted() -> None:
    """Layers that are stored once and shared made 2^18 modules of a file of 4 KiB."""
    layer = Softmax(("a", "b"))
    with pytest.raises(ww.BudgetError), limited("a file", Limits(seconds=0.05)):
        deque((Weights(layer) for _ in range(10**5)), maxlen=0)


def test_an_interpreters_sizes_are_counted_before_its_places_are_written_out() -> None:
    """2.5 GB for a claim of 10,000 features in a file of 12 KiB."""
    said = ww.Interpreter(tokens=2, features=2, head_dim=1).certificate
    claim = dataclasses.replace(said.claim, features=10_000)  # type: ignore[type-var]
    with pytest.raises(ww.BudgetError, match="megabytes="), limited("a file", Limits(megabytes=512)):
        ExpectedLayers(claim)  # type: ignore[arg-type]


def test_a_field_of_another_type_is_not_written_out() -> None:
    """What it holds may be shared, and gigabytes long once it is text."""
    tree: tuple[object, ...] = ("a long text" * 1000,)
    for _ in range(17):
        tree = (tree, tree)
    start = time.perf_counter()
    with pytest.raises(MistypedError, match="is a tuple, which"):
        agree_types(Softmax((tree,)), {})  # type: ignore[arg-type]
    assert time.perf_counter() - start < QUICK


def test_an_end_that_is_not_finite_is_found_at_once() -> None:
    ends = np.zeros(2**22)
    ends[-1] = np.inf
    start = time.perf_counter()
    with pytest.raises(ww.DomainError, match="hi must be a finite number"):
        ww.Box(np.full(2**22, -1.0), ends)
    assert time.perf_counter() - start < QUICK


def test_a_header_of_nested_lists_is_counted() -> None:
    text = json.dumps([[[[]]]] * 200_000)
    with pytest.raises(ww.BudgetError), limited("a file", Limits(megabytes=len(text) * 40 / 2**20)):
        parse_json(text)
