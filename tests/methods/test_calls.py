"""Exact numbers of calls: nothing is asked twice."""

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status
from problems import logistic, quadratics, states

X0 = np.ones(10)


@pytest.fixture
def problem():
    return logistic().sum()


# Paper: Algorithm 1
def test_sae_asks_h_once_more_than_it_has_middle_steps(problem):
    """Two gradients of h for an iteration with one middle step; one less at a start."""
    run = states(gt.SAE(), problem, X0, 20)
    middle = [s.middle_steps for s in run[1:]]
    assert problem.ledger.calls["h.grad"] == 1 + sum(middle) + (len(middle) - 1)


def test_sae_with_large_L_costs_two_gradients_of_h(problem):
    """L = 2 L_h/sigma: the first middle step always passes."""
    L = 2 * problem.L_h.value / 0.5
    run = states(gt.SAE(L=L), problem, X0, 20)
    assert all(s.middle_steps == 1 for s in run[1:])
    assert problem.ledger.calls["h.grad"] == 2 * 20


def test_restarts_are_free(problem):
    """After a restart x = y and both gradients are known."""
    rule = gt.methods.FixedPeriod(5)
    run = states(gt.methods.RSAE(restart=rule), problem, X0, 20)
    starts = sum(s.since == 1 for s in run[1:])
    assert starts == 4
    middle = sum(s.middle_steps for s in run[1:])
    assert problem.ledger.calls["h.grad"] == 1 + middle + (20 - starts)


def test_sc_sae_costs_two_gradients_of_h(problem):
    run = states(gt.methods.SCSAE(), problem, X0, 20)
    assert all(s.middle_steps == 1 for s in run[1:])
    assert problem.ledger.calls["h.grad"] == 2 * 20


@pytest.mark.parametrize(
    "method", [gt.methods.AFB(), gt.methods.Restarted(gt.methods.AFB(), gt.methods.GradientTest())]
)
def test_afb_costs_one_gradient_of_h(problem, method):
    run = states(method, problem, X0, 20)
    assert problem.ledger.calls["h.grad"] == 20
    # One gradient of g per step of AGM, and one at the start of each inner run.
    inner = sum(s.inner_steps for s in run[1:])
    assert problem.ledger.calls["g.grad"] == inner + 20


def test_inner_gradients_of_sae(problem):
    """Inner runs start from a known gradient except at a new centre x."""
    from geartrain.methods import gmco

    steps = []
    solve = gmco.solve_model

    def counting(*args, **kwargs):
        run = solve(*args, **kwargs)
        steps.append(run.steps)
        return run

    gmco.solve_model = counting
    try:
        run = states(gt.SAE(), problem, X0, 12)
    finally:
        gmco.solve_model = solve
    assert len(steps) == sum(s.middle_steps for s in run[1:])
    assert problem.ledger.calls["g.grad"] == 1 + sum(steps) + 11


def test_gmco_costs_one_gradient_of_h(problem):
    states(gt.methods.GMCO(), problem, X0, 15)
    assert problem.ledger.calls["h.grad"] == 16


def test_fgm_and_lbfgs_ask_both_terms_alike(problem):
    states(gt.methods.FGM(), problem, X0, 25)
    assert problem.ledger.calls["h.grad"] == problem.ledger.calls["g.grad"] == 26
    known = logistic()
    res = gt.minimize(known.h, known.g, X0, method="lbfgs", tol=1e-6)
    assert res.success
    assert res.calls["h.grad"] == res.calls["g.grad"] >= res.nit + 1


def test_ags_asks_g_T_times_as_often():
    known = quadratics(L_g=100.0)
    problem = known.sum()
    states(gt.methods.AGS(mu=0.0), problem, np.ones(24), 12)
    T = int(np.ceil(np.sqrt(known.g.L / known.h.L)))
    assert problem.ledger.calls["h.grad"] == 12
    assert problem.ledger.calls["g.grad"] == 12 * T


@pytest.mark.parametrize("method", ["r-sae", "afb", "ags", "lbfgs"])
def test_watching_changes_no_count(method):
    """History, progress, callbacks, values: none of them is counted."""
    known = logistic()
    stop = gt.stop.Calls({"h.grad": 20})  # far above the floor of rounding errors
    plain = gt.minimize(known.h, known.g, X0, method=method, stop=stop)
    seen = []
    watched = gt.minimize(
        known.h,
        known.g,
        X0,
        method=method,
        stop=gt.stop.any_of(gt.stop.Value(-1e300), stop),
        callback=lambda intermediate_result: seen.append(intermediate_result.nit),
        progress=True,
    )
    # What may differ is res.fun and f(x0), which the watched run knows.
    for key in plain.calls:
        assert plain.calls[key] - watched.calls[key] in ((0, 1, 2) if "value" in key else (0,))
    assert seen == list(range(watched.nit + 1))
    assert watched.calls["h.value"] == watched.calls["g.value"] == 0
    assert np.array_equal(watched.history["h.grad"], np.sort(watched.history["h.grad"]))
    assert watched.history["h.grad"][-1] == watched.calls["h.grad"]


def test_calls_of_a_failed_line_search_are_in_a_last_row():
    """Where no step lowers f, as at the floor of rounding errors, SciPy reports no iterate."""
    asked, seen = [], []

    def value_and_grad(x):
        asked.append(x.copy())
        return 1e-3 * abs(x).sum(), np.ones(10)

    res = gt.minimize(
        gt.Term(value_and_grad=value_and_grad, L=1.0),
        gt.Quadratic(np.zeros((10, 10))),
        0.0 * X0,
        method="lbfgs",
        callback=lambda intermediate_result: seen.append(intermediate_result.nit),
    )
    assert res.status is Status.STALLED and seen == list(range(res.nit + 1))
    assert res.history["h.grad"][-1] == res.calls["h.grad"] == len(asked)
    assert list(res.history["h.grad"]) == [1, len(asked)] and len(asked) > 10
    assert not res.x.any()
    assert len(np.unique(asked, axis=0)) == len(asked)  # no point is evaluated twice


def test_the_gradient_test_of_afb_is_counted_once():
    """AFB knows a bound only: the last iteration verifies it with one gradient of each term."""
    known = logistic()
    res = gt.minimize(known.h, known.g, X0, method="afb", tol=1e-6)
    assert res.success
    assert res.calls["h.grad"] == res.nit + 1
    assert np.linalg.norm(known.grad(res.x)) <= 1e-6 * np.linalg.norm(known.grad(X0))
