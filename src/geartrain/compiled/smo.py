"""Compiled loops of the block SMO solver.

=========  ===========================================================================
beta       signed dual variables, beta_i = y_i alpha_i, lo_i <= beta_i <= hi_i
F          gradient of the dual, F_i = y_i - (K beta)_i
up         points whose beta can grow (beta_i < hi_i)
low        points whose beta can shrink (beta_i > lo_i)
violation  max of F over `up` minus min of F over `low`
W          working set: indices of the block
=========  ===========================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from geartrain.compiled.vector_exp import exp_of_nonpositive

Array = NDArray[Any]

BIG = 1e30  # beyond any F, and no infinity: `fastmath` may assume that there is none
TAU = np.float32(1e-12)  # curvature of a pair of equal points, as in LIBSVM
LEAST = np.int32(-(2**31))
CHUNK = 128  # where the largest is looked for after its chunk is known
# Constants of the types they are used in: conversions in the loops take long to compile.
ZERO, ONE, TWO = np.float32(0.0), np.float32(1.0), np.float32(2.0)
LOG2_E, LOWEST = np.float32(1.4426950408889634), np.float32(-126.0)
# 1 + C1 r + ... + C5 r^5 is 2^r to 9.2e-8 for |r| <= 1/2 (Remez).
C1, C2, C3 = np.float32(0.69314698), np.float32(0.24022242), np.float32(0.055507337)
C4, C5 = np.float32(0.0096715126), np.float32(0.0013264727)
ROUND = np.float32(1.5 * 2.0**23)  # a sum with it has no fraction
MANTISSA = np.int32(23)  # bits of it
SIGN, LOWER = np.int32(31), np.int32(0x7FFFFFFF)


@intrinsic
def _float_of(typing_context: Any, bits: Any) -> Any:
    """The float32 with these bits."""
    return types.float32(types.int32), _same_bits


@intrinsic
def _bits_of(typing_context: Any, number: Any) -> Any:
    """The bits of a float32."""
    return types.int32(types.float32), _same_bits


def _same_bits(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))


# Sums must not be reordered: `ROUND` would be lost.
@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "contract"})
def gaussian_f4(G: Array, a: Array, b: Array, scale: float) -> None:
    """G[i, j] <- 2^min(scale (G[i, j] - a[i] - b[j]), 0) in float32, relative error about 3e-7.

    2^t = 2^n 2^r with n the nearest integer to t: the first factor is added to the bits of the
    second, a polynomial of least relative error that is one at zero.
    """
    for i in range(G.shape[0]):
        row = G[i]
        a_i = a[i]
        for j in range(row.size):
            t = (row[j] - a_i - b[j]) * scale
            t = t if t > LOWEST else LOWEST
            t = t if t < ZERO else ZERO
            n = t + ROUND  # n is in its last bits
            r = t - (n - ROUND)
            r2 = r * r
            p = (ONE + C1 * r) + r2 * ((C2 + C3 * r) + r2 * (C4 + C5 * r))
            row[j] = _float_of(_bits_of(p) + (_bits_of(n) << MANTISSA))


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "contract", "reassoc"})
def centred_columns(X: Array, mean: Array, scale: float, out: Array, halves: Array) -> None:
    """out[j, i] <- scale (X[i, j] - mean[j]) in float32, halves <- half the squared norms."""
    m, n = X.shape
    for i in range(m):
        row, total = X[i], 0.0
        for j in range(n):
            v = scale * (row[j] - mean[j])
            total += v * v
            out[j, i] = v
        halves[i] = 0.5 * total


@njit(cache=True, nogil=True)
def gaussian_f8(G: Array, a: Array, b: Array) -> None:
    """The same in float64, to rounding."""
    for i in range(G.shape[0]):
        row = G[i]
        for j in range(row.size):
            s = row[j] - a[i] - b[j]
            row[j] = s if s < 0.0 else 0.0
        exp_of_nonpositive(row)


@njit(cache=True, nogil=True)
def extremes(F: Array, beta: Array, lo: Array, hi: Array) -> tuple[float, float]:
    """Largest F over `up` and smallest F over `low`."""
    top, bottom = -BIG, BIG
    for k in range(F.size):
        if beta[k] < hi[k] and F[k] > top:
            top = F[k]
        if beta[k] > lo[k] and F[k] < bottom:
            bottom = F[k]
    return top, bottom


@njit(cache=True, nogil=True)
def near_points(
    F: Array, E: Array, beta: Array, lo: Array, hi: Array, few: int, small: float, near: Array
) -> None:
    """near[k] <- whether k is free or an error of E[k] may move it across the margin.

    Are there more than `few` free points, those with E <= `small` are left out.
    """
    top, bottom = extremes(F, beta, lo, hi)
    free = 0
    for k in range(F.size):
        free += lo[k] < beta[k] < hi[k]
    least = small if free > few else -1.0
    for k in range(F.size):
        up, low = beta[k] < hi[k], beta[k] > lo[k]
        # An optimal F is at most b where beta = lo and at least b where beta = hi.
        wrong = F[k] - min(top, bottom) if up else max(top, bottom) - F[k]
        near[k] = E[k] > least and (wrong + E[k] >= 0.0 or (up and low))


@njit(cache=True, nogil=True)
def pessimistic(
    F: Array, E: Array, beta: Array, lo: Array, hi: Array, moved: Array, slack: Array
) -> float:
    """F `moved` towards the margin by its error E, E of free points as `slack`; the violation.

    Free points may be on either side, so their F stays; the violation covers both.
    """
    worst = 0.0
    for k in range(F.size):
        up, low = beta[k] < hi[k], beta[k] > lo[k]
        slack[k] = E[k] if up and low else 0.0
        worst = max(worst, slack[k])
        moved[k] = F[k] if up == low else (F[k] + E[k] if up else F[k] - E[k])
    top, bottom = extremes(moved, beta, lo, hi)
    return top - bottom + 2.0 * worst


@njit(cache=True, nogil=True)
def duality_gap(F: Array, slack: Array, beta: Array, y: Array, C: Array, b: float) -> float:
    """Sum of C_i max(0, x_i) - |beta_i| x_i, the largest for y_i (F_i - b) -+ slack_i = x_i.

    The summands are convex, so it is at an end.
    """
    total = 0.0
    for k in range(F.size):
        x, size = y[k] * (F[k] - b), abs(beta[k])
        left, right = x - slack[k], x + slack[k]
        total += max(C[k] * max(0.0, left) - size * left, C[k] * max(0.0, right) - size * right)
    return total


@njit(cache=True, nogil=True)
def best_intercept(F: Array, y: Array, C: Array) -> float:
    """The b that minimises sum_i C_i max(0, y_i (F_i - b)): the middle of all that do.

    The slope of the sum grows with b, by C_i at every F_i. The first F_i right of which it is not
    negative is in (left, right], which is halved.
    """
    start = flat = 0.0
    for k in range(F.size):
        flat += 1e-12 * C[k]
        start -= C[k] if y[k] > 0.0 else 0.0
    left, right = -BIG, BIG
    while True:
        first, last = BIG, -BIG
        for k in range(F.size):
            if left < F[k] <= right:
                first, last = min(first, F[k]), max(last, F[k])
        middle = first + 0.5 * (last - first)
        if middle >= last:  # neighbours, or one and the same
            middle = first
        slope, after = start, BIG
        for k in range(F.size):
            if F[k] <= middle:
                slope += C[k]
            else:
                after = min(after, F[k])
        if slope < -flat:
            left = middle
        elif middle > first:
            right = middle
        else:
            return 0.5 * (first + after) if slope <= flat and after < BIG else first


@njit(cache=True, nogil=True)
def take_block(rows: Array, slots: Array, W: Array, block: Array) -> None:
    """``block <- K[W, W]`` out of the cached rows."""
    for s in range(W.size):
        row, out = rows[slots[s]], block[s]
        for t in range(W.size):
            out[t] = row[W[t]]


@njit(cache=True, nogil=True)
def _largest(bits: Array) -> int:
    """Index of the largest of the float32 numbers with these bits.

    Of floats the compiler takes the maximum one by one, of integers by vector instructions; with
    the lower bits of negative numbers flipped both orders are the same.
    """
    best, where = LEAST, 0
    for start in range(0, bits.size, CHUNK):
        stop = min(start + CHUNK, bits.size)
        local = LEAST
        for k in range(start, stop):
            v = bits[k] ^ ((bits[k] >> SIGN) & LOWER)
            if v > local:
                local = v
        if local > best:
            best, where = local, start
    best = best ^ ((best >> SIGN) & LOWER)
    for k in range(where, bits.size):
        if bits[k] == best:
            return k
    return 0


@njit(cache=True, nogil=True, fastmath=True)
def _gaussian_row(points: Array, halves: Array, i: int, K: Array) -> None:
    """K[i, j] <- exp(<a_i, a_j> - |a_i|^2/2 - |a_j|^2/2).

    `points` has a column for each point and a multiple of four rows.
    """
    row = K[i]
    for j in range(row.size):
        row[j] = ZERO
    for c in range(0, points.shape[0], 4):
        p0, p1, p2, p3 = points[c], points[c + 1], points[c + 2], points[c + 3]
        a0, a1, a2, a3 = p0[i], p1[i], p2[i], p3[i]
        for j in range(row.size):
            row[j] += (a0 * p0[j] + a1 * p1[j]) + (a2 * p2[j] + a3 * p3[j])
    gaussian_f4(K[i : i + 1], halves[i : i + 1], halves, LOG2_E)


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def solve_block(
    K: Array,
    slots: Array,
    known: Array,
    points: Array,
    halves: Array,
    f: Array,
    b: Array,
    lo: Array,
    hi: Array,
    tol: float,
    max_steps: int,
) -> int:
    """Two-variable SMO with second-order selection inside the block; b and f are overwritten.

    The row of point k is K[slots[k]]. Ends when the violation inside the block is at most `tol`.
    Answers the number of steps.
    Selection is in float32, which is what K is in; f and b are float64. Rows of K that are not
    `known` are computed when their turn comes, see `_gaussian_row`; then row k is in slot k.
    """
    q = f.size
    diag = np.empty(q, np.float32)
    no_up = np.empty(q)  # -BIG keeps a point out of `up`
    no_low = np.empty(q)  # -BIG keeps a point out of `low`
    up = np.empty(q, np.float32)  # f where b can grow
    low = np.empty(q, np.float32)  # -f where b can shrink
    gain = np.empty(q, np.float32)
    for k in range(q):
        diag[k] = K[slots[k], k] if known[k] else ONE
        no_up[k] = 0.0 if b[k] < hi[k] else -BIG
        no_low[k] = 0.0 if b[k] > lo[k] else -BIG
    K_i = K_j = diag  # any two rows: nothing has moved yet
    t = 0.0
    for step in range(max_steps):
        for k in range(q):
            f[k] -= t * (K_i[k] - K_j[k])
            up[k] = f[k] + no_up[k]
            low[k] = no_low[k] - f[k]
        i, j = _largest(up.view(np.int32)), _largest(low.view(np.int32))
        top = f[i]
        if no_up[i] < 0.0 or no_low[j] < 0.0 or top - f[j] <= tol:
            return step
        if not known[i]:
            _gaussian_row(points, halves, i, K)
            known[i] = True
        K_i = K[slots[i]]
        top_f4, diag_i = up[i], diag[i]
        for k in range(q):
            d = top_f4 + low[k]
            d = d if d > ZERO else ZERO
            eta = diag_i + diag[k] - TWO * K_i[k]
            eta = eta if eta > TAU else TAU
            gain[k] = d * d / eta
        j = _largest(gain.view(np.int32))
        if top - f[j] <= 0.0:
            return step  # the violation is below the rounding of float32
        if not known[j]:
            _gaussian_row(points, halves, j, K)
            known[j] = True
        K_j = K[slots[j]]
        t = (top - f[j]) / max(diag_i + diag[j] - TWO * K_i[j], TAU)
        room_i, room_j = hi[i] - b[i], b[j] - lo[j]
        t = min(t, room_i, room_j)
        # A bound that is hit is hit exactly: rounding would leave a point that looks free.
        b[i] = hi[i] if t == room_i else b[i] + t
        b[j] = lo[j] if t == room_j else b[j] - t
        no_up[i] = 0.0 if b[i] < hi[i] else -BIG
        no_low[i] = no_up[j] = 0.0
        no_low[j] = 0.0 if b[j] > lo[j] else -BIG
    return max_steps


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "contract", "reassoc"})
def move_rows(F: Array, G: Array, rows: Array, slots: Array, d: Array, a: Array) -> None:
    """F <- F - sum_s d_s K[s] and G <- G + sum_s a_s K[s], float32 rows, float64 sums.

    Four rows at a time.
    """
    s = 0
    while s + 4 <= d.size:
        c0, c1, c2, c3 = d[s], d[s + 1], d[s + 2], d[s + 3]
        a0, a1, a2, a3 = a[s], a[s + 1], a[s + 2], a[s + 3]
        r0, r1, r2, r3 = rows[slots[s]], rows[slots[s + 1]], rows[slots[s + 2]], rows[slots[s + 3]]
        for k in range(F.size):
            F[k] -= (c0 * r0[k] + c1 * r1[k]) + (c2 * r2[k] + c3 * r3[k])
            G[k] += (a0 * r0[k] + a1 * r1[k]) + (a2 * r2[k] + a3 * r3[k])
        s += 4
    while s < d.size:
        c0, a0, r0 = d[s], a[s], rows[slots[s]]
        for k in range(F.size):
            F[k] -= c0 * r0[k]
            G[k] += a0 * r0[k]
        s += 1
