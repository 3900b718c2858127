"""The search finds what is wrong, and nothing where nothing is."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import weightwright as ww


def test_the_search_comes_near_a_tight_bound(sine: ww.AttentionNetwork) -> None:
    found = ww.search(sine, seconds=0.2)
    assert not found.violated
    assert 0.8 * found.bound <= found.error <= found.bound == sine.certificate.bound
    assert found.inputs > 5_000
    assert abs(found.x) <= 1


@pytest.mark.parametrize(("where", "by"), [(4, 1e-5), (3, 1e-6), (2, 1e-6)])
def test_a_broken_network_is_found_out(sine: ww.AttentionNetwork, where: int, by: float) -> None:
    registers = np.array(sine.network.registers)
    registers[len(registers) // 2, where] += by
    broken = dataclasses.replace(sine.network, registers=registers)
    said = dataclasses.replace(sine.certificate, network=ww.AttentionNetwork(broken).digest())
    assert ww.search(ww.AttentionNetwork(broken, said), seconds=0.05).violated


def test_a_single_bad_end_is_found(sine: ww.AttentionNetwork) -> None:
    """A certificate that claims too much domain is wrong just beyond the old end, and nowhere else."""
    wider = dataclasses.replace(sine.certificate, domain=ww.Box(-1, 1.01))
    found = ww.search(ww.AttentionNetwork(sine.network, wider), seconds=0.05)
    assert found.violated
    assert found.x > 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_dtypes(dtype: torch.dtype) -> None:
    net = ww.approximate("x", (-1, 1), 0.5, dtype=dtype)
    found = ww.search(net, seconds=0.05)
    assert not found.violated
    assert torch.tensor(found.x, dtype=dtype).item() == found.x


def test_same_seed_same_start(sine: ww.AttentionNetwork) -> None:
    one, two = (ww.search(sine, seconds=0, seed=3) for _ in range(2))
    assert (one.x, one.error, one.inputs) == (two.x, two.error, two.inputs)


def test_what_cannot_be_searched(sine: ww.AttentionNetwork) -> None:
    with pytest.raises(ww.WeightwrightError, match="no formula"):
        ww.search(ww.AttentionNetwork(sine.network))
    with pytest.raises(ValueError, match=r"seconds must be .* not -1"):
        ww.search(sine, seconds=-1)
