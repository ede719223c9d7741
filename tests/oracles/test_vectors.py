"""Norms that overflow or underflow only where their value does, and input that is no vector."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from geartrain.oracles.validation import as_matrix, as_vector
from geartrain.oracles.vectors import norm, pair_norm

RNG = np.random.default_rng(12)
SCALES = [5e-324, 1e-310, 1e-200, 1e-160, 1e-150, 1.0, 1e150, 1e160, 1e200, 1e300]


def exact(v, w):
    """sqrt(sum_i v_i w_i) in rational arithmetic, as a mantissa and a power of two."""
    square = sum((Fraction(a) * Fraction(b) for a, b in zip(v, w, strict=True)), Fraction(0))
    if square <= 0:
        return 0.0
    shift = 2 * ((math.frexp(float(square))[1] if 1e-300 < square < 1e300 else _log2(square)) // 2)
    root = math.sqrt(float(square / Fraction(2) ** shift))
    half = shift // 2
    try:
        return math.ldexp(root, half)
    except OverflowError:
        return math.inf


def _log2(number):
    return number.numerator.bit_length() - number.denominator.bit_length()


@pytest.mark.parametrize("n", [1, 3, 200])
def test_the_norm_is_right_at_every_scale(n):
    for scale in SCALES:
        v = scale * np.r_[1.0, RNG.standard_normal(n - 1)]
        assert norm(v) == pytest.approx(exact(v, v), rel=1e-13, abs=1e-323)
        assert norm(v) > 0.0


def test_the_norm_of_entries_of_different_scales():
    for entries in (
        [1e200, 1e-200],
        [1e-170, 1e-160],
        [3e-200, 4e-200],
        [3e200, 4e200],
        [1e154] * 9,
    ):
        v = np.array(entries)
        assert norm(v) == pytest.approx(exact(v, v), rel=1e-14)
    assert norm(np.array([3e-200, 4e-200])) == pytest.approx(5e-200, rel=1e-15)
    assert norm(np.zeros(4)) == 0.0
    assert norm(np.full(4, 1.5e308)) == math.inf  # as it is: 3e308
    assert math.isnan(norm(np.array([np.nan, 1.0])))
    assert norm(np.array([np.inf, 1.0])) == math.inf
    assert norm(np.arange(8.0)[::2]) == pytest.approx(math.sqrt(56.0))


@pytest.mark.parametrize("of_u", SCALES)
def test_the_norm_of_a_pair_is_right_at_every_scale(of_u):
    u = of_u * np.array([1.0, -2.0, 0.5])
    for of_image in SCALES:
        image = of_image * np.array([2.0, -1.0, 0.25])  # so that u'Mu is positive
        assert pair_norm(u, image) == pytest.approx(exact(u, image), rel=1e-13, abs=1e-323)


def test_the_norm_of_a_pair_whose_square_rounding_made_negative():
    assert pair_norm(np.array([1.0, 1.0]), np.array([1.0, -1.0 - 1e-16])) == 0.0
    assert pair_norm(np.array([1.0]), np.array([-1e-20])) == 0.0
    huge = np.array([1e200, -1e200, 1e200])
    assert pair_norm(huge, huge[::-1].copy()) == pytest.approx(math.sqrt(3.0) * 1e200)
    assert pair_norm(np.zeros(2), np.zeros(2)) == 0.0


@pytest.mark.parametrize(
    ("scale", "method", "space"),
    [
        (1e160, "fgm", None),
        (1e160, "gmco", None),
        (1e-170, "fgm", None),
        (1e-170, "acd", None),
        (1e-170, "fgm", gt.geometry.Diagonal([1.0, 2.0])),
        (1e-170, "gmco", gt.geometry.Preconditioned(np.diag([1.0, 2.0]))),
    ],
)
def test_success_is_not_said_where_the_square_of_a_gradient_leaves_the_range(scale, method, space):
    h, g = (gt.Quadratic(scale * np.eye(2), scale * np.ones(2)) for _ in range(2))
    res = gt.minimize(h, g, np.full(2, 5.0), method=method, geometry=space, max_iter=400)
    assert res.success and res.nit > 0
    np.testing.assert_allclose(res.x, 1.0, atol=1e-5)


def test_constants_of_large_and_small_data_leave_no_warnings():
    """Warnings are errors here. Where L itself leaves the range it is infinite or zero."""
    for scale, L in ((1e150, 1e300), (1e-150, 1e-300)):
        A = scale * np.eye(3)
        assert pytest.approx(L / 3) == gt.LinearModel(A, np.ones(3), "squared").L
        assert gt.LogSumExp(A).L <= L
        for form in (np.asarray, sparse.csr_array):
            assert pytest.approx(scale) == gt.Quadratic(form(A)).L
        wide = gt.Quadratic(sparse.diags_array(scale * np.linspace(1.0, 2.0, 500)).tocsr())
        assert pytest.approx(2.0 * scale, rel=2e-3) == wide.L
    A = 1e200 * np.eye(3)
    for term in (gt.LinearModel(A, np.ones(3), "squared"), gt.LogSumExp(A)):
        assert np.inf == term.L
        assert np.isinf(term.L_coord).all()


# What is no vector ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (np.ma.array([1.0, 2.0], mask=[0, 1]), TypeError, r"got a masked array; fill it first, e"),
        (np.ma.array([1.0, 2.0]), TypeError, "got a masked array"),
        (np.array(["2020-01-01", "2021-01-01"], "M8[D]"), TypeError, "vector of real numbers, got"),
        (np.array([1, 2], "m8[s]"), TypeError, "x0 must be a vector of real numbers, got"),
        (["1.5", "2"], TypeError, r"x0 must be a vector of real numbers, got \['1.5', '2'\]"),
        (np.array([b"1", b"2"]), TypeError, "x0 must be a vector of real numbers, got"),
        (np.array([1.0, "2"], object), TypeError, "x0 must be a vector of real numbers, got"),
        ([1.0, None], ValueError, "x0 contains NaN or infinity"),
        ([1.0, {}], TypeError, "x0 must be a vector of real numbers, got"),
        ([1j, 0.0], TypeError, "x0 must be real, got complex numbers"),
        ([[1.0], [2.0, 3.0]], TypeError, "x0 must be a vector of real numbers, got"),
        ([10**400, 1], TypeError, "x0 must be a vector of real numbers, got"),
        ([np.longdouble("1e4000"), 1], ValueError, "x0 contains NaN or infinity"),
        ([], ValueError, "x0 is empty: it must have at least one entry"),
        (np.zeros((2, 2)), ValueError, "x0 must be one-dimensional"),
        (3.0, ValueError, "x0 must be one-dimensional"),
    ],
)
def test_what_is_no_vector_is_refused(value, kind, message):
    with pytest.raises(kind, match=message):
        as_vector(value, "x0")
    with pytest.raises((TypeError, ValueError), match=r"x0 (must|is empty|contains)"):
        gt.minimize(gt.Quadratic(np.eye(2)), gt.Quadratic(np.eye(2)), value)


def test_what_can_be_converted_is():
    for value in ([True, False], np.array([1, 2], np.int8), [Fraction(1, 2), 3], (1, 2.5)):
        out = as_vector(value, "x")
        assert out.dtype == np.float64 and out.shape == (2,)
    x = np.ones(2)
    assert as_vector(x, "x") is not x  # what is kept is our own


def test_matrices_are_refused_alike():
    for value in (
        np.ma.array(np.eye(2)),
        np.array([["1", "2"]]),
        np.zeros((2, 2), "M8[D]"),
        [[{}]],
    ):
        with pytest.raises(TypeError, match="A must be a two-dimensional array of real numbers or"):
            as_matrix(value, "A")


def test_no_variables_at_all_is_told_in_one_sentence():
    class Empty:
        n = 0

        def value_and_grad(self, x):
            return 0.0, x

    with pytest.raises(ValueError, match="h has dimension 0: there is nothing to minimise"):
        gt.minimize(Empty(), Empty())
    with pytest.raises(ValueError, match="x0 is empty: it must have at least one entry"):
        gt.minimize(Empty(), Empty(), [])
    for make in (
        lambda: gt.Quadratic(np.zeros((0, 0))),
        lambda: gt.LogSumExp(np.zeros((3, 0))),
        lambda: gt.LinearModel(np.zeros((3, 0)), np.ones(3)),
        lambda: gt.geometry.Diagonal([]),
        lambda: gt.geometry.Preconditioned(np.zeros((0, 0))),
        lambda: gt.geometry.RKHS(np.zeros((0, 0))),
    ):
        with pytest.raises(ValueError, match=r"(no columns|is empty): it must have at least one"):
            make()
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        gt.Term(lambda x: (0.0, x), n=0)


def test_arrays_of_another_class_are_asked_for_their_own_inner_product():
    """A vector in two processes: each holds a half, and both must come to the same norm."""

    class Half(np.ndarray):
        other: np.ndarray

        def __array_finalize__(self, source):
            self.other = getattr(source, "other", None)

        def __matmul__(self, w):
            return float(np.asarray(self) @ np.asarray(w)) * (1.0 + self.other)

    for scale in SCALES[1:]:
        half = np.full(3, scale).view(Half)
        half.other = 1.0  # the other half is the same
        assert norm(half) == pytest.approx(norm(np.full(6, scale)), rel=1e-14)
