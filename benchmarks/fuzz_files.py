"""Mutated files of every kind of claim: nothing crashes, nothing runs over its limits, nothing false or misleading is
accepted.

python benchmarks/fuzz_files.py --count 12000 --write benchmarks/results/fuzz_files.md

File k depends on the seed and on k alone: --start goes on where another run ended. A file that breaks a promise is kept
in build/fuzz. What is accepted after its mutation is run on inputs and compared with its own target (`fuzz_truth.py`),
and read as somebody reads it who did not build it (`fuzz_readers.py`). What calls cost: `fuzz_costs.py`.
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
from fuzz_costs import SHARE, Cost, cap_memory, least_cost
from fuzz_mutations import FOLDER, UNWRITABLE, Rng, mutated_bytes, mutated_meaning, mutated_plain, objects, seeds
from fuzz_readers import Readers, can_be_run, strange_lines
from fuzz_scope_mutations import KINDS, suited
from fuzz_truth import worst_violation

import weightwright as ww
from weightwright.checker.check import check_file
from weightwright.claims.certificate import Certificate
from weightwright.limits import Limits
from weightwright.network import Network

#: What a mutated file may cost. All that are not mutated take less than a second.
LIMITS = Limits(seconds=2.0, megabytes=128.0)
#: Every kind of mutation, and how many of a hundred files it makes.
MUTATIONS = {
    "meaning": (mutated_meaning, 28), "plain": (mutated_plain, 14), "bytes": (mutated_bytes, 3),
    **{kind: (make, share) for (kind, make), share in zip(KINDS.items(), (20, 12, 11, 12), strict=True)},
}  # fmt: skip


@dataclasses.dataclass
class Summary:
    files: int = 0
    outcomes: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)  # by kind of mutation
    proven: Counter[str] = dataclasses.field(default_factory=Counter)  # by kind of claim
    rewritten: Counter[str] = dataclasses.field(default_factory=Counter)  # of these, networks of other weights
    too_large: int = 0  # accepted, and too large to be run on inputs
    broken: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    cost: Cost = dataclasses.field(default_factory=lambda: Cost(0.0, 0.0))  # the largest of each
    excess: list[float] = dataclasses.field(default_factory=lambda: [0.0, 0.0])  # of time and memory
    readers: Readers = dataclasses.field(default_factory=Readers)

    def count(self, outcome: str) -> int:
        return sum(number for (_, one), number in self.outcomes.items() if one == outcome)

    @property
    def accepted(self) -> int:
        return self.count("PROVEN") + self.count("CONDITIONAL")

    def spend(self, what: str, cost: Cost, error: Exception | None) -> str:
        """A limit that was exceeded by more than is allowed, in words."""
        excess = cost.excess(LIMITS)
        self.cost = Cost(max(self.cost.seconds, cost.seconds), max(self.cost.megabytes, cost.megabytes))
        self.excess = [max(pair) for pair in zip(self.excess, excess, strict=True)]
        if max(excess) <= SHARE:
            return ""
        limits = f"{LIMITS.seconds:g} s and {LIMITS.megabytes:g} MiB"
        ended = "was accepted" if error is None else f"ended in {error}"
        return f"COST: {what} took {cost.seconds:.1f} s and {cost.megabytes:.0f} MiB of {limits}, and {ended}. "


def examine(
    path: Path, rng: Rng, summary: Summary, source: Certificate | None = None, kind: str = "meaning"
) -> str | None:
    """A broken promise in words, or None. source: what was said before the mutation. kind: of mutation."""
    summary.files += 1
    result, error, cost = least_cost(lambda: _check(path), LIMITS)
    said = summary.spend("the check", cost, error)
    if error is None:
        network, certificate = result
        summary.outcomes[kind, certificate.status] += 1
        return said + _believe(network, certificate, rng, summary, source) or None
    told = isinstance(error, ww.WeightwrightError)
    summary.outcomes[kind, type(error).__name__ if told else "crash"] += 1
    if not told:
        return said + _in_full(error)
    if "not enough memory" in str(error):
        said += "COST: more memory was asked for than the machine is taken to have. "
    _, error, cost = least_cost(lambda: repr(ww.load(path, verify=False, **dataclasses.asdict(LIMITS))), LIMITS)
    said += summary.spend("the load", cost, error)
    if error is not None and not isinstance(error, ww.WeightwrightError):
        said += f"load: {_in_full(error)}"
    return said or None


def _believe(network: Network, certificate: Certificate, rng: Rng, summary: Summary, source: Certificate | None) -> str:
    """What is wrong with an accepted file, in words."""
    kind = type(certificate.claim).__name__
    summary.proven[kind] += 1
    summary.rewritten[kind] += source is None or source.network != certificate.network
    try:
        summary.too_large += not can_be_run(network)
        found = worst_violation(network, certificate, rng) if can_be_run(network) else None
        misled = summary.readers.misled(network, certificate, rng)
    except Exception as error:
        return f"where its truth was looked at: {_in_full(error)}"
    said = f"FALSE but {certificate.status}: {found}. " if found else ""
    if strange := strange_lines(certificate):
        said += f"MISLEADING: an assumption that no rule asks for: {strange[0]!r}. "
    return said + (f"MISLEADING: {misled}" if misled else "")


def _in_full(error: Exception) -> str:
    return f"{type(error).__name__}: {error}\n{''.join(traceback.format_exception(error))}"


def _check(path: Path) -> tuple[Network, Certificate]:
    return check_file(path, **dataclasses.asdict(LIMITS))  # type: ignore[arg-type]


def mutant(seed: int, k: int, everything: bool, only: str | None = None) -> tuple[str, str, bytes]:
    """(the file that it comes from, the kind of mutation, its bytes)"""
    rng = np.random.default_rng([seed, k])
    kinds = list(MUTATIONS)
    shares = np.array([share for _, share in MUTATIONS.values()], dtype=float)
    for _ in range(50):
        kind = only or kinds[int(rng.choice(len(kinds), p=shares / shares.sum()))]
        names = suited(kind, everything) if kind in KINDS else sorted(seeds(everything))
        name = names[int(rng.integers(len(names)))]
        try:
            with np.errstate(all="ignore"):
                return name, kind, MUTATIONS[kind][0](name, rng, everything)
        except UNWRITABLE:
            continue  # such a thing cannot even be written down
    raise AssertionError(f"no mutant {k}")


def fuzz(seed: int, start: int, count: int, everything: bool, folder: Path, only: str | None = None) -> Summary:
    """only: one kind of mutation."""
    folder.mkdir(parents=True, exist_ok=True)
    summary, began, path = Summary(), time.perf_counter(), folder / "mutant.safetensors"
    for k in range(start, start + count):
        name, kind, contents = mutant(seed, k, everything, only)
        path.write_bytes(contents)
        source = objects(name, everything)[1]
        broken = examine(path, np.random.default_rng([seed, k, 1]), summary, source, kind)
        if broken:
            kept = folder / f"broken {seed} {k}.safetensors"
            kept.write_bytes(contents)
            summary.broken.append(f"{k} ({kind} of {name}): {broken}")
            print(summary.broken[-1][:1500], flush=True)
        if (k + 1) % 500 == 0:
            done = f"{summary.accepted} accepted, {len(summary.broken)} broken promises"
            print(f"{k + 1}: {done}, {time.perf_counter() - began:.0f} s", flush=True)
    summary.seconds = time.perf_counter() - began
    return summary


def page(summary: Summary, seed: int, start: int, sources: int) -> str:
    kinds = [kind for kind in MUTATIONS if any(one == kind for one, _ in summary.outcomes)]
    outcomes = sorted({outcome for _, outcome in summary.outcomes}, key=lambda one: -summary.count(one))
    rows = []
    for outcome in outcomes:
        counts = [summary.outcomes[kind, outcome] for kind in kinds]
        rows.append(f"| {outcome} | {' | '.join(f'{count:,}' for count in counts)} | {sum(counts):,} |")
    proven = [f"| {name} | {count:,} | {summary.rewritten[name]:,} |" for name, count in summary.proven.most_common()]
    time_, memory = (f"{100 * share:.0f}%" for share in summary.excess)
    read = summary.readers.read
    return "\n".join([
        "# Mutated files", "",
        f"`benchmarks/fuzz_files.py`, seed {seed}, files {start:,} to {start + summary.files:,}, from {sources} files"
        " of every kind of claim.", "",
        f"{len(summary.broken)} broken promises (a crash, a limit exceeded by more than {100 * SHARE:.0f}%, something"
        f" false or misleading that was accepted). The longest call took {summary.cost.seconds:.2f} s of"
        f" {LIMITS.seconds:g}, the largest {summary.cost.megabytes:.0f} MiB of {LIMITS.megabytes:g}; beyond 0.25 s and"
        f" 16 MiB, limits were exceeded by {time_} of the time and {memory} of the memory at most.", "",
        f"| outcome | {' | '.join(kinds)} | all |", f"|---|{'---|' * (len(kinds) + 1)}", *rows, "",
        "What is accepted after its mutation was run on about 150 inputs and compared with its own target. Of formulas"
        f" that are texts in the inputs {read['formulas']:,} were computed and compared, {read['words']:,} were words,"
        f" and {read['digests']:,} digests were compared with all that had the same one. {summary.too_large:,}"
        " accepted files were too large to be run.", "",
        "| claim | accepted | of these with other weights |", "|---|---|---|", *proven, "",
        *(f"- {broken.splitlines()[0][:300]}" for broken in summary.broken),
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=12_000)
    parser.add_argument("--kind", choices=MUTATIONS)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    sources = len(seeds(True))
    cap_memory()
    summary = fuzz(asked.seed, asked.start, asked.count, True, FOLDER, asked.kind)
    text = page(summary, asked.seed, asked.start, sources)
    print(text)
    if asked.write is not None:
        asked.write.parent.mkdir(parents=True, exist_ok=True)
        asked.write.write_text(text + "\n")
    sys.exit(bool(summary.broken))


if __name__ == "__main__":
    main()
