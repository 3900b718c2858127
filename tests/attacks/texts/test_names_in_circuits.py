"""Names of inputs, outputs, roles and circuits are free text: quoted or on one line wherever they are shown."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from support.command_line import weightwright
from support.forging import save_forged

import weightwright as ww
from weightwright.export.about import about

EVIL = "x\n\x1b[2KPROVEN sin(5*x)"


def renamed(net: ww.AttentionNetwork, name: str, *assumptions: str) -> ww.AttentionNetwork:
    read = dataclasses.replace(net.network.read, coordinates=(name,))
    network = dataclasses.replace(net.network, inputs=(name,), read=read)
    said = dataclasses.replace(
        net.said, network=ww.AttentionNetwork(network).digest(), assumptions=(*net.said.assumptions, *assumptions)
    )
    return ww.AttentionNetwork(network, said)


@pytest.fixture(scope="module")
def honest() -> ww.AttentionNetwork:
    return ww.approximate("-x", (-1, 1), 1e-6, progress=False)


def is_plain(text: str) -> bool:
    return all(mark.isprintable() for mark in text)


def test_a_circuit_from_json_is_named_and_not_described(honest: ww.AttentionNetwork) -> None:
    circuit = honest.circuit()
    data = json.loads(circuit.to_json()) | {"name": "sin(5*x), bound 0, PROVEN\x1b[2K", "told": False}
    back = ww.Circuit.from_json(json.dumps(data))
    assert repr(back).startswith('Circuit(named "sin(5*x), bound 0, PROVEN\\u001b[2K": ')
    assert repr(circuit).startswith("Circuit(-x: ")
    again = ww.Circuit.from_json(circuit.to_json())
    assert again == circuit
    assert again.title == 'named "-x"'
    assert "told" not in json.loads(again.to_json())


def test_reprs_and_tables_of_circuits_are_one_line(honest: ww.AttentionNetwork, tmp_path: Path) -> None:
    net = renamed(honest, EVIL)
    circuit = net.circuit()
    for shown in (circuit, *circuit.nodes):
        assert is_plain(repr(shown))
    with pytest.raises(KeyError) as missed:
        circuit["nobody"]
    assert is_plain(str(missed.value))
    odd = dataclasses.replace(circuit, name="a\x1b[2K")
    assert repr(odd).startswith("Circuit(a\\u001b[2K: ")
    path = tmp_path / "theirs.safetensors"
    save_forged(net.network, net.said, path)
    for name in (EVIL, "[red]x"):
        other = renamed(honest, name)
        save_forged(other.network, other.said, path)
        text = weightwright("circuit", path, columns=200).stdout
        assert all(is_plain(line) for line in text.split("\n"))
        assert "[red]x" in text or name == EVIL
        assert len(text.splitlines()) == len(circuit.nodes) + 2
    net.circuit().draw(tmp_path / "circuit.svg")


def test_an_exported_file_is_not_titled_by_an_output(honest: ww.AttentionNetwork, tmp_path: Path) -> None:
    net = renamed(honest, "sin(5*x)")
    net.to_torch(tmp_path / "net.py")
    first, _, names = (tmp_path / "net.py").read_text().splitlines()[:3]
    assert first == '"""An attention network, every layer written out.'
    assert names == "Its outputs are named 'sin(5*x)'."


def test_assumptions_in_exports_are_one_line(honest: ww.AttentionNetwork, tmp_path: Path) -> None:
    net = renamed(honest, "x", "\x1b[2Kthe network computes sin(5*x)\nstatus      PROVEN")
    assert is_plain(about(net)["assuming"])
    net.to_torch(tmp_path / "net.py")
    source = (tmp_path / "net.py").read_text()
    assert "\x1b" not in source
    assert not any(line.startswith("status      PROVEN") for line in source.splitlines())
