"""What a study of the papers is: settings, conditions, a table, verdicts and a figure, all of them rows of data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from typing import Any

from weightwright.papers.experiments.machinery.panels import Picture
from weightwright.papers.experiments.machinery.study_units import Json, Unit, Work


@dataclass(frozen=True)
class Options:
    """What a run was asked for.

    quick: small settings that a laptop runs in a minute or two.
    seeds: runs with different random numbers; None: as many as the study has by itself.
    device: where models are trained, "cpu" or "cuda".
    data: a corpus that the study reads, where it reads one; None: a small made-up one.
    full: the paper's own size, whatever it takes.
    epochs: of training, instead of the study's own number; None: as the study has it.
    """

    quick: bool = False
    seeds: int | None = None
    device: str = "cpu"
    data: Path | None = None
    full: bool = False
    epochs: int | None = None

    def pick(self, value: Any) -> Any:
        """The value of a setting for this run."""
        if not isinstance(value, Sized):
            return value
        return value.quick if self.quick else value.full if self.full else value.usual


@dataclass(frozen=True)
class Sized:
    """A setting that depends on the size of the run: of --quick, of a run without options, of --full."""

    quick: Any
    usual: Any
    full: Any


#: Training as most of the papers' experiments have it: Adam on batches of 32, and four fifths of the samples.
TRAINING = {"rate": 1e-3, "batch": 32, "train_share": 0.8}

#: Rows of a table: their first columns, and the numbers that the other columns are read from.
Cells = list[tuple[list[Any], Json]]
#: A number from the settings of a run and the results of the conditions that are varied.
Reader = Callable[[Json, list[Json]], float]


@dataclass(frozen=True)
class Cut:
    """A sentence that says what is smaller than in the paper, for runs where it is.

    text: with settings in braces; {steps} are those of the training, {share} is how often they go into the paper's.
    paper: settings of the paper. The sentence is said where one of ours is smaller; of seeds, where there are fewer or
        more.
    paper_steps: steps of the paper's training, where the text has {share}.
    """

    text: str
    paper: Mapping[str, int]
    paper_steps: int = 0

    def sentences(self, chosen: Json) -> list[str]:
        """The sentence for a run with these settings, or none."""
        found = chosen | {"seeds": len(chosen["seeds"])}
        if {"samples", "batch"} <= set(chosen):
            trained = round(chosen.get("train_share", 1) * chosen["samples"])
            found["steps"] = trained // chosen["batch"] * chosen["epochs"]
            found["share"] = self.paper_steps // max(found["steps"], 1)
        smaller = any(found[name] < value for name, value in self.paper.items())
        return [self.text.format(**found)] * (smaller or found["seeds"] > self.paper.get("seeds", found["seeds"]))


@dataclass(frozen=True)
class Choice:
    """A setting that the paper's text does not state: what was taken, why, and what it was varied to."""

    setting: str
    taken: str
    why: str
    varied_to: str


@dataclass(frozen=True)
class Condition:
    """A part of a study that runs by itself, for all its seeds.

    name: under which its result is found.
    work: what runs it.
    given: settings that are its own; the others are those of the run.
    varied_as: what is appended to the name of its variations; None: it is not varied.
    """

    name: str
    work: Work
    given: Json
    varied_as: str | None = None


@dataclass(frozen=True)
class ComparedNumber:
    """The number that is compared where a setting is varied.

    words: what it is.
    read: the number, from the settings of the run and the results of the varied conditions.
    slopes: whether it is a slope.
    """

    words: str
    read: Reader
    slopes: bool = False


@dataclass(frozen=True)
class Variation:
    """A setting that is changed: the conditions that are varied are run again, or already have what it leads to.

    name: its units are "varied-" and this.
    setting: what is changed, in words.
    changed: the settings; None: nothing is run again.
    seeds: how many of the seeds it runs with; None: all.
    read: the number that is compared, where it is not read as without the variation.
    """

    name: str
    setting: str
    changed: Json | None
    seeds: int | None = None
    read: Reader | None = None

    def names_of(self, conditions: Sequence[Condition]) -> list[str]:
        """Under which names the results of the varied conditions are found."""
        return [one.name if self.changed is None else f"varied-{self.name}{one.varied_as}" for one in conditions]


@dataclass(frozen=True)
class Summary:
    """What came out of a study.

    trends: of `fit_trend`.
    cells: the rows of the table.
    verdicts: of `say`.
    curves: what the figure draws.
    varied: of `compare_variation`, where a study varies more than its `variations`.
    meanings: of columns, where they depend on the results.
    """

    trends: list[Json]
    cells: Cells
    verdicts: list[Json]
    curves: Json
    varied: tuple[Json, ...] = ()
    meanings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A table or figure of a paper.

    id: as the mission map and `weightwright reproduce` name it.
    title: what it is about.
    source: where it stands.
    claim: what the paper says of it, in our words.
    paper: its printed numbers.
    choices: settings that its text does not state.
    settings: of a run; a `Sized` has a value for each size of run, and `seeds` is a number of seeds.
    cut: what is smaller than in the paper and by how much: sentences; None in a `Sized` where there is none.
    conditions: what is run with these settings; a condition has all settings of the run but those that are its own.
    columns: of the table; those without a reader are the first of a row.
    meanings: what each column means.
    summarise: what came out, from the settings and the results by name.
    picture: the figure of a record.
    variations: settings that are varied; the conditions with `varied_as` are run with each of them.
    compared: the number that shows what a variation does.
    first_seed: the others follow it.
    complete: settings that follow from the others and from what was asked for; further sentences of `cut` among them.
    """

    id: str
    title: str
    source: str
    claim: str
    paper: Json
    choices: tuple[Choice, ...]
    settings: Mapping[str, Any]
    cut: tuple[Cut | Sized | str, ...]
    conditions: Callable[[Json], Iterable[Condition]]
    columns: Mapping[str, Callable[[Json], Any] | None]
    meanings: Mapping[str, str]
    summarise: Callable[[Json, dict[str, Json]], Summary]
    picture: Callable[[Json], Picture]
    variations: tuple[Variation, ...] = ()
    compared: ComparedNumber | None = None
    first_seed: int = 0
    complete: Callable[[Json, Options], Json] | None = None

    def choose_settings(self, options: Options) -> Json:
        """All settings of a run that was asked for so, plain data; `cut` has what is smaller than in the paper.

        ValueError where nothing is trained for any epochs.
        """
        chosen = {name: options.pick(value) for name, value in self.settings.items()}
        chosen |= {"study": self.id, "device": options.device}
        seeds = options.seeds or chosen["seeds"]
        chosen["seeds"] = list(range(self.first_seed, self.first_seed + seeds))
        if options.epochs is not None and "epochs" not in chosen:
            raise ValueError(f"epochs={options.epochs}: {self.id} trains nothing")
        if options.epochs is not None:
            chosen["epochs"] = options.epochs
        chosen |= self.complete(chosen, options) if self.complete is not None else {}
        told: list[str] = []
        for cut in map(options.pick, self.cut):
            told += cut.sentences(chosen) if isinstance(cut, Cut) else [cut] * (cut is not None)
        return chosen | {"cut": told + chosen.get("cut", [])}

    def plan(self, chosen: Json) -> list[Unit]:
        """The units of work of a run with these settings: its conditions, and those that are varied."""
        base = {name: value for name, value in chosen.items() if name not in ("cut", "study")}
        conditions = list(self.conditions(chosen))
        units = [Unit(one.name, one.work, base | one.given) for one in conditions]
        varied = [one for one in conditions if one.varied_as is not None]
        for variation in self.variations:
            if variation.changed is not None:
                changed = variation.changed | {"seeds": chosen["seeds"][: variation.seeds]}
                names = variation.names_of(varied)
                units += [Unit(k, one.work, base | one.given | changed) for k, one in zip(names, varied, strict=True)]
        return units

    def compare_variations(self, chosen: Json, results: dict[str, Json]) -> list[Json]:
        """What each variation does to the number that is compared."""
        conditions = [one for one in self.conditions(chosen) if one.varied_as is not None]
        found = []
        for one in self.variations:
            assert self.compared is not None
            taken = self.compared.read(chosen, [results[condition.name] for condition in conditions])
            read = one.read or self.compared.read
            varied = read(chosen, [results[name] for name in one.names_of(conditions)])
            words, slopes = self.compared.words, self.compared.slopes
            found.append(compare_variation(one.setting, words, taken, varied, slopes))
        return found


def compare_variation(setting: str, number: str, taken: float, varied: float, slopes: bool = False) -> Json:
    """A row of what was varied: how a number moved when one setting was changed.

    setting, number: what was changed, and what was looked at, in words.
    taken, varied: the number as the study has it, and after the change.
    slopes: whether they are slopes, which are compared by their difference; errors are by the logarithm of their ratio.
    """
    ratio = varied / taken if taken and not slopes else 0.0
    effect = abs(log(ratio)) if ratio > 0 else abs(varied - taken)
    return {"setting": setting, "number": number, "taken": taken, "varied": varied, "effect": effect}
