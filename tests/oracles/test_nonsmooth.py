"""Non-smooth terms: proximal operators and residuals against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize

import geartrain as gt
from geartrain.oracles.ledger import Ledger
from geartrain.oracles.splitting import Psi, Zero, split

N = 6
TERMS = {
    "l1": gt.L1(0.3),
    "l1 with weights": gt.L1([0.0, 0.1, 0.2, 0.3, 0.4, 2.0]),
    "box": gt.Box(-0.5, 0.3),
    "box with arrays": gt.Box(
        [-np.inf, -1.0, -0.2, 0.1, -0.1, -np.inf], [0.0, 1, 0, 0.1, np.inf, np.inf]
    ),
    "non-negative": gt.NonNegative(),
    "groups of two": gt.GroupL1(2, 0.4),
    "groups by number": gt.GroupL1([0, 1, 0, 1, -1, 1], [0.2, 0.9]),
    "groups by lists": gt.GroupL1([[0, 3], [4, 1]], 0.5),
    "simplex": gt.Simplex(2.0),
    "total variation": gt.TotalVariation(0.4),
    "nuclear norm": gt.NuclearNorm((2, 3), 0.5),
    "ball": gt.Ball(0.7, [0.1, 0.2, 0.3, 0.0, 0.0, 1.0]),
}
BOUNDED = ("box", "simplex", "ball")


def points(seed, count=5):
    rng = np.random.default_rng(seed)
    return [scale * rng.standard_normal(N) for scale in (0.1, 1.0, 3.0) for _ in range(count)]


@pytest.mark.parametrize("kind", TERMS)
def test_prox_minimises(kind):
    """psi(p) + alpha/2 |p - u|^2 is not above that of any other point of the domain."""
    psi = TERMS[kind]
    others = [psi.prox(v, 1.0) for v in points(1)]
    for alpha in (0.2, 5.0):
        for u in points(0):
            p = psi.prox(u, alpha)
            least = psi.value(p) + alpha / 2 * np.sum((p - u) ** 2)
            near = [psi.prox(p + 1e-3 * (v - p), 1e9) for v in others]
            for v in [*others, *near]:
                there = psi.value(v) + alpha / 2 * np.sum((v - u) ** 2)
                assert there >= least - 1e-12 * (1 + abs(least))


@pytest.mark.parametrize("kind", TERMS)
def test_residual_is_the_least_subgradient(kind):
    """Against the definition: r - d is a subgradient, and <r, e - r> >= 0 for the others."""
    psi = TERMS[kind]
    for u, d in zip(points(2), points(3), strict=True):
        v = psi.prox(u, 1.0)
        r = psi.residual(v, d)
        for other in points(4):
            s = psi.prox(other, 1.0)
            assert psi.value(s) >= psi.value(v) + (r - d) @ (s - v) - 1e-9
        w = u - v  # another subgradient
        assert r @ (d + w - r) >= -1e-9
        assert np.linalg.norm(psi.residual(v, -w)) <= 1e-12 * (1 + np.linalg.norm(w))


@pytest.mark.parametrize("kind", TERMS)
def test_the_checker_agrees(kind):
    report = gt.check_term(TERMS[kind], n=N)
    assert report and "prox" in report.checked, str(report)


@pytest.mark.parametrize("kind", BOUNDED)
def test_gap_bounds_every_inner_product(kind):
    psi, best = TERMS[kind], -math.inf
    for u in points(5, count=1):
        v = psi.prox(u, 1.0)
        gap = psi.gap(v, u)
        far = psi.prox(-1e6 * u, 1.0)  # where <u, s> is smallest
        best = u @ (v - far)
        assert gap == pytest.approx(best, rel=1e-4, abs=1e-6)
        for s in (psi.prox(p, 1.0) for p in points(6)):
            assert u @ (v - s) <= gap + 1e-12


def test_gap_of_an_unbounded_box():
    half = gt.NonNegative()
    v = np.array([1.0, 2.0])
    assert half.gap(v, np.array([1.0, 0.0])) == 1.0
    assert half.gap(v, np.array([1.0, -1e-9])) == math.inf


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: gt.L1(-0.1), "lam must be finite and at least 0"),
        (lambda: gt.L1(np.nan), "lam must be finite and at least 0"),
        (lambda: gt.Box(1.0, 0.0), "no x is inside"),
        (lambda: gt.Box([0.0, np.nan], 1.0), "lower contains NaN"),
        (lambda: gt.Box([0.0, 1.0], [1.0, 2.0, 3.0]), "different lengths"),
        (lambda: gt.Box(np.inf, np.inf), "lower must not be inf"),
        (lambda: gt.Simplex(0.0), "radius must be positive"),
        (lambda: gt.Ball(-1.0), "radius must be positive"),
        (lambda: gt.GroupL1(0, 1.0), "size of groups must be at least 1"),
        (lambda: gt.GroupL1([[0, 1], [1, 2]], 1.0), "must not overlap"),
        (lambda: gt.GroupL1([0, 1, 1], [1.0, 2.0, 3.0]), "2 groups but 3 weights"),
        (lambda: gt.GroupL1(4, 1.0).prox(np.ones(6), 1.0), "6 variables do not make groups of 4"),
        (lambda: gt.NuclearNorm(6, 1.0), "shape must be two whole numbers"),
        (lambda: gt.TotalVariation(-1.0), "lam must be positive"),
    ],
)
def test_bad_arguments(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_rounding_does_not_leave_a_set():
    rng = np.random.default_rng(0)
    for psi in (gt.Simplex(), gt.Ball(0.7)):
        a, b = psi.prox(rng.standard_normal(50), 1.0), psi.prox(rng.standard_normal(50), 1.0)
        for t in rng.random(50):
            assert psi.value(a + t * (b - a)) == 0.0
        assert psi.value(a + 1e-6) == math.inf or isinstance(psi, gt.Ball)


def test_a_box_is_exact():
    for psi, v in ((gt.NonNegative(), -5e-324), (gt.Box(0.1, 0.3), np.nextafter(0.1, 0.0))):
        assert psi.value(np.full(3, v)) == math.inf
        assert psi.value(psi.prox(np.full(3, v), 1.0)) == 0.0


@pytest.mark.parametrize("size", [3.0, 1e8, 1e17, 1e300])
def test_projection_onto_the_simplex_of_points_far_away(size):
    """Only what is within the radius of the largest entry counts, and the sum is right."""
    psi = gt.Simplex(2.0)
    np.testing.assert_array_equal(psi.prox([size, 0.0, -size], 1.0), [2.0, 0.0, 0.0])
    u = size * np.random.default_rng(0).standard_normal(40)
    w = psi.prox(u, 1.0)
    assert psi.value(w) == 0.0
    assert abs(np.sum(w) - 2.0) <= 40 * np.finfo(float).eps
    near = psi.prox(size + np.array([0.0, 0.5, 1.0]), 1.0)  # as far as `size` leaves digits
    assert abs(np.sum(near) - 2.0) <= 3 * np.finfo(float).eps


def test_a_projection_of_what_is_not_finite_is_not_finite():
    with np.errstate(invalid="ignore"):
        assert np.isnan(gt.Simplex().prox([np.inf, 0.0], 1.0)).all()


@pytest.mark.parametrize("method", ["auto", "fgm"])
def test_runs_on_the_simplex_from_far_away(method):
    h = gt.Quadratic(np.eye(3), [1.0, 2.0, 3.0])
    res = gt.minimize(h, gt.Simplex(), x0=[1e17, 0.0, 0.0], method=method)
    assert res.success
    np.testing.assert_allclose(res.x, [0.0, 0.0, 1.0], atol=1e-5)
    h = gt.Quadratic(np.eye(3), [5e13, 5e13 - 0.5, -5e13])
    res = gt.minimize(h, gt.Simplex(), x0=[0.0, 0.0, 1.0], method=method)
    assert gt.Simplex().value(res.x) == 0.0 and math.isfinite(res.fun)


@pytest.mark.parametrize("method", ["auto", "pqn", "fgm"])
def test_a_start_slightly_outside_is_projected(method):
    """Else the run would end at x0, below f*, with a certificate that says 0."""
    stop = gt.stop.Gradient(abs=1e-6)
    h = gt.Quadratic([[1e12]], [-0.5])
    res = gt.minimize(h, gt.NonNegative(), x0=[-5e-13], stop=stop, method=method)
    assert res.x[0] >= 0.0 and res.fun + float(res.certificate) >= 0.0


# Sums --------------------------------------------------------------------------------------------


def test_a_sum_is_split_into_its_parts():
    smooth, model, psi = gt.Quadratic(np.eye(N)), gt.Quadratic(2.0 * np.eye(N)), gt.L1(0.1)
    assert split(smooth) == (smooth, None)
    assert split(smooth + psi) == (smooth, (1.0, psi))
    left, part = split(2.0 * (psi + smooth + model) - model)
    x = np.arange(1.0, N + 1)
    assert part == (2.0, psi)
    np.testing.assert_allclose(left.grad(x), 4.0 * x)
    left, part = split(psi)
    assert isinstance(left, Zero) and part == (1.0, psi) and not left.grad(x).any()
    assert split(psi + psi)[1] == (2.0, psi) and split(smooth + 0.0 * psi)[1] is None


def test_two_nonsmooth_terms_are_an_error_that_says_why():
    with pytest.raises(ValueError, match="does not follow from those of the two"):
        gt.Quadratic(np.eye(N)) + gt.L1(0.1) + gt.Simplex()
    with pytest.raises(ValueError, match="it is subtracted, so the sum is not convex"):
        split(gt.Quadratic(np.eye(N)) - gt.L1(0.1))


@pytest.mark.parametrize("kind", TERMS)
def test_multiples(kind):
    """w psi by Psi against the definition for the value w psi."""
    term, ledger, weight = TERMS[kind], Ledger(), 3.0
    psi = Psi(term, weight, "g", ledger, N)
    u, d = points(7)[8], points(8)[9]
    p = psi.prox(u, 2.0)
    assert ledger.calls["g.prox"] == 1
    least = psi.value(p) + np.sum((p - u) ** 2)
    for v in (term.prox(q, 1.0) for q in points(9)):
        assert psi.value(v) == weight * term.value(v)
        assert psi.value(v) + np.sum((v - u) ** 2) >= least - 1e-12
        assert psi.value(v) >= psi.value(p) + (psi.residual(p, d) - d) @ (v - p) - 1e-9


@pytest.mark.parametrize("kind", TERMS)
def test_the_residual_of_a_term_without_one(kind):
    """By a short proximal step: never longer than the least subgradient, and close to it."""
    term = TERMS[kind]
    psi = Psi(gt.Term(prox=term.prox), 1.0, "g", Ledger(), N)
    for u, d in zip(points(10, 5), points(11, 5), strict=True):
        v = term.prox(u, 1.0)
        exact, short = term.residual(v, d), psi.residual(v, d)
        assert np.linalg.norm(short) <= np.linalg.norm(exact) * (1 + 1e-6) + 1e-9
        np.testing.assert_allclose(short, exact, atol=1e-4 * (1 + np.linalg.norm(d)))
        w = u - v
        np.testing.assert_array_equal(psi.residual(v, d, w), d + w)


@pytest.mark.parametrize("n", [1, 2, 7, 300])
def test_total_variation_by_its_dual(n):
    """u = sums of y - x stays within lam, is lam with the sign of a jump, and ends at 0."""
    rng = np.random.default_rng(n)
    for lam in (1e-3, 0.3, 2.0, 50.0):
        y = np.repeat(rng.standard_normal(n), 3)[:n] + 0.3 * rng.standard_normal(n)
        x = gt.TotalVariation(lam).prox(y, 1.0)
        u, jumps = np.cumsum(x - y), np.sign(np.diff(x))
        tolerance = 1e-14 * n * (np.abs(y).max() + lam)
        assert abs(u[-1]) <= tolerance and (np.abs(u) <= lam + tolerance).all()
        moved = jumps != 0
        np.testing.assert_allclose(u[:-1][moved], lam * jumps[moved], atol=tolerance)


def test_bounds_of_scipy_with_one_number_hold_for_all_coordinates():
    h = gt.Quadratic(np.diag([1.0, 2.0, 3.0]), np.array([-1.0, 1.0, 9.0]))
    for bounds in (
        optimize.Bounds(0.0, 1.0),
        optimize.Bounds([0.0, 0.0, 0.0], 1.0),
        optimize.Bounds(0.0, [1.0, 1.0, 1.0]),
    ):
        np.testing.assert_allclose(gt.minimize(h, gt.Box(bounds)).x, [0.0, 0.5, 1.0], atol=1e-6)
    assert gt.Box(optimize.Bounds(-np.inf, 2.0)).n is None
    assert gt.Box(optimize.Bounds([0.0, -np.inf], [1.0, 2.0])).n == 2


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1.0, 1e170, 1e300])
def test_groups_of_any_size(size):
    """Squares of their entries neither overflow nor vanish; tests make an error of a warning."""
    psi, v = gt.GroupL1(2, 1.0), np.array([3.0, 4.0, 0.0, 0.0])
    assert psi.value(size * v) == pytest.approx(5.0 * size, rel=1e-9)
    np.testing.assert_allclose(psi.residual(size * v, -v), [-2.4, -3.2, 0.0, 0.0], rtol=1e-9)
    np.testing.assert_allclose(psi.prox(size * v, 1.0 / size), 0.8 * size * v, rtol=1e-9)
    mixed = np.array([size, 0.0, 3.0, 4.0])
    assert psi.value(mixed) == pytest.approx(size + 5.0, rel=1e-9)


@pytest.mark.parametrize("method", ["auto", "lbfgs", "fgm"])
@pytest.mark.parametrize(
    "psi", [gt.L1(1.0), gt.GroupL1(2, 1.0), gt.TotalVariation(1.0), gt.NuclearNorm((2, 2), 1.0)]
)
def test_a_step_without_an_end_has_a_status(psi, method):
    """Its inverse length is 0, by which nothing can be divided."""
    for slope in (1e200, 1e300):
        h = gt.Quadratic(np.eye(4), np.full(4, slope))
        assert np.isfinite(gt.minimize(h, psi, np.ones(4), method=method, max_iter=5).x).all()


@pytest.mark.parametrize("unit", [1e-11, 1e-3, 1.0])
def test_a_residual_that_long_steps_agree_about_is_not_taken(unit):
    """Steps far longer than the jumps of x see no jumps, and agree with each other about that."""
    tv = gt.TotalVariation(1.0)
    v, d = unit * np.array([0.952, 0.949]), np.array([30.0, 31.0])
    least = Psi(gt.Term(prox=tv.prox), 1.0, "g", Ledger(), 2).residual(v, d)
    np.testing.assert_allclose(least, tv.residual(v, d), rtol=1e-4)


def test_a_residual_at_0_of_a_set_that_is_elsewhere():
    """Short steps vanish in the coordinates of its centre; what is told is not too short."""
    ball = gt.Ball(0.5, [0.4, 0.3])  # 0 is on its boundary
    for d in ([2.0, -1.0], [-1.0, -1.0], [0.4, 0.3], [-0.8, -0.6 + 1e-6]):
        told = Psi(gt.Term(prox=ball.prox), 1.0, "g", Ledger(), 2).residual(
            np.zeros(2), np.array(d)
        )
        least = ball.residual(np.zeros(2), np.array(d))
        assert np.linalg.norm(told) >= (1.0 - 1e-4) * np.linalg.norm(least)


@pytest.mark.parametrize(
    ("method", "unit"), [("auto", 1e-10), ("pqn", 1.0), ("fgm", 1e3), ("afb", 1e-10)]
)
def test_a_start_outside_of_a_set_without_values_is_projected(method, unit):
    """Nobody says that x0 = 0 is outside of the simplex; a short proximal step shows it."""
    simplex = gt.Simplex(unit)
    h = gt.Quadratic(np.diag([1.0, 2.0, 3.0]) / unit**2, np.ones(3) / unit)
    told = [gt.minimize(h, p, np.zeros(3), method=method) for p in (simplex, bare_prox(simplex))]
    for res in told:
        assert res.success and simplex.value(res.x) == 0.0
        assert any("outside of the domain" in note for _, note in res.history.notes)
    np.testing.assert_allclose(told[0].x, told[1].x, atol=1e-5 * unit)


@pytest.mark.parametrize("x0", [0.0, 1e-30, 1.0])
def test_a_start_inside_stays_where_it_is(x0):
    start = np.full(4, x0)
    steep = gt.GroupL1(2, 1e31)
    for psi in (gt.L1(2.0), gt.TotalVariation(3.0), gt.GroupL1(2, 1.0), gt.Box(-1.0, 1.0), steep):
        seen = []
        h = gt.Term(lambda x: (seen.append(x.copy()), (0.5 * float(x @ x), x.copy()))[1], n=4, L=1)
        res = gt.minimize(h, bare_prox(psi), start, method="fgm", max_iter=1)
        assert np.array_equal(seen[0], start), psi
        assert not any("outside" in note for _, note in res.history.notes), psi


def bare_prox(psi):
    """A user's term with a proximal operator alone."""
    return gt.Term(prox=psi.prox)


@pytest.mark.parametrize("psi", [gt.Simplex(3.0), gt.Ball(2.0, center=1.0), gt.Ball(0.5)])
def test_linear_minimisation_over_the_simplex_and_the_ball(psi):
    """In the set, of least inner product, and no further apart than the diameter."""
    rng, found = np.random.default_rng(0), []
    for _ in range(20):
        d, v = rng.standard_normal(6), psi.prox(rng.standard_normal(6), 1.0)
        s = psi.lmo(d)
        assert psi.value(s) == 0.0 and d @ (v - s) == pytest.approx(psi.gap(v, d), abs=1e-12)
        found += [s, psi.lmo(-d)]
    far = max(np.linalg.norm(s - v) for s in found for v in found)
    assert far == pytest.approx(psi.diameter, rel=1e-12)
    assert psi.value(psi.lmo(np.zeros(6))) == 0.0
    assert gt.check_term(psi, n=6).ok
