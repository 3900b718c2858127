"""The table of a study as Markdown, and its record in lines for people."""

from __future__ import annotations

from typing import Any

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
    found += [""] + [
        f"- varied {one['setting']}: {one['number']} {one['taken']:.3g} became {one['varied']:.3g}."
        for one in record["varied"]
    ]
    most = record["depends_most_on"]
    if most is not None:
        found += ["", f"The claim depends most on: {most['setting']}."]
    cut = record["settings"]["cut"]
    found += ["", "Smaller than in the paper: " + ("; ".join(cut) if cut else "nothing") + "."]
    found += ["", run_line(record)]
    return found


def run_line(record: Json) -> str:
    """Command, seeds, machine and time of a run."""
    run, seeds = record["run"], len(record["settings"]["seeds"])
    elsewhere = [f"; {part} on {_place(machine)}" for part, machine in run.get("parts_elsewhere", {}).items()]
    return (
        f"`{run['command']}`: {seeds} seed{'s' * (seeds != 1)}, {run['seconds_of_all_parts']:.0f} s of work on "
        f"{_place(run['machine'])}{''.join(elsewhere)}."
    )


def _place(machine: Json) -> str:
    return str(machine.get("accelerator", f"{machine['processor']}, {machine['cores']} cores"))


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
