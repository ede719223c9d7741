"""SAE-QN with long vectors: products by blocks, and a bound on the memory."""

import tracemalloc

import numpy as np
import pytest

import geartrain as gt
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.quasi_newton.inner_pairs import InnerPairs
from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.rows import SHORT, Rows


@pytest.mark.parametrize("n", [50, SHORT + 777])
def test_products_with_many_vectors_are_those_with_each(n):
    rng = np.random.default_rng(0)
    V, C, W = rng.standard_normal((6, n)), rng.standard_normal((4, 6)), rng.standard_normal((4, 4))
    B = LowRank(0.3, Small(Rows(list(V)), C, C @ V @ V.T @ C.T, W + W.T, EUCLIDEAN))
    vectors = list(rng.standard_normal((3, n)))
    dense = 0.5 * np.array(vectors) + np.array(vectors) @ V.T @ C.T @ (W + W.T) @ C @ V
    made = B.all(vectors, 0.2)
    np.testing.assert_allclose(made, dense, rtol=1e-10, atol=1e-8)
    np.testing.assert_allclose(made, [B(v, 0.2) for v in vectors], rtol=1e-10, atol=1e-8)
    assert B.all([], 0.2) == []


def separable(n):
    rng = np.random.default_rng(n)
    a, w = rng.standard_normal(n), np.geomspace(1e-3, 1.0, n)

    def h(x):
        root = np.sqrt(1.0 + (x - a) ** 2)
        return float(root.sum()), (x - a) / root

    return gt.Term(h, n=n, convex=True), gt.Term(lambda x: (0.5 * float((w * x) @ x), w * x), n=n)


def test_inner_pairs_hold_no_vectors_that_the_memory_has_dropped():
    rng = np.random.default_rng(0)
    s, y, *rows = rng.standard_normal((6, 5))
    pairs = InnerPairs(((s, y),), np.eye(2), tuple(rows), np.arange(8.0).reshape(4, 2))
    left = pairs.beside([rows[3], rows[1].copy(), rows[0]])
    assert [id(row) for row in left.rows] == [id(rows[0]), id(rows[3])]
    np.testing.assert_array_equal(left.cross, [[0.0, 1.0], [6.0, 7.0]])
    assert left.pairs is pairs.pairs and left.gram is pairs.gram
    assert pairs.beside(rows) is pairs


# Three vectors per pair, twelve for inner pairs in each of three places, and 27 others.
@pytest.mark.parametrize(("memory", "most"), [(None, 100), (5, 3 * 5 + 3 * 12 + 27)])
def test_memory_is_bounded(memory, most):
    n = 100_000
    h, g = separable(n)
    stop = gt.stop.any_of(gt.stop.Gradient(rel=1e-12), gt.stop.Calls({"h.grad": 30}))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        res = gt.minimize(h, g, np.zeros(n), method=gt.methods.SAEQN(memory=memory), stop=stop)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert res.calls["h.grad"] >= 20
    assert peak / (8 * n) <= most
