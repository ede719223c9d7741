"""gt.Linear as a term: its arguments, its answers, and its sums with other terms."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy import optimize, sparse
from scipy.sparse.linalg import aslinearoperator

import geartrain as gt
from geartrain.oracles.linear import as_box
from geartrain.oracles.nonsmooth import InBox

INF = math.inf
A = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 1.0]])
LOWER, UPPER = np.array([1.0, -INF, 0.1]), np.array([1.0, 0.2, INF])


def term(**changes):
    return gt.Linear(**{"A": A, "lower": LOWER, "upper": UPPER, "bounds": (0.0, 0.6), **changes})


def points(seed, count=15):
    rng = np.random.default_rng(seed)
    return [size * rng.standard_normal(4) for size in (0.1, 1.0, 3.0) for _ in range(count // 3)]


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        ({"A": aslinearoperator(A)}, TypeError, "got a LinearOperator: a projection factorises"),
        ({"A": np.where(A == 2.0, np.nan, A)}, ValueError, "A contains NaN"),
        ({"A": A[0]}, ValueError, "must be two-dimensional"),
        ({"A": A.astype(complex)}, TypeError, "must be real"),
        ({"A": "rows"}, TypeError, "two-dimensional array of real numbers"),
        ({"lower": [1.0, 2.0]}, ValueError, "A has 3 rows, but lower has 2 entries"),
        ({"upper": [1.0, np.nan, 1.0]}, ValueError, "Linear: upper contains NaN"),
        ({"lower": 2.0, "upper": 1.0}, ValueError, r"lower exceeds upper \(first in row 0\)"),
        ({"lower": INF, "upper": INF}, ValueError, "lower must not be inf"),
        ({"upper": -INF, "lower": -INF}, ValueError, "upper must not be -inf"),
        ({"bounds": gt.Box([0.0, 1.0], 2.0)}, ValueError, "of 2 variables, but there are 4"),
        ({"bounds": (1.0, 0.0)}, ValueError, "no x is inside"),
        ({"bounds": 3.0}, TypeError, "bounds must be gt.Box, scipy.optimize.Bounds, a pair"),
        ({"bounds": [(0.0, 1.0, 2.0)] * 4}, TypeError, "bounds must be gt.Box"),
        ({"A": 0.0 * A}, ValueError, "row 0 of A is zero, but 1 <= 0 <= 1 does not hold"),
    ],
)
def test_bad_arguments(changes, error, sentence):
    with pytest.raises(error, match=sentence):
        term(**changes)


@pytest.mark.parametrize(
    "bounds",
    [
        gt.Box(0.0, 0.6),
        optimize.Bounds(0.0, 0.6),
        optimize.Bounds([0.0] * 4, [0.6] * 4),
        (0.0, 0.6),
        [0, 0.6],
        [(0.0, 0.6)] * 4,
        ([0.0] * 4, [0.6] * 4),
        (np.zeros(4), np.full(4, 0.6)),
    ],
)
def test_forms_of_bounds(bounds):
    for u in points(0, 3):
        np.testing.assert_array_equal(term(bounds=bounds).prox(u, 1.0), term().prox(u, 1.0))


def test_none_is_no_bound():
    box = as_box([(None, 1.0), (0.0, None)], 2)
    np.testing.assert_array_equal(box.lower, [-INF, 0.0])
    np.testing.assert_array_equal(box.upper, [1.0, INF])
    assert (as_box((0.0, None), 3).lower, as_box((0.0, None), None).upper) == (0.0, INF)
    assert as_box(None, 3).lower == -INF


def test_sparse_matrices():
    for form in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        u = points(1)[-1]
        np.testing.assert_allclose(term(A=form(A)).prox(u, 1.0), term().prox(u, 1.0), atol=1e-12)


def test_lengths_of_rows_do_not_matter():
    """Rows of 1e-200 and of 1e200 are those of 1, and whole numbers are numbers."""
    scale = np.array([1e-200, 1e200, 3.0])
    scaled = gt.Linear(A * scale[:, None], LOWER * scale, UPPER * scale, bounds=(0.0, 0.6))
    whole = gt.Linear(np.array([[1, 1]]), 1, 1)
    np.testing.assert_allclose(whole.prox([2, 1], 1.0), [1.0, 0.0], atol=1e-15)
    for u in points(2):
        np.testing.assert_allclose(scaled.prox(u, 1.0), term().prox(u, 1.0), atol=1e-12)


def test_rows_of_zeros_and_no_rows():
    more = gt.Linear(np.vstack([A, 0 * A[:1]]), [*LOWER, -1.0], [*UPPER, 0.0], bounds=(0.0, 0.6))
    none = gt.Linear(np.zeros((0, 4)), 0.0, 1.0, bounds=(0.0, 0.6))
    for u in points(3):
        np.testing.assert_array_equal(more.prox(u, 1.0), term().prox(u, 1.0))
        np.testing.assert_array_equal(none.prox(u, 1.0), np.clip(u, 0.0, 0.6))
        assert more.for_run().multipliers(more.prox(u, 1.0), u)["rows"][3] == 0.0


def test_it_is_the_simplex():
    simplex, other = gt.Simplex(2.0), gt.Linear(np.ones((1, 4)), 2.0, 2.0, bounds=gt.NonNegative())
    for u, d in zip(points(4), points(5), strict=True):
        v = simplex.prox(u, 1.0)
        np.testing.assert_allclose(other.prox(u, 1.0), v, atol=1e-13)
        np.testing.assert_allclose(other.residual(v, d), simplex.residual(v, d), atol=1e-12)
        assert other.gap(v, d) == pytest.approx(simplex.gap(v, d), abs=1e-9)


def test_value_and_violation():
    psi = term()
    x = psi.prox(np.array([1.0, 2.0, 3.0, -1.0]), 1.0)
    assert psi.value(x) == 0.0 and psi.violation(x) <= 1e-15
    up = x + np.array([0.0, 0.0, 0.0, 1e-6])
    assert psi.value(up) == INF
    assert psi.violation(up) == pytest.approx(1e-6 / 2 / max(np.linalg.norm(up), 0.5), rel=1e-6)
    assert gt.Linear(A, LOWER, UPPER).value(x + 1e-12) == 0.0
    outside = np.where(x == x.min(), -5e-324, x)
    assert psi.value(outside) == psi.violation(outside) == INF  # bounds are exact
    # the scale of a row is that of its side where x is small
    assert gt.Linear([[1.0]], 1.0, 2.0).violation(np.array([0.0])) == 1.0


def test_convex_combinations_stay_inside():
    psi = gt.Linear(A, LOWER, UPPER)
    ends = [psi.prox(u, 1.0) for u in points(6)]
    for t in np.random.default_rng(0).random(40):
        assert psi.value(ends[0] + t * (ends[3] - ends[0])) == 0.0


def test_gap_is_the_largest_over_the_set():
    psi = term()
    vertices = [psi.prox(1e7 * d, 1.0) for d in points(7, 30)]
    for u in points(8):
        v = psi.prox(u, 1.0)
        best = max(u @ (v - s) for s in vertices)
        found = optimize.linprog(
            u, A[1:2], UPPER[1:2], A[:1], [1.0], bounds=[(0.0, 0.6)] * 4
        )  # without row 2
        assert psi.gap(v, u) >= best - 1e-9
        assert psi.gap(v, u) <= u @ v - found.fun + 1e-8
        assert psi.gap(v, 1e-12 * u) == pytest.approx(1e-12 * psi.gap(v, u), rel=1e-6)
    assert psi.gap(v, np.zeros(4)) == 0.0


def test_gap_of_an_unbounded_set():
    psi = gt.Linear([[1.0, 1.0]], 0.0, INF)
    v = np.array([1.0, 1.0])
    assert psi.gap(v, np.array([1.0, 1.0])) == pytest.approx(2.0)
    assert psi.gap(v, np.array([1.0, 0.9])) == INF
    assert psi.gap(v, np.array([-1.0, -1.0])) == INF


def test_it_is_pickled():
    again = pickle.loads(pickle.dumps(term()))
    np.testing.assert_array_equal(again.prox(np.ones(4), 1.0), term().prox(np.ones(4), 1.0))


def test_multipliers_of_a_linear_program():
    """Against HiGHS, where they are unique."""
    compared = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, m = 6, 4
        M, x = rng.standard_normal((m, n)) * 3.0, rng.random(n)
        upper, c = M @ x + rng.random(m), rng.standard_normal(n)
        M[0] = 1.0
        upper[0] = x.sum()
        found = optimize.linprog(
            c, M[1:], upper[1:], M[:1], upper[:1], bounds=[(0.0, 1.0)] * n, method="highs"
        )
        psi = gt.Linear(M, [upper[0], -INF, -INF, -INF], upper, bounds=(0.0, 1.0))
        mine = psi.for_run().multipliers(found.x, -c)
        y = np.append(found.eqlin.marginals, found.ineqlin.marginals)
        z = found.lower.marginals + found.upper.marginals
        if np.count_nonzero(np.append(np.abs(y[1:]), np.abs(z)) > 1e-9) + 1 != n:
            continue  # degenerate
        compared += 1
        np.testing.assert_allclose(mine["rows"], y, atol=1e-9)
        np.testing.assert_allclose(mine["bounds"], z, atol=1e-9)
    assert compared >= 8


# Contradictions


@pytest.mark.parametrize(
    ("psi", "sentence"),
    [
        (
            gt.Linear([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [1, 0, -INF], [2, 1, 0.5]),
            "rows 0, 2 of",
        ),
        (
            gt.Linear([[1.0, 0.0], [1.0, 1.0]], 0.9, 2.0, bounds=(0.0, 0.4)),
            "row [01] of A cannot be met within the bounds",
        ),
        (
            gt.Linear(
                sparse.csr_array(np.eye(4)[[0, 1, 2, 3, 0]]), [0, 0, 0, 0, 2], [1, 1, 1, 1, 3]
            ),
            "rows 0, 4 of A together cannot be met$",
        ),
    ],
)
def test_a_contradiction_is_named(psi, sentence):
    def never(x):
        raise AssertionError("asked")

    with pytest.raises(ValueError, match=f"no x meets all constraints: .*{sentence}"):
        gt.minimize(gt.Term(grad=never, n=psi.n, L=1.0), psi)


def test_a_contradiction_among_many():
    """Three of 300 rows, which sum up to 0 <= -1."""
    rng = np.random.default_rng(0)
    M, x = rng.standard_normal((300, 60)), rng.standard_normal(60)
    upper = M @ x + 1.0
    M[250] = -M[3] - M[77]
    upper[250] = -upper[3] - upper[77] - 1.0
    with pytest.raises(ValueError, match=r"rows 3, 77, 250 of A together cannot be met$"):
        gt.Linear(M, -INF, upper).prox(x, 1.0)


# Sums


def test_linear_takes_in_bounds_and_rows():
    parts = [gt.Linear(A[:1], 1.0, 1.0), gt.Linear(A[1:], LOWER[1:], UPPER[1:]), gt.Box(0.0, 0.6)]
    g = gt.Quadratic(np.eye(4))
    for order in ((0, 1, 2), (2, 0, 1), (0, 2, 1)):
        total = g + parts[order[0]] + parts[order[1]] + parts[order[2]]
        (weight, psi), *rest = [part for part in total.parts if isinstance(part[1], gt.Linear)]
        assert not rest and weight == 1.0
        np.testing.assert_array_equal(psi.A, A)
        for u in points(9):
            np.testing.assert_array_equal(psi.prox(u, 1.0), term().prox(u, 1.0))
    mixed = gt.Linear(sparse.csr_array(A[:1]), 1.0, 1.0) + parts[1]
    assert sparse.issparse(mixed.parts[0][1].A)
    with pytest.raises(ValueError, match="of 2 and 4 variables"):
        parts[0] + gt.Linear(np.eye(2), 0.0)


def test_boxes_are_intersected():
    psi = (gt.Box(0.0, 2.0) + gt.Box(-1.0, [1.0, 3.0])).parts[0][1]
    np.testing.assert_array_equal(psi.prox(np.array([5.0, 5.0]), 1.0), [1.0, 2.0])
    with pytest.raises(ValueError, match="no x is inside"):
        gt.NonNegative() + gt.Box(-2.0, -1.0)


@pytest.mark.parametrize(
    "other", [gt.Simplex(), gt.Ball(), gt.GroupL1(2, 1.0), gt.TotalVariation(1.0)]
)
def test_other_sums_are_refused(other):
    for psi in (gt.Box(0.0, 1.0), term()):
        with pytest.raises(
            ValueError, match=r"a sum can have one non-smooth term.*write one object"
        ):
            other + psi
    with pytest.raises(ValueError, match="a sum can have one non-smooth term"):
        gt.L1(0.1) + term()
    with pytest.raises(ValueError, match="a sum can have one non-smooth term"):
        gt.Box(0.0, 1.0) - gt.L1(0.1)


def brute(psi, box, u, alpha):
    """Of one coordinate, on a grid."""
    t = np.linspace(max(box[0], -4.0), min(box[1], 4.0), 80_001)
    return t[np.argmin(psi(t) + 0.5 * alpha * (t - u) ** 2)]


@pytest.mark.parametrize("box", [(0.0, INF), (-0.2, 0.1), (0.3, 2.0), (-1.0, -0.5), (0.0, 0.0)])
def test_l1_in_a_box(box):
    ((weight, psi),) = (gt.L1(0.4) * 0.5 + gt.Box(*box)).parts
    assert isinstance(psi, InBox) and psi.separable
    assert weight == 0.5  # that of the l1 norm
    for u in points(10):
        for alpha in (0.5, 3.0):
            p = psi.prox(u, alpha / weight)
            best = [brute(lambda t: 0.2 * np.abs(t), box, entry, alpha) for entry in u]
            np.testing.assert_allclose(p, best, atol=2e-4)
            e = 1e-6
            J = psi.derivative(u, alpha)(np.eye(4))
            there = [psi.prox(u + e * i, alpha) - psi.prox(u - e * i, alpha) for i in np.eye(4)]
            np.testing.assert_allclose(J, np.array(there) / (2 * e), atol=1e-6)
        v = psi.prox(u, 1.0)
        assert psi.value(v) == gt.L1(0.4).value(v) and psi.value(v - 9.0) == INF
        for d in points(11):
            r = psi.residual(v, d)
            # d + dpsi is an interval around d + 0.4 sign(v), without an end at a bound
            low = d + np.where(v > 0.0, 0.4, -0.4)
            high = d + np.where(v < 0.0, -0.4, 0.4)
            low, high = np.where(v <= box[0], -INF, low), np.where(v >= box[1], INF, high)
            np.testing.assert_allclose(r, np.clip(0.0, low, high), atol=1e-14)
    assert gt.check_term(psi, n=4)


def test_a_term_of_the_user_in_a_box():
    """It tells what the term tells, and the box is one for several."""

    class Huberised:
        separable = True

        def prox(self, u, alpha):
            return u - np.clip(u, -0.1 / alpha, 0.1 / alpha)

    psi = (gt.NonNegative() + Huberised() + gt.Box(-1.0, 0.5)).parts[0][1]
    assert not hasattr(psi, "value") and not hasattr(psi, "residual")
    assert psi.box.lower == 0.0 and psi.box.upper == 0.5 and psi.calls_user_code
    np.testing.assert_allclose(psi.prox(np.array([3.0, 0.3, -1.0]), 1.0), [0.5, 0.2, 0.0])
