r"""Loops of the accelerated coordinate methods.

All of them are one recursion on the main sequence x and the second sequence z, u = x - z:

========  =========  ===============================================================
symbol    name       meaning
========  =========  ===============================================================
kappa_t   ``k``      the derivative is asked at q = z + kappa_t u
beta_t    ``be``     z moves towards q by this share
a_t       ``a``      weight of the step of z
========  =========  ===============================================================

    x_+ = q + dx e_i,   z_+ = z + beta_t (q - z) + dz e_i,   so that
    u_+ = (1 - beta_t) kappa_t u + (dx - dz) e_i.

Stored are z^ and u^ with z = z^ + s u^, u = r u^: a step changes s, r and one coordinate of each.
When r falls below `FOLD`, s and r are folded into the vectors: O(n) work every few n steps, and no
cancellation between z^ and s u^. A partial derivative of a quadratic is a dot product of one row
with z^ and u^; for the others the products A z^ and A u^ are carried along.

What the loops call stays in their file: Numba's cache of a loop looks at no other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload
from numpy.typing import NDArray

from geartrain.compiled.vector_exp import exp_of_nonpositive
from geartrain.oracles.protocols import Vector

# With a threshold of 1e-6 the iterates lose two digits more.
FOLD = 1e-3

LOSSES = ("logistic", "squared", "smoothed_hinge", "huber", "squared_hinge")
LOGISTIC, SQUARED, SMOOTHED_HINGE, HUBER, SQUARED_HINGE = range(5)
# Sums may be reordered and products fused; NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz"}


# A term by coordinates: row i of `rows`, or of the sparse triple, is column i of A or Q. Each kind
# has a type of its own, so that a loop is compiled for it alone.
class Dense(NamedTuple):
    """Quadratic, Q an array."""

    rows: Vector
    b: Vector


class Sparse(NamedTuple):
    """Quadratic, Q sparse."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: Vector
    b: Vector


class DenseModel(NamedTuple):
    """LinearModel, A an array."""

    rows: Vector
    y: Vector
    ridge: Vector  # l2 by coordinate
    loss: int
    param: float  # mu of smoothed_hinge, delta of huber


class SparseModel(NamedTuple):
    """LinearModel, A sparse."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: Vector
    y: Vector
    ridge: Vector
    loss: int
    param: float


class DenseSoftmax(NamedTuple):
    """LogSumExp, A an array."""

    rows: Vector
    c: Vector


class SparseSoftmax(NamedTuple):
    """LogSumExp, A sparse, without its empty rows."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: Vector
    c: Vector
    empty: float  # the number of rows left out


Columns = Dense | Sparse | DenseModel | SparseModel | DenseSoftmax | SparseSoftmax


@njit(cache=True)
def _slope(loss: int, param: float, y: float, z: float) -> float:
    """Derivative of the loss in the prediction z."""
    if loss == SQUARED:
        return z - y
    if loss == HUBER:
        return min(max(z - y, -param), param)
    if loss == SQUARED_HINGE:
        return -2.0 * y * max(0.0, 1.0 - y * z)
    t = -y * z if loss == LOGISTIC else (1.0 - y * z) / param
    if t >= 0.0:
        return -y / (1.0 + math.exp(-t))
    e = math.exp(t)
    return -y * e / (1.0 + e)


def partial(T: Columns, Pz: Vector, Pu: Vector, z: Vector, u: Vector, c: float, i: int) -> float:
    """The i-th partial derivative of the term at z + c u; Pz, Pu are A z and A u."""
    raise NotImplementedError("compiled code only")


def move(T: Columns, Pz: Vector, Pu: Vector, i: int, dz: float, du: float) -> None:
    """Carry the products along when coordinate i of z^ and u^ changes by dz and du."""
    raise NotImplementedError("compiled code only")


@overload(partial, jit_options={"fastmath": _FAST})
def _partial(T: Any, Pz: Any, Pu: Any, z: Any, u: Any, c: Any, i: Any) -> Any:
    return _PARTIAL[T.instance_class]


@overload(move, jit_options={"fastmath": _FAST})
def _move(T: Any, Pz: Any, Pu: Any, i: Any, dz: Any, du: Any) -> Any:
    return _MOVE.get(T.instance_class, _move_nothing)


def _dense(T: Any, Pz: Any, Pu: Any, z: Any, u: Any, c: Any, i: Any) -> Any:
    first = second = 0.0
    for j in range(z.size):
        first += T.rows[i, j] * z[j]
        second += T.rows[i, j] * u[j]
    return first + c * second - T.b[i]


def _sparse(T: Any, Pz: Any, Pu: Any, z: Any, u: Any, c: Any, i: Any) -> Any:
    total = 0.0
    for l in range(T.indptr[i], T.indptr[i + 1]):
        j = T.indices[l]
        total += T.data[l] * (z[j] + c * u[j])
    return total - T.b[i]


def _dense_model(T: Any, Pz: Any, Pu: Any, z: Any, u: Any, c: Any, i: Any) -> Any:
    total = 0.0
    if T.loss == LOGISTIC or T.loss == SMOOTHED_HINGE:
        t, e = np.empty_like(Pz), np.empty_like(Pz)
        for j in range(Pz.size):
            margin = T.y[j] * (Pz[j] + c * Pu[j])
            t[j] = -margin if T.loss == LOGISTIC else (1.0 - margin) / T.param
            e[j] = -abs(t[j])
        exp_of_nonpositive(e)
        for j in range(Pz.size):
            share = 1.0 if t[j] >= 0.0 else e[j]
            total -= T.rows[i, j] * T.y[j] * (share / (1.0 + e[j]))
    else:
        for j in range(Pz.size):
            total += T.rows[i, j] * _slope(T.loss, T.param, T.y[j], Pz[j] + c * Pu[j])
    return total / Pz.size + T.ridge[i] * (z[i] + c * u[i])


def _sparse_model(T: Any, Pz: Any, Pu: Any, z: Any, u: Any, c: Any, i: Any) -> Any:
    total = 0.0
    for l in range(T.indptr[i], T.indptr[i + 1]):
        j = T.indices[l]
        total += T.data[l] * _slope(T.loss, T.param, T.y[j], Pz[j] + c * Pu[j])
    return total / Pz.size + T.ridge[i] * (z[i] + c * u[i])


@njit(cache=True, fastmath=_FAST)
def _shifted_scores(Pz: Vector, Pu: Vector, c: float, top: float) -> tuple[float, Vector]:
    """The largest score (or `top`, if that is larger), and the scores without it."""
    scores = np.empty_like(Pz)
    for j in range(Pz.size):
        scores[j] = Pz[j] + c * Pu[j]
        top = max(top, scores[j])
    for j in range(Pz.size):
        scores[j] -= top
    return top, scores


def _dense_softmax(T: Any, Pz: Any, Pu: Any, z: Any, u: Any, c: Any, i: Any) -> Any:
    scores = _shifted_scores(Pz, Pu, c, Pz[0] + c * Pu[0])[1]
    exp_of_nonpositive(scores)
    total = mass = 0.0
    for j in range(scores.size):
        mass += scores[j]
        total += T.rows[i, j] * scores[j]
    return total / mass - T.c[i]


def _sparse_softmax(T: Any, Pz: Any, Pu: Any, z: Any, u: Any, c: Any, i: Any) -> Any:
    # An empty row has score 0.
    top, scores = _shifted_scores(Pz, Pu, c, 0.0 if T.empty > 0.0 else Pz[0] + c * Pu[0])
    exp_of_nonpositive(scores)
    total, mass = 0.0, T.empty * math.exp(-top)
    for j in range(scores.size):
        mass += scores[j]
    for l in range(T.indptr[i], T.indptr[i + 1]):
        total += T.data[l] * scores[T.indices[l]]
    return total / mass - T.c[i]


def _move_nothing(T: Any, Pz: Any, Pu: Any, i: Any, dz: Any, du: Any) -> Any:
    pass


def _move_dense(T: Any, Pz: Any, Pu: Any, i: Any, dz: Any, du: Any) -> Any:
    for j in range(Pz.size):
        Pz[j] += dz * T.rows[i, j]
        Pu[j] += du * T.rows[i, j]


def _move_sparse(T: Any, Pz: Any, Pu: Any, i: Any, dz: Any, du: Any) -> Any:
    for l in range(T.indptr[i], T.indptr[i + 1]):
        j = T.indices[l]
        Pz[j] += dz * T.data[l]
        Pu[j] += du * T.data[l]


_PARTIAL = {
    Dense: _dense,
    Sparse: _sparse,
    DenseModel: _dense_model,
    SparseModel: _sparse_model,
    DenseSoftmax: _dense_softmax,
    SparseSoftmax: _sparse_softmax,
}
_MOVE = {
    DenseModel: _move_dense,
    SparseModel: _move_sparse,
    DenseSoftmax: _move_dense,
    SparseSoftmax: _move_sparse,
}


@njit(cache=True)
def fold(z: Vector, u: Vector, s: float, r: float) -> None:
    """z^ <- z^ + s u^, u^ <- r u^."""
    for j in range(z.size):
        z[j] += s * u[j]
        u[j] *= r


@njit(cache=True)
def advance(
    tally: NDArray[np.int64],
    T: Columns,
    Pz: Vector,
    Pu: Vector,
    z: Vector,
    u: Vector,
    index: NDArray[np.int64],
    k: Vector,
    be: Vector,
    a: Vector,
    step_x: Vector,
    step_z: Vector,
    beta: Vector,
    alpha: float,
    composite: bool,
) -> None:
    """Steps of a coordinate method on <beta, .> + alpha/2 |.|^2 + term, in place.

    Plain: dx = -step_x_i d, dz = -a_t step_z_i d with d the derivative of phi. Composite (APPROX):
    dz = -(d_i + beta_i + alpha z_i)/(a_t/step_x_i + alpha), dx = a_t dz with d that of the term.
    """
    s, r = 0.0, 1.0
    for t in range(index.size):
        i = index[t]
        c = s + k[t] * r
        tally[0] += 1
        d = partial(T, Pz, Pu, z, u, c, i) + beta[i]
        if composite:
            dz = -(d + alpha * (z[i] + s * u[i])) / (a[t] / step_x[i] + alpha)
            dx = a[t] * dz
        else:
            d += alpha * (z[i] + c * u[i])
            dx = -step_x[i] * d
            dz = -a[t] * step_z[i] * d
        s += be[t] * k[t] * r
        r *= (1.0 - be[t]) * k[t]
        if r < FOLD:
            fold(z, u, s, r)
            fold(Pz, Pu, s, r)
            s, r = 0.0, 1.0
        du = (dx - dz) / r
        dz -= s * du
        z[i] += dz
        u[i] += du
        move(T, Pz, Pu, i, dz, du)
    fold(z, u, s, r)
    fold(Pz, Pu, s, r)


@njit(cache=True)
def advance_sum(
    tally_h: NDArray[np.int64],
    tally_g: NDArray[np.int64],
    H: Columns,
    Hz: Vector,
    Hu: Vector,
    G: Columns,
    Gz: Vector,
    Gu: Vector,
    z: Vector,
    u: Vector,
    index: NDArray[np.int64],
    k: Vector,
    be: Vector,
    a: Vector,
    step_x: Vector,
    step_z: Vector,
) -> None:
    """`advance` on the sum of two terms."""
    s, r = 0.0, 1.0
    for t in range(index.size):
        i = index[t]
        c = s + k[t] * r
        tally_h[0] += 1
        d = partial(H, Hz, Hu, z, u, c, i)
        tally_g[0] += 1
        d += partial(G, Gz, Gu, z, u, c, i)
        s += be[t] * k[t] * r
        r *= (1.0 - be[t]) * k[t]
        if r < FOLD:
            fold(z, u, s, r)
            fold(Hz, Hu, s, r)
            fold(Gz, Gu, s, r)
            s, r = 0.0, 1.0
        dz = -a[t] * step_z[i] * d
        du = (-step_x[i] * d - dz) / r
        dz -= s * du
        z[i] += dz
        u[i] += du
        move(H, Hz, Hu, i, dz, du)
        move(G, Gz, Gu, i, dz, du)
    fold(z, u, s, r)
    fold(Hz, Hu, s, r)
    fold(Gz, Gu, s, r)


@njit
def advance_user(
    tally: NDArray[np.int64],
    coord: Any,
    z: Vector,
    u: Vector,
    index: NDArray[np.int64],
    k: Vector,
    be: Vector,
    a: Vector,
    step_x: Vector,
    step_z: Vector,
    beta: Vector,
    alpha: float,
    composite: bool,
) -> None:
    """`advance` for a jitted ``coord(x, i)``, which is shown the whole point: O(n) a step."""
    q = np.empty_like(z)
    s, r = 0.0, 1.0
    for t in range(index.size):
        i = index[t]
        c = s + k[t] * r
        for j in range(z.size):
            q[j] = z[j] + c * u[j]
        tally[0] += 1
        d = coord(q, i) + beta[i]
        if composite:
            dz = -(d + alpha * (z[i] + s * u[i])) / (a[t] / step_x[i] + alpha)
            dx = a[t] * dz
        else:
            d += alpha * (z[i] + c * u[i])
            dx = -step_x[i] * d
            dz = -a[t] * step_z[i] * d
        s += be[t] * k[t] * r
        r *= (1.0 - be[t]) * k[t]
        if r < FOLD:
            fold(z, u, s, r)
            s, r = 0.0, 1.0
        du = (dx - dz) / r
        z[i] += dz - s * du
        u[i] += du
    fold(z, u, s, r)
