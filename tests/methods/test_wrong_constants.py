"""A wrong constant costs time, never the answer."""

import numpy as np
import pytest

import geartrain as gt
from problems import logistic, quadratics


@pytest.mark.parametrize(
    ("method", "make", "factor"),
    [
        ("sae", logistic, 0.1),
        ("r-sae", logistic, 0.1),
        ("sc-sae", logistic, 0.1),
        ("afb", logistic, 0.1),
        ("aeg", logistic, 0.1),
        ("sae", quadratics, 10.0),
        ("afb", quadratics, 100.0),
        ("aeg", quadratics, 10.0),
    ],
)
def test_wrong_L_h(method, factor, make):
    known = make()
    x0 = np.ones(known.x_star.size)
    tol = 1e-4 if method == "sae" else 1e-5  # without restarts, a large L_h makes SAE slow
    res = gt.minimize(known.h, known.g, x0, method=method, L_h=factor * known.h.L, tol=tol)
    assert res.success, res.message
    small = tol * np.linalg.norm(known.grad(x0))
    assert np.linalg.norm(known.grad(res.x)) <= small * (1 + 1e-6)
    if factor < 1:
        assert any("raised" in note for _, note in res.history.notes)


@pytest.mark.parametrize(
    ("method", "mu"),
    [("r-sae", 1.0), ("sc-sae", 0.0), ("sc-sae", 1.0), ("afb", 1.0), ("fgm", 1.0), ("ags", 0.0)],
)
def test_wrong_mu(method, mu):
    """mu = 1 is 100 times too large here: slower by a factor, but the answer is right."""
    known = quadratics(L_g=10.0)
    x0 = np.ones(24)
    stop = gt.stop.any_of(gt.stop.Gradient(rel=1e-4), gt.stop.Calls({"h.grad": 8000}))
    res = gt.minimize(known.h, known.g, x0, method=method, mu=mu, stop=stop)
    assert res.success, res.message
    small = 1e-4 * np.linalg.norm(known.grad(x0))
    assert np.linalg.norm(known.grad(res.x)) <= small * (1 + 1e-6)


def test_adaptive_restart_is_used_where_mu_is_unknown():
    """Without mu R-SAE restarts by the gradient test and stays near the known-mu calls."""
    known = quadratics(L_g=10.0, mu=1e-2)
    h, g = known.h, known.g
    plain = gt.Term(h.value_and_grad, L=h.L, n=24)
    plain_g = gt.Term(g.value_and_grad, L=g.L, n=24)
    x0 = np.ones(24)
    with_mu = gt.minimize(plain, plain_g, x0, method="r-sae", mu=known.mu, tol=1e-6)
    without = gt.minimize(plain, plain_g, x0, method="r-sae", tol=1e-6)
    assert with_mu.success and without.success
    assert without.calls["h.grad"] <= 4 * with_mu.calls["h.grad"]
    most = without.calls["h.grad"]
    as_many = gt.stop.any_of(gt.stop.Gradient(rel=1e-6), gt.stop.Calls({"h.grad": most}))
    assert not gt.minimize(plain, plain_g, x0, method="sae", stop=as_many).success


def test_fgm_restarts_where_mu_is_unknown():
    known, plain = quadratics(L_g=10.0, mu=1e-3), gt.methods.FGM(mu=0.0)
    stop = gt.stop.Value(known.f_star + 1e-7)
    method = gt.methods.Restarted(plain, gt.methods.GradientTest())
    res = gt.minimize(known.h, known.g, np.ones(24), method=method, stop=stop)
    as_many = gt.stop.any_of(stop, gt.stop.Calls({"h.grad": res.calls["h.grad"]}))
    assert res.success
    assert not gt.minimize(known.h, known.g, np.ones(24), method=plain, stop=as_many).success


def test_missing_constants_are_named():
    h = gt.Term(lambda x: (x @ x, 2 * x), n=3)
    with pytest.raises(ValueError, match="SAE needs L_h"):
        gt.minimize(h, gt.Quadratic(np.eye(3)), np.ones(3), method="sae")
    with pytest.raises(ValueError, match="AGM needs L_g"):
        gt.minimize(gt.Quadratic(np.eye(3)), h, np.ones(3), method="sae", inner="agm")
    res = gt.minimize(gt.Quadratic(np.eye(3)), h, np.ones(3), method="sae")
    assert res.success
