"""What a result says is so: success, certificates, messages, the bill."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.points import RunPoint
from geartrain.core.status import ROUNDING, Status
from geartrain.methods.registry import METHODS
from geartrain.problem import EPS
from runs import sums

# Those that need products, components or mu are tried on problems that have them.
ANY = sorted(set(METHODS) - {"katyusha", "acd", "similar-newton", "aeg", "catalyst"})


@lru_cache
def soft(seed):
    """Log-sum-exp of three rows and a quadratic of condition 2e4; x0, x* and f(x0) - f*."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    h = gt.LogSumExp(rng.standard_normal((3, n)))
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    Q = (U * np.geomspace(5e-5, 1.0, n)) @ U.T
    g = gt.Quadratic((Q + Q.T) / 2, rng.standard_normal(n) * 1e-2)
    x0 = 3.0 * rng.standard_normal(n)
    f = h + g
    x = x0
    for _ in range(2000):  # Newton, damped; where rounding spoils the values, full steps
        if np.linalg.norm(f.grad(x)) <= 1e-11:
            break
        H = g.Q + np.array([h.products(x, e[:, None])[:, 0] for e in np.eye(n)])
        step = np.linalg.solve(H, -f.grad(x))
        t, noise = 1.0, 1e-15 * x @ x  # the entries of Q are at most 1
        while f.value(x + t * step) > f.value(x) + 0.25 * t * f.grad(x) @ step + noise:
            t *= 0.5
        x = x + t * step
    assert np.linalg.norm(f.grad(x)) < 1e-9
    return h, g, x0, x, f.value(x0) - f.value(x)


@pytest.mark.parametrize("method", ANY)
def test_gap_and_certificate_hold_at_the_returned_point(method):
    for seed in range(2):
        h, g, x0, x_star, gap0 = soft(seed)
        R = float(np.linalg.norm(x0 - x_star)) * (1 + 1e-9)
        rule = gt.stop.Gap(0.3 * gap0, R=R)
        stop = gt.stop.any_of(rule, gt.stop.Calls({"h.grad": 150, "g.grad": 5000}))
        res = gt.minimize(h, g, x0, method=method, stop=stop, mu=0.0)
        gap = (h + g).value(res.x) - (h + g).value(x_star)
        assert not res.success or gap <= 0.3 * gap0
        if res.certificate is not None:
            assert gap <= res.certificate.bound * (1 + 1e-9) + 1e-12
        if res.success:
            assert res.certificate.bound <= 0.3 * gap0


@pytest.mark.parametrize("method", ["sae", "sc-sae", "fgm", "lbfgs", "pqn"])
def test_the_certificate_is_the_smallest_of_the_three(method):
    h, g, x0, x_star, _ = soft(3)
    R, mu = 2.0 * float(np.linalg.norm(x0 - x_star)), g.mu
    stop = gt.stop.any_of(gt.stop.Gap(1e-12, R=R), gt.stop.Calls({"h.grad": 25}))
    res = gt.minimize(h, g, x0, method=method, stop=stop)
    slope = np.linalg.norm((h + g).grad(res.x))
    # Sums of n products on both sides, which cancel.
    rounding = 2 * h.n * EPS * sum(np.linalg.norm(t.grad(res.x)) for t in (h, g))
    assert res.grad_norm == pytest.approx(slope, rel=1e-9, abs=rounding)
    slope += rounding
    bounds = [slope**2 / (2 * mu), slope * (np.linalg.norm(res.x - x0) + R)]
    assert res.certificate.bound <= min(bounds) * (1 + 1e-9)
    if method in ("fgm", "lbfgs"):  # they have no weight of their own
        assert res.certificate.bound == pytest.approx(min(bounds), rel=1e-6 + 3 * rounding)


@pytest.mark.parametrize("method", ["afb", "fgm", "lbfgs", "pqn", "sae"])
def test_value_gradient_and_certificate_belong_to_x(method):
    """FGM reports another point than the one whose gradient it knows."""
    h, g, x0, x_star, gap0 = soft(5)
    f = h + g
    target = f.value(x_star) + 0.1 * gap0
    for rule in (gt.stop.Value(target), gt.stop.Gradient(rel=0.1)):
        stop = gt.stop.any_of(rule, gt.stop.Gap(1e-300, R=1.0), gt.stop.Calls({"g.grad": 9999}))
        res = gt.minimize(h, g, x0, method=method, stop=stop)
        assert res.success, res.message
        assert res.fun == pytest.approx(f.value(res.x), rel=1e-12)
        slope = np.linalg.norm(f.grad(res.x))
        if isinstance(rule, gt.stop.Value):
            assert np.isnan(res.grad_norm) or res.grad_norm == pytest.approx(slope, rel=1e-6)
        else:
            assert res.grad_norm == pytest.approx(slope, rel=1e-6)
            assert slope <= 0.1 * np.linalg.norm(f.grad(x0)) * (1 + 1e-9)
        if not np.isnan(res.grad_norm):
            assert res.certificate.bound <= slope**2 / (2 * g.mu) * (1 + 1e-6)


def test_the_assumption_names_what_the_bound_rests_on():
    h, g, x0, x_star, _ = soft(1)
    R = 1.5 * float(np.linalg.norm(x0 - x_star))
    flat = gt.Term(g.value_and_grad, n=g.n, L=g.L)  # no mu
    stop = gt.stop.any_of(gt.stop.Gap(1e-9, R=R), gt.stop.Calls({"h.grad": 6}))
    res = gt.minimize(h, flat, x0, method=gt.methods.AFB(), stop=stop)
    assert res.certificate.assumption == f"|x0 - x*| <= {R:g}, f convex, L_h is stated by the terms"
    res = gt.minimize(h, flat, x0, method=gt.SAE(), stop=stop)
    assert res.certificate.assumption == f"|x0 - x*| <= {R:g}, f convex"


def test_a_gap_by_mu_certifies_with_that_mu():
    h, g, x0, x_star, _ = soft(2)
    plain = [gt.Term(t.value_and_grad, n=t.n, L=t.L) for t in (h, g)]
    res = gt.minimize(*plain, x0, method="sae", stop=gt.stop.Gap(1e-2, mu=g.mu))
    gap = (h + g).value(res.x) - (h + g).value(x_star)
    assert res.success and gap <= res.certificate.bound <= 1e-2 * (1 + 1e-9)
    assert "mu is given" in res.certificate.assumption


# Stalled ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "sc-sae", "lbfgs"])
def test_rounding_is_said_only_where_it_is_shown(method):
    """h = f - f_1, far from convex: no run may blame rounding far from the optimum."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((40, 12))
        y = np.sign(rng.standard_normal(40))
        f, f_1 = gt.LinearModel(A, y, l2=1e-4), gt.LinearModel(A[:5], y[:5])
        x0 = 3.0 * rng.standard_normal(12)
        stop = gt.stop.any_of(gt.stop.Gradient(rel=1e-9), gt.stop.Calls({"h.grad": 400}))
        res = gt.minimize(f - f_1, f_1, x0, method=method, stop=stop)
        slope = np.linalg.norm(f.grad(res.x))
        if res.status is Status.STALLED and res.message.startswith(ROUNDING):
            assert slope <= 1e-10 * (1 + np.linalg.norm(f_1.grad(res.x)))
        assert (res.status is Status.STALLED) == ("further progress" in res.message), res.message


def test_a_wrong_gradient_is_not_called_rounding():
    """The gradient has the wrong sign: every line search fails at once."""
    h = gt.Term(value=lambda x: float(x @ x), grad=lambda x: -2.0 * x, n=3, L=2.0)
    for method in ("lbfgs", "pqn", "auto"):
        res = gt.minimize(h, gt.Quadratic(np.eye(3)), np.ones(3), method=method, max_iter=200)
        assert not res.success and not res.message.startswith(ROUNDING)


# The bill ---------------------------------------------------------------------------------


class Counting:
    """A term whose answers are counted here, too: `kinds` are those that it gives."""

    def __init__(self, term, *kinds):
        self.n, self.L, self.mu, self.asked = term.n, term.L, term.mu, {}
        for kind in kinds:
            setattr(self, kind, self._counted(kind, getattr(term, kind)))

    def _counted(self, kind, fn):
        key = "grad" if kind == "value_and_grad" else kind
        self.asked[key] = 0

        def ask(x):
            self.asked[key] += 1
            return fn(x)

        return ask


# Paper: Assumption 2
# Paper: equation (1)
@pytest.mark.parametrize("kinds", [("value", "grad"), ("value_and_grad",), ("grad",)])
@pytest.mark.parametrize("method", ["auto", "sae", "afb", "pqn", "fgm", "lbfgs"])
def test_every_call_is_on_the_bill(method, kinds):
    h, g = sums()
    h, g = Counting(h, *kinds), Counting(g, *kinds)
    if method == "lbfgs" and kinds == ("grad",):
        return
    res = gt.minimize(h, g, np.ones(8), method=method, tol=1e-4)
    assert res.success and np.isnan(res.fun) == (kinds == ("grad",))
    for name, term in (("h", h), ("g", g)):
        assert {kind: res.calls[f"{name}.{kind}"] for kind in term.asked} == term.asked
    fused = kinds == ("value_and_grad",)
    assert res.njev == res.calls["h.grad"] and res.nfev == res.calls["h.value"] + fused * res.njev
    # what was asked for res.fun is in the last row, and res.state goes on without it
    assert {key: res.history[key][-1] for key in res.calls} == res.calls


def test_the_plan_counts_values_too():
    quadratic = gt.Quadratic(np.diag([1.0, 5.0]), np.ones(2))
    g = gt.Term(value=quadratic.value, L=5.0, n=2)
    res = gt.minimize(gt.Quadratic(np.eye(2)), g, np.ones(2), tol=1e-3)
    asked = res.calls["g.value"]
    assert asked > 50 and f"{asked} values of g at" in res.plan
    res = gt.minimize(gt.Quadratic(np.eye(2)), g, np.ones(2), tol=1e-3, prices={"g.value": 0.5})
    total = res.calls["h.grad"] + 0.5 * res.calls["g.value"]
    assert f"{res.calls['g.value']} values of g at 0.5 = {total:.4g}" in res.plan


@pytest.mark.parametrize(
    ("prices", "error", "message"),
    [
        ({"k": 3}, ValueError, r"unknown key 'k'; the keys are h\.grad, .*g\.grad"),
        ({"k": 1.0}, ValueError, "unknown key 'k'.*the name of a term alone stands for"),
        ({"h": 1.0, "h.grad": 1.0}, ValueError, "two entries for 'h.grad'"),
        ({"h.grad": 1.0, "h.gradient": 2.0}, ValueError, "unknown key 'h.gradient'"),
        ([1, 2], TypeError, r"prices must be a dict such as .* got \[1, 2\]; its keys are h"),
        ({"h.grad": 0.0}, ValueError, "the price of 'h.grad' must be positive, got 0"),
        ({"h.grad": "dear"}, TypeError, "the price of 'h.grad' must be a number"),
    ],
)
def test_prices_are_checked(prices, error, message):
    with pytest.raises(error, match=message):
        gt.minimize(*sums(), prices=prices)


@pytest.mark.parametrize("method", ["sae", "afb", "ags"])
def test_a_run_that_diverges_ends_at_its_best_point_and_does_not_blame_rounding(method):
    """L_g is a thousand times too small: the inner iterates grow until they leave the range."""
    h = gt.Quadratic(np.diag([1.0, 2.0]), np.ones(2))
    g = gt.Quadratic(np.diag([3.0, 4e3]), np.ones(2))
    x0 = np.array([1.0, 2.0])
    budget = gt.stop.any_of(gt.stop.Gradient(rel=1e-9), gt.stop.Calls({"g.grad": 5000}))
    res = gt.minimize(h, g, x0, method=method, L_g=4.0, stop=budget)
    f = [h.value(x) + g.value(x) for x in (res.x, x0)]
    assert f[0] <= f[1] and res.fun == pytest.approx(f[0])
    assert res.success or "Rounding" not in res.message


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_tol_is_relative_to_the_gradient_at_x0_also_for_a_method_that_starts_elsewhere(scale):
    """similar-newton starts at argmin g, where the gradient of f may be far larger than at x0."""
    h = gt.Quadratic(np.diag([1e4, 1.0]))
    g = gt.Quadratic(np.diag([1e-2, 1.0]), scale * np.array([1.0, 1.0]))
    res = gt.minimize(h, g, method="similar-newton", tol=1e-6)
    first = np.linalg.norm(h.grad(np.zeros(2)) + g.grad(np.zeros(2)))
    assert res.success
    assert np.linalg.norm(h.grad(res.x) + g.grad(res.x)) <= 1e-6 * first * (1 + 1e-9)


def test_a_certificate_tells_that_a_users_term_is_taken_to_be_convex():
    h, g = gt.Term(lambda x: (float(x @ x), 2.0 * x), n=2), gt.Quadratic(0.5 * np.eye(2))
    res = gt.minimize(h, g, np.ones(2), method="pqn", prices={"h.grad": 10.0, "g.grad": 1.0})
    assert "(mu is stated by the terms; h taken to be convex)" in res.certificate.assumption
    res = gt.minimize(gt.Quadratic(np.eye(2)), g, np.ones(2), method="pqn")
    assert res.certificate.assumption.endswith("(mu is stated by the terms)")


def test_no_certificate_where_the_answers_show_that_h_is_not_convex():
    """The mu that the terms state is that of g: f has 0.3."""
    h = gt.Term(lambda x: (-0.1 * float(x @ x), -0.2 * x), n=3)
    g = gt.Quadratic(np.diag([0.5, 1.0, 2.0]), np.ones(3))
    for rule in (gt.stop.Gradient(rel=1e-6), gt.stop.Gap(1e-3)):
        res = gt.minimize(h, g, 5.0 * np.ones(3), method="pqn", stop=rule, max_iter=30)
        assert any("h is not convex" in note for _, note in res.history.notes)
        assert res.certificate is None
    assert not res.success  # nothing is proven by which the gap could be met


@pytest.mark.parametrize(
    ("f", "slope", "better"),
    [
        (0.9, 1.0, True),  # lower
        (1.1, 1e-9, False),  # higher: the gradient does not matter
        (1.0 + EPS, 1e-9, True),  # equal up to rounding: the smaller gradient
        (1.0 - EPS, 1e-3, False),
        (1.0 - EPS, math.nan, True),  # no gradient: the value, whatever the difference
        (math.nan, 1e-9, True),
        (math.nan, 1e-3, False),
        (math.nan, math.nan, True),  # nothing is known: the newer one
    ],
)
def test_values_decide_and_gradients_where_values_are_equal_up_to_rounding(f, slope, better):
    assert RunPoint(np.zeros(2), f, slope).better_than(RunPoint(np.zeros(2), 1.0, 1e-6)) == better
