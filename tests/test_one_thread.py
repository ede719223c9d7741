"""Short work is handed to BLAS in pieces that it computes in one thread.

Threads that are woken spin for milliseconds afterwards and take the cores from others. From which
sizes on OpenBLAS takes several of them was found by experiment; the pieces are looked at here.
"""

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from geartrain.oracles import vectors
from geartrain.oracles.vectors import dot, norm

EPS = np.finfo(float).eps


@pytest.fixture
def lengths(monkeypatch):
    """Lengths of all inner products that BLAS is asked for."""
    seen = []
    dot(np.ones(1), np.ones(1))  # imports what is to be replaced
    ddot = vectors._ddot

    def recorded(u, v, *piece):
        seen.append(piece[0] if piece else u.size)
        return ddot(u, v, *piece)

    monkeypatch.setattr(vectors, "_ddot", recorded)
    return seen


@pytest.mark.parametrize("n", [8191, 8192, 8193, 20_000])
def test_inner_products_of_long_vectors(n, lengths):
    rng = np.random.default_rng(n)
    u, v = rng.standard_normal((2, n))
    error = n * EPS * float(np.abs(u) @ np.abs(v))
    assert dot(u, v) == pytest.approx(float(u @ v), abs=error)
    assert sum(lengths) == n and max(lengths) <= 8192
    assert norm(u) == pytest.approx(np.linalg.norm(u), rel=n * EPS)
    every_third = np.repeat(u, 3)[::3]
    assert dot(every_third, v) == dot(u, v)
    assert dot(u.astype(np.float32), v) == dot(u.astype(np.float32).astype(float), v)
    u[n - 1] = np.nan
    assert np.isnan(dot(u, v))
    assert max(lengths) <= 8192


def test_a_run_with_a_long_x(lengths):
    rng = np.random.default_rng(0)
    wide = sparse.random_array((200, 20_000), density=0.01, rng=rng, format="csr")
    h = gt.LinearModel(wide, rng.choice([-1.0, 1.0], 200))
    for method in ("working-set", "pqn"):
        lengths.clear()
        gt.minimize(h, gt.L1(1e-3), method=method, tol=1e-3)
        assert lengths and max(lengths) <= 8192
