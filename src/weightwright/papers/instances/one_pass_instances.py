"""The small instance of AE-16: predictions of one network for three penalties, against exact rational arithmetic.

The construction itself is `incontext.one_pass`, which users call as `ww.incontext.learner`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch

from weightwright.incontext.networks.descent_network import Ranges
from weightwright.incontext.one_pass import Learner, learner
from weightwright.papers.kit.instance import Check, Instance, judge_network

_N, _D, _M, _STEPS, _STEP = 6, 2, 3, 12, 1.0
_RIDGES = (0.0, 0.125, 0.5)
_TOL = 1e-10


def one_pass() -> Instance:
    """AE-16: 12 steps on six samples of two features, three queries, one fingerprint."""
    ranges = Ranges(x=1.0, y=2.0, w=2.0, fitted=4.0, ridge=1.0)
    icl = learner(_D, _N, _M, "squared", _STEPS, ranges, step=2.0, tol=_TOL, progress=False)
    rng = np.random.default_rng(16)
    X, X_q = (np.round(rng.uniform(-1, 1, (count, _D)) * 16) / 16 for count in (_N, _M))
    y = np.round((X @ [1.0, -0.5] + 0.1 * rng.normal(size=_N)) * 64) / 64
    before = icl.net.digest()
    checks = tuple(_check(icl, icl.prompt(X, y, X_q, ridge=ridge, step=_STEP), ridge, before) for ridge in _RIDGES)
    return Instance(checks=checks)


def _check(icl: Learner, prompt: torch.Tensor, ridge: float, before: str) -> Check:
    certificate, bound = icl.net.certificate, icl.bound(prompt, progress=False)
    assert certificate is not None
    exact = _predict(prompt.tolist(), len(icl.net.network.inputs))
    off = [abs(Fraction(a) - b) for a, b in zip(icl(prompt).tolist(), exact, strict=True)]
    reason = None
    if certificate.status != "PROVEN":
        reason = f"the certificate of one pass and the read-out is {certificate.status}"
    elif any(error > Fraction(most) for error, most in zip(off, bound.to_algorithm.tolist(), strict=True)):
        reason = "a prediction is farther from the exact algorithm's than its bound"
    elif icl.net.digest() != before:
        reason = "another penalty made another network"
    return judge_network(
        icl.net,
        f"predictions, ridge {ridge:g}",
        float(bound.to_algorithm.max()),
        float(max(off)),
        inputs=_M,
        chosen={"L": float(_STEPS), "step": _STEP, "ridge": ridge},
        bounds={"one pass and the read-out": certificate.bound, "to the optimum": float(bound.to_optimum.max())},
        notes=(f"fingerprint {before[:12]}, that of all penalties; compared with exact rational arithmetic",),
        reason=reason,
    )


def _predict(rows: list[list[float]], width: int) -> list[Fraction]:
    """Gradient descent on the prompt's own numbers: x, u, y, w of every token."""
    assert width == 3 * _D + 1
    tokens = [[Fraction(number) for number in row] for row in rows]
    w = [Fraction(0)] * _D
    for _ in range(_STEPS):
        pulls = [_inner(w, token[:_D]) - token[2 * _D] for token in tokens]
        w = [a - _inner(pulls, [token[_D + j] for token in tokens]) for j, a in enumerate(w)]
    return [_inner(w, token[:_D]) for token in tokens[-_M:]]


def _inner(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))
