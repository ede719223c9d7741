r"""L-BFGS in the inner product of the kernel's space, for the smoothed hinge.

=========  ============  ===================================================================
symbol     name          meaning
=========  ============  ===================================================================
c, b       ``c``, ``b``  coefficients and intercept, f = K c
Kc         ``Kc``        carried by linearity: a step asks for one product with K
r          ``r``         gradient in the kernel's metric, K^{-1} dP/dc = c + C loss'(f + b)
<u, v>     ``_dot``      u_c' K v_c + u_b v_b, the metric of (c, b)
=========  ============  ===================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from geartrain.estimators.arrays import Array
from geartrain.estimators.problem import BinaryProblem, Solution, feasible
from geartrain.oracles.losses import SmoothedHinge

MEMORY = 20


@dataclass(frozen=True)
class _Point:
    """A vector (c, b) with its image K c."""

    c: Array
    Kc: Array
    b: float

    def plus(self, t: float, other: _Point) -> _Point:
        return _Point(self.c + t * other.c, self.Kc + t * other.Kc, self.b + t * other.b)


def _dot(u: _Point, v: _Point) -> float:
    return float(u.c @ v.Kc) + u.b * v.b


def rkhs_lbfgs(problem: BinaryProblem) -> Solution:
    r"""Minimise P(c, b) = 1/2 c'Kc + sum_i C_i loss(y_i ((K c)_i + b)), loss the smoothed hinge.

    Algorithm

    1. r = c + C loss'(K c + b), the gradient in the kernel's metric; one product K r.
    2. Direction by the two loops of L-BFGS [1]_ with that inner product; the images of all
       vectors are carried, so there is no further product.
    3. Step by bisection on the slope: a trial costs O(m), again no product.

    Stops at \|r\| <= tol \|r_0\| in the kernel's norm, r_0 the gradient at zero. There the
    curvature of 1/2 c'Kc is 1, so P(c, b) - P* is about half the square of \|r\|. `Solution.gap`
    is the gap to the dual of the smoothed problem.

    References
    ----------
    .. [1] J. Nocedal, S. Wright, Numerical Optimization, 2nd ed. (2006), Algorithm 7.4.
    """
    kernel, y, C = problem.kernel, problem.y, problem.C
    loss = SmoothedHinge(mu=problem.mu)
    products, rows_before = 0, kernel.n_rows

    def image(c: Array) -> Array:
        nonlocal products
        products += 1
        return kernel.product(c)

    def gradient(x: _Point) -> _Point:
        slope = C * loss.derivative(y, x.Kc + x.b)
        c = x.c + slope
        return _Point(c, image(c), float(slope.sum()))

    def slope_along(x: _Point, d: _Point, t: float) -> float:
        step = x.plus(t, d)
        slope = C * loss.derivative(y, step.Kc + step.b)
        return float(d.Kc @ (step.c + slope)) + d.b * float(slope.sum())

    zero = np.zeros(y.size)
    start = zero if problem.start is None else problem.start
    x = _Point(start, image(start) if start.any() else zero, 0.0)
    r = gradient(x)
    at_zero = r if not start.any() else gradient(_Point(zero, zero, 0.0))
    goal = problem.tol * math.sqrt(_dot(at_zero, at_zero))
    pairs: list[tuple[_Point, _Point, float]] = []
    n_iter, converged = 0, False
    while n_iter < problem.max_iter:
        size = math.sqrt(max(_dot(r, r), 0.0))
        if n_iter % 16 == 0:
            problem.report(f"iteration {n_iter}: |gradient| {size:.3g}, goal {goal:.3g}")
        converged = size <= goal
        if converged:
            break
        d = _direction(r, pairs)
        steepness = slope_along(x, d, 0.0)
        if steepness >= 0.0:
            if not pairs:
                break  # rounding: no descent is left
            pairs.clear()
            continue
        t = _line_search(lambda t: slope_along(x, d, t), -steepness)
        x_next = x.plus(t, d)
        r_next = gradient(x_next)
        s, z = x_next.plus(-1.0, x), r_next.plus(-1.0, r)
        curvature = _dot(s, z)
        if curvature > 1e-14 * _dot(s, s):
            pairs = [*pairs[-(MEMORY - 1) :], (s, z, curvature)]
        x, r = x_next, r_next
        n_iter += 1
    objective, gap = _certificate(problem, x, loss)
    return Solution(
        coefficients=x.c,
        intercept=x.b,
        objective=objective,
        gap=gap,
        n_iter=max(n_iter, 1),
        calls={"kernel.product": products, "kernel.row": kernel.n_rows - rows_before},
        converged=converged,
    )


def _direction(r: _Point, pairs: list[tuple[_Point, _Point, float]]) -> _Point:
    """-H r by the two loops."""
    d = r
    weights = []
    for s, z, curvature in reversed(pairs):
        weight = _dot(s, d) / curvature
        weights.append(weight)
        d = d.plus(-weight, z)
    if pairs:
        _, z, curvature = pairs[-1]
        scale = curvature / _dot(z, z)
        d = _Point(scale * d.c, scale * d.Kc, scale * d.b)
    for (s, z, curvature), weight in zip(pairs, reversed(weights), strict=True):
        d = d.plus(weight - _dot(z, d) / curvature, s)
    return _Point(-d.c, -d.Kc, -d.b)


def _line_search(slope: Callable[[float], float], steep: float) -> float:
    """A step where the slope is in [-0.9, 0.3] of |slope at 0|; the function is convex along it.

    `steep` is |slope at 0|.
    """
    low, high, t = 0.0, math.inf, 1.0
    for _ in range(60):
        now = slope(t)
        if now < -0.9 * steep:
            low = t
        elif now > 0.3 * steep:
            high = t
        else:
            break
        t = 2.0 * t if math.isinf(high) else 0.5 * (low + high)
    return t


def _certificate(problem: BinaryProblem, x: _Point, loss: SmoothedHinge) -> tuple[float, float]:
    """P(c, b) and its distance to the dual, both with K in float64.

    mu ln(1 + exp((1 - z)/mu)) = max over p in [0, 1] of p (1 - z) + mu H(p), H the entropy; so
    beta_i = y_i C_i p_i with sum(beta) = 0 gives the lower bound
    sum_i C_i (p_i + mu H(p_i)) - 1/2 beta'K beta.
    """
    kernel, y, C = problem.kernel, problem.y, problem.C
    every = np.arange(y.size)
    f = kernel.exact_product(every, every, x.c)
    objective = 0.5 * float(x.c @ f) + float(C @ loss.value(y, f + x.b))
    hi = np.maximum(y * C, 0.0)
    beta = feasible(-C * loss.derivative(y, f + x.b), hi - C, hi)
    p = np.divide(abs(beta), C, out=np.zeros_like(C), where=C > 0.0)
    dual = float(C @ (p + problem.mu * (entr(p) + entr(1.0 - p))))
    dual -= 0.5 * float(beta @ kernel.exact_product(every, every, beta))
    return objective, objective - dual
