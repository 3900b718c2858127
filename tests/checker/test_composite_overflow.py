"""The checker of networks of several layers is given numbers that overflow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weightwright as ww
from weightwright.claims.certificate import Certificate, Terms, assumptions
from weightwright.claims.files import network_digest, write
from weightwright.claims.target import MASKED, Composite, RidgeFunctions, composite_in_words
from weightwright.network import Linear, Network, Term

DTYPES = ("float64", "float32", "bfloat16")


def chain(path: Path, factors: tuple[float, ...], dtype: str) -> None:
    """Two tokens of one number, times all factors one after the other; said to be the numbers themselves."""
    embed, *layers, read = (Linear(("x",), (Term(np.array([[factor]])),), np.zeros((1, 1))) for factor in factors)
    network = Network(("x",), embed, np.zeros((0, 1)), tuple(layers), read, tokens=2, dtype=dtype)
    composite = Composite(RidgeFunctions((), np.zeros((0, 2)), np.zeros(0), np.eye(2), np.zeros(2)), ())
    terms = Terms(0.1, 0.1, 0.1)
    said = (*assumptions(dtype, "dot"), MASKED)
    certificate = Certificate(
        composite_in_words(composite),
        ww.Box([-1], [1]),
        dtype,
        "dot",
        0.4,
        terms,
        (),
        network_digest(network),
        said,
        composite=composite,
    )
    write(path, network, certificate)


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
