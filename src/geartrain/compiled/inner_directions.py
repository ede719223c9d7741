"""The small arithmetic of an inner step, with the symbols of `geartrain.methods.pqn.inner_smooth`.

Pairs from `start` on are in use, and row i of E, Z_B and Z_Y belongs to rows 2 i and 2 i + 1 of D.
"""

from __future__ import annotations

import numpy as np

from geartrain.compiled.jit import helper, kernel


@helper
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for t in range(len(a)):
        total += a[t] * b[t]
    return total


@kernel
def learn(a, b, start, new, end, D_D, Z, E, Z_B, Z_Y, S_Y, Y_Y):  # type: ignore[no-untyped-def]
    """V Y', S Y' and Y Y' of the pairs from `new` on, with all up to them."""
    for i in range(new, end):
        for t in range(Z.shape[1]):
            Z_Y[i, t] = Z_B[i, t] + a * Z[2 * i + 1, t]
        for j in range(start, i + 1):
            s, g = 2 * i, 2 * i + 1
            S_Y[i, j] = b * D_D[s, 2 * j] + a * D_D[s, 2 * j + 1] + _dot(Z[s], E[j])
            g_Y = b * D_D[g, 2 * j] + a * D_D[g, 2 * j + 1] + _dot(Z[g], E[j])
            S_Y[j, i] = b * D_D[2 * j, s] + a * D_D[2 * j, g] + _dot(Z[2 * j], E[i])
            Y_Y[i, j] = Y_Y[j, i] = b * S_Y[i, j] + a * g_Y + _dot(E[i], Z_Y[j])


@kernel
def first_loop(start, end, to_D, eps, z, Z, Z_Y, S_Y):  # type: ignore[no-untyped-def]
    """D grad phi in the place of D u, t with R t = S grad phi, and V (grad phi - Y't)."""
    m = end - start
    t, left = np.empty(m), z.copy()
    for i in range(2 * m):
        to_D[i] += _dot(Z[2 * start + i], eps)
    for i in range(m - 1, -1, -1):
        t[i] = to_D[2 * i]
        for j in range(i + 1, m):
            t[i] -= S_Y[start + i, start + j] * t[j]
        t[i] /= S_Y[start + i, start + i]
        for j in range(len(left)):
            left[j] -= t[i] * Z_Y[start + i, j]
    return t, left


@kernel
def second_loop(a, b, alpha, start, end, to_D, t, z, weights, Z, E, Z_Y, S_Y, Y_Y):  # type: ignore[no-untyped-def]
    """Weights of D in the direction, those of V besides -eps/alpha, and V d without the latter.

    `weights` are K V (grad phi - Y't).
    """
    m, r = end - start, len(z)
    of_D, left, of_V, z_d = np.empty(2 * m), np.empty(m), -weights, z * (-1.0 / alpha)
    for i in range(m):
        p = start + i
        Y_w = b * to_D[2 * i] + a * to_D[2 * i + 1] + _dot(E[p], z)
        for j in range(m):
            Y_w -= Y_Y[p, start + j] * t[j]
        left[i] = S_Y[p, p] * t[i] - Y_w / alpha - _dot(Z_Y[p], weights)
    for i in range(m):
        p = start + i
        left[i] /= S_Y[p, p]
        for j in range(i + 1, m):
            left[j] -= S_Y[p, start + j] * left[i]
        of_D[2 * i], of_D[2 * i + 1] = b / alpha * t[i] - left[i], a / alpha * t[i]
        for j in range(r):
            of_V[j] += t[i] / alpha * E[p, j]
            z_d[j] += of_D[2 * i] * Z[2 * p, j] + of_D[2 * i + 1] * Z[2 * p + 1, j]
    return of_D, of_V, z_d
