"""The theorems along runs: bounds at every iteration, potentials that do not grow, budgets."""

import itertools
import math

import numpy as np
import pytest

import geartrain as gt
from problems import PROBLEMS, quadratics, states

INNER = {"exact": gt.inner.Exact, "agm": gt.inner.AGM, "lbfgs": gt.inner.LBFGS}


CASES = [(p, i) for p in PROBLEMS for i in INNER if p == "quadratic" or i != "exact"]
SAE_CASES = [(*case, sigma) for case, sigma in zip(CASES, itertools.cycle((1.0, 0.5)))]


# Paper: equation (24)
@pytest.mark.parametrize(("problem", "inner", "sigma"), SAE_CASES)
def test_sae_bound_and_potential(problem, inner, sigma):
    """f(y_N) - f* <= R^2/(2 A_N), A_N >= (N + 1)^2/(4 L), eq. (24); A gap + |z - x*|^2/2 falls."""
    make, x0 = PROBLEMS[problem]
    known = make()
    run = states(gt.SAE(sigma=sigma, inner=INNER[inner]()), known.sum(), x0, 30)
    R2 = float(np.sum((x0 - known.x_star) ** 2))
    potential = R2 / 2
    for N, state in enumerate(run[1:], 1):
        gap = known.f(state.y) - known.f_star
        assert gap <= R2 / (2 * state.A) + 1e-12
        assert state.A >= (N + 1) ** 2 / (4 * state.L) * (1 - 1e-12)
        new = state.A * gap + float(np.sum((state.z - known.x_star) ** 2)) / 2
        assert new <= potential * (1 + 1e-9) + 1e-9
        potential = new


@pytest.mark.parametrize(("problem", "inner"), CASES)
@pytest.mark.parametrize("name", ["sc-sae", "afb"])
def test_strongly_convex_potential_and_growth(problem, inner, name):
    """A gap + (1 + mu A)|z - x*|^2/2 falls, and A grows by 1/(1 - s)."""
    make, x0 = PROBLEMS[problem]
    known = make()
    if name == "afb":
        method, mu = gt.methods.AFB(inner=INNER[inner]()), known.h.mu + known.g.mu
    else:
        method, mu = gt.methods.SCSAE(inner=INNER[inner]()), known.mu
    run = states(method, known.sum(), x0, 40)
    R2 = float(np.sum((x0 - known.x_star) ** 2))
    potential = R2 / 2
    for old, state in itertools.pairwise(run):
        gap = known.f(state.x) - known.f_star
        assert gap <= R2 / (2 * state.A) + 1e-11
        new = state.A * gap + (1 + mu * state.A) * np.sum((state.z - known.x_star) ** 2) / 2
        assert new <= potential * (1 + 1e-9) + 1e-7
        potential = new
        eta = (1 - 0.25) / (state.L) if name == "afb" else 1 / state.L
        if old.A > 0:
            assert old.A / (1 - math.sqrt(mu * eta / (1 + mu * eta))) * (1 - 1e-9) <= state.A


def test_sc_sae_takes_a_non_convex_h():
    """h indefinite with eigenvalues down to -0.9 L_h, f strongly convex."""
    rng = np.random.default_rng(3)
    n = 20
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    H = (U * np.linspace(-0.9, 1.0, n)) @ U.T
    G = (U * np.geomspace(1.0, 200.0, n)) @ U.T
    h, g = gt.Quadratic((H + H.T) / 2), gt.Quadratic((G + G.T) / 2, b=rng.standard_normal(n))
    assert not h.convex
    x_star = np.linalg.solve(h.Q + g.Q, g.b)
    known = type(quadratics())(h, g, x_star, 0.1)
    x0 = np.ones(n)
    run = states(gt.methods.SCSAE(), known.sum(), x0, 60)
    potential = np.sum((x0 - x_star) ** 2) / 2
    for state in run[1:]:
        assert state.middle_steps == 1
        gap = known.f(state.x) - known.f_star
        new = state.A * gap + (1 + 0.1 * state.A) * np.sum((state.z - x_star) ** 2) / 2
        assert new <= potential * (1 + 1e-9) + 1e-8
        potential = new
    with pytest.raises(ValueError, match="AFB needs a convex h"):
        gt.minimize(h, g, method="afb")


# Paper: Algorithm 2
@pytest.mark.parametrize("restart", [None, gt.methods.GradientTest()])
def test_r_sae_halves_the_distance_each_stage(restart):
    known = quadratics(L_g=20.0, mu=0.05)
    x0 = known.x_star + 1.0
    run = states(gt.methods.RSAE(restart=restart), known.sum(), x0, 80)
    ends = [a for a, b in itertools.pairwise(run) if b.since == 1]
    distances = [float(np.sum((s.y - known.x_star) ** 2)) for s in ends]
    assert len(distances) >= 4
    for far, near in itertools.pairwise(distances):
        assert near <= far / 2 or near < 1e-20


# Paper: Theorem 3
def test_gmco_contracts_as_theorem_2_says():
    """F(zeta_K) - F* <= exp(-K mu/(4 L_h)) (F(zeta_0) - F*), here with L = 0 and F = f."""
    known = quadratics(mu=0.05)
    x0 = np.ones(24)
    run = states(gt.methods.GMCO(inner=gt.inner.Exact()), known.sum(), x0, 50)
    start = known.f(x0) - known.f_star
    for k, state in enumerate(run):
        bound = math.exp(-k * known.mu / (4 * known.h.L)) * start
        assert known.f(state.zeta) - known.f_star <= bound * (1 + 1e-9)


def test_ags_takes_a_bounded_number_of_sliding_steps():
    """L_h = 5e-15 beside L_g = 1 would mean 14 million of them in one iteration."""
    h, g = gt.Quadratic(5e-15 * np.eye(3)), gt.Quadratic(np.eye(3), np.ones(3))
    res = gt.minimize(h, g, method="ags", max_iter=1, tol=1e-12)
    assert res.calls["g.grad"] <= 10_002


def test_fgm_and_ags_bounds():
    known = quadratics(L_g=300.0)
    x0 = known.x_star + 1.0
    R2 = float(np.sum((x0 - known.x_star) ** 2))
    L = known.h.L + known.g.L
    for k, state in enumerate(states(gt.methods.FGM(mu=0.0), known.sum(), x0, 80)):
        if k:
            assert known.f(state.x) - known.f_star <= 2 * L * R2 / (k + 1) ** 2
    for k, state in enumerate(states(gt.methods.AGS(mu=0.0), known.sum(), x0, 30)):
        if k:
            assert known.f(state.x_bar) - known.f_star <= 15 * known.h.L * R2 / (k * (k + 1))
