"""SAE-QN where the answers are not what they are said to be: noise, and an h that is not convex."""

from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status
from geartrain.geometry import EUCLIDEAN
from geartrain.lab.problems import log_density
from geartrain.methods.quasi_newton.doubt import Doubt
from geartrain.methods.quasi_newton.memory import Memory, Pair
from geartrain.methods.quasi_newton.models import Shelf
from geartrain.methods.quasi_newton.step import Step
from geartrain.methods.quasi_newton.terms import CountedTerms
from problems import logistic, quadratics


def noisy(term, level, values=True, seed=0):
    """The term with noise of the relative size `level` in its gradients."""
    rng = np.random.default_rng(seed)

    def answer(x):
        value, grad = term.value_and_grad(x)
        e = rng.standard_normal(grad.size)
        return value, grad + level * np.linalg.norm(grad) * e / np.linalg.norm(e)

    if values:
        return gt.Term(answer, n=term.n, convex=True)
    return gt.Term(grad=lambda x: answer(x)[1], n=term.n, convex=True)


def weak_ridge():
    rng = np.random.default_rng(2)
    A = rng.standard_normal((300, 30)) * np.geomspace(0.1, 3.0, 30)
    y = np.where(A @ rng.standard_normal(30) + rng.standard_normal(300) > 0, 1.0, -1.0)
    return gt.LinearModel(A, y), gt.Quadratic(1e-4 * np.eye(30))


CASES = {
    "quadratics": lambda: (quadratics().h, quadratics().g),
    "logistic": lambda: (logistic().h, logistic().g),
    "weak ridge": weak_ridge,
    "log-density": lambda: log_density(n=30, p=300),
}


@pytest.mark.parametrize(("level", "values"), [(1e-4, True), (1e-2, False)])
@pytest.mark.parametrize("case", CASES)
def test_noise_ends_near_its_floor_with_its_own_status(case, level, values):
    h, g = CASES[case]()
    x0, method = np.ones(h.n), gt.methods.SAEQN(rho=10.0)  # no measured prices
    runs = [
        gt.minimize(noisy(h, level, values, seed), g, x0, method=method, tol=1e-12, max_iter=500)
        for seed in range(7)
    ]
    start = h.grad(x0) + g.grad(x0)
    for res in runs:
        assert res.status is Status.NOISE, res.message
        assert not res.success and "Noise" in res.message and "Rounding" not in res.message
        grad_h = h.grad(res.x)
        true, floor = grad_h + g.grad(res.x), level * np.linalg.norm(grad_h)
        assert np.linalg.norm(true) <= max(10.0 * floor, 3.0 * level * np.linalg.norm(start))


@pytest.mark.parametrize("level", [1e-4, 1e-2])
def test_noise_that_stops_lbfgs_stops_sae_qn_after_it(level):
    """What f fell before the change of method counts: there is nothing left to gain."""
    rng = np.random.default_rng(79)
    A, b = rng.standard_normal((4, 2)) * np.array([0.03, 1.0]), 3.0 * rng.standard_normal(4)

    def robust(x):
        r = np.abs(A @ x - b)
        return float((r + np.log1p(np.exp(-2.0 * r))).sum()), A.T @ np.tanh(A @ x - b)

    h = gt.Term(robust, n=2, convex=True)
    g = gt.Term(lambda x: (50.0 * float(x @ x), 100.0 * x), n=2, convex=True)
    options = {"prices": {"h.grad": 1.0, "g.grad": 1.0}, "tol": 1e-9, "max_iter": 1000}
    runs = [gt.minimize(noisy(h, level, seed=k), g, np.ones(2), **options) for k in range(7)]
    assert all(res.status is Status.NOISE for res in runs)


def test_a_gradient_that_does_not_match_its_values_may_be_what_contradicts():
    known = logistic()
    h = gt.Term(lambda x: (known.h.value(x), -known.h.grad(x)), n=10)
    res = gt.minimize(h, known.g, np.ones(10), method="sae-qn")
    assert res.status is Status.NOISE
    assert "a gradient may not match its values" in res.message


@pytest.mark.parametrize("case", CASES)
def test_exact_answers_are_not_called_noisy(case):
    h, g = CASES[case]()
    for term in (h, gt.Term(grad=h.grad, n=h.n, convex=True)):
        res = gt.minimize(term, g, np.ones(h.n), method="sae-qn", tol=1e-30)
        assert res.status is Status.STALLED
        assert "Rounding" in res.message


def shards(seed=4):
    """h = f - f_1, which is not convex, and g = f_1 with a ridge."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((4000, 60)) * np.geomspace(0.1, 3.0, 60)
    y = np.where(A @ rng.standard_normal(60) + 3.0 * rng.standard_normal(4000) > 0, 1.0, -1.0)
    h = gt.LinearModel(A, y) - gt.LinearModel(A[:400], y[:400])
    return h, gt.LinearModel(A[:400], y[:400], l2=1e-3)


@pytest.mark.parametrize("values", [True, False])
def test_gradients_that_disprove_convexity_are_noticed(values):
    for seed in range(4, 6):
        h, g = shards(seed)
        answer = {"value_and_grad": h.value_and_grad} if values else {"grad": h.grad}
        lie = gt.Term(**answer, n=h.n, convex=True)
        res = gt.minimize(lie, g, method="sae-qn", tol=1e-7)
        told = [note for _, note in res.history.notes if "not convex" in note]
        assert len(told) == 1
        assert res.success, res.message
        assert not res.state.state.convex


@pytest.mark.parametrize("case", CASES)
def test_a_convex_h_is_not_suspected(case):
    h, g = CASES[case]()
    res = gt.minimize(h, g, np.ones(h.n), method="sae-qn", tol=1e-9)
    assert res.success and res.state.state.convex
    assert not any("convex" in note for _, note in res.history.notes)


@pytest.mark.parametrize("case", CASES)
def test_noise_does_not_disprove_convexity(case):
    """Values tell the one from the other."""
    h, g = CASES[case]()
    res = gt.minimize(noisy(h, 1e-2), g, np.ones(h.n), method="sae-qn", tol=1e-12)
    assert res.state.state.convex


def test_a_newest_pair_without_curvature_does_not_make_the_plain_model_infinite():
    """Noise may turn the change of the gradient along a rejected step."""
    s, t = np.eye(4)[:2]
    good, bad = Pair(s, 2.0 * s, 3.0 * s), Pair(t, -t, 0.5 * t)
    for pairs, lam in (([good, bad], 5.0), ([bad], 7.0), ([bad, good], 5.0)):
        memory = Memory.of(pairs, EUCLIDEAN)
        B = Shelf(memory, memory, 0.1, 7.0, EUCLIDEAN)["plain", 50]
        assert B.lam == pytest.approx(lam)
        assert np.isfinite(B(np.ones(4))).all() and np.isfinite(B.solve(np.ones(4), 0.0)).all()


def test_short_steps_look_for_noise_only_where_nothing_shows_progress():
    """From the 15th trial point without progress on, unless values have shown that f falls."""
    doubt = Doubt(1.0, idle=15)
    radii = [replace(doubt, idle=k).radius(2.0) for k in (13, 14, 15, 16, 17)]
    assert radii == [2.0, 2.0, 0.02, 2.0, 0.02]
    assert replace(doubt, falls=3).radius(2.0) == 0.02
    assert replace(doubt, falls=4).radius(2.0) == 2.0


def test_what_counts_as_a_fall_of_f():
    """More than the error of the values, and nothing where there are none."""
    known = logistic()
    problem = known.sum()
    p, v = (CountedTerms(problem).both(x) for x in (np.ones(10), 0.999 * np.ones(10)))
    step = Step.between(p, v, EUCLIDEAN)
    assert p.f > v.f
    after = Doubt(0.0).after(step, 1.0, 1e9, 1.0, EUCLIDEAN)
    assert (after.idle, after.falls) == (1, 1)
    up = Step.between(v, p, EUCLIDEAN)
    assert after.after(up, 1.0, 1e9, 1.0, EUCLIDEAN).falls == 1
    silent = Step.between(replace(p, h=np.nan), replace(v, h=np.nan), EUCLIDEAN)
    assert after.after(silent, 1.0, 1e9, 1.0, EUCLIDEAN).falls == 1
