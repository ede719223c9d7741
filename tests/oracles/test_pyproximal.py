"""Operators of pyproximal itself, against the terms of the library."""

from __future__ import annotations

import math

import numpy as np
import pyproximal
import pytest

import geartrain as gt
from geartrain.oracles.ledger import Ledger
from geartrain.oracles.splitting import Psi

N = 12
CENTER = np.full(N, 0.1)
# The simplex of pyproximal is found by bisection, to 1e-8.
PAIRS = {
    "L1": (pyproximal.L1(sigma=0.3), gt.L1(0.3), 1e-14),
    "Box": (pyproximal.Box(-0.2, 0.3), gt.Box(-0.2, 0.3), 0.0),
    "EuclideanBall": (pyproximal.EuclideanBall(CENTER, 0.4), gt.Ball(0.4, CENTER), 1e-14),
    "Simplex": (pyproximal.Simplex(N, 0.5, engine="numpy"), gt.Simplex(0.5), 1e-7),
    "Euclidean": (pyproximal.Euclidean(sigma=0.3), gt.GroupL1(N, 0.3), 1e-14),
    "L21": (
        pyproximal.L21(ndim=3, sigma=0.3),
        gt.GroupL1([[i, i + 4, i + 8] for i in range(4)], 0.3),
        1e-14,
    ),
    "Nuclear": (pyproximal.Nuclear((3, 4), sigma=0.3), gt.NuclearNorm((3, 4), 0.3), 1e-13),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_same_term(name):
    """Values and proximal steps agree, check_term finds nothing, and so do the solutions."""
    operator, own, accuracy = PAIRS[name]
    term = gt.from_pyproximal(operator, n=N)
    rng = np.random.default_rng(0)
    for alpha in (0.3, 1.0, 7.0):
        u = rng.standard_normal(N)
        v = own.prox(u, alpha)
        np.testing.assert_allclose(term.prox(u, alpha), v, atol=accuracy)
        # the nuclear norm of pyproximal is the square root of eigenvalues
        assert term.value(v) == pytest.approx(own.value(v), abs=1e-7)
    report = gt.check_term(term, n=N)
    assert report.ok, str(report)
    A = rng.standard_normal((40, N))
    h = gt.LinearModel(A, np.where(A[:, 0] > 0.1, 1.0, -1.0))
    g = gt.Quadratic(np.diag(np.geomspace(0.1, 10.0, N)))
    x0 = own.prox(np.zeros(N), 1.0)
    # Subgradients are known by differences of proximal steps: those of a bisection are coarse, and
    # learned models of them may not come far.
    tol, method = (1e-6, "auto") if accuracy < 1e-10 else (1e3 * accuracy, "fgm")
    res, same = (gt.minimize(h, g + psi, x0, tol=tol, method=method) for psi in (term, own))
    assert res.success
    np.testing.assert_allclose(res.x, same.x, atol=10.0 * tol)


def test_the_error_of_a_bisection_is_no_subgradient():
    """Of very short steps it is all that is left, and no scale for a tolerance."""
    operator, own, _ = PAIRS["Simplex"]
    bisected, exact = (
        Psi(term, 1.0, "g", Ledger(), N) for term in (gt.from_pyproximal(operator, n=N), own)
    )
    v, rng = own.prox(np.zeros(N), 1.0), np.random.default_rng(4)
    for _ in range(5):
        d = rng.standard_normal(N)
        assert np.linalg.norm(bisected.residual(v, d)) == pytest.approx(
            np.linalg.norm(exact.residual(v, d)), rel=0.2
        )


def test_outside_of_a_set():
    """A point outside has an infinite value; a projection that rounding moves out has not."""
    ball = gt.from_pyproximal(pyproximal.EuclideanBall(CENTER, 0.4), n=N)
    assert ball.value(CENTER + 0.2) == math.inf
    with pytest.raises(TypeError, match=r"prox\(x, tau\)"):
        gt.from_pyproximal(np.linalg.norm)
    rng = np.random.default_rng(1)
    for _ in range(20):
        assert ball.value(ball.prox(rng.standard_normal(N), 1.0)) == 0.0


def test_a_projection_by_an_iteration_is_inside():
    """That onto the simplex ends at an error of about 1e-7; its own indicator says outside."""
    term = gt.from_pyproximal(pyproximal.Simplex(40, 1.0, engine="numpy"), n=40)
    for seed in range(5):
        report = gt.check_term(term, seed=seed)
        assert report, str(report)
    assert term.value(np.full(40, 0.026)) == math.inf
