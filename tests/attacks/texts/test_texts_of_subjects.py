"""Wherever a bound is shown, it is said what it is about: one pass, stored labels, or every output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from support.built import built_file, copied
from support.command_line import weightwright

import weightwright as ww
from weightwright.report import certificate_facts, network_facts


def shown(*command: object) -> str:
    done = weightwright(*map(str, command))
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.fixture(scope="module")
def machine() -> tuple[ww.Interpreter, Path]:
    """A module that runs eight programs, whose bound is about one."""
    path = built_file("an interpreter of eight programs")
    return ww.Interpreter.load(path), path


def test_an_interpreter_of_several_programs_speaks_of_one_pass(machine: tuple[ww.Interpreter, Path]) -> None:
    vm, path = machine
    assert "on every output of one pass" in repr(vm)
    about = (
        "every output of one pass, of 8 programs, against the plain attention head, for every program and input within"
        " these bounds; errors of several passes may add up to more"
    )
    for command in ("check", "info"):
        text = shown(command, path)
        assert about in text
        facts = json.loads(weightwright(command, path, "--json").stdout)
        assert (facts["subject"], facts["bound_is_about"]) == ("pass", about)


def test_the_commands_for_programs_name_the_subject(machine: tuple[ww.Interpreter, Path], tmp_path: Path) -> None:
    _, path = machine
    made = ["program", path, "average", "--out", tmp_path / "q.npz"]
    assert "one pass" in shown(*made)
    assert json.loads(shown(*made, "--json"))["subject"] == "pass"


def test_a_memory_speaks_of_stored_labels(tmp_path: Path) -> None:
    net = ww.memorize([["a", "b", "c"], ["b", "c", "a"]], [[0, 1, 2], [1, 0, 2]])
    net.save(tmp_path / "memory.safetensors")
    for command in ("check", "info"):
        about = "every stored label, against its number; nothing is said of tokens that are not stored"
        assert about in shown(command, tmp_path / "memory.safetensors")
    assert certificate_facts(net.certificate)["subject"] == "label"


def test_a_search_of_a_loop_speaks_of_one_pass() -> None:
    @ww.incontext.algorithm(steps=2)
    def halve(examples: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.tanh(w)

    net = halve.compile((-1, 1), (-1, 1), 2, tol=1e-6, progress=False)
    assert net.certificate.subject == "pass"
    worst = ww.search(net, seconds=0.1, progress=False)
    assert worst.subject == "pass"
    assert " of one pass, " in repr(worst)


def test_every_table_of_a_formula_says_what_its_bound_is_about() -> None:
    net = copied("sine, 1e-6")
    facts = network_facts(net, "")
    assert facts["subject"] == "output"
    assert facts["bound_is_about"] == "|network - formula|; for every input of the domain"
    with torch.no_grad():
        net.registers.mul_(1.5)
    edited = certificate_facts(net.certificate)
    assert edited["subject"] == "nothing"
    assert "bound_is_about" not in edited


def test_a_bound_with_dead_zones_says_that_it_does_not_hold_there() -> None:
    net = ww.approximate("sign(x)", (-1, 1), 1e-3, dead_zone=0.01, progress=False)
    said = "|network - formula|; for every input of the domain outside the dead zones"
    assert network_facts(net, "")["bound_is_about"] == said


def test_dead_zones_are_data_with_their_shares(tmp_path: Path) -> None:
    of_x = ww.approximate("sign(x)", (-1, 1), 1e-3, dead_zone=0.125, progress=False)
    of_x.save(tmp_path / "sign.safetensors")
    for command in ("check", "info"):
        facts = json.loads(weightwright(command, tmp_path / "sign.safetensors", "--json").stdout)
        assert facts["zones"] == [{"lo": -0.125, "hi": 0.125, "of": "x", "share": 0.125}]
        assert "dead zones [-0.125, 0.125], 12.5% of the domain" in shown(command, tmp_path / "sign.safetensors")
