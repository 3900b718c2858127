"""What the paper's text on emulated heads says otherwise, and what is built instead: docs/errata.md."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weightwright as ww


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def test_one_sign_of_an_exponent_bounds_not_the_other() -> None:
    """(D.46), (D.91): a score that is larger by x makes e^score larger by the factor e^x, more than 1 - e^-x allows."""
    x = 0.5
    grown = np.exp(x) - 1
    assert grown > 1 - np.exp(-x)
    assert grown <= np.expm1(x)


def test_a_sum_of_attentions_is_not_the_attention_of_a_sum() -> None:
    """Corollary 4.2.1 prints sum_j Attn_s(Attn_j(...)): each Attn_j writes one row of K, Q or V and zeros elsewhere."""
    rng = np.random.default_rng(0)
    K, Q, V = rng.normal(size=(3, 2, 4))  # size of the head, tokens
    whole = V @ softmax((K.T @ Q).T).T
    printed = np.zeros_like(whole)
    for part in range(3):
        for row in range(2):
            alone = np.zeros((3, 2, 4))
            alone[part, row] = (K, Q, V)[part][row]
            k, q, v = alone
            printed += v @ softmax((k.T @ q).T).T
    assert np.abs(printed - whole).max() > 0.1
    assert np.allclose(printed, V.mean(axis=1, keepdims=True))  # all scores are 0: an average, whatever K and Q are


@pytest.mark.parametrize("head_dim", [1, 7])
def test_the_size_of_a_head_is_free(head_dim: int) -> None:
    """Theorem 4.2 forces it to be the number of tokens, and P + 1 >= n."""
    rng = np.random.default_rng(head_dim)
    vm = ww.Interpreter(3, 2, head_dim, form="stacked", anchors=8)
    x = rng.uniform(-1, 1, (3, 2))
    W_Q, W_K = rng.uniform(-1, 1, (2, head_dim, 2))
    head = vm.program(W_Q, W_K, np.eye(2))
    assert np.abs(vm(torch.tensor(x), head).numpy() - head.run(x)).max() <= vm.certificate.bound


def test_losses_differ_in_rows_and_not_in_weights() -> None:
    """After Theorem 4.2: f stands in the rows that go into the prompt, the weights only select and scale."""
    vm = ww.Interpreter(2, 5, 6, rows=16, x_max=1.25, w_max=8.0, k_max=8.0, q_max=8.0, v_max=8.0)
    X, y = np.array([[0.5, -0.4], [0.3, 0.5]]), np.array([0.2, -0.1])
    one, two = (ww.interpreter.library.gradients(vm, X, y, table(f)) for f in ("tanh(x)", "tanh(x)/2"))
    for part in ("W_Q", "W_K", "W_V"):
        assert np.array_equal(getattr(one, part), getattr(two, part))
    assert not np.array_equal(one.rows, two.rows)


def table(f: str) -> object:
    import weightwright as ww

    return ww.approximate(f, (-2, 2), 1e-6)
