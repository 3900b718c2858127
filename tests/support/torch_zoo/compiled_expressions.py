"""Torch expressions, compiled and compared with torch itself at inputs that the compiler has not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from support.torch_zoo.torch_expressions import EXPRESSIONS, module_expressions
from support.torch_zoo.torch_table import BOXES, FEATURES, TOKENS, in_a_line, table_expressions

import weightwright as ww
from weightwright.tracing.running import run

TOL, INPUTS = 1e-2, 64
#: Of the largest number: what torch's own result may be off by.
OWN_ROUNDING = 2.0**-44


def all_expressions() -> dict[str, tuple[Callable[[Any], Any], tuple[float, float]]]:
    """Those that torch itself runs on their box."""
    by_hand = {**EXPRESSIONS, **{f"module: {name}": module for name, module in module_expressions().items()}}
    lined = {name: (_in_a_line(function), BOXES[1]) for name, function in by_hand.items()}
    return {name: one for name, one in {**table_expressions(), **lined}.items() if _runs(*one)}


def _in_a_line(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: in_a_line(function(x))


def _runs(function: Callable[[Any], Any], box: tuple[float, float]) -> bool:
    try:
        run(function, (torch.full((TOKENS, FEATURES), box[1] / 2, dtype=torch.float64),))
    except Exception:  # whatever torch raises
        return False
    return True


def compile_and_compare(function: Callable[[Any], Any], box: tuple[float, float]) -> str:
    """ "right", "refused: ERROR", or what is wrong."""
    try:
        net = ww.compile(function, ww.Box([box[0]] * FEATURES, [box[1]] * FEATURES), TOL, tokens=TOKENS)
    except ww.WeightwrightError as error:
        return f"refused: {type(error).__name__}"
    except Exception as error:
        return f"WRONG: {type(error).__name__}: {error}"
    rng = np.random.default_rng(5)
    x = rng.uniform(*box, (INPUTS, TOKENS, FEATURES))
    x[: INPUTS // 4] = rng.choice(box, x[: INPUTS // 4].shape)
    assert net.certificate is not None
    for inputs in torch.tensor(x):
        expected = torch.as_tensor(run(function, (inputs,))).detach().double()
        found = net(inputs)  # (tokens, outputs)
        expected = expected[:, None] if expected.shape == (TOKENS,) and found.shape[1] == 1 else expected
        error = float((found - expected).abs().max())
        if not error <= net.certificate.bound + OWN_ROUNDING * float(expected.abs().max()):
            return f"WRONG: off by {error:.3g}, bound {net.certificate.bound:.3g}"
    return "right" if net.certificate.status == "PROVEN" else f"WRONG: {net.certificate.status}"
