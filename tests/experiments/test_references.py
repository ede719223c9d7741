"""Reference solutions: certified by duality or Newton, and the same as slow plain solvers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import geartrain as gt
from geartrain_lab import problems
from geartrain_lab.experiments import kernel_svm, log_density
from geartrain_lab.problems import rbf_kernel, svm_reference


def small_svm(m=60, seed=0, gamma=1.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(m, 3))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(m) > 0.4, 1.0, -1.0)
    return rbf_kernel(X, gamma), y


@pytest.mark.parametrize("lam", [1e-1, 1e-3])
@pytest.mark.parametrize("mu", [0.5, 0.05])
def test_rkhs_reference_matches_bfgs_in_a_square_root_of_the_kernel(lam, mu):
    K, y = small_svm()
    ref = svm_reference.solve(K, y, lam=lam, mu=mu)
    assert ref.gap + 1e-14 >= 0.0 and ref.gap <= 1e-11
    # u = K^(1/2) x has a Euclidean ridge: a problem that BFGS solves to rounding.
    w, U = np.linalg.eigh(K)
    root = U * np.sqrt(np.maximum(w, 0.0))

    def objective(u):
        z = (1.0 - y * (root @ u[:-1] + u[-1])) / mu
        slopes = -y / (1.0 + np.exp(-z)) / y.size
        value = mu * np.logaddexp(0.0, z).mean() + 0.5 * lam * u[:-1] @ u[:-1]
        return value, np.append(root.T @ slopes + lam * u[:-1], slopes.sum())

    options = {"maxiter": 20_000, "ftol": 0.0, "gtol": 1e-12, "maxfun": 10**6, "maxcor": 50}
    plain = minimize(
        objective, np.zeros(y.size + 1), jac=True, method="L-BFGS-B", options=options
    ).fun
    assert ref.f == pytest.approx(plain, abs=1e-9)
    assert ref.f - ref.gap <= plain + 1e-13  # the dual value is a lower bound


def test_the_value_of_the_reference_is_that_of_the_terms():
    X = np.random.default_rng(3).uniform(size=(50, 2))
    y = np.where(X[:, 0] > 0.5, 1.0, -1.0)
    case = kernel_svm.build(X, y, "made up", gamma=1.0)
    K = rbf_kernel(X, 1.0)
    x = svm_reference.solve(K, y, lam=kernel_svm.LAMBDA, mu=kernel_svm.MU).x
    assert case.h.value(x) + case.g.value(x) == pytest.approx(case.f_star, abs=1e-13)
    grad = case.h.grad(x) + case.g.grad(x)
    assert np.linalg.norm(grad) < 1e-5 * np.linalg.norm(case.g.grad(0 * x))
    assert case.facts["f_star_error"] <= 1e-10


# Paper: kernel SVM
def test_kernel_is_that_of_the_paper():
    X = np.array([[0.0, 0.0], [1.0, 2.0], [0.5, 0.5]])
    K = rbf_kernel(X, 0.3)
    wanted = [[np.exp(-0.3 * np.sum((a - b) ** 2)) for b in X] for a in X]
    np.testing.assert_allclose(K, wanted, rtol=1e-14)
    assert np.array_equal(K, K.T)


# Paper: log-density
def test_instance_is_that_of_section_5_2():
    h, g = problems.log_density()
    A, G2 = h.A, g.Q
    assert A.shape == (6000, 500) and G2.shape == (500, 500)
    assert A.nnz == 3000 and abs(A.data).max() <= 1.0
    # A mean of e e' with entries in (1, 2): between 1 and 4, and positive semidefinite.
    assert G2.min() >= 1.0 and G2.max() <= 4.0
    assert np.linalg.eigvalsh(G2)[0] > -1e-10
    h, g = problems.log_density()
    assert (h.A != A).nnz == 0 and np.array_equal(g.Q, G2)


def test_newton_ends_where_the_gradient_vanishes():
    h, g = problems.log_density(n=30, p=200, sparsity=0.05)
    x, error = problems.newton(h, g)
    assert error <= 1e-13
    grad = h.grad(x) + g.grad(x)
    assert np.linalg.norm(grad) <= 1e-6 * np.linalg.norm(h.grad(0 * x))


def test_local_curvature_is_the_top_of_the_hessian_and_counts_its_calls():
    h, _ = problems.log_density(n=30, p=200, sparsity=0.05)
    A, asked = h.A, []
    spy = gt.Term(grad=lambda x: asked.append(1) or h.grad(x), n=30)
    estimate, calls = log_density.local_curvature(spy, np.zeros(30))
    mean = np.asarray(A.mean(axis=0)).ravel()
    hessian = (A.T @ A).toarray() / 200 - np.outer(mean, mean)
    top = np.linalg.eigvalsh(hessian)[-1]
    assert calls == len(asked)
    assert 0.75 * top <= estimate <= 1.51 * top
