"""The term ``ln sum_k exp(<A_k, x>) - <c, x>``, computed without overflow."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.oracles.algebra import Algebra
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import gram_norm, row_norms_squared
from geartrain.oracles.validation import as_matrix, as_vector


class LogSumExp(Algebra):
    """``ln sum_k exp(<A_k, x>) - <c, x>`` over the rows A_k of A.

    Parameters
    ----------
    A : array or sparse matrix (p, n)
        One row per exponential.
    c : array (n,), optional
        Vector of the linear part; zero if not given.

    Attributes
    ----------
    L
        The Hessian is the covariance of the rows under the weights
        ``pi_k = exp(<A_k, x>) / sum``. Hence L is at most the squared radius of a ball that
        contains all rows (balls around 0, the mean and the mid-range are tried), and at most half
        the largest eigenvalue of A'A. The smallest of these bounds is used.
    L_coord
        A quarter of the squared range of each column, which bounds the variance of its entries.

    Examples
    --------
    >>> import numpy as np, geartrain as gt
    >>> term = gt.LogSumExp(np.array([[1e8], [0.0]]))
    >>> term.value(np.ones(1)), term.grad(np.ones(1))
    (100000000.0, array([1.e+08]))
    """

    def __init__(self, A: Any, c: Any = None) -> None:
        self.A = as_matrix(A, "A")
        self.p, self.n = self.A.shape
        if self.p == 0:
            raise ValueError("A has no rows: the logarithm of an empty sum is not defined")
        self.c = np.zeros(self.n) if c is None else as_vector(c, "c", self.n)

    def _shifted(self, x: Vector) -> tuple[float, Vector]:
        """The logarithm of the sum, and the weights pi."""
        scores = self.A @ x
        first = int(scores.argmax())
        top = scores[first]
        weights = np.exp(scores - top)
        # ln(1 + rest) keeps the digits of a small rest, which ln(total) would lose.
        weights[first] = 0.0
        rest = weights.sum()
        weights[first] = 1.0
        return float(top + np.log1p(rest)), weights / (1.0 + rest)

    def value(self, x: Vector) -> float:
        return self._shifted(x)[0] - float(self.c @ x)

    def grad(self, x: Vector) -> Vector:
        return self.A.T @ self._shifted(x)[1] - self.c

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        logarithm, weights = self._shifted(x)
        return logarithm - float(self.c @ x), self.A.T @ weights - self.c

    def products(self, x: Vector, D: Vector) -> Vector:
        """The Hessian ``A'(diag(pi) - pi pi')A`` at x times the columns of D."""
        weights, images = self._shifted(x)[1], self.A @ D
        return self.A.T @ (weights[:, None] * (images - weights @ images))

    def coord(self, x: Vector, i: int) -> float:
        column = self.A[:, [i]].T
        return float((column @ self._shifted(x)[1])[0] - self.c[i])

    @cached_property
    def _range(self) -> tuple[Vector, Vector]:
        """The smallest and the largest entry of every column."""
        if sparse.issparse(self.A):
            low, high = self.A.min(axis=0).toarray(), self.A.max(axis=0).toarray()
            return low.ravel(), high.ravel()
        return self.A.min(axis=0), self.A.max(axis=0)

    def _radius_squared(self, centre: Vector) -> float:
        if not sparse.issparse(self.A):
            return float(row_norms_squared(self.A - centre).max())
        sizes = row_norms_squared(self.A)
        distances = sizes - 2.0 * (self.A @ centre) + centre @ centre
        # The differences cancel, so a bound of the rounding errors is added.
        lost = 4.0 * np.finfo(np.float64).eps * self.n * (sizes.max() + centre @ centre)
        return float(max(distances.max(), 0.0) + lost)

    @cached_property
    @np.errstate(all="ignore")
    def L(self) -> float:
        low, high = self._range
        mean = np.asarray(self.A.mean(axis=0)).ravel()
        balls = (self._radius_squared(c) for c in (np.zeros(self.n), mean, 0.5 * (low + high)))
        return min(*balls, 0.5 * gram_norm(self.A))

    mu = 0.0
    convex = True

    @cached_property
    @np.errstate(all="ignore")
    def L_coord(self) -> Vector:
        low, high = self._range
        return 0.25 * (high - low) ** 2

    def __repr__(self) -> str:
        kind = "CSR" if sparse.issparse(self.A) else "dense"
        return f"LogSumExp({kind} {self.p} x {self.n})"
