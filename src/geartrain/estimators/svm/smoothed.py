r"""The smoothed hinge loss, minimised by the library's methods in the kernel's Hilbert space.

==========  ============  ====================================================================
symbol      name          meaning
==========  ============  ====================================================================
c, b        ``x``         coefficients and intercept, f = K c
lambda      ``lam``       1/sum(C), so that P = f(x)/lambda
h           ``penalty``   lambda/2 c'Kc; its gradient in this space is lambda c
g           ``losses``    (1/m) sum_i w_i loss(y_i, f_i + b), w_i = C_i/mean(C)
L, w        ``factor``    K = L L' (pivoted Cholesky), w = L'c: coordinates of the space
==========  ============  ====================================================================

In the inner product u'Kv the gradients of both terms need no product with K beyond f = K c (see
`geartrain.geometry.rkhs`). A stochastic method needs the summands as functions of vectors: in the
coordinates w = L'c the same inner product is the Euclidean one, and summand i is a loss of row i
of L.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import lapack, solve_triangular
from scipy.sparse.linalg import LinearOperator
from scipy.special import entr

from geartrain.compiled.records import Array
from geartrain.core.stopping import Gradient
from geartrain.estimators.svm.kernel_matrix import TrainingKernel
from geartrain.estimators.svm.problem import Solution, SVMProblem, feasible
from geartrain.geometry.rkhs import RKHS
from geartrain.minimize import minimize
from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.losses import SmoothedHinge
from geartrain.oracles.quadratic import Quadratic

KINDS = ("h.grad", "g.grad", "g.component")
MOST_ITERATIONS = 100_000  # if the user sets no limit


def smoothed_lbfgs(problem: SVMProblem) -> Solution:
    """L-BFGS on the whole objective with ``geometry=RKHS(K)``: one product with K per gradient."""
    return _in_the_space(problem, method="lbfgs")


def smoothed_sae(problem: SVMProblem) -> Solution:
    """SAE with inner L-BFGS and ``geometry=RKHS(K)``: one or two gradients of h per iteration."""
    return _in_the_space(problem, method="sae", inner="lbfgs")


def smoothed_katyusha(problem: SVMProblem) -> Solution:
    """SAE with inner Katyusha on the summands of g, in the coordinates w = L'c.

    L is stored in float64. It neglects less than m 1e-16 times the largest K_ii of each K_ii.
    """
    kernel, y, C, m = problem.kernel, problem.y, problem.C, problem.y.size
    if np.ptp(C) > 0.0:
        raise ValueError(
            "solver='katyusha' needs samples of equal weight; use 'sae' or 'lbfgs' with "
            "class_weight or sample_weight"
        )
    factor, pivots = _factor(kernel)
    r = factor.shape[1]
    lam = 1.0 / float(C.sum())
    penalty = Quadratic(np.diag(np.append(np.full(r, lam), 0.0)))
    losses = LinearModel(factor, y, loss="smoothed_hinge", mu=problem.mu, intercept=True)
    start = np.zeros(m) if problem.start is None else problem.start
    result = _run(
        problem, penalty, losses, np.append(factor.T @ start, 0.0), method="sae", inner="katyusha"
    )
    # The coefficients of r points represent every function of the space: L'c = w.
    c = np.zeros(m)
    c[pivots] = solve_triangular(factor[pivots], result.x[:-1], trans="T", lower=True)
    return _solution(problem, c, result)


def _factor(kernel: TrainingKernel) -> tuple[Array, Array]:
    """L with K = L L', and the points whose rows of L form a triangular matrix."""
    every = np.arange(kernel.m)
    if 16 * kernel.m**2 > kernel.memory_limit:
        raise ValueError(
            f"solver='katyusha' stores two matrices of {kernel.m} x {kernel.m}, "
            f"{16e-6 * kernel.m**2:.0f} MB; raise memory_limit or use solver='sae' or 'lbfgs'"
        )
    factor, order, rank, _ = lapack.dpstrf(kernel.exact(every, every), lower=1)
    order = order - 1
    L = np.zeros((kernel.m, rank))
    L[order] = np.tril(factor)[:, :rank]
    return L, order[:rank]


def _in_the_space(problem: SVMProblem, **method: str) -> Solution:
    kernel, y, C, m = problem.kernel, problem.y, problem.C, problem.y.size
    lam = 1.0 / float(C.sum())
    K = LinearOperator((m, m), matvec=kernel.product, dtype=np.float64)
    bordered = LinearOperator(
        (m + 1, m + 1),
        matvec=lambda x: np.append(lam * kernel.product(x[:-1]), 0.0),
        dtype=np.float64,
    )
    losses = LinearModel(
        K, y, loss="smoothed_hinge", mu=problem.mu, intercept=True, sample_weight=C
    )
    start = np.zeros(m) if problem.start is None else problem.start
    result = _run(
        problem,
        Quadratic(bordered),
        losses,
        np.append(start, 0.0),
        geometry=RKHS(K, intercept=True),
        # The norm of K + 1 1' is at most its trace, and the Hessian at most curvature/m times it.
        L_g=losses.loss.curvature * (float(kernel.diagonal().mean()) + 1.0),
        **method,
    )
    return _solution(problem, result.x[:-1], result)


def _run(problem: SVMProblem, penalty: Any, losses: Any, x0: Array, **options: Any) -> Any:
    return minimize(
        penalty,
        losses,
        x0,
        stop=Gradient(abs=problem.tol * _size_at_zero(problem)),
        max_iter=MOST_ITERATIONS if problem.max_iter < 0 else problem.max_iter,
        callback=_progress(problem.report),
        **options,
    )


def _size_at_zero(problem: SVMProblem) -> float:
    """Norm of the gradient of g at zero, in the kernel's space."""
    zero = np.zeros(problem.y.size)
    slopes = problem.C * SmoothedHinge(problem.mu).derivative(problem.y, zero)
    slopes /= problem.C.sum()
    return math.sqrt(float(slopes @ problem.kernel.product(slopes)) + float(slopes.sum()) ** 2)


def _progress(report: Callable[[str], None]) -> Callable[..., None]:
    def callback(intermediate_result: Any) -> None:
        report(f"iteration {intermediate_result.nit}")

    return callback


def _solution(problem: SVMProblem, c: Array, result: Any) -> Solution:
    objective, gap = _certificate(problem, c, float(result.x[-1]))
    return Solution(
        coefficients=c,
        intercept=float(result.x[-1]),
        objective=objective,
        gap=gap,
        n_iter=max(int(result.nit), 1),
        calls={kind: result.calls[kind] for kind in KINDS},
        converged=bool(result.success),
    )


def _certificate(problem: SVMProblem, c: Array, b: float) -> tuple[float, float]:
    """P(c, b) and its distance to the dual objective, both with K in float64.

    mu ln(1 + exp((1 - z)/mu)) = max over p in [0, 1] of p (1 - z) + mu H(p), H the entropy; so
    beta_i = y_i C_i p_i with sum(beta) = 0 gives the lower bound
    sum_i C_i (p_i + mu H(p_i)) - 1/2 beta'K beta.
    """
    kernel, y, C = problem.kernel, problem.y, problem.C
    loss = SmoothedHinge(problem.mu)
    every = np.arange(y.size)
    f = kernel.exact_product(every, every, c)
    objective = 0.5 * float(c @ f) + float(C @ loss.value(y, f + b))
    hi = np.maximum(y * C, 0.0)
    beta = feasible(-C * loss.derivative(y, f + b), hi - C, hi)
    p = np.divide(abs(beta), C, out=np.zeros_like(C), where=C > 0.0)
    dual = float(C @ (p + problem.mu * (entr(p) + entr(1.0 - p))))
    dual -= 0.5 * float(beta @ kernel.exact_product(every, every, beta))
    return objective, objective - dual
