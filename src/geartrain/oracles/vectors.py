"""Vectors: their type, and inner products and norms that leave no warnings behind."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

# Squares between these bounds lost nothing to overflow or underflow.
_SMALL, _LARGE = 2.0**-900, 2.0**1000
# They bring other vectors back into that range: powers of two, so that no digit is lost.
_UP, _DOWN = 2.0**600, 2.0**-600


_dot: Callable[[Vector, Vector], float] | None = None


def blas_dot() -> Callable[[Vector, Vector], float]:
    """BLAS without NumPy around it: a third of the time for short vectors, and no warnings."""
    from scipy.linalg.blas import ddot  # here, because importing it takes a while

    return ddot


def norm(v: Vector) -> float:
    """Euclidean norm, which overflows or underflows only where its value does.

    A subclass of arrays is asked for its own inner product: the parts of a vector that is spread
    over several processes scale alike, because they scale by what all of them know.
    """
    global _dot
    if _dot is None:
        _dot = blas_dot()
    dot = _dot if type(v) is np.ndarray else _own_dot
    square = dot(v, v)
    if _SMALL < square < _LARGE:
        return math.sqrt(square)
    factor = _DOWN if square >= _LARGE else _UP
    with np.errstate(all="ignore"):
        scaled = v * factor
    return math.sqrt(dot(scaled, scaled)) / factor


def pair_norm(u: Vector, image: Vector) -> float:
    """``sqrt(<u, M u>)`` of the plain arrays u and M u; a negative square is rounding.

    It overflows or underflows only where its value does.
    """
    global _dot
    if _dot is None:
        _dot = blas_dot()
    square = _dot(u, image)
    if _SMALL < square < _LARGE:
        return math.sqrt(square)
    (u, i), (image, j) = _scaled(u), _scaled(image)
    if (i + j) % 2:
        image, j = 2.0 * image, j - 1
    return math.sqrt(max(_dot(u, image), 0.0)) * 2.0 ** ((i + j) // 2)


def _scaled(v: Vector) -> tuple[Vector, int]:
    """``(v/2^i, i)`` with entries below 2 in modulus."""
    largest = float(np.abs(v).max())
    if not 0.0 < largest < math.inf:
        return v, 0
    i = math.frexp(largest)[1] - 1
    return np.ldexp(v, -i), i


def _own_dot(u: Vector, v: Vector) -> float:
    with np.errstate(all="ignore"):
        return float(u.dot(v))
