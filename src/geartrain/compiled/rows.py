"""Long rows against a few vectors at a time, each row read once.

Long rows cost what reading them from memory costs, and BLAS reads them once per vector. The rows
are separate arrays, given by their addresses: one array of all of them would double the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from geartrain.oracles.vectors import Vector

Addresses = NDArray[np.intp]

# Vectors that `dots` and `add_to` take at a time: what the registers hold.
DOTS, SUMS = 3, 2
# Pieces of this many entries of the vectors stay in the cache while all rows pass.
_PIECE = 8_192
_NOTHING = np.zeros(0)


@intrinsic
def pointer(context: Any, address: Any) -> Any:
    """The pointer of an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.intp), generate


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def dots_into(rows, x, y, z, out):  # type: ignore[no-untyped-def]
    """Inner products of rows with three vectors, two rows at a time, into rows of `out`."""
    n, last = len(x), len(rows) - 1
    for i in range(len(rows)):
        out[0, i] = out[1, i] = out[2, i] = 0.0
    for start in range(0, n, _PIECE):
        stop = min(start + _PIECE, n)
        for i in range(0, len(rows), 2):
            j = min(i + 1, last)
            a = carray(pointer(rows[i]), (n,), np.float64)
            b = carray(pointer(rows[j]), (n,), np.float64)
            ax = ay = az = bx = by = bz = 0.0
            for t in range(start, stop):
                ax += a[t] * x[t]
                ay += a[t] * y[t]
                az += a[t] * z[t]
                bx += b[t] * x[t]
                by += b[t] * y[t]
                bz += b[t] * z[t]
            out[0, i] += ax
            out[1, i] += ay
            out[2, i] += az
            if j > i:
                out[0, j] += bx
                out[1, j] += by
                out[2, j] += bz


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def add_rows(rows, C, both, x, y, start, a, b):  # type: ignore[no-untyped-def]
    """Add sum_j C_0j rows_j to x, and sum_j C_1j rows_j over j < both to y; four rows at a time.

    Where a vector `start` is given, x = a start and y = 0 before that, and b x is added to y.
    """
    n, last = len(x), len(rows) - 1
    for first in range(0, n, _PIECE):
        size, at = min(_PIECE, n - first), 8 * first
        u, v = x[first : first + size], y[first : first + size]
        if len(start) > 0:
            for t in range(size):
                u[t], v[t] = a * start[first + t], 0.0
        for i in range(0, len(rows), 4):
            j, k, m = min(i + 1, last), min(i + 2, last), min(i + 3, last)
            p = carray(pointer(rows[i] + at), (size,), np.float64)
            q = carray(pointer(rows[j] + at), (size,), np.float64)
            r = carray(pointer(rows[k] + at), (size,), np.float64)
            s = carray(pointer(rows[m] + at), (size,), np.float64)
            # behind the last row it is read again, in vain
            up, vp = C[0, i], C[1, i]
            uq, vq = (C[0, j], C[1, j]) if j > i else (0.0, 0.0)
            ur, vr = (C[0, k], C[1, k]) if k > j else (0.0, 0.0)
            us, vs = (C[0, m], C[1, m]) if m > k else (0.0, 0.0)
            for t in range(size):
                u[t] += up * p[t] + uq * q[t] + ur * r[t] + us * s[t]
            if i < both:
                for t in range(size):
                    v[t] += vp * p[t] + vq * q[t] + vr * r[t] + vs * s[t]
        if len(start) > 0:
            for t in range(size):
                v[t] += b * u[t]


@njit("intp(Array(float64, 1, 'C', readonly=True))", cache=True)
def _address(row):  # type: ignore[no-untyped-def]
    return row.ctypes.data


def address(row: Vector) -> int:
    """Where a row is in memory."""
    try:
        return int(_address(row))
    except TypeError:
        raise ValueError("rows must be contiguous arrays of float64") from None


def dots(rows: Addresses, vectors: Sequence[Vector]) -> Vector:
    """Inner products of the rows with up to three vectors; a row of the result per vector.

    The rows are as long as the vectors, or longer.
    """
    out, count = np.empty((DOTS, len(rows))), len(vectors)
    x, y, z = (np.ascontiguousarray(vectors[min(i, count - 1)]) for i in range(DOTS))
    dots_into(rows, x, y, z, out)
    return out[:count]


def add_to(rows: Addresses, C: Vector, vectors: Sequence[Vector]) -> None:
    """Add sum_j C_ij rows_j to vector i in place, for one or two vectors."""
    alone = len(C) == 1
    C = np.ascontiguousarray(np.broadcast_to(C, (SUMS, len(rows))))
    both = 0 if alone else len(rows)
    add_rows(rows, C, both, vectors[0], vectors[-1], _NOTHING, 0.0, 0.0)
