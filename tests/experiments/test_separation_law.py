"""The law of separation, in a small form: every method of the table runs."""

import pytest

import geartrain as gt
from geartrain_lab.laws import separation
from geartrain_lab.problems import opposed_finite_sum


@pytest.mark.parametrize("method", separation.SEPARATION.methods)
def test_every_method_is_measured(method):
    n_h, n_g = separation.full(method, L_h=1.0, L_g=10.0, mu=0.1, seed=0, n=20)
    assert 1 < n_h <= n_g  # h is never asked more often than g


@pytest.mark.parametrize("law", [separation.COORDINATE, separation.VALUES_ONLY])
def test_partial_derivatives_follow_L_g_bar(law):
    method = law.methods[0]
    few, many = (law.measure(method, n=8, L_g=L_g, mu=0.1, seed=0) for L_g in (100.0, 1e4))
    assert abs(few[0] - many[0]) <= 0.2 * few[0] and many[1] > 2.0 * few[1]
    (sweep, _) = law.sweeps
    assert 1.0 < sweep.axis(n=8, L_g=100.0, mu=0.1, seed=0) < 100.0


def test_a_gradient_of_g_is_m_summands():
    few, many = (
        separation.finite_sum("AFB, Katyusha", m=20, L_g_hat=L, mu=0.1, seed=0) for L in (1e3, 1e5)
    )
    assert few[0] == pytest.approx(many[0], rel=0.3) and many[1] > 2.0 * few[1] > 20
    p = opposed_finite_sum(20, L_h=1.0, L_g_hat=1e3, mu=0.1, seed=0)
    method, stop = separation.FINITE_SUM["AFB, Katyusha"](), gt.stop.Value(p.f_star + 1e-6)
    calls = gt.minimize(p.h, p.g, method=method, stop=stop, L_h=1.0, mu=0.1).calls
    assert 0 < calls["g.component"] == few[1] - 20 * calls["g.grad"]
