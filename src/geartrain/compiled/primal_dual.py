r"""Steps of the primal-dual and dual methods for linear models, dense and CSR.

RPDG and SPDC are one recursion in the primal points and one dual number per summand:

====================  ===============  ====================================================
symbol                name             meaning
====================  ===============  ====================================================
x^t, x^{t-1}          ``x``,           the last two primal points
                      ``before``
s_k                   ``slopes``       dual variable of summand k, a derivative of its loss; NaN
                                       where not yet known
q_k                   ``margins``      <a_k, x_k> of the point at which s_k was taken (RPDG)
beta + (1/m) sum_k    ``total``        linear term of the next primal step
s_k a_k
1/(m p_k)             ``weight``
D                     ``D``            weights of the quadratic by coordinate
====================  ===============  ====================================================
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from geartrain.compiled.losses import (
    HUBER,
    LOGISTIC,
    SMOOTHED_HINGE,
    SQUARED,
    LossCode,
    sigmoid,
    slope,
)
from geartrain.oracles.protocols import Vector

RPDG, SPDC = 0, 1
# No nnan, ninf: NaN marks an unknown slope, and exp may overflow.
_FAST = {"reassoc", "contract", "arcp", "nsz"}


class CSRRows(NamedTuple):
    """The data of a linear model in CSR form."""

    data: Vector
    indices: NDArray[np.int32]
    indptr: NDArray[np.int32]
    n: int  # number of features


class Summands(NamedTuple):
    """The summands of g and their dual variables, which the kernels overwrite."""

    loss: LossCode
    y: Vector  # labels or targets
    weight: Vector  # 1/(m p_k)
    slopes: Vector  # s_k, NaN where not yet known
    margins: Vector  # q_k of RPDG, NaN where that is <a_k, start>
    start: Vector  # the point to which unknown slopes and margins belong


class PrimalDualSteps(NamedTuple):
    """The steps to make and the primal points, which the kernels overwrite."""

    method: int  # RPDG or SPDC
    order: NDArray[np.int64]  # the sampled summands
    x: Vector
    before: Vector
    total: Vector
    D: Vector
    eta: float  # weight of the primal proximal term
    dual: float  # of the dual step: tau of RPDG, 1/sigma of SPDC
    extrapolate: float


@njit(cache=True)
def _logistic_root(kappa, r):  # type: ignore[no-untyped-def]
    """The root t of t - kappa/(1 + exp(t)) = r, which increases for kappa > -4."""
    low, high = (r, r + kappa) if kappa >= 0.0 else (r + kappa, r)
    t = 0.5 * (low + high)
    step = high - low
    for _ in range(200):
        share = sigmoid(-t)
        value = t - kappa * share - r
        if value > 0.0:
            high = t
        else:
            low = t
        new = t - value / (1.0 + kappa * share * (1.0 - share))
        # Newton's step where it stays inside and is at most half the last one, else bisection.
        if not (low < new < high and abs(new - t) <= 0.5 * step):
            new = 0.5 * (low + high)
        step = abs(new - t)
        t = new
        if step <= 1e-15 * (1.0 + abs(t)):
            break
    return t


@njit(cache=True)
def dual_step(loss: LossCode, y: float, kappa: float, rho: float) -> float:
    """s = loss'(zeta) for the zeta with zeta + kappa loss'(zeta) = rho: a proximal step.

    `kappa` is more than -1 over the largest curvature of the loss.
    """
    if loss.kind == LOGISTIC:
        return -y * sigmoid(-_logistic_root(kappa, y * rho))
    if loss.kind == SQUARED:
        return (rho - y) / (1.0 + kappa)
    if loss.kind == SMOOTHED_HINGE:
        t = _logistic_root(kappa / loss.param, (y * rho - 1.0) / loss.param)
        return -y * sigmoid(-t)
    if loss.kind == HUBER:
        return min(max((rho - y) / (1.0 + kappa), -loss.param), loss.param)
    return -2.0 * y * max(0.0, 1.0 - y * rho) / (1.0 + 2.0 * kappa)


@njit(cache=True)
def _unknown(s: Summands, method: int, k: int) -> bool:
    """Whether the prediction of summand k at the start is needed."""
    return np.isnan(s.slopes[k]) or (method == RPDG and np.isnan(s.margins[k]))


@njit(cache=True)
def _change(  # type: ignore[no-untyped-def]
    tally: NDArray[np.int64], s: Summands, steps: PrimalDualSteps, k: int, p: float, at_start: float
):
    """Make the dual step of summand k at the extrapolated prediction p; how far s_k went."""
    if np.isnan(s.slopes[k]):
        s.slopes[k] = slope(s.loss, s.y[k], at_start)
        tally[0] += 1
    if steps.method == SPDC:
        new = dual_step(s.loss, s.y[k], steps.dual, p + steps.dual * s.slopes[k])
    else:
        if np.isnan(s.margins[k]):
            s.margins[k] = at_start
        s.margins[k] = (p + steps.dual * s.margins[k]) / (1.0 + steps.dual)
        new = slope(s.loss, s.y[k], s.margins[k])
    tally[0] += 1
    change = new - s.slopes[k]
    s.slopes[k] = new
    return change


@njit(cache=True, fastmath=_FAST)
def walk_dense(tally: NDArray[np.int64], A: Vector, s: Summands, steps: PrimalDualSteps) -> None:
    """Make the steps with dense rows."""
    m, n = A.shape
    x, before, total, D, eta = steps.x, steps.before, steps.total, steps.D, steps.eta
    bias = x.size > n
    for j in range(steps.order.size):
        k = steps.order[j]
        row = A[k]
        p: Any = 0.0
        at_start: Any = 0.0
        for i in range(n):
            p += row[i] * (x[i] + steps.extrapolate * (x[i] - before[i]))
        if bias:
            p += x[n] + steps.extrapolate * (x[n] - before[n])
        if _unknown(s, steps.method, k):
            for i in range(n):
                at_start += row[i] * s.start[i]
            if bias:
                at_start += s.start[n]
        change = _change(tally, s, steps, k, p, at_start)
        push, share = change * s.weight[k], change / m
        for i in range(x.size):
            a = row[i] if i < n else 1.0
            old = x[i]
            x[i] = (eta * old - total[i] - push * a) / (D[i] + eta)
            before[i] = old
            total[i] += share * a


@njit(cache=True, fastmath=_FAST)
def walk_csr(tally: NDArray[np.int64], A: CSRRows, s: Summands, steps: PrimalDualSteps) -> None:
    """As `walk_dense` with O(nonzeros of the row) per step.

    An untouched coordinate moves by x_+ = r x - e total, r = eta/(D + eta), e = 1/(D + eta), so
    after j steps x_j = R_j x - E_j total, with tables of R and E: no division by 1 - r.
    """
    m, n, l = s.y.size, A.n, steps.order.size
    x, before, total, D, eta = steps.x, steps.before, steps.total, steps.D, steps.eta
    bias = x.size > n
    r, e = eta / (D[0] + eta), 1.0 / (D[0] + eta)
    R, E = np.empty(l + 1), np.empty(l + 1)
    R[0], E[0] = 1.0, 0.0
    for j in range(l):
        R[j + 1] = r * R[j]
        E[j + 1] = r * E[j] + e
    done = np.zeros(n, dtype=np.int64)  # steps up to which a coordinate is written out
    for t in range(l):
        k = steps.order[t]
        row = range(A.indptr[k], A.indptr[k + 1])
        p, at_start = 0.0, 0.0
        unknown = _unknown(s, steps.method, k)
        for w in row:
            i = A.indices[w]
            j = t - done[i]
            if j > 0:
                old = x[i]
                x[i] = R[j] * old - E[j] * total[i]
                before[i] = R[j - 1] * old - E[j - 1] * total[i]
            p += A.data[w] * (x[i] + steps.extrapolate * (x[i] - before[i]))
            if unknown:
                at_start += A.data[w] * s.start[i]
        if bias:
            p += x[n] + steps.extrapolate * (x[n] - before[n])
            at_start += s.start[n]
        change = _change(tally, s, steps, k, p, at_start)
        push, share = change * s.weight[k], change / m
        for w in row:
            i = A.indices[w]
            old = x[i]
            x[i] = r * old - e * (total[i] + push * A.data[w])
            before[i] = old
            total[i] += share * A.data[w]
            done[i] = t + 1
        if bias:
            old = x[n]
            x[n] = (eta * old - total[n] - push) / (D[n] + eta)
            before[n] = old
            total[n] += share
    for i in range(n):
        j = l - done[i]
        if j > 0:
            old = x[i]
            x[i] = R[j] * old - E[j] * total[i]
            before[i] = R[j - 1] * old - E[j - 1] * total[i]
