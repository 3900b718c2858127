"""Deep modules with random weights: ranges that grow from layer to layer, the same for compiler and checker."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn

import weightwright as ww
from weightwright.compiler import attempts

ACTIVATIONS = {"GELU": nn.GELU, "SiLU": nn.SiLU}
TOL = 1e-2
FAST = [("GELU", 16, 4, 0)]
SLOW = [
    ("GELU", 64, 5, 0),
    ("SiLU", 64, 6, 0),
    ("GELU", 32, 8, 0),
    *[("GELU", 64, layers, seed) for layers in (5, 6, 7, 8) for seed in (1, 2)],
    *[("SiLU", 64, layers, seed) for layers in (5, 6) for seed in (1, 2)],
    *[("GELU", 32, 8, seed) for seed in (1, 2)],
]


def multilayer(activation: str, width: int, layers: int, seed: int) -> nn.Sequential:
    """8 inputs, hidden layers of one width, 4 outputs, with the weights that torch draws."""
    torch.manual_seed(seed)
    sizes = [8, *[width] * layers]
    hidden = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), ACTIVATIONS[activation]())]
    return nn.Sequential(*hidden, nn.Linear(width, 4))


@pytest.mark.parametrize(
    ("activation", "width", "layers", "seed"),
    [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
)
def test_deep_modules_are_proven(activation: str, width: int, layers: int, seed: int) -> None:
    """The checker's range of a query left the table's by 0.02% to 0.5%, at every tolerance."""
    module = multilayer(activation, width, layers, seed)
    net = ww.compile(module, (-1, 1), TOL)
    assert net.check().status == "PROVEN"
    assert net.certificate is not None
    x = 2 * torch.rand(500, 8, dtype=torch.float64) - 1
    x[::2] = x[::2].sign()  # corners of the domain
    with torch.no_grad():
        assert (net(x) - module.double()(x)).abs().max() <= net.certificate.bound <= TOL


def test_every_refusal_makes_tables_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the checker never agrees, all attempts are other networks, and each of its ranges wider than the last."""
    reaches: list[list[tuple[float, float]]] = []

    def refuse(lowered: attempts.Lowered, *_: object) -> ww.AttentionNetwork:
        parts = lowered.parts.values()
        ends = [
            (p.query.centre + p.claim.lo / p.query.scale, p.query.centre + p.claim.hi / p.query.scale) for p in parts
        ]
        reaches.append(ends)
        raise ww.ToleranceError("no")

    monkeypatch.setattr(
        "weightwright.compiler.compile.certify_graph", lambda graph, asked, _: certify(graph, asked, refuse)
    )
    certify = attempts.certify_graph
    with pytest.raises(ww.ToleranceError, match="no"):
        ww.compile(multilayer("GELU", 8, 2, 0), (-1, 1), TOL)
    assert len(reaches) == 2 * attempts.ATTEMPTS
    checked = reaches[attempts.ATTEMPTS :]
    for narrow, wide in zip(checked[:1], checked[2:], strict=True):
        assert all(b[0] < a[0] and a[1] < b[1] for a, b in zip(narrow, wide, strict=True))
