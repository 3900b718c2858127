"""A network as an ONNX graph, built node by node from the intermediate form: nothing is traced.

Names are paths: `layer_0/head_0:square/W_Q` is a weight, `layer_0/head_0:square/scores` what a node computes; `@2`
marks the second round of a loop, whose weights stand in the file once.
Shapes: B batch, n data tokens, p register keys, h query size, v value size.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weightwright.errors import MissingExtraError, UnsupportedOperation
from weightwright.export.about import PRODUCER, about, line, sees, unwatched
from weightwright.export.compare import difference
from weightwright.network import (
    Attention,
    Block,
    FeedForward,
    Gather,
    Head,
    Layer,
    Linear,
    Network,
    Softmax,
    TokenMap,
    Total,
)
from weightwright.output_files import check_writable, whole
from weightwright.runtime import AttentionNetwork

try:
    import onnx
    import onnxruntime
except ImportError as error:
    raise MissingExtraError("to_onnx needs onnx and onnxruntime", "onnx") from error

#: Old enough for every runtime of the last years, new enough for Trilu and for slices of a shape.
OPSET, IR_VERSION = 17, 8
#: What no bound of ours was checked against: the kernels of the program that runs the file.
ARITHMETIC = "what runs this file rounds as the model says"
_END = 2**63 - 1  # as in x[p:]


def to_onnx(net: AttentionNetwork, path: str | os.PathLike[str]) -> float:
    """Write the network as an ONNX file with input x (batch, tokens, inputs) and output y (batch, tokens, outputs).

    The tokens axis is free unless the network fixes it. The model is checked by onnx and run by onnxruntime against
    the module before the file appears; the largest difference is returned. Equal networks give equal bytes.
    """
    check_writable(path, ".onnx")
    if net.network.dtype == "bfloat16":
        raise UnsupportedOperation(
            "to_onnx: onnxruntime has no bfloat16 kernels on CPU; build the network in float32 or float64"
        )
    model = _model(net)
    onnx.checker.check_model(model, full_check=True)
    contents = model.SerializeToString(deterministic=True)
    session = onnxruntime.InferenceSession(contents, providers=["CPUExecutionProvider"])

    def run(x: Tensor) -> Tensor:
        (y,) = session.run(["y"], {"x": x.reshape(-1, *x.shape[-2:]).numpy()})
        return torch.from_numpy(y).reshape(*x.shape[:-2], *y.shape[-2:])

    gap = difference(net, run)
    with whole(Path(path)) as (partial,):
        partial.write_bytes(contents)
    return gap


def _model(net: AttentionNetwork) -> Any:
    network = net.network
    graph = _Graph(network)
    X = graph.linear(network.embed, "x", "embed")
    X = graph.layers(network.layers, X, "")
    graph.node("Identity", [graph.linear(network.read, X, "read")], "y")
    shapes = (("x", network.inputs, network.tokens), ("y", network.outputs, graph.tokens))
    x, y = (
        onnx.helper.make_tensor_value_info(name, graph.kind, ["batch", tokens or "tokens", len(columns)])
        for name, columns, tokens in shapes
    )
    facts = about(net, (*unwatched(net), ARITHMETIC))
    body = onnx.helper.make_graph(graph.nodes, "network", [x], [y], list(graph.weights.values()))
    model = onnx.helper.make_model(
        body,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name=PRODUCER[0],
        producer_version=PRODUCER[1],
        doc_string="\n".join(f"{key}: {value}" for key, value in facts.items()),
    )
    names = {"inputs": network.inputs, "outputs": network.outputs, "coordinates": graph.coordinates}
    onnx.helper.set_model_props(model, facts | {key: json.dumps(value) for key, value in names.items()})
    return model


class _Graph:
    """Nodes and weights so far. Every method appends what computes its result and returns the result's name."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}
        self.dtype = np.dtype(network.dtype)
        self.kind = onnx.helper.np_dtype_to_tensor_dtype(self.dtype)
        self.coordinates: dict[str, tuple[str, ...]] = {}  # after each layer that renames them
        self.tokens = network.tokens  # where the number is fixed
        self.round = ""

    def node(self, op: str, inputs: list[str], name: str, doc: str = "", **attributes: Any) -> str:
        name += self.round
        self.nodes.append(onnx.helper.make_node(op, inputs, [name], name=name, doc_string=doc, **attributes))
        return name

    def weight(self, array: Any, name: str) -> str:
        if name not in self.weights:
            own = np.ascontiguousarray(array)
            own = own.astype(self.dtype) if own.dtype == np.float64 else own
            self.weights[name] = onnx.numpy_helper.from_array(own.reshape(np.shape(array)), name)
        return name

    def integers(self, *values: int) -> str:
        return self.weight(np.array(values, dtype=np.int64), f"int64{list(values)}")

    def layers(self, layers: tuple[Layer, ...], X: str, at: str) -> str:
        for index, layer in enumerate(layers):
            X = self.layer(layer, X, f"{at}layer_{index}")
        return X

    def layer(self, layer: Layer, X: str, at: str) -> str:
        if isinstance(layer, Linear):
            return self.linear(layer, X, at)
        if isinstance(layer, Attention):
            return self.attention(layer, X, at)
        if isinstance(layer, FeedForward):
            return self.feed_forward(layer, X, at)
        if isinstance(layer, Softmax):
            scaled = self.node("Mul", [X, self.weight(np.float64(layer.beta), f"{at}/beta")], f"{at}/scaled")
            return self.node("Softmax", [scaled], at, axis=-1 if layer.over == "features" else -2)
        outer = self.round
        for count in range(layer.times):
            self.round = f"{outer}@{count + 1}"
            X = self.layers(layer.layers, X, f"{at}/")
        self.round = outer
        return X

    def linear(self, linear: Linear, X: str, at: str) -> str:
        self.coordinates[at] = linear.coordinates
        total = self.weight(linear.C, f"{at}/C")
        for index, term in enumerate(linear.terms):
            spot = f"{at}/term_{index}"
            Y = X
            if term.S is not None:
                Y = self.node("Mul", [self.weight(term.S, f"{spot}/S"), Y], f"{spot}/S*X")
            Y = self.node("MatMul", [Y, self.weight(term.A, f"{spot}/A")], f"{spot}/XA")
            if term.tokens is not None:
                Y = self.moved(term.tokens, Y, term.A.shape[1], spot)
            total = self.node("Add", [total, Y], f"{at}/sum_{index}")
        if linear.terms:
            self.tokens = None if self.tokens is None else linear.terms[0].tokens_after(self.tokens)
            return total
        batch = self.node("Shape", [X], f"{at}/batch_and_tokens", start=0, end=2)
        shape = self.node("Concat", [batch, self.integers(len(linear.coordinates))], f"{at}/shape", axis=0)
        return self.node("Expand", [total, shape], f"{at}/constant")

    def moved(self, map: TokenMap, Y: str, width: int, spot: str) -> str:
        """Y with a map on its token axis. What is gathered or summed is not written out as a matrix."""
        if isinstance(map, Block):
            Y = self.node("Reshape", [Y, self.integers(0, -1, map.R.shape[1], width)], f"{spot}/XA in blocks")
            Y = self.node("MatMul", [self.weight(map.R, f"{spot}/R"), Y], f"{spot}/R of blocks")
            return self.node("Reshape", [Y, self.integers(0, -1, width)], f"{spot}/RXA")
        if isinstance(map, Gather) and -1 not in map.sources:
            return self.node(
                "Gather",
                [Y, self.weight(np.array(map.sources, dtype=np.int64), f"{spot}/tokens")],
                f"{spot}/RXA",
                axis=1,
            )
        if isinstance(map, Total):
            Y = self.node("ReduceSum", [Y, self.integers(1)], f"{spot}/sum of XA", keepdims=1)
            return self.node(
                "Gather", [Y, self.weight(np.zeros(map.after, dtype=np.int64), f"{spot}/tokens")], f"{spot}/RXA", axis=1
            )
        assert self.tokens is not None
        return self.node("MatMul", [self.weight(map.matrix(self.tokens), f"{spot}/R"), Y], f"{spot}/RXA")

    def attention(self, layer: Attention, X: str, at: str) -> str:
        heads = [self.head(head, X, f"{at}/head_{index}:{line(head.role)}") for index, head in enumerate(layer.heads)]
        if layer.residual:
            return self.node("Sum", [X, *heads], at)
        nothing = self.linear(Linear(layer.coordinates, (), np.zeros((1, len(layer.coordinates)))), X, at)
        return self.node("Sum", [nothing, *heads], at)

    def head(self, head: Head, X: str, at: str) -> str:
        maps = (("W_Q", head.W_Q), ("W_V", head.W_V), ("W_O", head.W_O))
        W_Q, W_V, W_O = (self.weight(W, f"{at}/{name}") for name, W in maps)
        Q = self.node("MatMul", [X, W_Q], f"{at}/X W_Q", doc=f"{line(head.role)}: sees {sees(head)}")
        if head.window is not None:
            return self.node("MatMul", [self.windowed(head, head.window, Q, W_V, at), W_O], at)
        W_K = self.weight(head.W_K, f"{at}/W_K")
        Q = self.node("Mul", [Q, self.weight(np.float64(head.beta), f"{at}/beta")], f"{at}/Q")  # (B, n, h)
        size = {"self": 1, "block": head.sees.block}.get(head.sees.data, 0)
        if size:
            Q = self.node("Reshape", [Q, self.integers(0, -1, size, head.W_Q.shape[1])], f"{at}/Q in blocks")
            X = self.node("Reshape", [X, self.integers(0, -1, size, len(head.W_Q))], f"{at}/X in blocks")
        if head.sees.asks == "first":
            Q = self.node("Slice", [Q, *(self.integers(i) for i in (0, 1, 2))], f"{at}/Q of the first")
        scores, values = [], []
        start, stop = head.sees.registers
        if start < stop:
            registers = self.weight(self.network.registers[start:stop], f"registers[{start}:{stop}]")
            K = self.node("MatMul", [registers, W_K], f"{at}/K of registers")  # (p, h)
            K = self.node("Transpose", [K], f"{at}/K^T of registers", perm=[1, 0])
            scores.append(self.node("MatMul", [Q, K], f"{at}/scores of registers"))  # (B, n, p)
            values.append(self.node("MatMul", [registers, W_V], f"{at}/V of registers"))  # (p, v)
        if head.sees.data != "none":
            K = self.node("MatMul", [X, W_K], f"{at}/K of data")
            K = self.node("Transpose", [K], f"{at}/K^T of data", perm=[0, 1, 3, 2] if size else [0, 2, 1])
            scores.append(self.visible(head, self.node("MatMul", [Q, K], f"{at}/scores of data"), X, at))
            values.append(self.node("MatMul", [X, W_V], f"{at}/V of data"))
        mixed = self.mixture(scores, values, stop - start, at)
        if head.sees.asks == "first":  # 0 for the others
            first = self.weight(np.eye(size, 1), f"{at}/first")
            mixed = self.node("MatMul", [first, mixed], f"{at}/mixed in blocks")
        if size:
            mixed = self.node("Reshape", [mixed, self.integers(0, -1, head.W_V.shape[1])], f"{at}/out of blocks")
        return self.node("MatMul", [mixed, W_O], at)

    def windowed(self, head: Head, M: int, Q: str, W_V: str, at: str) -> str:
        """Scores by squares, and no weight beyond the window: (B, n, v)."""
        seen = self.network.registers[slice(*head.sees.registers)]
        L = (seen @ head.W_K)[:, 0] / 2  # (p,): whole numbers
        first, last = L[M], L[-1 - M]
        grid = self.weight(L, f"{at}/L")
        t = self.node("Slice", [Q, self.integers(0), self.integers(1), self.integers(-1)], f"{at}/t, unbounded")
        t = self.between(t, first - 0.5, last + 0.5, f"{at}/t")  # (B, n, 1)
        nearest = self.between(self.node("Round", [t], f"{at}/rounded"), first, last, f"{at}/nearest")
        distance = self.node("Abs", [self.node("Sub", [grid, nearest], f"{at}/L - nearest")], f"{at}/distance")
        near = self.node("LessOrEqual", [distance, self.weight(np.float64(M), f"{at}/M")], f"{at}/near")
        gap = self.node("Sub", [t, grid], f"{at}/t - L")
        square = self.node("Mul", [gap, gap], f"{at}/(t - L)^2")
        scores = self.node("Mul", [square, self.weight(np.float64(-head.beta), f"{at}/-c")], f"{at}/all scores")
        scores = self.node("Where", [near, scores, self.weight(np.float64(-np.inf), "-inf")], f"{at}/scores")
        registers = self.weight(seen, f"registers[{head.sees.registers[0]}:{head.sees.registers[1]}]")
        V = self.node("MatMul", [registers, W_V], f"{at}/V of registers")
        return self.mixture([scores], [V], len(seen), at)

    def between(self, x: str, lo: float, hi: float, at: str) -> str:
        ends = [self.weight(np.float64(end), f"{at}/{name}") for end, name in ((lo, "least"), (hi, "most"))]
        return self.node("Clip", [x, *ends], at)

    def visible(self, head: Head, scores: str, X: str, at: str) -> str:
        """Scores of data tokens, -inf where the head does not look."""
        if head.sees.data == "earlier":
            n = self.node("Shape", [X], f"{at}/n", start=1, end=2)
            square = self.node("Concat", [n, n], f"{at}/n, n", axis=0)
            true = onnx.helper.make_tensor("true", onnx.TensorProto.BOOL, [1], [True])
            ones = self.node("ConstantOfShape", [square], f"{at}/all", value=true)
            mask = self.node("Trilu", [ones], f"{at}/earlier", upper=0)
        elif head.mask is not None:
            mask = self.weight(head.mask, f"{at}/mask")
        else:
            return scores
        return self.node("Where", [mask, scores, self.weight(np.float64(-np.inf), "-inf")], f"{at}/masked scores")

    def mixture(self, scores: list[str], values: list[str], p: int, at: str) -> str:
        """softmax over all keys, times the values; of two groups of keys the first has p."""
        together = scores[0] if len(scores) == 1 else self.node("Concat", scores, f"{at}/scores", axis=-1)
        weights = self.node("Softmax", [together], f"{at}/weights", axis=-1)
        if len(values) == 1:
            return self.node("MatMul", [weights, values[0]], f"{at}/mixed")
        parts = []
        for (first, last), V, who in zip(((0, p), (p, _END)), values, ("registers", "data"), strict=True):
            ends = [self.integers(first), self.integers(last), self.integers(-1)]
            share = self.node("Slice", [weights, *ends], f"{at}/weights of {who}")
            parts.append(self.node("MatMul", [share, V], f"{at}/mixed from {who}"))
        return self.node("Add", parts, f"{at}/mixed")

    def feed_forward(self, layer: FeedForward, X: str, at: str) -> str:
        weights = {"W_1": layer.W_1, "b_1": layer.b_1, "W_2": layer.W_2, "b_2": layer.b_2}
        W_1, b_1, W_2, b_2 = (self.weight(array, f"{at}/{name}") for name, array in weights.items())
        hidden = self.node("Add", [self.node("MatMul", [X, W_1], f"{at}/X W_1"), b_1], f"{at}/hidden")
        hidden = self.node("Relu", [hidden], f"{at}/relu")
        out = self.node("Add", [self.node("MatMul", [hidden, W_2], f"{at}/relu W_2"), b_2], f"{at}/out")
        if layer.residual:
            return self.node("Add", [X, out], at)
        self.coordinates[at] = layer.coordinates
        return out
