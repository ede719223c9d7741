"""The compiled loops against plain NumPy, and the solver against its own optimality conditions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.metrics.pairwise import rbf_kernel

from geartrain.compiled import smo
from geartrain.compiled.records import Dual, KernelRows
from geartrain.estimators.svm.block_smo import (
    NO_HALVES,
    NO_POINTS,
    active_set,
    block_smo,
    guess,
    working_set,
)
from geartrain.estimators.svm.exact import exact_gradient
from geartrain.estimators.svm.kernel import EXP_ERROR, Kernel
from geartrain.estimators.svm.kernel_matrix import STALE, TrainingKernel
from geartrain.estimators.svm.problem import BlockTuning, SVMProblem, feasible


def make(m=300, n=4, C=5.0, seed=0, memory=1e9, tol=1e-3, kink=0.0, **options):
    """A problem of two classes, or a regression if there is a kink; and its kernel matrix."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n))
    y = X[:, 0] + 0.5 * np.sin(3 * X[:, 1]) + 0.3 * rng.standard_normal(m)
    y = y - y.mean() if kink else np.where(y > 0, 1.0, -1.0)
    ends = np.full(m, -C), np.full(m, C)
    lo, hi = ends if kink else (np.minimum(C * y, 0), np.maximum(C * y, 0))
    kernel = TrainingKernel(Kernel("rbf", 0.3), X, memory)
    problem = SVMProblem(
        kernel=kernel, y=y, lo=lo, hi=hi, tol=tol, max_iter=-1, start=None, kink=kink,
        report=lambda line: None, **options,
    )  # fmt: skip
    return problem, rbf_kernel(X, gamma=0.3)


def with_labels(problem, y):
    """The problem with other labels."""
    C = problem.C
    return replace(problem, y=y, lo=np.minimum(C * y, 0), hi=np.maximum(C * y, 0))


def rows_of(solution_or_kernel):
    return solution_or_kernel.ledger.calls["kernel.row"]


def dual_at(problem, beta, F):
    return Dual(beta, F, np.zeros(beta.size), problem.lo, problem.hi, problem.kink)


def violation_of(F, beta, problem):
    rise = F - np.where(beta >= 0, problem.kink, -problem.kink)
    fall = F - np.where(beta > 0, problem.kink, -problem.kink)
    return rise[beta < problem.hi].max() - fall[beta > problem.lo].min()


def losses(problem, r):
    """The sum of the losses at the residuals r."""
    above, below = np.maximum(0, r - problem.kink), np.maximum(0, -r - problem.kink)
    return problem.hi @ above - problem.lo @ below


def objective(solution, problem):
    """The primal objective of the hinge, which the solver leaves out if it would take long."""
    if solution.objective is not None:
        return solution.objective
    S = np.flatnonzero(solution.coefficients)
    c = solution.coefficients[S]
    f = problem.kernel.exact_product(S, S, c)
    return float(solution.gap + solution.linear - 0.5 * (c @ f))


def solve_block(problem, K, tol, max_steps):
    """The compiled loop from zero on a block whose rows are all known: the dual, and the steps."""
    known, tally = np.ones(len(K), np.bool_), np.zeros(2, np.int64)
    rows = KernelRows(K.astype(np.float32), np.arange(len(K)), known, NO_POINTS, NO_HALVES)
    dual = dual_at(problem, np.zeros(len(K)), problem.y.copy())
    smo.solve_block(tally, rows, dual, tol, max_steps)
    assert tally[1] == 0
    return dual, tally[0]


def test_solve_block_stops_at_its_tolerance():
    problem, K = make(80)
    dual, steps = solve_block(problem, K, 1e-2, 10**6)
    F = problem.y - K @ dual.beta
    assert violation_of(F, dual.beta, problem) <= 1e-2 + 1e-4
    np.testing.assert_allclose(dual.F, F, atol=1e-4)
    before, _ = solve_block(problem, K, 1e-2, steps - 1)
    assert violation_of(problem.y - K @ before.beta, before.beta, problem) > 1e-2 - 1e-4


def smo_steps(K, y, beta, lo, hi, kink, steps):
    """Second-order SMO on twice as many variables, beta = up - down, as LIBSVM does it."""
    m = y.size
    K2 = np.tile(K, (2, 2))
    p = np.concatenate([y - kink, y + kink])
    b = np.concatenate([np.maximum(beta, 0), np.minimum(beta, 0)])
    lo2, hi2 = np.concatenate([np.zeros(m), lo]), np.concatenate([hi, np.zeros(m)])
    f = p - K2 @ b
    for _ in range(steps):
        up, low = np.flatnonzero(b < hi2), np.flatnonzero(b > lo2)
        i = up[np.argmax(f[up])]
        eta = np.maximum(K2[i, i] + K2[low, low] - 2 * K2[i, low], 1e-12)
        j = low[np.argmax(np.maximum(f[i] - f[low], 0) ** 2 / eta)]
        t = (f[i] - f[j]) / max(K2[i, i] + K2[j, j] - 2 * K2[i, j], 1e-12)
        t = min(t, hi2[i] - b[i], b[j] - lo2[j])
        b[i] += t
        b[j] -= t
        f -= t * (K2[i] - K2[j])
    return b[:m] + b[m:]


@pytest.mark.parametrize("steps", [1, 3, 60])
def test_steps_are_those_on_twice_as_many_variables(steps):
    problem, K = make(60, C=2.0, kink=0.15)
    dual, done = solve_block(problem, K, 1e-9, steps)
    assert done == steps
    expected = smo_steps(K, problem.y, np.zeros(60), problem.lo, problem.hi, 0.15, steps)
    np.testing.assert_allclose(dual.beta, expected, atol=2e-5)
    np.testing.assert_allclose(dual.F, problem.y - K @ dual.beta, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(0, 5), st.floats(0, 5)), min_size=2),
    st.floats(0, 1),
)
def test_best_intercept_by_brute_force(points, kink):
    F, lo, hi = (np.array(column) for column in zip(*points, strict=True))
    if not (lo.any() and hi.any()):
        return
    zero = np.zeros(F.size)
    dual = Dual(zero, F, zero, -lo, hi, kink)

    def loss(b):
        return hi @ np.maximum(0, F - b - kink) + lo @ np.maximum(0, b - F - kink)

    best = min(loss(b) for b in [*(F - kink), *(F + kink)])
    assert loss(smo.best_intercept(dual, F)) <= best + 1e-9


def test_working_set_takes_the_worst_violators_and_free_points():
    rng = np.random.default_rng(3)
    F, m = rng.standard_normal(200), 200
    lo, hi = np.full(m, -1.0), np.full(m, 1.0)
    beta = rng.choice([-1.0, 0.3, 1.0], m, p=[0.45, 0.1, 0.45])
    dual = Dual(beta, F, np.zeros(m), lo, hi, 0.0)
    top, bottom = smo.extremes(dual)
    assert top == F[beta < hi].max() and bottom == F[beta > lo].min()
    last = np.arange(100)
    W = working_set(dual, last, 20, top, bottom)
    kept = [k for k in last if beta[k] == 0.3][:10]
    others = np.setdiff1d(np.arange(m), kept)
    half = (20 - len(kept)) // 2
    grow = others[beta[others] < hi[others]]
    grow = grow[np.argsort(-F[grow])][:half]
    rest = np.setdiff1d(others, grow)
    shrink = rest[beta[rest] > lo[rest]]
    shrink = shrink[np.argsort(F[shrink])][:half]
    assert list(W) == sorted({*kept, *grow, *shrink})


def test_the_exponential_in_float64():
    s = np.concatenate([np.linspace(-40.0, 0.0, 4001), [0.5, -1e4]])
    G = np.array([s + 2.0])
    smo.gaussian_f8(G, np.array([1.5]), np.full(s.size, 0.5))
    np.testing.assert_allclose(G[0, :-2], np.exp(s[:-2]), rtol=4e-15)
    assert G[0, -2] == 1.0 and 0.0 <= G[0, -1] < 1e-37


def test_the_exponential_in_float32():
    s = np.concatenate([np.linspace(-80.0, 0.0, 40_001), -np.logspace(-12, 1, 1000), [0.5, -1e4]])
    s = s.astype(np.float32)
    G = s[None, :].copy()
    smo.gaussian_f4(G, np.zeros(1, np.float32), np.zeros(s.size, np.float32), smo.LOG2_E)
    exact = np.exp(s[:-2].astype(np.float64))
    # 4 u |s| of the exponent is in the bound of `TrainingKernel.error` by itself.
    assert (abs(G[0, :-2] / exact - 1) <= EXP_ERROR + 4 * 2.0**-24 * abs(s[:-2])).all()
    assert G[0, -2] == 1.0 and 0.0 <= G[0, -1] < 1e-37


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 70),
    st.floats(-3, 3),
    st.floats(-3, 1),
    st.floats(-100, 100),
    st.booleans(),
)
def test_float32_rows_keep_their_bound(seed, n, scale, gamma, shift, as_sparse):
    rng = np.random.default_rng(seed)
    X = shift + 10.0**scale * rng.standard_normal((60, n)) * rng.uniform(0.1, 3.0, n)
    if as_sparse:
        X *= rng.random((60, n)) < 0.3
    kernel = TrainingKernel(Kernel("rbf", 10.0**gamma), csr_matrix(X) if as_sparse else X, 1e9)
    if not np.isfinite(kernel.error):
        return
    every = np.arange(60)
    rows = np.empty((60, 60), np.float32)
    kernel.fill(every, rows)
    on_demand = rows.copy()
    points, halves = kernel.float_rows.coordinates, kernel.float_rows.halves
    for i in every if points.size else ():
        smo._gaussian_row(points, halves, i, on_demand)
    # Exact: differences, not products.
    K = np.exp(-(10.0**gamma) * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    for K4 in (rows, on_demand):
        assert (abs(K4 - K) <= kernel.error * K4 + 1.2e-38).all()


def test_rows_on_demand_are_counted_and_those_of_the_kernel():
    problem, K = make(300, C=0.5)
    kernel = problem.kernel
    solution = block_smo(problem)
    held = np.flatnonzero(kernel.slot >= 0)
    assert rows_of(kernel) == held.size < 300
    assert kernel.ledger.calls["smo.step"] > 0 and solution.calls == {}
    assert np.isin(np.flatnonzero(solution.coefficients), held).all()
    np.testing.assert_allclose(kernel.rows[held], K[held], rtol=kernel.error)


@pytest.mark.parametrize("error", [1e-4, 3e-3])
def test_gradient_is_exact_near_the_margin_and_bounded_beyond(error):
    problem, K = make(500, C=0.5)
    y, rng = problem.y, np.random.default_rng(0)
    lo, hi, C = problem.lo, problem.hi, problem.C
    solution = block_smo(problem)
    beta = solution.coefficients
    true = y - K @ beta
    E = error * (K @ abs(beta))
    given = dual_at(problem, beta, true + E * rng.uniform(-1, 1, 500))
    exact = exact_gradient(problem, given, E)
    near, far = exact.near, np.setdiff1d(np.arange(500), exact.near)
    assert (np.abs(beta[far]) == 0.5).sum() > 50 and (beta[far] == 0.0).sum() > 50
    assert np.isin(np.flatnonzero((lo < beta) & (beta < hi)), near).all()
    assert near.size < 150 and not exact.E[near].any() and (exact.E[far] == E[far]).all()
    np.testing.assert_allclose(exact.dual.F[near], true[near], atol=1e-12)
    assert (abs(exact.dual.F - true) <= exact.E + 1e-12).all()
    # Neither violation nor gap see the far points, so both are those of the true gradient.
    violation, b, gap = smo.certify(exact.dual, exact.E)
    assert violation == pytest.approx(violation_of(true, beta, problem))
    assert b == pytest.approx(smo.best_intercept(exact.dual, true), abs=1e-12)
    F = exact.dual.F
    for part in (far, near):
        gaps = [(C * np.maximum(0, y * (G - b)) - abs(beta) * y * (G - b))[part] for G in (F, true)]
        np.testing.assert_allclose(*gaps, atol=1e-12)
        assert gaps[0].any() == (part is near)
    assert solution.gap == pytest.approx(gaps[1].sum(), abs=1e-9)
    assert gap == pytest.approx(gaps[1].sum(), abs=1e-9)


def test_what_is_not_known_exactly_is_taken_for_the_worst():
    beta, hi = np.array([0.0, 1.0, -1.0, 0.0, 0.5]), np.array([1.0, 1.0, 0.0, 0.0, 1.0])
    E = np.arange(1.0, 6.0)
    dual = Dual(beta, np.zeros(5), np.zeros(5), hi - 1.0, hi, 0.0)
    violation, b, gap = smo.certify(dual, E)
    # If beta can only grow, its F may be larger; if it can only shrink, its F may be smaller.
    worst = np.array([1.0, -2.0, 3.0, -4.0, 0.0])
    assert violation == 3.0 - -4.0 + 2 * 5.0 and b == smo.best_intercept(dual, worst)

    def gaps(r):
        return hi * max(0.0, r) + (hi - 1.0) * min(0.0, r) - beta * r

    fixed = sum(gaps(r)[k] for k, r in enumerate(worst[:4] - b))
    assert gap == pytest.approx(fixed + max(gaps(5.0 - b)[4], gaps(-5.0 - b)[4]))


def test_an_error_far_below_the_tolerance_may_stay():
    problem, _ = make(1200, n=8)
    X, y = np.rint(8 * problem.kernel.X) / 8, problem.y
    problem = replace(problem, kernel=TrainingKernel(Kernel("rbf", 1.0), X, 1e9))
    K = rbf_kernel(X, gamma=1.0)
    rough = block_smo(problem)
    beta = rough.coefficients
    free = (problem.lo < beta) & (beta < problem.hi)
    b, true = rough.intercept, y - K @ beta
    assert free.sum() > 256 and rough.converged
    assert violation_of(true, beta, problem) <= problem.tol
    gap = (5.0 * np.maximum(0, y * (true - b)) - abs(beta) * y * (true - b)).sum()
    assert rough.objective is None and gap <= rough.gap <= 2 * gap
    E = np.full(1200, 0.04 * problem.tol)
    F = true + E * np.random.default_rng(0).uniform(-1, 1, 1200)
    assert not exact_gradient(problem, dual_at(problem, beta, F), E).near.size
    assert exact_gradient(problem, dual_at(problem, beta, F), 2 * E).near.size >= free.sum()


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
@pytest.mark.parametrize("unit", [1.0, 0.125, 3.0, 0.1])
def test_products_of_points_on_a_grid_are_exact(unit, form):
    """Multiples of a power of two are; of 0.1 they are not."""
    rng = np.random.default_rng(0)
    X = unit * rng.integers(-4, 5, (700, 30))
    kernel = TrainingKernel(Kernel("rbf", 0.5 / (30 * unit**2)), form(X), 1e9)
    W = np.arange(0, 700, 7)
    rows = np.empty((100, 700), np.float32)
    kernel.fill(W, rows)
    square = ((X[W, None] - X[None]) ** 2).sum(axis=2)
    error = abs(rows / np.exp(-kernel.kernel.gamma * square) - 1).max()
    assert error <= kernel.error and (kernel.error < 5e-6) == (unit != 0.1)


def test_kernels_without_a_bound_are_computed_exactly_everywhere():
    problem, _ = make(200)
    for name in ("linear", "poly"):
        kernel = TrainingKernel(Kernel(name, 0.3), problem.kernel.X, 1e9)
        assert kernel.error == np.inf
        other = replace(problem, kernel=kernel)
        beta = np.where(np.arange(200) % 3, 0.0, problem.y)
        F = problem.y - kernel.exact(np.arange(200), np.arange(200)) @ beta
        given = dual_at(other, beta, np.zeros(200))
        exact = exact_gradient(other, given, np.full(200, np.inf))
        assert exact.near.size == 200
        np.testing.assert_allclose(exact.dual.F, F, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("name", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_half_of_the_entries_make_the_whole_product(name, form, monkeypatch):
    monkeypatch.setattr("geartrain.estimators.svm.kernel.ENTRIES", 1000)
    rng = np.random.default_rng(0)
    X, c = rng.standard_normal((130, 5)), rng.standard_normal(130)
    kernel = TrainingKernel(Kernel(name, 0.3), form(X), 1e9)
    every = np.arange(130)
    wanted = Kernel(name, 0.3).matrix(X, X) @ c
    np.testing.assert_allclose(kernel.exact_product(every, every, c), wanted, rtol=1e-11)
    np.testing.assert_allclose(kernel.exact_product(every, every.copy(), c), wanted, rtol=1e-11)


@pytest.mark.parametrize(
    ("kink", "m", "memory"),
    [(0.0, 600, 1e9), (0.0, 600, 4 * 600 * 400), (0.1, 300, 1e9), (0.1, 1200, 1e9)],
)
def test_optimality_conditions_recomputed(kink, m, memory):
    problem, K = make(m, kink=kink, memory=memory)
    solution, y = block_smo(problem), problem.y
    beta, b = solution.coefficients, solution.intercept
    assert (problem.lo <= beta).all() and (beta <= problem.hi).all() and abs(beta.sum()) < 1e-9
    F = y - K @ beta
    assert violation_of(F, beta, problem) <= problem.tol * (1 + 1e-9)
    square = 0.5 * beta @ K @ beta
    primal, dual = square + losses(problem, F - b), y @ beta - kink * abs(beta).sum() - square
    assert objective(solution, problem) == pytest.approx(primal, rel=1e-12)
    assert solution.gap == pytest.approx(primal - dual, abs=1e-8)
    assert solution.converged and 0 <= solution.gap + 1e-9 < 1e-3 * primal
    for shift in (-1e-4, 1e-4):  # no intercept is better
        assert square + losses(problem, F - b - shift) >= primal - 1e-12


def test_newton_steps_do_not_cross_the_kink():
    problem, K = make(120, C=3.0, kink=0.1, tol=1e-10)
    exact = block_smo(problem)
    assert exact.converged and exact.gap < 1e-9
    beta = exact.coefficients
    free = (beta != 0) & (abs(beta) < 3.0)
    assert 5 < free.sum() < 100
    # Residuals of free points are the kink, with the sign of their coefficients.
    r = (problem.y - K @ beta)[free] - exact.intercept
    np.testing.assert_allclose(r, 0.1 * np.sign(beta[free]), atol=1e-9)


def test_float32_does_not_limit_the_accuracy():
    no_newton = BlockTuning(polish_free=0, needed_free=0)
    loose, _ = make(400, C=100.0, tuning=no_newton)
    tight, K = make(400, C=100.0, tol=1e-6, tuning=no_newton)
    first, second = block_smo(loose), block_smo(tight)
    assert second.converged and second.gap < 1e-2 * first.gap
    beta = second.coefficients
    assert violation_of(tight.y - K @ beta, beta, tight) <= 1.001e-6
    coarse, fine = objective(first, loose), objective(second, tight)
    assert fine - second.gap <= coarse <= fine + first.gap


@pytest.mark.parametrize("small", [640, 0])
def test_a_tolerance_below_rounding_ends(small, monkeypatch):
    monkeypatch.setattr("geartrain.estimators.svm.kernel_matrix.SMALL", small)
    problem, K = make(400, C=100.0, tol=1e-15)
    solution = block_smo(problem)
    beta = solution.coefficients
    assert solution.gap < 1e-9 * objective(solution, problem)
    # The violation is a difference of sums of 400 products of up to 100: whether what is computed
    # of it falls below the tolerance is a matter of luck, its size is not.
    rounding = 400 * np.finfo(float).eps * (K @ abs(beta)).max()
    assert violation_of(problem.y - K @ beta, beta, problem) <= 1e-15 + 2 * rounding


@pytest.mark.parametrize("small", [640, 0])
def test_steps_that_go_round_in_circles_end(small, monkeypatch):
    """The rounding of float32 can make SMO repeat its steps for ever, on some processors."""
    monkeypatch.setattr("geartrain.estimators.svm.kernel_matrix.SMALL", small)
    problem, _ = make(200, C=10.0, tol=1e-3)
    left = iter(range(60))

    def in_circles(self, rows, dual, goal, max_steps):
        next(left)  # a run that does not end raises StopIteration here
        return max_steps

    monkeypatch.setattr(
        "geartrain.estimators.svm.kernel_matrix.TrainingKernel.solve_block", in_circles
    )
    assert not block_smo(problem).converged


def test_newton_steps_help_problems_that_want_more_than_float32():
    problem, K = make(800, C=10.0, tol=1e-10)
    solution = block_smo(problem)
    beta = solution.coefficients
    assert solution.converged
    assert violation_of(problem.y - K @ beta, beta, problem) <= 1.1e-10
    without = make(800, C=10.0, tol=1e-10, tuning=BlockTuning(needed_free=0))[0]
    assert not block_smo(without).converged


def test_polish_is_exact_where_the_free_points_are_the_right_ones():
    problem, _ = make(400, C=100.0, tuning=BlockTuning(polish_free=400))
    polished = block_smo(problem)
    other, _ = make(400, C=100.0, tuning=BlockTuning(polish_free=0))
    plain = block_smo(other)
    assert polished.gap < 1e-12 * objective(polished, problem) < 1e-4 * plain.gap
    assert problem.kernel.ledger.calls == other.kernel.ledger.calls


def test_cache_holds_the_right_rows_and_forgets_the_oldest():
    problem, K = make(600, memory=4 * 600 * 256 / 0.8 + 1)
    kernel = problem.kernel
    assert kernel.capacity == 256
    first, second = np.arange(200), np.arange(150, 350)
    for W in (first, second, first):
        slots = kernel.cached(W)
        np.testing.assert_allclose(kernel.rows[slots], K[W], atol=3e-6)
    # 200 rows; then 150 that are new, 94 of them in place of old ones of `first`; then those 94.
    assert rows_of(kernel) == 200 + 150 + 94
    held = np.flatnonzero(kernel.slot >= 0)
    assert held.size == 256 and np.unique(kernel.slot[held]).size == 256


def test_rows_that_are_no_longer_used_make_room():
    problem, K = make(700)
    kernel = problem.kernel
    first, second, third = np.arange(100), np.arange(100, 200), np.arange(200, 350)
    kernel.cached(first)
    for _ in range(STALE):
        kernel.cached(second)
    assert (kernel.slot[first] >= 0).all() and not kernel.forgets
    kernel.cached(second)
    slots = kernel.cached(third)
    assert (kernel.slot[first] < 0).all() and kernel.forgets
    # 100 in the place of `first`, 50 in memory that was not used before.
    assert set(slots) == {*range(100), *range(200, 250)} and rows_of(kernel) == 350
    for W in (second, third):
        np.testing.assert_allclose(kernel.rows[kernel.cached(W)], K[W], atol=3e-6)
    assert rows_of(kernel) == 350


def test_memory_limit_that_is_too_small_says_what_to_do():
    with pytest.raises(ValueError, match=r"256 kernel rows needs 1\.3 MB; raise memory_limit"):
        make(1000, memory=1e5)


def test_feasible_start():
    lo, hi = np.array([0.0, 0.0, -1.0, -1.0]), np.array([1.0, 1.0, 0.0, 0.0])
    beta = feasible(np.array([3.0, 0.5, -0.5, 0.2]), lo, hi)
    assert abs(beta.sum()) < 1e-15 and (lo <= beta).all() and (beta <= hi).all() and beta.any()
    assert not feasible(np.array([1.0, 1.0, 0.0, 0.0]), lo, hi).any()


def noisy(m=2400, C=1.0, **options):
    """Many points at their bounds: labels with noise."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((m, 2))
    y = np.where(X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 * rng.standard_normal(m) > 0, 1.0, -1.0)
    problem = with_labels(make(m, C=C, **options)[0], y)
    return replace(problem, kernel=TrainingKernel(Kernel("rbf", 0.3), X, 1e9))


def test_guess_is_what_the_solution_of_a_sample_says():
    problem = noisy()
    kernel, y, lo, hi = problem.kernel, problem.y, problem.lo, problem.hi
    beta, steps = guess(problem, 10**9)
    A, sample = kernel.sample
    assert A.size == 300 and np.unique(A).size == 300 and (kernel.X[A] == sample.X).all()
    assert steps == kernel.ledger.calls["smo.step"] > 100 and kernel.ledger.calls["smo.block"] == 1
    assert sample.ledger is kernel.ledger
    assert (lo <= beta).all() and (beta <= hi).all() and abs(beta.sum()) < 1e-9
    # The same by the whole kernel matrix of the sample, with C eight times as large.
    part = replace(
        problem,
        y=y[A],
        lo=8 * lo[A],
        hi=8 * hi[A],
        kernel=TrainingKernel(kernel.kernel, sample.X, 1e9),
    )
    c = block_smo(replace(part, tol=1e-6)).coefficients
    F = y - rbf_kernel(kernel.X, sample.X, gamma=0.3) @ c
    x = y * (F - smo.best_intercept(dual_at(problem, 0 * F, F), F))
    clear = abs(x) > 0.15  # the guess solves the sample to one tenth
    assert clear.mean() > 0.8 and ((beta != 0) == (x > 0))[clear].mean() > 0.99
    # And it is near the solution: most points are where they belong.
    solution = block_smo(noisy()).coefficients
    assert (beta == solution).mean() > 0.8
    assert np.count_nonzero((lo < beta) & (beta < hi)) <= 1


def test_a_guess_changes_the_way_and_not_the_answer():
    problems = noisy(), noisy(tuning=BlockTuning(support_least=1.1))
    with_guess, plain = (block_smo(problem) for problem in problems)
    values = [objective(solution, noisy()) for solution in (with_guess, plain)]
    assert abs(values[0] - values[1]) <= with_guess.gap + plain.gap
    assert with_guess.converged and plain.converged
    # Rows of 300 entries are counted like those of 2400.
    assert rows_of(problems[0].kernel) - 300 < 0.8 * rows_of(problems[1].kernel)


@pytest.mark.parametrize("C", [1e-3, 1e4])
def test_no_guess_where_all_or_few_points_are_at_their_bounds(C):
    problem = noisy(C=C)
    if C > 1.0:
        problem = with_labels(problem, np.where(problem.kernel.X[:, 0] > 0, 1.0, -1.0))
    beta, steps = guess(problem, 10**9)
    assert not beta.any() and problem.kernel.ledger.calls["smo.step"] == steps > 0


def test_no_guess_from_a_sample_without_one_of_the_classes():
    problem = noisy()
    y = np.where(np.arange(problem.y.size) < 30, 1.0, -1.0)
    rare = with_labels(problem, y)
    beta, steps = guess(rare, 10**9)
    assert not beta.any() and steps == 0 and rare.kernel.ledger.calls["smo.step"] == 0
    assert block_smo(rare).converged


def test_the_active_set_holds_all_free_points_and_the_nearest_of_the_others():
    problem, _ = make(1200, n=8)
    dual = problem.at(block_smo(problem).coefficients)
    free = np.flatnonzero(dual.free)
    W = active_set(dual, free.size + 60)
    assert np.isin(free, W).all() and free.size < W.size <= free.size + 60
    assert (np.diff(W) > 0).all()
    rise, fall = dual.slopes()
    left = np.setdiff1d(np.arange(1200), W)
    added = np.setdiff1d(W, free)
    can_grow, can_shrink = dual.beta < dual.hi, dual.beta > dual.lo
    grows, shrinks = added[can_grow[added]], added[can_shrink[added]]
    assert grows.size == shrinks.size == 30
    assert rise[grows].min() >= rise[left[can_grow[left]]].max()
    assert fall[shrinks].max() <= fall[left[can_shrink[left]]].min()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_many_free_points_are_solved_together_with_or_without_the_others(share):
    problem, _ = make(1200, n=8, tuning=BlockTuning(block_max=64, crowded=10**9))
    slow = block_smo(problem)
    tuning = BlockTuning(block_max=64, crowded=3, active_most=share)
    other, _ = make(1200, n=8, tuning=tuning)
    quick = block_smo(other)
    blocks, more = (p.kernel.ledger.calls["smo.block"] for p in (other, problem))
    assert blocks < 0.5 * more and quick.converged and slow.converged
    values = [objective(solution, problem) for solution in (slow, quick)]
    assert abs(values[0] - values[1]) <= slow.gap + quick.gap
