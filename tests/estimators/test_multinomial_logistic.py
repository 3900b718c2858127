"""LogisticRegression of more than two classes: one softmax, or each class against all others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn import linear_model
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from support.optima import length, multinomial_gradient, refined

from weightwright import incontext
from weightwright.estimators.solving import multinomial_fit as multinomial
from weightwright.incontext.problem.contexts import MultinomialContexts


def clouds(seed: int, n: int = 30, classes: int = 3, d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Clouds around one centre for each class, that overlap."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    return rng.normal(size=(classes, d))[labels] + rng.normal(size=(n, d)), labels


def numbers(model: incontext.LogisticRegression) -> np.ndarray:
    """Class by class, as `multinomial_distance` has them."""
    return np.hstack([model.coef_, model.intercept_[:, None]]).ravel() if model.fit_intercept else model.coef_.ravel()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("C", "scales"), [(1.0, (1.0, 1.0)), (2.0**-7, (1.0, 1.0)), (2.0**7, (1.0, 1.0)), (1.0, (300.0, 0.01))]
)
def test_the_optimum_is_within_the_bound(C: float, scales: tuple[float, float]) -> None:
    X, labels = clouds(0)
    X = X * scales + [10.0, 0.0]
    s = np.random.default_rng(1).integers(0, 3, len(X)) / 2.0
    model = incontext.LogisticRegression(C=C).fit(X, labels, s)
    optimum = refined(multinomial_gradient(X, labels, s, 1 / C, 3), numbers(model))
    assert length(numbers(model), optimum) <= model.bound_ < 1e-8 * np.linalg.norm(numbers(model))
    assert abs(model.intercept_.sum()) < 1e-12  # of the many intercepts
    assert model.n_iter_ <= 2 * model.steps_needed_
    assert incontext.LogisticRegression(C=C).steps_needed(X, labels, s) == model.steps_needed_


def exact_sklearn(X: np.ndarray, y: np.ndarray, **more: object) -> linear_model.LogisticRegression:
    return linear_model.LogisticRegression(tol=1e-10, max_iter=100_000, **more).fit(X, y)


@pytest.mark.few(1)
@pytest.mark.parametrize("load", [load_iris, pytest.param(load_wine, marks=pytest.mark.slow)])
def test_as_scikit_learn(load: object) -> None:
    X, y = load(return_X_y=True)  # type: ignore[operator]
    X = StandardScaler().fit_transform(X)
    model, other = incontext.LogisticRegression().fit(X, y), exact_sklearn(X, y)
    assert model.bound_ < 1e-9
    assert np.linalg.norm(model.coef_ - other.coef_) < 1e-5 * np.linalg.norm(other.coef_)
    assert np.linalg.norm(model.intercept_ - other.intercept_) < 1e-5 * np.linalg.norm(other.intercept_)
    assert np.abs(model.predict_proba(X) - other.predict_proba(X)).max() < 1e-5
    assert (model.predict(X) == other.predict(X)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("load", "apart"), [(load_iris, 1e-4), (load_wine, 1e-3)])
def test_raw_data(load: object, apart: float) -> None:
    """Of raw wine scikit-learn's coefficients themselves are 3e-4 off."""
    X, y = load(return_X_y=True)  # type: ignore[operator]
    model, other = incontext.LogisticRegression().fit(X, y), exact_sklearn(X, y)
    assert model.bound_ < 1e-9 * np.linalg.norm(model.coef_)
    assert np.linalg.norm(model.coef_ - other.coef_) < apart * np.linalg.norm(other.coef_)


def test_options_are_scikit_learns() -> None:
    X, labels = clouds(2)
    y = np.array(["b", "a", "c"])[labels]
    for given in (
        {"fit_intercept": False},
        {"class_weight": "balanced"},
        {"class_weight": {"a": 3.0, "b": 1.0, "c": 0.5}, "C": 5.0},
    ):
        model, other = incontext.LogisticRegression(**given).fit(X[3:], y[3:]), exact_sklearn(X[3:], y[3:], **given)
        assert model.classes_.tolist() == ["a", "b", "c"]
        assert model.bound_ < 1e-8
        assert np.abs(model.coef_ - other.coef_).max() < 1e-4
        assert np.abs(model.intercept_ - other.intercept_).max() < 1e-4


def test_what_is_predicted() -> None:
    X, labels = clouds(3)
    model = incontext.LogisticRegression().fit(X, labels)
    decision = X @ model.coef_.T + model.intercept_
    assert np.abs(model.decision_function(X) - decision).max() < 1e-10
    assert np.abs(model.predict_proba(X) - softmax(decision, axis=1)).max() < 1e-10
    assert np.abs(model.predict_log_proba(X) - np.log(softmax(decision, axis=1))).max() < 1e-10
    assert (model.predict(X) == decision.argmax(axis=1)).all()


def test_the_coefficients_are_what_the_network_says(monkeypatch: pytest.MonkeyPatch) -> None:
    X, labels = clouds(3)
    run, true = multinomial.last_states, incontext.LogisticRegression().fit(X, labels)
    monkeypatch.setattr(multinomial, "last_states", lambda net, prompt: 0.5 * run(net, prompt))
    with pytest.warns(ConvergenceWarning, match="are proven to be within"):
        model = incontext.LogisticRegression().fit(X, labels)
    assert np.abs(model.coef_ - 0.5 * true.coef_).max() < 1e-8
    assert model.bound_ > 0.4 * np.linalg.norm(true.coef_)


def test_one_against_all_others() -> None:
    X, labels = clouds(4, n=12)
    model = incontext.LogisticRegression(multi_class="ovr").fit(X, labels)
    alone = incontext.LogisticRegression().fit(X, labels == 2)
    assert np.linalg.norm(alone.coef_[0] - model.coef_[2]) <= alone.bound_ + model.bound_ < 1e-7
    positive = expit(model.decision_function(X))
    assert np.abs(model.predict_proba(X) - positive / positive.sum(axis=1, keepdims=True)).max() < 1e-12
    together = incontext.LogisticRegression().fit(X, labels)
    assert np.linalg.norm(together.coef_ - model.coef_) > 0.1


def test_two_classes_are_one_model_either_way() -> None:
    X, labels = clouds(5, n=12, classes=2)
    models = [incontext.LogisticRegression(multi_class=each).fit(X, labels) for each in ("multinomial", "ovr")]
    assert models[0].coef_.shape == (1, 2)
    assert (models[0].coef_ == models[1].coef_).all()
    assert models[0].predict_proba(X).shape == (12, 2)
    assert (models[0].predict_proba(X) == models[1].predict_proba(X)).all()


def test_many_data_sets_at_once() -> None:
    sets = [clouds(seed, n) for seed, n in [(6, 15), (7, 12)]]
    Xs, ys = [X * 3.0**k for k, (X, _) in enumerate(sets)], [y for _, y in sets]
    weights = [None, np.arange(12) + 1.0]
    models = incontext.LogisticRegression().fit_many(Xs, ys, weights)
    assert len({id(model.network_) for model in models}) == 1
    for model, X, y, s in zip(models, Xs, ys, weights, strict=True):
        alone = incontext.LogisticRegression().fit(X, y, s)
        assert np.linalg.norm(numbers(alone) - numbers(model)) <= alone.bound_ + model.bound_ < 1e-7


def test_data_sets_of_unequal_numbers_of_classes() -> None:
    three, two = clouds(6, n=12), clouds(9, n=12, classes=2)
    Xs, ys = zip(three, two, strict=True)
    with pytest.raises(ValueError, match=r"ys: .* same number of classes, not \[2, 3\]"):
        incontext.LogisticRegression().fit_many(Xs, ys)
    first, second = incontext.LogisticRegression(multi_class="ovr").fit_many(Xs, ys)
    assert (first.coef_.shape, second.coef_.shape) == ((3, 2), (1, 2))


def test_float32() -> None:
    X, labels = clouds(10)
    model = incontext.LogisticRegression(dtype="float32").fit(X, labels)
    optimum = refined(multinomial_gradient(X, labels, np.ones(30), 1.0, 3), numbers(model))
    assert length(numbers(model), optimum) <= model.bound_ < 1e-4
    assert abs(model.intercept_.sum()) < 1e-12  # what rounding adds to all alike is taken away


def test_no_penalty() -> None:
    """Then W is free as c is: what is meant adds up to 0 over the classes."""
    X, labels = clouds(11, n=60)
    model = incontext.LogisticRegression(C=np.inf).fit(X, labels)
    assert model.bound_ < 1e-7
    assert np.abs(model.coef_.sum(axis=0)).max() < 1e-12
    gradient = (model.predict_proba(X) - np.eye(3)[labels]).T @ X
    assert np.abs(gradient).max() < 1e-7


def test_what_is_not_reached_is_said() -> None:
    X, labels = clouds(12)
    with pytest.warns(ConvergenceWarning) as said:
        model = incontext.LogisticRegression(max_steps=5).fit(X, labels)
    assert "steps of the Nesterov method" in str(said[0].message)
    assert "are proven to be within" in str(said[1].message)
    assert model.n_iter_ == 5 < model.steps_needed_
    optimum = refined(multinomial_gradient(X, labels, np.ones(30), 1.0, 3), numbers(model))
    assert length(numbers(model), optimum) <= model.bound_ < np.inf
    apart = np.array([[0.0], [1.0], [2.0]])
    with pytest.warns(ConvergenceWarning) as said:
        incontext.LogisticRegression(C=np.inf, max_steps=50).fit(apart, [0, 1, 2])
    assert "are proven to be within inf" in str(said[-1].message)  # without a penalty there is no optimum


def test_a_class_without_weight_has_no_optimum() -> None:
    X, labels = clouds(13)
    with pytest.warns(ConvergenceWarning):
        model = incontext.LogisticRegression(max_steps=50).fit(X, labels, labels < 2)
    assert model.coef_.shape == (3, 2)
    assert model.bound_ == np.inf


def test_slopes_and_curvatures_are_those_of_the_loss() -> None:
    rng = np.random.default_rng(14)
    contexts = MultinomialContexts(
        loss=incontext.loss("logistic"),
        rows=rng.normal(size=(2, 7, 3)),
        targets=np.eye(4)[rng.integers(0, 4, size=(2, 7))],
        weights=rng.uniform(size=(2, 7)),
        ridge=rng.uniform(size=12),
        l1=np.zeros((2, 12)),
        units=np.ones((2, 12)),
        start=np.zeros((2, 12)),
    )

    def value(theta: np.ndarray) -> np.ndarray:
        z = contexts.rows @ np.swapaxes(theta.reshape(2, 4, 3), 1, 2)
        losses = np.log(np.exp(z).sum(axis=2)) - (z * contexts.targets).sum(axis=2)
        return (contexts.weights * losses).sum(axis=1) + (contexts.ridge * theta**2).sum(axis=1) / 2

    theta, h = rng.normal(size=(2, 12)), 1e-5
    gradient, H = contexts.gradient(theta), contexts.hessian(theta)
    for k, e in enumerate(h * np.eye(12)):
        assert np.abs((value(theta + e) - value(theta - e)) / (2 * h) - gradient[:, k]).max() < 1e-8
        slopes = (contexts.gradient(theta + e) - contexts.gradient(theta - e)) / (2 * h)
        assert np.abs(slopes - H[:, k]).max() < 1e-8
    highest = np.linalg.eigvalsh(contexts.steepest())[:, -1]
    assert (np.linalg.eigvalsh(H - np.diag(contexts.ridge))[:, -1] <= highest).all()


def test_what_cannot_be_is_refused() -> None:
    X, labels = clouds(15)
    with pytest.raises(ValueError, match=r"'multi_class' parameter of LogisticRegression .* Got 'auto'"):
        incontext.LogisticRegression(multi_class="auto").fit(X, labels)
