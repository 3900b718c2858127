"""UA-3: H heads share the anchors; token-wise maps and a position code only.

Statement. n tokens, H heads: p = (n-2) H anchors L_k = a + k (b-a)/p, head h holding L_{(h-1)(n-2)} to L_{h(n-2)-1} and
two sentinels, the anchor before and the anchor after. Their sum is Range[a,b](w . x_i + t_i) within (b-a)/((n-2)H) and
what the softmax leaks.

Source: universal approximation paper, Theorem 3.9, Lemma G.7.
Deviations, faithful:
- the first head's lower sentinel carries a and the last head's upper one b (errata: with the printed zeros the layer
  returns 0 below a and above b);
- L_{-1} = a - dL, which the paper's Definition 3.3 does not define (errata);
- beta is ours, from the 1-norm lemma: the tails of all H heads times their spreads stay below a share of the spacing;
- the output goes to a coordinate of its own in a residual stream, so that an ordinary Transformer loads the layer;
- beyond ONE_HOT tokens the position code holds the keys, offsets and values of every head themselves, 3 H numbers a
  token: the paper's one-hot code takes n of them;
- w is the same for all tokens, as the token-wise map of the proof has it; t_i stands in the position code. With its own
  w_i for every token the embedding scales positions, which is no longer native.
Spectral: the heads of `truncated_linear(method="spectral")` with their keys on the tokens' position code would need n
keys each; ours stand on registers, and H follows from the fit.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from weightwright.approximation.faithful_tables import clip_text, propose_faithful
from weightwright.approximation.table import ProposedTable
from weightwright.box import Box
from weightwright.certify import certify
from weightwright.claims.target import Composite
from weightwright.network import Attention, Head, Linear, Network, Sees, Term, selection
from weightwright.numbers import Floats, rounded
from weightwright.papers.kit.arguments import aimed, arguments_of, interval, models, positive, reach, target, whole
from weightwright.papers.kit.constructed import About, Method
from weightwright.papers.linear.one_head import SPACING, places, truncated_linear
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
    weights, shifts, box = models(W, t, domain)
    a, b = interval(a, b)
    if method == "spectral":
        if H is not None or beta is not None:
            raise ValueError("H and beta follow from the fit for method='spectral'; give tol")
        net = truncated_linear(weights, shifts, a, b, box, tol=tol, method="spectral", dtype=dtype)
        net.about = About("UA-3", *(getattr(net.about, name) for name in _ABOUT))
        return net
    if method != "faithful":
        raise ValueError(f"method must be 'faithful' or 'spectral', not {method!r}")
    if n < 3:
        raise ValueError(f"t must have at least 3 tokens: a head has n - 2 anchors and two sentinels, and n = {n}")
    H, beta = heads_for(a, b, n, tol, H, beta)
    p = (n - 2) * H
    lo, hi = reach(weights, shifts, box, dtype)
    anchors, runs = shared_runs(a, b, n, H, dtype)
    part = propose_faithful(clip_text(a, b), anchors, runs, beta, lo, hi, dtype)
    network = _network(part, weights, shifts, n, dtype)
    composite = Composite(target([part.profile], weights, shifts), (part.at(0, range(H), range(n)),))
    net = certify(network, composite, box, tol)
    assert net.certificate is not None
    seams = anchors[1 :: n - 2]
    spots = np.concatenate([places(anchors[1:-1], a, b, lo, hi), seams, seams - (b - a) / p / 2])
    printed = {"p": float(p), "H": float(H)} if tol is None else {"p": math.ceil(2 * (b - a) / tol)}
    if tol is not None:
        printed["H"] = math.ceil(printed["p"] / (n - 2))
    bounds = {"inside": net.certificate.bound, "everywhere": net.certificate.bound}
    net.about = About(
        "UA-3",
        "faithful",
        {"p": float(p), "H": float(H), "beta": beta},
        printed,
        bounds,
        lambda x: np.clip(arguments_of(x, weights, shifts), a, b)[:, :, None],
        aimed(weights, shifts, box, spots),
    )
    return net


_WORDS = ("key", "offset", "value")
_ABOUT = ("method", "chosen", "printed", "bounds", "reference", "probes")


def shared_runs(a: float, b: float, n: int, H: int, dtype: str) -> tuple[Floats, list[tuple[int, Floats]]]:
    """L_{-1} to L_p, and for each head its first anchor and n values: what lies beside its own anchors is 0, but for a
    below the first head's and b above the last one's."""
    p = (n - 2) * H
    anchors = rounded(a + np.arange(-1, p + 1, dtype=np.float64) * ((b - a) / p), dtype)
    runs = []
    for h in range(H):
        values = anchors[h * (n - 2) : h * (n - 2) + n].copy()
        values[0], values[-1] = (a if h == 0 else 0.0), (b if h == H - 1 else 0.0)
        runs.append((h * (n - 2), values))
    return anchors, runs


def heads_for(a: float, b: float, n: int, tol: float | None, H: int | None, beta: float | None) -> tuple[int, float]:
    """H for a tolerance, and beta: every head's tail e^(-beta dL^2 / 2) times its spread, all together a 2^12th of the
    spacing."""
    positive("tol", tol)
    positive("beta", beta)
    whole("H", H, 1)
    if (tol is None) == (H is None):
        raise ValueError("give either tol or H (and perhaps beta), not both and not neither")
    if tol is not None and beta is not None:
        raise ValueError("beta follows from tol; give H and beta, or tol alone")
    count = H if H is not None else math.ceil((b - a) / (float(tol or 0) * SPACING) / (n - 2))
    spacing, largest = (b - a) / ((n - 2) * count), max(abs(a), abs(b), b - a)
    ours = 2 / spacing**2 * math.log(2.0**13 * count * largest / spacing)
    return count, ours if beta is None else float(beta)


def _network(part: ProposedTable, w: Floats, t: Floats, n: int, dtype: str) -> Network:
    d, H = w.shape[1], len(part.tables)
    inputs = tuple(f"x[{c}]" for c in range(d))
    numbers = np.stack([column for t in part.tables for column in (t.keys, t.offsets, t.values)], axis=1)  # (n, 3 H)
    one_hot = n <= ONE_HOT
    words = [f"pos[{i}]" for i in range(n)] if one_hot else [f"{word}[{h}]" for h in range(H) for word in _WORDS]
    names = ("s", "one", *words, part.profile)
    shared = bool((w == w[0]).all())
    A, C = np.zeros((d, len(names))), np.zeros((n, len(names)))
    A[:, 0] = rounded(w[0], dtype) if shared else 1.0
    C[:, 0], C[:, 1], C[:, 2:-1] = rounded(t, dtype), 1.0, np.eye(n) if one_hot else numbers
    from_code = numbers if one_hot else np.eye(3 * H)
    heads = []
    for h, table in enumerate(part.tables):
        W_Q, W_K = np.zeros((len(names), 2)), np.zeros((len(names), 2))
        W_V, W_O = np.zeros((len(names), 1)), np.zeros((1, len(names)))
        W_Q[0, 0], W_Q[1, 1] = 1.0, 1.0
        W_K[2:-1], W_V[2:-1], W_O[0, -1] = from_code[:, 3 * h : 3 * h + 2], from_code[:, [3 * h + 2]], 1.0
        role = f"anchors {h * (n - 2)} to {(h + 1) * (n - 2) - 1} of {part.profile}"
        heads.append(Head(role, W_Q, W_K, W_V, W_O, table.beta, Sees(data="all")))
    return Network(
        inputs=inputs,
        embed=Linear(names, (Term(A, None, None if shared else rounded(w, dtype)),), C),
        registers=np.zeros((0, len(names))),
        layers=(Attention(names, tuple(heads)),),
        read=selection(names, (part.profile,)),
        tokens=n,
        dtype=dtype,
    )
