"""Whether what a certificate says is true, as far as inputs can tell: the network is run and compared with its declared
target, in 200 bits and by formulas of this file's own. For `fuzz_files.py`."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from flint import arb, ctx, fmpq

import weightwright as ww
from weightwright.claims.certificate import Certificate
from weightwright.claims.graph import Graph
from weightwright.claims.leaf import OPAQUE
from weightwright.claims.memory_claim import MemoryClaim
from weightwright.claims.one_layer_claims import OneLayerClaim, SampledClaim, VectorLayerClaim
from weightwright.claims.program_claim import InterpreterClaim
from weightwright.claims.prompt import LoopClaim, PromptClaim
from weightwright.claims.target import UNREAD, Composite
from weightwright.expressions import Number, Variable, fold, parse
from weightwright.network import Attention, Loop, Network
from weightwright.papers.claims.cell_grid import GridClaim
from weightwright.papers.claims.ridge_functions import RidgeFunctions, TokenModels
from weightwright.papers.claims.shared_keys_claim import SharedKeysClaim
from weightwright.papers.claims.side_by_side_claim import SideBySideClaim
from weightwright.runtime import AttentionNetwork

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from fuzz_programs import worst_program
from support import prompts
from support.exact import _MEANING, BITS

#: Inputs of each kind that a network is tried on.
COUNT = 24
#: Sets of heads that return 0 in turn, where a claim is about that.
ABLATIONS = 3
Row = list[arb]
#: All numbers of an input, token by token, to all outputs; None where nothing is claimed.
Target = Callable[[Row], Row | None]


def worst_violation(network: Network, certificate: Certificate, rng: np.random.Generator) -> str | None:
    """An input at which the claim is false, in words; None if none was found."""
    claim, before = certificate.claim, ctx.prec
    ctx.prec = BITS
    try:
        if isinstance(claim, GridClaim):
            return _grid(network, certificate, claim, rng)
        if isinstance(claim, MemoryClaim):
            return _memory(network, certificate, claim)
        if isinstance(claim, PromptClaim):
            return _prompt(network, certificate, rng)
        if isinstance(claim, InterpreterClaim):
            return worst_program(network, certificate, claim, rng)
        if isinstance(claim, SampledClaim):
            return _samples(network, certificate, claim)
        if isinstance(claim, LoopClaim):
            return _loop(network, certificate, claim, rng)
        if isinstance(claim, SharedKeysClaim):
            return _shared_keys(network, certificate, claim, rng)
        said = _points(network, certificate, _target(network, certificate), rng)
        if isinstance(claim, Composite) and claim.ablatable:
            for _ in range(ABLATIONS):
                said = said or _points(*_ablated(network, certificate, claim, rng), rng)
        return said
    finally:
        ctx.prec = before


def value(formula: str, names: tuple[str, ...], at: Row) -> arb:
    """A formula at a point."""
    known = dict(zip(names, at, strict=False))

    def leaf(node: Number | Variable) -> arb:
        if isinstance(node, Variable):
            return known[node.name]
        return arb(fmpq(node.value.numerator, node.value.denominator))

    return fold(parse(formula, names), leaf, lambda op, args: _MEANING[op](*args))


def _target(network: Network, certificate: Certificate) -> Target:
    claim = certificate.claim
    if isinstance(claim, OneLayerClaim):
        zones = claim.dead_zones

        def one(x: Row) -> Row | None:
            dead = any(lo < float(x[0]) < hi for lo, hi in zones)
            return None if dead else [value(certificate.formula, ("x",), x)]

        return one
    if isinstance(claim, VectorLayerClaim):
        return lambda x: [value(certificate.formula, tuple("xyz"[: len(x)]), x)]
    if isinstance(claim, SideBySideClaim):
        formulas = [part.certificate.formula for part in claim.parts]
        return lambda x: [value(formula, tuple("xyz"[: len(x)]), x) for formula in formulas]
    assert isinstance(claim, Composite)
    return _composite(claim, len(network.inputs))


def _composite(claim: Composite, d: int) -> Target:
    target = claim.target
    if claim.formulas is not None:
        formulas = claim.formulas.formulas
        return lambda x: [value(f, tuple(f"x{i}" for i in range(len(x))), x) for f in formulas]
    if isinstance(target, Graph):
        return lambda x: _joined_rows(graph_rows(claim, x, d))
    if isinstance(target, RidgeFunctions):
        return lambda x: _ridge(target, x)
    return lambda x: _models(target, claim, x)


def _dot(weights: np.ndarray, numbers: Row, constant: float) -> arb:
    return sum((arb(w) * v for w, v in zip(weights.tolist(), numbers, strict=False)), arb(constant))


def _ridge(target: RidgeFunctions, x: Row) -> Row:
    known = list(x)
    for k, profile in enumerate(target.profiles):
        known.append(value(profile, ("x",), [_dot(target.arguments[k], known, float(target.shifts[k]))]))
    return [_dot(row, known, float(c)) for row, c in zip(target.outputs, target.constants, strict=True)]


def _models(target: TokenModels, claim: Composite, x: Row) -> Row | None:
    d, rows = target.weights.shape[1], len(target.profiles)
    out = []
    for i, weights in enumerate(target.weights):
        s = _dot(weights, x[i * d : (i + 1) * d], float(target.shifts[i]))
        for part in claim.parts:
            if part.units[i] != UNREAD and any(arb(lo) < s < arb(hi) for lo, hi in part.zones.tolist()):
                return None
        out += [value(target.profiles[r], ("x",), [s]) for r in range(rows)]
    return out


def graph_rows(claim: Composite, x: Row, d: int) -> list[Row] | None:
    """[token][output]; None where an argument is in a dead zone, so that nothing is claimed."""
    graph = claim.target
    assert isinstance(graph, Graph)
    columns, n = graph_columns(graph, x, d), len(x) // d
    for part in claim.parts:
        units = part.units if graph.tokens else part.units * n  # of any number of tokens one stands for all
        for t, unit in enumerate(units if len(part.zones) else ()):
            if unit >= 0:
                s = columns[graph.nodes[unit // (graph.tokens or 1)].of[0]][t]
                if any(not (s <= arb(lo) or s >= arb(hi)) for lo, hi in part.zones.tolist()):
                    return None
    return [[columns[k][t] for k in graph.outputs] for t in range(n)]


def _joined_rows(rows: list[Row] | None) -> Row | None:
    return None if rows is None else [cell for row in rows for cell in row]


def graph_outputs(graph: Graph, x: Row, d: int, dead: frozenset[int] = frozenset()) -> list[Row]:
    """[token][output]. dead: columns that are 0, and squares of products: number k's are K + 2 k and K + 2 k + 1."""
    columns = graph_columns(graph, x, d, dead)
    return [[columns[k][t] for k in graph.outputs] for t in range(len(x) // d)]


def graph_columns(graph: Graph, x: Row, d: int, dead: frozenset[int] = frozenset()) -> list[Row]:
    """[column][token]."""
    n, K = len(x) // d, len(graph.nodes)
    columns: list[Row] = []
    for k, node in enumerate(graph.nodes):
        of = [columns[k] for k in node.of]
        row = []
        for t in range(n):
            if node.op == "input":
                row.append(x[t * d + node.index])
            elif node.op == "affine":
                row.append(_dot(node.weights, [c[t] for c in of], float(node.constants[t % len(node.constants)])))
            elif node.op == "product":
                row.append(_squares(of[0][t], of[1][t], [K + 2 * k + sign not in dead for sign in (0, 1)]))
            elif node.op == "softmax":
                row.append(of[node.index][t].exp() / sum((c[t].exp() for c in of), arb(0)))
            elif node.op == "mix":
                row.append(_dot(graph.matrices[node.index][t], of[0], 0.0))
            elif node.op == "attention":
                row.append(_attention(of, t, np.ones(n) if node.index == -1 else graph.matrices[node.index][t]))
            else:
                row.append(value(node.op, ("x",), [of[0][t]]))
        columns.append(row if k not in dead else [arb(0)] * n)
    return columns


def _squares(a: arb, b: arb, alive: list[bool]) -> arb:
    """a b as the difference of two squares, of which either may be 0. Their balance is 1 in what is ablated here."""
    if all(alive):
        return a * b
    plus, minus = (a + b if alive[0] else arb(0)), (a - b if alive[1] else arb(0))
    return (plus * plus - minus * minus) / 4


def _ablated(
    network: Network, certificate: Certificate, claim: Composite, rng: np.random.Generator
) -> tuple[Network, Certificate, Target]:
    """Some of the heads that claims name return 0, and what they compute is 0."""
    graph, dead, off = claim.target, set[int](), set[tuple[int, int]]()
    assert isinstance(graph, Graph)
    n = graph.tokens or 1
    units = [((part.layer, part.heads[0]), {unit // n for unit in part.units}) for part in claim.parts]
    units += [((one.layer, one.head), set(one.nodes)) for one in (*claim.softmaxes, *claim.attentions)]
    even = {p.node for p in claim.products if p.balance == 1.0}
    for place, nodes in units:
        squares = {node for node in nodes if node >= len(graph.nodes)}
        if rng.random() < 0.4 and all((node - len(graph.nodes)) // 2 in even for node in squares):
            off.add(place)
            dead |= nodes
    layers = [
        dataclasses.replace(layer, heads=tuple(
            dataclasses.replace(head, W_O=0 * head.W_O) if (i, j) in off else head for j, head in enumerate(layer.heads)
        ))
        for i, layer in enumerate(network.layers) if isinstance(layer, Attention)
    ]  # fmt: skip
    zeroed, d = frozenset(dead), len(network.inputs)

    def target(x: Row) -> Row:
        return [cell for row in graph_outputs(graph, x, d, zeroed) for cell in row]

    return dataclasses.replace(network, layers=tuple(layers)), certificate, target


def _attention(of: list[Row], t: int, seen: np.ndarray) -> arb:
    """Queries and keys, as many of each, and a value."""
    h = len(of) // 2
    weights = {j: sum((of[r][t] * of[h + r][j] for r in range(h)), arb(0)).exp() for j in np.flatnonzero(seen).tolist()}
    return sum((w * of[-1][j] for j, w in weights.items()), arb(0)) / sum(weights.values(), arb(0))


def inputs_of(network: Network, certificate: Certificate, rng: np.random.Generator) -> torch.Tensor:
    """(count, tokens, features): corners, near them, inside, small; of the dtype and inside the domain."""
    dtype = ww.runtime.module.DTYPES[network.dtype]
    lo, hi = certificate.domain.lo, certificate.domain.hi
    tokens = network.tokens or (len(lo) if lo.ndim == 2 else 2)
    shape = (COUNT, tokens, lo.shape[-1])
    lo, hi = (np.broadcast_to(end, shape[1:]) for end in (lo, hi))
    with np.errstate(all="ignore"):
        corners = np.where(rng.random(shape) < 0.5, lo, hi)
        inside = lo / 2 + hi / 2 + (hi / 2 - lo / 2) * rng.uniform(-1, 1, shape)
        small = inside * 2.0 ** rng.integers(-60, 0, shape)
        places = [0.0, 0.25, -0.25, 0.5, -0.5]
        near = rng.choice(places, shape) + rng.choice([0.0, 1e-16, -1e-16, 1e-6, -1e-6], shape)
        even = lo + (hi - lo) * np.linspace(0, 1, COUNT)[:, None, None]
    x = np.concatenate([corners, np.where(rng.random(shape) < 0.5, corners, inside), inside, small, near, even])
    x = torch.tensor(np.clip(np.nan_to_num(x), lo, hi), dtype=dtype)
    out = x.double().numpy()
    return x[torch.tensor(((out >= lo) & (out <= hi)).all(axis=(1, 2)))]


def run(network: Network, x: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return AttentionNetwork(network)(x).double().numpy()


def _points(
    network: Network,
    certificate: Certificate,
    target: Target,
    rng: np.random.Generator,
    count: int | None = None,
) -> str | None:
    """count: of the outputs only the first so many are claimed."""
    x = inputs_of(network, certificate, rng)
    if isinstance(certificate.claim, OneLayerClaim | VectorLayerClaim | Composite):
        x = torch.cat([x, _searched(network, certificate, x)])
    y = run(network, x).reshape(len(x), -1)
    apart = (isinstance(certificate.claim, Composite) and network.tokens is None) or (
        isinstance(certificate.claim, OneLayerClaim | VectorLayerClaim)
    )
    for i in range(len(x)):
        rows = x[i].double().numpy()
        for row in rows if apart else [rows]:
            wanted = target([arb(float(v)) for v in np.ravel(row)])
            if wanted is None:
                continue
            if apart:
                place = int(np.flatnonzero((rows == row).all(axis=1))[0])
                found = y[i].reshape(len(rows), -1)[place]
            else:
                found = y[i]
            for have, want in zip(found[:count].tolist(), wanted[:count], strict=True):
                said = _compare(have, want, certificate.bound)
                if said:
                    return f"at x = {np.ravel(row).tolist()}: {said}"
    return None


def _compare(have: float, want: arb, bound: float) -> str | None:
    if not math.isfinite(have):
        return f"the network returns {have!r}"
    error = abs(arb(have) - want)
    if not error.is_finite():
        return f"the target is no number: {want}"
    return None if error.lower() <= arb(bound) else f"an error of {error} where {bound!r} is claimed"


def _searched(network: Network, certificate: Certificate, like: torch.Tensor) -> torch.Tensor:
    """The worst input that `ww.search` finds in one round."""
    try:
        net = AttentionNetwork(network, dataclasses.replace(certificate, status="PROVEN"))
        found = np.ravel(ww.search(net, 0.0).x)
    except Exception:  # the search is only one of the ways to find inputs
        return like[:0]
    if like[0].numel() % len(found):
        return like[:0]
    tokens = like.shape[1] * len(found) // like[0].numel()
    x = torch.tensor(found, dtype=like.dtype).reshape(1, tokens, -1)
    return x.expand(1, like.shape[1], -1) if tokens == 1 else x


@dataclasses.dataclass(frozen=True)
class Stages:
    """A loop whose tokens have states of their own, taken apart: what stands before it, and one pass."""

    once: Network
    said: Certificate  # with the domain of a pass
    first: Network | None


def stages(network: Network, certificate: Certificate, claim: LoopClaim) -> Stages:
    *before, loop = network.layers
    assert isinstance(loop, Loop)
    *body, gather, _ = loop.layers
    inputs, embed, said, first = network.inputs, network.embed, certificate, None
    if claim.beginning is not None:
        *before, entering, embed = before  # type: ignore[assignment]
        inputs, said = entering.coordinates, dataclasses.replace(certificate, domain=claim.beginning.domain)
        first = dataclasses.replace(network, layers=tuple(before), read=entering)
    once = dataclasses.replace(network, inputs=inputs, embed=embed, layers=tuple(body), read=gather)
    return Stages(once, said, first)


def _own_loop(network: Network, certificate: Certificate, claim: LoopClaim, rng: np.random.Generator) -> str | None:
    """Every token has a state of its own: what stands before the loop, one pass, and whether these are what runs."""
    apart = stages(network, certificate, claim)
    first, once, said, d = apart.first, apart.once, apart.said, len(apart.once.inputs)
    if first is not None:
        assert claim.beginning is not None
        beginning = claim.beginning.composite
        found = _points(first, certificate, lambda x: _joined_rows(graph_rows(beginning, x, len(network.inputs))), rng)
        if found:
            return f"before the loop, {found}"

    def target(x: Row) -> Row | None:
        rows = graph_rows(claim.composite, x, d)
        if rows is None:
            return None
        rows = rows if claim.own else [rows[0]] * len(rows)
        kept = [x[t * d : t * d + claim.features] for t in range(len(rows))]
        return [value for t, row in enumerate(rows) for value in (*kept[t], *row)]

    return _points(once, said, target, rng) or _joined(network, certificate, first, once, rng)


def _joined(
    network: Network, certificate: Certificate, first: Network | None, once: Network, rng: np.random.Generator
) -> str | None:
    """The stages one after the other are what the whole network runs."""
    x = inputs_of(network, certificate, rng)
    state = x if first is None else torch.tensor(run(first, x), dtype=x.dtype)
    for _ in range(2):
        state = torch.tensor(run(once, state), dtype=x.dtype)
    loop = dataclasses.replace(network.layers[-1], times=2)  # type: ignore[type-var]
    y = run(dataclasses.replace(network, layers=(*network.layers[:-1], loop)), x)
    gap = float(np.abs(state[..., state.shape[-1] - y.shape[-1] :].double().numpy() - y).max())
    rounded = 2.0**12 * torch.finfo(x.dtype).eps * (1 + float(state.abs().max()))
    return None if gap <= rounded else f"two passes by hand differ by {gap:.3g}"


def _loop(network: Network, certificate: Certificate, claim: LoopClaim, rng: np.random.Generator) -> str | None:
    if claim.own or claim.beginning is not None:
        return _own_loop(network, certificate, claim, rng)
    (loop,) = network.layers
    assert isinstance(loop, Loop)
    d = len(network.inputs)
    once = dataclasses.replace(network, layers=(dataclasses.replace(loop, times=1),))

    def target(x: Row) -> Row | None:
        rows = graph_rows(claim.composite, x, d)
        return None if rows is None else rows[0][-len(network.read.coordinates) :]

    return _points(once, certificate, target, rng, len(network.read.coordinates))


def _samples(network: Network, certificate: Certificate, claim: SampledClaim) -> str | None:
    """At the samples nothing but their accuracy is unknown."""
    x, lo, hi = claim.samples.x, certificate.domain.lo, certificate.domain.hi
    dtype = ww.runtime.module.DTYPES[network.dtype]
    given = torch.tensor(x, dtype=dtype)[:, None]
    y = run(network, given)[:, 0]
    for at, have, want in zip(x.tolist(), y.tolist(), claim.samples.y.tolist(), strict=True):
        if lo[0] <= at <= hi[0] and float(torch.tensor(at, dtype=dtype)) == at:
            said = _compare(have, arb(want), math.nextafter(certificate.bound + claim.samples.accuracy, math.inf))
            if said:
                return f"at the sample x = {at!r}: {said}"
    return None


def _prompt(network: Network, certificate: Certificate, rng: np.random.Generator) -> str | None:
    assert isinstance(certificate.claim, PromptClaim)
    assert network.tokens is not None
    before = prompts.N, prompts.D
    prompts.N, prompts.D = network.tokens, certificate.claim.features
    try:
        if certificate.domain.lo.ndim == 2:
            ends = certificate.domain.lo.max(axis=0), certificate.domain.hi.min(axis=0)
            certificate = dataclasses.replace(certificate, domain=ww.Box(*ends))
        net = AttentionNetwork(network, certificate)
        for prompt in prompts.prompts(net, COUNT, int(rng.integers(2**31))):
            for error in prompts.errors(net, prompt):
                if not error <= certificate.bound:
                    return (
                        f"one pass is off by {error!r} where {certificate.bound!r} is claimed, from {prompt.tolist()}"
                    )
        return None
    finally:
        prompts.N, prompts.D = before


def _shared_keys(
    network: Network, certificate: Certificate, claim: SharedKeysClaim, rng: np.random.Generator
) -> str | None:
    """Prompts as the claim has them: one w for all tokens, and token k holds k w."""
    d, x = claim.features, inputs_of(network, certificate, rng)
    multiples = torch.arange(x.shape[1], dtype=x.dtype)[:, None]
    x[..., 2 * d :] = x[:, :1, 2 * d :].clone()
    x[..., d : 2 * d] = multiples * x[..., 2 * d :]
    lo, hi, at = certificate.domain.lo, certificate.domain.hi, x.double().numpy()
    x = x[torch.tensor(((at >= lo) & (at <= hi)).all(axis=(1, 2)))]
    for prompt, out in zip(x.double().numpy(), run(network, x), strict=True):
        for token, have in zip(prompt, out[:, 0].tolist(), strict=True):
            s = sum((arb(a) * arb(b) for a, b in zip(token[:d], token[2 * d :], strict=True)), arb(0))
            said = _compare(have, value(claim.formula, ("x",), [s]), certificate.bound)
            if said:
                return f"at the prompt {prompt.tolist()}: {said}"
    return None


def _memory(network: Network, certificate: Certificate, claim: MemoryClaim) -> str | None:
    """Every stored token, in its sequence alone and in a batch."""
    net = AttentionNetwork(network, certificate)
    start = 0
    for n in claim.lengths.astype(int).tolist():
        rows = claim.vectors[claim.tokens[start : start + n].astype(int)]
        x = np.column_stack([rows, np.arange(float(n))]) if claim.positions else rows
        labels, tensor = claim.labels[start : start + n], torch.tensor(x, dtype=net.dtype)
        for out in (net(tensor), net(tensor.expand(3, *tensor.shape))[-1]):
            wrong = (out[:, 0].double().numpy() != labels) & (labels >= 0)
            if wrong.any():
                return f"token {int(np.argmax(wrong))} of the sequence at {start} is returned as {out[:, 0].tolist()}"
        start += n
    return None


def _grid(network: Network, certificate: Certificate, claim: GridClaim, rng: np.random.Generator) -> str | None:
    N, g, B = claim.tokens * claim.features, claim.g, claim.B
    if not certificate.bound < math.inf:
        return f"a bound of {certificate.bound!r}"
    cell, p = (2 * arb(B) / g) ** N, arb(claim.norm)
    core = cell * (1 - arb(claim.delta)) ** N
    inner = _powers(claim.core, p) * core + _powers(claim.shell, p) * (cell - core)
    everywhere = (len(claim.formulas) * (2 * arb(B)) ** N) ** (1 / p)
    least = inner ** (1 / p) + (arb(claim.leakage) + claim.rounding) * everywhere
    if least.lower() > certificate.bound:
        return f"cells add up to {least} where {certificate.bound!r} is claimed"
    if any(formula.startswith(OPAQUE) for formula in claim.formulas):
        return None
    names = tuple(f"x{i}" for i in range(N))
    for x in inputs_of(network, certificate, rng):
        flat = np.ravel(x.numpy())
        y = np.ravel(run(network, x[None]))
        along = np.clip(np.floor((flat + B) / (2 * B / g)), 0, g - 1)
        middle = -B + (2 * along + 1) * B / g
        v = int(np.ravel_multi_index(tuple(along.astype(int)), (g,) * N))
        is_core = bool((np.abs(flat - middle) < (1 - claim.delta) * B / g * (1 - 1e-9)).all())
        for k, formula in enumerate(claim.formulas):
            bound = claim.core[k, v] + claim.leakage if is_core else claim.shell[k, v]
            said = _compare(float(y[k]), value(formula, names, [arb(float(z)) for z in flat]),
                            float(bound + claim.rounding) * (1 + 1e-12) + 1e-300)  # fmt: skip
            if said and not _between_cells(flat, B, g):
                return f"at x = {flat.tolist()}: {said}"
    return None


def _powers(errors: np.ndarray, p: arb) -> arb:
    return sum((arb(error) ** p for error in np.ravel(errors).tolist() if error), arb(0))


def _between_cells(x: np.ndarray, B: float, g: int) -> bool:
    """On a face two cells meet, and which of their claims counts is a matter of rounding."""
    places = (x + B) / (2 * B / g)
    return bool((np.abs(places - np.rint(places)) < 1e-9).any())
