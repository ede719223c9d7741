"""Losses and terms against 50 digits, to 1e-12, for inputs up to 1e8 and both tails."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import geartrain as gt
from geartrain.oracles.losses import LOSSES, make_loss
from reference import multiprecision as ref

SIZES = [0.0, 1e-300, 1e-20, 1e-8, 0.1, 0.5, 1.0, 1 + 1e-9, 1.5, 5.0, 36.0, 40.0, 300.0, 700.0]
SIZES += [745.0, 800.0, 1e4, 1e8, 123456789.0]
POINTS = np.array([-s for s in SIZES[::-1]] + SIZES)
PARAMS = {
    "logistic": [{}],
    "squared": [{}],
    "smoothed_hinge": [{"mu": 0.1}, {"mu": 1.0}, {"mu": 1e-3}],
    "huber": [{"delta": 1.0}, {"delta": 1e-3}, {"delta": 1e6}],
    "squared_hinge": [{}],
}
CASES = [(name, params) for name, many in PARAMS.items() for params in many]


@pytest.mark.parametrize(("name", "params"), CASES)
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_losses(name, params, label):
    loss = make_loss(name, **params)
    y = np.full(POINTS.size, label)
    values, slopes = loss.value(y, POINTS), loss.derivative(y, POINTS)
    for k, z in enumerate(POINTS):
        assert ref.gap(values[k], ref.loss_value(name, label, z, **params)) < 1e-12, z
        assert ref.gap(slopes[k], ref.loss_slope(name, label, z, **params)) < 1e-12, z


@pytest.mark.parametrize(("name", "params"), CASES)
def test_curvature_of_losses_is_their_largest_second_derivative(name, params):
    loss = make_loss(name, **params)
    centre = 1.0 if name in ("smoothed_hinge", "squared_hinge") else 0.0
    width = params.get("mu", params.get("delta", 1.0))
    z = centre + width * np.linspace(-3, 3, 60_001)
    slopes = loss.derivative(np.ones_like(z), z) if loss.labels else loss.derivative(0 * z, z)
    seen = (np.diff(slopes) / np.diff(z)).max()
    assert 0.999 * loss.curvature < seen < loss.curvature * (1 + 1e-6)


@pytest.mark.parametrize(("name", "params"), CASES)
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_second_derivatives(name, params, label):
    """Differences of 50 digits, away from kinks."""
    loss = make_loss(name, **params)
    z = POINTS[np.abs(np.abs(POINTS - label) - params.get("delta", 0.0)) > 1e-8]
    bends, step = loss.second(np.full(z.size, label), z), mp.mpf(10) ** -20
    for k, at in enumerate(z):
        below, above = (ref.loss_slope(name, label, at + s, **params) for s in (-step, step))
        assert abs(bends[k] - float((above - below) / (2 * step))) <= 1e-12 * loss.curvature, at


def data(seed, scale, m=7, n=4):
    """Integers times a power of two: products and sums of rows are exact in float64."""
    rng = np.random.default_rng(seed)
    A = rng.integers(-3, 4, size=(m, n)).astype(float)
    x = rng.integers(-5, 6, size=n) * scale
    return A, x


@pytest.mark.parametrize(
    ("l2", "intercept", "form", "scale"),
    [
        (0.0, False, np.asarray, 2.0**24),
        (0.25, True, np.asarray, 1.0),
        (0.25, False, sparse.csr_array, 2.0**10),
        (0.0, True, sparse.csr_array, 2.0**-20),
    ],
)
@pytest.mark.parametrize("name", list(PARAMS))
def test_linear_model(name, l2, intercept, form, scale):
    A, x = data(1, scale)
    x = np.append(x, 3.0 * scale) if intercept else x
    rng = np.random.default_rng(2)
    y = rng.choice([-1.0, 1.0], 7) if LOSSES[name].labels else rng.integers(-9, 10, 7).astype(float)
    term = gt.LinearModel(form(A), y, loss=name, l2=l2, intercept=intercept)
    value, grad, components, size = ref.linear_model(A, y, x, name, l2, intercept)
    assert ref.gap(term.value(x), value) < 1e-12
    assert ref.gap(term.grad(x), grad, size) < 1e-12
    fused = term.value_and_grad(x)
    assert ref.gap(fused[0], value) < 1e-12
    assert ref.gap(fused[1], grad, size) < 1e-12
    assert ref.gap([term.coord(x, i) for i in range(x.size)], grad, size) < 1e-12
    for k in range(7):
        assert ref.gap(term.component(x, k), components[k], 7 * size + 1e-300) < 1e-12


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e8])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, aslinearoperator])
def test_quadratic(form, scale):
    rng = np.random.default_rng(3)
    B = rng.standard_normal((5, 5))
    Q, b, x = B @ B.T, rng.standard_normal(5), scale * rng.standard_normal(5)
    term = gt.Quadratic(form(Q), b)
    value, grad, size, size_grad = ref.quadratic(Q, b, x)
    assert ref.gap(term.value(x), value, size) < 1e-12
    assert ref.gap(term.grad(x), grad, size_grad) < 1e-12
    fused = term.value_and_grad(x)
    assert ref.gap(fused[0], value, size) < 1e-12
    assert ref.gap(fused[1], grad, size_grad) < 1e-12
    if form is not aslinearoperator:
        assert ref.gap([term.coord(x, i) for i in range(5)], grad, size_grad) < 1e-12


@pytest.mark.parametrize(("form", "with_c"), [(np.asarray, True), (sparse.csr_array, False)])
@pytest.mark.parametrize("scale", [0.0, 2.0**-30, 0.5, 8.0, 2.0**9, 2.0**24])
def test_log_sum_exp(scale, form, with_c):
    A, x = data(4, scale)
    c = np.array([1.0, -2.0, 0.0, 0.5]) if with_c else np.zeros(4)
    term = gt.LogSumExp(form(A), c if with_c else None)
    value, grad, size = ref.log_sum_exp(A, c, x)
    scale_value = float(abs(value)) + float(np.abs(c) @ np.abs(x))
    assert ref.gap(term.value(x), value, scale_value) < 1e-12
    assert ref.gap(term.grad(x), grad, size + 1e-300) < 1e-12
    fused = term.value_and_grad(x)
    assert ref.gap(fused[0], value, scale_value) < 1e-12
    assert ref.gap(fused[1], grad, size + 1e-300) < 1e-12
    assert ref.gap([term.coord(x, i) for i in range(4)], grad, size + 1e-300) < 1e-12


@pytest.mark.parametrize("far", [1.0, 10.0, 40.0, 200.0, 700.0])
def test_log_sum_exp_keeps_the_digits_of_a_small_value(far):
    # ln(1 + e^-far): the logarithm of the rounded sum has no digit of it beyond far = 37
    term = gt.LogSumExp(np.array([[0.0], [-1.0]]))
    assert ref.gap(term.value(np.array([far])), mp.log1p(mp.exp(-mp.mpf(far)))) < 1e-12
    assert ref.gap(term.grad(np.array([far])), [-1 / (1 + mp.exp(mp.mpf(far)))]) < 1e-12
