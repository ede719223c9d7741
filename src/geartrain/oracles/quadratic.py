"""The term ``1/2 x'Qx - b'x`` with an array, a sparse matrix or a LinearOperator Q."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.oracles.algebra import Algebra
from geartrain.oracles.float32_products import times
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import symmetric_spectrum
from geartrain.oracles.validation import as_matrix, as_vector

# Relative error that the smallest eigenvalue of Q may have.
_SINGULAR = 1e-6


class Quadratic(Algebra):
    """The quadratic ``1/2 x'Qx - b'x``.

    Parameters
    ----------
    Q : array, sparse matrix or LinearOperator, (n, n)
        Symmetric. With a LinearOperator the term answers values, gradients and products only. An
        array or a sparse matrix of float32 is kept in this precision; points, gradients and all
        arithmetic are float64.
    b : array (n,), optional
        Zero if not given.

    Attributes
    ----------
    L, mu
        The largest eigenvalue in modulus, and the smallest eigenvalue (0 if it is negative). Up to
        n = 400 all eigenvalues are computed. For larger n, `L` comes from the Lanczos method and
        `mu` is 0; pass ``mu=`` to `geartrain.minimize` if it is known. A LinearOperator is used
        for at most 120 products.
    L_coord
        The diagonal of Q.

    Examples
    --------
    >>> import numpy as np, geartrain as gt
    >>> term = gt.Quadratic(np.diag([1.0, 4.0]), b=[1.0, 4.0])
    >>> term.value_and_grad(np.zeros(2))
    (0.0, array([-1., -4.]))
    >>> float(term.mu), float(term.L)
    (1.0, 4.0)
    """

    takes_vectors = True

    def __init__(self, Q: Any, b: Any = None) -> None:
        self.Q = as_matrix(Q, "Q", operator=True, single=True)
        n = self.Q.shape[0]
        if self.Q.shape != (n, n):
            raise ValueError(f"Q must be square, got shape {self.Q.shape}")
        self.n = n
        self.b = np.zeros(n) if b is None else as_vector(b, "b", n)
        if self._has_entries:
            gap = abs(self.Q - self.Q.T).max()
            if gap > 1e-10 * abs(self.Q).max():
                raise ValueError(
                    f"Q must be symmetric, but Q - Q' has entries of size {gap:.2g}; "
                    "pass (Q + Q.T) / 2"
                )
        else:
            # An operator has products only: these questions are not answered.
            self.coord = self.prox = self.L_coord = None  # type: ignore[assignment]
        self._factors: dict[float, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_factors": {}}  # SciPy's factors of sparse matrices have no copies

    @property
    def _has_entries(self) -> bool:
        return isinstance(self.Q, np.ndarray) or sparse.issparse(self.Q)

    @property
    def calls_user_code(self) -> bool:
        return not self._has_entries

    @cached_property
    def spherical(self) -> tuple[float, Vector] | None:
        """The pair (c, b) if the term is ``c/2 |x|^2 - <b, x>``, else None."""
        if not self._has_entries:
            return None
        diagonal = self.Q.diagonal()
        entries = self.Q.count_nonzero() if sparse.issparse(self.Q) else np.count_nonzero(self.Q)
        if (diagonal != diagonal[0]).any() or entries > np.count_nonzero(diagonal):
            return None
        return float(diagonal[0]), self.b

    def value(self, x: Vector) -> float:
        return float(x @ (0.5 * times(self.Q, x) - self.b))

    def grad(self, x: Vector) -> Vector:
        return times(self.Q, x) - self.b

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        grad = times(self.Q, x) - self.b
        return float(0.5 * (x @ (grad - self.b))), grad

    def products(self, x: Vector, D: Vector) -> Vector:
        """Q times the columns of D."""
        return times(self.Q, D)

    def hessian_product(self, v: Vector) -> Vector:
        """``Q v``."""
        return times(self.Q, v)

    def coord(self, x: Vector, i: int) -> float:
        return float((self.Q[[i]] @ x)[0] - self.b[i])

    def prox(self, u: Vector, alpha: float) -> Vector:
        """``(Q + alpha I)^{-1} (b + alpha u)``; the factors are kept for the last `alpha`."""
        solve = self._factors.get(alpha)
        if solve is None:
            self._factors = {alpha: self._factorise(alpha)}  # for one alpha at a time
            solve = self._factors[alpha]
        return solve(self.b + alpha * u)

    def _factorise(self, alpha: float) -> Any:
        if isinstance(self.Q, np.ndarray):
            from scipy import linalg  # here, because importing it takes a while

            shifted = self.Q.astype(np.float64)  # a copy
            shifted.flat[:: self.n + 1] += alpha
            factor = linalg.cho_factor(shifted, overwrite_a=True, check_finite=False)
            return lambda r: linalg.cho_solve(factor, r, check_finite=False)
        from scipy.sparse.linalg import splu

        return splu((self.Q + alpha * sparse.eye_array(self.n)).tocsc()).solve

    @cached_property
    def _spectrum(self) -> tuple[float, float]:
        return symmetric_spectrum(
            self.hessian_product, self.n, self.Q if self._has_entries else None
        )

    @property
    def L(self) -> float:
        low, high = self._spectrum
        return max(high, -low)

    @property
    def mu(self) -> float:
        return max(self._spectrum[0], 0.0)

    @property
    def convex(self) -> bool:
        return self._spectrum[0] >= 0.0

    @property
    def lower_bound(self) -> float | None:
        """A number that no value is below, where Q is positive definite or b = 0."""
        if not self.b.any():
            return 0.0 if self.convex else None
        if self.mu <= _SINGULAR * self.L:
            return None
        return -float(self.b @ self.b) / (2.0 * (1.0 - _SINGULAR) * self.mu)

    @cached_property
    def L_coord(self) -> Vector:
        return np.array(self.Q.diagonal(), dtype=np.float64)

    def __repr__(self) -> str:
        kind = "" if isinstance(self.Q, np.ndarray) else f", {type(self.Q).__name__}"
        return f"Quadratic(n={self.n}{kind})"
