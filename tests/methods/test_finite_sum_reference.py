"""Finite-sum methods: kernels and loops against their literal transcriptions."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from geartrain.methods.inner.finite_sum import finite_sum
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.problem import Model
from reference import finite_sum as boxes

LOSSES = {
    "logistic": {},
    "squared": {},
    "smoothed_hinge": {"mu": 0.1},
    "huber": {"delta": 0.3},
    "squared_hinge": {},
}
KEY = (5, 7)


def data(m=20, n=9, density=0.4, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n)) * (rng.random((m, n)) < density)
    A *= np.exp(rng.standard_normal((m, 1)))  # rows of different sizes
    y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    return A, y


def model(term, alpha, key=KEY):
    """phi with a ledger of its own."""
    oracle = Oracle(term, "g", Ledger(), term.n)
    beta = np.linspace(-0.3, 0.2, term.n)
    return Model(oracle, beta=beta, alpha=alpha, L_g=1.0, key=key)


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


# Paper: Katyusha
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("intercept", "l2", "option"),
    [(False, 0.0, "I"), (False, 0.2, "II"), (True, 0.0, "II"), (True, 0.2, "I")],
)
def test_katyusha_is_the_printed_one(form, loss, intercept, l2, option):
    A, y = data()
    A = sparse.csr_array(A) if form == "csr" else A
    term = gt.LinearModel(A, y, loss=loss, l2=l2, intercept=intercept, **LOSSES[loss])
    phi = model(term, alpha=0.05)
    method = gt.Katyusha(option=option, epoch=13)
    states = run(method, phi, start(term), 3, plain=False)
    draw = finite_sum(phi.g).sampling("importance")
    component, ridge = sampled(term)
    expected = boxes.katyusha(
        component,
        term.m,
        draw.p,
        draw.L,
        orders(draw, 3, 13),
        phi.beta,
        phi.alpha + ridge,
        start(term),
        option,
    )
    assert_same(states, expected)
    for state in states:
        np.testing.assert_allclose(state.grad_g, term.grad(state.v), atol=1e-12)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("sampling", ["importance", "uniform"])
@pytest.mark.parametrize("quadratic", ["composite", "whole"])
def test_sampling_and_place_of_the_quadratic(form, sampling, quadratic):
    A, y = data()
    term = gt.LinearModel(sparse.csr_array(A) if form == "csr" else A, y)
    phi = model(term, alpha=0.3)
    states = run(
        gt.Katyusha(sampling=sampling, quadratic=quadratic, epoch=13),
        phi,
        start(term),
        3,
        plain=False,
    )
    L_k = term.L_components + (0.3 if quadratic == "whole" else 0.0)
    if sampling == "importance":
        p, L = L_k / L_k.sum(), L_k.mean()
    else:
        p, L = np.full(term.m, 1 / term.m), L_k.max()
    draw = finite_sum(phi.g).sampling(sampling, 0.3 if quadratic == "whole" else 0.0)
    np.testing.assert_allclose(draw.p, p)
    expected = boxes.katyusha(
        term.component, term.m, p, L, orders(draw, 3, 13), phi.beta, 0.3, start(term)
    )
    assert_same(states, expected)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("option", ["I", "II"])
def test_convex_variant(form, option):
    A, y = data()
    term = gt.LinearModel(sparse.csr_array(A) if form == "csr" else A, y)
    phi = model(term, alpha=0.0)
    states = run(gt.Katyusha(option=option), phi, start(term), 4)
    draw = finite_sum(phi.g).sampling("importance")
    expected = boxes.katyusha(
        term.component,
        term.m,
        draw.p,
        draw.L,
        orders(draw, 4, term.m),
        phi.beta,
        0.0,
        start(term),
        option,
        convex=True,
    )
    assert_same(states, expected)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("intercept", [False, True])
def test_well_conditioned_is_prox_svrg(form, intercept):
    A, y = data()
    term = gt.LinearModel(sparse.csr_array(A) if form == "csr" else A, y, intercept=intercept)
    L = term.L_components.mean()
    phi = model(term, alpha=L)
    states = run(gt.Katyusha(), phi, start(term), 3)
    draw = finite_sum(phi.g).sampling("importance")
    expected = boxes.prox_svrg(
        term.component, term.m, draw.p, draw.L, orders(draw, 3, 9), phi.beta, L, start(term)
    )
    assert_same(states, [(xt, v, v) for xt, v in expected])


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("prob", [None, 0.3])
def test_l_katyusha_is_the_printed_one(form, prob):
    A, y = data()
    term = gt.LinearModel(sparse.csr_array(A) if form == "csr" else A, y)
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


# Paper: Varag
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("alpha", [1e-4, 0.02, 1.0])
def test_varag_is_the_printed_one(form, alpha):
    A, y = data()
    term = gt.LinearModel(sparse.csr_array(A) if form == "csr" else A, y)
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


@pytest.mark.parametrize("alpha", [0.0, 1e-8, 1e-3, 1.0, 1e4])
@pytest.mark.parametrize("epoch", [100, 800])
@pytest.mark.parametrize("option", ["I", "II"])
def test_lazy_equals_dense(alpha, epoch, option):
    """Rows with 2 % entries: coordinates wait long; small alpha, underflow and T = 0 included."""
    A, y = data(m=400, n=300, density=0.02)
    ends = []
    for matrix in (A, sparse.csr_array(A)):
        term = gt.LinearModel(matrix, y, l2=1e-3 * alpha, intercept=True)
        phi = model(term, alpha)
        ends.append(run(gt.Katyusha(epoch=epoch, option=option), phi, start(term), 3, plain=False))
    for dense, lazy in zip(*ends, strict=True):
        for name in ("v", "y", "z"):
            want = getattr(dense, name)
            tol = 1e-10 * max(1.0, abs(want).max())
            np.testing.assert_allclose(getattr(lazy, name), want, rtol=0, atol=tol)


@pytest.mark.parametrize("strong", [1.0, 10.0, 100.0])
def test_ridge_that_spares_the_intercept(strong):
    """A strong ridge and a weak alpha: r and T may come close, the diagonal form must not break."""
    A, y = data()
    term = gt.LinearModel(A, y, l2=strong, intercept=True)
    phi = model(term, alpha=1e-3)
    state = run(gt.Katyusha(), phi, start(term), 400)[-1]
    assert np.linalg.norm(phi.grad(state.v, state.grad_g)) <= 1e-9


def as_term(linear, component, **more):
    return gt.Term(
        component=component,
        n=linear.n,
        n_components=linear.m,
        L_components=linear.L_components,
        **more,
    )


@pytest.fixture(scope="module")
def numba_component():
    """The components of a squared loss, compiled; made once because compiling takes a while."""
    from numba import njit

    A, y = data()

    @njit
    def component(x, k):
        return A[k] * (np.dot(A[k], x) - y[k])

    return component


# Compiling takes seconds; both runs are a few steps, whose rounding is far below the tolerance.
@pytest.mark.same_everywhere
@pytest.mark.parametrize(("option", "alpha"), [("I", 0.05), ("II", 10.0)])
def test_python_component_and_numba_component_equal_the_kernel(option, alpha, numba_component):
    A, y = data()
    linear = gt.LinearModel(A, y, loss="squared")
    method = gt.Katyusha(option=option)
    ends, compiled = [], []
    for term in (linear, as_term(linear, linear.component), as_term(linear, numba_component)):
        phi = model(term, alpha)
        ends.append(run(method, phi, start(linear), 3))
        compiled.append(getattr(finite_sum(phi.g), "_compiled", None))
    assert compiled == [None, False, True]
    for state, *others in zip(*ends, strict=True):
        for other in others:
            for name in ("v", "y", "z", "grad_g"):
                np.testing.assert_allclose(
                    getattr(other, name), getattr(state, name), rtol=0, atol=1e-11
                )
