r"""BFGS updates by the inner products of the pairs: one by one, and the newest ones at once.

=============  ================  ==============================================================
symbol         name              meaning
=============  ================  ==============================================================
S, Y_h, Y_g    --                rows, k of each kind, with inner products ``gram``
Y              --                Y_h, or Y_h + Y_g where ``with_g``; raised by ``lift`` F
F              --                Y_g: B_0 S' = lam S' + share F', <s, y> >= floor <s, F>
base           --                lam S + share F
m, old         same              pairs in use, and how many of them are used one by one
D              ``d``, ``root``   diagonal of <s, y>, then the symmetric part of S Y' of the block,
                                 by its Cholesky factor
L              ``below``         S Y' left of the blocks of D; as L D^{-1/2}
C              ``C``             C C' = S B_0 S' + L D^{-1} L'; its squared pivots are <s, B s>
=============  ================  ==============================================================

The updated matrix is B_0 - U'Q^{-1}U with U = (base, Y) and Q = [[S B_0 S', L], [L', -D]]: what
Byrd, Nocedal and Schnabel have shown for updates one by one holds for blocks, too. With
a B_0 = lam I + mu I = a I, the inverse is I/a + U'(a Q - U U')^{-1}U/a.
"""

from __future__ import annotations

import math

import numpy as np

from geartrain.compiled.jit import helper, kernel

# Added to the squared lengths of the steps, which are one: as to those of all rows in a basis.
SPAN = 1e-12
# What the new part of a step shows is divided by its square, and so is what the pairs disagree by:
# where they agree up to rounding, as those of a quadratic do, a smaller new part is enough, so many
# times the root of the disagreement; and this part at least.
_BETTER, _ROUNDING = 10.0, 1e-3
# A pair is left out where <s, y> is below this part of |y|, or where <s, B s> is below these parts
# of <s, y> and of the terms that it is the difference of: it is rounding.
_CURVED, _ROUNDED, _CANCELLED = 1e-12, 1e-14, 1e-13
# Eigenvalues of S Y' of the block are at least this part of the largest, relative to S S'.
_LEAST = 1e-8


@helper
def _dot(a, b, n):  # type: ignore[no-untyped-def]
    total = 0.0
    for t in range(n):
        total += a[t] * b[t]
    return total


@helper
def _cholesky(A):  # type: ignore[no-untyped-def]
    """The factor in the place of the lower triangle, and whether there is one."""
    for i in range(len(A)):
        for j in range(i):
            A[i, j] = (A[i, j] - _dot(A[i], A[j], j)) / A[j, j]
        pivot = A[i, i] - _dot(A[i], A[i], i)
        if not 0.0 < pivot < math.inf:
            return False
        A[i, i] = math.sqrt(pivot)
    return True


@helper
def _forward(L, b, n):  # type: ignore[no-untyped-def]
    """L^{-1} b in the place of b."""
    for i in range(n):
        b[i] = (b[i] - _dot(L[i], b, i)) / L[i, i]


@helper
def _backward(L, b, n):  # type: ignore[no-untyped-def]
    """L'^{-1} b in the place of b."""
    for i in range(n - 1, -1, -1):
        b[i] /= L[i, i]
        for j in range(i):
            b[j] -= b[i] * L[i, j]


@helper
def _changes(gram, with_g):  # type: ignore[no-untyped-def]
    """S Y', and the squared lengths of Y."""
    k = len(gram) // 3
    cross, squares = np.empty((k, k)), np.empty(k)
    for i in range(k):
        for j in range(k):
            cross[i, j] = gram[i, k + j] + (gram[i, 2 * k + j] if with_g else 0.0)
        h, g = k + i, 2 * k + i
        squares[i] = gram[h, h] + (2.0 * gram[h, g] + gram[g, g] if with_g else 0.0)
    return cross, squares


@kernel
def newest_curvature(gram, otherwise):  # type: ignore[no-untyped-def]
    """|y|^2/<s, y> of the newest pair along which h + g bends."""
    k = len(gram) // 3
    for i in range(k - 1, -1, -1):
        h, g = k + i, 2 * k + i
        along, square = gram[i, h] + gram[i, g], gram[h, h] + 2.0 * gram[h, g] + gram[g, g]
        if along > _CURVED * math.sqrt(max(square, 0.0)):
            return square / along
    return otherwise


@kernel
def block(gram, with_g, floor, agree, new):  # type: ignore[no-untyped-def]
    """The newest pairs that agree with each other and are independent, oldest first.

    Returns S Y' and the squared lengths of Y, the number of pairs before those that agree, these
    pairs, and the Cholesky factor of the symmetric part of S Y' of them. From the newest pair on,
    one that contradicts a newer one ends the block; a step of which less than a part is new is left
    out of it.
    """
    cross, squares = _changes(gram, with_g)
    k = len(cross)
    first, apart = k, 0.0
    for i in range(k - 1, -1, -1):
        along = cross[i, i]
        curved = along > _CURVED * math.sqrt(max(squares[i], 0.0))
        if not curved or along < floor * gram[i, 2 * k + i]:
            break
        worst = 0.0
        for j in range(i + 1, k):
            differ = abs(cross[i, j] - cross[j, i]) / math.sqrt(along * cross[j, j])
            worst = differ if not differ <= worst else worst
        if not worst <= agree:
            break
        first, apart = i, max(apart, worst)
    new = min(max(_BETTER * math.sqrt(apart), _ROUNDING), new)
    found, L, m = np.empty(k - first, np.int64), np.empty((k - first, k - first)), 0
    for i in range(k - 1, first - 1, -1):
        for p in range(m):
            L[m, p] = (gram[i, found[p]] - _dot(L[m], L[p], p)) / L[p, p]
        pivot = gram[i, i] + SPAN - _dot(L[m], L[m], m)
        if pivot > new * new:
            found[m], L[m, m] = i, math.sqrt(pivot)
            m += 1
    for p in range(m // 2):
        found[p], found[m - 1 - p] = found[m - 1 - p], found[p]
    found, root, top = found[:m], np.empty((m, m)), 0.0
    for p in range(m):
        top = max(top, cross[found[p], found[p]])
    for p in range(m):
        i = found[p]
        for q in range(p + 1):
            j = found[q]
            if floor > 0.0:
                least = 0.5 * floor * (gram[i, 2 * k + j] + gram[j, 2 * k + i])
            else:
                least = _LEAST * top * (gram[i, j] + (SPAN if i == j else 0.0))
            root[p, q] = 0.5 * (cross[i, j] + cross[j, i]) - least
    if m < 2 or not _cholesky(root):
        return cross, squares, k, found[:0], np.empty((0, 0))
    for p in range(m):
        for q in range(p + 1):
            root[p, q] = 0.5 * (cross[found[p], found[q]] + cross[found[q], found[p]])
    _cholesky(root)
    return cross, squares, first, found, root


@helper
def _F(gram, i, j, in_block):  # type: ignore[no-untyped-def]
    """<s_i, F_j>, or its symmetric part in the block."""
    k = len(gram) // 3
    if in_block:
        return 0.5 * (gram[i, 2 * k + j] + gram[j, 2 * k + i])
    return gram[i, 2 * k + j]


@kernel
def factorised(gram, cross, squares, first, found, lam, share, floor):  # type: ignore[no-untyped-def]
    """Pairs, their number, how many are used one by one, d, lift, below and C of the update.

    d holds the roots of <s, y>. The number is -1 where <s, B s> of the block is rounding.
    """
    k = len(cross)
    most = first + len(found)
    pairs, d, lift = np.empty(most, np.int64), np.empty(first), np.zeros(first)
    below, C = np.empty((most, first)), np.empty((most, most))
    m = old = 0
    for c in range(most):
        in_block = c >= first
        i = found[c - first] if in_block else c
        to_F = gram[i, 2 * k + i]
        rise = max(cross[i, i], floor * to_F)
        if not rise > _CURVED * math.sqrt(max(squares[i], 0.0)):
            continue
        for p in range(old):
            j = pairs[p]
            below[m, p] = (cross[i, j] + lift[p] * gram[i, 2 * k + j]) / d[p]
        for p in range(m):
            j, q = pairs[p], min(p, old)
            bend = lam * gram[i, j] + share * _F(gram, i, j, p >= old)
            C[m, p] = (bend + _dot(below[m], below[p], q) - _dot(C[m], C[p], p)) / C[p, p]
        whole = lam * (gram[i, i] + SPAN) + share * to_F + _dot(below[m], below[m], old)
        pivot = whole - _dot(C[m], C[m], m)
        if not max(_ROUNDED * rise, _CANCELLED * whole) < pivot < math.inf:
            if in_block:
                return pairs, -1, old, d, lift, below, C
            continue
        pairs[m], C[m, m] = i, math.sqrt(pivot)
        if not in_block:
            d[old] = math.sqrt(rise)
            lift[old] = (rise - cross[i, i]) / to_F if rise > cross[i, i] else 0.0
            old += 1
        m += 1
    return pairs, m, old, d, lift, below, C


@helper
def _taken(z, k, with_g, lam, share, pairs, lift):  # type: ignore[no-untyped-def]
    """base v and Y v from z, which holds the products of v with S, Y_h and perhaps Y_g."""
    m, three = len(pairs), len(z) > 2 * k
    u, y = np.empty(m), np.empty(m)
    for p in range(m):
        i = pairs[p]
        g = z[2 * k + i] if three else 0.0
        u[p] = lam * z[i] + share * g
        y[p] = z[k + i] + (g if with_g else 0.0)
        if p < len(lift):
            y[p] += lift[p] * g
    return u, y


@helper
def _given(x, y, out, k, with_g, lam, share, pairs, lift):  # type: ignore[no-untyped-def]
    """Weights of all rows from those of base and Y."""
    out[:] = 0.0
    for p in range(len(pairs)):
        i = pairs[p]
        out[i], out[k + i] = lam * x[p], y[p]
        if len(out) > 2 * k:
            more = lift[p] * y[p] if p < len(lift) else 0.0
            out[2 * k + i] = share * x[p] + more + (y[p] if with_g else 0.0)


@kernel
def weights(Z, k, with_g, lam, share, pairs, d, lift, below, root, C, out):  # type: ignore[no-untyped-def]
    """c with (B - B_0) v = V'c, from the products z of v with the rows; for each row of Z."""
    m, old = len(pairs), len(d)
    for t in range(len(Z)):
        x, y = _taken(Z[t], k, with_g, lam, share, pairs, lift)
        for p in range(old):
            y[p] /= d[p]
        for p in range(m):
            x[p] += _dot(below[p], y, min(p, old))
        _forward(C, x, m)
        _backward(C, x, m)
        for p in range(m):
            for q in range(min(p, old)):
                y[q] -= below[p, q] * x[p]
            x[p] = -x[p]
        for p in range(old):
            y[p] /= d[p]
        _forward(root, y[old:], m - old)
        _backward(root, y[old:], m - old)
        _given(x, y, out[t], k, with_g, lam, share, pairs, lift)


@kernel
def shifted_weights(z, a, k, with_g, lam, share, pairs, lift, H, W, Z, out):  # type: ignore[no-untyped-def]
    """c with (B - B_0 + a I)^{-1} v = v/a + V'c, by the factors of `Updated.shifted`."""
    m = len(pairs)
    x, y = _taken(z, k, with_g, lam, share, pairs, lift)
    _forward(H, y, m)
    for p in range(m):
        x[p] += _dot(W[p], y, m)
    _forward(Z, x, m)
    _backward(Z, x, m)
    for p in range(m):
        y[p] = -y[p]
    for p in range(m):
        for q in range(m):
            y[q] += W[p, q] * x[p]
    _backward(H, y, m)
    for p in range(m):
        x[p] /= a
        y[p] /= a
    _given(x, y, out, k, with_g, lam, share, pairs, lift)


@kernel
def inverse_weights(gram, z, lam, cross, squares, first, found, out):  # type: ignore[no-untyped-def]
    """c with B^{-1} v = v/lam + V'c of the update with Y_h + Y_g from lam I; whether there is one.

    With D as above, and R = S Y' without what is left of the blocks of D, B^{-1} - I/lam is
    S'R'^{-1}(D + Y Y'/lam)R^{-1}S - S'R'^{-1}Y/lam - Y'R^{-1}S/lam.
    """
    k = len(gram) // 3
    pairs, old = np.empty(first + len(found), np.int64), 0
    for i in range(first):
        if cross[i, i] > _CURVED * math.sqrt(max(squares[i], 0.0)):
            pairs[old] = i
            old += 1
    m, b = old + len(found), len(found)
    for p in range(b):
        pairs[old + p] = found[p]
    # S Y' = E G' of the block, without pivots: its symmetric part is positive definite.
    E, G = np.empty((b, b)), np.empty((b, b))
    for p in range(b):
        for q in range(p):
            E[p, q] = (cross[found[p], found[q]] - _dot(E[p], G[q], q)) / G[q, q]
        E[p, p] = 1.0
        for q in range(p + 1):
            G[p, q] = cross[found[q], found[p]] - _dot(E[q], G[p], q)
        if not G[p, p] > _CANCELLED * cross[found[p], found[p]]:
            return False
    x, y = np.empty(m), np.empty(m)
    for p in range(m):
        i = pairs[p]
        x[p], y[p] = z[i], z[k + i] + z[2 * k + i]
    # x = R^{-1} S v
    _forward(E, x[old:], b)
    _backward(G, x[old:], b)
    for p in range(old - 1, -1, -1):
        i = pairs[p]
        for q in range(p + 1, m):
            x[p] -= cross[i, pairs[q]] * x[q]
        x[p] /= cross[i, i]
    # y = R'^{-1} (D x - (Y v - Y Y' x)/lam)
    for p in range(m):
        i, total = pairs[p], y[p]
        for q in range(m):
            j = pairs[q]
            h, g = gram[k + i], gram[2 * k + i]
            total -= (h[k + j] + h[2 * k + j] + g[k + j] + g[2 * k + j]) * x[q]
        y[p] = -total / lam
        if p < old:
            y[p] += cross[i, i] * x[p]
        else:
            for q in range(old, m):
                j = pairs[q]
                y[p] += 0.5 * (cross[i, j] + cross[j, i]) * x[q]
    for p in range(old):
        i = pairs[p]
        y[p] /= cross[i, i]
        for q in range(p + 1, m):
            y[q] -= cross[i, pairs[q]] * y[p]
    _forward(G, y[old:], b)
    _backward(E, y[old:], b)
    out[:] = 0.0
    for p in range(m):
        i = pairs[p]
        out[i], out[k + i] = y[p], -x[p] / lam
        out[2 * k + i] = out[k + i]
    return True
