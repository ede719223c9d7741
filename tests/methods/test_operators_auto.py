"""Anderson mixing with a resolvent of Q: its mixture, its acceptance, its guard, its endings."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.operators import mixing, resolvent
from geartrain.methods.operators.pairs import Mixture, Pairs, Visit, mixture
from geartrain.terms import Operators
from monotone import known, without_constants
from runs import same

norm = np.linalg.norm
pytestmark = pytest.mark.filterwarnings("error")
SIGMA, ZETA = 0.9, 0.3
SETS = [None, "box", "simplex"]


def problem_of(P, Q, n):
    return Operators.of(P, Q).problem(EUCLIDEAN, n, None, None, None)


def steps(case, k=60, away=1.0):
    """The problem and the states before and after each iteration, until the run stalls."""
    n = case.z.size
    problem = problem_of(without_constants(case.P, n), case.Q, n)
    x0 = case.z + away * np.linspace(-1.0, 1.0, n)
    if problem.psi is not None:
        x0 = problem.psi.prox(x0, 1.0)
    method = gt.methods.AndersonResolvent()
    state = method.init(problem, x0)
    for _ in range(k):
        new = method.step(problem, state)
        yield problem, state, new
        if new.stalled:
            return
        state = new


def least(problem, v, R):
    return R if problem.psi is None else problem.psi.residual(v, R)


def asked(problem, key):
    return problem.ledger.calls[key]


def spoiled(rng, far):
    """Mixtures of random coefficients: what the pairs say is predicted, at a senseless point."""

    def mixed(p, pairs, psi, alpha, rho):
        c = far * norm(p.v) * rng.standard_normal(len(pairs.S))
        b, P, Q = p.v + c @ pairs.S, p.P + c @ pairs.P, p.Q + c @ pairs.Q
        return Mixture(b, P, Q, norm(P + Q))

    return mixed


# Line 1: the mixture.


def pairs_of(rng, n, m):
    """A visited point and pairs of a linear operator, whose changes are exact."""
    J, D = rng.standard_normal((2, n, n))
    S = np.linalg.qr(rng.standard_normal((n, m)))[0].T
    p = Visit(*rng.standard_normal((3, n)), np.zeros(n))
    return p, Pairs(S, S @ J.T, S @ D.T), J, D


@pytest.mark.parametrize("rho", [math.inf, 0.1])
def test_the_mixture_without_a_set(rho):
    """c = argmin |R(p) + dR c|^2 + (|R(p)|/rho)^2 |S c|^2; P and Q at p + S c by the pairs."""
    rng = np.random.default_rng(0)
    p, pairs, J, D = pairs_of(rng, 9, 4)
    S, dR = pairs.S.T, (pairs.P + pairs.Q).T
    R = p.P + p.Q
    rows, rhs = [dR], [-R]
    if rho < math.inf:
        rows, rhs = [dR, norm(R) / rho * S], [-R, np.zeros(9)]
    c = np.linalg.lstsq(np.vstack(rows), np.concatenate(rhs), rcond=None)[0]
    at = mixture(p, pairs, None, 1.0, rho)
    # The ridge of 1e-12 changes c by that over the square of the least singular value.
    np.testing.assert_allclose(at.b, p.v + S @ c, atol=1e-8)
    np.testing.assert_allclose(at.P, p.P + J @ (at.b - p.v), atol=1e-8)
    np.testing.assert_allclose(at.Q, p.Q + D @ (at.b - p.v), atol=1e-8)
    assert at.r == pytest.approx(norm(R + dR @ c), rel=1e-8)


@pytest.mark.parametrize("tells", [True, False])
def test_the_mixture_with_a_set_solves_what_the_pairs_tell(tells):
    """With n steps they tell all of a linear operator: coordinates of the equilibrium on a box are
    at a bound, with R of the right sign, or have R = 0. With fewer the residual falls."""
    n, alpha, box = 8, 3.0, gt.Box(-0.5, 0.5)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        p, pairs, J, D = pairs_of(rng, n, n)
        J, D = J @ J.T / n + np.eye(n), D - D.T
        pairs = Pairs(pairs.S, pairs.S @ J.T, pairs.S @ D.T)
        p = Visit(np.clip(p.v, -0.5, 0.5), p.P, p.Q, p.e)
        psi = problem_of(gt.Operator(np.sin, n=n), box if tells else OnlyProx(box), n).psi
        at = mixture(p, pairs, psi, alpha, math.inf)
        R = p.P + p.Q + (J + D) @ (at.b - p.v)
        np.testing.assert_allclose(at.P + at.Q, R, atol=1e-8)
        np.testing.assert_allclose(at.b, np.clip(at.b - R / alpha, -0.5, 0.5), atol=1e-5)
        bound = np.abs(at.b) > 0.5 - 1e-4
        assert np.all(R[bound] * np.sign(at.b[bound]) <= 1e-3) and np.all(np.abs(R[~bound]) < 1e-3)
        fewer = Pairs(pairs.S[:4], pairs.P[:4], pairs.Q[:4])
        at, first = mixture(p, fewer, psi, alpha, math.inf), p.v - (p.P + p.Q) / alpha
        at_p = alpha * norm(p.v - np.clip(first, -0.5, 0.5))
        R = p.P + p.Q + (J + D) @ (at.b - p.v)
        own = alpha * norm(at.b - np.clip(at.b - R / alpha, -0.5, 0.5))
        assert at.r == pytest.approx(own, rel=1e-6) and own <= at_p * (1.0 + 1e-12)


class OnlyProx:
    """A set of which nothing but its projection is known."""

    def __init__(self, box):
        self.prox = box.prox


def test_steps_that_newer_ones_tell_are_left_out():
    rng, n = np.random.default_rng(2), 6
    S = np.linalg.qr(rng.standard_normal((n, 4)))[0].T
    S = np.vstack([S[0], S[1], S[0] + 1e-5 * S[2], S[2] + S[1], S[3]])
    S /= norm(S, axis=1)[:, None]
    rows, basis = Pairs(S, S, S).independent()
    assert rows == [0, 1, 3, 4]
    np.testing.assert_allclose(basis @ basis.T, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(S[rows] @ basis.T @ basis, S[rows], atol=1e-12)


def test_pairs_are_normed_newest_first_and_limited():
    rng, n = np.random.default_rng(3), 2
    visits = [Visit(*rng.standard_normal((4, n))) for _ in range(30)]
    pairs = Pairs.none(n)
    for p, to in itertools.pairwise(visits):
        pairs = pairs.and_step(p, to)
    assert pairs.S.shape == pairs.P.shape == pairs.Q.shape == (n + 20, n)
    for i, (p, to) in enumerate(itertools.islice(itertools.pairwise(visits[::-1]), n + 20)):
        length = norm(p.v - to.v)
        np.testing.assert_allclose(pairs.S[i], (p.v - to.v) / length)
        np.testing.assert_allclose(pairs.P[i], (p.P - to.P) / length)
        np.testing.assert_allclose(pairs.Q[i], (p.Q - to.Q) / length)


def test_where_krylov_spaces_stand_still_the_newest_change_takes_over():
    """R(b) in the span of the steps: the part of dR outside of it, as long as R(b), is added."""
    n = 4
    S = np.eye(n)[:1]
    change = np.array([[0.0, 2.0, 0.0, 0.0]])
    R = np.array([3.0, 0.0, 0.0, 0.0])
    p = Visit(np.zeros(n), R, np.zeros(n), R)
    at = mixture(p, Pairs(S, change, 0.0 * S), None, 1.0, math.inf)
    np.testing.assert_allclose(at.P, [3.0, 3.0, 0.0, 0.0])
    np.testing.assert_allclose(at.b, 0.0, atol=1e-12)


# Lines 2 and 3: trial points and what becomes of them.


@pytest.mark.parametrize(("psi", "kept"), [("box", True), (None, False), ("simplex", False)])
def test_every_iteration_asks_P_once(psi, kept, monkeypatch):
    monkeypatch.setattr(mixing, "_OTHER", 10**6)  # the map stays
    method, case = gt.methods.AndersonResolvent(), known(seed=1, psi=psi)
    problem = problem_of(without_constants(case.P, 12), case.Q, 12)
    calls = problem.ledger.calls
    state = replace(method.init(problem, np.full(12, 1.0 / 12)), kept=kept)
    assert calls["P.operator"] == calls["Q.operator"] == 2  # x0 and the probe
    start = norm(state.grad)
    while norm(state.grad) > 1e-8 * start:
        before, state = dict(calls), method.step(problem, state)
        told = {key: calls[key] - count for key, count in before.items() if calls[key] > count}
        assert told.pop("P.operator") == 1
        if kept:
            assert told.pop("Q.operator") >= 1
        else:  # the mixture, the step and, where it separates, the anchor
            assert told.pop("Q.operator") == 1
            least = 0 if psi is None else 3 if state.kind == "separating" else 2
            most = least and least + 20 * 6  # Gauss-Newton steps and their lengths
            assert least <= told.pop("Q.prox", 0) <= most and not told
    assert calls["P.operator"] == 2 + state.k


def test_nothing_is_asked_without_need():
    """A start at a solution costs one call of each, and Q = None none at all."""
    problem = problem_of(gt.Operator(lambda z: z, n=3), None, 3)
    state = gt.methods.AndersonResolvent().init(problem, np.zeros(3))
    assert norm(state.grad) == 0.0 and asked(problem, "P.operator") == 1
    assert asked(problem, "Q.operator") == 0


@pytest.mark.parametrize(
    ("psi", "kept"), [(None, True), ("simplex", True), (None, False), ("box", False)]
)
def test_trial_points_solve_their_equation(psi, kept, monkeypatch):
    """Line 2 from the mixture, which is recomputed; only the first few have well-posed ones."""
    monkeypatch.setattr(mixing, "_GROWN", math.inf)  # every trial point is the next p
    method, case = gt.methods.AndersonResolvent(), known(seed=2, psi=psi)
    problem = problem_of(without_constants(case.P, 12), case.Q, 12)
    P, Q = case.P.operator, problem.g.term.operator
    state = replace(method.init(problem, np.full(12, 1.0 / 12)), kept=kept)
    for _ in range(4):
        old, state = state, method.step(problem, state)
        at, v = mixture(old.p, old.pairs, problem.psi, old.L_R, old.rho), state.p.v
        slope = old.L_P if kept else old.L_R
        assert pytest.approx(max(0.3 * slope, at.r / old.rho)) == state.L
        if kept:
            e = least(problem, v, at.P + Q(v) + state.L * (v - at.b))
            far = ZETA * SIGMA * state.L * norm(v - at.b)
            accuracy = 0.1 * max(at.r, 0.01 * norm(old.p.e))
            assert norm(e) <= min(far, accuracy) * (1.0 + 1e-9)
        else:
            u = at.b - (at.P + at.Q) / state.L
            u = u if psi is None else problem.psi.prox(u, state.L)
            np.testing.assert_allclose(v, u, rtol=1e-9, atol=1e-12)
        L_P = norm(P(v) - P(old.p.v)) / norm(v - old.p.v)
        assert (
            pytest.approx(max(0.8 * old.L_P, L_P), rel=1e-6) == state.L_P
        )  # older ones count less


@pytest.mark.parametrize("psi", SETS)
def test_states_are_what_they_say(psi):
    case, seen = known(seed=5, psi=psi), set()
    for problem, old, new in steps(case, k=40):
        P, Q = case.P.operator, problem.g.term.operator
        for at in (new.p, new.best):
            np.testing.assert_allclose(at.P, P(at.v), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(at.Q, Q(at.v), rtol=1e-9, atol=1e-9)
            e = least(problem, at.v, at.P + at.Q)
            np.testing.assert_allclose(at.e, e, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(new.grad, new.best.e)
        assert norm(new.best.e) <= min(norm(new.p.e), norm(old.best.e))
        if new.kind == "educated":
            assert norm(new.p.e) <= 0.9 * norm(old.best.e)
            np.testing.assert_array_equal(new.z, new.p.v)
        seen.add(new.kind)
    assert "educated" in seen


@pytest.mark.parametrize(
    ("psi", "far", "seed"),
    [(None, 0.1, 0), (None, 10.0, 1), ("box", 0.0, 2), ("box", 0.1, 0), ("simplex", 10.0, 1)],
)
def test_a_separating_step_never_moves_away(psi, far, seed, monkeypatch):
    """|z+ - z*|^2 <= |z - z*|^2 - <u, z - v>^2/|u|^2, by the model and by random mixtures.

    The rounding of |z - z*|^2 is below 1e-12 of its terms."""
    monkeypatch.setattr(mixing, "_EDUCATED", 0.0)  # all progress is made by separation
    if far:
        monkeypatch.setattr(mixing, "mixture", spoiled(np.random.default_rng(seed), far))
    case, count, start = known(seed=seed, psi=psi, mu=0.0), 0, None
    for problem, old, new in steps(case, k=120):
        start = start or norm(old.grad)
        if norm(new.p.e) <= 1e-8 * start:
            break  # the directions that are left are rounding errors
        if new.kind != "separating":
            np.testing.assert_array_equal(new.z, old.z)
            continue
        z, v, L = old.z, new.p.v, new.L
        R = case.P.operator(v) + problem.g.term.operator(v)
        u = least(problem, v, R + L * (v - z)) - L * (v - z)
        along = u @ (z - v)
        assert along >= math.sqrt(1.0 - SIGMA**2) * norm(u) * norm(z - v) * (1.0 - 1e-9)
        t = along / norm(u) ** 2
        to = z - t * u if psi is None else problem.psi.prox(z - t * R, 1.0 / t)
        size = norm(z) + norm(case.z) + norm(v)
        np.testing.assert_allclose(new.z, to, rtol=0.0, atol=1e-9 * size)
        fall = max(t * along, (1.0 - SIGMA**2) * norm(z - v) ** 2 * (1.0 - 1e-9))
        assert norm(new.z - case.z) ** 2 <= norm(z - case.z) ** 2 - fall + 1e-12 * size**2
        if problem.psi is not None:
            np.testing.assert_allclose(problem.psi.prox(new.z, 1.0), new.z, atol=1e-12)
        count += 1
    assert count >= (5 if far else 0)


# Line 4: the guard.


@pytest.mark.parametrize("psi", SETS)
def test_the_guard_comes_after_its_failures_and_its_potential_falls(psi, monkeypatch):
    """With mixtures that lead far away proven steps do the work, and z comes closer."""
    monkeypatch.setattr(mixing, "mixture", spoiled(np.random.default_rng(4), 1e6))
    case, method = known(seed=4, psi=psi, mu=0.4), gt.methods.AndersonResolvent()
    problem = problem_of(without_constants(case.P, 12), case.Q, 12)
    P, Q = case.P.operator, problem.g.term.operator
    state, passed, failures = method.init(problem, np.full(12, 1.0 / 12)), 0, 0
    for _ in range(400):
        old, state = state, method.step(problem, state)
        if old.fails < 30:
            assert state.kind != "anchor"
            failures += state.kind == "failure"
            assert state.fails in (old.fails + 1, 0, 30)  # 30 where v = p, at a corner
            continue
        if state.kind == "anchor":
            assert not np.array_equal(old.best.v, old.z)  # P is not asked again where it was
            np.testing.assert_array_equal(state.p.v, old.z)
            np.testing.assert_allclose(state.p.P, P(old.z), rtol=1e-12, atol=1e-12)
            assert state.fails == old.fails
            continue
        assert np.array_equal(old.p.v, old.z) or np.array_equal(old.best.v, old.z)
        if state.kind == "failure":
            assert state.L_proven == 2.0 * state.L and state.fails == old.fails + 1
            np.testing.assert_array_equal(state.z, old.z)
            np.testing.assert_array_equal(state.p.v, old.z)
            continue
        v, z, L = state.p.v, old.z, state.L
        passed += 1
        inner = least(problem, v, P(z) + Q(v) + L * (v - z))
        assert norm(inner) <= ZETA * SIGMA * L * norm(v - z) * (1.0 + 1e-9)
        assert state.L_proven == 0.8 * L and state.fails == 15
        if state.kind == "separating":
            fall = (1.0 - SIGMA**2) * norm(v - z) ** 2
            before = norm(z - case.z) ** 2
            assert norm(state.z - case.z) ** 2 <= before - fall + 1e-12 * (1.0 + before)
        if norm(state.grad) <= 1e-6:
            break
    assert passed >= 3 and failures >= 3
    assert norm(state.grad) < norm(method.init(problem, np.full(12, 1.0 / 12)).grad)


def test_a_proven_step_passes_once_L_is_what_the_proof_asks_for():
    """From any z, with L = Lip(P)/(sigma (1 - zeta)): the angle is small enough."""
    rng = np.random.default_rng(6)
    for seed, psi in itertools.product(range(5), SETS):
        case = known(seed=seed, psi=psi)
        problem = problem_of(case.P, case.Q, 12)
        z = case.z + rng.standard_normal(12)
        z = z if psi is None else problem.psi.prox(z, 1.0)
        L, P, Q = case.L_P / (SIGMA * (1.0 - ZETA)), case.P.operator, problem.g.term.operator

        def enough(v, e, L=L, z=z):
            return e <= ZETA * SIGMA * L * norm(v - z)

        v = resolvent.solve(problem.g, problem.psi, P(z), L, z, z, enough, Q(z)).v
        u = least(problem, v, P(v) + Q(v) + L * (v - z)) - L * (v - z)
        bound = math.sqrt(1.0 - SIGMA**2) * norm(u) * norm(z - v)
        assert u @ (z - v) >= bound * (1.0 - 1e-9)


# The resolvent.


@pytest.mark.parametrize(
    ("psi", "L", "is_known"),
    [(None, 1e-2, True), (None, 1.0, False), ("box", 1.0, True), ("simplex", 100.0, False)],
)
def test_resolvents_are_solved_to_their_rule(psi, L, is_known):
    rng = np.random.default_rng(9)
    case = known(seed=9, psi=psi)
    problem = problem_of(case.P, case.Q, 12)
    Q, c = problem.g.term.operator, rng.standard_normal(12)
    b = v0 = rng.standard_normal(12)
    Q0 = Q(v0) if is_known else None
    seen = []

    def enough(v, e):
        seen.append((v, e))
        return e <= 1e-7 * norm(c)

    found = resolvent.solve(problem.g, problem.psi, c, L, b, v0, enough, Q0)
    G = c + Q(found.v) + L * (found.v - b)
    np.testing.assert_allclose(found.Q, Q(found.v), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.e, least(problem, found.v, G), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.w, found.e - G, atol=1e-9)
    assert norm(found.e) <= 1e-7 * norm(c)
    assert seen[-1][0] is found.v
    if is_known and psi is None:
        assert seen[0][0] is v0  # and Q was not asked there again
        resolvent.solve(problem.g, None, c, L, b, v0, lambda v, e: True, Q0)
    before = asked(problem, "Q.operator")
    resolvent.solve(problem.g, problem.psi, c, L, b, v0, lambda v, e: True, Q0)
    assert asked(problem, "Q.operator") - before == (0 if is_known and psi is None else 1)


@pytest.mark.parametrize("psi", [None, "box"])
def test_extragradient_steps_alone_solve_it_where_newton_steps_fail(psi, monkeypatch):
    """Their distance to the solution of the resolvent falls, which |e|/L bounds from above."""
    monkeypatch.setattr(resolvent._Equation, "newton", lambda self, p: None)
    case = known(seed=16, psi=psi)
    problem = problem_of(case.P, case.Q, 12)
    c, b, L = np.ones(12), np.zeros(12), 5.0
    seen = []

    def enough(v, e):
        seen.append(v)
        return e <= 1e-4 * norm(c)

    found = resolvent.solve(problem.g, problem.psi, c, L, b, b, enough)
    assert norm(found.e) <= 1e-4 * norm(c)
    away = [norm(v - found.v) for v in seen]
    slack = 2.0 * norm(found.e) / L
    assert all(new <= old + slack for old, new in itertools.pairwise(away))


def test_a_set_that_tells_nothing_but_its_projection():
    box, case = gt.Box(-1.0, 1.0), known(seed=10, psi="box", mu=0.4)
    Q = case.Q.parts[0][1]
    res = gt.equilibrium(case.P, Q + OnlyProx(box), case.z + 0.5, tol=1e-6)
    assert res.success
    np.testing.assert_allclose(res.x, case.z, atol=1e-3)


def test_a_resolvent_that_cannot_be_solved_ends():
    """Rounding, or a Q that is not monotone: the best point, not an endless run."""
    Q = gt.Operator(lambda v: np.sign(v) - 10.0 * v, n=3)
    for Q_set in (Q, Q + gt.Box(-1.0, 2.0)):
        problem = problem_of(gt.Operator(np.sin, n=3), Q_set, 3)
        b = np.array([0.3, -0.2, 0.1])
        found = resolvent.solve(problem.g, problem.psi, b, 1e-3, b, b, lambda v, e: False)
        assert np.isfinite(found.v).all() and asked(problem, "Q.operator") < 20_000


def test_gmres():
    rng = np.random.default_rng(11)
    A, b = np.eye(30) + 0.5 * rng.standard_normal((30, 30)), rng.standard_normal(30)
    products = []

    def product(d):
        products.append(d)
        return A @ d

    for accuracy in (0.3, 1e-2, 1e-10):
        x = resolvent.gmres(product, b, accuracy, 30)
        assert norm(b - A @ x) <= accuracy * norm(b) * (1.0 + 1e-6)
    short = resolvent.gmres(product, b, 1e-10, 5)
    K = np.linalg.qr(np.column_stack([np.linalg.matrix_power(A, k) @ b for k in range(5)]))[0]
    y = np.linalg.lstsq(A @ K, b, rcond=None)[0]
    np.testing.assert_allclose(short, K @ y, atol=1e-8)
    assert not resolvent.gmres(product, 0.0 * b, 0.1, 30).any()


# Endings.


def test_endings():
    """Whatever is asked, a status that is true; nothing loops and nothing is raised."""
    rng = np.random.default_rng(12)
    A = rng.standard_normal((5, 5))
    A, q, box = A - A.T + 0.1 * np.eye(5), rng.standard_normal(5), gt.Box(-1.0, 1.0)
    for fn, Q, ending in [
        (lambda z: np.ones(5), None, Status.STALLED),  # no solution
        (lambda z: np.ones(5), gt.NonNegative(), Status.CONVERGED),
        (lambda z: -np.ones(5), gt.NonNegative(), Status.STALLED),
        (lambda z: np.ones(5), box, Status.CONVERGED),
        (lambda z: 0.0 * z, gt.Operator(lambda z: A @ z - q, n=5), Status.CONVERGED),
        (lambda z: A @ z - q, None, Status.CONVERGED),
        (lambda z: A @ z - q, gt.L1(0.1), Status.CONVERGED),
        (lambda z: np.where(np.abs(z) > 3.0, np.nan, 2.0 * z - q), None, Status.CONVERGED),
        (lambda z: np.clip(z - 1e5, -1.0, 1.0), None, Status.CONVERGED),  # a long plateau
    ]:
        res = gt.equilibrium(gt.Operator(fn, n=5), Q, max_iter=300)
        assert res.status is ending
        assert res.success == (ending is Status.CONVERGED)


def test_what_has_no_solution_is_never_solved():
    for fn in (
        lambda z: np.where(np.arange(5) < 2, 1.0, z - 1.0),
        lambda z: 1.0 + 1.0 / (1.0 + np.exp(-z)),
        lambda z: np.exp(z),  # 0 at -infinity: small residuals are true there
    ):
        res = gt.equilibrium(gt.Operator(fn, n=5), None, max_iter=200)
        assert res.status in (Status.STALLED, Status.MAX_ITER) or norm(fn(res.x)) <= 1e-5


def test_one_variable():
    P = gt.Operator(lambda z: z - 1.0, n=1)
    cubic = gt.Operator(lambda z: z**3, n=1)
    assert gt.equilibrium(P, cubic, tol=1e-10).x[0] == pytest.approx(0.6823278038280193)
    assert gt.equilibrium(P, cubic + gt.Box(0.0, 0.5), tol=1e-10).x[0] == 0.5


def test_the_end_of_accuracy_is_told_as_rounding():
    case = known(seed=14, mu=0.4)
    res = gt.equilibrium(case.P, case.Q, tol=1e-300, max_iter=2000)
    assert res.status is Status.STALLED and norm(res.x - case.z) <= 1e-10


def test_R_that_is_not_monotone_is_told_and_ends():
    for fn in (lambda z: -z + 0.1, lambda z: 1.0 + z**2):
        res = gt.equilibrium(gt.Operator(fn, n=3), None, np.full(3, 1.2), max_iter=500)
        assert any("not monotone" in note for _, note in res.history.notes)
        if res.success:
            assert norm(fn(res.x)) <= 1e-5


@pytest.mark.parametrize(("k", "polytope"), [(5, True), (40, False)])
def test_a_run_resumed_in_the_guard_or_on_a_polytope(k, polytope, tmp_path, monkeypatch):
    monkeypatch.setattr(mixing, "_GUARD", 2)  # proven steps are common
    monkeypatch.setattr(mixing, "_BACK", 1)
    A = np.random.default_rng(15).standard_normal((3, 12))
    case = known(seed=15, mu=1e-3)
    Q = case.Q + gt.Linear(A, -1.0, 1.0, bounds=(-1.0, 1.0)) if polytope else case.Q
    whole = gt.equilibrium(case.P, Q, tol=1e-9, max_iter=200)
    gt.equilibrium(case.P, Q, tol=1e-9, max_iter=k, checkpoint=tmp_path / "run")
    same(whole, gt.resume(tmp_path / "run", case.P, Q, max_iter=200))


@pytest.mark.parametrize("name", ["sigma", "zeta"])
def test_parameters_are_checked(name):
    for wrong in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match=f"{name} must be between 0 and 1"):
            gt.methods.AndersonResolvent(**{name: wrong})
