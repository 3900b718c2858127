"""Learners in context beside each other: errors against the number of examples, and how alike their predictions are.

python benchmarks/in_context_transformer.py CHECKPOINT         train the small Transformer first
python benchmarks/in_context_curve.py --checkpoint CHECKPOINT  write docs/images/incontext-curve.png and
                                                               benchmarks/results/in_context_curve.json
python benchmarks/in_context_curve.py                          the same without the trained Transformer
python benchmarks/in_context_curve.py --page                   write the tables of docs/in_context_learning.md from that
                                                               file; nothing is measured

For d = 5 and 21 points: least squares, ridge, 10 and 50 steps of exact descent, our causal network of 50 steps, PROVEN,
with its band, 50 layers of von Oswald's linear attention, and a Transformer trained here. For d = 20 and 41 points the
same without the two networks. All learners see the same prompts; a prediction takes the examples before it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from in_context_transformer import fingerprint, load
from pages import written_into

import weightwright as ww
from weightwright.claims.certificate import round_up
from weightwright.export.figures import write_figure
from weightwright.incontext import (
    DescentLearner,
    LeastSquaresLearner,
    LinearAttentionLearner,
    NetworkLearner,
    RegressionTask,
    compare,
    curve,
)
from weightwright.numbers import Floats
from weightwright.papers.evaluation.context_curve import Curves, draw_curves

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "in_context_learning.md"
PICTURE, RESULTS = ROOT / "docs" / "images" / "incontext-curve.png", ROOT / "benchmarks" / "results"
#: Steps of the descent that is compared: of ours, of exact descent and of linear attention.
STEPS = 50
#: Prompts of a task, and the seed that they are drawn with. The band of ours takes about 0.05 s a prompt.
PROMPTS, SEED = 256, 1
SMALL = [
    RegressionTask(5, 21),
    RegressionTask(5, 21, noise=0.5),
    RegressionTask(5, 21, scale=0.5),
    RegressionTask(5, 21, nonzero=2),
]
LARGE = [RegressionTask(20, 41), RegressionTask(20, 41, noise=1.0), RegressionTask(20, 41, nonzero=3)]


def tables(facts: dict[str, Any]) -> dict[str, list[str]]:
    """The tables of the page: errors (a), and how alike learners are (b)."""
    shown = (0, 2, 5, 10, 15, 20)
    errors = [
        "| task | learner | " + " | ".join(f"{n} examples" for n in shown) + " |",
        "|---" * (len(shown) + 2) + "|",
    ]
    for size in ("d = 5", "d = 20"):
        for one in facts[size]["curves"]:
            row = [f"{one['errors'][facts[size]['lengths'].index(n)]:.2g}" for n in shown]
            errors.append(f"| {one['task']} | {one['learner']} | " + " | ".join(row) + " |")
    alike = ["| pair | squared errors / d | predictions differ by | cosine of the gradients | gradients differ by |"]
    alike.append("|---|---|---|---|---|")
    for names, found in facts["likeness at 20 examples, d = 5"].items():
        losses = ", ".join(f"{loss:.2g}" for loss in found["losses"])
        rest = f"{found['predictions']:.2g} | {found['cosine']:.6g} | {found['gradients']:.2g}"
        alike.append(f"| {names} | {losses} | {rest} |")
    far = facts["largest difference of predictions from exact descent, d = 5"]
    ours = next(name for name in far if name.startswith("ours"))
    alike += [
        "",
        f"Of {facts['d = 5']['prompts']} prompts and all positions, ours is at most {max(far[ours]):.2g} from exact",
    ]
    alike[-1] += f" descent; proven is at most {round_up(max(far['proven bound of ours']))}, from passes within"
    alike[-1] += f" {round_up(facts['ours']['bound of a pass'])} each ({facts['ours']['status']})."
    return {"a": errors, "b": alike}


def write_page(results: Path, page: Path) -> None:
    text = page.read_text()
    for letter, lines in tables(json.loads(results.read_text())).items():
        text = written_into(text, letter, lines, "benchmarks/in_context_curve.py")
    page.write_text(text)


def distances(learners: dict[str, Any], target: Any, task: RegressionTask) -> dict[str, Floats]:
    """(positions,): the largest distance, of any prompt, of each learner's predictions to those of the target."""
    xs, ys = task.sample(PROMPTS, SEED)
    with torch.no_grad():
        wanted = np.asarray(target(xs, ys))
        found = {name: np.abs(np.asarray(learner(xs, ys)) - wanted).max(axis=0) for name, learner in learners.items()}
    return found


def draw(small: Curves, large: Curves, apart: dict[str, Floats], path: Path) -> None:
    """Three panels: d = 5, d = 20, and how far predictions of d = 5 are from exact descent's."""

    def figure() -> Any:
        from matplotlib.figure import Figure

        made = Figure(figsize=(16, 5.6), layout="constrained")
        panels: Any = made.subplots(1, 3)
        for axes, found in ((panels[0], small), (panels[1], large)):
            task = found.curves[0].task
            draw_curves(axes, found.lengths, [one for one in found.curves if one.task == task])
            axes.set_title(f"{task}: mean of {found.prompts} prompts", fontsize=10)
            axes.legend(frameon=False, fontsize=8)
        for name, far in apart.items():
            style = "k--" if name.startswith("proven") else ".-"
            panels[2].plot(range(len(far)), np.where(far > 0, far, np.nan), style, label=name)
        panels[2].set_yscale("log")
        panels[2].set_xlabel("examples before the query")
        panels[2].set_ylabel("largest difference of predictions")
        panels[2].set_title(f"d = 5: from {STEPS} steps of exact descent", fontsize=10)
        panels[2].xaxis.get_major_locator().set_params(integer=True)
        panels[2].legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 0.8))
        return made

    write_figure(path, figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, help="of the trained Transformer; without it there is none")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where the figure goes")
    parser.add_argument("--results", type=Path, default=RESULTS / "in_context_curve.json", help="where the data go")
    parser.add_argument("--page", action="store_true", help="write the page's tables from the data, and end")
    given = parser.parse_args()
    if given.page:
        write_page(given.results, PAGE)
        return
    torch.set_num_threads(1)
    begun = time.process_time()
    icl = ww.incontext.causal_learner(features=5, examples=21, steps=STEPS)
    built = time.process_time() - begun
    assert icl.net.certificate is not None
    ours = NetworkLearner(icl)
    descent, attention = DescentLearner(STEPS), LinearAttentionLearner(STEPS)
    assert descent.sizes(5, 21) == (icl.descent.step, 21), "ours takes the same steps"
    trained = [] if given.checkpoint is None else [load(given.checkpoint)]
    print(f"built {icl} in {built:.0f} s")

    small = curve(SMALL, range(21), [descent, ours, attention, *trained], prompts=PROMPTS, seed=SEED)
    large = curve(LARGE, range(41), [DescentLearner(STEPS), LinearAttentionLearner(STEPS)], prompts=PROMPTS, seed=SEED)
    xs, ys = SMALL[0].sample(PROMPTS, SEED)
    beside = {ours.name: ours, attention.name: attention, **{model.name: model for model in trained}}
    apart = {"proven bound of ours": ours.bounds(xs, ys).max(axis=0), **distances(beside, descent, SMALL[0])}
    draw(small, large, apart, given.picture)

    pairs = [(ours, descent), (attention, descent)]
    pairs += [(model, other) for model in trained for other in (descent, LeastSquaresLearner(), ours)]
    alike = {f"{a.name} / {b.name}": dataclasses.asdict(compare(a, b, xs, ys)) for a, b in pairs}
    for names, found in alike.items():
        print(f"{names}: " + ", ".join(f"{key} {value}" for key, value in found.items()))
    for found in (small, large):
        for one in found.curves:
            print(f"{one.task}, {one.learner}: " + ", ".join(f"{error:.3g}" for error in one.errors[::5]))
    inside = all(
        bool((one.band[0] <= one.errors).all() and (one.errors <= one.band[1]).all())
        for one in small.curves
        if one.band is not None
    )
    facts = {
        "command": "python " + " ".join(sys.argv),
        "ours": {"bound of a pass": icl.net.certificate.bound, "status": icl.net.certificate.status, "steps": STEPS},
        "trained Transformer's fingerprint": [fingerprint(model) for model in trained],
        "errors within the band": inside,
        "d = 5": small.facts(),
        "d = 20": large.facts(),
        "largest difference of predictions from exact descent, d = 5": {k: v.tolist() for k, v in apart.items()},
        "likeness at 20 examples, d = 5": alike,
    }
    given.results.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
