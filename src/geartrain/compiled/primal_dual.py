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

APCG is the recursion of `geartrain.compiled.coordinate` on the dual variables, whose images
(1/m) A' z and (1/m) A' u are carried along.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from geartrain.compiled.separable import prox_of

LOSS_IDS = {"logistic": 0, "squared": 1, "smoothed_hinge": 2, "huber": 3, "squared_hinge": 4}
RPDG, SPDC = 0, 1
# u^ is folded into z^ when its scale has fallen so far.
_FOLD = 1e-3
# No nnan, ninf: NaN marks an unknown slope, and exp may overflow.
_FAST = {"reassoc", "contract", "arcp", "nsz"}


@njit(cache=True)
def _sigmoid(t):  # type: ignore[no-untyped-def]
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


@njit(cache=True)
def _logistic_root(kappa, r):  # type: ignore[no-untyped-def]
    """The root t of t - kappa/(1 + exp(t)) = r, which increases for kappa > -4."""
    low, high = (r, r + kappa) if kappa >= 0.0 else (r + kappa, r)
    t = 0.5 * (low + high)
    step = high - low
    for _ in range(200):
        share = _sigmoid(-t)
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
def dual_step(loss, param, y, kappa, rho):  # type: ignore[no-untyped-def]
    """s = loss'(zeta) for the zeta with zeta + kappa loss'(zeta) = rho: a proximal step.

    `kappa` is more than -1 over the largest curvature of the loss.
    """
    if loss == 0:
        return -y * _sigmoid(-_logistic_root(kappa, y * rho))
    if loss == 1:
        return (rho - y) / (1.0 + kappa)
    if loss == 2:
        t = _logistic_root(kappa / param, (y * rho - 1.0) / param)
        return -y * _sigmoid(-t)
    if loss == 3:
        return min(max((rho - y) / (1.0 + kappa), -param), param)
    return -2.0 * y * max(0.0, 1.0 - y * rho) / (1.0 + 2.0 * kappa)


@njit(cache=True)
def _new_slope(kind, loss, param, y, k, p, at_start, slopes, margins, number):  # type: ignore[no-untyped-def]
    """The dual step at the extrapolated prediction p; `number` is tau or 1/sigma."""
    if kind == SPDC:
        return dual_step(loss, param, y[k], number, p + number * slopes[k])
    if np.isnan(margins[k]):
        margins[k] = at_start
    margins[k] = (p + number * margins[k]) / (1.0 + number)
    return slope(loss, param, y[k], margins[k])


@njit(cache=True, fastmath=_FAST)
def walk_dense(  # type: ignore[no-untyped-def]
    tally,
    kind,
    A,
    y,
    loss,
    param,
    order,
    weight,
    slopes,
    margins,
    start,
    x,
    before,
    total,
    D,
    eta,
    number,
    extrapolate,
):
    """Steps of `order`; slopes, margins, x, before and total are changed in place."""
    m, n = A.shape
    bias = x.size > n
    for j in range(order.size):
        k = order[j]
        row = A[k]
        p, at_start = 0.0, 0.0
        unknown = np.isnan(slopes[k]) or (kind == RPDG and np.isnan(margins[k]))
        for i in range(n):
            p += row[i] * (x[i] + extrapolate * (x[i] - before[i]))
        if bias:
            p += x[n] + extrapolate * (x[n] - before[n])
        if unknown:
            for i in range(n):
                at_start += row[i] * start[i]
            if bias:
                at_start += start[n]
        if np.isnan(slopes[k]):
            slopes[k] = slope(loss, param, y[k], at_start)
            tally[0] += 1
        new = _new_slope(kind, loss, param, y, k, p, at_start, slopes, margins, number)
        tally[0] += 1
        change = new - slopes[k]
        slopes[k] = new
        push, share = change * weight[k], change / m
        for i in range(x.size):
            a = row[i] if i < n else 1.0
            old = x[i]
            x[i] = (eta * old - total[i] - push * a) / (D[i] + eta)
            before[i] = old
            total[i] += share * a


@njit(cache=True, fastmath=_FAST)
def walk_csr(  # type: ignore[no-untyped-def]
    tally,
    kind,
    data,
    indices,
    indptr,
    y,
    loss,
    param,
    order,
    weight,
    slopes,
    margins,
    start,
    x,
    before,
    total,
    D,
    eta,
    number,
    extrapolate,
    n,
):
    """As `walk_dense` with O(nonzeros of the row) per step.

    An untouched coordinate moves by x_+ = r x - e total, r = eta/(D + eta), e = 1/(D + eta), so
    after j steps x_j = R_j x - E_j total, with tables of R and E: no division by 1 - r.
    """
    m, l = y.size, order.size
    bias = x.size > n
    r, e = eta / (D[0] + eta), 1.0 / (D[0] + eta)
    R, E = np.empty(l + 1), np.empty(l + 1)
    R[0], E[0] = 1.0, 0.0
    for j in range(l):
        R[j + 1] = r * R[j]
        E[j + 1] = r * E[j] + e
    last = np.zeros(n, dtype=np.int64)
    for t in range(l):
        k = order[t]
        first, stop = indptr[k], indptr[k + 1]
        p, at_start = 0.0, 0.0
        unknown = np.isnan(slopes[k]) or (kind == RPDG and np.isnan(margins[k]))
        for w in range(first, stop):
            i = indices[w]
            j = t - last[i]
            if j > 0:
                old = x[i]
                x[i] = R[j] * old - E[j] * total[i]
                before[i] = R[j - 1] * old - E[j - 1] * total[i]
                last[i] = t
            p += data[w] * (x[i] + extrapolate * (x[i] - before[i]))
            if unknown:
                at_start += data[w] * start[i]
        if bias:
            p += x[n] + extrapolate * (x[n] - before[n])
            at_start += start[n]
        if np.isnan(slopes[k]):
            slopes[k] = slope(loss, param, y[k], at_start)
            tally[0] += 1
        new = _new_slope(kind, loss, param, y, k, p, at_start, slopes, margins, number)
        tally[0] += 1
        change = new - slopes[k]
        slopes[k] = new
        push, share = change * weight[k], change / m
        for w in range(first, stop):
            i = indices[w]
            old = x[i]
            x[i] = r * old - e * (total[i] + push * data[w])
            before[i] = old
            total[i] += share * data[w]
            last[i] = t + 1
        if bias:
            old = x[n]
            x[n] = (eta * old - total[n] - push) / (D[n] + eta)
            before[n] = old
            total[n] += share
    for i in range(n):
        j = l - last[i]
        if j > 0:
            old = x[i]
            x[i] = R[j] * old - E[j] * total[i]
            before[i] = R[j - 1] * old - E[j - 1] * total[i]


@njit(cache=True)
def _fold(z, u, s, r):  # type: ignore[no-untyped-def]
    for j in range(z.size):
        z[j] += s * u[j]
        u[j] *= r


@njit(cache=True)
def _dual_move(loss, param, y, gamma, m, alpha, L, z_i, y_i, prediction):  # type: ignore[no-untyped-def]
    """dz of APCG: the minimiser of its line 3 in one coordinate, less (1 - alpha) z + alpha y."""
    stiff = m * m * alpha * L
    centre = (1.0 - alpha) * z_i + alpha * y_i
    rho = stiff * centre + prediction - gamma * y_i
    return dual_step(loss, param, y, stiff - gamma, rho) - centre


@njit(cache=True, fastmath=_FAST)
def apcg_dense(  # type: ignore[no-untyped-def]
    tally, A, y, loss, param, order, L, gamma, alpha, beta, over_D, psi, z, u, Pz, Pu
):
    """Steps of `order` on the dual; z, u and their images Pz, Pu are changed in place."""
    m, n = A.shape
    bias = beta.size > n
    k_u = 1.0 / (1.0 + alpha)
    s, r = 0.0, 1.0
    for t in range(order.size):
        i = order[t]
        row = A[i]
        c = s + k_u * r
        prediction = 0.0
        for j in range(beta.size):
            a = row[j] if j < n else 1.0
            v_j = -over_D[j] * (beta[j] + Pz[j] + c * Pu[j])
            prediction += a * prox_of(psi, j, v_j, over_D[j])
        z_i, y_i = z[i] + s * u[i], z[i] + c * u[i]
        dz = _dual_move(loss, param, y[i], gamma, m, alpha, L[i], z_i, y_i, prediction)
        tally[0] += 1
        s += alpha * k_u * r
        r *= (1.0 - alpha) * k_u
        if r < _FOLD:
            _fold(z, u, s, r)
            _fold(Pz, Pu, s, r)
            s, r = 0.0, 1.0
        du = (m * alpha - 1.0) * dz / r
        dz -= s * du
        z[i] += dz
        u[i] += du
        for j in range(n):
            Pz[j] += dz / m * row[j]
            Pu[j] += du / m * row[j]
        if bias:
            Pz[n] += dz / m
            Pu[n] += du / m
    _fold(z, u, s, r)
    _fold(Pz, Pu, s, r)


@njit(cache=True, fastmath=_FAST)
def apcg_csr(  # type: ignore[no-untyped-def]
    tally,
    data,
    indices,
    indptr,
    y,
    loss,
    param,
    order,
    L,
    gamma,
    alpha,
    beta,
    over_D,
    psi,
    z,
    u,
    Pz,
    Pu,
    n,
):
    """As `apcg_dense` with O(nonzeros of the row) per step."""
    m = y.size
    bias = beta.size > n
    k_u = 1.0 / (1.0 + alpha)
    s, r = 0.0, 1.0
    for t in range(order.size):
        i = order[t]
        first, stop = indptr[i], indptr[i + 1]
        c = s + k_u * r
        prediction = 0.0
        for w in range(first, stop):
            j = indices[w]
            v_j = -over_D[j] * (beta[j] + Pz[j] + c * Pu[j])
            prediction += data[w] * prox_of(psi, j, v_j, over_D[j])
        if bias:
            v_j = -over_D[n] * (beta[n] + Pz[n] + c * Pu[n])
            prediction += prox_of(psi, n, v_j, over_D[n])
        z_i, y_i = z[i] + s * u[i], z[i] + c * u[i]
        dz = _dual_move(loss, param, y[i], gamma, m, alpha, L[i], z_i, y_i, prediction)
        tally[0] += 1
        s += alpha * k_u * r
        r *= (1.0 - alpha) * k_u
        if r < _FOLD:
            _fold(z, u, s, r)
            _fold(Pz, Pu, s, r)
            s, r = 0.0, 1.0
        du = (m * alpha - 1.0) * dz / r
        dz -= s * du
        z[i] += dz
        u[i] += du
        for w in range(first, stop):
            j = indices[w]
            Pz[j] += dz / m * data[w]
            Pu[j] += du / m * data[w]
        if bias:
            Pz[n] += dz / m
            Pu[n] += du / m
    _fold(z, u, s, r)
    _fold(Pz, Pu, s, r)
