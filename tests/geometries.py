"""What the tests of geometries share: terms, inner products, methods, a walk in two coordinates."""

import numpy as np
import pytest
from scipy import linalg, sparse
from scipy.sparse.linalg import aslinearoperator

import geartrain as gt
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.problem import Constant, Sum

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
    "diagonal": (gt.geometry.Diagonal(D), np.diag(D)),
    "low rank": (gt.geometry.LowRankPlusDiagonal(U, D), np.diag(D) + U @ U.T),
    "low rank, one number": (gt.geometry.LowRankPlusDiagonal(U, 2.0), 2.0 * np.eye(N) + U @ U.T),
    "array": (gt.geometry.Preconditioned(SPD), SPD),
    "sparse": (gt.geometry.Preconditioned(sparse.csr_array(SPD)), SPD),
    "operator": (
        gt.geometry.Preconditioned(aslinearoperator(SPD), solve=lambda w: SPD_INVERSE @ w),
        SPD,
    ),
}
METHODS = {
    "fgm": gt.methods.FGM(),
    "fgm restarted": gt.methods.Restarted(gt.methods.FGM(mu=0.0), gt.methods.GradientTest()),
    "ags": gt.methods.AGS(),
    "ms": gt.methods.MonteiroSvaiterWhole(),
    "gmco": gt.methods.GMCO(),
    "lbfgs": gt.methods.LBFGSWhole(),
    "aeg": gt.methods.AEG(),
    "sae agm": gt.SAE(),
    "sae lbfgs": gt.SAE(inner=gt.inner.LBFGS()),
    "r-sae": gt.methods.RSAE(restart=gt.methods.GradientTest()),
    "sc-sae agm": gt.methods.SCSAE(),
    "sc-sae lbfgs": gt.methods.SCSAE(inner=gt.inner.LBFGS()),
    "afb agm": gt.methods.AFB(sigma=0.3),
    "afb lbfgs": gt.methods.AFB(inner=gt.inner.LBFGS()),
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


# The kernel ------------------------------------------------------------------------------------

M_ROWS = 40
T = np.sort(RNG.uniform(0.0, 1.0, M_ROWS))
SMOOTH = np.exp(-200.0 * (T[:, None] - T) ** 2)
GOOD = 0.5 * SMOOTH + 0.5 * np.eye(M_ROWS)  # well conditioned
LABELS = np.where(np.sin(12.0 * T) + 0.3 * RNG.standard_normal(M_ROWS) > 0.0, 1.0, -1.0)
LAM = 0.03


def bordered(K, corner=0.0):
    return linalg.block_diag(K, [[corner]])


def loss(K, intercept=False):
    return gt.LinearModel(K, LABELS, loss="smoothed_hinge", mu=0.3, intercept=intercept)
