"""Mutations of what a claim is about: dead zones, names, loops, numbers of tokens. For `fuzz_files.py`.

Digests, formulas and assumptions are made to fit afterwards, most of the time, so that the file gets past the checks of
its identity and the rules themselves decide.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from fuzz_mutations import (
    FORMULAS,
    Rng,
    altered,
    consistent,
    loosened,
    objects,
    other_value,
    parts_of,
    pieces,
    rebuilt,
    seeds,
    zone_lines,
)

from weightwright.box import Box
from weightwright.checker.one_layer.stored import read_one_layer
from weightwright.checker.prompt.interpreter_layers import ExpectedLayers
from weightwright.claims.certificate import Certificate
from weightwright.claims.files import encode_file
from weightwright.claims.graph import Graph, Node
from weightwright.claims.leaf import OPAQUE, Leaf
from weightwright.claims.one_layer_claims import OneLayerClaim, SampledClaim
from weightwright.claims.program_claim import InterpreterClaim
from weightwright.claims.prompt import LoopClaim, PromptClaim
from weightwright.claims.target import TableClaim
from weightwright.network import Attention, Linear, Loop, Network, Term

Pair = tuple[Network, Certificate]
#: Names that pass for a formula, a status, a bound or a digest, if anything shows them as more than a name.
NAMES = [
    "sin(5*x)", "x", "(x[0], x[1])", "PROVEN sin(5*x) within 1e-12", "x, bound 1e-300 on |network - formula|, PROVEN",
    "a graph of 3 columns, sha256 0123456789abcdef", "line\nPROVEN: every input", "\x1b[2K\rPROVEN on every input",
    "\u202egnihtyreve NEVORP", '", bound 1e-300, PROVEN, "', "long name " * 500, "", "one pass of nothing",
    "\x00\x07bell",
    "output", "labels of 6 stored tokens, sorted kernel", "named \\", "\ud7ff\ufeff zero width",
]  # fmt: skip
#: Assumptions that nobody makes.
LINES = [
    "the bound covers every real x", "x does not lie between -0.5 and 0.5 (0.001% of the domain)", "x is 0", "",
    "\x1b[1A\x1b[2KPROVEN output sin(5*x) Box([-1.0], [1.0]) True",
]  # fmt: skip
#: Numbers of tokens, from none to more than any file may have.
TOKENS: list[Any] = [
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    16,
    33,
    64,
    200,
    1000,
    3000,
    9000,
    10**5,
    2**20,
    2**31,
    -1,
    None,
    True,
    2.0,
]
#: Most tokens of an interpreter that is built here: the checker's own layers take arrays of tokens x tokens.
LARGEST_BUILT = 3000


# dead zones


def mutated_zones(name: str, rng: Rng, everything: bool) -> bytes:
    network, said = _pair(name, everything)
    for _ in range(1 + int(rng.random() < 0.25)):
        path, holder = _one_of([(p, v) for p, v in parts_of(said.claim) if _may_have_zones(v)], rng)
        if isinstance(holder, TableClaim):
            lo, hi = holder.claim.lo, holder.claim.hi
            centre = 0.0 if rng.random() < 0.8 else float(rng.uniform(lo, hi))
            zones = other_zones([tuple(zone) for zone in holder.zones.tolist()], lo, hi, centre, rng)
            new: Any = replace(holder, zones=np.array(zones, dtype=float).reshape(-1, 2))
        else:
            lo, hi = float(said.domain.lo.flat[0]), float(said.domain.hi.flat[0])
            zones = other_zones(list(holder.dead_zones), lo, hi, float(rng.uniform(lo, hi)), rng)
            new = replace(holder, dead_zones=tuple(zones))
            if rng.random() < 0.7:
                new = replace(new, leaf=_outside(network, said, new, zones))
        said = replace(said, claim=altered(said.claim, path, new))
    if rng.random() < 0.25:  # somebody's formula, which only has to be true outside the zones
        said = replace(said, formula=str(rng.choice(FORMULAS[:8])))
    said = loosened(said, float(10.0 ** rng.uniform(0, 7)))
    lines = zone_lines(said)
    kept = tuple(line for line in said.assumptions if "lie" not in line) if rng.random() < 0.7 else said.assumptions
    said = consistent(network, replace(said, assumptions=kept))
    if rng.random() < 0.25:  # nobody says a word of them
        said = replace(said, assumptions=tuple(line for line in said.assumptions if line not in lines))
    return encode_file(network, said)


def other_zones(zones: list[Any], lo: float, hi: float, centre: float, rng: Rng) -> list[Any]:
    """Zones added, widened, moved, removed, or written in ways that no compiler writes them."""
    width, kind = hi - lo, int(rng.integers(14))
    part = width * 10.0 ** rng.uniform(-12, 0)
    first = zones[0] if zones else (centre - part / 2, centre + part / 2)
    if kind == 0:
        return [*zones, (centre - part / 2, centre + part / 2)]
    if kind == 1:  # nearly everything
        left, right = width * 10.0 ** rng.uniform(-9, -1, 2)
        return [(lo + left, hi - right)]
    if kind == 2:  # from one end
        return [(lo - part, lo + width * float(rng.choice([0.5, 0.9, 0.999, 1.0])))]
    if kind == 3:  # just below and above what still passes as little
        half = width * 0.005 * float(rng.choice([1 - 1e-9, 1.0, 1 + 1e-9, 1.1, 0.9]))
        return [(centre - half, centre + half)]
    if kind == 4:  # many, each of them little
        count = int(rng.integers(2, 60))
        places = rng.uniform(lo, hi, count) if rng.random() < 0.5 else np.full(count, centre)
        share = width * float(rng.choice([0.009, 0.0009, 0.05]))
        return [(float(place), float(place) + share) for place in places]
    if kind == 5:
        return [(start + part, end + part) for start, end in zones or [first]]
    if kind == 6:
        return zones[1:]
    if kind == 7:
        return []
    if kind == 8:  # inside one another, or twice
        return [first, first, ((3 * first[0] + first[1]) / 4, (first[0] + 3 * first[1]) / 4)]
    if kind == 9:
        odd: list[tuple[Any, Any]] = [
            (first[1], first[0]), (first[0], first[0]), (-np.inf, np.inf), (np.nan, np.nan), (lo, hi), (0, 1),
            (-1e308, 1e308), (first[0], np.nextafter(first[0], np.inf)), (True, False), (5e-324, 1e-300),
        ]  # fmt: skip
        return [odd[int(rng.integers(len(odd)))]]
    factor = float(rng.choice([0.5, 1.0, 2.0, 10.0, 100.0])) * (1 + 1e-3 * rng.normal())
    return [((a + b) / 2 - (b - a) / 2 * factor, (a + b) / 2 + (b - a) / 2 * factor) for a, b in zones or [first]]


def _may_have_zones(value: Any) -> bool:
    return isinstance(value, OneLayerClaim | TableClaim)


def _outside(network: Network, said: Certificate, claim: OneLayerClaim, zones: list[Any]) -> Leaf:
    """The leaf with boxes that leave the zones out, where nothing has to hold."""
    leaf, stored = claim.leaf, read_one_layer(network)
    ends = [(float(a) - stored.centre) * stored.scale for zone in zones for a in zone]
    inside = [end for end in sorted(ends) if leaf.lo < end < leaf.hi]
    cuts = np.array([leaf.lo, *inside, leaf.hi])
    boxes = np.stack([cuts[:-1], cuts[1:]], axis=1)
    middle = boxes.mean(axis=1) / stored.scale + stored.centre
    dead = np.array([any(a < x < b for a, b in zones) for x in middle.tolist()])
    room = 1e-9 * (leaf.hi - leaf.lo)
    boxes = boxes[~dead] + [-room, room]
    return replace(leaf, boxes=np.clip(boxes, leaf.lo, leaf.hi))


# names


def mutated_names(name: str, rng: Rng, everything: bool) -> bytes:
    network, said = _pair(name, everything)
    graphs = [(path, part) for path, part in parts_of(said.claim) if isinstance(part, Graph)]
    for _ in range(int(rng.integers(1, 4))):
        text, kind = NAMES[int(rng.integers(len(NAMES)))], int(rng.integers(7))
        if kind < 2 and graphs:
            path, _graph = graphs[int(rng.integers(len(graphs)))]
            new = replace(_entry(said.claim, path), name=text)
            if rng.random() < 0.5:
                new = replace(new, nodes=tuple(replace(node, label=text) for node in new.nodes))
            said = replace(said, claim=altered(said.claim, path, new))
        elif kind < 4 and isinstance(said.claim, SampledClaim):
            leaf = replace(said.claim.leaf, formula=text if rng.random() < 0.3 else OPAQUE + text)
            said = replace(said, claim=replace(said.claim, leaf=leaf))
        elif kind == 2 and rng.random() < 0.5:  # coordinates and inputs
            old = network.inputs[int(rng.integers(len(network.inputs)))]
            network = _everywhere(network, lambda v, a=old, b=text: b if isinstance(v, str) and v == a else v)
        elif kind == 3:  # the same leaf in another's words
            said = replace(said, formula=str(rng.choice(FORMULAS[:12])))
            if rng.random() < 0.5:
                return encode_file(network, replace(consistent(network, said), formula=said.formula))
        elif kind == 4:
            texts = [(path, part) for path, part in parts_of(said.claim) if isinstance(part, str)]
            if texts:
                path, _old = texts[int(rng.integers(len(texts)))]
                said = replace(said, claim=altered(said.claim, path, OPAQUE + text))
        elif kind == 5:
            said = replace(said, assumptions=(*said.assumptions, LINES[int(rng.integers(len(LINES)))]))
        else:
            return encode_file(network, replace(consistent(network, said), formula=text))
    return encode_file(network, consistent(network, said))


# loops


def mutated_loops(name: str, rng: Rng, everything: bool) -> bytes:
    network, said = _pair(name, everything)
    for _ in range(int(rng.geometric(0.7))):
        network, said = _other_loop(network, said, rng, pieces(everything))
    said = loosened(said, float(10.0 ** rng.uniform(0, 5)))
    return encode_file(network, consistent(network, said) if rng.random() < 0.9 else said)


def _other_loop(network: Network, said: Certificate, rng: Rng, pool: dict[str, list[Any]]) -> Pair:
    claim, kind = said.claim, int(rng.integers(12))
    loops = [(path, part) for path, part in parts_of(network) if isinstance(part, Loop)]
    times: list[Any] = [0, 1, 2, 3, 7, 100, 2**40, -1, True, 2.5]
    if kind < 3 and loops:
        path, loop = loops[int(rng.integers(len(loops)))]
        number = times[int(rng.integers(len(times)))]
        news = [replace(loop, times=number), Loop((loop,), 2), Loop((Loop(loop.layers, 1),), loop.times),
                replace(loop, layers=loop.layers * 2), replace(loop, layers=loop.layers[:-1])]  # fmt: skip
        return altered(network, path, news[int(rng.integers(len(news))) if kind else 0]), said
    if kind == 3 and loops:  # the passes one after the other, without a loop
        layers = tuple(x for one in network.layers for x in (one.layers * 2 if isinstance(one, Loop) else (one,)))
        return replace(network, layers=layers), said
    if kind == 4 and not loops:
        return replace(network, layers=(Loop(network.layers, int(rng.integers(1, 4))),)), said
    if isinstance(claim, LoopClaim):
        return network, replace(said, claim=_other_loop_claim(claim, kind, rng, pool))
    if isinstance(claim, InterpreterClaim):
        claim = replace(claim, times=times[int(rng.integers(len(times)))])
        said = replace(said, claim=claim)
        return (
            rebuilt(network, said)
            if rng.random() < 0.5 and type(claim.times) is int and claim.times < 20
            else (network, said)
        )
    if isinstance(claim, PromptClaim):
        field = str(rng.choice(["passes", "answer", "read_out", "queries", "clock", "own_values"]))
        value = getattr(claim, field)
        new = {"answer": str(rng.choice(["gradients", "w", "p"])), "read_out": None}.get(
            field, other_value(value, rng, pool)
        )
        return network, replace(said, claim=replace(claim, **{field: new}))
    return network, said


def _other_loop_claim(claim: LoopClaim, kind: int, rng: Rng, pool: dict[str, list[Any]]) -> Any:
    if kind < 7:
        return replace(claim, own=not claim.own)
    if kind == 7:
        return claim.composite  # one pass, as if it were all
    if kind == 8:
        return replace(claim, beginning=None)
    if kind == 9:
        return replace(claim, beginning=(pool.get("Beginning") or [None])[0])
    step = int(rng.choice([-1, 1]))
    return replace(claim, features=claim.features + step, states=claim.states - step * int(rng.integers(0, 2)))


# numbers of tokens


def mutated_tokens(name: str, rng: Rng, everything: bool) -> bytes:
    network, said = _pair(name, everything)
    n = network.tokens
    new = TOKENS[int(rng.integers(len(TOKENS)))]
    if (
        isinstance(said.claim, InterpreterClaim)
        and type(new) is int
        and 0 < new <= LARGEST_BUILT
        and rng.random() < 0.7
    ):
        network, said = _larger_module(network, said, new, rng)
    elif rng.random() < 0.3:  # only one of those that say it
        places = [(p, v) for p, v in parts_of((network, said)) if p and p[-1] == "tokens" and isinstance(v, int | None)]
        path, _ = _one_of(places, rng)
        network, said = altered((network, said), path, new)
    else:
        share = float(rng.choice([0.0, 0.5, 1.0]))  # 0: what a position adds is the same everywhere
        network, said = _resized((network, said), n, new, rng, share)
    said = loosened(said, float(10.0 ** rng.uniform(0, 5)))
    return encode_file(network, consistent(network, said) if rng.random() < 0.9 else said)


def _resized(value: Any, n: int | None, new: Any, rng: Rng, share: float, field: str = "") -> Any:
    """Everything that is as many as the tokens, as many as the new ones; of arrays only a share. field: its name."""
    if isinstance(value, np.ndarray):
        whole = type(new) is int and n is not None and n > 0 and 0 < new <= 10**4
        if field == "C" and share == 0 and len(value):
            return value[:1].copy()
        if not whole or field in ("registers", "boxes") or rng.random() > share:
            return value
        shape = [
            new if size == n and (axis == 0 or field == "matrices") else size for axis, size in enumerate(value.shape)
        ]
        return value if np.prod(shape) > 2**21 else np.resize(value, shape)
    if isinstance(value, Box):
        lo, hi = (_resized(end, n, new, rng, 1.0) for end in (value.lo, value.hi))
        return Box(lo, hi)
    if dataclasses.is_dataclass(value):
        names = [one.name for one in dataclasses.fields(value)]
        return replace(value, **{one: _resized(getattr(value, one), n, new, rng, share, one) for one in names})
    if isinstance(value, tuple):
        if field == "units" and n and type(new) is int and 0 < new <= 10**4 and len(value) == n:
            base = value[0] - value[0] % n
            return tuple(base // n * new + t for t in range(new)) if value[0] >= 0 else value[:1] * new
        return tuple(_resized(item, n, new, rng, share, field) for item in value)
    return new if field == "tokens" and type(value) in (int, type(None)) and value == n else value


def _larger_module(network: Network, said: Certificate, tokens: int, rng: Rng) -> Pair:
    """The interpreter of a prompt of so many tokens: built as it is, or one whose tokens share a few codes."""
    claim = said.claim
    assert isinstance(claim, InterpreterClaim)
    if tokens <= 64:
        new = replace(claim, tokens=tokens, codes=tokens)
        return rebuilt(network, replace(said, claim=new))
    few = replace(claim, tokens=tokens, codes=1, times=0)
    return shared_codes(few, network, said)


def shared_codes(claim: InterpreterClaim, network: Network, said: Certificate) -> Pair:
    """A module of many tokens in a small file: the layers that the checker expects, written down."""
    layers = ExpectedLayers(claim)
    names, outputs = (tuple(f"c{i}" for i in range(layers.width)), tuple(f"out[{i}]" for i in range(claim.features)))
    terms, constants = layers._embed()
    first, second = (Attention(names, tuple(heads)) for heads in (layers._products(), layers._attention()))
    read = np.zeros((layers.width, len(layers.out)))
    read[layers.out, range(len(layers.out))] = 1
    whole = Network(
        tuple(f"i{k}" for k in range(layers.prompt)), Linear(names, tuple(terms), constants),
        np.zeros((0, layers.width)), (first, second), Linear(outputs, (Term(read),), np.zeros((1, len(outputs)))),
        tokens=claim.tokens, dtype=network.dtype,
    )  # fmt: skip
    sizes = np.concatenate([np.full(claim.features, claim.x_max), np.full(layers.weights, claim.w_max)])
    box = Box(np.concatenate([-sizes, [0.0], [-claim.hidden]]), np.concatenate([sizes, [1.0], [0.0]]))
    return whole, replace(said, claim=claim, domain=box)


# which files have any


KINDS: dict[str, Callable[[str, Rng, bool], bytes]] = {
    "zones": mutated_zones,
    "names": mutated_names,
    "loops": mutated_loops,
    "tokens": mutated_tokens,
}


@cache
def suited(kind: str, everything: bool) -> tuple[str, ...]:
    """The files that have what is mutated, or may."""
    found = []
    for name in sorted(seeds(everything)):
        network, said = objects(name, everything)
        if said is None or said.measured is not None:
            continue
        parts = [part for _, part in parts_of((network, said.claim))]
        right = {
            "zones": any(_may_have_zones(part) for part in parts),
            "names": True,
            "loops": network.tokens is not None or any(isinstance(part, Loop | Node) for part in parts),
            "tokens": network.tokens is not None,
        }[kind]
        found += [name] * right
    return tuple(found)


def _pair(name: str, everything: bool) -> Pair:
    network, said = objects(name, everything)
    assert said is not None
    return network, said


def _one_of(items: list[Any], rng: Rng) -> Any:
    return items[int(rng.integers(len(items)))]


def _entry(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step] if isinstance(step, int) else getattr(value, step)
    return value


def _everywhere(value: Any, change: Callable[[Any], Any]) -> Any:
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return replace(value, **{name: _everywhere(getattr(value, name), change) for name in names})
    return tuple(_everywhere(item, change) for item in value) if isinstance(value, tuple) else change(value)
