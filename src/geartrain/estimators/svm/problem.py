r"""The problems that the solvers of support vector machines are given, and their solutions.

========  =========================================================================
f         K c, values of the decision function without its intercept
b         intercept
C         vector of weights: the C of the estimator times class and sample weights
P(c, b)   1/2 c'Kc + sum_i C_i loss(y_i (f_i + b)), the primal objective
beta      signed dual variables, lo <= beta <= hi and sum(beta) = 0
D(beta)   <y, beta> - kink sum_i |beta_i| - 1/2 beta'K beta, the dual objective
========  =========================================================================

For the hinge loss beta_i = y_i alpha_i lies between 0 and y_i C_i, and kink = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from geartrain.compiled.records import Array, Dual
from geartrain.estimators.svm.kernel_matrix import TrainingKernel


@dataclass(frozen=True)
class BlockTuning:
    """Numbers of `block_smo`, with their units and reasons.

    The sources are measurements on the gas sensors, pairs of digits, a9a and phishing
    (``geartrain bench estimators``), unless a field says otherwise.
    """

    # Blocks
    block_start: int = 256  # points in the first block: its K[W, W] (256 kB) stays in the L2 cache
    block_max: int = 2048  # points in a block: K[W, W] takes 16 MB, the size of an L3 cache
    medium: int = 4096  # points; below, most rows are needed anyway, so blocks start twice as large
    block_factor: float = 0.1  # share of the violation that may be left inside a block
    crowded: int = 16  # rounds with a largest block half full of free points before all free points
    # are taken into one block: then blocks are too small for the coupling between them
    active: float = 1.25  # points in that block, in multiples of the free points
    active_most: float = 0.5  # share of all points beyond which all are taken: little time per step
    # would be saved
    safety: float = 0.5  # share of tol that float32 rounds aim at, so that the float64 gradient
    # rarely sends them back
    patience: int = 3  # float64 gradients, or blocks that use up their steps, in a row without a
    # smaller violation: rounding is reached

    # Starting point from a sample
    sampled: int = 2000  # points from which a sample is solved first; smaller fits gain nothing
    sample_tol: float = 0.2  # violation to which the sample is solved: only signs are used
    sample_least: int = 8  # points of each class that the sample must have
    support_least: float = 0.1  # share of support vectors: with fewer, few rows can be saved
    support_most: float = 0.5  # share of support vectors: with more, no rows can be saved
    bound_least: float = 0.4  # share of them at their bounds: free variables cannot be guessed

    # Float64 gradient and Newton steps
    error_share: float = 0.05  # share of tol that an error of F may have if many points are free
    polish_free: int = 16  # free points up to which Newton steps cost next to nothing
    needed_free: int = 256  # free points up to which Newton steps are tried if float32 rounds do
    # not reach tol: one factorisation takes about as long as one round
    polish_steps: int = 20  # Newton steps; every one that is cut short removes a free point
    ridge: float = 1e-10  # share of the mean of diag(K) added to it: points may coincide
    rounding: float = 1e-11  # violation that is rounding of float64 sums with terms of size one


DEFAULT = BlockTuning()


@dataclass(frozen=True)
class SVMProblem:
    """The dual problem of a support vector machine, and how accurately it is to be solved."""

    kernel: TrainingKernel
    y: Array  # labels -1.0 and +1.0, or targets of a regression
    lo: Array  # bounds of beta, lo <= 0 <= hi
    hi: Array
    tol: float
    max_iter: int  # limit of two-variable steps or iterations; -1: none
    start: Array | None  # coefficients of an earlier solution
    report: Callable[[str], None]  # takes a line of progress
    kink: float = 0.0  # epsilon of a regression
    mu: float = 0.0  # smoothing of the hinge
    tuning: BlockTuning = DEFAULT

    @property
    def C(self) -> Array:
        """The weights of the samples of a classifier."""
        return self.hi - self.lo

    def at(self, beta: Array) -> Dual:
        """The dual at beta, with the gradient from float32 rows of K; beta is not copied."""
        F, G = self.y.astype(np.float64), np.zeros(self.y.size)
        S = np.flatnonzero(beta)
        self.kernel.move(F, G, S, beta[S], abs(beta[S]))
        return Dual(beta, F, G, self.lo, self.hi, self.kink)


@dataclass(frozen=True)
class Solution:
    """Coefficients c and intercept b with what is known about them."""

    coefficients: Array
    intercept: float
    gap: float  # P(c, b) minus a lower bound on its minimum
    n_iter: int
    converged: bool
    objective: float | None  # P(c, b); None: gap + linear - 1/2 c'Kc, not computed
    linear: float = 0.0  # <y, c> - kink sum_i |c_i|
    calls: dict[str, int] = field(default_factory=dict)  # of h and g; the kernel has a ledger


def feasible(beta: Array, lo: Array, hi: Array) -> Array:
    """`beta` moved into the box, with the heavier side shrunk until the sum is zero."""
    beta = np.clip(beta, lo, hi)
    above, below = beta[beta > 0.0].sum(), -beta[beta < 0.0].sum()
    if min(above, below) <= 0.0:
        return np.zeros_like(beta)
    if abs(above - below) <= 1e-13 * above:
        return beta  # variables at a bound stay there
    return np.where(beta > 0.0, beta * min(1.0, below / above), beta * min(1.0, above / below))
