"""Data in float32: kept, never copied as a whole, and used in float64 arithmetic."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from geartrain.oracles import float32_products

KINDS = {"dense": np.asarray, "csr": sparse.csr_array}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def rows(kind, m=90, n=17, seed=0):
    """Rows in float32 with empty and full ones, and labels."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n)) * (rng.random((m, n)) < rng.random((m, 1)))
    A[3] = 0.0
    return kind(A.astype(np.float32)), np.where(rng.random(m) < 0.5, -1.0, 1.0)


def hessian(kind, n=17):
    """A symmetric positive definite matrix in float32."""
    B = np.random.default_rng(1).standard_normal((n, n)).astype(np.float32)
    Q = B @ B.T + np.eye(n, dtype=np.float32)
    return kind((Q + Q.T) / np.float32(2))


@pytest.mark.parametrize("piece", [1, 40, 10**6])
def test_products(monkeypatch, kind, piece):
    """Those of the same numbers in float64, however many rows are converted at a time."""
    monkeypatch.setattr(float32_products, "_PIECE", piece)
    A, _ = rows(kind)
    wide = A.astype(np.float64)
    rng = np.random.default_rng(2)
    for shape in ((), (3,)):
        x, u = rng.standard_normal((17, *shape)), rng.standard_normal((90, *shape))
        np.testing.assert_allclose(float32_products.times(A, x), wide @ x, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(
            float32_products.transposed_times(A, u), wide.T @ u, rtol=1e-13, atol=1e-13
        )


@pytest.mark.parametrize("intercept", [False, True])
def test_a_linear_model_answers_as_with_the_same_numbers_in_float64(kind, intercept):
    A, y = rows(kind)
    given = {"l2": 0.1, "intercept": intercept}
    narrow, wide = gt.LinearModel(A, y, **given), gt.LinearModel(A.astype(np.float64), y, **given)
    assert narrow.A.dtype == np.float32
    x = np.random.default_rng(3).standard_normal(narrow.n)
    assert narrow.value(x) == pytest.approx(wide.value(x), rel=1e-12)
    value, grad = narrow.value_and_grad(x)
    assert value == pytest.approx(wide.value(x), rel=1e-12)
    np.testing.assert_allclose(grad, wide.grad(x), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(narrow.grad(x), grad)
    assert narrow.grad(x).dtype == np.float64
    D = np.eye(narrow.n)[:, :3]
    np.testing.assert_allclose(narrow.products(x, D), wide.products(x, D), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(narrow.component(x, 5), wide.component(x, 5), rtol=1e-12)
    assert narrow.coord(x, 2) == pytest.approx(wide.coord(x, 2), rel=1e-12)
    assert wide.L <= narrow.L <= 1.002 * wide.L
    np.testing.assert_allclose(narrow.L_components, wide.L_components, rtol=1e-6)
    np.testing.assert_allclose(narrow.L_coord, wide.L_coord, rtol=1e-6)
    assert gt.check_term(narrow, x, calls=400).ok


def test_a_quadratic_answers_as_with_the_same_numbers_in_float64(kind):
    Q = hessian(kind)
    b = np.arange(17.0)
    narrow, wide = gt.Quadratic(Q, b), gt.Quadratic(Q.astype(np.float64), b)
    assert narrow.Q.dtype == np.float32
    x = np.random.default_rng(4).standard_normal(17)
    assert narrow.value(x) == pytest.approx(wide.value(x), rel=1e-12)
    np.testing.assert_allclose(narrow.grad(x), wide.grad(x), rtol=1e-12)
    np.testing.assert_allclose(narrow.prox(x, 0.3), wide.prox(x, 0.3), rtol=1e-10)
    np.testing.assert_allclose(narrow.L, wide.L, rtol=1e-12)
    np.testing.assert_allclose(narrow.mu, wide.mu, rtol=1e-8)
    assert narrow.coord(x, 4) == pytest.approx(wide.coord(x, 4), rel=1e-12)


@pytest.mark.parametrize("method", ["acd", "katyusha", "similar-newton"])
def test_methods_reach_a_tolerance_that_float32_arithmetic_would_not(kind, method):
    A, y = rows(kind)
    h, g = gt.Quadratic(hessian(kind), np.ones(17)), gt.LinearModel(A, y, l2=0.1)
    if method == "similar-newton":
        h, g = (
            gt.LinearModel(A, y) - gt.LinearModel(A[:60], y[:60]),
            gt.LinearModel(A[:60], y[:60], l2=0.1),
        )
    res = gt.minimize(h, g, method=method, tol=1e-8)
    wide = gt.minimize(
        *(_wide(t) for t in (h, g)),
        tol=1e-10,
    )
    assert res.success
    np.testing.assert_allclose(res.x, wide.x, atol=1e-7)


def _wide(term):
    """The same term with its data in float64."""
    if isinstance(term, gt.Quadratic):
        return gt.Quadratic(term.Q.astype(np.float64), term.b)
    if isinstance(term, gt.LinearModel):
        return gt.LinearModel(term.A.astype(np.float64), term.y, l2=term.l2)
    (a, first), (b, other) = term.parts
    return a * _wide(first) + b * _wide(other)


def test_no_copy_is_made(kind):
    """Neither when the term is made nor in a gradient: pieces alone are converted."""
    rng = np.random.default_rng(5)
    A = kind(rng.standard_normal((20_000, 100)).astype(np.float32))
    size = (A.data if sparse.issparse(A) else A).nbytes
    y = np.ones(20_000)
    y[::2] = -1.0
    x = rng.standard_normal(100)
    tracemalloc.start()
    term = gt.LinearModel(A, y)
    held = term.A.data if sparse.issparse(A) else term.A
    assert np.shares_memory(held, A.data if sparse.issparse(A) else A)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    term.value_and_grad(x)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert peak < 0.6 * size


def test_other_types_become_float64():
    for kind in (np.float16, np.int32, np.longdouble):
        assert gt.LinearModel(np.eye(3).astype(kind), np.ones(3), "squared").A.dtype == np.float64
