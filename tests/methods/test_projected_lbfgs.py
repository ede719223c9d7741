"""L-BFGS with bounds: its matrix, its line search, its bounds, its counts."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status
from geartrain.methods.pqn.scaling import diagonal_scale
from geartrain.methods.projected_lbfgs import (
    LinePoint,
    ProjectedLBFGS,
    SecantPairs,
    _direction,
    _next,
    _on_free,
    _search,
    _two_loops,
)
from problems import Known, logistic, quadratics
from runs import NEVER, same

n = 12


def pairs_of(rng, k, n, H):
    """k pairs with y = H s."""
    S = rng.standard_normal((k, n))
    Y = S @ H
    return SecantPairs(np.stack([S, Y], axis=1).reshape(2 * k, n), np.einsum("ij,ij->i", S, Y))


def dense_inverse(pairs):
    """The inverse Hessian of BFGS as a matrix, one update after the other, from s'y/y'y I."""
    S, Y = pairs.rows[::2], pairs.rows[1::2]
    I = np.eye(S.shape[1])
    H = I * (S[-1] @ Y[-1]) / (Y[-1] @ Y[-1])
    for s, y in zip(S, Y, strict=True):
        V = I - np.outer(y, s) / (s @ y)
        H = V.T @ H @ V + np.outer(s, s) / (s @ y)
    return H


def hessian(rng, n):
    A = rng.standard_normal((n, n))
    return A @ A.T / n + 0.1 * np.eye(n)


@pytest.mark.parametrize("k", [1, 2, 7])
def test_the_direction_is_that_of_the_dense_matrix(k, rng):
    pairs, grad = pairs_of(rng, k, n, hessian(rng, n)), rng.standard_normal(n)
    np.testing.assert_allclose(
        _two_loops(pairs, grad), -dense_inverse(pairs) @ grad, rtol=1e-10, atol=1e-12
    )


def test_the_direction_of_long_vectors(rng):
    """It is made by a compiled loop there."""
    m = 20_000
    rows = rng.standard_normal((4, m))
    rows[1::2] += 2.0 * rows[::2]
    pairs = SecantPairs(rows, np.einsum("ij,ij->i", rows[::2], rows[1::2]))
    grad = rng.standard_normal(m)
    d, S, Y = -grad, rows[::2], rows[1::2]
    weights = []
    for i in (1, 0):
        weights.append((S[i] @ d) / pairs.products[i])
        d = d - weights[-1] * Y[i]
    d = d * pairs.products[1] / (Y[1] @ Y[1])
    for i in (0, 1):
        d = d + (weights[1 - i] - (Y[i] @ d) / pairs.products[i]) * S[i]
    np.testing.assert_allclose(_two_loops(pairs, grad), d, rtol=1e-9, atol=1e-9)


def test_the_direction_on_free_variables(rng):
    """Pairs restricted to them; one whose step was made by the others for the most part is out."""
    pairs, grad = pairs_of(rng, 4, n, np.diag(rng.uniform(1.0, 2.0, n))), rng.standard_normal(n)
    free = np.arange(n) < 9
    pairs.rows[:6:2, ~free] *= 0.01  # the first three steps are made by free variables
    pairs.rows[1:6:2] = pairs.rows[:6:2] * 1.5
    pairs.rows[6, free] *= 0.01  # the last one by the others
    rows = pairs.rows[:6, free]
    products = np.einsum("ij,ij->i", rows[::2], rows[1::2])
    d = _on_free(pairs, grad, free)
    np.testing.assert_allclose(d[free], _two_loops(SecantPairs(rows, products), grad[free]))
    np.testing.assert_allclose(d[~free], -grad[~free] / 1.5)


def states(method, problem, x0, steps):
    out = [method.init(problem, x0)]
    for _ in range(steps):
        out.append(method.step(problem, out[-1]))
    return out


def test_every_step_meets_wolfes_conditions():
    known = logistic()
    problem, x0 = known.sum(), 3.0 * np.ones(10)
    run = states(ProjectedLBFGS(5), problem, x0, 25)
    for old, new in pairwise(run):
        s = new.x - old.x
        slope = float(old.grad @ s)
        assert slope < 0.0
        assert new.value <= old.value + 1e-4 * slope + 100 * np.finfo(float).eps * abs(old.value)
        assert float(new.grad @ s) >= 0.9 * slope * (1 + 1e-9)
        np.testing.assert_allclose(new.grad, known.grad(new.x), rtol=1e-12, atol=1e-14)
    assert len(run[-1].pairs.products) == 5
    newest = run[-1].pairs.rows[-2:]
    np.testing.assert_array_equal(newest[0], run[-1].x - run[-2].x)
    np.testing.assert_array_equal(newest[1], run[-1].grad - run[-2].grad)


def test_one_fused_call_per_evaluation_and_none_twice():
    known, seen = logistic(), ([], [])

    def heard(term, points):
        def both(x):
            points.append(x.tobytes())
            return term.value_and_grad(x)

        return gt.Term(both, n=10)

    h, g = (heard(t, points) for t, points in zip((known.h, known.g), seen, strict=True))
    res = gt.minimize(h, g, np.ones(10), method=ProjectedLBFGS(), tol=1e-8)
    assert res.success
    for name, points in zip("hg", seen, strict=True):
        assert res.calls[f"{name}.grad"] == len(points) == len(set(points))
        assert res.calls[f"{name}.value"] == 0
    assert len(seen[0]) <= 1.5 * res.nit + 3  # mostly one per iteration


def test_a_state_can_be_stepped_twice():
    """Windows of the pairs share their rows, and none of them changes."""
    problem, x0 = quadratics().sum(), np.ones(24)
    method = ProjectedLBFGS(4)
    run = states(method, problem, x0, 20)
    rows = [state.pairs.rows.copy() for state in run]
    for old, new in pairwise(run):
        again = method.step(problem, old)
        np.testing.assert_array_equal(again.x, new.x)
        np.testing.assert_array_equal(again.pairs.rows, new.pairs.rows)
    for state, kept in zip(run, rows, strict=True):
        np.testing.assert_array_equal(state.pairs.rows, kept)


@pytest.mark.parametrize("cut", [1, 7])
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path, cut):
    known, method, path = logistic(), ProjectedLBFGS(3), tmp_path / "run.gtck"
    whole = gt.minimize(known.h, known.g, np.ones(10), method=method, stop=NEVER, max_iter=12)
    options = {"method": method, "stop": NEVER, "max_iter": cut, "checkpoint": path}
    gt.minimize(known.h, known.g, np.ones(10), **options)
    same(whole, gt.resume(path, known.h, known.g, max_iter=12 - cut))


@pytest.mark.parametrize("seed", range(6))
def test_with_bounds(seed):
    """Points are inside to the last bit, values fall, and the end meets the conditions at x*."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n)) * np.logspace(-1.5, 0, n)
    h = gt.Quadratic(A @ A.T, 3.0 * rng.standard_normal(n))
    smooth = gt.Quadratic(0.01 * np.eye(n), np.zeros(n))
    lower, upper = -rng.random(n), rng.random(n)
    g, x0 = smooth + gt.Box(lower, upper), 0.5 * (lower + upper)
    seen = []
    res = gt.minimize(h, g, x0, method=ProjectedLBFGS(6), tol=1e-9, callback=seen.append)
    assert res.success and ((res.x == lower) | (res.x == upper)).any()
    for x in seen:
        assert (x >= lower).all() and (x <= upper).all()
    f = res.history["f"]
    assert (np.diff(f) <= 1e-12 * np.abs(f[1:])).all()
    grad, scale = h.grad(res.x) + smooth.grad(res.x), norm_of(h.grad(x0) + smooth.grad(x0))
    held = ((res.x == lower) & (grad > 0.0)) | ((res.x == upper) & (grad < 0.0))
    assert norm_of(grad[~held]) <= 2e-9 * scale


def test_a_direction_that_the_bounds_turn_uphill_is_computed_again():
    """d carries x_1 over its bound, and what remains of it ascends: x_1 leaves F."""
    H = np.array([[1.0, 0.9], [0.9, 1.0]])
    box = gt.Box(np.array([0.0, -10.0]), np.array([10.0, 10.0]))
    c = np.array([-1.0, -0.5])
    h, x = gt.Quadratic(H, c), np.array([1e-6, 0.0])
    problem = Known(h, gt.Quadratic(1e-9 * np.eye(2), np.zeros(2)), x, 0.1).sum(box)
    state = ProjectedLBFGS().init(problem, x)
    S = np.eye(2)
    pairs = SecantPairs(np.stack([S, S @ H], axis=1).reshape(4, 2), np.diag(H))
    free = _on_free(pairs, state.grad_f, np.array([True, True]))
    clipped = np.clip(x + free, box.lower, box.upper) - x
    assert clipped[0] != free[0] and state.grad_f @ clipped >= 0.0
    p, longest = _direction(problem, state, pairs, None)
    assert state.grad_f @ p < 0.0 and longest >= 1.0
    assert (x + p >= box.lower).all()


@pytest.mark.parametrize("first", [1e-3, 1.0, 50.0])
def test_the_line_search_meets_wolfes_conditions_from_any_first_step(first):
    """Also where t is far too short or too long."""

    def quartic(x):
        return float((x**4).sum() - 3.0 * x.sum()), 4.0 * x**3 - 3.0

    h, g = gt.Term(quartic, n=2), gt.Quadratic(np.zeros((2, 2)))
    problem = Known(h, g, np.zeros(2), 0.0).sum(L_h=None)
    state = ProjectedLBFGS().init(problem, np.array([0.1, -0.2]))
    slope = -float(state.grad @ state.grad)
    found = _search(problem, state, -state.grad, slope, first, math.inf)
    assert found.slope == pytest.approx(-float(found.grad @ state.grad))
    assert found.value <= state.value + 1e-4 * found.t * slope
    assert found.slope >= 0.9 * slope
    assert problem.ledger.calls["h.grad"] <= 8


def test_the_line_search_ends_at_the_bound():
    """Where f still descends steeply there: t is the longest step, and one evaluation is enough."""
    h, g = gt.Quadratic(np.zeros((1, 1)), [5.0]), gt.Quadratic(np.zeros((1, 1)))
    problem = Known(h, g, np.zeros(1), 0.0).sum(gt.Box(-2.0, 3.0))
    state = ProjectedLBFGS().init(problem, np.zeros(1))
    step = float(state.grad_f[0] * state.grad_f[0])
    found = _search(problem, state, -state.grad_f, -step, 0.4, 0.4)
    assert found.t == 0.4 and abs(found.x[0]) == pytest.approx(2.0, rel=1e-14)
    assert problem.ledger.calls["h.grad"] == 2


def point(t, value, slope):
    return LinePoint(t, np.zeros(1), value, np.zeros(1), slope)


def test_the_next_trial_is_the_minimiser_of_the_cubic_or_of_the_parabola():
    def cubic(t):  # its minimiser is at t = 1
        return point(t, t**3 - t**2 - t, 3.0 * t * t - 2.0 * t - 1.0)

    assert _next(cubic(0.2), cubic(1.7), -1.0) == pytest.approx(1.0, rel=1e-12)
    parabola = point(1.0, math.nan, -6.0)  # slopes -8, -6: 0 at t = 4
    assert _next(parabola, None, -8.0) == pytest.approx(4.0)
    assert _next(point(1.0, math.nan, -0.5), None, -8.0) == 2.0  # at least twice as far
    assert _next(point(1.0, math.nan, -9.0), None, -8.0) == 10.0  # at most ten times
    assert _next(point(1.0, 0.0, -1.0), point(2.0, math.inf, math.inf), -1.0) == pytest.approx(1.1)
    assert _next(point(0.0, 0.0, -1e-9), point(1.0, 9.0, 9.0), -1.0) == pytest.approx(0.1)


def test_where_values_differ_by_rounding_slopes_decide():
    """A value above that at 0 by less than 100 units is as good; a slope that rises is too far."""
    for more, slope, taken in ((50, 0.7, True), (200, 0.7, False), (50, 0.85, False)):
        value = 1.0 + more * np.finfo(float).eps
        answers = {False: (1.0, np.array([-1.0])), True: (value, np.array([slope]))}
        h = gt.Term(lambda x, answers=answers: answers[bool(x[0])], n=1)
        problem = Known(h, gt.Quadratic(np.zeros((1, 1))), np.zeros(1), 0.0).sum(L_h=None)
        state = ProjectedLBFGS().init(problem, np.zeros(1))
        found = _search(problem, state, np.ones(1), -1.0, 1.0, math.inf)
        assert (found is not None) == taken


def test_variables_at_their_bounds_by_hand():
    """Held where the gradient moves x out, however little; free where it moves x inside."""
    grad, x = np.array([-1e-9, 1e-9, -1e-9, 1e-9]), np.array([0.0, 0.0, 1.0, 1.0])
    h, g = gt.Quadratic(np.zeros((4, 4)), -grad), gt.Quadratic(np.zeros((4, 4)))
    problem = Known(h, g, x, 0.0).sum(gt.Box(np.zeros(4), np.ones(4)))
    state = ProjectedLBFGS().init(problem, x)
    p, longest = _direction(problem, state, SecantPairs(np.zeros((0, 4))), None)
    np.testing.assert_allclose(p, [1e-9, 0.0, 0.0, -1e-9], rtol=1e-14)
    assert longest == pytest.approx(1e9)


def test_scaled_variables_are_those_of_the_scaled_problem(rng):
    """By powers of two, so that both runs differ by the rounding of answers alone."""
    A = rng.standard_normal((40, 6)) * 4.0 ** np.arange(6)
    h = gt.LinearModel(A, np.sign(A[:, 0]), loss="logistic", l2=0.1)
    g = gt.Quadratic(np.eye(6), np.zeros(6))
    options = {"stop": NEVER, "max_iter": 10}
    run = gt.minimize(h, g, np.zeros(6), method=ProjectedLBFGS(scaled=True), **options)
    t = diagonal_scale(Known(h, g, np.zeros(6), 0.0).sum())
    assert t is not None and np.ptp(np.log2(t)) >= 2.0

    def scaled(term):
        def both(z):
            value, grad = term.value_and_grad(z / t)
            return value, grad / t

        return gt.Term(both, n=6)

    other = gt.minimize(scaled(h), scaled(g), np.zeros(6), method=ProjectedLBFGS(), **options)
    assert run.history["f"][9] < run.history["f"][8] - 1e-12  # not yet at the end
    np.testing.assert_allclose(run.history["f"], other.history["f"], rtol=1e-10)
    np.testing.assert_allclose(t * run.x, other.x, rtol=1e-5, atol=1e-7)


def test_what_is_not_finite_is_too_far():
    def root(x):  # -sum sqrt(x) on x > 0, where the first step of length 1 leads out of it
        if (x <= 0.0).any():
            return math.nan, np.full(2, math.nan)
        return float(-np.sqrt(x).sum() + 0.5 * x @ x), -0.5 / np.sqrt(x) + x

    h, g = gt.Term(root, n=2), gt.Term(lambda x: (2.0 * x @ x, 4.0 * x), n=2)
    res = gt.minimize(h, g, np.array([0.2, 0.9]), method=ProjectedLBFGS(), tol=1e-10)
    assert res.success
    np.testing.assert_allclose(res.x, 0.1 ** (2.0 / 3.0), rtol=1e-9)


def test_it_stalls_where_nothing_becomes_lower():
    """At a minimiser up to rounding, and where gradients and values contradict each other."""
    known = logistic()
    res = gt.minimize(known.h, known.g, np.ones(10), method=ProjectedLBFGS(), stop=NEVER)
    assert res.status is Status.STALLED and not res.success
    assert norm_of(known.grad(res.x)) <= 1e-10 * norm_of(known.grad(np.ones(10)))
    wrong, zero = gt.Term(lambda x: (float(x @ x), -x), n=3), gt.Quadratic(np.zeros((3, 3)))
    res = gt.minimize(wrong, zero, np.ones(3), method=ProjectedLBFGS())
    assert res.status is Status.STALLED and res.nit <= 10
    assert res.fun <= 3.0 * (1.0 + 1e-12)


def norm_of(v):
    return float(np.linalg.norm(v))


def test_other_psi_are_refused(rng):
    h = gt.Quadratic(np.eye(3), np.ones(3))
    with pytest.raises(TypeError, match="bounds only"):
        gt.minimize(h, gt.L1(1.0), np.ones(3), method=ProjectedLBFGS())
