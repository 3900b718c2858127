"""Small networks that run an algorithm on their prompt, and the exact pass that each of theirs is compared with."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import torch
from flint import arb, ctx, fmpq
from support.exact import BITS, exact

import weightwright as ww
from weightwright.approximation.faithful_tables import propose_faithful
from weightwright.approximation.table import propose_table
from weightwright.certify import certify
from weightwright.claims.certificate import VectorLeaf, constant, local_formula, vector_formula
from weightwright.claims.prompt import Pass, PromptClaim, Summand
from weightwright.expressions import Apply, Variable, parse, to_text
from weightwright.incontext.networks.prompted import PromptTable, ReadOut, layout_of, pass_layers, prompted_network
from weightwright.network import Loop
from weightwright.runtime.passes.by_pieces import hear_by_pieces
from weightwright.runtime.watch import ends_a_pass

N, D = 3, 2
RESIDUAL, PREDICTION, TARGET = (1.0, -1.0), (1.0, 0.0), (0.0, 1.0)


def tables_of(part: Any, along: tuple[float, float]) -> tuple[Summand, list[PromptTable]]:
    tables = [
        PromptTable(
            along=along[0] * part.query.scale * table.keys,
            across=along[1] * part.query.scale * table.keys,
            offsets=table.offsets,
            values=table.values,
            beta=table.beta,
            weight=table.weight,
            mean=part.mean if index == 0 else 0.0,
            role=part.profile,
        )
        for index, table in enumerate(part.tables)
    ]
    profile, claim, scale = parse(part.profile, ("x",)), part.claim, part.query.scale
    if part.slope:  # what the tables leave to a straight line is no part of the function here
        profile = Apply("sub", (profile, Apply("mul", (constant(Fraction(part.slope)), Variable("x")))))
        local = to_text(local_formula(profile, 0.0, scale, part.mean))
        claim = dataclasses.replace(claim, formula=local, lipschitz=claim.lipschitz + abs(part.slope / scale))
    return Summand(to_text(profile), along, scale, len(tables), claim), tables


@cache
def fitted(profile: str, reach: float, tol: float, dtype: str) -> Any:
    return propose_table(profile, -reach, reach, tol, dtype)


def two_variables(formula: str, lo: list[float], hi: list[float], tol: float) -> tuple[Summand, list[PromptTable]]:
    """Anchors in the plane of (w.x, y), as `approximate` builds them, with a claim about (w.x, y) itself."""
    net = ww.approximate(formula, ww.Box(lo, hi), tol)
    assert net.certificate is not None
    (head,), claim = net.network.heads, net.certificate.claim.leaf
    assert isinstance(claim, VectorLeaf)
    scales = np.diag(head.W_Q)[:2]
    keys, values = net.network.registers @ head.W_K, (net.network.registers @ head.W_V)[:, 0]
    mean = float(net.network.embed.C[0, -1])
    text = to_text(vector_formula(parse(formula, ("x", "y")), (0.0, 0.0), (1.0, 1.0), mean))
    claim = dataclasses.replace(
        claim, formula=text, lo=claim.lo / scales, hi=claim.hi / scales, boxes=claim.boxes / scales,
        lipschitz=np.array([100.0, 100.0]),
    )  # fmt: skip
    table = PromptTable(*(keys[:, :2] * scales).T, keys[:, 2], values, head.beta, 1.0, mean, formula)
    return Summand(formula, None, 1.0, 1, claim), [table]


def times(part: tuple[Summand, list[PromptTable]], factor: Any) -> tuple[Summand, list[PromptTable]]:
    """The same, multiplied with another group of the stream than u."""
    summand, tables = part
    return dataclasses.replace(summand, factor=factor), [dataclasses.replace(one, factor=factor) for one in tables]


def plain(alpha: float = 1.0) -> Pass:
    return Pass(alpha, np.array([[1.0, 0.0, 0.0, 0.0]]))


def heavy_ball(m: float, dtype: str) -> Pass:
    return Pass(1.0, np.array([[1.0, 0.0, -m, m], [0.0, 0.0, 0.0, 1.0]], dtype=dtype).astype(np.float64))


def fista(m: float, dtype: str) -> Pass:
    return Pass(
        0.75, np.array([[0.0, 1.0 + m, -m, 0.0], [0.0, 1.0, 0.0, 0.0]], dtype=dtype).astype(np.float64), "threshold"
    )


def chebyshev(growth: float, fall: float, dtype: str) -> Pass:
    rows = [[1.0 + growth, -fall, -growth, 0.0], [0.0, 0.0, 0.0, 1.0]]
    return Pass(1.0, np.array(rows, dtype=dtype).astype(np.float64), "clock", float(np.array(0.3, dtype=dtype)))


def built(
    summands: list[tuple[Summand, list[PromptTable]]],
    dtype: str,
    passes: tuple[Pass, ...] = (),
    answer: str = "w",
    own_values: bool = False,
    times: int = 1,
    clock: float = 0.0,
    largest_x: float = 1.0,
    read: tuple[Summand, list[PromptTable]] | None = None,
    queries: int = 0,
) -> ww.AttentionNetwork:
    """The passes once, the last of them in a loop if it runs several times. All inputs but x are at most 1 in size.
    read: of the read-out, for the last tokens."""
    tables = [table for _, own in summands for table in own]
    claims = tuple(summand for summand, _ in summands)
    asked, held = (None, None) if read is None else (read[0], ReadOut(read[1], queries))
    prompted = PromptClaim(D, own_values, answer if passes else "gradients", claims, passes, clock, asked, queries)  # type: ignore[arg-type]
    layers = None
    if times > 1:
        layout = layout_of(D, passes, tables, read is not None)
        each = [pass_layers(layout, tables, step, N, dtype) for step in passes]
        layers = [*(layer for step in each[:-1] for layer in step), Loop(each[-1], times)]
    network = prompted_network(N, D, tables, passes, layers, prompted.answer, own_values, dtype, clock, held)
    hi = np.where([name.startswith("x") for name in network.inputs], largest_x, 1.0)
    lo = np.where([name.startswith("tau") for name in network.inputs], 0.0, -hi)
    return certify(network, prompted, ww.Box(lo, hi))


@cache
def made(kind: str, dtype: str) -> ww.AttentionNetwork:
    tol = {"float64": 1e-8, "float32": 1e-3}[dtype]
    line = tables_of(fitted("x", 3.0, tol, dtype), RESIDUAL)
    bent = tables_of(fitted("x/(1 + x*x)", 3.0, 1e-2, dtype), PREDICTION)
    steps = {
        "heavy ball": (heavy_ball(0.6, dtype),),
        "threshold": (fista(0.4, dtype),),
        "clock": (Pass(1.0, np.array([[1.0, 0, 0, 0], [0, 0, 0, 1.0]])), chebyshev(1.3, 1.1, dtype)),
    }
    if kind == "gradients":
        return built([line, bent], dtype, own_values=True)
    if kind == "descent":
        return built([line], dtype, (plain(0.9 if dtype == "float64" else 0.75),), times=2)
    if kind == "logistic":
        return built([tables_of(fitted("sigmoid(x) + 0.5", 2.0, tol, dtype), PREDICTION)], dtype, (plain(),))
    if kind == "read-out":  # a penalty's values beside u, two of three tokens ask
        penalty = times(tables_of(fitted("x", 2.0, tol, dtype), PREDICTION), "r")
        asked = times(tables_of(fitted("x", 2.0, tol, dtype), PREDICTION), "one")
        return built([line, penalty], dtype, (plain(),), own_values=True, times=2, read=asked, queries=2)
    if kind == "one prediction":  # as small as can be
        part = fitted("x", 3.0, 1e-2, dtype)
        asked = times(tables_of(part, PREDICTION), "one")
        return built([tables_of(part, RESIDUAL)], dtype, (plain(),), own_values=True, read=asked, queries=1)
    if kind == "read-out of p":  # of another function, in two tables
        asked = times(tables_of(fitted("abs(x) + 0.25", 2.0, 2e-3, dtype), PREDICTION), "one")
        return built([line], dtype, (heavy_ball(0.6, dtype),), "p", own_values=True, times=2, read=asked, queries=1)
    if kind == "kinks":  # several tables in one summand, two summands, own values
        kinked = tables_of(fitted("clip(x, -1, 1)/8", 3.0, 1e-2, dtype), RESIDUAL)
        small = tables_of(fitted("0.1*x + 0.3", 1.0, tol, dtype), TARGET)
        return built([kinked, small], dtype, (plain(),), own_values=True)
    if kind == "faithful":
        anchors = np.linspace(-3.0, 3.0, 25)
        part = propose_faithful("tanh(x)", anchors, [(0, np.tanh(anchors))], 4096.0, -3.0, 3.0, dtype)
        return built([tables_of(part, RESIDUAL)], dtype, (plain(),))
    if kind == "two variables":
        return built([two_variables("x*y/(1 + x*x)", [-2.0, -1.0], [2.0, 1.0], 0.05)], dtype, (plain(),))
    answer = "w" if kind == "clock" else "p"
    return built(
        [line], dtype, steps[kind], answer, times=3, clock=0.6 if kind == "clock" and dtype == "float64" else 0.0
    )


KINDS = [
    *((kind, dtype) for kind in ("gradients", "descent", "logistic", "kinks", "heavy ball", "threshold", "clock",
                                 "faithful", "read-out", "read-out of p") for dtype in ("float64", "float32")),
    ("two variables", "float64"),
]  # fmt: skip


def prompts(net: ww.AttentionNetwork, count: int, seed: int) -> torch.Tensor:
    """(count, N, inputs): corners, numbers of all sizes, and some of both, of the dtype and inside the domain."""
    assert net.certificate is not None
    rng, box = np.random.default_rng(seed), net.certificate.domain
    shape = (count, N, len(box.lo))
    corners, inside = np.where(rng.random(shape) < 0.5, box.lo, box.hi), rng.uniform(box.lo, box.hi, shape)
    small = inside * 2.0 ** rng.integers(-40, 0, shape)
    kind = rng.integers(0, 4, (count, 1, 1))
    mixed = np.where(rng.random(shape) < 0.5, corners, inside)
    x = np.select([kind == 0, kind == 1, kind == 2], [corners, inside, mixed], small)
    if not _prompt(net.certificate).has("threshold"):
        x = np.where(rng.random((count, 1, 1)) < 0.1, 0.0, x)
    return torch.tensor(x).to(net.dtype)


def _prompt(certificate: ww.Certificate) -> PromptClaim:
    assert isinstance(certificate.claim, PromptClaim)
    return certificate.claim


Held = dict[str, list[list[float]]]


def errors(
    net: ww.AttentionNetwork, prompt: torch.Tensor, by_tables: bool = False, by_pieces: bool = False
) -> Iterator[float]:
    """Of every pass on one prompt, as far as the certificate is about it: how far each token's states are off; then of
    the read-out, how far each prediction is.

    by_tables: from the same pass of the network in exact arithmetic, instead of the exact functions'.
    by_pieces: as the network runs when it is called, instead of layer by layer.
    """
    certificate = net.certificate
    assert certificate is not None
    claim, groups = _prompt(certificate), _by_name(net.network.embed.coordinates)
    run = _bare(net)
    both = zip(net.network.layers, run.layers, strict=True)
    layers = [pair for layer, module in both for pair in _opened(layer, module)]
    heard = _heard(run, prompt) if by_pieces else []
    tables, stream, start, number = 3 * sum(summand.tables for summand in claim.summands), run.embed(prompt), 0, 0
    asked = 0 if claim.read_out is None else 3 * claim.read_out.tables
    while start < len(layers) - asked:
        before = {name: stream[:, at].double().tolist() for name, at in groups.items()}
        if not _claimed(certificate, before):
            return
        step = claim.passes[min(number, len(claim.passes) - 1)] if claim.passes else None
        length = tables if step is None else tables + 2 + (step.middle != "none")
        for _, module in layers[start : start + length]:
            stream = stream if by_pieces else module(stream)
        stream = heard[number] if by_pieces else stream
        held = [layer for layer, _ in layers[start : start + tables]] if by_tables else None
        f = [_functions(claim.summands, held, before, i) for i in range(N)]
        start, number = start + length, number + 1
        yield _worst(step, before, {name: stream[:, at].double().tolist() for name, at in groups.items()}, f)
    if claim.read_out is None:
        return
    before = {name: stream[:, at].double().tolist() for name, at in groups.items()}
    before["w"] = before[claim.answer]
    if not _claimed(
        dataclasses.replace(certificate, claim=dataclasses.replace(claim, summands=(claim.read_out,))), before
    ):
        return
    for _, module in layers[start:]:
        stream = stream if by_pieces else module(stream)
    predicted = (heard[number] if by_pieces else stream)[:, groups["h"][0]].double().tolist()
    held = [layer for layer, _ in layers[start:]] if by_tables else None
    exact_ones = [_functions((claim.read_out,), held, before, i)["one"] for i in range(N)]
    yield max(float(abs(arb(predicted[i]) - exact_ones[i]).upper()) for i in range(N - claim.queries, N))


Functions = dict[str, arb]  # what f comes to, by what it is multiplied with


def _functions(summands: tuple[Summand, ...], tables: list[Any] | None, held: Held, i: int) -> Functions:
    """tables: their layers, whose sums in exact arithmetic are meant; None: the exact functions."""
    found: Functions = {}
    for summand in summands:
        own, tables = (None, None) if tables is None else (tables[: 3 * summand.tables], tables[3 * summand.tables :])
        value = _value(summand, held, i) if own is None else _by_tables(own, held, i)
        found[summand.factor] = found.get(summand.factor, arb(0)) + value
    return found


def _heard(net: ww.AttentionNetwork, prompt: torch.Tensor) -> list[torch.Tensor]:
    """The streams at the end of every pass, or where the gradients stand."""
    names, last = net.network.embed.coordinates, net.network.layers[-1]
    found = hear_by_pieces(net, prompt, lambda one: one is last or ends_a_pass(one), names, range(len(names)))
    assert found is not None, "it did not run by pieces"
    return found


@cache
def _bare(net: ww.AttentionNetwork) -> ww.AttentionNetwork:
    """Runs on prompts outside of what is claimed, too."""
    return ww.AttentionNetwork(net.network)


def _opened(layer: Any, module: Any) -> list[tuple[Any, Any]]:
    if not isinstance(layer, Loop):
        return [(layer, module)]
    return list(zip(layer.layers, module.layers, strict=True)) * layer.times


def _by_name(names: tuple[str, ...]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        groups.setdefault(name.split("[")[0], []).append(index)
    return groups


def _claimed(certificate: ww.Certificate, held: Held) -> bool:
    """Whether the states lie in the domain and the arguments where the claims are about them."""
    claim = _prompt(certificate)
    penalty = ["r"] if "r" in held else []
    inputs = ["x", *(["u"] if claim.own_values else []), *penalty, "y", "w", *(["p"] if claim.states == 2 else [])]
    inputs += ["tau"] if claim.has("threshold") else []
    for i in range(N):
        row = np.array([number for name in inputs for number in held[name][i]])
        if not bool(((certificate.domain.lo <= row) & (row <= certificate.domain.hi)).all()):
            return False
        for summand in claim.summands:
            lo, hi = (np.atleast_1d(end).tolist() for end in (summand.claim.lo, summand.claim.hi))
            for a, s, b in zip(lo, _arguments(summand, held, i), hi, strict=True):
                if not Fraction(a) <= s * Fraction(summand.scale) <= Fraction(b):
                    return False
    return True


def _arguments(summand: Summand, held: Held, i: int) -> list[Fraction]:
    product = sum((Fraction(a) * Fraction(b) for a, b in zip(held["w"][i], held["x"][i], strict=True)), Fraction(0))
    y = Fraction(held["y"][i][0])
    return [product, y] if summand.along is None else [int(summand.along[0]) * product + int(summand.along[1]) * y]


def _value(summand: Summand, held: Held, i: int) -> arb:
    balls = [arb(fmpq(s.numerator, s.denominator)) for s in _arguments(summand, held, i)]
    return exact(summand.formula, tuple(balls) if len(balls) > 1 else balls[0])  # type: ignore[arg-type]


def _by_tables(layers: list[Any], held: Held, i: int) -> arb:
    """What the tables add up to in exact arithmetic."""
    saved, ctx.prec = ctx.prec, BITS
    total = arb(0)
    for spread, attend, gather in zip(layers[::3], layers[1::3], layers[2::3], strict=True):
        kappa, lam, c, v = (term.tokens.R[:, 0].tolist() for term in spread.terms[1:])
        head = attend.heads[0]
        product = sum((arb(a) * b for a, b in zip(held["w"][i], held["x"][i], strict=True)), arb(0))
        weights = [
            (head.beta * (k * product + arb(b) * held["y"][i][0] + a)).exp()
            for k, b, a in zip(kappa, lam, c, strict=True)
        ]
        mean = sum((w * value for w, value in zip(weights, v, strict=True)), arb(0)) / sum(weights, arb(0))
        source = int(np.flatnonzero(spread.terms[-1].A.any(axis=1))[0])
        target = int(np.flatnonzero(head.W_O[0])[0])
        total += float(head.W_O[0, target]) * mean
        total += float(gather.terms[0].A[source, target])
    ctx.prec = saved
    return total


def _worst(step: Pass | None, before: Held, after: Held, f: list[Functions]) -> float:
    """The largest difference of any token's state, or gradient, from the exact one."""
    saved, ctx.prec = ctx.prec, BITS
    try:
        g = [
            [sum((value * before[factor][i][r] for factor, value in f[i].items()), arb(0)) for r in range(D)]
            for i in range(N)
        ]
        places = [(i, r) for i in range(N) for r in range(D)]
        pairs = [(after["g"][i][r], g[i][r]) for i, r in places]
        if step is not None:
            pairs = [pair for i, r in places for pair in _states(step, before, after, g, i, r)]
        return max(float(abs(arb(a) - b).upper()) for a, b in pairs)
    finally:
        ctx.prec = saved


def _states(step: Pass, before: Held, after: Held, g: list[list[arb]], i: int, r: int) -> Iterator[tuple[float, arb]]:
    w = arb(before["w"][i][r])
    p = arb(before["p"][i][r]) if "p" in before else arb(0)
    alpha = arb(float(np.broadcast_to(step.alpha, (D,))[r]))
    z = alpha * w - sum((g[j][r] for j in range(N)), arb(0))
    q = arb(0)
    if step.middle == "threshold":
        tau = arb(before["tau"][i][r])
        q = (z - tau).max(arb(0)) - (-z - tau).max(arb(0))
    elif step.middle == "clock":
        q = (z - p) / (1 + (-arb(before["clock"][i][0])).exp())
    for name, row in zip("wp", step.method.tolist(), strict=False):
        new = row[0] * z + row[1] * q + row[2] * p + row[3] * w
        yield after[name][i][r], new
