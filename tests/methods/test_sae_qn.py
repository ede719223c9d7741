"""SAE-QN: the certificate, the calls, descent, and runs that need no constants."""

import itertools

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status
from geartrain.lab.problems import log_density
from geartrain.problem import norm
from problems import PROBLEMS, logistic, quadratics, states


def difference():
    """h = f - f_1 with f_1 a quarter of the data; g = f_1 and a ridge."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((2000, 40)) * np.geomspace(0.1, 3.0, 40)
    y = np.where(A @ rng.standard_normal(40) + 3.0 * rng.standard_normal(2000) > 0, 1.0, -1.0)
    f, f_1 = gt.LinearModel(A, y), gt.LinearModel(A[:500], y[:500])
    return f - f_1, gt.LinearModel(A[:500], y[:500], l2=1e-3)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_descent_and_certificate_from_x0(problem):
    """Every accepted point is lower, and R^2/(2 A) bounds the gap with R = |x0 - x*|."""
    make, x0 = PROBLEMS[problem]
    known = make()
    run = states(gt.methods.SAEQN(), known.sum(), x0, 10)
    R = norm(x0 - known.x_star)
    for old, new in itertools.pairwise(run):
        if norm(new.grad) <= 1e-9 * norm(run[0].grad):
            break
        np.testing.assert_allclose(new.at.grad_h, known.h.grad(new.point), atol=1e-10)
        np.testing.assert_allclose(new.at.grad_g, known.g.grad(new.point), atol=1e-9)
        assert known.f(new.point) < known.f(old.point)
        assert new.A >= old.A > 0.0 or old.A == 0.0
        assert known.f(new.point) - known.f_star <= R**2 / (2 * new.A) + 1e-12
        cert = new.certificate
        assert cert.c >= 0.5 * norm(cert.G) ** 2 * (1 - 1e-9)


def test_one_gradient_of_h_per_trial_point():
    known = logistic()
    problem = known.sum()
    run = states(gt.methods.SAEQN(), problem, np.ones(10), 8)
    trials = sum(s.trials for s in run[1:])
    assert problem.ledger.calls["h.grad"] == 1 + trials
    assert problem.ledger.calls["h.value"] == problem.ledger.calls["g.value"] == 0


def test_non_convex_h():
    h, g = difference()
    assert not h.convex
    res = gt.minimize(h, g, method="sae-qn", tol=1e-7)
    rival = gt.minimize(h, g, method="lbfgs", tol=1e-7)
    assert res.success and rival.success
    assert res.fun == pytest.approx(rival.fun, abs=1e-10)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("make", [quadratics, logistic])
def test_needs_no_constants(make, scale):
    """Callables that know nothing, f scaled by 1e-6 .. 1e6."""
    known = make()
    n = known.x_star.size
    h = gt.Term(lambda x: tuple(scale * v for v in known.h.value_and_grad(x)), n=n)
    g = gt.Term(lambda x: tuple(scale * v for v in known.g.value_and_grad(x)), n=n)
    x0 = np.ones(n)
    res = gt.minimize(h, g, x0, method="sae-qn", tol=1e-8)
    assert res.success, res.message
    assert norm(known.grad(res.x)) <= 1e-8 * norm(known.grad(x0)) * (1 + 1e-6)


@pytest.mark.parametrize("make", [quadratics, logistic, lambda: log_density(n=100, p=1200)])
def test_what_rounding_forbids_is_not_tried_for_ever(make):
    made = make()
    h, g = made if isinstance(made, tuple) else (made.h, made.g)
    res = gt.minimize(h, g, np.ones(h.n), method="sae-qn", tol=1e-30)
    assert res.status == Status.STALLED
    assert res.grad_norm <= 1e-9 * res.history["grad_norm"][0]


def test_resumed_is_uninterrupted():
    known = logistic()
    whole = gt.minimize(known.h, known.g, np.ones(10), method="sae-qn", max_iter=9, tol=1e-15)
    half = gt.minimize(known.h, known.g, np.ones(10), method="sae-qn", max_iter=4, tol=1e-15)
    rest = gt.minimize(known.h, known.g, state=half.state, max_iter=5, tol=1e-15)
    assert np.array_equal(whole.x, rest.x)
    assert whole.calls == rest.calls
