"""Long rows against one or two vectors at a time, each row read once.

Long rows cost what reading them from memory costs, and BLAS reads them once per vector. The rows
are separate arrays, given by their addresses: one array of all of them would double the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from geartrain.oracles.vectors import Vector

Addresses = NDArray[np.intp]

# Four rows at a time: what the registers hold. Pieces of this many entries of both vectors stay in
# the cache while all rows pass.
_ROWS, _PIECE = 4, 32_768


@intrinsic
def pointer(context: Any, address: Any) -> Any:
    """The pointer of an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.intp), generate


@njit(cache=True, fastmath={"reassoc", "contract"})
def _dots(rows, x, y, out):  # type: ignore[no-untyped-def]
    for start in range(0, len(x), _PIECE):
        size, at = min(_PIECE, len(x) - start), 8 * start
        u, v = x[start : start + size], y[start : start + size]
        for i in range(0, len(rows), _ROWS):
            a = carray(pointer(rows[i] + at), (size,), np.float64)
            b = carray(pointer(rows[i + 1] + at), (size,), np.float64)
            c = carray(pointer(rows[i + 2] + at), (size,), np.float64)
            d = carray(pointer(rows[i + 3] + at), (size,), np.float64)
            au = bu = cu = du = av = bv = cv = dv = 0.0
            for j in range(size):
                au += a[j] * u[j]
                av += a[j] * v[j]
                bu += b[j] * u[j]
                bv += b[j] * v[j]
                cu += c[j] * u[j]
                cv += c[j] * v[j]
                du += d[j] * u[j]
                dv += d[j] * v[j]
            out[0, i] += au
            out[0, i + 1] += bu
            out[0, i + 2] += cu
            out[0, i + 3] += du
            out[1, i] += av
            out[1, i + 1] += bv
            out[1, i + 2] += cv
            out[1, i + 3] += dv


@njit(cache=True, fastmath={"reassoc", "contract"})
def _dots_one(rows, x, out):  # type: ignore[no-untyped-def]
    for start in range(0, len(x), _PIECE):
        size, at = min(_PIECE, len(x) - start), 8 * start
        u = x[start : start + size]
        for i in range(0, len(rows), _ROWS):
            a = carray(pointer(rows[i] + at), (size,), np.float64)
            b = carray(pointer(rows[i + 1] + at), (size,), np.float64)
            c = carray(pointer(rows[i + 2] + at), (size,), np.float64)
            d = carray(pointer(rows[i + 3] + at), (size,), np.float64)
            au = bu = cu = du = 0.0
            for j in range(size):
                au += a[j] * u[j]
                bu += b[j] * u[j]
                cu += c[j] * u[j]
                du += d[j] * u[j]
            out[0, i] += au
            out[0, i + 1] += bu
            out[0, i + 2] += cu
            out[0, i + 3] += du


@njit(cache=True, fastmath={"reassoc", "contract"})
def _add(rows, C, x, y):  # type: ignore[no-untyped-def]
    for start in range(0, len(x), _PIECE):
        size, at = min(_PIECE, len(x) - start), 8 * start
        u, v = x[start : start + size], y[start : start + size]
        for i in range(0, len(rows), _ROWS):
            a = carray(pointer(rows[i] + at), (size,), np.float64)
            b = carray(pointer(rows[i + 1] + at), (size,), np.float64)
            c = carray(pointer(rows[i + 2] + at), (size,), np.float64)
            d = carray(pointer(rows[i + 3] + at), (size,), np.float64)
            ua, ub, uc, ud = C[0, i], C[0, i + 1], C[0, i + 2], C[0, i + 3]
            va, vb, vc, vd = C[1, i], C[1, i + 1], C[1, i + 2], C[1, i + 3]
            for j in range(size):
                u[j] += ua * a[j] + ub * b[j] + uc * c[j] + ud * d[j]
                v[j] += va * a[j] + vb * b[j] + vc * c[j] + vd * d[j]


@njit(cache=True, fastmath={"reassoc", "contract"})
def _add_one(rows, C, x):  # type: ignore[no-untyped-def]
    for start in range(0, len(x), _PIECE):
        size, at = min(_PIECE, len(x) - start), 8 * start
        u = x[start : start + size]
        for i in range(0, len(rows), _ROWS):
            a = carray(pointer(rows[i] + at), (size,), np.float64)
            b = carray(pointer(rows[i + 1] + at), (size,), np.float64)
            c = carray(pointer(rows[i + 2] + at), (size,), np.float64)
            d = carray(pointer(rows[i + 3] + at), (size,), np.float64)
            ua, ub, uc, ud = C[0, i], C[0, i + 1], C[0, i + 2], C[0, i + 3]
            for j in range(size):
                u[j] += ua * a[j] + ub * b[j] + uc * c[j] + ud * d[j]


def address(row: Vector) -> int:
    """Where a row is in memory."""
    if row.dtype != np.float64 or row.strides != (8,):
        raise ValueError("rows must be contiguous arrays of float64")
    return int(row.__array_interface__["data"][0])


def dots(rows: Addresses, vectors: Sequence[Vector]) -> Vector:
    """Inner products of the rows with one or two vectors; a row of the result per vector.

    The rows are as long as the vectors, or longer.
    """
    out = np.zeros((len(vectors), len(rows) + -len(rows) % _ROWS))
    loop = _dots if len(vectors) == 2 else _dots_one
    loop(_whole(rows), *map(np.ascontiguousarray, vectors), out)
    return out[:, : len(rows)]


def add_to(rows: Addresses, C: Vector, vectors: Sequence[Vector]) -> None:
    """Add sum_j C_ij rows_j to vector i in place, for one or two vectors."""
    padded = np.zeros((len(C), len(rows) + -len(rows) % _ROWS))
    padded[:, : len(rows)] = C
    (_add if len(C) == 2 else _add_one)(_whole(rows), padded, *vectors)


def _whole(rows: Addresses) -> Addresses:
    """The last one again and again, until there are a multiple of four."""
    return rows[_repeating(len(rows))]


@lru_cache(maxsize=1024)
def _repeating(count: int) -> Addresses:
    return np.minimum(np.arange(count + -count % _ROWS), count - 1)
