"""AE-13: a Hopfield layer that computes f(l(z)) of every token z, for an affine l and any continuous f.

Statement. For l(z) = a . z + b on a box and f: R -> R^o continuous, the layer V softmax(beta K q(z)) with stored
patterns K_r = (2 L_r a, 2 L_r b - L_r^2), values f(L_r) and queries (z, 1) is within any tol of f(l(z)).

Source: in-context algorithm emulation paper, Theorem E.1. L_0, ..., L_P stand evenly on the range of l.
Deviations, faithful:
- distances are compared with distances (errata: (l - L_r)^2 is compared with dL, which holds for dL <= 2 only). Anchors
  farther than dL from l weigh e^(-beta dL^2) at most beside the nearest, so with S the slope of f the error is S dL
  plus the spread of f times that, and tol asks for dL = tol/S and beta = ln(spread/tol)/dL^2 up to constants, where the
  printed proof needs dL = (tol/2S)^2;
- l is computed by the linear map before the layer, not by the keys: the stored patterns are (2 L_r, -L_r^2) and the
  query is (l(z), 1). The scores are the same numbers.
Spectral: soft anchors with fitted values, one or more heads for each output, as `approximate` builds them.
The stored patterns are registers in both: the network loads into a plain Transformer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weightwright.approximation.faithful_tables import propose_nearest_table
from weightwright.approximation.table import ProposedTable, propose_table
from weightwright.approximation.task import as_function
from weightwright.box import Box
from weightwright.certify import certify
from weightwright.claims.target import Composite, TableClaim
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet, values
from weightwright.errors import BudgetError, ToleranceError
from weightwright.expressions import Expression, to_text
from weightwright.heads.registers import HIDDEN, on_registers
from weightwright.network import Attention, Head, Linear, Network, Sees, Term, selection
from weightwright.network.layers import Names
from weightwright.numbers import Floats, rounded
from weightwright.papers.kit.arguments import aimed, arguments_of, positive, reach, target, token_box, whole
from weightwright.papers.kit.constructed import About, Method
from weightwright.runtime import AttentionNetwork

Function = str | Callable[[Any], Any]

MAX_ANCHORS = 65_536
#: Shares of the tolerance for the spacing of the anchors, one after the other; the rest is for leakage and rounding.
SPACING = (1 - 2.0**-7, 0.85, 0.6)
#: ln of how far below the tolerance the other anchors are to weigh.
_QUIET = 9 * math.log(2)


def hopfield_function(
    f: Function | Sequence[Function],
    a: npt.ArrayLike,
    b: float,
    domain: Box | tuple[float, float],
    *,
    tol: float | None = None,
    P: int | None = None,
    tokens: int = 1,
    method: Method = "faithful",
    dtype: str = "float64",
) -> AttentionNetwork:
    """Z (tokens, d) -> (tokens, o): f(a . z + b) of every token.

    f: a formula in x or a torch function of one tensor; a sequence of them for o > 1 outputs.
    a, b: f is taken of a . z + b; a has a number for each feature.
    tol, P: give tol; or P, for P + 1 anchors, if method is "faithful".
    tokens: how many there are.
    Hypotheses: f has a bounded slope on the range of a . z + b, which is the domain's image and a little more.
    Error: `net.certificate.bound` everywhere on the domain.
    Cost: 1 layer; faithful 1 head and P + 1 registers, spectral a few heads and registers for each output.

    >>> net = hopfield_function("sin(x)", [1.0, -0.5], 0.25, (-1, 1), tol=1e-9, method="spectral")
    >>> net.certificate.status, net.certificate.bound <= 1e-9, net.network.native
    ('PROVEN', True, True)
    """
    w, t, box, formulas = _arguments(f, a, b, domain, tokens)
    positive("tol", tol)
    whole("P", P, 2)
    if not reach(w, t, box, "float64")[0] < reach(w, t, box, "float64")[1]:
        raise ValueError(f"a must not be 0: then a . z + b is {b!r} on the whole domain")
    task = _HopfieldTask(tuple(formulas), w, t, box, tol, dtype)
    if method == "spectral":
        if P is not None:
            raise ValueError(f"P = {P!r} is for method='faithful'; the fit chooses the keys itself, give tol")
        return _spectral(task)
    if method != "faithful":
        raise ValueError(f"method must be 'faithful' or 'spectral', not {method!r}")
    if (tol is None) == (P is None):
        raise ValueError("give either tol or P, not both and not neither")
    return _faithful(task, P)


@dataclass(frozen=True)
class _HopfieldTask:
    formulas: tuple[Expression, ...]
    w: Floats  # (tokens, d): a for every token
    t: Floats
    box: Box
    tol: float | None
    dtype: str

    @property
    def range(self) -> tuple[float, float]:
        """Of a . z + b, as computed."""
        return reach(self.w, self.t, self.box, self.dtype)

    def certified(
        self, network: Network, parts: Sequence[ProposedTable], claims: Sequence[TableClaim]
    ) -> AttentionNetwork:
        whole_target = target([part.profile for part in parts], self.w, self.t)
        return certify(network, Composite(whole_target, tuple(claims)), self.box, self.tol)

    def units(self, row: int) -> list[int]:
        """Of output `row`, for every token."""
        return [len(self.formulas) * token + row for token in range(len(self.w))]


def _faithful(task: _HopfieldTask, P: int | None) -> AttentionNetwork:
    """Finer anchors are tried where rounding takes more of the tolerance than was left for it."""
    refusals = []
    for share in SPACING if P is None else SPACING[:1]:
        try:
            return _anchored(task, P, share)
        except ToleranceError as error:
            refusals.append(error)
    raise min(refusals, key=lambda error: math.inf if error.best is None else error.best)


def _anchored(task: _HopfieldTask, P: int | None, share: float) -> AttentionNetwork:
    lo, hi = task.range
    P, beta, printed = parameters(task.formulas, lo, hi, task.tol, P, share)
    anchors = rounded(np.asarray(lo + np.arange(P + 1) * ((hi - lo) / P), dtype=np.float64), task.dtype)
    parts = [
        propose_nearest_table(to_text(g), anchors, values(g, anchors), 2 * beta, lo, hi, task.dtype)
        for g in task.formulas
    ]
    claims = [part.at(0, [0], task.units(row), row) for row, part in enumerate(parts)]
    net = task.certified(_one_head(parts, task), parts, claims)
    net.about = _about("faithful", net, task, {"P": float(P), "beta": beta}, printed, anchors)
    return net


def _spectral(task: _HopfieldTask) -> AttentionNetwork:
    if task.tol is None:
        raise ValueError("tol must be given for method='spectral'")
    share = 0.9 if task.dtype == "float64" else 0.7  # the rest is for rounding around the heads
    lo, hi = task.range
    parts = [propose_table(to_text(g), lo, hi, share * task.tol, task.dtype) for g in task.formulas]
    network, heads = _side_by_side(parts, task)
    claims = [part.at(0, own, task.units(row)) for row, (part, own) in enumerate(zip(parts, heads, strict=True))]
    net = task.certified(network, parts, claims)
    chosen = {"keys": float(sum(part.keys for part in parts)), "heads": float(sum(map(len, heads)))}
    net.about = _about("spectral", net, task, chosen, {}, np.linspace(lo, hi, 33))
    return net


def _arguments(
    f: Function | Sequence[Function], a: npt.ArrayLike, b: float, domain: Box | tuple[float, float], tokens: int
) -> tuple[Floats, Floats, Box, list[Expression]]:
    """One row of weights and one shift for each token, the domain, and the outputs as formulas in x."""
    whole("tokens", tokens, 1)
    weights = np.array(a, dtype=np.float64)
    if weights.ndim != 1 or not weights.size or not np.isfinite(weights).all():
        raise ValueError(f"a must be a list of finite numbers, one for each feature, not {a!r}")
    if not isinstance(b, int | float) or not math.isfinite(b):
        raise ValueError(f"b must be a finite number, not {b!r}")
    functions = [f] if isinstance(f, str) or callable(f) else list(f)
    if not functions:
        raise ValueError("f must have at least one output, and the list of functions is empty")
    formulas = [as_function(g, ("x",), may_be_opaque=False) for g in functions]
    w = np.tile(weights, (tokens, 1))
    return w, np.full(tokens, float(b)), token_box(domain, *w.shape), formulas  # type: ignore[return-value]


def parameters(
    formulas: Sequence[Expression], lo: float, hi: float, tol: float | None, P: int | None, share: float = SPACING[0]
) -> tuple[int, float, dict[str, float]]:
    """P and beta as built for this share of tol, or for P; and as the printed proof has them."""
    edges, width = np.linspace(lo, hi, 1025), hi - lo
    slope = max(float(np.max(jet(g, Interval(edges[:-1], edges[1:]), 1)[1].magnitude())) for g in formulas)
    if not math.isfinite(slope):
        raise ToleranceError(f"method='faithful' needs a bounded slope of f on [{lo:g}, {hi:g}]; none could be shown")
    spread = max(float(np.ptp(values(g, edges))) for g in formulas)
    largest = max(float(np.abs(values(g, edges)).max()) for g in formulas)
    printed: dict[str, float] = {}
    if P is None:
        assert tol is not None
        printed = _printed(width, slope, largest, tol)
        needed = slope * width / (tol * share)
        if needed > MAX_ANCHORS:
            raise BudgetError(
                f"method='faithful' with tol={tol:g} needs {needed:.3g} anchors, more than {MAX_ANCHORS:,};"
                " method='spectral' needs far fewer"
            )
        P = max(2, math.ceil(needed))
    dL = width / P
    quiet = tol if tol is not None else max(slope * dL, 2.0**-40 * max(spread, 2.0**-40))
    return P, (max(math.log(max(spread, quiet) / quiet), 0.0) + _QUIET) / dL**2, printed


def _printed(width: float, slope: float, largest: float, tol: float) -> dict[str, float]:
    """dL <= delta, where (x - y)^2 <= delta makes f differ by tol/2; P e^(-beta dL/2) <= tol / (4 B)."""
    dL = min((tol / (2 * slope)) ** 2, 2.0) if slope else 2.0
    P = max(math.ceil(width / dL), 1)
    return {"P": float(P), "beta": 2 / (width / P) * math.log(max(4 * largest * P / tol, math.e))}


def _embedded(names: Names, parts: Sequence[ProposedTable], task: _HopfieldTask) -> Linear:
    """s = a . z + b, a 1 on data tokens, and every result, which starts as mean + slope s."""
    a, dtype = task.w[0], task.dtype
    A, C = np.zeros((len(a), len(names))), np.zeros((1, len(names)))
    A[:, 0], C[0, 0], C[0, 1] = rounded(a, dtype), rounded(task.t[:1], dtype)[0], 1.0
    for column, part in enumerate(parts, len(names) - len(parts)):
        A[:, column] = rounded(part.slope * A[:, 0], dtype)
        C[0, column] = rounded(np.array(part.mean + part.slope * C[0, 0]), dtype)
    return Linear(names, (Term(A),), C)


def _network(
    names: Names, parts: Sequence[ProposedTable], task: _HopfieldTask, registers: Floats, heads: Sequence[Head]
) -> Network:
    return Network(
        inputs=tuple(f"z[{c}]" for c in range(task.w.shape[1])),
        embed=_embedded(names, parts, task),
        registers=registers,
        layers=(Attention(names, tuple(heads)),),
        read=selection(names, names[-len(parts) :]),
        tokens=len(task.w),
        dtype=task.dtype,
    )


def _one_head(parts: Sequence[ProposedTable], task: _HopfieldTask) -> Network:
    """The theorem's own: one head, a stored pattern for each anchor, o values with it."""
    o, table = len(parts), parts[0].tables[0]
    names = ("s", "one", "key", "offset", *(f"value[{r}]" for r in range(o)), *(f"f[{r}]" for r in range(o)))
    D = len(names)
    registers = np.zeros((len(table.keys), D))
    registers[:, 2], registers[:, 3] = table.keys, table.offsets
    registers[:, 4 : 4 + o] = np.stack([part.tables[0].values for part in parts], axis=1)
    W_Q, W_K, W_V, W_O = np.zeros((D, 2)), np.zeros((D, 2)), np.zeros((D, o)), np.zeros((o, D))
    W_Q[0, 0], W_Q[1, 1], W_K[2, 0], W_K[3, 1], W_K[1, 1] = 1.0, 1.0, 1.0, 1.0, HIDDEN / table.beta
    W_V[4 : 4 + o], W_O[:, 4 + o :] = np.eye(o), np.eye(o)
    role = "retrieve the values of the anchor nearest to s"
    head = Head(role, W_Q, W_K, W_V, W_O, table.beta, Sees((0, len(registers)), "none"))
    return _network(names, parts, task, registers, [head])


def _side_by_side(parts: Sequence[ProposedTable], task: _HopfieldTask) -> tuple[Network, list[list[int]]]:
    """Heads of their own for every output; and which they are."""
    tables = [table for part in parts for table in part.tables]
    words = (f"{word}[{i}]" for i in range(len(tables)) for word in ("key", "offset", "value"))
    names = ("s", "one", *words, *(f"f[{r}]" for r in range(len(parts))))
    registers, rows = on_registers(tables, range(2, 2 + 3 * len(tables), 3), len(names))
    heads: list[Head] = []
    numbers = []
    for index, part in enumerate(parts):
        numbers.append(list(range(len(heads), len(heads) + len(part.tables))))
        own, first = [rows[i] for i in numbers[-1]], 2 + 3 * len(heads)
        heads += part.heads(names, 0, 1, first, own, len(names) - len(parts) + index)
    return _network(names, parts, task, registers, heads), numbers


def _about(
    method: Method,
    net: AttentionNetwork,
    task: _HopfieldTask,
    chosen: dict[str, float],
    printed: dict[str, float],
    anchors: Floats,
) -> About:
    assert net.certificate is not None

    def reference(z: Floats) -> Floats:
        s = arguments_of(z, task.w, task.t)
        return np.stack([np.broadcast_to(values(g, s), s.shape) for g in task.formulas], axis=-1)

    places = np.concatenate([anchors, (anchors[:-1] + anchors[1:]) / 2])
    probes = aimed(task.w, task.t, net.certificate.domain, places)
    return About("AE-13", method, chosen, printed, {"everywhere": net.certificate.bound}, reference, probes)
