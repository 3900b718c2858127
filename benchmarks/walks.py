"""How far a reader walks through the package to follow one call.

python benchmarks/walks.py                a table of the `typical_calls`: functions, files, rooms, and changes of them
python benchmarks/walks.py --json FILE    the same as JSON, with every function in the order of the first calls
python benchmarks/walks.py --only "comp*" calls whose names are of this form

A function is a code object of a file inside the package: methods and nested functions count; lambdas,
comprehensions, module-level code and generated code (such as the __init__ of a data class) do not. The walk
is the sequence of distinct functions in the order of their first calls; a change of file or of room is
counted wherever two neighbours in it differ.

Rooms are frozen: they are the folders directly in the package at commit c206d83, and its files beside these, which are
one room. `ROOMS` says where each of them stands now, so that moving files makes no walk shorter. A file in a place that
the table does not name is an error: say there which room its code comes from.

Every call has a process of its own, in which all modules are imported and all it needs is made before, and which keeps
nothing on disk. At c206d83 itself, with these definitions, approximate has 362 functions, 161 changes of file and 85 of
room; compile of the module 667, 320 and 141; Ridge 676, 342 and 155; memorize 204, 103 and 56; the interpreter 423, 205
and 98; the check 250, 111 and 51.
"""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatch
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from typical_calls import CALLS, Call

import weightwright as ww

PACKAGE = Path(ww.__file__).parent
#: Functions whose calls are counted, by name: the parser, and the checker of one layer.
COUNTED = ("parse", "layer_holds")

#: File, name and first line: two functions of one text in two files are two.
Key = tuple[str, str, int]


#: The rooms of c206d83, and the folders and files that they are now; of several that hold a file the longest counts.
ROOMS: dict[str, tuple[str, ...]] = {
    "adversary": ("adversary", "papers/search_targets.py"),
    "approximation": ("approximation",),
    "checker": ("checker", "papers/checker"),
    "circuit": ("circuit",),
    "claims": ("claims", "papers/claims", "input_files.py"),
    "cli": ("cli", "papers/commands.py"),
    "compiler": ("compiler",),
    "enclosures": ("enclosures",),
    "estimators": ("estimators",),
    "experiments": ("experiments", "papers/experiments", "engines.py"),
    "export": ("export",),
    "expressions": ("expressions",),
    "heads": ("heads",),
    "incontext": ("incontext", "papers/evaluation"),
    "interpreter": ("interpreter",),
    "memory": ("memory",),
    "network": ("network",),
    "prover": ("prover", "papers/prover"),
    "report": ("report", "papers/pages"),
    "runtime": ("runtime", "loading.py"),
    "theorems": (
        "theorems", "papers/theorems", "papers/linear", "papers/grids", "papers/relu", "papers/descent",
        "papers/hopfield", "papers/instances", "papers/kit",
    ),
    "tracing": ("tracing",),
    "the files beside them": (
        "__init__.py", "all_cores.py", "box.py", "certify.py", "errors.py", "extensions.py", "kept.py", "limits.py",
        "numbers.py", "output_files.py", "progress.py", "recheck.py", "stopwatch.py", "papers/__init__.py",
        "papers/extension.py", "papers/theorems/constructions.py", "constructions.py",
    ),
}  # fmt: skip


def room_of(file: Path) -> str:
    """The room of c206d83 that a file belongs to. file: inside the package.

    >>> room_of(Path("papers/checker/grid.py")), room_of(Path("certify.py"))
    ('checker', 'the files beside them')
    """
    places = {place: room for room, places in ROOMS.items() for place in places}
    for place in (file, *file.parents):
        if place.as_posix() in places:
            return places[place.as_posix()]
    raise LookupError(f"{file} stands in no room: add its place to ROOMS in {Path(__file__).name}")


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
        "rooms": len(set(map(room_of, files))),
        "changes of room": count_changes(list(map(room_of, files))),
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
    environment = os.environ | {"WEIGHTWRIGHT_CACHE": "off"}
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def walk_here(name: str, counted: Sequence[str]) -> dict[str, Any]:
    torch.set_num_threads(1)
    import_all()
    call = CALLS[name]()
    return describe(trace(call), counted)


def print_table(walks: dict[str, dict[str, Any]], counted: Sequence[str]) -> None:
    numbers = ("functions", "files", "changes of file", "rooms", "changes of room")
    print(f"| {' | '.join(['call', *numbers, *(f'calls of {name}' for name in counted)])} |")
    print("|---" * (1 + len(numbers) + len(counted)) + "|")
    for name, walk in walks.items():
        cells = [name, *(walk[what] for what in numbers), *(walk["calls"][function] for function in counted)]
        print(f"| {' | '.join(map(str, cells))} |")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--json", metavar="FILE", help="write everything there")
    asked.add_argument("--only", default="*", metavar="PATTERN", help="calls whose names are of this form")
    asked.add_argument("--count", nargs="*", default=COUNTED, metavar="NAME", help="functions to count calls of")
    asked.add_argument("--one", choices=CALLS, help="one walk, here, as JSON: what the processes run")
    given = asked.parse_args()
    if given.one:
        print(json.dumps(walk_here(given.one, given.count)))
        return
    walks = {name: walk_alone(name, given.count) for name in CALLS if fnmatch(name, given.only)}
    print_table(walks, given.count)
    if given.json:
        Path(given.json).write_text(json.dumps(walks, indent=1) + "\n")


if __name__ == "__main__":
    main()
