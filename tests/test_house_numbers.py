"""What makes the source hard to read does not grow: density, matrices, heads, kinds, bare counts, long functions."""

from __future__ import annotations

import ast
from pathlib import Path

import house_numbers
import pytest


def test_no_measure_grows() -> None:
    """The places that one counts: python benchmarks/house_numbers.py MEASURE."""
    measures = house_numbers.measure_all()
    assert set(measures) == set(house_numbers.CEILINGS)
    assert {name: value for name, value in measures.items() if value > house_numbers.CEILINGS[name]} == {}


#: Sources that avoid the usual word for what is counted, and how often it is.
HIDDEN = {
    "heads": (
        "from weightwright.network import Head as H\nA = H\nH(1)\nA(2)\nfrom functools import partial\npartial(A)",
        3,
    ),
    "weights": ("def f(x):\n    return x.W_Q", 1),
    "kinds": (
        "isinstance(x, Composite)\ntype(x) is MemoryClaim\ntype(x).__name__ == 'LoopClaim'\nx.kind == 'loop'\n"
        "issubclass(x, (int, Claim))\nmatch x:\n    case PromptClaim():\n        pass",
        6,
    ),
    "literals": ("gamma(n + 8)\nabove(x, 4 * n)\ngamma(n)\nabove(x, n + 1)", 2),
    "long": ("def f():\n" + "    x = 1\n" * 51, 1),
}


@pytest.mark.parametrize("measure", HIDDEN)
def test_another_name_counts_like_the_thing(measure: str, tmp_path: Path) -> None:
    text, count = HIDDEN[measure]
    path = tmp_path / "hidden.py"
    path.write_text(text)
    assert len(list(house_numbers.COUNTS[measure][0](path))) == count


def test_packed_lines_are_denser() -> None:
    loose, packed = ast.parse("x = 1\ny = 2"), ast.parse("x = 1; y = 2")
    assert house_numbers.count_nodes(loose) == house_numbers.count_nodes(packed) > 0
