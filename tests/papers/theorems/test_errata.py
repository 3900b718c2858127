"""What the first paper prints and what does not hold (docs/errata.md); the rows of the grids are in test_grids.py."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from papers.support.constructed import normal
from papers.support.measuring import error_within_bound
from support.running import torch_outputs

import weightwright as ww
from weightwright.papers.linear.model_anchors import inverse_temperature

ERRATA = Path(__file__).parents[3] / "docs" / "errata.md"


def softmax(z: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    weights = np.exp(z - z.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


# UA-2: anchors L_k = a + k dL


def test_scores_carry_beta_once() -> None:
    """As printed, W_Q and W_K both carry beta: -beta^2 (-2 s + L_0 + L_k) k, whose gaps are 2 beta / dL times those of
    -(beta/2)(s - L_k)^2, which the choice of beta is about."""
    p, s = 8, 0.31
    net = ww.constructions.truncated_linear([[1.0]], [0.0], -1.0, 1.0, (-1, 1), p=p)
    beta, dL = net.about.chosen["beta"], 2 / p
    L = -1 + np.arange(p) * dL
    meant, printed = -(beta / 2) * (s - L) ** 2, -(beta**2) * (-2 * s + L[0] + L) * np.arange(p)
    (head,) = net.network.heads
    stream = net.network.embed.C.copy()
    stream[0, 0] += s
    built = head.beta * (stream @ head.W_K) @ (stream[0] @ head.W_Q)
    assert np.allclose(built - built[0], meant - meant[0], rtol=1e-12)
    assert np.allclose(printed - printed[0], 2 * beta / dL * (meant - meant[0]), rtol=1e-12)
    assert 2 * beta / dL > 900


def test_the_logarithm_of_the_number_of_tokens_is_too_small() -> None:
    """n = 2 tokens: beta = (ln(n-1) - ln e0) / gap. At an anchor both neighbours weigh e0, and the softmax over p keys
    is off by 2 e0; with ln(p-1) it is not."""
    p, e0 = 8, 1e-3
    L = -1 + np.arange(p) * (2 / p)
    scores = -((L[3] - L) ** 2) / 2
    gap = np.sort(scores)[-1] - np.sort(scores)[-2]
    for keys, holds in ((2, False), (p, True)):
        beta = (np.log(keys - 1) - np.log(e0)) / gap
        off = np.abs(softmax(beta * scores) - np.eye(p)[3]).max()
        assert (off <= e0) == holds
    assert 1.9 * e0 < np.abs(softmax(-np.log(e0) / gap * scores) - np.eye(p)[3]).max()


def test_an_error_of_the_weights_in_the_infinity_norm_does_not_bound_the_output() -> None:
    """(G.13), (G.14): half way between two anchors their weights lose a little each, but all other anchors gain: what
    the output moves by is their sum. The tail mass times b - a bounds it."""
    p, a, b = 64, -1.0, 1.0
    L = a + np.arange(p) * (b - a) / p
    s = (L[0] + L[1]) / 2
    two = np.zeros(p)
    two[:2] = 0.5
    for beta in (0.1, 0.3, 1.0):
        weights = softmax(-(beta / 2) * (s - L) ** 2)
        moved = abs((weights - two) @ L)
        assert moved > np.abs(weights - two).max() * max(abs(a), abs(b))
        assert moved <= (1 - weights[:2].sum()) * (b - a)
    one = np.eye(p)[0]  # any weights, any values between a and b: twice as much in case (i)
    spread = 0.9 * one + 0.1 * (1 - one) / (p - 1)
    values = np.where(one > 0, a, b)
    assert abs((spread - one) @ values) > 1.9 * np.abs(spread - one).max() * max(abs(a), abs(b))


# UA-3


def printed_heads(s: np.ndarray, n: int, H: int, a: float, b: float, beta: float) -> np.ndarray:
    """Theorem 3.9 with the value matrix as printed: every head's two sentinels carry 0."""
    dL = (b - a) / ((n - 2) * H)
    total = np.zeros_like(s)
    for h in range(H):
        k = h * (n - 2) - 1 + np.arange(n)
        L, values = a + k * dL, a + k * dL
        values[[0, -1]] = 0.0
        total += softmax(-(beta / dL) * (s[:, None] - L) ** 2) @ values
    return total


def test_heads_whose_sentinels_carry_nothing_return_nothing_out_of_range() -> None:
    """Range is a below a and b above b; printed, the layer returns 0, whatever beta is. Inside both agree up to
    b - dL/2."""
    n, H, a, b = 6, 4, 0.5, 1.5
    bound = (b - a) / ((n - 2) * H)  # what beta contributes can be made as small as one likes
    outside, within = np.array([a - 10 * (b - a), a - 1, b + 1, b + 10 * (b - a)]), np.linspace(a, b - 0.6 * bound, 50)
    net = ww.constructions.truncated_linear_heads([1.0], np.zeros(n), a, b, (-11, 13), H=H)
    for beta in (1e3, 1e6, 1e9):
        printed = printed_heads(outside, n, H, a, b, beta)
        assert np.abs(printed).max() < 1e-12
        assert np.abs(printed - np.clip(outside, a, b)).min() > 7 * bound
    assert np.abs(printed_heads(within, n, H, a, b, 1e6) - within).max() <= bound
    for s in (outside, within):
        ours = torch_outputs(net, np.broadcast_to(s[:, None, None], (len(s), n, 1)))[:, 0, 0]
        assert np.abs(ours - np.clip(s, a, b)).max() <= net.certificate.bound <= 1.01 * bound


def test_heads_whose_sentinels_carry_nothing_fail_inside_the_range_too() -> None:
    """On (b - dL/2, b] the last head's upper sentinel is nearest, which carries 0 as printed; ours holds up to b."""
    n, H, a, b = 6, 4, -1.0, 1.0
    bound = (b - a) / ((n - 2) * H)
    net = ww.constructions.truncated_linear_heads([1.0], np.zeros(n), a, b, (-1, 1), H=H)
    last = np.linspace(b - 0.4 * bound, b, 20)
    for beta in (5e3, 1e6):
        assert np.abs(printed_heads(last, n, H, a, b, beta) - last).min() > 7 * bound
    assert printed_heads(np.array([0.95]), n, H, a, b, 105.0)[0] < 0.95 - 7 * bound  # a gentle beta does not help
    whole = np.linspace(a, b, 400)
    ours = torch_outputs(net, np.broadcast_to(whole[:, None, None], (len(whole), n, 1)))[:, 0, 0]
    assert np.abs(ours - whole).max() <= net.certificate.bound <= 1.01 * bound


# UA-8


def test_the_factor_of_the_lipschitz_argument_outgrows_the_anchors() -> None:
    """(G.64) is (b/p)(1 + 4 |W_K^T W_Q|) n^(5/2), and |W_K^T W_Q| is beta, which grows like p^2 ln p (Remark G.5): at
    p = n^(5/2) it does not fall. The other triangle needs no such factor."""
    n = np.array([4, 6, 8, 12])
    p = np.ceil(n**2.5)
    beta = np.array([inverse_temperature(1.0, int(k), float(k)) for k in p])
    assert (np.diff(np.log(beta)) / np.diff(np.log(p)) > 2).all()
    printed = (1 / p) * (1 + 4 * beta) * n**2.5
    assert (np.diff(printed) > 0).all()
    assert printed[0] > 1000
    found = [ww.constructions.truncated_linear([[1.0]], [0.0], 0.0, 1.0, (0, 1), p=k).network for k in (16, 32, 64)]
    steepest = [max(h.beta * np.abs(net.embed.C @ h.W_K[:, 0]).max() for h in net.heads) for net in found]
    assert (np.diff(np.log2(steepest)) > 2).all()  # a score's slope in s, in the networks that are built
    net = ww.constructions.relu_network(["max(x0, x1)"], 1, (-1, 1), tol=0.05, method="faithful")
    assert error_within_bound(net, 256, seed=80) <= net.certificate.bound <= 0.05


# UA-9 and UA-10


def lemma_i1(A: np.ndarray, X: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The first n columns of Lemma I.1's head; X (d, n), B (n, n)."""
    n = len(B)
    total = B.sum(axis=0)
    M = total.max()
    Z = np.block([[X, np.zeros((len(X), 1))], [np.eye(n), np.zeros((n, 1))], [np.zeros((1, n)), np.ones((1, 1))]])
    with np.errstate(divide="ignore", invalid="ignore"):
        W_K = np.concatenate([np.zeros((n, len(X))), np.log(B.T), np.log(3 * M - total)[:, None]], axis=1)
        scores = (W_K @ Z).T @ np.eye(n)
    return 3 * M * A @ np.concatenate([X, np.zeros((len(X), 1))], axis=1) @ softmax(scores.T).T


def test_a_zero_in_b_is_the_logarithm_of_zero() -> None:
    """Lemma I.1 is right for positive B; B^+ and B^- of its footnote have zeros, and so does the second layer's B."""
    A, X, B = normal(81, 2, 3), normal(82, 3, 4), np.abs(normal(83, 4, 4)) + 0.1
    assert np.abs(lemma_i1(A, X, B) - A @ X @ B).max() < 1e-12
    signed = normal(84, 4, 4)
    with np.errstate(invalid="ignore"):
        assert np.isnan(lemma_i1(A, X, np.maximum(signed, 0))).any()
    net = ww.constructions.token_mixing(signed.T, A.T, (-9, 9))
    assert np.abs(torch_outputs(net, X.T) - (A @ X @ signed).T).max() <= net.certificate.bound < 1e-10
    zeros = ww.constructions.token_mixing(np.maximum(signed, 0).T, A.T, (-9, 9))
    assert (
        np.abs(torch_outputs(zeros, X.T) - (A @ X @ np.maximum(signed, 0)).T).max() <= zeros.certificate.bound < 1e-10
    )


def test_shared_maps_give_no_position_its_own_weights() -> None:
    """The first layer is to return w_j . x_j at token j. Theorem 3.9's layer has one w: equal tokens come out equal,
    and tokens that change places take their results along. So it is off by half of what the w_j . x differ by."""
    n, x, own = 4, np.array([0.5, -0.25]), normal(85, 4, 2)
    net = ww.constructions.truncated_linear_heads([0.7, -0.4], np.zeros(n), -1.0, 1.0, (-1, 1), H=4)
    assert np.ptp(torch_outputs(net, np.tile(x, (n, 1)))) == 0
    wanted = own @ x
    assert np.ptp(wanted) / 2 > 2 * net.certificate.bound  # no error bound of its own saves it
    X, order = np.random.default_rng(86).uniform(-1, 1, (n, 2)), [2, 0, 3, 1]
    assert np.abs(torch_outputs(net, X[order]) - torch_outputs(net, X)[order]).max() < 1e-12
    # a copy head for each token gives each its own weights, at every token
    W_1 = np.concatenate(own)[None]
    ours = ww.constructions.native_relu((W_1, [5.0], np.ones((n, 1)), np.full(n, -5.0)), n, (-1, 1))
    Y = np.stack([X, X[order]])
    assert np.abs(torch_outputs(ours, Y)[:, :, 0] - (Y * own).sum(axis=(1, 2))[:, None]).max() <= ours.certificate.bound


@pytest.mark.parametrize("beta", [1e2, 1e4, 1e8])
def test_the_head_of_the_other_sign_ties_with_the_padding(beta: float) -> None:
    """The third layer as printed, for one hidden unit: heads (1) and (2) are to return 1[a = 1] relu(S) and
    1[a = -1] relu(S), but where the indicator is 0, so is the diagonal score, which is the padding's: S/2."""
    S, a = np.array([0.7, 0.9, -0.4, -0.8]), np.array([1, -1, 1, -1])
    n, values = len(S), np.append(S, 0.0)
    heads = []
    for sign in (1, -1):
        Y = np.zeros((n + 1, n))
        Y[:n] = np.diag((a == sign) * S) + np.eye(n) - 1
        heads.append(values @ softmax(beta * Y.T).T)
    assert np.abs(heads[0] - np.where(a == 1, np.maximum(S, 0), S / 2)).max() < 1e-12
    printed, wanted = heads[0] - heads[1], a * np.maximum(S, 0)
    assert np.abs(np.abs(printed - wanted) - np.abs(S) / 2).max() < 1e-12
    net = ww.constructions.native_relu((np.eye(n), np.zeros(n), np.diag(a), np.zeros(n)), n, (-1, 1))
    assert np.abs(torch_outputs(net, S[:, None])[:, 0] - wanted).max() <= net.certificate.bound <= 1e-6


# the list


def test_every_row_names_tests_that_exist() -> None:
    """Each row of the table ends in a test file, and in tests of it if any are named."""
    rows = [line for line in ERRATA.read_text().splitlines() if re.match(r"\| (UA|SU|AE|LR)-", line)]
    assert len(rows) >= 18
    file = ""
    for row in rows:
        cell = re.split(r"(?<!\\)\|", row)[-2]
        assert "test" in cell or "the same" in cell, row
        for name in re.findall(r"`([^`]+)`", cell):
            path, _, test = name.partition("::")
            file = path if path.endswith(".py") else file
            source = next((ERRATA.parents[1] / "tests").rglob(Path(file).name)).read_text()
            wanted = test or ("" if path.endswith(".py") else path)
            assert not wanted or f"def {wanted}(" in source, f"{file} has no {wanted}"
    for id in (
        "UA-2",
        "UA-3",
        "UA-4",
        "UA-5",
        "UA-6",
        "UA-7",
        "UA-8",
        "UA-9",
        "UA-10",
        "UA-11",
        "UA-12",
        "UA-14",
        "AE-1",
        "AE-3",
        "AE-4",
        "AE-5",
        "AE-6",
        "AE-7",
        "AE-8",
        "AE-9",
        "AE-10",
        "AE-11",
    ):
        assert any(id in row.split("|")[1] for row in rows), f"no row for {id}"
