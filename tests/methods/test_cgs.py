"""Conditional gradient sliding and Frank-Wolfe: sets that have linear minimisations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from geartrain import theory
from geartrain.core.status import Status
from geartrain.methods.registry import METHODS
from geartrain.problem import MissingConstant
from lmo_sets import SETS, NuclearBall, Vertices, known_on
from problems import states
from reference import baselines as boxes
from runs import same

METHOD = {"cgs": gt.methods.CGS(), "frank-wolfe": gt.methods.FrankWolfe()}
EPS = float(np.finfo(float).eps)


def start(C):
    return C.lmo(np.arange(1.0, C.n + 1.0))


def L_of(known):
    return known.h.L + known.g.L


def loss(known):
    """Rounding errors of values of f near the solution."""
    return 1e4 * EPS * (abs(known.f_star) + L_of(known) * (1.0 + known.x_star @ known.x_star))


# The boxes --------------------------------------------------------------------------------------


# Paper: conditional gradient sliding
@pytest.mark.parametrize("name", ["paths", "nuclear"])
def test_the_printed_box(name):
    """Points to rounding, and the linear minimisations of every iteration."""
    C, known = known_on(name)
    problem, again = known.sum(psi=C), known.sum(psi=C)
    box = boxes.conditional_gradient_sliding(
        again.grad, again.psi.lmo, start(C), L_of(known), C.diameter, 40
    )
    method = gt.methods.CGS()
    state, calls = method.init(problem, start(C)), problem.ledger.calls
    assert (calls["h.grad"], calls["g.grad"], calls["g.lmo"]) == (1, 1, 1)
    for k, (z, x, y, asked) in enumerate(box, 1):
        np.testing.assert_allclose(state.z, z, atol=1e-11)
        before = calls["g.lmo"]
        state = method.step(problem, state)
        np.testing.assert_allclose(state.x, x, atol=1e-11)
        np.testing.assert_allclose(state.y, y, atol=1e-11)
        assert (state.k, calls["h.grad"], calls["g.grad"]) == (k, k + 1, k + 1)
        assert calls["g.lmo"] - before == asked <= 12 * k - 3  # the first one was asked before
    assert calls["g.lmo"] > 1.2 * calls["h.grad"] and calls["g.prox"] == calls["h.value"] == 0


def test_frank_wolfe_as_printed():
    C, known = known_on("paths")
    problem, again = known.sum(psi=C), known.sum(psi=C)
    box = boxes.frank_wolfe(again.grad, again.psi.lmo, start(C), L_of(known), 30)
    run = states(gt.methods.FrankWolfe(), problem, start(C), 30)
    for state, x in zip(run[1:], box, strict=True):
        np.testing.assert_allclose(state.x, x, atol=1e-11)
    calls = problem.ledger.calls
    assert calls["h.grad"] == calls["g.grad"] == calls["g.lmo"] == 31


@pytest.mark.parametrize(("method", "name"), [("cgs", "nuclear"), ("frank-wolfe", "paths")])
def test_what_a_state_holds(name, method):
    """The gradient at its point, the minimiser of it over the set, and their gap."""
    C, known = known_on(name)
    for state in states(METHOD[method], known.sum(psi=C), start(C), 10):
        grad = state.grad_z if method == "cgs" else state.grad_x
        np.testing.assert_allclose(grad, known.grad(state.grad_point), rtol=1e-9, atol=1e-12)
        least = grad @ C.lmo(grad)
        assert state.frank_wolfe_gap == pytest.approx(grad @ state.grad_point - least, abs=1e-11)


# Guarantees -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "name"), list(enumerate(SETS)))
def test_the_bound_and_the_gap_along_runs(name, seed):
    """f(y_k) - f* <= 15 L D^2/(2 (k + 1)(k + 2)), and the gap at z is never below f(z) - f*."""
    C, known = known_on(name, seed)
    for state in states(gt.methods.CGS(), known.sum(psi=C), start(C), 60):
        k, lost = state.k, loss(known)
        assert known.f(state.z) - known.f_star <= state.frank_wolfe_gap + lost
        if k:
            rate = 15.0 * L_of(known) * C.diameter**2 / (2.0 * (k + 1) * (k + 2))
            assert state.gap_bound == pytest.approx(rate, rel=1e-12)
            assert -lost <= known.f(state.y) - known.f_star <= rate + lost


def test_the_bound_and_the_gap_of_frank_wolfe():
    C, known = known_on("nuclear")
    for state in states(gt.methods.FrankWolfe(), known.sum(psi=C), start(C), 200):
        left, lost = known.f(state.x) - known.f_star, loss(known)
        assert left <= state.frank_wolfe_gap + lost
        if state.k:
            assert left <= 2.0 * L_of(known) * C.diameter**2 / (state.k + 2) + lost


@pytest.mark.parametrize(("name", "part"), [("simplex", 0.1), ("paths", 1e-3), ("nuclear", 0.01)])
def test_a_gap_ends_a_run_within_the_calls_of_the_theory(name, part):
    C, known = known_on(name)
    eps = part * (known.f(start(C)) - known.f_star)
    res = gt.minimize(known.h, known.g + term(C), start(C), stop=gt.stop.Gap(eps))
    most = theory.conditional_gradient_sliding(L=L_of(known), D=C.diameter, eps=eps)
    assert res.success and res.plan.startswith("cgs: ")
    left = known.f(res.x) - known.f_star
    assert left - loss(known) <= res.certificate.bound <= eps
    assert res.fun == pytest.approx(known.f(res.x), rel=1e-12)
    assert res.calls["h.grad"] == res.calls["g.grad"] == res.nit + 1 <= most["h"]
    assert res.calls["g.lmo"] <= most["lmo"] + 1  # and the vertex where it starts


def term(C):
    """The set as a term that can be added on either side."""
    return gt.Term(lmo=C.lmo, diameter=C.diameter, n=C.n)


def test_the_rate_ends_a_run_where_the_gap_does_not():
    """A gap at z that is never small: the run ends after the iterations of the proof, at y."""
    C, known = known_on("paths")
    x0 = start(C)

    class Blind(gt.methods.CGS):
        def init(self, problem, x0):
            return replace(super().init(problem, x0), frank_wolfe_gap=1e9)

        def step(self, problem, state):
            return replace(super().step(problem, state), frank_wolfe_gap=1e9)

    most = theory.conditional_gradient_sliding(L=L_of(known), D=C.diameter, eps=0.5)
    last = states(gt.methods.CGS(), known.sum(psi=C), x0, int(most["h"]) - 1)[-1]
    g = known.g + Inside(C, x0)
    res = gt.minimize(known.h, g, x0, method=Blind(), stop=gt.stop.Gap(0.5))
    assert res.success and res.nit == last.k and res.certificate.bound == last.gap_bound <= 0.5
    np.testing.assert_array_equal(res.x, last.y)
    res = gt.minimize(known.h, g, x0, method=Blind(), max_iter=last.k, tol=1e-15)
    np.testing.assert_array_equal(res.x, last.y)


def test_theory():
    L, D, eps = 3.0, 2.0, 1e-3
    most = theory.conditional_gradient_sliding(L=L, D=D, eps=eps)
    N = most["h"] - 1
    assert 15 * L * D**2 / (2 * (N + 1) * (N + 2)) <= eps < 15 * L * D**2 / (2 * N * (N + 1))
    assert most["lmo"] == 1 + sum(12 * k - 3 for k in range(1, int(N) + 1))
    assert most["g"] == most["h"]
    N = theory.frank_wolfe(L=L, D=D, eps=eps)["h"] - 1
    assert 2 * L * D**2 / (N + 2) <= eps < 2 * L * D**2 / (N + 1)


@pytest.mark.parametrize("name", ["L", "D", "eps"])
def test_theory_refuses(name):
    for function in (theory.conditional_gradient_sliding, theory.frank_wolfe):
        with pytest.raises(ValueError, match=f"{name} must be positive, got 0"):
            function(**{"L": 1.0, "D": 1.0, "eps": 1.0, name: 0.0})


# Stopping and results ---------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "name"), [("cgs", "simplex"), ("frank-wolfe", "paths")])
def test_the_tolerance_is_relative_to_the_gap_at_the_start(name, method):
    C, known = known_on(name)
    x0 = start(C)
    first = known.grad(x0) @ (x0 - C.lmo(known.grad(x0)))
    bounds = bounds_along(method, C, known, 150)
    for tol in (0.5, 0.05):
        res = gt.minimize(known.h, known.g + Inside(C, x0), x0, method=method, tol=tol)
        assert res.success and 0.0 < res.certificate.bound <= tol * first * (1.0 + 1e-9)
        assert np.nanmin(bounds[res.nit - 1]) > tol * first  # not before
        assert math.isnan(res.grad_norm) and not res.history.notes


def bounds_along(method, C, known, steps):
    """What is known of f - f* after every iteration."""
    run = states(METHOD[method], known.sum(psi=C), start(C), steps)
    return np.array([(state.frank_wolfe_gap, state.gap_bound) for state in run])


class Inside(gt.Term):
    """A set that says where it is: at one point at least."""

    def __init__(self, C, *points):
        def value(x):
            return 0.0 if any(np.allclose(x, p) for p in points) else math.inf

        super().__init__(lmo=C.lmo, value=value, diameter=C.diameter, n=C.n)


@pytest.mark.parametrize("method", METHOD)
def test_a_start_at_the_solution_up_to_rounding(method):
    """The gradient at c is the same in all coordinates, but for rounding."""
    for seed in range(8):
        c = np.random.default_rng(seed).dirichlet(np.ones(6))
        h = gt.Quadratic(np.eye(6), b=c - 0.3)
        res = gt.minimize(h, Inside(Vertices(6), c), c, method=method)
        assert res.success and res.nit == 0 and res.certificate.bound <= 1e-15
        assert (res.calls["h.grad"], res.calls["g.lmo"]) == (1, 1)


@pytest.mark.parametrize("method", METHOD)
def test_rounding_ends_a_run(method):
    """Where the gap is rounding error, no tolerance is waited for."""
    h = gt.Quadratic(np.eye(4), b=np.array([5.0, 0.0, 0.0, 0.0]))
    res = gt.minimize(h, Vertices(4), np.eye(4)[1], method=method, stop=gt.stop.Value(-1e9))
    assert res.status is Status.STALLED and "Rounding errors" in res.message
    np.testing.assert_allclose(res.x, np.eye(4)[0], atol=1e-9)


@pytest.mark.parametrize("method", METHOD)
def test_the_result_is_the_point_of_the_smallest_bound(method):
    """The run is cut off where the gap has grown."""
    C, known = known_on("simplex")
    best = np.nanmin(bounds_along(method, C, known, 60), axis=1)
    last = next(k for k in range(5, 60) if best[k] > 1.01 * best[:k].min())
    g, rule = known.g + Inside(C, start(C)), {"method": method, "max_iter": last, "tol": 1e-12}
    res = gt.minimize(known.h, g, start(C), **rule)
    assert res.status is Status.MAX_ITER
    assert res.certificate.bound == pytest.approx(best[:last].min(), rel=1e-6)
    assert known.f(res.x) - known.f_star <= res.certificate.bound + loss(known)


def test_what_the_rate_rests_on_is_told():
    C, known = known_on("paths")
    res = gt.minimize(
        known.h, known.g + term(C), method="cgs", stop=gt.stop.Value(known.f_star + 1e-2)
    )
    assert "its diameter, L_h is stated by the terms, L_g is stated" in res.certificate.assumption


def test_rules_that_need_a_gradient_are_refused():
    C, known = known_on("simplex")
    with pytest.raises(TypeError, match=r"linear minimisations do not show; use tol=, stop.Gap"):
        gt.minimize(known.h, C, stop=gt.stop.Gradient(rel=1e-3))
    with pytest.raises(TypeError, match="g has no 'prox'; it answers only: lmo"):
        gt.minimize(known.h, C, record="grad_norm")
    res = gt.minimize(known.h, C, stop=gt.stop.Gap(1e-2, mu=1e-3))  # goes by its gap
    assert res.success and res.certificate.bound <= 1e-2


@pytest.mark.parametrize(("method", "name"), [("cgs", "paths"), ("frank-wolfe", "nuclear")])
def test_resumed_equals_uninterrupted(name, method, tmp_path):
    C, known = known_on(name)
    args = {"method": method, "tol": 1e-9}
    g, path = known.g + term(C), tmp_path / "run.gtck"
    whole = gt.minimize(known.h, g, max_iter=20, **args)
    gt.minimize(known.h, g, max_iter=7, checkpoint=path, **args)
    res = gt.resume(path, known.h, g, max_iter=13)
    same(whole, res)
    assert res.certificate == whole.certificate


@pytest.mark.parametrize(
    ("method", "key", "most"),
    [("cgs", "g.lmo", 23), ("frank-wolfe", "h.grad", 9), ("cgs", "g.grad", 4)],
)
def test_budgets_of_both_kinds(key, most, method):
    C, known = known_on("paths")
    rule = gt.stop.Calls({key: most})
    res = gt.minimize(known.h, known.g + term(C), method=method, stop=rule)
    assert res.status is Status.BUDGET and res.calls[key] == most
    assert known.f(res.x) - known.f_star <= res.certificate.bound + loss(known)


# Starting points --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHOD)
def test_a_start_that_is_not_known_to_be_inside_is_a_vertex(method):
    C, known = known_on("paths")
    asked = []

    def lmo(d):
        asked.append(d.copy())
        return C.lmo(d)

    g = known.g + gt.Term(lmo=lmo, diameter=C.diameter, n=C.n)
    x0 = np.linspace(-1.0, 1.0, C.n)
    for given, direction, told in ((x0, -x0, "lmo(-x0)"), (None, np.ones(C.n), "lmo(1, ..., 1)")):
        asked.clear()
        res = gt.minimize(known.h, g, given, method=method, max_iter=0)
        np.testing.assert_array_equal(asked[0], direction)
        np.testing.assert_allclose(res.x, C.lmo(direction), rtol=1e-15)
        ((k, note),) = res.history.notes
        assert k == 0 and f"no projection: started at {told}" in note
        assert res.calls["g.lmo"] == 2 and res.calls["h.grad"] == 1


def test_a_start_that_is_inside_is_kept():
    C, known = known_on("paths")
    res = gt.minimize(known.h, known.g + Inside(C, known.x_star), known.x_star, max_iter=0)
    np.testing.assert_array_equal(res.x, known.x_star)
    assert res.calls["g.lmo"] == 1 and not res.history.notes


def test_matrices():
    """A point in the form of a matrix is one for lmo, too."""
    ball = NuclearBall(4, 3)
    seen = []

    def lmo(d):
        seen.append(d.shape)
        return ball.lmo(d)

    M = np.random.default_rng(0).standard_normal((4, 3))
    h = gt.Term(lambda X: (0.5 * float(np.sum((X - M) ** 2)), X - M), L=1.0)
    psi = gt.Term(lmo=lmo, diameter=2.0)
    res = gt.minimize(h, psi, np.zeros((4, 3)), tol=1e-3)
    assert res.success and res.x.shape == (4, 3) and set(seen) == {(4, 3)}
    U, sizes, V = np.linalg.svd(M, full_matrices=False)
    best = U @ np.diag(gt.Simplex().prox(sizes, 1.0)) @ V  # the projection of M
    left = 0.5 * np.sum((res.x - M) ** 2) - 0.5 * np.sum((best - M) ** 2)
    assert -1e-12 <= left <= res.certificate.bound


# Who takes what ---------------------------------------------------------------------------------


def test_every_other_method_names_those_that_can():
    C, known = known_on("simplex")
    several = [([known.h, known.h], m) for m in ("afb", "pqn", "fgm", "lbfgs", gt.methods.AFB())]
    for h, method in [*((known.h, m) for m in (*METHODS, "working-set")), *several]:
        with pytest.raises(TypeError, match="choose method='cgs' or 'frank-wolfe'"):
            gt.minimize(h, known.g + term(C), method=method)


@pytest.mark.parametrize("method", ["auto", *METHOD])
def test_several_terms_are_counted_apart(method):
    C, known = known_on("simplex")
    res = gt.minimize([0.5 * known.h, 0.5 * known.h], known.g + term(C), method=method, tol=0.1)
    assert res.success
    counts = {res.calls[key] for key in ("h1.grad", "h2.grad", "g.grad")}
    assert counts == {res.nit + 1} and res.calls["g.lmo"] > res.nit


def test_sets_with_a_projection_take_both():
    """The simplex and the ball: the same solution, and far fewer gradients by projections."""
    known = known_on("simplex")[1]
    for psi, method in ((gt.Simplex(), "cgs"), (gt.Ball(0.5), "frank-wolfe")):
        best = gt.minimize(known.h, known.g + psi, method="fgm", tol=1e-9)
        res = gt.minimize(known.h, known.g + psi, method=method, stop=gt.stop.Gap(1e-3))
        assert res.success and -1e-9 <= res.fun - best.fun <= res.certificate.bound + 1e-9
        assert res.calls["g.prox"] <= 1  # of x0


def test_neither_takes_other_terms():
    known = known_on("simplex")[1]
    for method in METHOD:
        with pytest.raises(TypeError, match=r"for a linear minimisation \('lmo'\), which it has n"):
            gt.minimize(known.h, known.g + gt.L1(0.1), method=method)
        with pytest.raises(TypeError, match="minimises over a set: add one to g"):
            gt.minimize(known.h, known.g, method=method)
        with pytest.raises(TypeError, match="has no inner method"):
            gt.minimize(known.h, known.g + gt.Simplex(), method=method, inner="agm")
    with pytest.raises(TypeError, match="'cgs' has no inner method"):
        gt.minimize(known.h, Vertices(30), inner="agm")
    with pytest.raises(ValueError, match="a sum can have one non-smooth term"):
        known.g + Vertices(30) + gt.L1(0.1)


# Hostile input ----------------------------------------------------------------------------------


SINCE = [("cgs", 1), ("cgs", 2), ("cgs", 9), ("frank-wolfe", 1), ("frank-wolfe", 3)]


class Bad(Vertices):
    """A set that answers wrongly from some call on."""

    def __init__(self, answer, since=5):
        super().__init__(30)
        self.answer, self.since, self.asked = answer, since, 0

    def lmo(self, d):
        self.asked += 1
        return super().lmo(d) if self.asked < self.since else self.answer(d)


@pytest.mark.parametrize(("method", "since"), SINCE)
def test_lmo_with_nan(method, since):
    known = known_on("simplex")[1]
    ask = {"method": method, "tol": 1e-6}
    bad = Bad(lambda d: np.full(d.size, np.nan), since)
    if since == 1:  # there is no point of the set
        with pytest.raises(ArithmeticError, match=r"g\.lmo answered with NaN"):
            gt.minimize(known.h, known.g + term(bad), **ask)
        return
    res = gt.minimize(known.h, known.g + term(bad), **ask)
    assert res.status is Status.NON_FINITE and np.isfinite(res.x).all()
    assert "g.lmo answered with NaN or infinity" in res.message


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (lambda d: d[:2], ValueError, r"g\.lmo answered with shape \(2,\), expected \(30,\)"),
        (lambda d: None, TypeError, r"g\.lmo must answer with an array of 30 real numbers"),
        (lambda d: 3.0, ValueError, r"g\.lmo answered with shape \(\), expected \(30,\)"),
        (lambda d: d.sort(), ValueError, "A term gets its arguments read-only"),
    ],
)
def test_lmo_with_a_wrong_shape(answer, error, message):
    known = known_on("simplex")[1]
    with pytest.raises(error, match=message):
        gt.minimize(known.h, known.g + term(Bad(answer)), tol=1e-6)


def test_a_diameter_that_is_missing_or_wrong():
    C, known = known_on("simplex")
    with pytest.raises(MissingConstant, match=r"CGS needs the diameter .* method='frank-wolfe'"):
        gt.minimize(known.h, known.g + gt.Term(lmo=C.lmo, n=30))
    res = gt.minimize(known.h, known.g + gt.Term(lmo=C.lmo), method="frank-wolfe", tol=0.1)
    assert res.success
    for wrong in (-1.0, math.nan, math.inf):
        C.diameter = wrong
        with pytest.raises(ValueError, match="diameter"):
            gt.minimize(known.h, known.g + C)
    C.diameter = 1.0
    with pytest.raises(ValueError, match=r"diameter 1 of .* too small: .* are 1\.4142"):
        gt.minimize(known.h, known.g + C)


@pytest.mark.parametrize(("method", "since"), SINCE)
def test_an_lmo_that_maximises(method, since):
    """The sign is wrong: no gap and no certificate is made of it."""
    known = known_on("simplex")[1]
    bad = Bad(lambda d: np.eye(30)[np.argmax(d)], since)
    with pytest.raises(ValueError, match=r"is not the minimiser of <d, v>: .* is its sign right\?"):
        gt.minimize(known.h, known.g + term(bad), method=method, tol=1e-9)


@pytest.mark.parametrize("method", METHOD)
def test_constants_are_needed(method):
    C = Vertices(4)
    h = gt.Term(lambda x: (0.5 * float(x @ x), x.copy()), n=4)
    with pytest.raises(MissingConstant, match="needs L_h, which neither the term nor the call"):
        gt.minimize(h, C, method=method)
    assert gt.minimize(h, C, method=method, L_h=1.0, tol=0.1).success
    made = type(METHOD[method])(L=1.0)
    assert gt.minimize(h, C, method=made, tol=0.1).success
    problem = known_on("simplex")[1].sum(psi=Vertices(30))
    state = made.init(problem, np.eye(30)[0])
    assert state.L == 1.0 and state.gap_rests_on == ()


def test_a_set_of_one_point():
    point = np.array([0.2, 0.8])
    psi = gt.Term(lmo=lambda d: point, diameter=0.0, n=2)
    res = gt.minimize(gt.Quadratic(np.eye(2)), psi)
    assert res.success and res.certificate.bound == 0.0
    np.testing.assert_allclose(res.x, point, rtol=1e-15)
