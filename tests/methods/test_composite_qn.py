"""The learned method and the proximal quasi-Newton methods on f = h + g + psi."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import optimize

import geartrain as gt
from composite import PSIS, Composite, N, states
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.quasi_newton import composite, prox_step
from geartrain.methods.quasi_newton.composite_scaling import ScaledLowRank
from geartrain.methods.quasi_newton.composite_trial import without_rounding
from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.rows import Rows
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.oracles.splitting import Psi
from geartrain.problem import Model
from runs import same

QN = gt.methods.CompositeQN


@cache
def case(kind, residuals=True):
    return Composite(PSIS[kind], residuals)


def difference(kind="l1"):
    """h = f - f_1 of logistic losses, which is not convex; g = f_1."""
    rng = np.random.default_rng(2)
    A = rng.standard_normal((160, N)) / np.arange(1, N + 1)
    y = np.where(A.sum(axis=1) + 0.3 * rng.standard_normal(160) > 0, 1.0, -1.0)
    f, f_1 = gt.LinearModel(A, y), gt.LinearModel(A[:40], y[:40])
    return f, f - f_1, f_1


# The model of a step -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PSIS)
def test_the_model_is_minimised_by_proximal_steps_alone(kind):
    """The residual is recomputed, the subgradient is one, and no better point is near."""
    rng, ledger, term = np.random.default_rng(0), Ledger(), PSIS[kind]
    psi = Psi(term, 1.0, "g", ledger, N)
    H = np.diag(np.geomspace(0.1, 10.0, N))
    steps = [rng.standard_normal(N) for _ in range(8)]
    C = prox_step.curvature(np.array(steps), np.array(steps) @ H, 1.0)
    dense = np.column_stack([C(e) for e in np.eye(N)])
    np.testing.assert_allclose(dense, dense.T, atol=1e-10)
    np.testing.assert_allclose(dense @ steps[-1], H @ steps[-1], atol=1e-8)  # the newest pair
    assert prox_step.largest(C) == pytest.approx(np.linalg.eigvalsh(dense)[-1], rel=1e-8)
    v, d = term.prox(rng.standard_normal(N), 1.0), rng.standard_normal(N)
    to = prox_step.minimised(C, 0.3, d, psi, v, 1e-9, 5000)
    dense += 0.3 * np.eye(N)
    slope = d + dense @ (to.w - v)
    assert np.linalg.norm(term.residual(to.w, slope)) == pytest.approx(to.residual, abs=1e-12)
    assert to.residual <= 1e-9 and ledger.calls["g.grad"] == 0 < ledger.calls["g.prox"]
    size = 1 + np.linalg.norm(to.grad_psi)
    assert np.linalg.norm(term.prox(to.w + to.grad_psi, 1.0) - to.w) <= 1e-9 * size

    def model(w):
        return d @ (w - v) + 0.5 * (w - v) @ dense @ (w - v) + term.value(w)

    for _ in range(20):
        other = term.prox(to.w + 0.1 * rng.standard_normal(N), 1.0)
        assert model(other) >= model(to.w) - 1e-9


@pytest.mark.parametrize("term", [gt.L1(0.3), gt.L1(np.linspace(0, 1, 40)), gt.Box(-0.1, 0.2)])
@pytest.mark.parametrize("spread", [1e1, 1e6])
def test_the_newton_method_solves_models_with_separable_terms(monkeypatch, term, spread):
    """A few proximal steps, and the point of the many proximal gradient steps."""
    n, rng = 40, np.random.default_rng(3)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    H = (Q * np.geomspace(1.0, spread, n)) @ Q.T
    S = rng.standard_normal((12, n))
    C = prox_step.curvature(S, S @ H, 1.0)
    dense = np.column_stack([C(e) for e in np.eye(n)])
    v, d, ledger = term.prox(rng.standard_normal(n), 1.0), 3.0 * rng.standard_normal(n), Ledger()
    psi = Psi(term, 2.0, "g", ledger, n)
    to = prox_step.minimised(C, 0.1, d, psi, v, 1e-8, 1)
    assert ledger.calls["g.prox"] <= 20 and to.residual <= 1e-8
    slope = d + dense @ (to.w - v) + 0.1 * (to.w - v)
    assert np.linalg.norm(psi.residual(to.w, slope)) <= 1e-7
    assert np.linalg.norm(psi.prox(to.w + to.grad_psi, 1.0) - to.w) <= 1e-9 * spread
    monkeypatch.setattr(prox_step, "root", lambda *args: None)
    by_gradients = prox_step.minimised(C, 0.1, d, psi, v, 1e-8, 100_000)
    np.testing.assert_allclose(to.w, by_gradients.w, atol=1e-6)


def test_without_curved_pairs_the_matrix_is_a_multiple_of_the_identity():
    S = np.ones((2, 3))
    assert prox_step.curvature(S[:0], S[:0], 2.0) == LowRank(2.0)
    assert prox_step.curvature(S, np.array([-S[0], 0.0 * S[1]]), 2.0) == LowRank(2.0)


# The inner method --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PSIS)
@pytest.mark.parametrize("residuals", [True, False])
@pytest.mark.parametrize("L_g", [None, 100.0])
def test_inner_runs_end_at_the_minimiser_of_the_model(kind, residuals, L_g):
    p, ledger, rng = case(kind, residuals), Ledger(), np.random.default_rng(1)
    phi = Model(
        Oracle(p.h, "g", ledger, N),  # a logistic g, so that slopes do not tell values exactly
        rng.standard_normal(N),
        0.05,
        L_g=L_g,
        psi=Psi(p.term, 1.0, "g", ledger, N),
    )

    def value(v):
        return phi.beta @ v + 0.025 * v @ v + p.h.value(v) + p.psi.value(v)

    method = gt.inner.ProxQN()
    start = 5.0 * rng.standard_normal(N)  # outside of the sets
    values, state = [], method.init(phi, start, None)
    for k in range(200):
        d = phi.beta + 0.05 * state.v + p.h.grad(state.v)
        values.append(value(state.v))
        np.testing.assert_allclose(state.grad_g, p.h.grad(state.v), atol=1e-12)
        size = 1 + np.linalg.norm(state.grad_psi)
        assert p.in_dpsi(state.grad_psi, state.v) <= 1e-8 * size
        assert ledger.calls["g.grad"] <= k + 1 and ledger.calls["g.value"] == 0
        if np.linalg.norm(p.psi.residual(state.v, d)) <= 1e-8:
            break
        state = method.step(phi, state)
    else:
        raise AssertionError("the inner run does not end")
    assert np.isfinite(values).all()
    assert values[-1] <= min(values) + 1e-10


def test_methods_without_L_g_take_it():
    p = case("l1")
    g = gt.Term(p.g.value_and_grad, n=N)
    for method in ("sae", "afb"):
        res = gt.minimize(p.h, g + p.psi, p.x0, method=method, tol=1e-7)
        assert res.success
        np.testing.assert_allclose(res.x, p.x_star, atol=1e-5)


# The learned method ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PSIS)
@pytest.mark.parametrize("residuals", [True, False])
@pytest.mark.parametrize("rho", [math.inf, 3.0])
def test_every_accepted_point_is_lower(kind, residuals, rho):
    p = case(kind, residuals)
    problem = p.sum()
    run = states(QN(rho=rho), problem, p.x0, 6)
    for old, new in itertools.pairwise(run):
        assert p.f(new.point) <= p.f(old.point) + 1e-12
        assert new.value == pytest.approx(p.f(new.point), abs=1e-12)
        w = new.grad - p.grad(new.point)
        assert p.in_dpsi(w, new.point) <= 1e-8 * (1 + np.linalg.norm(w))
        if residuals:
            least = p.psi.residual(new.point, p.grad(new.point))
            np.testing.assert_allclose(new.grad, least, atol=1e-9)
    trials = sum(state.trials for state in run)
    assert problem.ledger.calls["h.grad"] == 1 + trials


@pytest.mark.parametrize("kind", PSIS)
@pytest.mark.parametrize("method", ["sae-qn", "lbfgs", "auto"])
def test_the_solution_is_found_without_constants(kind, method):
    p = case(kind)
    h, g = (gt.Term(t.value_and_grad, n=N) for t in (p.h, p.g))
    res = gt.minimize(h, g + p.psi, p.x0, method=method, tol=1e-8)
    assert res.success, res
    np.testing.assert_allclose(res.x, p.x_star, atol=1e-5)
    least = np.linalg.norm(p.psi.residual(res.x, p.grad(res.x)))
    assert res.grad_norm == pytest.approx(least, rel=1e-4, abs=1e-11)


@pytest.mark.parametrize("lam", [1e-3, 3e-2])
def test_a_difference_of_means(lam):
    f, h, g = difference()
    res = gt.minimize(h, g + gt.L1(lam), method="sae-qn", tol=1e-9)
    whole = gt.minimize(f, gt.L1(lam), method="fgm", tol=1e-9, max_iter=10**5)
    assert res.success and whole.success
    np.testing.assert_allclose(res.x, whole.x, atol=1e-4)
    np.testing.assert_array_equal(res.x == 0.0, whole.x == 0.0)


def test_psi_alone():
    """g without a smooth part is not asked; the model is minimised by proximal steps."""
    p = case("l1")
    res = gt.minimize(p.h, p.psi, tol=1e-9)
    assert res.success and res.calls["g.grad"] == 0 == res.calls["g.value"]
    assert "g has no smooth part" in res.plan
    want = gt.minimize(p.h, p.psi, method="fgm", tol=1e-9)
    np.testing.assert_allclose(res.x, want.x, atol=1e-7)
    three = gt.Quadratic(np.diag([1.0, 2.0, 3.0]), np.array([1.0, -0.05, 2.0]))
    soft = gt.Term(value=gt.L1(0.1).value, prox=gt.L1(0.1).prox)
    res = gt.minimize(three, soft)
    assert res.success and res.calls["g.value"] == 0
    np.testing.assert_allclose(res.x, [0.9, 0.0, 1.9 / 3.0], atol=1e-5)


def test_an_indicator_whose_value_is_infinite():
    p = case("box")
    inside = gt.Term(value=p.psi.value, prox=p.psi.prox)
    for method in ("auto", "afb"):
        res = gt.minimize(p.h, p.g + inside, np.full(N, 7.0), method=method, tol=1e-7)
        assert res.success, res
        np.testing.assert_allclose(res.x, p.x_star, atol=1e-5)


@pytest.mark.parametrize("method", [QN(), QN(rho=1.0), "auto"])
@pytest.mark.parametrize("with_g", [True, False])
def test_solutions_at_a_kink_without_a_residual(method, with_g):
    """Every coordinate ends at a bound or at 0, where only proximal steps tell subgradients.

    The first step ends at the solution, but its own subgradient belongs to the slope before it.
    """
    b = np.array([3.0, -4.0, 5.0, -6.0, 7.0])
    h = gt.LinearModel(np.eye(5), b, loss="huber")
    g = gt.Quadratic(0.1 * np.eye(5) + 0.05) if with_g else None
    box, norm1 = gt.Box(-0.5, 0.5), gt.L1(20.0)
    bare = [
        gt.Term(prox=box.prox),
        gt.Term(value=box.value, prox=box.prox),
        gt.Term(prox=norm1.prox),
    ]
    for psi, want, x0 in zip(
        bare, (0.5 * np.sign(b), 0.5 * np.sign(b), 0.0 * b), (0.0 * b, 0.0 * b, b), strict=True
    ):
        res = gt.minimize(h, psi if g is None else g + psi, x0, method=method, tol=1e-8)
        assert res.success, res
        np.testing.assert_array_equal(res.x, want)


def dense(B, n):
    return np.column_stack([B(e) for e in np.eye(n)])


@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_a_model_that_rounding_bends_down_is_mended(spread):
    """Rows that nearly depend on each other, with huge coefficients that nearly cancel."""
    rng, n, k = np.random.default_rng(1), 12, 8
    D = np.geomspace(1.0, spread, n)
    V = rng.standard_normal((k, n))
    V[4:] = V[:4] + 1e-7 * rng.standard_normal((4, n))
    M = rng.standard_normal((k, k))
    M = 1e14 * np.block([[M[:4, :4], -M[:4, :4]], [-M[:4, :4], M[:4, :4]]])
    M += np.diag(np.full(k, 50.0)) + M.T
    W = V * np.sqrt(D)
    small = Small(Rows(W), np.eye(k), V @ V.T, M, EUCLIDEAN)
    B = LowRank(1.0, small) if spread == 1.0 else ScaledLowRank(1.0, small, D)
    before, after = dense(B, n), dense(without_rounding(B), n)
    error = -np.linalg.eigvalsh(before / np.sqrt(np.outer(D, D)))[0]
    assert error > 1.0
    w, U = np.linalg.eigh(after / np.sqrt(np.outer(D, D)))
    assert w[0] >= 0.9  # lam = 1 beside the rows
    assert np.linalg.norm(after - after.T) <= 1e-9 * w[-1] * spread
    # What bends up by more than the error stays as it was.
    up = U[:, w > 3.0 * error]
    assert up.shape[1] > 0
    change = up.T @ ((after - before) / np.sqrt(np.outer(D, D))) @ up
    np.testing.assert_allclose(change, 0.0, atol=error)
    good = prox_step.curvature(np.eye(n)[:3], 2.0 * np.eye(n)[:3], 1.0)
    assert without_rounding(good) is good


def test_many_steps_in_few_variables():
    """A least squares problem with x >= 0 whose pairs span all 42 variables, but for rounding.

    The plain model of the sum bent down, and its trial points were 1e23 away for ever.
    """
    rng = np.random.default_rng(152)
    n, m = rng.integers(1, 61), rng.integers(21, 173)
    rng.integers(5, size=2)
    A = rng.standard_normal((m, n)) * np.geomspace(1.0, 10.0 ** rng.uniform(-2.0, 0.0), n)
    x = rng.standard_normal(n) * (rng.random(n) < 0.4)
    y = A @ x + 0.3 * rng.standard_normal(m)
    h = 10.0 ** rng.uniform(-4.0, 4.0) * gt.LinearModel(A, y, loss="squared")
    assert (n, m) == (42, 54)
    goal = gt.stop.any_of(gt.stop.Gradient(rel=1e-7), gt.stop.Calls({"g.prox": 20_000}))
    res = gt.minimize(h, gt.NonNegative(), method=QN(rho=1.0, diagonal=False), stop=goal)
    assert res.calls["g.prox"] < 20_000


def test_values_of_psi_with_errors():
    """Those of pyproximal's nuclear norm, roots of eigenvalues, are wrong by 1e-9.

    Trial points were rejected until the inner runs started outside of the trust radius.
    """
    rng, nuclear = np.random.default_rng(3), gt.NuclearNorm((5, 8), 0.01)
    A = rng.standard_normal((400, 40)) / np.sqrt(np.arange(1, 41))
    y = np.where(A[:, :5].sum(axis=1) + 0.5 * rng.standard_normal(400) > 0, 1.0, -1.0)
    h, g = gt.LinearModel(A, y), gt.LinearModel(A[:20], y[:20])

    def value(x):
        X = x.reshape(5, 8)
        squares = np.linalg.eigvalsh(X.T @ X)  # three of them are 0
        return 0.01 * float(np.sqrt(np.maximum(squares, 0.0)).sum())

    for psi in (gt.Term(value=value, prox=nuclear.prox), gt.Term(prox=nuclear.prox)):
        res = gt.minimize(h, g + psi, method="sae-qn", tol=1e-7, max_iter=100)
        assert res.success


def test_inner_runs_without_a_residual_start_where_a_subgradient_is_known():
    """A proximal step without the slope would lead away from a solution at once."""
    p = case("l1", False)
    psi = Psi(gt.Term(prox=PSIS["l1"].prox), 1.0, "g", Ledger(), N)
    grad_h = p.h.grad(p.x_star)
    g = Oracle(p.g, "g", Ledger(), N)
    phi = Model(g, grad_h - 0.5 * p.x_star, 0.5, float(p.g.L), psi=psi)
    inner, grad_g = gt.inner.ProxQN(), p.g.grad(p.x_star)
    start = inner.init(phi, p.x_star, grad_g)
    assert np.linalg.norm(start.v - p.x_star) <= 1e-5 * np.linalg.norm(p.x_star)
    u = -grad_h - grad_g
    known = inner.init(phi, p.x_star, grad_g, replace(start, v=p.x_star, grad_psi=u))
    assert known.v is p.x_star and known.grad_psi is u


def test_a_proximal_operator_that_leads_away_is_told():
    """Squares of its lengths overflow, which was an OverflowError of Python."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 12))
    h = gt.LinearModel(A, np.where(A[:, 0] + 0.3 * rng.standard_normal(60) > 0, 1.0, -1.0))
    D = np.diff(np.eye(12), axis=0)
    away = gt.Term(prox=lambda u, alpha: 2.0 * u)
    res = gt.minimize(h, gt.Quadratic(5.0 * D.T @ D + 0.01 * np.eye(12)) + away)
    assert not res.success and "check_term" in res.message


def test_answers_that_are_not_finite_are_stepped_back_from():
    """h is finite only near the solution; mu grows until a trial point is there."""
    p = case("l1")

    def value_and_grad(x):
        value, grad = p.h.value_and_grad(x)
        return (math.nan if np.abs(x).max() > 0.45 else value), grad

    h = gt.Term(value_and_grad, n=N)
    res = gt.minimize(h, gt.Quadratic(np.zeros((N, N)), 2.0 * np.ones(N)) + gt.Box(-9, 9), tol=1e-6)
    assert res.status.name in ("NON_FINITE", "STALLED", "CONVERGED")
    assert np.abs(res.x).max() <= 0.45 and res.fun < h.value_and_grad(np.zeros(N))[0]


def test_psi_left_out_of_the_descent_test_is_caught(monkeypatch):
    """A planted error: then f rises along the run, or the run does not end at the solution."""
    p = case("l1")
    for module in (composite, gt.methods.inner.proxqn):
        monkeypatch.setattr(module, "change_of", lambda psi, v, d, step: 0.0)
    run = states(QN(), p.sum(), p.x0, 12)
    f = [p.f(s.point) for s in run]
    stays_low = all(b <= a + 1e-12 for a, b in itertools.pairwise(f))
    right = all(s.value == pytest.approx(p.f(s.point), abs=1e-12) for s in run)
    assert not (stays_low and right and f[-1] <= p.f_star + 1e-9)


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path):
    p = case("groups")
    f = p.g + p.psi
    for method in ("sae-qn", "auto"):
        whole = gt.minimize(p.h, f, method=method, tol=1e-9, prices={"h.grad": 100.0})
        gt.minimize(
            p.h,
            f,
            method=method,
            tol=1e-9,
            max_iter=2,
            checkpoint=tmp_path / "c",
            prices={"h.grad": 100.0},
        )
        same(gt.resume(tmp_path / "c", p.h, f, max_iter=10**5), whole)


# L-BFGS-B ----------------------------------------------------------------------------------------


def test_bounds_go_to_scipy():
    p = case("box")
    res = gt.minimize(p.h, p.g + p.psi, p.x0, method="lbfgs", tol=1e-7)
    assert res.success and res.calls["h.grad"] == res.calls["g.grad"] and not res.calls["g.prox"]
    seen = optimize.minimize(
        lambda x: (p.f(x), p.grad(x)),
        p.x0,
        jac=True,
        method="L-BFGS-B",
        bounds=optimize.Bounds(np.full(N, p.psi.lower), np.full(N, p.psi.upper)),
        options={"maxcor": 10, "ftol": 0.0, "gtol": 1e-12, "maxls": 50},
    )
    np.testing.assert_allclose(res.x, seen.x, atol=1e-6)
    with pytest.raises(TypeError, match="L-BFGS-B has bounds only, but the non-smooth term is L1"):
        gt.minimize(p.h, p.g + gt.L1(0.1), method=gt.ScipyLBFGS())


def test_auto_changes_to_the_best_rival():
    p = case("box")
    alike = {"h.grad": 1.0, "g.grad": 1.0}
    res = gt.minimize(p.h, p.g + p.psi, p.x0, prices=alike)
    assert res.success and res.plan.startswith("lbfgs") and not res.calls["g.prox"]
    q = case("l1")
    res = gt.minimize(q.h, q.g + q.psi, q.x0, prices=alike)
    assert res.success
    dear = {"h.grad": 1000.0, "g.grad": 1.0}
    res = gt.minimize(q.h, q.g + q.psi, q.x0, prices=dear)
    assert res.success and res.plan.startswith("sae-qn")


def test_prices_may_exchange_the_terms():
    p = case("simplex")
    res = gt.minimize(p.g, p.h + p.psi, p.x0, prices={"h.grad": 1.0, "g.grad": 1000.0}, tol=1e-8)
    assert res.success
    np.testing.assert_allclose(res.x, p.x_star, atol=1e-5)


def test_a_term_by_its_proximal_operator_alone():
    p = case("groups")
    only = gt.Term(prox=p.psi.prox)
    res = gt.minimize(p.h, p.g + only, p.x0, tol=1e-7)
    assert res.success and math.isnan(res.fun)
    np.testing.assert_allclose(res.x, p.x_star, atol=1e-5)


# The certificate and the guard -------------------------------------------------------------------


@pytest.mark.parametrize("kind", PSIS)
@pytest.mark.parametrize("residuals", [True, False])
def test_the_certificate_holds_from_the_start(kind, residuals):
    p = case(kind, residuals)
    R2 = float(np.sum((p.x0 - p.x_star) ** 2))
    run = states(QN(), p.sum(), p.x0, 10)
    for state in run[1:]:
        assert 2.0 * state.A * (p.f(state.point) - p.f_star - 1e-12) <= R2
    assert all(old.A <= new.A for old, new in itertools.pairwise(run))
    # a cut enters wherever its gradient shows a descent from x0
    shown = [float(s.grad @ (p.x0 - s.point)) for s in run[1:]]
    assert run[-1].A > 0.0 or max(shown) <= 0.0


@pytest.mark.parametrize("kind", PSIS)
def test_proven_steps_alone(kind, monkeypatch):
    """With the guard always behind: the bound, and the growth of A that a passed test proves."""
    monkeypatch.setattr(composite.Guard, "is_behind", lambda self, A: True)
    p = case(kind)
    R2 = float(np.sum((p.x0 - p.x_star) ** 2))
    run = states(QN(), p.sum(), p.x0, 20)
    for old, new in itertools.pairwise(run):
        assert p.f(new.point) <= p.f(old.point) + 1e-12
        assert 2 * new.A * (p.f(new.point) - p.f_star) <= R2 * (1 + 1e-9) + 1e-10
    guard = run[-1].guard
    assert guard.failures <= 5 and guard.steps >= 15
    assert 1.5 * guard.sharp * p.h.L >= guard.L
    assert guard.steps**2 / (4 * guard.L) * (1 - 1e-6) <= run[-1].A


def test_a_useless_model_is_overruled(monkeypatch):
    """Models that predict no curvature at all lead nowhere; the guard does."""
    monkeypatch.setattr(composite.Shelf, "__getitem__", lambda self, candidate: LowRank(1e6))
    p = case("l1")
    res = gt.minimize(p.h, p.g + p.psi, p.x0, method="sae-qn", tol=1e-4, max_iter=2000)
    assert res.success


# The trust radius --------------------------------------------------------------------------------


def with_little_data(seed, own=25):
    """h = f - f_1 with an f_1 of few rows: the models of h outweigh g, and bend down."""
    rng = np.random.default_rng(seed)
    m, n = 1600, 60
    A = (rng.random((m, n)) < 0.2) * rng.exponential(1.0, (m, n))
    A /= np.maximum(np.linalg.norm(A, axis=1), 1e-3)[:, None]
    y = np.where(A @ rng.standard_normal(n) + 0.02 * rng.standard_normal(m) > 0, 1.0, -1.0)
    f, f_1 = gt.LinearModel(A, y), gt.LinearModel(A[:own], y[:own])
    return f - f_1, f_1


@pytest.mark.parametrize("seed", range(4))
def test_models_that_bend_down_do_not_lead_away(seed):
    h, g = with_little_data(seed)
    res = gt.minimize(h, g + gt.L1(1e-5), method="sae-qn", tol=1e-7)
    assert res.success, res.message
    assert np.all(np.diff(res.history["f"]) <= 1e-12)
    want = gt.minimize(h, g + gt.L1(1e-5), method=QN(rho=1.0), tol=1e-7)
    assert res.fun == pytest.approx(want.fun, abs=1e-8)


def test_trial_points_stay_within_the_trust_radius(monkeypatch):
    """Every trial point is within 1.5 R, whatever the model."""
    h, g = with_little_data(7)
    seen, propose = [], composite.propose

    def watched(problem, state, *rest):
        trial = propose(problem, state, *rest)
        seen.append(np.linalg.norm(trial.step.w - state.at.v) / state.radius)
        return trial

    monkeypatch.setattr(composite, "propose", watched)
    for psi in (gt.L1(1e-6), gt.Box(-5.0, 5.0), gt.GroupL1(4, 1e-6)):
        gt.minimize(h, g + psi, method="sae-qn", max_iter=25, tol=1e-12)
    assert 0.0 in seen and max(seen) > 0.5  # the first has no radius, and others are at it
    assert max(seen) <= 1.65


@pytest.mark.parametrize("residuals", [True, False])
def test_indicators_that_allow_for_no_rounding(residuals):
    """A projection may be outside by rounding, where a strict indicator is infinite."""
    p = case("ball")

    class Strict:
        prox = staticmethod(p.psi.prox)

        def value(self, x):
            return 0.0 if np.linalg.norm(x) <= 0.2 * (1 - 1e-15) else math.inf

    term = Strict()
    if residuals:
        term.residual = p.psi.residual
    res = gt.minimize(p.h, p.g + term, np.zeros(N), method="sae-qn", tol=1e-7)
    assert res.success, res.message
    np.testing.assert_allclose(res.x, p.x_star, atol=1e-5)
