"""Arguments that are wrong, in Python: the message names the argument and the value, and says what to write."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import weightwright as ww

PAIR = (
    "domain: a pair (lo, hi) or a Box was expected, not {!r}; write (-1, 1), or Box([-1, 0], [1, 2]) for two features"
)


@pytest.mark.parametrize("domain", ["-1 1", "[-1,1]", "01", {-1, 1}, (0,), (0, 1, 2), None, 5, ()])
def test_a_domain_that_is_no_pair(domain: Any) -> None:
    with pytest.raises(ww.DomainError) as caught:
        ww.approximate("x", domain, 1e-3)
    assert str(caught.value) == PAIR.format(domain)


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        ((1, -1), "lo must be below hi, but feature 0 has lo = 1.0 and hi = -1.0"),
        ((1, 1), "lo must be below hi, but feature 0 has lo = 1.0 and hi = 1.0"),
        (((-1, 1), (-2, 2)), "for an interval for each feature write Box([-1.0, -2.0], [1.0, 2.0])"),
        ((-math.inf, 1), "lo must be a finite number, not -inf"),
        ((0, math.nan), "hi must be a finite number, not nan"),
        (
            (0, "a"),
            "hi must be a finite number, not 'a'; as a text it may be a decimal, a fraction or a multiple of pi",
        ),
        ((0, "1/0"), "hi must be a finite number, not '1/0'"),
        ((0, ""), "hi must be a finite number, not ''"),
    ],
)
def test_a_domain_that_is_no_interval(domain: Any, message: str) -> None:
    with pytest.raises(ww.DomainError) as caught:
        ww.approximate("x", domain, 1e-3)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["pi", "-pi", "2*pi", "2pi", "pi/3", "-3*pi/7", "e", "-e/2", "1/3", "-2/7", "+0.1"])
def test_ends_that_are_texts_are_rounded_outward(text: str) -> None:
    from flint import arb, ctx

    ctx.prec = 200
    sign, plain = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    factor, divisor = (plain.replace("*", "").partition("/")[i] or "1" for i in (0, 2))
    constant = arb.pi() if "pi" in factor else arb(1).exp() if "e" in factor else arb(1)
    number = Fraction(factor.strip("pie") or "1") / Fraction(divisor) * sign
    exact = constant * arb(number.numerator) / arb(number.denominator)
    lo, hi = ww.Box(text, 100).lo[0], ww.Box(-100, text).hi[0]
    assert arb(float(lo)) < exact < arb(float(hi))
    assert float(hi) == math.nextafter(float(lo), math.inf)


@pytest.mark.parametrize("tol", [0, -1, math.nan, math.inf, "1e-3", None, True, [1e-3]])
def test_a_tolerance_that_is_none(tol: Any) -> None:
    for build in (lambda: ww.approximate("x", (-1, 1), tol), lambda: ww.compile(nn.Tanh(), (-1, 1), tol)):
        with pytest.raises(ValueError, match="tol must be a positive finite number, not ") as caught:
            build()
        assert str(caught.value).endswith(repr(tol))


def test_a_tolerance_of_numpy_is_one() -> None:
    net = ww.approximate("x", (-1, 1), np.float32(0.5))
    assert net.certificate is not None
    assert net.certificate.bound <= 0.5


@pytest.mark.parametrize(
    ("dtype", "meant"),
    [("double", "float64"), (float, "float64"), (np.float32, "float32"), ("fp32", "float32"), ("half", "bfloat16"),
     (torch.float16, "bfloat16"), ("bf16", "bfloat16")],
)  # fmt: skip
def test_a_dtype_by_another_name(dtype: Any, meant: str) -> None:
    with pytest.raises(ValueError, match=r"dtype must be .* or .*, not ") as caught:
        ww.approximate("x", (-1, 1), 1e-3, dtype=dtype)
    assert str(caught.value).endswith(f"not {dtype!r}; write dtype={meant!r}")


def test_dtypes_may_be_texts() -> None:
    for dtype in ("float32", "torch.float32", np.dtype("float32")):
        assert ww.approximate("x", (-1, 1), 0.5, dtype=dtype).dtype is torch.float32


@pytest.mark.parametrize("build", [ww.approximate, ww.compile])
@pytest.mark.parametrize("kind", [nn.Linear, nn.Tanh, nn.Sequential, nn.TransformerEncoderLayer])
def test_a_class_is_no_module(build: Any, kind: type) -> None:
    with pytest.raises(
        ww.FormulaError, match=rf"^{kind.__name__} is a class: pass what it makes, {kind.__name__}\(\.\.\.\)$"
    ):
        build(kind, (-1, 1), 1e-3)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            nn.Sequential(nn.Linear(2, 1), nn.Dropout()),
            r"dropout in training mode .*; call .eval\(\) on the module first",
        ),
        (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), r"batch_norm in training mode .*call .eval\(\)"),
        ("sin(x)", "not 'sin(x)'; approximate takes formulas".replace("(", r"\(").replace(")", r"\)")),
        (nn.Linear(2, 1).state_dict(), "a function of a tensor or a torch module, not OrderedDict$"),
    ],
)
def test_what_compile_cannot_take(function: Any, message: str) -> None:
    with pytest.raises((ww.UnsupportedOperation, ValueError), match=message):
        ww.compile(function, (-1, 1), 1e-3)


def test_compile_looks_at_on_domain_before_the_work() -> None:
    with pytest.raises(ValueError, match="on_domain must be 'raise', 'clamp' or 'ignore', not 'clip'"):
        ww.compile(nn.Linear(2, 1), (-1, 1), 1e-3, on_domain="clip")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("f", "domain", "message"),
    [
        (lambda x, y: x * y, (-1, 1), "f must take 1 tensor, x, one for each feature of the domain: missing"),
        (
            lambda x: x,
            ww.Box([0, 0], [1, 1]),
            "f must take 2 tensors, x, y, one for each feature of the domain: too many",
        ),
        (np.sin, (-1, 1), "makes a numpy array of its input; use the torch function of the same name"),
        (nn.Linear(1, 1), (-1, 1), "compile takes modules"),
    ],
)
def test_functions_that_approximate_cannot_take(f: Any, domain: Any, message: str) -> None:
    with pytest.raises((ww.FormulaError, ww.UnsupportedOperation), match=message):
        ww.approximate(f, domain, 1e-3)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (0.5, "x must be a torch tensor, not float; torch.tensor(x) makes one"),
        (np.zeros((1, 1)), "x must be a torch tensor, not ndarray; torch.tensor(x) makes one"),
        (torch.zeros(3), "x must have shape (..., tokens, 1), not (3,); x.reshape(-1, 1) has it"),
        (torch.zeros(3, 2), "x must have shape (..., tokens, 1), not (3, 2)"),
    ],
)
def test_inputs_of_another_kind(sine: ww.AttentionNetwork, x: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        sine(x)
    assert str(caught.value) == message


@pytest.mark.parametrize("ask", [ww.check, ww.load])
def test_a_network_is_no_file(ask: Any, sine: ww.AttentionNetwork, tmp_path: Any) -> None:
    with pytest.raises(
        TypeError, match=r"path must be the name of a saved file, not Att.*; net.check\(\) checks a network"
    ):
        ask(sine)
    with pytest.raises(IsADirectoryError, match="is a folder, not a saved network"):
        ask(tmp_path)
    with pytest.raises(TypeError, match="net must be a network, as approximate, compile and load return one, not 'net"):
        ww.search("net.safetensors")  # type: ignore[arg-type]


@pytest.mark.parametrize("module", [ww, ww.incontext])
def test_python_can_suggest_the_nearest_name(module: Any) -> None:
    with pytest.raises(AttributeError) as caught:
        module.aproximate  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("aproximate", sys.modules[module.__name__])
