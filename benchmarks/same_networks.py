"""The same networks before and after a change: outputs, bounds, statuses and files of all `network_cases`.

python same_networks.py write FILE.json [--saved DIR]    builds all of them, and writes down what they are
python same_networks.py compare A.json B.json            what is different in B
python same_networks.py read DIR A.json                  loads what `write --saved DIR` left, by this code

`compare` and `read` exit with 1 where something is wrong: another status, another output, a larger bound, a
case that is missing, an error of another type. Texts (formula, assumptions, messages) and the terms of a
bound are compared and told, but are not wrong by themselves. Of a MEASURED network the error that a search
found is left out: how far a search comes depends on the time it gets. Run both sides on one machine with
OMP_NUM_THREADS=1: sums in another order have other last digits.
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import hashlib
import json
import math
import os
import platform
import re
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import torch
from network_cases import CASES, Case, Made, draw_inputs

import weightwright as ww

#: How many numbers of every output are written in plain text.
SHOWN = 4
#: What a record says of a network without a certificate.
NOTHING = "no certificate"
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}

Record = dict[str, Any]


# write


def write_all(path: Path, saved: Path | None, only: str) -> None:
    records: dict[str, Record] = {}
    start = time.perf_counter()
    for name, case in CASES.items():
        if fnmatch(name, only):
            records[name] = record_case(name, case, saved)
            print(
                f"{records[name]['seconds']:6.1f} s  {case.group}: {name}  {in_short(records[name])}",
                flush=True,
            )
    path.write_text(json.dumps({"made with": describe_surroundings(), "cases": records}, indent=1) + "\n")
    print(f"{len(records)} cases in {time.perf_counter() - start:.0f} s")


def describe_surroundings() -> Record:
    """What else outputs may depend on."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.processor() or platform.machine(),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
    }


def in_short(record: Record) -> str:
    if record["error"]:
        return f"{record['error']['type']}: {record['error']['message'][:100]}"
    bound = record["bounds"].get("certificate")
    said = "" if bound is None else f", bound {float.fromhex(bound):.3g}"
    return f"{record['status']}{said}; saved: {record['saved']['checked']}"


def record_case(name: str, case: Case, saved: Path | None) -> Record:
    """All that is to stay the same; an error, wherever it comes from, is part of that."""
    start = time.perf_counter()
    record: Record = {"group": case.group, "error": None}
    try:
        made = case.make()
        record |= describe(made if isinstance(made, Made) else Made(made), file_name(name), saved)
    except Exception as error:
        record["error"] = describe_error(error)
    return record | {"seconds": round(time.perf_counter() - start, 2)}


def describe_error(error: Exception) -> Record:
    """Without the folder in which the cases lie, and the line: both may be others elsewhere."""
    said = re.sub(r"[^\s(`]*network_cases\.py:\d+", "network_cases.py", str(error))
    return {"type": type(error).__name__, "message": said}


def describe(made: Made, name: str, saved: Path | None) -> Record:
    outputs = dict(made.outputs)
    x = made.inputs
    if x is None and made.net.certificate is not None:
        x = draw_inputs(made)
    if x is not None:
        outputs["network"] = run(made.net, x)
    said = describe_certificate(made.net.certificate)
    bounds = {key: float(bound).hex() for key, bound in made.bounds.items()} | said.pop("bounds")
    with tempfile.TemporaryDirectory() as folder:
        file = (saved or Path(folder)) / name
        made.net.save(file)
        back = describe_saved(file, x, outputs)
    return {
        "inputs": None if x is None else pack(x),
        "outputs": {key: pack(value) for key, value in outputs.items()},
        "bounds": bounds,
        **said,
        "saved": back,
    }


def run(net: Any, x: torch.Tensor) -> torch.Tensor:
    """The output, in dead zones too: what is computed there may not change either."""
    with torch.no_grad():
        return net.run_anywhere(x) if zones_of_claim(net) else net(x)


def zones_of_claim(net: Any) -> Any:
    said = getattr(net, "certificate", None)
    composite = getattr(said, "composite", None)
    return said is not None and (said.dead_zones or (composite is not None and composite.zones))


def describe_certificate(certificate: Any) -> Record:
    if certificate is None:
        return {"status": NOTHING, "bounds": {}, "terms": {}, "formula": None, "assumptions": None}
    return {
        "status": str(certificate.status),
        "bounds": {"certificate": float(certificate.bound).hex()},
        "terms": {key: float(value).hex() for key, value in by_name(certificate.terms).items()},
        "formula": getattr(certificate, "formula", None),
        "assumptions": list(getattr(certificate, "assumptions", ())),
    }


def by_name(terms: Any) -> Mapping[str, float]:
    """Whatever holds them."""
    if isinstance(terms, Mapping):
        return terms
    return dataclasses.asdict(terms) if dataclasses.is_dataclass(terms) else dict(vars(terms))


def describe_saved(file: Path, x: torch.Tensor | None, outputs: Mapping[str, Any]) -> Record:
    """What the checker says of the file, and whether the network that is loaded from it is the same."""
    try:
        checked = str(ww.check(file).status)
    except ww.CertificateError as error:  # its message may hold a measured error
        checked = type(error).__name__
    loaded = ww.load(file, verify=False)
    said = describe_certificate(loaded.certificate)
    same = None if x is None else pack(run(loaded, x))["sha256"] == pack(outputs["network"])["sha256"]
    return {"checked": checked, "loaded": said["status"], "bounds": said["bounds"], "same outputs": same}


def file_name(case: str) -> str:
    """
    >>> file_name("UA-2 faithful, float32")
    'UA-2-faithful-float32.safetensors'
    """
    return re.sub(r"[^\w-]+", "-", case).strip("-") + ".safetensors"


def pack(numbers: Any) -> Record:
    """An array as text: its raw bytes (bfloat16 becomes float32), their digest, and a few of the numbers."""
    dtype = None
    if isinstance(numbers, torch.Tensor):
        dtype = str(numbers.dtype).removeprefix("torch.")
        numbers = (numbers.float() if numbers.dtype == torch.bfloat16 else numbers).detach().cpu().numpy()
    array = np.ascontiguousarray(numbers)
    raw = array.tobytes()
    return {
        "sha256": hashlib.sha256(raw).hexdigest(),
        "dtype": dtype or str(array.dtype),
        "stored as": str(array.dtype),
        "shape": list(array.shape),
        "shown": [repr(value) for value in array.ravel()[:SHOWN].tolist()],
        "data": base64.b64encode(zlib.compress(raw)).decode(),
    }


def unpack(packed: Record) -> np.ndarray:
    raw = zlib.decompress(base64.b64decode(packed["data"]))
    return np.frombuffer(raw, dtype=packed["stored as"]).reshape(packed["shape"])


# compare


@dataclass(frozen=True)
class Difference:
    """wrong: it must not be; otherwise it is worth knowing."""

    what: str
    how: str
    wrong: bool


def compare_files(before: Path, after: Path) -> bool:
    """Whether nothing is wrong in the second."""
    old, new = (json.loads(path.read_text())["made with"] for path in (before, after))
    if old != new:
        print(f"made with {old}\nand with  {new}")
    return compare_all(load_records(before), load_records(after))


def compare_all(before: dict[str, Record], after: dict[str, Record]) -> bool:
    """Print all differences and a summary; whether nothing is wrong."""
    counts: dict[str, Counter[str]] = {}
    rows: list[tuple[str, str, Difference]] = []
    for name in [*before, *(name for name in after if name not in before)]:
        found = list(compare_case(before.get(name), after.get(name)))
        group = (before.get(name) or after[name])["group"]
        kind = "wrong" if any(one.wrong for one in found) else "told" if found else "same"
        counts.setdefault(group, Counter())[kind] += 1
        rows += [(group, name, one) for one in found]
    print_differences(rows)
    print_summary(counts)
    return not any(one.wrong for _, _, one in rows)


def compare_case(before: Record | None, after: Record | None) -> Iterator[Difference]:
    if before is None or after is None:
        yield Difference("case", "missing in A" if before is None else "missing in B", before is not None)
        return
    if before["error"] or after["error"]:
        yield from compare_errors(before["error"], after["error"])
        return
    yield from compare_statuses(before, after)
    if (before["inputs"] or {}).get("sha256") != (after["inputs"] or {}).get("sha256"):
        yield Difference("inputs", "other inputs, so that outputs cannot be compared", True)
    for key in dict.fromkeys([*before["outputs"], *after["outputs"]]):
        yield from compare_outputs(f"output {key}", before["outputs"].get(key), after["outputs"].get(key))
    for key in dict.fromkeys([*before["bounds"], *after["bounds"]]):
        yield from compare_bounds(f"bound {key}", before["bounds"].get(key), after["bounds"].get(key), True)
    for key in dict.fromkeys([*before["terms"], *after["terms"]]):
        yield from compare_bounds(f"term {key}", before["terms"].get(key), after["terms"].get(key), False)
    for key in ("formula", "assumptions"):
        if before[key] != after[key]:
            yield Difference(key, f"{before[key]!r} -> {after[key]!r}", False)


def compare_errors(before: Record | None, after: Record | None) -> Iterator[Difference]:
    kinds = [one["type"] if one else "no error" for one in (before, after)]
    if kinds[0] != kinds[1]:
        said = (after or before or {}).get("message", "")
        yield Difference("error", f"{kinds[0]} -> {kinds[1]}: {said}", True)
    elif before and after and before["message"] != after["message"]:
        yield Difference("message", f"{before['message']!r} -> {after['message']!r}", False)


def compare_statuses(before: Record, after: Record) -> Iterator[Difference]:
    """Of the network as it was built, of its file, and of what was loaded from that."""
    if before["status"] != after["status"]:
        yield Difference("status", f"{before['status']} -> {after['status']}", True)
    for key in ("checked", "loaded", "same outputs"):
        old, new = before["saved"][key], after["saved"][key]
        if old != new:
            yield Difference(f"saved file, {key}", f"{old} -> {new}", True)


def compare_outputs(what: str, before: Record | None, after: Record | None) -> Iterator[Difference]:
    if before is None or after is None:
        yield Difference(what, "missing in A" if before is None else "missing in B", before is not None)
    elif (before["shape"], before["dtype"]) != (after["shape"], after["dtype"]):
        shapes = " -> ".join(f"{one['dtype']} {one['shape']}" for one in (before, after))
        yield Difference(what, shapes, True)
    elif before["sha256"] != after["sha256"]:
        apart = relative_difference(unpack(before), unpack(after))
        yield Difference(what, f"largest relative difference {apart:.3g}", True)


def relative_difference(a: np.ndarray, b: np.ndarray) -> float:
    """
    >>> float(relative_difference(np.array([1.0, 0.0]), np.array([2.0, 0.0])))
    0.5
    """
    a, b = (np.asarray(x) if np.asarray(x).dtype.kind in "fiub" else np.zeros(0) for x in (a, b))
    if not a.size:
        return math.inf
    a, b = a.astype(np.float64), b.astype(np.float64)
    size = np.maximum(np.abs(a), np.abs(b))
    with np.errstate(all="ignore"):
        apart = np.where(a == b, 0.0, np.abs(a - b) / size)
    return float(apart.max())


def compare_bounds(what: str, before: str | None, after: str | None, wrong: bool) -> Iterator[Difference]:
    if before == after:
        return
    if before is None or after is None:
        yield Difference(what, "missing in A" if before is None else "missing in B", wrong and after is None)
        return
    old, new = float.fromhex(before), float.fromhex(after)
    ratio = new / old if old and math.isfinite(old) else math.inf
    yield Difference(what, f"{old!r} -> {new!r}, ratio {ratio:.6g}", wrong and not new <= old)


def print_differences(rows: list[tuple[str, str, Difference]]) -> None:
    if not rows:
        print("no difference")
        return
    print("| group | case | what | difference | wrong |\n|---|---|---|---|---|")
    for group, name, one in rows:
        print(f"| {group} | {name} | {one.what} | {one.how} | {'WRONG' if one.wrong else ''} |")


def print_summary(counts: Mapping[str, Counter[str]]) -> None:
    """One line: of every group how many cases there are, and how many of them are not quite the same."""
    cells = []
    for group, count in counts.items():
        rest = ", ".join(f"{count[kind]} {word}" for kind, word in _KINDS.items() if count[kind])
        cells.append(f"{group} {count.total()}: {rest}")
    total = sum((count for count in counts.values()), Counter[str]())
    rest = ", ".join(f"{total[kind]} {word}" for kind, word in _KINDS.items() if total[kind])
    print(f"\n{'; '.join(cells)}\nall {total.total()}: {rest}")


_KINDS = {"same": "same", "told": "with other texts, terms or smaller bounds", "wrong": "WRONG"}


# read


def read_all(folder: Path, records: dict[str, Record]) -> bool:
    """Whether every file of the folder is loaded as what the records say."""
    counts: dict[str, Counter[str]] = {}
    rows: list[tuple[str, str, Difference]] = []
    for name, record in records.items():
        if record["error"]:
            continue  # nothing was saved
        found = list(read_one(folder / file_name(name), record))
        counts.setdefault(record["group"], Counter())["wrong" if found else "same"] += 1
        rows += [(record["group"], name, one) for one in found]
    print_differences(rows)
    print_summary(counts)
    return not rows


def read_one(file: Path, record: Record) -> Iterator[Difference]:
    """Loading checks what is claimed; what is only measured, or has no certificate, is loaded as it is."""
    try:
        net = ww.load(file)
        said = describe_certificate(net.certificate)
        x = record["inputs"] and as_tensor(record["inputs"])
        y = None if x is None else pack(run(net, x))
    except Exception as error:
        yield Difference("load", f"{type(error).__name__}: {error}", True)
        return
    if said["status"] != record["status"]:
        yield Difference("status", f"{record['status']} -> {said['status']}", True)
    for key, bound in said["bounds"].items():
        yield from compare_bounds(f"bound {key}", record["bounds"].get(key), bound, True)
    if y is not None:
        yield from compare_outputs("output network", record["outputs"]["network"], y)


def as_tensor(packed: Record) -> torch.Tensor:
    return torch.tensor(unpack(packed)).to(DTYPES[packed["dtype"]])


def load_records(path: Path) -> dict[str, Record]:
    records: dict[str, Record] = json.loads(path.read_text())["cases"]
    return records


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = asked.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write")
    write.add_argument("file", type=Path)
    write.add_argument("--saved", type=Path, metavar="DIR", help="keep the files of all networks there")
    write.add_argument("--only", default="*", metavar="PATTERN", help="cases whose names are of this form")
    compare = commands.add_parser("compare")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    read = commands.add_parser("read")
    read.add_argument("folder", type=Path)
    read.add_argument("before", type=Path)
    given = asked.parse_args()
    torch.set_num_threads(1)  # sums are taken in one order
    if given.command == "write":
        if given.saved is not None:
            given.saved.mkdir(parents=True, exist_ok=True)
        write_all(given.file, given.saved, given.only)
        return 0
    if given.command == "compare":
        return 0 if compare_files(given.before, given.after) else 1
    return 0 if read_all(given.folder, load_records(given.before)) else 1


if __name__ == "__main__":
    sys.exit(main())
