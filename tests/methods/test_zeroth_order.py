"""Inner methods that see values only: transcriptions, counts, noise."""

import numpy as np
import pytest

import geartrain as gt
from coordinate_problems import indices, model, quadratic, run
from geartrain.oracles.differences import central_gradient, difference_steps
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.problem import Model
from problems import logistic, quadratics
from reference import coordinate as reference


def values_only(term, noise=0.0, M3=None, value=None):
    return gt.Term(
        value=value or term.value, n=term.n, L=term.L, L_coord=term.L_coord, noise=noise, M3=M3
    )


def model_of(term, alpha=0.3):
    beta = np.random.default_rng(3).standard_normal(term.n)
    return Model(Oracle(term, "g", Ledger(), term.n), beta, alpha, L_g=term.L, key=(0, 5))


# Paper: derivative-free
# Paper: outlook
def test_coordinate_search_is_nesterov_stich_with_differences():
    """Central differences are exact for a quadratic: the iterates are those with derivatives."""
    term = quadratic()
    phi = model_of(values_only(term, M3=0.0))
    v0 = np.linspace(-1, 1, phi.n)
    last = run(gt.inner.CoordinateSearch(), phi, 2, v0)[-1]
    L = term.L_coord + phi.alpha
    index = indices(phi, np.sqrt(L), np.sqrt(L / phi.alpha).sum(), 2)
    grad = lambda x: phi.beta + phi.alpha * x + term.grad(x)  # noqa: E731
    y, z = reference.nesterov_stich(grad, v0, L, 0.5, phi.alpha, index)
    np.testing.assert_allclose(last.v, y, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(last.walk.z, z, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(last.grad_g, term.grad(y), rtol=1e-8, atol=1e-8)


# Paper: derivative-free
def test_directional_search_equals_the_transcription():
    term = quadratic()
    phi = model_of(values_only(term, M3=0.0))
    v0 = np.linspace(-1, 1, phi.n)
    n, L = phi.n, term.L + phi.alpha
    last = run(gt.inner.DirectionalSearch(), phi, 2, v0)[-1]
    directions = []
    for c in range(2):
        rng = np.random.default_rng((*phi.key, c))
        for _ in range(int(np.ceil(n * np.sqrt(L / phi.alpha)))):
            e = rng.standard_normal(n)
            directions.append(e / np.linalg.norm(e))
    value = lambda x: phi.beta @ x + phi.alpha / 2 * x @ x + term.value(x)  # noqa: E731
    y, z = reference.directional(value, v0, L, phi.alpha, directions, 0.5)
    np.testing.assert_allclose(last.v, y, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(last.walk.z, z, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(last.grad_g, term.grad(y), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("inner", "noise"), [(gt.inner.CoordinateSearch(), 0.0), (gt.inner.DirectionalSearch(), 1e-9)]
)
def test_exact_values(inner, noise):
    """2 a step, 2 n an estimate of the gradient, 1 a chunk for the rounding errors."""
    term = quadratic()
    phi = model_of(values_only(term, noise))
    run(inner, phi, 2)
    L = term.L_coord + phi.alpha
    K = np.sqrt(L / phi.alpha).sum()
    if isinstance(inner, gt.inner.DirectionalSearch):
        K = phi.n * np.sqrt((term.L + phi.alpha) / phi.alpha)
    chunk, extra = 2 * int(np.ceil(K)), int(noise == 0.0)
    calls = phi.g.ledger.calls
    assert calls["g.value"] == (2 * phi.n + extra) + 2 * (chunk + 2 * phi.n + extra)
    assert sum(calls.values()) == calls["g.value"]
    inner.init(phi, np.zeros(phi.n), np.zeros(phi.n))
    assert sum(calls.values()) == calls["g.value"]


def test_difference_steps():
    """(3 noise/M3)^{1/3}; M3 from L and the scale of x; never out of proportion with x."""
    x = np.array([1.0, -3.0])
    refuse = None  # a stated noise asks for no value
    term = gt.Term(value=abs, noise=1e-9, M3=0.3)
    np.testing.assert_allclose(difference_steps(term, refuse, x, 1.0), np.cbrt(1e-8))
    term = gt.Term(value=abs, noise=1e-9)
    L = np.array([1.0, 8.0])
    np.testing.assert_allclose(difference_steps(term, refuse, x, L), np.cbrt(1.2e-8 / L))
    np.testing.assert_allclose(difference_steps(term, refuse, x, 0.0), 4.0)
    term = gt.Term(value=abs, noise=1e-9, M3=0.0)
    np.testing.assert_allclose(difference_steps(term, refuse, x, L), 4.0)
    asked = []
    steps = difference_steps(gt.Term(value=abs), lambda v: asked.append(v) or 8.0, x, L)
    assert len(asked) == 1
    np.testing.assert_allclose(steps, np.cbrt(12 * 8 * 4 * np.finfo(float).eps / L))


def test_the_chosen_step_is_near_the_best():
    """No power of two off the chosen step estimates the gradient four times as well."""
    noise = 1e-9
    term = model(intercept=False, n=9)
    rng = np.random.default_rng(0)
    noisy = lambda x: term.value(x) + noise * rng.choice((-1.0, 1.0))  # noqa: E731
    x = np.linspace(-0.5, 0.5, 9)
    steps = difference_steps(values_only(term, noise), noisy, x, term.L_coord)

    def error(factor):
        off = [central_gradient(noisy, x, factor * steps) - term.grad(x) for _ in range(10)]
        return np.sqrt(np.mean(np.square(off)))

    assert error(1.0) <= 4.0 * min(error(2.0**j) for j in range(-12, 7))
    assert error(1e-3) > 30.0 * error(1.0)


def test_a_gradient_from_values_is_put_together_and_counted():
    term = model()
    oracle = Oracle(values_only(term), "g", Ledger(), term.n)
    x = np.linspace(-1, 1, term.n)
    np.testing.assert_allclose(oracle.grad(x), term.grad(x), atol=1e-8)
    assert oracle.ledger.calls["g.value"] == 2 * term.n + 1
    assert oracle.ledger.calls["g.grad"] == 0


def test_auto_solves_with_values_of_g_only():
    known = logistic(n=6, m=30)
    g = values_only(known.g)
    res = gt.minimize(known.h, g, method="afb", tol=1e-4, mu=known.mu)
    inner = getattr(res.state.method, "method", res.state.method).inner
    assert isinstance(inner, gt.inner.CoordinateSearch)
    assert res.success
    assert known.f(res.x) - known.f_star < 1e-6
    assert res.calls["g.grad"] == res.calls["g.coord"] == 0 < res.calls["g.value"]


@pytest.mark.parametrize(
    "inner", [gt.inner.CoordinateSearch(), gt.inner.DirectionalSearch()], ids=repr
)
def test_noise_floor(inner):
    """phi - phi* falls to noise^{4/3} and stays there."""
    term, noise, rng = logistic(n=5, m=30).g, 1e-8, np.random.default_rng(0)
    noisy = lambda x: term.value(x) + noise * rng.uniform(-1, 1)  # noqa: E731
    phi = model_of(values_only(term, noise=noise, value=noisy))
    best = run(gt.inner.ACD(), model_of(term), 60)[-1].v
    p = 1 / (1 + np.exp(-(term.A @ best)))
    hessian = (term.A.T * (p * (1 - p))) @ term.A / term.m + (term.l2 + phi.alpha) * np.eye(5)
    off = [s.v - best for s in run(inner, phi, 25)[15:]]
    assert np.median([0.5 * d @ hessian @ d for d in off]) < 2 * noise ** (4 / 3)


def test_values_only_cannot_be_handed_to_a_gradient_method():
    known = quadratics()
    with pytest.raises(TypeError, match="gradient"):
        gt.minimize(known.h, values_only(known.g), method="afb", inner="agm")
    bare = gt.Term(value=known.g.value, n=24)
    with pytest.raises(ValueError, match="L_g"):
        gt.minimize(known.h, bare, method="afb", inner="directional")
