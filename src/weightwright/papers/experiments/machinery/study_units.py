"""A unit of work, and the files that keep its result and where its training stands: a run goes on where it stopped.

A part is a JSON file with the digest of the unit that it belongs to, its result, and how long it took on what machine
and device, with which versions. It is written whole or not at all. What a part is depends on its settings alone: parts
of several machines and devices can be joined.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weightwright.errors import WeightwrightError
from weightwright.output_files import whole
from weightwright.progress import Tell

Json = dict[str, Any]
#: What does a unit's work: its settings and the worker, to a result that JSON can hold.
Work = Callable[[Json, "Worker"], Json]


@dataclass(frozen=True)
class Unit:
    """A piece of a study that runs by itself: its name in the study, the function that does it, its settings."""

    name: str
    work: Work
    settings: Json


class OutOfTimeError(Exception):
    """The time of this call is over; what the work had reached is kept."""


def tell_nobody(message: str) -> None:
    """Progress that nobody is shown."""


@dataclass(frozen=True)
class Worker:
    """Who works on a unit: says how far it is, keeps where its training stands, and knows when to stop.

    tell: is told how far it is.
    states: begins the paths of files that keep where the work stands; None: nothing is kept.
    digest: of the unit; another unit's state is not taken.
    until: when to stop, in seconds since 1970.
    """

    tell: Tell = tell_nobody
    states: Path | None = None
    digest: str = ""
    until: float = math.inf

    def state_path(self, stage: str) -> Path | None:
        """The file that keeps where a stage of the work stands."""
        return None if self.states is None else self.states.with_name(f"{self.states.name}.{stage}.state")

    def is_out_of_time(self) -> bool:
        """Whether to stop."""
        return time.time() >= self.until


#: Settings that say where something is or runs: they are in no digest and no record. What a file holds has its own
#: digest among the settings, and a part says which device it ran on.
PLACES = ("data", "device")


def digest_of(settings: Mapping[str, Any]) -> str:
    """SHA-256 of settings, as 64 hexadecimal digits; the order of the keys does not matter, nor where files are.

    >>> digest_of({"p": 8, "n": 2, "device": "cpu"}) == digest_of({"n": 2, "p": 8, "device": "cuda"})
    True
    """
    return hashlib.sha256(write_json(without_places(settings)).encode()).hexdigest()


def without_places(settings: Mapping[str, Any]) -> Json:
    """The settings that a result depends on."""
    return {key: value for key, value in settings.items() if key not in PLACES}


def write_json(facts: Mapping[str, Any]) -> str:
    """JSON on one line with sorted keys; what is no number (nan, infinite) is refused."""
    return json.dumps(facts, sort_keys=True, allow_nan=False)


def part_path(folder: Path, unit: Unit) -> Path:
    """Where the result of a unit is kept."""
    return folder / f"{unit.name}.json"


def read_part(folder: Path, unit: Unit) -> Json | None:
    """What is kept of a unit: `result`, `seconds`, `machine` (with its device and versions); None if nothing is.

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
            f"{path} belongs to a run with other settings ({_differing(kept[0], without_places(unit.settings))}); "
            f"give --out another folder, or remove {folder}"
        )
    return part


def write_part(folder: Path, unit: Unit, result: Json, seconds: float, machine: Json) -> None:
    """Keep the result of a unit, and what it ran on."""
    facts = {
        "settings": without_places(unit.settings),
        "digest": digest_of(unit.settings),
        "result": result,
        "seconds": seconds,
    }
    facts["machine"] = machine
    with whole(part_path(folder, unit)) as (partial,):
        partial.write_text(write_json(facts))
    for state in state_paths(folder, unit):
        state.unlink()


def state_paths(folder: Path, unit: Unit) -> list[Path]:
    """The files that keep where the work on a unit stands."""
    return sorted(folder.glob(f"{unit.name}.*.state"))


def join_parts(folder: Path, other: Path, units: Sequence[Unit]) -> int:
    """Take from another folder what is missing in this one: finished parts, and of others where they stand. Returns
    the number of parts taken; a part of other settings is an error."""
    if not other.is_dir():
        raise WeightwrightError(f"{other}: there is no such folder of parts")
    folder.mkdir(parents=True, exist_ok=True)
    taken = 0
    for unit in units:
        if read_part(folder, unit) is not None:
            continue
        if read_part(other, unit) is not None:
            shutil.copyfile(part_path(other, unit), part_path(folder, unit))
            taken += 1
        elif not state_paths(folder, unit):
            for state in state_paths(other, unit):
                shutil.copyfile(state, folder / state.name)
    return taken


def _differing(kept: Json, asked: Json) -> str:
    keys = [key for key in sorted({*kept, *asked}) if kept.get(key) != asked.get(key)]
    return ", ".join(f"{key} = {kept.get(key)!r}, not {asked.get(key)!r}" for key in keys[:3]) or "an altered digest"
