"""Short work is handed to BLAS in pieces that it computes in one thread.

Threads that are woken spin for milliseconds afterwards and take the cores from others. From which
sizes on OpenBLAS takes several of them was found by experiment; the pieces are looked at here.
"""

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.quasi_newton import factors, rows
from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.prox_step import _product
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


@pytest.mark.parametrize(("k", "columns"), [(3, 5), (40, 25), (40, 80), (1500, 2)])
def test_triangular_systems_in_pieces(k, columns, monkeypatch):
    rng = np.random.default_rng(k)
    C = np.tril(rng.standard_normal((k, k))) / k + np.eye(k)
    B = rng.standard_normal((k, columns))
    shapes, dtrsm = [], factors.blas().dtrsm

    def recorded(alpha, C, B, **more):
        shapes.append(B.shape)
        return dtrsm(alpha, C, B, **more)

    monkeypatch.setattr(factors.blas(), "dtrsm", recorded)
    X = factors.solved(C, B)
    # The residual of a triangular solve is at most k eps |C| |X|, entry by entry.
    assert np.all(np.abs(C @ X - B) <= 2 * k * EPS * (np.abs(C) @ np.abs(X)))
    assert sum(width for _, width in shapes) == columns
    assert all(height * width < 1024 or width == 1 for height, width in shapes)


def test_the_slices_are_all_there_is():
    for n, each in ((10_000, 50), (10_000, 400), (5, 10**9), (7, 0)):
        pieces = list(rows.slices(n, each))
        assert np.array_equal(np.concatenate([np.arange(n)[p] for p in pieces]), np.arange(n))
        assert all(each * len(np.arange(n)[p]) <= 2**18 for p in pieces) or each > 2**18


def test_a_small_model_as_a_matrix():
    rng = np.random.default_rng(0)
    V = rows.Rows(rng.standard_normal((60, 110)) / np.sqrt(110))
    identity, array = np.eye(60), np.array(V.rows)
    C = LowRank(1.0, Small(V, identity, array @ array.T, identity, EUCLIDEAN))
    s = rng.standard_normal(110)
    assert np.allclose(_product(C, 0.5)(s), C(s, 0.5), rtol=0, atol=1e-12 * norm(s))


def test_a_run_with_a_long_x(lengths):
    rng = np.random.default_rng(0)
    wide = sparse.random_array((200, 20_000), density=0.01, rng=rng, format="csr")
    h = gt.LinearModel(wide, rng.choice([-1.0, 1.0], 200))
    for method in ("working-set", "pqn"):
        lengths.clear()
        gt.minimize(h, gt.L1(1e-3), method=method, tol=1e-3)
        assert lengths and max(lengths) <= 8192
