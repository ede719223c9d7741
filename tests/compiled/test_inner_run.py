"""The compiled loops of an inner run do what the plain formulas say, and these what vectors say."""

import numpy as np
import pytest

from geartrain.compiled import coefficients, inner_run
from geartrain.compiled.coefficients import RowTable

PLACES = 4


def model(rng, r, n, lam):
    """Rows V, and the table of lam I + V'MV."""
    V = rng.standard_normal((r, n))
    A = rng.standard_normal((r, r))
    M = A @ A.T / n
    u, sizes, turned = np.linalg.svd(V, full_matrices=False)
    w, P = np.linalg.eigh((u * sizes).T @ M @ (u * sizes))
    E = P.T @ (u / sizes).T  # E V = P' turned
    np.testing.assert_allclose(E @ V, P.T @ turned, atol=1e-10)
    return V, RowTable.of(V @ V.T, M, w + lam, E, PLACES)


def copied(table):
    return RowTable(*(array.copy() for array in table))


def assert_same(found, expected, used):
    """The tables, as far as they belong to pairs that are used."""
    r = len(found.M)
    rows = np.r_[np.arange(r), [r + 2 * i + half for i in used for half in (0, 1)]].astype(int)
    # sums of some 20 products, divided by <s, y>, whose condition is below 1e4 here
    for mine, formula in (
        (found.gram[np.ix_(rows, rows)], expected.gram[np.ix_(rows, rows)]),
        (found.WY[np.ix_(rows, used)], expected.WY[np.ix_(rows, used)]),
        (found.T, expected.T),
        (found.MVS[used], expected.MVS[used]),
        (found.sy[used], expected.sy[used]),
    ):
        bound = 1e-11 * np.abs(formula).max(initial=0.0)
        np.testing.assert_allclose(mine, formula, rtol=0, atol=bound)


@pytest.mark.parametrize("r", [0, 1, 6])
@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_loops_are_the_formulas(r, count):
    """No pairs, some, and more than there are places; one of them without curvature."""
    rng, lam, n = np.random.default_rng(count), 0.4, 25
    V, plain = model(rng, r, n, lam)
    table, tau, order, spare = copied(plain), 0.0, [], [3, 2, 1, 0]
    W, weights = np.zeros((r + 2 * PLACES, n)), np.geomspace(1e-2, 3.0, n)
    W[:r] = V
    plain.dots[2] = table.dots[2] = W @ rng.standard_normal(n)
    for j in range(count):
        s, grad = rng.standard_normal((2, n))
        y_g = -5.0 * s - np.abs(plain.M).sum() * r * s if j == 2 else weights * s
        i, oldest = spare.pop(), order[0] if len(order) == PLACES - 1 else -1
        W[r + 2 * i : r + 2 * i + 2] = s, y_g
        plain.dots[:] = table.dots[:] = W @ s, W @ y_g, W @ grad
        expected = coefficients.learn(plain, lam, i, oldest)
        found = inner_run.learn(*table, lam, i, i + 1, True, oldest)
        assert found[0] == expected[0] == (j != 2)
        assert found[1] == pytest.approx(expected[1], rel=1e-12)
        if found[0]:
            tau, order = found[1], [*order, i]
            if oldest >= 0:
                spare.append(order.pop(0))
        else:
            spare.append(i)
        assert_same(table, plain, order)
    alpha = coefficients.direction(plain, lam, tau)
    assert inner_run.direction(*table, lam, tau) == pytest.approx(alpha, rel=1e-12)
    bound = 1e-9 * np.abs(plain.c).max(initial=0.0)
    np.testing.assert_allclose(table.c, plain.c, rtol=0, atol=bound)
    unused = [r + 2 * i + half for i in spare for half in (0, 1)]
    np.testing.assert_array_equal(table.c[:, unused], 0.0)


@pytest.mark.parametrize("flat", [(), (1,), (0, 2)])
@pytest.mark.parametrize("r", [0, 5])
def test_pairs_are_learned_at_once_as_one_by_one(r, flat):
    """Some of them without curvature."""
    rng, lam, n, k = np.random.default_rng(r), 0.3, 20, 3
    V, plain = model(rng, r, n, lam)
    S = rng.standard_normal((k, n))
    Y = S * np.geomspace(1e-2, 3.0, n)
    Y[list(flat)] = -S[list(flat)] * (5.0 + np.abs(plain.M).sum() * n)
    W = np.vstack([V, *np.stack([S, Y], axis=1)])
    end = len(W)
    plain.gram[:end, :end] = W @ W.T
    at_once, loops = copied(plain), copied(plain)
    taus = []
    for i in range(k):
        plain.dots[:2] = plain.gram[r + 2 * i : r + 2 * i + 2]
        taus.append(coefficients.learn(plain, lam, i, -1)[1])
    kept = [i for i in range(k) if i not in flat]
    for found, table in (
        (coefficients.learn_first(at_once, lam, k), at_once),
        (inner_run.learn(*loops, lam, 0, k, False, -1), loops),
    ):
        assert found[0] == len(kept)
        assert found[1] == pytest.approx(taus[kept[-1]], rel=1e-12)
        assert table.sy[:k].nonzero()[0].tolist() == kept
        assert_same(table, plain, kept)
