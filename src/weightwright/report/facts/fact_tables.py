"""Facts about networks and certificates as plain dictionaries, and the one table that shows them.

The keys are the fields' names; `--json` prints a dictionary as it is, `table` words the same one for people.
Error bounds are shown rounded up: a shortened bound is still a bound.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from weightwright.claims.certificate import VARIABLES, Certificate, rounded_up
from weightwright.claims.prompt import Summand, argument_in_words
from weightwright.network import Attention, FeedForward, Head, Layer, Linear, Loop, cost
from weightwright.report.facts.compiled import error_by_part, graph_facts
from weightwright.report.facts.head_kinds import common, kinds, pattern, shortened

if TYPE_CHECKING:
    from weightwright.runtime import AttentionNetwork

Facts = dict[str, Any]

#: What `approximate` repeats of a certificate.
_SAID = ("formula", "domain", "dead_zones", "dtype", "kernel", "status", "bound", "terms", "measured")

_LABELS = {
    "tol": "tolerance asked for",
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
}
_ROUNDED_UP = {"bound", "approximation", "leakage", "rounding", "error", "exceptional_volume"}
#: Names and heads that are listed before the rest is only counted.
_MOST_NAMES, _MOST_HEADS = 24, 6
_STYLES = {"PROVEN": "bold green", "UNCHECKED": "bold yellow", "MEASURED": "bold yellow"}


def certificate_facts(certificate: Certificate) -> Facts:
    """What a certificate says, and on how many boxes of which rules its proof stands."""
    proven = certificate.measured is None
    return {
        "status": certificate.status,
        "formula": certificate.formula,
        "domain": {"lo": certificate.domain.lo.tolist(), "hi": certificate.domain.hi.tolist()},
        **({"dead_zones": [list(zone) for zone in certificate.dead_zones]} if certificate.dead_zones else {}),
        "dtype": certificate.dtype,
        "kernel": certificate.kernel,
        **({"norm": f"L_{certificate.norm:g}"} if math.isfinite(certificate.norm) else {}),
        "bound": certificate.bound if proven else None,
        "terms": dataclasses.asdict(certificate.terms) if proven else None,
        **_measured(certificate),
        **_how(certificate),
        "assumptions": list(certificate.assumptions),
    }


def _how(certificate: Certificate) -> Facts:
    """What the proof stands on: rules and boxes of the claims about heads, and what they are part of."""
    claims: list[Any] = list(certificate.layers)
    facts: Facts = {}
    rules: set[str] = set()
    if certificate.composite is not None:
        composite = certificate.composite
        claims += [part.claim for part in composite.parts]
        zones = dict.fromkeys((float(lo), float(hi)) for part in composite.parts for lo, hi in part.zones)
        facts |= {"dead_zones_of_arguments": [list(zone) for zone in zones]} if zones else {}
        facts |= {"parts": len(composite.parts)} if composite.parts else {}
        facts |= {"gates": len(composite.gates)} if composite.gates else {}
        rules |= {"forms", "gate"} if composite.gates else {"forms"}
    if certificate.one_pass is not None:
        if certificate.measured is None:
            facts["bound_is_about"] = "every state after one pass, against the rule in exact arithmetic"
        rules.add("loop")
    if certificate.grid is not None:
        grid = certificate.grid
        claims += [] if grid.head is None else [grid.head]
        facts |= {"cells": grid.core.shape[1], "delta": grid.delta, "exceptional_volume": grid.exceptional}
        rules.add("grid")
    if certificate.prompted is not None:
        summands = certificate.prompted.summands
        claims += [summand.claim for summand in summands]
        rules.add("prompt")
        if certificate.prompted.passes:
            facts["bound_is_about"] = "every state after one pass, against the exact pass"
        facts["arguments_of_f"] = [_argument(summand) for summand in summands]
    for part in certificate.parts:
        claims += part.certificate.layers
    facts |= {"networks_side_by_side": len(certificate.parts)} if certificate.parts else {}
    boxes = sum(len(claim.boxes) for claim in claims)
    return {**facts, "boxes": boxes, "rules": sorted(rules | {claim.rule for claim in claims})}


def _argument(summand: Summand) -> str:
    """Where the argument of a summand may lie."""
    lo, hi = (np.atleast_1d(end) / summand.scale for end in (summand.claim.lo, summand.claim.hi))
    names = ["w.x", "y"] if summand.along is None else [argument_in_words(summand.along)]
    ends = zip(names, lo.tolist(), hi.tolist(), strict=True)
    return ", ".join(f"{name} in {interval([a], [b])}" for name, a, b in ends)


def _measured(certificate: Certificate) -> Facts:
    return {} if certificate.measured is None else {"measured": dataclasses.asdict(certificate.measured)}


def approximation_facts(net: AttentionNetwork, tol: float, method: str, seconds: float) -> Facts:
    """What `approximate` returned, and what it costs to run."""
    said, costs = _said(net), net.cost
    return {
        **{key: said[key] for key in _SAID if key in said},
        "tol": tol,
        "method": method,
        "anchors": costs.anchors,
        "heads": costs.heads,
        "beta": [head.beta for head in net.network.heads],
        "parameters": costs.parameters,
        "bytes": costs.bytes,
        "multiply_adds": costs.multiply_adds,
        "seconds": seconds,
        "assumptions": said["assumptions"],
    }


def network_facts(net: AttentionNetwork, check_with: str) -> Facts:
    """Everything in a file: the claims and the command that checks them, the structure in words, the cost."""
    network, said = net.network, _said(net)
    return {
        "status": said["status"],
        "check_with": check_with if net.certificate is not None and net.certificate.measured is None else None,
        **said,
        **error_by_part(net.certificate),
        **graph_facts(net.certificate),
        "inputs": list(network.inputs),
        "outputs": list(network.outputs),
        "coordinates": list(network.embed.coordinates),
        "registers": len(network.registers),
        "layers": [_layer(layer) for layer in network.layers],
        "cost": dataclasses.asdict(cost(network)),
        "native": network.native,
        "obstacles": list(network.obstacles),
    }


def value_facts(
    net: AttentionNetwork, x: Sequence[Any], y: Sequence[Any], excepted: Sequence[bool] = ()
) -> list[Facts]:
    """Inputs (a number, a list of several, or a list for each token) and outputs; the bound is None where none holds.

    excepted: the inputs about which nothing is claimed though they lie in the domain.
    """
    said = net.certificate

    def bound(values: Any) -> float | None:
        if said is None or said.measured is not None or math.isfinite(said.norm):  # a norm bounds no single input
            return None
        if said.one_pass is not None:  # that bounds one pass, not what all of them come to
            return None
        inside = bool((values >= said.domain.lo).all() and (values <= said.domain.hi).all())
        return said.bound if inside and not any(lo < values[0] < hi for lo, hi in said.dead_zones) else None

    none = [False] * len(x)
    return [
        {"x": a[0] if len(a) == 1 and not isinstance(a[0], list) else a, "y": b, "bound": None if left else bound(a)}
        for a, b, left in zip(x, y, excepted or none, strict=True)
    ]


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
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list):
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
        grid.add_row(label, Text(printable(text), style=_STYLES.get(text, "")))
    return grid


def printable(text: str) -> str:
    """The text in one line, without what would steer a terminal: names come from files of others."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def interval(lo: Sequence[Any], hi: Sequence[Any]) -> str:
    """A product of intervals; of a box per token one interval for all numbers, or a product for each token."""
    if not isinstance(lo[0], list):
        sides = [f"[{_number(a)}, {_number(b)}]" for a, b in zip(lo, hi, strict=True)]
        alike = len(sides) > len(VARIABLES) and len(set(sides)) == 1
        return f"{sides[0]} for each of {len(sides):,} numbers" if alike else " x ".join(_few(sides))
    tokens = [interval(a, b) for a, b in zip(lo, hi, strict=True)]
    ends = {(a, b) for row in zip(lo, hi, strict=True) for a, b in zip(*row, strict=True)}
    if len(ends) == 1:
        return f"{interval(*([end] for end in ends.pop()))} for each of {len(lo):,} x {len(lo[0]):,} numbers"
    return f"{tokens[0]} for each of {len(tokens):,} tokens" if len(set(tokens)) == 1 else "; ".join(_few(tokens))


def _said(net: AttentionNetwork) -> Facts:
    if net.certificate is not None:
        return certificate_facts(net.certificate)
    names = ("status", "formula", "domain", "kernel", "bound", "terms", "boxes", "rules")
    return {**dict.fromkeys(names), "dtype": net.network.dtype, "assumptions": []}


def _layer(layer: Layer) -> Facts:
    facts: Facts = {"type": type(layer).__name__}
    if isinstance(layer, Attention):
        return facts | {"residual": layer.residual, "heads": [_head(head) for head in layer.heads]}
    if isinstance(layer, FeedForward):
        return facts | {"residual": layer.residual, "hidden": layer.W_1.shape[1]}
    if isinstance(layer, Loop):
        return facts | {"times": layer.times, "layers": [_layer(inner) for inner in layer.layers]}
    if isinstance(layer, Linear):
        return facts | {"coordinates": list(layer.coordinates)}
    return facts | {"beta": layer.beta, "over": layer.over}


def _head(head: Head) -> Facts:
    start, stop = head.sees.registers
    return {"role": head.role, "beta": head.beta, "anchors": stop - start, "data_tokens_seen": head.sees.data}


def _rows(facts: Mapping[str, Any], indent: str = "") -> Iterator[tuple[str, str]]:
    for key, value in facts.items():
        label = indent + _LABELS.get(key, key.replace("_", " "))
        if key == "domain" and value is not None:
            yield label, interval(value["lo"], value["hi"])
        elif key.startswith("dead_zones"):
            yield label, ", ".join(interval([lo], [hi]) for lo, hi in value)
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
    terms = ", ".join(f"{name} {rounded_up(value)}" for name, value in part["terms"].items())
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
        return rounded_up(value)
    if key.endswith("seconds"):
        return f"{value:.2f} s"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list | tuple):
        items = _few([_worded(key, item) for item in value])
        return ("; " if any(", " in item for item in items) else ", ").join(items) or "-"
    return str(value)


def _number(value: float) -> str:
    """Every digit, without a needless ".0"."""
    return repr(value).removesuffix(".0")
