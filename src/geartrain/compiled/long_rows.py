"""A few long rows against vectors, in one thread and near the speed of memory.

BLAS takes several threads for products with more than some thousand entries. They gain little here
and may lose much: NumPy and SciPy bring a BLAS each, whose threads take the cores from each other.
"""

from __future__ import annotations

from numba import njit

# Pieces of this many entries of the vectors stay in the cache while all rows pass.
_PIECE = 4_096


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def dots(rows, x, out):  # type: ignore[no-untyped-def]
    """Inner products of the rows with x, four rows at a time."""
    k, n = rows.shape
    for i in range(k):
        out[i] = 0.0
    for start in range(0, n, _PIECE):
        stop = min(start + _PIECE, n)
        i = 0
        while i + 4 <= k:
            a = b = c = d = 0.0
            for t in range(start, stop):
                a += rows[i, t] * x[t]
                b += rows[i + 1, t] * x[t]
                c += rows[i + 2, t] * x[t]
                d += rows[i + 3, t] * x[t]
            out[i] += a
            out[i + 1] += b
            out[i + 2] += c
            out[i + 3] += d
            i += 4
        while i < k:
            a = 0.0
            for t in range(start, stop):
                a += rows[i, t] * x[t]
            out[i] += a
            i += 1


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def dots3(rows, x, y, z, out):  # type: ignore[no-untyped-def]
    """Inner products of the rows with three vectors, two rows at a time, into columns of `out`."""
    k, n = rows.shape
    for i in range(k):
        out[i, 0] = out[i, 1] = out[i, 2] = 0.0
    for start in range(0, n, _PIECE):
        stop = min(start + _PIECE, n)
        for i in range(0, k, 2):
            j = min(i + 1, k - 1)
            ax = ay = az = bx = by = bz = 0.0
            for t in range(start, stop):
                ax += rows[i, t] * x[t]
                ay += rows[i, t] * y[t]
                az += rows[i, t] * z[t]
                bx += rows[j, t] * x[t]
                by += rows[j, t] * y[t]
                bz += rows[j, t] * z[t]
            out[i, 0] += ax
            out[i, 1] += ay
            out[i, 2] += az
            if j > i:
                out[j, 0] += bx
                out[j, 1] += by
                out[j, 2] += bz


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def add_to(x, rows, c):  # type: ignore[no-untyped-def]
    """Add sum_i c_i rows_i to x, four rows at a time."""
    k, n = rows.shape
    for start in range(0, n, _PIECE):
        stop = min(start + _PIECE, n)
        i = 0
        while i + 4 <= k:
            p, q, r, s = c[i], c[i + 1], c[i + 2], c[i + 3]
            for t in range(start, stop):
                x[t] += (
                    p * rows[i, t] + q * rows[i + 1, t] + r * rows[i + 2, t] + s * rows[i + 3, t]
                )
            i += 4
        while i < k:
            p = c[i]
            for t in range(start, stop):
                x[t] += p * rows[i, t]
            i += 1
