"""The registry of theorems, how their instances are measured, and `weightwright theorems`."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import complaint, process, weightwright
from support.running import reference_outputs
from support.zoo import ZOO

import weightwright as ww
from weightwright.claims.certificate import agreed
from weightwright.network.interpreter import attention_weights
from weightwright.papers.kit.constructed import About
from weightwright.papers.kit.instance import Check, Count, Instance, Line, counted
from weightwright.papers.kit.measure import estimate, measure
from weightwright.papers.kit.rates import (
    Point,
    Series,
    Study,
    at_places,
    ends,
    lengths,
    parting,
    sweep,
)
from weightwright.papers.pages.pictures import HeatMap, curve, pictures
from weightwright.papers.pages.theorem_page import section
from weightwright.papers.pages.theorem_plots import figure_of, plot_theorem
from weightwright.papers.pages.theorem_tables import tables
from weightwright.papers.theorems import registry as theorem_module
from weightwright.papers.theorems.registry import THEOREMS, Theorem, find
from weightwright.papers.theorems.show import Shown, check, show

PAGE = Path(__file__).parents[3] / "docs" / "theorems.md"


def net_of(tol: float = 0.1, method: Any = "faithful", shift: float = 0.0) -> ww.AttentionNetwork:
    """x on [-1, 1], with what a construction says of itself; shift: the reference is off by so much near 0.7."""
    net = ww.approximate("x", (-1, 1), tol, method)
    assert net.certificate is not None

    def reference(X: np.ndarray) -> np.ndarray:
        return X + shift * (np.abs(X - 0.7) < 0.01)

    def probes(rng: np.random.Generator, count: int) -> np.ndarray:
        return rng.uniform(-1, 1, (count, 1, 1))

    bounds = {"everywhere": net.certificate.bound}
    net.about = About("X-1", method, {"p": len(net.network.registers)}, {"p": 40.0}, bounds, reference, probes)
    return net


def line() -> Line:
    return Line(-1, 1, np.zeros((1, 1)), np.ones((1, 1)), "s", anchors=(-1.0, 0.0), marks={"a": -0.5})


def good() -> Instance:
    net = net_of()
    heads = counted(net, "faithful", {"heads": ("O(1)", 1.0)}, ("heads", "anchors"))
    nets = {"faithful": net, "spectral": net_of(1e-6, "spectral")}
    return Instance(nets, counts=heads, line=line(), rates=good_studies)


def good_studies() -> tuple[Study, ...]:
    return (Study("error against p", "p", (sweep("faithful", by_anchors, [40, 80, 160], -1.0, count=64),)),)


def wrong() -> Instance:
    return Instance({"faithful": net_of(shift=1.0)})


def raising() -> Instance:
    raise ww.BudgetError("too many cells: [red]")


def by_anchors(p: float) -> ww.AttentionNetwork:
    return net_of(4.0 / p)


GOOD = Theorem("X-1", "fake", "It holds.", "a paper", "Nothing.", "1/p", "PROVEN", __name__, f"{__name__}:good")
ROWS = {
    "X-1": GOOD,
    "X-2": dataclasses.replace(GOOD, id="X-2", small=f"{__name__}:wrong"),
    "X-3": dataclasses.replace(GOOD, id="X-3", small=f"{__name__}:raising"),
}


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Theorem]]:
    """The registry with the fake rows in place of the real ones."""
    real = dict(THEOREMS)
    THEOREMS.clear()
    THEOREMS.update(ROWS)
    yield THEOREMS
    THEOREMS.clear()
    THEOREMS.update(real)


# the registry


def test_every_id_has_its_row_in_order() -> None:
    universal, emulation = [f"UA-{i}" for i in range(1, 16)], [f"AE-{i}" for i in range(1, 17)]
    low_rank = [f"LR-{i}" for i in range(1, 8)]
    assert list(THEOREMS) == [*universal, "SU-1", "SU-2", "SU-3", "SU-4", *emulation, *low_rank]
    for id, row in THEOREMS.items():
        assert row.id == id
        assert min(len(row.statement), len(row.repaired), len(row.rate), len(row.title)) > 5
        assert row.file.startswith(tuple(f"src/weightwright/{room}/" for room in ("papers", "interpreter", "memory")))
        assert find(id.lower()) is row
        assert (PAGE.parents[1] / row.file).is_file()


def test_listing_imports_nothing_heavy() -> None:
    code = (
        "import sys; from weightwright.papers.theorems.registry import THEOREMS; [t.file for t in THEOREMS.values()];"
        "assert not {'torch', 'flint', 'scipy'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("id", ["UA-1", pytest.param("SU-1", marks=pytest.mark.slow)])
def test_what_is_built_comes_out_as_declared(id: str) -> None:
    shown = show(find(id))
    assert shown.reason is None
    assert shown.status == find(id).expects


# showing


def test_a_good_instance_is_proven_and_counted() -> None:
    shown = show(ROWS["X-1"])
    assert (shown.status, shown.reason) == ("PROVEN", None)
    assert [check.name for check in shown.checks] == ["faithful", "spectral"]
    assert shown.measured is not None
    assert shown.bound is not None
    assert 0.5 * shown.bound < shown.measured <= shown.bound  # the end at 1, found by refinement
    assert [(count.agrees, count.ratio) for count in shown.counts] == [(True, 1.0), (True, None)]


@pytest.mark.parametrize(
    ("id", "reason"),
    [("X-2", "exceeds the bound"), ("X-3", "BudgetError: too many cells")],
)
def test_failures_are_results_with_a_reason(id: str, reason: str) -> None:
    shown = show(ROWS[id])
    assert shown.status == "FAILED"
    assert shown.reason is not None
    assert reason in shown.reason


@pytest.mark.parametrize(
    ("instance", "reason"),
    [
        (Instance(counts=(Count("heads", "2 g", 6, 7),)), "heads: the formula 2 g gives 6, but 7 were built"),
        (Instance(checks=(Check("v", "FAILED", 1.0, 2.0, reason="so"),)), "v: so"),
        (Instance(), "no network, no check and no count"),
    ],
)
def test_counts_checks_and_nothing_at_all_can_fail(
    instance: Instance, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theorem_module, "_instance", lambda path: instance)
    shown = show(GOOD)
    assert shown.status == "FAILED"
    assert shown.reason is not None
    assert reason in shown.reason


def test_a_bound_that_was_not_checked_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    net = net_of()
    assert net.certificate is not None
    net.certificate = dataclasses.replace(net.certificate, status="UNCHECKED")
    monkeypatch.setattr(theorem_module, "_instance", lambda path: Instance({"faithful": net}))
    assert "UNCHECKED" in str(show(GOOD).reason)


def test_a_network_without_a_proof_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    net = net_of()
    net.certificate = None
    monkeypatch.setattr(theorem_module, "_instance", lambda path: Instance({"faithful": net}))
    shown = show(GOOD)
    assert (shown.status, shown.bound) == ("MEASURED", None)


# measuring


def test_measuring_finds_a_narrow_fault_and_says_where() -> None:
    found = measure(net_of(shift=1.0), 512)
    assert 0.98 < found.error < 1.06
    assert abs(found.at.item() - 0.7) <= 0.01
    assert found.inputs > 512
    assert measure(net_of(shift=1.0), 512).error == found.error  # the seed is explicit


def test_refinement_beats_the_probes() -> None:
    net = net_of()
    rough = net.about.probes(np.random.default_rng(0), 16)
    first = np.abs(reference_outputs(net, rough) - rough).max()
    assert measure(net, 16).error > 1.5 * first


def test_where_the_reference_is_nan_nothing_is_counted() -> None:
    net = net_of()
    inner = net.about.reference
    net.about = dataclasses.replace(net.about, reference=lambda X: np.where(X > 0.5, np.nan, inner(X)))
    assert measure(net).at.item() <= 0.5
    net.about = dataclasses.replace(net.about, reference=lambda X: np.full_like(X, np.nan))
    with pytest.raises(ww.WeightwrightError, match="claims nothing"):
        measure(net)


def test_a_network_that_returns_no_number_is_infinitely_wrong() -> None:
    net = net_of()
    net.forward = lambda x: x * float("nan")  # type: ignore[method-assign]
    assert measure(net, 16).error == math.inf


def test_a_bound_in_l1_is_held_against_the_estimate_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    net = net_of()
    assert net.certificate is not None
    monkeypatch.setattr(type(net.certificate), "norm", 1.0)  # as certificates of grids have it
    held = check("faithful", net)
    assert (held.status, held.norm) == ("PROVEN", "L1")
    assert held.interval is not None
    assert held.measured is not None
    assert held.interval[0] < held.measured < held.interval[1]
    net.about = dataclasses.replace(net.about, bounds={"everywhere": 1e-3})
    assert "exceeds the bound on every input" in str(check("faithful", net).reason)
    net.certificate = agreed(dataclasses.replace(net.certificate, bound=1e-9))  # as if a checker had said so
    assert "exceeds the bound 1e-09" in str(check("faithful", net).reason)


def test_the_estimate_of_an_integral_has_it_in_its_interval() -> None:
    """The network x against the reference 0: the integral of |x| over [-1, 1] is 1, of x² 2/3."""
    net = net_of(1e-6, "spectral")
    net.about = dataclasses.replace(net.about, reference=lambda X: 0 * X)
    for power, exact in ((1, 1.0), (2, math.sqrt(2 / 3))):
        found = estimate(net, power, 4096)
        assert found.lo < exact < found.hi
        assert found.lo < found.error < found.hi
        assert found.hi - found.lo < 0.1


# studies


def test_slopes_are_fitted_on_log_axes() -> None:
    exact = Series("f", tuple(Point(p, 3 / p**2) for p in (2.0, 4.0, 8.0)))
    assert exact.fitted() == pytest.approx(-2.0)
    assert Series("f", (Point(2.0, 0.0), Point(3.0, 1.0))).fitted() is None
    faithful = sweep("faithful", by_anchors, [40, 80, 160, 320], -1.0)
    assert -1.1 < (faithful.fitted() or 0) < -0.9
    assert all(point.bound is not None and point.measured <= point.bound for point in faithful.points)


def test_a_sweep_parts_where_the_error_leaves_the_theory() -> None:
    series = sweep("float64", lambda beta: net_of(1 / beta), [10, 100], bound=lambda beta: 0.01, count=64)
    assert [point.bound for point in series.points] == [0.01, 0.01]
    assert parting(series) == 10
    assert parting(Series("s", (Point(1.0, 0.5, 1.0), Point(2.0, 0.5, None)))) is None


def test_places_are_searched_around() -> None:
    net = net_of(shift=1.0)
    places = {"fault": 0.72, "far": 0.0}
    series = at_places("UA-2", net, places, reach=0.02)
    assert [point.measured > 0.9 for point in series.points] == [True, False]
    assert [point.label for point in series.points] == ["fault", "far"]
    assert ends(0.0, 1.0, 0.5, [0.25]) == {
        "a - 10(b-a)": -10.0,
        "a": 0.0,
        "b - dL/2": 0.75,
        "b": 1.0,
        "b + dL/2": 1.25,
        "b + 10(b-a)": 11.0,
        "seam 1": 0.25,
    }


def test_lengths_say_seconds_and_bytes() -> None:
    def build(n: float) -> ww.AttentionNetwork:
        net = net_of()
        net.about = dataclasses.replace(net.about, probes=lambda rng, count: rng.uniform(-1, 1, (count, int(n), 1)))
        return net

    short, long = lengths("n", build, [10, 200_000]).points
    assert short.bound == long.bound
    assert short.measured <= long.measured <= (long.bound or 0)
    assert long.extras["seconds"] > 0
    assert long.extras["peak bytes"] > 200_000 * 8  # the output alone


# attention weights


@pytest.mark.parametrize("name", ["compiled", "sees itself", "sees its block"])
def test_attention_weights_are_those_that_the_interpreter_mixes(name: str) -> None:
    network = ZOO[name]()
    n = network.tokens or 3
    X = np.random.default_rng(0).normal(size=(2, n, len(network.inputs)))
    weights = attention_weights(network, X)
    assert weights.shape == (2, n, len(network.registers) + n)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-12)
    head = next(network.heads)
    hidden = np.ones(weights.shape[-1], dtype=bool)
    hidden[slice(*head.sees.registers)] = False
    if head.sees.data == "none":
        assert not weights[..., hidden].any()
    with pytest.raises(IndexError, match="there is no number 9"):
        attention_weights(network, X, layer=9)


# figures


def test_every_kind_of_picture_is_drawn_and_labelled(tmp_path: Path) -> None:
    drawn = (*pictures(good()), *good_studies())
    figure = figure_of("X-1", drawn)
    figure.savefig(tmp_path / "all.png")
    axes = [axes for axes in _axes(figure) if axes.get_ylabel() != "attention weight"]
    assert len(axes) == 4  # two of the curve, the heat map, the study
    assert all(one.get_ylabel() for one in axes)
    bounds = [text.get_text() for text in _legends(figure)]
    assert any("proven bound" in text for text in bounds)
    assert any("slope -1, the theorem's" in text for text in bounds)
    assert any("fitted slope -1.0" in text for text in bounds)


def test_heads_stand_side_by_side_in_one_heat_map() -> None:
    net = ww.approximate("clip(x, -0.5, 0.5)", (-1, 1), 1e-3)
    assert len(list(net.network.heads)) == 2
    net.about = dataclasses.replace(net_of().about, reference=lambda X: np.clip(X, -0.5, 0.5), method="spectral")
    both = dataclasses.replace(line(), heads=((0, 0), (0, 1)))
    _, heat = pictures(Instance({"spectral": net}, line=both))
    assert isinstance(heat, HeatMap)
    assert heat.breaks == {"head 0": 0, "head 1": next(net.network.heads).sees.registers[1]}
    np.testing.assert_allclose(heat.weights.sum(axis=1), 2, rtol=1e-12)


def test_a_curve_shows_its_token_alone() -> None:
    """Two tokens, the second far off its reference: the line along the first does not show it."""
    net = net_of()
    wrong = lambda X: X + np.array([[0.0], [9.0]])  # noqa: E731
    net.about = dataclasses.replace(net.about, reference=wrong)
    first = Line(-1, 1, np.zeros((2, 1)), np.array([[1.0], [0.0]]), "s")
    shown, second = curve({"n": net}, first), curve({"n": net}, dataclasses.replace(first, token=1))
    assert shown.errors["n"].max() <= (shown.bounds["n"] or 0)
    assert second.errors["n"].min() > 8
    assert np.ptp(second.outputs["n"]) == 0 < np.ptp(shown.outputs["n"])


def test_several_inputs_are_drawn_over_a_plane() -> None:
    net = ww.approximate("x*y", ww.Box([-1, -1], [1, 1]), 1e-3)
    probes = lambda rng, count: rng.uniform(-1, 1, (count, 1, 2))  # noqa: E731
    net.about = About("X-1", "spectral", {}, {}, {}, lambda X: X[..., :1] * X[..., 1:], probes)
    kinds = [type(picture).__name__ for picture in pictures(Instance({"spectral": net}))]
    assert kinds == ["Curve", "HeatMap", "Plane"]


def test_a_figure_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half_written(self: Any, target: Path, **options: Any) -> None:
        target.write_bytes(b"half a pict")
        raise OSError("disk full")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", half_written)
    with pytest.raises(OSError, match="disk full"):
        plot_theorem("t", good_studies(), tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def _axes(figure: Any) -> list[Any]:
    return [*figure.get_axes()] or [axes for part in figure.subfigs for axes in _axes(part)]


def _legends(figure: Any) -> list[Any]:
    own = [text for legend in figure.legends for text in legend.get_texts()]
    return own + [text for part in figure.subfigs for text in _legends(part)]


# the command


def test_the_list_builds_nothing(rows: dict[str, Theorem], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem_module, "_instance", _never)
    result = weightwright("theorems")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert "It holds." in result.stdout
    assert [line[-1] for line in lines if line[0].startswith("X-")] == ["PROVEN", "PROVEN", "PROVEN"]


def _never(*args: Any) -> Any:
    raise AssertionError("this should not have been started")


def test_one_theorem_is_told_in_full(rows: dict[str, Theorem], tmp_path: Path) -> None:
    plot = tmp_path / "x.png"
    result = weightwright("theorems", "x-1", "--rates", "--plot", plot)
    assert (result.exit_code, result.stderr) == (0, "")
    assert plot.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert sorted(tmp_path.iterdir()) == [plot]
    text = " ".join(result.stdout.split())
    anchors = len(net_of().network.registers)
    for words in (
        "It holds.",
        "a paper",
        f"p = {anchors}",
        "heads, faithful",
        "fitted slope -1.0",
        "faithful PROVEN",
    ):
        assert words in text


def test_json_is_a_list_of_what_was_built(rows: dict[str, Theorem]) -> None:
    result = weightwright("theorems", "--json")
    assert result.exit_code == 1  # two of them fail
    told = json.loads(result.stdout, parse_constant=_never)
    assert [one["id"] for one in told] == list(ROWS)
    for one in told:
        assert {"id", "title", "source", "status", "bound", "measured", "seconds"} <= one.keys()
        assert one["status"] in ("PROVEN", "MEASURED", "FAILED")
        for name in ("bound", "measured", "seconds"):
            assert one[name] is None or math.isfinite(one[name])
    assert [one["status"] for one in told] == ["PROVEN", "FAILED", "FAILED"]
    assert told[0]["measured"] <= told[0]["bound"]
    assert told[0]["counts"][0]["ratio"] == 1.0
    assert "3 theorems in " in result.stderr
    (single,) = json.loads(weightwright("theorems", "X-1", "--json").stdout)
    assert single["measured"] == told[0]["measured"]


def test_all_are_summed_up_with_the_time_they_took(rows: dict[str, Theorem]) -> None:
    result = weightwright("theorems", "all")
    assert result.exit_code == 1
    assert "3 theorems in " in result.stdout
    assert "X-3 failed: BudgetError: too many cells: [red]" in result.stdout


def test_a_theorem_that_fails_says_why_and_draws_nothing(rows: dict[str, Theorem], tmp_path: Path) -> None:
    result = weightwright("theorems", "X-3", "--plot", tmp_path / "x.png")
    assert result.exit_code == 1
    assert "too many cells" in result.stdout
    assert list(tmp_path.iterdir()) == []
    assert weightwright("theorems", "X-2").exit_code == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("UA-99",), "there is no theorem 'UA-99'; known are UA-1, UA-2, "),
        (("--plot", "a.png"), "take one theorem"),
        (("--rates",), "take one theorem"),
        (("UA-1", "--write", "a.md"), "leave out ID and --json"),
        (("UA-1", "--plot", "missing/a.png"), "there is no folder"),
        (("UA-1", "--plot", "a.gif"), "must end in one of"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    args: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(theorem_module, "_instance", _never)
    assert message in complaint(weightwright("theorems", *args), 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_command_runs_as_a_process() -> None:
    result = process("theorems", "UA-1", "--json")
    assert result.returncode == 0
    assert (json.loads(result.stdout)[0]["status"], result.stderr) == ("PROVEN", "")


# the page


def test_the_page_has_figures_tables_and_code(rows: dict[str, Theorem], tmp_path: Path) -> None:
    result = weightwright("theorems", "--write", tmp_path / "page.md")
    assert result.exit_code == 1
    text = (tmp_path / "page.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == [f"## {id}: fake" for id in ROWS]
    assert "def good() -> Instance:" in text
    assert "(images/theorems/X-1-rates.png)" in text
    assert "Failed: BudgetError" in text
    files = {path.name for path in (tmp_path / "images" / "theorems").iterdir()}
    assert files == {"X-1.png", "X-1-rates.png", "X-2.png"}


def test_deviations_come_first(rows: dict[str, Theorem]) -> None:
    shown = show(rows["X-1"])
    page, table = section(shown, (), ()), weightwright("theorems", "X-1").stdout
    assert page.index("**Deviations.**") < page.index(shown.theorem.statement)
    assert table.index("\ndeviations") < table.index("\nstatement")


def test_bars_in_cells_do_not_break_the_tables() -> None:
    shown = show(ROWS["X-1"])
    counts = (Count("heads", "|a|", 1, 1),)
    assert r"| heads | \|a\| | 1 |" in section(dataclasses.replace(shown, counts=counts), (), ())


def test_the_committed_page_is_that_of_the_registry() -> None:
    text = PAGE.read_text()
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [f"## {row.id}: {row.title}" for row in THEOREMS.values()]
    for row, part in zip(THEOREMS.values(), text.split("\n## ")[1:], strict=True):
        for words in (row.statement, row.source, *row.deviations, row.rate, row.file):
            assert words in part, f"{row.id}: run make docs"
        first = [part.index(words) for words in ("**Deviations.**", *row.deviations, row.statement)]
        assert first == sorted(first), f"{row.id}: deviations stand first"
        assert part.startswith(f"{row.id}: {row.title}\n\n**Deviations.**"), f"{row.id}: run make docs"
        for figure in part.split("](")[1:]:
            assert (PAGE.parent / figure.partition(")")[0]).is_file()


def test_costs_of_the_small_instance_are_told() -> None:
    net = net_of()
    heads, registers = counted(net, "ours", shown=("heads", "registers"))
    assert (heads.built, heads.what, heads.agrees) == (net.cost.heads, "heads, ours", True)
    assert (registers.built, registers.what) == (len(net.network.registers), "registers, ours")


def test_every_variant_has_a_cell_in_every_column() -> None:
    checks = (Check("a network", "PROVEN", 0.1, 0.05, native=False), Check("an array", "MEASURED", None, 0.05))
    _, headings, rows = next(tables(Shown(find("AE-15"), "MEASURED", checks, (), 0.0)))
    assert "plain Transformer" in headings
    assert [len(row) for row in rows] == [len(headings)] * 2


@pytest.mark.parametrize(
    ("facts", "vacuous"),
    [
        ({"bound": 8.5, "size": 8.0}, True),
        ({"bound": 7.5, "size": 8.0}, False),
        ({"bound": 2.0, "size": 1.0, "norm": "L1", "target_norm": 3.0}, False),  # of another norm than the size
        ({"bound": 2.0, "size": None}, False),
        ({"bound": None, "size": 1.0}, False),
    ],
)
def test_a_bound_no_smaller_than_its_target_is_called_vacuous(facts: dict[str, Any], vacuous: bool) -> None:
    one = Check(**{"name": "v", "status": "PROVEN", "measured": 0.5, **facts})
    assert one.vacuous is vacuous
    assert bool(one.warnings) is vacuous
    ((_, headings, rows),) = tables(shown_of(one))
    assert ("(vacuous)" in rows[0][headings.index("bound")]) is vacuous


def shown_of(one: Check) -> Shown:
    return Shown(find("UA-2"), "PROVEN", (one,), (), 0.0, None, Instance(checks=(one,)))


def test_the_largest_number_of_the_target_is_found() -> None:
    """UA-1 is the identity on an interval: what it returns is as large as its ends."""
    name, first = next(iter(THEOREMS["UA-1"].instance().nets.items()))
    found = check(name, first, 64)
    assert found.size is not None
    assert 0 < found.size < math.inf


def test_a_point_of_a_study_may_be_vacuous_too() -> None:
    series = sweep("UA-1", lambda n: THEOREMS["UA-1"].instance().nets["faithful"], [1.0], count=64)
    (point,) = series.points
    assert not point.vacuous
    assert dataclasses.replace(point, bound=10 * point.extras["target's largest number"]).vacuous
    study = Study("a study", "n", (dataclasses.replace(series, points=(dataclasses.replace(point, bound=1e9),)),))
    shown = dataclasses.replace(shown_of(Check("v", "PROVEN", 1.0, 0.5)))
    assert "(vacuous)" in str(list(tables(shown, (study,)))[-1])
