r"""The binary problem that the solvers of `KernelSVC` are given, and what they give back.

========  =========================================================================
f         K c, values of the decision function without its intercept
b         intercept
C         vector of weights, the estimator's C times class and sample weights
P(c, b)   1/2 c'Kc + sum_i C_i loss(y_i (f_i + b)), the primal objective
========  =========================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from geartrain.estimators.arrays import Array
from geartrain.estimators.svm.kernel_matrix import TrainingKernel


@dataclass(frozen=True)
class BinaryProblem:
    """Labels, weights and kernel of one binary problem, and how well it is to be solved."""

    kernel: TrainingKernel
    y: Array  # -1.0 and +1.0
    C: Array  # weight of every sample
    mu: float  # smoothing of the hinge
    tol: float
    max_iter: int
    start: Array | None  # coefficients of an earlier solution
    report: Callable[[str], None]  # takes a line of progress


@dataclass(frozen=True)
class Solution:
    """Coefficients c and intercept b with what is known about them."""

    coefficients: Array
    intercept: float
    objective: float | None  # P(c, b); None: not computed, see `hinge_objective`
    gap: float  # P(c, b) minus a lower bound on its minimum
    n_iter: int
    calls: dict[str, int]
    converged: bool


def hinge_objective(coefficients: Array, f: Array, gap: float) -> float:
    """P(c, b) of the plain hinge in terms of its gap and f = K c, at points where c is not zero.

    The dual objective is <y, c> - 1/2 <c, K c>, and y_i is the sign of c_i.
    """
    return gap + float(abs(coefficients).sum() - 0.5 * (coefficients @ f))


def feasible(beta: Array, lo: Array, hi: Array) -> Array:
    """`beta` moved into the box, the heavier side shrunk until the sum is zero."""
    beta = np.clip(beta, lo, hi)
    above, below = beta[beta > 0.0].sum(), -beta[beta < 0.0].sum()
    if min(above, below) <= 0.0:
        return np.zeros_like(beta)
    if abs(above - below) <= 1e-13 * above:
        return beta  # what is at a bound stays there
    return np.where(beta > 0.0, beta * min(1.0, below / above), beta * min(1.0, above / below))
