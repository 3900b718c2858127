"""AE-13: a Hopfield layer that computes f(l(z)) of every token z, for an affine l and any continuous f.

Statement, source and deviations: `weightwright theorems AE-13`. Faithful: with S the slope of f the error is S dL plus
the spread of f times e^(-beta dL^2), and tol asks for dL = tol/S and beta = ln(spread/tol)/dL^2 up to constants.
Spectral: soft anchors with fitted values, one or more heads for each output, as `approximate` builds them. The stored
patterns are registers in both: the network loads into a plain Transformer.
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
from weightwright.claims.target import Composite
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet, values
from weightwright.errors import BudgetError, ToleranceError
from weightwright.expressions import Expression, to_text
from weightwright.heads.registers import HIDDEN
from weightwright.network import Sees
from weightwright.numbers import Floats, rounded
from weightwright.papers.kit.arguments import known_method, one_given, positive, token_box, whole
from weightwright.papers.kit.constructed import Method, described
from weightwright.papers.kit.models import Models
from weightwright.papers.kit.named_stream import KEY, QUERY, NamedStream, features
from weightwright.papers.linear.models_on_registers import models_network, register_network, units_of
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
    task = _read_task(f, a, b, domain, tokens, tol, dtype)
    positive("tol", tol)
    whole("P", P, 2)
    if not task.ends[0] < task.ends[1]:
        raise ValueError(f"a must not be 0: then a . z + b is {b!r} on the whole domain")
    if method == "spectral":
        if P is not None:
            raise ValueError(f"P = {P!r} is for method='faithful'; the fit chooses the keys itself, give tol")
        return _spectral(task)
    known_method(method)
    one_given("tol or P", tol, P)
    return _faithful(task, P)


@dataclass(frozen=True, eq=False)
class _HopfieldTask(Models):
    """The same a and b for every token, and the outputs as formulas of a . z + b."""

    formulas: tuple[Expression, ...]
    tol: float | None

    def described(
        self, net: AttentionNetwork, method: Method, chosen: dict[str, float], printed: dict[str, float], at: Floats
    ) -> AttentionNetwork:
        def reference(z: Floats) -> Floats:
            s = self.arguments(z)
            return np.stack([np.broadcast_to(values(g, s), s.shape) for g in self.formulas], axis=-1)

        probes = self.probes(np.concatenate([at, (at[:-1] + at[1:]) / 2]))
        return described(net, "AE-13", method, chosen, printed, reference, probes)


def _read_task(
    f: Function | Sequence[Function],
    a: npt.ArrayLike,
    b: float,
    domain: Box | tuple[float, float],
    tokens: int,
    tol: float | None,
    dtype: str,
) -> _HopfieldTask:
    whole("tokens", tokens, 1)
    weights = np.array(a, dtype=np.float64)
    if weights.ndim != 1 or not weights.size or not np.isfinite(weights).all():
        raise ValueError(f"a must be a list of finite numbers, one for each feature, not {a!r}")
    if not isinstance(b, int | float) or not math.isfinite(b):
        raise ValueError(f"b must be a finite number, not {b!r}")
    functions = [f] if isinstance(f, str) or callable(f) else list(f)
    if not functions:
        raise ValueError("f must have at least one output, and the list of functions is empty")
    formulas = tuple(as_function(g, ("x",), may_be_opaque=False) for g in functions)
    w, t = np.tile(weights, (tokens, 1)), np.full(tokens, float(b))
    return _HopfieldTask(w, t, token_box(domain, *w.shape), dtype, formulas, tol)  # type: ignore[arg-type]


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
    """The theorem's own: one head, a stored pattern for each anchor, o values with it."""
    parts, anchors, chosen, printed = nearest_anchors(task.formulas, *task.ends, task.tol, P, share, task.dtype)
    table, o, one = parts[0].tables[0], len(parts), np.eye(len(parts))
    stream = NamedStream({"s": None, "one": None, "key": None, "offset": None, "value": o, "result": features("f", o)})
    numbers = np.stack([part.tables[0].values for part in parts], axis=1)
    held = {"key": table.keys[:, None], "offset": table.offsets[:, None], "value": numbers}
    head = stream.head(
        "retrieve the values of the anchor nearest to s",
        table.beta,
        Sees((0, table.size), "none"),
        QUERY,
        KEY | {"one": [0.0, HIDDEN / table.beta]},
        {"value": one},
        {"result": one},
    )
    network = models_network(stream, parts, task, "z", True, [head], stream.tokens(table.size, held))
    claims = tuple(part.at(0, [0], units_of(row, o, len(task.w)), row) for row, part in enumerate(parts))
    net = certify(network, Composite(task.target([part.profile for part in parts]), claims), task.box, task.tol)
    return task.described(net, "faithful", chosen, printed, anchors)


def _spectral(task: _HopfieldTask) -> AttentionNetwork:
    """Heads of their own for every output."""
    if task.tol is None:
        raise ValueError("tol must be given for method='spectral'")
    share = 0.9 if task.dtype == "float64" else 0.7  # the rest is for rounding around the heads
    parts = [propose_table(to_text(g), *task.ends, share * task.tol, task.dtype) for g in task.formulas]
    net = register_network(parts, task, task.tol, "z", features("f", len(parts)), alike=True)
    heads = sum(len(part.tables) for part in parts)
    chosen = {"keys": float(sum(part.keys for part in parts)), "heads": float(heads)}
    return task.described(net, "spectral", chosen, {}, np.linspace(*task.ends, 33))


def nearest_anchors(
    formulas: Sequence[Expression],
    lo: float,
    hi: float,
    tol: float | None,
    P: int | None,
    share: float,
    dtype: str,
) -> tuple[list[ProposedTable], Floats, dict[str, float], dict[str, float]]:
    """A table for each formula on the same P + 1 anchors from lo to hi, the anchors, and the parameters: as built for
    this share of tol, or for P, and as the printed proof has them."""
    P, beta, printed = _parameters(formulas, lo, hi, tol, P, share)
    anchors = rounded(np.asarray(lo + np.arange(P + 1) * ((hi - lo) / P), dtype=np.float64), dtype)
    parts = [propose_nearest_table(to_text(g), anchors, values(g, anchors), 2 * beta, lo, hi, dtype) for g in formulas]
    return parts, anchors, {"P": float(P), "beta": beta}, printed


def _parameters(
    formulas: Sequence[Expression], lo: float, hi: float, tol: float | None, P: int | None, share: float
) -> tuple[int, float, dict[str, float]]:
    """P and beta as built, and as the printed proof has them."""
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
