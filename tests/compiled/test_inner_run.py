"""The compiled steps of an inner run do what the plain formulas say."""

import numpy as np
import pytest

from geartrain.compiled import coefficients, inner_run
from geartrain.compiled.coefficients import RowTable
from geartrain.compiled.rows import address

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


@pytest.mark.parametrize("n", [7, 20_011])
@pytest.mark.parametrize("r", [0, 1, 6])
@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_steps_are_those_of_the_formulas(n, r, count):
    """No pairs, some, and more than there are places; one of them without curvature."""
    rng, lam, tau = np.random.default_rng(count), 0.4, 0.0
    V, table = model(rng, r, n, lam)
    plain, k, kept = copied(table), 0, []
    addresses = np.zeros(r + 2 * PLACES, dtype=np.intp)
    addresses[:r] = [address(row) for row in V]
    weights, parts, grad = np.geomspace(1e-2, 3.0, n), (0, 0, n), rng.standard_normal(n)
    inner_run.read(table, addresses, parts, grad, grad, grad, 0)
    np.testing.assert_allclose(table.dots[2, :r], V @ grad, atol=1e-12 * n)
    for j in range(count):
        s, grad = rng.standard_normal((2, n))
        y_g = -5.0 * s - table.M.sum() * s if j == 2 else weights * s
        W = np.zeros((r + 2 * PLACES, n))
        W[:r] = V
        places = [r + i + half for i in range(k + 1) for half in (0, PLACES)]
        W[places] = [*kept, s, y_g]
        plain.dots[:] = [W @ s, W @ y_g, W @ grad]
        expected = coefficients.learn(plain, lam, k)
        found = inner_run.learn(table, addresses, parts, s, y_g, grad, lam, k)
        assert found[0] == expected[0] == (j != 2)
        if found[0]:
            assert found[1] == pytest.approx(expected[1], rel=1e-10)
            tau, kept = found[1], [*kept, s, y_g][-2 * PLACES + 2 :]
            k = len(kept) // 2
        used = np.r_[0 : r + k, r + PLACES : r + PLACES + k]
        size = np.sqrt(n * np.abs(plain.gram).max(initial=1.0))
        for mine, formula in zip(table[:5], plain[:5], strict=True):
            np.testing.assert_allclose(np.isfinite(mine), True)
            if len(mine) == len(plain.gram):
                mine, formula = mine[np.ix_(used, used)], formula[np.ix_(used, used)]
            elif len(mine) == 3:
                mine, formula = mine[2, used], formula[2, used]
            else:
                mine, formula = mine[:k], formula[:k]
            np.testing.assert_allclose(mine, formula, rtol=1e-8, atol=1e-12 * size)
    if not count:
        plain.dots[2, :r] = V @ grad
    alpha, D = coefficients.inverse(plain.w, lam, tau)
    c, e = coefficients.direction(plain, lam, alpha, D)
    d, Bd = inner_run.direction(table, addresses, grad, lam, tau, k)
    pairs = np.array(kept).reshape(-1, n)
    at = r + PLACES
    combined = c[:r] @ V + c[r : r + k] @ pairs[::2] + c[at : at + k] @ pairs[1::2] - grad / alpha
    bound = 1e-9 * np.linalg.norm(combined)
    np.testing.assert_allclose(d, combined, rtol=0, atol=bound)
    np.testing.assert_allclose(Bd, e @ V + lam * combined, rtol=0, atol=bound)


def test_rows_and_vectors_may_differ_in_the_parts_that_are_multiplied():
    """Inner products of first halves of the rows with second halves of the vectors."""
    rng, n = np.random.default_rng(1), 9
    V, table = model(rng, 3, n, 0.5)
    rows = np.hstack([V, 7.0 * V])
    addresses = np.zeros(3 + 2 * PLACES, dtype=np.intp)
    addresses[:3] = [address(row) for row in rows]
    s, y_g, grad = rng.standard_normal((3, 2 * n))
    inner_run.read(table, addresses, (0, n, n), grad, grad, grad, 0)
    np.testing.assert_allclose(table.dots[2, :3], V @ grad[n:], atol=1e-12)
    s[n:], y_g[n:] = 2.0 * s[:n], 3.0 * s[:n]
    y_g[:n] = 1.5 * s[:n]
    assert inner_run.learn(table, addresses, (0, n, n), s, y_g, grad, 0.5, 0)[0]
    np.testing.assert_allclose(table.gram[3, 3], 2.0 * s[:n] @ s[:n])
    np.testing.assert_allclose(table.gram[3, 3 + PLACES], 3.0 * s[:n] @ s[:n])
    np.testing.assert_allclose(table.dots[2, 3 + PLACES], y_g[:n] @ grad[n:])
