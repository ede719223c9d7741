"""Inner products of positive definite matrices with which linear systems can be solved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.geometry.base import Solvable
from geartrain.oracles.protocols import Vector
from geartrain.oracles.validation import as_matrix, as_vector


class Preconditioned(Solvable):
    """The inner product u'Mv of a positive definite matrix.

    Parameters
    ----------
    M : array, sparse matrix or LinearOperator, (n, n)
        Symmetric and positive definite. An array is factorised by Cholesky and a sparse matrix by
        LU, which tests definiteness; a LinearOperator is not tested.
    solve : callable, optional
        ``solve(w)`` returns M^{-1} w; needed for a LinearOperator that has no method ``solve``.

    Examples
    --------
    >>> import numpy as np, geartrain as gt
    >>> M = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> h, g = gt.Quadratic(M, b=[1.0, 0.0]), gt.Quadratic(2.0 * M)
    >>> res = gt.minimize(h, g, method="fgm", geometry=gt.geometry.Preconditioned(M))
    >>> round(res.constants["L_h"].value, 12), res.calls["h.grad"]
    (1.0, 2)
    """

    def __init__(self, M: Any, solve: Callable[[Vector], Vector] | None = None) -> None:
        self.M = as_matrix(M, "M", operator=True)
        self.n = self.M.shape[0]
        if self.M.shape != (self.n, self.n):
            raise ValueError(f"M must be square, got shape {self.M.shape}")
        entries = isinstance(self.M, np.ndarray) or sparse.issparse(self.M)
        if entries and abs(self.M - self.M.T).max() > 1e-10 * abs(self.M).max():
            raise ValueError("M must be symmetric; pass (M + M.T) / 2")
        self._solve = solve or getattr(M, "solve", None) or _factorised(self.M)

    def product(self, u: Vector) -> Vector:
        return self.M @ u

    def solve(self, w: Vector) -> Vector:
        return np.asarray(self._solve(w))

    def __repr__(self) -> str:
        return f"Preconditioned(n={self.n})"


class Diagonal(Solvable):
    """The inner product sum_i d_i u_i v_i.

    Parameters
    ----------
    d : array (n,)
        Positive; the diagonal of the Hessian is a usual choice.
    """

    def __init__(self, d: Any) -> None:
        self.d = _positive(d)
        self.n = self.d.size

    def product(self, u: Vector) -> Vector:
        return self.d * u

    def solve(self, w: Vector) -> Vector:
        return w / self.d

    def __repr__(self) -> str:
        return f"Diagonal(n={self.n})"


class LowRankPlusDiagonal(Solvable):
    """The inner product of M = diag(d) + U U'.

    A product and a solve cost O(n r) each.

    Parameters
    ----------
    U : array (n, r)
    d : array (n,) or float
        Positive.
    """

    def __init__(self, U: Any, d: Any) -> None:
        self.U = as_matrix(U, "U")
        self.n, r = self.U.shape
        self.d = _positive(np.full(self.n, d) if np.ndim(d) == 0 else d, self.n)
        self._scaled = self.U / self.d[:, None]
        # Woodbury: M^{-1} = D^{-1} - D^{-1} U (I + U'D^{-1}U)^{-1} U'D^{-1}
        self._small = _cholesky(np.eye(r) + self.U.T @ self._scaled, "I + U'D^{-1}U")

    def product(self, u: Vector) -> Vector:
        return self.d * u + self.U @ (self.U.T @ u)

    def solve(self, w: Vector) -> Vector:
        return w / self.d - self._scaled @ self._small(self._scaled.T @ w)

    def __repr__(self) -> str:
        return f"LowRankPlusDiagonal(n={self.n}, r={self.U.shape[1]})"


def _positive(d: Any, n: int | None = None) -> Vector:
    d = as_vector(d, "d", n)
    if not (d > 0.0).all():
        raise ValueError(f"d must be positive, but its smallest entry is {d.min():g}")
    return d


def _cholesky(M: Vector, name: str) -> Callable[[Vector], Vector]:
    from scipy import linalg  # here, because importing it takes a while

    try:
        factor = linalg.cho_factor(M, check_finite=False)
    except linalg.LinAlgError:
        raise ValueError(f"{name} must be positive definite; its Cholesky factor failed") from None
    return lambda w: linalg.cho_solve(factor, w, check_finite=False)


def _factorised(M: Any) -> Callable[[Vector], Vector]:
    if isinstance(M, np.ndarray):
        return _cholesky(M, "M")
    if not sparse.issparse(M):
        raise TypeError("M is a LinearOperator without solve; pass solve=, which returns M^{-1} w")
    from scipy.sparse.linalg import splu

    # With pivots on the diagonal, the diagonal of U has the signs of the eigenvalues of M.
    lu = splu(
        M.tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    if (lu.perm_r != lu.perm_c).any() or not (lu.U.diagonal() > 0.0).all():
        raise ValueError("M must be positive definite, but it has a pivot that is not positive")
    return lu.solve
