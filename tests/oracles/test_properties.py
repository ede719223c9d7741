"""What every term promises, on random terms, points and scales."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

import geartrain as gt
from geartrain.oracles.losses import COMPILED, LOSSES
from geartrain.oracles.spectrum import eigh, lapack

SEEDS = st.integers(0, 10**6)
SCALES = st.sampled_from([1e-6, 1e-3, 1.0, 1e3, 1e6])
FORMS = st.sampled_from(["dense", "csr"])


def psd(rng, n, decades=3):
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    Q = U @ np.diag(np.logspace(-decades, 0, n)) @ U.T
    return (Q + Q.T) / 2


def make(kind, seed, scale=1.0, form="dense", n=5, m=8):
    """A random term; `scale` is that of its data."""
    rng = np.random.default_rng(seed)
    wrap = sparse.csr_array if form == "csr" else np.asarray
    if kind == "quadratic":
        return gt.Quadratic(wrap(scale * psd(rng, n)), rng.standard_normal(n))
    A = rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.7) * scale
    if kind == "log_sum_exp":
        return gt.LogSumExp(wrap(A), rng.standard_normal(n) * scale)
    labels = rng.choice([-1.0, 1.0], m)
    loss, _, extra = kind.partition("+")
    y = labels if LOSSES[loss].labels else 3 * rng.standard_normal(m)
    n_features = n - 1 if extra == "intercept" else n
    return gt.LinearModel(
        wrap(A[:, :n_features]), y, loss=loss, l2=0.1 * scale, intercept=extra == "intercept"
    )


KINDS = [
    "quadratic",
    "log_sum_exp",
    *(loss.name for loss in COMPILED),
    "logistic+intercept",
    "squared+intercept",
]
TERMS = st.builds(make, st.sampled_from(KINDS), SEEDS, SCALES, FORMS)


def noise(term, x):
    """Size of the rounding errors of a gradient of `term` near x, with room."""
    return 1e-12 * (np.linalg.norm(term.grad(x)) + (1 + np.linalg.norm(x)) * term.L + 1e-9)


@given(TERMS, SEEDS)
def test_value_lies_between_its_tangents_and_the_parabola_of_L(term, seed):
    rng = np.random.default_rng(seed)
    x, d = rng.standard_normal(term.n), rng.standard_normal(term.n)
    for t in 10.0 ** rng.uniform(-6, 1, 5):
        f, g = term.value_and_grad(x)
        f_next, g_next = term.value_and_grad(x + t * d)
        slack = 1e-13 * (abs(f) + abs(f_next) + t * abs(d) @ (abs(g) + abs(g_next)) + term.L)
        rise = f_next - f
        assert t * g @ d - slack <= rise <= t * g_next @ d + slack
        assert rise <= t * g @ d + 0.5 * term.L * t**2 * (d @ d) * (1 + 1e-9) + slack
        assert rise >= t * g @ d + 0.5 * term.mu * t**2 * (d @ d) * (1 - 1e-9) - slack


@given(TERMS, SEEDS)
def test_all_answers_are_the_same_function(term, seed):
    x = np.random.default_rng(seed).standard_normal(term.n)
    f, g = term.value_and_grad(x)
    assert f == pytest.approx(term.value(x), rel=1e-12, abs=1e-12 * abs(x) @ abs(g) + 1e-300)
    tolerance = noise(term, x)
    np.testing.assert_allclose(g, term.grad(x), rtol=0, atol=tolerance)
    partials = [term.coord(x, i) for i in range(term.n)]
    np.testing.assert_allclose(partials, g, rtol=0, atol=tolerance)
    if hasattr(term, "component"):
        parts = np.array([term.component(x, k) for k in range(term.n_components)])
        atol = tolerance + 1e-13 * np.abs(parts).max()
        np.testing.assert_allclose(parts.mean(axis=0), g, rtol=0, atol=atol)


@given(st.sampled_from(KINDS), SEEDS, FORMS)
def test_products_are_those_of_the_hessian(kind, seed, form):
    """H(x) D is the change of the gradient along D; a kink may lie between the two points."""
    term = make(kind, seed, 1.0, form)
    rng = np.random.default_rng(seed)
    x, D = rng.standard_normal(term.n), rng.standard_normal((term.n, 3))
    P = term.products(x, D)
    t = 1e-6
    seen = np.array([(term.grad(x + t * d) - term.grad(x - t * d)) / (2 * t) for d in D.T]).T
    kink = np.inf
    if isinstance(term, gt.LinearModel):
        z, y = term.predict(x), term.y
        size = 1e-5 * (1 + np.abs(D).max()) * (1 + np.abs(term.predict(D)).max())
        distance = {"huber": np.abs(np.abs(z - y) - 1), "squared_hinge": np.abs(1 - y * z)}
        kink = distance.get(term.loss.name, np.full(1, np.inf)).min() / size
    if kink > 1.0:
        atol = 1e-6 * (1 + np.abs(P).max()) + noise(term, x) / t
        np.testing.assert_allclose(P, seen, rtol=0, atol=atol)
    np.testing.assert_allclose(D.T @ P, P.T @ D, atol=1e-12 * (1 + np.abs(P).max()))
    assert np.linalg.eigvalsh(term.products(x, np.eye(term.n))).max() <= term.L * (1 + 1e-9)


@given(TERMS, TERMS, SEEDS, st.floats(-3, 3), st.floats(-3, 3))
def test_algebra_is_linear(a, b, seed, u, v):
    x = np.random.default_rng(seed).standard_normal(a.n)
    both = u * a + b * v - a
    (fa, ga), (fb, gb) = a.value_and_grad(x), b.value_and_grad(x)
    size = 4 * (abs(fa) + abs(fb))
    assert both.value(x) == pytest.approx((u - 1) * fa + v * fb, abs=1e-12 * size)
    expected = (u - 1) * ga + v * gb
    atol = 4 * (noise(a, x) + noise(b, x))
    np.testing.assert_allclose(both.grad(x), expected, rtol=0, atol=atol)
    np.testing.assert_allclose(both.value_and_grad(x)[1], expected, rtol=0, atol=atol)
    assert both.coord(x, 2) == pytest.approx(expected[2], abs=atol)
    np.testing.assert_allclose((-a).grad(x), -ga, rtol=0, atol=atol)


@given(TERMS, TERMS, SEEDS, st.floats(-3, 3))
def test_constants_of_sums_and_differences_hold(a, b, seed, v):
    rng = np.random.default_rng(seed)
    both = a + v * b
    for _ in range(4):
        x = rng.standard_normal(a.n)
        d = rng.standard_normal(a.n) * 10.0 ** rng.uniform(-2, 1)
        change = both.grad(x + d) - both.grad(x)
        lost = 20 * (noise(a, x) + 3 * noise(b, x) + noise(a, x + d) + 3 * noise(b, x + d))
        assert np.linalg.norm(change) <= both.L * np.linalg.norm(d) * (1 + 1e-9) + lost
        if both.convex:
            assert change @ d >= both.mu * (d @ d) * (1 - 1e-9) - lost * np.linalg.norm(d)
        else:
            assert both.mu == 0.0


@given(TERMS, SEEDS)
def test_constants_hold_on_pairs(term, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(term.n)
    d = rng.standard_normal(term.n) * 10.0 ** rng.uniform(-2, 1)
    lost = 10 * (noise(term, x) + noise(term, x + d))
    for _ in range(3):  # towards the steepest direction
        change = term.grad(x + d) - term.grad(x)
        assert np.linalg.norm(change) <= term.L * np.linalg.norm(d) * (1 + 1e-9) + lost
        assert change @ d >= term.mu * (d @ d) * (1 - 1e-9) - lost * np.linalg.norm(d)
        if np.linalg.norm(change) > 0:
            d = change * np.linalg.norm(d) / np.linalg.norm(change)
    for i in range(term.n):
        step = np.zeros(term.n)
        step[i] = d[i]
        change = abs(term.coord(x + step, i) - term.coord(x, i))
        assert change <= term.L_coord[i] * abs(d[i]) * (1 + 1e-9) + lost
    for k in range(term.n_components or 0):
        change = term.component(x + d, k) - term.component(x, k)
        bound = term.L_components[k] * np.linalg.norm(d) * (1 + 1e-9)
        assert np.linalg.norm(change) <= bound + 10 * lost


@given(SEEDS, SCALES, FORMS, st.floats(1e-3, 1e3))
def test_prox_of_a_quadratic(seed, scale, form, alpha):
    term = make("quadratic", seed, scale, form)
    rng = np.random.default_rng(seed + 1)
    u, v = rng.standard_normal((2, term.n))
    p, q = term.prox(u, alpha), term.prox(v, alpha)
    # Optimality: grad term(p) + alpha (p - u) = 0.
    size = np.linalg.norm(term.b) + term.L * np.linalg.norm(p) + alpha * np.linalg.norm(u)
    assert np.linalg.norm(term.grad(p) + alpha * (p - u)) <= 1e-12 * size
    assert np.linalg.norm(p - q) <= np.linalg.norm(u - v) * (1 + 1e-12)
    # Firm nonexpansiveness.
    assert (p - q) @ (u - v) >= (p - q) @ (p - q) * (1 - 1e-9)
    # Of a multiple: w term(v) + alpha/2 |v - u|^2.
    r = (2.5 * term).prox(u, alpha)
    assert np.linalg.norm(2.5 * term.grad(r) + alpha * (r - u)) <= 1e-11 * (size + alpha)


def test_components_of_multiples_and_sums():
    a, b = make("logistic", 1), make("huber", 2)
    x = np.arange(5.0)
    both = 2.0 * a + b
    assert both.n_components == 8
    expected = 2 * a.component(x, 3) + b.component(x, 3)
    np.testing.assert_allclose(both.component(x, 3), expected, rtol=1e-14)
    np.testing.assert_allclose(both.L_components, 2 * a.L_components + b.L_components)
    np.testing.assert_allclose((a - b).L_components, a.L_components + b.L_components)
    np.testing.assert_allclose((a - b).L_coord, a.L_coord + b.L_coord)
    mixed = a + make("quadratic", 3)
    assert not hasattr(mixed, "component") and mixed.L_components is None
    assert not hasattr(a + make("logistic", 1, m=9), "component")
    assert not hasattr(mixed, "prox") and not hasattr(-1.0 * make("quadratic", 3), "prox")


def l1(lam):
    """lam |x|_1 by hand: its proximal step is known in closed form."""
    return gt.Term(
        value=lambda x: lam * np.abs(x).sum(),
        prox=lambda u, alpha: np.sign(u) * np.maximum(np.abs(u) - lam / alpha, 0.0),
        n=5,
    )


@pytest.mark.parametrize(("form", "alpha"), [("dense", 0.3), ("csr", 4.0)])
def test_prox_of_sums(form, alpha):
    """Against a minimisation of w |x|_1 + c/2 |x|^2 - <b, x> + alpha/2 |x - u|^2 by entries."""
    rng = np.random.default_rng(4)
    u, b = 2.0 * rng.standard_normal((2, 5))
    wrap = sparse.csr_array if form == "csr" else np.asarray
    ridge, plane = gt.Quadratic(wrap(0.7 * np.eye(5))), gt.Quadratic(wrap(np.zeros((5, 5))), b)
    one, kinked = l1(1.0), make("quadratic", 3)
    cases = [
        (2.0 * one, 2.0, 0.0, 0.0),
        (one + one, 2.0, 0.0, 0.0),
        (3.0 * one - one, 2.0, 0.0, 0.0),
        (one + plane, 1.0, 0.0, 1.0),
        (plane - plane + one, 1.0, 0.0, 0.0),
        (1.5 * one + 2.0 * ridge - plane + 0.0 * kinked, 1.5, 1.4, -1.0),
        (ridge - 2.0 * plane, 0.0, 0.7, -2.0),
        (0.0 * one, 0.0, 0.0, 0.0),
    ]
    for term, w, c, plus in cases:
        grid = np.linspace(-20.0, 20.0, 400_001)[:, None]
        values = w * np.abs(grid) + c / 2 * grid**2 - plus * b * grid + alpha / 2 * (grid - u) ** 2
        best = grid[values.argmin(axis=0), 0]
        np.testing.assert_allclose(term.prox(u, alpha), best, atol=1.01e-4)
    for term in (one + kinked, -one, one - 2.0 * one, one - ridge):
        assert not hasattr(term, "prox")


def test_a_spherical_quadratic_is_told_from_others():
    wide = np.eye(3)
    wide[0, 1] = wide[1, 0] = 1e-300
    for form in (np.asarray, sparse.csr_array):
        c, b = gt.Quadratic(form(2.0 * np.eye(3)), np.ones(3)).spherical
        assert c == 2.0 and (b == 1.0).all()
        assert gt.Quadratic(form(wide)).spherical is None
        assert gt.Quadratic(form(np.diag([1.0, 1.0, 2.0]))).spherical is None
    assert gt.Quadratic(sparse.linalg.aslinearoperator(np.eye(3))).spherical is None


# Tightness --------------------------------------------------------------------------------


def counting_operator(Q):
    calls = []

    def product(v):
        calls.append(1)
        return Q @ v

    return LinearOperator(Q.shape, matvec=product, dtype=float), calls


def spectrum(kind, n, rng):
    if kind == "geometric":
        return np.logspace(-6, 0, n)
    if kind == "uniform":
        return np.linspace(0, 1, n)
    if kind == "laplacian":  # the largest end is dense: the worst for Lanczos
        return np.sin(np.linspace(0, np.pi / 2, n)) ** 2
    if kind == "outlier":
        return np.append(rng.random(n - 1), 1.3)
    if kind == "faint outlier":
        return np.append(rng.random(n - 1), 1.02)
    if kind == "identity":
        return np.ones(n)
    return np.append(np.zeros(n - 1), 1.0)  # rank one


SPECTRA = "geometric", "uniform", "laplacian", "outlier", "faint outlier", "identity", "rank one"


@pytest.mark.parametrize("kind", SPECTRA)
@pytest.mark.parametrize("n", [3, 1000])
def test_L_of_an_operator_is_tight_with_few_products(kind, n, rng):
    values = spectrum(kind, n, rng) * 7.0
    diagonal = sparse.diags_array(rng.permutation(values))
    operator, calls = counting_operator(diagonal)
    L = gt.Quadratic(operator).L
    assert values.max() * (1 - 1e-12) <= L <= 1.01 * values.max()
    assert len(calls) <= 120
    term = gt.Quadratic(operator)
    before = len(calls)
    _ = term.L, term.L, term.mu, term.convex
    assert len(calls) - before <= 120  # computed once


@pytest.mark.parametrize(("n", "form"), [(20, "csr"), (399, "dense"), (401, "csr"), (700, "dense")])
def test_L_of_a_quadratic_is_tight(n, form, rng):
    Q = psd(rng, n)
    term = gt.Quadratic(sparse.csr_array(Q) if form == "csr" else Q)
    largest = np.linalg.eigvalsh(Q)[-1]
    assert largest * (1 - 1e-12) <= term.L <= 1.01 * largest
    assert term.mu <= np.linalg.eigvalsh(Q)[0] * (1 + 1e-9) + 1e-15
    if n < 400:
        assert term.mu == pytest.approx(1e-3, rel=1e-9)


@pytest.mark.parametrize(
    ("shape", "intercept", "form"),
    [
        ((30, 5), True, "dense"),
        ((5, 30), False, "csr"),
        ((900, 450), False, "dense"),
        ((450, 900), True, "csr"),
    ],
)
def test_L_of_least_squares_is_tight(shape, intercept, form, rng):
    A = rng.standard_normal(shape) + 0.3
    wrap = sparse.csr_array if form == "csr" else np.asarray
    term = gt.LinearModel(wrap(A), np.zeros(shape[0]), loss="squared", intercept=intercept)
    rows = np.hstack([A, np.ones((shape[0], 1))]) if intercept else A
    largest = np.linalg.norm(rows, 2) ** 2 / shape[0]
    assert largest * (1 - 1e-12) <= term.L <= 1.01 * largest
    exact = np.append((A**2).mean(axis=0), 1.0) if intercept else (A**2).mean(axis=0)
    np.testing.assert_allclose(term.L_coord, exact, rtol=1e-12)
    np.testing.assert_allclose(term.L_components, (rows**2).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("n", [30, 500])
def test_L_of_a_difference_of_similar_terms_is_small(n, rng):
    # h = f - f_1 with f and f_1 almost the same: the sum of both L would be 100 times too large
    Q = psd(rng, n)
    E = 1e-3 * psd(rng, n)
    difference = gt.Quadratic(Q + E) - gt.Quadratic(Q)
    assert np.linalg.norm(E, 2) * (1 - 1e-9) <= difference.L <= 1.01 * np.linalg.norm(E, 2)
    A = rng.standard_normal((2 * n, n))
    whole = gt.LinearModel(A, np.zeros(2 * n), loss="squared", l2=0.5)
    part = gt.LinearModel(A[:n], np.zeros(n), loss="squared", l2=0.5)
    H = A.T @ A / (2 * n) - A[:n].T @ A[:n] / n
    largest = np.abs(np.linalg.eigvalsh(H)).max()
    difference = whole - part
    assert largest * (1 - 1e-9) <= difference.L <= 1.01 * largest
    assert not difference.convex and difference.mu == 0.0
    assert "may be non-convex" in repr(difference)


@pytest.mark.parametrize("n", [30, 700])
def test_an_indefinite_quadratic_is_seen(n, rng):
    values = np.linspace(-2, 1, n)
    term = gt.Quadratic(sparse.diags_array(rng.permutation(values)))
    assert not term.convex and term.mu == 0.0
    assert 2.0 * (1 - 1e-12) <= term.L <= 2.02


def test_L_of_log_sum_exp_is_within_a_small_factor(rng):
    for A in (np.eye(50), rng.standard_normal((40, 3)), 1e8 + rng.standard_normal((40, 3))):
        # Two opposite rows of weight 1/2 each have the largest variance that there is.
        gaps = A[:, None, :] - A[None, :, :]
        attained = (gaps**2).sum(axis=2).max() / 4
        for wrap in (np.asarray, sparse.csr_array):
            L = gt.LogSumExp(wrap(A)).L
            assert attained * (1 - 1e-9) <= L
            if wrap is np.asarray:
                assert 4 * attained >= L


def test_the_bound_of_log_sum_exp_along_a_coordinate_is_attained():
    term = gt.LogSumExp(np.array([[0.0], [2.0]]))
    assert term.products(np.zeros(1), np.eye(1))[0, 0] == term.L_coord[0] == 1.0


def test_curvature_of_sums_of_terms_that_state_constants_alone():
    """Between sum_j min(w_j mu_j, w_j L_j) and sum_j max(w_j mu_j, w_j L_j), mu = -L if unknown."""

    def stating(**known):
        return gt.Term(lambda x: (0.0, x), n=2, **known)

    a, b, bent = stating(L=5.0, mu=1.0), stating(L=2.0, mu=0.5), stating(L=2.0, convex=False)
    for term, L, mu, convex in (
        (a - b, 4.5, 0.0, False),
        (a + 2.0 * b, 9.0, 2.0, True),
        (4.0 * a + bent, 22.0, 2.0, True),
        (a + bent, 7.0, 0.0, False),
        (b - 3.0 * a, 14.5, 0.0, False),
    ):
        assert (term.L, term.mu, term.convex) == (L, mu, convex), term


def test_constants_of_the_zero_function():
    for term in (gt.Quadratic(np.zeros((3, 3))), 0.0 * gt.Quadratic(np.eye(3))):
        assert term.L == 0.0 and term.mu == 0.0 and term.convex


def test_a_sparse_matrix_with_unsorted_and_double_entries():
    """The entries are added up in a copy: the matrix of the user stays as it is."""
    parts = np.ones(4), np.array([2, 0, 0, 1]), np.array([0, 3, 4])
    A = sparse.csr_array(tuple(part.copy() for part in parts), shape=(2, 3))
    term = gt.LinearModel(A, [1.0, -1.0])
    same = gt.LinearModel(np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), [1.0, -1.0])
    assert pytest.approx(same.L, rel=1e-9) == term.L
    np.testing.assert_allclose(term.L_coord, same.L_coord)
    x = np.array([0.3, -0.2, 0.5])
    np.testing.assert_allclose(term.grad(x), same.grad(x))
    for kept, part in zip((A.data, A.indices, A.indptr), parts, strict=True):
        np.testing.assert_array_equal(kept, part)


def test_eigenvalues_where_divide_and_conquer_does_not_converge(monkeypatch):
    A = np.random.default_rng(0).standard_normal((6, 6))
    A = A + A.T
    expected = np.linalg.eigvalsh(A)

    monkeypatch.setattr(lapack(), "dsyevd", lambda A, lower: (None, None, 1))
    w, U = eigh(A)
    np.testing.assert_allclose(w, expected, atol=1e-13)
    np.testing.assert_allclose((U * w) @ U.T, A, atol=1e-13)
    for bad in (np.nan, np.inf):
        w, U = eigh(np.full((2, 2), bad))
        assert np.isnan(w).all() and np.isnan(U).all()
    w, U = eigh(np.diag([1e200, 3e200]))  # finite, though squares are not
    np.testing.assert_allclose(w, [1e200, 3e200], rtol=1e-14)


@given(TERMS, SEEDS)
def test_the_taylor_error_falls_like_the_square(term, seed):
    rng = np.random.default_rng(seed)
    x, d = rng.standard_normal(term.n), rng.standard_normal(term.n)
    f, g = term.value_and_grad(x)
    # A step that sees the curvature, and not its changes.
    t = 1e-2 / (1.0 + np.abs(getattr(term, "A", np.zeros(1))).max())
    errors = [term.value(x + s * d) - f - s * g @ d for s in (t, t / 2)]
    second_order = getattr(getattr(term, "loss", None), "name", "") not in (
        "huber",
        "squared_hinge",
    )
    if second_order and abs(errors[1]) > 1e5 * np.finfo(float).eps * (abs(f) + abs(t * g @ d)):
        assert 1.8 < np.log2(errors[0] / errors[1]) < 2.2


@given(st.sampled_from(KINDS), SEEDS, SCALES)
def test_dense_is_csr(kind, seed, scale):
    dense, csr = make(kind, seed, scale), make(kind, seed, scale, "csr")
    x = np.random.default_rng(seed + 1).standard_normal(dense.n)
    tolerance = noise(dense, x)
    assert dense.value(x) == pytest.approx(csr.value(x), rel=1e-11, abs=tolerance)
    np.testing.assert_allclose(dense.grad(x), csr.grad(x), rtol=0, atol=tolerance)
    for name in ("L", "mu", "L_coord", "L_components"):
        if getattr(dense, name) is not None:
            np.testing.assert_allclose(getattr(dense, name), getattr(csr, name), rtol=1e-10)
    if hasattr(dense, "component"):
        np.testing.assert_allclose(
            dense.component(x, 3), csr.component(x, 3), rtol=1e-10, atol=8 * tolerance
        )
