"""A study of seconds: three small trainings of UA-E1, and what a test needs to stop it half way."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.panels import Curves, Picture
from weightwright.papers.experiments.machinery.read import mean_of
from weightwright.papers.experiments.machinery.study import Condition, Effect, Study, Summary, judge, make_texts
from weightwright.papers.experiments.machinery.trends import fit_trend
from weightwright.papers.experiments.studies import ua_e1
from weightwright.papers.kit.paper_texts import split_sections

TEXTS = """
## TINY: a small study

it falls

### Source

here

### Choices

| setting | taken | why | varied to |
|---|---|---|---|
| p | 4 | not stated | 6 |

### Meanings

| column | meaning |
|---|---|
| MSE | an error |

### Variations

| name | setting | number |
|---|---|---|
| p | p | MSE: |

### Verdicts

| name | claim | paper | ours | because |
|---|---|---|---|---|
| falls | it falls | -1 | {size} | it is {size} |
"""

SETTINGS = {"d": 2, "n": 3, "hidden": 4, "rate": 1e-2, "epochs": 2, "batch": 8, "samples": 20, "train_share": 0.8}
SETTINGS |= {"p": [4, 5, 6], "seeds": 2, "width": 2.0}


def work(counting: Path | None, stop_at: str | None, unit: Any, worker: Any) -> Any:
    """A training; its name goes into a file, and where the file `stop` names it the user presses Ctrl-C."""
    if counting is not None:
        with (counting / "done").open("a") as lines:
            lines.write(f"{unit['p']}\n")
        if stop_at == str(unit["p"]):
            raise KeyboardInterrupt
    return ua_e1.train(unit, worker)


def summarise(chosen: Any, results: dict[str, Any]) -> Summary:
    mse = np.array([results[f"p{p}"]["mse"] for p in chosen["p"]]).T
    trend = fit_trend("MSE against p", chosen["p"], mse, "falls")
    cells = [([p], {"mse": mse[:, i]}) for i, p in enumerate(chosen["p"])]
    varied = Effect("p", mean_of(mse[:, 0]), mean_of(mse[:, -1]), turns=True, in_full=True)
    return Summary([trend], cells, [judge("falls", False, size="small")], {"trained": mse.tolist()}, (varied,))


def tiny_study(counting: Path | None = None, stop_at: str | None = None) -> Study:
    doing, given = functools.partial(work, counting, stop_at), {"H": 1} | ua_e1.READINGS["own"]
    return Study(
        texts=make_texts("TINY", split_sections(TEXTS)["TINY"]),
        paper={},
        settings=SETTINGS,
        cut=(),
        conditions=lambda chosen: [Condition(f"p{p}", doing, given | {"p": p}) for p in chosen["p"]],
        about="falls",
        columns={"p": None, "MSE": read.mean("mse")},
        summarise=summarise,
        picture=lambda record: Picture([[Curves("p", record["settings"]["p"], record["curves"])]]),
    )
