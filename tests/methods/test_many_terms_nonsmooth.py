"""More than two terms with a non-smooth part: certificates, potential, counts, planted errors."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import geartrain as gt
from geartrain.problem import norm
from many_terms import check_run, train_of_quadratics, with_psi
from runs import NEVER, same

PRICES = {"h1.grad": 100.0, "h2.grad": 10.0, "g.grad": 1.0}
PSIS = {"l1": gt.L1(0.5), "box": gt.Box(-0.3, 0.4), "simplex": gt.Simplex(1.0)}


@cache
def many(name, residuals=True, L=(1.0, 20.0, 400.0)):
    return with_psi(train_of_quadratics(L, mu=0.05), PSIS[name], residuals)


@pytest.mark.parametrize(
    ("name", "residuals"), [("l1", True), ("l1", False), ("box", True), ("simplex", False)]
)
def test_what_the_theorem_says_holds_along_runs(name, residuals):
    check_run(many(name, residuals), 16)


def test_it_holds_on_four_levels():
    check_run(many("l1", L=(1.0, 5.0, 50.0, 300.0)), 10)


def test_nothing_is_asked_twice():
    known, asked = many("box"), ([], [], [])

    def recorded(term, seen):
        return gt.Term(
            grad=lambda x: seen.append(x.tobytes()) or term.grad(x),
            value=term.value,
            n=term.n,
            L=term.L,
            mu=term.mu,
        )

    h1, h2, g = map(recorded, known.terms, asked)
    res = gt.minimize([h1, h2], g + known.psi, method="afb", stop=NEVER, max_iter=12)
    assert res.calls["h1.grad"] == 12
    for name, points in zip(("h1", "h2", "g"), asked, strict=True):
        assert res.calls[f"{name}.grad"] == len(points) == len(set(points))
    # Every step of the last level is one proximal step, and not all of them settle their guess.
    assert res.calls["h2.grad"] < res.calls["g.prox"] <= res.calls["g.grad"]


def test_without_a_smooth_g_the_last_level_is_one_proximal_step():
    known = many("l1")
    res = gt.minimize(known.h, known.psi, method="afb", prices={"h1.grad": 100.0}, tol=1e-6)
    assert res.success and res.plan.startswith("h1 > h2 > g")
    assert res.calls["g.grad"] == 0
    # One step per iteration of the second level; h2 is asked where a run of it starts, too.
    assert res.calls["h1.grad"] < res.calls["g.prox"] <= res.calls["h2.grad"]


@pytest.mark.parametrize(
    ("method", "prices"), [("auto", None), ("auto", PRICES), ("afb", None), ("fgm", None)]
)
def test_the_answer_is_that_of_two_terms(pair, method, prices):
    h, g = [pair[0], gt.Quadratic(np.eye(12), np.ones(12))], pair[1] + gt.L1(0.1)
    res = gt.minimize(h, g, method=method, prices=prices, tol=1e-9)
    want = gt.minimize(h[0] + h[1], g, method="afb", tol=1e-9)
    assert res.success and want.success
    np.testing.assert_allclose(res.x, want.x, atol=1e-7)
    np.testing.assert_array_equal(res.x == 0.0, want.x == 0.0)


def test_auto_has_as_many_levels_as_without_psi():
    known = many("l1")
    res = gt.minimize(known.h, known.g, prices=PRICES | {"h1.grad": 1e4}, tol=1e-6)
    assert res.success and res.plan == ("h1 > h2 > g: pqn on every level, by prices and constants")


def test_auto_measures(clock):
    known, (h1, h2, _) = many("l1"), many("l1").terms

    def slow(x):
        clock.pass_(1.0)
        return h1.value(x), h1.grad(x)

    h = {"fast": h2, "slow": gt.Term(value_and_grad=slow, n=30)}
    res = gt.minimize(h, known.g, tol=1e-6)
    assert res.success and res.plan.startswith("slow > fast + g: pqn, fast + g merged")
    # mu |x - x*| is at most the norm of the shortest subgradient.
    assert norm(res.x - known.x_star) <= res.grad_norm / known.mu * (1 + 1e-6)


@pytest.mark.parametrize("method", ["auto", "afb"])
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path, method):
    known, path = many("box"), tmp_path / "run.gtck"
    options = {"method": method, "prices": PRICES, "stop": NEVER}
    whole = gt.minimize(known.h, known.g, max_iter=8, **options)
    gt.minimize(known.h, known.g, max_iter=3, checkpoint=path, **options)
    same(whole, gt.resume(path, known.h, known.g, max_iter=5))


def test_what_is_not_made_for_it_says_so():
    known = many("l1")
    method = gt.methods.Train((("h1",), ("h2", "g")), gt.methods.AEG())
    with pytest.raises(ValueError, match=r"AEG is not made for a non-smooth .* method='afb'"):
        gt.minimize(known.h, known.g, method=method)
    with pytest.raises(TypeError, match=r"LBFGS is not made for a non-smooth term.*inner='agm'"):
        gt.minimize(known.h, known.g, method="afb", inner="lbfgs")
