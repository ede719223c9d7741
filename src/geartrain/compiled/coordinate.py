r"""Loops of the accelerated coordinate methods.

All of them are one recursion on the main sequence x and the second sequence z, with u = x - z:

========  =============  =================================================================
symbol    name           meaning
========  =============  =================================================================
kappa_t   ``kappa[t]``   the derivative is taken at q = z + kappa_t u
beta_t    ``beta[t]``    z moves towards q by this share
a_t       ``a[t]``       weight of the step of z
========  =============  =================================================================

    x_+ = q + dx e_i,   z_+ = z + beta_t (q - z) + dz e_i,   so that
    u_+ = (1 - beta_t) kappa_t u + (dx - dz) e_i.

Stored are z^ and u^ with z = z^ + s u^ and u = r u^, so that a step changes s, r and one coordinate
of each. When r falls below `FOLD`, s and r are folded into the vectors: O(n) operations every few n
steps, and no cancellation between z^ and s u^. A partial derivative of a quadratic is a dot product
of one row with z^ and u^; for the other terms the products A z^ and A u^ are carried along.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numba.types import Type
from numpy.typing import NDArray

from geartrain.compiled.jit import njit
from geartrain.compiled.losses import LOGISTIC, SMOOTHED_HINGE, LossCode, prox_of, slope
from geartrain.compiled.records import Schedule, Sequences, StepLengths
from geartrain.compiled.vector_exp import exp_of_nonpositive
from geartrain.oracles.protocols import Vector

# With a threshold of 1e-6 the iterates lose two more digits.
FOLD = 1e-3

# Sums may be reordered and products fused; NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz"}


# A term by coordinates: row i of `rows`, or of the sparse triple, is column i of A or Q. Each kind
# has its own type, so that a loop is compiled for this kind alone.
class Dense(NamedTuple):
    """A Quadratic whose Q is an array."""

    rows: Vector
    b: Vector


class Sparse(NamedTuple):
    """A Quadratic whose Q is sparse."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: Vector
    b: Vector


class DenseModel(NamedTuple):
    """A LinearModel whose A is an array."""

    rows: Vector
    y: Vector
    ridge: Vector  # l2 by coordinate
    loss: LossCode


class SparseModel(NamedTuple):
    """A LinearModel whose A is sparse."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: Vector
    y: Vector
    ridge: Vector
    loss: LossCode


class DenseSoftmax(NamedTuple):
    """A LogSumExp whose A is an array."""

    rows: Vector
    c: Vector


class SparseSoftmax(NamedTuple):
    """A LogSumExp whose A is sparse; its empty rows are left out."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: Vector
    c: Vector
    empty: float  # number of the rows that were left out


Columns = Dense | Sparse | DenseModel | SparseModel | DenseSoftmax | SparseSoftmax


class JittedTerm(NamedTuple):
    """A term of the user's, whose jitted ``coord(x, i)`` is given the whole point."""

    coord: Callable[[Vector, int], float]
    point: Vector  # room for that point


class Pair(NamedTuple):
    """The sum of two terms; or the products of both."""

    first: Any
    second: Any


def partial(T: Any, P: Any, v: Sequences, c: float, i: int) -> float:
    """The i-th partial derivative of the term at z + c u, where P holds A z and A u."""
    raise NotImplementedError("compiled code only")


def derivative(T: Any, P: Any, v: Sequences, c: float, i: int) -> float:
    """`partial` of one term, or of two, which are added in their order."""
    raise NotImplementedError("compiled code only")


def move(T: Any, P: Any, i: int, dz: float, du: float) -> None:
    """Update the products when coordinate i of z^ and u^ changes by dz and du."""
    raise NotImplementedError("compiled code only")


def fold_products(P: Any, s: float, r: float) -> None:
    """`fold` for the products of one term or of two."""
    raise NotImplementedError("compiled code only")


# Not strict: the implementations have annotations of their own.
@overload(partial, jit_options={"fastmath": _FAST}, strict=False)
def _partial(T: Type, P: Type, v: Type, c: Type, i: Type) -> Callable[..., float]:
    return _PARTIAL[T.instance_class]


@overload(derivative, strict=False)
def _derivative(T: Type, P: Type, v: Type, c: Type, i: Type) -> Callable[..., float]:
    if T.instance_class is Pair:
        return _both
    return lambda T, P, v, c, i: partial(T, P, v, c, i)


@overload(move, jit_options={"fastmath": _FAST}, strict=False)
def _move(T: Type, P: Type, i: Type, dz: Type, du: Type) -> Callable[..., None]:
    return _MOVE.get(T.instance_class, _move_nothing)


@overload(fold_products, strict=False)
def _fold_products(P: Type, s: Type, r: Type) -> Callable[..., None]:
    return _fold_both if P.instance_class is Pair else lambda P, s, r: fold(P, s, r)


def _dense(T: Dense, P: Sequences, v: Sequences, c: float, i: int) -> float:
    first = second = 0.0
    for j in range(v.z.size):
        first += T.rows[i, j] * v.z[j]
        second += T.rows[i, j] * v.u[j]
    return first + c * second - T.b[i]


def _sparse(T: Sparse, P: Sequences, v: Sequences, c: float, i: int) -> float:
    total = 0.0
    for l in range(T.indptr[i], T.indptr[i + 1]):
        j = T.indices[l]
        total += T.data[l] * (v.z[j] + c * v.u[j])
    return total - T.b[i]


def _dense_model(T: DenseModel, P: Sequences, v: Sequences, c: float, i: int) -> float:
    total = 0.0
    if T.loss.kind == LOGISTIC or T.loss.kind == SMOOTHED_HINGE:
        t, e = np.empty_like(P.z), np.empty_like(P.z)
        for j in range(P.z.size):
            margin = T.y[j] * (P.z[j] + c * P.u[j])
            t[j] = -margin if T.loss.kind == LOGISTIC else (1.0 - margin) / T.loss.param
            e[j] = -abs(t[j])
        exp_of_nonpositive(e)
        for j in range(P.z.size):
            share = 1.0 if t[j] >= 0.0 else e[j]
            total -= T.rows[i, j] * T.y[j] * (share / (1.0 + e[j]))
    else:
        for j in range(P.z.size):
            total += T.rows[i, j] * slope(T.loss, T.y[j], P.z[j] + c * P.u[j])
    return total / P.z.size + T.ridge[i] * (v.z[i] + c * v.u[i])


def _sparse_model(T: SparseModel, P: Sequences, v: Sequences, c: float, i: int) -> float:
    total = 0.0
    for l in range(T.indptr[i], T.indptr[i + 1]):
        j = T.indices[l]
        total += T.data[l] * slope(T.loss, T.y[j], P.z[j] + c * P.u[j])
    return total / P.z.size + T.ridge[i] * (v.z[i] + c * v.u[i])


@njit(cache=True, fastmath=_FAST)
def _shifted_scores(P: Sequences, c: float, top: float) -> tuple[float, Vector]:
    """The largest of `top` and all scores, and the scores minus it."""
    scores = np.empty_like(P.z)
    for j in range(P.z.size):
        scores[j] = P.z[j] + c * P.u[j]
        top = max(top, scores[j])
    for j in range(P.z.size):
        scores[j] -= top
    return top, scores


def _dense_softmax(T: DenseSoftmax, P: Sequences, v: Sequences, c: float, i: int) -> float:
    scores = _shifted_scores(P, c, P.z[0] + c * P.u[0])[1]
    exp_of_nonpositive(scores)
    total = mass = 0.0
    for j in range(scores.size):
        mass += scores[j]
        total += T.rows[i, j] * scores[j]
    return total / mass - T.c[i]


def _sparse_softmax(T: SparseSoftmax, P: Sequences, v: Sequences, c: float, i: int) -> float:
    # An empty row has score 0.
    top, scores = _shifted_scores(P, c, 0.0 if T.empty > 0.0 else P.z[0] + c * P.u[0])
    exp_of_nonpositive(scores)
    total, mass = 0.0, T.empty * math.exp(-top)
    for j in range(scores.size):
        mass += scores[j]
    for l in range(T.indptr[i], T.indptr[i + 1]):
        total += T.data[l] * scores[T.indices[l]]
    return total / mass - T.c[i]


def _user(T: JittedTerm, P: Sequences, v: Sequences, c: float, i: int) -> float:
    combine(v, c, T.point)
    return T.coord(T.point, i)


def _both(T: Pair, P: Pair, v: Sequences, c: float, i: int) -> float:
    return partial(T.first, P.first, v, c, i) + partial(T.second, P.second, v, c, i)


def _move_nothing(T: Columns, P: Sequences, i: int, dz: float, du: float) -> None:
    pass


def _move_dense(T: DenseModel | DenseSoftmax, P: Sequences, i: int, dz: float, du: float) -> None:
    for j in range(P.z.size):
        P.z[j] += dz * T.rows[i, j]
        P.u[j] += du * T.rows[i, j]


def _move_sparse(
    T: SparseModel | SparseSoftmax, P: Sequences, i: int, dz: float, du: float
) -> None:
    for l in range(T.indptr[i], T.indptr[i + 1]):
        j = T.indices[l]
        P.z[j] += dz * T.data[l]
        P.u[j] += du * T.data[l]


def _move_both(T: Pair, P: Pair, i: int, dz: float, du: float) -> None:
    move(T.first, P.first, i, dz, du)
    move(T.second, P.second, i, dz, du)


def _fold_both(P: Pair, s: float, r: float) -> None:
    fold(P.first, s, r)
    fold(P.second, s, r)


_PARTIAL: dict[type, Callable[..., float]] = {
    Dense: _dense,
    Sparse: _sparse,
    DenseModel: _dense_model,
    SparseModel: _sparse_model,
    DenseSoftmax: _dense_softmax,
    SparseSoftmax: _sparse_softmax,
    JittedTerm: _user,
}
_MOVE: dict[type, Callable[..., None]] = {
    DenseModel: _move_dense,
    SparseModel: _move_sparse,
    DenseSoftmax: _move_dense,
    SparseSoftmax: _move_sparse,
    Pair: _move_both,
}


@njit(cache=True)
def fold(v: Sequences, s: float, r: float) -> None:
    """z^ <- z^ + s u^, u^ <- r u^."""
    for j in range(v.z.size):
        v.z[j] += s * v.u[j]
        v.u[j] *= r


@njit(cache=True)
def combine(v: Sequences, c: float, out: Vector) -> None:
    """Out <- z + c u."""
    for j in range(v.z.size):
        out[j] = v.z[j] + c * v.u[j]


@njit(cache=True)
def moves(
    d: float, z_i: float, q_i: float, a: float, steps: StepLengths, i: int, alpha: float
) -> tuple[float, float]:
    """The moves dx and dz of coordinate i, where d is the derivative of <beta, .> + term.

    Plain: dx = -step_x_i d', dz = -a_t step_z_i d' with d' = d + alpha q_i, the derivative of phi.
    Composite (APPROX): z_i + dz = prox_i(z_i - (d + alpha z_i)/M, M), M = a_t/step_x_i + alpha, and
    dx = a_t dz.
    """
    if steps.composite:
        M = a / steps.x[i] + alpha
        dz = -(d + alpha * z_i) / M
        if steps.psi.lam.size > 0:
            dz = prox_of(steps.psi, i, z_i + dz, 1.0 / M) - z_i
        return a * dz, dz
    d += alpha * q_i
    return -steps.x[i] * d, -a * steps.z[i] * d


@njit(cache=True)
def advance(
    tally: NDArray[np.int64],
    T: Columns | JittedTerm | Pair,
    P: Sequences | Pair,
    v: Sequences,
    index: NDArray[np.int64],
    schedule: Schedule,
    steps: StepLengths,
    beta: Vector,
    alpha: float,
) -> None:
    """Make the coordinate steps of `index` on <beta, .> + alpha/2 |.|^2 + term, in place."""
    z, u = v
    s, r = 0.0, 1.0
    for t in range(index.size):
        i = index[t]
        kappa, be, a = schedule.kappa[t], schedule.beta[t], schedule.a[t]
        c = s + kappa * r
        tally[0] += 1
        d = derivative(T, P, v, c, i) + beta[i]
        z_i, q_i = z[i] + s * u[i], z[i] + c * u[i]
        dx, dz = moves(d, z_i, q_i, a, steps, i, alpha)
        s += be * kappa * r
        r *= (1.0 - be) * kappa
        if r < FOLD:
            fold(v, s, r)
            fold_products(P, s, r)
            s, r = 0.0, 1.0
        du = (dx - dz) / r
        dz -= s * du
        z[i] += dz
        u[i] += du
        move(T, P, i, dz, du)
    fold(v, s, r)
    fold_products(P, s, r)


# Not cached: it is compiled again for each ``coord`` of the user's.
advance_user = njit(advance.py_func)


# Draws and weights of the coordinate methods, computed one after the other.


@njit(cache=True)
def draw(cumulative: Vector, guide: NDArray[np.int64], uniform: Vector) -> NDArray[np.int64]:
    """Invert the distribution function with a guide table: O(1) per draw in expectation."""
    index = np.empty(uniform.size, dtype=np.int64)
    for t in range(uniform.size):
        x = uniform[t]
        i = guide[int(x * guide.size)]
        while cumulative[i] <= x:
            i += 1
        index[t] = i
    return index


@njit(cache=True)
def estimating_sequence(
    A: float, B: float, S: float, sigma: float, steps: int
) -> tuple[Vector, Vector, Vector, float, float]:
    """Weights of Nesterov and Stich: kappa, beta and a/B_+ of every step, and the last A and B."""
    kappa, beta, push = np.empty(steps), np.empty(steps), np.empty(steps)
    for t in range(steps):
        # S^2 a^2 = (A + a)(B + sigma a), the larger root; S^2 = sigma only if n = 1 and g = 0
        c2, c1 = max(S * S - sigma, 1e-12 * S * S), B + sigma * A
        a = (c1 + math.sqrt(c1 * c1 + 4.0 * c2 * A * B)) / (2.0 * c2)
        A += a
        B += sigma * a
        al, be = a / A, sigma * a / B
        kappa[t] = (1.0 - al) / (1.0 - al * be)
        beta[t] = be
        push[t] = a / B
        if A > 1e100:  # only the ratios of A, B and a matter
            A, B = A * 1e-100, B * 1e-100
    return kappa, beta, push, A, B


@njit(cache=True)
def thetas(theta: float, size: int) -> Vector:
    """The sequence theta_+ = (sqrt(theta^4 + 4 theta^2) - theta^2)/2 from the given first one."""
    out = np.empty(size)
    for t in range(size):
        out[t] = theta
        square = theta * theta
        theta = 0.5 * (math.sqrt(square * square + 4.0 * square) - square)
    return out
