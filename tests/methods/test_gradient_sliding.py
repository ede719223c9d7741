"""Gradient sliding with subgradients of a non-smooth g."""

from __future__ import annotations

import numpy as np
import pytest

import geartrain as gt
from geartrain import theory
from geartrain.methods.baselines.gradient_sliding import sliding_steps
from problems import Known, states
from reference import baselines as boxes

LAM = 0.3


def lasso(n=12):
    """h = 1/2 x'Qx - b'x with a diagonal Q, g = LAM |x|_1; the minimiser is known."""
    rng = np.random.default_rng(0)
    q = np.geomspace(0.05, 1.0, n)
    b = rng.standard_normal(n) * q
    x_star = np.sign(b) * np.maximum(np.abs(b) - LAM / n, 0.0) / q
    g = gt.Term(
        value=lambda x: LAM / n * float(np.abs(x).sum()), grad=lambda x: LAM / n * np.sign(x), n=n
    )
    return Known(gt.Quadratic(np.diag(q), b=b), g, x_star, 0.0)


def constants(known, x0):
    n = x0.size
    return {"M": 2 * LAM / np.sqrt(n), "R": float(np.linalg.norm(x0 - known.x_star))}


# Paper: gradient sliding
def test_the_printed_box():
    known = lasso()
    x0 = np.linspace(-1, 1, 12)
    numbers = constants(known, x0)
    run = states(gt.methods.GradientSliding(**numbers, N=20), known.sum(L_g=1.0), x0, 20)
    expected = boxes.gradient_sliding(
        known.h.grad, known.g.grad, x0, known.h.L, numbers["M"], 20, numbers["R"]
    )
    for state, x_bar in zip(run[1:], expected, strict=True):
        np.testing.assert_allclose(state.x_bar, x_bar, atol=1e-13)


def test_the_bound_at_the_end_of_a_stage():
    """f(x_bar_N) - f* <= 6 L R^2/(N (N + 1))."""
    N = 10
    known = lasso()
    for seed in range(3):
        x0 = known.x_star + np.random.default_rng(seed).standard_normal(12)
        numbers = constants(known, x0)
        last = states(gt.methods.GradientSliding(**numbers, N=N), known.sum(L_g=1.0), x0, N)[-1]
        gap = known.f(last.x_bar) - known.f_star
        assert gap <= 6 * known.h.L * numbers["R"] ** 2 / (N * (N + 1))


def test_calls():
    """One gradient of h and T_k subgradients of g per iteration; those at x0 are used."""
    known = lasso()
    x0 = np.ones(12)
    numbers = constants(known, x0)
    problem = known.sum(L_g=1.0)
    method = gt.methods.GradientSliding(**numbers, N=15)
    state, total = method.init(problem, x0), 0
    for k in range(1, 16):
        state = method.step(problem, state)
        total += sliding_steps(k, 15, known.h.L, numbers["M"], numbers["R"])
        assert problem.ledger.calls["h.grad"] == k
        assert problem.ledger.calls["g.grad"] == total


@pytest.mark.parametrize("eps", [1e-1, 1e-2])
def test_theory(eps):
    known = lasso()
    x0 = np.ones(12)
    numbers = constants(known, x0)
    most = theory.gradient_sliding(L_h=known.h.L, M=numbers["M"], eps=eps, R=numbers["R"])
    N = int(most["h"])
    assert 6 * known.h.L * numbers["R"] ** 2 / (N * (N + 1)) <= eps
    assert N == 1 or 6 * known.h.L * numbers["R"] ** 2 / (N * (N - 1)) > eps
    total = sum(sliding_steps(k, N, known.h.L, numbers["M"], numbers["R"]) for k in range(1, N + 1))
    assert total <= most["g"] <= total + N
    res = gt.minimize(
        known.h,
        known.g,
        x0,
        method=gt.methods.GradientSliding(**numbers, N=N),
        stop=gt.stop.Value(known.f_star + eps),
    )
    assert res.success
    assert res.calls["h.grad"] <= most["h"] and res.calls["g.grad"] <= most["g"]


def test_the_orders_are_those_of_the_paper():
    """N_h ~ eps^-1/2, N_g ~ eps^-2."""
    one, other = (theory.gradient_sliding(L_h=2.0, M=3.0, eps=eps) for eps in (1e-6, 1e-8))
    assert other["h"] / one["h"] == pytest.approx(10, rel=1e-3)
    assert other["g"] / one["g"] == pytest.approx(1e4, rel=1e-2)


def test_a_new_stage_starts_from_x_bar():
    known = lasso()
    x0 = np.ones(12)
    run = states(gt.methods.GradientSliding(**constants(known, x0), N=4), known.sum(L_g=1.0), x0, 9)
    assert [s.k for s in run] == [0, 1, 2, 3, 4, 1, 2, 3, 4, 1]
    again = states(
        gt.methods.GradientSliding(**constants(known, x0), N=4), known.sum(L_g=1.0), run[4].x_bar, 4
    )
    np.testing.assert_allclose(run[8].x_bar, again[4].x_bar, atol=1e-14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"M": 0.0}, "M must be positive, got 0"),
        ({"M": 1.0, "R": -1.0}, "R must be positive, got -1"),
        ({"M": 1.0, "N": 0}, "N must be at least 1"),
    ],
)
def test_wrong_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        gt.methods.GradientSliding(**arguments)
    if "N" not in arguments:
        with pytest.raises(ValueError, match=message):
            theory.gradient_sliding(L_h=1.0, eps=1e-3, **arguments)
