"""Compiled loops of the block SMO solver.

=========  ===============================================================================
symbol     meaning
=========  ===============================================================================
beta       signed dual variables, lo_i <= beta_i <= hi_i
F          gradient of the smooth part of the dual, F_i = y_i - (K beta)_i
kink       the dual also contains -kink |beta_i|
rise       slope for a growing beta_i: F_i - kink if beta_i >= 0, else F_i + kink
fall       slope for a shrinking beta_i: F_i - kink if beta_i > 0, else F_i + kink
violation  largest `rise` (of beta_i < hi_i) minus smallest `fall` (of beta_i > lo_i)
loss_i(r)  hi_i max(0, r - kink) + lo_i min(0, r + kink): the hinge loss of y_i (f_i + b), or
           the epsilon-insensitive loss, of the residual r = F_i - b
W          working set: indices of the block
=========  ===============================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from geartrain.compiled.jit import njit
from geartrain.compiled.records import Array, Dual, KernelRows
from geartrain.compiled.vector_exp import exp_of_nonpositive

BIG = 1e30  # beyond any F, but not infinite: `fastmath` may assume that there is no infinity
SMALLEST = 1e-303  # `exp_of_nonpositive` does not go below 1e-304
TAU = np.float32(1e-12)  # curvature of a pair of equal points, as in LIBSVM
LEAST = np.int32(-(2**31))
CHUNK = 128  # numbers per chunk in the search for the largest
# Constants have the types in which they are used: conversions in loops take long to compile.
ZERO, ONE, TWO = np.float32(0.0), np.float32(1.0), np.float32(2.0)
LOG2_E, LOWEST = np.float32(1.4426950408889634), np.float32(-126.0)
# 1 + C1 r + ... + C5 r^5 is 2^r to 9.2e-8 for |r| <= 1/2 (Remez).
C1, C2, C3 = np.float32(0.69314698), np.float32(0.24022242), np.float32(0.055507337)
C4, C5 = np.float32(0.0096715126), np.float32(0.0013264727)
ROUND = np.float32(1.5 * 2.0**23)  # a sum with it has no fractional part
MANTISSA = np.int32(23)  # bits of the mantissa
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


# Sums must not be reordered: the addition of `ROUND` would be lost.
@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "contract"})
def gaussian_f4(G: Array, a: Array, b: Array, scale: float) -> None:
    """G[i, j] <- 2^min(scale (G[i, j] - a[i] - b[j]), 0) in float32, relative error about 3e-7.

    2^t = 2^n 2^r with n the integer nearest to t. The exponent n is added to the bits of the second
    factor, a polynomial of least relative error that is one at zero.
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
    """G[i, j] <- exp(min(G[i, j] - a[i] - b[j], 0)) in float64, to rounding; 0 below 1e-303."""
    for i in range(G.shape[0]):
        row = G[i]
        for j in range(row.size):
            s = row[j] - a[i] - b[j]
            row[j] = s if s < 0.0 else 0.0
        exp_of_nonpositive(row)
        for j in range(row.size):
            row[j] = row[j] if row[j] > SMALLEST else 0.0


@njit(cache=True, nogil=True)
def extremes(D: Dual) -> tuple[float, float]:
    """The largest `rise` and the smallest `fall`."""
    top, bottom = -BIG, BIG
    for k in range(D.F.size):
        rise = D.F[k] - (D.kink if D.beta[k] >= 0.0 else -D.kink)
        if D.beta[k] < D.hi[k] and rise > top:
            top = rise
        fall = D.F[k] - (D.kink if D.beta[k] > 0.0 else -D.kink)
        if D.beta[k] > D.lo[k] and fall < bottom:
            bottom = fall
    return top, bottom


@njit(cache=True, nogil=True)
def best_intercept(D: Dual, F: Array) -> float:
    """The b that minimises the sum of loss_i(F_i - b): the midpoint if there are several.

    The slope of the sum in b starts at -sum(hi) and grows by hi_i at F_i - kink and by -lo_i at
    F_i + kink. The first of these breakpoints after which it is not negative lies in (left, right],
    which is bisected.
    """
    at, weight, start = np.empty(2 * F.size), np.empty(2 * F.size), 0.0
    n = 0
    for k in range(F.size):
        start -= D.hi[k]
        if D.hi[k] > 0.0:
            at[n], weight[n] = F[k] - D.kink, D.hi[k]
            n += 1
        if D.lo[k] < 0.0:
            at[n], weight[n] = F[k] + D.kink, -D.lo[k]
            n += 1
    flat = -1e-12 * start
    left, right = -BIG, BIG
    while True:
        first, last = BIG, -BIG
        for k in range(n):
            if left < at[k] <= right:
                first, last = min(first, at[k]), max(last, at[k])
        middle = first + 0.5 * (last - first)
        if middle >= last:  # neighbours, or one and the same
            middle = first
        slope, after = start, BIG
        for k in range(n):
            if at[k] <= middle:
                slope += weight[k]
            else:
                after = min(after, at[k])
        if slope < -flat:
            left = middle
        elif middle > first:
            right = middle
        else:
            return 0.5 * (first + after) if slope <= flat and after < BIG else first


@njit(cache=True, nogil=True)
def certify(D: Dual, E: Array) -> tuple[float, float, float]:
    """Violation, best intercept and duality gap, the largest that errors of E in F allow.

    Where beta can only grow or only shrink, F is shifted by E towards the margin. Otherwise the
    error may have either sign. The summands of the gap, loss_i(r_i) + kink |beta_i| - beta_i r_i,
    are convex in the residual r_i = F_i - b, so the largest ones are at an end.
    """
    worst, top, bottom = 0.0, -BIG, BIG
    F, slack = np.empty(E.size), np.empty(E.size)
    for k in range(E.size):
        up, low = D.beta[k] < D.hi[k], D.beta[k] > D.lo[k]
        free = up and low and D.beta[k] != 0.0
        slack[k] = E[k] if up == low else 0.0
        F[k] = D.F[k] + (0.0 if up == low else (E[k] if up else -E[k]))
        if free and E[k] > worst:
            worst = E[k]
        error = 0.0 if free else E[k]
        rise = D.F[k] - (D.kink if D.beta[k] >= 0.0 else -D.kink) + error
        if up and rise > top:
            top = rise
        fall = D.F[k] - (D.kink if D.beta[k] > 0.0 else -D.kink) - error
        if low and fall < bottom:
            bottom = fall
    b, gap = best_intercept(D, F), 0.0
    for k in range(2 * E.size):
        i = k // 2
        r = F[i] - b + (slack[i] if k % 2 else -slack[i])
        loss = D.hi[i] * max(0.0, r - D.kink) + D.lo[i] * min(0.0, r + D.kink)
        summand = loss + D.kink * abs(D.beta[i]) - D.beta[i] * r
        if k % 2 == 0:
            other = summand
        else:
            gap += max(summand, other)
    return top - bottom + 2.0 * worst, b, gap


@njit(cache=True, nogil=True)
def take_block(rows: Array, slots: Array, W: Array, block: Array) -> None:
    """``block <- K[W, W]`` from the cached rows."""
    for s in range(W.size):
        row, out = rows[slots[s]], block[s]
        for t in range(W.size):
            out[t] = row[W[t]]


@njit(cache=True, nogil=True)
def _largest(bits: Array) -> int:
    """Index of the largest of the float32 numbers with these bits.

    The compiler takes the maximum of floats one by one, but that of integers by vector
    instructions. With the lower bits of negative numbers flipped, both orders are the same.
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

    `points` has one column per point, and its number of rows is a multiple of four.
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


@njit(inline="always")
def _set_offsets(D: Dual, k: int, grow: Array, shrink: Array) -> None:
    """rise = F + grow and -fall = shrink - F; -BIG where beta cannot move that way."""
    grow[k] = -BIG if D.beta[k] >= D.hi[k] else (-D.kink if D.beta[k] >= 0.0 else D.kink)
    shrink[k] = -BIG if D.beta[k] <= D.lo[k] else (D.kink if D.beta[k] > 0.0 else -D.kink)


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def solve_block(tally: Array, rows: KernelRows, D: Dual, tol: float, max_steps: int) -> None:
    """Two-variable SMO with second-order selection; D.beta and D.F are overwritten.

    It ends when the violation inside the block is at most `tol`. The variables are selected in
    float32, the precision of K; beta and F are float64. `tally` counts the steps and the rows of K
    that are computed here.
    """
    K, slots, known, points, halves = rows
    f, b, lo, hi = D.F, D.beta, D.lo, D.hi
    q = f.size
    diag = np.empty(q, np.float32)
    grow, shrink = np.empty(q), np.empty(q)
    up = np.empty(q, np.float32)  # rise
    low = np.empty(q, np.float32)  # -fall
    gain = np.empty(q, np.float32)
    for k in range(q):
        diag[k] = K[slots[k], k] if known[k] else ONE
        _set_offsets(D, k, grow, shrink)
    K_i = K_j = diag  # any two rows: nothing has moved yet
    t = 0.0
    for _ in range(max_steps):
        for k in range(q):
            f[k] -= t * (K_i[k] - K_j[k])
            up[k] = f[k] + grow[k]
            low[k] = shrink[k] - f[k]
        i, j = _largest(up.view(np.int32)), _largest(low.view(np.int32))
        top = f[i] + grow[i]
        if grow[i] == -BIG or shrink[j] == -BIG or top + shrink[j] - f[j] <= tol:
            return
        if not known[i]:
            _gaussian_row(points, halves, i, K)
            known[i] = True
            tally[1] += 1
        K_i = K[slots[i]]
        top_f4, diag_i = up[i], diag[i]
        for k in range(q):
            d = top_f4 + low[k]
            d = d if d > ZERO else ZERO
            eta = diag_i + diag[k] - TWO * K_i[k]
            eta = eta if eta > TAU else TAU
            gain[k] = d * d / eta
        j = _largest(gain.view(np.int32))
        slope = top + shrink[j] - f[j]
        if slope <= 0.0:
            return  # the violation is below the rounding of float32
        if not known[j]:
            _gaussian_row(points, halves, j, K)
            known[j] = True
            tally[1] += 1
        K_j = K[slots[j]]
        t = slope / max(diag_i + diag[j] - TWO * K_i[j], TAU)
        # beta_i grows at most to its next kink or bound, beta_j shrinks likewise.
        end_i = hi[i] if b[i] >= 0.0 else 0.0
        end_j = lo[j] if b[j] <= 0.0 else 0.0
        room_i, room_j = end_i - b[i], b[j] - end_j
        t = min(t, room_i, room_j)
        # A bound that is reached is reached exactly: rounding would leave a point that looks free.
        b[i] = end_i if t == room_i else b[i] + t
        b[j] = end_j if t == room_j else b[j] - t
        _set_offsets(D, i, grow, shrink)
        _set_offsets(D, j, grow, shrink)
        tally[0] += 1
    for k in range(q):
        f[k] -= t * (K_i[k] - K_j[k])


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "contract", "reassoc"})
def move_rows(F: Array, G: Array, rows: Array, slots: Array, d: Array, a: Array) -> None:
    """F <- F - sum_s d_s K[s] and G <- G + sum_s a_s K[s]: float32 rows, float64 sums.

    Four rows are added at a time; the last one is repeated with weight zero.
    """
    last = d.size - 1
    for s in range(0, d.size, 4):
        s1, s2, s3 = min(s + 1, last), min(s + 2, last), min(s + 3, last)
        c0, a0, r0 = d[s], a[s], rows[slots[s]]
        c1, a1, r1 = d[s1] * (s1 == s + 1), a[s1] * (s1 == s + 1), rows[slots[s1]]
        c2, a2, r2 = d[s2] * (s2 == s + 2), a[s2] * (s2 == s + 2), rows[slots[s2]]
        c3, a3, r3 = d[s3] * (s3 == s + 3), a[s3] * (s3 == s + 3), rows[slots[s3]]
        for k in range(F.size):
            F[k] -= (c0 * r0[k] + c1 * r1[k]) + (c2 * r2[k] + c3 * r3[k])
            G[k] += (a0 * r0[k] + a1 * r1[k]) + (a2 * r2[k] + a3 * r3[k])
