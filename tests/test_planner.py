"""What "auto" chooses, and that it says so."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

import geartrain as gt
from geartrain.methods.auto import Auto
from geartrain.methods.baselines.scipy_lbfgs import ScipyLBFGS
from geartrain.methods.choice import ChoiceTuning, Prices, Reason
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
    assert isinstance(choice(res).method, gt.methods.SAEQN)
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


@dataclass(frozen=True)
class Seen(gt.methods.State):
    """A state of which `Auto` reads the ratio alone."""

    bend_ratio: float = 0.0


def left(rho, calls, ratio=0.0, convex=True):
    """Why SAE-QN is left after `calls` of h and g, the last step having shown `ratio`."""
    known = quadratics()
    problem = known.sum()
    if not convex:
        problem.h.term = known.h - 0.1 * known.h - known.h
    prices = Prices({"h.grad": rho, "g.grad": 1.0})
    problem.ledger.calls.update(zip(("h.grad", "g.grad"), calls, strict=True))
    chosen = choose(problem, "auto", prices)
    assert chosen.reason is Reason.EXPENSIVE
    change = Auto(chosen, prices).leave(problem, chosen, Seen(ratio))
    return None if change is None else change.reason


@pytest.mark.parametrize(
    ("rho", "calls", "ratio", "convex", "reason"),
    [
        # g's part of the bill, from five gradients of h on
        (10.0, (5, 701), 0.0, True, Reason.OUT_OF_HAND),
        (10.0, (5, 699), 0.0, True, None),
        (10.0, (4, 9999), 0.0, True, None),
        # h is not small beside g: at small ratios of prices always
        (4.9, (9, 9), 10.1, True, Reason.NOT_SMALL),
        (4.9, (9, 9), 9.9, True, None),
        (5.1, (9, 9), 10.1, True, None),
        (4.9, (9, 9), 0.61, False, Reason.NOT_SMALL),
        (4.9, (9, 9), 0.59, False, None),
        # ... and a difference in its first steps at larger ones, too
        (29.0, (3, 9), 1.5, False, Reason.NOT_SMALL),
        (29.0, (3, 9), 1.3, False, None),
        (29.0, (4, 9), 1.5, False, None),
        (31.0, (3, 9), 1.5, False, None),
        (29.0, (3, 9), 1.5, True, None),
    ],
)
def test_when_sae_qn_is_left(rho, calls, ratio, convex, reason):
    assert left(rho, calls, ratio, convex) is reason


def test_below_a_ratio_of_two_nothing_is_tried():
    assert choice(solve({"h.grad": 1.9, "g.grad": 1.0})).reason is Reason.ALIKE
    assert choice(solve({"h.grad": 2.1, "g.grad": 1.0})).reason is Reason.EXPENSIVE


def test_a_convex_h_is_left_at_small_ratios_where_it_bends_more_than_g():
    known = quadratics(L_g=1.0, L_h=1e3, mu=1e-2)
    res = solve({"h.grad": 3.0, "g.grad": 1.0}, known)
    assert reasons(res) == [Reason.NOT_SMALL]
    assert Reason.NOT_SMALL not in reasons(solve({"h.grad": 6.0, "g.grad": 1.0}, known))


@pytest.mark.parametrize("prices", [{"h.grad": 1.0, "g.grad": 1.0}, {"h.grad": 6.0, "g.grad": 1.0}])
def test_where_lbfgs_stalls_sae_qn_goes_on(prices, monkeypatch):
    plain = ScipyLBFGS.solve

    def stalls(self, problem, x0, report):
        seen = itertools.count()
        plain(self, problem, x0, lambda state: report(state) or next(seen) >= 3)

    monkeypatch.setattr(ScipyLBFGS, "solve", stalls)
    known = logistic()
    chosen = choose(known.sum(), "auto", Prices(prices))
    method = Auto(chosen, Prices(prices), ChoiceTuning(out_of_hand=0.0))  # out of hand at once
    res = solve(None, known, method=method)
    assert reasons(res)[-1] is Reason.STALLED and choice(res).settled
    assert isinstance(choice(res).current, gt.methods.SAEQN)
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
