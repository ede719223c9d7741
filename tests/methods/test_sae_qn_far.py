"""SAE-QN where the first trial points are far away, and h is beyond all measure there."""

import math
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.quasi_newton.along import ExponentialFit, lowest
from geartrain.methods.quasi_newton.guard import Guard
from geartrain.methods.quasi_newton.memory import Memory, Pair
from problems import logistic, states


@pytest.mark.parametrize("k", [1e-5, 0.5, 5.0, 50.0, 300.0, 690.0])
def test_the_fit_of_an_exponential_is_exact(k):
    """u(t) = e^{kt} - a t: values and slopes at both ends tell k, and with it the minimiser."""
    excess, rise = math.expm1(k) - k, k * math.expm1(k)
    fit = ExponentialFit.of(excess, rise)
    assert fit.k == pytest.approx(k, rel=1e-6, abs=2e-3)
    for t in (0.0, 0.1, 0.9, 1.0):
        assert fit.rise(t) == pytest.approx(k * math.expm1(k * t), rel=1e-4)
    assert fit.curvature_at_end == pytest.approx(k * k * math.exp(k), rel=2e-3)
    best = 0.3  # where the slope k e^{kt} - a vanishes
    slope = -k * math.expm1(k * best)
    assert lowest(slope, [fit]) == pytest.approx(best, rel=1e-3)


class Counts:
    """(1/m) sum_k exp(<a_k, x>) - y_k <a_k, x>; the exponent may be cut, as users do."""

    convex, mu = True, 0.0

    def __init__(self, A, y, most):
        self.A, self.y, self.most, self.n = A, y, most, A.shape[1]

    def value_and_grad(self, x):
        z, m = self.A @ x, len(self.y)
        with np.errstate(over="ignore"):
            rates = np.exp(np.minimum(z, self.most))
        return float((rates - self.y * z).sum() / m), self.A.T @ (rates - self.y) / m


def counts(most):
    """The curvature of g is tiny at x0, so that the first trial point is 1e4 away."""
    rng = np.random.default_rng(4)
    A = rng.standard_normal((90, 20)) / np.sqrt(20)
    h = Counts(A, rng.poisson(np.exp(np.clip(A @ rng.standard_normal(20), -3.0, 3.0))), most)
    g = gt.LogSumExp(3.0 * rng.standard_normal((40, 20))) + gt.Quadratic(1e-4 * np.eye(20))
    return h, g, 4.0 * rng.standard_normal(20)


@pytest.mark.parametrize("most", [200.0, 700.0, np.inf])
@pytest.mark.parametrize("method", ["sae-qn", "auto"])
def test_an_exponential_that_explodes(most, method):
    h, g, x0 = counts(most)
    prices = {"h.grad": 100.0, "g.grad": 1.0}
    res = gt.minimize(h, g, x0, method=method, prices=prices, tol=1e-7)
    rival = gt.minimize(h, g, x0, method="lbfgs", tol=1e-7)
    assert res.success and rival.success
    assert res.fun == pytest.approx(rival.fun, abs=1e-9)
    assert res.calls["h.grad"] < rival.calls["h.grad"]


def test_curvature_far_away_does_not_spoil_the_guard():
    """A failed test raises L at least by half, and no more than is known inside the level set."""
    guard = replace(Guard(convex=True, least=1e-6), L_seen=3.0)
    failed = guard.ended(2.0, 1.0, 1.0, 1.0, bent=1e80)
    assert 2.0 * 1.5 <= failed.L <= 2.0 * 1000.0 and failed.failures == 1
    assert guard.sharp * 1e9 == replace(guard, L_seen=1e9).ended(2.0, 1.0, 1.0, 1.0, bent=0.0).L


def test_absurd_pairs_are_forgotten_and_not_called_rounding():
    """With curvature 1e40 in every direction, models propose no step at all."""
    known = logistic()
    problem, method = known.sum(), gt.methods.SAEQN()
    start = states(method, problem, np.ones(10), 0)[0]
    pairs = [Pair(e, 1e40 * e, np.zeros(10)) for e in np.eye(10)]
    learned = replace(start.learned, memory=Memory.of(pairs, EUCLIDEAN), lam=1e40)
    state = method.begin(problem, start.at, learned)
    for _ in range(30):
        state = method.step(problem, state)
        assert not state.stalled
        if np.linalg.norm(state.grad) <= 1e-6 * np.linalg.norm(start.grad):
            break
    assert known.f(state.point) - known.f_star <= 1e-8


@pytest.mark.parametrize("most", [200.0, 700.0, np.inf])
@pytest.mark.parametrize("psi", [gt.L1(0.05), gt.NonNegative()])
@pytest.mark.parametrize("method", ["sae-qn", "auto"])
def test_an_exponential_that_explodes_with_a_non_smooth_term(most, psi, method):
    h, g, x0 = counts(most)
    prices = {"h.grad": 100.0, "g.grad": 1.0}
    res = gt.minimize(h, g + psi, x0, method=method, prices=prices, tol=1e-7)
    rival = gt.minimize(h, g + psi, psi.prox(np.zeros(20), 1.0), method="sae-qn", tol=1e-9)
    assert res.success and rival.success
    assert res.fun == pytest.approx(rival.fun, abs=1e-7)
    assert res.calls["h.grad"] < 40
