"""Networks built to show in which order sums are taken: every order must be within the bound, or there is no bound.

M + x - M is x or 0, by the order; what follows makes as much of that as it can. (Networks that tell apart the machines
they run on: "No Soundness in the Real World", arXiv 2506.01054.)
"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx
from support.forging import about_composite, affine, refused
from support.networks import by_hand, linear
from support.one_head import one_table

import weightwright as ww
from weightwright.certify import certify
from weightwright.checker.one_layer.head import examine
from weightwright.checker.one_layer.stored import read_one_layer
from weightwright.expressions import parse
from weightwright.heads.registers import Query, Table
from weightwright.numbers import UNIT
from weightwright.prover import Sum, first_edges, prove

BOX = ww.Box([0.25], [0.375])
NAMES = ("large", "x", "minus large")


def detector(order: tuple[int, ...], dtype: str, gain: float) -> Any:
    """gain (M + x - M), the three numbers standing in this order; M + x is M in the dtype that sums are kept in."""
    M, names = 1 / UNIT["float32" if dtype == "bfloat16" else dtype], tuple(NAMES[i] for i in order)
    A, C = np.zeros((1, 3)), np.zeros((1, 3))
    A[0, names.index("x")] = 1.0
    C[0, names.index("large")], C[0, names.index("minus large")] = M, -M
    added = linear(("sum",), np.ones((3, 1)))
    read = linear(("y",), [[gain]])
    return by_hand(("x",), linear(names, A, C), (added,), read, tokens=1, dtype=dtype)


@pytest.mark.parametrize("gain", [1.0, 2.0**20])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_a_linear_map_that_tells_the_order(tmp_path: Path, dtype: str, gain: float) -> None:
    found = []
    for order in permutations(range(3)):
        net = certify(detector(order, dtype, gain), affine([[gain]]), BOX)
        assert net.certificate is not None
        x = torch.linspace(0.25, 0.375, 4096).to(net.dtype)[:, None, None]
        for batch in (1, 7, 4096):
            y = net(x[:batch])
            error = float((y.double() - gain * x[:batch].double()).abs().max())
            assert error <= net.certificate.bound
            found.append(error)
    assert min(found) == 0.0, "no order is right: this is no detector"
    assert max(found) >= 0.25 * gain, "no order is wrong: this is no detector"
    network, claim = detector((0, 1, 2), dtype, gain), affine([[gain]])
    refused(*about_composite(network, claim, BOX, (0.0, 0.0, 0.25 * gain), masked=True), tmp_path, "rounding")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_head_that_tells_the_order(dtype: str) -> None:
    """Equal weights on the values M, 1, -M: the mean is 1/3, or 0, by the order of the registers."""
    M, found, bounds = 4 / UNIT[dtype], [], []
    formula = parse("1/3", ("s",))
    for order in permutations((M, 1.0, -M)):
        table = Table(np.zeros(3), np.zeros(3), np.array(order))
        network = one_table(table, dtype=dtype)
        layer = Sum((table.anchors(Query(0.0, 1.0)),))
        proposed = prove(layer, formula, first_edges(layer, -1.0, 1.0), dtype, target=np.inf).terms.rounding
        with ctx.workprec(128):
            shown = examine(read_one_layer(network).heads, arb(0), formula, arb(-1), arb(1)).rounding
        net = ww.AttentionNetwork(network)
        y = net(torch.linspace(-1, 1, 100).to(net.dtype)[:, None])
        found.append(float((y.double() - 1 / 3).abs().max()))
        bounds.append(min(proposed, float(shown)))
    assert max(found) <= min(bounds)
    assert max(found) >= 1 / 3, "no order is wrong: this is no detector"
