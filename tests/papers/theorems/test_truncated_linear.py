"""UA-2, UA-3 and UA-13: rates, ends and seams, rows with dead zones, what tol chooses, faithful beside spectral."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from papers.support.constructed import made, normal
from papers.support.measuring import error_within_bound
from support.running import torch_outputs

import weightwright as ww

W, T = normal(40, 3, 2), normal(41, 3)


def slope(sizes: list[int], errors: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def at(s: np.ndarray, n: int) -> np.ndarray:
    """Inputs of one feature whose tokens are all s: (count, n, 1)."""
    return np.broadcast_to(s[:, None, None], (len(s), n, 1)).copy()


def arguments_of(X: np.ndarray, w: np.ndarray, t: np.ndarray) -> np.ndarray:
    """w_i . x_i + t_i of every token."""
    return (X * w).sum(axis=2) + t


def errors_at(net: ww.AttentionNetwork, X: np.ndarray) -> np.ndarray:
    return np.abs(torch_outputs(net, X) - net.about.reference(X))


def test_every_token_has_a_model_of_its_own() -> None:
    net = made("UA-2, p")
    X = np.random.default_rng(42).uniform(-1, 1, (50, 3, 2))
    wanted = np.clip(np.einsum("bnd,nd->bn", X, normal(1, 3, 2)) + normal(2, 3), -1, 1)
    assert np.abs(torch_outputs(net, X)[:, :, 0] - wanted).max() <= net.certificate.bound
    assert np.abs(torch_outputs(net, X)[:, ::-1, 0] - wanted).max() > 1  # no other token's


def test_the_faithful_error_falls_like_one_over_p() -> None:
    sizes = [8, 16, 32, 64]
    nets = [ww.constructions.truncated_linear(W, T, -1.0, 1.0, (-1, 1), p=p) for p in sizes]
    found = [error_within_bound(net, 256, seed=43) for net in nets]
    assert abs(slope(sizes, found) + 1) <= 0.1
    assert abs(slope(sizes, [net.certificate.bound for net in nets]) + 1) <= 0.1
    for net, error, p in zip(nets, found, sizes, strict=True):
        assert 0.9 * 2 / p <= error <= net.certificate.bound  # s = b is a whole spacing from the last anchor
        assert net.certificate.bound <= 3 / p  # Remark G.5: (M + (b-a)) / p


def test_the_spectral_error_is_ten_thousand_times_smaller_at_the_same_p() -> None:
    faithful, spectral = made("UA-2, p"), made("UA-2, spectral")
    assert faithful.about.chosen["p"] == 16 >= spectral.about.chosen["p"]
    assert 1e4 * spectral.about.bounds["inside"] <= faithful.about.bounds["inside"]
    X = np.random.default_rng(44).uniform(-1, 1, (2000, 3, 2))
    inside = np.abs(arguments_of(X, normal(1, 3, 2), normal(2, 3))).max(axis=1) <= 1
    assert inside.sum() > 50
    worst = [errors_at(net, X[inside]).max() for net in (faithful, spectral)]
    assert 1e4 * worst[1] <= worst[0]
    assert 1e4 * error_within_bound(spectral, 512, seed=45) <= error_within_bound(faithful, 512, seed=45)


@pytest.fixture(scope="module")
def wide() -> dict[str, ww.AttentionNetwork]:
    """Range[0,1] of six numbers from -10 to 11."""
    w, t, domain = np.ones((6, 1)), np.zeros(6), (-10, 11)
    return {
        "faithful": ww.constructions.truncated_linear(w, t, 0.0, 1.0, domain, p=16),
        "spectral": ww.constructions.truncated_linear(w, t, 0.0, 1.0, domain, tol=1e-6, method="spectral"),
        "heads": ww.constructions.truncated_linear_heads(w[0], t, 0.0, 1.0, domain, H=4),
    }


def ends_and_seams(a: float, b: float, spacing: float, size: int) -> np.ndarray:
    """Both ends, half way around them, far away, and where the anchors of two heads meet; each with neighbours."""
    far, last = 10 * (b - a), round((b - a) / spacing)
    seams = [a + (k + f) * spacing for k in range(0, last + 1, size) for f in (-1, -0.5, 0)]
    places = np.array([a, b, b - spacing / 2, b + spacing / 2, a - spacing / 2, a - far, b + far, *seams])
    return np.unique(
        np.concatenate([places, *(places + e for e in (1e-12, -1e-12, 1e-6, -1e-6))]).clip(a - far, b + far)
    )


@pytest.mark.parametrize("kind", ["faithful", "spectral", "heads"])
def test_ends_seams_and_far_away(wide: dict[str, ww.AttentionNetwork], kind: str) -> None:
    """Out of range each is Range itself, on the whole domain of s."""
    net = wide[kind]
    s = np.concatenate([ends_and_seams(0.0, 1.0, 1 / 16, 4), np.linspace(-10, 11, 400)])
    found = errors_at(net, at(s, 6))
    assert found.max() <= net.certificate.bound
    assert net.about.bounds.keys() == {"inside", "everywhere"}
    assert net.about.bounds["inside"] <= net.about.bounds["everywhere"] == net.certificate.bound
    within = (s >= 0) & (s <= 1)
    assert found[within].max() <= net.about.bounds["inside"]
    y = torch_outputs(net, at(np.array([-10.0, -0.5, 11.0]), 6))[:, 0, 0]
    assert np.abs(y - [0, 0, 1]).max() <= net.certificate.bound
    if kind == "faithful":  # there is no anchor at b
        assert found[s == 1.0].max() > 0.99 / 16
    if kind == "heads":  # its last sentinel carries b, and stands there
        assert found[s >= 1.0].max() < 1e-3


def test_what_is_narrower_than_the_range_is_within_it() -> None:
    """[a, b] beyond all that s can be, or beside it: only what s can be is claimed."""
    inside = ww.constructions.truncated_linear(W / 8, T / 8, -3.0, 3.0, (-1, 1), tol=1e-6, method="spectral")
    beside = ww.constructions.truncated_linear(W / 8, T / 8 + 9, -3.0, 3.0, (-1, 1), tol=1e-6, method="spectral")
    for net in (inside, beside):
        assert net.about.bounds["inside"] <= net.certificate.bound <= 1e-6
        assert not ww.search(net, 0.0, seed=46).violated


# what tol and p choose


def test_tol_chooses_anchors_and_the_paper_s_choice_is_reported() -> None:
    net = made("UA-2, tol")  # [-0.3, 0.5], tol 0.05, two tokens
    M, p = 0.5, 32
    assert net.about.printed["p"] == p == math.ceil(2 * 0.8 / 0.05)
    assert net.about.printed["beta"] == pytest.approx(2 * p**2 / 0.8**2 * (math.log(p - 2) + math.log(2 * M / 0.05)))
    assert net.certificate.bound <= 0.05
    assert net.about.chosen["p"] == 17  # the sound constants allow fewer: one spacing, and a little for the tail
    less = ww.constructions.truncated_linear(normal(3, 2, 3), normal(4, 2), -0.3, 0.5, (-2, 1), p=16)
    assert less.certificate.bound > 0.05


def test_p_chooses_the_temperature_of_the_remark() -> None:
    net = made("UA-2, p")
    assert net.about.chosen["beta"] == net.about.printed["beta"] == pytest.approx(2 * 16**2 / 4 * math.log(16 * 14))


def test_tol_chooses_heads() -> None:
    net = made("UA-3, tol")  # [0.5, 1], tol 0.02, five tokens
    assert net.about.printed == {"p": 50, "H": 17}
    assert net.about.chosen["H"] == 9
    assert net.certificate.bound <= 0.02


def test_sharp_anchors_are_proven_by_the_nearest_and_soft_ones_by_taylor_models() -> None:
    rules = {name: made(name).certificate.composite.parts[0].claim.rule for name in ("UA-2, p", "UA-2, soft")}
    assert rules == {"UA-2, p": "nearest", "UA-2, soft": "taylor"}
    assert made("UA-3, soft").certificate.composite.parts[0].claim.rule == "taylor"


# rows


def test_the_row_is_that_of_the_nearest_anchor() -> None:
    """p = 6 on [-1, 1]: anchors -1, -2/3, ... in the rows 0 1 0 1 1 0."""
    net = made("UA-2, rows that alternate")
    w, t = normal(9, 2, 1), normal(10, 2)
    X = np.random.default_rng(47).uniform(-2, 2, (500, 2, 1))
    s = arguments_of(X, w, t)
    anchors = -1 + np.arange(6) / 3
    row = np.array([0, 1, 0, 1, 1, 0])[np.abs(s[:, :, None] - anchors).argmin(axis=2)]
    y = torch_outputs(net, X)
    clear = np.abs(s[:, :, None] - (anchors[:-1] + 1 / 6)[[0, 1, 2, 4]]).min(axis=2) > 0.01
    mine, other = (np.take_along_axis(y, k[:, :, None], axis=2)[:, :, 0] for k in (row, 1 - row))
    assert np.abs(mine - np.clip(s, -1, 1))[clear].max() <= net.certificate.bound
    assert np.abs(other)[clear].max() <= net.certificate.bound
    assert set(row[clear]) == {0, 1}


def test_dead_zones_are_as_asked_for_and_needed() -> None:
    net = made("UA-2, rows that alternate")
    zones = net.certificate.composite.parts[0].zones
    assert np.allclose(zones.mean(axis=1), [-5 / 6, -1 / 2, -1 / 6, 1 / 2])  # half way, where the row changes
    assert np.allclose(zones[:, 1] - zones[:, 0], 2e-4)
    for lo, hi in zones.tolist():
        said = f"nothing is claimed where the argument of a unit lies between {lo!r} and {hi!r}"
        assert said in net.certificate.assumptions
    s = np.concatenate([zones[:, 0] - 1e-9, zones[:, 1] + 1e-9, zones.mean(axis=1) + 1e-6, zones.mean(axis=1) - 1e-6])
    X = np.zeros((len(s), 2, 1))
    X[:, 0, 0] = (s - normal(10, 2)[0]) / normal(9, 2, 1)[0, 0]
    row = np.array([0, 1, 0, 1, 1, 0])[np.abs(s[:, None] - (-1 + np.arange(6) / 3)).argmin(axis=1)]
    away = np.abs(torch_outputs(net, X)[:, 0] - np.where(row[:, None] == [0, 1], s[:, None], 0.0)).max(axis=1)
    assert away[:8].max() <= net.certificate.bound
    assert away[8:].max() > net.certificate.bound  # two rows share the weight: a zone is needed
    assert np.isnan(net.about.reference(X[8:])[:, 0]).all()
    narrow = ww.constructions.truncated_linear(W, T, -1.0, 1.0, (-1, 1), p=8, G=[0] * 4 + [1] * 4, dead_zone=1e-3)
    wide = ww.constructions.truncated_linear(W, T, -1.0, 1.0, (-1, 1), p=8, G=[0] * 4 + [1] * 4, dead_zone=1e-1)
    assert narrow.about.chosen["beta"] > 50 * wide.about.chosen["beta"]  # beta grows with 1 / dead_zone


# heads that share the anchors


@pytest.fixture(scope="module")
def heads() -> dict[int, ww.AttentionNetwork]:
    return {
        H: ww.constructions.truncated_linear_heads(W[0], normal(48, 6), -1.0, 1.0, (-1, 1), H=H) for H in (2, 4, 8, 16)
    }


def test_the_error_falls_like_one_over_the_heads(heads: dict[int, ww.AttentionNetwork]) -> None:
    sizes = list(heads)
    assert abs(slope(sizes, [net.certificate.bound for net in heads.values()]) + 1) <= 0.1
    found = [error_within_bound(net, 512, seed=49) for net in heads.values()]
    assert abs(slope(sizes, found) + 1) <= 0.15
    for (H, net), error in zip(heads.items(), found, strict=True):
        assert error <= net.certificate.bound <= 1.01 * 2 / (4 * H)


def test_heads_are_native_and_load_in_an_ordinary_transformer(heads: dict[int, ww.AttentionNetwork]) -> None:
    net = heads[2]
    assert net.network.native
    assert not len(net.network.registers)
    assert not made("UA-3, w per token").network.native
    assert made("UA-3, three tokens").network.native
    X = torch.tensor(net.about.probes(np.random.default_rng(50), 40))
    assert (
        np.abs(net.to_transformer_lens().run(X).numpy() - net.about.reference(X.numpy())).max() <= net.certificate.bound
    )


@pytest.mark.parametrize("H", [2, 4])
def test_heads_agree_with_one_head_on_as_many_anchors(heads: dict[int, ww.AttentionNetwork], H: int) -> None:
    """p = (n-2) H: random inputs, and those where either is worst."""
    many = heads[H]
    one = ww.constructions.truncated_linear(np.tile(W[0], (6, 1)), normal(48, 6), -1.0, 1.0, (-1, 1), p=4 * H)
    rng = np.random.default_rng(51)
    X = np.concatenate([rng.uniform(-1, 1, (500, 6, 2)), many.about.probes(rng, 500), one.about.probes(rng, 500)])
    apart = np.abs(torch_outputs(many, X) - torch_outputs(one, X)).max()
    assert apart <= many.certificate.bound + one.certificate.bound
    assert apart > 0.25 * 2 / (4 * H)  # they are not the same network


@pytest.mark.parametrize("n", [3, 4, 7])
def test_ends_and_seams_with_shifts_of_their_own(n: int) -> None:
    """Every token has its own t; n = 3 is one anchor a head."""
    a, b, H, t = -1.0, 0.5, 4, np.linspace(-1, 1, n)
    net = ww.constructions.truncated_linear_heads([1.0], t, a, b, (-18, 18), H=H)
    s = ends_and_seams(a, b, (b - a) / ((n - 2) * H), n - 2)
    X = s[:, None, None] - t[None, :, None]
    assert errors_at(net, X).max() <= net.certificate.bound <= 1.01 * (b - a) / ((n - 2) * H)


# activations


@pytest.mark.parametrize(("make", "wanted"), [
    (lambda: ww.constructions.relu(W, T, (-1, 1), p=32), lambda s: np.maximum(s, 0)),
    (lambda: ww.constructions.hard_tanh(W, T, (-1, 1), p=32), lambda s: np.clip(s, -1, 1)),
    (lambda: ww.constructions.clipped_relu(W, T, 0.5, (-1, 1), p=32), lambda s: np.minimum(np.maximum(s, 0), 0.5)),
])  # fmt: skip
def test_activations_are_what_torch_has(make: Callable[[], ww.AttentionNetwork], wanted: Callable) -> None:
    net = make()
    X = np.random.default_rng(52).uniform(-1, 1, (300, 3, 2))
    assert net.about.id == "UA-13"
    assert np.abs(torch_outputs(net, X)[:, :, 0] - wanted(arguments_of(X, W, T))).max() <= net.certificate.bound < 0.15


@pytest.mark.slow
def test_the_bound_inside_holds_up_to_the_ends() -> None:
    """s is a difference of large numbers, so that it rounds; the heads are worst inside beside a and b."""
    large, near = 2.0**26, np.geomspace(1e-9, 1, 500)
    net = ww.constructions.truncated_linear([[large, -large]], [0.1], -1.0, 1.0, (1, 2), tol=1e-4, method="spectral")
    rng = np.random.default_rng(5)
    wanted = np.concatenate([rng.uniform(-1, 1, 1000), 1 - near, near - 1])
    first = rng.uniform(1.2, 1.8, len(wanted))
    x = np.stack([first, first - (wanted - 0.1) / large], axis=1)[:, None]
    s = [Fraction(large) * (Fraction(a) - Fraction(b)) + Fraction(0.1) for a, b in x[:, 0].tolist()]
    y = net(torch.tensor(x))[:, 0, 0].tolist()
    errors = [abs(Fraction(out) - exact) for out, exact in zip(y, s, strict=True) if abs(exact) <= 1]
    assert len(errors) > 1000
    assert net.about.bounds["inside"] / 4 < max(errors) <= net.about.bounds["inside"] < net.about.bounds["everywhere"]


@pytest.mark.parametrize("G", [None, [0, 1]])
def test_two_anchors_are_enough_for_one_token(G: list[int] | None) -> None:
    """n = 1, p = 2, the least that the theorem allows: there is no third anchor to bound the weight of."""
    net = ww.constructions.truncated_linear(
        [[1.0]], [0.0], -1.0, 1.0, (-2, 2), p=2, G=G, dead_zone=None if G is None else 0.01
    )
    assert net.certificate.status == "PROVEN"
    assert error_within_bound(net, 256, seed=9) <= net.certificate.bound < 1.06
