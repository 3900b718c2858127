"""UA-2: one head, one layer, n truncated linear models at once.

Statement, source and deviations: `weightwright theorems UA-2`.
Spectral: anchors at moderate beta with fitted values, as `approximate` builds clip; the keys are registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from weightwright.network import Attention, Head, Linear, Network, Sees, Term, token_map
from weightwright.numbers import Bools, Floats, rounded
from weightwright.papers.kit.arguments import interval, known_method, one_given, positive, whole
from weightwright.papers.kit.constructed import Method, described, proven_bound
from weightwright.papers.kit.models import Models, read_models
from weightwright.papers.kit.named_stream import KEY, QUERY, NamedStream, features
from weightwright.papers.linear.model_anchors import ModelAnchors, anchors_of_one_head
from weightwright.papers.linear.models_on_registers import register_network, units_of
from weightwright.runtime import AttentionNetwork


@dataclass(frozen=True, eq=False)
class TruncatedModels(Models):
    """Range[a,b](w_i . x_i + t_i) for every token i."""

    a: float
    b: float

    def values(self, x: Floats) -> Floats:
        """(count, n, d) -> (count, n, 1), in plain floats."""
        return np.asarray(np.clip(self.arguments(x), self.a, self.b)[:, :, None])


@dataclass(frozen=True, eq=False)
class Rows:
    """The output row of every anchor (the paper's G), and what is left out around the places where it jumps."""

    of: list[int]  # the row of every anchor
    jumps: Floats
    zone: float  # half the width of what is left out around a jump

    @property
    def count(self) -> int:
        return max(self.of) + 1

    @property
    def starts(self) -> list[int]:
        """The first anchor of every run of anchors in one row."""
        return [0, *(np.flatnonzero(np.diff(self.of)) + 1).tolist()]

    @property
    def zones(self) -> Floats:
        return np.stack([self.jumps - self.zone, self.jumps + self.zone], axis=1) if len(self.jumps) else NO_ZONES

    def text(self, clip: str, row: int) -> str:
        """Range[a,b](x) between the jumps where the anchors belong to this row, 0 elsewhere."""
        if not len(self.jumps):
            return clip
        edges = [None, *self.jumps.tolist(), None]
        total: Expression | None = None
        for run, start in enumerate(self.starts):
            if self.of[start] == row:
                product = Apply("mul", (parse(clip, ("x",)), _between(edges[run], edges[run + 1])))
                total = product if total is None else Apply("add", (total, product))
        assert total is not None
        return to_text(total)

    def excluded(self, s: Floats) -> Bools:
        """Whether a number lies in a zone, where nothing is claimed."""
        zones, s = self.zones, s[..., None]
        return np.asarray(((s > zones[:, 0]) & (s < zones[:, 1])).any(axis=-1))

    def values(self, s: Floats, clipped: Floats) -> Floats:
        """The clipped values in their rows, a last axis more; NaN in the zones."""
        row = np.array(self.of)[self.starts][np.searchsorted(self.jumps, s)]
        y = np.where(row[..., None] == np.arange(self.count), clipped, 0.0)
        return np.where(self.excluded(s)[..., None], np.nan, y)


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
    asked = TruncatedModels(*read_models(w, t, domain), dtype, *interval(a, b))
    if method == "spectral":
        if G is not None:
            raise ValueError("G must be None for method='spectral': a jump between rows has no spectral form")
        if beta is not None:
            raise ValueError("beta is chosen by the fit for method='spectral'; give tol or p")
        return _spectral(asked, tol, p)
    known_method(method)
    held = anchors_of_one_head(asked.a, asked.b, len(asked.w), tol, p, beta, dtype)
    return _faithful(asked, held, _rows(G, dead_zone, held), tol)


def _rows(G: Sequence[int] | Callable[[int], int] | None, dead_zone: float | None, held: ModelAnchors) -> Rows:
    anchors, p = held.anchors, len(held.anchors)
    rows = [0] * p if G is None else [G(k) for k in range(p)] if callable(G) else list(G)
    if len(rows) != p or any(not isinstance(row, int | np.integer) or row < 0 for row in rows):
        raise ValueError(f"G must give a row number of at least 0 for each of the {p} anchors, not {rows!r}")
    if sorted(set(rows)) != list(range(max(rows) + 1)):
        raise ValueError(f"G must use every row from 0 to {max(rows)}, but uses only {sorted(set(rows))}")
    changes = np.flatnonzero(np.diff(rows))
    jumps = (anchors[changes] + anchors[changes + 1]) / 2
    return Rows([int(row) for row in rows], jumps, _dead_zone(dead_zone, len(set(rows)), held.spacing))


def _dead_zone(dead_zone: float | None, rows: int, spacing: float) -> float:
    """Half the width of what is left out around each jump; an eighth of the spacing unless it is given."""
    if rows == 1:
        if dead_zone:
            raise ValueError(f"dead_zone = {dead_zone!r} does nothing where G is constant")
        return 0.0
    positive("dead_zone", dead_zone)
    zone = spacing / 8 if dead_zone is None else float(dead_zone)
    if zone >= spacing / 2:
        raise ValueError(f"dead_zone must be below half the spacing {spacing!r} of the anchors, not {zone!r}")
    return zone


def _between(start: float | None, end: float | None) -> Expression:
    """1 between start and end, 0 outside; None: there is no such end."""

    def step(at: float) -> Expression:
        return Apply("step", (Apply("sub", (Variable("x"), constant(Fraction(at)))),))

    first = constant(Fraction(1)) if start is None else step(start)
    return first if end is None else Apply("sub", (first, step(end)))


def _faithful(asked: TruncatedModels, held: ModelAnchors, rows: Rows, tol: float | None) -> AttentionNetwork:
    a, b, anchors, p, n = asked.a, asked.b, held.anchors, len(held.anchors), len(asked.w)
    beta = held.beta
    if rows.zone:  # the neighbour's weight at the edge of a zone: e^(-beta dL zone)
        beta = max(beta, p / (b - a) * math.log(4 * p * max(abs(a), abs(b), b - a) / (b - a)) / rows.zone)
    parts = []
    for row in range(rows.count):
        values, text = np.where(np.array(rows.of) == row, anchors, 0.0), rows.text(clip_text(a, b), row)
        parts.append(propose_faithful(text, anchors, [(0, values)], beta, *asked.ends, asked.dtype, rows.zones))
    claims = tuple(
        part.at(0, [0], [*units_of(row, len(parts), n), *[UNREAD] * (p - n)], row) for row, part in enumerate(parts)
    )
    composite = Composite(asked.target([part.profile for part in parts]), claims)
    net = certify(_literal(parts, asked), composite, asked.box, tol)

    def reference(x: Floats) -> Floats:
        return rows.values(asked.arguments(x), asked.values(x))

    probe = asked.probes(np.concatenate([held.places(*asked.ends), rows.zones.ravel()]))

    def probes(rng: np.random.Generator, count: int) -> Floats:
        x = probe(rng, count)
        return x[~rows.excluded(asked.arguments(x)).any(axis=1)]

    chosen = {"p": float(p), "beta": beta, "dead_zone": rows.zone}
    bounds = dict.fromkeys(("inside", "everywhere"), proven_bound(net))
    return described(net, "UA-2", "faithful", chosen, held.printed, reference, probes, bounds)


def _literal(parts: Sequence[ProposedTable], asked: TruncatedModels) -> Network:
    """The theorem's own form: A pads to p tokens, token k carries the key of anchor k, the output drops the rest."""
    (n, d), rows, table, dtype = asked.w.shape, len(parts), parts[0].tables[0], asked.dtype
    p, out, one = table.size, features("range", rows), np.eye(rows)
    stream = NamedStream({"s": None, "one": None, "key": None, "offset": None, "value": rows})
    values = np.stack([part.tables[0].values for part in parts], axis=1)
    C = stream.tokens(p, {"one": 1.0, "key": table.keys[:, None], "offset": table.offsets[:, None], "value": values})
    C[:n, 0] = rounded(asked.t, dtype)
    A = stream.tokens(d, {"s": 1.0})
    W_Q, W_K, W_V = (stream.reads(blocks) for blocks in (QUERY, KEY, {"value": one}))
    head = Head("pick the anchor nearest to s", W_Q, W_K, W_V, one, table.beta, Sees(data="all"))
    return Network(
        inputs=features("x", d),
        embed=Linear(stream.names, (Term(A, token_map(np.eye(p, n)), rounded(asked.w, dtype)),), C),
        registers=np.zeros((0, stream.width)),
        layers=(Attention(out, (head,), residual=False),),
        read=Linear(out, (Term(one, token_map(np.eye(n, p))),), np.zeros((1, rows))),
        tokens=n,
        dtype=dtype,
    )


def _spectral(asked: TruncatedModels, tol: float | None, p: int | None) -> AttentionNetwork:
    """The part with the smallest bound on at most p keys, or one within tol; the keys stand on registers."""
    positive("tol", tol)
    whole("p", p, 8, " keys")
    one_given("tol or p", tol, p)
    a, b, (lo, hi) = asked.a, asked.b, asked.ends
    part = spectral_clip(asked, tol, p)
    net = register_network([part], asked, tol)
    chosen = {"p": float(part.keys), "beta": max(table.beta for table in part.tables)}
    places = np.concatenate([np.linspace(a, b, 33), [a - 10 * (b - a), lo, hi, b + (b - a) / 16]])
    bounds = {"inside": _inside(net, part, asked), "everywhere": proven_bound(net)}
    return described(net, "UA-2", "spectral", chosen, {}, asked.values, asked.probes(places), bounds)


def _inside(net: AttentionNetwork, part: ProposedTable, asked: TruncatedModels) -> float:
    """The error where every w_i . x_i + t_i lies in [a, b], proven for the same heads on one number s.

    A computed s is off by at most the network's rounding term, so the heads are examined that far beyond [a, b], where
    they return s itself; what s is off by is that term again.
    """
    assert net.certificate is not None
    everywhere, off = net.certificate.bound, net.certificate.terms.rounding
    least, most = Models(asked.w, asked.t, net.certificate.domain, asked.dtype).ends
    start, end = max(asked.a, least) - off, min(asked.b, most) + off
    if not start < end:
        return everywhere  # no input has its argument in [a, b]
    one = outward(Box(np.full((1, 1), start), np.full((1, 1), end)), asked.dtype)
    alone = on_interval(part, "x", float(one.lo[0, 0]), float(one.hi[0, 0]), asked.dtype)
    try:
        inner = register_network([alone], Models(np.ones((1, 1)), np.zeros(1), one, asked.dtype), None)
    except ToleranceError:
        return everywhere
    return min(everywhere, math.nextafter(proven_bound(inner) + off, math.inf))


def spectral_clip(asked: TruncatedModels, tol: float | None, p: int | None) -> ProposedTable:
    """clip as `approximate` builds it: within tol (a little is kept for rounding), or the best on p keys."""
    text, (lo, hi), dtype = clip_text(asked.a, asked.b), asked.ends, asked.dtype
    if tol is not None:
        share = 0.9 if dtype == "float64" else 0.7  # the rest is for rounding around the heads
        return propose_table(text, lo, hi, share * tol, dtype)
    assert p is not None
    for power in range(8 if p < 24 else 10, 1, -1):
        try:
            part = propose_table(text, lo, hi, (asked.b - asked.a) * 10.0**-power, dtype, most=p)
        except (BudgetError, ToleranceError):
            continue
        if part.keys <= p:
            return part
    raise ToleranceError(f"no spectral form of {text} was found on p = {p} keys")
