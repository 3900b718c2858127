"""UA-3: H heads share the anchors, n - 2 each and two sentinels.

Statement, source and deviations: `weightwright theorems UA-3`.
Spectral: with their keys on the tokens' position code the heads of `truncated_linear(method="spectral")` would need n
keys each; ours stand on registers, and H follows from the fit.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from weightwright.approximation.table import ProposedTable
from weightwright.box import Box
from weightwright.certify import certify
from weightwright.claims.target import Composite
from weightwright.network import Network, Sees, Term
from weightwright.numbers import rounded
from weightwright.papers.kit.arguments import interval, known_method
from weightwright.papers.kit.constructed import Method, described, proven_bound
from weightwright.papers.kit.models import read_models
from weightwright.papers.kit.named_stream import QUERY, NamedStream, features
from weightwright.papers.linear.model_anchors import anchors_of_heads
from weightwright.papers.linear.models_on_registers import table_coordinates
from weightwright.papers.linear.one_head import TruncatedModels, truncated_linear
from weightwright.runtime import AttentionNetwork

#: The most tokens for which the position code is one-hot.
ONE_HOT = 256


def truncated_linear_heads(
    w: npt.ArrayLike,
    t: npt.ArrayLike,
    a: float,
    b: float,
    domain: Box | tuple[float, float],
    *,
    tol: float | None = None,
    H: int | None = None,
    beta: float | None = None,
    method: Method = "faithful",
    dtype: str = "float64",
) -> AttentionNetwork:
    """X (n, d) -> (n, 1): Range[a,b](w . x_i + t_i) by H heads. w (d,) or (n, d), t (n,), n >= 3.

    Give tol, or H and perhaps beta (powers of two multiply exactly; the rest goes into the keys).
    Error: the spacing (b-a)/((n-2)H), leakage and rounding; `net.about.bounds` has "inside" and "everywhere".
    Cost: 1 layer, H heads with n keys each, width n + 3 (3 H + 3 beyond ONE_HOT tokens), no registers.

    >>> net = truncated_linear_heads([1.0, -1.0], [0.0] * 6, -1.0, 1.0, (-1, 1), H=4)
    >>> net.certificate.status, net.network.native, net.certificate.bound < 2 / 16 + 1e-3
    ('PROVEN', True, True)
    """
    n = len(np.atleast_1d(np.asarray(t)))
    W = np.broadcast_to(np.asarray(w, dtype=np.float64), (n, np.shape(w)[-1])) if np.ndim(w) == 1 else w
    asked = TruncatedModels(*read_models(W, t, domain), dtype, *interval(a, b))
    if method == "spectral":
        if H is not None or beta is not None:
            raise ValueError("H and beta follow from the fit for method='spectral'; give tol")
        net = truncated_linear(asked.w, asked.t, a, b, asked.box, tol=tol, method="spectral", dtype=dtype)
        net.about = dataclasses.replace(net.about, id="UA-3")
        return net
    known_method(method)
    if n < 3:
        raise ValueError(f"t must have at least 3 tokens: a head has n - 2 anchors and two sentinels, and n = {n}")
    held = anchors_of_heads(asked.a, asked.b, n, tol, H, beta, dtype)
    part = held.table(*asked.ends)
    composite = Composite(asked.target([part.profile]), (part.at(0, range(len(held.runs)), range(n)),))
    net = certify(_network(part, asked), composite, asked.box, tol)
    probes = asked.probes(held.places(*asked.ends))
    bounds = dict.fromkeys(("inside", "everywhere"), proven_bound(net))
    return described(net, "UA-3", "faithful", held.chosen, held.printed, asked.values, probes, bounds)


def _network(part: ProposedTable, asked: TruncatedModels) -> Network:
    (n, d), H, dtype, (factor, scale) = asked.w.shape, len(part.tables), asked.dtype, asked.factors
    numbers = np.stack([column for t in part.tables for column in (t.keys, t.offsets, t.values)], axis=1)  # (n, 3 H)
    one_hot = n <= ONE_HOT
    names = features("pos", n) if one_hot else table_coordinates(H)
    code, read = (np.eye(n), numbers) if one_hot else (numbers, np.eye(3 * H))
    stream = NamedStream({"s": None, "one": None, "code": names, "result": [part.profile]})
    heads = []
    for h, table in enumerate(part.tables):
        role = f"anchors {h * (n - 2)} to {(h + 1) * (n - 2) - 1} of {part.profile}"
        key, value = read[:, 3 * h : 3 * h + 2], read[:, 3 * h + 2 : 3 * h + 3]
        blocks = QUERY, {"code": key}, {"code": value}, {"result": 1.0}
        heads.append(stream.head(role, table.beta, Sees(data="all"), *blocks))
    return stream.network(
        features("x", d),
        Term(stream.tokens(d, {"s": factor}), None, scale),
        stream.tokens(n, {"s": rounded(asked.t, dtype)[:, None], "one": 1.0, "code": code}),
        [heads],
        "result",
        tokens=n,
        dtype=dtype,
    )
