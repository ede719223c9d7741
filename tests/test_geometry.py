"""Geometries: a method in the inner product of M is the same method in w = M^{1/2} x."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import geartrain as gt
from geartrain.geometry import EUCLIDEAN
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.problem import Constant, Model, Sum

N, ROWS = 12, 30
RNG = np.random.default_rng(3)
A = RNG.standard_normal((ROWS, N)) * np.logspace(0, 1, N)
Y = np.where(RNG.random(ROWS) < 0.5, 1.0, -1.0)
X0 = RNG.standard_normal(N)
H = gt.LinearModel(A, Y, loss="logistic", l2=0.1)
B = RNG.standard_normal((N, N))
G = gt.Quadratic(B @ B.T + np.eye(N), b=RNG.standard_normal(N))
D = RNG.uniform(0.5, 8.0, N)
U = RNG.standard_normal((N, 3))
C = RNG.standard_normal((N, N))
SPD = C @ C.T + 2.0 * np.eye(N)
SPD_INVERSE = np.linalg.inv(SPD)

SPACES = {
    "diagonal": (gt.Diagonal(D), np.diag(D)),
    "low rank": (gt.LowRankPlusDiagonal(U, D), np.diag(D) + U @ U.T),
    "low rank, one number": (gt.LowRankPlusDiagonal(U, 2.0), 2.0 * np.eye(N) + U @ U.T),
    "array": (gt.Preconditioned(SPD), SPD),
    "sparse": (gt.Preconditioned(sparse.csr_array(SPD)), SPD),
    "operator": (
        gt.Preconditioned(aslinearoperator(SPD), solve=lambda w: SPD_INVERSE @ w),
        SPD,
    ),
}
METHODS = {
    "fgm": gt.FGM(),
    "fgm restarted": gt.Restarted(gt.FGM(mu=0.0), gt.GradientTest()),
    "ags": gt.AGS(),
    "ms": gt.MonteiroSvaiterWhole(),
    "gmco": gt.GMCO(),
    "lbfgs": gt.LBFGSWhole(),
    "aeg": gt.AEG(),
    "sae agm": gt.SAE(),
    "sae lbfgs": gt.SAE(inner=gt.LBFGS()),
    "r-sae": gt.RSAE(restart=gt.GradientTest()),
    "sc-sae agm": gt.SCSAE(),
    "sc-sae lbfgs": gt.SCSAE(inner=gt.LBFGS()),
    "afb agm": gt.AFB(sigma=0.3),
    "afb lbfgs": gt.AFB(inner=gt.LBFGS()),
}


def in_space(h, g, space, **constants):
    """The counted problem that `minimize` makes."""
    h, g, ledger = space.term(h, "h"), space.term(g, "g"), Ledger()
    n = h.n
    L_h, L_g = constants.get("L_h", h.L), constants.get("L_g", g.L)
    mu = constants.get("mu", h.mu + g.mu)
    return Sum(
        Oracle(h, "h", ledger, n),
        Oracle(g, "g", ledger, n),
        Constant(L_h, "given"),
        Constant(L_g, "given"),
        Constant(mu, "given"),
        geometry=space,
    )


class Turned:
    """A term as a function of w = R x with R'R = M, by hand and in the Euclidean way."""

    def __init__(self, term, R, mu):
        self.term, self.S, self.n, self.mu = term, np.linalg.inv(R), len(R), mu

    def value(self, w):
        return self.term.value(self.S @ w)

    def grad(self, w):
        return self.S.T @ self.term.grad(self.S @ w)


def by_hand(h, g, M, like):
    """The same problem in w = R x, with the constants of `like`."""
    R = linalg.cholesky(M)
    parts = Turned(h, R, like.mu_h), Turned(g, R, like.mu_g)
    ledger = Ledger()
    problem = Sum(
        Oracle(parts[0], "h", ledger, len(R)),
        Oracle(parts[1], "g", ledger, len(R)),
        like.L_h,
        like.L_g,
        like.mu,
    )
    return problem, R


def walk(method, problem, x0, steps):
    out = [method.init(problem, x0)]
    for _ in range(steps):
        out.append(method.step(problem, out[-1]))
    return out


def assert_same_run(method, held, plain, R, x0, steps=12):
    """Iterates, gradients, tests and calls agree, step by step."""
    n = len(R)
    ours = walk(method, held, held.geometry.enter(x0), steps)
    theirs = walk(method, plain, R @ x0, steps)
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(R @ p.point[:n], q.point, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(p.point[n:], R.T @ q.point, rtol=1e-8, atol=1e-8)
        if q.grad is not None:
            np.testing.assert_allclose(p.grad[n:], R.T @ q.grad, rtol=1e-7, atol=1e-7)
            size = held.geometry.norm(p.grad)
            assert size == pytest.approx(np.linalg.norm(q.grad), rel=1e-6, abs=1e-8)
        for name in ("A", "L", "ms_ratio", "uphill", "grad_bound"):
            a, b = getattr(p, name, np.nan), getattr(q, name, np.nan)
            assert a == pytest.approx(b, rel=1e-5, abs=1e-7, nan_ok=True), name
    assert held.ledger.calls == plain.ledger.calls


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("kind", ["diagonal", "array"])
def test_a_method_is_the_same_method_in_turned_coordinates(method, kind):
    space, M = SPACES[kind]
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
    term = gt.Diagonal(d).term(gt.Quadratic(Q), "g")
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


# The kernel ------------------------------------------------------------------------------------

M_ROWS = 40
T = np.sort(RNG.uniform(0.0, 1.0, M_ROWS))
SMOOTH = np.exp(-200.0 * (T[:, None] - T) ** 2)
GOOD = 0.5 * SMOOTH + 0.5 * np.eye(M_ROWS)  # well conditioned
LABELS = np.where(np.sin(12.0 * T) + 0.3 * RNG.standard_normal(M_ROWS) > 0.0, 1.0, -1.0)
LAM = 0.03


class Counting(LinearOperator):
    """K that counts its products."""

    def __init__(self, K):
        super().__init__(np.float64, K.shape)
        self.K, self.products = K, 0

    def _matvec(self, u):
        self.products += 1
        return self.K @ u

    def _adjoint(self):
        return self


def bordered(K, corner=0.0):
    return linalg.block_diag(K, [[corner]])


def loss(K, intercept=False):
    return gt.LinearModel(K, LABELS, loss="smoothed_hinge", mu=0.3, intercept=intercept)


@pytest.mark.parametrize("name", ["fgm", "sae lbfgs", "sc-sae agm", "afb lbfgs", "r-sae"])
@pytest.mark.parametrize("intercept", [False, True])
def test_rkhs_is_the_preconditioner_K(name, intercept):
    """The same iterates as with M = K (bordered by 1), where K can be inverted."""
    Q = bordered(LAM * GOOD, 0.2) if intercept else LAM * GOOD
    M = bordered(GOOD, 1.0) if intercept else GOOD
    h, g = gt.Quadratic(Q), loss(GOOD, intercept)
    x0 = 0.1 * RNG.standard_normal(len(M))
    held = in_space(h, g, gt.RKHS(GOOD, intercept=intercept))
    plain, R = by_hand(h, g, M, held)
    assert_same_run(METHODS[name], held, plain, R, x0)
    other = in_space(h, g, gt.Preconditioned(M))
    assert held.L_h.value == pytest.approx(other.L_h.value, rel=1e-9)
    assert held.L_g.value == pytest.approx(other.L_g.value, rel=2e-3)
    assert held.mu_h == pytest.approx(other.mu_h, rel=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_rkhs_representatives_give_the_slopes(intercept):
    Q = bordered(LAM * SMOOTH, 0.2) if intercept else LAM * SMOOTH
    space = gt.RKHS(SMOOTH, intercept=intercept)
    plain = 2.0 * gt.Quadratic(Q) + loss(SMOOTH, intercept)
    term = space.term(plain, "h")
    x = 0.1 * RNG.standard_normal(space.n)
    v = space.enter(x)
    value, gradient = term.value_and_grad(v)
    assert value == pytest.approx(plain.value(x), rel=1e-12)
    assert term.value(v) == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(gradient[space.n :], plain.grad(x), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(space.product(gradient[: space.n]), plain.grad(x), atol=1e-13)


def test_rkhs_constants():
    space = gt.RKHS(SMOOTH)
    h, g = space.term(LAM * gt.Quadratic(SMOOTH), "h"), space.term(loss(SMOOTH), "g")
    assert (h.mu, h.L) == pytest.approx((LAM, LAM), rel=1e-12)
    truth = 0.25 / 0.3 * linalg.eigvalsh(SMOOTH)[-1] / M_ROWS
    assert truth * (1 - 1e-12) <= g.L <= 1.002 * truth
    with_one = gt.RKHS(SMOOTH, intercept=True).term(loss(SMOOTH, intercept=True), "g")
    truth = 0.25 / 0.3 * linalg.eigvalsh(SMOOTH + 1.0)[-1] / M_ROWS
    assert truth * (1 - 1e-12) <= with_one.L <= 1.002 * truth


@pytest.mark.parametrize("name", METHODS)
def test_one_product_with_K_a_gradient_of_the_loss(name):
    K = Counting(SMOOTH)
    space = gt.RKHS(K)
    held = in_space(gt.Quadratic(LAM * SMOOTH), loss(SMOOTH), space)
    K.products = 0
    states = walk(METHODS[name], held, space.enter(np.zeros(M_ROWS)), 8)
    calls = held.ledger.calls
    assert calls["g.grad"] > 8
    assert K.products == calls["g.grad"]
    assert calls["h.grad"] > 0
    held.monitor(states[-1].point)
    assert K.products == calls["g.grad"]


def test_images_are_carried_without_drift():
    space = gt.RKHS(SMOOTH)
    held = in_space(gt.Quadratic(LAM * SMOOTH), loss(SMOOTH), space, mu=0.0)
    v = walk(gt.FGM(), held, space.enter(np.zeros(M_ROWS)), 3000)[-1].point
    np.testing.assert_allclose(v[M_ROWS:], SMOOTH @ v[:M_ROWS], atol=1e-10)


def test_a_proximal_step_of_the_penalty_is_a_multiple():
    """The minimiser of lam/2 |v|^2 + alpha/2 |v - u|^2: its gradient vanishes."""
    space = gt.RKHS(SMOOTH)
    h = space.term(gt.Quadratic(LAM * SMOOTH), "h")
    u = space.enter(RNG.standard_normal(M_ROWS))
    v = h.prox(u, 0.7)
    np.testing.assert_allclose(h.grad(v) + 0.7 * (v - u), 0.0, atol=1e-14)
    res = gt.minimize(
        loss(SMOOTH),
        gt.Quadratic(LAM * SMOOTH),
        method="sae",
        inner="exact",
        geometry=space,
        tol=1e-8,
    )
    assert res.success
    assert res.calls["g.prox"] > 0
    assert np.linalg.norm(SMOOTH @ (LAM * res.x + slopes(res.x))) < 1e-7


def slopes(x):
    term = loss(SMOOTH)
    return term.loss.derivative(LABELS, SMOOTH @ x) / M_ROWS


# The front door --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["auto", "lbfgs", "fgm", "sae", "r-sae", "sc-sae", "afb", "gmco", "ms"]
)
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
        geometry=gt.RKHS(K, intercept=True),
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
    space, args = gt.RKHS(SMOOTH), (gt.Quadratic(LAM * SMOOTH), loss(SMOOTH))
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
    rough = gt.minimize(*args, method="fgm", geometry=gt.RKHS(SMOOTH), tol=1e-2)
    fine = gt.minimize(*args, method="fgm", geometry=gt.RKHS(SMOOTH), tol=1e-9)
    assert rough.constants["mu"].value == pytest.approx(LAM)
    assert 0.0 < rough.fun - fine.fun <= rough.certificate.bound
    assert rough.certificate.bound < 1e3 * (rough.fun - fine.fun)


@pytest.mark.parametrize(
    ("method", "inner", "who"),
    [
        (gt.ScipyLBFGS(), "auto", "ScipyLBFGS"),
        ("sae-qn", "auto", "SAEQN"),
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
        gt.minimize(H, G, method=method, inner=inner, geometry=gt.Diagonal(D))


def test_what_is_wrong_is_said():
    K, h, g = SMOOTH, gt.Quadratic(LAM * SMOOTH), loss(SMOOTH)
    space = gt.RKHS(K)

    def told(kind, match, *args, **kwargs):
        with pytest.raises(kind, match=match):
            gt.minimize(*args, **kwargs)

    told(TypeError, r"geometry must be one of gt.RKHS\(K\)", h, g, geometry=K)
    told(TypeError, "g = .* its matrix is not K", h, loss(GOOD), geometry=space)
    told(TypeError, "h = .* it is not 1/2 x'Kx times", gt.Quadratic(GOOD), g, geometry=space)
    shifted = gt.Quadratic(K, b=np.ones(M_ROWS))
    told(TypeError, "h = .* it is not 1/2 x'Kx times", shifted, g, geometry=space)
    ridge = gt.LinearModel(K, LABELS, l2=0.1)
    told(TypeError, r"l2/2 \|x\|\^2 is not K times", h, ridge, geometry=space)
    own = gt.Term(value=h.value, grad=h.grad, L=1.0, n=M_ROWS)
    told(TypeError, "whether its gradient is K times something", own, g, geometry=space)
    told(TypeError, "needs gradients", gt.Term(value=h.value), G, X0, geometry=gt.Diagonal(D))
    both = gt.Quadratic(bordered(LAM * K)), loss(K, intercept=True)
    told(ValueError, "x has an intercept: use RKHS", *both, geometry=space)
    told(ValueError, "of dimension 3, but x has 12", H, G, geometry=gt.Diagonal(np.ones(3)))
    with pytest.raises(ValueError, match="d must be positive, but its smallest entry is -1"):
        gt.Diagonal([1.0, -1.0])
    with pytest.raises(ValueError, match="M must be positive definite"):
        gt.Preconditioned(np.diag([1.0, -1.0]))
    with pytest.raises(ValueError, match="M must be positive definite"):
        gt.Preconditioned(sparse.csr_array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    indefinite = K - 0.5 * np.eye(M_ROWS)
    wrong = gt.Quadratic(LAM * indefinite), loss(indefinite)
    told(ValueError, "K must be positive semidefinite", *wrong, geometry=gt.RKHS(indefinite))
    with pytest.raises(ValueError, match="M must be symmetric"):
        gt.Preconditioned([[1.0, 0.5], [0.0, 1.0]])
    with pytest.raises(TypeError, match="LinearOperator without solve; pass solve="):
        gt.Preconditioned(aslinearoperator(SPD))


def test_the_euclidean_geometry_is_numpys():
    """Nothing stands between the usual methods and NumPy."""
    assert EUCLIDEAN.dot is np.ndarray.dot
    assert EUCLIDEAN.enter(X0) is X0
    assert EUCLIDEAN.term(H, "h") is H


def test_a_run_in_a_geometry_is_not_saved(tmp_path):
    h = gt.Quadratic(np.eye(3), b=np.ones(3))
    with pytest.raises(TypeError, match="a run in a geometry cannot be saved"):
        gt.minimize(h, h, geometry=gt.Diagonal(np.ones(3)), checkpoint=tmp_path / "run.gtck")


def test_lbfgs_drops_pairs_that_rounding_made_uphill():
    phi = Model(gt.Quadratic(np.diag([1.0, 3.0])), np.array([1.0, 1.0]), 1.0, 3.0)
    method = gt.LBFGS()
    start = method.init(phi, np.zeros(2), None)
    s = np.array([1.0, 0.0])
    spoilt = replace(start, pairs=((s, -s),), curved=((s, -s, -1.0),))
    again = method.step(phi, spoilt)
    assert again.pairs == again.curved == () and not again.failed
    np.testing.assert_array_equal(again.v, start.v)
    assert method.step(phi, again).v.any()  # and goes on without them
