"""The part of g that a model keeps, for a non-convex h and a non-smooth psi."""

from __future__ import annotations

import numpy as np
import pytest

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.quasi_newton.composite_scaling import Models
from geartrain.methods.quasi_newton.composite_trial import LearnedModel
from geartrain.methods.quasi_newton.memory import Memory, Pair
from geartrain.methods.quasi_newton.models import Shelf
from geartrain.methods.quasi_newton.shrinkage import Base

N = 12
SHRUNK = ("shrunk", 60)


def base_of(a, b, H_g, steps=5, seed=0):
    """After steps along which H_f = a H_g + b I."""
    rng, base = np.random.default_rng(seed), Base()
    for s in rng.standard_normal((steps, N)):
        base = base.after(H_g @ s, s, a * H_g @ s + b * s)
    return base


@pytest.mark.parametrize(("a", "b"), [(0.3, 2.0), (0.9, 0.1), (0.05, 5.0)])
def test_the_shares_of_a_shrunk_matrix_are_found(a, b):
    H_g = np.diag(np.geomspace(1e-2, 1e1, N))
    assert base_of(a, b, H_g).shares == pytest.approx((a, b), rel=1e-8)


def test_a_is_between_nothing_and_all_of_g():
    """And b is the best number with that a, as far as it is positive."""
    H_g = np.diag(np.geomspace(1e-2, 1e1, N))
    a, b = base_of(1.5, 0.2, H_g).shares
    assert a == 1.0 and b > 0.2
    a, b = base_of(-0.1, 3.0, H_g).shares
    assert a == 0.0 and 0.0 < b < 3.0
    assert base_of(0.8, -1e-3, H_g).shares[1] > 0.0


def test_before_it_is_known_all_of_g_is_kept():
    s = np.ones(N)
    assert Base().shares == (1.0, 0.0)
    a, b = Base().after(2.0 * s, s, 3.0 * s).shares  # H_g is like I
    assert a == 1.0 and b == pytest.approx(1.0)
    assert Base().after(s, s, 0.0 * s).shares == (1.0, 0.0)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_shrunk_model_satisfies_the_newest_secant_equation(scaled):
    """a H_g s + B s = (H_h + H_g) s, and a H_g + b D acts where the pairs tell nothing."""
    rng = np.random.default_rng(1)
    H_g = np.diag(np.geomspace(0.1, 1.0, N))
    H_h = np.diag(rng.uniform(-0.05, 0.5, N))
    steps = [s / np.linalg.norm(s) for s in rng.standard_normal((3, N))]
    memory = Memory.of([Pair(s, H_h @ s, H_g @ s) for s in steps], EUCLIDEAN)
    D = np.geomspace(1.0, 4.0, N)
    shelf = Shelf(memory, memory, 0.7, 2.0, EUCLIDEAN, (0.4, 0.3))
    models = Models.of(memory, memory, shelf, D, 1.0 if scaled else 0.0)
    B, a, s = models[SHRUNK], models.part(SHRUNK), steps[-1]
    assert a == 0.4 and models.part(("plain", 50)) == 0.0 and models.part(("careful", 60)) == 1.0
    np.testing.assert_allclose(a * H_g @ s + B(s), (H_h + H_g) @ s, atol=1e-10)
    rows = np.array([row for pair in memory.pairs for row in pair.rows])
    rows = np.vstack([rows, rows * D]) if scaled else rows
    away = rng.standard_normal(N)
    away -= np.linalg.pinv(rows) @ (rows @ away)
    if np.linalg.norm(away) > 1e-6:
        np.testing.assert_allclose(B(away), 0.3 * (D if scaled else 1.0) * away, atol=1e-10)


def test_the_model_knows_its_gradient_and_its_changes():
    rng = np.random.default_rng(2)
    H_g, p, beta = np.diag(np.geomspace(0.1, 1.0, N)), rng.standard_normal(N), np.ones(N)
    phi = LearnedModel(None, beta, 0.5, part=0.3, uneven=np.arange(N), p=p)
    v, w = rng.standard_normal((2, N))
    (change,) = phi.changes([w - v], [H_g @ (w - v)])
    np.testing.assert_allclose(phi.grad(w, H_g @ w) - phi.grad(v, H_g @ v), change, atol=1e-12)
    want = beta + 0.5 * v + 0.3 * H_g @ v + np.arange(N) * (v - p)
    np.testing.assert_allclose(phi.grad(v, H_g @ v), want, atol=1e-12)
