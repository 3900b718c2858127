"""Drawings: every network can be drawn, nothing is cut off or overlaps, and what is shown is what the weights do."""

from __future__ import annotations

import itertools
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.networks import attending, by_hand, linear
from support.zoo import ZOO

import weightwright as ww
from weightwright import report
from weightwright.errors import install_line
from weightwright.report.drawing.draw import network_figure
from weightwright.report.drawing.flow import MOST_BOXES, flow
from weightwright.report.drawing.lanes import MOST_ROWS, lanes
from weightwright.report.drawing.pen import shortened, width, wrap_text
from weightwright.report.facts.head_kinds import common, few, kinds, pattern


def stack(layers: int, heads: int, kinds: int = 1, long: bool = False) -> Any:
    """Layers of heads that read a cell each and write all cells of the next layer; the last ones write the output."""
    functions = ("tanh(x)", "x**2", "exp(x)", "a rather long formula, which says more than there is room for, again")
    cells = [f"cell[{layer}][{k}]{' of a long name' * long}" for layer in range(layers) for k in range(heads)]
    names = ("x[0]", "one", *cells, "out[0]")
    built = []
    for layer in range(layers):
        row = []
        for k in range(heads):
            place = 2 + layer * heads + k
            W_Q, W_O = np.zeros((len(names), 2)), np.zeros((1, len(names)))
            W_Q[place, 0], W_Q[1, 1] = 1.0, 1.0
            after = slice(2 + (layer + 1) * heads, 2 + (layer + 2) * heads) if layer + 1 < layers else slice(-1, None)
            W_O[0, after] = 1.0
            role = f"{functions[k % kinds % 4]}{'' if kinds <= 4 else '!' * (k % kinds)} of {names[place]}"
            nothing = np.zeros((len(names), 2)), np.zeros((len(names), 1))
            row.append(attending(names, W_Q, *nothing, W_O, registers=(0, 2), data="none", role=role))
        built.append(replace(row[0], heads=tuple(head for layer in row for head in layer.heads)))
    A, C = (np.zeros((1, len(names))) for _ in "AC")
    A[0, [0, *range(2, 2 + heads)]] = C[0, 1] = 1.0  # the input is x[0] and the cells of the first layer; one is 1
    embed = linear(names, A, C)
    return by_hand(("x[0]",), embed, tuple(built), ("out[0]",), registers=np.zeros((2, len(names))))


SIZES = {
    "one head": stack(1, 1),
    "many of one kind": stack(2, 64),
    "deep": stack(20, 2),
    "deep and wide": stack(20, 12, 3),
    "more kinds than boxes": stack(2, 24, 12),
    "long names": stack(9, 4, 4, long=True),
}


def boxes(drawn: Any) -> list[Any]:
    return [patch.get_window_extent() for patch in drawn.axes[0].patches if hasattr(patch, "get_boxstyle")]


def placed(drawn: Any) -> list[Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer = FigureCanvasAgg(drawn).get_renderer()
    return [text.get_window_extent(renderer) for text in drawn.axes[0].texts]


def overlap(one: Any, other: Any, slack: float = 1.0) -> bool:
    wide = min(one.x1, other.x1) - max(one.x0, other.x0)
    high = min(one.y1, other.y1) - max(one.y0, other.y0)
    return bool(wide > slack and high > slack)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", [*ZOO, *SIZES])
def test_nothing_is_cut_off_and_nothing_overlaps(name: str) -> None:
    network = ZOO[name]() if name in ZOO else SIZES[name]
    drawn = network_figure(ww.AttentionNetwork(network))
    page, texts, drawn_boxes = drawn.bbox, placed(drawn), boxes(drawn)
    assert len(drawn_boxes) == sum(len(column.boxes) for column in flow(network).columns)
    for extent in (*texts, *drawn_boxes):
        assert page.x0 <= extent.x0 < extent.x1 <= page.x1
        assert page.y0 <= extent.y0 < extent.y1 <= page.y1
    for index, box in enumerate(drawn_boxes):
        assert not any(overlap(box, other) for other in drawn_boxes[index + 1 :])
        for text in texts:  # inside or outside
            inside = box.x0 <= text.x0 and text.x1 <= box.x1 and box.y0 <= text.y0 and text.y1 <= box.y1
            assert inside or not overlap(box, text)
    for index, text in enumerate(texts):
        assert not any(overlap(text, other, slack=2.0) for other in texts[index + 1 :])
    corners = np.array([[box.x0, box.y0, box.x1, box.y1] for box in drawn_boxes])
    for line in drawn.axes[0].lines:  # a line may end at a box, and none runs through one
        points = drawn.axes[0].transData.transform(line.get_xydata())
        for start, end in itertools.pairwise(points):
            low, high = np.minimum(start, end) + 0.5, np.maximum(start, end) - 0.5
            assert not ((low < corners[:, 2:]) & (high > corners[:, :2])).all(axis=1).any()
    assert drawn.get_figwidth() < 30
    assert drawn.get_figheight() < 40


def test_heads_of_one_kind_share_a_box() -> None:
    (_, first, *_) = flow(stack(1, 128)).columns
    assert [box.title for box in first.boxes] == ["128 × tanh(x) of cell[0][…]"]
    assert first.boxes[0].lines[:2] == ("2 keys each", "cell[0][0], cell[0][1], … cell[0][127]")
    assert first.boxes[0].lines[2] == "reads 128 numbers, writes 1"
    alone = flow(stack(1, 4, 2)).columns[1]
    assert [box.title for box in alone.boxes] == [
        *("tanh(x) of cell[0][0]", "tanh(x) of cell[0][2]", "x**2 of cell[0][1]", "x**2 of cell[0][3]")
    ]


def test_kinds_beyond_the_last_box_are_counted() -> None:
    column = flow(stack(1, 24, 12)).columns[1]
    assert len(column.boxes) == MOST_BOXES
    assert column.boxes[-1].title == "10 more heads"
    assert column.boxes[-1].lines[0] == "5 further kinds"
    assert len(frozenset().union(*(box.reads for box in column.boxes))) == 24


def test_lanes_are_what_the_weights_read_and_write() -> None:
    plan = flow(ZOO["compiled"]())
    found = {lane.label: (lane.writers, lane.readers) for lane in lanes(plan)}
    assert found == {"x": (((0, 0),), ((1, 0),)), "y": (((1, 0),), ((2, 0),))}  # "one" and the keys are constant


def test_a_lane_of_many_numbers_says_how_many() -> None:
    few_lanes, many = lanes(flow(stack(1, 3))), lanes(flow(stack(1, 64)))
    assert [lane.count for lane in few_lanes] == [1, 1, 1, 1]
    assert [(lane.label, lane.count) for lane in many] == [("64 × cell[0][…]", 64), ("out[0]", 1)]


@pytest.mark.parametrize("name", SIZES)
def test_lanes_in_one_row_do_not_meet(name: str) -> None:
    found = lanes(flow(SIZES[name]))
    assert max(lane.row for lane in found) < MOST_ROWS
    for row in {lane.row for lane in found}:
        spans = sorted((lane.start, lane.end) for lane in found if lane.row == row)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_a_loop_reads_what_its_last_run_wrote() -> None:
    plan = flow(ZOO["looped"]())
    assert [(repeat.first, repeat.last, repeat.times) for repeat in plan.repeats] == [(2, 2, 2), (1, 2, 3)]
    texts = [text.get_text() for text in network_figure(ww.AttentionNetwork(ZOO["looped"]())).axes[0].texts]
    assert {"3 times", "2 times"} <= set(texts)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_loop_that_begins_streams_of_its_own(loss: str) -> None:
    """What is read was written in the same stream, and all of a pass is drawn."""
    X = np.random.default_rng(0).normal(size=(6, 2))
    network = ww.incontext.fitting(X, X @ [1.0, -0.5], loss, steps=3).net.network
    found = flow(network)
    assert found.repeats[0].times == 3
    assert len(lanes(found)) > 4
    written = {number for column in found.columns for box in column.boxes for number in box.writes}
    assert all(box.reads <= written for column in found.columns for box in column.boxes)


def test_the_title_says_what_is_proven(sine: ww.AttentionNetwork, saved: Path) -> None:
    said = [text.get_text() for text in network_figure(sine).axes[0].texts]
    assert said[0] == "sin(5*x)"
    assert said[1].startswith("PROVEN: error at most ")
    assert said[1].endswith(" on [-1, 1]")
    assert f"{len(sine.network.registers)} registers (constant tokens)" in said
    unchecked = [text.get_text() for text in network_figure(ww.load(saved, verify=False)).axes[0].texts]
    assert unchecked[1].startswith("UNCHECKED: ")


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG\r\n\x1a\n"), (".svg", b"<?xml")])
def test_equal_networks_give_equal_files(sine: ww.AttentionNetwork, suffix: str, start: bytes, tmp_path: Path) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for path in (first, second):
        report.draw_network(sine, path)
    assert first.read_bytes().startswith(start)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_drawings_of_unknown_kind_and_without_matplotlib_are_refused(
    sine: ww.AttentionNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"must end in one of \.png, \.svg, \.pdf"):
        report.draw_network(sine, tmp_path / "a.gif")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ww.WeightwrightError, match=re.escape(install_line("plot"))):
        report.draw_network(sine, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


# text


@pytest.mark.few(3)
@pytest.mark.parametrize("text", ["short", "several words that need a second line", "unbreakable" * 20, "a+b*" * 60])
@pytest.mark.parametrize("bold", [False, True])
def test_text_fits(text: str, bold: bool) -> None:
    lines = wrap_text(text, 8.5, 90.0, 3, bold)
    assert len(lines) <= 3
    assert all(width(line, 8.5, bold) <= 90.0 for line in lines)
    assert width(shortened(text, 8.5, 90.0, bold), 8.5, bold) <= 90.0
    assert text.startswith(lines[0].split("…")[0])
    assert text.endswith(lines[-1].split("…")[-1])


def test_numbers_tell_heads_apart_and_names_do_not() -> None:
    assert pattern("log2(x) of x0[12], line 3.5e-7") == "log2(x) of x0[…], line …"
    assert pattern("x**2") == "x**2"
    assert common(["relu of a[1] for token 0", "relu of a[2] for token 0"]) == "relu of a[…] for token 0"
    assert common(["tanh", "relu"]) is None
    assert few(["a", "b", "c", "d", "e"]) == "a, b, … e"
    assert few(["a, 1", "b, 2"]) == "a, 1; b, 2"
    found = kinds([("x**2 of a", "k"), ("x**3 of a", "k"), ("x**2 of b", "k"), ("x**2 of a", "l")])
    assert [(kind.heads, kind.computes) for kind in found] == [
        ((0, 2), "x**2"),
        ((1,), "x**3 of a"),
        ((3,), "x**2 of a"),
    ]
