"""Programs as files: .npz, or .json for people who write them by hand. No code is read."""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from weightwright.errors import FileFormatError
from weightwright.input_files import parse_json, read_whole
from weightwright.interpreter.programs import Program
from weightwright.interpreter.virtual_machine import Interpreter
from weightwright.output_files import whole

#: What numpy and the archive raise for contents that are none of theirs: damaged, encrypted, or packed in another way.
_NPZ_ERRORS = (ValueError, zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, SyntaxError, OSError)
#: What a file may hold; rows, sees and name may be missing.
NEEDED, MORE = ("W_Q", "W_K", "W_V"), ("rows", "sees", "name")


def save_program(program: Program, path: str | os.PathLike[str]) -> None:
    """Write W_Q, W_K, W_V, rows, sees and the name, by the ending of the path."""
    held = {part: getattr(program, part) for part in (*NEEDED, "rows")}
    if program.sees is not None:
        held["sees"] = program.sees
    file = Path(path)
    kind = _ending(file)
    with whole(file) as (partial,):
        if kind == ".npz":
            np.savez(partial, **held, name=np.array(program.name))
        else:
            text = {part: array.tolist() for part, array in held.items()}
            partial.write_text(json.dumps({"name": program.name, **text}) + "\n")


def load_program(vm: Interpreter, path: str | os.PathLike[str]) -> Program:
    """A program that a file holds, for this interpreter: refused where it does not fit."""
    file = Path(path)
    held = _read_npz(file) if _ending(file) == ".npz" else _read_json(file)
    missing, unknown = set(NEEDED) - set(held), set(held) - {*NEEDED, *MORE}
    if missing or unknown:
        what = f"no {min(missing)}" if missing else f"{min(unknown)!r}, which no program has"
        raise FileFormatError(f"{file} has {what}; a program has {', '.join(NEEDED)} and perhaps {', '.join(MORE)}")
    rows = np.asarray(held.get("rows", np.zeros((0, vm.features))))
    sees = held.get("sees")
    W_Q, W_K, W_V = (_numbers(file, part, held[part]) for part in NEEDED)
    return vm.program(
        W_Q,
        W_K,
        W_V,
        rows=_numbers(file, "rows", rows) if rows.size else None,
        sees=None if sees is None else np.asarray(sees),
        name=str(held.get("name", file.stem)),
    )


def _ending(file: Path) -> str:
    if file.suffix not in (".npz", ".json"):
        raise ValueError(f"a program is a .npz or a .json file, not {file.name}")
    return file.suffix


def _read_npz(file: Path) -> dict[str, Any]:
    contents = io.BytesIO(read_whole(file))
    try:
        if not zipfile.is_zipfile(contents):
            raise ValueError("it is not an archive")
        contents.seek(0)
        with np.load(contents, allow_pickle=False) as held:
            return dict(held.items())
    except _NPZ_ERRORS as error:
        raise FileFormatError(f"{file} is no .npz file of arrays: {error}") from error


def _read_json(file: Path) -> dict[str, Any]:
    contents = read_whole(file)
    try:
        held = parse_json(str(contents, "utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{file} is no JSON: {error}") from error
    if not isinstance(held, dict):
        raise FileFormatError(
            f"{file} holds {type(held).__name__}, and a program is an object with {', '.join(NEEDED)}"
        )
    return held


def _numbers(file: Path, part: str, value: Any) -> Any:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"{part} in {file} is no array of numbers: {error}") from error
