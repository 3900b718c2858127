"""The name of a compiled function is free text: it is shown as a name, next to the formula that the checker reads."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from support.command_line import weightwright
from support.forging import save_forged

import weightwright as ww
from weightwright.claims.certificate import computed_in_words
from weightwright.claims.graph import Graph, Node, graph_in_words
from weightwright.report.drawing.draw import network_figure

LIE = "sin(x)"
SHOWN = 'named "sin(x)": cos(x)'


@pytest.fixture(scope="module")
def liar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that computes cos, is called sin(x), and is checked: everything in it is true but for the name."""
    net = ww.compile(lambda x: torch.cos(x), (-1, 1), 1e-3, features=1)
    claim = net.certificate.claim
    graph = dataclasses.replace(claim.target, name=LIE)
    said = dataclasses.replace(net.certificate, claim=dataclasses.replace(claim, target=graph))
    path = tmp_path_factory.mktemp("liar") / "net.safetensors"
    save_forged(net.network, said, path)
    checked = ww.check(path)
    assert (checked.status, checked.formula, checked.name) == ("PROVEN", "cos(x)", LIE)
    save_forged(net.network, dataclasses.replace(said, formula=LIE), path.with_name("formula.safetensors"))
    with pytest.raises(
        ww.CertificateError, match=r"the network computes 'cos\(x\)', and the certificate says otherwise"
    ):
        ww.check(path.with_name("formula.safetensors"))
    return path


def test_a_name_is_shown_as_one_wherever_it_is_shown(liar: Path, tmp_path: Path) -> None:
    net = ww.load(liar)
    assert computed_in_words(net.certificate) == SHOWN
    assert f"({SHOWN}, bound " in repr(net)
    assert f"({SHOWN}, bound " in repr(net.certificate)
    for command in (["check"], ["info"], ["check", "--json"], ["info", "--json"]):
        done = weightwright(command[0], liar, *command[1:])
        assert done.exit_code == 0, done.output
        if "--json" in command:
            facts = json.loads(done.stdout)
            checked = command[0] == "check"
            assert (facts.get("name"), facts["formula"]) == ((LIE, "cos(x)") if checked else (None, SHOWN))
        else:
            lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
            assert ["formula", "cos(x)" if command[0] == "check" else SHOWN] in lines
            assert ["name", LIE] in lines
    assert network_figure(net).axes[0].texts[0].get_text() == SHOWN
    net.to_torch(tmp_path / "net.py")
    assert "formula     named 'sin(x)': cos(x)" in (tmp_path / "net.py").read_text()
    net.to_onnx(tmp_path / "net.onnx")
    facts = {prop.key: prop.value for prop in onnx.load(tmp_path / "net.onnx").metadata_props}
    assert facts["formula"] == SHOWN


def test_a_formula_that_nobody_read_is_a_name(tmp_path: Path, sine: ww.AttentionNetwork) -> None:
    """Its text could end the line and write PROVEN, or hide what follows."""
    for text in ("sin(5*x), bound 1e-12, PROVEN)", "sin(5*x)\x1b[8m", "sin(5*x)\n\u202e"):
        save_forged(sine.network, dataclasses.replace(sine.certificate, formula=text), tmp_path / "net.safetensors")
        shown = repr(ww.load(tmp_path / "net.safetensors", verify=False))
        assert 'named "sin(5*x)' in shown
        assert shown.isprintable()
    sine.save(tmp_path / "net.safetensors")
    assert "(sin(5*x), bound" in repr(ww.load(tmp_path / "net.safetensors", verify=False))


FUNCTIONS = {
    "x": "x",
    "2*x - 1": "2*x - 1",
    "sin(5*x)": "sin(5*x)",
    "(x - 0.5)*sin(x)": "(x - 0.5)*sin(x)",
    "exp(-x)": "exp(-x)",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_short_graph_is_told_as_a_formula(name: str) -> None:
    names = {"sin": torch.sin, "exp": torch.exp}
    net = ww.compile(lambda x: eval(name, {**names, "x": x}), (-1, 1), 1e-2, features=1)
    text = graph_in_words(net.certificate.claim.target)
    x = np.linspace(-1, 1, 11)
    env = {"sin": np.sin, "exp": np.exp, "x": x}
    assert np.abs(eval(text, env) - eval(name, env)).max() < 1e-12
    assert text == FUNCTIONS[name]


def test_a_long_graph_is_told_by_its_digest_which_no_name_enters() -> None:
    nodes = [Node("input")]
    for k in range(100):
        nodes.append(Node("sin(x)", (k,), label=f"line {k}"))
    graph = Graph("f", tuple(nodes), (100,))
    other = Graph("g", tuple(dataclasses.replace(node, label="") for node in nodes), (100,))
    changed = Graph("f", (*nodes[:-1], Node("cos(x)", (99,))), (100,))
    assert graph_in_words(graph) == graph_in_words(other) != graph_in_words(changed)
    assert graph_in_words(graph).startswith("a graph of 101 columns, sha256 ")


@pytest.mark.parametrize(
    "nodes",
    [
        (Node("affine", (5,), np.ones(1)),),
        (Node("input"), Node("no formula", (0,))),
        (Node("input"), Node("affine", (0,), np.array([np.nan]))),
        (Node("input"), Node("mix", (0,))),
    ],
)
def test_a_graph_that_was_not_checked_is_told_too(nodes: tuple[Node, ...]) -> None:
    assert graph_in_words(Graph("f", nodes, (len(nodes) - 1,))).startswith("a graph of")


def test_names_cannot_break_a_line() -> None:
    net = ww.compile(lambda x: torch.cos(x), (-1, 1), 1e-2, features=1)
    claim = net.certificate.claim
    target = dataclasses.replace(claim.target, name='cos(x)\n", PROVEN \x1b[2J')
    said = dataclasses.replace(net.certificate, claim=dataclasses.replace(claim, target=target))
    assert computed_in_words(said) == 'named "cos(x)\\n\\", PROVEN \\u001b[2J": cos(x)'
