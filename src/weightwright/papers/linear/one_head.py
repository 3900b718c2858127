"""UA-2: one head, one layer, n truncated linear models at once.

Statement. For a < b, tokens x_i and models (w_i, t_i) one softmax head over p keys returns
Range[a,b](w_i . x_i + t_i) in row G(k_i) for every token i, k_i the anchor L_k = a + k (b-a)/p nearest to
w_i . x_i + t_i, with an error of (b-a)/p plus what the softmax leaks.

Source: universal approximation paper, Theorem 3.4, Corollary G.6, Remark G.5.
Deviations, faithful:
- scores are -(beta/2)(s - L_k)^2 up to a constant, beta once (errata: the printed W_Q and W_K both carry it);
- ln p where the paper has ln n: the softmax runs over p keys (errata);
- the error of the weights is taken in the 1-norm, so the leak is the tail mass times the spread b-a (errata);
- w_i and t_i are folded into the linear map A, which scales the features of every position: its coordinate s is
  w_i . x_i + t_i already, and the keys are (beta L_k, -beta L_k^2 / 2);
- there is no anchor at b, as in the paper: the error for s >= b is a whole spacing.
Where G is not constant, the row jumps half way between two anchors: around every such place a dead zone is left out
(the paper's case (i): "an arbitrarily small volume"), and beta grows with 1/dead_zone.
Spectral: anchors at moderate beta with fitted values, as `approximate` builds clip; the keys are registers.

A part on registers: every token i computes the part's function of w_i . x_i + t_i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from weightwright.approximation.faithful_tables import clip_text, on_interval, propose_faithful
from weightwright.approximation.table import ProposedTable, propose_table
from weightwright.approximation.task import outward
from weightwright.box import Box
from weightwright.certify import certify
from weightwright.claims.certificate import constant
from weightwright.claims.target import NO_ZONES, UNREAD, Composite
from weightwright.errors import BudgetError, ToleranceError
from weightwright.expressions import Apply, Expression, Variable, parse, to_text
from weightwright.heads.registers import on_registers
from weightwright.network import Attention, Head, Linear, Network, Sees, Term, selection, token_map
from weightwright.numbers import Bools, Floats, rounded
from weightwright.papers.kit.arguments import aimed, arguments_of, interval, models, positive, reach, target, whole
from weightwright.papers.kit.constructed import About, Method
from weightwright.runtime import AttentionNetwork


def register_network(
    part: ProposedTable, w: Floats, t: Floats, box: Box, tol: float | None, dtype: str = "float64"
) -> AttentionNetwork:
    """The stream: s = w_i . x_i + t_i, one (1 on data tokens), key, offset and value of every head on registers, and
    the result, which starts as mean + slope s. Native where all w_i are the same."""
    n, d = w.shape
    inputs = tuple(f"x[{c}]" for c in range(d))
    numbers = range(len(part.tables))
    names = ("s", "one", *(f"{word}[{i}]" for i in numbers for word in ("key", "offset", "value")), part.profile)
    shared = bool((w == w[0]).all())
    A, C = np.zeros((d, len(names))), np.zeros((n, len(names)))
    A[:, 0] = rounded(w[0], dtype) if shared else 1.0
    C[:, 0], C[:, 1] = rounded(t, dtype), 1.0
    A[:, -1], C[:, -1] = rounded(part.slope * A[:, 0], dtype), rounded(part.mean + part.slope * C[:, 0], dtype)
    registers, rows = on_registers(part.tables, range(2, len(names) - 1, 3), len(names))
    heads = part.heads(names, 0, 1, 2, rows, len(names) - 1)
    network = Network(
        inputs=inputs,
        embed=Linear(names, (Term(A, None, None if shared else rounded(w, dtype)),), C),
        registers=registers,
        layers=(Attention(names, tuple(heads)),),
        read=selection(names, (part.profile,)),
        tokens=n,
        dtype=dtype,
    )
    composite = Composite(target([part.profile], w, t), (part.at(0, range(len(heads)), range(n)),))
    return certify(network, composite, box, tol)


#: The share of the tolerance that goes to the spacing of the anchors; the rest is for leakage and rounding.
SPACING = 1 - 2.0**-8


def truncated_linear(
    w: npt.ArrayLike,
    t: npt.ArrayLike,
    a: float,
    b: float,
    domain: Box | tuple[float, float],
    *,
    tol: float | None = None,
    p: int | None = None,
    beta: float | None = None,
    G: Sequence[int] | Callable[[int], int] | None = None,
    dead_zone: float | None = None,
    method: Method = "faithful",
    dtype: str = "float64",
) -> AttentionNetwork:
    """X (n, d) -> (n, rows of G): Range[a,b](w_i . x_i + t_i) in the row of the nearest anchor.

    w (n, d), t (n,). Give tol, or p and perhaps beta.

    G: the output row of every anchor, as a sequence or a function; None: all in row 0.
    dead_zone: where G has several rows, nothing is claimed this near to where the row changes; None: an eighth of the
    spacing of the anchors.

    Hypotheses: a < b, p > n, finite w and t; G takes the rows 0, 1, ... and none is left out.
    Error: `net.certificate.bound` everywhere on the domain; `net.about.bounds` has "inside", where every
    w_i . x_i + t_i lies in [a, b], and "everywhere".
    Cost: 1 layer, 1 head (spectral: 2), p keys, p tokens inside (spectral: n tokens and p registers).

    >>> net = truncated_linear([[1.0, -1.0], [0.5, 2.0]], [0.0, 0.25], -1.0, 1.0, (-1, 1), p=16)
    >>> net.certificate.status, net.certificate.bound < 2 / 16 + 1e-2
    ('PROVEN', True)
    """
    w, t, box = models(w, t, domain)
    a, b = interval(a, b)
    n = len(w)
    lo, hi = reach(w, t, box, dtype)
    if method == "spectral":
        if G is not None:
            raise ValueError("G must be None for method='spectral': a jump between rows has no spectral form")
        if beta is not None:
            raise ValueError("beta is chosen by the fit for method='spectral'; give tol or p")
        return _spectral(w, t, a, b, box, tol, p, dtype)
    if method != "faithful":
        raise ValueError(f"method must be 'faithful' or 'spectral', not {method!r}")
    p, beta, printed = parameters(a, b, n, tol, p, beta)
    rows = _rows(G, p)
    zone = _dead_zone(dead_zone, rows, (b - a) / p)
    if zone:  # the neighbour's weight at the edge of a zone: e^(-beta dL zone)
        beta = max(beta, p / (b - a) * math.log(4 * p * max(abs(a), abs(b), b - a) / (b - a)) / zone)
    anchors = rounded(a + np.arange(p, dtype=np.float64) * ((b - a) / p), dtype)
    changes = np.flatnonzero(np.diff(rows))
    jumps = (anchors[changes] + anchors[changes + 1]) / 2
    zones = np.stack([jumps - zone, jumps + zone], axis=1) if len(jumps) else NO_ZONES
    parts = []
    for row in range(max(rows) + 1):
        values = np.where(np.array(rows) == row, anchors, 0.0)
        text = _row_text(a, b, rows, row, jumps.tolist())
        parts.append(propose_faithful(text, anchors, [(0, values)], beta, lo, hi, dtype, zones))
    units = len(parts) * np.arange(n)
    claims = tuple(
        part.at(0, [0], [*(units + row).tolist(), *[UNREAD] * (p - n)], row) for row, part in enumerate(parts)
    )
    composite = Composite(target([part.profile for part in parts], w, t), claims)
    net = certify(_literal(parts, w, t, p, dtype), composite, box, tol)
    chosen = {"p": float(p), "beta": beta, "dead_zone": zone}
    net.about = _about("faithful", net, chosen, printed, w, t, a, b, places(anchors, a, b, lo, hi), rows, jumps, zones)
    return net


def parameters(
    a: float, b: float, n: int, tol: float | None, p: int | None, beta: float | None
) -> tuple[int, float, dict[str, float]]:
    """p and beta as built, and as the paper has them (Corollary G.6 for a tolerance, Remark G.5 for p)."""
    positive("tol", tol)
    positive("beta", beta)
    whole("p", p, n + 1, f": more than the {n} tokens")
    if (tol is None) == (p is None):
        raise ValueError("give either tol or p (and perhaps beta), not both and not neither")
    largest = max(abs(a), abs(b))
    if tol is not None:
        if beta is not None:
            raise ValueError("beta follows from tol; give p and beta, or tol alone")
        paper = max(n + 1, math.ceil(2 * (b - a) / tol))
        printed = {"p": float(paper), "beta": inverse_temperature(b - a, paper, 2 * largest / tol)}
        p = max(n + 1, 3, math.ceil((b - a) / (tol * SPACING)))
        # the tail e^(-beta dL^2 / 2) times the spread is to be a 2^12th of the tolerance
        return p, inverse_temperature(b - a, p, 2.0**12 * (b - a) / tol / max(p - 2, 1)), printed
    assert p is not None
    printed = {"p": float(p), "beta": inverse_temperature(b - a, p, float(p))}
    return p, printed["beta"] if beta is None else float(beta), printed


def inverse_temperature(width: float, p: int, ratio: float) -> float:
    """2 p^2 / (b-a)^2 (ln(p-2) + ln ratio): the gap between the nearest anchors and the third is dL^2 / 2."""
    return 2 * p**2 / width**2 * max(math.log(max(p - 2, 1)) + math.log(ratio), 1.0)


def places(anchors: Floats, a: float, b: float, lo: float, hi: float) -> Floats:
    """Where a truncated linear model is worst: anchors, half way between them, the ends, and beyond."""
    spacing = (b - a) / len(anchors)
    ends = np.array([a, b, b - spacing / 2, b + spacing / 2, a - 10 * (b - a), a - spacing / 2, lo, hi])
    return np.concatenate([anchors, anchors + spacing / 2, ends])


def _rows(G: Sequence[int] | Callable[[int], int] | None, p: int) -> list[int]:
    rows = [0] * p if G is None else [G(k) for k in range(p)] if callable(G) else list(G)
    if len(rows) != p or any(not isinstance(row, int | np.integer) or row < 0 for row in rows):
        raise ValueError(f"G must give a row number of at least 0 for each of the {p} anchors, not {rows!r}")
    if sorted(set(rows)) != list(range(max(rows) + 1)):
        raise ValueError(f"G must use every row from 0 to {max(rows)}, but uses only {sorted(set(rows))}")
    return [int(row) for row in rows]


def _dead_zone(dead_zone: float | None, rows: list[int], spacing: float) -> float:
    """Half the width of what is left out around each jump; an eighth of the spacing unless it is given."""
    if len(set(rows)) == 1:
        if dead_zone:
            raise ValueError(f"dead_zone = {dead_zone!r} does nothing where G is constant")
        return 0.0
    positive("dead_zone", dead_zone)
    zone = spacing / 8 if dead_zone is None else float(dead_zone)
    if zone >= spacing / 2:
        raise ValueError(f"dead_zone must be below half the spacing {spacing!r} of the anchors, not {zone!r}")
    return zone


def _row_text(a: float, b: float, rows: list[int], row: int, jumps: list[float]) -> str:
    """Range[a,b](x) between the jumps where the anchors belong to this row, 0 elsewhere."""
    text = clip_text(a, b)
    if not jumps:
        return text
    starts = [0, *(np.flatnonzero(np.diff(rows)) + 1).tolist()]
    total: Expression | None = None
    for run, start in enumerate(starts):
        if rows[start] != row:
            continue
        indicator = _between(jumps[run - 1] if run else None, jumps[run] if run < len(jumps) else None)
        product = Apply("mul", (parse(text, ("x",)), indicator))
        total = product if total is None else Apply("add", (total, product))
    assert total is not None
    return to_text(total)


def _between(start: float | None, end: float | None) -> Expression:
    """1 between start and end, 0 outside."""

    def step(at: float) -> Expression:
        return Apply("step", (Apply("sub", (Variable("x"), constant(Fraction(at)))),))

    if start is None:
        assert end is not None
        return Apply("sub", (constant(Fraction(1)), step(end)))
    return step(start) if end is None else Apply("sub", (step(start), step(end)))


def _literal(parts: Sequence[ProposedTable], w: Floats, t: Floats, p: int, dtype: str) -> Network:
    """The theorem's own form: A pads to p tokens, token k carries the key of anchor k, the output drops the rest."""
    (n, d), rows = w.shape, len(parts)
    inputs = tuple(f"x[{c}]" for c in range(d))
    out = tuple(f"range[{r}]" for r in range(rows))
    names = ("s", "one", "key", "offset", *(f"value[{r}]" for r in range(rows)))
    table = parts[0].tables[0]
    C = np.zeros((p, len(names)))
    C[:n, 0], C[:, 1], C[:, 2], C[:, 3] = rounded(t, dtype), 1.0, table.keys, table.offsets
    C[:, 4:] = np.stack([part.tables[0].values for part in parts], axis=1)
    A = np.zeros((d, len(names)))
    A[:, 0] = 1.0
    W_Q, W_K = np.zeros((len(names), 2)), np.zeros((len(names), 2))
    W_Q[0, 0], W_Q[1, 1], W_K[2, 0], W_K[3, 1] = 1.0, 1.0, 1.0, 1.0
    W_V = np.zeros((len(names), rows))
    W_V[4:] = np.eye(rows)
    head = Head("pick the anchor nearest to s", W_Q, W_K, W_V, np.eye(rows), table.beta, Sees(data="all"))
    return Network(
        inputs=inputs,
        embed=Linear(names, (Term(A, token_map(np.eye(p, n)), rounded(w, dtype)),), C),
        registers=np.zeros((0, len(names))),
        layers=(Attention(out, (head,), residual=False),),
        read=Linear(out, (Term(np.eye(rows), token_map(np.eye(n, p))),), np.zeros((1, rows))),
        tokens=n,
        dtype=dtype,
    )


def _spectral(
    w: Floats, t: Floats, a: float, b: float, box: Box, tol: float | None, p: int | None, dtype: str
) -> AttentionNetwork:
    """The part with the smallest bound on at most p keys, or one within tol; the keys stand on registers."""
    positive("tol", tol)
    whole("p", p, 8, " keys")
    if (tol is None) == (p is None):
        raise ValueError("give either tol or p, not both and not neither")
    lo, hi = reach(w, t, box, dtype)
    part = spectral_clip(a, b, lo, hi, tol, p, dtype)
    net = register_network(part, w, t, box, tol, dtype)
    inside = _inside(net, part, w, t, a, b, dtype)
    chosen = {"p": float(part.keys), "beta": max(table.beta for table in part.tables)}
    spots = np.concatenate([np.linspace(a, b, 33), [a - 10 * (b - a), lo, hi, b + (b - a) / 16]])
    net.about = _about("spectral", net, chosen, {}, w, t, a, b, spots, [0], np.zeros(0), NO_ZONES, inside)
    return net


def _inside(net: AttentionNetwork, part: ProposedTable, w: Floats, t: Floats, a: float, b: float, dtype: str) -> float:
    """The error where every w_i . x_i + t_i lies in [a, b], proven for the same heads on one number s.

    A computed s is off by at most the network's rounding term, so the heads are examined that far beyond [a, b], where
    they return s itself; what s is off by is that term again.
    """
    assert net.certificate is not None
    everywhere, off = net.certificate.bound, net.certificate.terms.rounding
    least, most = reach(w, t, net.certificate.domain, dtype)
    start, end = max(a, least) - off, min(b, most) + off
    if not start < end:
        return everywhere  # no input has its argument in [a, b]
    one = outward(Box(np.full((1, 1), start), np.full((1, 1), end)), dtype)
    alone = on_interval(part, "x", float(one.lo[0, 0]), float(one.hi[0, 0]), dtype)
    try:
        inner = register_network(alone, np.ones((1, 1)), np.zeros(1), one, None, dtype).certificate
    except ToleranceError:
        return everywhere
    assert inner is not None
    return min(everywhere, math.nextafter(inner.bound + off, math.inf))


def spectral_clip(
    a: float, b: float, lo: float, hi: float, tol: float | None, p: int | None, dtype: str
) -> ProposedTable:
    """clip as `approximate` builds it: within tol (a little is kept for rounding), or the best on p keys."""
    text = clip_text(a, b)
    if tol is not None:
        share = 0.9 if dtype == "float64" else 0.7  # the rest is for rounding around the heads
        return propose_table(text, lo, hi, share * tol, dtype)
    assert p is not None
    for power in range(8 if p < 24 else 10, 1, -1):
        try:
            part = propose_table(text, lo, hi, (b - a) * 10.0**-power, dtype, most=p)
        except (BudgetError, ToleranceError):
            continue
        if part.keys <= p:
            return part
    raise ToleranceError(f"no spectral form of {text} was found on p = {p} keys")


def _about(
    method: Method,
    net: AttentionNetwork,
    chosen: dict[str, float],
    printed: dict[str, float],
    w: Floats,
    t: Floats,
    a: float,
    b: float,
    spots: Floats,
    rows: list[int],
    jumps: Floats,
    zones: Floats,
    inside: float | None = None,
) -> About:
    def reference(x: Floats) -> Floats:
        s = arguments_of(x, w, t)
        row = np.array([rows[0], *np.array(rows)[np.flatnonzero(np.diff(rows)) + 1]])[np.searchsorted(jumps, s)]
        y = np.where(row[:, :, None] == np.arange(max(rows) + 1), np.clip(s, a, b)[:, :, None], 0.0)
        return np.where(in_zone(s)[:, :, None], np.nan, y)  # nothing is claimed there

    def in_zone(s: Floats) -> Bools:
        s = s[:, :, None]
        return np.asarray(((s > zones[:, 0]) & (s < zones[:, 1])).any(axis=2))

    probe = aimed(w, t, net.certificate.domain, np.concatenate([spots, zones.ravel()]))  # type: ignore[union-attr]

    def probes(rng: np.random.Generator, count: int) -> Floats:
        x = probe(rng, count)
        return x[~in_zone(arguments_of(x, w, t)).any(axis=1)]

    assert net.certificate is not None
    bounds = {"inside": net.certificate.bound if inside is None else inside, "everywhere": net.certificate.bound}
    return About("UA-2", method, chosen, printed, bounds, reference, probes)
