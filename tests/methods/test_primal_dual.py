"""RPDG, SPDC and APCG: the printed boxes, counts, guarantees, and the terms that they take."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
import reference.primal_dual as boxes
from finite_sums import by_components, calls, compiled_component, linear, model
from geartrain.methods.inner.apcg import apcg_numbers
from geartrain.methods.inner.finite_sum import finite_sum
from geartrain.methods.inner.primal_dual import weights_of_quadratic
from geartrain.methods.inner.rpdg import rpdg_numbers
from geartrain.methods.inner.spdc import spdc_numbers
from geartrain.oracles.losses import COMPILED

METHODS = [gt.inner.RPDG, gt.inner.SPDC, gt.inner.APCG]
PARAMETERS = {"smoothed_hinge": {"mu": 0.3}, "huber": {"delta": 0.7}}
KEY = (0, 3)  # of `model`


def run(method, phi, v0, chunks, grad_g0=None):
    out = [method.init(phi, v0, grad_g0)]
    for _ in range(chunks):
        out.append(method.step(phi, out[-1]))
    return out


def whole(term):
    """The data with the column of ones, and D for alpha = 0.05."""
    A = term.A.toarray() if sparse.issparse(term.A) else term.A
    D = np.full(term.n, 0.05 + term.l2)
    if term.intercept:
        A = np.hstack([A, np.ones((term.m, 1))])
        D[-1] = 0.05
    return A, D


def derivative(term):
    return lambda y, z: float(term.loss.derivative(np.array([y]), np.array([z]))[0])


def orders(phi, kind, chunks):
    """What the method draws: by L_k + mean L for RPDG, uniformly for the others."""
    terms = finite_sum(phi.g)
    out = []
    for s in range(chunks):
        rng = np.random.default_rng((*KEY, s))
        if kind is gt.inner.APCG:
            D = weights_of_quadratic(phi, terms)
            a = apcg_numbers(terms, D, 1 / terms.term.loss.curvature)[1]
            out.append(rng.integers(terms.m, size=math.ceil(1 / a)))
            continue
        mu = phi.alpha + terms.strong
        if kind is gt.inner.RPDG:
            draw = terms.sampling("importance", float(terms.L_k.mean()))
            numbers = rpdg_numbers(mu, float(terms.L_k.mean()), terms.m)
        else:
            draw = terms.sampling("uniform")
            numbers = spdc_numbers(mu, 1 / terms.term.loss.curvature, draw.L, terms.m)
        out.append(draw.order(rng, math.ceil(1 / (1 - numbers.extrapolate))))
    return out


FORMS = [("dense", False, 0.0), ("csr", False, 0.1), ("dense", True, 0.1), ("csr", True, 0.0)]


# Paper: RPDG
# Paper: SPDC
# Paper: APCG
@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize(
    ("loss", "form", "intercept", "l2"),
    [(loss.name, *form) for loss, form in zip(COMPILED, itertools.cycle(FORMS))],
)
def test_the_printed_boxes(kind, loss, form, intercept, l2):
    parameters = PARAMETERS.get(loss, {})
    term = linear(form, m=12, n=5, loss=loss, intercept=intercept, l2=l2, **parameters)
    phi = model(term)
    A, D = whole(term)
    v0 = np.cos(np.arange(term.n))
    got = run(kind(), phi, v0, 2)[1:]
    drawn = orders(phi, kind, 2)
    terms = finite_sum(phi.g)
    if kind is gt.inner.RPDG:
        ridge = D - 0.05

        def component(x, k):
            return term.component(x, k) - ridge * x

        expected = boxes.rpdg(component, term.m, terms.L_k, drawn, phi.beta, D, v0)
        for state, (x, before) in zip(got, expected, strict=True):
            np.testing.assert_allclose(state.v, x, atol=1e-11)
            np.testing.assert_allclose(state.before, before, atol=1e-11)
    elif kind is gt.inner.SPDC:
        arguments = (A, term.y, derivative(term), term.loss.curvature, drawn, phi.beta, D, v0)
        for state, (x, before, dual) in zip(got, boxes.spdc(*arguments), strict=True):
            np.testing.assert_allclose(state.v, x, atol=1e-10)
            np.testing.assert_allclose(state.before, before, atol=1e-10)
            np.testing.assert_allclose(state.slopes, dual, atol=1e-10)
    else:
        arguments = (A, term.y, derivative(term), term.loss.curvature, drawn, phi.beta, D, v0)
        for state, (x, z, v) in zip(got, boxes.apcg(*arguments), strict=True):
            np.testing.assert_allclose(state.z + state.u, x, atol=1e-9)
            np.testing.assert_allclose(state.z, z, atol=1e-9)
            np.testing.assert_allclose(state.v, v, atol=1e-8)
    for state in got:
        np.testing.assert_allclose(state.grad_g, term.grad(state.v), atol=1e-12)


@pytest.mark.parametrize("kind", METHODS)
def test_sparse_rows_equal_dense_ones(kind):
    rng = np.random.default_rng(4)
    A = rng.standard_normal((60, 50)) * (rng.random((60, 50)) < 0.05)
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    ends = []
    for matrix in (A, sparse.csr_array(A)):
        term = gt.LinearModel(matrix, y, l2=1e-3, intercept=True)
        ends.append(run(kind(), model(term, alpha=1e-3), np.ones(term.n), 2))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one.v, other.v, rtol=0, atol=1e-10 * max(1, abs(one.v).max()))


# Counts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", METHODS)
def test_a_chunk_asks_one_summand_per_step_and_one_gradient(kind):
    term = linear("csr")
    phi = model(term)
    state = kind().init(phi, np.ones(term.n), None)
    assert calls(phi) == (0, 1)
    total = 0
    for s, order in enumerate(orders(model(term), kind, 3)):
        state = kind().step(phi, state)
        total += len(order)
        assert calls(phi) == (total, s + 2)


@pytest.mark.parametrize("kind", [gt.inner.RPDG, gt.inner.SPDC])
def test_a_known_gradient_is_not_asked_for_again(kind):
    """Then each dual variable of the start is asked for once, when first needed."""
    term = linear()
    v0 = np.ones(term.n)
    phi, other = model(term), model(term)
    given = kind().init(phi, v0, term.grad(v0))
    assert calls(phi) == (0, 0)
    state = kind().step(phi, given)
    (order,) = orders(model(term), kind, 1)
    assert calls(phi) == (len(order) + len(set(order)), 1)
    asked = kind().step(other, kind().init(other, v0, None))
    np.testing.assert_allclose(state.v, asked.v, rtol=0, atol=1e-12)
    assert np.isnan(given.slopes).all() and np.isnan(given.points).all()


def test_apcg_asks_for_the_derivatives_of_the_losses():
    term = linear()
    phi = model(term)
    gt.inner.APCG().init(phi, np.ones(term.n), term.grad(np.ones(term.n)))
    assert calls(phi) == (0, 1)


# Any finite sum -----------------------------------------------------------------------------


# Compiling takes seconds; both runs are a few steps, whose rounding is far below the tolerance.
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.same_everywhere)])
def test_rpdg_of_components_equals_that_of_rows(compiled):
    term = linear(loss="squared")
    jitted = compiled_component(term) if compiled else None
    other = by_components(term, jitted, grad=term.grad)
    ends = [run(gt.inner.RPDG(), model(t), np.ones(term.n), 2) for t in (term, other)]
    assert finite_sum(model(other).g)._compiled is compiled
    for one, two in zip(*ends, strict=True):
        np.testing.assert_allclose(one.v, two.v, rtol=0, atol=1e-11)
        np.testing.assert_allclose(one.grad_g, two.grad_g, rtol=0, atol=1e-11)


def test_calls_of_a_term_of_components():
    term = linear()
    phi = model(by_components(term))
    state = gt.inner.RPDG().init(phi, np.ones(term.n), None)
    assert calls(phi) == (30, 0)  # the first gradient is the mean of all, which are kept
    gt.inner.RPDG().step(phi, state)
    (order,) = orders(model(term), gt.inner.RPDG, 1)
    assert calls(phi) == (30 + len(order) + 30, 0)
    phi = model(by_components(term, grad=term.grad))
    state = gt.inner.RPDG().init(phi, np.ones(term.n), None)
    assert calls(phi) == (0, 1)
    gt.inner.RPDG().step(phi, state)
    assert calls(phi) == (len(order) + len(set(order)), 2)


@pytest.mark.parametrize("kind", [gt.inner.SPDC, gt.inner.APCG])
def test_proximal_steps_of_losses_are_known_for_linear_models_only(kind):
    term = by_components(linear())
    with pytest.raises(TypeError, match=f"{kind.__name__} takes proximal steps of single losses"):
        kind().init(model(term), np.ones(8), None)


def test_rpdg_refuses_what_does_not_fit_into_memory(monkeypatch):
    monkeypatch.setattr("geartrain.methods.inner.finite_sum.MEMORY_LIMIT", 100)
    term = by_components(linear())
    with pytest.raises(ValueError, match="RPDG keeps a point and a gradient of every summand"):
        gt.inner.RPDG().init(model(term), np.ones(8), None)


# Guarantees ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "alpha"), [(gt.inner.RPDG, 0.05), (gt.inner.SPDC, 2.0), (gt.inner.APCG, 0.05)]
)
def test_the_guarantee_in_the_mean_of_runs(kind, alpha):
    """The theorem of each method at the end of every chunk, means over seeds."""
    term = linear(m=20, n=6, loss="squared")
    A, y, m = term.A, term.y, term.m
    v0 = np.ones(6)

    def phi_of(seed):
        return model(term, alpha, key=(seed, 1))

    beta = phi_of(0).beta
    v_star = np.linalg.solve(A.T @ A / m + alpha * np.eye(6), A.T @ y / m - beta)
    s_star, s_0 = A @ v_star - y, A @ v0 - y
    terms = finite_sum(phi_of(0).g)
    if kind is gt.inner.RPDG:
        numbers = rpdg_numbers(alpha, float(terms.L_k.mean()), m)
        length = math.ceil(1 / (1 - numbers.extrapolate))
        rate = numbers.extrapolate**length
        start = (1 + 3 * term.L / alpha) * np.sum((v0 - v_star) ** 2)

        def measure(s):
            return np.sum((s.v - v_star) ** 2)

    elif kind is gt.inner.SPDC:
        gamma, numbers = 1.0, spdc_numbers(alpha, 1.0, float(terms.L_k.max()), m)
        length = math.ceil(1 / (1 - numbers.extrapolate))
        rate = numbers.extrapolate**length
        of_x, of_s = numbers.eta / 2 + alpha, numbers.dual
        start = of_x * np.sum((v0 - v_star) ** 2)
        start += (of_s / 2 + gamma) * np.sum((s_0 - s_star) ** 2)

        def measure(s):
            of_dual = (of_s / 4 + gamma) * np.sum((s.slopes - s_star) ** 2)
            return of_x * np.sum((s.v - v_star) ** 2) + of_dual

    else:
        L, a = apcg_numbers(terms, np.full(6, alpha), 1.0)
        length = math.ceil(1 / a)
        rate = (1 - a) ** length

        def F(s):  # loss^*(s) = s^2/2 + s y
            return np.mean(s**2 / 2 + s * y) + np.sum((beta + A.T @ s / m) ** 2) / (2 * alpha)

        mu_L = 1 / m / L.max()
        start = F(s_0) - F(s_star) + mu_L / 2 * np.sum(L * (s_0 - s_star) ** 2)

        def measure(s):
            return F(s.z + s.u) - F(s_star)

    rows = [[measure(s) for s in run(kind(), phi_of(seed), v0, 3)] for seed in range(10)]
    found = np.mean(rows, axis=0)
    for k in range(1, 4):
        assert found[k] <= start * rate**k
    assert found[-1] > 0
