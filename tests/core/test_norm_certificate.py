"""The certificate for norms, <u, v> + (f(v) - b) polar(u): never below the gap, along runs."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import geartrain as gt
from geartrain.core.points import RunPoint
from geartrain.oracles.losses import COMPILED
from geartrain.problem import Constant

N = 12
NORMS = {
    "l1": gt.L1(0.03),
    "weights": gt.L1(np.linspace(0.01, 0.1, N)),
    "groups": gt.GroupL1(3, 0.05),
    "nuclear": gt.NuclearNorm((3, 4), 0.05),
    "twice": 2.0 * gt.L1(0.015),
}


def terms(seed=0):
    """A loss, and a quadratic whose minimum is below 0."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((40, N))
    h = gt.LinearModel(A, np.where(A[:, 0] + 0.3 * rng.standard_normal(40) > 0, 1.0, -1.0))
    U = np.linalg.qr(rng.standard_normal((N, N)))[0]
    Q = (U * np.geomspace(0.1, 10.0, N)) @ U.T
    return h, gt.Quadratic((Q + Q.T) / 2, 0.2 * rng.standard_normal(N))


@pytest.mark.parametrize("name", NORMS)
def test_the_bound_holds_and_falls(name):
    """After every number of iterations; recomputed from the bare terms."""
    (h, g), psi, method = terms(), NORMS[name], "afb" if name in ("weights", "twice") else "pqn"
    best = gt.minimize(h, g + psi, tol=1e-11, method="pqn").fun
    bounds = []
    for k in (0, 1, 3, 10, 400):
        res = gt.minimize(h, g + psi, method=method, tol=1e-7, max_iter=k)
        if res.certificate is None:  # the run knows no subgradient at its point
            continue
        # the smallest bound: by strong convexity of g, or by the norm
        assert res.certificate.bound >= res.fun - best - 1e-12
        bounds.append(res.certificate.bound)
    assert len(bounds) >= 2 and bounds[-1] <= 1e-6 < bounds[0]


@pytest.mark.parametrize("psi", NORMS.values(), ids=NORMS)
def test_from_a_flat_sum_no_other_certificate_is_known(psi):
    """Without strong convexity and without R, the norm alone bounds the gap."""
    h = terms()[0]
    best = gt.minimize(h, psi, tol=1e-11).fun
    told = set()
    for tol in (0.5, 1e-2, 1e-6):
        res = gt.minimize(h, psi, method="pqn", tol=tol)
        told.add(res.certificate.assumption)
        assert res.fun - best - 1e-13 <= res.certificate.bound <= 100.0 * tol
    assert told == {"f convex, h + g >= 0 (stated by the terms)"}


def test_it_is_the_formula():
    """Recomputed at the point that a run returns, from the bare terms."""
    h = terms()[0]
    for psi in (NORMS["l1"], NORMS["groups"]):
        res = gt.minimize(h, psi, method="pqn", max_iter=3)
        u = psi.residual(res.x, h.grad(res.x))
        f = h.value(res.x) + psi.value(res.x)
        assert res.certificate.bound == pytest.approx(u @ res.x + f * psi.polar(u), rel=1e-9)


@given(seed=st.integers(0, 10**6), scale=st.floats(1e-3, 1e3))
def test_polar_is_the_dual_norm(seed, scale):
    """<u, s> <= polar(u) psi(s) for all s, with equality for one of them."""
    rng = np.random.default_rng(seed)
    u = scale * rng.standard_normal(N)
    for psi in (NORMS["l1"], NORMS["weights"], NORMS["groups"], NORMS["nuclear"]):
        polar = psi.polar(u)
        for s in (u, rng.standard_normal(N), psi.prox(u, 1.0 / scale)):
            assert float(u @ s) <= polar * psi.value(s) * (1.0 + 1e-12)
        # Moreau: the unit ball of the polar is the subdifferential at 0
        inside = u / (polar * (1.0 + 1e-9))
        assert not psi.prox(inside, 1.0).any()
        assert psi.prox(u / (polar * (1.0 - 1e-6)), 1.0).any()


def test_coordinates_without_penalty_have_no_certificate():
    psi = gt.L1(np.append(np.full(N - 1, 0.1), 0.0))
    assert psi.polar(np.ones(N)) == math.inf
    assert psi.polar(np.append(np.ones(N - 1), 0.0)) == pytest.approx(10.0)
    loose = gt.GroupL1([[0, 1]], 0.5)
    assert loose.polar(np.array([3.0, 4.0, 0.0])) == 10.0
    assert loose.polar(np.array([3.0, 4.0, 1e-9])) == math.inf


@pytest.mark.parametrize("loss", [loss.name for loss in COMPILED])
def test_lower_bounds_are_never_above_a_value(loss):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((20, 4))
    term = gt.LinearModel(A, np.where(rng.random(20) > 0.5, 1.0, -1.0), loss=loss, l2=0.1)
    for scale in (0.0, 1.0, 100.0):
        assert term.value(scale * rng.standard_normal(4)) >= term.lower_bound == 0.0


def test_where_no_lower_bound_is_known_there_is_no_certificate():
    h, g = terms()
    unknown = gt.Term(h.value_and_grad, n=N)
    assert gt.minimize(unknown, gt.L1(0.03), tol=1e-6).certificate is None
    known = gt.Term(h.value_and_grad, n=N, lower_bound=0.0)
    assert gt.minimize(known, gt.L1(0.03), tol=1e-6).certificate.bound <= 1e-3
    with pytest.raises(TypeError, match="lower_bound must be a number"):
        gt.Term(h.value_and_grad, n=N, lower_bound="low")
    assert (h + g).lower_bound == pytest.approx(g.lower_bound)
    assert (2.0 * g).lower_bound == pytest.approx(2.0 * g.lower_bound)
    assert (h - g).lower_bound is None and (unknown + g).lower_bound is None
    assert gt.Quadratic(np.eye(2)).lower_bound == 0.0
    assert gt.Quadratic(np.diag([1.0, 0.0]), np.ones(2)).lower_bound is None
    assert gt.Quadratic(np.diag([1.0, -1.0])).lower_bound is None


# Differences -------------------------------------------------------------------------------------


def difference(l2=0.0):
    """f, f - f_1 and f_1 with a ridge; the data of both models of f_1 are in one place."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((80, N)) / np.arange(1, N + 1)
    y = np.where(A.sum(axis=1) + 0.3 * rng.standard_normal(80) > 0, 1.0, -1.0)
    first, labels = A[:20], y[:20]
    f, f_1 = gt.LinearModel(A, y), gt.LinearModel(first, labels)
    return f, f - f_1, gt.LinearModel(first, labels, l2=l2)


@pytest.mark.parametrize("l2", [0.0, 1e-3])
def test_a_term_that_is_subtracted_and_added_again_needs_no_bound(l2):
    """f - f_1 has no bound of its own; with f_1 it has that of f, and so there is a certificate."""
    f, h, g = difference(l2)
    assert h.lower_bound is None and (h + g).lower_bound == 0.0
    psi = gt.L1(0.01)
    best = gt.minimize(h, g + psi, method="pqn", tol=1e-11).fun
    for tol in (1e-1, 1e-3, 1e-6):
        res = gt.minimize(h, g + psi, method="pqn", tol=tol)
        assert res.fun - best - 1e-13 <= res.certificate.bound <= 100.0 * tol
        ridge = l2 * res.x
        u = psi.residual(res.x, f.grad(res.x) + ridge)
        value = f.value(res.x) + 0.5 * float(ridge @ res.x) + psi.value(res.x)
        want = u @ res.x + value * psi.polar(u)
        if l2 == 0.0:  # otherwise strong convexity may give the smaller bound
            assert res.certificate.bound == pytest.approx(want, rel=1e-6, abs=1e-15)


def test_only_what_is_really_there_cancels():
    """Not more than is added, not other rows or labels, not a larger ridge, not another loss."""
    f, h, _ = difference()
    f_1 = h.parts[1][1]
    A, y = f_1.A, f_1.y
    assert (h - f_1 + f_1).lower_bound is None  # one of the two is left
    assert (f - 2.0 * f_1 + 2.0 * f_1).lower_bound == 0.0
    others = [
        gt.LinearModel(A.copy(), y),  # equal numbers elsewhere are not looked at
        gt.LinearModel(A[1:], y[1:]),
        gt.LinearModel(A, -y),
        gt.LinearModel(A, y, loss="squared"),
        gt.LinearModel(A, y, intercept=True),
    ]
    for other in others:
        assert not other.contains(f_1)
    ridged = gt.LinearModel(A, y, l2=0.1)
    assert ridged.contains(f_1) and not f_1.contains(ridged)
    assert gt.LinearModel(A, y).contains(f_1)
    # values confirm it: no value of what has a bound is below it
    rng, total = np.random.default_rng(0), h + ridged
    for scale in (0.1, 10.0, 1e3):
        assert total.value(scale * rng.standard_normal(N)) >= total.lower_bound - 1e-12


# The rule ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "psi"),
    [
        ("pqn", gt.L1(0.03)),
        ("afb", gt.Box(-0.2, 0.3)),
        ("pqn", gt.Simplex()),
        ("afb", gt.Ball(0.5)),
    ],
)
def test_the_gap_needs_neither_mu_nor_r_where_the_terms_bound_it(method, psi):
    h = terms()[0]
    best = gt.minimize(h, psi, tol=1e-10, method="pqn").fun
    x0 = psi.prox(np.zeros(N), 1.0)
    res = gt.minimize(h, psi, x0=x0, method=method, stop=gt.stop.Gap(1e-5))
    assert res.success and res.certificate.bound <= 1e-5
    assert res.fun - best <= 1e-5


@pytest.mark.parametrize("psi", [gt.NonNegative(), gt.L1(np.append(np.ones(N - 1), 0.0))], ids=repr)
def test_the_gap_is_refused_where_nothing_bounds_it(psi):
    h = terms()[0]
    with pytest.raises(ValueError, match=r"needs mu= .* or R= .* here"):
        gt.minimize(h, psi, stop=gt.stop.Gap(1e-5))
    with pytest.raises(ValueError, match=r"needs mu= .* or R= .* here"):
        gt.minimize(h, gt.Quadratic(np.zeros((N, N))), stop=gt.stop.Gap(1e-5))


# check_term --------------------------------------------------------------------------------------


def test_check_term_refutes_a_lower_bound():
    h = terms()[0]
    good = gt.Term(h.value_and_grad, n=N, lower_bound=0.0)
    report = gt.check_term(good, np.zeros(N))
    assert report.ok and "lower_bound" in str(report.checked)
    bad = gt.Term(h.value_and_grad, n=N, lower_bound=0.6)  # log 2 at 0 and less nearby
    report = gt.check_term(bad, np.zeros(N))
    assert any("lower_bound = 0.6 is too large" in problem for problem in report.problems)


def test_a_certificate_is_not_negative():
    """At a vertex of the simplex the largest <u, v - s> is a difference of equal numbers."""
    psi = SimpleNamespace(gap=lambda v, u: -4e-31, polar=lambda u: math.inf)
    problem = SimpleNamespace(mu=Constant(None, "unknown"), psi=psi, lower_bound=None)
    at = RunPoint(np.array([1.0, 0.0]), subgradient=np.array([-1.0, 0.0]))
    assert at.certificate(problem, at.x, None).bound == 0.0


def test_each_bound_is_its_formula():
    """(a) to (f) of `core/points.py` at one point, by hand; none of them is asked for otherwise."""
    psi = SimpleNamespace(gap=lambda v, u: 7.0, polar=lambda u: 2.0)
    space = SimpleNamespace(norm=np.linalg.norm)
    problem = SimpleNamespace(
        mu=Constant(0.5, "given"), psi=psi, lower_bound=-3.0, geometry=space, oracles=()
    )
    x, u = np.array([3.0, 4.0]), np.array([1.0, 2.0])
    at = RunPoint(x, 1.5, 4.0, 2.0, subgradient=u, spread=8.0, rate=9.0)
    found = at.certificates(problem, np.zeros(2), gt.stop.Gap(1e-3, R=6.0))
    a, b, c = 4.0**2 / (2 * 0.5), 4.0 * (5.0 + 6.0), 6.0**2 / (2 * 2.0)
    by_norm = 11.0 + (1.5 + 3.0) * 2.0
    assert [known.bound for known in found] == [a, b, c, 8.0, 9.0, 7.0, by_norm]
