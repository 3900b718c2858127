"""What a user sees of a network, aspect by aspect, as plain data that two networks can be compared by.

`ASPECTS` is the table: a name, and a function of a `Subject`. `look_at` calls one of them; an error is an answer too.
`as_plain` makes plain data of an answer: floats bit by bit, arrays as digests, and every text passed through a function
that may put other names in it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from same_networks import describe_certificate, pack, run
from torch import Tensor, nn

import weightwright as ww
from weightwright.claims.prompt import LoopClaim, PromptClaim
from weightwright.report.drawing.flow import flow
from weightwright.report.drawing.lanes import lanes
from weightwright.report.facts.network_facts import network_facts
from weightwright.runtime.passes.by_pieces import _DTYPES, _has_passes, _plan_of
from weightwright.runtime.watch import all_states, passes

#: Inputs for which the effect of an ablation is predicted.
FEW_INPUTS = 4
#: Of an array that differs, so many numbers are shown.
SHOWN = 3


@dataclass
class Subject:
    """A network that runs, the file that holds it, inputs of its domain, and the estimator that it belongs to."""

    net: ww.AttentionNetwork
    file: Path
    inputs: Tensor | None = None
    model: Any = None


#: What an aspect answers where it has nothing to look at.
NOTHING = "nothing to compare"


def look_at(aspect: str, subject: Subject) -> Any:
    """What the aspect answers; of an exception its type and its message."""
    try:
        return ASPECTS[aspect](subject)
    except Exception as error:
        return f"raises {type(error).__name__}", str(error)


def check_file(subject: Subject) -> Any:
    """What the checker says of the file."""
    if subject.net.certificate is None:
        return NOTHING
    said = ww.check(subject.file)
    return describe_certificate(said), said.why, said.zones


def load_file(subject: Subject) -> Any:
    """What the file says, and whether it makes a module."""
    loaded = ww.load(subject.file, verify=False)
    return describe_certificate(loaded.certificate), str(loaded), str(loaded.network)


def list_outputs(subject: Subject) -> Any:
    if subject.inputs is None:
        return NOTHING
    return [run(subject.net, x) for x in (subject.inputs, subject.inputs[:1])]


def list_states(subject: Subject) -> Any:
    """The states after every pass, of networks whose certificate is about a pass."""
    said = subject.net.said
    claim = None if said is None else said.against
    if subject.inputs is None:
        return NOTHING
    if isinstance(claim, PromptClaim):
        return all_states(subject.net, subject.inputs)
    if isinstance(claim, LoopClaim) and not claim.own and claim.beginning is None:
        return passes(subject.net, subject.inputs)
    return NOTHING


def find_worst_input(subject: Subject) -> Any:
    """The error that one round of the search finds, where it finds it, and the error that the certificate tells of."""
    said = subject.net.certificate
    if said is None:
        return NOTHING
    worst = ww.search(subject.net, seconds=0, progress=False)
    return worst.x, worst.error, worst.bound, worst.inputs, said.measured and said.measured.error


def list_messages(subject: Subject) -> Any:
    """What the network does with bad inputs: a message, or outputs all the same."""
    if subject.inputs is None:
        return NOTHING
    return {what: answer_to(subject.net, x) for what, x in bad_inputs(subject)}


def answer_to(net: ww.AttentionNetwork, x: Tensor) -> Any:
    try:
        with torch.no_grad():
            return net(x)
    except Exception as error:
        return f"raises {type(error).__name__}", str(error)


def bad_inputs(subject: Subject) -> Iterator[tuple[str, Tensor]]:
    """Wrong shapes and types; every feature far out, on all tokens and on the last; tokens that differ; dead zones."""
    x = subject.inputs
    assert x is not None
    yield "a feature is missing", x[..., :-1]
    yield "a token too many", torch.cat([x, x[..., -1:, :]], -2)
    yield "complex numbers", x.to(torch.complex128)
    yield "truth values", x > 0
    yield "not a number", _with_last_token(x, slice(0, 1), torch.nan)
    said = subject.net.said
    for feature in range(x.shape[-1]):
        end = float(np.max(said.domain.hi[..., feature])) if said is not None else float(x[..., feature].max())
        far = 3 * abs(end) + 1
        whole = x.clone()
        whole[..., feature] = far
        yield f"feature {feature} far out", whole
        yield f"feature {feature} of the last token far out", _with_last_token(x, slice(feature, feature + 1), far)
        yield f"feature {feature} of the last token less", _with_last_token(x, slice(feature, feature + 1), end / 3)
    zones = () if said is None else said.dead_zones
    for number, (lo, hi) in enumerate(zones):
        yield f"dead zone {number}", torch.full_like(x, (lo + hi) / 2)


def _with_last_token(x: Tensor, features: slice, value: float) -> Tensor:
    changed = x.clone()
    changed[..., -1, features] = value
    return changed


def describe_plans(subject: Subject) -> Any:
    """How the module would run: its plan, and its steps by pieces where it runs passes."""
    net = subject.net
    takes_pieces = _has_passes(net.was) and net.dtype in _DTYPES
    by_pieces, plan = _plan_of(net, net.device) if takes_pieces else None, net._planned()
    steps = None if plan is None else (plan.steps, plan.read, plan.alone, plan.scores, plan.numbers)
    kept = None if by_pieces is None else (by_pieces.embed, by_pieces.passes, by_pieces.read, by_pieces.inputs)
    return {"by pieces": kept, "plan": steps}


def take_circuit(subject: Subject) -> Any:
    return subject.net.circuit()


def predict_effects(subject: Subject) -> Any:
    """Of ablating the first head of every layer, by its name in the circuit."""
    heads = [node.name for node in subject.net.circuit().nodes if node.type == "head" and node.head == 0]
    if subject.inputs is None or not heads:
        return NOTHING
    return {head: subject.net.predicted_effect(head, subject.inputs[:FEW_INPUTS]) for head in heads}


def draw_boxes(subject: Subject) -> Any:
    """A drawing's boxes, which of them look alike, what they read and write, and its lanes: everything but texts."""
    plan = flow(subject.net.network)
    kinds: dict[str, int] = {}
    columns = [
        [(kinds.setdefault(box.kind, len(kinds)), box.reads, box.writes) for box in column.boxes]
        for column in plan.columns
    ]
    found = [(lane.count, lane.writers, lane.readers, lane.start, lane.end, lane.row) for lane in lanes(plan)]
    return {"columns": columns, "lanes": found, "repeats": plan.repeats}


def draw_texts(subject: Subject) -> Any:
    """What stands in and beside the boxes of a drawing."""
    plan = flow(subject.net.network)
    columns = [(column.heading, [(box.title, box.lines) for box in column.boxes]) for column in plan.columns]
    return {"columns": columns, "lanes": [lane.label for lane in lanes(plan)]}


def tell_facts(subject: Subject) -> Any:
    """What `weightwright info` prints."""
    return network_facts(subject.net, "the command")


def plot_heads(subject: Subject) -> Any:
    """The data of the figure: lines, images, bars and texts."""
    if subject.model is None:
        return NOTHING
    model = copy.copy(subject.model)
    model.network_ = subject.net
    return list(artists_of(model.plot_heads(progress=False)))


def artists_of(figure: Any) -> Iterator[tuple[str, Any]]:
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.text import Text

    for artist in figure.findobj():
        if isinstance(artist, Text) and artist.get_text():
            yield "text", artist.get_text()
        elif isinstance(artist, Line2D):
            yield "line", np.asarray(artist.get_xydata())
        elif isinstance(artist, AxesImage):
            yield "image", np.ma.filled(np.ma.asarray(artist.get_array(), dtype=np.float64), np.nan)
        elif isinstance(artist, Rectangle):
            yield "bar", artist.get_bbox().bounds


ASPECTS: dict[str, Callable[[Subject], Any]] = {
    "check": check_file,
    "load": load_file,
    "outputs": list_outputs,
    "states": list_states,
    "search": find_worst_input,
    "messages": list_messages,
    "plan": describe_plans,
    "circuit": take_circuit,
    "effects": predict_effects,
    "boxes": draw_boxes,
    "texts of boxes": draw_texts,
    "facts": tell_facts,
    "plot_heads": plot_heads,
}


def as_plain(value: Any, put_names: Callable[[str], str] = str) -> Any:
    """Lists, dicts and texts; equal for equal answers. An object that was met before is named by its number."""
    return _Plain(put_names).of(value)


class _Plain:
    def __init__(self, put_names: Callable[[str], str]) -> None:
        self.put_names = put_names
        self.met: dict[int, int] = {}
        self.held: list[Any] = []  # so that no id is given twice

    def of(self, value: Any) -> Any:
        match value:
            case None | bool() | int():
                return value
            case str():
                return self.put_names(value)
            case float():
                return float.hex(value)
            case Tensor() | np.ndarray() | np.generic():
                return self._numbers(value)
            case Mapping():
                return {str(self.of(key)): self.of(one) for key, one in value.items()}
            case set() | frozenset():
                return sorted((self.of(one) for one in value), key=repr)
            case list() | tuple() | range():
                return [self.of(one) for one in value]
            case torch.dtype() | torch.device() | Path():
                return str(value)
            case type() | nn.Module():
                return (value if isinstance(value, type) else type(value)).__qualname__
        return self._object(value)

    def _numbers(self, value: Any) -> Any:
        packed = pack(value)
        return {name: packed[name] for name in ("dtype", "shape", "sha256")} | {"shown": packed["shown"][:SHOWN]}

    def _object(self, value: Any) -> Any:
        if id(value) in self.met:
            return f"number {self.met[id(value)]} again"
        self.met[id(value)] = len(self.met)
        self.held.append(value)
        if is_dataclass(value):
            inside = {field.name: getattr(value, field.name) for field in fields(value)}
        else:
            inside = getattr(value, "__dict__", {})
        name = getattr(value, "__qualname__", type(value).__qualname__)
        return {"is": name} | {key: self.of(one) for key, one in inside.items()}
