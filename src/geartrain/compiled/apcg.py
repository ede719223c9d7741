r"""Steps of APCG on the dual of a linear model, dense and CSR.

The recursion is that of `geartrain.compiled.coordinate` on the dual variables; their images under
(1/m) A' are carried along.

====================  ===============  ====================================================
symbol                name             meaning
====================  ===============  ====================================================
z                     ``z + s u``      second sequence
y                     ``z + c u``      where the derivative is taken, c = s + r/(1 + a)
x                     ``z + (s + r)    main sequence
                      u``
v_j                   --               prox(-D_j^{-1} (beta_j + (1/m) (A' y)_j)), primal point of y
====================  ===============  ====================================================
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from geartrain.compiled.losses import LossCode
from geartrain.compiled.primal_dual import CSRRows, dual_step
from geartrain.compiled.records import Separable
from geartrain.compiled.separable import prox_of
from geartrain.oracles.protocols import Vector

# u is folded into z when its scale r has fallen so far.
_FOLD = 1e-3
# No nnan, ninf: exp may overflow.
_FAST = {"reassoc", "contract", "arcp", "nsz"}


class DualSteps(NamedTuple):
    """The steps to make, and the sequences, which the kernels overwrite."""

    loss: LossCode
    y: Vector  # labels or targets
    order: NDArray[np.int64]  # the sampled losses
    L: Vector  # constants of the smooth part of the dual
    gamma: float  # one over the largest curvature of the loss
    alpha: float  # a, the rate per step
    beta: Vector  # linear term of phi
    over_D: Vector  # 1/D
    psi: Separable
    z: Vector
    u: Vector
    Pz: Vector  # (1/m) A' z
    Pu: Vector  # (1/m) A' u


@njit(cache=True)
def _fold(z: Vector, u: Vector, s: float, r: float) -> None:
    for j in range(z.size):
        z[j] += s * u[j]
        u[j] *= r


@njit(cache=True)
def _primal(d: DualSteps, j: int, c: float) -> float:
    """Coordinate j of v."""
    t = -d.over_D[j] * (d.beta[j] + d.Pz[j] + c * d.Pu[j])
    return prox_of(d.psi, j, t, d.over_D[j])


@njit(cache=True)
def _move(d: DualSteps, i: int, s: float, c: float, prediction: float) -> float:
    """dz_i: the minimiser of line 2 in one coordinate, less (1 - a) z + a y."""
    m = d.y.size
    z_i, y_i = d.z[i] + s * d.u[i], d.z[i] + c * d.u[i]
    stiff = m * m * d.alpha * d.L[i]
    centre = (1.0 - d.alpha) * z_i + d.alpha * y_i
    rho = stiff * centre + prediction - d.gamma * y_i
    return dual_step(d.loss, d.y[i], stiff - d.gamma, rho) - centre


@njit(cache=True)
def _scales(d: DualSteps, s: float, r: float) -> tuple[float, float]:
    """s and r of the next step; both sequences are written out where r has become small."""
    k_u = 1.0 / (1.0 + d.alpha)
    s += d.alpha * k_u * r
    r *= (1.0 - d.alpha) * k_u
    if r >= _FOLD:
        return s, r
    _fold(d.z, d.u, s, r)
    _fold(d.Pz, d.Pu, s, r)
    return 0.0, 1.0


@njit(cache=True, fastmath=_FAST)
def apcg_dense(tally: NDArray[np.int64], A: Vector, d: DualSteps) -> None:
    """Make the steps with dense rows."""
    m, n = A.shape
    has_intercept = d.beta.size > n
    s, r = 0.0, 1.0
    for i in d.order:
        row = A[i]
        c = s + r / (1.0 + d.alpha)
        prediction = _primal(d, n, c) if has_intercept else 0.0
        for j in range(n):
            prediction += row[j] * _primal(d, j, c)
        dz = _move(d, i, s, c, prediction)
        tally[0] += 1
        s, r = _scales(d, s, r)
        du = (m * d.alpha - 1.0) * dz / r
        dz -= s * du
        d.z[i] += dz
        d.u[i] += du
        for j in range(n):
            d.Pz[j] += dz / m * row[j]
            d.Pu[j] += du / m * row[j]
        if has_intercept:
            d.Pz[n] += dz / m
            d.Pu[n] += du / m
    _fold(d.z, d.u, s, r)
    _fold(d.Pz, d.Pu, s, r)


@njit(cache=True, fastmath=_FAST)
def apcg_csr(tally: NDArray[np.int64], A: CSRRows, d: DualSteps) -> None:
    """As `apcg_dense` with O(nonzeros of the row) per step."""
    m, n = d.y.size, A.n
    has_intercept = d.beta.size > n
    s, r = 0.0, 1.0
    for i in d.order:
        row = range(A.indptr[i], A.indptr[i + 1])
        c = s + r / (1.0 + d.alpha)
        prediction = _primal(d, n, c) if has_intercept else 0.0
        for w in row:
            prediction += A.data[w] * _primal(d, A.indices[w], c)
        dz = _move(d, i, s, c, prediction)
        tally[0] += 1
        s, r = _scales(d, s, r)
        du = (m * d.alpha - 1.0) * dz / r
        dz -= s * du
        d.z[i] += dz
        d.u[i] += du
        for w in row:
            j = A.indices[w]
            d.Pz[j] += dz / m * A.data[w]
            d.Pu[j] += du / m * A.data[w]
        if has_intercept:
            d.Pz[n] += dz / m
            d.Pu[n] += du / m
    _fold(d.z, d.u, s, r)
    _fold(d.Pz, d.Pu, s, r)
