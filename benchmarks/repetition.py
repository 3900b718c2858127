"""How often one call does the same work again: a network encoded, hashed and walked, a table read and examined.

python benchmarks/repetition.py                   a table of the `typical_calls`
python benchmarks/repetition.py --cases           totals over all `network_cases`: what building them does, and what
                                                  saving, checking, loading and looking at them does
python benchmarks/repetition.py --cases "MLP*"    the same over the cases whose names are of this form
python benchmarks/repetition.py --only "comp*"    typical calls whose names are of this form

Functions are replaced by ones that count, wherever a module of the package holds them (`WATCHED`). One that is gone
from its place is an error: whoever moves it says here what does its work now. A typical call has a process of its own,
and nothing is kept on disk. What is counted:

encoded     networks and certificates that are turned into plain data, for a digest or for a file
hashed      digests of a network
files       digests of the contents of a file, as it is written and as it is read
decoded     networks and certificates that are made from plain data
laws        networks whose laws are checked, which is whenever one is built
read back   times that a network is read back from the weights of its module
walked      times that the checker goes through the layers of a network, comparing them with a claim or composing errors
read        tables that the checker reads off a network
examined    tables that the checker proves on boxes
proven      tables that the prover proves
parsed      formulas that are parsed

For tables `of` is the number of different ones and `most` how often one of them is read or examined: a table is the
same where the checker has the same scores and values. In totals over cases, `of` is a sum and `most` the largest.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from network_cases import CASES, Made
from typical_calls import CALLS
from walks import import_all

import weightwright as ww
from weightwright.checker.composite.table_heads import TablePlace
from weightwright.checker.core.rounding import StoredHead
from weightwright.checker.one_layer.stored import OneLayer
from weightwright.checker.one_layer.stored_vector import VectorHead
from weightwright.checker.one_layer.vector import Examiner
from weightwright.checker.prompt.prompt_tables import Tables
from weightwright.claims.certificate import Certificate
from weightwright.network import Network
from weightwright.papers.checker.grid_network import StoredGrid
from weightwright.papers.checker.shared_keys import SharedHead

#: Where a process that counts finds no kept tables.
ALONE = {"WEIGHTWRIGHT_CACHE": "off"}

#: By column how often each thing was met; things that are no tables are all one.
Counts = Mapping[str, Counter[str]]
#: Given the arguments of a call and what it returned: the things that it counts as.
Things = Callable[[tuple[Any, ...], Any], Iterable[str]]


def one_thing(_: tuple[Any, ...], __: Any) -> Iterable[str]:
    """The call itself."""
    return ("",)


def whole_thing(arguments: tuple[Any, ...], result: Any) -> Iterable[str]:
    """The call, if it is about a network or a certificate and not about what they are made of or compared by."""
    either = (arguments[0], result)
    return ("",) if any(isinstance(one, Network | Certificate) for one in either) else ()


def returned_tables(_: tuple[Any, ...], result: Any) -> Iterable[str]:
    return tables_in(result)


def given_tables(arguments: tuple[Any, ...], _: Any) -> Iterable[str]:
    return tables_in(arguments[0])


def tables_in(stored: Any) -> Iterator[str]:
    """Digests of the tables in what the checker calls stored: scores with beta multiplied in, and values."""
    match stored:
        case list() | tuple():
            for one in stored:
                yield from tables_in(one)
        case StoredHead():
            yield digest_numbers(stored.slopes, stored.offsets, stored.values)
        case SharedHead():
            yield digest_numbers(stored.c, stored.v)
        case OneLayer() | Tables():
            yield from tables_in(stored.heads)
        case VectorHead():
            yield from tables_in(stored.plain)
        case Examiner() | TablePlace():
            yield from tables_in(stored.stored)
        case StoredGrid() if stored.head is not None:
            yield from tables_in(stored.head)


def digest_numbers(*columns: Iterable[Any]) -> str:
    found = hashlib.sha256()
    for column in columns:
        found.update(np.array([float(number) for number in column]).tobytes() + b";")
    return found.hexdigest()


@dataclass(frozen=True)
class Watched:
    """A function whose calls are counted, by its module and its name there."""

    module: str
    name: str
    things: Things = one_thing


#: What each column counts. A call inside another of the same column is part of that one.
WATCHED: dict[str, tuple[Watched, ...]] = {
    "encoded": (Watched("network.storage", "encode", whole_thing),),
    "hashed": (Watched("claims.files", "network_digest"),),
    "files": (Watched("claims.files", "encode_file"), Watched("claims.files", "read")),
    "decoded": (Watched("network.storage", "decode", whole_thing),),
    "laws": (Watched("network.laws", "enforce"),),
    "read back": (Watched("runtime.weights", "Weights.read_back"),),
    "walked": (
        Watched("checker.composite.walk", "_CompositeWalk.run"),
        Watched("checker.one_layer.stored", "read_one_layer"),
        Watched("checker.one_layer.stored_vector", "read_vector_head"),
        Watched("checker.prompt.prompt_layers", "read_prompt"),
        Watched("checker.prompt.interpreter_layers", "ExpectedLayers.agree"),
        Watched("checker.prompt.interpreting", "interpreter_errors"),
        Watched("checker.memory.context_ids", "read_mapping"),
        Watched("papers.checker.grid_network", "read_grid"),
        Watched("papers.checker.shared_keys", "read_shared_keys"),
    ),
    "read": (
        Watched("checker.composite.table_heads", "read_part", returned_tables),
        Watched("checker.one_layer.stored", "read_one_layer", returned_tables),
        Watched("checker.one_layer.stored_vector", "read_vector_head", returned_tables),
        Watched("checker.prompt.prompt_tables", "tables_of", returned_tables),
        Watched("checker.prompt.interpreting", "head_of", returned_tables),
        Watched("papers.checker.grid_network", "read_grid", returned_tables),
        Watched("papers.checker.shared_keys", "read_shared_keys", returned_tables),
    ),
    "examined": (
        Watched("checker.one_layer.layer", "layer_holds", given_tables),
        Watched("checker.one_layer.vector", "head_holds", given_tables),
        Watched("checker.prompt.prompt_tables", "tables_cost", given_tables),
        Watched("certify", "_worst_rounding", given_tables),
    ),
    "proven": (
        Watched("prover.taylor", "prove"),
        Watched("prover.vector", "prove_vector"),
        Watched("prover.nearest", "prove_nearest"),
    ),
    "parsed": (Watched("expressions.parser", "parse"),),
}
#: Columns whose things are tables.
OF_TABLES = ("read", "examined")


class Watch:
    """Counts while it is entered; `take` returns the counts, and begins anew. Modules that are imported later than it
    is entered hold functions that count for ever, so `import_all` comes before it."""

    def __init__(self) -> None:
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.inside: Counter[str] = Counter()  # calls that go on, by column
        self.replaced: list[tuple[Any, str, Any]] = []  # who holds what by which name

    def __enter__(self) -> Watch:
        for column, functions in WATCHED.items():
            for watched in functions:
                self._replace(column, watched)
        return self

    def __exit__(self, *_: object) -> None:
        for place, name, original in reversed(self.replaced):
            setattr(place, name, original)
        self.replaced.clear()

    def take(self) -> Counts:
        counts, self.counts = self.counts, defaultdict(Counter)
        return counts

    def _replace(self, column: str, watched: Watched) -> None:
        """The function, in its class or in all modules that hold it, by one that counts."""
        place: Any = import_module(f"weightwright.{watched.module}")
        *classes, name = watched.name.split(".")
        for one in classes:
            place = getattr(place, one, None)
        original = getattr(place, name, None)
        if original is None:
            raise LookupError(
                f"weightwright.{watched.module} has no {watched.name}: say in WATCHED what took its place"
            )
        counting = self._counting(column, original, watched.things)
        modules = [module for key, module in sys.modules.items() if key.startswith("weightwright")]
        for holder in [place] if classes else modules:
            for key in [key for key, value in vars(holder).items() if value is original]:
                self.replaced.append((holder, key, original))
                setattr(holder, key, counting)

    def _counting(self, column: str, original: Callable[..., Any], things: Things) -> Callable[..., Any]:
        @functools.wraps(original)
        def count(*arguments: Any, **options: Any) -> Any:
            self.inside[column] += 1
            result = None
            try:
                result = original(*arguments, **options)
                return result
            finally:
                self.inside[column] -= 1
                if not self.inside[column]:
                    self.counts[column].update(things(arguments, result))

        return count


def count_call(name: str) -> Counts:
    """Of one typical call, in this process."""
    torch.set_num_threads(1)
    import_all()
    call = CALLS[name]()
    with Watch() as watch:
        call()
    return watch.take()


def count_alone(name: str) -> Counts:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--one", name]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | ALONE)
    return {column: Counter(counts) for column, counts in json.loads(run.stdout.splitlines()[-1]).items()}


def count_cases(pattern: str) -> dict[str, list[Counts]]:
    """Of every case what building it does, and what is done with its network; an error ends only its own call."""
    os.environ.update(ALONE)
    torch.set_num_threads(1)
    import_all()
    found = defaultdict[str, list[Counts]](list)
    with Watch() as watch:
        for case in [case for name, case in CASES.items() if fnmatch(name, pattern)]:
            made: Any = None
            with suppress(ww.WeightwrightError, ValueError):
                made = case.make()
            found["build"].append(watch.take())
            net = made.net if isinstance(made, Made) else made
            if net is None:
                continue
            with tempfile.TemporaryDirectory() as folder:
                for call, do in calls_on(net, Path(folder) / "net.safetensors").items():
                    with suppress(ww.WeightwrightError):
                        do()
                    found[call].append(watch.take())
    return found


def calls_on(net: Any, path: Path) -> dict[str, Callable[[], Any]]:
    return {
        "save": lambda: net.save(path),
        "ww.check": lambda: ww.check(path),
        "ww.load": lambda: ww.load(path),
        "net.certificate": lambda: net.certificate,
        "net.check()": lambda: net.check(),
        "net.circuit()": lambda: net.circuit(),
    }


def print_calls(found: Mapping[str, Counts]) -> None:
    print_head("call")
    for name, counts in found.items():
        print_row(name, [counts])


def print_cases(found: Mapping[str, list[Counts]], seconds: float) -> None:
    print_head("networks", "call")
    for call, all_counts in found.items():
        print_row(f"{len(all_counts)} | {call}", all_counts)
    print(f"\n{len(found['build'])} cases in {seconds:.0f} s")


def print_head(*first: str) -> None:
    columns = [*first, *(part for column in WATCHED for part in names_of(column))]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")


def names_of(column: str) -> tuple[str, ...]:
    return (column, "of", "most") if column in OF_TABLES else (column,)


def print_row(name: str, all_counts: list[Counts]) -> None:
    """Sums over networks; of `most` the largest."""
    cells: list[int] = []
    for column in WATCHED:
        of_each = [counts.get(column, Counter[str]()) for counts in all_counts]
        cells.append(sum(counts.total() for counts in of_each))
        if column in OF_TABLES:
            cells += [sum(map(len, of_each)), max(max(counts.values(), default=0) for counts in of_each)]
    print(f"| {name} | {' | '.join(map(str, cells))} |", flush=True)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument(
        "--cases", nargs="?", const="*", metavar="PATTERN", help="totals over cases, and no typical calls"
    )
    asked.add_argument("--only", default="*", metavar="PATTERN", help="typical calls whose names are of this form")
    asked.add_argument("--one", choices=CALLS, help="one typical call, here, as JSON: what the processes run")
    given = asked.parse_args()
    if given.one:
        print(json.dumps(count_call(given.one)))
    elif given.cases:
        start = time.perf_counter()
        print_cases(count_cases(given.cases), time.perf_counter() - start)
    else:
        print_calls({name: count_alone(name) for name in CALLS if fnmatch(name, given.only)})


if __name__ == "__main__":
    main()
