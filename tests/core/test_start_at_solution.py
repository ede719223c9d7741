"""A start that is a solution up to rounding, with a non-smooth term."""

import numpy as np
import pytest

import geartrain as gt

EPS = np.finfo(float).eps
METHODS = ["auto", "pqn", "afb", "fgm"]


def problem(error, size=1.0):
    """1/2 |x - b|^2 + |x|_1, whose subgradient at (1, 0, 0) has the length `error`.

    All numbers are sums of a few powers of two, so that nothing is rounded.
    """
    b = size * np.array([2.0 + error, 0.5, -0.25])
    return gt.Quadratic(np.eye(3), b=b), gt.L1(size), size * np.array([1.0, 0.0, 0.0])


@pytest.mark.parametrize("size", [1.0, 2.0**40, 2.0**-40])
@pytest.mark.parametrize("method", METHODS)
def test_it_ends_at_once_with_success(method, size):
    h, psi, x0 = problem(4 * EPS, size)
    assert np.linalg.norm(psi.residual(x0, h.grad(x0))) == 4 * EPS * size
    res = gt.minimize(h, psi, x0, method=method)
    assert res.success and res.nit == 0 and res.calls["h.grad"] == 1
    np.testing.assert_array_equal(res.x, x0)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_more_than_rounding_is_not_a_solution(method):
    """The length is 2^-40, some 10^-12."""
    h, psi, x0 = problem(2.0**-40)
    assert gt.minimize(h, psi, x0, method=method, max_iter=50).nit > 0


def test_an_absolute_rule_means_what_it_says():
    h, psi, x0 = problem(4 * EPS)
    for rule in (gt.stop.Gradient(abs=EPS), gt.stop.Gradient(rel=1e-3)):
        assert gt.minimize(h, psi, x0, method="fgm", stop=rule, max_iter=3).nit > 0


def test_a_gradient_that_overflows_is_no_solution():
    h = gt.Term(lambda x: (0.0, np.full(3, 1e308)), n=3, L=1.0)
    assert not gt.minimize(h, gt.L1(1.0), np.ones(3), method="fgm", max_iter=2).success
