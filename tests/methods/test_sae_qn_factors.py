"""Small factorisations, growing rows and records of the learned method against transcriptions."""

import copy
import dataclasses
from functools import cached_property

import numpy as np
import pytest

import geartrain as gt
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.quasi_newton import along
from geartrain.methods.quasi_newton import rows as rows_module
from geartrain.methods.quasi_newton.factors import bfgs, cholesky, orthonormal, root
from geartrain.methods.quasi_newton.memory import Memory, Pair
from geartrain.methods.quasi_newton.models import Shelf
from geartrain.methods.quasi_newton.records import replace
from geartrain.methods.quasi_newton.rows import Rows


def unit_steps(rng, count, n):
    S = rng.standard_normal((count, n))
    return S / np.linalg.norm(S, axis=1)[:, None]


def updates(S, Y, lam, least):
    """Limited-memory BFGS as it is printed, one update of the matrix after the other."""
    B = lam * np.eye(S.shape[1])
    for s, y in zip(S, Y, strict=True):
        Bs = B @ s
        if s @ y > 0.0 and s @ Bs > least * (s @ y):
            B = B - np.outer(Bs, Bs) / (s @ Bs) + np.outer(y, y) / (s @ y)
    return B


@pytest.mark.parametrize("left_out", [[], [0], [2, 5], [6], list(range(7))])
def test_bfgs_is_one_update_after_the_other(left_out):
    """With pairs that are left out because h bends down along them."""
    rng, n, lam = np.random.default_rng(len(left_out)), 9, 0.3
    S = unit_steps(rng, 7, n)
    Y = S * np.geomspace(0.1, 10.0, n) + 0.05 * rng.standard_normal((7, n))
    Y[left_out] *= -1.0
    M = bfgs(S @ S.T, S @ Y.T, lam, 1e-14)
    V = np.vstack([S, Y])
    expected = updates(S, Y, lam, 1e-14)
    np.testing.assert_allclose(lam * np.eye(n) + V.T @ M @ V, expected, rtol=0, atol=1e-11)


def test_bfgs_leaves_out_steps_along_which_the_matrix_is_flat():
    """Here <s, B s> is below the limit for the third pair, whose place in M stays empty."""
    rng, n, lam, least = np.random.default_rng(0), 6, 1.0, 0.05
    S = unit_steps(rng, 4, n)
    Y = S * np.array([1e-3, 1.0, 1.0, 2.0, 3.0, 1.0])
    S[1], Y[1] = np.eye(n)[0], 1e-3 * np.eye(n)[0]  # B is 1e-3 along e_0 from here on
    S[2], Y[2] = np.eye(n)[0], 0.5 * np.eye(n)[0]
    M = bfgs(S @ S.T, S @ Y.T, lam, least)
    V, expected = np.vstack([S, Y]), updates(S, Y, lam, least)
    np.testing.assert_allclose(lam * np.eye(n) + V.T @ M @ V, expected, rtol=0, atol=1e-11)
    assert not M[[2, 6]].any()
    assert not np.allclose(expected, updates(S, Y, lam, 1e-14))


def gram_schmidt(S, new):
    """Orthonormal rows from the newest to the oldest, steps that are hardly new left out."""
    found = []
    for s in S[::-1]:
        left = s - sum((np.dot(q, s) * q for q in found), np.zeros_like(s))
        if left @ left > new**2:
            found.append(left / np.linalg.norm(left))
    return np.array(found)


@pytest.mark.parametrize(("count", "n"), [(1, 3), (5, 9), (12, 7), (30, 4)])
def test_orthonormal_is_gram_schmidt(count, n):
    rng = np.random.default_rng(count)
    S = unit_steps(rng, count, n)
    if count > 4:
        S[1], S[3] = S[-1], -S[2]
    T, expected = orthonormal(S @ S.T, 0.1, 0.1), gram_schmidt(S, 0.1)
    # what is left of a step is at least 0.1, so that errors grow at most tenfold per row
    np.testing.assert_allclose(T @ S, expected, rtol=0, atol=1e-10)


def test_rows_that_are_a_little_new_come_last_and_those_that_are_most_first():
    """Four rows differ from others by 3e-3, 1e-2, 1e-5 and nothing: the first two are kept."""
    e = np.eye(5)
    S = np.array([e[0] + 3e-3 * e[2], e[0] + 1e-2 * e[3], e[1] + 1e-5 * e[4], e[1], e[1], e[0]])
    S /= np.linalg.norm(S, axis=1)[:, None]
    T = orthonormal(S @ S.T, 0.03, 1e-3)
    np.testing.assert_allclose(np.abs(T @ S), e[[0, 1, 3, 2]], rtol=0, atol=1e-9)
    assert len(orthonormal(S @ S.T, 0.03, 5e-3)) == 3


@pytest.mark.parametrize("n", [5, 25])
def test_more_rows_than_directions_make_no_rounding(n):
    """Rows closer and closer to each other, as the steps of a run are that converges."""
    rng = np.random.default_rng(n)
    S = np.cumsum(rng.standard_normal((2 * n, n)) * np.geomspace(1.0, 1e-6, 2 * n)[:, None], axis=0)
    S /= np.linalg.norm(S, axis=1)[:, None]
    T = orthonormal(S @ S.T, 0.03, 1e-3)
    assert len(T) <= n
    np.testing.assert_allclose(T @ S @ S.T @ T.T, np.eye(len(T)), rtol=0, atol=1e-6)


def test_rows_before_the_first_small_pivot():
    A = np.diag([4.0, 1.0, 0.25, 9.0])
    assert cholesky(A.copy(), 0.0)[1] == 4
    assert cholesky(A.copy(), 0.5)[1] == 2
    A[2, 2] = -1.0
    C, rows = cholesky(A.copy(), 0.0)
    assert rows == 2
    np.testing.assert_array_equal(C[:2, :2], np.diag([2.0, 1.0]))


@pytest.mark.parametrize("rank", [1, 3, 8])
def test_root_of_a_singular_matrix(rank):
    """Rows of very different lengths, more of them than are independent."""
    rng = np.random.default_rng(rank)
    V = rng.standard_normal((8, rank)) * np.geomspace(1e-6, 1e6, 8)[:, None]
    G, size = V @ V.T, np.linalg.norm(V, axis=1)
    R = root(G)
    assert R.shape == (8, rank)
    assert np.all(np.abs(R @ R.T - G) <= 1e-13 * np.outer(size, size))


@pytest.mark.parametrize("new", [1.0, 1e-3, 1e-5, 1e-9])
def test_root_where_the_last_row_is_hardly_new(new):
    """Of rows of very different lengths: with pivots or without, it is a root up to rounding."""
    rng = np.random.default_rng(0)
    V = np.eye(6) + 0.1 * rng.standard_normal((6, 6))
    V[-1] = V[0] + new * V[-1]
    V *= np.geomspace(1e-8, 1e8, 6)[:, None]
    G = V @ V.T
    R = root(G)
    sizes = np.sqrt(G.diagonal())
    # six products per entry, each with a few rounding errors
    assert np.abs((R @ R.T - G) / (sizes[:, None] * sizes)).max() <= 1e-14
    assert root(np.zeros((0, 0))).shape == (0, 0)


# Rows that grow ------------------------------------------------------------------------------


@pytest.mark.parametrize("short", [True, False], ids=["short", "long"])
def test_rows_that_grow_from_the_same_ones(short, monkeypatch):
    """The first to grow shares the array of the rows before, the second has its own."""
    monkeypatch.setattr(rows_module, "SHORT", 100 if short else 0)
    rng, v = np.random.default_rng(0), np.ones(5)
    vectors = list(rng.standard_normal((40, 5)))
    one = Rows(vectors[:4]).with_rows(vectors[4:6])
    branches = [one.with_rows(vectors[6:9], 2), one.with_rows(vectors[20:22], 1), one]
    wanted = [vectors[2:9], [*vectors[1:6], *vectors[20:22]], vectors[:6]]
    for i in range(9, 20, 2):
        branches.append(branches[0] if i == 9 else branches[-1])
        branches[-1] = branches[-1].with_rows(vectors[i : i + 2], 2)
    wanted += [vectors[2 + 2 * j : 9 + 2 * j] for j in range(1, 7)]
    for rows, expected in zip(branches, wanted, strict=True):
        assert [id(row) for row in rows.rows] == [id(row) for row in expected]
        np.testing.assert_allclose(rows.dots(v, EUCLIDEAN), [row @ v for row in expected])
        c = rng.standard_normal(len(expected))
        np.testing.assert_allclose(rows.combine(c), c @ np.array(expected))
    if short:
        assert np.shares_memory(one._block, branches[0]._block)
        assert not np.shares_memory(one._block, branches[1]._block)


@pytest.mark.parametrize("short", [True, False], ids=["short", "long"])
def test_a_copy_of_rows_has_its_own(short, monkeypatch):
    monkeypatch.setattr(rows_module, "SHORT", 100 if short else 0)
    rows = Rows([np.ones(3), np.arange(3.0)])
    other = copy.deepcopy(rows)
    for row in rows.rows:
        row[:] = np.nan
    np.testing.assert_array_equal(other.dots(np.ones(3), EUCLIDEAN), [3.0, 3.0])


# Records and fits ----------------------------------------------------------------------------


def fields(record):
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def test_replaced_records():
    """As by `dataclasses.replace`, for the records of a run; they hold their fields alone."""
    rng = np.random.default_rng(0)
    h = gt.LinearModel(rng.standard_normal((30, 4)), np.sign(rng.standard_normal(30)), "logistic")
    res = gt.minimize(h, gt.Quadratic(np.eye(4)), np.ones(4), method="sae-qn", max_iter=3)
    state = res.state.state
    pair = state.memory.pairs[-1]
    for record in (state, state.contest, state.guard, state.doubt, pair):
        kind = type(record)
        assert not any(isinstance(entry, cached_property) for entry in vars(kind).values())
        assert not hasattr(kind, "__post_init__")
        name = dataclasses.fields(record)[0].name
        new, expected = replace(record, **{name: 7}), dataclasses.replace(record, **{name: 7})
        assert type(new) is kind
        before, after = fields(expected), fields(new)
        assert all(after[key] is before[key] for key in before)
        assert getattr(record, name) is not getattr(new, name)
        with pytest.raises(TypeError, match="unheard_of"):
            replace(record, unheard_of=1)


@pytest.mark.parametrize(
    "ratio", [1.01, 1.05, 1.5, 1.99, 2.0 - 1e-5, 2.0, 2.0 + 3e-4, 2.4, 3.0, 10.0, 650.0, 900.0]
)
def test_the_exponent_of_a_fit(ratio, monkeypatch):
    """Newton's method finds what bisection does, in a few evaluations."""
    low, high = -150.0, 1000.0
    for _ in range(70):
        k = 0.5 * (low + high)
        low, high = (k, high) if along._ratio(k)[0] < ratio else (low, k)
    asked, evaluate = [], along._ratio
    monkeypatch.setattr(along, "_ratio", lambda k: asked.append(k) or evaluate(k))
    # rounding in the ratio is magnified by 1/k for small k, and by k^2 far below 0
    assert abs(along._exponent(ratio) - k) <= 1e-11 * max(1.0, k**2)
    assert len(asked) <= 12


@pytest.mark.parametrize("of", ["h", "f", "h, g"])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_combinations_of_the_pairs(of, k):
    """C and its inner products, pair by pair."""
    rng = np.random.default_rng(k)
    pairs = [
        Pair(*rng.standard_normal((3, 7)), scale=2.0 + i, in_f=(3.0 + i, 0.5)) for i in range(5)
    ]
    memory = Memory.of(pairs, EUCLIDEAN)
    C, G = memory.basis(of, k)
    last = pairs[-k:]
    expected = [p.s for p in last]
    if of == "f":
        expected += [p.in_f[0] * p.y_h + p.in_f[1] * p.y_g for p in last]
    else:
        expected += [p.scale * p.y_h for p in last]
    if of == "h, g":
        expected += [p.y_g for p in last]
    V = np.array(expected)
    np.testing.assert_allclose(C @ np.array(memory.rows.rows), V, atol=1e-13)
    np.testing.assert_allclose(G, V @ V.T, rtol=1e-12, atol=1e-11)


def test_models_share_their_inner_products():
    """Both corrections use the same pairs, and the same matrices of them."""
    rng = np.random.default_rng(1)
    pairs = [Pair(s, 2.0 * s, s, scale=1.5) for s in unit_steps(rng, 4, 9)]
    memory = Memory.of(pairs, EUCLIDEAN)
    shelf = Shelf(memory, memory, 0.3, 0.3, EUCLIDEAN)
    one, other = shelf["correction", 60].small, shelf["careful", 60].small
    assert one.C is other.C and one.G is other.G
    V = one.C @ np.array(memory.rows.rows)
    np.testing.assert_allclose(V[:4], [p.s for p in pairs])
    np.testing.assert_allclose(V[4:8], [3.0 * p.s for p in pairs])
    np.testing.assert_allclose(V[8:], [p.s for p in pairs])
    np.testing.assert_allclose(one.G, V @ V.T, atol=1e-14)


def test_the_mixed_model_is_exact_for_a_quadratic():
    """All pairs of a quadratic agree: B s = y for each of them."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((9, 9))
    H = A @ A.T + np.eye(9)
    pairs = [Pair(s, H @ s, s) for s in unit_steps(rng, 4, 9)]
    memory = Memory.of(pairs, EUCLIDEAN)
    B = Shelf(memory, memory, 0.3, 0.3, EUCLIDEAN)["mixed", 60]
    for pair in pairs:
        np.testing.assert_allclose(B(pair.s, 0.0), pair.y_h, rtol=1e-8, atol=1e-9)


def test_changes_of_gradients_whose_squares_underflow():
    """The base of the plain model is positive, and the models are finite."""
    rng = np.random.default_rng(4)
    pairs = [Pair(s, 1e-200 * s, 1e-200 * s) for s in unit_steps(rng, 3, 9)]
    memory = Memory.of(pairs, EUCLIDEAN)
    shelf = Shelf(memory, memory, 1e-200, 1e-200, EUCLIDEAN)
    for kind in ("mixed", "plain", "correction"):
        B = shelf[kind, 60]
        assert B.lam > 0.0
        assert np.isfinite(B(pairs[0].s, 0.0)).all()
