"""Poisson and Gamma regression: losses whose curvature has no bound."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from geartrain.oracles.losses import make_loss
from geartrain.problem import MissingConstant

RNG = np.random.default_rng(5)
M, N = 40, 4
A = RNG.standard_normal((M, N)) / 2
MEANS = np.exp(A @ np.array([1.0, -0.5, 0.3, 0.0]) + 0.2)
TARGETS = {"poisson": RNG.poisson(MEANS).astype(float), "gamma": MEANS * RNG.gamma(2.0, 0.5, M)}
FORMULAS = {
    "poisson": lambda y, z: mp.exp(z) - y * z,
    "gamma": lambda y, z: y * mp.exp(-z) + z,
}


@pytest.mark.parametrize("name", TARGETS)
def test_formulas_in_50_digits(name):
    loss, mp.mp.dps = make_loss(name), 50
    for y in (0.25, 1.0, 7.0):
        for z in (-30.0, -1.5, 0.0, 1e-8, 0.7, 20.0):
            exact = [mp.diff(lambda t, y=y: FORMULAS[name](y, t), mp.mpf(z), k) for k in range(3)]
            at = np.array([y]), np.array([z])
            found = loss.value(*at)[0], loss.derivative(*at)[0], loss.second(*at)[0]
            size = float(mp.exp(abs(mp.mpf(z)))) * 8 + abs(y * z)
            for number, true in zip(found, exact, strict=True):
                assert abs(number - float(true)) <= 4e-16 * size


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_all_answers_are_those_of_one_function(name, form):
    term = gt.LinearModel(form(A), TARGETS[name], loss=name, l2=0.1, intercept=True)
    assert term.L is term.L_coord is term.L_components is None and term.mu == 0.0
    assert gt.check_term(term).ok
    x = RNG.standard_normal(N + 1)
    partials = [term.coord(x, i) for i in range(N + 1)]
    summands = np.mean([term.component(x, k) for k in range(M)], axis=0)
    np.testing.assert_allclose(partials, term.grad(x), atol=1e-12)
    np.testing.assert_allclose(summands, term.grad(x), atol=1e-12)


@pytest.mark.parametrize(("name", "method"), [("poisson", "auto"), ("gamma", "lbfgs")])
def test_the_minimiser_is_that_of_scikit_learn(name, method):
    from sklearn import linear_model

    theirs = {"poisson": linear_model.PoissonRegressor, "gamma": linear_model.GammaRegressor}
    y, weights = TARGETS[name], RNG.integers(1, 4, M)
    h = gt.LinearModel(A, y, loss=name, intercept=True, sample_weight=weights)
    g = gt.Quadratic(np.diag(np.append(np.full(N, 0.3), 0.0)))
    res = gt.minimize(h, g, method=method, tol=1e-7)
    fit = theirs[name](alpha=0.3, tol=1e-12, max_iter=10_000).fit(A, y, sample_weight=weights)
    assert res.success
    np.testing.assert_allclose(res.x, np.append(fit.coef_, fit.intercept_), atol=1e-5)


def test_targets_that_the_loss_cannot_have():
    with pytest.raises(ValueError, match=r"'poisson' needs targets that are not negative.*is -1"):
        gt.LinearModel(A, TARGETS["poisson"] - 1.0 - TARGETS["poisson"].min(), loss="poisson")
    with pytest.raises(ValueError, match=r"'gamma' needs targets that are positive, .* is 0"):
        gt.LinearModel(A, np.zeros(M), loss="gamma")
    assert gt.LinearModel(A, np.zeros(M), loss="poisson").value(np.zeros(N)) == 1.0


@pytest.mark.parametrize("method", ["fgm", "sae", "afb"])
def test_methods_that_need_a_constant_say_so(method):
    h = gt.LinearModel(A, TARGETS["poisson"], loss="poisson")
    with pytest.raises(MissingConstant, match="L_h"):
        gt.minimize(h, gt.Quadratic(np.eye(N)), method=method)
    with pytest.raises(MissingConstant):
        gt.minimize(gt.Quadratic(np.eye(N)), h, method="sae", inner="katyusha")


def test_arguments_are_listed_where_one_is_unknown():
    with pytest.raises(TypeError, match="no argument 'los'; arguments of every LinearModel: A, y"):
        gt.LinearModel(A, TARGETS["poisson"], los="poisson")
    with pytest.raises(TypeError, match="'nu'; parameters of loss 'smoothed_hinge': mu;"):
        gt.LinearModel(A, np.sign(A[:, 0]), loss="smoothed_hinge", nu=1.0)
