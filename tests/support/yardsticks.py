"""How long a proof and its check take, in yardsticks: run by itself, with one thread, it prints both.

A yardstick is a fixed amount of what the prover and the checker do. It is taken before, between and after, so that a
slow or busy machine makes all of them slow. One thread: others that wait for a busy machine's cores count as this one's
time.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from flint import arb

import weightwright as ww

TIMES = 7


def yardstick() -> float:
    """Seconds of this thread for short arrays, Python and arb; 0.05 where a proof takes 1.2."""
    start = time.thread_time()
    x, t = np.linspace(-1, 1, 400), arb(1) / 3
    for _ in range(4000):
        x = np.nextafter(np.minimum(np.cos(x) * x, 1 - x * x), np.inf)
    for _ in range(25):
        t = sum((arb(k) * t - t / 7 for k in range(1000)), start=t) / 10**6
    return time.thread_time() - start


def main() -> None:
    """The widest of the smooth examples."""
    ww.approximate("sin(x)", (-1, 1), 1e-3)  # imports
    rests = [[yardstick() for _ in range(TIMES)]]
    with tempfile.TemporaryDirectory() as folder:
        path, start = Path(folder) / "net.safetensors", time.thread_time()
        ww.approximate("1/(1+25*x**2)", (-1, 1), 1e-8).save(path)
        proving = time.thread_time() - start
        rests.append([yardstick() for _ in range(TIMES)])
        start = time.thread_time()
        ww.check(path)
        checking = time.thread_time() - start
        rests.append([yardstick() for _ in range(TIMES)])
    print(proving / statistics.median(rests[0] + rests[1]), checking / statistics.median(rests[1] + rests[2]))


if __name__ == "__main__":
    main()
