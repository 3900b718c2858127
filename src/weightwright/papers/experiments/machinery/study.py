"""What a study of the papers is: texts, settings, conditions, a table, verdicts and a figure, all of them data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
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
    data: corpora that the study reads, where it reads some; none: a small made-up one.
    full: the paper's own size, whatever it takes.
    epochs: of training, instead of the study's own number; None: as the study has it.
    """

    quick: bool = False
    seeds: int | None = None
    device: str = "cpu"
    data: tuple[Path, ...] = ()
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
    verdicts: by name, a claim of the paper, its number, ours, and because of what it was reproduced or not.
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
        count = len(chosen["seeds"])
        found = chosen | {"seeds": count, "s": "s" * (count != 1)}
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
    varied_as: what is appended to the names of its trials; None: it is not varied.
    """

    name: str
    work: Work
    given: Json
    varied_as: str | None = None


#: Choices are varied, and settings fixed, on a seed that no result is reported of, with a tenth of the steps.
TRIAL = {"seeds": [1000], "share": 0.1}


@dataclass(frozen=True)
class Variation:
    """A choice that the paper's text does not state, made otherwise: the conditions that are varied are tried with it.

    name: its units are "trial-" and this.
    changed: the settings; None: nothing is run again.
    read: the number that is compared, where it is not read as without the variation.
    where: the `varied_as` of the one condition that it is tried with; None: all that are varied.
    """

    name: str
    changed: Json | None
    read: Reader | None = None
    where: str | None = None

    def concerns(self, conditions: Iterable[Condition]) -> list[Condition]:
        """The conditions that it is tried with."""
        varied = [one for one in conditions if one.varied_as is not None]
        return [one for one in varied if self.where is None or one.varied_as == self.where]


def trial_name(variation: str, condition: Condition) -> str:
    """Under which name a varied condition is tried. variation: its name; "": as it is."""
    return "-".join(filter(None, ("trial", variation, condition.varied_as)))


@dataclass(frozen=True)
class Effect:
    """How the number that is compared moved when one choice was made otherwise.

    name: of the variation.
    taken, varied: the number as the study has it, and after the change.
    turns: whether the first supports the claim and the second does not; None: the first does not, or there is no claim.
    in_full: whether both were run in full, and not only tried.
    numbers: for the braces of its texts.
    """

    name: str
    taken: float
    varied: float
    turns: bool | None = None
    in_full: bool = False
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def write_row(self, texts: Mapping[str, Mapping[str, str]]) -> Json:
        """What a record has of it."""
        words = fill_texts(texts[self.name], self.numbers)
        return {**words, "taken": self.taken, "varied": self.varied, "turns": self.turns, "in_full": self.in_full}


@dataclass(frozen=True)
class Verdict:
    """Whether a claim was reproduced ("yes", "in part", "no").

    name: of the claim in the texts of the study.
    numbers: because of which; they stand in the braces of the texts.
    ours: whether it is a claim of ours about a constructed network, which no training can change.
    """

    name: str
    reproduced: str
    numbers: Mapping[str, Any]
    ours: bool = False

    def write_row(self, texts: Mapping[str, Mapping[str, str]], not_judged: str, fired: str) -> Json:
        """What a record has of it. not_judged: why no claim about trained models is judged; "" if they are. fired:
        which checks fire."""
        words = fill_texts(texts[self.name], self.numbers)
        if self.ours:
            return {**words, "reproduced": self.reproduced, "constructed": True}
        if not_judged:
            return {**words, "because": not_judged, "ours": "-", "reproduced": "not judged", "constructed": False}
        because = words["because"] + f"; checks fire: {fired}" * bool(fired)
        return {**words, "because": because, "reproduced": self.reproduced, "constructed": False}


def judge(name: str, reproduced: bool, in_part: bool = False, ours: bool = False, **numbers: Any) -> Verdict:
    """The verdict on a claim."""
    return Verdict(name, yes_or_no(reproduced, in_part), numbers, ours)


def yes_or_no(reproduced: bool, in_part: bool = False) -> str:
    """How verdicts say it."""
    return "yes" if reproduced else "in part" if in_part else "no"


def judge_slope(name: str, trend: Json, target: float, **numbers: Any) -> Verdict:
    """The verdict on a slope: its sign must be that of the target, and its interval contain it."""
    right_sign = trend["sign"] == ("falls" if target < 0 else "grows")
    near = right_sign and trend["lo"] <= target <= trend["hi"]
    between = "no interval" if trend["lo"] is None else f"{trend['lo']:.2f}, {trend['hi']:.2f}"
    return judge(name, near, right_sign, slope=trend["slope"], between=between, sign=trend["sign"], **numbers)


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
    variations: choices that are made otherwise; the conditions with `varied_as` are tried as they are and with each.
    compared: the number that shows what a variation does, from the results of the trials.
    about: the verdict that choices may turn.
    supports: whether such a number supports its claim.
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
    about: str = ""
    supports: Callable[[float], bool] | None = None
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
        chosen |= {"study": self.id, "device": options.device, "quick": options.quick}
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

    def why_not_judged(self, chosen: Json) -> str:
        """Why claims about trained models are not judged; "" where they are."""
        if not chosen["quick"] or "epochs" not in chosen:
            return ""
        full = {name: Options(full=True).pick(value) for name, value in self.settings.items()}
        sizes = [name for name in ("samples", "sentences", "epochs") if name in full]
        times = prod(full[name] for name in sizes) / prod(chosen[name] for name in sizes)
        return f"a quick run, 1/{times:.0f} of the training" if times > 1 else "a quick run"

    def plan(self, chosen: Json) -> list[Unit]:
        """The units of work of a run with these settings: its conditions, and the trials."""
        base = {name: value for name, value in chosen.items() if name not in ("cut", "study", "quick")}
        conditions = list(self.conditions(chosen))
        units = [Unit(one.name, one.work, base | one.given) for one in conditions]
        tried: dict[str, tuple[Condition, Json]] = {}
        for variation in self.variations:
            tried |= {trial_name("", one): (one, {}) for one in variation.concerns(conditions)}
        for variation in self.variations:
            if variation.changed is not None:
                for one in variation.concerns(conditions):
                    tried[trial_name(variation.name, one)] = one, variation.changed
        found = ((name, one, base | one.given | TRIAL | changed) for name, (one, changed) in tried.items())
        return units + [Unit(name, one.work, settings) for name, one, settings in found]

    def compare_variations(self, chosen: Json, results: dict[str, Json]) -> list[Effect]:
        """What each variation does to the number that is compared."""
        conditions, found = list(self.conditions(chosen)), []
        for one in self.variations:
            assert self.compared is not None
            tried = one.concerns(conditions)
            changed = "" if one.changed is None else one.name
            taken = self.compared(chosen, [results[trial_name("", condition)] for condition in tried])
            read = one.read or self.compared
            varied = read(chosen, [results[trial_name(changed, condition)] for condition in tried])
            told = self.supports is not None and self.supports(taken)  # else the trial is too short to tell
            turns = not self.supports(varied) if told and self.supports is not None else None
            found.append(Effect(one.name, taken, varied, turns))
        return found
