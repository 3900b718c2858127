"""How long `compile` takes for wider and wider networks, and how large what it makes is when saved.

python compile_times.py            64-w-10 with tanh for w = 64, 256, 1024, and a fitted Ridge
python compile_times.py --widths 64 128
python compile_times.py --examples            the eleven examples of docs/compiled.md, from nothing and with kept tables
python compile_times.py --examples --before SRC    and with another src folder

The networks are as they are initialised with seed 0, in float64, on [-1, 1]^64 at a tolerance of 1e-6.
Seconds are of one thread. The pickle is that of Ridge, fitted to 2,000 samples of 10 features.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import weightwright as ww

WIDTHS = (64, 256, 1024)
SAMPLES, FEATURES = 2000, 10


def make_mlp(width: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, width), nn.Tanh(), nn.Linear(width, 10)).double()


def count_bytes(module: nn.Module) -> int:
    """Of its weights."""
    return sum(weights.numel() * weights.element_size() for weights in module.parameters())


def measure_compile(width: int) -> str:
    """A row of the table."""
    mlp = make_mlp(width)
    start = time.perf_counter()
    net = ww.compile(mlp, domain=(-1, 1), tol=1e-6)
    seconds = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "net.safetensors"
        net.save(file)
        saved = file.stat().st_size
        start = time.perf_counter()
        ww.check(file)
        checking = time.perf_counter() - start
    own, said = count_bytes(mlp), net.certificate
    cells = (width, f"{seconds:.2f}", f"{checking:.2f}", f"{saved:,}", f"{own:,}", f"{saved / own:.2f}")
    return f"| {' | '.join(map(str, cells))} | {said.status} | {said.bound:.3g} |"


def measure_pickle() -> str:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(SAMPLES, FEATURES))
    y = X @ np.linspace(1.0, -1.0, FEATURES) + 0.1 * rng.normal(size=SAMPLES)
    start = time.perf_counter()
    model = ww.incontext.Ridge().fit(X, y)
    seconds = time.perf_counter() - start
    pickled, data = len(pickle.dumps(model)), X.nbytes + y.nbytes
    return (
        f"Ridge().fit, {SAMPLES:,} samples, {FEATURES} features: {seconds:.2f} s, pickled {pickled:,} bytes;"
        f" the data have {data:,} bytes, ratio {pickled / data:.2f}"
    )


def load_examples() -> dict[str, Any]:
    """Those of examples/compiled.py, under a name by which its dataclass finds its own module."""
    spec = importlib.util.spec_from_file_location(
        "compiled_examples", Path(__file__).parents[1] / "examples/compiled.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.EXAMPLES


def compile_example(name: str) -> tuple[float, float]:
    """Seconds of a clock, and of the processor."""
    example = load_examples()[name]
    function = example.function()
    clocks = time.perf_counter(), time.process_time()
    ww.compile(function, example.domain, example.tol, tokens=example.tokens, proof=example.proof)
    return time.perf_counter() - clocks[0], time.process_time() - clocks[1]


def compile_elsewhere(name: str, source: Path, kept: str) -> tuple[float, float]:
    """The same in a process of its own, with the package from that folder, and tables kept in a folder or "off"."""
    env = os.environ | {"PYTHONPATH": str(source), "WEIGHTWRIGHT_CACHE": kept}
    told = subprocess.run(
        [sys.executable, __file__, "--one", name], env=env, capture_output=True, text=True, check=True
    )
    return tuple(json.loads(told.stdout.splitlines()[-1]))  # type: ignore[return-value]


def compare_examples(before: Path | None) -> None:
    """Rows: seconds of a clock, and in brackets of the processor."""
    here = Path(__file__).parents[1] / "src"
    print(f"| compiled | {'before | ' if before else ''}now | now, tables on disk |")
    print(f"|---|{'---|' if before else ''}---|---|")
    for name in load_examples():
        with tempfile.TemporaryDirectory() as kept:
            runs = [(before, "off")] * (before is not None) + [(here, "off"), (here, kept), (here, kept)]
            found = [compile_elsewhere(name, source, where) for source, where in runs if source is not None]
        del found[-2]  # it found the tables
        print(f"| {name} | {' | '.join(f'{clock:.2f} s ({own:.2f})' for clock, own in found)} |", flush=True)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--widths", nargs="*", type=int, default=WIDTHS, metavar="W")
    asked.add_argument("--examples", action="store_true", help="the examples of docs/compiled.md instead")
    asked.add_argument("--before", type=Path, help="another src folder, timed as well")
    asked.add_argument("--one", help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.examples:
        compare_examples(given.before)
        return
    if given.one:
        print(json.dumps(compile_example(given.one)))
        return
    torch.set_num_threads(1)
    ww.compile(torch.tanh, domain=(-1, 1), tol=1e-6)  # what is imported and cached once is not timed
    print("| w | compile, s | check the file, s | saved bytes | bytes of the MLP | ratio | status | bound |")
    print("|---|---|---|---|---|---|---|---|")
    for width in given.widths:
        print(measure_compile(width), flush=True)
    print(f"\n{measure_pickle()}")


if __name__ == "__main__":
    main()
