"""What "auto" chooses, and that it says so."""

import itertools

import numpy as np
import pytest

import geartrain as gt
from geartrain.lab.problems import log_density
from geartrain.methods.auto import Auto
from geartrain.methods.baselines.scipy_lbfgs import ScipyLBFGS
from geartrain.methods.choice import Prices, Reason, Tuning
from geartrain.planner import choose
from geartrain.problem import norm
from problems import logistic, quadratics

X0 = np.ones(10)


def solve(prices, known=None, **options):
    known = logistic() if known is None else known
    x0 = np.ones(known.x_star.size)
    res = gt.minimize(known.h, known.g, x0, prices=prices, tol=1e-7, **options)
    assert res.success, res.message
    assert norm(known.grad(res.x)) <= 1e-7 * norm(known.grad(x0)) * (1 + 1e-6)
    return res


def choice(res):
    """What was chosen, and what happened in the run."""
    return res.state.state.choice


def reasons(res):
    """Of the changes of method."""
    return [change.reason for change in choice(res).changes]


def test_prices_alike_are_not_separated():
    res = solve({"h.grad": 1.0, "g.grad": 1.0})
    assert choice(res).reason is Reason.ALIKE and reasons(res) == []
    assert res.calls["h.grad"] == res.calls["g.grad"]


def test_an_expensive_h_is_asked_rarely():
    known = quadratics(L_g=1e4, mu=1e-2)
    res = solve({"h.grad": 1000.0, "g.grad": 1.0}, known)
    assert choice(res).reason is Reason.EXPENSIVE and not choice(res).exchanged
    assert isinstance(choice(res).method, gt.SAEQN)
    assert isinstance(choice(res).runner_up, gt.ScipyLBFGS)
    alike = solve({"h.grad": 1.0, "g.grad": 1.0}, known)
    assert res.calls["h.grad"] < 0.5 * alike.calls["h.grad"]


def test_an_expensive_g_changes_the_roles():
    known = quadratics(L_g=1.0, L_h=1e4, mu=1e-2)
    res = solve({"h.grad": 1.0, "g.grad": 500.0}, known)
    assert choice(res).reason is Reason.EXPENSIVE and choice(res).exchanged
    assert res.calls["g.grad"] < res.calls["h.grad"]
    assert res.constants["L_h"].value == known.h.L and res.constants["L_g"].value == known.g.L


def test_the_bill_is_what_was_asked():
    res = solve({"h.grad": 50.0, "g.grad": 2.0})
    bill = 50.0 * res.calls["h.grad"] + 2.0 * res.calls["g.grad"]
    assert f"= {bill:.4g}" in res.plan
    even = bill / 52.0
    assert f"fewer than {even:.0f} evaluations" in res.plan
    # The one test of the prose; all others look at the reasons.
    assert res.plan.startswith("sae-qn: a gradient of h costs 25 times one of the other term")


def timed(term, clock, seconds):
    """The term, with answers that take `seconds`."""

    def both(x):
        clock.pass_(seconds)
        return term.value_and_grad(x)

    return gt.Term(both, n=10)


def test_measured_prices(clock):
    """h is slow: it is asked rarely, without being told anything."""
    known = logistic()
    res = gt.minimize(timed(known.h, clock, 1.0), timed(known.g, clock, 0.01), X0, tol=1e-6)
    assert res.success
    assert choice(res).reason is Reason.MEASURED and reasons(res) == []
    assert res.calls["h.grad"] < res.calls["g.grad"]


def test_measured_prices_that_are_alike_change_the_plan(clock):
    known = logistic()
    res = gt.minimize(timed(known.h, clock, 0.15), timed(known.g, clock, 0.1), X0, tol=1e-6)
    assert res.success
    assert reasons(res) == [Reason.CHEAP]
    assert isinstance(choice(res).current, ScipyLBFGS)
    assert any("method changed" in note for _, note in res.history.notes)


def shards(alike, seed=5):
    """h = f - f_1, g = f_1 and a ridge; f_1 half of the data, or of other data."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((2000, 30))
    y = np.where(A @ rng.standard_normal(30) + 3.0 * rng.standard_normal(2000) > 0, 1.0, -1.0)
    if not alike:
        A[:1000] *= np.geomspace(0.1, 1.0, 30)
    f, f_1 = gt.LinearModel(A, y), gt.LinearModel(A[:1000], y[:1000])
    return f - f_1, gt.LinearModel(A[:1000], y[:1000], l2=1e-3)


@pytest.mark.parametrize(
    ("alike", "rho", "left"), [(True, 3.0, False), (False, 3.0, True), (False, 20.0, True)]
)
def test_a_difference_is_tried_and_left_where_its_parts_disagree(alike, rho, left):
    h, g = shards(alike)
    res = gt.minimize(h, g, prices={"h.grad": rho, "g.grad": 1.0}, tol=1e-7)
    assert res.success
    assert choice(res).reason is Reason.EXPENSIVE
    assert (Reason.NOT_SMALL in reasons(res)) == left
    sure = gt.minimize(h, g, prices={"h.grad": 50.0, "g.grad": 1.0}, tol=1e-7)
    assert Reason.NOT_SMALL not in reasons(sure)


def test_below_a_ratio_of_two_nothing_is_tried():
    h, g = shards(True)
    res = gt.minimize(h, g, prices={"h.grad": 1.9, "g.grad": 1.0}, tol=1e-7)
    assert choice(res).reason is Reason.ALIKE


def test_a_convex_h_is_left_at_small_ratios_where_it_bends_more_than_g():
    known = quadratics(L_g=1.0, L_h=1e3, mu=1e-2)
    res = solve({"h.grad": 3.0, "g.grad": 1.0}, known)
    assert reasons(res) == [Reason.NOT_SMALL]
    assert Reason.NOT_SMALL not in reasons(solve({"h.grad": 6.0, "g.grad": 1.0}, known))


def test_inner_runs_that_are_cut_off_change_the_plan():
    """Two, and before g's part of the bill is out of hand."""
    h, g = log_density(n=100, p=1200)
    res = gt.minimize(h, g, prices={"h.grad": 6.0, "g.grad": 1.0}, tol=1e-5)
    assert res.success
    assert reasons(res)[0] is Reason.CUT_OFF
    k, note = res.history.notes[0]
    assert "gradients of g for one of h" in note
    n_h, n_g = res.history["h.grad"][k - 1], res.history["g.grad"][k - 1]
    assert 2 * 120 <= n_g < Tuning().out_of_hand * 6.0 * n_h


def test_a_bill_that_gets_out_of_hand_changes_the_plan():
    """g so badly conditioned that inner runs take thousands of gradients."""
    n = 200
    g = gt.Quadratic(np.diag(np.geomspace(1e-6, 1e6, n)), b=np.ones(n))
    h = gt.LinearModel(np.eye(n), np.linspace(-1, 1, n), loss="squared")
    stop = gt.stop.any_of(gt.stop.Gradient(rel=1e-9), gt.stop.Calls({"h.grad": 300}))
    res = gt.minimize(h, g, prices={"h.grad": 6.0, "g.grad": 1.0}, stop=stop)
    assert reasons(res)[0] in (Reason.OUT_OF_HAND, Reason.CUT_OFF)


@pytest.mark.parametrize("prices", [{"h.grad": 1.0, "g.grad": 1.0}, {"h.grad": 6.0, "g.grad": 1.0}])
def test_where_lbfgs_stalls_sae_qn_goes_on(prices, monkeypatch):
    plain = ScipyLBFGS.solve

    def stalls(self, problem, x0, report):
        seen = itertools.count()
        plain(self, problem, x0, lambda state: report(state) or next(seen) >= 3)

    monkeypatch.setattr(ScipyLBFGS, "solve", stalls)
    known = logistic()
    chosen = choose(known.sum(), "auto", Prices(prices))
    method = Auto(chosen, Prices(prices), Tuning(out_of_hand=0.0))  # out of hand at once
    res = solve(None, known, method=method)
    assert reasons(res)[-1] is Reason.STALLED and choice(res).settled
    assert isinstance(choice(res).current, gt.SAEQN)
    assert [note for _, note in res.history.notes][-1] == "method changed: L-BFGS stalled"
    assert len(res.history["f"]) == res.nit + 1


def test_terms_without_gradients():
    """A g of partial derivatives only: the inner method follows from what it answers."""
    known = quadratics()
    g = gt.Term(coord=known.g.coord, L_coord=known.g.L_coord, L=known.g.L, n=24)
    res = gt.minimize(known.h, g, np.ones(24), tol=1e-5)
    assert res.success
    assert res.calls["g.coord"] > 0
    assert choice(res).reason is Reason.NO_GRADIENTS


def test_bad_prices():
    with pytest.raises(ValueError, match=r"the price of 'h.grad' must be positive"):
        solve({"h.grad": 0.0})
