r"""The gradient of the dual in float64 where it matters, and Newton steps on it.

=========  ==============  =================================================================
symbol     name            meaning
=========  ==============  =================================================================
beta       ``dual.beta``   signed dual variables, lo <= beta <= hi
F          ``dual.F``      gradient of the smooth part of the dual, F_i = y_i - (K beta)_i
E          ``E``           bound of the error of F_i; zero where F_i is computed in float64
S          ``S``           points with beta_i != 0
near       ``near``        points where E_i matters
=========  ==============  =================================================================

The duality gap at (beta, b) is a sum over the points (see `geartrain.compiled.smo.certify`).
The summand of a point is zero if beta_i = 0 and the residual F_i - b causes no loss, and if beta_i
is at the bound that belongs to a loss, whatever the size of the residual. So F is computed in
float64 only at free points and where E leaves open on which side of the margin a point is; and not
even there if E is far below the tolerance. Violation and gap are computed with F shifted by E
towards the margin: they are exact, or too large if a point that is not near matters after all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from geartrain.compiled.records import Array, Dual
from geartrain.estimators.svm.problem import SVMProblem

TINY = 1e-300  # stands for a zero in a denominator


@dataclass(frozen=True)
class DualGradient:
    """A dual whose F is float64 at the near points, and what is known about this F."""

    dual: Dual
    E: Array
    near: Array


def exact_gradient(problem: SVMProblem, dual: Dual, E: Array) -> DualGradient:
    """Compute F, which has an error of E at most, in float64 at the near points."""
    kernel, y, beta, tuning = problem.kernel, problem.y, dual.beta, problem.tuning
    # If only a few points are free, treat all of them as near: the Newton steps need them.
    near = _near_points(dual, E, tuning.needed_free, tuning.error_share * problem.tol)
    S = np.flatnonzero(beta)
    F, E = dual.F.copy(), E.copy()
    E[near] = 0.0
    inner, outer = np.intersect1d(near, S), np.setdiff1d(S, near)
    F[inner] = y[inner] - kernel.exact_product(inner, inner, beta[inner])
    F[inner] -= kernel.exact_product(inner, outer, beta[outer])
    others = near[beta[near] == 0.0]
    F[others] = y[others] - kernel.exact_product(others, S, beta[S])
    return DualGradient(dual._replace(F=F), E, near)


def _near_points(dual: Dual, E: Array, few: int, small: float) -> Array:
    """The free points and those that an error of E_i may move across the margin.

    If more than `few` points are free, points with E_i <= `small` are left out.
    """
    from geartrain.compiled import smo

    free, (rise, fall), (top, bottom) = dual.free, dual.slopes(), smo.extremes(dual)
    # At an optimum, rise <= b where beta can grow and fall >= b where it can shrink.
    grows = (dual.beta < dual.hi) & (rise + E >= min(top, bottom))
    shrinks = (dual.beta > dual.lo) & (fall - E <= max(top, bottom))
    near = free | grows | shrinks
    if np.count_nonzero(free) > few:
        near &= small < E
    return np.flatnonzero(near)


def polish(problem: SVMProblem, exact: DualGradient) -> DualGradient:
    """Newton steps on the optimality conditions of the free points, if they help.

    A step that would leave the box ends at its border, and the point that reaches the border is no
    longer free. If the free points are the right ones, one step gives the exact solution. The
    result is the given point unless the violation became smaller.
    """
    tuning, near = problem.tuning, exact.near
    part = best = exact.dual.take(near)
    free = np.flatnonzero(part.free)
    violation = _violation(part)
    most = tuning.needed_free if violation > problem.tol else tuning.polish_free
    if not 0 < free.size <= most:
        return exact
    K = problem.kernel.exact(near, near[free])
    for _ in range(tuning.polish_steps):
        if not free.size or violation <= tuning.rounding:
            break
        b = part.beta[free]
        # On the way, neither bounds nor the kink at zero are crossed.
        low = np.where(b > 0.0, 0.0, part.lo[free])
        high = np.where(b > 0.0, part.hi[free], 0.0)
        slopes = part.F[free] - problem.kink * np.sign(b)
        d = _newton_step(K[free], slopes, tuning.ridge)
        room = np.where(d > 0.0, high - b, low - b)
        t = float(np.min(room / np.where(d == 0.0, TINY, d), initial=1.0))
        if not t >= 0.0:  # not a number
            break
        new = np.clip(b + t * d, low, high)
        blocked = (t * d == room) | (new == low) | (new == high)
        cut = t < 1.0 and bool(blocked.any())
        if cut:
            new[blocked] = np.where(d > 0.0, high, low)[blocked]
        beta = part.beta.copy()
        beta[free] = new
        part = part._replace(beta=beta, F=part.F - t * (K @ d))
        if cut:
            free, K = free[~blocked], K[:, ~blocked]
            continue
        if _violation(part) >= violation:
            break
        violation, best = _violation(part), part
    return _with_part(problem, exact, best)


def _violation(dual: Dual) -> float:
    from geartrain.compiled import smo

    top, bottom = smo.extremes(dual)
    return top - bottom


def _with_part(problem: SVMProblem, exact: DualGradient, part: Dual) -> DualGradient:
    """`exact` with the near points at `part`."""
    kernel, dual, near = problem.kernel, exact.dual, exact.near
    change = part.beta - dual.beta[near]
    moved = np.flatnonzero(change)
    if not moved.size:
        return exact
    beta, F, E = dual.beta.copy(), dual.F.copy(), exact.E.copy()
    if near.size < F.size:
        d = change[moved]
        kernel.move(F, E, near[moved], d, kernel.error * abs(d))
    beta[near], F[near], E[near] = part.beta, part.F, 0.0
    return DualGradient(dual._replace(beta=beta, F=F), E, near)


def _newton_step(K_SS: Array, slopes: Array, ridge: float) -> Array:
    """The d with slopes - K_SS d = b for some b and sum(d) = 0; NaN if there is none."""
    n = slopes.size
    matrix = np.ones((n + 1, n + 1))  # [K_SS 1; 1' 0] [d; b] = [slopes; 0]
    matrix[:n, :n] = K_SS
    matrix.flat[:: n + 2] += ridge * abs(K_SS.diagonal()).mean()
    matrix[n, n] = 0.0
    *_, solved, info = lapack.dsysv(matrix, np.append(slopes, 0.0))
    return solved[:n] if info == 0 else np.full(n, np.nan)
