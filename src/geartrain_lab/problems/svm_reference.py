r"""Reference solution of the kernel SVM by L-BFGS in the metric of the RKHS.

=========  ===========  =============================================================
symbol     name         meaning
=========  ===========  =============================================================
x          ``x``        coefficients; the decision function is K x plus an intercept
v          ``v``        K x
b          ``b``        intercept
s          ``s``        minus the slopes of the loss in the margins, in (0, 1)
a          ``a``        y s/m; x = a/lambda at the optimum
=========  ===========  =============================================================

In the inner product <x, x'>_K = x'K x' the gradient of the objective has the coefficients
lambda x - a, and the objective is well conditioned; a gradient costs one product with K. After the
run the intercept is optimised for the v that was found, so that <y, s> = 0, and the dual value at s
is a lower bound of f*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from geartrain.geometry.rkhs import RKHS
from geartrain.methods.baselines.lbfgs_whole import LBFGSWhole
from geartrain.methods.inner.lbfgs import LBFGS
from geartrain.oracles.protocols import Vector
from geartrain_lab.harness import run_whole
from geartrain_lab.problems.svm import kernel_svm

_MEMORY = 40  # pairs of L-BFGS
_ACCURACIES = (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12)  # of the gradient, relative


@dataclass(frozen=True)
class Reference:
    """A minimiser with a bound of its error."""

    x: Vector  # coefficients and intercept
    f: float
    gap: float  # f minus the dual value, at least f - f*
    products: int  # products with K that the run took


def solve(
    K: Vector, y: Vector, *, lam: float, mu: float, tol: float = 1e-11, max_iter: int = 5000
) -> Reference:
    """Minimise (1/m) sum_k mu ln(1 + exp((1 - y_k (K x + b)_k)/mu)) + lam/2 x'K x.

    The run stops when the duality gap is at most `tol`.
    """
    h, g = kernel_svm(K, y, lam=lam, mu=mu)
    method, space = LBFGSWhole(LBFGS(memory=_MEMORY)), RKHS(K, intercept=True)
    state = None
    for accuracy in _ACCURACIES:
        result = run_whole(
            h, g, method=method, geometry=space, tol=accuracy, max_iter=max_iter, state=state
        )
        state = result.state
        x = result.x[:-1]
        b, s, f = _evaluate(y, x, K @ x, float(result.x[-1]), lam, mu)
        a = y * s / y.size
        gap = f - _dual(s, a, K @ a, lam, mu)
        if gap <= tol:
            break
    return Reference(np.append(x, b), f, gap, result.calls["g.grad"])


def _evaluate(
    y: Vector, x: Vector, v: Vector, b: float, lam: float, mu: float
) -> tuple[float, Vector, float]:
    """Optimal intercept by Newton's method in one variable, the slopes, and the value of f."""
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


def kernel_svm_minimum(h: Any, g: Any) -> float:
    """Minimum of the terms of `kernel_svm` with an intercept."""
    return solve(g.A, g.y, lam=h.Q[0, 0] / g.A[0, 0], mu=g.loss.mu).f
