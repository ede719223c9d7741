"""The learned method with a non-smooth term: proximal steps, scales of the variables, the loop."""

from __future__ import annotations

import itertools
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import geartrain as gt
from composite import PSIS, N, bare, case, counted, states
from geartrain.methods.pqn import inner_prox, noise_detection, prox_step, scaling
from geartrain.methods.pqn.evaluation import Step, TermEvaluator
from geartrain.methods.pqn.inner import Phi
from geartrain.methods.pqn.low_rank import LowRank, RowBasis
from geartrain.methods.pqn.memory import Memory
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.methods.pqn.models import KEEP, PLAIN, Models
from geartrain.methods.pqn.tuning import DEFAULT
from geartrain.oracles.ledger import Ledger
from geartrain.oracles.splitting import Psi, Zero
from runs import same

EPS = float(np.finfo(float).eps)
ALL = {
    **PSIS,
    "weights": gt.L1(np.linspace(0.0, 0.1, N)),
    "positive": gt.NonNegative(),
    "lists": gt.GroupL1([[0, 5], [7, 1, 2]], 0.1),
    "variation": gt.TotalVariation(0.03),
    "nuclear": gt.NuclearNorm((3, 4), 0.05),
    "tall": gt.NuclearNorm((4, 3), 0.05),
}


# The derivative of proximal steps ----------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_derivatives_are_those_of_the_proximal_step(kind):
    """By central differences: errors of e^2 times the curvature, and of rounding over e."""
    ledger = Ledger()
    psi, e = Psi(ALL[kind], 3.0, "g", ledger, N), 1e-6
    u = np.random.default_rng(3).standard_normal(N)
    derivative = psi.derivative(u, 1.3)
    J = derivative(np.eye(N))
    assert not sum(ledger.calls.values())  # derivatives are not counted
    seen = [(psi.prox(u + e * d, 1.3) - psi.prox(u - e * d, 1.3)) / (2 * e) for d in np.eye(N)]
    np.testing.assert_allclose(J, np.transpose(seen), atol=1e-7)
    np.testing.assert_allclose(J, J.T, atol=1e-12)
    if hasattr(derivative, "form"):
        V = np.random.default_rng(4).standard_normal((3, N))
        np.testing.assert_allclose(derivative.form(V), V @ J @ V.T, atol=1e-12)


# The model of a step -----------------------------------------------------------------------------


def low_rank(rng, n=N, rank=5):
    """A matrix between 0.5 and about 20, and the dense one."""
    V = rng.standard_normal((rank, n))
    basis = RowBasis.of(V, V @ V.T, rng.permutation(rank))
    E = np.linalg.qr(rng.standard_normal((rank, rank)))[0]
    C = LowRank(0.5, basis, (E * np.geomspace(0.1, 20.0, rank)) @ E.T)
    return C, np.column_stack([C(e) for e in np.eye(n)])


@pytest.mark.parametrize(
    ("kind", "newton"), [*((kind, True) for kind in ALL), ("l1", False), ("simplex", False)]
)
def test_the_model_is_minimised(kind, newton):
    rng, mu, enough = np.random.default_rng(5), 0.3, 1e-7
    term, ledger = ALL[kind], Ledger()
    shown = term if newton else SimpleNamespace(prox=term.prox, residual=term.residual)
    psi = Psi(shown, 1.0, "g", ledger, N)
    C, dense = low_rank(rng)
    H = dense + mu * np.eye(N)
    for _ in range(5):
        v, d = term.prox(rng.standard_normal(N), 1.0), rng.standard_normal(N)
        before = ledger.calls["g.prox"]
        to = prox_step.minimised(C, mu, d, term.residual(v, d), psi, v, enough, most=4000)
        assert ledger.calls["g.prox"] - before == to.prox_steps
        slope = d + H @ (to.w - v)
        # a subgradient of the model of this size: within 2.5 `enough` of the minimiser, as mu = 0.8
        assert np.linalg.norm(term.residual(to.w, slope)) <= 2.0 * enough
        assert to.grad_psi is not None
        assert np.linalg.norm(slope + to.grad_psi) <= 2.0 * enough
        moved = term.prox(to.w + to.grad_psi, 1.0) - to.w  # 0 for subgradients
        assert np.linalg.norm(moved) <= 1e-12 * (1.0 + np.linalg.norm(slope))


def test_products_with_the_derivative_follow_its_changes():
    """V J V' by what has changed, with rows that are new, is V J V'."""
    rng, psi = np.random.default_rng(1), Psi(gt.Box(-0.5, 0.5), 1.0, "g", Ledger(), N)
    V, moved = rng.standard_normal((6, N)), prox_step.Moved(psi, 6)
    for rows in (4, 4, 5, 6, 6):
        if rows > 4:
            V[rows - 1] = rng.standard_normal(N)
            moved.add(V[:rows], rows - 1)
        J = psi.derivative(rng.standard_normal(N), 1.0)
        np.testing.assert_allclose(moved(V[:rows], J), V[:rows] @ J(V[:rows].T), atol=1e-12)
    for scale in (0.1, 3.0):  # most coordinates are inside, or few
        J = psi.derivative(scale * rng.standard_normal(N), 1.0)
        first = prox_step.Moved(psi, 6)(V, J, V @ V.T)
        np.testing.assert_allclose(first, V @ J(V.T), atol=1e-12)


@pytest.mark.parametrize("pairs", [0, 3, 8])
def test_the_curvature_of_an_inner_run_satisfies_its_newest_pair(pairs):
    """The oldest pair makes room for the newest, and C s = B s + mu s + y_g for that."""
    p, rng = case("l1"), np.random.default_rng(2)
    terms = TermEvaluator(p.sum())
    B, dense = low_rank(rng)
    learned = inner_prox.ProxCurvature(Phi(terms, terms.both(p.x0), B, 0.2, 1.0), (), 3)
    s = np.zeros(N)
    for _ in range(pairs):
        s = rng.standard_normal(N)
        learned.add(s, p.g.grad(s) - p.g.grad(np.zeros(N)))
    C, more = learned.matrix()
    assert more == 0.0
    if pairs:
        y = dense @ s + 0.2 * s + p.g.grad(s) - p.g.grad(np.zeros(N))
        np.testing.assert_allclose(C(s), y, atol=1e-6 * np.linalg.norm(y))
    else:
        v = rng.standard_normal(N)
        tau = B.lam + 0.2
        np.testing.assert_allclose(C(v), dense @ v + (0.2 + tau) * v, atol=1e-8)


@pytest.mark.parametrize("c", [0.0, 0.5])
def test_a_spherical_g_needs_no_pairs(c):
    """C = B + (mu + a c) I is the curvature of the model, and one step minimises it."""
    p, rng = case("l1"), np.random.default_rng(2)
    g = gt.Quadratic(c * np.eye(N), rng.standard_normal(N)) if c else Zero(N)
    terms = TermEvaluator(counted(p.h, g, p.term))
    B, dense = low_rank(rng)
    phi = Phi(terms, terms.both(p.x0), B, 0.2, 1.0)
    C, more = inner_prox.ProxCurvature(phi, (), 3).matrix()
    v = rng.standard_normal(N)
    np.testing.assert_allclose(C(v, more), dense @ v + (0.2 + c) * v, atol=1e-12)
    run = inner_prox.descend(phi, 1e-7, (), lambda *_: False, 20, 3)
    assert run.residual <= 1e-7 and run.pairs == ()
    assert terms.problem.ledger.calls["g.grad"] == 2  # at x_0 and at the end


def test_steps_with_the_factors_of_a_model_are_those_with_its_matrix():
    """The same minimiser whether C is known by its updates or by T."""
    p, rng = case("l1"), np.random.default_rng(3)
    terms = TermEvaluator(counted(p.h, Zero(N), p.term))
    at, memory = terms.both(p.x0), Memory.empty(N)
    for _ in range(4):
        new = terms.both(at.v + rng.standard_normal(N))
        step = Step.between(at, new, terms)
        pair = tuple(y / step.length for y in (step.s, step.y_h, step.y_g))
        products = memory.products(*pair, terms.geometry)
        memory = memory.add(pair, products, step.own / step.length**2, 4)
    models = Models(memory, 1.0, 1.0, (0.5, 1.0), True, terms.geometry, DEFAULT)
    for name in (KEEP, PLAIN):
        B = models[name]
        plain = LowRank(B.lam, B.basis, B.T)
        found = [
            prox_step.minimised(C, 0.3, at.grad, at.r, terms.psi, at.v, 1e-9) for C in (B, plain)
        ]
        np.testing.assert_allclose(found[0].w, found[1].w, atol=1e-8)


# Subgradients that are rounding errors -----------------------------------------------------------


def test_a_subgradient_that_is_rounding_is_not_claimed():
    """With an enormous curvature the step is lost in x, and so is what it proves."""
    psi, v, d = Psi(bare(gt.L1(0.1)), 1.0, "g", Ledger(), 2), np.ones(2), np.array([3.0, -2.0])
    assert prox_step.minimised(LowRank(1e25), 0.0, d, d, psi, v, 1e-3).grad_psi is None
    told = prox_step.minimised(LowRank(10.0), 0.0, d, d, psi, v, 1e-3).grad_psi
    np.testing.assert_allclose(told, [0.1, 0.1], atol=1e-12)


@pytest.mark.parametrize("L", [1e17, 1e290])
def test_a_step_of_no_length_proves_nothing(L):
    """Where w = y by rounding, L (y - w) - slope is minus the slope, and their sum is 0."""
    y, slope = np.ones(3), np.array([2963.0, -1.0, 0.5])
    for enough in (1e-8, 1.0, 100.0):
        assert prox_step._proven(L, y, y.copy(), slope, enough) is None
    w = y - slope / 10.0
    assert prox_step._proven(10.0, y, w, slope, 1e-8) == pytest.approx(np.zeros(3), abs=1e-11)


@pytest.mark.parametrize(
    ("unit", "start"), [(1e-15, 0.5), (1e-9, 0.0), (1e-9, -1.0), (1.0, 0.5), (1e6, -1.0)]
)
def test_the_residual_by_proximal_steps_follows_the_units(unit, start):
    box = gt.Box(-unit, unit)
    psi = Psi(gt.Term(prox=box.prox), 1.0, "g", Ledger(), 2)
    v, d = np.array([start, 0.25 * start]) * unit, np.array([3.0, -2.0])
    # steps end at 1e-12 of x at the earliest: rounding of 1e-4
    np.testing.assert_allclose(psi.residual(v, d), box.residual(v, d), atol=1e-3)


@pytest.mark.parametrize("rule", [gt.stop.Gap(1e-12), gt.stop.Gradient(abs=1e-2)])
@pytest.mark.parametrize("x0", [0.0, 1e-10])
def test_success_in_small_units_is_true(rule, x0):
    h, box = gt.Quadratic(1e9 * np.eye(2), [3.0, -2.0]), gt.Box(-1e-9, 1e-9)
    psi = gt.Term(prox=box.prox)
    res = gt.minimize(h, psi, np.full(2, x0), method=ProximalQuasiNewton(), stop=rule)
    assert np.linalg.norm(box.residual(res.x, h.grad(res.x))) <= res.grad_norm + 1e-6
    gap = h.value(res.x) - h.value(np.array([1e-9, -1e-9]))
    if res.success:
        assert gap <= 1e-12 or np.linalg.norm(box.residual(res.x, h.grad(res.x))) <= 1e-2


def test_a_second_look_stays_near():
    """|v - p| <= e: a smooth problem whose psi pulls strongly shows no noise."""
    p = case("l1")
    problem = counted(p.h, p.g, gt.TotalVariation(5.0))
    terms = TermEvaluator(problem)
    at = terms.both(gt.TotalVariation(5.0).prox(p.x0, 1.0))
    size, steepest = float(np.linalg.norm(at.r)), p.h.L + p.g.L
    assert not noise_detection.look(terms, at, size, steepest).noise
    # the largest secant seen may be below the largest curvature
    assert not noise_detection.look(terms, at, size, steepest / 20.0).noise


# Scales of the variables -------------------------------------------------------------------------


def scaled_terms(p, t, psi):
    """The problem in the variables t x, made explicitly."""
    h = gt.LinearModel(p.A / t, p.y)
    return counted(h, gt.Quadratic(p.Q / np.outer(t, t), p.b / t), psi)


@cache
def plain_case():
    rng = np.random.default_rng(4)
    A, Q = rng.standard_normal((40, N)), np.diag(np.geomspace(0.1, 3.0, N))
    y = np.where(A @ rng.standard_normal(N) > 0, 1.0, -1.0)
    return SimpleNamespace(A=A, y=y, Q=Q + 0.05, b=0.1 * rng.standard_normal(N))


@pytest.mark.parametrize(("kind", "rho"), [("l1", np.inf), ("box", 3.0)])
def test_a_scale_is_a_change_of_variables(kind, rho):
    """Powers of 2 multiply exactly: the runs agree up to the order of sums."""
    p, method = plain_case(), ProximalQuasiNewton(rho=rho)
    t = 2.0 ** -np.random.default_rng(6).integers(0, 5, N)
    t[0] = 1.0
    if kind == "l1":
        psi, changed = gt.L1(0.05), gt.L1(0.05 / t)
    else:
        psi, changed = gt.Box(-0.05, 0.1), gt.Box(-0.05 * t, 0.1 * t)
    one = counted(gt.LinearModel(p.A, p.y), gt.Quadratic(p.Q, p.b), psi)
    other = scaled_terms(p, t, changed)
    x0 = psi.prox(np.full(N, 0.07), 1.0)
    terms, explicit = TermEvaluator(one, t), TermEvaluator(other)
    a, b = method.start(terms, terms.both(t * x0)), method.start(explicit, explicit.both(t * x0))
    for _ in range(3):  # before scales are learned
        a, b = method.step(one, a), method.step(other, b)
        np.testing.assert_allclose(a.at.v, b.at.v, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(a.at.r, b.at.r, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(a.point, a.at.v / t)
    assert dict(one.ledger.calls) == dict(other.ledger.calls)


def changed_states(rho=np.inf, kind="l1"):
    """States before and after a change of the variables, and the minimiser."""
    p = case(kind)
    problem, method = p.sum(), ProximalQuasiNewton(rho=rho)
    for state in states(method, problem, p.x0, 6)[3:]:
        yield p, problem, state, scaling.rescaled(state)


@pytest.mark.parametrize("kind", ["l1", "box"])
def test_a_change_of_variables_keeps_what_is_known(kind):
    for p, problem, old, new in changed_states(kind=kind):
        t = new.scale
        assert t.max() == 1.0 and (np.exp2(np.round(np.log2(t))) == t).all()
        np.testing.assert_array_equal(new.point, old.point)
        np.testing.assert_array_equal(new.grad, old.grad)
        np.testing.assert_array_equal(new.grad_psi, old.grad_psi)
        np.testing.assert_array_equal(
            new.at.r, TermEvaluator(problem, t).psi.residual(new.at.v, new.at.grad)
        )
        s = new.memory.rows[::3]
        np.testing.assert_allclose(np.linalg.norm(s, axis=1), 1.0, rtol=1e-12)
        k = len(new.memory.rows)
        gram = new.memory.gram.transpose(2, 0, 3, 1).reshape(k, k)
        np.testing.assert_allclose(gram, new.memory.rows @ new.memory.rows.T)
        for old_row, new_row in zip(old.memory.rows[1::3], new.memory.rows[1::3], strict=True):
            back = new_row * t  # y/t, over the new length of s
            parallel = abs(back @ old_row) / np.linalg.norm(back) / np.linalg.norm(old_row)
            assert parallel == pytest.approx(1.0, abs=1e-12)
        # what is proven is about the variables x
        assert new.certificate is old.certificate and new.safeguard is old.safeguard
        far = float(np.sum((p.x0 - p.x_star) ** 2))
        rounding = 100.0 * EPS * (abs(p.f(p.x0)) + abs(p.f_star))
        assert p.f(new.point) - p.f_star <= far / (2.0 * new.A) * (1.0 + 1e-9) + rounding


def test_scales_are_learned_where_they_help(monkeypatch):
    """Every change happens; bounds are kept exactly, and the run ends at the minimiser."""
    monkeypatch.setattr(scaling, "_USEFUL", -np.inf)
    for kind in ("l1", "box"):
        p = case(kind)
        run = states(ProximalQuasiNewton(), p.sum(), p.x0, 20)
        assert any(s.scale is not None for s in run)
        least = min(p.f(s.point) for s in run)
        assert least < p.f(p.x0)
        for state in run:
            assert np.isfinite(p.psi.value(state.point))
            if kind == "box":
                assert (state.point >= p.psi.lower).all() and (state.point <= p.psi.upper).all()


def test_psi_that_is_not_separable_has_no_scales(monkeypatch):
    monkeypatch.setattr(scaling, "_USEFUL", -np.inf)
    for kind in ("simplex", "groups", "ball"):
        p = case(kind)
        run = states(ProximalQuasiNewton(), p.sum(), p.x0, 6)
        assert all(s.scale is None for s in run)


# The loop ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "rho", "residuals"),
    [
        ("l1", np.inf, True),
        ("l1", 10.0, False),
        ("box", 10.0, True),
        ("groups", 10.0, False),
        ("simplex", 1.0, True),
        ("ball", np.inf, True),
    ],
)
def test_accepted_points_are_lower_and_every_trial_point_is_one_call(kind, residuals, rho):
    p = case(kind, residuals)
    problem, method = p.sum(), ProximalQuasiNewton(rho=rho)
    run = states(method, problem, p.x0, 10)
    assert problem.ledger.calls["h.grad"] == 1 + sum(s.trials for s in run[1:])
    scale = abs(p.f(p.x0)) + abs(p.f_star)
    for a, b in itertools.pairwise(run):
        assert p.f(b.point) <= p.f(a.point) + 100.0 * EPS * scale
        assert b.value == pytest.approx(p.f(b.point), abs=100.0 * EPS * scale)
    for s in run:
        w = s.grad - p.grad(s.point)
        assert p.in_dpsi(w, s.point) <= 1e-8 * (1.0 + np.linalg.norm(p.grad(s.point)))
        R2 = float(np.sum((p.x0 - p.x_star) ** 2))
        gap = p.f(s.point) - p.f_star - 100.0 * EPS * scale  # what rounding leaves of it
        assert 2.0 * s.A * gap <= R2 * (1.0 + 1e-6)


def test_steps_are_between_points_in_the_domain():
    """The slope of a step counts the change of psi."""
    p = case("l1")
    terms = TermEvaluator(p.sum())
    a, b = terms.both(p.x0), terms.both(p.x_star)
    step = Step.between(a, b, terms)
    assert step.change == pytest.approx(p.f(p.x_star) - p.f(p.x0), rel=1e-9)
    assert step.slope <= step.change  # by convexity


@pytest.mark.parametrize("kind", ["l1", "simplex"])
def test_a_run_resumed_from_any_state_is_the_uninterrupted_one(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(scaling, "_USEFUL", -np.inf)
    p = case(kind)
    f, method = p.g + p.psi, ProximalQuasiNewton(rho=100.0)
    rule = gt.stop.Gradient(rel=1e-4)
    whole = gt.minimize(p.h, f, p.x0, method=method, stop=rule)
    for k in range(1, min(whole.nit, 7), 3):
        path = tmp_path / f"{k}.gtck"
        gt.minimize(p.h, f, p.x0, method=method, stop=rule, max_iter=k, checkpoint=path)
        same(gt.resume(path, p.h, f, max_iter=10**5), whole)
