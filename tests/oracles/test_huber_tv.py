"""The smoothed total variation of images."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import geartrain as gt

SHAPES = [(7,), (1, 6), (5, 4), (3, 4, 2)]
LAM, EPS = 0.7, 0.3


def transcribed(shape, x):
    """The formula, pixel by pixel."""
    image, total = np.reshape(x, shape), 0.0
    for at in itertools.product(*map(range, shape)):
        square = 0.0
        for axis, size in enumerate(shape):
            if at[axis] + 1 < size:
                after = tuple(i + (k == axis) for k, i in enumerate(at))
                square += (image[after] - image[at]) ** 2
        r = math.sqrt(square)
        total += r * r / (2 * EPS) if r <= EPS else r - EPS / 2
    return LAM * total


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1e-3, 0.2, 10.0])
def test_value_and_gradient(shape, scale):
    term = gt.HuberTV(shape, LAM, EPS)
    x = scale * np.random.default_rng(1).standard_normal(term.n)
    assert term.value(x) == pytest.approx(transcribed(shape, x), rel=1e-12)
    value, grad = term.value_and_grad(x)
    assert value == term.value(x)
    np.testing.assert_array_equal(grad, term.grad(x))
    assert gt.check_term(term).ok


@pytest.mark.parametrize("shape", SHAPES)
def test_the_hessian_is_the_derivative_of_the_gradient(shape):
    term, rng = gt.HuberTV(shape, LAM, EPS), np.random.default_rng(2)
    x, D = 0.3 * rng.standard_normal(term.n), rng.standard_normal((term.n, 3))
    t = 1e-7
    seen = np.column_stack([(term.grad(x + t * d) - term.grad(x - t * d)) / (2 * t) for d in D.T])
    np.testing.assert_allclose(term.products(x, D), seen, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_constants_are_those_of_the_flat_image(shape):
    """Where all differences are below eps, the Hessian is lam/eps D'D: the largest that it is."""
    term = gt.HuberTV(shape, LAM, EPS)
    H = term.products(np.zeros(term.n), np.eye(term.n))
    assert pytest.approx(np.linalg.eigvalsh(H).max(), rel=1e-12) == term.L
    np.testing.assert_allclose(term.L_coord, np.diag(H), rtol=1e-12)
    assert term.lower_bound == term.value(np.full(term.n, 3.0)) == 0.0


def test_total_variation_of_a_signal_refuses_an_image():
    h = gt.Quadratic(np.eye(64), np.ones(64))
    for g in (gt.TotalVariation(0.1), gt.Quadratic(np.eye(64)) + gt.TotalVariation(0.1)):
        with pytest.raises(ValueError, match=r"made for signals.*gt.HuberTV\(\(8, 8\), lam, eps\)"):
            gt.minimize(h, g, np.zeros((8, 8)))
        assert gt.minimize(h, g, np.zeros((64, 1))).success  # a column is a signal
        assert gt.minimize(h, g, np.zeros(64)).success


@pytest.mark.parametrize(
    "bad", [{"shape": (0, 3)}, {"shape": (2.5, 2)}, {"lam": 0.0}, {"eps": -1.0}, {"eps": np.nan}]
)
def test_bad_arguments(bad):
    with pytest.raises((ValueError, TypeError)):
        gt.HuberTV(**{"shape": (2, 3), "lam": 1.0, "eps": 0.1, **bad})
