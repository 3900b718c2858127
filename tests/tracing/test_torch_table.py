"""Every expression of torch traces to what torch computes, or is refused by us. None is wrong, none crashes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from support.graphs import graph_outputs
from support.torch_zoo.compiled_expressions import all_expressions, compile_and_compare
from support.torch_zoo.torch_expressions import EXPRESSIONS, module_expressions
from support.torch_zoo.torch_table import BOXES, FEATURES, TOKENS, in_a_line, table_expressions

import weightwright as ww
from weightwright.tracing.following.traced_function import trace_function
from weightwright.tracing.guard.confirm import confirm_function
from weightwright.tracing.running import run

Function = Callable[[Any], Any]
#: Far beyond what thresholds and saturations of torch's functions are.
WIDE = (-60.0, 60.0)
TABLE = table_expressions()
MODULES = module_expressions()


def judge(function: Function, box: tuple[float, float], tokens: int | None = TOKENS) -> str:
    """ "right", "refused", "torch's own error", or what is wrong."""
    lo, hi = ([end] * FEATURES for end in box)
    if not _runs(function, box):
        return "torch's own error"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            graph = trace_function(function, FEATURES, tokens)
            confirm_function(function, graph, ww.Box(lo, hi))
        except ww.WeightwrightError:
            return "refused"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return compare(function, graph, box)


def _runs(function: Function, box: tuple[float, float]) -> bool:
    try:
        run(function, (torch.full((TOKENS, FEATURES), box[1] / 2, dtype=torch.float64),))
    except Exception:
        return False
    return True


def compare(function: Function, graph: Any, box: tuple[float, float]) -> str:
    """Without the guard's own bounds, at inputs that it has not seen."""
    x = np.random.default_rng(7).uniform(*box, (6, graph.tokens or TOKENS, FEATURES))
    with np.errstate(all="ignore"):
        found = graph_outputs(graph, x)
    for inputs, outputs in zip(x, found, strict=True):
        expected = torch.as_tensor(run(function, (torch.tensor(inputs),))).double().detach().numpy()
        if expected.shape == (len(outputs),) and outputs.shape[1] == 1:
            expected = expected[:, None]
        known = np.isfinite(outputs)
        size = np.abs(outputs[known]).max(initial=1.0)
        if not np.allclose(
            np.broadcast_to(expected, outputs.shape)[known], outputs[known], rtol=1e-9, atol=1e-12 * size
        ):
            return f"wrong: {expected} and not {outputs} at {inputs}"
    return "right"


def wrong_ones(judged: dict[str, str]) -> dict[str, str]:
    return {name: found for name, found in judged.items() if found not in ("right", "refused", "torch's own error")}


@pytest.mark.parametrize(("part", "of"), [(0, 8), *(pytest.param(k, 8, marks=pytest.mark.slow) for k in range(1, 8))])
def test_functions_of_torchs_table(part: int, of: int) -> None:
    chosen = list(TABLE.items())[part::of]
    judged = {name: judge(function, box) for name, (function, box) in chosen}
    assert len(chosen) > 1200 / of
    assert sum(found == "right" for found in judged.values()) > 400 / of
    assert not wrong_ones(judged)


def test_functions_of_torchs_table_far_out() -> None:
    judged = {name: judge(function, WIDE) for name, (function, _) in TABLE.items() if "nn.functional" in name}
    assert not wrong_ones(judged)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["cast", "in place", "norm", "trick"])
def test_expressions_by_hand(kind: str) -> None:
    chosen = {name: function for name, function in EXPRESSIONS.items() if name.startswith(kind)}
    judged = {name: judge(lambda x, f=function: in_a_line(f(x)), BOXES[1]) for name, function in chosen.items()}
    assert len(chosen) > 60
    assert sum(found == "right" for found in judged.values()) > 10
    assert not wrong_ones(judged)


@pytest.mark.slow
def test_modules_in_train_and_eval_mode() -> None:
    judged = {
        f"{name} on {tokens} tokens": judge(module, BOXES[1], tokens)
        for name, module in MODULES.items()
        for tokens in (None, TOKENS)
    }
    assert len(MODULES) > 80
    assert sum(found == "right" for found in judged.values()) > 60
    assert not wrong_ones(judged)


@pytest.mark.slow
def test_a_sample_is_compiled_within_its_bound() -> None:
    chosen = list(all_expressions().items())[::30]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        judged = {name: compile_and_compare(function, box) for name, (function, box) in chosen}
    assert sum(found == "right" for found in judged.values()) > 15
    assert not [name for name, found in judged.items() if found.startswith("WRONG")]


def test_what_is_right_says_so_of_any_number_of_tokens() -> None:
    assert judge(lambda x: torch.tanh(x) * x, BOXES[1], None) == "right"
    assert judge(lambda x: x - x.mean(0), BOXES[1], None) == "refused"
    with pytest.raises(ww.UnsupportedOperation):
        ww.compile(lambda x: x.float(), (-1, 1), 1e-3)
