"""A unit of work, and the file that keeps its result: an interrupted run goes on where it stopped.

A part is a JSON file with the digest of the unit that it belongs to, its result, and how long it took on what
machine. It is written whole or not at all, so a run may be stopped at any moment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weightwright.errors import WeightwrightError
from weightwright.output_files import whole
from weightwright.progress import Tell

Json = dict[str, Any]
#: What does a unit's work: its settings and what is told of progress, to a result that JSON can hold.
Work = Callable[[Json, Tell], Json]


@dataclass(frozen=True)
class Unit:
    """A piece of a study that runs by itself: its name in the study, the function that does it, its settings."""

    name: str
    work: Work
    settings: Json


#: A setting that says where a file is: it is in no digest and no record, since what the file holds has its own digest.
PLACE = "data"


def digest_of(settings: Mapping[str, Any]) -> str:
    """SHA-256 of settings, as 64 hexadecimal digits; the order of the keys does not matter, nor where files are.

    >>> digest_of({"p": 8, "n": 2}) == digest_of({"n": 2, "p": 8})
    True
    """
    kept = {key: value for key, value in settings.items() if key != PLACE}
    return hashlib.sha256(write_json(kept).encode()).hexdigest()


def write_json(facts: Mapping[str, Any]) -> str:
    """JSON on one line with sorted keys; what is no number (nan, infinite) is refused."""
    return json.dumps(facts, sort_keys=True, allow_nan=False)


def part_path(folder: Path, unit: Unit) -> Path:
    """Where the result of a unit is kept."""
    return folder / f"{unit.name}.json"


def read_part(folder: Path, unit: Unit) -> Json | None:
    """What is kept of a unit: `result`, `seconds` and `machine`; None if nothing is.

    Raises an error if the folder holds a part of that name that belongs to other settings.
    """
    path = part_path(folder, unit)
    if not path.exists():
        return None
    try:
        part: Json = json.loads(path.read_text())
        kept = part["settings"], part["digest"], part["result"], part["seconds"], part["machine"]
    except (ValueError, KeyError, TypeError) as error:
        raise WeightwrightError(
            f"{path} is no part of a study, or of an earlier version ({error}); remove it, and the run makes it anew"
        ) from error
    if kept[1] != digest_of(unit.settings):
        raise WeightwrightError(
            f"{path} belongs to a run with other settings ({_differing(kept[0], unit.settings)}); "
            f"give --out another folder, or remove {folder}"
        )
    return part


def write_part(folder: Path, unit: Unit, result: Json, seconds: float, machine: Json) -> None:
    """Keep the result of a unit, and what it ran on."""
    facts = {"settings": unit.settings, "digest": digest_of(unit.settings), "result": result, "seconds": seconds}
    facts["machine"] = machine
    with whole(part_path(folder, unit)) as (partial,):
        partial.write_text(write_json(facts))


def _differing(kept: Json, asked: Json) -> str:
    keys = [key for key in sorted({*kept, *asked}) if kept.get(key) != asked.get(key)]
    return ", ".join(f"{key} = {kept.get(key)!r}, not {asked.get(key)!r}" for key in keys[:3]) or "an altered digest"
