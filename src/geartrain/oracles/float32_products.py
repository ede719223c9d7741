"""Products with a matrix that is kept in float32: float64 arithmetic, and no copy of the matrix.

NumPy and SciPy would convert the whole matrix to float64 in each product. Here a few rows at a time
are converted, which stay in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.oracles.vectors import Vector

# Entries that are converted at a time: 1 MB in float64.
_PIECE = 131_072


def is_single(A: Any) -> bool:
    """Whether A is an array or a sparse matrix of float32."""
    return (isinstance(A, np.ndarray) or sparse.issparse(A)) and A.dtype == np.float32


def times(A: Any, x: Vector) -> Vector:
    """``A x`` in float64; x may have several columns."""
    if not is_single(A):
        return A @ x
    out = np.empty((A.shape[0], *x.shape[1:]))
    for rows, piece in _pieces(A):
        out[rows] = piece @ x
    return out


def transposed_times(A: Any, u: Vector) -> Vector:
    """``A'u`` in float64; u may have several columns."""
    if not is_single(A):
        return A.T @ u
    out = np.zeros((A.shape[1], *u.shape[1:]))
    for rows, piece in _pieces(A):
        out += piece.T @ u[rows]
    return out


def _pieces(A: Any) -> Iterator[tuple[slice, Any]]:
    """The rows of A in float64, a few at a time."""
    m, n = A.shape
    if not sparse.issparse(A):
        step = max(1, _PIECE // n)
        for start in range(0, m, step):
            rows = slice(start, start + step)
            yield rows, A[rows].astype(np.float64)
        return
    start = 0
    while start < m:
        # at least one row, and as many as have no more than _PIECE entries
        full = np.searchsorted(A.indptr, A.indptr[start] + _PIECE, side="right") - 1
        stop = min(max(int(full), start + 1), m)
        first, last = A.indptr[start], A.indptr[stop]
        entries = A.data[first:last].astype(np.float64)
        parts = (entries, A.indices[first:last], A.indptr[start : stop + 1] - first)
        yield slice(start, stop), sparse.csr_array(parts, shape=(stop - start, n))
        start = stop
