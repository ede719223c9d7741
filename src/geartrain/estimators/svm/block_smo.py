r"""Block SMO: the kernel SVM with the plain hinge, solved exactly.

=========  ================  ================================================================
symbol     name              meaning
=========  ================  ================================================================
beta       ``beta``          signed dual variables, beta_i = y_i alpha_i
lo, hi     ``lo``, ``hi``    their bounds: [0, C_i] where y_i = 1, [-C_i, 0] where y_i = -1
F          ``F``             gradient of the dual, F_i = y_i - (K beta)_i
G          ``G``             K |beta| or more; times `TrainingKernel.error` it bounds the error of F
W          ``W``             working set, q points
violation  ``top - bottom``  max of F where beta can grow, minus min of F where it can shrink
=========  ================  ================================================================
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from geartrain.estimators.arrays import Array
from geartrain.estimators.svm.exact import exact_gradient, polish
from geartrain.estimators.svm.kernel_matrix import TrainingKernel
from geartrain.estimators.svm.problem import BinaryProblem, Solution, feasible, hinge_objective

BLOCK_START, BLOCK_MAX = 256, 2048
MEDIUM = 4096  # points, below which most rows are wanted anyway and rounds are what costs
PATIENCE = 3  # times F may be computed anew without a smaller violation: rounding
NO_POINTS, NO_HALVES = np.empty((0, 0), np.float32), np.empty(0, np.float32)
CROWDED = 16  # largest blocks full of free points, after which all points are taken for a block
BLOCK_FACTOR = 0.1  # a block is solved until its violation has fallen to this share
SAFETY = 0.5  # of the tolerance is aimed at, so that float32 rounding does not cost a round
SAMPLED = 2000  # points, from which on a sample is looked at first
SAMPLE_TOL = 0.2  # to which the sample is solved
SAMPLE_LEAST = 8  # points of a class that a sample must have
# Shares of support vectors between which a guess pays: else they are few, or no rows are saved.
SHARES = (0.1, 0.5)
BOUND_SHARE = 0.4  # of them are at their bounds; what is free cannot be guessed


def block_smo(problem: BinaryProblem) -> Solution:
    r"""Maximise the dual <y, beta> - 1/2 <beta, K beta> over the box with sum(beta) = 0.

    Algorithm

    1. beta is an earlier solution, or a guess: the problem is solved roughly for a sample of the
       points, with C such that the sum of all C_i is the same; beta_i is at its bound where that
       solution has a loss and 0 elsewhere, and the heavier side loses points from the margin on
       until sum(beta) = 0. F = y - K beta.
    2. W: the free points of the last block (at most half), and of the others those with the
       largest F that can grow and the smallest F that can shrink. If half the block is free, q
       doubles. A small problem is one block; so is one with more free points than blocks can hold.
    3. Inside the block: two-variable SMO, the first variable of largest F, the second of largest
       second-order gain [1]_, until the block's violation is a tenth of the whole one.
    4. F -= K[:, W] (change of beta), float32 rows, float64 sums.
    5. Back to 2 until the violation is small; then F is computed anew in float64 (see
       `geartrain.estimators.svm.exact`). If the violation is larger than `tol` after all, back to 2
       with this F, so that float32 rounding limits the speed and never the accuracy.
    6. In small problems: Newton steps on the optimality conditions with the bound points held.

    Guarantee: violation <= tol (scikit-learn's test), and the gap between primal and dual at the
    answer. Both are float64, and what float32 rounding leaves open in them is counted in.

    References
    ----------
    .. [1] R.-E. Fan, P.-H. Chen, C.-J. Lin, Working set selection using second order information
       for training support vector machines, JMLR 6 (2005).
    """
    from geartrain.compiled import smo

    kernel, y = problem.kernel, problem.y
    lo, hi = np.where(y > 0.0, 0.0, -problem.C), np.where(y > 0.0, problem.C, 0.0)
    rows_before, rounds, steps = kernel.n_rows, 0, 0
    if problem.start is not None:
        beta = feasible(problem.start, lo, hi)
    elif y.size >= SAMPLED:
        beta, rounds, steps = _guess(problem, lo, hi)
    else:
        beta = np.zeros(y.size)
    F, G = y.copy(), np.zeros(y.size)
    S = np.flatnonzero(beta)
    kernel.move(F, G, S, beta[S], abs(beta[S]))
    least, idle, spread = np.inf, 0, np.zeros(y.size)
    moved, slack = np.empty(y.size), np.empty(y.size)
    while idle < PATIENCE and rounds < problem.max_iter:
        more_rounds, more_steps = _descend(problem, beta, F, G, lo, hi, problem.max_iter - rounds)
        rounds, steps = rounds + more_rounds, steps + more_steps
        spread = spread + G  # K |beta - last exact beta| is at most this
        E = kernel.error * spread if kernel.error < np.inf else np.full(y.size, np.inf)
        exact = exact_gradient(problem, beta, F, E, lo, hi)
        F = exact.F
        violation = smo.pessimistic(exact.F, exact.E, beta, lo, hi, moved, slack)
        # No step: the violation is below the rounding of float32.
        if violation <= problem.tol or not more_steps:
            break
        idle = idle + 1 if violation >= least else 0
        least = min(least, violation)
    beta, exact = polish(problem, beta, exact, lo, hi)
    violation = smo.pessimistic(exact.F, exact.E, beta, lo, hi, moved, slack)
    intercept = smo.best_intercept(moved, y, problem.C)
    gap = smo.duality_gap(moved, slack, beta, y, problem.C, intercept)
    S = np.flatnonzero(beta)
    known = not exact.E[S].any()
    return Solution(
        coefficients=beta,
        intercept=intercept,
        objective=hinge_objective(beta[S], (y - exact.F)[S], gap) if known else None,
        gap=gap,
        n_iter=max(rounds, 1),
        calls={"kernel.row": kernel.n_rows - rows_before, "smo.step": steps},
        converged=violation <= problem.tol,
    )


def _guess(problem: BinaryProblem, lo: Array, hi: Array) -> tuple[Array, int, int]:
    """Line 1: a beta, and the rounds and steps that it took; zero if no guess is of use.

    It saves rows of points that are no support vectors in the end, which are half of all where a
    good part of the points is at its bounds.
    """
    from geartrain.compiled import smo

    A, kernel = problem.kernel.sample
    y, C = problem.y[A], problem.C[A]
    nothing = np.zeros(problem.y.size)
    if min(np.count_nonzero(C[y > 0.0]), np.count_nonzero(C[y < 0.0])) < SAMPLE_LEAST:
        return nothing, 0, 0
    C *= problem.C.sum() / C.sum()
    rows_before = kernel.n_rows
    beta, F, G = np.zeros(A.size), y.copy(), np.zeros(A.size)
    rounds, steps = _descend(
        replace(problem, kernel=kernel, y=y, C=C, tol=SAMPLE_TOL),
        beta,
        F,
        G,
        np.where(y > 0.0, 0.0, -C),
        np.where(y > 0.0, C, 0.0),
        problem.max_iter - 1,
    )
    problem.kernel.n_rows += kernel.n_rows - rows_before
    S = np.flatnonzero(beta)
    bound = np.count_nonzero(abs(beta[S]) == C[S])
    if not SHARES[0] <= S.size / A.size <= SHARES[1] or bound < BOUND_SHARE * S.size:
        return nothing, rounds, steps
    F = problem.y.copy()
    problem.kernel.move(F, nothing.copy(), A[S], beta[S], beta[S])
    x = problem.y * (F - smo.best_intercept(F, problem.y, problem.C))
    guess = np.where(x > 0.0, lo + hi, 0.0)
    heavy = np.flatnonzero(guess > 0.0 if guess.sum() > 0.0 else guess < 0.0)
    heavy = heavy[np.argsort(x[heavy])]  # nearest to the margin first
    size = abs(guess[heavy])
    surplus = np.maximum(0.0, np.minimum(size, abs(guess.sum()) - (np.cumsum(size) - size)))
    guess[heavy] -= np.sign(guess[heavy]) * surplus
    return guess, rounds, steps


def _descend(
    problem: BinaryProblem, beta: Array, F: Array, G: Array, lo: Array, hi: Array, max_rounds: int
) -> tuple[int, int]:
    """Lines 2 to 5 in float32 on `beta`, `F`, `G` in place; rounds and two-variable steps."""
    from geartrain.compiled import smo

    kernel, m = problem.kernel, beta.size
    aim = SAFETY * problem.tol
    q_max = min(BLOCK_MAX, kernel.capacity)
    q = m if kernel.small else min(q_max, BLOCK_START if m > MEDIUM else 2 * BLOCK_START)
    W, memory = np.empty(0, np.int64), np.empty(0, np.float32)
    rounds = steps = crowded = 0
    while rounds < max_rounds:
        top, bottom = smo.extremes(F, beta, lo, hi)
        violation = top - bottom
        if rounds % 16 == 0 or violation <= aim:
            problem.report(f"block {rounds}: violation {violation:.3g}, q = {q}")
        if violation <= aim:
            break
        if kernel.small or (crowded == CROWDED and m <= kernel.capacity):
            done = _whole_block(kernel, F, G, beta, lo, hi, aim)
        else:
            free = np.count_nonzero((lo[W] < beta[W]) & (beta[W] < hi[W]))
            if 2 * free >= q:
                crowded += q == q_max
                q = min(2 * q, q_max)
            W = working_set(F, beta, lo, hi, W, q, top, bottom)
            slots = kernel.cached(W)
            f, b = F[W], beta[W]
            if memory.size < W.size**2:
                memory = np.empty(q * q, np.float32)
            block = memory[: W.size**2].reshape(W.size, W.size)
            smo.take_block(kernel.rows, slots, W, block)
            known = np.ones(W.size, np.bool_)
            goal = max(BLOCK_FACTOR * violation, 0.5 * aim)
            done = smo.solve_block(
                block,
                np.arange(W.size),
                known,
                NO_POINTS,
                NO_HALVES,
                f,
                b,
                lo[W],
                hi[W],
                goal,
                100 * W.size,
            )
            moved = np.flatnonzero(b - beta[W])
            old, new = beta[W[moved]], b[moved]
            # A row that was forgotten may be rounded otherwise when it is computed again.
            growth = abs(new - old) if kernel.forgets else abs(new) - abs(old)
            smo.move_rows(F, G, kernel.rows, slots[moved], new - old, growth)
            beta[W] = b
        if not done:
            break
        rounds, steps = rounds + 1, steps + done
    return rounds, steps


def working_set(
    F: Array, beta: Array, lo: Array, hi: Array, last: Array, q: int, top: float, bottom: float
) -> Array:
    """At most q points: free points of the `last` block (half of q at most), then violators.

    The violators are those with the largest F that can grow and the smallest F that can shrink,
    half each. In order, for the sake of the memory.
    """
    free = last[(lo[last] < beta[last]) & (beta[last] < hi[last])][: q // 2]
    half = (q - free.size) // 2
    taken = np.zeros(F.size, np.bool_)
    taken[free] = True
    for violates, key in (((beta < hi) & (bottom < F), -F), ((beta > lo) & (top > F), F)):
        points = np.flatnonzero(violates & ~taken)
        if points.size > half:
            points = points[np.argpartition(key[points], half)[:half]]
        taken[points] = True
    return np.flatnonzero(taken)


def _whole_block(
    kernel: TrainingKernel,
    F: Array,
    G: Array,
    beta: Array,
    lo: Array,
    hi: Array,
    goal: float,
) -> int:
    """All points as one block; of few points only the rows that SMO comes to are computed."""
    from geartrain.compiled import smo

    points, every = kernel.coordinates, np.arange(kernel.m)
    slots = every if points.size else kernel.cached(every)
    known = kernel.slot >= 0
    done = smo.solve_block(
        kernel.rows, slots, known, points, kernel.halves, F, beta, lo, hi, goal, 100 * kernel.m
    )
    kernel.adopt(known)
    S = np.flatnonzero(beta)
    G[:] = 0.0
    product = np.zeros(kernel.m)  # not wanted: F may be exact where float32 rows are not
    smo.move_rows(product, G, kernel.rows, slots[S], beta[S], abs(beta[S]))
    return done
