"""Geometries: a method in the inner product of M is the same method in w = M^{1/2} x."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import linalg, sparse
from scipy.sparse.linalg import aslinearoperator

import geartrain as gt
from geartrain.geometry import EUCLIDEAN
from geartrain.problem import Model
from geometries import (
    GOOD,
    LABELS,
    LAM,
    M_ROWS,
    METHODS,
    RNG,
    ROWS,
    SMOOTH,
    SPACES,
    SPD,
    X0,
    A,
    D,
    G,
    H,
    N,
    assert_same_run,
    bordered,
    by_hand,
    in_space,
    loss,
)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_method_is_the_same_method_in_turned_coordinates(method):
    space, M = SPACES["array"]
    held = in_space(H, G, space)
    plain, R = by_hand(H, G, M, held)
    assert_same_run(method, held, plain, R, X0)


@pytest.mark.parametrize(("space", "M"), SPACES.values(), ids=SPACES)
def test_products_and_solves_are_those_of_M(space, M):
    x = RNG.standard_normal(N)
    v = space.enter(x)
    np.testing.assert_allclose(v, np.concatenate([x, M @ x]), rtol=1e-12)
    np.testing.assert_allclose(space.solve(M @ x), x, rtol=1e-9, atol=1e-10)
    assert space.norm(v) == pytest.approx(np.sqrt(x @ M @ x), rel=1e-12)
    w = space.enter(X0)
    assert space.dot(v, w) == pytest.approx(x @ M @ X0, rel=1e-11)
    np.testing.assert_array_equal(space.leave(v), x)


@pytest.mark.parametrize(("space", "M"), SPACES.values(), ids=SPACES)
def test_the_representative_gives_the_slopes_of_the_values(space, M):
    """<representative, e>_M = d/dt f(x + t e), by central differences."""
    term, x = space.term(H, "h"), space.enter(X0)
    value, gradient = term.value_and_grad(x)
    assert value == H.value(X0)
    np.testing.assert_allclose(term.grad(x), gradient, rtol=1e-12)
    for e in np.eye(N):
        along = space.enter(e)
        slope = (term.value(x + 1e-5 * along) - term.value(x - 1e-5 * along)) / 2e-5
        assert space.dot(gradient, along) == pytest.approx(slope, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize(("space", "M"), SPACES.values(), ids=SPACES)
def test_constants_are_those_of_the_inner_product(space, M):
    values = linalg.eigh(G.Q, M, eigvals_only=True)
    g = space.term(G, "g")
    assert (g.mu, g.L) == pytest.approx((values[0], values[-1]), rel=1e-8)
    bound = 0.25 / ROWS * A.T @ A + 0.1 * np.eye(N)
    h = space.term(H, "h")
    assert pytest.approx(linalg.eigh(bound, M, eigvals_only=True)[-1], rel=1e-8) == h.L
    lowest = 0.1 / linalg.eigvalsh(M)[-1]
    assert 0.99 * lowest <= h.mu <= lowest * (1 + 1e-12)
    # a term that knows only its Euclidean constants
    own = gt.Term(value=G.value, grad=G.grad, L=G.L, mu=G.mu, n=N)
    crude = space.term(own, "g")
    ends = linalg.eigvalsh(M)
    assert pytest.approx(G.L / ends[0], rel=2e-3) == crude.L
    assert crude.mu == pytest.approx(G.mu / ends[-1], rel=2e-3)
    assert crude.L >= g.L
    assert crude.mu <= g.mu
    both = space.term(H + 2.0 * own, "h")
    assert pytest.approx(h.L + 2.0 * crude.L, rel=1e-12) == both.L


def test_constants_of_many_variables_come_from_lanczos():
    n = 500
    d = RNG.uniform(0.1, 10.0, n)
    F = RNG.standard_normal((n, n)) / np.sqrt(n)
    Q = F @ F.T
    truth = linalg.eigh(Q, np.diag(d), eigvals_only=True)[-1]
    term = gt.geometry.Diagonal(d).term(gt.Quadratic(Q), "g")
    assert truth <= term.L <= 1.002 * truth
    assert term.mu == 0.0
    assert term.convex


def test_a_difference_stays_non_convex():
    space = SPACES["array"][0]
    term = space.term(gt.Quadratic(np.diag(np.r_[-1.0, np.ones(N - 1)])), "h")
    values = linalg.eigh(np.diag(np.r_[-1.0, np.ones(N - 1)]), SPD, eigvals_only=True)
    assert not term.convex
    assert term.mu == 0.0
    assert pytest.approx(abs(values).max(), rel=1e-8) == term.L


# The front door --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "lbfgs", "fgm", "afb", "pqn"])
def test_minimize_gives_the_plain_point(method):
    """A singular K, an intercept, a start that is not zero."""
    K = SMOOTH
    h, g = gt.Quadratic(bordered(LAM * K)), loss(K, intercept=True)
    x0 = 0.01 * np.ones(M_ROWS + 1)
    seen = []
    res = gt.minimize(
        h,
        g,
        x0,
        method=method,
        geometry=gt.geometry.RKHS(K, intercept=True),
        tol=1e-7,
        callback=lambda x: seen.append(x.size),
    )
    assert res.success
    assert res.x.shape == (M_ROWS + 1,)
    assert set(seen) == {M_ROWS + 1}
    assert res.fun == pytest.approx(h.value(res.x) + g.value(res.x), rel=1e-12)
    u = LAM * res.x[:-1] + g.loss.derivative(LABELS, g.predict(res.x)) / M_ROWS
    b = g.loss.derivative(LABELS, g.predict(res.x)).mean()
    assert res.grad_norm == pytest.approx(np.sqrt(u @ K @ u + b * b), rel=1e-3)


def test_a_run_goes_on_in_its_geometry():
    space, args = gt.geometry.RKHS(SMOOTH), (gt.Quadratic(LAM * SMOOTH), loss(SMOOTH))
    whole = gt.minimize(*args, method="sae", geometry=space, max_iter=9, tol=1e-13)
    half = gt.minimize(*args, method="sae", geometry=space, max_iter=4, tol=1e-13)
    rest = gt.minimize(*args, state=half.state, geometry=space, max_iter=5, tol=1e-13)
    np.testing.assert_array_equal(rest.x, whole.x)
    assert rest.calls == whole.calls
    with pytest.raises(ValueError, match="must have length 40, got 80"):
        gt.minimize(*args, state=half.state)
    flat = gt.minimize(*args, method="sae", max_iter=1)
    with pytest.raises(ValueError, match=r"a run in RKHS\(m=40\) cannot go on from one in another"):
        gt.minimize(*args, state=flat.state, geometry=space)


def test_the_certificate_is_that_of_the_geometry():
    """f - f* <= |grad|^2/(2 mu) with norm and mu of the same inner product."""
    args = gt.Quadratic(LAM * SMOOTH), loss(SMOOTH)
    rough = gt.minimize(*args, method="fgm", geometry=gt.geometry.RKHS(SMOOTH), tol=1e-2)
    fine = gt.minimize(*args, method="fgm", geometry=gt.geometry.RKHS(SMOOTH), tol=1e-9)
    assert rough.constants["mu"].value == pytest.approx(LAM)
    assert 0.0 < rough.fun - fine.fun <= rough.certificate.bound
    assert rough.certificate.bound < 1e3 * (rough.fun - fine.fun)


@pytest.mark.parametrize(
    ("method", "inner", "who"),
    [
        (gt.ScipyLBFGS(), "auto", "ScipyLBFGS"),
        ("acd", "auto", "ACDWhole"),
        ("katyusha", "auto", "KatyushaWhole"),
        ("catalyst", "auto", "Catalyst"),
        ("sae", "katyusha", "Katyusha"),
        ("afb", "coordinate-differences", "CoordinateSearch"),
        ("afb", "directional", "DirectionalSearch"),
    ],
)
def test_methods_that_cannot_say_so(method, inner, who):
    with pytest.raises(TypeError, match=rf"{who} works in the Euclidean geometry only, not in Dia"):
        gt.minimize(H, G, method=method, inner=inner, geometry=gt.geometry.Diagonal(D))


def test_what_is_wrong_is_said():
    K, h, g = SMOOTH, gt.Quadratic(LAM * SMOOTH), loss(SMOOTH)
    space = gt.geometry.RKHS(K)

    def told(kind, match, *args, **kwargs):
        with pytest.raises(kind, match=match):
            gt.minimize(*args, **kwargs)

    told(TypeError, r"geometry must be RKHS\(K\), .* of gt.geometry", h, g, geometry=K)
    told(TypeError, "g = .* its matrix is not K", h, loss(GOOD), geometry=space)
    told(TypeError, "h = .* it is not 1/2 x'Kx times", gt.Quadratic(GOOD), g, geometry=space)
    shifted = gt.Quadratic(K, b=np.ones(M_ROWS))
    told(TypeError, "h = .* it is not 1/2 x'Kx times", shifted, g, geometry=space)
    ridge = gt.LinearModel(K, LABELS, l2=0.1)
    told(TypeError, r"l2/2 \|x\|\^2 is not K times", h, ridge, geometry=space)
    own = gt.Term(value=h.value, grad=h.grad, L=1.0, n=M_ROWS)
    told(TypeError, "whether its gradient is K times something", own, g, geometry=space)
    told(
        TypeError,
        "needs gradients",
        gt.Term(value=h.value),
        G,
        X0,
        geometry=gt.geometry.Diagonal(D),
    )
    both = gt.Quadratic(bordered(LAM * K)), loss(K, intercept=True)
    told(ValueError, "x has an intercept: use RKHS", *both, geometry=space)
    told(
        ValueError, "of dimension 3, but x has 12", H, G, geometry=gt.geometry.Diagonal(np.ones(3))
    )
    with pytest.raises(ValueError, match="d must be positive, but its smallest entry is -1"):
        gt.geometry.Diagonal([1.0, -1.0])
    with pytest.raises(ValueError, match="M must be positive definite"):
        gt.geometry.Preconditioned(np.diag([1.0, -1.0]))
    with pytest.raises(ValueError, match="M must be positive definite"):
        gt.geometry.Preconditioned(
            sparse.csr_array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        )
    indefinite = K - 0.5 * np.eye(M_ROWS)
    wrong = gt.Quadratic(LAM * indefinite), loss(indefinite)
    told(
        ValueError, "K must be positive semidefinite", *wrong, geometry=gt.geometry.RKHS(indefinite)
    )
    with pytest.raises(ValueError, match="M must be symmetric"):
        gt.geometry.Preconditioned([[1.0, 0.5], [0.0, 1.0]])
    with pytest.raises(TypeError, match="LinearOperator without solve; pass solve="):
        gt.geometry.Preconditioned(aslinearoperator(SPD))


def test_the_euclidean_geometry_changes_nothing():
    """Nothing stands between the usual methods and the terms."""
    assert EUCLIDEAN.dot(X0, X0) == pytest.approx(X0 @ X0, rel=1e-14)
    assert EUCLIDEAN.enter(X0) is X0
    assert EUCLIDEAN.term(H, "h") is H


def test_arrays_of_another_class_are_asked_for_their_own_product():
    """The blocks of `distributed.graphs` are summed over all ranks."""

    class Doubled(np.ndarray):
        def __matmul__(self, other):
            return 2.0 * (np.asarray(self) @ np.asarray(other))

    u = np.arange(3.0).view(Doubled)
    assert EUCLIDEAN.dot(u, u) == 10.0


def test_lbfgs_drops_pairs_that_rounding_made_uphill():
    phi = Model(gt.Quadratic(np.diag([1.0, 3.0])), np.array([1.0, 1.0]), 1.0, 3.0)
    method = gt.inner.LBFGS()
    start = method.init(phi, np.zeros(2), None)
    s = np.array([1.0, 0.0])
    spoilt = replace(start, pairs=((s, -s),), curved=((s, -s, -1.0),))
    again = method.step(phi, spoilt)
    assert again.pairs == again.curved == () and not again.failed
    np.testing.assert_array_equal(again.v, start.v)
    assert method.step(phi, again).v.any()  # and goes on without them
