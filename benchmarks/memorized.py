"""What `ww.memorize` does with corpora and with a million random tokens, and the pictures of docs/memory.md.

python benchmarks/memorized.py FOLDER              the corpora under FOLDER (ewt, wnut17, wikigold)
python benchmarks/memorized.py --million           10,000 sequences of 100 random tokens
python benchmarks/memorized.py --pictures          docs/images/memory-ids.png
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import weightwright as ww
from weightwright.memory.corpus import read_corpus
from weightwright.network import FeedForward
from weightwright.papers.instances.memory_instances import (
    capacity_of_dtypes,
    random_sequences,
    separation_by_temperature,
)
from weightwright.papers.pages.memorized_plots import plot_memory

CORPORA = ("ewt/ewt-train.tsv", "wnut17/wnut17train.conll", "wikigold/wikigold.conll.txt")
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "memory-ids.png"
#: Tokens that the plain path is run on: a second for a thousand, with 120,000 units.
PLAIN = 5000


def report(name: str, sequences: Any, labels: Any) -> None:
    """Build, run both paths, and print what came out."""
    start = time.perf_counter()
    net = ww.memorize(sequences, labels, on_conflict="skip")
    built = time.perf_counter() - start
    about, start = net.about, time.perf_counter()
    found = net.predict(sequences)
    ran = time.perf_counter() - start
    right = sum(a == b for one, two in zip(found, labels, strict=True) for a, b in zip(one, two, strict=True))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name}: {net.certificate}")
    print(f"  {about.sequences:,} sequences, {about.tokens:,} tokens, {about.contexts:,} contexts")
    print(f"  {len(about.conflicts)} inconsistent contexts, {about.changes:,} changes of label along the line of ids")
    print(f"  built and checked in {built:.1f} s, {memory:,.0f} MiB")
    print(f"  closest ids {about.separation:.3g} apart, an id off by {about.id_error:.3g}")
    print(f"  parameters {about.parameters:,} of {about.formula:,}, stored {about.stored:,}")
    print(f"  sorted path: {right:,} of {about.remembered:,} consistent tokens right, {ran:.1f} s")
    plain_path(net)


def plain_path(net: ww.AttentionNetwork) -> None:
    """The first stored sequences by the sum over all units, as an export computes them."""
    network, claim = net.network, net.said.claim  # type: ignore[union-attr]
    layer = network.layers[1]
    plain = FeedForward(layer.coordinates, layer.W_1, layer.b_1, layer.W_2, layer.b_2)  # type: ignore[union-attr]
    module = ww.AttentionNetwork(replace(network, layers=(network.layers[0], plain)))
    start, done, right, known, off = time.perf_counter(), 0, 0, 0, 0.0
    for n in claim.lengths.astype(int).tolist():  # type: ignore[union-attr]
        own = slice(done, done + n)
        x = np.column_stack([claim.vectors[claim.tokens[own].astype(int)], np.arange(float(n))])  # type: ignore[union-attr]
        y, label = module(torch.tensor(x))[:, 0].numpy(), claim.labels[own]  # type: ignore[union-attr]
        right += int((np.rint(y) == label)[label >= 0].sum())
        known += int((label >= 0).sum())
        off = max(off, float(np.abs(y - label)[label >= 0].max(initial=0.0)))
        done += n
        if done >= PLAIN:
            break
    print(f"  plain path: {right:,} of {known:,} right, off by at most {off:.3g}, {time.perf_counter() - start:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--pictures", action="store_true")
    asked = parser.parse_args()
    for name in CORPORA if asked.folder else ():
        report(name, *read_corpus(asked.folder / name))
    if asked.million:
        rng = np.random.default_rng(0)
        sequences, labels = rng.integers(0, 1000, (10_000, 100)).tolist(), rng.integers(0, 10, (10_000, 100)).tolist()
        report("a million random tokens", sequences, labels)
    if asked.pictures:
        net = ww.memorize(*random_sequences(60, 9, 12, 6), on_conflict="skip")
        plot_memory(
            net,
            separation_by_temperature(),
            capacity_of_dtypes(),
            "60 sequences of up to 9 of 12 words, 6 labels",
            IMAGE,
        )


if __name__ == "__main__":
    main()
