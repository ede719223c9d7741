"""Terms that answer in single precision: a tolerance that they can reach, and words that say so."""

from __future__ import annotations

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status

RNG = np.random.default_rng(4)
A = RNG.standard_normal((80, 12)).astype(np.float32)
G = gt.Quadratic(1e-2 * np.eye(12))
pytestmark = pytest.mark.filterwarnings("error")


def logistic(x):
    """In float32 throughout."""
    z = A @ np.asarray(x, dtype=np.float32)
    slopes = -1.0 / (1.0 + np.exp(z))
    return np.logaddexp(np.float32(0.0), -z).mean(), A.T @ slopes / np.float32(80)


@pytest.mark.parametrize("method", ["auto", "pqn", "lbfgs"])
def test_converged_at_single_precision(method):
    res = gt.minimize(gt.Term(logistic, n=12), G, method=method)
    assert res.success
    assert res.message.endswith("h answers in single precision (float32), so tol counts as 0.001.")
    exact = gt.LinearModel(A.astype(float), np.ones(80)).grad
    start, end = (np.linalg.norm(exact(x) + G.grad(x)) for x in (np.zeros(12), res.x))
    assert end <= 1.1e-3 * start


def test_both_terms_are_named():
    single = gt.Term(logistic, n=12)
    g = gt.Term(lambda x: (0.5 * float(x @ x), x.astype(np.float32)), n=12)
    assert "h and g answer in single precision" in gt.minimize(single, g).message


def test_a_coarser_tolerance_is_as_asked_for():
    res = gt.minimize(gt.Term(logistic, n=12), G, tol=1e-2, method="pqn")
    assert res.success and "single" not in res.message


def test_no_rule_of_the_user_is_changed():
    """It ends where single precision ends, says why, and is no success."""
    rule = gt.stop.Gradient(rel=1e-12)
    res = gt.minimize(gt.Term(logistic, n=12), G, stop=rule, method="pqn", max_iter=3000)
    assert not res.success
    assert "h answers in single precision (float32)" in res.message
    assert "may not match" not in res.message


def test_double_precision_is_never_called_single():
    data = gt.LinearModel(A, np.ones(80))  # kept in float32, computed in float64
    res = gt.minimize(data, G, tol=1e-8, method="pqn")
    assert res.success and "single" not in res.message
    assert np.linalg.norm(data.grad(res.x) + G.grad(res.x)) <= 1.1e-8 * np.linalg.norm(
        data.grad(np.zeros(12))
    )
    whole = gt.Term(lambda x: (0.5 * x @ x, np.arange(12)), n=12)  # integers are exact
    assert "single" not in gt.minimize(whole, G, max_iter=3).message


def test_a_gap_is_relative_to_the_same_tolerance():
    """Of methods that go by linear minimisations."""
    h, g = gt.Term(logistic, n=12, L=10.0), gt.Quadratic(1e-2 * np.eye(12)) + gt.Simplex()
    ends = [gt.minimize(h, g, method="cgs", tol=tol) for tol in (1e-6, 1e-3)]
    assert ends[0].success and ends[0].calls == ends[1].calls
    assert ends[0].message.endswith("so tol counts as 0.001.")


def test_rounding_is_told_by_the_precision_of_the_answers():
    """From near and far starts: neither unbounded nor out of iterations."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x0 = 10.0 ** rng.uniform(-8.0, 1.0) * rng.standard_normal(12)
        rule = gt.stop.Gradient(rel=1e-12)
        res = gt.minimize(gt.Term(logistic, n=12), G, x0=x0, stop=rule, method="pqn", max_iter=500)
        assert res.status in (Status.STALLED, Status.NOISE)
