"""`net.circuit()`: nodes and edges from which alone the network can be computed."""

from __future__ import annotations

import dataclasses
import functools
import json

import networkx
import numpy as np
import pytest
import torch
from circuit_from_json import run_json
from support.built import built, copied
from support.formulas import formula_values
from support.networks import linear
from support.running import reference_outputs
from support.torch_zoo.moons import trained_moons
from support.zoo import ZOO

import weightwright as ww
from weightwright.circuit.running_circuit import run_circuit

#: Networks of `support.built`; and one that was changed.
MADE = (
    "sine, 1e-6", "sine, float32", "off centre", "kink", "gate", "jump", "window", "two variables", "linear", "moons",
    "moons, ablatable", "products", "softmax", "attention", "multi-head", "mixing", "edited",
)  # fmt: skip


#: Where a table reads several coordinates.
ARGUMENTS = {"two variables": ("x[0]", "x[1]")}


@functools.cache
def made(name: str) -> ww.AttentionNetwork:
    if name == "edited":
        net = copied("sine, 1e-6")
        net.registers[0, 4] += 1.0
        return net
    return built(name) if name in MADE else ww.AttentionNetwork(ZOO[name]())


def inputs(net: ww.AttentionNetwork, seed: int = 0) -> np.ndarray:
    rng, shape = np.random.default_rng(seed), (4, net.network.tokens or 5, len(net.network.inputs))
    if net.said is None:
        return rng.normal(size=shape)
    lo, hi = net.said.domain.lo, net.said.domain.hi
    x = torch.tensor(lo + (hi - lo) * rng.uniform(0.02, 0.98, size=shape))
    return x.to(net.dtype).double().numpy()


@pytest.mark.few(12)
@pytest.mark.parametrize("name", [*MADE, *ZOO])
def test_json_alone_computes_the_network(name: str) -> None:
    net = made(name)
    X = inputs(net)
    found = run_json(net.circuit().to_json(), X)
    assert np.abs(found - reference_outputs(net, X)).max() <= 1e-9
    if net.dtype == torch.float64:
        assert np.abs(found - net(torch.tensor(X)).numpy()).max() <= 1e-9


@pytest.mark.few(12)
@pytest.mark.parametrize("name", [*MADE, *ZOO])
def test_json_comes_back_as_the_same_circuit(name: str) -> None:
    circuit = made(name).circuit()
    back = ww.Circuit.from_json(circuit.to_json())
    assert back == circuit
    X = inputs(made(name), 1)
    assert np.array_equal(run_circuit(back, X).outputs, run_circuit(circuit, X).outputs)


@pytest.mark.few(8)
@pytest.mark.parametrize("name", [name for name in MADE if name not in ("edited", "linear")])
def test_tables_add_what_their_function_says(name: str) -> None:
    """Results of the heads that belong together, against the formula of what they read."""
    net = made(name)
    circuit, X = net.circuit(), inputs(net, 2)
    run = run_circuit(circuit, X)
    tables = [node for node in circuit.nodes if node.kind == "table"]
    assert tables or name in ("softmax", "attention", "multi-head")
    for node in tables:
        assert node.error is not None
        arguments = [held(net, node.layer or 0, read, X) for read in ARGUMENTS.get(name, (node.argument,))]
        names = ("x", "y")[: len(arguments)]
        points = np.stack([argument.ravel() for argument in arguments], axis=-1)
        wanted = formula_values(node.function, names, points).reshape(arguments[0].shape)
        found = sum(circuit[head].weight * run.results[head][..., 0] for head in node.together)
        outside = np.abs(arguments[0]) < 0.01 if name == "jump" else np.zeros(1, dtype=bool)
        assert np.where(outside, 0.0, np.abs(found - wanted)).max() <= node.error * (1 + 1e-6) + 1e-12


def held(net: ww.AttentionNetwork, layer: int, coordinate: str, X: np.ndarray) -> np.ndarray:
    """What a coordinate of the stream holds before a layer."""
    network = net.network
    names = network.embed.coordinates
    read = linear((coordinate,), np.eye(len(names))[:, [names.index(coordinate)]])
    return reference_outputs(dataclasses.replace(network, layers=network.layers[:layer], read=read), X)[..., 0]


def test_functions_take_off_what_stands_beside_heads() -> None:
    circuit = made("kink").circuit()
    assert circuit["L0H0"].function == "abs(x - 0.3) + 0.1*x + 0.9*x - 0.3"
    assert circuit["L0H0"].role.endswith(", beside -0.9*x + 0.3 in the stream")


def test_edges_are_the_weights_of_the_source() -> None:
    """Where nothing stands beside the heads, coefficients are those of the linear layers."""
    module = trained_moons(seed=1)
    circuit = made("moons, ablatable").circuit()
    scales = {node.name: node.proven[0][1] / 1.0 for node in circuit.nodes if node.proven}
    assert len(scales) == 32
    for j in range(16):
        edges = {edge.source: edge.coefficient for edge in circuit.into(f"L1H{j}")}
        assert set(edges) == {f"L0H{i}" for i in range(16)}
        ratios = [edges[f"L0H{i}"] / float(module[2].weight[j, i]) for i in range(16)]
        assert np.ptp(ratios) <= 1e-12 * abs(ratios[0])  # all times the scale of the table's query
    for m in range(2):
        edges = {edge.source: edge.coefficient for edge in circuit.into(f"out[{m}]")}
        assert edges == {f"L1H{i}": pytest.approx(float(module[4].weight[m, i])) for i in range(16)}


def test_coordinates_are_named_as_in_the_source() -> None:
    roles = [node.role for node in made("moons, ablatable").circuit().nodes if node.type == "head"]
    assert roles[3] == "relu(x) of neuron 3 of module 0 (Linear)"
    assert roles[16 + 7] == "relu(x) of neuron 7 of module 2 (Linear)"
    names = made("multi-head").network.embed.coordinates
    assert {"query[1, 0], module MultiheadAttention", "value[0, 1], module MultiheadAttention"} <= set(names)
    assert any(name.startswith("mul, built.py:") for name in made("products").network.embed.coordinates)


def test_networkx_has_every_node_and_edge() -> None:
    circuit = made("moons").circuit()
    graph = circuit.to_networkx()
    assert isinstance(graph, networkx.MultiDiGraph)
    assert set(graph) == {node.name for node in circuit.nodes}
    assert graph.number_of_edges() == len(circuit.edges)
    assert networkx.is_directed_acyclic_graph(graph)
    assert graph.nodes["L0H3"]["role"] == circuit["L0H3"].role
    looped = made("looped").circuit().to_networkx()
    assert isinstance(looped.nodes["L0"]["body"], networkx.MultiDiGraph)


def test_an_edited_network_is_taken_apart_as_it_is() -> None:
    node = made("edited").circuit()["L0H0"]
    assert node.values[0][0] == pytest.approx(made("sine, 1e-6").circuit()["L0H0"].values[0][0] + 1.0)
    assert (node.function, node.error, node.proven) == ("", None, ())


def test_names_that_are_not_there_are_refused() -> None:
    circuit = made("sine, 1e-6").circuit()
    with pytest.raises(KeyError, match="no node is called 'L9H9'"):
        circuit["L9H9"]
    with pytest.raises(ValueError, match="is no circuit"):
        ww.Circuit.from_json(json.dumps({"nodes": []}))
