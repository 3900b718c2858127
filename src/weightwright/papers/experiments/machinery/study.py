"""What a study of the papers is: settings, units of work, a summary of their results, and a figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from typing import Any

from weightwright.papers.experiments.machinery.study_units import Json, Unit


@dataclass(frozen=True)
class Options:
    """What a run was asked for.

    quick: small settings that a laptop runs in a minute or two.
    seeds: runs with different random numbers; None: as many as the study has by itself.
    device: where models are trained, "cpu" or "cuda".
    data: a corpus that the study reads, where it reads one; None: a small made-up one.
    full: the paper's own size, whatever it takes.
    epochs: of training, in the place of the study's own number; None: as the study has it.
    """

    quick: bool = False
    seeds: int | None = None
    device: str = "cpu"
    data: Path | None = None
    full: bool = False
    epochs: int | None = None

    def epochs_or(self, usual: int) -> int:
        """The epochs of this run, of which the study takes so many by itself."""
        return usual if self.epochs is None else self.epochs

    def choose(self, quick: Any, cut: Any, full: Any) -> Any:
        """The value for this run: of --quick, of a run without options, of --full."""
        return quick if self.quick else full if self.full else cut


@dataclass(frozen=True)
class Choice:
    """A setting that the paper's text does not state: what was taken, why, and what it was varied to."""

    setting: str
    taken: str
    why: str
    varied_to: str


@dataclass(frozen=True)
class Summary:
    """What came out of a study.

    trends: of `fit_trend`.
    columns, meanings: of the table; what each column means.
    rows: of the table, texts and numbers.
    verdicts: for every claim of the paper "claim", "reproduced" ("yes", "no", "in part", "not measured") and "because".
    varied: for every setting that was varied "setting", "number" (what was looked at), "taken", "varied" (its two
        values) and "effect" (|log| of their ratio); the largest is what the claim depends on most.
    curves: what the figure draws.
    """

    trends: list[Json]
    columns: list[str]
    meanings: dict[str, str]
    rows: list[list[Any]]
    verdicts: list[Json]
    varied: list[Json]
    curves: Json = field(default_factory=dict)

    @property
    def depends_most_on(self) -> Json | None:
        """The variation with the largest effect."""
        return max(self.varied, key=lambda one: one["effect"], default=None)


@dataclass(frozen=True)
class Study:
    """A table or figure of a paper.

    id: as the mission map and `weightwright reproduce` name it.
    title: what it is about.
    source: where it stands.
    claim: what the paper says of it, in our words.
    paper: its printed numbers.
    choices: settings that its text does not state.
    settings: all settings of a run, plain data; `seeds` among them, and `cut`: sentences, what is smaller than in the
        paper and by how much.
    plan: the units of work of these settings.
    summarise: what came out, from the settings and the results by name.
    draw: fills a matplotlib figure from a record.
    """

    id: str
    title: str
    source: str
    claim: str
    paper: Json
    choices: tuple[Choice, ...]
    settings: Callable[[Options], Json]
    plan: Callable[[Json], list[Unit]]
    summarise: Callable[[Json, dict[str, Json]], Summary]
    draw: Callable[[Json, Any], None]

    def choose_settings(self, options: Options) -> Json:
        """All settings of a run that was asked for so. ValueError where nothing is trained for any epochs."""
        chosen = self.settings(options)
        if options.epochs is not None and "epochs" not in chosen:
            raise ValueError(f"epochs={options.epochs}: {self.id} trains nothing")
        return chosen


def compare_variation(setting: str, number: str, taken: float, varied: float, slopes: bool = False) -> Json:
    """A row of `Summary.varied`: how a number moved when one setting was changed.

    setting, number: what was changed, and what was looked at, in words.
    taken, varied: the number as the study has it, and after the change.
    slopes: whether they are slopes, which are compared by their difference; errors are by the logarithm of their ratio.
    """
    ratio = varied / taken if taken and not slopes else 0.0
    effect = abs(log(ratio)) if ratio > 0 else abs(varied - taken)
    return {"setting": setting, "number": number, "taken": taken, "varied": varied, "effect": effect}


def describe_certificate(net: Any) -> Json:
    """The bound of a constructed network and its status, as its certificate has them."""
    said = net.certificate
    assert said is not None
    return {"bound": float(said.bound), "status": said.status}
