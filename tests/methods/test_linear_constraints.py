"""Linear constraints in runs: every method, the multipliers, the law of calls, resumed runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint
from scipy.sparse.linalg import LinearOperator

import geartrain as gt
from geartrain.methods.pqn.low_rank import LowRank, RowBasis
from geartrain.oracles import linear
from runs import NEVER, same

INF = math.inf
N = 12
METHODS = ("pqn", "auto", "afb", "sae", "r-sae", "sc-sae", "gmco", "ags", "fgm")


class Planted:
    """Logistic h and a quadratic g whose minimiser under constraints, with multipliers, is known.

    Row 0 is an equality, row 1 is active at its upper and row 2 at its lower side, the others are
    loose; three variables are at their lower and two at their upper bounds.
    """

    def __init__(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((60, N))
        self.h = gt.LinearModel(X, np.sign(X @ rng.standard_normal(N) + 0.1), l2=0.05)
        A = rng.standard_normal((5, N))
        self.A, self.x = A, rng.uniform(-0.5, 0.5, N)
        self.lo, self.hi = np.full(N, -1.0), np.full(N, 1.0)
        self.lo[:3], self.hi[3:5] = self.x[:3], self.x[3:5]
        at = A @ self.x
        self.lower = np.array([at[0], -INF, at[2], at[3] - 1.0, -INF])
        self.upper = np.array([at[0], at[1], INF, at[3] + 1.0, at[4] + 1.0])
        length = np.linalg.norm(A, axis=1)
        self.y = np.array([0.7, -0.4, 0.5, 0.0, 0.0]) / length
        self.z = np.zeros(N)
        self.z[:3], self.z[3:5] = [0.3, 0.5, 0.8], [-0.4, -0.6]
        G = np.linalg.qr(rng.standard_normal((N, N)))[0]
        G = (G * np.geomspace(0.1, 30.0, N)) @ G.T
        G = 0.5 * (G + G.T)
        b = self.h.grad(self.x) + G @ self.x - A.T @ self.y - self.z
        self.g = gt.Quadratic(G, b)
        self.f_star = self.h.value(self.x) + self.g.value(self.x)

    @property
    def psi(self):
        return gt.Linear(self.A, self.lower, self.upper, bounds=gt.Box(self.lo, self.hi))

    @property
    def words(self):
        """The same in SciPy's."""
        rows = LinearConstraint(self.A, self.lower, self.upper)
        return {"constraints": rows, "bounds": Bounds(self.lo, self.hi)}

    def check(self, res, accuracy=1e-6):
        """The point, exactly inside its bounds, and the multipliers."""
        assert res.success, res
        np.testing.assert_allclose(res.x, self.x, atol=accuracy)
        assert np.all(res.x >= self.lo) and np.all(res.x <= self.hi)
        assert res.violation <= 1e-9
        assert abs(res.fun - self.f_star) <= accuracy
        y, z = res.multipliers["rows"], res.multipliers["bounds"]
        np.testing.assert_allclose(y, self.y, atol=1e-4 / np.linalg.norm(self.A, axis=1).max())
        np.testing.assert_allclose(z, self.z, atol=1e-4)
        slope = self.h.grad(res.x) + self.g.grad(res.x) - self.A.T @ y - z
        assert np.linalg.norm(slope) == pytest.approx(res.grad_norm, abs=1e-9)


CASE = Planted()


@pytest.mark.parametrize(
    ("method", "inner"), [*((m, "auto") for m in METHODS), ("sae", "proxqn"), ("pqn", "agm")]
)
def test_every_method(method, inner):
    """All points of a run are feasible, and the last one is the solution."""
    seen = []
    res = gt.minimize(
        CASE.h,
        CASE.g + CASE.psi,
        method=method,
        inner=inner,
        tol=1e-8,
        max_iter=20_000,
        callback=lambda x: seen.append(CASE.psi.violation(x)),
    )
    CASE.check(res)
    assert max(seen) <= 1e-9


def test_methods_that_do_not_take_it_say_so():
    for method in ("aeg", "catalyst"):
        with pytest.raises((TypeError, ValueError), match="non-smooth"):
            gt.minimize(CASE.h, CASE.g + CASE.psi, method=method)
    with pytest.raises(TypeError, match="separable"):
        gt.minimize(CASE.h, CASE.g + CASE.psi, method="afb", inner="approx")


def test_a_black_box():
    """No cheap part: everything is in h."""
    f = gt.Term(
        value_and_grad=lambda x: (
            CASE.h.value(x) + CASE.g.value(x),
            CASE.h.grad(x) + CASE.g.grad(x),
        ),
        n=N,
    )
    for psi in (CASE.psi, gt.Linear(sparse.csc_array(CASE.A), CASE.lower, CASE.upper)):
        if sparse.issparse(psi.A):
            res = gt.minimize(f, psi, bounds=Bounds(CASE.lo, CASE.hi), method="pqn", tol=1e-8)
        else:
            res = gt.minimize(f, psi, method="pqn", tol=1e-8)
        CASE.check(res)


def test_several_terms():
    half = gt.Quadratic(0.5 * CASE.g.Q, 0.5 * CASE.g.b)
    for method in ("auto", "afb"):
        res = gt.minimize([CASE.h, half], half + CASE.psi, method=method, tol=1e-8)
        CASE.check(res)


def test_scipys_words():
    ours = gt.minimize(CASE.h, CASE.g + CASE.psi, method="pqn", tol=1e-8)
    words = gt.minimize(CASE.h, CASE.g, method="pqn", tol=1e-8, **CASE.words)
    same(ours, words)
    pairs = [
        (low, None if high == 1.0 else high) for low, high in zip(CASE.lo, CASE.hi, strict=True)
    ]
    rows = [
        LinearConstraint(CASE.A[:2], CASE.lower[:2], CASE.upper[:2]),
        LinearConstraint(sparse.csr_matrix(CASE.A[2:]), CASE.lower[2:], CASE.upper[2:]),
    ]
    CASE.check(gt.minimize(CASE.h, CASE.g, constraints=rows, bounds=pairs, method="pqn", tol=1e-8))
    table = gt.compare(CASE.h, CASE.g, methods=["pqn", "afb"], tol=1e-6, **CASE.words)
    assert np.all(table.to_pandas()["status"] == "CONVERGED")


def test_bounds_alone():
    free = gt.minimize(CASE.h, CASE.g, bounds=(None, 0.1), method="pqn", tol=1e-9)
    box = gt.minimize(CASE.h, CASE.g + gt.Box(-INF, 0.1), method="pqn", tol=1e-9)
    same(free, box)
    slope = CASE.h.grad(free.x) + CASE.g.grad(free.x)
    assert np.all(free.multipliers["bounds"] <= 0.0) and free.multipliers["rows"].size == 0
    assert np.linalg.norm(slope - free.multipliers["bounds"]) == pytest.approx(free.grad_norm)
    plain = gt.minimize(CASE.h, CASE.g, method="pqn")
    assert plain.multipliers is None and plain.violation is None


def test_non_negative_lasso():
    """By coordinates, by the compiled loops and by pqn."""
    psi = gt.L1(0.3) + gt.NonNegative()
    found = [
        gt.minimize(CASE.h, CASE.g + psi, method="pqn", tol=1e-9),
        gt.minimize(CASE.h, CASE.g + gt.L1(0.3), bounds=(0.0, None), method="afb", tol=1e-9),
        gt.minimize(CASE.h, CASE.g + psi, method="afb", inner="approx", tol=1e-9),
    ]
    grad = CASE.h.grad(found[0].x) + CASE.g.grad(found[0].x)
    x = found[0].x
    assert x.min() == 0.0 < x.max()
    assert np.abs(grad[x > 0.0] + 0.3).max() <= 1e-6 and np.all(grad[x == 0.0] >= -0.3 - 1e-6)
    for other in found[1:]:
        np.testing.assert_allclose(other.x, x, atol=1e-6)


def test_a_quadratic_g_is_asked_once_per_point():
    """pqn takes its matrix from the term, so that one inner step is the whole inner run."""
    res = gt.minimize(CASE.h, CASE.g + CASE.psi, method="pqn", tol=1e-9)
    trials = res.calls["h.grad"]
    assert res.calls["g.grad"] <= trials + 2
    blind = gt.Term(value_and_grad=CASE.g.value_and_grad, n=N, L=CASE.g.L)
    other = gt.minimize(CASE.h, blind + CASE.psi, method="pqn", tol=1e-9)
    assert other.calls["g.grad"] > 2 * trials
    np.testing.assert_allclose(res.x, other.x, atol=1e-6)


def test_a_low_rank_matrix_in_full():
    rng = np.random.default_rng(0)
    rows, T = rng.standard_normal((4, N)), rng.standard_normal((4, 4))
    order = np.array([2, 0, 3, 1])
    B = LowRank(0.7, RowBasis.of(rows, rows @ rows.T, order), T + T.T)
    full = B.dense(0.2, N)
    for v in rng.standard_normal((5, N)):
        np.testing.assert_allclose(full @ v, B(v, 0.2), atol=1e-9)
    np.testing.assert_array_equal(LowRank(0.5).dense(0.25, 3), 0.75 * np.eye(3))


@pytest.mark.parametrize(
    ("words", "error", "sentence"),
    [
        ({"constraints": {"type": "eq", "fun": len}}, TypeError, "got dict: nonlinear constraints"),
        ({"constraints": NonlinearConstraint(len, 0, 1)}, TypeError, "got NonlinearConstraint"),
        ({"constraints": [3]}, TypeError, "LinearConstraint or a list of them, got int"),
        ({"bounds": "positive"}, TypeError, "bounds must be gt.Box, scipy.optimize.Bounds"),
        ({"bounds": [(0.0, 1.0)] * 5}, ValueError, "of 5 variables, but there are 12"),
        ({"constraints": LinearConstraint(np.eye(3), 0, 1)}, ValueError, "dimension"),
    ],
)
def test_bad_words(words, error, sentence):
    with pytest.raises(error, match=sentence):
        gt.minimize(CASE.h, CASE.g, **words)


def test_a_psi_that_cannot_be_combined_is_refused():
    for psi in (gt.Simplex(), gt.L1(0.1), gt.GroupL1(3, 0.1)):
        with pytest.raises(ValueError, match="a sum can have one non-smooth term"):
            gt.minimize(CASE.h, CASE.g + psi, **CASE.words)


def test_other_geometries_refuse():
    space = gt.geometry.Diagonal(np.linspace(1.0, 2.0, N))
    with pytest.raises(ValueError, match="is Euclidean"):
        gt.minimize(CASE.h, CASE.g, geometry=space, **CASE.words)


def test_a_start_outside_is_projected():
    res = gt.minimize(CASE.h, CASE.g, np.full(N, 5.0), method="pqn", tol=1e-8, **CASE.words)
    CASE.check(res)
    assert "x0 is outside of the domain of Linear" in res.history.notes[0][1]


def test_the_certificate_needs_no_distance():
    """stop.Gap by linear programs; without it one at the end, and none before."""
    g = gt.Term(value=CASE.g.value, grad=CASE.g.grad, n=N, L=CASE.g.L)
    h = gt.Term(value_and_grad=CASE.h.value_and_grad, n=N, L=CASE.h.L)
    for method in ("pqn", "afb"):
        res = gt.minimize(h, g, method=method, stop=gt.stop.Gap(1e-7), **CASE.words)
        assert res.success and "in the domain of Linear" in res.certificate.assumption
        assert -1e-12 <= res.fun - CASE.f_star <= res.certificate.bound <= 1e-7


def test_programs_are_solved_on_request_only(monkeypatch):
    asked = []
    least = linear.least
    monkeypatch.setattr(linear, "least", lambda *args: asked.append(0) or least(*args))
    res = gt.minimize(CASE.h, CASE.g, method="pqn", tol=1e-8, **CASE.words)
    assert res.nit > 2 and len(asked) == 1  # for res.certificate
    asked.clear()
    res = gt.minimize(CASE.h, CASE.g, method="pqn", stop=gt.stop.Gap(1e-9, R=10.0), **CASE.words)
    assert len(asked) <= res.nit + 2


@pytest.mark.same_everywhere  # a run is compared with itself
@pytest.mark.parametrize("method", ["pqn", "auto", "afb", "fgm"])
def test_equal_runs_and_resumed_runs(tmp_path, method):
    """With one term object: the warm start belongs to the run and goes into its checkpoint."""
    psi, path = CASE.psi, tmp_path / "run.gtck"
    options = {"method": method, "stop": NEVER, "prices": {"h": 100.0, "g": 1.0}}
    if method != "auto":
        options.pop("prices")
    g = CASE.g + psi
    whole = gt.minimize(CASE.h, g, max_iter=9, **options)
    same(whole, gt.minimize(CASE.h, g, max_iter=9, **options))
    gt.minimize(CASE.h, g, max_iter=4, checkpoint=path, **options)
    second = gt.resume(path, CASE.h, CASE.g, max_iter=5, **CASE.words)
    same(whole, second)
    if whole.multipliers is not None:
        for side, price in whole.multipliers.items():
            np.testing.assert_array_equal(price, second.multipliers[side])
    same(whole, gt.resume(path, CASE.h, g))


@pytest.mark.same_everywhere  # a run is compared with itself
def test_a_lost_warm_start_is_found(monkeypatch, tmp_path):
    """The memory matters: at degenerate vertices bits depend on it, and so a test must see it."""
    seen = []
    setter = linear.LinearRun.memory.fset
    monkeypatch.setattr(
        linear.LinearRun,
        "memory",
        linear.LinearRun.memory.setter(lambda self, kept: seen.append(kept) or setter(self, kept)),
    )
    path = tmp_path / "run.gtck"
    gt.minimize(CASE.h, CASE.g + CASE.psi, method="pqn", max_iter=3, stop=NEVER, checkpoint=path)
    gt.resume(path, CASE.h, CASE.g + CASE.psi, max_iter=1)
    assert len(seen) == 1 and seen[0].dtype == np.int8 and np.any(seen[0])


@pytest.mark.same_everywhere  # a run is compared with itself
def test_a_run_that_is_recorded_is_the_same_run():
    plain = gt.minimize(CASE.h, CASE.g + CASE.psi, method="afb", max_iter=20, stop=NEVER)
    watched = gt.minimize(
        CASE.h, CASE.g + CASE.psi, method="afb", max_iter=20, stop=NEVER, record=("f", "grad_norm")
    )
    np.testing.assert_array_equal(plain.x, watched.x)


@pytest.mark.parametrize("method", ["pqn", "afb"])
def test_calls_do_not_feel_the_condition_of_A(method):
    """The same set by rows of any condition: calls of h and g are those for kappa(A) = 1."""
    rng = np.random.default_rng(1)
    case = Planted()
    A = np.linalg.qr(case.A.T)[0].T  # orthonormal rows
    b = A @ case.x
    U, V = (np.linalg.qr(rng.standard_normal((5, 5)))[0] for _ in range(2))
    counts = []
    for kappa in (1.0, 1000.0):
        T = (U * np.geomspace(1.0, 1.0 / kappa, 5)) @ V  # {x : T A x = T b} is one set for all
        psi = gt.Linear(T @ A, T @ b, T @ b)
        stop = gt.stop.Value(_minimum(case, A, b) + 1e-7)
        res = gt.minimize(case.h, case.g + psi, method=method, stop=stop)
        assert res.success and res.violation <= 1e-9
        counts.append((res.calls["h.grad"], res.calls["g.grad"]))
    of_h, of_g = np.array(counts, dtype=float).T
    # Rounding may move the last iteration or an inner step, no more than that.
    assert np.ptp(of_h) <= 1.0 and np.ptp(of_g) <= 0.1 * of_g[0] + 1.0, counts


def _minimum(case, A, b):
    """The minimum over A x = b, by Newton's method in the null space."""
    Z = np.linalg.qr(A.T, mode="complete")[0][:, 5:]
    x = A.T @ b
    for _ in range(50):
        slope = Z.T @ (case.h.grad(x) + case.g.grad(x))
        H = np.array([case.h.grad(x + 1e-5 * d) - case.h.grad(x - 1e-5 * d) for d in Z.T]) / 2e-5
        x = x - Z @ np.linalg.solve(Z.T @ case.g.Q @ Z + H @ Z, slope)
    return case.h.value(x) + case.g.value(x)


def test_no_hidden_product_with_an_operator_of_the_user():
    """The Hessian of a small g is taken from its matrix, not from functions of the user."""
    n, asked = 20, []
    Q = np.diag(np.logspace(-1, 2, n))
    operator = LinearOperator((n, n), matvec=lambda x: asked.append(1) or Q @ x, dtype=float)
    A = np.random.default_rng(0).standard_normal((50, n))
    h, g = gt.LinearModel(A, np.sign(A[:, 0])), gt.Quadratic(operator)
    assert g.L > 0.0  # by products of its own
    asked.clear()
    res = gt.minimize(h, g + gt.Linear(np.ones((1, n)), 1.0, 1.0), method="pqn")
    assert res.success and len(asked) == res.calls["g.grad"] + res.calls["g.value"]
