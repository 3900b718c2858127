"""How far a reader walks through the package to follow one call.

python walks.py                a table of three calls: approximate, compile and a fit of Ridge
python walks.py --json FILE    the same as JSON, with every function in the order of the first calls

A function is a code object of a file inside the package: methods and nested functions count; lambdas,
comprehensions, module-level code and generated code (such as the __init__ of a data class) do not. The walk
is the sequence of distinct functions in the order of their first calls; a change of file or of room is
counted wherever two neighbours in it differ. A room is the folder of the file, whatever its depth:
`certificates/checker` is another room than `certificates`, and the files that lie directly in the package
are one room.

Every call has a process of its own, in which all modules are imported before. With these definitions the
commit before the rooms were renamed (04f2610) has 535 functions, 74 files and 90 changes of room for compile,
and 501, 71 and 85 for Ridge, as an earlier review counted them.
"""

from __future__ import annotations

import argparse
import json
import pkgutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import weightwright as ww

PACKAGE = Path(ww.__file__).parent
#: Functions whose calls are counted, by name: the parser, and the checker of one layer.
COUNTED = ("parse", "layer_holds")

Call = Callable[[], Any]
#: File, name and first line: two functions of one text in two files are two.
Key = tuple[str, str, int]


def approximate_sine() -> Call:
    return lambda: ww.approximate("sin(5*x)", domain=(-1, 1), tol=1e-8)


def compile_product() -> Call:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x[..., :1]) * x[..., 1:]

    return lambda: ww.compile(function, domain=ww.Box([-1, -1], [1, 1]), tol=1e-6)


def fit_ridge() -> Call:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    ridge = ww.incontext.Ridge
    return lambda: ridge().fit(X, y)


CALLS: dict[str, Callable[[], Call]] = {
    "approximate sin(5*x)": approximate_sine,
    "compile sin(a) b": compile_product,
    "Ridge().fit, diabetes": fit_ridge,
}


def import_all() -> None:
    """Every module of the package that can be imported here: some need other packages."""
    for module in pkgutil.walk_packages([str(PACKAGE)], "weightwright."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):
                import_module(module.name)


def trace(call: Call) -> Counter[Key]:
    """How often each function of the package is called, in the order of the first calls."""
    counts: Counter[Key] = Counter()
    inside = str(PACKAGE) + "/"

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(inside) and not code.co_name.startswith("<"):
            counts[code.co_filename, code.co_qualname, code.co_firstlineno] += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return counts


def describe(counts: Counter[Key], counted: Sequence[str]) -> dict[str, Any]:
    """The numbers of one walk. Generators count once for every time that they go on."""
    files = [Path(file).relative_to(PACKAGE) for file, _, _ in counts]
    calls = {
        name: sum(count for (_, function, _), count in counts.items() if function.split(".")[-1] == name)
        for name in counted
    }
    return {
        "functions": len(counts),
        "files": len(set(files)),
        "changes of file": count_changes(files),
        "changes of room": count_changes([file.parent for file in files]),
        "calls": calls,
        "order": [f"{file}: {key[1]}" for file, key in zip(files, counts, strict=True)],
    }


def count_changes(sequence: Sequence[Any]) -> int:
    """
    >>> count_changes("aabba")
    2
    """
    return sum(one != other for one, other in pairwise(sequence))


def walk_alone(name: str, counted: Sequence[str]) -> dict[str, Any]:
    """The walk of one call, in a process of its own."""
    command = [sys.executable, __file__, "--one", name, "--count", *counted]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def walk_here(name: str, counted: Sequence[str]) -> dict[str, Any]:
    torch.set_num_threads(1)
    import_all()
    return describe(trace(CALLS[name]()), counted)


def print_table(walks: dict[str, dict[str, Any]], counted: Sequence[str]) -> None:
    numbers = ("functions", "files", "changes of file", "changes of room")
    print(f"| {' | '.join(['call', *numbers, *(f'calls of {name}' for name in counted)])} |")
    print("|---" * (1 + len(numbers) + len(counted)) + "|")
    for name, walk in walks.items():
        cells = [name, *(walk[what] for what in numbers), *(walk["calls"][function] for function in counted)]
        print(f"| {' | '.join(map(str, cells))} |")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--json", metavar="FILE", help="write everything there")
    asked.add_argument("--count", nargs="*", default=COUNTED, metavar="NAME", help="functions to count calls of")
    asked.add_argument("--one", choices=CALLS, help="one walk, here, as JSON: what the processes run")
    given = asked.parse_args()
    if given.one:
        print(json.dumps(walk_here(given.one, given.count)))
        return
    walks = {name: walk_alone(name, given.count) for name in CALLS}
    print_table(walks, given.count)
    if given.json:
        Path(given.json).write_text(json.dumps(walks, indent=1) + "\n")


if __name__ == "__main__":
    main()
