"""How many small errors in the checker its tests notice: one error at a time, in a copy of the source.

python benchmarks/mutants.py --count 96 --seed 0 --jobs 16          which mutants survive, and the share that is killed
python benchmarks/mutants.py --tests tests/checker --file walk.py   other tests; one file

A mutant is drawn from the syntax trees of `checker/` and `papers/checker/`: a comparison turned round or made strict, a
sum that is a difference, `max` for `min`, `and` for `or`, a whole number one larger, a requirement that is never
checked. Which are drawn depends on the seed and on what is changed: two sets of tests can be compared on the same ones.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/weightwright")
FOLDERS = ("checker", "papers/checker")
TESTS = ("tests/checker", "tests/papers/checker")
#: Seconds that the tests of one mutant may take: a loop that never ends is noticed, too.
LIMIT = 600

COMPARED = {ast.LtE: ast.Lt, ast.Lt: ast.LtE, ast.GtE: ast.Gt, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}
CALLED = {"max": "min", "min": "max", "any": "all", "all": "any", "maximum": "minimum", "minimum": "maximum"}


@dataclass(frozen=True)
class Mutant:
    """The n-th place of a file that can be mutated."""

    file: str  # below the package
    place: int
    change: str  # what becomes what
    line: int

    def source(self) -> str:
        """The mutated file."""
        tree = ast.parse((ROOT / PACKAGE / self.file).read_text())
        _mutate(list(_places(tree))[self.place])
        return ast.unparse(tree)


def _places(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        compared = isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED
        computed = isinstance(node, ast.BinOp) and type(node.op) in COMPUTED
        called = isinstance(node, ast.Call) and _called(node) in {*CALLED, "require", "must"}
        counted = isinstance(node, ast.Constant) and type(node.value) is int
        if compared or computed or called or counted or isinstance(node, ast.BoolOp):
            yield node


def _called(node: ast.Call) -> str:
    return str(getattr(node.func, "id", getattr(node.func, "attr", "")))


def _mutate(node: ast.AST) -> None:
    """Change the node in place."""
    if isinstance(node, ast.Compare):
        node.ops[0] = COMPARED[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp):
        node.op = COMPUTED[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
    elif isinstance(node, ast.Constant):
        node.value = int(node.value) + 1  # type: ignore[arg-type]
    elif isinstance(node, ast.Call):
        if _called(node) in ("require", "must"):
            node.args[0] = ast.Constant(True)
        elif isinstance(node.func, ast.Name):
            node.func.id = CALLED[node.func.id]
        elif isinstance(node.func, ast.Attribute):
            node.func.attr = CALLED[node.func.attr]


def mutants(only: str) -> list[Mutant]:
    """All that there are, file by file."""
    found = []
    for path in sorted(path for folder in FOLDERS for path in (ROOT / PACKAGE / folder).rglob("*.py")):
        file = path.relative_to(ROOT / PACKAGE).as_posix()
        if file.endswith(only):
            for place, node in enumerate(_places(ast.parse(path.read_text()))):
                before = ast.unparse(node)
                changed = copy.deepcopy(node)
                _mutate(changed)
                found.append(Mutant(file, place, f"{before} -> {ast.unparse(changed)}", getattr(node, "lineno", 0)))
    return found


def draw(every: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """The same ones in two versions of the source, as far as both have them: whatever is added elsewhere."""
    return sorted(every, key=lambda mutant: sha256(f"{seed} {mutant.file} {mutant.change}".encode()).digest())[:count]


def is_killed(mutant: Mutant | None, tests: list[str]) -> bool:
    """Whether a test fails, or does not end. None: of the source as it is."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "weightwright"
        shutil.copytree(ROOT / PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            (package / mutant.file).write_text(mutant.source())
        paths = [folder, *(str(ROOT / name) for name in ("tests", "benchmarks")), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *tests]
        try:
            ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            return True
        return ended.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=32, help="mutants that are tried")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--file", default=".py", help="only files whose name ends so")
    parser.add_argument("--tests", nargs="+", default=[one for one in TESTS if (ROOT / one).exists()])
    asked = parser.parse_args()
    if is_killed(None, asked.tests):
        raise SystemExit("the tests fail on the source as it is, or take too long")
    every = mutants(asked.file)
    drawn = draw(every, asked.count, asked.seed)
    killed = 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        running = {pool.submit(is_killed, mutant, asked.tests): mutant for mutant in drawn}
        for ended in as_completed(running):
            mutant, dead = running[ended], ended.result()
            killed += dead
            print("killed  " if dead else "SURVIVED", f"{mutant.file}:{mutant.line}: {mutant.change[:140]}", flush=True)
    print(f"{killed} of {len(drawn)} mutants killed ({len(every)} possible), seed {asked.seed}")


if __name__ == "__main__":
    main()
