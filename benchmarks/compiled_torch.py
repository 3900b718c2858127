"""Torch expressions from torch's own tables and by hand, compiled: each is what torch computes, or is refused.

python compiled_torch.py                     all of them: a table of what came out, and whatever is wrong
python compiled_torch.py --every 10          every tenth only
python compiled_torch.py --write FILE        the same as JSON

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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.torch_zoo.compiled_expressions import all_expressions, compile_and_compare


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
