"""What a file may cost: small files that ask for much end in a BudgetError, in time and without the memory."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.bombs import stopped
from support.command_line import complaint, weightwright
from support.forging import save_forged, with_leaf
from support.networks import linear
from support.one_head import local_text
from support.stored import certified_file, forge, saved

import weightwright as ww
from weightwright.limits import UNLIMITED, Limits, count_boxes, hold, limited, tick
from weightwright.network import Loop, Term

Made = tuple[Any, Any]


def loops_in_loops() -> Made:
    """Each runs twice: a walk that follows them takes 2^60 steps."""
    network, said = saved("graph")
    names = network.embed.coordinates
    layer: Any = linear(names, np.eye(len(names)))
    for _ in range(60):
        layer = Loop((layer,), 2)
    return replace(network, layers=(layer, *network.layers)), said


def boxes_of_zeros() -> Made:
    """2^22 boxes that take no room in the file."""
    network, said = saved("formula")
    return network, with_leaf(said, boxes=np.zeros((2**22, 2)))


def one_box() -> Made:
    """About a formula that is known well on tiny boxes only."""
    network, said = saved("formula")
    leaf, nothing = said.claim.leaf, "0.001*(sin(1000000*x)**2 + cos(1000000*x)**2 - 1)"  # type: ignore[union-attr]
    wild = f"{said.formula} + {nothing}"
    local = local_text(wild, 0.0, float(next(network.heads).W_Q[0, 0]), 0.0)
    assert leaf.formula == local_text(said.formula, 0.0, float(next(network.heads).W_Q[0, 0]), 0.0)
    return network, replace(with_leaf(said, formula=local, boxes=np.array([[leaf.lo, leaf.hi]])), formula=wild)


def one_array_often() -> Made:
    """Three heads more of 100 numbers each in the file, and 10,000 times the same registers in memory."""
    network, said = saved("formula")
    (layer,) = network.layers
    registers = np.repeat(network.registers, 400, axis=0)
    head = layer.heads[0]  # type: ignore[union-attr]
    head = replace(head, sees=replace(head.sees, registers=(0, len(registers))))
    return replace(network, registers=registers, layers=(replace(layer, heads=(head,) * 10_000),)), said  # type: ignore[arg-type]


BOMBS: dict[str, Callable[[], Made]] = {
    "loops in loops": loops_in_loops,
    "boxes of zeros": boxes_of_zeros,
    "one box": one_box,
    "one array often": one_array_often,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_asks_for_much_is_stopped(name: str, tmp_path: Path) -> None:
    stopped(*BOMBS[name](), tmp_path)


def test_an_array_that_several_fields_name_is_held_once(tmp_path: Path) -> None:
    network, said = saved("formula")
    (layer,) = network.layers
    heads = layer.heads * 50  # type: ignore[union-attr]
    save_forged(replace(network, layers=(replace(layer, heads=heads),)), said, tmp_path / "net.safetensors")  # type: ignore[arg-type]
    found, _ = certified_file(tmp_path / "net.safetensors")
    assert len({id(head) for head in found.heads}) == 1
    assert len({id(head.W_K) for head in found.heads}) == 1
    fresh = replace(next(found.heads), role="another")
    assert fresh.W_K is next(found.heads).W_K
    with pytest.raises(ValueError, match="read-only"):
        fresh.W_K[0, 0] = 1.0


def test_a_view_of_an_array_that_can_be_written_is_copied() -> None:
    numbers = np.ones((2, 2))
    view = numbers[:]
    view.flags.writeable = False
    term = Term(view)
    numbers[0, 0] = 5.0
    assert term.A[0, 0] == 1.0


@pytest.mark.parametrize("limit", ["seconds", "megabytes", "tokens", "boxes"])
def test_every_limit_is_an_argument_of_check_and_load(limit: str, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weightwright.limits._LITTLE", 0)  # the process need not grow for so small a file
    tight: Any = {limit: 1e-9}
    for use in (ww.check, ww.load):
        with pytest.raises(ww.BudgetError, match=f"{limit}="):
            use(saved, **tight)
    if limit != "boxes":  # nothing is examined
        with pytest.raises(ww.BudgetError, match=f"{limit}="):
            ww.load(saved, verify=False, **tight)
    assert ww.check(saved, **{limit: math.inf}).status == "PROVEN"


@pytest.mark.parametrize("value", [0, -1, math.nan, "1", True, None])
def test_a_limit_that_is_none_is_named(value: Any, saved: Path) -> None:
    with pytest.raises(ValueError, match="seconds = "):
        ww.check(saved, seconds=value)


@pytest.mark.parametrize("command", ["check", "run", "info"])
def test_the_command_line_has_the_limits(command: str, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weightwright.limits._LITTLE", 0)
    values = ["0.5"] if command == "run" else []
    assert weightwright(command, saved, "--seconds", "inf", *values).exit_code == 0
    for option in ("--seconds", "--megabytes", "--tokens"):
        assert option in complaint(weightwright(command, saved, option, "1e-9", *values), 2)


def test_no_limit_holds_outside() -> None:
    hold(2**60)
    count_boxes(2**60)
    tick()
    with limited("a file", Limits(megabytes=1.0)), pytest.raises(ww.BudgetError, match=r"a file: .*megabytes="):
        hold(2**20)
    hold(2**20)


def test_limits_are_of_one_thread() -> None:
    said: list[str] = []

    def other() -> None:
        hold(2**60)
        said.append("fine")

    with limited("a file", Limits(megabytes=1.0)):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert said == ["fine"]


def test_too_little_memory_is_a_budget_error() -> None:
    with pytest.raises(ww.BudgetError, match="not enough memory"), limited("a file", Limits(**UNLIMITED)):
        raise MemoryError


def test_two_to_the_fortieth_layers_are_refused(tmp_path: Path) -> None:
    """Items that hold another twice, forty times: the file says so in a few bytes."""
    network, said = saved("graph")
    path = save_forged(network, said, tmp_path / "net.safetensors")

    def double(payload: dict[str, Any], pools: Any) -> None:
        stored = payload["network"]
        stored["types"].append(["Loop", "layers", "times"])
        kinds = [kind[0] for kind in stored["types"]]
        whole = stored["items"].pop()
        inner = next(i for i, row in enumerate(stored["items"]) if kinds[row[0]] == "Attention")
        for _ in range(40):
            stored["items"].append([len(kinds) - 1, [{"item": inner}] * 2, 1])
            inner = len(stored["items"]) - 1
        whole[stored["types"][whole[0]].index("layers")] = [{"item": inner}]
        stored["items"].append(whole)

    forge(path, double)
    with pytest.raises(ww.FileFormatError, match="far more numbers"):
        ww.check(path)


UNUSED: dict[str, tuple[Callable[[dict[str, Any], Any], None], str]] = {
    "a field of the file": (lambda p, _: p.update(trust="me"), "a field 'trust' that nothing uses"),
    "a field of the network": (lambda p, _: p["network"].update(more=[]), "a field 'more' that nothing uses"),
    "an item": (lambda p, _: p["network"]["items"].insert(-1, p["network"]["items"][0]), "is used by nothing"),
    "a type": (lambda p, _: p["certificate"]["types"].append(["Terms"]), "type . is used by nothing"),
    "an array": (lambda p, _: p["arrays"].append(["dense", 0, 0]), "is held by no field"),
}


@pytest.mark.parametrize("name", UNUSED)
def test_what_nothing_uses_is_refused(name: str, saved: Path) -> None:
    change, complaint = UNUSED[name]
    forge(saved, change)
    for use in (ww.check, lambda path: ww.load(path, verify=False)):
        with pytest.raises(ww.FileFormatError, match=complaint):
            use(saved)


MISTYPED: dict[str, tuple[Callable[[ww.AttentionNetwork], Made], str]] = {
    "a truth for a number": (lambda n: (n.network, with_leaf(n.certificate, layer=False)), "Leaf.layer is False"),
    "a text for a number": (lambda n: (n.network, replace(n.certificate, bound="1")), "Certificate.bound is '1'"),
    "a number for a text": (lambda n: (n.network, replace(n.certificate, formula=1)), "Certificate.formula is 1"),
    "a number for an array": (lambda n: (n.network, with_leaf(n.certificate, boxes=1.0)), "Leaf.boxes is 1.0"),
    "a whole number of too many bits": (
        lambda n: (n.network, with_leaf(n.certificate, lo=-(2**53) - 1)), "Leaf.lo is -9007199254740993"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTYPED)
def test_a_field_of_another_type_is_named(name: str, sine: ww.AttentionNetwork, tmp_path: Path) -> None:
    make, complaint = MISTYPED[name]
    path = save_forged(*make(sine), tmp_path / "net.safetensors")
    for use in (ww.check, lambda path: ww.load(path, verify=False)):
        with pytest.raises(ww.FileFormatError, match=complaint):
            use(path)
