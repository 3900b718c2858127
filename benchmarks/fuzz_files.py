"""Mutated files of every kind of claim: nothing crashes, nothing runs over its limits, nothing false is accepted.

python benchmarks/fuzz_files.py --count 20000 --write benchmarks/results/fuzz_files.md

File k depends on the seed and on k alone (`fuzz_mutations.py`): --start goes on where another run ended. A file that
breaks a promise is kept in build/fuzz. What is PROVEN after its mutation is run on inputs and compared with its own
target (`fuzz_truth.py`).
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
from fuzz_mutations import FOLDER, Rng, mutant, objects, seeds
from fuzz_truth import worst_violation

import weightwright as ww
from weightwright.checker.check import check_file
from weightwright.claims.certificate import Certificate
from weightwright.limits import Limits, _allocated
from weightwright.network import Network

#: What a mutated file may cost. All that are not mutated take less than a second.
LIMITS = Limits(seconds=4.0, megabytes=256.0)
#: Seconds and megabytes that a check and a load without one may go beyond their limits: between two looks at the clock.
SLACK_SECONDS, SLACK_MEGABYTES = 4.0, 128.0


@dataclasses.dataclass
class Summary:
    files: int = 0
    outcomes: Counter[str] = dataclasses.field(default_factory=Counter)
    proven: Counter[str] = dataclasses.field(default_factory=Counter)  # by kind of claim
    rewritten: Counter[str] = dataclasses.field(default_factory=Counter)  # of these, networks of other weights
    broken: list[str] = dataclasses.field(default_factory=list)
    slowest: float = 0.0
    largest: float = 0.0  # growth in MiB
    seconds: float = 0.0


def examine(path: Path, rng: Rng, summary: Summary, source: Certificate | None = None) -> str | None:
    """A broken promise in words, or None. source: what was said before the mutation."""
    summary.files += 1
    before, start = _allocated(), time.perf_counter()
    said, certificate = "", None
    try:
        network, certificate = _check(path)
    except ww.WeightwrightError as error:
        summary.outcomes[type(error).__name__] += 1
    except Exception as error:
        summary.outcomes["crash"] += 1
        said = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    if certificate is None and not said:
        said = _load(path)
    took, grew = time.perf_counter() - start, (_allocated() - before) / 2**20
    summary.slowest, summary.largest = max(summary.slowest, took), max(summary.largest, grew)
    if took > LIMITS.seconds + SLACK_SECONDS or grew > LIMITS.megabytes + SLACK_MEGABYTES:
        said += f"it took {took:.1f} s and {grew:.0f} MiB"
    if certificate is not None:
        summary.outcomes["PROVEN"] += 1
        kind = type(certificate.claim).__name__
        summary.proven[kind] += 1
        summary.rewritten[kind] += source is None or source.network != certificate.network
        try:
            found = worst_violation(network, certificate, rng)
        except Exception as error:
            found = f"{type(error).__name__} where its truth was looked at: {error}\n{traceback.format_exc()}"
        if found:
            said += f"FALSE but PROVEN: {found}"
    return said or None


def _load(path: Path) -> str:
    """What is refused by a check may still be loaded without one, built, and shown."""
    try:
        repr(ww.load(path, verify=False, **dataclasses.asdict(LIMITS)))
    except ww.WeightwrightError:
        pass
    except Exception as error:
        return f"load: {type(error).__name__}: {error}\n{traceback.format_exc()}"
    return ""


def _check(path: Path) -> tuple[Network, Certificate]:
    return check_file(path, **dataclasses.asdict(LIMITS))  # type: ignore[arg-type]


def fuzz(seed: int, start: int, count: int, everything: bool, folder: Path) -> Summary:
    folder.mkdir(parents=True, exist_ok=True)
    summary, began, path = Summary(), time.perf_counter(), folder / "mutant.safetensors"
    for k in range(start, start + count):
        name, kind, contents = mutant(seed, k, everything)
        path.write_bytes(contents)
        source = objects(name, everything)[1]
        broken = examine(path, np.random.default_rng([seed, k, 1]), summary, source)
        if broken:
            kept = folder / f"broken {seed} {k}.safetensors"
            kept.write_bytes(contents)
            summary.broken.append(f"{k} ({kind} of {name}): {broken}")
            print(summary.broken[-1][:1500], flush=True)
        if (k + 1) % 1000 == 0:
            print(f"{k + 1}: {dict(summary.outcomes)}, {time.perf_counter() - began:.0f} s", flush=True)
    summary.seconds = time.perf_counter() - began
    return summary


def page(summary: Summary, seed: int, start: int, sources: int) -> str:
    rows = [f"| {name} | {count:,} |" for name, count in summary.outcomes.most_common()]
    proven = [f"| {name} | {count:,} | {summary.rewritten[name]:,} |" for name, count in summary.proven.most_common()]
    return "\n".join([
        "# Mutated files", "",
        f"`benchmarks/fuzz_files.py`, seed {seed}, files {start:,} to {start + summary.files:,}, from {sources} files"
        " of every kind of claim.", "",
        f"{len(summary.broken)} broken promises (a crash, a run over its limits, something false that was accepted)."
        f" The longest check took {summary.slowest:.2f} s, the largest took {summary.largest:.0f} MiB.", "",
        "| outcome | files |", "|---|---|", *rows, "",
        "What is PROVEN after its mutation was run on about 150 inputs and compared with its own target:", "",
        "| claim | PROVEN | of these with other weights |", "|---|---|---|", *proven, "",
        *(f"- {broken}" for broken in summary.broken),
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    summary = fuzz(asked.seed, asked.start, asked.count, True, FOLDER)
    text = page(summary, asked.seed, asked.start, len(seeds(True)))
    print(text)
    if asked.write is not None:
        asked.write.parent.mkdir(parents=True, exist_ok=True)
        asked.write.write_text(text + "\n")
    sys.exit(bool(summary.broken))


if __name__ == "__main__":
    main()
