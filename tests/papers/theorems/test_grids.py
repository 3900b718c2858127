"""UA-4 to UA-7: errors under their bounds, rates, volumes, counts, and what the paper prints otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.running import reference_outputs

import weightwright as ww
from weightwright.claims.certificate import bound_in_words
from weightwright.papers.grids.estimates import run
from weightwright.papers.grids.grid_points import Grid, attention_network
from weightwright.papers.kit.measure import estimate
from weightwright.report.facts.network_facts import certificate_facts, value_facts

Make = Callable[..., ww.AttentionNetwork]
SCALAR: list[Make] = [
    ww.constructions.bumps,
    ww.constructions.sequence_to_scalar,
    ww.constructions.sequence_to_scalar_softmax,
]
SEQUENCE: list[Make] = [ww.constructions.sequence_to_sequence, ww.constructions.sequence_to_sequence_softmax]
ALL = SCALAR + SEQUENCE
ATTENTION = ALL[1:]
#: Lipschitz functions of two and of three numbers, with a kink.
TWO, THREE = "sin(2*x0) + abs(x1 - x0/2)", "sin(x0 + x1) + abs(x2) - x1/2"
SETTINGS = [
    {"n": 2, "d": 1, "g": 4},
    {"n": 1, "d": 2, "g": 5, "B": 2.5, "delta": 0.3, "norm": 2.0},
    {"n": 3, "d": 1, "g": 3, "B": 0.3, "delta": 0.01},
    {"n": 1, "d": 1, "g": 1, "delta": 0.5},
]


def formula(make: Make, N: int) -> str | list[str]:
    whole = {1: "exp(x0)", 2: TWO, 3: THREE}[N]
    others = ["max(x0, x1)" if N > 1 else "x0", "x0*x2" if N > 2 else "x0"]
    return [whole, *others][:N] if make in SEQUENCE else whole


def made(make: Make, setting: dict[str, float]) -> ww.AttentionNetwork:
    return make(formula(make, int(setting["n"] * setting["d"])), **setting)


def estimated(net: ww.AttentionNetwork, count: int, seed: int) -> Any:
    """The error in the norm of the certificate."""
    return estimate(net, net.certificate.norm, count, seed)


def cell_and_core(net: ww.AttentionNetwork, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cell of every input, and whether the input is certainly in its core."""
    claim = net.certificate.claim
    flat = X.reshape(len(X), -1)
    k = np.clip(np.floor((flat / claim.B + 1) / 2 * claim.g), 0, claim.g - 1).astype(int)
    v = np.ravel_multi_index(tuple(k.T), (claim.g,) * k.shape[1])
    away = np.abs(flat - claim.B * ((2 * k + 1) / claim.g - 1)).max(axis=1)
    return v, away < (1 - claim.delta) * claim.B / claim.g * (1 - 1e-12)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("setting", SETTINGS)
def test_no_input_is_worse_than_the_pointwise_bounds(make: Make, setting: dict[str, float]) -> None:
    net = made(make, setting)
    claim, about = net.certificate.claim, net.about
    assert net.certificate.status == "PROVEN"
    X = about.probes(np.random.default_rng(1), 600)
    errors = np.abs(run(net, X) - about.reference(X).reshape(len(X), -1))
    v, core = cell_and_core(net, X)
    assert core.any()
    assert not core.all()
    assert (errors[core] <= (claim.core[:, v[core]] + claim.leakage + claim.rounding).T).all()
    assert (errors <= (np.maximum(claim.core + claim.leakage, claim.shell)[:, v] + claim.rounding).T).all()
    assert errors[core].max() <= about.bounds["core"]
    assert errors.max() <= about.bounds["everywhere"]


@pytest.mark.few(7)
@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_estimate_is_below_the_bound_and_says_how_sure_it_is(make: Make, setting: dict[str, float]) -> None:
    net = made(make, setting)
    found = estimated(net, 500, seed=2)
    assert 0 < found.hi - found.error < found.error
    assert found.hi <= net.certificate.bound
    assert net.certificate.norm == setting.get("norm", 1.0)
    assert net.about.bounds[f"L{net.certificate.norm:g}"] == net.certificate.bound


def test_the_estimate_finds_a_known_integral() -> None:
    """One cell and f = x: the network returns 0 on [-1, 1], and the integral of |x| is 1, of x^2 two thirds."""
    for norm, known in ((1.0, 1.0), (2.0, math.sqrt(2 / 3))):
        found = estimated(ww.constructions.bumps("x0", 1, 1, g=1, norm=norm), 8000, seed=3)
        assert abs(found.error - known) <= 1.5 * (found.hi - found.error)  # the interval is the 99% one
        assert found.hi - found.error < 0.03


def slope(g: list[int], errors: list[float]) -> float:
    return float(np.polyfit(np.log(g), np.log(errors), 1)[0])


def rates(make: Make, n: int, d: int, g: list[int], count: int) -> tuple[float, float]:
    """Slopes of the bound and of the estimated L_1 error against g, with delta = g^-2."""
    nets = [made(make, {"n": n, "d": d, "g": size, "delta": size**-2}) for size in g]
    return slope(g, [net.certificate.bound for net in nets]), slope(g, [estimated(net, count, 4).error for net in nets])


@pytest.mark.few(1)
@pytest.mark.parametrize("make", ALL)
def test_the_error_in_two_numbers_falls_like_one_over_g(make: Make) -> None:
    proven, measured = rates(make, 2, 1, [4, 8, 16], 300)
    assert proven <= -0.9
    assert measured <= -0.9


@pytest.mark.few(1)
@pytest.mark.parametrize("make", ALL)
def test_the_error_in_three_numbers_falls_like_one_over_g(make: Make) -> None:
    proven, measured = rates(make, 3, 1, [3, 4, 6], 300)
    assert proven <= -0.9
    assert measured <= -0.9


@pytest.mark.slow
@pytest.mark.parametrize("make", ALL)
def test_the_rates_over_the_whole_range(make: Make) -> None:
    for n, d, g in ((2, 1, [4, 6, 8, 11, 16]), (1, 2, [4, 8, 16]), (3, 1, [3, 4, 5, 6, 8])):
        proven, measured = rates(make, n, d, g, 2000)
        print(make.__name__, n, d, g, f"bound {proven:.3f}, measured {measured:.3f}")
        assert proven <= -0.9
        assert measured <= -0.9


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_exceptional_volume(setting: dict[str, float]) -> None:
    """(2B)^N (1 - (1-delta)^N), exactly; the printed B^N (...) is far from the share of inputs outside of all cores."""
    net = made(ww.constructions.bumps, setting)
    claim, N = net.certificate.claim, int(setting["n"] * setting["d"])
    exact = (2 * Fraction(claim.B)) ** N * (1 - (1 - Fraction(claim.delta)) ** N)
    assert exact <= Fraction(claim.exceptional) <= exact * (1 + Fraction(1, 10**8))
    X = np.random.default_rng(5).uniform(-claim.B, claim.B, (20_000, claim.tokens, claim.features))
    share = 1 - cell_and_core(net, X)[1].mean()
    spread = 4 * math.sqrt(share * (1 - share) / len(X))
    assert abs(share * (2 * claim.B) ** N - float(exact)) <= spread * (2 * claim.B) ** N
    printed = net.about.printed["exceptional"]
    assert printed < (share - spread) * (2 * claim.B) ** N  # as printed, the volume would be too small by 2^N


def layer_one(net: ww.AttentionNetwork, X: np.ndarray) -> np.ndarray:
    """(count, G): the bumps, as the second layer or the softmax gets them."""
    grid = net.certificate.claim
    with torch.no_grad():
        bumped = net.layers[1](net.layers[0](net.embed(torch.tensor(X))))
    start = 0 if grid.kind == "softmax" else grid.features + grid.tokens + 3
    return bumped[:, 0, start : start + grid.g ** (grid.tokens * grid.features)].numpy()


@pytest.mark.parametrize(("n", "d"), [(2, 1), (1, 2), (2, 2)])
def test_the_bump_heads_compute_the_bumps(n: int, d: int) -> None:
    """Lemma G.14, whose statement is missing: the sum over tokens of truncated linear models, each with its shift."""
    net = ww.constructions.sequence_to_scalar_softmax("x0", n, d, g=2, delta=0.4)
    claim, N = net.certificate.claim, n * d
    X = net.about.probes(np.random.default_rng(6), 200)
    points = Grid(n, d, 2, 0.4, 1.0).points()
    away = 2 * (X[:, None] - points[None])  # (count, G, n, d)
    meant = sum(np.clip((sign * away + 1) / 0.4, 0, 1).sum(axis=(2, 3)) for sign in (1, -1))
    terms = claim.head.terms
    error = np.abs(layer_one(net, X) - meant).max()
    assert error <= 2 * N * (terms.approximation + terms.leakage + terms.rounding) + 1e-12
    # (G.45) says d e0, with e0 the error of one head's sum over the tokens: it is 2 d e0
    assert error > 1.5 * d * n / net.about.chosen["p"]


def test_bumps_without_the_shift_are_no_bumps() -> None:
    """As printed, Range[0,1](g (x - v)/(delta B)) and its mirror image are both 0 at x = v, where both should be 1."""
    net = ww.constructions.sequence_to_scalar_softmax(TWO, 2, 1, g=4)
    grid = Grid(2, 1, 4, 1 / 16, 1.0)
    centres, values = grid.points(), net.about.reference(grid.points()).ravel()
    assert np.abs(run(net, centres).ravel() - values).max() <= net.about.bounds["core"]

    class Printed(Grid):
        def shifts(self) -> np.ndarray:
            return super().shifts() - 1 / self.delta

    chosen = net.about.chosen
    printed = attention_network(
        Printed(2, 1, 4, 1 / 16, 1.0), values[None], chosen["p"], chosen["beta_bumps"], chosen["beta"], False, False
    )
    wrong = np.abs(run(ww.AttentionNetwork(printed), centres).ravel() - values)
    assert wrong.max() > net.about.bounds["core"]
    at_points = reference_outputs(printed, centres[:1])  # every bump is 0 there, or all that are not are other cells'
    assert abs(float(at_points.ravel()[0]) - values[0]) > 0.5


def test_the_all_ones_vector_adds_up_the_columns() -> None:
    """(G.50), (G.57): f softmax(beta R R^T) 1 is about G f(v), since every column holds f(v) already."""
    net = ww.constructions.sequence_to_scalar_softmax(TWO, 2, 1, g=4)
    grid = Grid(2, 1, 4, 1 / 16, 1.0)
    f = net.about.reference(grid.points()).ravel()
    v = int(np.abs(f).argmax())
    X = grid.points()[v : v + 1]
    R = layer_one(net, X)[0]
    scores = net.about.chosen["beta"] * np.outer(R, R)
    columns = np.exp(scores - scores.max(axis=0))
    columns /= columns.sum(axis=0)
    printed = f @ columns @ np.ones(grid.cells)
    assert abs(printed - grid.cells * f[v]) < 1e-6
    assert abs(printed - f[v]) > net.about.bounds["everywhere"]
    assert abs(float(run(net, X)[0, 0]) - f[v]) <= net.about.bounds["core"]


def test_beta_multiplies_the_error_of_the_bumps() -> None:
    """(G.51), (G.55): bumps that are off by e0 move the softmax by far more than d e0; only the gap helps."""
    beta, e0, d = 64.0, 0.01, 1
    R = np.array([4.0, 4.0, 3.0])  # a seam: two bumps are equal

    def softmax(z: np.ndarray) -> np.ndarray:
        weights = np.exp(z - z.max())
        return weights / weights.sum()

    moved = np.abs(softmax(beta * (R + np.array([e0, -e0, 0]))) - softmax(beta * R)).max()
    assert moved > 10 * d * e0
    inside = np.array([4.0, 3.0, 3.0])  # on a core: the gap of 1 shrinks by 2 e0, and the weights stay
    assert np.abs(softmax(beta * (inside + np.array([-e0, e0, e0]))) - [1, 0, 0]).max() < 1e-20


def counted(net: ww.AttentionNetwork, names: Iterable[str]) -> list[int]:
    network = net.network
    sizes = {"registers": len(network.registers), "width": len(network.embed.coordinates)}
    return [sizes[name] if name in sizes else getattr(net.cost, name) for name in names]


@pytest.mark.parametrize("make", ATTENTION)
@pytest.mark.parametrize(("n", "d", "g", "p"), [(2, 1, 3, 11), (1, 2, 2, 20), (1, 1, 5, 6), (3, 1, 2, 50)])
def test_counts_are_those_of_the_network(make: Make, n: int, d: int, g: int, p: int) -> None:
    """Remark E.1: 2 d g^(nd) bump heads, and a lookup for each output where there is a second layer."""
    net = make(["x0"] * (n * d) if make in SEQUENCE else "x0", n, d, g=g, delta=0.3, p=p)
    cells, lookups = g ** (n * d), 0 if "softmax" in make.__name__ else n * d if make in SEQUENCE else 1
    assert counted(net, ("layers", "heads", "anchors", "registers", "width", "parameters")) == [
        1 + bool(lookups),
        2 * d * cells + lookups,
        2 * d * cells * p + lookups * cells,
        p + cells * bool(lookups),
        d + n + 3 + cells + 2 * lookups,
        stored_parameters(n, d, g, p, second_layer=bool(lookups), sequence=make in SEQUENCE),
    ]


def stored_parameters(n: int, d: int, g: int, p: int, *, second_layer: bool, sequence: bool) -> int:
    """Of the maps before, of bump heads with 6 rows each, of the map between, of lookups, and of the result."""
    cells, outputs = g ** (n * d), n * d if sequence else 1
    width = d + n + 3 + cells + 2 * outputs * second_layer
    registers, last = p + cells * second_layer, width if second_layer else cells
    before = (d + n) * width + registers * width + 2 * d * cells * 6 * width
    lookups = outputs * (2 * width * cells + 2 * width) * second_layer
    return before + width * last + n + last + lookups + last * outputs + (n * n + d if sequence else 1)


def test_parameters_are_of_the_printed_order() -> None:
    """Remark E.1: d n g^(2dn), up to a constant; ours: bump heads 12 d, lookups 2 each, keys 1, the sum 1."""
    n, d, g = 3, 2, 8
    ratio = stored_parameters(n, d, g, 96, second_layer=True, sequence=True) / (n * d * g ** (2 * n * d))
    assert 6.33 < ratio < 6.34  # (12 d + 2 d n + 2) / (d n) = 38/6


@pytest.mark.parametrize(("n", "d", "g"), [(2, 1, 3), (1, 2, 4), (3, 1, 2), (1, 1, 1)])
def test_counts_of_feed_forward_bumps(n: int, d: int, g: int) -> None:
    """4 N g ramps and g^N bumps: weights and biases of both layers, of what flattens the tokens and of the output."""
    N, cells = n * d, g ** (n * d)
    ramps, bumped = 4 * N * g * (N + 1) + (4 * N * g + 1) * N * g, N * g * cells + 2 * cells + 1
    found = counted(ww.constructions.bumps("x0", n, d, g=g), ("layers", "heads", "registers", "width", "parameters"))
    assert found == [2, 0, 0, N, n * (n + d * N) + N + ramps + bumped + 2]


@pytest.mark.few(5)
@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("norm", [1.0, 2.0])
def test_a_tolerance_is_met(make: Make, norm: float) -> None:
    f = formula(make, 2)
    net = make(f, 2, 1, tol=1.1, norm=norm)
    assert net.certificate.bound <= 1.1
    assert net.about.chosen["delta"] == net.about.chosen["g"] ** -2
    coarser = make(f, 2, 1, g=max(int(0.6 * net.about.chosen["g"]), 1), norm=norm)
    assert coarser.certificate.bound > 1.1


def test_the_paper_asks_for_a_finer_grid() -> None:
    """(G.38) with its own constants, for the same tolerance."""
    about = ww.constructions.bumps(TWO, 2, 1, tol=0.5).about
    assert about.printed["g"] > about.chosen["g"]
    assert 0 < about.printed["delta"] < 1


@pytest.mark.parametrize("make", ALL)
def test_saved_loaded_and_interpreted(make: Make, tmp_path: Path) -> None:
    net = made(make, {"n": 2, "d": 1, "g": 3})
    net.save(tmp_path / "net.safetensors")
    again = ww.load(tmp_path / "net.safetensors")
    assert again.certificate.status == "PROVEN"
    assert again.certificate.norm == 1.0
    X = net.about.probes(np.random.default_rng(7), 60)
    assert (run(again, X) == run(net, X)).all()
    assert np.abs(reference_outputs(net, X).reshape(len(X), -1) - run(net, X)).max() < 1e-9
    assert run(net, X).shape[1] == (2 if make in SEQUENCE else 1)
    assert net(torch.zeros(5, 2, 1, dtype=torch.float64)).shape == ((5, 2, 1) if make in SEQUENCE else (5, 1, 1))
    assert "L_1 norm" in repr(net)


def test_a_bound_in_a_norm_is_shown_as_one() -> None:
    """It says nothing about a single input, and no table puts it beside one."""
    net = ww.constructions.bumps("x0", 1, 1, g=2)
    assert certificate_facts(net.certificate)["norm"] == "L_1"
    assert value_facts(net, [[0.5]], [0.5])[0]["bound"] is None
    assert bound_in_words(net.certificate).endswith("on the L_1 norm of the error")


def test_outputs_stand_where_their_formulas_say() -> None:
    """Token by token: output (i, c) is formula i d + c."""
    texts = ["x0 + 10", "x1 + 20", "x2 + 30", "x3 + 40"]
    for make in SEQUENCE:
        net = make(texts, 2, 2, g=2, delta=0.3)
        X = np.array([[[0.5, -0.5], [-0.5, 0.5]]])
        assert np.round(net(torch.tensor(X))[0].numpy(), 3).tolist() == [[10.5, 19.5], [29.5, 40.5]]


def test_traced_functions_are_formulas() -> None:
    traced = ww.constructions.sequence_to_scalar(lambda a, b: torch.sin(2 * a) + abs(b - a / 2), 2, 1, g=3)
    written = ww.constructions.sequence_to_scalar(TWO, 2, 1, g=3)
    assert traced.certificate.bound == written.certificate.bound
    both = ww.constructions.sequence_to_sequence(lambda a, b: (torch.maximum(a, b), a), 2, 1, g=3)
    assert both.certificate.formula == "(max(x0, x1), x0)"


def rough(X: np.ndarray) -> np.ndarray:
    """Slope 1 in each number, 2 in the infinity norm; no formula."""
    return np.where(X.sum(axis=(1, 2)) > 0, X.sum(axis=(1, 2)), 0.0)


@pytest.mark.parametrize("make", SCALAR)
def test_functions_that_are_no_formulas(make: Make) -> None:
    net = make(rough, 2, 1, g=4, lipschitz=2.0)
    assert net.certificate.status == "CONDITIONAL"
    assert net.certificate.formula == "a function known by 16 values at grid points, which the network holds"
    assert net.certificate.name == "rough"
    assert any(
        "2.0 times the largest change of an input, as the caller states" in a for a in net.certificate.assumptions
    )
    X = net.about.probes(np.random.default_rng(8), 600)
    errors = np.abs(run(net, X) - net.about.reference(X).reshape(len(X), -1))
    assert errors.max() <= net.about.bounds["everywhere"]
    assert errors[cell_and_core(net, X)[1]].max() <= net.about.bounds["core"]
    measured = make(rough, 2, 1, g=4)
    assert measured.certificate.status == "MEASURED"
    assert measured.certificate.bound == math.inf
    assert "Monte-Carlo" in measured.certificate.measured.how
    found = estimated(net, 2000, 9)
    near = 1.5 * (found.hi - found.error) + 0.02
    assert abs(measured.certificate.measured.error - found.error) < near


@pytest.mark.parametrize("make", SCALAR)
def test_lipschitz_constants_that_would_do_nothing_are_refused(make: Make) -> None:
    with pytest.raises(ValueError, match="lipschitz is for functions that are no formulas"):
        make("x0", 2, 1, g=3, lipschitz=1.0)
    with pytest.raises(ValueError, match="tol needs lipschitz"):
        make(rough, 2, 1, tol=0.5)


def test_a_function_that_ends_at_the_edge_of_the_domain_is_refused() -> None:
    """Enclosures reach a little beyond the domain, where the root is undefined."""
    with pytest.raises(ww.FormulaError, match="undefined, unbounded or defined no further than the edge"):
        ww.constructions.bumps("sqrt(x0 + 1)", 1, 1, g=2)
    assert ww.constructions.bumps("sqrt(x0 + 1.001)", 1, 1, g=2).certificate.status == "PROVEN"


@pytest.mark.parametrize("B", [1e-30, 1e30])
@pytest.mark.parametrize("make", SCALAR)
def test_domains_of_any_size(make: Make, B: float) -> None:
    net = make("x0 + x1", 2, 1, g=3, B=B, norm=2.0)
    X = net.about.probes(np.random.default_rng(17), 300)
    assert np.abs(run(net, X) - net.about.reference(X)[:, 0]).max() <= net.about.bounds["everywhere"]


def test_a_sequence_function_of_arrays() -> None:
    net = ww.constructions.sequence_to_sequence(lambda X: np.sort(X, axis=1), 2, 1, g=4, lipschitz=1.0)
    assert net.certificate.status == "CONDITIONAL"
    X = net.about.probes(np.random.default_rng(10), 300)
    assert np.abs(run(net, X) - np.sort(X, axis=1)[:, :, 0]).max() <= net.about.bounds["everywhere"]


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize(("arguments", "error", "said"), [
    ({"g": 0}, ValueError, "g must be a whole number of at least 1, not 0"),
    ({"g": 2.5}, ValueError, "g must be a whole number"),
    ({"g": 3, "delta": 0.0}, ValueError, "delta must lie in"),
    ({"g": 3, "delta": 1.0}, ValueError, "delta must lie in"),
    ({"g": 3, "B": -1.0}, ww.DomainError, "B must be a positive number"),
    ({"g": 3, "B": math.nan}, ww.DomainError, "B must be a positive number"),
    ({"g": 3, "tol": 0.1}, ValueError, "give tol or g, one of the two"),
    ({}, ValueError, "give tol or g, one of the two"),
    ({"tol": -1.0}, ValueError, "tol must be a positive finite number"),
    ({"g": 3, "norm": 0.5}, ValueError, "norm must be the p of an L_p norm"),
    ({"g": 3, "lipschitz": -1.0}, ValueError, "lipschitz must be"),
    ({"g": 10**6}, ww.BudgetError, "1,000,000,000,000 cells"),
    ({"tol": 1e-9}, ww.BudgetError, "more than max_"),
])  # fmt: skip
def test_arguments_that_are_refused(make: Make, arguments: dict, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        make(formula(make, 2), 2, 1, **arguments)


def test_a_budget_is_no_matter_of_memory() -> None:
    with pytest.raises(ww.BudgetError, match="about 1e300"):
        ww.constructions.sequence_to_scalar("x0", 300, 1, g=10)
    with pytest.raises(ww.BudgetError, match="8,192 heads, more than max_heads=4,096"):
        ww.constructions.sequence_to_scalar("x0", 4, 1, g=8)


@pytest.mark.parametrize(("f", "said"), [
    ("x0 + y", "y"),
    ("x2", "x2"),
    ("log(x0)", "undefined"),
    ("1/x1", "un"),
    (3.0, "f must be a formula in x0, x1 or a function"),
])  # fmt: skip
@pytest.mark.parametrize("make", SCALAR)
def test_formulas_that_are_refused(make: Make, f: object, said: str) -> None:
    with pytest.raises(ww.FormulaError, match=said):
        make(f, 2, 1, g=3)


def test_functions_that_are_refused() -> None:
    with pytest.raises(ww.FormulaError, match="f has 1 formulas, but 2 tokens of 1 features are 2 outputs"):
        ww.constructions.sequence_to_sequence(["x0"], 2, 1, g=3)
    with pytest.raises(ww.FormulaError, match="f returns 3 values"):
        ww.constructions.sequence_to_sequence(lambda a, b: (a, b, a), 2, 1, g=3)
    with pytest.raises(ww.FormulaError, match="f must be 2 formulas"):
        ww.constructions.sequence_to_sequence("x0", 2, 1, g=3)
    with pytest.raises(ww.UnsupportedOperation, match="neither be traced as a function of 2 numbers"):
        ww.constructions.bumps(lambda a: a.nothing, 2, 1, g=3)
    with pytest.raises(ww.FormulaError, match="returned shape"):
        ww.constructions.bumps(lambda X: np.zeros(7), 2, 1, g=3)


@pytest.mark.parametrize("make", ATTENTION)
def test_parameters_of_the_heads_that_are_refused(make: Make) -> None:
    f = formula(make, 2)
    with pytest.raises(ValueError, match="p = 8 anchors leave bumps"):
        make(f, 2, 1, g=3, p=8)
    with pytest.raises(ValueError, match="makes ramps so steep that scores of the bump heads round too much"):
        make(f, 2, 1, g=8, delta=2.0**-30)
    with pytest.raises(ValueError, match="p must be a whole number of at least 3"):
        make(f, 2, 1, g=3, p=2)
    with pytest.raises(ValueError, match="beta must be a power of two"):
        make(f, 2, 1, g=3, beta=30.0)
    weak = make(f, 2, 1, g=3, beta=4.0)  # a softmax that leaks; the bound says so
    assert weak.certificate.claim.leakage > 0.05
    assert weak.about.bounds["core"] > make(f, 2, 1, g=3).about.bounds["core"]


SMOOTH = {1: ["sin(x0)"], 2: ["sin(x0)*x1", "exp(x0/2)"], 3: ["x0 + sin(x1)*x2", "x1", "x0*x2"]}


@pytest.mark.few(4)
@pytest.mark.parametrize("make", ATTENTION)
@pytest.mark.parametrize("setting", [
    {"n": 2, "d": 1, "tol": 1e-2},
    {"n": 1, "d": 2, "tol": 0.2, "B": 2.0, "norm": 2.0},
    {"n": 1, "d": 1, "tol": 1e-6, "B": 0.5},
])  # fmt: skip
def test_spectral_heads_side_by_side(make: Make, setting: dict[str, float]) -> None:
    """One layer, and a bound that holds everywhere."""
    texts = SMOOTH[int(setting["n"] * setting["d"])]
    net = make(texts if make in SEQUENCE else texts[0], **setting, method="spectral")
    assert (net.certificate.status, net.certificate.norm) == ("PROVEN", math.inf)
    norm = setting.get("norm", 1.0)
    assert net.about.bounds[f"L{norm:g}"] <= setting["tol"]
    X = net.about.probes(np.random.default_rng(12), 2000)
    errors = np.abs(run(net, X) - net.about.reference(X).reshape(len(X), -1))
    assert errors.max() <= net.certificate.bound
    found = estimate(net, norm, 1000, 13)
    assert found.hi <= net.about.bounds[f"L{norm:g}"]
    assert net.cost.heads == (len(texts) if make in SEQUENCE else 1)


def test_spectral_heads_of_three_numbers() -> None:
    net = ww.constructions.sequence_to_scalar(SMOOTH[3][0], 3, 1, tol=0.5, method="spectral")
    X = net.about.probes(np.random.default_rng(14), 2000)
    assert np.abs(run(net, X) - net.about.reference(X)[:, 0]).max() <= net.certificate.bound


def test_spectral_outputs_stand_where_their_formulas_say(tmp_path: Path) -> None:
    net = ww.constructions.sequence_to_sequence(["x0 + 10", "x1 + 20", "x2 + 30"], 1, 3, tol=1e-2, method="spectral")
    assert np.round(net(torch.zeros(1, 1, 3, dtype=torch.float64)).numpy(), 3).tolist() == [[[10.0, 20.0, 30.0]]]
    net.save(tmp_path / "net.safetensors")
    again = ww.load(tmp_path / "net.safetensors")
    assert again.certificate.status == "PROVEN"
    X = net.about.probes(np.random.default_rng(15), 60)
    assert (run(again, X) == run(net, X)).all()
    assert np.abs(reference_outputs(net, X).reshape(len(X), -1) - run(net, X)).max() < 1e-12


def test_a_spectral_network_is_far_smaller() -> None:
    faithful = ww.constructions.sequence_to_scalar("sin(x0)*x1", 2, 1, g=8)
    spectral = ww.constructions.sequence_to_scalar(
        "sin(x0)*x1", 2, 1, tol=faithful.certificate.bound / 100, method="spectral"
    )
    assert spectral.about.bounds["L1"] <= faithful.certificate.bound / 100
    assert 10 * spectral.cost.parameters < faithful.cost.parameters


@pytest.mark.parametrize("make", ATTENTION)
@pytest.mark.parametrize(("arguments", "said"), [
    ({"n": 2, "d": 1, "g": 3}, "takes tol"),
    ({"n": 2, "d": 1, "tol": 0.1, "delta": 0.1}, "takes tol"),
    ({"n": 2, "d": 1, "tol": 0.1, "p": 64}, "takes tol"),
    ({"n": 2, "d": 2, "tol": 0.1}, "up to 3 numbers, not n d = 4"),
])  # fmt: skip
def test_what_spectral_heads_do_not_take(make: Make, arguments: dict, said: str) -> None:
    f = ["x0"] * (arguments["n"] * arguments["d"]) if make in SEQUENCE else "x0"
    with pytest.raises(ValueError, match=said):
        make(f, **arguments, method="spectral")
    with pytest.raises(ValueError, match="method must be 'faithful' or 'spectral', not 'other'"):
        make(f, **arguments, method="other")


def test_a_spectral_head_needs_a_formula() -> None:
    with pytest.raises(ValueError, match="needs a formula"):
        ww.constructions.sequence_to_scalar(rough, 2, 1, tol=0.1, lipschitz=2.0, method="spectral")


# what a bound is worth


def test_the_norm_of_the_target_stands_beside_the_bound() -> None:
    """|x0 x1| has the integral 1 over [-1, 1]^2, (x0 x1)^2 the integral 4/9; both tables and JSON have the estimate."""
    for norm, exact in ((1.0, 1.0), (2.0, 2 / 3)):
        net = ww.constructions.bumps("x0*x1", 2, 1, g=8, norm=norm)
        assert net.about.target_norm == pytest.approx(exact, rel=0.03)
        assert net.certificate.bound < net.about.target_norm
        assert not any("nothing is claimed" in note for note in net.about.notes)
    wide = ww.constructions.sequence_to_scalar("x0*x1", 2, 1, tol=1e-3, method="spectral", B=2.0)
    assert wide.about.target_norm == pytest.approx(16.0, rel=0.03)  # of |x0 x1| over [-2, 2]^2


def test_the_shells_of_four_numbers_do_not_void_the_bound() -> None:
    """With delta = g^-2 the shells alone cost more than the target's norm; a bound that is void says so."""
    f = "sin(2*x0) + abs(x1)/2 + x2*x0 + x3*x1"
    net = ww.constructions.bumps(f, 4, 1, g=5)
    assert (
        net.certificate.bound
        < net.about.target_norm
        < ww.constructions.bumps(f, 4, 1, g=5, delta=1 / 25).certificate.bound
    )
    coarse = ww.constructions.bumps(f, 4, 1, g=2)
    assert coarse.certificate.bound > coarse.about.target_norm
    assert "returning 0 is as near, so nothing is claimed" in coarse.about.notes[-1]
