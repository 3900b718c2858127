"""Numbers of the source that moving, renaming and reformatting do not improve, each with the most that it may be.

python benchmarks/house_numbers.py          a table: measure, value, the most that the tests allow
python benchmarks/house_numbers.py heads    the places that a measure counts

Another name for the same thing counts like the thing: matrices are found by the fields of `Head`, claims by the classes
that a certificate may hold, calls of `Head` under each name that a file gives it, kinds also by `type(x)`, by the name
of a class and by a text field `kind`.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

from house import SOURCE, parsed, walk

from weightwright.claims.files import certificate_types
from weightwright.claims.kinds import Claim, HeadClaim, Target, TargetFormulas
from weightwright.network import Head

#: The most that each measure may be. A change that lowers a number lowers it here, too; raising one needs a reason.
#: Nodes a line were 8.77 when the texts of theorems and studies stood in Python, about 1,100 lines with hardly a node;
#: they are Markdown now. Without lines that hold nothing but text they were 8.82, and are 8.87.
CEILINGS: dict[str, float] = {
    "nodes a line": 8.92,
    "characters a line": 46.4,
    "weights": 72,
    "weights elsewhere": 62,
    "heads": 27,
    "kinds": 68,
    "literals": 52,
    "long": 1,
}
#: Statements of the longest function that is not long.
LONGEST = 50
WEIGHTS = {field.name for field in fields(Head) if field.name.startswith("W_")}
CLAIMS = {*certificate_types(), *(base.__name__ for base in (Claim, Target, HeadClaim, TargetFormulas))} - {
    "Box",
    "Certificate",
}
#: Folders whose work it is to handle matrices.
RUNNERS = ("network/", "runtime/", "export/")
#: Folders that know the kinds of claim by name.
REGISTRIES = ("checker/", "claims/", "papers/checker/", "papers/claims/")
#: Functions that take a count of roundings, and its place among their arguments.
COUNTED = {"gamma": 0, "above": -1}


def is_text(node: ast.AST) -> bool:
    """A docstring, or another text that stands alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def last_name(node: ast.AST | None) -> str:
    """c of a.b.c, and of c."""
    return str(getattr(node, "id", getattr(node, "attr", "")))


def count_nodes(tree: ast.AST) -> int:
    """Syntax nodes; docstrings, imports, annotations and contexts are left out."""
    if is_text(tree) or isinstance(tree, ast.Import | ast.ImportFrom | ast.expr_context):
        return 0
    held = [value for field, value in ast.iter_fields(tree) if field not in ("annotation", "returns", "type_comment")]
    children = [child for value in held for child in (value if isinstance(value, list) else [value])]
    return 1 + sum(count_nodes(child) for child in children if isinstance(child, ast.AST))


def code_lines(path: Path) -> list[str]:
    """Lines that hold code: no comments, blank lines, docstrings or imports."""
    left_out = {
        line
        for node in walk(path)
        if is_text(node) or isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)  # type: ignore[attr-defined]
    }
    lines = path.read_text().splitlines()
    left = [number for number in range(1, len(lines) + 1) if number not in left_out]
    if any('"""' in lines[n - 1] or "'''" in lines[n - 1] or lines[n - 1].endswith("\\") for n in left):
        held = token_lines(path)  # only there may a text stand on several lines
        return [lines[number - 1].strip() for number in left if number in held]
    stripped = [lines[number - 1].strip() for number in left]
    return [line for line in stripped if line and not line.startswith("#")]


def token_lines(path: Path) -> set[int]:
    """Lines that hold more than a comment."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    held = [token for token in tokens if token.type not in silent]
    return {line for token in held for line in range(token.start[0], token.end[0] + 1)}


def handles_weights(path: Path) -> Iterator[int]:
    """Once in a file that names a matrix of a head."""
    for node in walk(path):
        names = {last_name(node), getattr(node, "arg", "")}
        if names & WEIGHTS:
            yield getattr(node, "lineno", 0)
            return


def calls_of_head(path: Path) -> Iterator[int]:
    """Calls of `Head`, also under another name, bound by `partial`, or of a class that derives from it."""
    names = {"Head"}
    for node in walk(path):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if alias.name == "Head" and alias.asname}
        elif isinstance(node, ast.Assign) and last_name(node.value) in names:
            names |= {last_name(target) for target in node.targets}
        elif isinstance(node, ast.ClassDef) and names & set(map(last_name, node.bases)):
            names.add(node.name)
    for node in walk(path):
        if isinstance(node, ast.Call):
            bound = last_name(node.func) == "partial" and node.args and last_name(node.args[0]) in names
            if bound or last_name(node.func) in names:
                yield node.lineno


def asks_for_kind(path: Path) -> Iterator[int]:
    """Branches on the kind of a claim or target: by its class, by the name of its class, by a text field `kind`."""
    for node in walk(path):
        if isinstance(node, ast.Call) and last_name(node.func) in ("isinstance", "issubclass"):
            asked = CLAIMS & set(map(last_name, ast.walk(node.args[1])))
        elif isinstance(node, ast.Compare):
            asked = set(filter(None, map(kind_of_side, (node.left, *node.comparators))))
        elif isinstance(node, ast.MatchClass):
            asked = CLAIMS & {last_name(node.cls)}
        elif isinstance(node, ast.MatchValue):
            asked = set(filter(None, [kind_of_side(node.value)]))
        else:
            continue
        if asked:
            yield getattr(node, "lineno", 0)


def kind_of_side(side: ast.AST) -> str:
    """What a side of a comparison says of a kind: a class, its name, or a field `kind`; "" if nothing."""
    if isinstance(side, ast.Constant):
        return side.value if side.value in CLAIMS else ""
    name = last_name(side)
    return name if name in CLAIMS or (name == "kind" and isinstance(side, ast.Attribute)) else ""


def literal_counts(path: Path) -> Iterator[int]:
    """Counts of roundings in which a whole number above 1 stands without a name."""
    for node in walk(path):
        if isinstance(node, ast.Call) and last_name(node.func) in COUNTED and node.args:
            held = ast.walk(node.args[COUNTED[last_name(node.func)]])
            if any(isinstance(n, ast.Constant) and isinstance(n.value, int) and n.value not in (0, 1) for n in held):
                yield node.lineno


def long_functions(path: Path) -> Iterator[int]:
    for node in walk(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            statements = sum(isinstance(inner, ast.stmt) for inner in ast.walk(node)) - 1
            yield from [node.lineno] * (statements > LONGEST)


#: Measure: what a file adds to it, and the files that it is taken of.
COUNTS: dict[str, tuple[Callable[[Path], Iterator[int]], Callable[[str], bool]]] = {
    "weights": (handles_weights, lambda file: True),
    "weights elsewhere": (handles_weights, lambda file: not file.startswith(RUNNERS)),
    "heads": (calls_of_head, lambda file: True),
    "kinds": (asks_for_kind, lambda file: not file.startswith(REGISTRIES)),
    "literals": (literal_counts, lambda file: "checker" in file),
    "long": (long_functions, lambda file: True),
}


def files() -> dict[str, Path]:
    return {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}


def places(measure: str) -> list[str]:
    """What a measure counts: file and line."""
    found, taken = COUNTS[measure]
    return [f"{file}:{line}" for file, path in files().items() if taken(file) for line in found(path)]


def density() -> dict[str, float]:
    lines = [line for path in files().values() for line in code_lines(path)]
    nodes = sum(count_nodes(parsed(path)) for path in files().values())
    return {"nodes a line": nodes / len(lines), "characters a line": sum(map(len, lines)) / len(lines)}


def measure_all() -> dict[str, float]:
    return {**density(), **{measure: len(places(measure)) for measure in COUNTS}}


if __name__ == "__main__":
    if sys.argv[1:]:
        print(*places(sys.argv[1]), sep="\n")
    else:
        for measure, value in measure_all().items():
            print(f"{measure:<20}{value:>8.6g}{CEILINGS[measure]:>8.6g}")
