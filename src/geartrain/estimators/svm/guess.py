"""A starting point of block SMO from the solution for a sample of the points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from geartrain.compiled.records import Dual
from geartrain.estimators.arrays import Array
from geartrain.estimators.svm.problem import DualProblem


def guess(
    problem: DualProblem, descend: Callable[[DualProblem, Dual, int], int], limit: int
) -> tuple[Array, int]:
    """A feasible beta from the solution for a sample, and the steps that this took.

    The bounds of the sample are scaled such that their sum is that of all points. beta_i is at its
    bound if the solution of the sample has a loss at point i, and 0 otherwise; on the heavier side
    points are dropped, the nearest to the margin first, until sum(beta) = 0. This saves the rows of
    points that are no support vectors in the end: half of all, if many points are at their bounds.
    beta is zero if a guess would be of no use.

    Parameters
    ----------
    problem : DualProblem
        The problem for all points.
    descend : callable
        Solves a problem from a given point in place, within a limit of two-variable steps, and
        returns their number.
    limit : int
        Limit of the steps.

    Returns
    -------
    beta : array (m,)
        The starting point.
    steps : int
        Two-variable steps on the sample.
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
