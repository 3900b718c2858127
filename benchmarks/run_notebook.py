"""Run the code cells of a notebook in one namespace, without Jupyter; `--write` puts what they print into the file.

Pictures are stored small; execution counts and times are left out, so that the file changes only with what it says.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
from pathlib import Path
from typing import Any

from weightwright.output_files import whole

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "from_scikit_learn_to_a_transformer.ipynb"
#: Dots per inch of a picture in the file.
DPI = 60

Json = dict[str, Any]


def read(path: Path = NOTEBOOK) -> Json:
    notebook: Json = json.loads(path.read_text())
    return notebook


def run(notebook: Json) -> tuple[Json, Json]:
    """The namespace after the last cell, and the notebook with every cell's output. A cell that raises is named."""
    namespace: Json = {"__name__": "__main__"}
    done: list[Json] = []
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            done.append(cell)
            continue
        try:
            printed, value = _executed("".join(cell["source"]), namespace)
        except Exception as error:
            error.add_note(f"in cell {number} of the notebook:\n{''.join(cell['source'])}")
            raise
        done.append(cell | {"execution_count": None, "outputs": [*_stream(printed), *_shown(value)]})
    return namespace, notebook | {"cells": done}


def _executed(source: str, namespace: Json) -> tuple[str, Any]:
    """What the cell prints, and the value of its last line where that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "<cell>", "exec"), namespace)
        value = None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
    return printed.getvalue(), value


def _stream(text: str) -> list[Json]:
    return [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}] if text else []


def _shown(value: Any) -> list[Json]:
    if value is None:
        return []
    data: Json = {"text/plain": [repr(value)]}
    if hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.savefig(picture, format="png", dpi=DPI, metadata={"Software": None})
        data = {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": ["<Figure>"]}
    return [{"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"}]


def text_of(cell: Json) -> str:
    """What a cell printed, and the text of its value."""
    return "".join(
        line
        for output in cell.get("outputs", [])
        for line in (output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"])
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the outputs into this notebook")
    options = parser.parse_args(arguments)
    _, notebook = run(read(options.write or NOTEBOOK))
    for cell in notebook["cells"]:
        print(text_of(cell), end="")
    if options.write is not None:
        with whole(options.write) as (partial,):
            partial.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
