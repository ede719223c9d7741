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
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]

BIG = 1e30  # beyond any F, and no infinity: `fastmath` may assume that there is none
TAU = np.float32(1e-12)  # curvature of a pair of equal points, as in LIBSVM
ZERO, TWO = np.float32(0.0), np.float32(2.0)


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def gaussian_f4(G: Array, a: Array, b: Array) -> None:
    """G[i, j] <- exp(min(G[i, j] - a[i] - b[j], 0)) in float32, relative error about 1e-6.

    exp(s) = 2^n 2^r with n the nearest integer to s / ln 2; 2^r by its Taylor polynomial and 2^n
    by its bits, so that the compiler makes vector instructions of both loops.
    """
    m = G.shape[1]
    bits = np.empty(m, np.int32)
    power = bits.view(np.float32)
    for i in range(G.shape[0]):
        row = G[i]
        a_i = a[i]
        for j in range(m):
            t = (row[j] - a_i - b[j]) * np.float32(1.4426950408889634)
            t = min(max(t, np.float32(-126.0)), np.float32(0.0))
            n = np.floor(t + np.float32(0.5))
            r = t - n
            bits[j] = (np.int32(n) + np.int32(127)) << np.int32(23)
            p = np.float32(1.5403530393381609e-4)
            p = p * r + np.float32(1.3333558146428443e-3)
            p = p * r + np.float32(9.6181291076284772e-3)
            p = p * r + np.float32(5.5504108664821580e-2)
            p = p * r + np.float32(2.4022650695910071e-1)
            p = p * r + np.float32(6.9314718055994531e-1)
            row[j] = p * r + np.float32(1.0)
        for j in range(m):
            row[j] *= power[j]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def gaussian_f8(G: Array, a: Array, b: Array) -> None:
    """The same in float64, to rounding."""
    m = G.shape[1]
    bits = np.empty(m, np.int64)
    power = bits.view(np.float64)
    for i in range(G.shape[0]):
        row = G[i]
        a_i = a[i]
        for j in range(m):
            t = min(max((row[j] - a_i - b[j]) * 1.4426950408889634, -1022.0), 0.0)
            n = np.floor(t + 0.5)
            r = t - n
            bits[j] = (np.int64(np.int32(n)) + 1023) << 52
            p = 2.5678435993488206e-11
            p = p * r + 4.4455382718708114e-10
            p = p * r + 7.0549116208011233e-9
            p = p * r + 1.0178086009239699e-7
            p = p * r + 1.3215486790144309e-6
            p = p * r + 1.5252733804059840e-5
            p = p * r + 1.5403530393381609e-4
            p = p * r + 1.3333558146428443e-3
            p = p * r + 9.6181291076284772e-3
            p = p * r + 5.5504108664821580e-2
            p = p * r + 2.4022650695910071e-1
            p = p * r + 6.9314718055994531e-1
            row[j] = p * r + 1.0
        for j in range(m):
            row[j] *= power[j]


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
def _sift(keys: Array, items: Array, size: int) -> None:
    """Restore the heap (smallest key first) after its root was replaced."""
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            return
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[parent] <= keys[child]:
            return
        keys[parent], keys[child] = keys[child], keys[parent]
        items[parent], items[child] = items[child], items[parent]
        parent = child


@njit(cache=True, nogil=True)
def working_set(
    F: Array,
    beta: Array,
    lo: Array,
    hi: Array,
    last: Array,
    q: int,
    top: float,
    bottom: float,
) -> Array:
    """At most q points: free points of the `last` block (half of q at most), then violators.

    The violators are those with the largest F in `up` and the smallest F in `low`, half each.
    """
    taken = np.zeros(F.size, np.bool_)
    W = np.empty(q, np.int64)
    size = 0
    for k in last:
        if size < q // 2 and lo[k] < beta[k] < hi[k]:
            taken[k] = True
            W[size] = k
            size += 1
    half = (q - size) // 2
    keys = np.empty(half)
    items = np.empty(half, np.int64)
    for side in (1.0, -1.0):
        keys[:] = -BIG
        items[:] = -1
        other = bottom if side > 0.0 else -top
        for k in range(F.size):
            v = side * F[k]
            if v <= keys[0] or v <= other or taken[k]:
                continue
            if (beta[k] < hi[k]) if side > 0.0 else (beta[k] > lo[k]):
                keys[0] = v
                items[0] = k
                _sift(keys, items, half)
        for s in range(half):
            if items[s] >= 0:
                taken[items[s]] = True
                W[size] = items[s]
                size += 1
    return W[:size]


@njit(cache=True, nogil=True)
def take_block(rows: Array, slots: Array, W: Array) -> Array:
    """K[W, W] out of the cached rows."""
    q = W.size
    block = np.empty((q, q), np.float32)
    for s in range(q):
        row = rows[slots[s]]
        for t in range(q):
            block[s, t] = row[W[t]]
    return block


@njit(cache=True, nogil=True)
def _largest(bits: Array) -> int:
    """Index of the largest of the float32 numbers with these bits.

    Of floats the compiler takes the maximum one by one, of integers by vector instructions; with
    the lower bits of negative numbers flipped both orders are the same.
    """
    best = np.int32(-(2**31))
    for k in range(bits.size):
        v = bits[k] ^ ((bits[k] >> np.int32(31)) & np.int32(0x7FFFFFFF))
        if v > best:
            best = v
    best = best ^ ((best >> np.int32(31)) & np.int32(0x7FFFFFFF))
    for k in range(bits.size):
        if bits[k] == best:
            return k
    return 0


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def solve_block(
    K: Array, f: Array, b: Array, lo: Array, hi: Array, tol: float, max_steps: int
) -> int:
    """Two-variable SMO with second-order selection inside the block; b and f are overwritten.

    Ends when the violation inside the block is at most `tol`. Answers the number of steps.
    Selection is in float32, which is what K is in; f and b are float64.
    """
    q = f.size
    diag = np.empty(q, np.float32)
    no_up = np.empty(q)  # -BIG keeps a point out of `up`
    no_low = np.empty(q)  # -BIG keeps a point out of `low`
    up = np.empty(q, np.float32)  # f where b can grow
    low = np.empty(q, np.float32)  # -f where b can shrink
    gain = np.empty(q, np.float32)
    for k in range(q):
        diag[k] = K[k, k]
        no_up[k] = 0.0 if b[k] < hi[k] else -BIG
        no_low[k] = 0.0 if b[k] > lo[k] else -BIG
    K_i = K_j = K[0]
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
        K_i = K[i]
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
        K_j = K[j]
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
def subtract_rows(F: Array, rows: Array, slots: Array, d: Array) -> None:
    """F <- F - sum_s d_s K[s], float32 rows, float64 sums; four rows at a time."""
    moved = np.flatnonzero(d)
    s = 0
    while s + 4 <= moved.size:
        c0, c1, c2, c3 = d[moved[s]], d[moved[s + 1]], d[moved[s + 2]], d[moved[s + 3]]
        r0, r1 = rows[slots[moved[s]]], rows[slots[moved[s + 1]]]
        r2, r3 = rows[slots[moved[s + 2]]], rows[slots[moved[s + 3]]]
        for k in range(F.size):
            F[k] -= (c0 * r0[k] + c1 * r1[k]) + (c2 * r2[k] + c3 * r3[k])
        s += 4
    while s < moved.size:
        c0, r0 = d[moved[s]], rows[slots[moved[s]]]
        for k in range(F.size):
            F[k] -= c0 * r0[k]
        s += 1
