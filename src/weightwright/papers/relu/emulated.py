"""UA-8: sequence to sequence in the infinity norm, by two layers that emulate a ReLU network.

Statement. For any continuous f: R^{n x d} -> R^{n x d_out} on a box and any error there are two multi-head attention
layers with linear maps that are within the error of f everywhere. The first computes w_{k,j} . x_j for every hidden
unit k and token j (truncated at values that are never reached), the linear map adds them up over the tokens, the second
computes the ReLU of the sums, and the last linear map their combination.

Source: universal approximation paper, Theorem F.2, G.22, G.23. Deviations:
- Pinkus only says that a ReLU network exists (errata): here it is exact for piecewise linear targets with one level of
  kinks, built of plane waves with a proven error for smooth ones, or the caller's own;
- the error is taken the other way round (errata): the second layer is within e_2 of relu for all inputs, and relu is
  1-Lipschitz, so errors of the first layer pass with factor 1. No norm of W_K^T W_Q enters, and p need not grow with n;
- the anchors stand on registers, so that n tokens query p keys and not p tokens p keys.
Error: sum over k of |W_2[r, k]| (n e_1 + e_2), what the ReLU network itself is off by, and rounding.
Cost: 2 layers, 2 m heads (spectral: as many heads per unit as the fits have), m the number of hidden units.
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
from weightwright.enclosures.intervals.jets import values_at
from weightwright.errors import BudgetError, FormulaError, ToleranceError, UnsupportedOperation
from weightwright.expressions import parse
from weightwright.heads.registers import on_registers
from weightwright.network import Attention, Gather, Linear, Network, Term
from weightwright.network.token_maps import place, total
from weightwright.numbers import UNIT, Floats
from weightwright.papers.claims.ridge_functions import FormulasClaim, RidgeFunctions
from weightwright.papers.kit.arguments import positive, token_box, whole
from weightwright.papers.kit.constructed import About, Method
from weightwright.papers.relu.relu_target import evaluate, from_module, piecewise_linear, plane_waves, ridge_probes
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

    >>> net = relu_network(["min(x0, x1)", "max(x0, x1)"], 2, (-1, 1), tol=1e-6)  # sorts two tokens
    >>> net.certificate.status, net.certificate.bound < 1e-6
    ('PROVEN', True)
    """
    whole("n", n, 1)
    positive("tol", tol)
    if method not in ("faithful", "spectral"):
        raise ValueError(f"method must be 'faithful' or 'spectral', not {method!r}")
    whole("keys", keys, 3, ": a head has keys - 2 anchors and two sentinels")
    if keys is not None and method != "faithful":
        raise ValueError(f"keys = {keys} is for method='faithful'; the fit chooses its keys itself")
    ridge, claim, box = find_relu_network(target, n, domain, tol)
    m, N = len(ridge.profiles), box.lo.size
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
    assert net.certificate is not None
    chosen = {"units": float(m), "p": float(identity.keys + rectifier.keys), "H": float(len(list(network.heads)))}
    chosen |= {"heads of x": float(len(identity.tables)), "heads of relu": float(len(rectifier.tables))}
    net.about = About(
        "UA-8" if keys is None else "UA-15",
        method,
        chosen,
        {"p": float(n) ** 2.5, "H": 2.0 * m},
        {"everywhere": net.certificate.bound, "ReLU network": claim.error if claim is not None else 0.0},
        lambda x: evaluate(ridge, x) if claim is None else evaluate_formulas(claim, x),
        ridge_probes(ridge, box),
    )
    return net


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
        return propose_faithful(profile, anchors, _shared(values, each, H), beta, lo, hi, lift=lift)

    return make


def _shared(values: Floats, each: int, H: int) -> list[tuple[int, Floats]]:
    """For each head its first anchor and the values of its own ones between two sentinels: 0, but for what stands below
    the first head's anchors and above the last one's (Theorem 3.9, with the sentinels of UA-3)."""
    runs = []
    for h in range(H):
        own = values[h * each : (h + 1) * each + 2].copy()
        own[0], own[-1] = (own[0] if h == 0 else 0.0), (own[-1] if h == H - 1 else 0.0)
        runs.append((h * each, own))
    return runs


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
    shifts, K = np.append(ridge.shifts, np.zeros(len(linear))), len(rows)
    parts = (identity, rectifier)
    counts = [len(part.tables) for part in parts]
    columns = [f"{word}[{i}]" for i in range(sum(counts)) for word in ("key", "offset", "value")]
    names = ("one", *columns, *(f"{word}[{k}]" for word in ("in", "part", "out") for k in range(K)))
    width, source = len(names), 1 + len(columns)
    middle, result = source + K, source + 2 * K
    C = np.zeros((1, width))
    C[0, 0] = 1.0
    terms = []
    for j in range(n):  # every position has weights of its own
        A = np.zeros((d, width))
        A[:, source:middle] = rows[:, j * d : (j + 1) * d].T
        terms.append(Term(A, Gather(tuple(j if i == j else -1 for i in range(n)))))
    tables = [table for part in parts for table in part.tables]
    registers, at_rows = on_registers(tables, range(1, 1 + len(columns), 3), width)
    identity_rows, rectifier_rows = at_rows[: counts[0]], at_rows[counts[0] :]
    start = 1 + 3 * counts[0]
    first = [identity.heads(names, source + k, 0, 1, identity_rows, middle + k) for k in range(K)]
    second = [rectifier.heads(names, source + k, 0, start, rectifier_rows, result + k) for k in range(m)]
    second += [identity.heads(names, source + k, 0, 1, identity_rows, result + k) for k in range(m, K)]
    claims = [identity.at(0, range(k * counts[0], (k + 1) * counts[0]), [IDENTITY] * n) for k in range(K)]
    at = 0
    for k, heads in enumerate(second):
        part = rectifier if k < m else identity
        claims.append(part.at(2, range(at, at + len(heads)), [k if k < m else IDENTITY]))
        at += len(heads)
    B = np.zeros((width, width))  # the sum over tokens: part[k] and what the heads leave out become in[k]
    B[middle:result, source:middle], B[source:middle, source:middle] = np.eye(K), identity.slope * np.eye(K)
    D = C.copy()
    D[0, source:middle] = shifts + n * identity.mean
    read = []
    outputs = len(ridge.constants) // n
    weights = np.concatenate([ridge.outputs[:, N:], np.eye(len(ridge.outputs))[:, linear]], axis=1)  # (outputs, K)
    slopes = np.array([rectifier.slope] * m + [identity.slope] * len(linear))
    means = np.array([rectifier.mean] * m + [identity.mean] * len(linear))
    for i in range(n):
        A, own = np.zeros((width, outputs)), weights[i * outputs : (i + 1) * outputs]
        A[result:], A[source:middle] = own.T, slopes[:, None] * own.T
        read.append(Term(A, place(i, n)))
    return (
        Network(
            inputs=tuple(f"x[{c}]" for c in range(d)),
            embed=Linear(names, tuple(terms), C),
            registers=registers,
            layers=(
                Attention(names, tuple(head for heads in first for head in heads)),
                Linear(names, (Term(B, total(n, 1)),), D),
                Attention(names, tuple(head for heads in second for head in heads)),
            ),
            read=Linear(
                tuple(f"out[{r}]" for r in range(outputs)),
                tuple(read),
                (ridge.constants + weights @ means).reshape(n, outputs),
            ),
            tokens=n,
        ),
        tuple(claims),
    )


def evaluate_formulas(claim: FormulasClaim, x: Floats) -> Floats:
    """The formulas in plain floats: (count, n, d) -> (count, n, outputs)."""
    flat = x.reshape(len(x), -1)
    names = tuple(f"x{i}" for i in range(flat.shape[1]))
    columns = [values_at(parse(text, names), names, flat) for text in claim.formulas]
    return np.stack(columns, axis=1).reshape(len(x), x.shape[1], -1)
