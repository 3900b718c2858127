"""The one table that shows facts, which are plain dictionaries, to people; `to_json` prints one as it is.

Error bounds are shown rounded up: a shortened bound is still a bound.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from weightwright.claims.certificate import VARIABLES, round_up, status_in_words
from weightwright.claims.scope import DeadZone, covered
from weightwright.report.facts.compiled import Facts
from weightwright.report.facts.head_kinds import common, kinds, pattern, shortened

if TYPE_CHECKING:
    from weightwright.runtime import AttentionNetwork

_LABELS = {
    "tol": "tolerance asked for",
    "zones": "dead zones",
    "multiply_adds": "multiply-adds per token",
    "seconds": "time taken",
    "assumptions": "the proof assumes",
    "saved": "saved to",
    "plot": "drawn to",
    "check_with": "to check it, run",
    "native": "fits a plain Transformer",
    "parts": "groups of heads with a claim",
    "drawing": "network drawn to",
    "compile_seconds": "time to compile",
    "proof_seconds": "time to prove or measure",
    "called": "called to get it",
    "target": "compiled from",
    "error_by_part": "where the error comes from",
    "largest_weight": "largest weight, about",
}
_ROUNDED_UP = {"bound", "approximation", "leakage", "rounding", "error", "exceptional_volume"}
#: Names and heads that are listed before the rest is only counted.
_MOST_NAMES, _MOST_HEADS = 24, 6
_STYLES = {"PROVEN": "bold green", "EDITED": "bold red"}
_STYLES |= dict.fromkeys(("CONDITIONAL", "MEASURED", "UNCHECKED"), "bold yellow")


def value_lines(net: AttentionNetwork, values: Sequence[Facts], heading: bool) -> Iterator[str]:
    """A column for each input, one for each output, one for the bound, with every digit that a float has; "-" where no
    bound holds. Of sequences a line for each token, where as many tokens come out as go in; else a line for each."""
    inputs, outputs = net.network.inputs, net.network.outputs
    if heading and values:
        names = VARIABLES[: len(inputs)] if len(inputs) <= len(VARIABLES) and len(outputs) == 1 else inputs
        plain = not isinstance(values[0]["y"], list)
        yield _line([*names, *([f"network({', '.join(names)})"] if plain else outputs)], "bound")
    for index, row in enumerate(values):
        bound = "-" if row["bound"] is None else f"{row['bound']:.17g}"
        if not isinstance(row["y"], list):
            yield _line([row["x"]] if not isinstance(row["x"], list) else row["x"], bound, [row["y"]])
        elif len(row["x"]) == len(row["y"]):
            if index:
                yield ""
            yield from (_line(a, bound, b) for a, b in zip(row["x"], row["y"], strict=True))
        else:
            yield _line([c for a in row["x"] for c in a], bound, [c for b in row["y"] for c in b])


def _line(x: Sequence[Any], bound: str, y: Sequence[Any] = ()) -> str:
    cells = [cell if isinstance(cell, str) else f"{cell:.17g}" for cell in (*x, *y)]
    return " ".join([*(f"{cell:<24}" for cell in cells), bound])


def to_json(facts: Any) -> str:
    """One JSON object; what JSON has no number for (NaN, infinity) becomes null."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain(inner) for inner in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(plain(facts), indent=2, allow_nan=False)


def table(facts: Facts) -> Table:
    """The facts as two columns: what it is called, what it is."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in _rows(facts):
        if label == "bound" and facts["status"] == "UNCHECKED":
            label = "bound, as claimed"
        style = _STYLES.get(facts["status"] or "", "") if label == "status" else ""
        grid.add_row(label, Text(printable(text), style=style))
    return grid


def printable(text: str) -> str:
    """The text in one line, without what would steer a terminal: names come from files of others."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def interval(lo: Sequence[Any], hi: Sequence[Any]) -> str:
    """A product of intervals; of a box per token one interval for all numbers, or a product for each token, neighbours
    that are alike together."""
    if not isinstance(lo[0], list):
        sides = [f"[{_number(a)}, {_number(b)}]" for a, b in zip(lo, hi, strict=True)]
        alike = len(sides) > len(VARIABLES) and len(set(sides)) == 1
        return f"{sides[0]} for each of {len(sides):,} numbers" if alike else " x ".join(_few(sides))
    tokens = [interval(a, b) for a, b in zip(lo, hi, strict=True)]
    ends = {(a, b) for row in zip(lo, hi, strict=True) for a, b in zip(*row, strict=True)}
    if len(ends) == 1:
        return f"{interval(*([end] for end in ends.pop()))} for each of {len(lo):,} x {len(lo[0]):,} numbers"
    if len(set(tokens)) == 1:
        return f"{tokens[0]} for each of {len(tokens):,} tokens"
    runs = [(text, len(list(alike))) for text, alike in groupby(tokens)]
    return "; ".join(_few([text if count == 1 else f"{text} for {count:,} tokens" for text, count in runs]))


def _rows(facts: Mapping[str, Any], indent: str = "") -> Iterator[tuple[str, str]]:
    for key, value in facts.items():
        label = indent + _LABELS.get(key, key.replace("_", " "))
        if key == "status" and value is not None:
            yield label, status_in_words(value, facts.get("why", ""))
        elif key in ("why", "subject"):
            continue  # it stands in the line of the status, or of what the bound is about
        elif key == "domain" and value is not None:
            yield label, interval(value["lo"], value["hi"])
        elif key == "zones":
            yield label, "; ".join(_zone(zone) for zone in value)
        elif key == "layers" and isinstance(value, list):
            yield label, str(len(value))
            yield from _layer_rows(value, indent + "  ")
        elif key == "error_by_part":
            yield label, "of each head or group of heads, in its own units, before what comes after scales it"
            yield from ((f"{indent}  {part['groups']:,} x", _part(part)) for part in value)
        elif key == "coordinates":
            names = [shortened(name) for name in (_by_pattern(value) if len(value) > _MOST_NAMES else value)]
            yield label, _worded(key, names)
        elif isinstance(value, dict):
            yield label, ""
            inner = {"anchors_on_registers" if name == "anchors" else name: fact for name, fact in value.items()}
            yield from _rows(inner, indent + "  ")
        elif isinstance(value, list) and key in ("assumptions", "obstacles"):  # sentences: one a line
            shown = value if key == "assumptions" or len(value) <= _MOST_HEADS else value[: _MOST_HEADS - 1]
            yield from ((label if i == 0 else "", text) for i, text in enumerate(shown))
            if len(shown) < len(value):
                yield "", f"... {len(value) - len(shown):,} more ..."
        else:
            yield label, _worded(key, value)


def _zone(zone: Facts) -> str:
    """The interval, of which number, and its share of the domain."""
    of = "" if zone["of"] == "x" else f" of {zone['of']}"
    return f"{interval([zone['lo']], [zone['hi']])}{of}, {covered([DeadZone(**zone)])}"


def _layer_rows(layers: Sequence[Facts], indent: str) -> Iterator[tuple[str, str]]:
    for index, layer in enumerate(layers):
        rest = {key: value for key, value in layer.items() if key not in ("type", "heads", "layers")}
        worded = ", ".join(f"{key.replace('_', ' ')}: {_worded(key, value)}" for key, value in rest.items())
        yield f"{indent}layer {index}", f"{layer['type']}, {worded}"
        yield from _head_rows(layer.get("heads", []), indent + "  ")
        yield from _layer_rows(layer.get("layers", []), indent + "  ")


def _head_rows(heads: Sequence[Facts], indent: str) -> Iterator[tuple[str, str]]:
    """A line each; of many of one kind how many there are, the first two and the last."""
    for kind in kinds([(head["role"], _seen(head)) for head in heads]):
        rows = [(f"{indent}head {index}", role) for index, role in zip(kind.heads, kind.roles, strict=True)]
        if len(rows) <= _MOST_HEADS:
            yield from ((label, f"{role}; {kind.keys}") for label, role in rows)
        else:
            yield f"{indent}{len(rows):,} heads", f"{kind.computes}; {kind.keys}"
            yield from (*rows[:2], ("", f"... {len(rows) - 3:,} more like these ..."), rows[-1])


def _seen(head: Facts) -> str:
    data = {"none": "no data token", "self": "itself", "block": "its block of data tokens"}.get(
        head["data_tokens_seen"]
    )
    data = data or f"{head['data_tokens_seen']} data tokens"
    anchors = f"{head['anchors']:,} anchor{'' if head['anchors'] == 1 else 's'} and " if head["anchors"] else ""
    return f"beta {_number(head['beta'])}; sees {anchors}{data}"


def _part(part: Facts) -> str:
    terms = ", ".join(f"{name} {_worded(name, value)}" for name, value in part["terms"].items())
    heads = f", {part['heads']:,} heads each" if part["heads"] > 1 else ""
    return f"{part['computes']}{heads}: {terms}"


def _by_pattern(names: Sequence[str]) -> list[str]:
    """Names that differ in their numbers alone as one, with how many there are."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(pattern(name), []).append(name)
    return [alike[0] if len(alike) == 1 else f"{len(alike):,} x {common(alike)}" for alike in groups.values()]


def _few(names: Sequence[str]) -> list[str]:
    """The names; of many the first and the last, and how many there are between."""
    if len(names) <= _MOST_NAMES:
        return list(names)
    return [*names[: _MOST_NAMES // 2], f"... {len(names) - _MOST_NAMES // 2 - 2:,} more ...", *names[-2:]]


def _worded(key: str, value: Any) -> str:
    if value is None:
        return "-"
    if key in _ROUNDED_UP:
        return "< 1e-99" if 0 < value < 1e-99 else round_up(value)
    if key.endswith("seconds"):
        return f"{value:.2f} s"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}" if key == "largest_weight" else _number(value)
    if isinstance(value, list | tuple):
        items = _few([_worded(key, item) for item in value])
        return ("; " if any(", " in item for item in items) else ", ").join(items) or "-"
    return str(value)


def _number(value: float) -> str:
    """Every digit, without a needless ".0"."""
    return repr(value).removesuffix(".0")
