r"""The gradient of the dual in float64 where it matters, and Newton steps on it.

=========  ==============  =================================================================
symbol     name            meaning
=========  ==============  =================================================================
beta       ``beta``        signed dual variables, lo <= beta <= hi
F          ``F``           gradient of the dual, F_i = y_i - (K beta)_i
S          ``S``           points with beta_i != 0
far        ``far``         points beyond the margin by more than float32 rounding can change
near       ``near``        all others; S first
=========  ==============  =================================================================

The hinge of a point beyond the margin is zero, wherever it is; so F is computed in float64 for
the near points only. At a far point F is a bound of it: the float32 value moved towards the margin
by what rounding can have changed. Violation, objective and gap from such an F are exact, or above
the truth should a far point turn out to matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from geartrain.estimators.arrays import Array
from geartrain.estimators.kernel_matrix import ENTRIES
from geartrain.estimators.problem import BinaryProblem

POLISH_STEPS = 20
POLISH_MAX = 16  # free points: so few cost nothing
NEEDED_MAX = 256  # free points where float32 did not reach the tolerance
TINY = 1e-300
RIDGE = 1e-10  # of the mean diagonal: points may be equal
ROUNDING = 1e-11  # a violation as small as this is rounding


@dataclass(frozen=True)
class Exact:
    """F and what it was made of."""

    F: Array
    S: Array
    near: Array  # S first
    K: Array | None  # K[near, S], if it is small


def exact_gradient(problem: BinaryProblem, beta: Array, F: Array, lo: Array, hi: Array) -> Exact:
    """F in float64 at the near points, a bound of it at the far ones.

    Parameters
    ----------
    problem : BinaryProblem
    beta, F : array (m,)
        A point and its F to float32 rounding.
    lo, hi : array (m,)
        Bounds of beta.

    Returns
    -------
    Exact
        With F and the matrix that the polish wants.
    """
    from geartrain.kernels import smo

    kernel, y = problem.kernel, problem.y
    S = np.flatnonzero(beta)
    top, bottom = smo.extremes(F, beta, lo, hi)
    # Where the hinge is zero whatever the intercept between these two.
    margin = np.where(y > 0.0, min(top, bottom) - F, F - max(top, bottom)) - problem.tol
    outside = (beta == 0.0) & (margin > 0.0)
    if kernel.error < np.inf and S.size <= kernel.capacity and 8 * outside.sum() > y.size:
        product, size = smo.row_sums(kernel.rows, kernel.cached(S), beta[S])
        size *= kernel.error
        far = outside & (margin > size)
        F = y - product + y * size
    else:
        far = np.zeros(y.size, np.bool_)
        F = np.empty(y.size)
    others = np.flatnonzero(~far & (beta == 0.0))
    near = np.concatenate([S, others])
    if near.size * S.size <= ENTRIES:
        K = np.concatenate([kernel.exact(S, S), kernel.exact(others, S)])
        F[near] = y[near] - K @ beta[S]
        return Exact(F, S, near, K)
    F[S] = y[S] - kernel.exact_product(S, S, beta[S])
    F[others] = y[others] - kernel.exact_product(others, S, beta[S])
    return Exact(F, S, near, None)


def polish(
    problem: BinaryProblem, beta: Array, exact: Exact, lo: Array, hi: Array
) -> tuple[Array, Array]:
    """Newton steps on F = b over the free points, if they end in a smaller violation.

    A step that would leave the box ends at its border, and the point that is there is no longer
    free. Where the free points are the right ones, one step is the exact solution.

    Parameters
    ----------
    problem : BinaryProblem
    beta : array (m,)
    exact : Exact
        F at beta.
    lo, hi : array (m,)

    Returns
    -------
    beta, F : array (m,)
    """
    from geartrain.kernels import smo

    near = exact.near
    b, F, lo, hi = beta[near], exact.F[near], lo[near], hi[near]
    free = np.flatnonzero((lo < b) & (b < hi))  # columns of K, too: S is first
    top, bottom = smo.extremes(F, b, lo, hi)
    violation, best = top - bottom, (b, F)
    needed = violation > problem.tol
    if not 0 < free.size <= (NEEDED_MAX if needed else POLISH_MAX):
        return beta, exact.F
    if exact.K is not None:
        K = exact.K[:, free]
    elif needed:
        K = problem.kernel.exact(near, near[free])
    else:
        return beta, exact.F
    for _ in range(POLISH_STEPS):
        if not free.size or violation <= ROUNDING:
            break
        d = _newton_step(K[free], F[free])
        room = np.where(d > 0.0, hi[free] - b[free], lo[free] - b[free])
        t = float(np.min(room / np.where(d == 0.0, TINY, d), initial=1.0))
        if not t >= 0.0:  # not a number
            break
        b = b.copy()
        b[free] = np.clip(b[free] + t * d, lo[free], hi[free])
        F = F - t * (K @ d)
        blocked = (t * d == room) | (b[free] == lo[free]) | (b[free] == hi[free])
        if t < 1.0 and blocked.any():
            b[free[blocked]] = np.where(d > 0.0, hi[free], lo[free])[blocked]
            free, K = free[~blocked], K[:, ~blocked]
            continue
        top, bottom = smo.extremes(F, b, lo, hi)
        if top - bottom >= violation:
            break
        violation, best = top - bottom, (b, F)
    b, F = best
    moved = np.flatnonzero(b - beta[near])
    if not moved.size:
        return beta, exact.F
    F_all, d = exact.F.copy(), (b - beta[near])[moved]
    if near.size < F_all.size:
        kernel = problem.kernel
        product, size = smo.row_sums(kernel.rows, kernel.cached(near[moved]), d)
        F_all += problem.y * kernel.error * size - product
    F_all[near] = F
    beta = beta.copy()
    beta[near] = b
    return beta, F_all


def _newton_step(K_SS: Array, F_S: Array) -> Array:
    """The d with F_S - K_SS d = b for some b and sum(d) = 0; not a number if there is none."""
    n = F_S.size
    matrix = np.ones((n + 1, n + 1))  # [K_SS 1; 1' 0] [d; b] = [F_S; 0]
    matrix[:n, :n] = K_SS
    matrix.flat[:: n + 2] += RIDGE * abs(K_SS.diagonal()).mean()
    matrix[n, n] = 0.0
    *_, solved, info = lapack.dsysv(matrix, np.append(F_S, 0.0))
    return solved[:n] if info == 0 else np.full(n, np.nan)
