"""Partial derivatives of the library's terms, as the coordinate loops ask for them.

At a point z + c u that is never formed: a quadratic reads one row, the others read the products
A z and A u, which are carried along (`move`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload
from numpy.typing import NDArray

from geartrain.kernels.vector_exp import exp_of_nonpositive
from geartrain.oracles.protocols import Vector

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
    return _MOVE[T.instance_class]


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
    Dense: _move_nothing,
    Sparse: _move_nothing,
    DenseModel: _move_dense,
    SparseModel: _move_sparse,
    DenseSoftmax: _move_dense,
    SparseSoftmax: _move_sparse,
}
