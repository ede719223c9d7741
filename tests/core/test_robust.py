"""A run that says success is one: whatever the scales, the conditioning and the constants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geartrain as gt
from geartrain.core.status import Status
from geartrain.methods.registry import METHODS

TOL = 1e-5


@st.composite
def quadratics(draw):
    """Quadratic h and g, any scales and conditioning, with constants that may be wrong by 1e3."""
    n = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    terms = []
    for _ in range(2):
        scale = 10.0 ** draw(st.integers(-12, 12))
        spread = draw(st.sampled_from([0.0, 1.0, 4.0, 12.0]))
        U = np.linalg.qr(rng.standard_normal((n, n)))[0]
        Q = scale * (U * np.logspace(-spread, 0.0, n)) @ U.T
        b = 10.0 ** draw(st.integers(-12, 12)) * rng.standard_normal(n)
        L = scale * draw(st.sampled_from([1.0, 1e-3, 1e3]))
        mu = draw(st.sampled_from([0.0, 1.0, 1e3])) * scale * 10.0**-spread
        terms.append((gt.Quadratic((Q + Q.T) / 2, b), L, min(mu, L)))
    x0 = 10.0 ** draw(st.integers(-6, 6)) * rng.standard_normal(n)
    return terms, x0


def limited(term, L, mu):
    """`term` with those constants; the user loses patience after 300 calls."""
    left = iter(range(300))

    def ask(x):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return term.value_and_grad(x)

    return gt.Term(ask, n=term.n, L=L, mu=mu)


# katyusha, catalyst and acd take long here; aeg needs mu > 0, similar-newton products, which are
# not given.
OTHERS = {"katyusha", "catalyst", "acd", "aeg", "similar-newton"}


@pytest.mark.parametrize("method", sorted(set(METHODS) - OTHERS))
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
@given(problem=quadratics())
@settings(max_examples=15)
def test_no_wrong_success(method, problem):
    ((h, L_h, mu_h), (g, L_g, mu_g)), x0 = problem
    told = [limited(h, L_h, mu_h), limited(g, L_g, mu_g)]
    res = gt.minimize(*told, x0, method=method, tol=TOL, max_iter=200)
    assert np.isfinite(res.x).all()
    assert res.success == (res.status is Status.CONVERGED)
    if res.success:
        start = np.linalg.norm(h.grad(x0) + g.grad(x0))
        # Rounding in the sum of the two gradients, which a rule cannot see through.
        sizes = [np.abs(t.Q) @ np.abs(res.x) + np.abs(t.b) for t in (h, g)]
        rounding = 1e-14 * np.linalg.norm(sizes[0] + sizes[1])
        end = np.linalg.norm(h.grad(res.x) + g.grad(res.x))
        assert end <= TOL * start * (1 + 1e-6) + rounding, (end / start, res.message)
