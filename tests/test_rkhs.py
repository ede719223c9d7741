"""The inner product of a kernel."""

import numpy as np
import pytest
from scipy import linalg
from scipy.sparse.linalg import LinearOperator

import geartrain as gt
from geometries import (
    GOOD,
    LABELS,
    LAM,
    M_ROWS,
    METHODS,
    RNG,
    SMOOTH,
    assert_same_run,
    bordered,
    by_hand,
    in_space,
    loss,
    walk,
)


class Counting(LinearOperator):
    """K that counts its products."""

    def __init__(self, K):
        super().__init__(np.float64, K.shape)
        self.K, self.products = K, 0

    def _matvec(self, u):
        self.products += 1
        return self.K @ u

    def _adjoint(self):
        return self


@pytest.mark.parametrize("name", ["fgm", "sae lbfgs", "r-sae"])
@pytest.mark.parametrize("intercept", [False, True])
def test_rkhs_is_the_preconditioner_K(name, intercept):
    """The same iterates as with M = K (bordered by 1), where K can be inverted."""
    Q = bordered(LAM * GOOD, 0.2) if intercept else LAM * GOOD
    M = bordered(GOOD, 1.0) if intercept else GOOD
    h, g = gt.Quadratic(Q), loss(GOOD, intercept)
    x0 = 0.1 * RNG.standard_normal(len(M))
    held = in_space(h, g, gt.geometry.RKHS(GOOD, intercept=intercept))
    plain, R = by_hand(h, g, M, held)
    assert_same_run(METHODS[name], held, plain, R, x0)
    other = in_space(h, g, gt.geometry.Preconditioned(M))
    assert held.L_h.value == pytest.approx(other.L_h.value, rel=1e-9)
    assert held.L_g.value == pytest.approx(other.L_g.value, rel=2e-3)
    assert held.mu_h == pytest.approx(other.mu_h, rel=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_rkhs_representatives_give_the_slopes(intercept):
    Q = bordered(LAM * SMOOTH, 0.2) if intercept else LAM * SMOOTH
    space = gt.geometry.RKHS(SMOOTH, intercept=intercept)
    plain = 2.0 * gt.Quadratic(Q) + loss(SMOOTH, intercept)
    term = space.term(plain, "h")
    x = 0.1 * RNG.standard_normal(space.n)
    v = space.enter(x)
    value, gradient = term.value_and_grad(v)
    assert value == pytest.approx(plain.value(x), rel=1e-12)
    assert term.value(v) == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(gradient[space.n :], plain.grad(x), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(space.product(gradient[: space.n]), plain.grad(x), atol=1e-13)


def test_rkhs_constants():
    space = gt.geometry.RKHS(SMOOTH)
    h, g = space.term(LAM * gt.Quadratic(SMOOTH), "h"), space.term(loss(SMOOTH), "g")
    assert (h.mu, h.L) == pytest.approx((LAM, LAM), rel=1e-12)
    truth = 0.25 / 0.3 * linalg.eigvalsh(SMOOTH)[-1] / M_ROWS
    assert truth * (1 - 1e-12) <= g.L <= 1.002 * truth
    with_one = gt.geometry.RKHS(SMOOTH, intercept=True).term(loss(SMOOTH, intercept=True), "g")
    truth = 0.25 / 0.3 * linalg.eigvalsh(SMOOTH + 1.0)[-1] / M_ROWS
    assert truth * (1 - 1e-12) <= with_one.L <= 1.002 * truth


@pytest.mark.parametrize("name", METHODS)
def test_one_product_with_K_a_gradient_of_the_loss(name):
    K = Counting(SMOOTH)
    space = gt.geometry.RKHS(K)
    held = in_space(gt.Quadratic(LAM * SMOOTH), loss(SMOOTH), space)
    K.products = 0
    states = walk(METHODS[name], held, space.enter(np.zeros(M_ROWS)), 8)
    calls = held.ledger.calls
    assert calls["g.grad"] > 8
    assert K.products == calls["g.grad"]
    assert calls["h.grad"] > 0
    held.monitor(states[-1].point)
    assert K.products == calls["g.grad"]


def test_images_are_carried_without_drift():
    space = gt.geometry.RKHS(SMOOTH)
    held = in_space(gt.Quadratic(LAM * SMOOTH), loss(SMOOTH), space, mu=0.0)
    v = walk(gt.methods.FGM(), held, space.enter(np.zeros(M_ROWS)), 3000)[-1].point
    np.testing.assert_allclose(v[M_ROWS:], SMOOTH @ v[:M_ROWS], atol=1e-10)


def test_a_proximal_step_of_the_penalty_is_a_multiple():
    """The minimiser of lam/2 |v|^2 + alpha/2 |v - u|^2: its gradient vanishes."""
    space = gt.geometry.RKHS(SMOOTH)
    h = space.term(gt.Quadratic(LAM * SMOOTH), "h")
    u = space.enter(RNG.standard_normal(M_ROWS))
    v = h.prox(u, 0.7)
    np.testing.assert_allclose(h.grad(v) + 0.7 * (v - u), 0.0, atol=1e-14)
    res = gt.minimize(
        loss(SMOOTH),
        gt.Quadratic(LAM * SMOOTH),
        method="sae",
        inner="exact",
        geometry=space,
        tol=1e-8,
    )
    assert res.success
    assert res.calls["g.prox"] > 0
    assert np.linalg.norm(SMOOTH @ (LAM * res.x + slopes(res.x))) < 1e-7


def slopes(x):
    term = loss(SMOOTH)
    return term.loss.derivative(LABELS, SMOOTH @ x) / M_ROWS
