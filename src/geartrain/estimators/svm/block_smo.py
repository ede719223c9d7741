r"""Block SMO: the dual problem of a support vector machine, solved exactly.

=========  ================  ================================================================
symbol     name              meaning
=========  ================  ================================================================
beta       ``dual.beta``     signed dual variables
lo, hi     ``dual.lo``, ...  their bounds
F          ``dual.F``        gradient of the smooth part of the dual, F_i = y_i - (K beta)_i
G          ``dual.G``        at least K |beta|; `TrainingKernel.error` times G bounds the error of F
W          ``W``             working set, q points
violation  ``top - bottom``  largest slope for a beta that can grow minus smallest slope for a beta
                             that can shrink, see `geartrain.compiled.smo`
=========  ================  ================================================================
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from geartrain.compiled.records import Array, Dual, KernelRows
from geartrain.estimators.svm.exact import exact_gradient, polish
from geartrain.estimators.svm.kernel_matrix import TrainingKernel
from geartrain.estimators.svm.problem import Solution, SVMProblem, feasible

NO_POINTS, NO_HALVES = np.empty((0, 0), np.float32), np.empty(0, np.float32)


def block_smo(problem: SVMProblem) -> Solution:
    r"""Maximise <y, beta> - kink \|beta\|_1 - 1/2 <beta, K beta> over the box with sum(beta) = 0.

    Algorithm

    1. beta is an earlier solution, or a guess from the solution for a sample of the points (see
       `guess`). F = y - K beta.
    2. W: the free points of the last block (at most half), and of the others those with the
       largest F that can grow and the smallest F that can shrink. If half the block is free, q
       doubles. A small problem is one block. If there are more free points than the blocks can
       hold, W are all free points and those nearest to the margin, or all points if these are
       most of them.
    3. Inside the block: two-variable SMO, the first variable of largest F, the second of largest
       second-order gain [1]_, until the violation of the block is a tenth of the whole violation.
    4. F -= K[:, W] (change of beta): float32 rows, float64 sums.
    5. Back to 2 until the violation is small. Then F is computed again in float64 (see
       `geartrain.estimators.svm.exact`). If the violation is still larger than `tol`, go back to 2
       with this F: float32 rounding limits the speed, but not the accuracy.
    6. If few points are free: Newton steps on the optimality conditions, with the points at their
       bounds held.

    Guarantee: violation <= tol (scikit-learn's test), and the gap between primal and dual objective
    at the solution. Both are computed in float64, and include the error that float32 rounding may
    have left. The coefficients of the solution are beta.

    References
    ----------
    .. [1] R.-E. Fan, P.-H. Chen, C.-J. Lin, Working set selection using second order information
       for training support vector machines, JMLR 6 (2005).
    """
    from geartrain.compiled import smo

    kernel, y, tuning, steps = problem.kernel, problem.y, problem.tuning, 0
    limit = sys.maxsize if problem.max_iter < 0 else problem.max_iter
    if problem.start is not None:
        beta = feasible(problem.start, problem.lo, problem.hi)
    elif y.size >= tuning.sampled:
        beta, steps = guess(problem, limit)
    else:
        beta = np.zeros(y.size)
    dual = problem.at(beta)
    least, idle, spread = np.inf, 0, np.zeros(y.size)
    while idle < tuning.patience:
        more_steps = descend(problem, dual, limit - steps)
        steps += more_steps
        spread = spread + dual.G  # K |beta - last exact beta| is at most this
        E = kernel.error * spread if kernel.error < np.inf else np.full(y.size, np.inf)
        exact = exact_gradient(problem, dual, E)
        dual = exact.dual
        violation, *_ = smo.certify(dual, exact.E)
        # Without a step, the violation is below the rounding of float32.
        if violation <= problem.tol or not more_steps or steps >= limit:
            break
        idle = idle + 1 if violation >= least else 0
        least = min(least, violation)
    exact = polish(problem, exact)
    dual = exact.dual
    violation, intercept, gap = smo.certify(dual, exact.E)
    S = np.flatnonzero(dual.beta)
    c = dual.beta[S]
    linear = float(y[S] @ c - problem.kink * abs(c).sum())
    known = not exact.E[S].any()
    return Solution(
        coefficients=dual.beta,
        intercept=intercept,
        gap=gap,
        n_iter=max(steps, 1),
        converged=violation <= problem.tol,
        objective=gap + linear - 0.5 * float(c @ (y - dual.F)[S]) if known else None,
        linear=linear,
    )


def descend(problem: SVMProblem, dual: Dual, limit: int) -> int:
    """Lines 2 to 5 in float32, on `dual` in place; the number of two-variable steps."""
    from geartrain.compiled import smo

    kernel, tuning, m = problem.kernel, problem.tuning, dual.beta.size
    aim = tuning.safety * problem.tol
    q_max = min(tuning.block_max, kernel.capacity)
    q = min(q_max, tuning.block_start if m > tuning.medium else 2 * tuning.block_start)
    W, memory = np.empty(0, np.int64), np.empty(0, np.float32)
    steps = crowded = rounds = idle = 0
    least = np.inf
    while steps < limit and idle < tuning.patience:
        top, bottom = smo.extremes(dual)
        violation = top - bottom
        if rounds % 16 == 0 or violation <= aim:
            problem.report(f"block {rounds}: violation {violation:.3g}, q = {q}")
        if violation <= aim:
            break
        goal = max(tuning.block_factor * violation, 0.5 * aim)
        many = crowded == tuning.crowded and m <= kernel.capacity
        size = int(tuning.active * np.count_nonzero(dual.free)) if many else 0
        if kernel.small or size > min(tuning.active_most * m, kernel.block_capacity):
            more = _solve_whole(kernel, dual, aim, limit - steps)
        elif many:
            W = active_set(dual, size)
            more = _solve_part(
                kernel, dual, W, goal, limit - steps, np.empty(W.size**2, np.float32)
            )
        else:
            if 2 * np.count_nonzero(dual.free[W]) >= q:
                crowded += q == q_max
                q = min(2 * q, q_max)
            W = working_set(dual, W, q, top, bottom)
            if memory.size < W.size**2:
                memory = np.empty(q * q, np.float32)
            more = _solve_part(kernel, dual, W, goal, limit - steps, memory)
        if not more:
            break
        steps, rounds = steps + more, rounds + 1
        # A block that used up its steps may go round in circles, by the rounding of float32.
        in_vain = more >= 100 * W.size and violation >= least
        idle, least = idle + 1 if in_vain else 0, min(least, violation)
    return steps


def working_set(dual: Dual, last: Array, q: int, top: float, bottom: float) -> Array:
    """At most q points: free points of the `last` block (at most q/2), then violators."""
    return _filled(dual, last[dual.free[last]][: q // 2], q, top, bottom)


def active_set(dual: Dual, size: int) -> Array:
    """All free points and those nearest to the margin, violators or not, `size` in all."""
    return _filled(dual, np.flatnonzero(dual.free), size, np.inf, -np.inf)


def _filled(dual: Dual, first: Array, size: int, top: float, bottom: float) -> Array:
    """`first` and others up to `size` points, ascending for the locality of memory accesses.

    Half of the others are those that can grow with the largest slope, if it is above `bottom`, and
    half those that can shrink with the smallest slope, if it is below `top`.
    """
    half = (size - first.size) // 2
    taken = np.zeros(dual.F.size, np.bool_)
    taken[first] = True
    rise, fall = dual.slopes()
    grows, shrinks = dual.beta < dual.hi, dual.beta > dual.lo
    for movable, key in ((grows & (rise > bottom), -rise), (shrinks & (fall < top), fall)):
        points = np.flatnonzero(movable & ~taken)
        if points.size > half:
            points = points[np.argpartition(key[points], half)[:half]]
        taken[points] = True
    return np.flatnonzero(taken)


def _solve_part(
    kernel: TrainingKernel, dual: Dual, W: Array, goal: float, limit: int, memory: Array
) -> int:
    """Lines 3 and 4 with the block W; the number of two-variable steps."""
    from geartrain.compiled import smo

    slots = kernel.cached(W)
    K = memory[: W.size**2].reshape(W.size, W.size)
    smo.take_block(kernel.rows, slots, W, K)
    rows = KernelRows(K, np.arange(W.size), np.ones(W.size, np.bool_), NO_POINTS, NO_HALVES)
    block = dual.take(W)
    steps = kernel.solve_block(rows, block, goal, min(100 * W.size, limit))
    moved = np.flatnonzero(block.beta - dual.beta[W])
    old, new = dual.beta[W[moved]], block.beta[moved]
    # A row that was forgotten may be rounded differently when it is computed again.
    growth = abs(new - old) if kernel.forgets else abs(new) - abs(old)
    smo.move_rows(dual.F, dual.G, kernel.rows, slots[moved], new - old, growth)
    dual.beta[W] = block.beta
    return steps


def _solve_whole(kernel: TrainingKernel, dual: Dual, goal: float, limit: int) -> int:
    """Lines 3 and 4 with all points as one block; the number of two-variable steps.

    If the points are few, only the rows that SMO comes to are computed.
    """
    from geartrain.compiled import smo

    points, every = kernel.float_rows.coordinates, np.arange(kernel.m)
    slots = every if points.size else kernel.cached(every)
    rows = KernelRows(kernel.rows, slots, kernel.slot >= 0, points, kernel.float_rows.halves)
    steps = kernel.solve_block(rows, dual, goal, min(100 * kernel.m, limit))
    kernel.adopt(rows.known)
    S = np.flatnonzero(dual.beta)
    dual.G[:] = 0.0
    unused = np.zeros(kernel.m)  # F itself may be exact where float32 rows are not
    smo.move_rows(unused, dual.G, kernel.rows, slots[S], dual.beta[S], abs(dual.beta[S]))
    return steps


def guess(problem: SVMProblem, limit: int) -> tuple[Array, int]:
    """A feasible beta from the solution for a sample of the points, and the steps that this took.

    The bounds of the sample are scaled such that their sum is that of all points. beta_i is at its
    bound if the solution of the sample has a loss at point i, and 0 otherwise; on the heavier side
    points are dropped, the nearest to the margin first, until sum(beta) = 0. This saves the rows of
    points that are no support vectors in the end: half of all, if many points are at their bounds.
    beta is zero if a guess would be of no use.
    """
    from geartrain.compiled import smo

    tuning = problem.tuning
    A, kernel = problem.kernel.sample
    nothing = np.zeros(problem.y.size)
    growing, shrinking = (np.count_nonzero(bound[A]) for bound in (problem.hi, problem.lo))
    if min(growing, shrinking) < tuning.sample_least:
        return nothing, 0
    factor = (problem.hi - problem.lo).sum() / (problem.hi - problem.lo)[A].sum()
    sample = replace(
        problem,
        kernel=kernel,
        y=problem.y[A],
        lo=factor * problem.lo[A],
        hi=factor * problem.hi[A],
        tol=tuning.sample_tol,
    )
    dual = sample.at(np.zeros(A.size))
    steps = descend(sample, dual, limit)
    S = np.flatnonzero(dual.beta)
    bound = S.size - np.count_nonzero(dual.free)
    enough = tuning.support_least <= S.size / A.size <= tuning.support_most
    if not enough or bound < tuning.bound_least * S.size:
        return nothing, steps
    F = problem.y.astype(np.float64)
    problem.kernel.move(F, nothing.copy(), A[S], dual.beta[S], dual.beta[S])
    r = F - smo.best_intercept(problem.at(nothing), F)
    beta = np.where(r > problem.kink, problem.hi, np.where(r < -problem.kink, problem.lo, 0.0))
    heavy = np.flatnonzero(beta > 0.0 if beta.sum() > 0.0 else beta < 0.0)
    heavy = heavy[np.argsort(abs(r[heavy]))]  # nearest to the margin first
    size = abs(beta[heavy])
    surplus = np.maximum(0.0, np.minimum(size, abs(beta.sum()) - (np.cumsum(size) - size)))
    beta[heavy] -= np.sign(beta[heavy]) * surplus
    return beta, steps
