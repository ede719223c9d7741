r"""Block SMO: the kernel SVM with the plain hinge, solved exactly.

=========  ================  ================================================================
symbol     name              meaning
=========  ================  ================================================================
beta       ``beta``          signed dual variables, beta_i = y_i alpha_i
lo, hi     ``lo``, ``hi``    their bounds: [0, C_i] where y_i = 1, [-C_i, 0] where y_i = -1
F          ``F``             gradient of the dual, F_i = y_i - (K beta)_i
W          ``W``             working set, q points
violation  ``top - bottom``  max of F where beta can grow, minus min of F where it can shrink
=========  ================  ================================================================
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from geartrain.estimators.arrays import Array
from geartrain.estimators.problem import BinaryProblem, Solution, best_intercept, feasible

BLOCK_START, BLOCK_MAX = 256, 2048
BLOCK_FACTOR = 0.1  # a block is solved until its violation has fallen to this share
SAFETY = 0.9  # of the tolerance is aimed at, so that float32 rounding does not cost a round
POLISH_MAX, POLISH_STEPS = 256, 20  # free points, Newton steps
TINY = 1e-300
RIDGE = 1e-10  # of the mean diagonal: points may be equal
ROUNDING = 1e-11  # a violation as small as this is rounding


def block_smo(problem: BinaryProblem) -> Solution:
    r"""Maximise the dual <y, beta> - 1/2 <beta, K beta> over the box with sum(beta) = 0.

    Algorithm

    1. F = y - K beta; beta = 0 or an earlier solution.
    2. W: the free points of the last block (at most half), and of the others those with the
       largest F that can grow and the smallest F that can shrink. If half the block is free, q
       doubles.
    3. Inside the block: two-variable SMO, the first variable of largest F, the second of largest
       second-order gain [1]_, until the block's violation is a tenth of the whole one.
    4. F -= K[:, W] (change of beta), float32 rows, float64 sums.
    5. Back to 2 until the violation is small; then F is computed anew in float64. If the
       violation is larger than `tol` after all, back to 2 with this F, so that float32 rounding
       limits the speed and never the accuracy.
    6. If few points are free: Newton steps on the optimality conditions with the bound points
       held (`_polish`).

    Guarantee: violation <= tol (scikit-learn's test), and the gap between primal and dual at the
    answer, both from F in float64.

    References
    ----------
    .. [1] R.-E. Fan, P.-H. Chen, C.-J. Lin, Working set selection using second order information
       for training support vector machines, JMLR 6 (2005).
    """
    from geartrain.kernels import smo

    kernel, y = problem.kernel, problem.y
    lo, hi = np.where(y > 0.0, 0.0, -problem.C), np.where(y > 0.0, problem.C, 0.0)
    beta = np.zeros(y.size) if problem.start is None else feasible(problem.start, lo, hi)
    F, columns = _gradient(problem, beta)
    rows_before, rounds, steps = kernel.n_rows, 0, 0
    aim = SAFETY * problem.tol
    q_max = min(BLOCK_MAX, kernel.capacity)
    q = min(q_max, max(64, min(BLOCK_START, y.size // 4)))
    W = np.empty(0, np.int64)
    exact = True  # whether F is fresh
    while True:
        top, bottom = smo.extremes(F, beta, lo, hi)
        violation = top - bottom
        if rounds % 16 == 0 or violation <= aim:
            problem.report(f"block {rounds}: violation {violation:.3g}, q = {q}")
        if exact and (violation <= problem.tol or rounds >= problem.max_iter):
            break
        if not exact and (violation <= aim or rounds >= problem.max_iter):
            F, columns = _gradient(problem, beta)
            exact = True
            continue
        free = np.count_nonzero((lo[W] < beta[W]) & (beta[W] < hi[W]))
        if 2 * free >= q:
            q = min(2 * q, q_max)
        W = smo.working_set(F, beta, lo, hi, W, q, top, bottom)
        W.sort()  # for the sake of the memory
        slots = kernel.cached(W)
        f, b = F[W], beta[W]
        block = smo.take_block(kernel.rows, slots, W)
        if not np.isfinite(block).all():
            raise ValueError("the kernel overflows in float32; scale the features")
        done = smo.solve_block(
            block, f, b, lo[W], hi[W], max(BLOCK_FACTOR * violation, 0.5 * aim), 100 * W.size
        )
        if not done:
            if exact:
                break  # below the rounding of float32; the polish may do better
            F, columns = _gradient(problem, beta)
            exact = True
            continue
        steps += done
        smo.subtract_rows(F, kernel.rows, slots, b - beta[W])
        beta[W] = b
        rounds += 1
        exact = False
    beta, F, violation = _polish(problem, beta, F, columns, lo, hi)
    intercept = best_intercept(F, y, problem.C)
    square = float(beta @ (y - F))  # beta'K beta
    objective = 0.5 * square + float(problem.C @ np.maximum(0.0, y * (F - intercept)))
    dual = float(beta @ y) - 0.5 * square
    return Solution(
        coefficients=beta,
        intercept=intercept,
        objective=objective,
        gap=objective - dual,
        n_iter=max(rounds, 1),
        calls={"kernel.row": kernel.n_rows - rows_before, "smo.step": steps},
        converged=violation <= problem.tol,
    )


def _gradient(problem: BinaryProblem, beta: Array) -> tuple[Array, Array | None]:
    """F = y - K beta in float64, and K[:, S] for the points S with beta != 0 if they are few."""
    S = np.flatnonzero(beta)
    if S.size > POLISH_MAX:
        return problem.y - problem.kernel.columns(S, beta[S]), None
    columns = problem.kernel.column_matrix(S) if S.size else np.empty((beta.size, 0))
    return problem.y - columns @ beta[S], columns


def _polish(
    problem: BinaryProblem, beta: Array, F: Array, columns: Array | None, lo: Array, hi: Array
) -> tuple[Array, Array, float]:
    """Newton steps on F = b over the free points, if they end in a smaller violation.

    A step that would leave the box ends at its border, and the point that is there is no longer
    free. Where the free points are the right ones, one step is the exact solution.
    """
    from geartrain.kernels import smo

    top, bottom = smo.extremes(F, beta, lo, hi)
    best = beta, F, top - bottom
    S = np.flatnonzero((lo < beta) & (beta < hi))
    if not 0 < S.size <= POLISH_MAX:
        return best
    if columns is None:
        K_S = problem.kernel.column_matrix(S)
    else:
        K_S = columns[:, np.isin(np.flatnonzero(beta), S, assume_unique=True)]
    for _ in range(POLISH_STEPS):
        d = _newton_step(K_S[S], F[S])
        room = np.where(d > 0.0, hi[S] - beta[S], lo[S] - beta[S])
        t = float(np.min(room / np.where(d == 0.0, TINY, d), initial=1.0))
        if not t >= 0.0:  # not a number
            break
        beta = beta.copy()
        beta[S] = np.clip(beta[S] + t * d, lo[S], hi[S])
        F = F - t * (K_S @ d)
        blocked = (t * d == room) | (beta[S] == lo[S]) | (beta[S] == hi[S])
        if t < 1.0 and blocked.any():
            beta[S[blocked]] = np.where(d > 0.0, hi[S], lo[S])[blocked]
            S, K_S = S[~blocked], K_S[:, ~blocked]
            if not S.size:
                break
            continue
        top, bottom = smo.extremes(F, beta, lo, hi)
        if top - bottom >= best[2]:
            break
        best = beta, F, top - bottom
        if best[2] <= ROUNDING:
            break
    return best


def _newton_step(K_SS: Array, F_S: Array) -> Array:
    """The d with F_S - K_SS d = b for some b and sum(d) = 0; not a number if there is none."""
    n = F_S.size
    matrix = np.ones((n + 1, n + 1))  # [K_SS 1; 1' 0] [d; b] = [F_S; 0]
    matrix[:n, :n] = K_SS
    matrix.flat[:: n + 2] += RIDGE * abs(K_SS.diagonal()).mean()
    matrix[n, n] = 0.0
    *_, solved, info = lapack.dsysv(matrix, np.append(F_S, 0.0))
    return solved[:n] if info == 0 else np.full(n, np.nan)
