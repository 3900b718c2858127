"""SU-4: the signatures of failure, brought about one by one, and found by `ww.diagnose`.

Range(x_i) on [-1, 1] for six tokens: UA-2 with 32 anchors and the beta of the theorem; with a beta so small that all
keys weigh the same; with one between, whose head drifts between anchors; and UA-3 with the sentinels as printed, whose
error is at the ends. Fitted heads (spectral) are soft on purpose: they drift, and their certificate holds.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from weightwright.adversary.signatures import Diagnosis, diagnose
from weightwright.network import Attention
from weightwright.papers.kit.instance import Check, Instance, Outcome
from weightwright.papers.linear.one_head import truncated_linear
from weightwright.papers.linear.shared_anchors import truncated_linear_heads
from weightwright.runtime import AttentionNetwork

_N, _P = 6, 32
_BETAS = {"theorem's beta": None, "beta 1/2": 0.5, "beta 300": 300.0}
#: Of each network: uniform attention, drift, artefacts at the ends.
_EXPECTED = {
    "theorem's beta": (False, False, False),
    "beta 1/2": (True, False, False),
    "beta 300": (False, True, False),
    "printed sentinels": (False, False, True),
}


def signatures() -> Instance:
    """SU-4: each network has the signature that it was given, and no other; measured: the largest entropy of a head."""
    return Instance(checks=tuple(_check(name, found) for name, found in _diagnoses(_N, _P, 0).items()))


def diagnosed(seed: int) -> bool:
    """The same with other tokens, anchors and inputs."""
    found = _diagnoses(_N + 2, _P // 2, seed, soft=75.0)
    return all(_signs(one) == _EXPECTED[name] for name, one in found.items())


def _diagnoses(n: int, p: int, seed: int, soft: float = 300.0) -> dict[str, Diagnosis]:
    X = torch.tensor(np.random.default_rng(seed).uniform(-2, 2, (200, n, 1)))
    found = {}
    for name, beta in _BETAS.items():
        used = soft if name == "beta 300" else beta
        net = truncated_linear(np.ones((n, 1)), np.zeros(n), -1.0, 1.0, (-2, 2), p=p, beta=used)
        found[name] = diagnose(net, X)
    return found | {"printed sentinels": diagnose(_printed(n), X[:, :n])}


def _printed(n: int) -> AttentionNetwork:
    """UA-3 on [-1.95, 1.95] with sentinels of value 0: wrong beyond the last anchors alone, which is near the ends."""
    net = truncated_linear_heads([1.0], np.zeros(n), -1.95, 1.95, (-2, 2), H=8)
    (layer,) = net.network.layers
    assert isinstance(layer, Attention)
    heads = list(layer.heads)
    for head, token in ((0, 0), (-1, n - 1)):
        W_V = heads[head].W_V.copy()
        W_V[2 + token] = 0.0
        heads[head] = dataclasses.replace(heads[head], W_V=W_V)
    changed = AttentionNetwork(dataclasses.replace(net.network, layers=(Attention(layer.coordinates, tuple(heads)),)))
    changed.about = net.about
    return changed


def _signs(found: Diagnosis) -> tuple[bool, bool, bool | None]:
    return found.uniform_attention, found.drift, found.end_artefacts


def _check(name: str, found: Diagnosis) -> Check:
    right = _signs(found) == _EXPECTED[name]
    status: Outcome = "MEASURED" if right else "FAILED"
    reason = None if right else f"uniform, drift, ends: {_signs(found)}, not {_EXPECTED[name]}"
    entropy = max(head.entropy for head in found.heads)
    notes = tuple(line.strip() for line in repr(found).splitlines()[:1])
    chosen = {"error at the ends": found.error_at_ends or 0.0, "error inside": found.error_inside or 0.0}
    return Check(name, status, None, entropy, norm="entropy / ln(keys)", chosen=chosen, notes=notes, reason=reason)
