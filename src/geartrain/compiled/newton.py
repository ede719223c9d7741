r"""Coordinate descent on a quadratic model of a linear model's loss, plus a separable psi.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
omega      ``omega``       second derivatives of the losses over m, one per row of A
q          ``wq``          omega times A (v - x), kept up to date
a_i        ``a``           second derivative of the model in coordinate i
W          ``W``           the working set: the coordinates that may change
=========  ==============  ==================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from geartrain.compiled.coordinate import DenseModel, SparseModel
from geartrain.compiled.jit import njit
from geartrain.compiled.losses import prox_of
from geartrain.compiled.records import Separable
from geartrain.oracles.protocols import Vector

_FAST = {"reassoc", "contract", "nsz"}


def column_dot(T: SparseModel | DenseModel, i: int, w: Vector) -> float:
    """Column i of A times w."""
    raise NotImplementedError("compiled code only")


def column_bend(T: SparseModel | DenseModel, i: int, w: Vector) -> float:
    """The squares of column i times w."""
    raise NotImplementedError("compiled code only")


def column_add(T: SparseModel | DenseModel, i: int, w: Vector, t: float, out: Vector) -> None:
    """Add t w times column i to `out`, entry by entry."""
    raise NotImplementedError("compiled code only")


@overload(column_dot, jit_options={"fastmath": _FAST})
def _column_dot(T: Any, i: Any, w: Any) -> Any:
    return _sparse_dot if T.instance_class is SparseModel else _dense_dot


@overload(column_bend, jit_options={"fastmath": _FAST})
def _column_bend(T: Any, i: Any, w: Any) -> Any:
    return _sparse_bend if T.instance_class is SparseModel else _dense_bend


@overload(column_add, jit_options={"fastmath": _FAST})
def _column_add(T: Any, i: Any, w: Any, t: Any, out: Any) -> Any:
    return _sparse_add if T.instance_class is SparseModel else _dense_add


def _sparse_dot(T: Any, i: Any, w: Any) -> Any:
    total = 0.0
    for l in range(T.indptr[i], T.indptr[i + 1]):
        total += T.data[l] * w[T.indices[l]]
    return total


def _dense_dot(T: Any, i: Any, w: Any) -> Any:
    total = 0.0
    for j in range(w.size):
        total += T.rows[i, j] * w[j]
    return total


def _sparse_bend(T: Any, i: Any, w: Any) -> Any:
    total = 0.0
    for l in range(T.indptr[i], T.indptr[i + 1]):
        total += T.data[l] * T.data[l] * w[T.indices[l]]
    return total


def _dense_bend(T: Any, i: Any, w: Any) -> Any:
    total = 0.0
    for j in range(w.size):
        total += T.rows[i, j] * T.rows[i, j] * w[j]
    return total


def _sparse_add(T: Any, i: Any, w: Any, t: Any, out: Any) -> Any:
    for l in range(T.indptr[i], T.indptr[i + 1]):
        j = T.indices[l]
        out[j] += t * w[j] * T.data[l]


def _dense_add(T: Any, i: Any, w: Any, t: Any, out: Any) -> Any:
    for j in range(w.size):
        out[j] += t * w[j] * T.rows[i, j]


@njit(cache=True)
def bends(
    tally: NDArray[np.int64],
    T: SparseModel | DenseModel,
    W: NDArray[np.int64],
    omega: Vector,
    shift: float,
) -> Vector:
    """a_i for all i in W: one pass over each of its columns."""
    a = np.empty(W.size)
    for k in range(W.size):
        tally[0] += 1
        a[k] = column_bend(T, W[k], omega) + T.ridge[W[k]] + shift
    return a


@njit(cache=True)
def descend(
    tally: NDArray[np.int64],
    T: SparseModel | DenseModel,
    W: NDArray[np.int64],
    omega: Vector,
    a: Vector,
    shift: float,
    d: Vector,
    x: Vector,
    psi: Separable,
    v: Vector,
    wq: Vector,
    enough: float,
    passes: int,
) -> float:
    """At most `passes` rounds, which change v and wq; the size of the last changes.

    `d`, `x` and `v` have one entry per element of W: the gradient at x, x, and the iterate. The
    size is that of the proximal gradient steps, (sum_i (a_i (change of v_i))^2)^(1/2). A round
    through W is followed by rounds through the coordinates that it has changed, until their changes
    are small enough; the last round goes through W again. The answer is infinite if it does not.
    """
    size = np.inf
    moving = np.ones(W.size, dtype=np.bool_)
    whole = True
    for _ in range(passes):
        total = 0.0
        for k in range(W.size):
            if not (whole or moving[k]):
                continue
            i = W[k]
            tally[0] += 1
            slope = d[k] + column_dot(T, i, wq) + (T.ridge[i] + shift) * (v[k] - x[k])
            change = prox_of(psi, i, v[k] - slope / a[k], 1.0 / a[k]) - v[k]
            moving[k] = change != 0.0
            if moving[k]:
                v[k] += change
                total += (a[k] * change) ** 2
                column_add(T, i, omega, change, wq)
        size = np.sqrt(total)
        if size <= enough:
            if whole:
                break
            whole = True
        else:
            whole = False
    return size if whole else np.inf


@njit(cache=True)
def gram_of_rows(
    tally: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: Vector,
    omega: Vector,
    W: NDArray[np.int64],
    n: int,
) -> Vector:
    """A_W' diag(omega) A_W from the rows of a sparse A: W.size products with the Hessian."""
    tally[0] += W.size
    place = np.full(n, -1)
    for k in range(W.size):
        place[W[k]] = k
    G = np.zeros((W.size, W.size))
    longest = 0
    for row in range(omega.size):
        longest = max(longest, indptr[row + 1] - indptr[row])
    where, entries = np.empty(longest, dtype=np.int64), np.empty(longest)
    for row in range(omega.size):
        count = 0
        for l in range(indptr[row], indptr[row + 1]):
            k = place[indices[l]]
            if k >= 0:
                where[count], entries[count] = k, data[l]
                count += 1
        for i in range(count):
            weighted = omega[row] * entries[i]
            for j in range(i + 1):  # columns are in order in a row: the lower triangle
                G[where[i], where[j]] += weighted * entries[j]
    for i in range(W.size):
        for j in range(i):
            G[j, i] = G[i, j]
    return G


@njit(cache=True)
def descend_gram(
    H: Vector,
    W: NDArray[np.int64],
    u: Vector,
    psi: Separable,
    v: Vector,
    enough: float,
    passes: int,
) -> int:
    """`descend` where the Hessian H in W is known; changes v and the gradient u of the model."""
    steps = 0
    for _ in range(passes):
        total = 0.0
        for k in range(W.size):
            a = H[k, k]
            change = prox_of(psi, W[k], v[k] - u[k] / a, 1.0 / a) - v[k]
            if change != 0.0:
                v[k] += change
                total += (a * change) ** 2
                for j in range(W.size):
                    u[j] += change * H[k, j]
        steps += W.size
        if np.sqrt(total) <= enough:
            break
    return steps


@njit(cache=True)
def image(
    tally: NDArray[np.int64], T: SparseModel | DenseModel, W: NDArray[np.int64], s: Vector
) -> Vector:
    """A times the vector that is s in W and 0 elsewhere."""
    out = np.zeros(T.y.size)
    ones = np.ones(T.y.size)
    for k in range(W.size):
        if s[k] != 0.0:
            tally[0] += 1
            column_add(T, W[k], ones, s[k], out)
    return out
