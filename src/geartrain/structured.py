r"""Terms for signals, images and matrices: total variation and the nuclear norm.

The symbols are those of `geartrain.oracles.nonsmooth`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geartrain.oracles.algebra import Algebra
from geartrain.oracles.nonsmooth import Derivative
from geartrain.oracles.validation import as_positive, as_whole
from geartrain.oracles.vectors import Vector

_EPS = float(np.finfo(float).eps)
_KEPT = 4  # matrices whose factors are remembered: proximal steps and the points between them


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
    is_of_signals = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", as_positive(self.lam, "lam"))

    def value(self, x: Vector) -> float:
        return self.lam * float(np.abs(np.diff(x)).sum())

    def prox(self, u: Vector, alpha: float) -> Vector:
        """The piecewise constant signal near u."""
        from geartrain.compiled.total_variation import denoised

        return denoised(np.ascontiguousarray(u, dtype=float), self.lam / alpha)

    def derivative(self, u: Vector, alpha: float) -> Derivative:
        """The means over the constant pieces after the step."""
        w = self.prox(u, alpha)
        return _Means(np.append(0, np.flatnonzero(np.diff(w)) + 1), w.size)

    def residual(self, v: Vector, d: Vector) -> Vector:
        """On every constant piece of v, d and the pull of its ends, denoised with lam."""
        from geartrain.compiled.total_variation import denoised_pieces

        jumps = np.sign(np.diff(v))
        pulled = d - self.lam * np.diff(jumps, prepend=0.0, append=0.0)
        return denoised_pieces(pulled, jumps, self.lam)


class _Means:
    """The means over pieces of a vector."""

    def __init__(self, starts: Any, n: int) -> None:
        self.starts, self.lengths = starts, np.diff(starts, append=n)

    def __call__(self, X: Vector) -> Vector:
        means = np.add.reduceat(X, self.starts, axis=0) / self.lengths[:, None]
        return np.repeat(means, self.lengths, axis=0)

    def form(self, V: Vector) -> Vector:
        sums = np.add.reduceat(V, self.starts, axis=1) / np.sqrt(self.lengths)
        return np.asarray(sums @ sums.T)


@dataclass(frozen=True)
class HuberTV(Algebra):
    r"""The smoothed isotropic total variation of an image, lam sum_i huber(\|D_i x\|).

    D_i x are the differences of pixel i to the next one along every axis, 0 at the last one, and
    huber(r) = r^2/(2 eps) up to r = eps and r - eps/2 beyond [1]_. It is a smooth term, with
    gradients and products with its Hessian, and differs from the total variation by at most
    lam eps/2 for each pixel.

    Parameters
    ----------
    shape : tuple of int
        Of the image, with any number of axes, whose pixels are the variables by rows.
    lam : float
        The weight.
    eps : float
        Differences below it are penalised by their squares.

    References
    ----------
    .. [1] A. Chambolle, T. Pock, An introduction to continuous optimization for imaging, Acta
       Numer. 25 (2016).

    Examples
    --------
    >>> import numpy as np, geartrain as gt
    >>> term = gt.HuberTV((2, 3), lam=1.0, eps=0.1)
    >>> x = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    >>> round(term.value(x.ravel()), 12)
    1.9
    """

    shape: Any
    lam: float
    eps: float

    lower_bound = 0.0
    takes_vectors = True

    def __post_init__(self) -> None:
        sizes = np.atleast_1d(self.shape)
        object.__setattr__(self, "shape", tuple(as_whole(size, "shape", 1) for size in sizes))
        object.__setattr__(self, "lam", as_positive(self.lam, "lam"))
        object.__setattr__(self, "eps", as_positive(self.eps, "eps"))

    @property
    def n(self) -> int:
        return math.prod(self.shape)

    @property
    def L(self) -> float:
        """lam/eps times the largest eigenvalue of D'D, which is the Laplacian of the grid."""
        top = sum(2.0 - 2.0 * math.cos(math.pi * (size - 1) / size) for size in self.shape)
        return self.lam / self.eps * top

    @property
    def L_coord(self) -> Vector:
        """lam/eps times the number of neighbours of each pixel."""
        count = np.zeros(self.shape)
        for before, after in self._pairs:
            count[before] += 1.0
            count[after] += 1.0
        return self.lam / self.eps * count.ravel()

    @property
    def _pairs(self) -> list[tuple[Any, Any]]:
        """For each axis, all pixels but the last ones, and the next ones."""
        every = (slice(None),)
        return [
            ((*every * axis, slice(None, -1)), (*every * axis, slice(1, None)))
            for axis in range(len(self.shape))
        ]

    def _slopes(self, x: Vector) -> Vector:
        """D x, an array for each axis."""
        image, out = np.reshape(x, self.shape), np.zeros((len(self.shape), *self.shape))
        for along, (before, after) in zip(out, self._pairs, strict=True):
            np.subtract(image[after], image[before], out=along[before])
        return out

    def _adjoint(self, slopes: Vector) -> Vector:
        """D' of an array for each axis."""
        out = np.zeros(self.shape)
        for along, (before, after) in zip(slopes, self._pairs, strict=True):
            out[before] -= along[before]
            out[after] += along[before]
        return out.ravel()

    def value(self, x: Vector) -> float:
        """lam times the sum of the smoothed lengths."""
        return self._value(_lengths(self._slopes(x)))

    def _value(self, lengths: Vector) -> float:
        capped = np.minimum(lengths, self.eps)
        return self.lam / self.eps * float(np.sum(capped * (lengths - 0.5 * capped)))

    def grad(self, x: Vector) -> Vector:
        """lam D'(D x/max(length, eps))."""
        return self.value_and_grad(x)[1]

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        """Both from the same differences."""
        slopes = self._slopes(x)
        lengths = _lengths(slopes)
        value = self._value(lengths)
        slopes *= self.lam / np.maximum(lengths, self.eps)
        return value, self._adjoint(slopes)

    def products(self, x: Vector, D: Vector) -> Vector:
        """The Hessian at x times the columns of D: beyond eps, without the part along D_i x."""
        slopes = self._slopes(x)
        lengths = _lengths(slopes)
        bend = self.lam / np.maximum(lengths, self.eps)
        e = np.where(lengths > self.eps, slopes / np.maximum(lengths, self.eps), 0.0)
        out = np.empty(D.shape)
        for j, d in enumerate(D.T):
            moved = self._slopes(d)
            moved -= np.sum(e * moved, axis=0) * e
            out[:, j] = self._adjoint(bend * moved)
        return out


def _lengths(slopes: Vector) -> Vector:
    """Of the vectors that the arrays of all axes make."""
    if len(slopes) == 1:
        return np.abs(slopes[0])
    return np.sqrt(np.einsum("k...,k...->...", slopes, slopes))


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
    _known: tuple[Any, ...] = field(default=(), init=False, repr=False, compare=False)

    extended_valued = False

    def __post_init__(self) -> None:
        if np.shape(self.shape) != (2,):
            raise ValueError(f"NuclearNorm: shape must be two whole numbers, got {self.shape!r}")
        rows, columns = (as_whole(size, "shape", 1) for size in self.shape)
        object.__setattr__(self, "shape", (rows, columns))
        object.__setattr__(self, "lam", as_positive(self.lam, "lam"))

    @property
    def n(self) -> int:
        return math.prod(self.shape)

    def _svd(self, x: Vector) -> tuple[Vector, Vector, Vector]:
        """Factors of the matrix x: remembered for the last ones, which are asked for repeatedly."""
        for at, factors in self._known:
            if np.array_equal(at, x):
                return factors
        factors = _factors(np.reshape(x, self.shape))
        self._remember(x, factors)
        return factors

    def _remember(self, x: Vector, factors: tuple[Vector, Vector, Vector]) -> None:
        object.__setattr__(self, "_known", ((np.array(x), factors), *self._known[: _KEPT - 1]))

    def value(self, x: Vector) -> float:
        return self.lam * float(self._svd(x)[1].sum())

    def prox(self, u: Vector, alpha: float) -> Vector:
        """Every singular value shrunk by lam/alpha."""
        U, s, V = self._svd(np.asarray(u, dtype=float))
        shrunk = np.maximum(s - self.lam / alpha, 0.0)
        w = np.ravel((U * shrunk) @ V)
        self._remember(w, (U, shrunk, V))  # its value and residual are asked for next
        return w

    def derivative(self, u: Vector, alpha: float) -> Derivative:
        """In the singular vectors of u: divided differences of the shrunk singular values."""
        return _Shrinking(self._svd(np.asarray(u, dtype=float)), self.lam / alpha)

    def polar(self, u: Vector) -> float:
        """The largest singular value over lam."""
        return float(_factors(np.reshape(u, self.shape))[1].max()) / self.lam

    def residual(self, v: Vector, d: Vector) -> Vector:
        """d + lam U V' for v = U S V'; in the null spaces of v, singular values shrunk by lam."""
        U, s, V = self._svd(v)
        rank = int(np.sum(s > 4.0 * _EPS * max(self.shape) * max(float(s[0]), 1e-300)))
        U, V = U[:, :rank], V[:rank]
        D = np.reshape(d, self.shape) + self.lam * U @ V
        free = D - U @ (U.T @ D)
        free = free - (free @ V.T) @ V
        beyond = np.ravel(D - free)
        if np.linalg.norm(free) <= self.lam:
            return beyond
        left, s, right = _factors(free)
        return beyond + np.ravel((left * np.maximum(s - self.lam, 0.0)) @ right)


def _factors(M: Vector) -> tuple[Vector, Vector, Vector]:
    """The singular value decomposition; that of what is not finite is not a number."""
    if np.isfinite(M).all():
        return np.linalg.svd(M, full_matrices=False)
    m, n = M.shape
    r = min(m, n)
    return np.full((m, r), math.nan), np.full(r, math.nan), np.full((r, n), math.nan)


class _Shrinking:
    """The derivative of singular value thresholding, by the factors of the matrix.

    With H a matrix, J H = U_1 M + N V_1, where U_1, V_1 are the singular vectors whose singular
    values are above the threshold, and M, N are made from U_1'H and H V_1'.
    """

    def __init__(self, factors: tuple[Vector, Vector, Vector], threshold: float) -> None:
        self.U, s, self.V = factors
        shrunk = np.maximum(s - threshold, 0.0)
        self.rank = r = int(np.count_nonzero(shrunk))
        size = s[:r, None] + s
        sums = (shrunk[:r, None] + shrunk) / np.where(size > 0.0, size, 1.0)
        apart = s[:r, None] - s
        alike = np.abs(apart) <= _EPS**0.5 * max(float(s[0]), 1e-300)
        differences = np.where(
            alike, shrunk > 0.0, (shrunk[:r, None] - shrunk) / np.where(alike, 1.0, apart)
        )
        self.even, self.odd = 0.5 * (differences + sums), 0.5 * (differences - sums)
        self.factor = sums[:, :r].diagonal()[:, None]

    def _parts(self, H: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        """U_1'H, H V_1', M and N for a stack of matrices."""
        U, V, r = self.U, self.V, self.rank
        UH, HV = U[:, :r].T @ H, H @ V[:r].T
        rows, columns = UH @ V.T, np.swapaxes(U.T @ HV, 1, 2)  # of U'HV
        M = self.even * rows + self.odd * columns - self.factor * rows
        N = self.even * columns + self.odd * rows - self.factor * columns
        N[:, :, :r] = -self.factor * columns[:, :, :r]  # they are in M
        return (
            UH,
            HV,
            M @ V + self.factor * UH,
            U @ np.swapaxes(N, 1, 2) + HV * self.factor[:, 0],
        )

    def __call__(self, X: Vector) -> Vector:
        H = self._stack(X.T)
        _, _, M, N = self._parts(H)
        out = self.U[:, : self.rank] @ M + N @ self.V[: self.rank]
        return np.ascontiguousarray(out.reshape(len(H), -1).T)

    def form(self, V: Vector) -> Vector:
        k = len(V)
        UH, HV, M, N = (part.reshape(k, -1) for part in self._parts(self._stack(V)))
        return np.asarray(UH @ M.T + HV @ N.T)

    def _stack(self, V: Vector) -> Vector:
        return np.reshape(V, (len(V), len(self.U), self.V.shape[1]))
