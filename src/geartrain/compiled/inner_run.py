r"""The steps of an inner run of the learned method with long vectors: two compiled calls for each.

The symbols and formulas are those of `geartrain.compiled.coefficients`, as loops. The
rows W are given by their addresses, and each of them is read twice per step. In a geometry other
than the Euclidean one, inner products take one part of the rows and another one of the vectors:
those that begin at `primal` and at `dual`, with `length` entries.
"""

from __future__ import annotations

import math

import numpy as np
from numba import carray, njit

from geartrain.compiled.coefficients import CURVED, FLAT, FLAT_OFF, TINY
from geartrain.compiled.rows import pointer

# Pieces of this many entries of the vectors stay in the cache while all rows pass.
_PIECE = 8_192


@njit(cache=True, fastmath={"reassoc", "contract"})
def _dots(rows, shift, x, y, z, of_x, of_y, of_z):  # type: ignore[no-untyped-def]
    """Add the inner products of rows with three vectors, two rows at a time."""
    size = len(x)
    for i in range(0, len(rows), 2):
        j = min(i + 1, len(rows) - 1)
        a = carray(pointer(rows[i] + shift), (size,), np.float64)
        b = carray(pointer(rows[j] + shift), (size,), np.float64)
        ax = ay = az = bx = by = bz = 0.0
        for t in range(size):
            ax += a[t] * x[t]
            ay += a[t] * y[t]
            az += a[t] * z[t]
            bx += b[t] * x[t]
            by += b[t] * y[t]
            bz += b[t] * z[t]
        of_x[i] += ax
        of_y[i] += ay
        of_z[i] += az
        if j > i:
            of_x[j] += bx
            of_y[j] += by
            of_z[j] += bz


@njit(cache=True, fastmath={"reassoc", "contract"})
def _add(rows, shift, c, u):  # type: ignore[no-untyped-def]
    """Add a combination of rows to a vector, four rows at a time."""
    size, whole = len(u), len(rows) - len(rows) % 4
    for i in range(0, whole, 4):
        p = carray(pointer(rows[i] + shift), (size,), np.float64)
        q = carray(pointer(rows[i + 1] + shift), (size,), np.float64)
        v = carray(pointer(rows[i + 2] + shift), (size,), np.float64)
        w = carray(pointer(rows[i + 3] + shift), (size,), np.float64)
        for t in range(size):
            u[t] += c[i] * p[t] + c[i + 1] * q[t] + c[i + 2] * v[t] + c[i + 3] * w[t]
    for i in range(whole, len(rows)):
        p = carray(pointer(rows[i] + shift), (size,), np.float64)
        for t in range(size):
            u[t] += c[i] * p[t]


@njit(cache=True, fastmath={"reassoc", "contract"})
def _times(A, x, factor, out):  # type: ignore[no-untyped-def]
    """Add factor A x to `out`, for the first columns of A."""
    for i in range(len(out)):
        total = 0.0
        for j in range(len(x)):
            total += A[i, j] * x[j]
        out[i] += factor * total


@njit(cache=True, fastmath={"reassoc", "contract"})
def _transposed(A, x, factor, out):  # type: ignore[no-untyped-def]
    """Add factor A'x to `out`, for the first columns of A."""
    for i in range(len(x)):
        weight = factor * x[i]
        for j in range(len(out)):
            out[j] += weight * A[i, j]


@njit(cache=True)
def read(table, addresses, parts, s, y_g, grad, k):  # type: ignore[no-untyped-def]
    """The inner products of the rows of the model and of k pairs with three vectors."""
    primal, dual, length = parts
    r, m, dots = len(table.M), len(table.T), table.dots
    for p in range(3):
        for q in range(len(addresses)):
            dots[p, q] = 0.0
    for start in range(0, length, _PIECE):
        shift, at = 8 * (primal + start), dual + start
        stop = min(at + _PIECE, dual + length)
        x, y, z = s[at:stop], y_g[at:stop], grad[at:stop]
        for first, last in ((r - r, r + k), (r + m, r + m + k)):  # a literal is another type
            at = slice(first, last)
            _dots(addresses[at], shift, x, y, z, dots[0, at], dots[1, at], dots[2, at])


@njit(cache=True)
def learn(table, addresses, parts, s, y_g, grad, lam, k):  # type: ignore[no-untyped-def]
    """Learn pair k; and the inner products of all rows with `grad`.

    Returns whether the pair shows curvature, and the curvature of g along it.
    """
    r, m = len(table.M), len(table.T)
    addresses[r + k], addresses[r + m + k] = s.ctypes.data, y_g.ctypes.data
    read(table, addresses, parts, s, y_g, grad, k + 1)
    added, tau = _enter(table, lam, k)
    if added and k + 1 == m:
        _drop(table, addresses)
    return added, tau


@njit(cache=True)
def begin(table, gram, cross, lam, good):  # type: ignore[no-untyped-def]
    """Learn from pairs with known inner products; `good` tells which of them show curvature.

    `gram` has those of s_1, y_g1, s_2, ... with each other, `cross` those of V with them. Returns
    the number of pairs learned, and the curvature of g along the last of them.
    """
    r, m, dots = len(table.M), len(table.T), table.dots
    k, last = 0, 0.0
    kept = np.empty(len(good), dtype=np.intp)
    for pair in range(len(good)):
        kept[k] = pair
        for p in range(2):
            row = 2 * pair + p
            for q in range(r):
                dots[p, q] = cross[q, row]
            for q in range(k + 1):
                dots[p, r + q] = gram[row, 2 * kept[q]]
                dots[p, r + m + q] = gram[row, 2 * kept[q] + 1]
        good[pair], tau = _enter(table, lam, k)
        if good[pair]:
            k, last = k + 1, tau
    return k, last


@njit(cache=True)
def _enter(table, lam, k):  # type: ignore[no-untyped-def]
    """Learn pair k from its inner products."""
    gram, T, MVS, sy, dots, M, _, _ = table
    r, m = len(M), len(T)
    i, j = r + k, r + m + k
    ss, sy_g, yy_g = dots[0, i], dots[1, i], dots[1, j]
    MVs, WBs, column = np.zeros(r), np.zeros(len(gram)), np.zeros(k)
    _times(M, dots[0, :r], 1.0, MVs)
    _transposed(gram, MVs, 1.0, WBs)  # without its part lam W s
    along, low_rank = sy_g + lam * ss, 0.0
    for p in range(r):
        along += dots[0, p] * MVs[p]
        low_rank += MVs[p] * WBs[p]
    size = math.sqrt(yy_g) + lam * math.sqrt(ss) + math.sqrt(max(low_rank, 0.0))
    if not along > CURVED * math.sqrt(ss) * size:
        for p in range(3):
            dots[p, i] = dots[p, j] = 0.0
        return False, 0.0
    for p in range(len(gram)):
        gram[i, p] = gram[p, i] = dots[0, p]
        gram[j, p] = gram[p, j] = dots[1, p]
    for p in range(k):
        WBs[r + p] += dots[1, r + p] + lam * dots[0, r + p]
    _times(T, WBs[r : r + k], -1.0 / along, column)
    for p in range(k):
        T[p, k] = column[p]
    T[k, k], sy[k] = 1.0 / along, along
    for p in range(r):
        MVS[k, p] = MVs[p]
    return True, max(sy_g, 0.0) / max(ss, TINY)


@njit(cache=True)
def _drop(table, addresses):  # type: ignore[no-untyped-def]
    """Forget the oldest pair."""
    gram, T, MVS, sy, dots, M, _, _ = table
    r, m = len(M), len(T)
    for p in range(len(gram)):
        for q in range(r, len(gram) - 1):
            gram[p, q] = gram[p, q + 1]
    for p in range(r, len(gram) - 1):
        addresses[p] = addresses[p + 1]
        for q in range(len(gram)):
            gram[p, q] = gram[p + 1, q]
        for q in range(3):
            dots[q, p] = dots[q, p + 1]
    for p in range(m - 1):
        sy[p] = sy[p + 1]
        for q in range(m - 1):
            T[p, q] = T[p + 1, q + 1]
        for q in range(r):
            MVS[p, q] = MVS[p + 1, q]
    for p in range(m):
        T[m - 1, p] = T[p, m - 1] = 0.0


@njit(cache=True)
def direction(table, addresses, grad, lam, mu, k):  # type: ignore[no-untyped-def]
    """The vectors d = -H grad and B d; `mu` is added to B in H_0."""
    gram, T, MVS, sy, dots, M, w, E = table
    r, m, n, whole = len(M), len(T), len(grad), len(gram)
    y = r + m
    alpha, top = max(lam + mu, TINY), 0.0
    for p in range(len(w)):
        top = max(top, w[p])
    if len(w) > 0:
        top = max(top + mu, alpha)
        alpha = max(alpha, FLAT_OFF * top)
    # W z with z = H_0 u, u = grad - Y a; and the coefficients of d = -z - S b
    q, c, a, b, y_z = np.empty(whole), np.zeros(whole), np.zeros(k), np.zeros(k), np.zeros(k)
    small, base, e = np.zeros(len(w)), np.zeros(r), np.zeros(r)
    for p in range(whole):
        q[p] = dots[2, p] / alpha
    _times(T, q[r : r + k], 1.0, a)  # divided by alpha
    _transposed(MVS, a, 1.0, c[:r])
    for p in range(k):
        c[r + p], c[y + p] = lam * a[p], a[p]
    _times(gram, c, -1.0, q)
    _times(E, q[:r], 1.0, small)
    for p in range(len(w)):
        small[p] *= 1.0 / max(w[p] + mu, FLAT * top) - 1.0 / alpha
    _transposed(E, small, alpha, base)
    _transposed(gram, base, 1.0, q)
    _times(MVS, q[:r], 1.0, y_z)
    for p in range(k):
        y_z[p] = alpha * sy[p] * a[p] - (y_z[p] + q[y + p] + lam * q[r + p])
    _transposed(T, y_z, 1.0, b)
    for p in range(k):
        c[r + p] -= b[p]
    for p in range(r):
        c[p] -= base[p]
    _transposed(gram[r:], b, 1.0, q[:r])
    _times(M, q[:r], -1.0, e)
    d, Bd = np.empty(n), np.zeros(n)
    for start in range(0, n, _PIECE):
        stop, shift = min(start + _PIECE, n), 8 * start
        part_d, part_Bd = d[start:stop], Bd[start:stop]
        for t in range(stop - start):
            part_d[t] = -grad[start + t] / alpha
        _add(addresses[: r + k], shift, c[: r + k], part_d)
        _add(addresses[y : y + k], shift, c[y : y + k], part_d)
        _add(addresses[:r], shift, e, part_Bd)
        for t in range(stop - start):
            part_Bd[t] += lam * part_d[t]
    return d, Bd
