"""The projection onto a polyhedron: its own optimality, whatever the polyhedron."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from geartrain.oracles import linear, polyhedron
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.polyhedron import Projector
from polytopes import KINDS, kkt, polytope

SEEDS = [*range(11), 29]  # in 29, v is at an upper bound up to rounding


def asked(case):
    """The term of a case for one run."""
    A, lower, upper, lo, hi, _ = case
    return gt.Linear(A, lower, upper, bounds=gt.Box(lo, hi)).for_run()


def multipliers(run, v, w):
    """Those of the rows, positive at upper sides."""
    return -run.multipliers(v, w)["rows"]


def points(x, seed):
    rng = np.random.default_rng(seed)
    return [x + size * rng.standard_normal(x.size) for size in (0.1, 3.0, 100.0)]


@pytest.mark.parametrize("kind", KINDS)
def test_projections_are_optimal(kind):
    for seed in SEEDS:
        case = polytope(kind, seed)
        run = asked(case)
        for u in points(case[-1], seed):
            v = run.prox(u, 1.0)
            assert kkt(*case[:5], u, v, multipliers(run, v, u - v)) <= 1e-12, (kind, seed)
            # u - v is in the normal cone at v
            assert np.linalg.norm(run.residual(v, v - u)) <= 1e-11 * np.linalg.norm(u)


@pytest.mark.parametrize("kind", KINDS)
def test_residuals_are_the_least(kind):
    """r is d + w with w in the normal cone, and -r a direction of the set, orthogonal to w."""
    for seed in SEEDS:
        case = polytope(kind, seed)
        x, run = case[-1], asked(case)
        rng = np.random.default_rng(seed)
        v = run.prox(points(x, seed)[1], 1.0)
        d = rng.standard_normal(x.size)
        r, size = run.residual(v, d), 1.0 + np.linalg.norm(d)
        assert abs(r @ (r - d)) <= 1e-11 * size**2  # w is orthogonal to r
        for u in points(x, seed + 100):
            s = run.prox(u, 1.0)
            far = np.linalg.norm(s - v)
            assert (r - d) @ (s - v) <= 1e-9 * size * (1.0 + far)  # in the normal cone
        # -r is a direction of the set: a short step leads nowhere else
        short = 1e-6 / size
        moved = run.term.prox(v - short * r, 1.0)
        assert np.linalg.norm(moved - v + short * r) <= 1e-9 * short * size + 1e-14 * (
            1.0 + np.linalg.norm(v)
        )


@pytest.mark.parametrize("kind", KINDS)
def test_derivative_against_differences(kind):
    """Where the face does not change nearby, the projection is linear there."""
    compared = 0
    for seed in SEEDS:
        case = polytope(kind, seed)
        x, run = case[-1], asked(case)
        u = points(x, seed)[1]
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((x.size, 3))
        J = run.derivative(u, 1.0)
        e = 1e-7
        ahead = np.array([run.prox(u + e * column, 1.0) for column in X.T]).T
        back = np.array([run.prox(u - e * column, 1.0) for column in X.T]).T
        if np.abs(ahead + back - 2 * run.prox(u, 1.0)[:, None]).max() > 1e-11:
            continue  # at a kink
        compared += 1
        np.testing.assert_allclose(J(X), (ahead - back) / (2 * e), atol=1e-6)
        np.testing.assert_allclose(J.form(X.T), X.T @ J(X), atol=1e-10)
    assert compared >= 6


def test_sparse_and_dense_are_the_same(monkeypatch):
    monkeypatch.setattr(linear, "_DENSE", 0)
    for kind in KINDS:
        for seed in range(2):
            A, *rest, x = polytope(kind, seed)
            thin = asked((sparse.csc_array(A), *rest, x))
            full = asked((A, *rest, x))
            assert sparse.issparse(thin.term._polyhedron.A)
            for u in points(x, seed)[1:]:
                v, w = thin.prox(u, 1.0), full.prox(u, 1.0)
                size = np.linalg.norm(u) + np.linalg.norm(v)
                assert np.linalg.norm(v - w) <= 1e-9 * size
                assert kkt(A, *rest, u, v, multipliers(thin, v, u - v)) <= 1e-12
                d = np.cos(np.arange(x.size))
                np.testing.assert_allclose(thin.residual(w, d), full.residual(w, d), atol=1e-7)


def test_a_face_serves_sparse_and_dense_alike():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 12))
    A[5] = A[0] + A[1]
    W, free = np.array([0, 1, 3, 5]), np.array([0, 2, 3, 4, 7, 8, 9, 11])
    thin = polyhedron.SparseFace(sparse.csr_array(A), W, free)
    full = polyhedron.DenseFace(A, W, free)
    X = rng.standard_normal((12, 4))
    np.testing.assert_allclose(thin(X), full(X), atol=1e-9)
    np.testing.assert_allclose(thin.form(X.T), full.form(X.T), atol=1e-9)
    np.testing.assert_allclose(full(full(X)), full(X), atol=1e-12)
    np.testing.assert_allclose(A[np.ix_(W, np.arange(12))] @ full(X), 0.0, atol=1e-12)


@pytest.mark.parametrize("size", [1e-8, 1e8])
def test_units_of_x_do_not_matter(size):
    for seed in range(3):
        A, lower, upper, lo, hi, x = polytope("plain", seed)
        u = points(x, seed)[1]
        v = asked((A, lower, upper, lo, hi, x)).prox(u, 1.0)
        scaled = asked((A, size * lower, size * upper, size * lo, size * hi, x))
        np.testing.assert_allclose(scaled.prox(size * u, 1.0) / size, v, atol=1e-9)


def test_points_however_far_away():
    """The sides are met where u is 1e12 times as far away as the set is large."""
    term = gt.Linear(np.ones((1, 5)), 1.0, 1.0, bounds=(0.0, 1.0))
    for size in (1e3, 1e6, 1e9, 1e12):
        for seed in range(5):
            u = size * np.random.default_rng(seed).standard_normal(5)
            v = term.prox(u, 1.0)
            assert term.violation(v) <= 1e-12
            assert np.linalg.norm(v - gt.Simplex().prox(u, 1.0)) <= 1e-12 * size


def test_what_is_not_finite_has_no_projection():
    term = gt.Linear(np.ones((1, 2)), 1.0, 1.0)
    with pytest.raises(NonFiniteAnswer, match="has no projection"):
        term.prox([1.0, math.nan], 1.0)


def test_answers_follow_from_the_question_and_the_memory():
    """To the last bit: another object with the same memory answers in the same way."""
    for kind in KINDS:
        case = polytope(kind, 3)
        first, other = asked(case), asked(case)
        for u in points(case[-1], 1):
            first.prox(u, 1.0)
        other.memory = first.memory
        for u in points(case[-1], 2):
            np.testing.assert_array_equal(first.prox(u, 1.0), other.prox(u, 1.0))
            v, d = first.term.prox(u, 1.0), np.sin(np.arange(u.size))
            np.testing.assert_array_equal(first.residual(v, d), other.residual(v, d))


def test_residuals_and_derivatives_leave_no_trace():
    """A run that is looked at is the run that is not."""
    case = polytope("whole numbers", 5)
    watched, alone = asked(case), asked(case)
    for u in [*points(case[-1], 1), *points(case[-1], 2)]:
        watched.derivative(u + 1.0, 1.0)
        watched.residual(watched.term.prox(u, 1.0), u)
        np.testing.assert_array_equal(watched.prox(u, 1.0), alone.prox(u, 1.0))


def test_the_active_set_is_kept(monkeypatch):
    """The next projection nearby is one solve with the factor that is there."""
    case = polytope("plain", 7)
    run, u = asked(case), points(case[-1], 0)[1]
    run.prox(u, 1.0)
    faces = []
    monkeypatch.setattr(polyhedron, "DenseFace", lambda *args: faces.append(args))
    rounds = []
    on_face = Projector._on_face
    monkeypatch.setattr(
        Projector, "_on_face", lambda self, *args: rounds.append(0) or on_face(self, *args)
    )
    for k in range(1, 4):
        run.prox(u + 1e-9 * k, 1.0)
    assert faces == [] and len(rounds) == 3
