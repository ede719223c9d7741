r"""One log-density with a Gaussian prior: the problem labelled bayes in the paper.

=======  =============  ====================================================================
symbol   name           meaning
=======  =============  ====================================================================
A        ``A``          basis functions at the p points of the support, (p, n)
m        ``m``          number of observations
c(x)     LogSumExp      ln sum_k exp(<A_k, x>), the normalisation
pi       ``pi``         the density at x, exp(A x - c(x))
G^2      ``G2``         precision of the prior
H        `hessian`      m (A' diag(pi) A - (A'pi)(A'pi)') + G^2
u_k      ``u``          A_k - A'pi, gradient of ln pi_k
=======  =============  ====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from geartrain.estimators.arrays import Array
from geartrain.estimators.svm.kernel_matrix import blocks
from geartrain.minimize import minimize
from geartrain.oracles.log_sum_exp import LogSumExp
from geartrain.oracles.quadratic import Quadratic

DENSE_MAX = 3000  # dimension up to which n x n matrices are factorised
ENTRIES = 1 << 24  # of A up to which it is changed into a dense matrix: 128 MB
AT_MODE = 1e-3  # posterior standard deviations from the mode at which a stalled fit is good
ROUNDING = 1e-14  # of the largest diagonal entry of H: what a Cholesky factorisation loses


@dataclass(frozen=True)
class DensityFit:
    """The maximiser x of the posterior, with what follows from it."""

    A: Any
    counts: Array
    G2: Any
    x: Array
    calls: dict[str, int]
    success: bool
    message: str

    @cached_property
    def log_pi(self) -> Array:
        """Logarithm of the density at every point of the support."""
        scores = self.A @ self.x
        return scores - scores.max() - np.log(np.exp(scores - scores.max()).sum())

    @cached_property
    def mean(self) -> Array:
        """A'pi, the gradient of c."""
        return self.A.T @ np.exp(self.log_pi)

    @cached_property
    def factor(self) -> Any:
        """Cholesky factor of H; the posterior is about N(x, H^{-1})."""
        return linalg.cho_factor(hessian(self.A, np.exp(self.log_pi), self.counts.sum(), self.G2))

    def distance(self) -> float:
        """Distance to the mode in standard deviations of the posterior, by one Newton step.

        It is sqrt(r'H^{-1}r) for the gradient r of the negative log-posterior at x.
        """
        r = self.counts.sum() * self.mean - self.A.T @ self.counts + self.G2 @ self.x
        return float(np.sqrt(r @ linalg.cho_solve(self.factor, r)))

    def variance(self, rows: Any) -> Array:
        """u'H^{-1}u for basis values `rows`: the variance of ln pi there."""
        out = np.empty(rows.shape[0])
        for part in blocks(out.size, 4096):
            u = _dense(rows[part]) - self.mean
            out[part] = np.einsum("ki,ik->k", u, linalg.cho_solve(self.factor, u.T))
        return out

    def leave_one_out(self) -> float:
        """Log-likelihood of every observation under the fit without it, after one Newton step.

        Without an observation at k the gradient at x is u_k, so the fit moves by -H^{-1} u_k and
        ln pi_k by -u_k' H^{-1} u_k.
        """
        seen = np.flatnonzero(self.counts)
        loss = self.log_pi[seen] - self.variance(self.A[seen])
        return float(self.counts[seen] @ loss)


def hessian(A: Any, pi: Array, m: float, G2: Any) -> Array:
    n = A.shape[1]
    if n > DENSE_MAX:
        raise ValueError(
            f"{n} basis functions need a dense {n} x {n} matrix for this; it is offered up to "
            f"{DENSE_MAX} (give prior a number, and do without credible bands)"
        )
    mean = A.T @ pi
    weighted = A.T @ (sparse.diags_array(pi) @ A if sparse.issparse(A) else pi[:, None] * A)
    H = m * (_dense(weighted) - np.outer(mean, mean))
    H += _dense(G2)
    H.flat[:: n + 1] += ROUNDING * H.diagonal().max()
    return H


def fit_density(A: Any, counts: Array, G2: Any, tol: float, guess: Array | None) -> DensityFit:
    r"""Minimise m c(x) - sum_k counts_k <A_k, x> + 1/2 \|G x\|^2.

    `guess` is a density near the answer. Where H at it can be factorised, H = R'R, L-BFGS runs
    in R x / sqrt(m), where the problem is well conditioned; else in units of the diagonal of H.
    """
    m = float(counts.sum())
    A_mean = (A.T @ counts) / m
    p, n = A.shape
    pi = (counts + 1.0) / (m + p) if guess is None else guess
    if n <= DENSE_MAX and p * n <= ENTRIES:
        R = linalg.cholesky(hessian(A, pi, m, G2))
        T = np.sqrt(m) * linalg.solve_triangular(R, np.eye(n))  # x = T u
        Q = T.T @ (G2 @ T)
        Q = 0.5 * (Q + Q.T)
        A_scaled = A @ T
    else:
        squares = A.multiply(A) if sparse.issparse(A) else A * A
        diagonal = m * (squares.T @ pi - (A.T @ pi) ** 2) + G2.diagonal()
        T = sparse.diags_array(np.sqrt(m / diagonal))
        Q, A_scaled = T @ G2 @ T, A @ T
    # The sum divided by m, so that h is c; its Hessian in u is about the identity.
    h = LogSumExp(A_scaled, T.T @ A_mean)
    # L-BFGS asks for no constants: those given only spare their computation.
    result = minimize(
        h, Quadratic(Q / m), method="lbfgs", tol=tol, max_iter=2000, L_h=1.0, L_g=1.0, mu=0.0
    )
    calls = {kind: int(number) for kind, number in result.calls.items()}
    fit = DensityFit(A, counts, G2, T @ result.x, calls, result.success, result.message)
    if not result.success and n <= DENSE_MAX:
        # The values of f have 16 digits, so that its gradient may stall at 8, or wander there until
        # the iterations end. That is no failure where the mode is as near as anybody can ask.
        return replace(fit, success=fit.distance() <= AT_MODE)
    return fit


def _dense(matrix: Any) -> Array:
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)
