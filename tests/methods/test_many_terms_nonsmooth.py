"""More than two terms with a non-smooth part: the answer is that of the sum, or a sentence."""

from __future__ import annotations

import numpy as np
import pytest

import geartrain as gt


@pytest.fixture
def terms(pair):
    h, g = pair
    return [h, gt.Quadratic(np.eye(h.n), np.ones(h.n))], g + gt.L1(0.1)


@pytest.mark.parametrize("prices", [None, {"h1.grad": 100.0, "h2.grad": 10.0, "g.grad": 1.0}])
@pytest.mark.parametrize("method", ["auto", "fgm", "lbfgs"])
def test_the_answer_is_that_of_two_terms(terms, method, prices):
    h, g = terms
    res = gt.minimize(h, g, method=method, prices=prices, tol=1e-9)
    want = gt.minimize(h[0] + h[1], g, method="afb", tol=1e-9)
    assert res.success and want.success
    np.testing.assert_allclose(res.x, want.x, atol=1e-7)
    np.testing.assert_array_equal(res.x == 0.0, want.x == 0.0)
    assert res.calls["h1.grad"] == res.calls["h2.grad"] > 0


def test_the_split_by_levels_refuses(terms):
    with pytest.raises(ValueError, match=r"not made for a non-smooth term, here L1\(lam=0.1\)"):
        gt.minimize(*terms, method="afb")
