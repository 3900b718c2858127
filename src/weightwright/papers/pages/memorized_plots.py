"""Pictures of memorised data sets: ids on a line, separation against temperature, capacity, the hardmax pair."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weightwright.checker.memory.context_ids import enclose_ids, read_mapping
from weightwright.claims.memory_claim import UNCLAIMED, MemoryClaim
from weightwright.errors import WeightwrightError
from weightwright.memory.hardmax_pair import PAIR, hardmax_cases
from weightwright.network.ramps import ramps_of
from weightwright.papers.pages.theorem_plots import draw_study, plot_theorem

if TYPE_CHECKING:
    from weightwright.papers.kit.rates import Study
    from weightwright.runtime import AttentionNetwork

#: Number of ids that are drawn; of more, evenly chosen ones.
_DRAWN = 4000


def plot_memory(
    net: AttentionNetwork, temperature: Study, capacity: Study, title: str, path: str | os.PathLike[str]
) -> None:
    """Four pictures: the ids of a memory over what its feed-forward layer returns, two studies, the hardmax pair."""
    if net.said is None or not isinstance(net.said.claim, MemoryClaim):
        raise WeightwrightError("plot_memory draws a network that `ww.memorize` made")
    studied = (partial(_study_over_one, study) for study in (temperature, capacity))
    plot_theorem(title, (partial(_ids, net, net.said.claim), *studied, _pair), path)


def _ids(net: AttentionNetwork, claim: MemoryClaim, part: Any) -> None:
    axes = part.subplots()
    table = ramps_of(net.network.layers[1])  # type: ignore[arg-type]
    stored = read_mapping(net.network, table.coordinate)
    tokens, lengths = claim.tokens.astype(int), claim.lengths.astype(int)
    middles, _ = enclose_ids(stored, claim.vectors, tokens, lengths, claim.positions)
    kept = np.flatnonzero(claim.labels != UNCLAIMED)
    kept = kept[:: max(1, len(kept) // _DRAWN)]
    kinks = np.concatenate([[middles.min()], table.kinks, [middles.max()]])
    axes.plot(kinks, np.repeat(table.plateaus[:, -1], 2), color="0.75", linewidth=0.8, zorder=0)
    axes.scatter(middles[kept], claim.labels[kept], c=claim.labels[kept], cmap="tab20", s=5)
    axes.set_xlabel("id")
    axes.set_ylabel("number of the label")
    axes.set_title("ids by label, and what the feed-forward layer returns", fontsize=10)


def _study_over_one(study: Study, part: Any) -> None:
    """Ids are told apart above 1."""
    draw_study(part, study)
    part.get_axes()[0].axhline(1.0, color="0.6", linewidth=0.9, linestyle=":")


def _pair(part: Any) -> None:
    axes = part.subplots()
    for row, part in enumerate(PAIR):
        axes.scatter(part, [row] * len(part), s=60, color=("tab:blue", "tab:orange")[row], zorder=2)
        for case in hardmax_cases():
            axes.axvline(float(case.means[row]), color="0.7", linewidth=1.0, zorder=0)
    betas = np.linspace(-2, 2, 201)
    for part in PAIR:
        a = np.array(part, dtype=np.float64)
        weights = np.exp(betas[:, None] * a - (betas[:, None] * a).max(axis=1, keepdims=True))
        axes.plot((weights * a).sum(axis=1) / weights.sum(axis=1), 2.5 + betas / 2, label=f"softmax of {part}")
    axes.set_yticks([0, 1, 1.5, 2.5, 3.5], ["first", "second", "c = -2", "c = 0", "c = 2"])
    axes.set_xlabel("multiple of v; grey: all means that hardmax returns, of both")
    axes.set_title("the pair that no hardmax layer tells apart", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
