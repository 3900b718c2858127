"""Heads of two and three variables: what is asked for is met, what is claimed holds, what is forged is refused."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx
from support.exact import errors
from support.forging import save_forged, with_leaf, with_one_layer
from support.formulas import random_formula_of

import weightwright as ww
from weightwright.approximation import several
from weightwright.claims.one_layer_claims import VectorLayerClaim
from weightwright.enclosures.balls.cover import is_covered
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.prover.vector_rounding import VectorAnchors, score_errors

SQUARE = ww.Box([-1, -1], [1, 1])
EXAMPLE = "sin(3*x)*cos(2*y)+x*y"


@pytest.fixture(scope="module")
def example() -> ww.AttentionNetwork:
    return ww.approximate(EXAMPLE, SQUARE, tol=1e-5)


@pytest.fixture(scope="module")
def shifted() -> ww.AttentionNetwork:
    """Queries that round on both axes, and a mean that is added."""
    return ww.approximate("x*y", ww.Box([0, 5], [3, 7]), 1e-2, dtype=torch.float32)


def proven_and_kept(net: ww.AttentionNetwork, tol: float, seed: int = 0) -> None:
    """PROVEN within tol, and no input that a search finds exceeds the bound, by the tests' own reference."""
    said = net.certificate
    assert said.status == "PROVEN"
    assert said.bound <= tol
    worst = ww.search(net, 0.1, seed)
    y = net(torch.tensor([worst.x], dtype=net.dtype)).item()
    (error,) = errors(said.formula, [worst.x], [y])
    assert error <= said.bound
    assert not worst.violated


# what is asked for


def test_the_example_takes_one_head_and_at_most_144_anchors(example: ww.AttentionNetwork) -> None:
    proven_and_kept(example, 1e-5)
    (head,) = example.network.heads
    assert len(example.network.registers) <= 144
    assert head.sees.data == "none"
    x = torch.rand(2, 3, 5, 2, dtype=torch.float64) * 2 - 1
    y = example(x)
    assert y.shape == (2, 3, 5, 1)
    exact = torch.sin(3 * x[..., 0]) * torch.cos(2 * x[..., 1]) + x[..., 0] * x[..., 1]
    assert float((y[..., 0] - exact).abs().max()) <= example.certificate.bound
    assert example.network.native


def test_pairs_make_a_box_and_the_order_is_that_of_the_features() -> None:
    net = ww.approximate("x - 2*y", ((0, 5), (2, 7)), 1e-3)
    proven_and_kept(net, 1e-3)
    assert abs(float(net(torch.tensor([[2.0, 5.0]], dtype=torch.float64))) + 8) <= 1e-3


def test_a_traced_function_of_two_tensors_in_float32() -> None:
    net = ww.approximate(lambda x, y: torch.sin(x) * y, ww.Box([0, 5], [2, 7]), 1e-3, dtype=torch.float32)
    assert net.certificate.formula == "sin(x)*y"
    proven_and_kept(net, 1e-3)


def test_three_variables_on_an_unequal_box() -> None:
    net = ww.approximate("x*y*z", ww.Box([0, 5, -3], [1, 7, 2]), 1e-3)
    proven_and_kept(net, 1e-3)
    assert net(torch.tensor([[0.5, 6.0, -1.0]], dtype=torch.float64)).shape == (1, 1)


@pytest.mark.slow
def test_a_smooth_function_of_three_variables() -> None:
    net = ww.approximate("exp(-(x**2+y**2+z**2))*sin(2*(x+y+z))", ww.Box([-1] * 3, [1] * 3), 1e-3)
    proven_and_kept(net, 1e-3)


@pytest.mark.slow
def test_a_kink_is_proven_by_small_boxes() -> None:
    proven_and_kept(ww.approximate("max(x, y) + 0.5*x", SQUARE, 0.15), 0.15)


@pytest.mark.few(5)
@pytest.mark.parametrize("seed", range(10))
def test_random_formulas_keep_their_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    formula = random_formula_of(rng, ("x", "y"), 2)
    lo = rng.uniform(-3, 3, 2).round(2)
    box = ww.Box(lo, lo + rng.uniform(0.2, 1.5, 2).round(2))
    dtype = (torch.float64, torch.float32, torch.bfloat16)[seed % 3]
    tol = {torch.float64: 1e-4, torch.float32: 2e-3, torch.bfloat16: 1e6}[dtype]
    proven_and_kept(ww.approximate(formula, box, tol, dtype=dtype), tol, seed)


# measured instead of proven


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("formula", "box"),
    [
        ("sin(5*x)", ww.Box(-1, 1)),
        ("x*y", SQUARE),
        ("exp(-(x**2+y**2+z**2))*sin(2*(x+y+z))", ww.Box([-1] * 3, [1] * 3)),
    ],
)
def test_measured_says_what_was_found_and_claims_nothing(formula: str, box: ww.Box, tmp_path: Path) -> None:
    net = ww.approximate(formula, box, 1e-3, proof="measured")
    said = net.certificate
    assert said.status == "MEASURED"
    assert said.bound == math.inf
    assert type(said.claim).__name__ == "MeasuredClaim"
    assert 0 < said.measured.error <= 1e-3
    assert said.measured.inputs > 1000
    assert "128 bits" in said.measured.how
    worst = ww.search(net, 0, seed=5)
    assert worst.bound == math.inf
    assert not worst.violated
    path = tmp_path / "net.safetensors"
    net.save(path)
    assert ww.load(path).certificate == said
    with pytest.raises(ww.CertificateError, match="nothing is proven"):
        ww.check(path)


@pytest.mark.slow
def test_measured_refuses_what_the_search_contradicts() -> None:
    with pytest.raises(ww.ToleranceError, match=r"no network within tol=1e-30 .* smallest error measured is"):
        ww.approximate("x*y", SQUARE, 1e-30, proof="measured", max_anchors=64)


# what cannot be had


@pytest.mark.parametrize(
    ("args", "options", "kind", "message"),
    [
        (
            ("x*y", ww.Box([0] * 4, [1] * 4), 1e-3),
            {},
            ww.DomainError,
            r"two or three features, not one of shape \(4,\)",
        ),
        (
            ("x*z", SQUARE, 1e-3),
            {},
            ww.FormulaError,
            "unknown name 'z'; an interval for each of x, y and z is domain=Box",
        ),
        (("x*y", SQUARE, 1e-3), {"proof": "maybe"}, ValueError, "proof must be 'proven' or 'measured', not 'maybe'"),
        (("x*y", SQUARE, 1e-3), {"method": "faithful"}, ValueError, "'faithful' takes one variable, not 2"),
        (("x*y", SQUARE, 0), {}, ValueError, "tol must be a positive finite number, not 0"),
        (("x*y", SQUARE, 1e-3), {"max_anchors": 3}, ww.BudgetError, "at least 4 anchors, max_anchors=3"),
        ((lambda x: x, SQUARE, 1e-3), {}, ww.FormulaError, "f must take 2 tensors, x, y"),
        (("log(x + y)", SQUARE, 1e-3), {}, ww.FormulaError, "undefined, infinite or too large .* near x = "),
        (("x*y", ww.Box([0, 0], [1, 1e-310]), 1e-3), {}, ww.DomainError, r"y in \[0.0, 1e-310\] must be between"),
    ],
)
def test_bad_arguments_are_named(args: Any, options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        ww.approximate(*args, **options)


def test_a_tolerance_beyond_the_dtype_names_the_best_bound() -> None:
    with pytest.raises(ww.ToleranceError, match="tol=1e-09 cannot be proven; the best bound found is") as caught:
        ww.approximate("x*y", SQUARE, 1e-9, dtype=torch.float32, max_anchors=36)
    assert 1e-9 < caught.value.best < 1e-3


def test_a_proof_that_would_take_too_long_says_what_to_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "WORK", 1e5)
    with pytest.raises(ww.BudgetError, match=r'proof="measured"'):
        ww.approximate(EXAMPLE, SQUARE, 1e-5)


# forgeries: all digests fit, the claims are false


def claim_of(certificate: Any) -> Any:
    assert isinstance(certificate.claim, VectorLayerClaim)
    return certificate.claim.leaf


def with_terms(certificate: Any, **changes: float) -> Any:
    """The head's and the network's terms changed alike, and a bound that fits them."""
    head = dataclasses.replace(claim_of(certificate).terms, **changes)
    slip = certificate.terms.rounding - claim_of(certificate).terms.rounding
    whole = dataclasses.replace(head, rounding=head.rounding + slip)
    total = 1.0001 * (whole.approximation + whole.leakage + whole.rounding)
    return dataclasses.replace(with_leaf(certificate, terms=head), terms=whole, bound=total)


def moved_box(certificate: Any) -> Any:
    boxes = np.array(claim_of(certificate).boxes)
    boxes[3, 1, 0] = np.nextafter(boxes[3, 1, 0], -np.inf)  # the smallest possible gap
    return with_leaf(certificate, boxes=boxes)


FALSE_CLAIMS: dict[str, Callable[[Any], Any]] = {
    "approximation": lambda said: with_terms(said, approximation=0.5 * claim_of(said).terms.approximation),
    "rounding": lambda said: with_terms(said, rounding=0.01 * claim_of(said).terms.rounding),
    "leakage": lambda said: with_terms(said, leakage=0.0),
    "bound": lambda said: dataclasses.replace(said, bound=0.9 * said.bound),
    "formula": lambda said: dataclasses.replace(said, formula=said.formula + " + x/1000"),
    "the head's formula": lambda said: with_leaf(said, formula=claim_of(said).formula + " + 0*s0"),
    "a box is missing": lambda said: with_leaf(said, boxes=claim_of(said).boxes[1:]),
    "a box is a float too short": moved_box,
    "half of the claim": lambda said: with_leaf(said, hi=claim_of(said).hi / 2),
    "boxes of one axis": lambda said: with_leaf(said, boxes=claim_of(said).boxes[:, :, :1]),
    "a larger domain": lambda said: dataclasses.replace(said, domain=ww.Box(said.domain.lo, said.domain.hi + 0.01)),
    "another layer": lambda said: with_leaf(said, layer=1),
    "a claim about one number": lambda said: with_one_layer(said, claim_of(said)),
    "two claims": lambda said: dataclasses.replace(said, claim=VectorLayerClaim((claim_of(said),) * 2)),
    "hidden assumption": lambda said: dataclasses.replace(said, assumptions=()),
    "NaN": lambda said: with_terms(said, approximation=math.nan),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", FALSE_CLAIMS)
def test_a_false_claim_is_refused(name: str, example: ww.AttentionNetwork, tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    save_forged(example.network, FALSE_CLAIMS[name](example.certificate), path)
    with pytest.raises(ww.CertificateError):
        ww.check(path)


def test_slopes_are_checked_where_queries_round(shifted: ww.AttentionNetwork, tmp_path: Path) -> None:
    proven_and_kept(shifted, 1e-2)
    path = tmp_path / "net.safetensors"
    said, claim = shifted.certificate, claim_of(shifted.certificate)
    for axis in (0, 1):
        slopes = np.array(claim.lipschitz)
        assert slopes[axis] > 0
        slopes[axis] *= 0.4  # twice the largest slope is claimed
        save_forged(shifted.network, with_leaf(said, lipschitz=slopes), path)
        with pytest.raises(ww.CertificateError, match=f"slope along axis {axis}"):
            ww.check(path)
    save_forged(shifted.network, dataclasses.replace(said, terms=claim.terms), path)
    with pytest.raises(ww.CertificateError, match=r"rounding: .* is needed"):
        ww.check(path)


def with_head(network: Any, **changes: Any) -> Any:
    layer = network.layers[0]
    return dataclasses.replace(
        network, layers=(dataclasses.replace(layer, heads=(dataclasses.replace(layer.heads[0], **changes),)),)
    )


def entry(array: np.ndarray[Any, Any], at: tuple[int, int], value: float) -> np.ndarray[Any, Any]:
    out = np.array(array)
    out[at] = value
    return out


def head_of(network: Any) -> Any:
    return next(network.heads)


#: Coordinates of two inputs: x[0], x[1], data, key[0], key[1], offset, value, f.
OTHER_NETWORKS: dict[str, Callable[[Any], Any]] = {
    "a value": lambda n: dataclasses.replace(n, registers=entry(n.registers, (30, 6), n.registers[30, 6] + 0.01)),
    "a key": lambda n: dataclasses.replace(n, registers=entry(n.registers, (30, 4), n.registers[30, 4] + 0.01)),
    "an offset": lambda n: dataclasses.replace(n, registers=entry(n.registers, (30, 5), n.registers[30, 5] + 0.01)),
    "two keys in one": lambda n: with_head(n, W_K=entry(head_of(n).W_K, (6, 0), 1.0)),
    "a key rescaled": lambda n: with_head(n, W_K=entry(head_of(n).W_K, (3, 0), 2.0)),
    "read": lambda n: dataclasses.replace(n, read=dataclasses.replace(n.read, C=entry(n.read.C, (0, 0), 1e-3))),
    "beta": lambda n: with_head(n, beta=1.5 * head_of(n).beta),
    "query scale": lambda n: with_head(n, W_Q=entry(head_of(n).W_Q, (0, 0), 3.0)),
    "query shift": lambda n: with_head(n, W_Q=entry(head_of(n).W_Q, (2, 0), 0.125)),
    "query mixes inputs": lambda n: with_head(n, W_Q=entry(head_of(n).W_Q, (1, 0), 1.0)),
    "inputs swapped": lambda n: with_head(n, W_Q=head_of(n).W_Q[:, [1, 0, 2]]),
    "query end": lambda n: with_head(n, W_Q=entry(head_of(n).W_Q, (2, 2), 2.0)),
    "data key": lambda n: with_head(n, W_K=entry(head_of(n).W_K, (0, 1), 1.0)),
    "data key not hidden": lambda n: with_head(n, W_K=entry(head_of(n).W_K, (2, 2), 0.0)),
    "data value": lambda n: with_head(n, W_V=entry(head_of(n).W_V, (2, 0), 1.0)),
    "output": lambda n: with_head(n, W_O=entry(head_of(n).W_O, (0, 7), 2.0)),
    "no residual": lambda n: dataclasses.replace(n, layers=(dataclasses.replace(n.layers[0], residual=False),)),
    "sees data": lambda n: with_head(n, sees=dataclasses.replace(head_of(n).sees, data="all")),
    "mean": lambda n: dataclasses.replace(
        n, embed=dataclasses.replace(n.embed, C=entry(n.embed.C, (0, 7), n.embed.C[0, 7] + 1.0))
    ),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", OTHER_NETWORKS)
def test_a_certificate_for_another_network_is_refused(name: str, example: ww.AttentionNetwork, tmp_path: Path) -> None:
    network = OTHER_NETWORKS[name](example.network)
    said = dataclasses.replace(example.certificate, network=ww.AttentionNetwork(network).digest())
    path = tmp_path / "net.safetensors"
    save_forged(network, said, path)
    with pytest.raises(ww.CertificateError):
        ww.check(path)


def test_the_true_file_passes(example: ww.AttentionNetwork, tmp_path: Path) -> None:
    example.save(tmp_path / "net.safetensors")
    assert ww.load(tmp_path / "net.safetensors").certificate.status == "PROVEN"


# covering a box by boxes


def halved(rng: np.random.Generator, count: int, d: int) -> np.ndarray[Any, Any]:
    boxes = [np.array([np.full(d, -1.0), np.full(d, 1.0)])]
    while len(boxes) < count:
        box = boxes.pop(int(rng.integers(len(boxes))))
        axis, where = int(rng.integers(d)), rng.uniform(0.2, 0.8)
        middle = box[0, axis] * where + box[1, axis] * (1 - where)
        for side in (0, 1):
            part = box.copy()
            part[1 - side, axis] = middle
            boxes.append(part)
    return np.array(boxes)[rng.permutation(count)]


@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_subdivision_covers_and_every_gap_is_seen(d: int) -> None:
    rng = np.random.default_rng(d)
    boxes = halved(rng, 60, d)
    lo, hi = np.full(d, -1.0), np.full(d, 1.0)
    assert is_covered(lo, hi, boxes)
    assert is_covered(lo, hi, np.concatenate([boxes, halved(rng, 20, d)]))
    for index in range(len(boxes)):
        assert not is_covered(lo, hi, np.delete(boxes, index, axis=0))
        side, axis = int(rng.integers(2)), int(rng.integers(d))
        short = boxes.copy()
        short[index, side, axis] = np.nextafter(short[index, side, axis], short[index, 1 - side, axis])
        assert not is_covered(lo, hi, short)


def test_pinwheels_and_overlaps_cover_too() -> None:
    """Boxes that no straight cut separates."""
    pinwheel = np.array(
        [[[0, 0], [2, 1]], [[2, 0], [3, 2]], [[1, 2], [3, 3]], [[0, 1], [1, 3]], [[1, 1], [2, 2]]], dtype=np.float64
    )
    assert is_covered(np.zeros(2), np.full(2, 3.0), pinwheel)
    assert not is_covered(np.zeros(2), np.full(2, 3.0), pinwheel[:-1])
    corners = np.array([[[-1, -1], [1, 1]], [[0, -1], [2, 2]], [[-1, 0], [2, 2]]], dtype=np.float64)
    assert is_covered(np.full(2, -1.0), np.full(2, 2.0), corners)
    assert not is_covered(np.full(2, -1.0), np.full(2, 2.0), corners[1:])


# rounding


@pytest.mark.parametrize("d", [2, 3])
def test_scores_are_off_by_no_more_than_the_model_says(d: int) -> None:
    """Sums of d products and an offset in float32: every order, with and without fused multiply-adds, and torch's."""
    rng = np.random.default_rng(d)
    keys = rng.normal(size=(200, d)).astype(np.float32) * 4
    offsets = (rng.normal(size=200) * 8).astype(np.float32)
    s = rng.uniform(-1, 1, (50, d)).astype(np.float32)
    anchors = VectorAnchors(keys.astype(float), keys.astype(float), offsets.astype(float), np.ones(200), -1024.0)
    exact = s.astype(float) @ keys.astype(float).T + offsets.astype(float)
    model = score_errors(anchors, np.abs(s).astype(float), Interval.exact(np.abs(exact) * (1 + 1e-12)), "float32").hi
    query = np.concatenate([s, np.ones((50, 1), np.float32)], axis=1)
    key = np.concatenate([keys, offsets[:, None]], axis=1)
    results = [(torch.tensor(query) @ torch.tensor(key).T).numpy()]
    for order in (list(range(d + 1)), list(range(d, -1, -1)), [d, *range(d)]):
        for fused in (False, True):
            total = np.zeros((50, 200), dtype=np.float32)
            for i in order:
                exact_product = query[:, None, i].astype(float) * key[None, :, i].astype(float)
                product = exact_product if fused else exact_product.astype(np.float32)
                total = (total.astype(float) + product).astype(np.float32)
            results.append(total)
    for result in results:
        assert (np.abs(result.astype(float) - exact) <= model * (1 + 1e-9)).all()
    assert max(float((np.abs(r.astype(float) - exact) / model).max()) for r in results) > 0.2  # not much too large


def test_a_query_that_rounds_enters_the_bound(shifted: ww.AttentionNetwork) -> None:
    said, claim = shifted.certificate, claim_of(shifted.certificate)
    before = ctx.prec
    ctx.prec = 200
    try:
        u = arb(2) ** -24
        ends = np.maximum(np.abs(claim.lo), np.abs(claim.hi)).tolist()
        # the slopes themselves are 7 and 3 in x and y, times 4 and 1 in the queries
        slip = u * (arb(7) * 4 * arb(ends[0]) + arb(3) * arb(ends[1])) / 4
        assert arb(said.terms.rounding) > arb(claim.terms.rounding) + slip
    finally:
        ctx.prec = before


# exports


@pytest.mark.parametrize("which", ["example", "shifted"])
def test_exports_agree(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    net = request.getfixturevalue(which)
    most = {torch.float64: 1e-10, torch.float32: 1e-5 * 21}[net.dtype]  # the outputs of `shifted` reach 21
    assert net.to_torch(tmp_path / "net.py") <= most
    pytest.importorskip("onnxruntime")
    assert net.to_onnx(tmp_path / "net.onnx") <= most
