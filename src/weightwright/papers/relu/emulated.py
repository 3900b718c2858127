"""UA-8: sequence to sequence in the infinity norm, by two layers that emulate a ReLU network.

The first computes w_{k,j} . x_j for every hidden unit k and token j (truncated at values that are never reached), a
linear map adds them up over the tokens, the second computes the ReLU of the sums, and the last linear map their
combination. Statement, source and deviations: `weightwright theorems UA-8`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import nn

from weightwright.approximation.faithful_tables import propose_faithful
from weightwright.approximation.table import ProposedTable, propose_table
from weightwright.box import Box
from weightwright.certify import certify
from weightwright.claims.target import IDENTITY, Composite, TableClaim
from weightwright.errors import BudgetError, FormulaError, ToleranceError, UnsupportedOperation
from weightwright.heads.registers import on_registers
from weightwright.network import Attention, Gather, Head, Linear, Network, Term
from weightwright.network.token_maps import place, total
from weightwright.numbers import UNIT
from weightwright.papers.claims.ridge_functions import FormulasClaim, RidgeFunctions
from weightwright.papers.kit.arguments import known_method, positive, token_box, whole
from weightwright.papers.kit.constructed import Method, described, proven_bound
from weightwright.papers.kit.named_stream import NamedStream, features
from weightwright.papers.linear.model_anchors import shared_runs
from weightwright.papers.linear.models_on_registers import table_coordinates
from weightwright.papers.relu.relu_target import evaluator, from_module, piecewise_linear, plane_waves, ridge_probes
from weightwright.runtime import AttentionNetwork

#: Most anchors of one head, unless the caller allows more.
MOST_ANCHORS = 100_000


def relu_network(
    target: Any,
    n: int,
    domain: Box | tuple[float, float],
    *,
    tol: float,
    method: Method = "spectral",
    keys: int | None = None,
    max_anchors: int = MOST_ANCHORS,
) -> AttentionNetwork:
    """X (n, d) -> (n, outputs) within tol everywhere on the domain.

    target: formulas of x0, x1, ... (the inputs token by token), one for each output token by token; or a torch
    Sequential(Linear, ReLU, Linear) of n d inputs. Formulas are taken exactly where they have one level of kinks, else
    by plane waves, which use up to 80 per cent of tol.
    keys: faithful: heads of this many keys share the anchors of a unit, two of them sentinels, as in UA-3 (UA-15).
    None: one head holds them all, as in UA-2.

    Error: sum over k of |W_2[r, k]| (n e_1 + e_2), what the ReLU network itself is off by, and rounding.
    Cost: 2 layers, 2 m heads (spectral: as many heads per unit as the fits have), m the number of hidden units.

    >>> net = relu_network(["min(x0, x1)", "max(x0, x1)"], 2, (-1, 1), tol=1e-6)  # sorts two tokens
    >>> net.certificate.status, net.certificate.bound < 1e-6
    ('PROVEN', True)
    """
    whole("n", n, 1)
    positive("tol", tol)
    known_method(method)
    whole("keys", keys, 3, ": a head has keys - 2 anchors and two sentinels")
    if keys is not None and method != "faithful":
        raise ValueError(f"keys = {keys} is for method='faithful'; the fit chooses its keys itself")
    ridge, claim, box = find_relu_network(target, n, domain, tol)
    N = box.lo.size
    left = tol - (claim.error if claim is not None else 0.0)
    weight = max(float(np.abs(ridge.outputs[:, N:]).sum(axis=1).max(initial=0.0)) + 1.0, 1e-300)
    each = 0.9 * left / (2 * weight)  # for a relu, and for the sum of n identities
    rows = np.abs(np.concatenate([ridge.arguments[:, :N], ridge.outputs[:, :N]]))
    largest = (rows * np.maximum(np.abs(box.lo), np.abs(box.hi)).ravel()).sum(axis=1)
    reach = float((largest + np.append(np.abs(ridge.shifts), np.zeros(len(ridge.outputs)))).max())
    reach = reach * (1 + 256 * (N + 8) * UNIT["float64"]) + 2 * each
    make = _faithful(max_anchors, keys) if method == "faithful" else propose_table
    identity, rectifier = make("x", -reach, reach, each / n), make("relu(x)", -reach, reach, each)
    network, parts = _network(ridge, box.lo.shape, identity, rectifier)
    net = certify(network, Composite(ridge, parts, formulas=claim), box, tol)
    chosen = {
        "units": float(len(ridge.profiles)),
        "p": float(identity.keys + rectifier.keys),
        "H": float(len(list(network.heads))),
        "heads of x": float(len(identity.tables)),
        "heads of relu": float(len(rectifier.tables)),
    }
    printed = {"p": float(n) ** 2.5, "H": 2.0 * len(ridge.profiles)}
    bounds = {"everywhere": proven_bound(net), "ReLU network": claim.error if claim is not None else 0.0}
    id = "UA-8" if keys is None else "UA-15"
    return described(net, id, method, chosen, printed, evaluator(ridge, claim), ridge_probes(ridge, box), bounds)


def find_relu_network(
    target: Any, n: int, domain: Box | tuple[float, float], tol: float
) -> tuple[RidgeFunctions, FormulasClaim | None, Box]:
    """The ReLU network, what it has to do with the formulas, and the domain token by token: exact for one level of
    kinks, else plane waves within 80 per cent of tol."""
    if isinstance(target, nn.Module):
        ridge = from_module(target)
        inputs = ridge.arguments.shape[1] - len(ridge.profiles)
        _divides(n, inputs, "inputs")
        _divides(n, len(ridge.constants), "outputs")
        return ridge, None, token_box(domain, n, inputs // n)
    if isinstance(target, str) or not isinstance(target, Sequence) or not target:
        raise ValueError(f"target must be a list of formulas, one for each output, or a torch module, not {target!r}")
    _divides(n, len(target), "formulas")
    box = _box_for(target, n, domain)
    lo, hi = box.lo.ravel(), box.hi.ravel()
    try:
        ridge, claim = piecewise_linear(list(target), len(lo), Box(lo, hi))
    except FormulaError:
        try:
            ridge, claim = plane_waves(list(target), lo, hi, 0.8 * tol)
        except ToleranceError as error:
            kinked = [f for f in target if _kinked(f, len(lo))]
            if not kinked:
                raise
            raise ToleranceError(
                f"{error}; {kinked[0]!r} has a kink, which plane waves do not follow: build the outputs with kinks and"
                " the smooth ones as two networks",
                error.best,
            ) from error
    return ridge, claim, box


def _kinked(formula: Any, N: int) -> bool:
    """Whether a formula by itself is piecewise linear, with kinks."""
    try:
        return bool(piecewise_linear([formula], N)[0].profiles)
    except (FormulaError, UnsupportedOperation):
        return False


def _divides(n: int, count: int, what: str) -> None:
    if not count or count % n:
        raise ValueError(f"target has {count} {what}, which n = {n} tokens do not divide")


def _box_for(formulas: Sequence[Any], n: int, domain: Box | tuple[float, float]) -> Box:
    """As many features as the domain says, or as the formulas' highest variable needs."""
    box = Box.of(domain)
    if box.lo.shape != (1,):
        return token_box(box, n, box.lo.shape[-1])
    used = [int(name) for f in formulas for name in re.findall(r"\bx(\d+)\b", f if isinstance(f, str) else "")]
    counts = [f.__code__.co_argcount for f in formulas if hasattr(f, "__code__")]
    N = max([*(index + 1 for index in used), *counts, 1])
    return token_box(box, n, -(-N // n))


def _faithful(most: int, keys: int | None = None) -> Callable[[str, float, float, float], ProposedTable]:
    """Anchors so dense that the nearest is within tol, and so sharp that it is picked; on one head, or shared."""

    def make(profile: str, lo: float, hi: float, tol: float) -> ProposedTable:
        p = max(3, math.ceil((hi - lo) / (0.99 * tol)))
        if p > most:
            raise BudgetError(
                f"method='faithful' needs {p:,} anchors in each head for {profile} within {tol:.3g}, more than"
                f" max_anchors={most:,}; method='spectral' needs far fewer"
            )
        spacing = (hi - lo) / p
        each = p + 1 if keys is None else keys - 2
        H = -(-(p + 1) // each)
        beside = int(keys is not None)  # an anchor before the first and one after the last
        anchors = lo + np.arange(-beside, each * H + beside, dtype=np.float64) * spacing
        beta = 2 / spacing**2 * math.log(2.0**13 * H * (hi - lo) / tol)
        values = anchors if profile == "x" else np.maximum(anchors, 0.0)
        if not beside:
            return propose_faithful(profile, anchors, [(0, values)], beta, lo, hi)
        lift = 2 * max(abs(lo), abs(hi)) ** 2  # beta/2 (s² - (s - L)²) is at least beta times -1.5 of it
        return propose_faithful(profile, anchors, shared_runs(values, each, H), beta, lo, hi, lift=lift)

    return make


def _network(
    ridge: RidgeFunctions, shape: tuple[int, ...], identity: ProposedTable, rectifier: ProposedTable
) -> tuple[Network, tuple[TableClaim, ...]]:
    """The stream: in[k] holds w_{k,j} . x_j, and after the sum over tokens the preactivation; part[k] what the first
    layer makes of the one, out[k] what the second makes of the other. Rows k < m are hidden units; the others carry
    what outputs take of the inputs themselves, and pass both layers as they are."""
    n, d = shape
    m, N = len(ridge.profiles), n * d
    linear = np.flatnonzero(ridge.outputs[:, :N].any(axis=1))
    rows = np.concatenate([ridge.arguments[:, :N], ridge.outputs[linear, :N]])  # (m + M, N)
    shifts, K, outputs = np.append(ridge.shifts, np.zeros(len(linear))), len(rows), len(ridge.constants) // n
    tables = [table for part in (identity, rectifier) for table in part.tables]
    words = table_coordinates(len(tables))
    stream = NamedStream({"one": None, "table": words, "in": K, "part": K, "out": K})
    source, middle, result = (stream.at[group].start for group in ("in", "part", "out"))
    registers, held = on_registers(tables, range(1, source, 3), stream.width)
    first: list[Head] = []
    second: list[Head] = []
    claims = []
    for k in range(K):
        own = identity.heads(stream.names, source + k, 0, 1, held[: len(identity.tables)], middle + k)
        claims.append(identity.at(0, range(len(first), len(first) + len(own)), [IDENTITY] * n))
        first += own
    parts = [rectifier] * m + [identity] * len(linear)
    for k, part in enumerate(parts):
        start = len(identity.tables) if k < m else 0  # the first of the part's tables
        rows_held = held[start : start + len(part.tables)]
        own = part.heads(stream.names, source + k, 0, 1 + 3 * start, rows_held, result + k)
        claims.append(part.at(2, range(len(second), len(second) + len(own)), [k if k < m else IDENTITY]))
        second += own
    C, one = stream.tokens(1, {"one": 1.0}), np.eye(K)
    B = np.zeros((stream.width, stream.width))  # the sum over tokens: part[k] and what the heads leave out become in[k]
    B[stream.at["part"], stream.at["in"]], B[stream.at["in"], stream.at["in"]] = one, identity.slope * one
    D = stream.tokens(1, {"one": 1.0, "in": shifts + n * identity.mean})
    weights = np.concatenate([ridge.outputs[:, N:], np.eye(len(ridge.outputs))[:, linear]], axis=1)  # (outputs, K)
    slopes, means = (np.array([getattr(part, name) for part in parts]) for name in ("slope", "mean"))
    embed, read = [], []
    for i in range(n):  # every position has weights of its own
        of_token = stream.tokens(d, {"in": rows[:, i * d : (i + 1) * d].T})
        embed.append(Term(of_token, Gather(tuple(i if j == i else -1 for j in range(n)))))
        taken = weights[i * outputs : (i + 1) * outputs].T
        read.append(Term(stream.reads({"out": taken, "in": slopes[:, None] * taken}), place(i, n)))
    constants = (ridge.constants + weights @ means).reshape(n, outputs)
    network = Network(
        inputs=features("x", d),
        embed=Linear(stream.names, tuple(embed), C),
        registers=registers,
        layers=(
            Attention(stream.names, tuple(first)),
            Linear(stream.names, (Term(B, total(n, 1)),), D),
            Attention(stream.names, tuple(second)),
        ),
        read=Linear(features("out", outputs), tuple(read), constants),
        tokens=n,
    )
    return network, tuple(claims)
