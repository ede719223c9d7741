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


# OpenBLAS takes several threads for the inner product of vectors longer than 10000. They gain
# microseconds and may lose milliseconds: NumPy and SciPy bring a BLAS each, and the threads of one,
# which spin for a while after their work, take the cores from those of the other.
_PIECE = 8192
_NOTHING = np.zeros(1)


def _ddot(u: Vector, v: Vector, *piece: int) -> float:
    """BLAS without NumPy around it: a third of the time for short vectors, and no warnings."""
    global _ddot
    from scipy.linalg.blas import ddot as _ddot  # at the first call: importing it takes a while

    return _ddot(u, v, *piece)


def blas_dot(n: int) -> Callable[[Vector, Vector], float]:
    """The inner product of plain vectors of length n in one thread, as quick as it can be."""
    if n > _PIECE:
        return dot
    _ddot(_NOTHING, _NOTHING)
    return _ddot


def dot(u: Vector, v: Vector) -> float:
    """The inner product in one thread of BLAS, without warnings.

    A subclass of arrays is asked for its own product: a vector may be spread over several
    processes.
    """
    if type(u) is not np.ndarray:
        with np.errstate(all="ignore"):
            return float(u @ v)
    if u.size <= _PIECE:
        return _ddot(u, v)
    u, v = (np.ascontiguousarray(w, dtype=np.float64) for w in (u, v))
    whole = u.size - u.size % _PIECE
    total = sum(_ddot(u, v, _PIECE, k, 1, k) for k in range(0, whole, _PIECE))
    return total + (_ddot(u, v, u.size - whole, whole, 1, whole) if whole < u.size else 0.0)


def norm(v: Vector) -> float:
    """Euclidean norm, which overflows or underflows only where its value does.

    The parts of a vector that is spread over several processes scale alike, because they scale by
    what all of them know.
    """
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
    square = dot(u, image)
    if _SMALL < square < _LARGE:
        return math.sqrt(square)
    (u, i), (image, j) = _scaled(u), _scaled(image)
    if (i + j) % 2:
        image, j = 2.0 * image, j - 1
    return math.sqrt(max(dot(u, image), 0.0)) * 2.0 ** ((i + j) // 2)


def _scaled(v: Vector) -> tuple[Vector, int]:
    """``(v/2^i, i)`` with entries below 2 in modulus."""
    largest = float(np.abs(v).max())
    if not 0.0 < largest < math.inf:
        return v, 0
    i = math.frexp(largest)[1] - 1
    return np.ldexp(v, -i), i
