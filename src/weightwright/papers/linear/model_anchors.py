"""The anchors of truncated linear models: how many and how sharp for a tolerance, and where they are worst.

L_k = a + k (b-a)/p. One head holds L_0 to L_(p-1), or H heads share them: each has n - 2 of its own between two
sentinels, the anchor before and the anchor after.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weightwright.approximation.faithful_tables import clip_text, propose_faithful
from weightwright.approximation.table import ProposedTable
from weightwright.numbers import Floats, rounded
from weightwright.papers.kit.arguments import one_given, positive, whole

#: The share of the tolerance that goes to the spacing of the anchors; the rest is for leakage and rounding.
SPACING = 1 - 2.0**-8
_GIVEN = " (and perhaps beta)"


@dataclass(frozen=True, eq=False)
class ModelAnchors:
    """Heads of anchors for Range[a,b]; chosen, printed: their parameters as built, and as the paper has them."""

    a: float
    b: float
    anchors: Floats  # of all heads, sentinels included
    runs: list[tuple[int, Floats]]  # for each head its first anchor, and its values from there on
    beta: float
    sentinels: int  # before the first anchor, and after the last: 0, or 1 where heads share
    chosen: Mapping[str, float]
    printed: Mapping[str, float]
    dtype: str

    @property
    def spacing(self) -> float:
        return (self.b - self.a) / self.chosen["p"]

    def table(self, lo: float, hi: float) -> ProposedTable:
        """The heads, with what is claimed of them on [lo, hi]."""
        text = clip_text(self.a, self.b)
        return propose_faithful(text, self.anchors, self.runs, self.beta, lo, hi, self.dtype)

    def places(self, lo: float, hi: float) -> Floats:
        """Where they are worst: anchors, half way between them, the ends, and beyond; and seams between heads."""
        a, b, inner = self.a, self.b, self.anchors[self.sentinels : len(self.anchors) - self.sentinels]
        spacing = (b - a) / len(inner)
        ends = np.array([a, b, b - spacing / 2, b + spacing / 2, a - 10 * (b - a), a - spacing / 2, lo, hi])
        found = np.concatenate([inner, inner + spacing / 2, ends])
        if not self.sentinels:
            return found
        seams = self.anchors[1 :: len(self.runs[0][1]) - 2]
        return np.concatenate([found, seams, seams - self.spacing / 2])


def anchors_of_one_head(
    a: float, b: float, n: int, tol: float | None, p: int | None, beta: float | None, dtype: str
) -> ModelAnchors:
    """As built, and as the paper has them (Corollary G.6 for a tolerance, Remark G.5 for p)."""
    positive("tol", tol)
    positive("beta", beta)
    whole("p", p, n + 1, f": more than the {n} tokens")
    one_given("tol or p" + _GIVEN, tol, p)
    width, largest = b - a, max(abs(a), abs(b))
    if tol is not None:
        if beta is not None:
            raise ValueError("beta follows from tol; give p and beta, or tol alone")
        paper = max(n + 1, math.ceil(2 * width / tol))
        printed = {"p": float(paper), "beta": inverse_temperature(width, paper, 2 * largest / tol)}
        p = max(n + 1, 3, math.ceil(width / (tol * SPACING)))
        # the tail e^(-beta dL^2 / 2) times the spread is to be a 2^12th of the tolerance
        beta = inverse_temperature(width, p, 2.0**12 * width / tol / max(p - 2, 1))
    else:
        assert p is not None
        printed = {"p": float(p), "beta": inverse_temperature(width, p, float(p))}
        beta = printed["beta"] if beta is None else float(beta)
    anchors = rounded(a + np.arange(p, dtype=np.float64) * (width / p), dtype)
    return ModelAnchors(a, b, anchors, [(0, anchors)], beta, 0, {"p": float(p), "beta": beta}, printed, dtype)


def inverse_temperature(width: float, p: int, ratio: float) -> float:
    """2 p^2 / (b-a)^2 (ln(p-2) + ln ratio): the gap between the nearest anchors and the third is dL^2 / 2."""
    return 2 * p**2 / width**2 * max(math.log(max(p - 2, 1)) + math.log(ratio), 1.0)


def anchors_of_heads(
    a: float, b: float, n: int, tol: float | None, H: int | None, beta: float | None, dtype: str
) -> ModelAnchors:
    """H for a tolerance, and beta: every head's tail e^(-beta dL^2 / 2) times its spread, all together a 2^12th of the
    spacing. The anchors start with L_{-1} = a - dL and end with L_p = b; values are 0 at sentinels, but a below the
    first head's anchors and b above the last one's."""
    positive("tol", tol)
    positive("beta", beta)
    whole("H", H, 1)
    one_given("tol or H" + _GIVEN, tol, H)
    if tol is not None and beta is not None:
        raise ValueError("beta follows from tol; give H and beta, or tol alone")
    count = H if H is not None else math.ceil((b - a) / (float(tol or 0) * SPACING) / (n - 2))
    p = (n - 2) * count
    spacing, largest = (b - a) / p, max(abs(a), abs(b), b - a)
    beta = 2 / spacing**2 * math.log(2.0**13 * count * largest / spacing) if beta is None else float(beta)
    anchors = rounded(a + np.arange(-1, p + 1, dtype=np.float64) * spacing, dtype)
    values = np.concatenate([[a], anchors[1:-1], [b]])
    chosen, printed = {"p": float(p), "H": float(count)}, {"p": float(p), "H": float(count)}
    if tol is not None:
        paper = math.ceil(2 * (b - a) / tol)
        printed = {"p": paper, "H": math.ceil(paper / (n - 2))}
    return ModelAnchors(
        a, b, anchors, shared_runs(values, n - 2, count), beta, 1, {**chosen, "beta": beta}, printed, dtype
    )


def shared_runs(values: Floats, each: int, H: int) -> list[tuple[int, Floats]]:
    """For each of H heads its first anchor and the values of its own ones, `each` of them between two sentinels: 0, but
    for what stands below the first head's anchors and above the last one's (Theorem 3.9, with the errata's ends)."""
    runs = []
    for h in range(H):
        own = values[h * each : (h + 1) * each + 2].copy()
        own[0], own[-1] = (own[0] if h == 0 else 0.0), (own[-1] if h == H - 1 else 0.0)
        runs.append((h * each, own))
    return runs
