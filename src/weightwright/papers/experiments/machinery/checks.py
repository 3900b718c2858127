"""What tells an unhealthy training: checks of every trained part, in every record; what fires is said in verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weightwright.papers.experiments.machinery.study_units import Json


@dataclass(frozen=True)
class Check:
    """A number of a trained model and where it begins to be a warning.

    words: what it is.
    warning: what it says where it fires.
    limit: it fires beyond it.
    above: whether beyond is above.
    """

    words: str
    warning: str
    limit: float
    above: bool

    def fires(self, value: float) -> bool:
        """Whether the number is a warning; so is one that is no number."""
        return not (value <= self.limit if self.above else value >= self.limit)


#: By the name that results have them under.
CHECKS = {
    "end": Check("loss of the last epoch over that of the best one", "the loss rises again", 1.5, above=True),
    "held_out": Check("held-out error over that on training data", "it overfits", 2.0, above=True),
    "live": Check("share of ReLUs that are above 0 for some input", "units are dead", 0.5, above=False),
    "prompt": Check(
        "share of a change of the targets with the prompt that the outputs follow",
        "the prompt is not followed",
        0.5,
        above=False,
    ),
}


def check_training(
    curve: Sequence[Sequence[float]], training: Sequence[float], held_out: Sequence[float]
) -> dict[str, list[float]]:
    """The checks that every training has, a number for each model.

    curve: losses of the epochs.
    training, held_out: errors after the training.
    """
    return {
        "end": [_ratio(losses[-1], min(losses)) for losses in curve if losses],
        "held_out": [_ratio(outside, inside) for outside, inside in zip(held_out, training, strict=True)],
    }


def _ratio(a: float, b: float) -> float:
    return a / b if b else float("inf") if a else 1.0


def follows(change: Iterable[float], left: Iterable[float]) -> list[float]:
    """The check "prompt" from sums of squares: of the targets' change, and of what the outputs' change misses of it.

    >>> follows([2.0, 2.0], [0.0, 3.0])
    [1.0, -0.5]
    """
    return [1 - _ratio(missed, size) for size, missed in zip(change, left, strict=True)]


def find_checks(results: dict[str, Json]) -> list[Json]:
    """A row for every part and check: the worst number of its models, and how many of them fire."""
    rows = []
    for part, result in results.items():
        for name, values in result.get("checks", {}).items():
            check = CHECKS[name]
            worst = max(values) if check.above else min(values)
            fired = sum(map(check.fires, values))
            rows.append({"part": part, "check": name, "worst": worst, "fired": fired, "models": len(values)})
    return rows


def fired_in_words(rows: Sequence[Json]) -> str:
    """What fires in the parts that are reported, in words; "" where nothing does."""
    said = []
    for name, check in CHECKS.items():
        seen = [row for row in rows if row["check"] == name and is_reported(row["part"])]
        fired = [row for row in seen if row["fired"]]
        if fired:
            worst = (max if check.above else min)(row["worst"] for row in fired)
            said.append(f"{check.warning} ({worst:.3g}, in {len(fired)} of {len(seen)} trained parts)")
    return "; ".join(said)


def is_reported(part: str) -> bool:
    """Whether a part is more than a trial."""
    return not part.startswith("trial")
