"""A network as plain torch source that anyone can read and run without weightwright.

Two files of one stem: `net.py`, every layer written out, and `net.safetensors`, which is what `net.save` writes: the
weights that the source reads are the ones that `ww.check` checks. Loops stay loops.
"""

from __future__ import annotations

import json
import os
import runpy
from collections.abc import Iterator

import numpy as np
from safetensors import safe_open

from weightwright.claims.files import write
from weightwright.claims.texts import quoted
from weightwright.export.about import about, line, listed, sees, unwatched
from weightwright.export.compare import difference
from weightwright.network import Attention, Block, FeedForward, Head, Layer, Linear, Mixed, Softmax, TokenMap, Total
from weightwright.network.layers import Names
from weightwright.numbers import Floats
from weightwright.output_files import check_writable, whole
from weightwright.runtime import AttentionNetwork


def to_torch(net: AttentionNetwork, path: str | os.PathLike[str]) -> float:
    """Write the network as a Python file and its weights beside it (same stem, .safetensors).

    The file imports torch and safetensors only and defines one class, `Network`. It is run against the module before
    the files appear; the largest difference is returned. Inputs outside the domain are not refused there.
    """
    target = check_writable(path, ".py")
    with whole(target.with_suffix(".safetensors"), target) as (weights, source):
        write(weights, *net.stored())
        with safe_open(weights, framework="numpy") as file:
            digest = json.loads(file.metadata()["weightwright"])["digest"]
        source.write_text("\n".join(_SourceWriter(net).module(digest, target.stem)) + "\n", encoding="utf-8")
        module = runpy.run_path(str(source))["Network"](weights)
        return difference(net, module)


class _SourceWriter:
    """Writes source line by line. `path` is where a weight stands in the file: "layers.0.heads.1.W_Q"."""

    def __init__(self, net: AttentionNetwork) -> None:
        self.net, self.network = net, net.network

    def module(self, digest: str, stem: str) -> Iterator[str]:
        inputs, outputs = self.network.inputs, self.network.outputs
        tokens = self.network.tokens or "n"
        yield '"""An attention network, every layer written out.'
        yield ""
        yield f"Its outputs are named {_prose(listed([quoted(name) for name in outputs]))}."
        yield ""
        yield from (f"{key:12}{_prose(value)}" for key, value in about(self.net, unwatched(self.net)).items())
        yield ""
        yield "n data tokens as rows, coordinates as columns; `...` is any batch."
        yield "Inputs outside the domain are not refused."
        check = "; `weightwright check` recomputes its certificate" if self.net.stored()[1] else ""
        yield f"The weights stand beside this file, in {_prose(line(stem))}.safetensors{check}."
        yield ""
        yield f"    y = Network()(x)  # x: (..., {tokens}, {len(inputs)}), {self.network.dtype}"
        yield '"""'
        yield from _PREAMBLE.format(dtype=self.network.dtype, digest=digest).splitlines()
        yield ""
        yield f"    def forward(self, x):  # (..., {tokens}, {len(inputs)}): {listed(inputs)}"
        yield from _indented(2, self.body())
        yield f"        return X  # (..., n, {len(outputs)}): {listed(outputs)}"

    def body(self) -> Iterator[str]:
        yield "# embed"
        yield from self.linear(self.network.embed, "embed", "x")
        if len(self.network.registers):
            r, d = self.network.registers.shape
            yield f"registers = self.registers  # ({r}, {d}): constant tokens, keys only"
        yield from self.layers(self.network.layers, "layers", self.network.embed.coordinates)
        yield ""
        yield "# read"
        yield from self.linear(self.network.read, "read", "X")

    def layers(self, layers: tuple[Layer, ...], path: str, names: Names) -> Iterator[str]:
        for index, layer in enumerate(layers):
            yield from self.layer(layer, f"{path}.{index}", names)
            names = getattr(layer, "coordinates", names)

    def layer(self, layer: Layer, at: str, names: Names) -> Iterator[str]:
        if isinstance(layer, Linear):
            yield ""
            yield f"# {at}: linear"
            yield from self.linear(layer, at, "X")
        elif isinstance(layer, Attention):
            yield from self.attention(layer, at, names)
        elif isinstance(layer, FeedForward):
            yield from self.feed_forward(layer, at)
        elif isinstance(layer, Softmax):
            over, axis = ("features", -1) if layer.over == "features" else ("tokens", -2)
            yield ""
            yield f"# {at}: softmax over {over}"
            yield f"X = torch.softmax({float(layer.beta)!r} * X, {axis})  # (..., n, {len(names)})"
        else:
            yield ""
            yield f"for _ in range({int(layer.times)}):  # {at}: the same layers again"
            body = list(self.layers(layer.layers, f"{at}.layers", names))[1:]  # less the empty line
            yield from _indented(1, iter(body or ["pass"]))

    def linear(self, linear: Linear, at: str, X: str) -> Iterator[str]:
        shape = f"(..., n, {len(linear.coordinates)}): {listed(linear.coordinates)}"
        total, C = "Y" if len(linear.terms) > 1 else "X", _weight(at, "C")
        if not linear.terms:
            yield f"X = {C}.expand(*{X}.shape[:-1], -1).clone()  # {shape}"
        for index, term in enumerate(linear.terms):
            A, R, S = (_weight(f"{at}.terms.{index}", name) for name in ("A", "tokens.R", "S"))
            product = f"{X} @ {A}" if term.S is None else f"({S} * {X}) @ {A}"
            if term.tokens is not None:
                product = _moved(term.tokens, product, R)
            yield f"{total} = {'Y' if index else C} + {product}  # {shape}"
        if total == "Y":
            yield "X = Y"

    def attention(self, layer: Attention, at: str, names: Names) -> Iterator[str]:
        width = len(layer.coordinates)
        what = "added to X" if layer.residual else f"in place of X: {listed(layer.coordinates)}"
        count = f"{len(layer.heads)} head{'s' * (len(layer.heads) != 1)}"
        yield ""
        yield f"# {at}: attention, {count}, {what}"
        yield "Y = X" if layer.residual else f"Y = X.new_zeros(*X.shape[:-1], {width})"
        for index, head in enumerate(layer.heads):
            yield from self.head(head, f"{at}.heads.{index}", names, layer.coordinates)
        yield f"X = Y  # (..., n, {width})"

    def head(self, head: Head, at: str, names: Names, outputs: Names) -> Iterator[str]:
        W_Q, W_K, W_V, W_O = (_weight(at, name) for name in ("W_Q", "W_K", "W_V", "W_O"))
        h, v, width = head.W_Q.shape[1], head.W_V.shape[1], len(outputs)
        start, stop = head.sees.registers
        p = stop - start
        maps = (("queries", head.W_Q), ("keys", head.W_K), ("values", head.W_V))
        reads = "; ".join(f"{what} from {_rows(W, names)}" for what, W in maps)
        yield f"# {at}: {line(head.role)}; sees {sees(head)}"
        yield f"# {reads}; writes {_rows(head.W_O.T, outputs)}"
        if head.window is not None:
            yield from self.windowed(head, head.window, at, width)
            return
        yield f"Q = {float(head.beta)!r} * (X @ {W_Q})  # (..., n, {h})"
        if p:
            yield f"K = registers[{start}:{stop}] @ {W_K}  # ({p}, {h})"
            yield f"V = registers[{start}:{stop}] @ {W_V}  # ({p}, {v})"
        if head.sees.data == "none":
            yield f"weights = torch.softmax(Q @ K.mT, -1)  # (..., n, {p})"
            yield f"Y = Y + weights @ V @ {W_O}  # (..., n, {width})"
            return
        size = {"self": 1, "block": head.sees.block}.get(head.sees.data, 0)
        rows, n = f"n/{size}, {size}" if size else "n", str(size or "n")
        if size:
            yield f"Z = X.unflatten(-2, (-1, {size}))  # (..., {rows}, {len(names)})"
            yield f"Q = Q.unflatten(-2, (-1, {size}))  # (..., {rows}, {h})"
        if head.sees.asks == "first":
            yield f"Q = Q[..., :1, :]  # (..., n/{size}, 1, {h}): only the first of a block asks"
        Z = "Z" if size else "X"
        yield f"scores = Q @ ({Z} @ {W_K}).mT  # (..., {rows}, {n})"
        if head.sees.data == "earlier":
            yield "later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=X.device).triu(1)  # (n, n)"
            yield "scores = scores.masked_fill(later, -torch.inf)"
        if head.mask is not None:
            yield f"scores = scores.masked_fill(~{_weight(at, 'mask')}, -torch.inf)"
        if p:
            yield f"weights = torch.softmax(torch.cat([Q @ K.mT, scores], -1), -1)  # (..., {rows}, {p} + {n})"
            yield f"mixed = weights[..., :{p}] @ V + weights[..., {p}:] @ ({Z} @ {W_V})  # (..., {rows}, {v})"
        else:
            yield f"mixed = torch.softmax(scores, -1) @ ({Z} @ {W_V})  # (..., {rows}, {v})"
        if head.sees.asks == "first":
            yield f"mixed = torch.nn.functional.pad(mixed, (0, 0, 0, {size - 1}))  # 0 for those that do not ask"
        yield f"Y = Y + mixed{'.flatten(-3, -2)' if size else ''} @ {W_O}  # (..., n, {width})"

    def windowed(self, head: Head, M: int, at: str, width: int) -> Iterator[str]:
        """Scores by squares, and no weight beyond the window."""
        W_Q, W_K, W_V, W_O = (_weight(at, name) for name in ("W_Q", "W_K", "W_V", "W_O"))
        start, stop = head.sees.registers
        p = stop - start
        yield f"L = (registers[{start}:{stop}] @ {W_K})[:, 0] / 2  # ({p},): whole numbers"
        yield f"t = (X @ {W_Q})[..., :1].clamp(L[{M}] - 0.5, L[{-1 - M}] + 0.5)  # (..., n, 1)"
        yield f"near = (L - t.round().clamp(L[{M}], L[{-1 - M}])).abs() <= {M}  # (..., n, {p}): {2 * M + 1} of them"
        yield f"scores = ({-float(head.beta)!r} * (t - L) ** 2).masked_fill(~near, -torch.inf)  # (..., n, {p})"
        yield f"V = registers[{start}:{stop}] @ {W_V}  # ({p}, {head.W_V.shape[1]})"
        yield f"Y = Y + torch.softmax(scores, -1) @ V @ {W_O}  # (..., n, {width})"

    def feed_forward(self, layer: FeedForward, at: str) -> Iterator[str]:
        W_1, b_1, W_2, b_2 = (_weight(at, name) for name in ("W_1", "b_1", "W_2", "b_2"))
        before = "X + " if layer.residual else ""
        yield ""
        yield f"# {at}: feed-forward, {'added to X' if layer.residual else 'in place of X'}"
        yield f"hidden = torch.relu(X @ {W_1} + {b_1})  # (..., n, {layer.W_1.shape[1]})"
        yield f"X = {before}(hidden @ {W_2} + {b_2})  # (..., n, {layer.W_2.shape[1]}): {listed(layer.coordinates)}"


_PREAMBLE = """
import json
import math
from pathlib import Path

import torch
from safetensors import safe_open

DTYPE = torch.{dtype}
DIGEST = "{digest}"


def arrays(rows, pools):  # side by side in their pools; of a sparse one only what is not 0, and where it stands
    start = dict.fromkeys(pools, 0)

    def take(name, count):
        start[name] += count
        return pools[name][start[name] - count : start[name]]

    for kind, stored, *shape in rows:
        if kind == "bools":
            yield take("truths", stored).reshape(shape)
        elif kind == "dense":
            yield take("floats", stored).to(DTYPE).reshape(shape)
        else:
            array = torch.zeros(math.prod(shape), dtype=DTYPE)
            array[take("positions", stored).long()] = take("floats", stored).to(DTYPE)
            yield array.reshape(shape)


def named(item, path, types, items):  # the number of every array, and the path to it
    if isinstance(item, list):
        for index, inner in enumerate(item):
            yield from named(inner, [*path, str(index)], types, items)
    elif isinstance(item, dict) and "item" in item:
        kind, *row = items[item["item"]]
        for name, inner in zip(types[kind][1:], row):
            yield from named(inner, [*path, name], types, items)
    elif isinstance(item, dict) and "array" in item:
        yield "_".join(path), item["array"]


class Network(torch.nn.Module):
    def __init__(self, weights=Path(__file__).with_suffix(".safetensors")):
        super().__init__()
        with safe_open(weights, framework="pt") as file:
            stored = json.loads(file.metadata()["weightwright"])
            if stored["digest"] != DIGEST:
                raise ValueError(f"{{weights}} holds other weights than those written with {{__file__}}")
            found = list(arrays(stored["arrays"], {{name: file.get_tensor(name) for name in file.keys()}}))
        types, items = stored["network"]["types"], stored["network"]["items"]
        for name, number in named({{"item": len(items) - 1}}, [], types, items):
            self.register_buffer(name, found[number])
"""


def _weight(at: str, name: str) -> str:
    return "self." + f"{at}.{name}".replace(".", "_")


def _moved(map: TokenMap, product: str, R: str) -> str:
    """The product with a map on its token axis."""
    if isinstance(map, Block):
        return f"({R} @ ({product}).unflatten(-2, (-1, {map.R.shape[1]}))).flatten(-3, -2)"  # R on every block
    if isinstance(map, Mixed):
        return f"{R} @ ({product})"
    if isinstance(map, Total):
        summed = f"({product}).sum(-2, keepdim=True)"
        return summed if map.after == 1 else f"{summed}[..., [0] * {map.after}, :]"
    sources = f"[0] * {len(map.sources)}" if not any(map.sources) else repr(list(map.sources))
    whole = f"torch.nn.functional.pad({product}, (0, 0, 0, 1))" if -1 in map.sources else f"({product})"
    return f"{whole}[..., {sources}, :]"  # of a token more, which is 0, where -1 stands


def _rows(W: Floats, names: Names) -> str:
    """The coordinates that a matrix reads."""
    return listed([names[row] for row in np.flatnonzero(np.any(W, axis=1))]) or "nothing"


def _prose(text: str) -> str:
    """Text that can stand in a docstring."""
    return text.replace("\\", "\\\\").replace('"', "'")


def _indented(by: int, lines: Iterator[str]) -> Iterator[str]:
    yield from ("    " * by + text if text else "" for text in lines)
