"""The front door for operators: what it takes, counts, refuses, keeps and says."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.optimize import LinearConstraint

import geartrain as gt
from geartrain.core.checkpoint import CheckpointError
from geartrain.core.status import Status
from geartrain.methods.registry import OPERATORS
from geartrain.oracles.protocols import MissingOracle
from monotone import known

norm = np.linalg.norm
METHODS = sorted(OPERATORS)
WITH_SETS = sorted(set(METHODS) - {"anderson"})
pytestmark = pytest.mark.filterwarnings("error")


class Proxy:
    """An operator that counts by itself."""

    def __init__(self, operator):
        self.asked, self.fn, self.n = 0, operator.operator, operator.n

    def operator(self, z):
        self.asked += 1
        return self.fn(z)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("psi", [None, "simplex"])
def test_every_method_finds_the_solution_and_counts_every_call(method, psi):
    if psi is not None and method == "anderson":
        with pytest.raises(TypeError, match="Anderson is not made for a non-smooth term"):
            gt.equilibrium(*known(psi=psi)[:2], method=method)
        return
    case = known(seed=1, mu=0.4, psi=psi)
    P = Proxy(case.P)
    res = gt.equilibrium(P, case.Q, case.z + 0.5, method=method, tol=1e-7)
    assert res.success and res.calls["P.operator"] == P.asked == res.nfev
    R = case.P.operator(res.x) + Q_part(case.Q).operator(res.x)
    least = R if psi is None else case.Q.parts[-1][1].residual(res.x, R)
    assert res.grad_norm == pytest.approx(norm(least), rel=1e-6, abs=1e-12)
    assert norm(res.x - case.z) <= 1.01 * norm(least) / case.mu + 1e-12
    assert np.isnan(res.fun) and res.certificate is None
    assert list(res.constants) == ["L_P", "L_Q", "mu"]


def Q_part(Q):
    return Q if isinstance(Q, gt.Operator) else Q.parts[0][1]


def test_gradients_are_operators_and_are_counted_as_such():
    h = gt.LinearModel(np.random.default_rng(0).standard_normal((30, 4)), np.ones(30))
    g = gt.Quadratic(np.eye(4), np.ones(4))
    res, same = gt.equilibrium(h, g, tol=1e-9), gt.minimize(h, g, tol=1e-9)
    np.testing.assert_allclose(res.x, same.x, atol=1e-7)
    asked = {key for key, count in res.calls.items() if count}
    assert asked == {"P.operator", "Q.operator"}
    total = gt.Operator(h.grad, n=4) + g  # one operator that is a sum
    np.testing.assert_allclose(gt.equilibrium(total, None, tol=1e-9).x, same.x, atol=1e-7)


# Paper: saddle-point problems
def test_saddle_points_have_their_signs():
    """min over x, max over y of x'Ay + |x - 1|^2/2 - |y + 2|^2/2."""
    A = np.random.default_rng(3).standard_normal((3, 2))
    s = gt.Saddle(lambda x, y: A @ y + x - 1, lambda x, y: A.T @ x - y - 2, split=3, n=5)
    x, y = np.split(gt.equilibrium(s, tol=1e-10).x, [3])
    np.testing.assert_allclose(A @ y + x - 1, 0.0, atol=1e-8)
    np.testing.assert_allclose(A.T @ x - y - 2, 0.0, atol=1e-8)


@pytest.mark.parametrize("method", WITH_SETS)
def test_constraints_bounds_and_multipliers(method):
    """A market: costs 2 z + z', capacities, and one budget; KKT conditions by hand."""
    market = gt.Operator(lambda z: 2 * z + z[::-1] - 10, n=2)
    budget = LinearConstraint(np.ones((1, 2)), ub=3.0)
    res = gt.equilibrium(market, None, constraints=budget, bounds=(0, 2), tol=1e-10, method=method)
    assert res.success and res.violation <= 1e-12
    y, bound = res.multipliers["rows"], res.multipliers["bounds"]
    np.testing.assert_allclose(market.operator(res.x), np.ones((1, 2)).T @ y + bound, atol=1e-7)
    added = gt.equilibrium(market, gt.Linear(np.ones((1, 2)), upper=3.0) + gt.Box(0, 2), tol=1e-10)
    np.testing.assert_allclose(res.x, added.x, atol=1e-9)


def test_points_of_any_shape():
    res = gt.equilibrium(
        gt.Operator(lambda z: z - np.arange(6.0).reshape(2, 3)), x0=np.ones((2, 3))
    )
    np.testing.assert_allclose(res.x, np.arange(6.0).reshape(2, 3), atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_run_is_the_uninterrupted_one(method, tmp_path):
    case = known(seed=2, mu=0.1)
    options = {"method": method, "tol": 1e-9, "x0": case.z + 1.0}
    whole = gt.equilibrium(case.P, case.Q, **options)
    path = tmp_path / "run.gtck"
    gt.equilibrium(case.P, case.Q, max_iter=3, checkpoint=path, **options)
    resumed = gt.resume(path, case.P, case.Q, max_iter=10_000)
    np.testing.assert_array_equal(resumed.x, whole.x)
    assert resumed.calls == whole.calls and resumed.nit == whole.nit
    part = gt.equilibrium(case.P, case.Q, max_iter=2, **options)
    gone_on = gt.equilibrium(case.P, case.Q, tol=1e-9, state=part.state)
    np.testing.assert_array_equal(gone_on.x, whole.x)
    other = gt.Operator(lambda z: 2 * case.P.operator(z), n=12, L=case.L_P)
    with pytest.raises(CheckpointError, match="another problem"):
        gt.resume(path, other, case.Q)
    with pytest.raises(CheckpointError, match="another problem"):
        gt.resume(path, case.P, None)


@pytest.mark.parametrize("method", METHODS)
def test_answers_that_are_not_finite_are_no_success(method):
    P = gt.Operator(lambda z: np.full(3, np.nan), n=3)
    res = gt.equilibrium(P, None, method=method, L_P=1.0)
    assert res.status is Status.NON_FINITE and not res.success
    P = gt.Operator(lambda z: np.where(z > 0.5, np.nan, z - 1.0), n=3)
    res = gt.equilibrium(P, None, method=method, L_P=1.0, max_iter=200)
    assert not res.success


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_units_do_not_matter(method, scale):
    """z in other units: the same success."""
    case = known(seed=3, mu=0.4)
    P = gt.Operator(lambda z: case.P.operator(z / scale), n=12, L=case.L_P / scale)
    Q = gt.Operator(lambda z: case.Q.operator(z / scale), n=12, L=case.L_Q / scale)
    res = gt.equilibrium(P, Q, scale * (case.z + 1.0), method=method)
    assert res.success and norm(res.x / scale - case.z) <= 1e-3


@pytest.mark.parametrize("method", METHODS)
def test_a_field_without_zeros_is_never_solved(method):
    res = gt.equilibrium(
        gt.Operator(lambda z: np.ones(3), n=3), None, method=method, L_P=1.0, max_iter=300
    )
    assert not res.success
    assert res.status in (Status.STALLED, Status.MAX_ITER, Status.NON_FINITE)
    if res.status is Status.STALLED:
        assert "there may be no solution" in res.message


@pytest.mark.parametrize("method", METHODS)
def test_a_start_at_the_solution(method):
    case = known(seed=4, mu=0.4)
    res = gt.equilibrium(case.P, case.Q, case.z, method=method)
    assert res.success and res.nit == 0
    np.testing.assert_array_equal(res.x, case.z)


def test_budgets_callbacks_and_messages():
    case, seen = known(seed=5, mu=1e-3), []
    stop = gt.stop.Calls({"P.operator": 7})
    res = gt.equilibrium(case.P, case.Q, method="hpe", stop=stop, callback=seen.append)
    assert res.status is Status.BUDGET and res.calls["P.operator"] == 7 and seen
    res = gt.equilibrium(case.P, case.Q, method="hpe", max_iter=2)
    assert "equilibrium(P, Q, state=res.state)" in res.message
    assert "residual" in repr(res) and "residual" in res._repr_html_() and "nan" not in repr(res)


def test_what_is_refused():
    P, Q = gt.Operator(lambda z: z, n=2), gt.Quadratic(np.eye(2))
    for wrong, match in [
        (lambda: gt.equilibrium(lambda z: z, Q), "P must be an operator.*gt.Operator"),
        (lambda: gt.equilibrium(P, 3.0), "Q must be an operator"),
        (lambda: gt.equilibrium(gt.Box(0, 1), Q), "P has the non-smooth term.*equilibrium"),
        (lambda: gt.equilibrium(P, Q, method="sae"), "unknown method of equilibrium 'sae'"),
        (lambda: gt.equilibrium(P, Q, method=gt.SAE()), "SAE is made for functions"),
        (lambda: gt.equilibrium(P, Q, stop=gt.stop.Gap(1e-3)), "operators have no f"),
        (lambda: gt.equilibrium(P, Q, stop=gt.stop.Gap(1e-3, R=1.0)), "operators have no f"),
        (lambda: gt.equilibrium(P, Q, stop=gt.stop.Value(0.0)), "needs terms that give values"),
        (lambda: gt.equilibrium(gt.Operator(np.sin)), "x0 is needed: neither P nor Q"),
        (lambda: gt.equilibrium(P, gt.Quadratic(np.eye(3))), "P has dimension 2 but Q has 3"),
        (lambda: gt.minimize(P, Q), "is an operator, not a function.*equilibrium"),
        (lambda: gt.minimize(Q, P), "is an operator, not a function.*equilibrium"),
        (lambda: gt.Operator(3), "Operator needs a function"),
        (lambda: gt.Operator(np.sin, L=1.0, mu=2.0), "mu = 2 exceeds L = 1"),
        (lambda: gt.Saddle(np.sin, 3, split=1), "grad_y must be callable"),
        (lambda: gt.Saddle(np.add, np.add, split=2, n=2), "leaves no variables for y"),
        (lambda: gt.Saddle(np.add, np.add, split=3).operator(np.ones(2)), "more than 3 entries"),
        (
            lambda: gt.Saddle(lambda x, y: y, lambda x, y: x, split=1).operator(np.ones(3)),
            "grad_x answered with shape",
        ),
        (
            lambda: gt.equilibrium(gt.Operator(lambda z: z[:1], n=2)),
            r"P.operator answered with shape \(1,\), expected \(2,\)",
        ),
    ]:
        with pytest.raises((TypeError, ValueError, MissingOracle), match=match):
            wrong()


def test_operators_are_checked():
    good = gt.check_term(gt.Operator(lambda z: np.array([z[1], -z[0]]), n=2, L=1.0))
    assert not good.problems
    for operator, word in [
        (gt.Operator(lambda z: -z, n=2), "not monotone"),
        (gt.Operator(lambda z: z, n=2, mu=1.5), "not monotone as stated"),
        (gt.Operator(lambda z: 3.0 * z, n=2, L=1.0), "L = 1 is too small"),
        (gt.Operator(lambda z: z[:1], n=2), "shape"),
    ]:
        assert any(word in told for told in gt.check_term(operator).problems)


def test_operators_are_terms():
    total = 2.0 * gt.Operator(np.sin, n=3, L=1.0) + gt.Quadratic(np.eye(3))
    assert pytest.approx(3.0) == total.L and total.n == 3
    np.testing.assert_allclose(total.operator(np.ones(3)), 2.0 * np.sin(1.0) + 1.0)
    assert pickle.loads(pickle.dumps(gt.Operator(np.sin, n=3))).n == 3
    assert repr(gt.Saddle(np.add, np.add, split=2, n=4, L=2.0)) == "Saddle(n=4, L=2)"
