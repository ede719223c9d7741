"""Iterate by iterate, each method is the literal transcription of its box."""

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.loop import solve_model
from geartrain.problem import Model, norm
from problems import logistic, quadratics, states
from reference import baselines, envelopes

X0 = np.linspace(-1.0, 1.0, 24)


def same_points(run, boxes, A, **points):
    """Every state has the printed weight A and the printed points, each to its tolerance."""
    for state, (weight, *expected) in zip(run, boxes, strict=True):
        assert pytest.approx(weight, rel=A) == state.A
        for (name, atol), point in zip(points.items(), expected, strict=True):
            np.testing.assert_allclose(getattr(state, name), point, atol=atol)


def exact_solver(known):
    """The exact minimiser of <beta, v> + alpha/2 |v|^2 + g(v) for a quadratic g."""
    Q, b = known.g.Q, known.g.b

    def solve(beta, alpha, start, centre):
        return np.linalg.solve(Q + alpha * np.eye(len(b)), b - beta)

    return solve


# Paper: Algorithm 1
# Paper: equation (5)
# Paper: equation (23)
@pytest.mark.parametrize(("sigma", "ratio"), [(0.25, 0.25), (0.9, 1.0), (0.5, 4.0)])
def test_sae_is_algorithm_1(sigma, ratio):
    known = quadratics()
    L_h = known.h.L
    method = gt.SAE(L=ratio * L_h, sigma=sigma, inner=gt.inner.Exact())
    run = states(method, known.sum(), X0, 15)[1:]
    boxes = envelopes.sae(
        known.h.grad, known.g.grad, exact_solver(known), X0, ratio * L_h, L_h, sigma, 15
    )
    same_points(run, boxes, A=1e-12, x=1e-9, y=1e-9, z=1e-8)


def test_sae_with_inexact_inner_solutions():
    """AGM inside, ended by the adaptive rule, transcribed with its own stop."""
    known = logistic()
    L = L_h = known.h.L
    L_g, mu_g, sigma, accuracy = known.g.L, known.g.mu, 0.5, 0.2

    def solve(beta, alpha, start, centre):
        def grad_phi(v):
            return beta + alpha * v + known.g.grad(v)

        def stop(v, gradient):
            return norm(gradient) <= accuracy * sigma * L * norm(v - centre)

        return envelopes.agm(grad_phi, start, L_g + alpha, (alpha + mu_g) / (L_g + alpha), stop)[0]

    x0 = np.ones(10)
    run = states(gt.SAE(), known.sum(), x0, 10)[1:]
    boxes = envelopes.sae(known.h.grad, known.g.grad, solve, x0, L, L_h, sigma, 10)
    for state, (_, _, y, z) in zip(run, boxes, strict=True):
        np.testing.assert_allclose(state.y, y, atol=1e-9)
        np.testing.assert_allclose(state.z, z, atol=1e-8)


# Paper: Algorithm 2
def test_r_sae_is_algorithm_2():
    known = quadratics(mu=0.5)
    L = L_h = known.h.L
    period = int(np.ceil(np.sqrt(8 * L / known.mu)))
    run = states(gt.methods.RSAE(inner=gt.inner.Exact()), known.sum(), X0, 3 * period)[1:]
    ys = envelopes.r_sae(
        known.h.grad, known.g.grad, exact_solver(known), X0, L, L_h, 0.5, known.mu, 3
    )
    for state, y in zip(run, ys, strict=True):
        np.testing.assert_allclose(state.y, y, atol=1e-9)


# Paper: Algorithm 3
# Paper: equation (4)
def test_gmco_is_proximal_gradient():
    known = quadratics()
    solve = exact_solver(known)
    L_h = known.h.L
    zeta = X0
    for state in states(gt.methods.GMCO(inner=gt.inner.Exact()), known.sum(), X0, 10)[1:]:
        zeta = solve(known.h.grad(zeta) - L_h * zeta, L_h, zeta, zeta)
        np.testing.assert_allclose(state.zeta, zeta, atol=1e-10)


@pytest.mark.parametrize("mu", [0.0, 1e-2])
def test_sc_sae_follows_its_recursion(mu):
    """With one exact middle step and h = 0 the middle step is the proximal step of f."""
    known = quadratics()
    f = gt.Quadratic(known.h.Q + known.g.Q, b=known.h.b + known.g.b)
    zero = gt.Quadratic(np.zeros((24, 24)))
    L = 0.7
    whole = type(known)(zero, f, known.x_star, mu)
    method = gt.methods.SCSAE(L=L, mu=mu, inner=gt.inner.Exact())
    run = states(method, whole.sum(L_h=1e-12), X0, 25)[1:]
    boxes = envelopes.sc_sae(f.grad, f.prox, X0, L, mu, 25)
    same_points(run, boxes, A=1e-9, x=1e-8, y=1e-8, z=1e-7)


def test_sc_sae_limits_join_the_recursion():
    """Once mu A > 1e8 the limits are used; they agree with the recursion there."""
    from geartrain.methods.sc_sae import weights

    eta, mu = 0.5, 0.3
    below = weights(0.99e8 / mu, eta, mu)
    above = weights(1.01e8 / mu, eta, mu)
    assert pytest.approx(below.A / 0.99e8, rel=1e-6) == above.A / 1.01e8
    for name in ("theta", "keep", "pull", "push"):
        assert getattr(above, name) == pytest.approx(getattr(below, name), rel=1e-6)
    assert np.isfinite(weights(1e300, eta, mu).A)


def test_afb_follows_its_recursion():
    known = quadratics()
    h = gt.Quadratic(known.h.Q - known.h.mu * np.eye(24), b=known.h.b)
    problem = type(known)(h, known.g, known.x_star, known.g.mu)
    run = states(gt.methods.AFB(zeta=0.0, inner=gt.inner.Exact()), problem.sum(), X0, 25)[1:]
    boxes = envelopes.afb(h.grad, known.g.grad, exact_solver(known), X0, h.L, h.mu + known.g.mu, 25)
    same_points(run, boxes, A=1e-9, x=1e-8, y=1e-8, z=1e-7)


def test_afb_does_not_care_which_term_is_strongly_convex():
    """mu in h is moved to g: the iterates are the same as with mu in g."""
    known = quadratics()
    H = known.h.Q - known.h.mu * np.eye(24)
    mu, L = 0.3, gt.Quadratic(H).L
    in_h = type(known)(gt.Quadratic(H + mu * np.eye(24)), known.g, X0, 0.0)
    in_g = type(known)(
        gt.Quadratic(H), gt.Quadratic(known.g.Q + mu * np.eye(24), known.g.b), X0, 0.0
    )
    method = gt.methods.AFB(zeta=0.0, inner=gt.inner.Exact())
    left = states(method, in_h.sum(L_h=L + mu), X0, 20)[1:]
    right = states(method, in_g.sum(L_h=L), X0, 20)[1:]
    for one, other in zip(left, right, strict=True):
        np.testing.assert_allclose(one.x, other.x, atol=1e-9)


# Paper: FGM
@pytest.mark.parametrize("mu", [0.0, 1e-2])
def test_fgm(mu):
    known = quadratics()
    L = known.h.L + known.g.L
    run = states(gt.methods.FGM(mu=mu), known.sum(), X0, 40)[1:]
    for state, x in zip(run, baselines.fgm(known.grad, X0, L, mu, 40), strict=True):
        np.testing.assert_allclose(state.x, x, atol=1e-10)


# Paper: AGS
@pytest.mark.parametrize("L_g", [0.5, 300.0])
def test_ags(L_g):
    known = quadratics(L_g=L_g)
    run = states(gt.methods.AGS(mu=0.0), known.sum(), X0, 20)[1:]
    boxes = baselines.ags(known.h.grad, known.g.grad, X0, known.h.L, known.g.L, 20)
    for state, x_bar in zip(run, boxes, strict=True):
        np.testing.assert_allclose(state.x_bar, x_bar, atol=1e-10)


def test_ags_starts_a_new_stage_from_x_bar():
    known = quadratics(mu=0.5)
    stage = int(np.ceil(np.sqrt(60 * known.h.L / known.mu)))
    run = states(gt.methods.AGS(), known.sum(), X0, 2 * stage)[1:]
    first = baselines.ags(known.h.grad, known.g.grad, X0, known.h.L, known.g.L, stage)[-1]
    np.testing.assert_allclose(run[stage - 1].x_bar, first, atol=1e-10)
    second = baselines.ags(known.h.grad, known.g.grad, first, known.h.L, known.g.L, stage)[-1]
    np.testing.assert_allclose(run[-1].x_bar, second, atol=1e-10)


# Paper: Monteiro-Svaiter
def test_monteiro_svaiter_on_the_whole_is_sae_without_h():
    """With all of f in g and nothing in h, SAE's model is the whole envelope."""
    known = quadratics()
    f = gt.Quadratic(known.h.Q + known.g.Q, b=known.h.b + known.g.b)
    zero = gt.Quadratic(np.zeros((24, 24)))
    L, tiny = 0.7, 1e-14
    split = type(known)(zero, f, known.x_star, 0.0)
    L_f = known.h.L + known.g.L
    whole = states(gt.methods.MonteiroSvaiterWhole(L=L), known.sum(), X0, 8)[1:]
    sae = states(gt.SAE(L=L, accuracy=1.0), split.sum(L_h=tiny, L_g=L_f), X0, 8)[1:]
    for one, other in zip(whole, sae, strict=True):
        # mu_g of a quadratic f enters AGM's momentum in the one and not in the other
        assert norm(one.y - other.y) <= 0.05 * norm(one.y)
        assert pytest.approx(other.A) == one.A


# Paper: AGM
# Paper: equation (2)
@pytest.mark.parametrize("alpha", [0.01, 50.0])
def test_agm_composite_and_whole_are_the_same_map(alpha):
    """Both options of Section 4.1: quadratic as composite term, gradient step on all of phi."""
    known = logistic()
    beta = np.linspace(-1, 1, 10)
    L_g, mu_g = known.g.L, known.g.mu
    problem = known.sum()
    phi = Model(problem.g, beta, alpha, L_g=L_g, mu_g=mu_g)
    agm = gt.inner.AGM()
    state = agm.init(phi, np.ones(10), None)
    x = v = np.ones(10)
    theta = 1.0
    q = (alpha + mu_g) / (L_g + alpha)
    for _ in range(60):
        state = agm.step(phi, state)
        composite = (L_g * v - known.g.grad(v) - beta) / (L_g + alpha)
        whole = v - (beta + alpha * v + known.g.grad(v)) / (L_g + alpha)
        np.testing.assert_allclose(composite, whole, atol=1e-12)
        theta_next = np.roots([1.0, theta**2 - q, -(theta**2)]).max()
        v = whole + theta * (1 - theta) / (theta**2 + theta_next) * (whole - x)
        x, theta = whole, theta_next
        np.testing.assert_allclose(state.v, v, atol=1e-11)
        np.testing.assert_allclose(state.grad_g, known.g.grad(v), atol=1e-11)


@pytest.mark.parametrize("sparse", [False, True])
def test_exact_solves_and_factorises_once(sparse, monkeypatch):
    from scipy import sparse as sp

    known = quadratics()
    Q = sp.csr_array(known.g.Q) if sparse else known.g.Q
    g = gt.Quadratic(Q, b=known.g.b)
    made = []
    factorise = gt.Quadratic._factorise
    monkeypatch.setattr(
        gt.Quadratic, "_factorise", lambda self, a: made.append(a) or factorise(self, a)
    )
    problem = type(known)(known.h, g, known.x_star, 0.0).sum()
    for k in range(5):
        phi = Model(problem.g, beta=np.full(24, float(k)), alpha=2.0, L_g=1.0)
        run = solve_model(gt.inner.Exact(), phi, X0, lambda *_: False)
        residual = phi.beta + 2.0 * run.v + g.grad(run.v)
        assert norm(residual) <= 1e-11
        np.testing.assert_allclose(run.grad_g, g.grad(run.v), atol=1e-11)
    assert made == [2.0]
    assert problem.ledger.calls["g.prox"] == 5
    assert problem.ledger.calls["g.grad"] == 0


@pytest.mark.parametrize("known_L", [True, False])
def test_inner_lbfgs_solves_the_model(known_L):
    known = logistic()
    problem = known.sum()
    phi = Model(problem.g, np.linspace(-1, 1, 10), 0.05, L_g=known.g.L if known_L else None)
    run = solve_model(gt.inner.LBFGS(), phi, np.zeros(10), lambda v, g, r: norm(r) <= 1e-9)
    assert run.accepted
    residual = phi.beta + 0.05 * run.v + known.g.grad(run.v)
    assert norm(residual) <= 1e-9
    assert problem.ledger.calls["g.grad"] <= 60
    assert problem.ledger.calls["g.value"] == 0


@pytest.mark.parametrize("memory", [1, 3])
def test_inner_lbfgs_keeps_the_newest_pairs(memory):
    """Step and change of the gradient of g, of the last `memory` steps, oldest first."""
    known = quadratics()
    phi = Model(known.sum().g, np.linspace(-1, 1, 24), 0.05, L_g=known.g.L)
    method = gt.inner.LBFGS(memory=memory)
    state = method.init(phi, X0, None)
    steps = []
    for _ in range(8):
        before, state = state, method.step(phi, state)
        steps.append((state.v - before.v, state.grad_g - before.grad_g))
        assert steps[-1][0].any()
        expected = steps[-memory:]
        for kept, (s, y) in zip(state.pairs, expected, strict=True):
            np.testing.assert_array_equal(kept, (s, y))
        for (s_phi, y_phi, sy), (s, y) in zip(state.curved, expected, strict=True):
            np.testing.assert_array_equal(s_phi, s)
            np.testing.assert_allclose(y_phi, y + 0.05 * s, atol=1e-12 * norm(y))
            assert sy == pytest.approx(s @ (y + 0.05 * s))
    warm = gt.inner.LBFGS(memory=1).init(phi, X0, None, state)
    np.testing.assert_array_equal(warm.pairs, state.pairs[-1:])
