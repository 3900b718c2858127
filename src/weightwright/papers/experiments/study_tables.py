"""The table of a study as Markdown, and its record in lines for people."""

from __future__ import annotations

from typing import Any

from weightwright.papers.experiments.machinery.checks import CHECKS, is_reported
from weightwright.papers.experiments.machinery.study_units import Json
from weightwright.papers.experiments.machinery.trends import trend_in_words


def write_table(record: Json) -> str:
    """ID.md: claim, verdicts, table with the meaning of its columns, trends, what was chosen, varied and cut."""
    return "\n".join([f"# {record['study']}: {record['title']}", "", *study_lines(record), ""])


def study_lines(record: Json, image: str | None = None) -> list[str]:
    """The section of a study without its heading. image: the address of the figure; None: beside the page."""
    found = [f"{record['source']}. The paper: {record['claim']}.", ""]
    found += [f"- **{one['reproduced']}**: {one['claim']}: {one['because']}." for one in record["verdicts"]]
    found += ["", f"![{record['title']}]({image or record['study'] + '.png'})", ""]
    found += markdown_table(record["columns"], record["rows"])
    found += ["", *(f"- {name}: {said}." for name, said in record["meanings"].items()), ""]
    found += ["Trends (sign, slope, interval):", "", *(f"- {trend_in_words(one)}" for one in record["trends"]), ""]
    found += ["What the text does not state:", ""]
    found += [
        f"- {one['setting']}: {one['taken']} ({one['why']}); varied to: {one['varied_to']}." for one in record["chosen"]
    ]
    found += ["", *hang_lines(record), *check_lines(record)]
    cut = record["settings"]["cut"]
    found += ["", "Smaller than in the paper: " + ("; ".join(cut) if cut else "nothing") + "."]
    found += ["", run_line(record)]
    return found


def hang_lines(record: Json) -> list[str]:
    """What happens where a choice is made otherwise, first where the verdict turns."""
    varied = sorted(record["varied"], key=lambda one: not one["turns"])
    if not varied:
        return []
    ends = {True: "; the verdict turns", False: "", None: ""}
    rows = [
        f"- {one['setting']}: {one['number']} {one['taken']:.3g} becomes {one['varied']:.3g}"
        f"{'' if one['in_full'] else ' (tried)'}{ends[one['turns']]}."
        for one in varied
    ]
    said = (
        "Choices made otherwise; what is tried has one seed that is not reported, and a tenth of the steps. The verdict"
    )
    return [f"{said} is that on whether {record['about']}:", "", *rows, ""]


def hangs_on(record: Json, claim: str) -> str:
    """The choices with which the verdict on a claim turns."""
    if claim != record["about"]:
        return "not tried"
    return "; ".join(one["setting"] for one in record["varied"] if one["turns"]) or "nothing that was tried"


def check_lines(record: Json) -> list[str]:
    """The checks of all trained parts, in one row for each check."""
    rows = []
    for name, check in CHECKS.items():
        found = [row for row in record["checks"] if row["check"] == name and is_reported(row["part"])]
        if found:
            worst = (max if check.above else min)(row["worst"] for row in found)
            fired = [row["part"] for row in found if row["fired"]]
            shown = ", ".join(fired[:6]) + (f" and {len(fired) - 6} more" if len(fired) > 6 else "")
            limit = f"{'at most' if check.above else 'at least'} {check.limit:g}"
            rows.append([check.words, limit, worst, shown or "nowhere"])
    return [*markdown_table(["check", "healthy", "worst", "fires"], rows), ""] if rows else []


def run_line(record: Json) -> str:
    """Command, seeds, machines, devices, versions and time of a run."""
    run, seeds = record["run"], len(record["settings"]["seeds"])
    counts = [f"{len(one['parts'])} part{'s' * (len(one['parts']) != 1)}" for one in run["machines"]]
    places = "; ".join(f"{n} on {_place(one['machine'])}" for n, one in zip(counts, run["machines"], strict=True))
    return (
        f"`{run['command']}`: {seeds} seed{'s' * (seeds != 1)}, {run['seconds_of_all_parts']:.0f} s of work: {places}."
    )


def _place(machine: Json) -> str:
    name = str(machine.get("accelerator", f"{machine['processor']}, {machine['cores']} cores"))
    return f"{name} (torch {machine['versions'].get('torch', '-')})"


def markdown_table(columns: list[str], rows: list[list[Any]]) -> list[str]:
    """The lines of a Markdown table."""

    def line(values: list[Any]) -> str:
        return f"| {' | '.join(cell_text(value).replace('|', chr(92) + '|') for value in values)} |"

    return [line(list(columns)), f"|{'---|' * len(columns)}", *map(line, rows)]


def cell_text(value: Any) -> str:
    """A value of a table as text."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)
