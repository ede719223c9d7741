r"""Reference solution of the kernel SVM: L-BFGS in the metric of the RKHS.

=========  ===========  =============================================================
symbol     name         meaning
=========  ===========  =============================================================
x          ``x``        coefficients; the function is K x plus an intercept
v          ``v``        K x
b          ``b``        intercept, eliminated: the best one for the given v
s          ``s``        minus the slopes of the loss in the margins, in (0, 1)
a          ``a``        y s/m; x = a/lambda at the optimum
=========  ===========  =============================================================

In the inner product <x, x'>_K = x'K x' the gradient of the objective has the coefficients
lambda x - a, and f is as well conditioned as it can be; an iteration is one product with K. The
dual value at s is a lower bound of f*, because the intercept makes <y, s> = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from geartrain.oracles.protocols import Vector

_PAIRS = 40
_ARMIJO = 1e-4


@dataclass(frozen=True)
class Reference:
    """A minimiser and how exact it is."""

    x: Vector  # coefficients and intercept
    f: float
    gap: float  # f - dual value >= f - f*
    products: int  # with K


@dataclass(frozen=True)
class _Pair:
    s: Vector
    Ks: Vector
    y: Vector
    Ky: Vector
    rho: float  # 1/<s, y>_K


def solve(
    K: Any, y: Vector, *, lam: float, mu: float, tol: float = 1e-11, max_iter: int = 5000
) -> Reference:
    r"""Minimise (1/m) sum_k mu ln(1 + exp((1 - y_k (K x + b)_k)/mu)) + lam/2 x'K x.

    Parameters
    ----------
    K : array (m, m)
        Kernel matrix.
    y : array (m,)
        Labels -1 and +1.
    lam, mu : float
        Weight of the regulariser, smoothing of the hinge.
    tol : float
        Stop when the duality gap is at most this.
    max_iter : int
        Limit of iterations.

    Returns
    -------
    Reference
        With the gap that was reached.
    """
    m = y.size
    x, v, b = np.zeros(m), np.zeros(m), 0.0
    b, s, f = _evaluate(y, x, v, b, lam, mu)
    a = y * s / m
    Ka = K @ a
    r, Kr = -a, -Ka
    pairs: list[_Pair] = []
    products = 1
    while (gap := f - _dual(s, a, Ka, lam, mu)) > tol and products <= max_iter:
        d, Kd = _direction(r, Kr, pairs, lam)
        slope, t = float(d @ Kr), 1.0
        # K (x + t d) = v + t K d: trial points cost no product.
        while True:
            b_next, s, f_next = _evaluate(y, x + t * d, v + t * Kd, b, lam, mu)
            if f_next <= f + _ARMIJO * t * slope or t < 1e-10:
                break
            t *= 0.5
        x, v, b, f = x + t * d, v + t * Kd, b_next, f_next
        a = y * s / m
        Ka = K @ a
        products += 1
        r_next, Kr_next = lam * x - a, lam * v - Ka
        curved = t * float(d @ (Kr_next - Kr))
        if curved > 0.0:
            pairs = [
                *pairs[1 - _PAIRS :],
                _Pair(t * d, t * Kd, r_next - r, Kr_next - Kr, 1.0 / curved),
            ]
        r, Kr = r_next, Kr_next
    return Reference(np.append(x, b), f, gap, products)


def _direction(r: Vector, Kr: Vector, pairs: list[_Pair], lam: float) -> tuple[Vector, Vector]:
    """The two loops of L-BFGS with <., .>_K, on coefficients and on their products with K."""
    q, Kq = r.copy(), Kr.copy()
    shares = []
    for p in reversed(pairs):
        share = p.rho * float(p.s @ Kq)
        shares.append(share)
        q -= share * p.y
        Kq -= share * p.Ky
    last = pairs[-1] if pairs else None
    scale = 1.0 / lam if last is None else 1.0 / (last.rho * float(last.y @ last.Ky))
    q *= scale
    Kq *= scale
    for p, share in zip(pairs, reversed(shares), strict=True):
        change = share - p.rho * float(p.y @ Kq)
        q += change * p.s
        Kq += change * p.Ks
    return -q, -Kq


def _evaluate(
    y: Vector, x: Vector, v: Vector, b: float, lam: float, mu: float
) -> tuple[float, Vector, float]:
    """Best intercept by Newton's method in one variable, slopes, value."""
    for _ in range(200):
        s = expit((1.0 - y * (v + b)) / mu)
        slope = float(y @ s) / y.size
        if abs(slope) <= 1e-16:
            break
        curvature = float((s * (1.0 - s)).mean()) / mu
        step = float(np.clip(slope / max(curvature, 1e-12), -1.0, 1.0))
        if b + step == b:
            break
        b += step
    margins = y * (v + b)
    losses = mu * np.logaddexp(0.0, (1.0 - margins) / mu)
    return b, expit((1.0 - margins) / mu), float(losses.mean() + 0.5 * lam * (x @ v))


def _dual(s: Vector, a: Vector, Ka: Vector, lam: float, mu: float) -> float:
    """(1/m) sum_k [s_k - mu (s_k ln s_k + (1 - s_k) ln(1 - s_k))] - a'K a/(2 lam)."""
    entropy = xlogy(s, s) + xlog1py(1.0 - s, -s)
    return float((s - mu * entropy).mean() - (a @ Ka) / (2.0 * lam))
