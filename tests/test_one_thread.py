"""Short work does not wake the threads of BLAS, which would spin beside it and cost milliseconds.

What all threads have computed minus what this one has is that of the others. A thread of OpenBLAS
that is woken spins for tens of milliseconds, and one that is not takes no time at all.
"""

import time

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.quasi_newton import factors, rows
from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.prox_step import _product
from geartrain.oracles.vectors import dot, norm

threadpoolctl = pytest.importorskip("threadpoolctl")
EPS = np.finfo(float).eps


@pytest.fixture
def two_threads():
    """BLAS may use two threads, and does so for long vectors; otherwise there is nothing to see."""
    x = np.ones(10**6)
    with threadpoolctl.threadpool_limits(2):
        if not woken(lambda: x @ x):
            pytest.skip("this BLAS has no threads, or computes inner products without them")
        yield


def woken(function):
    """Whether other threads compute while the function runs, or spin after it, each of three times.

    Once may be a thread that still spins, on a machine that is too busy to let it come to rest.
    """
    function()  # imports and compiles
    return all(_others(function) > 1e-3 for _ in range(3))


def _others(function):
    """Seconds of the processor that other threads take."""
    time.sleep(0.1)  # threads that spin come to rest
    before = time.process_time() - time.thread_time()
    function()
    time.sleep(0.02)
    return time.process_time() - time.thread_time() - before


def model(rows_of_model, n, rng):
    """A matrix lam I + V'MV."""
    V = rows.Rows(rng.standard_normal((rows_of_model, n)) / np.sqrt(n))
    identity, array = np.eye(rows_of_model), np.array(V.rows)
    return LowRank(1.0, Small(V, identity, array @ array.T, identity, EUCLIDEAN))


@pytest.mark.parametrize("n", [8191, 8192, 8193, 20_000])
def test_inner_products_of_long_vectors(n):
    rng = np.random.default_rng(n)
    u, v = rng.standard_normal((2, n))
    error = n * EPS * float(np.abs(u) @ np.abs(v))
    assert dot(u, v) == pytest.approx(float(u @ v), abs=error)
    assert norm(u) == pytest.approx(np.linalg.norm(u), rel=n * EPS)
    every_third = np.repeat(u, 3)[::3]
    assert dot(every_third, v) == dot(u, v)
    assert dot(u.astype(np.float32), v) == dot(u.astype(np.float32).astype(float), v)
    u[n - 1] = np.nan
    assert np.isnan(dot(u, v))


@pytest.mark.parametrize(("k", "columns"), [(3, 5), (40, 25), (40, 80), (1500, 2)])
def test_triangular_systems_in_pieces(k, columns):
    rng = np.random.default_rng(k)
    C = np.tril(rng.standard_normal((k, k))) / k + np.eye(k)
    B = rng.standard_normal((k, columns))
    # The residual of a triangular solve is at most k eps |C| |X|, entry by entry.
    X = factors.solved(C, B)
    assert np.all(np.abs(C @ X - B) <= 2 * k * EPS * (np.abs(C) @ np.abs(X)))


def test_the_slices_are_all_there_is():
    for n, each in ((10_000, 50), (10_000, 400), (5, 10**9), (7, 0)):
        pieces = list(rows.slices(n, each))
        assert np.array_equal(np.concatenate([np.arange(n)[p] for p in pieces]), np.arange(n))
        assert all(each * len(np.arange(n)[p]) <= 2**18 for p in pieces) or each > 2**18


def test_a_small_model_as_a_matrix():
    rng = np.random.default_rng(0)
    C = model(60, 110, rng)
    s = rng.standard_normal(110)
    assert np.allclose(_product(C, 0.5)(s), C(s, 0.5), rtol=0, atol=1e-12 * norm(s))


def test_kernels_keep_to_one_thread(two_threads):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(50_000)
    C, B = np.tril(rng.standard_normal((40, 40))) + 40 * np.eye(40), rng.standard_normal((40, 80))
    long = rows.Rows(list(rng.standard_normal((30, 5000))))
    matrix = model(60, 110, rng)
    assert not woken(lambda: norm(x))
    assert not woken(lambda: EUCLIDEAN.dot(x, x))
    assert not woken(lambda: factors.solved(C, B))
    assert not woken(lambda: long.dots_all(long.rows, EUCLIDEAN))
    assert not woken(lambda: long.combine_all(np.ones((30, 30))))
    assert not woken(lambda: _product(matrix, 0.0))


def test_runs_keep_to_one_thread(two_threads):
    """Sparse regression with a long x, and a model of as many rows as 100 variables need."""
    rng = np.random.default_rng(0)
    wide = sparse.random_array((200, 20_000), density=0.01, rng=rng, format="csr")
    h = gt.LinearModel(wide, rng.choice([-1.0, 1.0], 200))
    assert not woken(lambda: gt.minimize(h, gt.L1(1e-3), method="working-set"))
    A = rng.standard_normal((300, 100)) * np.geomspace(1.0, 0.01, 100)
    few = gt.LinearModel(A, np.sign(A.sum(axis=1) + rng.standard_normal(300)))
    w = np.geomspace(1e-4, 10.0, 100)
    g = gt.Term(lambda x: (0.5 * float(x @ (w * x)), w * x), n=100, convex=True)
    assert not woken(lambda: gt.minimize(few, g + gt.L1(1e-3), method="sae-qn", tol=1e-5))
