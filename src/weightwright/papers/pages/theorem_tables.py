"""What the theorems come out as: facts for machines, tables for people."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group
from rich.table import Table
from rich.text import Text

from weightwright.claims.certificate import round_up
from weightwright.papers.theorems.registry import Theorem
from weightwright.report.facts.compiled import Facts
from weightwright.report.facts.fact_tables import printable, to_json

if TYPE_CHECKING:
    from weightwright.papers.kit.rates import Point, Study
    from weightwright.papers.theorems.show import Shown

_STYLES = {"PROVEN": "bold green", "MEASURED": "bold yellow", "FAILED": "bold red"}
_COSTS = ("layers", "heads", "anchors", "parameters", "peak bytes")


def theorems_json(shown: Sequence[Shown], studies: Sequence[Study] | None) -> str:
    return to_json([theorem_facts(one, studies) for one in shown])


def theorem_facts(shown: Shown, studies: Sequence[Study] | None = None) -> Facts:
    """One object of `weightwright theorems --json`. studies: None where they were not asked for."""
    theorem = shown.theorem
    facts: Facts = {
        **{name: getattr(theorem, name) for name in ("id", "title", "source", "file", "statement", "repaired", "rate")},
        **{name: getattr(shown, name) for name in ("status", "bound", "measured", "norm", "seconds", "reason")},
        "variants": [{**dataclasses.asdict(check), "vacuous": check.vacuous} for check in shown.checks],
        "counts": [{**dataclasses.asdict(count), "ratio": count.ratio} for count in shown.counts],
    }
    if studies is not None:
        facts["studies"] = [dataclasses.asdict(study) for study in studies]
        for study, told in zip(studies, facts["studies"], strict=True):
            for series, told_series in zip(study.series, told["series"], strict=True):
                told_series["fitted_slope"] = series.fitted()
    return facts


def theorem_list(theorems: Sequence[Theorem]) -> Table:
    """Every id with its statement, source and what it comes out as when it is run; nothing is built here."""
    grid = _table("id", "title and statement", "source", "status when run")
    for theorem in theorems:
        words = Text.assemble((theorem.title, "bold"), "\n", theorem.statement)
        grid.add_row(theorem.id, words, theorem.source, _status(theorem.expects))
        grid.add_row()
    return grid


def theorem_summary(shown: Sequence[Shown]) -> Group:
    """How all of them came out, a line each, and how long it took."""
    grid = _table("id", "title", "status", "bound", "error found", "seconds")
    for one in shown:
        grid.add_row(one.theorem.id, one.theorem.title, _status(one.status), *_numbers(one), f"{one.seconds:.2f}")
    failed = [Text(f"{one.theorem.id} failed: {printable(one.reason)}", "red") for one in shown if one.reason]
    return Group(grid, *failed, total_time(shown))


def total_time(shown: Sequence[Shown]) -> str:
    return f"{len(shown)} theorems in {sum(one.seconds for one in shown):.1f} s"


def theorem_table(shown: Shown, studies: Sequence[Study] = ()) -> Group:
    """All about one: what it says, how its variants came out, parameters, counts, and the studies."""
    theorem = shown.theorem
    head = Table.grid(padding=(0, 2))
    head.add_column(style="cyan", no_wrap=True)
    head.add_column(overflow="fold")
    rows: dict[str, str | Text] = {
        theorem.id: theorem.title,
        "deviations": "\n".join(theorem.deviations),
        "statement": theorem.statement,
        "source": theorem.source,
        "rate": theorem.rate,
        "file": theorem.file,
        "status": _status(shown.status),
        **({"reason": printable(shown.reason)} if shown.reason else {}),
        "time taken": f"{shown.seconds:.2f} s",
    }
    for label, text in rows.items():
        head.add_row(label, text)
    parts: list[Any] = [head]
    for columns in tables(shown, studies):
        parts += ["", _Fitting(*columns)]
    return Group(*parts, "", *(Text(printable(note)) for note in notes(shown)))


def notes(shown: Shown) -> list[str]:
    """Each note once, with the variants that it is about unless it is about all."""
    about: dict[str, list[str]] = {}
    for check in shown.checks:
        for note in check.notes + check.warnings:
            about.setdefault(note, []).append(check.name)
    return [note if len(names) == len(shown.checks) else f"{', '.join(names)}: {note}" for note, names in about.items()]


Columns = tuple[str, Sequence[str], Sequence[Sequence[str]]]  # title, headings, rows


def tables(shown: Shown, studies: Sequence[Study] = ()) -> Iterator[Columns]:
    """The tables of one theorem as text, for the terminal and for the page."""
    if shown.checks:
        yield _variants(shown)
    parameters = [
        (check.name, _settings(check.chosen), _settings(check.printed))
        for check in shown.checks
        if check.chosen or check.printed
    ]
    if parameters:
        yield "parameters", ("variant", "chosen", "by the paper's formulas"), parameters
    bounds = [(check.name, name, round_up(bound)) for check in shown.checks for name, bound in check.bounds.items()]
    if bounds:
        yield "all bounds", ("variant", "bound", "value"), bounds
    if shown.counts:
        headings = ("count", "our formula", "gives", "built", "the paper's order", "is", "built / paper")
        counts = [
            (c.what, c.formula, f"{c.value:,}", f"{c.built:,}", c.order or "-", _number(c.paper), _number(c.ratio))
            for c in shown.counts
        ]
        yield "counts", headings, counts
    for study in studies:
        yield _study(study)


def _variants(shown: Shown) -> Columns:
    costs = [name for name in _COSTS if any(name in check.cost for check in shown.checks)]
    fits = ["plain Transformer"] if any(check.native is not None for check in shown.checks) else []
    rows = []
    for check in shown.checks:
        found = "-" if check.measured is None else f"{check.measured:.3g}"
        if check.interval is not None:
            found += f" in [{check.interval[0]:.3g}, {check.interval[1]:.3g}]"
        bound = "-" if check.bound is None else round_up(check.bound) + " (vacuous)" * check.vacuous
        native = [{None: "-", True: "yes", False: "no"}[check.native]] if fits else []
        inputs = f"{check.inputs:,}" if check.inputs else "-"
        own = [] if not any(other.target_norm is not None for other in shown.checks) else [_number(check.target_norm)]
        rows.append([check.name, check.status, bound, found, check.norm, *own, inputs, *native])
        rows[-1] += [_number(check.cost.get(name)) for name in costs]
    beside = ["the target's own norm"] if any(check.target_norm is not None for check in shown.checks) else []
    headings = ["anchors on registers" if name == "anchors" else name for name in costs]
    return "", ("variant", "status", "bound", "error found", "norm", *beside, "inputs", *fits, *headings), rows


def _study(study: Study) -> Columns:
    """A row for each value; for each series its error, its bound where it has one of its own, seconds and bytes."""
    keys = list(dict.fromkeys((point.value, point.label) for series in study.series for point in series.points))
    if study.axis != "places":
        keys.sort()
    headings, columns = [study.parameter], [[label or _number(value) for value, label in keys]]
    for index, series in enumerate(study.series):
        points = {(point.value, point.label): point for point in series.points}
        found = [points.get(key) for key in keys]
        headings.append(f"{series.name}: error")
        columns.append(["-" if point is None else f"{point.measured:.3g}" for point in found])
        for name in _extras(study):
            headings.append(f"{series.name}: {name}")
            columns.append(["-" if point is None else _number(point.extras.get(name)) for point in found])
        if (study.one_bound and index < len(study.series) - 1) or all(point.bound is None for point in series.points):
            continue
        headings.append(study.bound_is if study.one_bound else f"{series.name}: {study.bound_is}")
        columns.append([_bound(point) for point in found])
    slopes = [(series, series.fitted()) for series in study.series if series.slope is not None]
    told = "; ".join(f"{s.name}: fitted slope {fit:.3f}, expected {s.slope:g}" for s, fit in slopes if fit is not None)
    return f"{study.title}{f' ({told})' if told else ''}", headings, list(zip(*columns, strict=True))


def _bound(point: Point | None) -> str:
    return "-" if point is None or point.bound is None else round_up(point.bound) + " (vacuous)" * point.vacuous


def _extras(study: Study) -> list[str]:
    """Seconds, bytes and norms; what else a point knows stays in the JSON."""
    from weightwright.papers.kit.rates import OWN_NORM  # listing theorems needs no numpy

    known = [name for series in study.series for point in series.points for name in point.extras]
    return [name for name in dict.fromkeys(known) if name in ("seconds", "peak bytes", OWN_NORM)]


class _Fitting:
    """A table that breaks no word: where its columns find no room side by side, they become rows."""

    def __init__(self, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.title = printable(title)
        self.lines = [list(map(printable, line)) for line in (headings, *rows)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        turned = [list(column) for column in zip(*self.lines, strict=True)]
        turns = _room(self.lines) > options.max_width >= _room(turned)
        headings, *rows = turned if turns else self.lines
        grid = _table(*headings, title=self.title)
        for column, wide in zip(grid.columns, _widths([headings, *rows], options.max_width), strict=True):
            column.width = wide
        for row in rows:
            label: list[Any] = [Text(row.pop(0), "cyan")] if turns else []
            grid.add_row(*label, *(_status(cell) if cell in _STYLES else cell for cell in row))
        yield grid


def _room(lines: Sequence[Sequence[str]]) -> int:
    """Characters that a table takes at least if no word is broken."""
    return sum(_longest_word(column) + 2 for column in zip(*lines, strict=True))


def _widths(lines: Sequence[Sequence[str]], room: int) -> list[int]:
    """Of the columns: what their longest words take, and of the rest an equal share or as much as they need."""
    least = [_longest_word(column) for column in zip(*lines, strict=True)]
    most = [max(map(len, column)) for column in zip(*lines, strict=True)]
    wide, spare = list(least), room - _room(lines)
    for done, i in enumerate(sorted(range(len(wide)), key=lambda i: most[i] - least[i])):
        more = max(0, min(most[i] - least[i], spare // (len(wide) - done)))
        wide[i], spare = wide[i] + more, spare - more
    return wide


def _longest_word(cells: Sequence[str]) -> int:
    return max(len(word) for cell in cells for word in (cell.split() or [""]))


def _table(*headings: str, title: str = "") -> Table:
    grid = Table(title=title or None, title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="cyan")
    for heading in headings:
        grid.add_column(heading, overflow="fold", no_wrap=heading in ("id", "file", "status"))
    return grid


def _status(status: str) -> Text:
    return Text(status, _STYLES.get(status, ""))


def _numbers(one: Shown) -> tuple[str, str]:
    bound = "-" if one.bound is None else round_up(one.bound)
    return bound, "-" if one.measured is None else f"{one.measured:.3g}"


def _settings(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {_number(value)}" for name, value in values.items()) or "-"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e9 else f"{value:.4g}"
