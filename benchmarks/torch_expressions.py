"""Torch expressions from torch's own tables and by hand, compiled: each is what torch computes, or is refused.

python torch_expressions.py                     all of them: a table of what came out, and whatever is wrong
python torch_expressions.py --every 10          every tenth only
python torch_expressions.py --write FILE        the same as JSON

An expression is a function of 4 tokens with 3 features, all of whose results are put in a line. It is compiled with
tol = 1e-2 in float64 and compared with torch at 64 inputs: random ones and corners of its box. The difference must be
at most the certificate's bound, and what torch's own float64 numbers may be off by: 2^-44 of the largest of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.torch_zoo.torch_expressions import EXPRESSIONS, module_expressions
from support.torch_zoo.torch_table import BOXES, FEATURES, TOKENS, in_a_line, table_expressions

import weightwright as ww
from weightwright.errors import WeightwrightError
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
    except WeightwrightError as error:
        return f"refused: {type(error).__name__}"
    except Exception as error:
        return f"WRONG: {type(error).__name__}: {error}"
    rng = np.random.default_rng(5)
    x = rng.uniform(*box, (INPUTS, TOKENS, FEATURES))
    x[: INPUTS // 4] = rng.choice(box, x[: INPUTS // 4].shape)
    assert net.certificate is not None
    for inputs in torch.tensor(x):
        expected = torch.as_tensor(run(function, (inputs,))).detach().double()
        error = float((net(inputs) - expected).abs().max())
        if not error <= net.certificate.bound + OWN_ROUNDING * float(expected.abs().max()):
            return f"WRONG: off by {error:.3g}, bound {net.certificate.bound:.3g}"
    return "right" if net.certificate.status == "PROVEN" else f"WRONG: {net.certificate.status}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="take every n-th expression")
    parser.add_argument("--write", type=Path, help="where the JSON goes")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    judged = {}
    for name, (function, box) in list(all_expressions().items())[:: asked.every]:
        judged[name] = compile_and_compare(function, box)
        if judged[name].startswith("WRONG"):
            print(f"{name}: {judged[name]}", flush=True)
    counts = Counter(found if not found.startswith("WRONG") else "WRONG" for found in judged.values())
    for found, count in sorted(counts.items()):
        print(f"{count:6d}  {found}")
    if asked.write is not None:
        right = sorted(name for name, found in judged.items() if found == "right")
        wrong = {name: found for name, found in judged.items() if found.startswith("WRONG")}
        asked.write.write_text(json.dumps({"counts": dict(counts), "right": right, "wrong": wrong}, indent=1) + "\n")


if __name__ == "__main__":
    main()
