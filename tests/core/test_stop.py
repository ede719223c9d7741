"""Stopping rules: each alone on a made-up run, then in runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status

METHODS = ["afb", "fgm", "ms", "lbfgs"]


class Look:
    """A run as a rule sees it."""

    def __init__(self, f=1.0, grad=1.0, grad0=10.0, gap=1.0, seconds=1.0, calls=None):
        self._f, self._grad, self._grad0 = f, grad, grad0
        self._gap, self.seconds = gap, seconds
        self.calls = {"h.grad": 5, "g.grad": 50} if calls is None else calls
        self.thresholds: list[float] = []

    def f(self):
        return self._f

    def grad_norm(self, threshold):
        self.thresholds.append(threshold)
        return self._grad

    def initial_grad_norm(self):
        return self._grad0

    def initial_gap(self):
        return math.nan

    def gap(self, threshold=math.inf):
        return self._gap


@pytest.mark.parametrize(
    ("rule", "look", "status"),
    [
        (gt.stop.Value(1.0), Look(f=1.0), Status.CONVERGED),
        (gt.stop.Value(1.0), Look(f=1.0 + 1e-15), None),
        (gt.stop.Value(-1.0), Look(f=math.inf), None),
        (gt.stop.Gradient(rel=0.1), Look(grad=1.0), Status.CONVERGED),
        (gt.stop.Gradient(rel=0.1), Look(grad=1.001), None),
        (gt.stop.Gradient(abs=0.5), Look(grad=0.5), Status.CONVERGED),
        (gt.stop.Gradient(abs=0.5), Look(grad=0.6), None),
        (gt.stop.Gradient(rel=0.1, abs=2.0), Look(grad=1.9), Status.CONVERGED),
        (gt.stop.Gradient(rel=0.1, abs=0.2), Look(grad=0.9), Status.CONVERGED),
        (gt.stop.Gradient(abs=0.5), Look(grad=math.nan), None),
        # |grad|^2 <= 2 mu eps
        (gt.stop.Gap(0.25, mu=2.0), Look(grad=1.0), Status.CONVERGED),
        (gt.stop.Gap(0.25, mu=2.0), Look(grad=1.001), None),
        (gt.stop.Gap(0.5, R=3.0), Look(gap=0.5), Status.CONVERGED),
        (gt.stop.Gap(0.5, R=3.0), Look(gap=0.51), None),
        (gt.stop.Gap(0.5, R=3.0), Look(gap=math.inf), None),
        # a norm that has overflowed is not small beside another one
        (gt.stop.Gradient(rel=0.1), Look(grad=math.inf, grad0=math.inf), None),
        (gt.stop.Calls({"h.grad": 5}), Look(), Status.BUDGET),
        (gt.stop.Calls({"h.grad": 6}), Look(), None),
        (gt.stop.Calls({"h.grad": 6, "g.grad": 50}), Look(), Status.BUDGET),
        (gt.stop.Seconds(1.0), Look(seconds=1.0), Status.BUDGET),
        (gt.stop.Seconds(1.0), Look(seconds=0.99), None),
        (gt.stop.any_of(gt.stop.Seconds(2), gt.stop.Value(1)), Look(), Status.CONVERGED),
        (gt.stop.any_of(gt.stop.Seconds(1), gt.stop.Value(1)), Look(), Status.BUDGET),
        (gt.stop.any_of(gt.stop.Value(1), gt.stop.Seconds(1)), Look(), Status.CONVERGED),
        (gt.stop.any_of(gt.stop.Seconds(2), gt.stop.Value(0)), Look(), None),
    ],
)
def test_rules(rule, look, status):
    assert rule.check(look) is status


def test_the_gradient_rule_says_what_it_waits_for():
    look = Look(grad0=10.0)
    gt.stop.Gradient(rel=1e-3, abs=1e-4).check(look)
    gt.stop.Gap(0.5, mu=4.0).check(look)
    assert look.thresholds == [1e-2, 2.0]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: gt.stop.Value(math.nan), ValueError, "target must be finite"),
        (lambda: gt.stop.Value("low"), TypeError, "target must be a number, got 'low'"),
        (lambda: gt.stop.Gradient(), ValueError, "Gradient needs rel= or abs= above 0"),
        (lambda: gt.stop.Gradient(rel=-1), ValueError, "rel must be at least 0, got -1"),
        (lambda: gt.stop.Gradient(abs=-1), ValueError, "abs must be at least 0, got -1"),
        (lambda: gt.stop.Gap(1e-3, mu=1, R=1), ValueError, "one of mu= .* and R= .*, not both"),
        (lambda: gt.stop.Gap(0, mu=1), ValueError, "eps must be positive, got 0"),
        (lambda: gt.stop.Gap(1, mu=0), ValueError, "mu must be positive, got 0"),
        (lambda: gt.stop.Gap(1, R=-2), ValueError, "R must be positive, got -2"),
        (lambda: gt.stop.Calls({"h.grad": 0}), ValueError, "the budget of 'h.grad' must be pos"),
        (lambda: gt.stop.Seconds(0), ValueError, "limit must be positive, got 0"),
        (lambda: gt.stop.any_of(), ValueError, "any_of needs at least one rule"),
        (
            lambda: gt.stop.any_of(3),
            TypeError,
            "3 is not a stopping rule: see geartrain.stop",
        ),
    ],
)
def test_wrong_rules(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_budget_of_an_oracle_that_is_not_there(pair):
    with pytest.raises(KeyError, match=r"no oracle 'h.hess' to budget; there are h.grad, h.value"):
        gt.minimize(*pair, stop=gt.stop.Calls({"h.hess": 3}))


def test_a_value_rule_without_values():
    term = gt.Term(grad=lambda x: x, L=1.0)
    with pytest.raises(TypeError, match=r"stop.Value needs terms that give values"):
        gt.minimize(term, term, [1.0], stop=gt.stop.Value(0.0))


@pytest.mark.parametrize("method", METHODS)
def test_value_rule_in_a_run(pair, method):
    f = pair[0] + pair[1]
    x_star = np.linalg.solve(pair[0].Q + pair[1].Q, pair[0].b)
    target = f.value(x_star) + 1e-2 * (f.value(np.zeros(12)) - f.value(x_star))
    res = gt.minimize(*pair, method=method, stop=gt.stop.Value(target), max_iter=5000)
    assert res.success and res.fun <= target < res.history["f"][-2]
    assert res.calls["h.value"] == res.calls["g.value"] == 0


@pytest.mark.parametrize("method", ["sae", "afb"])
def test_gap_rule_by_distance(pair, method):
    f = pair[0] + pair[1]
    x_star = np.linalg.solve(pair[0].Q + pair[1].Q, pair[0].b)
    rule = gt.stop.Gap(1e-2, R=np.linalg.norm(x_star))
    res = gt.minimize(*pair, method=method, stop=rule, max_iter=5000)
    assert res.success and f.value(res.x) - f.value(x_star) <= res.certificate.bound <= 1e-2
    before = 0.5 * rule.R**2 / res.history["A"][-2]
    assert before > 1e-2


def test_a_rule_of_ones_own(pair):
    class Third:
        def check(self, look):
            return Status.STOPPED if look.calls["h.grad"] >= 3 else None

    res = gt.minimize(*pair, method="fgm", stop=Third())
    assert res.status is Status.STOPPED and res.calls["h.grad"] == 3


def test_rules_keep_their_budget_over_a_resume(pair):
    first = gt.minimize(*pair, method="fgm", max_iter=4, tol=1e-9)
    res = gt.minimize(*pair, state=first.state, stop=gt.stop.Calls({"h.grad": 9}))
    assert res.status is Status.BUDGET and res.calls["h.grad"] == 9
