"""SAE-QN where the first trial points are far away, and h is beyond all measure there."""

import math
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
import problems
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.quasi_newton.along import ExponentialFit, lowest
from geartrain.methods.quasi_newton.guard import Guard
from geartrain.methods.quasi_newton.learning import accepted_radius, shorter
from geartrain.methods.quasi_newton.memory import Memory, Pair
from geartrain.methods.quasi_newton.step import Known, Step
from geartrain.methods.quasi_newton.trial import larger
from geartrain.methods.quasi_newton.tuning import DEFAULT
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


@pytest.mark.parametrize("q", [3.0, 4.0, 6.0])
def test_the_fit_of_a_polynomial_from_far_is_exact(q):
    """u(t) = t^q - a t with a minimiser at 1e-6, seen from t = 0 and t = 1."""
    best = 1e-6
    slope = -q * best ** (q - 1.0)
    fit = ExponentialFit.of(1.0, q).from_far()
    assert fit.rise(0.5) == pytest.approx(q * 0.5 ** (q - 1.0), rel=1e-6)
    assert lowest(slope, [fit]) == pytest.approx(best, rel=1e-4)
    assert lowest(slope, [ExponentialFit.of(1.0, q)]) < 0.1 * best  # what it is for


def test_an_exponential_is_not_taken_for_a_polynomial():
    fit = ExponentialFit.of(math.expm1(30.0) - 30.0, 30.0 * math.expm1(30.0))
    assert fit.from_far() is fit


@pytest.mark.parametrize("seed", range(4))
def test_a_quartic_from_far_needs_no_chain_of_tiny_steps(seed):
    """The first trial point is 1e5 away; the first accepted one is of the right order.

    h is negative and x0 is the origin, so that neither tells the scale of the first step.
    """
    rng = np.random.default_rng(seed)
    A, b, x0 = rng.standard_normal((60, 15)), rng.standard_normal(60), np.zeros(15)
    b += 3.0 * A @ rng.standard_normal(15)

    def quartic(x):
        r = A @ x - b
        return float((r**4).sum() / 240.0) - 1e5, A.T @ r**3 / 60.0

    h = gt.Term(quartic, n=15, convex=True)
    g = gt.Term(lambda x: (5e-4 * float(x @ x), 1e-3 * x), n=15, convex=True)
    first = gt.minimize(h, g, x0, method="sae-qn", max_iter=1)
    res = gt.minimize(h, g, x0, method="sae-qn", tol=1e-9)
    assert res.success and first.calls["h.grad"] > 2  # a trial point was rejected
    assert np.linalg.norm(first.x - x0) > 1e-3 * np.linalg.norm(res.x - x0)


@pytest.mark.parametrize("c", [1e-6, 1.0, 1e6])
def test_the_first_lam_is_that_of_a_loss_with_this_value_and_gradient(c):
    """Exact for c/2 |x - a|^2; without a positive value the origin stands for a.

    Not much less than the curvature of g, since the value of another h may be far from its least.
    """
    a, x0 = np.arange(12.0), np.full(12, 2.0)
    bowl = gt.Term(lambda x: (0.5 * c * float((x - a) @ (x - a)), c * (x - a)), n=12, convex=True)
    below = gt.Term(lambda x: (0.5 * c * float(x @ x) - 1e9 * c, c * x), n=12, convex=True)
    for h in (bowl, below):
        for weight in (1e-9, 1.0, 1e9):
            g = gt.Term(lambda x, w=weight: (0.5 * w * float(x @ x), w * x), n=12, convex=True)
            problem = problems.Known(h, g, a, 0.0).sum(L_h=None, L_g=None)
            want = max(c, 1e-3 * weight)
            assert gt.methods.SAEQN().init(problem, x0).lam == pytest.approx(want, rel=1e-6)
    # where nothing is known about h, a part of the curvature of g
    g = gt.Term(lambda x: (3.5 * float(x @ x) + x.sum(), 7.0 * x + 1.0), n=12, convex=True)
    problem = problems.Known(below, g, a, 0.0).sum(L_h=None, L_g=None)
    assert gt.methods.SAEQN().init(problem, np.zeros(12)).lam == pytest.approx(0.7, rel=1e-6)


def test_a_good_first_lam_spares_rejected_trial_points():
    """Losses on data, from afar, with ridges that tell nothing: the first trial point is lower."""
    accepted = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        A = 10.0 ** rng.uniform(-2.0, 2.0) * rng.standard_normal((40, 6))
        y = np.sign(A @ rng.standard_normal(6))
        h = gt.LinearModel(A, y, loss=("logistic", "squared_hinge")[seed % 2])
        g = gt.Term(lambda x: (5e-5 * float(x @ x), 1e-4 * x), n=6, convex=True)
        res = gt.minimize(h, g, rng.standard_normal(6), method="sae-qn", max_iter=1)
        accepted += res.calls["h.grad"] == 2
    assert accepted >= 14  # 2 of 20 with a part of the curvature of g


def test_the_radius_leaps_where_the_minimum_is_far_ahead():
    """To a hundredth of the way to the minimum that the slopes predict, and at least fourfold."""
    for ahead, R in ((1.0, 8.0), (300.0, 8.0), (1e6, 2e4)):
        assert accepted_radius(2.0, True, 2.0, 1.0, ahead) == R
    assert accepted_radius(10.0, True, 2.0, 1.0, 1.0) == 10.0
    assert accepted_radius(2.0, True, 2.0, 0.1, 1e6) == 1.0
    assert accepted_radius(2.0, True, 2.0, 0.5, 1e6) == 2.0


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


def test_a_radius_beyond_all_measure_falls_by_powers_of_ten():
    """h is e^(40 x), and the step went to where it is e^80."""
    at = [
        Known(
            np.array([x]), np.exp(40 * x), 0.0, np.array([40 * np.exp(40 * x)]), np.array([-80.0])
        )
        for x in (0.0, 2.0)
    ]
    step = Step.between(*at, EUCLIDEAN)
    radii = [shorter(step, step.f.slope, True, True, tries, DEFAULT)[1] for tries in range(4)]
    assert all(0.0 < r <= DEFAULT.longest * step.length for r in radii)
    for tries in (1, 2, 3):
        assert radii[tries] <= 10.0 ** -(tries + 1) * step.length


def with_a_barrier(seed, n=20):
    """Least squares, and sum x - 1e-3 ln x, which is infinite outside of x > 0."""
    rng = np.random.default_rng(seed)
    A, y = rng.standard_normal((2 * n, n)), np.abs(rng.standard_normal(2 * n))

    def misfit(x):
        r = A @ x - y
        return 0.5 * float(r @ r) / n, A.T @ r / n

    def barrier(x):
        if (x <= 0.0).any():
            return math.inf, np.full(n, math.nan)
        return float((x - 1e-3 * np.log(x)).sum()), 1.0 - 1e-3 / x

    return gt.Term(misfit, n=n, convex=True), gt.Term(barrier, n=n, convex=True)


@pytest.mark.parametrize("exchange", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_proven_step_that_leaves_the_domain_does_not_end_the_run(seed, exchange):
    """Every state of a run may be followed by a proven step; most of these end outside."""
    h, g = with_a_barrier(seed)
    x0, method = np.ones(20), gt.methods.SAEQN(rho=10.0)
    problem = problems.Known(*((g, h) if exchange else (h, g)), x0, 0.0).sum(L_h=None, L_g=None)
    lost = 0
    for state in states(method, problem, x0, 40):
        before = dict(problem.ledger.calls)
        tried = method.step(problem, replace(state, tries=DEFAULT.trials))
        asked = problem.ledger.calls["h.grad"] - before["h.grad"]
        assert tried.guard.calls - state.guard.calls == asked and tried.at.f <= state.at.f
        lost += tried.guard.failures > state.guard.failures and tried.guard.L == state.guard.L
    assert lost > 0


def test_after_a_proven_step_outside_the_next_one_is_due_much_later():
    guard = Guard(True, 1.0, calls=100, L_seen=1.0)
    assert guard.is_behind(0.0) and not guard.lost().is_behind(0.0)
    assert guard.lost().called(100).lost().credit == 400


def test_mu_by_the_curvature_along_the_step():
    """In a valley the gradient points across: |grad|/|s| is far more than the curvature along s.

    With it the first mu made the step 50 times shorter than the radius allowed.
    """
    H, grad = np.diag([1e-6, 1e3]), np.array([2e-3, -1e-1])
    long = -np.linalg.solve(H, grad)
    for R in (1.0, 30.0, 1000.0):
        mu = larger(0.0, grad, long, R, EUCLIDEAN)
        length = np.linalg.norm(np.linalg.solve(H + mu * np.eye(2), grad))
        assert R / 1.5 <= length <= 1.5 * R


@pytest.mark.parametrize("seed", range(20))
def test_a_larger_mu_always_leads_into_the_radius(seed):
    """Eight values of mu are tried; |grad|/R is enough for a positive H."""
    rng = np.random.default_rng(seed)
    sizes, grad = 10.0 ** rng.uniform(-8, 4, 6), rng.standard_normal(6) * 10.0 ** rng.uniform(-3, 3)
    mu, s = 0.0, -grad / sizes
    R = np.linalg.norm(s) * 10.0 ** rng.uniform(-9, 0)
    for _ in range(7):
        if np.linalg.norm(s) <= 1.5 * R:
            break
        following = larger(mu, grad, s, R, EUCLIDEAN)
        assert mu < following <= np.linalg.norm(grad) / R
        mu, s = following, -grad / (sizes + following)
    assert np.linalg.norm(s) <= 1.5 * R


@pytest.mark.parametrize("seed", [0, 7, 9])
def test_two_variables_of_very_different_scales(seed):
    """Curvatures 1e8 apart: steps along the valley are as long as the trust radius allows."""
    rng = np.random.default_rng(1000 * seed + 2)
    scales = rng.permutation([1e-2, 1e2])
    A = rng.standard_normal((6, 2))
    y = np.sign(A @ rng.standard_normal(2) + 0.5 * rng.standard_normal(6))
    ridge = 0.01 * scales**2
    g = gt.Term(lambda x: (0.5 * float(x @ (ridge * x)), ridge * x), n=2, convex=True)
    res = gt.minimize(gt.LinearModel(A * scales, y), g, np.zeros(2), method="sae-qn")
    assert res.success
