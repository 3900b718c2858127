"""Hopfield memories: capacity against dim, and updates against noise; prints the figures and draws docs/images/."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from weightwright.memory.capacity import Updates, capacity, updates
from weightwright.report.memory_plots import plot_capacity, plot_updates

IMAGES = Path(__file__).parents[1] / "docs" / "images"
DIMS = (4, 8, 12, 16, 20)
COUNTS = tuple(2**k for k in range(1, 17))
BETA = 1.0


def main() -> None:
    curves = [capacity(dim, COUNTS, BETA) for dim in DIMS]
    print(f"random patterns of length sqrt(dim), beta {BETA:g}, queries a quarter of the length away")
    print("| dim | N with half retrieved | ln N / dim |")
    print("|---|---|---|")
    for curve in curves:
        half = curve.half
        cells = ("beyond", "") if half is None else (f"{half:,.0f}", f"{math.log(half) / curve.dim:.2f}")
        print(f"| {curve.dim} | {cells[0]} | {cells[1]} |")
    plot_capacity(curves, f"Patterns that are retrieved, beta {BETA:g}", IMAGES / "hopfield-capacity.png")
    dim, count, noise = 32, 1000, np.linspace(0, 0.8, 17)
    found = updates(dim, count, noise.tolist(), (1, 2, 3), BETA)
    table(found)
    plot_updates(found, f"{count} patterns of {dim} numbers, beta {BETA:g}", IMAGES / "hopfield-updates.png")


def table(found: Updates) -> None:
    print(f"\n{found.patterns} patterns of {found.dim} numbers: largest distance found (bound), of a pattern's length")
    print("| noise | " + " | ".join(f"{steps} steps" for steps in found.errors) + " | steps to 1e-6 |")
    print("|---" * (len(found.errors) + 2) + "|")
    for i, needed in enumerate(found.needed()):
        if i % 2 == 0 and i <= 12:
            cells = (f"{found.errors[s][i]:.1e} ({found.bounds[s][i]:.1e})" for s in found.errors)
            print(f"| {found.noise[i]:.2f} | " + " | ".join(cells) + f" | {needed or 'never'} |")


if __name__ == "__main__":
    main()
