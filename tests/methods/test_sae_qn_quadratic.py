"""SAE-QN with a quadratic g: the model is solved with g's factorisation, without its gradients."""

import math
from pathlib import Path

import numpy as np
import pytest

import geartrain as gt
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.quasi_newton import quadratic
from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.rows import Rows
from geartrain.methods.quasi_newton.step import Known
from geartrain.oracles.ledger import Ledger, Oracle
from problems import quadratics, states

README = Path(__file__).parent.parent.parent / "README.md"


def spd(rng, n, low=1e-2, high=1e2):
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    Q = (U * np.geomspace(low, high, n)) @ U.T
    return (Q + Q.T) / 2


def low_rank(rng, n, k, lam):
    """lam I + V'MV with a positive M, and the same as a dense matrix."""
    V, W = rng.standard_normal((k, n)), rng.standard_normal((k, k))
    small = Small(Rows(list(V)), np.eye(k), V @ V.T, W @ W.T, EUCLIDEAN)
    return LowRank(lam, small), lam * np.eye(n) + V.T @ W @ W.T @ V


def at(g, v, grad_h):
    """A point where the gradients of both terms are known."""
    return Known(v, 0.0, g.value(v), grad_h, g.grad(v))


@pytest.mark.parametrize("mu", [0.0, 3.0])
@pytest.mark.parametrize("kept", [None, 0.05, 50.0])
def test_the_step_is_that_of_a_dense_solve(mu, kept):
    """Also where g was factorised with another shift."""
    rng = np.random.default_rng(0)
    n, lam = 30, 0.1
    Q = spd(rng, n)
    term = gt.Quadratic(Q, b=rng.standard_normal(n))
    g = Oracle(term, "g", Ledger(), n)
    B, dense = low_rank(rng, n, 4, lam)
    p = at(term, rng.standard_normal(n), rng.standard_normal(n))
    elsewhere = rng.standard_normal(n)
    factor = None if kept is None else quadratic.Factor(kept, elsewhere, term.grad(elsewhere))
    grad = p.grad
    size = np.linalg.norm(grad)
    run = quadratic.minimised(g, B, mu, p, lambda r, s: r <= 1e-10 * size, factor, 200, EUCLIDEAN)
    s = np.linalg.solve(Q + dense + mu * np.eye(n), -grad)
    np.testing.assert_allclose(run.s, s, atol=1e-8 * np.linalg.norm(s))
    assert not run.bent
    assert run.residual <= 1e-10 * size
    assert g.ledger.calls["g.prox"] == run.calls
    assert g.ledger.calls["g.grad"] == 0
    if run.factor.alpha != kept:  # the identity plus a matrix of rank four has five eigenvalues
        assert run.calls <= 6


def test_an_indefinite_model_is_noticed():
    rng = np.random.default_rng(0)
    g = Oracle(gt.Quadratic(np.eye(10)), "g", Ledger(), 10)
    V = np.eye(10)[:1]
    B = LowRank(0.1, Small(Rows(list(V)), np.eye(1), V @ V.T, np.array([[-5.0]]), EUCLIDEAN))
    p = at(g.term, np.zeros(10), rng.standard_normal(10))
    run = quadratic.minimised(g, B, 0.0, p, lambda r, s: r <= 1e-9, None, 50, EUCLIDEAN)
    assert run.bent


def test_one_gradient_of_g_per_trial_point():
    """And two at the start: at x_0, and for its curvature there."""
    known = quadratics()
    problem = known.sum()
    run = states(gt.methods.SAEQN(), problem, np.ones(24), 10)
    trials = sum(s.trials for s in run[1:])
    calls = problem.ledger.calls
    assert calls["h.grad"] == 1 + trials
    assert calls["g.grad"] == 2 + trials
    assert calls["g.prox"] > 0
    assert calls["g.value"] == calls["h.value"] == 0


@pytest.mark.parametrize("rho", [1.0, 3.0, math.inf])
@pytest.mark.parametrize("known", [True, False])
def test_a_ridge_costs_one_gradient_per_trial_point(known, rho):
    """g bends alike in all directions: after the first trial point no inner run is needed."""
    rng = np.random.default_rng(4)
    A = rng.standard_normal((200, 12)) * np.geomspace(0.1, 3.0, 12)
    y = np.where(A @ rng.standard_normal(12) + rng.standard_normal(200) > 0, 1.0, -1.0)
    h, g = gt.LinearModel(A, y), gt.Quadratic(1e-3 * np.eye(12))
    if not known:
        g = gt.Term(lambda x: (5e-4 * float(x @ x), 1e-3 * x), n=12, convex=True)
    method = gt.methods.SAEQN(rho=rho)
    stop = gt.stop.any_of(gt.stop.Gradient(rel=1e-6), gt.stop.Calls({"h.grad": 60}))
    first = gt.minimize(h, g, np.ones(12), method=method, stop=gt.stop.Calls({"h.grad": 3}))
    res = gt.minimize(h, g, np.ones(12), method=method, stop=stop)
    assert res.success
    of_g = [sum(r.calls[f"g.{kind}"] for kind in ("grad", "prox", "value")) for r in (first, res)]
    assert of_g[1] - of_g[0] == res.calls["h.grad"] - first.calls["h.grad"]
