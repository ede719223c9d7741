r"""One epoch of a variance-reduced method on a linear model, dense and CSR.

All methods of `geartrain.methods.inner` for finite sums share one recursion, which is diagonal in
the variables z and w (see `geartrain.methods.inner.recursion`):

====================  =============  ======================================================
symbol                name           meaning
====================  =============  ======================================================
z                     ``z``          mirror sequence, z_+ = r (z - G - a c a_k)
w = y - k z - f       ``w``          the rest of y, w_+ = T w + q c a_k
x                     --             x1 z + t3 w + X0, where the component is asked
c                     ``c``          (loss'(<a_k, x>) - loss'(<a_k, xt>))/(m p_k)
sum_j rho^{l-j} y_j   ``acc``        without the part of f: acc_+ = rho acc + k z_+ + w_+
--                    ``slopes``     loss'(<a_k, xt>) of the snapshot; NaN where not yet known
--                    ``order``      the sampled components
--                    ``numbers``    rows (r, T, k, q, a, x1, t3) of the features and, where the
                                     model has one, of the intercept
====================  =============  ======================================================

The kernels work on private copies of z, w, acc and on `slopes`, which belongs to one epoch.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# No nnan, ninf: NaN marks an unknown slope, and exp may overflow.
_FAST = {"reassoc", "contract", "arcp", "nsz"}

LOSS_IDS = {"logistic": 0, "squared": 1, "smoothed_hinge": 2, "huber": 3, "squared_hinge": 4}


@njit(cache=True)
def _sigmoid(t):  # type: ignore[no-untyped-def]
    # exp may overflow to infinity, whose inverse is the right answer; no branch to mispredict.
    return 1.0 / (1.0 + math.exp(-t))


@njit(cache=True)
def slope(loss, param, y, p):  # type: ignore[no-untyped-def]
    """Derivative of the loss in the prediction p; `loss` as in LOSS_IDS."""
    if loss == 0:
        return -y * _sigmoid(-y * p)
    if loss == 1:
        return p - y
    if loss == 2:
        return -y * _sigmoid((1.0 - y * p) / param)
    if loss == 3:
        return min(max(p - y, -param), param)
    return -2.0 * y * max(0.0, 1.0 - y * p)


@njit(cache=True, fastmath=_FAST)
def epoch_dense(  # type: ignore[no-untyped-def]
    tally, A, y, loss, param, order, scale, slopes, xt, z, w, acc, G, X0, numbers, rho
):
    """Steps of `order` on the rows of A; z, w, acc and slopes are changed in place."""
    n = A.shape[1]
    bias = xt.size > n
    r, T, k_z, q, a, x1, t3 = numbers[0]
    rb, Tb, kb, qb, ab, x1b, t3b = numbers[-1]
    row = A[order[0]]
    p = 0.0
    for i in range(n):
        p += row[i] * (x1 * z[i] + t3 * w[i] + X0[i])
    for j in range(order.size):
        k = order[j]
        if bias:
            p += x1b * z[n] + t3b * w[n] + X0[n]
        if np.isnan(slopes[k]):
            at_snapshot = xt[n] if bias else 0.0
            for i in range(n):
                at_snapshot += row[i] * xt[i]
            slopes[k] = slope(loss, param, y[k], at_snapshot)
            tally[0] += 1
        c = (slope(loss, param, y[k], p) - slopes[k]) * scale[k]
        tally[0] += 1
        # One pass makes the step and the prediction of the next one.
        following = A[order[min(j + 1, order.size - 1)]]
        ac, qc = a * c, q * c
        p = 0.0
        for i in range(n):
            zi = r * (z[i] - G[i] - ac * row[i])
            wi = T * w[i] + qc * row[i]
            z[i] = zi
            w[i] = wi
            acc[i] = rho * acc[i] + k_z * zi + wi
            p += following[i] * (x1 * zi + t3 * wi + X0[i])
        if bias:
            z[n] = rb * (z[n] - G[n] - ab * c)
            w[n] = Tb * w[n] + qb * c
            acc[n] = rho * acc[n] + kb * z[n] + w[n]
        row = following


@njit(cache=True)
def pick_by_alias(u, keep, other):  # type: ignore[no-untyped-def]
    """Take k = floor(u) with probability keep[k], else other[k], for u uniform on [0, m)."""
    out = np.empty(u.size, dtype=np.int64)
    for j in range(u.size):
        k = int(u[j])
        out[j] = k if u[j] - k < keep[k] else other[k]
    return out


@njit(cache=True)
def _impulses(r, T, rho, k_z, q, a, l):  # type: ignore[no-untyped-def]
    """What the unit impulse of step j adds to the final `acc`, and what z, G and w add.

    The impulse moves z_i by -a r^{i-j} and w_i by q T^{i-j-1} for all i > j. By recurrences in
    the number of steps that are left, which neither overflow nor cancel: no division by 1 - r.
    """
    out = np.empty(l)
    of_z = of_G = of_w = E = 0.0
    R = T_left = 1.0
    for left in range(1, l + 1):
        R *= r
        E = r * (E + 1.0)
        of_z = rho * of_z + R
        of_G = rho * of_G + E
        of_w = rho * of_w + T_left
        T_left *= T
        out[l - left] = q * of_w - k_z * a * of_z
    return out, k_z * of_z, -k_z * of_G, T * of_w


# Columns of the packed coordinates: 64 bytes, one cache line.
_Z, _W, _G, _X0, _ACC, _XT = 0, 1, 2, 3, 4, 5
# The scaled variables are written out when their scales have fallen so far. Below 1e-3 rounding
# of z would show; w holds its recent past only, so its scale may fall as far as numbers go.
_LOW_R, _LOW_T = 1e-3, 1e-250
# Rows that are touched together before use: their cache misses overlap.
_BLOCK = 16


@njit(cache=True, fastmath=_FAST)
def epoch_csr(  # type: ignore[no-untyped-def]
    tally,
    data,
    indices,
    Q,
    loss,
    param,
    order,
    slopes,
    xt,
    z,
    w,
    acc,
    G,
    X0,
    numbers,
    rho,
    n,
):
    """As `epoch_dense` with O(nonzeros of the row) a step.

    Held are zs and ws with z = R zs - E G and w = S ws: a step multiplies the three numbers
    R, E, S and changes zs and ws where the row has entries. What a step adds to `acc` in all
    steps to come is known in advance, so acc changes there only, too. Rows of `Q` are (y, 1/(m p),
    slope, start of the row in `data`), one cache line for what a step needs of its component;
    the slopes are written here.
    """
    bias = xt.size > n
    r, T, k_z, q, a, x1, t3 = numbers[0]
    rb, Tb, kb, qb, ab, x1b, t3b = numbers[-1]
    l = order.size
    add, of_z, of_G, of_w = _impulses(r, T, rho, k_z, q, a, l)
    P = np.zeros((n, 8))
    for i in range(n):
        P[i, _Z], P[i, _W], P[i, _G] = z[i], w[i], G[i]
        P[i, _X0], P[i, _XT] = X0[i], xt[i]
        P[i, _ACC] = of_z * z[i] + of_G * G[i] + of_w * w[i]
    R, E, S = 1.0, 0.0, 1.0
    Q[:-1, 2] = slopes
    sink = 0.0
    for j in range(l):
        if j % _BLOCK == 0:
            for t in range(j, min(j + _BLOCK, l)):
                k = order[t]
                first, last = int(Q[k, 3]), max(int(Q[k + 1, 3]) - 1, 0)
                sink += data[first] + data[last] + indices[first] + indices[last]
        k = order[j]
        label, weight, at_snapshot = Q[k, 0], Q[k, 1], Q[k, 2]
        start, stop = int(Q[k, 3]), int(Q[k + 1, 3])
        # Gains of the step, before c is known: the divisions are off the critical path.
        gain_z = -a / R
        gain_w = q / (S * T) if T > 0.0 else 0.0  # T = 0 has q = 0
        on_z = on_w = on_G = on_X0 = 0.0
        for e in range(start, stop):
            i, v = indices[e], data[e]
            on_z += v * P[i, _Z]
            on_w += v * P[i, _W]
            on_G += v * P[i, _G]
            on_X0 += v * P[i, _X0]
        p = x1 * (R * on_z - E * on_G) + t3 * S * on_w + on_X0
        if bias:
            p += x1b * z[n] + t3b * w[n] + X0[n]
        if np.isnan(at_snapshot):
            pt = xt[n] if bias else 0.0
            for e in range(start, stop):
                pt += data[e] * P[indices[e], _XT]
            at_snapshot = slope(loss, param, label, pt)
            Q[k, 2] = at_snapshot
            tally[0] += 1
        c = (slope(loss, param, label, p) - at_snapshot) * weight
        tally[0] += 1
        # z_+ = r z - r G - r a c a_k and w_+ = T w + q c a_k
        dz, dw, dacc = gain_z * c, gain_w * c, add[j] * c
        if T > 0.0:
            S *= T
        elif j == 0:
            P[:, _W] = 0.0
        R *= r
        E = r * (E + 1.0)
        for e in range(start, stop):
            i, v = indices[e], data[e]
            P[i, _Z] += dz * v
            P[i, _W] += dw * v
            P[i, _ACC] += dacc * v
        if bias:
            z[n] = rb * (z[n] - G[n] - ab * c)
            w[n] = Tb * w[n] + qb * c
            acc[n] = rho * acc[n] + kb * z[n] + w[n]
        if R < _LOW_R or S < _LOW_T or j == l - 1:
            for i in range(n):
                P[i, _Z] = R * P[i, _Z] - E * P[i, _G]
                P[i, _W] *= S
            R, E, S = 1.0, 0.0, 1.0
    for i in range(n):
        z[i], w[i], acc[i] = P[i, _Z], P[i, _W], P[i, _ACC]
    return sink
