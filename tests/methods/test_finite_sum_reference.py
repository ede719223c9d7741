"""Finite-sum methods: kernels and loops against their literal transcriptions."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from finite_sums import by_components, calls, compiled_component, linear, model
from geartrain.methods.inner.finite_sum import finite_sum
from reference import finite_sum as boxes

KEY = (0, 3)  # of `model`


def start(term):
    return np.cos(np.arange(term.n))


def sampled(term):
    """Component without the ridge, and the weights of the quadratic beside alpha."""
    ridge = np.full(term.n, term.l2)
    if term.intercept:
        ridge[-1] = 0.0
    return (lambda x, k: term.component(x, k) - ridge * x), ridge


def run(method, phi, v0, steps, **changes):
    state = method.init(phi, v0, None)
    if changes:
        state = replace(state, **changes)
    states = []
    for _ in range(steps):
        state = method.step(phi, state)
        states.append(state)
    return states


def orders(draw, steps, l):
    return [draw.order(np.random.default_rng((*KEY, s)), l) for s in range(steps)]


def assert_same(states, expected, tol=1e-10):
    for state, row in zip(states, expected, strict=True):
        for got, want in zip((state.v, state.y, state.z), row, strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=tol * max(1, abs(want).max()))


HINGE, HUBER = gt.oracles.losses.SmoothedHinge(mu=0.1), gt.oracles.losses.Huber(delta=0.3)


# Paper: Katyusha
@pytest.mark.parametrize(
    ("form", "alpha", "options", "method"),
    [
        ("dense", 0.05, {}, gt.Katyusha(13)),
        ("csr", 0.05, {"loss": "squared", "l2": 0.2}, gt.Katyusha(13)),
        ("dense", 0.05, {"loss": HINGE, "intercept": True}, gt.Katyusha(13)),
        ("csr", 0.05, {"loss": HUBER, "intercept": True, "l2": 0.2}, gt.Katyusha(13)),
        ("dense", 0.05, {"loss": "squared_hinge", "intercept": True}, gt.Katyusha(13)),
        ("csr", 1e-3, {"intercept": True, "l2": 10.0}, gt.Katyusha(13)),
        ("dense", 0.3, {}, gt.Katyusha(13, quadratic="whole")),
        ("csr", 0.3, {}, gt.Katyusha(13, sampling="uniform", quadratic="whole")),
        ("csr", 0.3, {}, gt.Katyusha(13, sampling="uniform")),
        ("dense", 0.0, {}, gt.Katyusha(20)),
        ("csr", 0.0, {}, gt.Katyusha(20)),
    ],
)
def test_katyusha_is_the_printed_one(form, alpha, options, method):
    term = linear(form, m=20, n=9, **options)
    phi = model(term, alpha)
    states = run(method, phi, start(term), 3, plain=False)
    component, ridge = sampled(term)
    more = alpha if method.quadratic == "whole" else 0.0
    L_k = term.L_components - term.l2 + more
    p, L = L_k / L_k.sum(), L_k.mean()
    if method.sampling == "uniform":
        p, L = np.full(term.m, 1 / term.m), L_k.max()
    draw = finite_sum(phi.g).sampling(method.sampling, more)
    np.testing.assert_allclose(draw.p, p)
    expected = boxes.katyusha(
        component,
        term.m,
        p,
        L,
        orders(draw, 3, method.epoch),
        phi.beta,
        alpha + ridge,
        start(term),
        convex=alpha == 0.0,
    )
    assert_same(states, expected)
    assert calls(phi) == (3 * method.epoch, 1 + 3)
    for state in states:
        np.testing.assert_allclose(state.grad_g, term.grad(state.v), atol=1e-12)


@pytest.mark.parametrize(("form", "intercept"), [("dense", False), ("csr", True)])
def test_well_conditioned_is_prox_svrg(form, intercept):
    """An epoch has min(m, 9 L/alpha) steps."""
    term = linear(form, m=20, n=9, intercept=intercept)
    L = term.L_components.mean()
    phi = model(term, alpha=L)
    states = run(gt.Katyusha(), phi, start(term), 3)
    draw = finite_sum(phi.g).sampling("importance")
    expected = boxes.prox_svrg(
        term.component, term.m, draw.p, draw.L, orders(draw, 3, 9), phi.beta, L, start(term)
    )
    assert_same(states, [(xt, v, v) for xt, v in expected])
    assert calls(phi) == (3 * 9, 1 + 3)


@pytest.mark.parametrize(("form", "prob"), [("dense", None), ("csr", 0.3)])
def test_l_katyusha_is_the_printed_one(form, prob):
    term = linear(form, m=20, n=9)
    phi = model(term, alpha=0.02)
    states = run(gt.inner.LKatyusha(p=prob), phi, start(term), 6)
    draw = finite_sum(phi.g).sampling("importance")
    p = 1 / term.m if prob is None else prob
    drawn = []
    for s in range(6):
        rng = np.random.default_rng((*KEY, s))
        drawn.append(draw.order(rng, int(rng.geometric(p))))
    expected = boxes.l_katyusha(
        term.component, term.m, draw.p, draw.L, drawn, phi.beta, 0.02, start(term), p
    )
    assert_same(states, expected)
    assert calls(phi) == (sum(map(len, drawn)), 1 + 6)


# Paper: Varag
@pytest.mark.parametrize(("form", "alpha"), [("dense", 1e-4), ("csr", 0.02), ("dense", 1.0)])
def test_varag_is_the_printed_one(form, alpha):
    term = linear(form, m=20, n=9)
    phi = model(term, alpha)
    states = run(gt.inner.Varag(), phi, start(term), 9)
    draw = finite_sum(phi.g).sampling("importance")
    drawn = [
        draw.order(np.random.default_rng((*KEY, s)), 2 ** (min(s + 1, 5) - 1)) for s in range(9)
    ]
    expected = boxes.varag(
        term.component, term.m, draw.p, draw.L, drawn, phi.beta, alpha, start(term)
    )
    assert_same(states, expected)
    assert calls(phi) == (sum(map(len, drawn)), 1 + 9)


@pytest.mark.parametrize(
    ("alpha", "epoch"),
    [(0.0, 800), (1e-8, 100), (1e-3, 800), (1.0, 100), (1e4, 800)],
)
def test_lazy_equals_dense(alpha, epoch):
    """Rows with 2 % entries: coordinates wait long; small alpha, underflow and T = 0 included."""
    ends = []
    for form in ("dense", "csr"):
        term = linear(form, m=200, n=150, density=0.03, l2=1e-3 * alpha, intercept=True)
        phi = model(term, alpha)
        ends.append(run(gt.Katyusha(epoch=epoch), phi, start(term), 3, plain=False))
    for dense, lazy in zip(*ends, strict=True):
        for name in ("v", "y", "z"):
            want = getattr(dense, name)
            tol = 1e-10 * max(1.0, abs(want).max())
            np.testing.assert_allclose(getattr(lazy, name), want, rtol=0, atol=tol)


def test_ridge_that_spares_the_intercept():
    """A strong ridge and a weak alpha: r and T may come close, the diagonal form must not break."""
    term = linear(m=20, n=9, l2=10.0, intercept=True)
    phi = model(term, alpha=1e-3)
    state = run(gt.Katyusha(), phi, start(term), 1000)[-1]
    assert np.linalg.norm(phi.grad(state.v, state.grad_g)) <= 1e-9


# Compiling takes seconds; both runs are a few steps, whose rounding is far below the tolerance.
@pytest.mark.same_everywhere
def test_python_component_and_numba_component_equal_the_kernel():
    rows = linear(loss="squared")
    jitted = compiled_component(rows)
    for alpha in (0.05, 10.0):
        ends, compiled = [], []
        for term in (rows, by_components(rows), by_components(rows, jitted)):
            phi = model(term, alpha)
            ends.append(run(gt.Katyusha(), phi, start(rows), 3))
            compiled.append(getattr(finite_sum(phi.g), "_compiled", None))
        assert compiled == [None, False, True]
        for state, *others in zip(*ends, strict=True):
            for other, name in itertools.product(others, ("v", "y", "z", "grad_g")):
                got, want = getattr(other, name), getattr(state, name)
                np.testing.assert_allclose(got, want, rtol=0, atol=1e-11)
