"""KernelSVR against SVR, and its dual against literal transcriptions."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVR

from geartrain.compiled import smo
from geartrain.compiled.records import Dual, KernelRows
from geartrain.estimators import KernelSVR
from geartrain.estimators.svm.block_smo import NO_HALVES, NO_POINTS, block_smo
from geartrain.estimators.svm.kernel import Kernel
from geartrain.estimators.svm.kernel_matrix import TrainingKernel
from geartrain.estimators.svm.problem import SVMProblem


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


def smo_steps(K, y, beta, lo, hi, kink, steps):
    """Second-order SMO on twice as many variables, beta = up - down, as LIBSVM does it."""
    m = y.size
    K2 = np.tile(K, (2, 2))
    p = np.concatenate([y - kink, y + kink])
    b = np.concatenate([np.maximum(beta, 0), np.minimum(beta, 0)])
    lo2, hi2 = np.concatenate([np.zeros(m), lo]), np.concatenate([hi, np.zeros(m)])
    f = p - K2 @ b
    for _ in range(steps):
        up, low = np.flatnonzero(b < hi2), np.flatnonzero(b > lo2)
        i = up[np.argmax(f[up])]
        eta = np.maximum(K2[i, i] + K2[low, low] - 2 * K2[i, low], 1e-12)
        j = low[np.argmax(np.maximum(f[i] - f[low], 0) ** 2 / eta)]
        t = (f[i] - f[j]) / max(K2[i, i] + K2[j, j] - 2 * K2[i, j], 1e-12)
        t = min(t, hi2[i] - b[i], b[j] - lo2[j])
        b[i] += t
        b[j] -= t
        f -= t * (K2[i] - K2[j])
    return b[:m] + b[m:]


@pytest.mark.parametrize("steps", [1, 3, 60])
def test_steps_are_those_on_twice_as_many_variables(steps):
    X, y = waves(60)
    K = rbf_kernel(X, gamma=0.3)
    y, C, kink = y - y.mean(), np.full(60, 2.0), 0.15
    expected = smo_steps(K, y, np.zeros(60), -C, C, kink, steps)
    rows = KernelRows(
        K.astype(np.float32), np.arange(60), np.ones(60, np.bool_), NO_POINTS, NO_HALVES
    )
    dual = Dual(np.zeros(60), y.copy(), np.zeros(60), -C, C, kink)
    tally = np.zeros(2, np.int64)
    smo.solve_block(tally, rows, dual, 1e-9, steps)
    assert tally[0] == steps
    np.testing.assert_allclose(dual.beta, expected, atol=2e-5)
    np.testing.assert_allclose(dual.F, y - K @ dual.beta, atol=1e-5)


def problem_of(X, y, C=3.0, kink=0.1, **options):
    kernel = TrainingKernel(Kernel("rbf", 0.3), X, 1e9)
    bounds = np.full(y.size, C)
    return SVMProblem(
        kernel=kernel, y=y, lo=-bounds, hi=bounds, kink=kink, tol=1e-3, max_iter=-1, start=None,
        report=lambda line: None, **options,
    )  # fmt: skip


@pytest.mark.parametrize("m", [300, 1200])
def test_optimality_conditions_recomputed(m):
    X, y = waves(m)
    problem = problem_of(X, y - y.mean())
    solution = block_smo(problem)
    K, beta, b = rbf_kernel(X, gamma=0.3), solution.coefficients, solution.intercept
    assert abs(beta).max() <= 3.0 and abs(beta.sum()) < 1e-9 and solution.converged
    F = problem.y - K @ beta
    rise, fall = np.where(beta >= 0, F - 0.1, F + 0.1), np.where(beta > 0, F - 0.1, F + 0.1)
    assert rise[beta < 3.0].max() - fall[beta > -3.0].min() <= 1e-3 * (1 + 1e-9)
    losses = np.maximum(0, abs(F - b) - 0.1)
    gap = (3.0 * losses + 0.1 * abs(beta) - beta * (F - b)).sum()
    assert solution.gap == pytest.approx(gap, abs=1e-8)
    for shift in (-1e-4, 1e-4):  # no intercept is better
        assert np.maximum(0, abs(F - b - shift) - 0.1).sum() >= losses.sum() - 1e-12


def test_newton_steps_do_not_cross_the_kink():
    X, y = waves(120, noise=0.05)
    exact = block_smo(replace(problem_of(X, y - y.mean(), kink=0.02), tol=1e-10))
    assert exact.converged and exact.gap < 1e-9
    free = (exact.coefficients != 0) & (abs(exact.coefficients) < 3.0)
    assert 5 < free.sum() < 100
    # Residuals of free points are the kink, with the sign of their coefficients.
    F = y - y.mean() - rbf_kernel(X, gamma=0.3) @ exact.coefficients
    r = F[free] - exact.intercept
    np.testing.assert_allclose(r, 0.02 * np.sign(exact.coefficients[free]), atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(0, 5), st.floats(0, 5)), min_size=2),
    st.floats(0, 1),
)
def test_best_intercept_by_brute_force(points, kink):
    F, lo, hi = (np.array(column) for column in zip(*points, strict=True))
    if not (lo.any() and hi.any()):
        return
    zero = np.zeros(F.size)
    dual = Dual(zero, F, zero, -lo, hi, kink)

    def loss(b):
        return hi @ np.maximum(0, F - b - kink) + lo @ np.maximum(0, b - F - kink)

    best = min(loss(b) for b in [*(F - kink), *(F + kink)])
    assert loss(smo.best_intercept(dual, F)) <= best + 1e-9


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
