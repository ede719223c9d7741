r"""The coefficients of an inner run of the learned method with long vectors, as compiled loops.

The symbols and formulas are those of `geartrain.compiled.coefficients`. The functions take the
fields of its `RowTable` one by one, call no compiled function and allocate nothing: with nested
calls, slices and records of arrays they took two to three times as long to compile.
"""

from __future__ import annotations

import math

from numba import njit

from geartrain.compiled.coefficients import CURVED, FLAT, FLAT_OFF, TINY
from geartrain.compiled.rows import add_rows, address, dots_into

__all__ = ["add_rows", "address", "direction", "dots_into", "learn"]


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def learn(  # type: ignore[no-untyped-def]
    gram, T, WY, MVS, sy, dots, c, scratch, M, w, E, lam, first, last, fresh, oldest
):
    """`coefficients.learn` for the places from `first` to `last`, one after the other.

    The inner products are those in `dots` if they are `fresh`, and otherwise in `gram` already.
    """
    r, m, whole = len(M), len(T), len(gram)
    Wy, MVs, column = 0, 1, 2  # rows of `scratch`
    learned, tau = 0, 0.0
    for i in range(first, last):
        s, y, low_rank = r + 2 * i, r + 2 * i + 1, 0.0
        if fresh:
            for p in range(whole):
                gram[s, p] = gram[p, s] = dots[0, p]
                gram[y, p] = gram[p, y] = dots[1, p]
        for p in range(r):
            total = 0.0
            for q in range(r):
                total += M[p, q] * gram[s, q]
            scratch[MVs, p] = total
        for p in range(whole):
            total = 0.0
            for q in range(r):
                total += gram[p, q] * scratch[MVs, q]
            scratch[Wy, p] = gram[y, p] + lam * gram[s, p] + total
            if p < r:
                low_rank += scratch[MVs, p] * total
        ss, sy_g, yy_g, along = gram[s, s], gram[s, y], gram[y, y], scratch[Wy, s]
        size = math.sqrt(yy_g) + lam * math.sqrt(ss) + math.sqrt(max(low_rank, 0.0))
        if not along > CURVED * math.sqrt(ss) * size:
            sy[i] = 0.0
            continue
        sy[i] = along
        for p in range(r):
            MVS[i, p] = scratch[MVs, p]
        for p in range(whole):
            WY[p, i] = scratch[Wy, p]
        for j in range(m):
            of_s = gram[s, r + 2 * j + 1] + lam * gram[s, r + 2 * j]
            of_y = gram[y, r + 2 * j + 1] + lam * gram[y, r + 2 * j]
            for p in range(r):
                of_s += gram[s, p] * MVS[j, p]
                of_y += gram[y, p] * MVS[j, p]
            WY[s, j], WY[y, j] = of_s, of_y
        for p in range(m):
            total = 0.0
            for j in range(m):
                total += T[p, j] * scratch[Wy, r + 2 * j]
            scratch[column, p] = -total / along
        for p in range(m):
            T[p, i] = scratch[column, p]
        T[i, i] = 1.0 / along
        learned, tau = learned + 1, max(sy_g, 0.0) / max(ss, TINY)
    if learned > 0 and oldest >= 0:
        for p in range(m):
            T[oldest, p] = T[p, oldest] = 0.0
    return learned, tau


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def direction(  # type: ignore[no-untyped-def]
    gram, T, WY, MVS, sy, dots, c, scratch, M, w, E, lam, tau
):
    """`coefficients.direction`."""
    r, m, whole = len(M), len(T), len(gram)
    Wz, a, base, y_z = 0, 1, 2, 3  # rows of `scratch`
    alpha, top = max(lam + tau, TINY), 0.0
    for i in range(len(w)):
        top = max(top, w[i])
    if len(w) > 0:
        top = max(top + tau, alpha)
        alpha = max(alpha, FLAT_OFF * top)
    for p in range(whole):
        scratch[Wz, p] = dots[2, p] / alpha
        scratch[base, p] = c[0, p] = c[1, p] = 0.0
    for i in range(m):
        total = 0.0
        for j in range(m):
            total += T[i, j] * scratch[Wz, r + 2 * j]
        scratch[a, i] = total
    for p in range(whole):
        total = 0.0
        for j in range(m):
            total += WY[p, j] * scratch[a, j]
        scratch[Wz, p] -= total
    for i in range(len(w)):
        total = 0.0
        for p in range(r):
            total += E[i, p] * scratch[Wz, p]
        total *= alpha / max(w[i] + tau, FLAT * top) - 1.0
        for p in range(r):
            scratch[base, p] += E[i, p] * total
    for j in range(m):
        total = scratch[Wz, r + 2 * j + 1] + lam * scratch[Wz, r + 2 * j]
        for p in range(r):
            total += MVS[j, p] * scratch[Wz, p]
            c[0, p] += MVS[j, p] * scratch[a, j]
        scratch[y_z, j] = total
    for p in range(r):
        c[0, p] -= scratch[base, p]
        for j in range(m):
            scratch[y_z, j] += WY[p, j] * scratch[base, p]
    for i in range(m):
        left = sy[i] * alpha * scratch[a, i] - scratch[y_z, i]
        c[0, r + 2 * i] += lam * scratch[a, i]
        c[0, r + 2 * i + 1] = scratch[a, i]
        for j in range(m):
            c[0, r + 2 * j] -= T[i, j] * left
    for p in range(r):  # V d, with the sign turned
        total = scratch[Wz, p]
        for q in range(r):
            total += gram[p, q] * scratch[base, q]
        for j in range(m):
            total += gram[p, r + 2 * j] * (lam * scratch[a, j] - c[0, r + 2 * j])
        for q in range(r):
            c[1, q] -= M[p, q] * total
    return alpha
