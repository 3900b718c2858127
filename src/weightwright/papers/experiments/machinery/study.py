"""What a study of the papers is: texts, settings, conditions, a table, verdicts and a figure, all of them data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from typing import Any

from weightwright.papers.experiments.machinery.panels import Picture
from weightwright.papers.experiments.machinery.study_units import Json, Unit, Work
from weightwright.papers.kit.paper_texts import join_lines, read_sections, read_table


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
class StudyTexts:
    """What a study says in words; braces are filled in with numbers of the run.

    id: as the mission map and `weightwright reproduce` name the study.
    title: what it is about.
    claim: what the paper says of it, in our words.
    source: where it stands.
    choices: settings that the paper's text does not state: what was taken, why, and what it was varied to.
    meanings: what each column means.
    smaller: by the names of `cut`, sentences that say what is smaller than in the paper.
    variations: by name, what is changed, and the number that is compared.
    verdicts: by name, a claim of the paper, and because of what it was reproduced or not.
    """

    id: str
    title: str
    claim: str
    source: str
    choices: list[dict[str, str]]
    meanings: dict[str, str]
    smaller: dict[str, str]
    variations: dict[str, dict[str, str]]
    verdicts: dict[str, dict[str, str]]


def read_texts(id: str) -> StudyTexts:
    """The texts of a study of this package."""
    return make_texts(id, read_sections("weightwright.papers.experiments")[id])


def make_texts(id: str, parts: Mapping[str, str]) -> StudyTexts:
    """The texts of a study from the parts of its section; a study may vary nothing and be as large as the paper's."""

    def by_name(part: str) -> dict[str, dict[str, str]]:
        return {row.pop("name"): row for row in read_table(parts[part])} if part in parts else {}

    return StudyTexts(
        id=id,
        title=parts["title"],
        claim=join_lines(parts["statement"]),
        source=join_lines(parts["Source"]),
        choices=[{name.replace(" ", "_"): cell for name, cell in row.items()} for row in read_table(parts["Choices"])],
        meanings={row["column"]: row["meaning"] for row in read_table(parts["Meanings"])},
        smaller={name: row["sentence"] for name, row in by_name("Smaller").items()},
        variations=by_name("Variations"),
        verdicts=by_name("Verdicts"),
    )


def fill_texts(texts: Mapping[str, str], numbers: Mapping[str, Any]) -> dict[str, str]:
    """The texts with the numbers in their braces."""
    return {name: text.format(**numbers) for name, text in texts.items()}


@dataclass(frozen=True)
class Cut:
    """When a run is smaller than the paper's.

    name: of the sentence that says so; {steps} are those of the training, {share} is how often they go into the
        paper's, other braces are settings.
    paper: settings of the paper. The sentence is said where one of ours is smaller; of seeds, where there are fewer or
        more.
    paper_steps: steps of the paper's training, where the text has {share}.
    """

    name: str
    paper: Mapping[str, int]
    paper_steps: int = 0

    def sentences(self, texts: Mapping[str, str], chosen: Json) -> list[str]:
        """The sentence for a run with these settings, or none."""
        found = chosen | {"seeds": len(chosen["seeds"])}
        if {"samples", "batch"} <= set(chosen):
            trained = round(chosen.get("train_share", 1) * chosen["samples"])
            found["steps"] = trained // chosen["batch"] * chosen["epochs"]
            found["share"] = self.paper_steps // max(found["steps"], 1)
        smaller = any(found[name] < value for name, value in self.paper.items())
        said = smaller or found["seeds"] > self.paper.get("seeds", found["seeds"])
        return [texts[self.name].format(**found)] if said else []


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
class Variation:
    """A setting that is changed: the conditions that are varied are run again, or already have what it leads to.

    name: its units are "varied-" and this.
    changed: the settings; None: nothing is run again.
    seeds: how many of the seeds it runs with; None: all.
    read: the number that is compared, where it is not read as without the variation.
    """

    name: str
    changed: Json | None
    seeds: int | None = None
    read: Reader | None = None

    def names_of(self, conditions: Sequence[Condition]) -> list[str]:
        """Under which names the results of the varied conditions are found."""
        return [one.name if self.changed is None else f"varied-{self.name}{one.varied_as}" for one in conditions]


@dataclass(frozen=True)
class Effect:
    """How the number that is compared moved when one setting was changed.

    name: of the variation.
    taken, varied: the number as the study has it, and after the change.
    slopes: whether they are slopes, which are compared by their difference; errors are by the logarithm of their ratio.
    numbers: for the braces of its texts.
    """

    name: str
    taken: float
    varied: float
    slopes: bool = False
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def write_row(self, texts: Mapping[str, Mapping[str, str]]) -> Json:
        """What a record has of it: its words and numbers, and how large the effect is."""
        ratio = self.varied / self.taken if self.taken and not self.slopes else 0.0
        effect = abs(log(ratio)) if ratio > 0 else abs(self.varied - self.taken)
        words = fill_texts(texts[self.name], self.numbers)
        return {**words, "taken": self.taken, "varied": self.varied, "effect": effect}


@dataclass(frozen=True)
class Verdict:
    """Whether a claim was reproduced ("yes", "in part", "no").

    name: of the claim in the texts of the study.
    numbers: because of which; they stand in the braces of the texts.
    """

    name: str
    reproduced: str
    numbers: Mapping[str, Any]

    def write_row(self, texts: Mapping[str, Mapping[str, str]]) -> Json:
        """What a record has of it."""
        return {**fill_texts(texts[self.name], self.numbers), "reproduced": self.reproduced}


def judge(name: str, reproduced: bool, in_part: bool = False, **numbers: Any) -> Verdict:
    """The verdict on a claim."""
    return Verdict(name, "yes" if reproduced else "in part" if in_part else "no", numbers)


def judge_slope(name: str, trend: Json, target: float) -> Verdict:
    """The verdict on a slope: its sign must be that of the target, and its interval contain it."""
    right_sign = trend["sign"] == ("falls" if target < 0 else "grows")
    near = right_sign and trend["lo"] <= target <= trend["hi"]
    between = "no interval" if trend["lo"] is None else f"{trend['lo']:.2f}, {trend['hi']:.2f}"
    return judge(name, near, right_sign, slope=trend["slope"], between=between, sign=trend["sign"])


@dataclass(frozen=True)
class Summary:
    """What came out of a study.

    trends: of `fit_trend`.
    cells: the rows of the table.
    verdicts: on the paper's claims and on ours.
    curves: what the figure draws.
    varied: where a study varies more than its `variations`.
    numbers: for the braces of its choices and of the meanings of its columns.
    """

    trends: list[Json]
    cells: Cells
    verdicts: list[Verdict]
    curves: Json
    varied: tuple[Effect, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A table or figure of a paper.

    texts: what it says in words.
    paper: its printed numbers.
    settings: of a run; a `Sized` has a value for each size of run, and `seeds` is a number of seeds.
    cut: what is smaller than in the paper: a `Cut`, or the name of a sentence; None in a `Sized` where there is none.
    conditions: what is run with these settings; a condition has all settings of the run but those that are its own.
    columns: of the table; those without a reader are the first of a row.
    summarise: what came out, from the settings and the results by name.
    picture: the figure of a record.
    variations: settings that are varied; the conditions with `varied_as` are run with each of them.
    compared: the number that shows what a variation does, from the results of the conditions that are varied.
    compares_slopes: whether it is a slope.
    first_seed: the others follow it.
    complete: settings that follow from the others and from what was asked for; further sentences of `cut` among them.
    """

    texts: StudyTexts
    paper: Json
    settings: Mapping[str, Any]
    cut: tuple[Cut | Sized | str, ...]
    conditions: Callable[[Json], Iterable[Condition]]
    columns: Mapping[str, Callable[[Json], Any] | None]
    summarise: Callable[[Json, dict[str, Json]], Summary]
    picture: Callable[[Json], Picture]
    variations: tuple[Variation, ...] = ()
    compared: Reader | None = None
    compares_slopes: bool = False
    first_seed: int = 0
    complete: Callable[[Json, Options], Json] | None = None

    @property
    def id(self) -> str:
        """As `weightwright reproduce` names it."""
        return self.texts.id

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
            if isinstance(cut, Cut):
                told += cut.sentences(self.texts.smaller, chosen)
            elif cut is not None:
                told.append(self.texts.smaller[cut])
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

    def compare_variations(self, chosen: Json, results: dict[str, Json]) -> list[Effect]:
        """What each variation does to the number that is compared."""
        conditions = [one for one in self.conditions(chosen) if one.varied_as is not None]
        found = []
        for one in self.variations:
            assert self.compared is not None
            taken = self.compared(chosen, [results[condition.name] for condition in conditions])
            read = one.read or self.compared
            varied = read(chosen, [results[name] for name in one.names_of(conditions)])
            found.append(Effect(one.name, taken, varied, self.compares_slopes))
        return found
