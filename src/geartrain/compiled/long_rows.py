"""A few long rows against vectors, in one thread and near the speed of memory.

BLAS takes several threads for products with more than some thousand entries. They gain little here
and may lose much: NumPy and SciPy bring a BLAS each, whose threads take the cores from each other.

`which` are the rows that take part.
"""

from __future__ import annotations

import numpy as np

from geartrain.compiled.jit import kernel

# Pieces of this many entries of the vectors stay in the cache while all rows pass.
_PIECE = 4_096


@kernel
def dots(rows, which, x, out):  # type: ignore[no-untyped-def]
    """Inner products of the rows with x, four rows at a time."""
    k, n = len(which), rows.shape[1]
    for i in range(k):
        out[i] = 0.0
    for start in range(0, n, _PIECE):
        stop = min(start + _PIECE, n)
        i = 0
        while i + 4 <= k:
            p, q, r, s = which[i], which[i + 1], which[i + 2], which[i + 3]
            a = b = c = d = 0.0
            for t in range(start, stop):
                a += rows[p, t] * x[t]
                b += rows[q, t] * x[t]
                c += rows[r, t] * x[t]
                d += rows[s, t] * x[t]
            out[i] += a
            out[i + 1] += b
            out[i + 2] += c
            out[i + 3] += d
            i += 4
        while i < k:
            p = which[i]
            a = 0.0
            for t in range(start, stop):
                a += rows[p, t] * x[t]
            out[i] += a
            i += 1


@kernel
def dots3(rows, which, x, y, z, out):  # type: ignore[no-untyped-def]
    """Inner products of the rows with three vectors, two rows at a time, into columns of `out`."""
    k, n = len(which), rows.shape[1]
    for i in range(k):
        out[i, 0] = out[i, 1] = out[i, 2] = 0.0
    for start in range(0, n, _PIECE):
        stop = min(start + _PIECE, n)
        for i in range(0, k, 2):
            j = min(i + 1, k - 1)
            p, q = which[i], which[j]
            ax = ay = az = bx = by = bz = 0.0
            for t in range(start, stop):
                ax += rows[p, t] * x[t]
                ay += rows[p, t] * y[t]
                az += rows[p, t] * z[t]
                bx += rows[q, t] * x[t]
                by += rows[q, t] * y[t]
                bz += rows[q, t] * z[t]
            out[i, 0] += ax
            out[i, 1] += ay
            out[i, 2] += az
            if j > i:
                out[j, 0] += bx
                out[j, 1] += by
                out[j, 2] += bz


@kernel
def add_to(x, rows, which, c):  # type: ignore[no-untyped-def]
    """Add sum_i c_i rows_i to x, four rows at a time."""
    k, n = len(which), rows.shape[1]
    for start in range(0, n, _PIECE):
        stop = min(start + _PIECE, n)
        i = 0
        while i + 4 <= k:
            a, b, d, e = c[i], c[i + 1], c[i + 2], c[i + 3]
            p, q, r, s = which[i], which[i + 1], which[i + 2], which[i + 3]
            for t in range(start, stop):
                x[t] += a * rows[p, t] + b * rows[q, t] + d * rows[r, t] + e * rows[s, t]
            i += 4
        while i < k:
            a, p = c[i], which[i]
            for t in range(start, stop):
                x[t] += a * rows[p, t]
            i += 1


@kernel
def two_loops(rows, products, d):  # type: ignore[no-untyped-def]
    """H d of L-BFGS by the pairs s_1, y_1, s_2, y_2, ..., oldest first, in the place of d."""
    k, n = len(products), len(d)
    weights = np.empty(k)
    for i in range(k - 1, -1, -1):
        sd = 0.0
        for t in range(n):
            sd += rows[2 * i, t] * d[t]
        weights[i] = sd / products[i]
        for t in range(n):
            d[t] -= weights[i] * rows[2 * i + 1, t]
    yy = 0.0
    for t in range(n):
        yy += rows[2 * k - 1, t] * rows[2 * k - 1, t]
    for t in range(n):
        d[t] *= products[k - 1] / yy
    for i in range(k):
        yd = 0.0
        for t in range(n):
            yd += rows[2 * i + 1, t] * d[t]
        c = weights[i] - yd / products[i]
        for t in range(n):
            d[t] += c * rows[2 * i, t]
