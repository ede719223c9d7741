r"""The gradient of the dual in float64 where it matters, and Newton steps on it.

=========  ==============  =================================================================
symbol     name            meaning
=========  ==============  =================================================================
beta       ``beta``        signed dual variables, lo <= beta <= hi
F          ``F``           gradient of the dual, F_i = y_i - (K beta)_i
E          ``E``           bound of the error of F_i; zero where F_i is float64
S          ``S``           points with beta_i != 0
near       ``near``        points where E_i matters
=========  ==============  =================================================================

The duality gap at (beta, b) is the sum of C_i max(0, x_i) - |beta_i| x_i with x_i = y_i (F_i - b).
The summand is zero where beta_i = 0 and x_i <= 0, and where |beta_i| = C_i and x_i >= 0, whatever
the size of x_i. So F is computed in float64 only for free points and where E leaves open on which
side of the margin a point is; and not even there if E is far below the tolerance. Violation and gap
are taken at F moved towards the margin by E: they are exact, or above the truth should a point that
is not near turn out to matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from geartrain.estimators.arrays import Array
from geartrain.estimators.svm.kernel_matrix import ENTRIES
from geartrain.estimators.svm.problem import BinaryProblem

POLISH_STEPS = 20
POLISH_MAX = 16  # free points: so few cost nothing
NEEDED_MAX = 256  # free points where float32 did not reach the tolerance
TINY = 1e-300
RIDGE = 1e-10  # of the mean diagonal: points may be equal
SHARE = 0.05  # of the tolerance: an error of F that may stay
ROUNDING = 1e-11  # a violation as small as this is rounding


@dataclass(frozen=True)
class Exact:
    """F, what is known about it, and what it was made of."""

    F: Array
    E: Array
    near: Array
    S: Array
    K: Array | None  # K[near, S], if it is small


def exact_gradient(
    problem: BinaryProblem, beta: Array, F: Array, E: Array, lo: Array, hi: Array
) -> Exact:
    """F in float64 at the near points.

    Parameters
    ----------
    problem : BinaryProblem
    beta, F : array (m,)
        A point and its F to float32 rounding.
    E : array (m,)
        Bound of the error of F.
    lo, hi : array (m,)
        Bounds of beta.

    Returns
    -------
    Exact
        With F and the matrix that the polish wants.
    """
    from geartrain.compiled import smo

    kernel, y = problem.kernel, problem.y
    is_near = np.empty(y.size, np.bool_)
    # Are the free points few, the polish wants them all.
    smo.near_points(F, E, beta, lo, hi, NEEDED_MAX, SHARE * problem.tol, is_near)
    near = np.flatnonzero(is_near)
    S = np.flatnonzero(beta)
    F, E = F.copy(), E.copy()
    E[near] = 0.0
    if near.size * S.size <= ENTRIES:
        K = kernel.exact(near, S)
        F[near] = y[near] - K @ beta[S]
        return Exact(F, E, near, S, K)
    inner, outer = near[beta[near] != 0.0], S[E[S] > 0.0]
    F[inner] = y[inner] - kernel.exact_product(inner, inner, beta[inner])
    F[inner] -= kernel.exact_product(inner, outer, beta[outer])
    others = near[beta[near] == 0.0]
    F[others] = y[others] - kernel.exact_product(others, S, beta[S])
    return Exact(F, E, near, S, None)


def polish(
    problem: BinaryProblem, beta: Array, exact: Exact, lo: Array, hi: Array
) -> tuple[Array, Exact]:
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
    beta : array (m,)
    exact : Exact
        F at it; without K.
    """
    from geartrain.compiled import smo

    near = exact.near
    b, F, lo, hi = beta[near], exact.F[near], lo[near], hi[near]
    free = np.flatnonzero((lo < b) & (b < hi))
    top, bottom = smo.extremes(F, b, lo, hi)
    violation, best = top - bottom, (b, F)
    needed = violation > problem.tol
    if not 0 < free.size <= (NEEDED_MAX if needed else POLISH_MAX):
        return beta, exact
    if exact.K is not None:
        K = exact.K[:, np.searchsorted(exact.S, near[free])]
    else:
        K = problem.kernel.exact(near, near[free])
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
        return beta, exact
    F_all, E, d = exact.F.copy(), exact.E.copy(), (b - beta[near])[moved]
    if near.size < F_all.size:
        kernel = problem.kernel
        kernel.move(F_all, E, near[moved], d, kernel.error * abs(d))
    F_all[near], E[near] = F, 0.0
    beta = beta.copy()
    beta[near] = b
    return beta, Exact(F_all, E, near, exact.S, None)


def _newton_step(K_SS: Array, F_S: Array) -> Array:
    """The d with F_S - K_SS d = b for some b and sum(d) = 0; not a number if there is none."""
    n = F_S.size
    matrix = np.ones((n + 1, n + 1))  # [K_SS 1; 1' 0] [d; b] = [F_S; 0]
    matrix[:n, :n] = K_SS
    matrix.flat[:: n + 2] += RIDGE * abs(K_SS.diagonal()).mean()
    matrix[n, n] = 0.0
    *_, solved, info = lapack.dsysv(matrix, np.append(F_S, 0.0))
    return solved[:n] if info == 0 else np.full(n, np.nan)
