"""KernelSVR against SVR and against its own definition."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVR

from geartrain.estimators import KernelSVR


def waves(m=400, n=3, noise=0.2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n))
    return X, 5.0 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + noise * rng.standard_normal(m)


def primal(model, X, y, C, epsilon):
    """1/2 |w|^2 + C sum of losses, from predictions and coefficients."""
    f = model.predict(X)
    c = model.dual_coef_[0]
    losses = np.maximum(0, abs(y - f) - epsilon)
    return 0.5 * c @ (f - model.intercept_)[model.support_] + np.sum(C * losses)


@pytest.mark.parametrize(
    ("C", "epsilon", "options"),
    [
        (0.1, 0.1, {}),
        (1.0, 0.5, {}),
        (30.0, 0.0, {}),
        (1.0, 0.5, {"kernel": "linear"}),
        (0.1, 0.1, {"kernel": "poly", "coef0": 1.0, "degree": 2}),
    ],
)
def test_agrees_with_svr(C, epsilon, options):
    X, y = waves(200)
    ours = KernelSVR(C=C, epsilon=epsilon, **options).fit(X, y)
    theirs = SVR(C=C, epsilon=epsilon, tol=1e-8, **options).fit(X, y)
    optimum = primal(theirs, X, y, C, epsilon)
    assert ours.objective_ == pytest.approx(primal(ours, X, y, C, epsilon), rel=1e-9)
    # LIBSVM's rows of K are float32, so that its optimum is known to about 1e-6.
    assert ours.objective_ - ours.gap_ <= optimum * (1 + 1e-7)
    assert optimum <= ours.objective_ * (1 + 1e-5) and ours.gap_ <= 1e-2 * optimum
    tight = KernelSVR(C=C, epsilon=epsilon, tol=1e-7, **options).fit(X, y)
    np.testing.assert_allclose(tight.predict(X), theirs.predict(X), atol=1e-3)
    if not options and epsilon and C < 30:  # the dual solution is well determined
        np.testing.assert_array_equal(tight.support_, theirs.support_)
        np.testing.assert_allclose(tight.dual_coef_, theirs.dual_coef_, atol=1e-3 * C)


def test_a_large_offset_costs_no_accuracy():
    X, y = waves()
    near, far = KernelSVR().fit(X, y), KernelSVR().fit(X, y + 1e6)
    np.testing.assert_allclose(far.predict(X) - 1e6, near.predict(X), atol=1e-3)
    assert far.objective_ == pytest.approx(near.objective_, rel=1e-3)


def test_the_model_is_a_quantile_without_features():
    """Equal points: the best constant minimises the losses, here the median."""
    y = np.array([0.0, 1.0, 2.0, 10.0, 100.0])
    model = KernelSVR(epsilon=0.0, C=1.0).fit(np.zeros((5, 2)), y)
    np.testing.assert_allclose(model.predict(np.zeros((2, 2))), 2.0, atol=1e-6)


def test_weights_warm_start_and_limits():
    X, y = waves(300)
    weights = np.where(np.arange(300) < 150, 2.0, 0.0)
    model = KernelSVR(gamma=0.5).fit(X, y, sample_weight=weights)
    assert model.support_.max() < 150 and abs(model.dual_coef_).max() == 2.0
    twice = KernelSVR(gamma=0.5, C=2.0).fit(X[:150], y[:150])
    np.testing.assert_allclose(model.predict(X), twice.predict(X), atol=2e-3)
    warm = KernelSVR(C=9.0, warm_start=True).fit(X, y)
    cold = KernelSVR(C=10.0).fit(X, y)
    warm.set_params(C=10.0).fit(X, y)
    assert warm.n_calls_["smo.step"] < cold.n_calls_["smo.step"]
    assert abs(warm.objective_ - cold.objective_) <= warm.gap_ + cold.gap_ + 1e-9
    with pytest.warns(ConvergenceWarning, match="max_iter=5"):
        KernelSVR(max_iter=5).fit(X, y)


def test_sparse_points_pickle_and_the_objective_of_the_model():
    X, y = load_diabetes(return_X_y=True)
    dense = KernelSVR(C=50.0, tol=1e-5).fit(X, y)
    again = pickle.loads(pickle.dumps(KernelSVR(C=50.0, tol=1e-5).fit(sparse.csr_matrix(X), y)))
    np.testing.assert_allclose(dense.predict(X), again.predict(X), atol=1e-2)
    assert sparse.issparse(again.dual_coef_) and again.objective_ == pytest.approx(dense.objective_)
