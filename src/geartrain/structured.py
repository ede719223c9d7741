r"""Non-smooth terms for signals and matrices: total variation and the nuclear norm.

The symbols are those of `geartrain.oracles.nonsmooth`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain.oracles.algebra import Algebra
from geartrain.oracles.nonsmooth import Derivative
from geartrain.oracles.validation import as_positive, as_whole
from geartrain.oracles.vectors import Vector

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class TotalVariation(Algebra):
    r"""The total variation lam sum_i \|x_{i+1} - x_i\| of a signal: solutions have few jumps.

    Parameters
    ----------
    lam : float
        The weight.

    Notes
    -----
    The proximal operator is the direct method of [1]_, compiled, in O(n) operations on most
    signals.

    References
    ----------
    .. [1] L. Condat, A direct algorithm for 1-D total variation denoising, IEEE Signal Process.
       Lett. 20 (2013).

    Examples
    --------
    >>> import geartrain as gt
    >>> gt.TotalVariation(1.0).prox([0.0, 0.2, 5.0, 5.2], 1.0)
    array([0.6, 0.6, 4.6, 4.6])
    """

    lam: float

    extended_valued = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", as_positive(self.lam, "lam"))

    def value(self, x: Vector) -> float:
        """The weighted sum of the jumps."""
        return self.lam * float(np.abs(np.diff(x)).sum())

    def prox(self, u: Vector, alpha: float) -> Vector:
        """The piecewise constant signal near u."""
        from geartrain.compiled.total_variation import denoised

        return denoised(np.ascontiguousarray(u, dtype=float), self.lam / alpha)

    def derivative(self, u: Vector, alpha: float) -> Derivative:
        """The means over the constant pieces after the step."""
        w = self.prox(u, alpha)
        starts = np.append(0, np.flatnonzero(np.diff(w)) + 1)
        lengths = np.diff(starts, append=w.size)

        def apply(X: Vector) -> Vector:
            means = np.add.reduceat(X, starts, axis=0) / lengths[:, None]
            return np.repeat(means, lengths, axis=0)

        return apply

    def residual(self, v: Vector, d: Vector) -> Vector:
        """On every constant piece of v, d and the pull of its ends, denoised with lam."""
        jumps = np.sign(np.diff(v))
        pulled = d - self.lam * np.diff(jumps, prepend=0.0, append=0.0)
        pieces = np.split(pulled, np.flatnonzero(jumps) + 1)
        return np.concatenate([self.prox(piece, 1.0) for piece in pieces])


@dataclass(frozen=True)
class NuclearNorm(Algebra):
    """The nuclear norm of a matrix, lam times the sum of its singular values: low rank.

    Parameters
    ----------
    shape : tuple of two int
        Of the matrix, whose entries are the variables by rows.
    lam : float
        The weight.

    Notes
    -----
    The proximal operator thresholds the singular values [1]_.

    References
    ----------
    .. [1] J.-F. Cai, E. Candes, Z. Shen, A singular value thresholding algorithm for matrix
       completion, SIAM J. Optim. 20 (2010).

    Examples
    --------
    >>> import geartrain as gt
    >>> gt.NuclearNorm((2, 2), 1.0).prox([3.0, 0.0, 0.0, 0.5], 1.0)
    array([2., 0., 0., 0.])
    """

    shape: Any
    lam: float

    extended_valued = False

    def __post_init__(self) -> None:
        if np.shape(self.shape) != (2,):
            raise ValueError(f"NuclearNorm: shape must be two whole numbers, got {self.shape!r}")
        rows, columns = (as_whole(size, "shape", 1) for size in self.shape)
        object.__setattr__(self, "shape", (rows, columns))
        object.__setattr__(self, "lam", as_positive(self.lam, "lam"))

    @property
    def n(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    def _svd(self, x: Vector) -> tuple[Vector, Vector, Vector]:
        return np.linalg.svd(np.reshape(x, self.shape), full_matrices=False)

    def value(self, x: Vector) -> float:
        """The weighted sum of the singular values."""
        return self.lam * float(self._svd(x)[1].sum())

    def prox(self, u: Vector, alpha: float) -> Vector:
        """Every singular value shrunk by lam/alpha."""
        U, s, V = self._svd(np.asarray(u, dtype=float))
        return np.ravel((U * np.maximum(s - self.lam / alpha, 0.0)) @ V)

    def derivative(self, u: Vector, alpha: float) -> Derivative:
        """In the singular vectors of u: divided differences of the shrunk singular values."""
        U, s, V = self._svd(np.asarray(u, dtype=float))
        shrunk = np.maximum(s - self.lam / alpha, 0.0)
        size = s + s[:, None]
        sums = (shrunk + shrunk[:, None]) / np.where(size > 0.0, size, 1.0)
        apart = s - s[:, None]
        alike = np.abs(apart) <= _EPS**0.5 * max(float(s[0]), 1e-300)
        differences = np.where(
            alike, shrunk > 0.0, (shrunk - shrunk[:, None]) / np.where(alike, 1.0, apart)
        )
        even, odd = 0.5 * (differences + sums), 0.5 * (differences - sums)
        factor = sums.diagonal()

        def apply(X: Vector) -> Vector:
            H = np.moveaxis(np.reshape(X, (*self.shape, -1)), -1, 0)
            UH, HV = U.T @ H, H @ V.T
            UHV = UH @ V.T
            inner = even * UHV + odd * np.swapaxes(UHV, 1, 2)
            left = factor[:, None] * (UH - UHV @ V)  # beyond the rows of V
            right = (HV - U @ UHV) * factor  # beyond the columns of U
            out = U @ (inner @ V + left) + right @ V
            return np.ascontiguousarray(np.moveaxis(out, 0, -1).reshape(X.shape))

        return apply

    def polar(self, u: Vector) -> float:
        """The largest singular value over lam."""
        return float(self._svd(u)[1].max()) / self.lam

    def residual(self, v: Vector, d: Vector) -> Vector:
        """d + lam U V' for v = U S V'; in the null spaces of v, singular values shrunk by lam."""
        U, s, V = self._svd(v)
        rank = int(np.sum(s > 4.0 * _EPS * max(self.shape) * max(float(s[0]), 1e-300)))
        U, V = U[:, :rank], V[:rank]
        D = np.reshape(d, self.shape) + self.lam * U @ V
        free = D - U @ (U.T @ D)
        free = free - (free @ V.T) @ V
        return np.ravel(D - free) + self.prox(free, 1.0)
