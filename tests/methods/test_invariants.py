"""What a state's fields mean, recomputed from the bare terms along runs."""

import itertools

import numpy as np
import pytest

import geartrain as gt
from geartrain.methods import gmco
from geartrain.methods.base import iterate
from geartrain.methods.gmco import GMCOState
from geartrain.problem import norm
from problems import PROBLEMS, quadratics, states

METHODS = {
    "sae": lambda: gt.SAE(),
    "sae-sigma": lambda: gt.SAE(sigma=0.9, L=0.3),
    "sae-lbfgs": lambda: gt.SAE(inner=gt.inner.LBFGS()),
    "sae-fixed": lambda: gt.SAE(rule=gt.methods.PaperRule(calls=40)),
    "r-sae": lambda: gt.methods.RSAE(),
    "r-sae-adaptive": lambda: gt.methods.RSAE(restart=gt.methods.GradientTest()),
    "sc-sae": lambda: gt.methods.SCSAE(),
    "sc-sae-restarted": lambda: gt.methods.Restarted(
        gt.methods.SCSAE(mu=0.0), gt.methods.GradientTest()
    ),
    "afb": lambda: gt.methods.AFB(),
    "afb-sigma": lambda: gt.methods.AFB(zeta=0.0, sigma=0.6),
    "afb-restarted": lambda: gt.methods.Restarted(gt.methods.AFB(), gt.methods.GradientTest()),
    "fgm-restarted": lambda: gt.methods.Restarted(
        gt.methods.FGM(mu=0.0), gt.methods.GradientTest()
    ),
    "ms": lambda: gt.methods.MonteiroSvaiterWhole(),
}


@pytest.fixture(params=PROBLEMS)
def case(request):
    make, x0 = PROBLEMS[request.param]
    return make(), x0


@pytest.mark.parametrize("name", METHODS)
def test_gradients_in_the_state_belong_to_its_point(name):
    """A stale gradient is what optimum and rate tests never see."""
    make, x0 = PROBLEMS["logistic"]
    known = make()
    for state in states(METHODS[name](), known.sum(), x0):
        if state.grad is not None:
            np.testing.assert_allclose(
                state.grad, known.grad(state.grad_point), atol=1e-9 * (1 + norm(state.grad))
            )
        if hasattr(state, "grad_h"):
            at = state.y if name.startswith("afb") else state.point
            np.testing.assert_allclose(state.grad_h, known.h.grad(at), atol=1e-10)
            np.testing.assert_allclose(state.grad_g, known.g.grad(state.point), atol=1e-8)


@pytest.mark.parametrize("name", ["sae", "sae-sigma", "sae-lbfgs", "r-sae"])
def test_sae_invariants(case, name):
    """L a^2 = A_+; x between y and z; z moved by a grad f(y_+); the test holds."""
    known, x0 = case
    method = METHODS[name]()
    run = states(method, known.sum(), x0)
    for old, new in itertools.pairwise(run):
        if new.since == 1:  # the first iteration of a stage
            old = gt.SAE().restart(old)
        a = new.A - old.A
        assert new.L * a**2 == pytest.approx(new.A, rel=1e-10)
        np.testing.assert_allclose(new.x, (old.A * old.y + a * old.z) / new.A, atol=1e-12)
        np.testing.assert_allclose(new.z, old.z - a * known.grad(new.y), atol=1e-9 * new.A)
        ratio = norm(known.grad(new.y) + new.L * (new.y - new.x)) / (new.L * norm(new.y - new.x))
        assert ratio == pytest.approx(new.ms_ratio, rel=1e-5, abs=1e-7)
        assert ratio <= method.sigma * (1 + 1e-6)
        assert new.uphill == pytest.approx(known.grad(new.y) @ (new.y - old.y), abs=1e-9)


@pytest.mark.parametrize("name", ["sc-sae", "sc-sae-restarted"])
def test_sc_sae_invariants(case, name):
    known, x0 = case
    mu = 0.0 if "restarted" in name else known.mu
    run = states(METHODS[name](), known.sum(), x0)
    for old, new in itertools.pairwise(run):
        if new.since == 1:
            old = gt.methods.SCSAE().restart(old)
        eta, a = 1 / new.L, new.A - old.A
        assert a**2 * (1 + mu * eta) == pytest.approx(eta * new.A * (1 + mu * new.A), rel=1e-9)
        theta = a * (1 + mu * old.A) * (1 + mu * eta) / (new.A * (1 + mu * new.A))
        np.testing.assert_allclose(new.y, old.x + theta * (old.z - old.x), atol=1e-11)
        z = (1 + mu * old.A) * old.z + a * mu * new.x - a * known.grad(new.x)
        np.testing.assert_allclose(new.z, z / (1 + mu * new.A), atol=1e-8)
        ratio = norm(known.grad(new.x) + new.L * (new.x - new.y)) / (new.L * norm(new.x - new.y))
        assert ratio == pytest.approx(new.ms_ratio, rel=1e-5, abs=1e-7)
        assert ratio <= np.sqrt(1 + mu / new.L) * (1 + 1e-6)


@pytest.mark.parametrize("name", ["afb", "afb-sigma", "afb-restarted"])
def test_afb_error_rule_and_bound(case, name):
    """The relative error rule of step 2, and |grad f(x)| <= grad_bound."""
    known, x0 = case
    method = METHODS[name]()
    zeta, sigma = (0.0, 0.6) if name == "afb-sigma" else (0.5, 0.0)
    run = states(method, known.sum(), x0)
    for new in run[1:]:
        mu_h = known.h.mu
        lam = 1 / new.L
        G = known.h.grad(new.y) - mu_h * new.y + known.g.grad(new.x) + mu_h * new.x
        residual = G + (new.x - new.y) / lam
        assert lam * norm(residual) <= np.sqrt(
            zeta**2 * lam**2 * (G @ G) + sigma**2 * norm(new.x - new.y) ** 2
        ) * (1 + 1e-6)
        assert norm(known.grad(new.x)) <= new.grad_bound * (1 + 1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_a_second_run_is_the_same_and_changes_nothing(name):
    make, x0 = PROBLEMS["quadratic"]
    known = make()
    before = x0.copy()
    kept = states(METHODS[name](), known.sum(), x0, 5)
    copies = [s.point.copy() for s in kept]
    again = states(METHODS[name](), known.sum(), x0, 5)
    assert np.array_equal(x0, before)
    for state, copy, other in zip(kept, copies, again, strict=True):
        assert np.array_equal(state.point, copy) and np.array_equal(other.point, copy)


@pytest.mark.parametrize("sigma", [0.7, 1.0])
def test_the_test_of_sc_sae_is_that_of_its_theorem(monkeypatch, sigma):
    """Points just inside and just outside of |grad F| <= sqrt(sigma^2 + mu/L) L |x_+ - y|."""
    known, mu, L, n = quadratics(), 0.8, 1.0, 24
    asked = []

    def looking(step, state, over, limit):
        asked.append(over)
        return iterate(step, state, over, limit)

    monkeypatch.setattr(gmco, "iterate", looking)
    problem = known.sum()
    state = states(gt.methods.SCSAE(mu=mu, L=L, sigma=sigma), problem, np.ones(n), 2)[-1]
    d, e = np.eye(n)[0], np.eye(n)[1]
    for factor, passes in ((1 - 1e-6, True), (1 + 1e-6, False)):
        ratio = factor * np.sqrt(sigma**2 + mu / L)
        # grad F = ratio L |d| e at y + d
        at = GMCOState(zeta=state.y + d, grad_h=ratio * L * e, grad_g=-L * d, L_h=1.0)
        assert asked[-1](at) is passes
