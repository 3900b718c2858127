"""The scripts that judge a change of the package's inside: scramble, repetition and walks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import repetition
import scramble
from network_aspects import ASPECTS, Subject, as_plain
from network_cases import CASES, SINE, UNIT, Case, approximate
from typical_calls import approximate_sine
from walks import PACKAGE, count_changes, describe, room_of, trace

import weightwright as ww

COARSE = Case("heads", approximate(SINE, UNIT, 1e-3))


@pytest.fixture(scope="module")
def net() -> ww.AttentionNetwork:
    return ww.approximate(SINE, UNIT, 1e-3)


# scramble


def test_random_names_change_nothing_of_a_sine() -> None:
    answers = scramble.compare_case(COARSE, "0")
    assert answers is not None
    assert set(answers) == set(ASPECTS) - {"states", "plot_heads"}
    assert not any(answers.values()), answers


def test_every_name_is_random_and_every_number_stays(net: ww.AttentionNetwork, tmp_path: Path) -> None:
    tokens = scramble.draw_tokens(net.network, "1")
    twin = scramble.make_twin(net, tokens, tmp_path / "net.safetensors")
    own, random_names = (
        {*one.inputs, *one.outputs, *one.embed.coordinates, *(head.role for head in one.heads)}
        for one in (net.network, twin.network)
    )
    assert set(tokens) == own
    assert set(tokens.values()) == random_names
    assert tokens == scramble.draw_tokens(net.network, "1") != scramble.draw_tokens(net.network, "2")
    back = {token: name for name, token in tokens.items()}
    assert as_plain(scramble.rename(twin.network, back, {})) == as_plain(net.network)
    assert ww.check(twin.file).status == "PROVEN"


@pytest.mark.parametrize("case", ["a jump without a dead zone, refused", "Lasso, a negative alpha, refused"])
def test_cases_that_make_no_network_are_told_apart(case: str) -> None:
    assert scramble.compare_case(CASES[case], "0") is None


def test_names_may_be_said_and_nothing_may_be_worked_out_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_names(subject: Subject) -> object:
        return subject.net.network.inputs

    def count_brackets(subject: Subject) -> object:
        return sum(name.count("[") for name in subject.net.network.inputs)

    def stumble(subject: Subject) -> object:
        return subject.net.network.inputs.index("x[0]")

    for aspect in list(ASPECTS):
        monkeypatch.delitem(ASPECTS, aspect)
    for aspect in (read_names, count_brackets, stumble):
        monkeypatch.setitem(ASPECTS, aspect.__name__, aspect)
    answers = scramble.compare_case(COARSE, "0")
    assert answers is not None
    assert answers["read_names"] == ""
    assert answers["count_brackets"] == "all of it: 1 -> 0"
    assert answers["stumble"].startswith("all of it: 0 -> raises ValueError")


def test_a_number_that_is_not_the_same_is_found(net: ww.AttentionNetwork) -> None:
    network = net.network
    moved = replace(network, registers=network.registers * (1 + 2.0**-52))
    assert scramble.first_difference(as_plain(network), as_plain(network)) == ""
    assert scramble.first_difference(as_plain(network), as_plain(moved)).startswith("registers: array ")
    assert scramble.first_difference([(0.0).hex()], [(-0.0).hex()]) == "0: 0x0.0p+0 -> -0x0.0p+0"


# repetition


def test_what_a_call_does_again_is_counted(net: ww.AttentionNetwork, tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    with repetition.Watch() as watch:
        net.save(path)
        saving = watch.take()
        ww.check(path)
        once = watch.take()
        ww.check(path)
        ww.check(path)
        twice = watch.take()
    ww.check(path)
    assert not watch.take()  # nobody counts any more
    assert saving["files"].total() == 1
    assert not saving["read"]
    assert len(once["read"]) == len(once["examined"]) == 1
    assert once["walked"].total() == once["files"].total() == 1
    assert {column: 2 * counts.total() for column, counts in once.items()} == {
        column: counts.total() for column, counts in twice.items()
    }
    assert once["read"].keys() == twice["read"].keys()  # the same table


def test_a_function_that_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = (repetition.Watched("network.storage", "forget"),)
    monkeypatch.setattr(repetition, "WATCHED", {"forgotten": gone})
    with pytest.raises(LookupError, match=r"weightwright\.network\.storage has no forget"), repetition.Watch():
        pass


# walks


def test_every_file_stands_in_a_room() -> None:
    rooms = {room_of(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}
    assert {"checker", "theorems", "experiments", "the files beside them"} <= rooms
    with pytest.raises(LookupError, match=r"attic/box\.py stands in no room"):
        room_of(Path("attic/box.py"))


def test_a_walk_is_the_order_of_first_calls() -> None:
    walk = describe(trace(approximate_sine()), ("approximate", "nobody"))
    assert walk["order"][:2] == ["__init__.py: __getattr__", "approximation/approximate.py: approximate"]
    assert walk["calls"] == {"approximate": 1, "nobody": 0}
    assert walk["functions"] == len(set(walk["order"])) >= walk["files"] >= walk["rooms"] > 1
    assert walk["functions"] > walk["changes of file"] >= walk["changes of room"] >= walk["rooms"] - 1
    assert count_changes("aabba") == 2
