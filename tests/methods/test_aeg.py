"""AEG against the printed algorithm, its Lyapunov function and its counts."""

import itertools
import math

import numpy as np
import pytest

import geartrain as gt
from problems import Known, logistic, quadratics, states


def nonconvex(negative, mu=1e-2, n=20, seed=3):
    """h with eigenvalues down to -negative, made up for by g; f is mu-strongly convex."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    low = np.linspace(-negative, 1.0, n)
    spectrum_g = np.geomspace(mu, 50.0, n) - np.minimum(low, 0.0)
    H, G = (U * low) @ U.T, (U * spectrum_g) @ U.T
    H, G = (H + H.T) / 2, (G + G.T) / 2
    x_star = rng.standard_normal(n)
    split = rng.standard_normal(n)
    h = gt.Quadratic(H, b=H @ x_star + split)
    return Known(h, gt.Quadratic(G, b=G @ x_star - split), x_star, mu)


def printed(known, x0, L, mu, steps):
    """Algorithm 1 with exact solutions of step 2; the list of (x, x_f)."""
    tau, theta = min(1.0, math.sqrt(mu / L) / 2), 1 / (2 * L)
    eta = min(1 / (2 * mu), 1 / (2 * math.sqrt(mu * L)))
    x = x_f = x0
    out = []
    for _ in range(steps):
        x_g = tau * x + (1 - tau) * x_f
        # Q v - b + grad p(x_g) + (v - x_g)/theta = 0
        matrix = known.g.Q + np.eye(x0.size) / theta
        x_f = np.linalg.solve(matrix, known.g.b - known.h.grad(x_g) + x_g / theta)
        x = x + eta * mu * (x_f - x) - eta * known.grad(x_f)
        out.append((x, x_f))
    return out


@pytest.mark.parametrize("make", [quadratics, lambda: nonconvex(0.9)])
def test_matches_the_printed_algorithm(make):
    known = make()
    x0 = np.linspace(-1.0, 1.0, known.x_star.size)
    run = states(gt.methods.AEG(inner=gt.inner.Exact()), known.sum(), x0, 40)
    for state, (x, x_f) in zip(run[1:], printed(known, x0, known.h.L, known.mu, 40), strict=True):
        np.testing.assert_allclose(state.x, x, atol=1e-10)
        np.testing.assert_allclose(state.x_f, x_f, atol=1e-10)


@pytest.mark.parametrize(
    "make", [quadratics, logistic, lambda: nonconvex(0.5), lambda: nonconvex(0.9)]
)
def test_lyapunov_function_contracts(make):
    known = make()
    x0 = np.linspace(-1.0, 1.0, known.x_star.size)
    L, mu = known.h.L, known.mu
    tau = min(1.0, math.sqrt(mu / L) / 2)
    eta = min(1 / (2 * mu), 1 / (2 * math.sqrt(mu * L)))
    factor = 1 - 0.5 * min(1.0, math.sqrt(mu / L))

    def lyapunov(state):
        distance = state.x - known.x_star
        return distance @ distance / eta + 2 / tau * (known.f(state.x_f) - known.f_star)

    run = states(gt.methods.AEG(), known.sum(), x0, 60)
    assert all(s.L_h == L for s in run)
    for old, new in itertools.pairwise(run):
        if lyapunov(old) > 1e-9:
            assert lyapunov(new) <= factor * lyapunov(old) * (1 + 1e-9)


def test_two_gradients_of_h_an_iteration():
    """The first iteration makes its model where the gradients are known."""
    problem = logistic().sum()
    run = states(gt.methods.AEG(), problem, np.ones(10), 20)
    assert problem.ledger.calls["h.grad"] == 2 * 20
    assert problem.ledger.calls["g.grad"] == 1 + sum(s.inner_steps for s in run[1:]) + 19


def test_state_belongs_to_its_point():
    known = logistic()
    for state in states(gt.methods.AEG(), known.sum(), np.ones(10), 20):
        np.testing.assert_allclose(state.grad, known.grad(state.point), atol=1e-12)


def test_mu_is_needed():
    h = gt.Quadratic(np.diag([1.0, 0.0]))
    with pytest.raises(ValueError, match="AEG needs mu > 0"):
        gt.minimize(h, h, np.ones(2), method="aeg")
