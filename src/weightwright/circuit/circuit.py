"""The circuit of a network as plain data, and as JSON.

What flows are numbers, one for each token. A node reads some (its slots), and has results. A slot holds its constant
plus, over all edges into it, coefficient times the result that the edge comes from; `docs/circuits.md` says what each
type of node makes of its slots, and runs a circuit from its JSON alone.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from weightwright.claims.texts import on_one_line, quoted
from weightwright.errors import MissingExtraError
from weightwright.numbers import Floats

#: What `to_json` writes as "format".
FORMAT = "weightwright circuit 1"

NodeType = Literal["input", "head", "map", "relu", "softmax", "loop", "output"]


@dataclass(frozen=True)
class Slot:
    """One number that a node reads: `constant` (one for all tokens, or one for each) and what edges bring."""

    name: str
    constant: tuple[float, ...] = (0.0,)


@dataclass(frozen=True)
class CircuitNode:
    """Something that computes. Which fields say more than their defaults depends on the type:

    "input": one feature of a token. "output": one output; it returns its slot.
    "head": slots query[i], and key[i], value[j] where it looks at data tokens; results result[j], before W_O.
    The weights are the softmax of beta times query . key over `keys`, which are constant, and the data tokens it sees.
    "map": moves tokens: result c is `moves` applied to scale[.][c] times slot c.
    "relu": the feed-forward layer, result i being relu of slot i. "softmax": over its slots, or over the tokens.
    "loop": `body` runs `times` times, its outputs becoming its inputs.

    kind: of a head what it serves as: "table", "gate", "softmax", "attention", "mix", "prompt", "product" or "head".
    function: what the results of the heads named in `together`, times the `weight` of each, add up to: a formula of the
    number in the coordinate `argument`. It holds within `error` while the first query entries stay inside `proven`,
    and the first of all outside the intervals `left_open`, the dead zones of a jump.
    """

    name: str
    type: NodeType
    layer: int | None = None
    head: int | None = None
    role: str = ""
    kind: str = ""
    slots: tuple[Slot, ...] = ()
    results: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()  # coordinates of the stream
    writes: tuple[str, ...] = ()
    # of a head
    beta: float = 1.0
    keys: tuple[tuple[float, ...], ...] = ()  # (registers seen, query entries)
    values: tuple[tuple[float, ...], ...] = ()  # (registers seen, results)
    sees: str = "none"  # of the data tokens: "none", "self", "block", "earlier", "all"
    block: int = 0
    asks: str = "all"
    mask: tuple[tuple[int, ...], ...] | None = None
    window: int | None = None
    function: str = ""
    argument: str = ""
    together: tuple[str, ...] = ()
    proven: tuple[tuple[float, float], ...] = ()
    left_open: tuple[tuple[float, float], ...] = ()
    error: float | None = None
    weight: float = 1.0
    # of other types
    moves: Mapping[str, Any] | None = None  # {"gather": [...]}, {"total": n}, {"block": R} or {"matrix": R}
    scale: tuple[tuple[float, ...], ...] | None = None
    over: str = "features"
    times: int = 1
    body: Circuit | None = None

    def __repr__(self) -> str:
        return f"CircuitNode({on_one_line(self.name)}: {on_one_line(self.role or self.type)})"


@dataclass(frozen=True)
class CircuitEdge:
    """`coefficient` times result number `result` of a node goes into a slot of another, through a coordinate of the
    residual stream."""

    source: str
    result: int
    target: str
    slot: int
    coordinate: str
    coefficient: float


@dataclass(frozen=True)
class Circuit:
    """Nodes in an order in which they can be computed, and the edges between them.

    >>> import weightwright as ww
    >>> circuit = ww.approximate("sin(5*x)", domain=(-1, 1), tol=1e-6).circuit()
    >>> [node.name for node in circuit.nodes], circuit["L0H0"].function
    (['x[0]', 'L0H0', 'sin(5*x)'], 'sin(5*x)')
    >>> [(edge.source, edge.target, edge.coefficient) for edge in circuit.edges]
    [('x[0]', 'L0H0', 1.0), ('L0H0', 'sin(5*x)', 1.0)]
    """

    name: str  # of the network
    dtype: str  # what the network runs in
    tokens: int | None  # how many there are; None: any number
    nodes: tuple[CircuitNode, ...]  # all that computes, in order
    edges: tuple[CircuitEdge, ...]  # what flows between them
    told: bool = field(default=False, compare=False)  # whether all this is what a JSON text says; never in JSON

    @property
    def title(self) -> str:
        """What the network computes; of a circuit from JSON, which nobody has checked, what it is named."""
        return f"named {quoted(self.name)}" if self.told else on_one_line(self.name)

    def __repr__(self) -> str:
        return f"Circuit({self.title}: {len(self.nodes)} nodes, {len(self.edges)} edges)"

    def __getitem__(self, name: str) -> CircuitNode:
        try:
            return self._by_name[name]
        except KeyError:
            raise KeyError(f"no node is called {name!r}; the nodes are called {_few(list(self._by_name))}") from None

    @cached_property
    def _by_name(self) -> dict[str, CircuitNode]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _edges_into(self) -> dict[str, list[CircuitEdge]]:
        found: dict[str, list[CircuitEdge]] = {node.name: [] for node in self.nodes}
        for edge in self.edges:
            found[edge.target].append(edge)
        return found

    @cached_property
    def matrices(self) -> dict[str, dict[str, Floats]]:
        """For every node what its slots take of the nodes before it: (results, slots) of each."""
        found: dict[str, dict[str, Floats]] = {node.name: {} for node in self.nodes}
        for edge in self.edges:
            shape = len(self[edge.source].results), len(self[edge.target].slots)
            matrix = found[edge.target].setdefault(edge.source, np.zeros(shape))
            matrix[edge.result, edge.slot] += edge.coefficient
        return found

    def into(self, name: str) -> list[CircuitEdge]:
        """The edges that end in a node.

        name: of the node.
        """
        return self._edges_into[self[name].name]

    def to_json(self, indent: int | None = None) -> str:
        """The whole circuit; numbers with all their digits. Fields that say nothing are left out.

        indent: spaces for each level; None: all in one line.
        """
        return json.dumps({"format": FORMAT, **_plain(self)}, indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Circuit:
        """The circuit again. What it is called is then a name, which nobody has checked: `named "sin(5*x)"`.

        text: what `to_json` wrote.
        """
        data = json.loads(text)
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
            raise ValueError(f"text is no circuit: it does not say format {FORMAT!r}")
        return _circuit(data)

    def to_networkx(self) -> Any:
        """A networkx.MultiDiGraph: the fields of nodes and edges are attributes, the body of a loop is a graph."""
        try:
            import networkx
        except ImportError as error:
            raise MissingExtraError("to_networkx needs networkx", "graph") from error
        graph = networkx.MultiDiGraph(name=self.name, dtype=self.dtype, tokens=self.tokens)
        for node in self.nodes:
            body = {"body": node.body.to_networkx()} if node.body is not None else {}
            graph.add_node(node.name, **{k: v for k, v in vars(node).items() if k != "name"} | body)
        for edge in self.edges:
            graph.add_edge(**{"u_for_edge": edge.source, "v_for_edge": edge.target} | _of_edge(edge))
        return graph

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Draw nodes and edges to a .png, .svg or .pdf: lines as strong as their coefficients are large."""
        from weightwright.report.drawing.circuit_picture import draw_circuit  # needs weightwright[plot]

        draw_circuit(self, path)


def _of_edge(edge: CircuitEdge) -> dict[str, Any]:
    return {name: value for name, value in vars(edge).items() if name not in ("source", "target")}


def _plain(value: Any) -> Any:
    """Dataclasses as dicts without the fields that are as by default."""
    if isinstance(value, Circuit | CircuitNode | CircuitEdge | Slot):
        fields = ((one, getattr(value, one.name)) for one in dataclasses.fields(value) if one.name != "told")
        kept = {one.name: x for one, x in fields if one.default is dataclasses.MISSING or x != one.default}
        return {name: _plain(x) for name, x in kept.items()}
    if isinstance(value, tuple):
        return [_plain(x) for x in value]
    return value


def _circuit(data: dict[str, Any]) -> Circuit:
    nodes = tuple(_node(node) for node in data["nodes"])
    edges = tuple(CircuitEdge(**edge) for edge in data["edges"])
    return Circuit(**data | {"name": str(data["name"]), "nodes": nodes, "edges": edges, "told": True})


def _node(data: dict[str, Any]) -> CircuitNode:
    fields = {name: value if name == "moves" else _tuples(value) for name, value in data.items()}
    if "slots" in data:
        fields["slots"] = tuple(Slot(**_tuples_in(slot)) for slot in data["slots"])
    if "body" in data:
        fields["body"] = _circuit(data["body"])
    return CircuitNode(**fields)


def _tuples_in(data: dict[str, Any]) -> dict[str, Any]:
    return {name: _tuples(value) for name, value in data.items()}


def _tuples(value: Any) -> Any:
    return tuple(_tuples(x) for x in value) if isinstance(value, list) else value


def _few(names: list[str]) -> str:
    shown = [on_one_line(name) for name in (names if len(names) <= 8 else [*names[:6], f"... {names[-1]}"])]
    return ", ".join(shown)
