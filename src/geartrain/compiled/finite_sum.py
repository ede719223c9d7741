r"""One epoch of a variance-reduced method on a linear model, dense and CSR.

All methods of `geartrain.methods.inner` for finite sums share one recursion, which is diagonal in
the variables z and w (see `geartrain.methods.inner.recursion`):

====================  =============  ========================================================
symbol                name           meaning
====================  =============  ========================================================
z                     ``z``          mirror sequence, z_+ = r (z - G - a c a_k)
w = y - k z - f       ``w``          the remainder of y, w_+ = t3 w + q c a_k
x                     --             x1 z + t3 w + X0, the point at which the component is evaluated
c                     ``c``          (loss'(<a_k, x>) - loss'(<a_k, xt>))/(m p_k)
sum_j rho^{l-j} y_j   ``acc``        without the part of f: acc_+ = rho acc + k z_+ + w_+
====================  =============  ========================================================
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

from geartrain.compiled.jit import njit
from geartrain.compiled.losses import LossCode, slope
from geartrain.oracles.protocols import Vector

# Without nnan and ninf: NaN marks a slope that is not yet known, and exp may overflow.
_FAST = {"reassoc", "contract", "arcp", "nsz"}

# What a step of the CSR kernel needs of its component: half a cache line.
COMPONENT = np.dtype(
    [
        ("y", "f8"),  # label or target
        ("scale", "f8"),  # 1/(m p_k)
        ("slope", "f8"),  # loss'(<a_k, xt>) at the snapshot; NaN where it is not yet known
        ("start", "i8"),  # of the row in `data`; the row ends where the next one starts
    ]
)
# What it needs of a coordinate: one cache line.
_COORDINATE = np.dtype([(name, "f8") for name in ("z", "w", "G", "X0", "acc", "xt", "_6", "_7")])

# The scaled variables are written out when their scales have fallen this far. Below 1e-3 the
# rounding of z would become visible; w depends on its recent past only, so that its scale may fall
# as far as the range of float64 allows.
_LOW_R, _LOW_S = 1e-3, 1e-250
# Rows that are touched together before they are used, so that their cache misses overlap.
_PREFETCHED = 16


class DenseRows(NamedTuple):
    """The data of a linear model, A an array."""

    A: Vector
    y: Vector
    scale: Vector  # 1/(m p_k)
    slopes: Vector  # loss'(<a_k, xt>) at the snapshot, NaN where not yet known; filled in


class SparseRows(NamedTuple):
    """The data of a linear model, A in CSR form with at most one entry per coordinate and row."""

    data: Vector
    indices: NDArray[np.uint32]
    components: NDArray[Any]  # of dtype COMPONENT, one more than there are rows; slopes filled in


class Recursion(NamedTuple):
    """The numbers of the recursion on one group of coordinates."""

    r: float
    t3: float
    k: float
    q: float
    a: float
    x1: float


class EpochData(NamedTuple):
    """An epoch: what is given, and the sequences, which the kernels overwrite."""

    loss: LossCode
    order: NDArray[np.int64]  # the sampled components
    xt: Vector  # snapshot
    G: Vector  # a (grad g(xt) + beta), without the part of the quadratic
    X0: Vector  # the part of x that no component changes
    z: Vector
    w: Vector
    acc: Vector
    features: Recursion
    intercept: Recursion  # of the last coordinate, where the model has an intercept
    rho: float


@njit(cache=True)
def _intercept_of_x(e: EpochData) -> float:
    """The last coordinate of x."""
    return e.intercept.x1 * e.z[-1] + e.intercept.t3 * e.w[-1] + e.X0[-1]


@njit(cache=True)
def _step_of_intercept(e: EpochData, c: float) -> None:
    """One step on the last coordinate, whose entry in every row is one."""
    R = e.intercept
    e.z[-1] = R.r * (e.z[-1] - e.G[-1] - R.a * c)
    e.w[-1] = R.t3 * e.w[-1] + R.q * c
    e.acc[-1] = e.rho * e.acc[-1] + R.k * e.z[-1] + e.w[-1]


@njit(cache=True, fastmath=_FAST)
def epoch_dense(tally: NDArray[np.int64], rows: DenseRows, e: EpochData) -> None:
    """Make the steps of `e.order` with dense rows."""
    n, l = rows.A.shape[1], e.order.size
    has_intercept = e.xt.size > n
    r, t3, k_z, q, a, x1 = e.features
    z, w, acc, G, X0, xt, rho = e.z, e.w, e.acc, e.G, e.X0, e.xt, e.rho
    row = rows.A[e.order[0]]
    p = 0.0  # prediction <a_k, x>
    for i in range(n):
        p += row[i] * (x1 * z[i] + t3 * w[i] + X0[i])
    for j in range(l):
        k = e.order[j]
        if has_intercept:
            p += _intercept_of_x(e)
        if np.isnan(rows.slopes[k]):
            at_snapshot = xt[n] if has_intercept else 0.0
            for i in range(n):
                at_snapshot += row[i] * xt[i]
            rows.slopes[k] = slope(e.loss, rows.y[k], at_snapshot)
            tally[0] += 1
        c = (slope(e.loss, rows.y[k], p) - rows.slopes[k]) * rows.scale[k]
        tally[0] += 1
        # One pass makes the step and the prediction of the next step.
        following = rows.A[e.order[min(j + 1, l - 1)]]
        ac, qc = a * c, q * c
        p = 0.0
        for i in range(n):
            z_i = r * (z[i] - G[i] - ac * row[i])
            w_i = t3 * w[i] + qc * row[i]
            z[i] = z_i
            w[i] = w_i
            acc[i] = rho * acc[i] + k_z * z_i + w_i
            p += following[i] * (x1 * z_i + t3 * w_i + X0[i])
        if has_intercept:
            _step_of_intercept(e, c)
        row = following


@njit(cache=True)
def pick_by_alias(u: Vector, keep: Vector, other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Take k = floor(u) with probability keep[k], else other[k], for u uniform on [0, m)."""
    out = np.empty(u.size, dtype=np.int64)
    for j in range(u.size):
        k = int(u[j])
        out[j] = k if u[j] - k < keep[k] else other[k]
    return out


@njit(cache=True)
def _impulses(R: Recursion, rho: float, l: int) -> tuple[Vector, float, float, float]:
    """What the unit impulse of step j adds to the final `acc`, and what z, G and w add to it.

    The impulse moves z_i by -a r^{i-j} and w_i by q t3^{i-j-1} for all i > j. The recurrences in
    the number of remaining steps neither overflow nor cancel: nothing is divided by 1 - r.
    """
    out = np.empty(l)
    of_z = of_G = of_w = E = 0.0
    r_power = t3_power = 1.0
    for left in range(1, l + 1):
        r_power *= R.r
        E = R.r * (E + 1.0)
        of_z = rho * of_z + r_power
        of_G = rho * of_G + E
        of_w = rho * of_w + t3_power
        t3_power *= R.t3
        out[l - left] = R.q * of_w - R.k * R.a * of_z
    return out, R.k * of_z, -R.k * of_G, R.t3 * of_w


@njit(cache=True, fastmath=_FAST)
def epoch_csr(tally: NDArray[np.int64], rows: SparseRows, n: int, e: EpochData) -> float:
    """Make the steps of `e.order` on n features in O(nonzeros of the row) operations each.

    Stored are scaled variables zs and ws with z = R zs - E G and w = S ws: a step multiplies the
    three numbers R, E, S and changes zs and ws only where the row has entries. What a step adds to
    `acc` in all steps to come is known in advance, so that acc, too, changes only there. The
    returned sum has no meaning; it keeps the compiler from leaving out the prefetch.
    """
    has_intercept = e.xt.size > n
    r, t3, _, q, a, x1 = e.features
    data, indices, components, order = rows.data, rows.indices, rows.components, e.order
    l = order.size
    on_acc, of_z, of_G, of_w = _impulses(e.features, e.rho, l)
    P = np.zeros(n, dtype=_COORDINATE)
    for i in range(n):
        P[i].z, P[i].w, P[i].G, P[i].X0, P[i].xt = e.z[i], e.w[i], e.G[i], e.X0[i], e.xt[i]
        P[i].acc = of_z * e.z[i] + of_G * e.G[i] + of_w * e.w[i]
    R, E, S = 1.0, 0.0, 1.0
    prefetched = 0.0
    for j in range(l):
        if j % _PREFETCHED == 0:
            for t in range(j, min(j + _PREFETCHED, l)):
                k = order[t]
                first, last = components[k].start, max(components[k + 1].start - 1, 0)
                prefetched += data[first] + data[last] + indices[first] + indices[last]
        k = order[j]
        y, scale, at_snapshot = components[k].y, components[k].scale, components[k].slope
        start, stop = components[k].start, components[k + 1].start
        # The divisions do not wait for c.
        gain_z = -a / R
        gain_w = q / (S * t3) if t3 > 0.0 else 0.0  # t3 = 0 has q = 0
        on_z = on_w = on_G = on_X0 = 0.0
        for s in range(start, stop):
            i, v = indices[s], data[s]
            on_z += v * P[i].z
            on_w += v * P[i].w
            on_G += v * P[i].G
            on_X0 += v * P[i].X0
        p = x1 * (R * on_z - E * on_G) + t3 * S * on_w + on_X0  # prediction <a_k, x>
        if has_intercept:
            p += _intercept_of_x(e)
        if np.isnan(at_snapshot):
            p_snapshot = e.xt[n] if has_intercept else 0.0
            for s in range(start, stop):
                p_snapshot += data[s] * P[indices[s]].xt
            at_snapshot = slope(e.loss, y, p_snapshot)
            components[k].slope = at_snapshot
            tally[0] += 1
        c = (slope(e.loss, y, p) - at_snapshot) * scale
        tally[0] += 1
        # z_+ = r z - r G - r a c a_k and w_+ = t3 w + q c a_k
        dz, dw, dacc = gain_z * c, gain_w * c, on_acc[j] * c
        if t3 > 0.0:
            S *= t3
        elif j == 0:
            for i in range(n):
                P[i].w = 0.0
        R *= r
        E = r * (E + 1.0)
        for s in range(start, stop):
            i, v = indices[s], data[s]
            P[i].z += dz * v
            P[i].w += dw * v
            P[i].acc += dacc * v
        if has_intercept:
            _step_of_intercept(e, c)
        if R < _LOW_R or S < _LOW_S or j == l - 1:
            for i in range(n):
                P[i].z = R * P[i].z - E * P[i].G
                P[i].w *= S
            R, E, S = 1.0, 0.0, 1.0
    for i in range(n):
        e.z[i], e.w[i], e.acc[i] = P[i].z, P[i].w, P[i].acc
    return prefetched


# Compiled loops over a user's own Numba function ``component(x, k)``.
#
# They are compiled again for each such function, so they are not cached on disk.


def is_compiled(fn: Any) -> bool:
    """Whether Numba can call `fn` from compiled code."""
    return isinstance(fn, Dispatcher)


@cache
def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """The loop as a Numba function, compiled at its first call with a given component."""
    return njit(loop)
