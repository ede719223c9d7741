"""Prices in SAE-QN: what may be spent on g, how accurate inner runs are, and the plain model."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from geartrain.methods.quasi_newton import learning
from geartrain.methods.quasi_newton.contest import Contest
from geartrain.methods.quasi_newton.learning import accepted_radius
from geartrain.methods.quasi_newton.tuning import DEFAULT
from problems import Known, states

# Inner runs that hardly ever end of themselves, and models that may be tried at any price.
WASTEFUL = replace(DEFAULT, eta=1e-14, eta_other=1e-14, finest=1e-14, alone=0.0, start_plain=0.0)
N = 12


def losses(convex=True, scale=1.0):
    """Two logistic losses and a small ridge, as terms that answer values and gradients alone."""
    rng = np.random.default_rng(0)
    h, g = (
        gt.LinearModel(a * rng.standard_normal((40, N)), rng.choice([-1.0, 1.0], 40), "logistic")
        for a in (3.0, 1.0)
    )
    terms = (scale * h, scale * (g + gt.Quadratic(1e-2 * np.eye(N))))
    return Known(
        *(
            gt.Term(term.value_and_grad, n=N, convex=said)
            for term, said in zip(terms, (convex, True), strict=True)
        ),
        np.zeros(N),
        0.0,
    )


def asked(problem):
    """Calls of h, and gradients and proximal steps of g."""
    calls = problem.ledger.calls
    return calls["h.grad"], calls["g.grad"] + calls["g.prox"]


def wasted(monkeypatch, rho, convex, tuning, steps=25):
    """The states of a run that always takes a model with inner runs, as a lying score would."""
    monkeypatch.setattr(Contest, "favourite", lambda *_: 0)
    monkeypatch.setattr(Contest, "coarsest", lambda *_: 0.0)
    problem = losses(convex).sum(L_h=None, L_g=None)
    method = gt.methods.SAEQN(rho=rho, tuning=tuning)
    state, out = method.init(problem, np.zeros(N)), []
    for _ in range(steps):
        out.append((state, *asked(problem)))
        state = method.step(problem, state)
    assert state.guard.steps == state.guard.failures == 0  # no proven step
    return out


@pytest.mark.parametrize("convex", [True, False])
@pytest.mark.parametrize("rho", [0.3, 1.0, 3.0, 10.0, 40.0])
def test_what_is_spent_on_g_is_bounded_whatever_the_models_are_worth(monkeypatch, rho, convex):
    """N_g <= N_h + (rho + 1) N_h + 3 max(10, rho), along the whole run."""
    for state, N_h, N_g in wasted(monkeypatch, rho, convex, WASTEFUL):
        assert state.guard.calls == N_h
        assert state.extra == N_g - N_h
        assert N_g <= (rho + 2.0) * N_h + 3.0 * max(10.0, rho)


def test_points_that_cuts_spare_are_in_the_account(monkeypatch):
    """g is asked at trial points that are given up before h is asked there."""
    spared = []
    foreseen = learning.foreseen
    monkeypatch.setattr(learning, "foreseen", lambda *a: spared.append(1) or foreseen(*a))
    rng = np.random.default_rng(3)
    A = 20.0 * rng.standard_normal((8, 3))
    for rho in (3.0, 30.0):
        h = gt.Term(gt.LogSumExp(A).value_and_grad, n=3, convex=True)
        g = gt.Term(gt.Quadratic(np.diag([1e-4, 1e-2, 1.0])).value_and_grad, n=3, convex=True)
        problem = Known(h, g, np.zeros(3), 0.0).sum(L_h=None, L_g=None)
        method = gt.methods.SAEQN(rho=rho)
        state = method.init(problem, 5.0 * np.ones(3))
        while not state.stalled and state.k < 12 and not state.guard.steps:
            state = method.step(problem, state)
            N_h, N_g = asked(problem)
            assert state.extra == N_g - N_h
        assert spared
        spared.clear()


def test_without_the_bound_such_a_run_spends_more(monkeypatch):
    *_, (_, N_h, N_g) = wasted(monkeypatch, 1.0, True, replace(WASTEFUL, extra=math.inf))
    assert N_g > 3.0 * N_h + 30.0


def test_where_only_calls_of_h_count_nothing_is_bounded():
    assert DEFAULT.allowance(math.inf, 1, 1e9) == math.inf
    assert DEFAULT.for_quadratic_h().allowance(1.0, 1, 1e9) == math.inf
    assert DEFAULT.allowance(3.0, 7, 5.0) == 4.0 * 7 + 30.0 - 5.0


def contest(error, pace):
    return replace(Contest.between(DEFAULT.convex_models), error=error, pace=pace)


@pytest.mark.parametrize("pace", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("error", [0.01, 0.3])
def test_inner_runs_are_as_accurate_as_pays(error, pace):
    """No other number of gradients of g reduces log |grad f| more per unit of the bill."""
    before = 1.0
    for rho in (1.0, 3.0, 10.0, 100.0, 1e4):
        eta = contest(error, pace).coarsest(rho)
        k = round(math.log(eta) / math.log(pace))
        assert eta == pytest.approx(pace**k)
        best = -math.log(error + eta) / (rho + 1.0 + k)
        for other in (k - 1, k + 1):
            assert -math.log(error + pace**other) / (rho + 1.0 + other) <= best
        assert eta <= before  # the dearer h, the more accurate
        before = eta
    assert before < 0.1 * error


def test_the_pace_of_inner_runs_is_measured():
    before = contest(0.1, 0.5)
    assert before.ran(0.5**6, 6).pace == pytest.approx(0.5)
    assert before.ran(0.9**4, 4).pace == pytest.approx(math.sqrt(0.45))
    assert before.ran(0.0, 3) is before and before.ran(0.1, 0) is before
    assert before.ran(7.0, 1).pace < 1.0


def looked_at(monkeypatch):
    """The list to which every step to a trial point is appended."""
    steps = []
    for name in ("accepted", "rejected"):
        learn = getattr(learning, name)

        def look(state, step, *rest, learn=learn):
            steps.append(step)
            return learn(state, step, *rest)

        monkeypatch.setattr(learning, name, look)
    return steps


def test_a_rejected_point_is_not_tried_again(monkeypatch):
    """The next trial point from the same p is at most 0.9 as far away."""
    rng = np.random.default_rng(2)
    A = 10.0 * rng.standard_normal((30, 6))
    h = gt.LinearModel(A, np.sign(A @ rng.standard_normal(6)), "squared_hinge")
    g = gt.Quadratic(1e-4 * np.diag(np.geomspace(0.1, 1.0, 6)))
    problem = Known(h, g, np.zeros(6), 0.0).sum()
    steps = looked_at(monkeypatch)
    plain = replace(DEFAULT, convex_models=(("plain", 50),))
    states(gt.methods.SAEQN(rho=3.0, tuning=plain), problem, np.zeros(6), 25)
    rejected = 0
    for first, second in itertools.pairwise(steps):
        if second.p is first.p:
            rejected += 1
            assert second.length <= 0.9 * first.length * (1.0 + 1e-12)
    assert rejected >= 3


@pytest.mark.parametrize("convex", [True, False])
def test_the_first_plain_step_has_length_one_in_any_unit(monkeypatch, convex):
    """As that of SciPy's L-BFGS, however large or small f is."""
    points, steps = [], looked_at(monkeypatch)
    for scale in (1.0, 2.0**-40):
        problem = losses(convex, scale).sum(L_h=None, L_g=None)
        steps.clear()
        run = states(gt.methods.SAEQN(rho=1.0), problem, np.zeros(N), 6)
        assert steps[0].length == pytest.approx(1.0)
        points.append(np.array([state.at.v for state in run]))
    assert np.allclose(*points, rtol=1e-6, atol=1e-8)


def test_the_radius_after_a_step_that_was_far_too_short():
    assert accepted_radius(1.0, True, 1e-3, 1.0, ahead=50.0) == 1.0
    assert accepted_radius(1e-9, True, 1e-9, 1.0, ahead=50.0) == 4e-9
    assert accepted_radius(1e-9, True, 1e-9, 1.0, ahead=1e8) == pytest.approx(1e-3)
    assert accepted_radius(1e-9, True, 1e-9, 0.1, ahead=1e8) == 5e-10
    assert accepted_radius(math.inf, False, 1e-9, 0.5, ahead=3.0) == 1e-8
    assert accepted_radius(math.inf, False, 1e-9, 0.5, ahead=1e6) == pytest.approx(1e-3)
