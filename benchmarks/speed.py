"""How fast `net(x)` is, beside the plain function that it computes, in one run: ratios, and shares of copy bandwidth.

python benchmarks/speed.py                            build the networks, time them on this machine
python benchmarks/speed.py --nets DIR                 keep the networks in DIR, and take those that are there
python benchmarks/speed.py --nets DIR --device cuda   on a GPU, without python-flint if the networks are there
python benchmarks/speed.py --before SRC               also with another tree of sources in a process of its own
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import weightwright as ww

TOKENS = {"cpu": (2**17,), "cuda": (2**20, 2**24)}
#: Calls of each at least; what is short is called again for SECONDS, and MOST_REPEATS times at most.
REPEATS, SECONDS, MOST_REPEATS = 9, 0.5, 200


def mlp(*sizes: int, between: Callable[[], nn.Module]) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [part for d_in, d_out in itertools.pairwise(sizes) for part in (nn.Linear(d_in, d_out), between())]
    return nn.Sequential(*layers[:-1])


MLPS = {"tanh MLP 16-64-10": mlp(16, 64, 10, between=nn.Tanh), "ReLU MLP 8-32-32-2": mlp(8, 32, 32, 2, between=nn.ReLU)}
#: By name: what builds the network in a dtype, the plain function in torch, and the number of inputs.
CASES: dict[str, tuple[Callable[[str], ww.AttentionNetwork], Callable[[Tensor], Tensor], int]] = {
    "sin(5x), dense": (
        lambda dtype: ww.approximate("sin(5*x)", domain=(-1, 1), tol=1e-5 if dtype == "float32" else 5e-8, dtype=dtype),
        lambda x: torch.sin(5 * x),
        1,
    ),
    "sin(20x), windowed": (
        lambda dtype: ww.approximate("sin(20*x)", domain=(-1, 1), tol=1e-4, dtype=dtype, kernel="anchor"),
        lambda x: torch.sin(20 * x),
        1,
    ),
} | {
    name: (
        lambda dtype, plain=plain: ww.compile(plain, domain=(-1, 1), tol=1e-2, dtype=dtype),
        plain,
        plain[0].in_features,
    )
    for name, plain in MLPS.items()
}


def network_file(folder: Path, name: str, dtype: str) -> Path:
    return folder / f"{''.join(c for c in name if c.isalnum())}-{dtype}.safetensors"


def build(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (make, _, _) in CASES.items():
        for dtype in ("float32", "float64"):
            path = network_file(folder, name, dtype)
            if not path.exists():
                make(dtype).save(path)


def shortest(device: str, *runs: Callable[[], object]) -> list[float]:
    """Seconds of each: the least of many calls, which take turns; on a GPU several calls one behind the other, then one
    wait."""
    calls = 10 if device == "cuda" else 1
    found: list[list[float]] = [[] for _ in runs]
    begin = time.perf_counter()
    while len(found[0]) < REPEATS + 2 or (time.perf_counter() - begin < SECONDS and len(found[0]) < MOST_REPEATS):
        for run, times in zip(runs, found, strict=True):
            start = time.perf_counter()
            for _ in range(calls):
                run()
            if device == "cuda":
                torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / calls)
    return [min(times[2:]) for times in found]


def measure(folder: Path, device: str) -> None:
    print(f"{torch.cuda.get_device_name() if device == 'cuda' else f'CPU, {torch.get_num_threads()} threads'}")
    print(f"{'network':<22}{'dtype':<9}{'tokens':>9}{'ours ms':>10}{'plain ms':>10}{'ratio':>8}", end="")
    print(f"{'% of copy':>11}{'unchecked':>11}" if device == "cuda" else "")
    for name, (_, plain, inputs) in CASES.items():
        for dtype in ("float32", "float64"):
            net = ww.load(network_file(folder, name, dtype), verify=False).to(device)
            function = plain.to(device, net.dtype) if isinstance(plain, nn.Module) else plain
            for tokens in TOKENS[device]:
                if inputs > 1 and tokens > 2**20:
                    continue
                with torch.no_grad():
                    row(name, net, function, inputs, tokens, device)


def row(
    name: str, net: ww.AttentionNetwork, plain: Callable[[Tensor], Tensor], inputs: int, tokens: int, device: str
) -> None:
    x = torch.rand(tokens, inputs, dtype=net.dtype, device=device) * 2 - 1
    worst = float((net(x) - plain(x)).abs().max())
    said = net.said
    assert said is not None
    assert worst <= 1.5 * said.bound, (name, worst, said.bound)  # the plain function rounds too
    ours, theirs = shortest(device, lambda: net(x), lambda: plain(x))
    dtype = str(net.dtype).removeprefix("torch.")
    print(f"{name:<22}{dtype:<9}{tokens:>9}{ours * 1e3:>10.3f}{theirs * 1e3:>10.3f}{ours / theirs:>8.1f}", end="")
    if device == "cuda":
        y = torch.empty_like(x)
        net.on_domain = "ignore"
        copied, unchecked = shortest(device, lambda: y.copy_(x), lambda: net(x))
        net.on_domain = "raise"
        print(f"{100 * copied / ours:>10.1f}%{100 * copied / unchecked:>10.1f}%", end="")
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", type=Path, help="a folder for the networks (a new one that goes away)")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--before", type=Path, help="another src folder, timed as well")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as new:
        folder = given.nets or Path(new)
        if given.device == "cpu":
            build(folder)
        measure(folder, given.device)
        if given.before is not None:
            print(f"\nwith the sources in {given.before}", flush=True)
            again = [sys.executable, __file__, "--nets", str(folder), "--device", given.device]
            subprocess.run(again, env=os.environ | {"PYTHONPATH": str(given.before)}, check=True)


if __name__ == "__main__":
    main()
