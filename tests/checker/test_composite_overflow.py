"""Networks of several layers whose numbers overflow, underflow or are none; most were once PROVEN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.forging import about_composite, affine, named, refused, save_forged
from support.networks import attending, by_hand, linear

import weightwright as ww

HALF_OPEN = ww.Box(np.array([-1.0]), np.array([1.0]))
DTYPES = ("float64", "float32", "bfloat16")


def lin(name: str, factor: float) -> Any:
    return linear((name,), [[factor]])


def chain(path: Path, factors: tuple[float, ...], dtype: str) -> None:
    """Two tokens of one number, times all factors one after the other; said to be the numbers themselves."""
    embed, *layers, read = (linear(("x",), [[factor]]) for factor in factors)
    network = by_hand(("x",), embed, tuple(layers), read, tokens=2, dtype=dtype)
    save_forged(*about_composite(network, affine(np.eye(2)), ww.Box([-1], [1]), (0.1, 0.1, 0.1), masked=True), path)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_overflows_on_the_way_is_refused(tmp_path: Path, dtype: str) -> None:
    """In exact arithmetic the last output is the input; computed it is infinite."""
    path = tmp_path / "net.safetensors"
    chain(path, (2.0, 1.0, 0.5), dtype)
    assert ww.check(path).status == "PROVEN"
    chain(path, (2.0**100, 2.0**100, 2.0**-100, 2.0**-100), dtype)
    with pytest.raises(ww.CertificateError, match="overflow"):
        ww.check(path)


def test_a_form_that_overflows_is_refused(tmp_path: Path) -> None:
    """Powers of two keep every radius and every error at 0, also where the number is infinite."""
    path = tmp_path / "net.safetensors"
    chain(path, (2.0**600, 2.0**600, 1.0), "float64")
    with pytest.raises(ww.CertificateError, match="overflow"):
        ww.check(path)


def test_a_nan_is_no_small_number(tmp_path: Path) -> None:
    tiny = ww.Box(np.array([-(2.0**-600)]), np.array([2.0**-600]))
    net = by_hand(("x",), lin("y", 2.0**600), (lin("z", 2.0**600),), lin("o", 1.0), tokens=1)
    refused(*about_composite(net, affine([[0.0]]), tiny), tmp_path, "overflow|bounded")
    wide = ww.Box(np.array([[9.0], [9.0]]), np.array([[10.0], [10.0]]))
    net = by_hand(("x",), lin("y", 0.0), (), lin("o", 1.0), tokens=2)
    refused(*about_composite(net, affine([[1e308, -1e308], [1e308, -1e308]]), wide), tmp_path, "bounded")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numbers_that_overflow_in_the_dtype(dtype: str, tmp_path: Path) -> None:
    box = ww.Box(np.array([1.0]), np.array([2.0**30]))
    net = by_hand(("x",), lin("y", 2.0**100), (), lin("o", 2.0**-100), tokens=1, dtype=dtype)
    refused(*about_composite(net, affine([[1.0]]), box, (0.0, 0.0, 2.0**25)), tmp_path, "overflow")


def test_coefficients_that_underflow(tmp_path: Path) -> None:
    box = ww.Box(np.array([2.0**699]), np.array([2.0**700]))
    down, up = 2.0**-600, 2.0**600
    layers = (lin("b", down), lin("c", up), lin("d", up))
    net = by_hand(("x",), lin("a", down), layers, lin("o", 1.0), tokens=1)
    refused(*about_composite(net, affine([[0.0]]), box, (0.0, 0.0, 2.0**655)), tmp_path, "overflow")


@pytest.mark.parametrize(
    ("dtype", "beta", "query", "key"),
    [("float64", 2.0**1000, 2.0**90, 2.0**-1000), ("float32", 2.0**70, 2.0**70, 2.0**-100)],
)
def test_queries_that_overflow_before_they_meet_a_key(
    dtype: str, beta: float, query: float, key: float, tmp_path: Path
) -> None:
    names = ("x", "q", "k", "out")
    C, A = np.array([[0.0, query, key, 0.0]]), np.eye(1, 4)
    layer = attending(names, named(names, q=1), named(names, k=1), named(names, x=1), np.eye(4)[[3]], beta)
    net = by_hand(("x",), linear(names, A, C), (layer,), ("out",), tokens=1, dtype=dtype)
    refused(*about_composite(net, affine([[1.0]]), HALF_OPEN, (0.0, 1e-300, 2.0**-10)), tmp_path, "overflow")
